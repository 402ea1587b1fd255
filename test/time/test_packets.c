/* SPDX-License-Identifier: MIT
 * struct cofi_clock: all packets of a stream -> when each was. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <cofi/error.h>
#include <cofi/time.h>

static struct cofi_clock *the;

static int open_clock(void **state)
{
    struct cofi_clock_config config = {.size = sizeof config, .gen = COFI_PT, .reference_tsc = UINT64_C(5) << 56,
                                       .time = {.conv = {.zero = 7, .mult = 1 << 9, .shift = 10}, .tsc_num = 1, .tsc_den = 1, .mtc_freq = 4,
                                                .nominal_ratio = 10, .tsc = true, .mtc = true, .cyc = true}};
    (void)state;
    return cofi_clock_open(&the, &config);
}

static int open_rtit(void **state)
{
    struct cofi_clock_config config = {.size = sizeof config, .gen = COFI_RTIT, .family = 6, .model = 76};
    (void)state;
    return cofi_clock_open(&the, &config);
}

static int close_clock(void **state)
{
    (void)state;
    cofi_clock_close(the);
    return 0;
}

static uint64_t tell(struct cofi_packet packet)
{
    cofi_clock_packet(the, &packet);
    return cofi_clock_now(the).ticks;
}

#define TELL(k, ...) tell((struct cofi_packet){.kind = COFI_##k, __VA_ARGS__})

static void ticks_and_nanoseconds(void **state)
{
    (void)state;
    TELL(PT_CYC, .cyc.count = 9);
    assert_false(cofi_clock_now(the).known);
    assert_int_equal(TELL(PT_TSC, .tsc.tsc = 0x1000), (UINT64_C(5) << 56) + 0x1000);
    struct cofi_flow_time now = cofi_clock_now(the);
    assert_true(now.known);
    assert_false(now.interpolated);
    assert_int_equal(now.ns, 7 + (now.ticks >> 1));
}

/* What comes after it is bounded by the MTC that was due: 16 ticks behind the TMA's. */
static void cycles_are_an_estimate_up_to_the_next_mtc(void **state)
{
    (void)state;
    uint64_t tsc = TELL(PT_TSC, .tsc.tsc = 0x1000);
    TELL(PT_TMA, .tma = {0, 0});
    TELL(PT_CBR, .cbr.ratio = 10);
    assert_int_equal(TELL(PT_CYC, .cyc.count = 5), tsc + 5);
    assert_true(cofi_clock_now(the).interpolated);
    assert_int_equal(TELL(PT_CYC, .cyc.count = 500), tsc + 15);
    assert_int_equal(TELL(PT_MTC, .mtc.ctc = 1), tsc + 16);
    assert_false(cofi_clock_now(the).interpolated);
}

/* A packet that is before what was estimated does not set time back, and what is shown is still an estimate. */
static void what_ran_ahead_stays_an_estimate(void **state)
{
    (void)state;
    uint64_t tsc = TELL(PT_TSC, .tsc.tsc = 0x1000);
    TELL(PT_CBR, .cbr.ratio = 10);
    assert_int_equal(TELL(PT_CYC, .cyc.count = 100), tsc + 100);
    assert_int_equal(TELL(PT_TSC, .tsc.tsc = 0x1040), tsc + 100);
    assert_true(cofi_clock_now(the).interpolated);
    assert_int_equal(TELL(PT_TSC, .tsc.tsc = 0x1080), tsc + 0x80);
    assert_false(cofi_clock_now(the).interpolated);
}

static void two_mtcs(void)
{
    TELL(PT_TSC, .tsc.tsc = 0x1000);
    TELL(PT_TMA, .tma = {0, 0});
    TELL(PT_MTC, .mtc.ctc = 1);
    TELL(PT_CYC, .cyc.count = 128);
}

/* Two MTCs tell what a cycle is worth (here an eighth of a tick), unless cycles were lost in between. */
static void what_is_lost_calibrates_nothing(void **state)
{
    (void)state;
    two_mtcs();
    uint64_t mtc = TELL(PT_MTC, .mtc.ctc = 2);
    assert_int_equal(TELL(PT_CYC, .cyc.count = 40), mtc + 5);
    cofi_clock_close(the);
    open_clock(NULL);
    two_mtcs();
    cofi_clock_lost(the);
    mtc = TELL(PT_MTC, .mtc.ctc = 2);
    assert_int_equal(TELL(PT_CYC, .cyc.count = 40), mtc);
    cofi_clock_close(the);
    open_clock(NULL);
    two_mtcs();
    TELL(PT_OVF, .size = 2);
    mtc = TELL(PT_MTC, .mtc.ctc = 2);
    assert_int_equal(TELL(PT_CYC, .cyc.count = 40), mtc);
}

/* A guest's TSC has an offset, which PSB+ tells behind the TSC that it is of. */
static void a_guests_time_is_the_hosts(void **state)
{
    const uint64_t offset = UINT64_C(1) << 40;
    (void)state;
    uint64_t tsc = TELL(PT_TSC, .tsc.tsc = 0x1000);
    TELL(PT_PSB, .size = 16);
    TELL(PT_TSC, .tsc.tsc = offset + 0x1000);
    TELL(PT_PIP, .pip = {.nr = 1});
    TELL(PT_VMCS, .vmcs.base = 0x5000);
    assert_int_equal(TELL(PT_PSBEND, .size = 2), tsc);
    assert_int_equal(TELL(PT_TSC, .tsc.tsc = offset + 0x1010), tsc + 0x10);
    TELL(PT_VMCS, .vmcs.base = 0x5000);
    TELL(PT_PIP, .pip = {.nr = 0});
    assert_int_equal(TELL(PT_TSC, .tsc.tsc = 0x1020), tsc + 0x20);
}

/* [RTIT 4.2.13]; counts follow packets [RTIT 4.2.14], one too small with [ERR E6]; the first MTC behind a PSB is not to be trusted [ERR E7]. */
static void rtit_has_an_sts_and_counts(void **state)
{
    (void)state;
    assert_int_equal(TELL(RTIT_STS, .sts = {.tsc = 0x1000, .acbr = 0}), 0x1000);
    assert_int_equal(TELL(RTIT_MTC, .mtc = {.ctc = 0x21, .range = 0}), 0x1000); /* the first one of all, too */
    TELL(RTIT_PSB, .size = 9);
    assert_int_equal(TELL(RTIT_MTC, .mtc = {.ctc = 0x22, .range = 0}), 0x1000);
    assert_int_equal(TELL(RTIT_MTC, .mtc = {.ctc = 0x22, .range = 0}), 0x1100);
    TELL(RTIT_TNT, .ccp_size = 1, .ccp = 255);
    assert_int_equal(TELL(RTIT_MTC, .mtc = {.ctc = 0x23, .range = 0}), 0x1180);
    assert_int_equal(TELL(RTIT_TNT, .ccp_size = 1, .ccp = 99), 0x1180 + 50);
    assert_true(cofi_clock_now(the).interpolated);
    TELL(RTIT_PGD, .size = 1);
    TELL(RTIT_TNT, .ccp_size = 2, .ccp = 511);
    assert_int_equal(TELL(RTIT_MTC, .mtc = {.ctc = 0x24, .range = 0}), 0x1200); /* two cycles a tick, as before */
    assert_int_equal(TELL(RTIT_TNT, .ccp_size = 1, .ccp = 99), 0x1200 + 50);
}

static void what_makes_no_sense_is_refused(void **state)
{
    struct cofi_clock *clock;
    struct cofi_clock_config config = {.size = sizeof config, .gen = COFI_PT};
    (void)state;
    config.time.mtc_freq = COFI_MTC_FREQ_MOST + 1;
    assert_int_equal(cofi_clock_open(&clock, &config), COFI_ERR_RANGE);
    config.time.mtc_freq = COFI_MTC_FREQ_MOST;
    config.gen = (enum cofi_gen)9;
    assert_int_equal(cofi_clock_open(&clock, &config), COFI_ERR_RANGE);
    config.gen = COFI_RTIT;
    config.size = 0;
    assert_int_equal(cofi_clock_open(&clock, &config), COFI_ERR_RANGE);
    config.size = offsetof(struct cofi_clock_config, reference_tsc); /* of a caller that knew no more */
    assert_int_equal(cofi_clock_open(&clock, &config), 0);
    cofi_clock_close(clock);
    cofi_clock_close(NULL);
}

#define OF_PT(test) cmocka_unit_test_setup_teardown(test, open_clock, close_clock)

int main(void)
{
    const struct CMUnitTest tests[] = {
        OF_PT(ticks_and_nanoseconds),
        OF_PT(cycles_are_an_estimate_up_to_the_next_mtc),
        OF_PT(what_ran_ahead_stays_an_estimate),
        OF_PT(what_is_lost_calibrates_nothing),
        OF_PT(a_guests_time_is_the_hosts),
        cmocka_unit_test_setup_teardown(rtit_has_an_sts_and_counts, open_rtit, close_clock),
        cmocka_unit_test(what_makes_no_sense_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
