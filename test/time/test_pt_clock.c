/* SPDX-License-Identifier: MIT
 * TMA and MTC of PT -> ticks [SDM TSC/MTC Alignment (TMA) Packet], [SDM (MTC) Packet]. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <cofi/packet.h>

#include "time/clock.h"

static struct cofi__clock the;

static uint64_t tell(const struct cofi_packet *packet)
{
    cofi__clock_packet(&the, packet);
    return cofi__clock_ticks(&the);
}

static void start(uint32_t num, uint32_t den, unsigned freq, uint64_t tsc)
{
    const struct cofi_time_info info = {.tsc_num = num, .tsc_den = den, .mtc_freq = (uint8_t)freq, .tsc = true, .mtc = true};
    struct cofi_packet packet = {.kind = COFI_PT_TSC};
    cofi__clock_init(&the, COFI_PT, &info, 0);
    packet.tsc.tsc = tsc;
    tell(&packet);
    tell(&(struct cofi_packet){.kind = COFI_PT_TMA});
}

static uint64_t mtc(unsigned ctc)
{
    struct cofi_packet packet = {.kind = COFI_PT_MTC};
    packet.mtc.ctc = (uint8_t)ctc;
    return tell(&packet);
}

static uint64_t cycles(uint64_t count)
{
    struct cofi_packet packet = {.kind = COFI_PT_CYC};
    packet.cyc.count = count;
    return tell(&packet);
}

static uint32_t random_next(uint32_t *seed) { return (*seed = *seed * 1664525 + 1013904223) >> 8; }

/* One after the other, and after some that were lost: each is what the division of the whole gives. */
static void an_mtc_is_that_many_art_ticks_behind_the_tma(void **state)
{
    (void)state;
    uint32_t seed = 7;
    for (unsigned round = 0; round < 200; round++) {
        uint64_t num = 1 + random_next(&seed) % 1000, den = 1 + random_next(&seed) % 100, art = 0;
        unsigned freq = random_next(&seed) % 9;
        start((uint32_t)num, (uint32_t)den, freq, 1 << 20);
        for (unsigned i = 0, ctc = 0; i < 300; i++) {
            unsigned steps = random_next(&seed) % 8 ? 1 : 1 + random_next(&seed) % 200;
            ctc += steps;
            art += (uint64_t)steps << freq;
            assert_int_equal(mtc(ctc), (1 << 20) + art * num / den);
        }
    }
}

/* What a TMA has told before holds no more: the first MTC tells no time, the next ones how much passed since. */
static void a_tsc_without_a_tma_begins_anew(void **state)
{
    (void)state;
    struct cofi_packet packet = {.kind = COFI_PT_TSC};
    start(100, 1, 0, 1000);
    assert_int_equal(mtc(1), 1100);
    packet.tsc.tsc = 5000;
    assert_int_equal(tell(&packet), 5000);
    assert_int_equal(mtc(9), 5000);
    assert_int_equal(mtc(10), 5100);
    assert_int_equal(mtc(12), 5300);
}

/* MTCs 100 ticks apart, 200 cycles between them: a cycle is half a tick, until another interval says another. */
static void cycles_count_as_between_the_last_two_mtcs(void **state)
{
    (void)state;
    start(100, 1, 0, 1000);
    mtc(1);
    cycles(200);
    assert_int_equal(mtc(2), 1200);
    assert_int_equal(cycles(50), 1225);
    cycles(350);
    assert_int_equal(mtc(3), 1300);
    assert_int_equal(cycles(100), 1325);
    assert_int_equal(cycles(1000), 1399); /* not as far as the next MTC */
}

/* With a threshold an interval may have no CYC: the next one counts for both. */
static void cycles_of_two_intervals_are_those_of_both(void **state)
{
    (void)state;
    start(100, 1, 0, 1000);
    mtc(1);
    cycles(200);
    mtc(2);
    assert_int_equal(mtc(3), 1300);
    cycles(800);
    assert_int_equal(mtc(4), 1400);
    assert_int_equal(cycles(100), 1425); /* 800 cycles in 200 ticks */
}

/* [ERR SKZ84]: no TMA. The first MTC says nothing, what lies between it and the next ones does. */
static void without_a_tma_mtcs_tell_what_passed_since_the_first(void **state)
{
    (void)state;
    start(100, 1, 0, 1000);
    struct cofi_packet packet = {.kind = COFI_PT_TSC};
    packet.tsc.tsc = 5000;
    tell(&packet);
    assert_int_equal(mtc(7), 5000);
    assert_int_equal(mtc(8), 5100);
    assert_int_equal(mtc(10), 5300);
    tell(&(struct cofi_packet){.kind = COFI_PT_TMA}); /* what comes late is believed */
    assert_int_equal(mtc(1), 5400);
}

/* Without a TSC no time is known, and no MTC makes it so. */
static void before_a_tsc_no_mtc_is_a_time(void **state)
{
    (void)state;
    start(100, 1, 0, 1000);
    cofi__clock_init(&the, COFI_PT, &(struct cofi_time_info){.tsc_num = 100, .tsc_den = 1}, 0);
    assert_int_equal(mtc(1) | mtc(2), 0);
    assert_false(the.known);
}

/* A CBR tells a ratio of its own; the next interval is not trusted to tell one. */
static void a_ratio_packet_counts_from_then_on(void **state)
{
    (void)state;
    start(100, 1, 0, 1000);
    the.info.nominal_ratio = 30;
    mtc(1);
    cycles(200);
    mtc(2);
    struct cofi_packet packet = {.kind = COFI_PT_CBR};
    packet.cbr.ratio = 10;
    tell(&packet);
    assert_int_equal(cycles(10), 1230);
}

/* A PSB+ names another VMCS: time that had run ahead of its TSC stands still all the same. */
static void another_vmcs_in_a_psb_does_not_set_time_back(void **state)
{
    (void)state;
    start(100, 1, 0, 1000);
    the.info.nominal_ratio = 10;
    struct cofi_packet packet = {.kind = COFI_PT_CBR};
    packet.cbr.ratio = 10;
    tell(&packet);
    the.limit = UINT64_MAX;
    assert_int_equal(cycles(500), 1500);
    cofi__clock_psb(&the);
    packet = (struct cofi_packet){.kind = COFI_PT_TSC};
    packet.tsc.tsc = 1400;
    assert_int_equal(tell(&packet), 1500);
    cofi__clock_guest(&the, false, 0x70000, true);
    assert_int_equal(cofi__clock_ticks(&the), 1500);
    assert_int_equal(the.exact, 1400);
}

static void nanoseconds_become_the_first_tick_that_has_them(void **state)
{
    (void)state;
    struct cofi_time_conv conv = {.zero = 1000, .mult = 341, .shift = 10}; /* three ticks a nanosecond, nearly */
    assert_int_equal(cofi_time_ticks(&conv, 0), 0);
    assert_int_equal(cofi_time_ticks(&conv, 999), 0);
    assert_int_equal(cofi_time_ticks(&conv, 1000), 0);
    assert_int_equal(cofi_time_ticks(&conv, 1001), 4);
    assert_int_equal(cofi_time_ns(&conv, 3), 1000);
    assert_int_equal(cofi_time_ns(&conv, 4), 1001);
    conv = (struct cofi_time_conv){.zero = (uint64_t)-1000, .mult = 1024, .shift = 10}; /* a clock that began later than the TSC */
    assert_int_equal(cofi_time_ns(&conv, 1005), 5);
    assert_int_equal(cofi_time_ticks(&conv, 5), 1005);
    assert_int_equal(cofi_time_ticks(&conv, 0), 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_mtc_is_that_many_art_ticks_behind_the_tma),
        cmocka_unit_test(cycles_count_as_between_the_last_two_mtcs),
        cmocka_unit_test(cycles_of_two_intervals_are_those_of_both),
        cmocka_unit_test(without_a_tma_mtcs_tell_what_passed_since_the_first),
        cmocka_unit_test(before_a_tsc_no_mtc_is_a_time),
        cmocka_unit_test(a_tsc_without_a_tma_begins_anew),
        cmocka_unit_test(a_ratio_packet_counts_from_then_on),
        cmocka_unit_test(another_vmcs_in_a_psb_does_not_set_time_back),
        cmocka_unit_test(nanoseconds_become_the_first_tick_that_has_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
