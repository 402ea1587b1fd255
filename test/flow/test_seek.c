/* SPDX-License-Identifier: MIT
 * Going to a place in a stream: which one it is, and what is known there. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "rig.h"

static struct rig rig;

/* As rig_trace, with so many bytes of outcomes between both parts. */
static struct cofi_flow *open_with(const char *before, size_t between, const char *behind)
{
    static uint8_t bytes[1 << 18];
    struct cofi_flow *flow;
    rig_trace(&rig, before);
    memcpy(bytes, rig.trace, rig.n);
    memset(bytes + rig.n, 2, between);
    size_t n = rig.n + between;
    rig_trace(&rig, behind);
    memcpy(bytes + n, rig.trace, rig.n);
    rig.config.image = rig.image;
    rig.config.bytes = bytes;
    rig.config.n = n + rig.n;
    assert_int_equal(cofi_flow_open(&flow, &rig.config), 0);
    return flow;
}

/* When what is shown first happened. UINT64_MAX: that is not known. */
static uint64_t ticks_at_first(struct cofi_flow *flow)
{
    const struct cofi_flow_block *blocks[COFI_FLOW_BATCH_MIN];
    struct cofi_flow_event events[16];
    struct cofi_flow_batch batch = {.blocks = blocks, .blocks_max = COFI_FLOW_BATCH_MIN, .events = events, .events_max = 16};
    while (cofi_flow_next(flow, &batch) > 0)
        if (batch.events_n)
            return events[0].time.known ? events[0].time.ticks : UINT64_MAX;
    return UINT64_MAX;
}

/* RTIT's PSB tells no time: the last STS is looked for from farther and farther back, here behind a PSB that none follows. */
static void rtits_time_is_known_however_far_back_it_was_told(void **state)
{
    (void)state;
    static const size_t between[] = {0, 60000, 70000, 200000};
    for (size_t i = 0; i < 4; i++) {
        rig_open(&rig, COFI_RTIT, 0x401000, "75fe 90");
        struct cofi_flow *flow = open_with("R d000 0010000000 R", between[i], "R 8500104000 02");
        assert_int_equal(cofi_flow_seek(flow, 17 + between[i]), 0);
        assert_int_equal(cofi_flow_offset(flow), 25 + between[i]);
        assert_int_equal(ticks_at_first(flow), 0x1000);
        cofi_flow_close(flow);
        rig_close(&rig);
    }
}

/* What cannot be read on the way there is passed over up to the next PSB, behind which an STS tells another time. */
static void damage_before_does_not_hide_a_later_time(void **state)
{
    (void)state;
    rig_open(&rig, COFI_RTIT, 0x401000, "75fe 90");
    struct cofi_flow *flow = open_with("R d000 0010000000 8500104000", 1000, "ff R d000 0020000000 R 8500104000 02");
    assert_int_equal(cofi_flow_seek(flow, 1000 + 21 + 1 + 9 + 7), 0);
    assert_int_equal(ticks_at_first(flow), 0x2000);
    cofi_flow_close(flow);
    rig_close(&rig);
}

/* The second PSB+ is cut before its TSC, so that nothing tells how late it is; the third's time is 0x3000. */
static void a_psb_cut_before_its_time_is_not_sought(void **state)
{
    (void)state;
    static const uint64_t times[][2] = {{0x1000, 0}, {0x2fff, 0}, {0x3000, 57}, {0x4000, 57}};
    static const uint64_t at = 42;
    rig_open(&rig, COFI_PT, 0x401000, "90 75fe 90 0f05 90 90 0f05");
    rig_trace(&rig, "P 19 00100000000000 0223 P 9901 71061040000000 01 00000000 00 P 19 00300000000000 0223");
    rig.config.breaks = &at;
    rig.config.breaks_n = 1;
    assert_int_equal(rig_seeks(&rig, times, sizeof times / sizeof *times), sizeof times / sizeof *times);
    rig_close(&rig);
}

/* In the second PSB+ a byte is no packet, so that nothing tells how late it is; the third's time is 0x3000. */
static void a_psb_whose_time_is_damaged_is_not_sought(void **state)
{
    (void)state;
    static const uint64_t times[][2] = {{0x1000, 0}, {0x2fff, 0}, {0x3000, 57}, {0x4000, 57}};
    rig_open(&rig, COFI_PT, 0x401000, "90 75fe");
    rig_trace(&rig, "P 19 00100000000000 0223 P d5 19 00900000000000 0223 00 00 00 00 P 19 00300000000000 0223");
    assert_int_equal(rig_seeks(&rig, times, sizeof times / sizeof *times), sizeof times / sizeof *times);
    rig_close(&rig);
}

/* At the second PSB it is 0x1020, but 0x105d by the cycles before: what follows has that time, too, up to the 62 cycles behind it. Who asks
 * for what is from 0x1050 on needs the first. */
static void with_cycle_counts_a_time_is_sought_as_far_before_as_they_may_run_ahead(void **state)
{
    (void)state;
    static const uint64_t times[][2] = {{0x1020, 0}, {0x1050, 0}, {0x1101f, 0}, {0x11020, 43}, {UINT64_MAX, 43}};
    static const uint64_t without[][2] = {{0x101f, 0}, {0x1020, 43}, {0x1050, 43}};
    rig_open(&rig, COFI_PT, 0x401000, "75fe 90 0f05");
    rig_trace(&rig, "P 19 00100000000000 02030a00 0223 71001040000000 fb06 fb06 fb06 P 19 20100000000000 02030a00 7d001040000000 0223 fb06 fb06 fb04 01");
    rig.config.time.nominal_ratio = 10;
    rig.config.time.cyc = true;
    assert_int_equal(rig_seeks(&rig, times, sizeof times / sizeof *times), sizeof times / sizeof *times);
    rig.config.time.cyc = false;
    assert_int_equal(rig_seeks(&rig, without, sizeof without / sizeof *without), sizeof without / sizeof *without);
    rig_close(&rig);
}

/* Behind the last byte there is no PSB, and nothing is read. */
static void behind_the_end_there_is_nothing(void **state)
{
    (void)state;
    static const uint64_t behind[] = {0, 1, 1000, 1 << 20, UINT64_MAX / 2, UINT64_MAX};
    rig_open(&rig, COFI_PT, 0x401000, "75fe 90");
    rig.config.offset = 0x10000;
    struct cofi_flow *flow = open_with("H 04", 0, "");
    for (size_t i = 0; i < sizeof behind / sizeof *behind; i++) {
        uint64_t end = rig.config.offset + rig.config.n, to = behind[i] < UINT64_MAX - end ? end + behind[i] : UINT64_MAX;
        assert_int_equal(cofi_flow_seek(flow, to), COFI_ERR_NO_SYNC);
        assert_int_equal(cofi_flow_seek(flow, 5), 0);
        assert_int_equal(cofi_flow_offset(flow), rig.config.offset);
    }
    cofi_flow_close(flow);
    rig_close(&rig);
}

/* From the second PSB on, what is counted is counted from there. */
static void bytes_before_are_not_counted(void **state)
{
    (void)state;
    struct cofi_flow_stats stats;
    rig_open(&rig, COFI_PT, 0x401000, "75fe 90");
    struct cofi_flow *flow = open_with("H 04", 100, "H 04");
    const uint64_t second = rig.config.n - rig.n;
    assert_int_equal(cofi_flow_seek(flow, 40), 0);
    assert_int_equal(cofi_flow_offset(flow), second);
    cofi_flow_stats(flow, &stats);
    assert_int_equal(stats.bytes, 0);
    ticks_at_first(flow);
    cofi_flow_stats(flow, &stats);
    assert_in_range(stats.bytes, 1, rig.n);
    cofi_flow_close(flow);
    rig_close(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rtits_time_is_known_however_far_back_it_was_told),
        cmocka_unit_test(damage_before_does_not_hide_a_later_time),
        cmocka_unit_test(a_psb_cut_before_its_time_is_not_sought),
        cmocka_unit_test(a_psb_whose_time_is_damaged_is_not_sought),
        cmocka_unit_test(with_cycle_counts_a_time_is_sought_as_far_before_as_they_may_run_ahead),
        cmocka_unit_test(behind_the_end_there_is_nothing),
        cmocka_unit_test(bytes_before_are_not_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
