/* SPDX-License-Identifier: MIT
 * STS, MTC and cycle counts of RTIT -> ticks [RTIT 4.2.12, RTIT 4.2.13, RTIT 4.2.14]. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <cofi/packet.h>

#include "time/clock.h"

static struct cofi__clock the;

static void start(uint64_t reference, unsigned nominal_ratio)
{
    const struct cofi_time_info info = {.nominal_ratio = (uint8_t)nominal_ratio, .tsc = true, .mtc = true, .cyc = true};
    cofi__clock_init(&the, COFI_RTIT, &info, reference);
}

static uint64_t sts(uint64_t tsc, unsigned acbr, unsigned ecbr)
{
    struct cofi_packet packet = {.kind = COFI_RTIT_STS};
    packet.sts.tsc = tsc & ((UINT64_C(1) << 40) - 1);
    packet.sts.acbr = (uint8_t)acbr;
    packet.sts.ecbr = (uint8_t)ecbr;
    cofi__clock_packet(&the, &packet);
    return cofi__clock_ticks(&the);
}

static uint64_t mtc(unsigned range, unsigned ctc)
{
    struct cofi_packet packet = {.kind = COFI_RTIT_MTC};
    packet.mtc.range = (uint8_t)range;
    packet.mtc.ctc = (uint8_t)ctc;
    cofi__clock_packet(&the, &packet);
    return cofi__clock_ticks(&the);
}

/* A TIP with a cycle count. */
static uint64_t cycles(uint32_t count)
{
    struct cofi_packet packet = {.kind = COFI_RTIT_TIP, .ccp = count, .ccp_size = 3};
    cofi__clock_packet(&the, &packet);
    return cofi__clock_ticks(&the);
}

static void before_the_first_sts_nothing_is_known(void **state)
{
    (void)state;
    start(0, 0);
    mtc(0, 5);
    assert_false(the.known);
    assert_int_equal(sts(0x1234, 0, 0), 0x1234);
    assert_true(the.known);
}

static void each_range_has_its_bits(void **state)
{
    (void)state;
    for (unsigned range = 0; range < 4; range++) {
        unsigned low = 7 + 2 * range;
        start(0, 0);
        sts(UINT64_C(0x1111111111), 0, 0);
        uint64_t next = ((UINT64_C(0x1111111111) >> low) + 1) << low;
        assert_int_equal(mtc(range, (unsigned)(next >> low) & 0xff), next);
    }
}

static void the_eight_bits_wrap(void **state)
{
    (void)state;
    start(0, 0);
    sts(0x7f00, 0, 0); /* bits 14:7 are fe */
    assert_int_equal(mtc(0, 0xff), 0x7f80);
    assert_int_equal(mtc(0, 0x00), 0x8000);
    assert_int_equal(mtc(0, 0x01), 0x8080);
}

/* "the packet for 0x1b was dropped", up to 255 in a row [RTIT 4.2.12]. */
static void dropped_ones_are_made_up_for(void **state)
{
    (void)state;
    start(0, 0);
    sts(0x1a << 7, 0, 0);
    assert_int_equal(mtc(0, 0x1c), 0x1c << 7);
    assert_int_equal(mtc(0, 0x1b), (0x11b) << 7); /* 254 dropped */
}

static void more_than_255_dropped_cannot_be_seen_until_the_next_sts(void **state)
{
    (void)state;
    start(0, 0);
    sts(0x10 << 7, 0, 0);
    assert_int_equal(mtc(0, 0x11), 0x11 << 7); /* it was 0x111 */
    assert_int_equal(sts(0x112 << 7, 0, 0), 0x112 << 7);
}

/* [ERR E7]: the first one after enabling is not believed on a processor that has it. */
static void the_first_one_after_enabling_is_skipped(void **state)
{
    (void)state;
    start(0, 0);
    the.skip_mtc = true;
    sts(0x1000, 0, 0);
    assert_int_equal(mtc(0, 0x80), 0x1000);
    assert_int_equal(mtc(0, 0x21), 0x1080);
}

/* One that tells no change: it came too early, or twice. */
static void one_that_tells_no_change_is_no_time(void **state)
{
    (void)state;
    start(0, 0);
    sts(0x1040, 0, 0);
    assert_int_equal(mtc(0, 0x20), 0x1040);
    assert_int_equal(mtc(0, 0x21), 0x1080);
    assert_int_equal(mtc(0, 0x21), 0x1080);
}

/* Sent before its time; the STS behind it shows. Time does not go back. */
static void after_an_early_one_time_stands_still(void **state)
{
    (void)state;
    start(0, 0);
    sts(0x1000, 0, 0);
    assert_int_equal(mtc(0, 0x21), 0x1080);
    assert_int_equal(sts(0x1070, 0, 0), 0x1080);
    assert_int_equal(mtc(0, 0x22), 0x1100);
}

/* "it will wrap around in ~500 seconds on a 2GHz part" */
static void forty_bits_wrap(void **state)
{
    (void)state;
    start(0, 0);
    assert_int_equal(sts(UINT64_C(0xffffffff00), 0, 0), UINT64_C(0xffffffff00));
    assert_int_equal(mtc(0, 0xff), UINT64_C(0xffffffff80));
    assert_int_equal(mtc(0, 0x00), UINT64_C(0x10000000000));
    assert_int_equal(sts(UINT64_C(0x10000000100), 0, 0), UINT64_C(0x10000000100));
    assert_int_equal(sts(UINT64_C(0x10100000000), 0, 0), UINT64_C(0x10100000000)); /* all but once around: */
    assert_int_equal(sts(UINT64_C(0x20000000003), 0, 0), UINT64_C(0x20000000003));
}

static void a_reference_supplies_the_bits_above(void **state)
{
    (void)state;
    start(UINT64_C(0x1234fffffff000), 0);
    assert_int_equal(sts(UINT64_C(0x12350000000000), 0, 0), UINT64_C(0x12350000000000));
    /* The nearest, up to half a period away. */
    static const uint64_t rows[][3] = {
        {0x50000000000, 0x9000000000, 0x49000000000}, {0x50000000000, 0x7000000000, 0x57000000000},
        {0x5ffffffffff, 0x7000000000, 0x67000000000}, {0x5ffffffffff, 0x9000000000, 0x59000000000},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        start(rows[i][0], 0);
        assert_int_equal(sts(rows[i][1], 0, 0), rows[i][2]);
    }
}

/* A cycle is nominal / actual ticks; under clock modulation nominal / effective (docs/decisions/0218). */
static void cycles_count_at_the_ratio(void **state)
{
    (void)state;
    start(0, 16);
    sts(0x100000, 8, 8);
    assert_int_equal(cycles(100), 0x100000 + 200);
    sts(0x200000, 32, 32);
    assert_int_equal(cycles(100), 0x200000 + 50);
    sts(0x300000, 16, 4);
    assert_int_equal(cycles(100), 0x300000 + 400);
    sts(0x400000, 8, 0); /* no effective ratio was told */
    assert_int_equal(cycles(100), 0x400000 + 200);
    assert_true(the.interpolated);
}

static void after_an_sts_no_older_mtc_bounds_the_estimate(void **state)
{
    (void)state;
    start(0, 16);
    sts(0x1000, 16, 16);
    mtc(0, 0x21);
    sts(0x2000, 16, 16);
    assert_int_equal(cycles(50), 0x2000 + 50);
}

/* "Back by less than a second" ends at zero. */
static void a_time_before_zero_is_none(void **state)
{
    (void)state;
    start(0, 0);
    sts(0x10, 0, 0);
    assert_int_equal(sts(UINT64_C(0xfffffffffb), 0, 0), UINT64_C(0xfffffffffb));
}

static void counts_add_up_and_never_pass_the_next_mtc(void **state)
{
    (void)state;
    start(0, 16);
    sts(0x1000, 16, 16);
    mtc(0, 0x21);
    assert_int_equal(cycles(50), 0x1080 + 50);
    assert_int_equal(cycles(50), 0x1080 + 100);
    assert_int_equal(cycles(500), 0x1100 - 1); /* the MTC of 0x1100 would have come */
    assert_int_equal(mtc(0, 0x22), 0x1100);
}

/* Without a ratio two MTCs tell what a cycle is worth. */
static void two_mtcs_tell_what_a_cycle_is_worth(void **state)
{
    (void)state;
    start(0, 0);
    sts(0x1000, 0, 0);
    mtc(0, 0x21);
    cycles(256);
    mtc(0, 0x22);
    assert_int_equal(cycles(100), 0x1100 + 50);
}

/* [ERR E6] */
static void counts_above_0_are_one_too_small(void **state)
{
    (void)state;
    start(0, 16);
    the.cyc_off_by_one = true;
    sts(0x1000, 16, 16);
    assert_int_equal(cycles(0), 0x1000);
    assert_int_equal(cycles(9), 0x1000 + 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(before_the_first_sts_nothing_is_known),
        cmocka_unit_test(each_range_has_its_bits),
        cmocka_unit_test(the_eight_bits_wrap),
        cmocka_unit_test(dropped_ones_are_made_up_for),
        cmocka_unit_test(more_than_255_dropped_cannot_be_seen_until_the_next_sts),
        cmocka_unit_test(the_first_one_after_enabling_is_skipped),
        cmocka_unit_test(one_that_tells_no_change_is_no_time),
        cmocka_unit_test(after_an_early_one_time_stands_still),
        cmocka_unit_test(forty_bits_wrap),
        cmocka_unit_test(a_reference_supplies_the_bits_above),
        cmocka_unit_test(cycles_count_at_the_ratio),
        cmocka_unit_test(after_an_sts_no_older_mtc_bounds_the_estimate),
        cmocka_unit_test(a_time_before_zero_is_none),
        cmocka_unit_test(counts_add_up_and_never_pass_the_next_mtc),
        cmocka_unit_test(two_mtcs_tell_what_a_cycle_is_worth),
        cmocka_unit_test(counts_above_0_are_one_too_small),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
