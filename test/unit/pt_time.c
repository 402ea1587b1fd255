/* SPDX-License-Identifier: MIT
 * TSC, TMA, MTC, CBR, CYC: the SDM's worked examples and the rules of [PTREF 8]. */
#include "pt_rig.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const uint64_t cycles_ctl = TRACE_EN | OS | USER | BRANCH_EN | CYC_EN;

struct bench {
    struct pt_rig rig;
    const uint64_t *asked; /* what the clock says, one by one */
};

static struct bench *open_bench(const struct cofi_unit_config *config)
{
    struct bench *bench = calloc(1, sizeof *bench);
    rig_open(&bench->rig, config);
    return bench;
}

static void done(struct bench *bench)
{
    rig_close(&bench->rig);
    free(bench);
}

/* [SDM Cycle-Accurate Mode], its first example, from x on. */
static void sdm_example_of_an_illustrative_cyc_packet_stream(void **state)
{
    struct bench *bench = open_bench(&(struct cofi_unit_config){.cyc_limit = 4095});
    struct pt_rig *rig = &bench->rig;
    uint64_t x = 1000;
    (void)state;
    rig_start(rig, cycles_ctl, 0, 0x401000);
    rig_clock(rig, 0, x);
    rig_near(rig, COFI_EV_CALL_IND, 0x401000, 2, 0x402000);
    rig_expect(rig, "cyc(1000) tip(402000)");
    rig_clock(rig, 0, x + 2);
    rig_near(rig, COFI_EV_CALL_IND, 0x402000, 2, 0x403000);
    rig_expect(rig, "cyc(2) tip(403000)");
    rig_clock(rig, 0, x + 8);
    rig_jcc(rig, 0x403000, 0x403100, false);
    rig_expect(rig, "cyc(6)");
    rig_clock(rig, 0, x + 9);
    rig_near(rig, COFI_EV_RET, 0x403002, 1, 0x402002); /* compressed */
    rig_clock(rig, 0, x + 12);
    rig_jcc(rig, 0x402002, 0x402100, true);
    rig_expect(rig, "");
    rig_clock(rig, 0, x + 16);
    rig_near(rig, COFI_EV_RET, 0x402100, 1, 0x404000); /* not compressed */
    rig_expect(rig, "tnt.8(NTT) cyc(8) tip(404000)");
    rig_clock(rig, 0, x + 4111);
    rig_expect(rig, "cyc(4095)");
    rig_clock(rig, 0, x + 12305);
    rig_expect(rig, "cyc(8194)");
    rig_clock(rig, 0, x + 16332);
    rig_mov_cr3(rig, 0x404000, 0x2000);
    rig_expect(rig, "cyc(4027) pip(2000)");
    done(bench);
}

static void tell(void *opaque, uint64_t *tsc, uint64_t *cycles)
{
    struct bench *bench = opaque;
    *tsc = 0;
    *cycles = *bench->asked;
    if (bench->asked[1])
        bench->asked++;
}

/* [SDM Cycle Packet Semantics], its example of operations of several packets, from the jnz at x + 12 on. */
static void sdm_example_of_cyc_in_multi_packet_operations(void **state)
{
    static const uint64_t times[] = {9, 12, 12, 22, 22, 42, 42, 0};
    struct bench *bench = calloc(1, sizeof *bench);
    struct pt_rig *rig = &bench->rig;
    static const uint64_t start[] = {9, 0};
    (void)state;
    bench->asked = start;
    rig_open(rig, &(struct cofi_unit_config){.clock = tell, .opaque = bench});
    rig_start(rig, cycles_ctl, 0, 0x401000);
    bench->asked = times + 1; /* the branch at x + 12: asked before the event and for its packet */
    rig_jcc(rig, 0x401000, 0x401100, false);
    rig_expect(rig, "cyc(3)");
    struct cofi_event int3 = {.kind = COFI_EV_FAR, .cause = COFI_FAR_INT, .ip = 0x401002, .next = 0x401003, .target = 0x500000,
                              .vector = 3, .context_set = true, .after = rig->context};
    int3.after.cr3 = 0x7000;
    int3.after.mode = 32;
    rig_event(rig, &int3);
    rig_expect(rig, "tnt.8(N) fup(401002) cyc(10) pip(7000) cyc(20) mode.exec(32) tip(500000)");
    done(bench);
}

/* [SDM Cycle Thresholds]: which of the events at these cycles get a CYC. */
static void expect_threshold(unsigned thresh, const char *with)
{
    static const unsigned at[] = {0, 9, 15, 30, 38, 46, 64, 71};
    struct bench *bench = open_bench(NULL);
    struct pt_rig *rig = &bench->rig;
    char got[9] = {0};
    rig_start(rig, cycles_ctl | CYC_THRESH(thresh), 0, 0x401000);
    for (unsigned i = 0; i < 8; i++) {
        rig_clock(rig, 0, 1000 + at[i]);
        if (at[i] == 38)
            rig_mov_cr3(rig, 0x401000, 0x2000);
        else
            rig_near(rig, COFI_EV_JMP_IND, 0x401000, 2, 0x401000);
        got[i] = strncmp(rig_packets(rig), "cyc", 3) ? '.' : 'c';
    }
    assert_string_equal(got, with);
    done(bench);
}

static void sdm_example_of_no_threshold(void **state) { (void)state; expect_threshold(0, "cccccccc"); }
static void sdm_example_of_threshold_16(void **state) { (void)state; expect_threshold(5, "c..c.cc."); }
static void sdm_example_of_threshold_32(void **state) { (void)state; expect_threshold(6, "c...c..c"); }
static void sdm_example_of_threshold_64(void **state) { (void)state; expect_threshold(7, "c.....c."); }

static void one_cyc_for_all_packets_of_a_cycle(void **state)
{
    struct bench *bench = open_bench(NULL);
    struct pt_rig *rig = &bench->rig;
    (void)state;
    rig_start(rig, cycles_ctl, 0, 0x401000);
    rig_clock(rig, 0, 50);
    rig_mov_cr3(rig, 0x401000, 0x2000);
    rig_near(rig, COFI_EV_JMP_IND, 0x401003, 2, 0x402000);
    rig_expect(rig, "cyc(50) pip(2000) tip(402000)");
    done(bench);
}

/* [SDM Cycle Packet Semantics]: an MTC in the cycle of the first TNT bit shares its CYC. */
static void mtc_and_tnt_of_one_cycle_share_their_cyc(void **state)
{
    struct bench *bench = open_bench(&(struct cofi_unit_config){.tsc_art_num = 10, .tsc_art_den = 1});
    struct pt_rig *rig = &bench->rig;
    (void)state;
    rig_start(rig, cycles_ctl | MTC_EN, 0, 0x401000);
    rig_clock(rig, 10, 50);
    rig_jcc(rig, 0x401000, 0x401100, false);
    rig_expect(rig, "cyc(50) mtc(1)");
    rig_clock(rig, 20, 60);
    rig_expect(rig, "tnt.8(N) cyc(10) mtc(2)");
    done(bench);
}

/* [SDM Cycle Counter; SDM Cycle Count Packet (CYC) Packet] */
static void the_cycle_counter_runs_while_context_en_is_0(void **state)
{
    struct bench *bench = open_bench(NULL);
    struct pt_rig *rig = &bench->rig;
    (void)state;
    rig_start(rig, TRACE_EN | USER | BRANCH_EN | CYC_EN, 3, 0x401000);
    rig_clock(rig, 0, 10);
    rig_far(rig, COFI_FAR_SYSCALL, 0x401000, 0x500000, 0);
    rig_clock(rig, 0, 500);
    rig_far(rig, COFI_FAR_SYSRET, 0x500000, 0x401002, 3);
    rig_expect(rig, "cyc(10) tip.pgd() cyc(490) mode.exec(64) tip.pge(401002)");
    done(bench);
}

static void the_cycle_counter_is_0_while_trigger_en_is_0(void **state)
{
    struct bench *bench = open_bench(NULL);
    struct pt_rig *rig = &bench->rig;
    (void)state;
    rig_clock(rig, 0, 5000);
    rig_start(rig, cycles_ctl, 0, 0x401000);
    rig_clock(rig, 0, 5007);
    rig_near(rig, COFI_EV_JMP_IND, 0x401000, 2, 0x402000);
    rig_expect(rig, "cyc(7) tip(402000)");
    done(bench);
}

static void the_cycle_counter_stands_still_in_sleep(void **state)
{
    struct bench *bench = open_bench(NULL);
    struct pt_rig *rig = &bench->rig;
    (void)state;
    rig_start(rig, cycles_ctl | TSC_EN, 0, 0x401000);
    rig_event(rig, &(struct cofi_event){.kind = COFI_EV_SLEEP, .ip = 0x401000, .size = 6, .tsc = 100, .cycles = 100});
    rig_event(rig, &(struct cofi_event){.kind = COFI_EV_WAKE, .cause = 1, .size = 6, .tsc = 99999, .cycles = 99999});
    rig_expect(rig, "cyc(100) tsc(99999) cbr(24)"); /* CYC, then TSC [SDM Cycle Packet Semantics] */
    done(bench);
}

/* ---- TSC, TMA, MTC ---- */

/* [PTREF 8.3]: TSC 1001000, ART ratio 168/2, so FC and CTC follow. */
static void tma_has_the_art_and_the_ticks_since_its_edge(void **state)
{
    struct bench *bench = open_bench(&(struct cofi_unit_config){.tsc_art_num = 168, .tsc_art_den = 2});
    struct pt_rig *rig = &bench->rig;
    (void)state;
    rig_clock(rig, 1001000, 0);
    rig->context.cpl = 3;
    cofi_unit_context(rig->unit, &rig->context, 0x401000);
    cofi_unit_wrmsr(rig->unit, MSR_CTL, TRACE_EN | USER | BRANCH_EN | TSC_EN | MTC_EN | MTC_FREQ(3));
    rig_expect(rig, "psb tsc(1001000) tma(11916,56) cbr(24) mode.tsx(commit) psbend mode.exec(64) tip.pge(401000)");
    done(bench);
}

/* [SDM TSC Scaling; PTREF 8.1; PTREF 5.6] */
static void tsc_has_the_offset_and_tma_has_not(void **state)
{
    struct bench *bench = open_bench(&(struct cofi_unit_config){.tsc_art_num = 84, .tsc_art_den = 1, .tsc_offset = 5000});
    struct pt_rig *rig = &bench->rig;
    (void)state;
    rig_start(rig, TRACE_EN | USER | BRANCH_EN | TSC_EN | MTC_EN, 3, 0x401000);
    rig_event(rig, &(struct cofi_event){.kind = COFI_EV_WAKE, .size = 1, .tsc = 845});
    rig_expect(rig, "tsc(5845) tma(10,5) cbr(24)");
    done(bench);
}

/* [SDM TSC Scaling]: software may write its TSC, and a guest has another. */
static void tsc_follows_offset_and_scaling_while_tracing(void **state)
{
    struct bench *bench = open_bench(&(struct cofi_unit_config){.tsc_art_num = 84, .tsc_art_den = 1, .tsc_offset = 1});
    struct pt_rig *rig = &bench->rig;
    (void)state;
    rig_start(rig, TRACE_EN | USER | BRANCH_EN | TSC_EN | MTC_EN, 3, 0x401000);
    cofi_unit_tsc(rig->unit, 0, 100);
    rig_event(rig, &(struct cofi_event){.kind = COFI_EV_WAKE, .size = 1, .tsc = 845});
    cofi_unit_tsc(rig->unit, UINT64_C(3) << 47, (uint64_t)-1000); /* 1.5 times */
    rig_event(rig, &(struct cofi_event){.kind = COFI_EV_WAKE, .size = 1, .tsc = 1690});
    rig_expect(rig, "tsc(945) tma(10,5) cbr(24) tsc(1535) tma(20,10) cbr(24)");
    done(bench);
}

static void tsc_is_56_bits(void **state)
{
    struct bench *bench = open_bench(NULL);
    struct pt_rig *rig = &bench->rig;
    (void)state;
    rig_start(rig, TRACE_EN | USER | BRANCH_EN | TSC_EN, 3, 0x401000);
    rig_event(rig, &(struct cofi_event){.kind = COFI_EV_WAKE, .size = 1, .tsc = (UINT64_C(1) << 56) + 7});
    rig_expect(rig, "tsc(7) cbr(24)");
    done(bench);
}

/* [SDM Mini Time Counter (MTC) Packet; PTREF 8.2] */
static void mtc_comes_at_each_step_of_every_frequency(void **state)
{
    (void)state;
    for (unsigned freq = 0; freq < 16; freq++) {
        struct bench *bench = open_bench(&(struct cofi_unit_config){.tsc_art_num = 168, .tsc_art_den = 2});
        struct pt_rig *rig = &bench->rig;
        uint64_t step = UINT64_C(84) << freq; /* TSC ticks from one MTC to the next */
        rig_start(rig, TRACE_EN | USER | BRANCH_EN | TSC_EN | MTC_EN | MTC_FREQ(freq), 3, 0x401000);
        for (uint64_t i = 1; i < 300; i++) {
            char expected[32];
            rig_clock(rig, i * step - 1, 0);
            rig_expect(rig, "");
            rig_clock(rig, i * step, 0);
            snprintf(expected, sizeof expected, "mtc(%" PRIu64 ")", i & 0xff);
            rig_expect(rig, expected);
        }
        done(bench);
    }
}

static void mtc_comes_without_context_and_filter(void **state)
{
    struct bench *bench = open_bench(&(struct cofi_unit_config){.tsc_art_num = 10, .tsc_art_den = 1});
    struct pt_rig *rig = &bench->rig;
    (void)state;
    rig_start(rig, TRACE_EN | USER | BRANCH_EN | MTC_EN, 0, 0x401000);
    rig_clock(rig, 30, 0);
    rig_expect(rig, "mtc(1) mtc(2) mtc(3)");
    done(bench);
}

static void mtc_burst_keeps_the_last(void **state)
{
    struct bench *bench = open_bench(&(struct cofi_unit_config){.tsc_art_num = 10, .tsc_art_den = 1, .mtc_burst = 1});
    struct pt_rig *rig = &bench->rig;
    (void)state;
    rig_start(rig, TRACE_EN | USER | BRANCH_EN | MTC_EN, 3, 0x401000);
    rig_clock(rig, 1000, 0);
    rig_expect(rig, "mtc(100)");
    done(bench);
}

static void a_leap_of_256_periods_is_tsc_and_tma(void **state)
{
    struct bench *bench = open_bench(&(struct cofi_unit_config){.tsc_art_num = 10, .tsc_art_den = 1});
    struct pt_rig *rig = &bench->rig;
    (void)state;
    rig_start(rig, TRACE_EN | USER | BRANCH_EN | MTC_EN | TSC_EN, 3, 0x401000);
    rig_clock(rig, 2560, 0);
    rig_expect(rig, "tsc(2560) tma(256,0)");
    rig_clock(rig, 2570, 0);
    rig_expect(rig, "mtc(1)");
    rig_clock(rig, UINT64_C(1) << 50, 0);
    assert_true(strlen(rig_packets(rig)) < 100);
    done(bench);
}

static void mtc_forces_out_earlier_bits(void **state)
{
    struct bench *bench = open_bench(&(struct cofi_unit_config){.tsc_art_num = 10, .tsc_art_den = 1});
    struct pt_rig *rig = &bench->rig;
    (void)state;
    rig_start(rig, TRACE_EN | USER | BRANCH_EN | MTC_EN, 3, 0x401000);
    rig_jcc(rig, 0x401000, 0x401100, true);
    rig_clock(rig, 10, 0);
    rig_expect(rig, "tnt.8(T) mtc(1)");
    done(bench);
}

/* [SDM Overflow Impact on Timing Packets] */
static void no_mtc_in_an_overflow(void **state)
{
    struct bench *bench = open_bench(&(struct cofi_unit_config){.tsc_art_num = 10, .tsc_art_den = 1});
    struct pt_rig *rig = &bench->rig;
    (void)state;
    rig_start(rig, TRACE_EN | USER | BRANCH_EN | MTC_EN, 3, 0x401000);
    rig_event(rig, &(struct cofi_event){.kind = COFI_EV_OVERFLOW_HINT});
    rig_clock(rig, 100, 0);
    rig_jcc(rig, 0x401000, 0x401100, true);
    rig_expect(rig, "ovf fup(401000)");
    done(bench);
}

/* [SDM Core:Bus Ratio (CBR) Packet] */
static void cbr_is_the_ratio_the_host_gave(void **state)
{
    struct bench *bench = open_bench(NULL);
    struct pt_rig *rig = &bench->rig;
    (void)state;
    rig_event(rig, &(struct cofi_event){.kind = COFI_EV_FREQ, .value = 33});
    cofi_unit_context(rig->unit, &rig->context, 0x401000);
    cofi_unit_wrmsr(rig->unit, MSR_CTL, TRACE_EN | USER | BRANCH_EN);
    rig_expect(rig, "psb cbr(33) psbend");
    done(bench);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sdm_example_of_an_illustrative_cyc_packet_stream),
        cmocka_unit_test(sdm_example_of_cyc_in_multi_packet_operations),
        cmocka_unit_test(sdm_example_of_no_threshold),
        cmocka_unit_test(sdm_example_of_threshold_16),
        cmocka_unit_test(sdm_example_of_threshold_32),
        cmocka_unit_test(sdm_example_of_threshold_64),
        cmocka_unit_test(one_cyc_for_all_packets_of_a_cycle),
        cmocka_unit_test(mtc_and_tnt_of_one_cycle_share_their_cyc),
        cmocka_unit_test(the_cycle_counter_runs_while_context_en_is_0),
        cmocka_unit_test(the_cycle_counter_is_0_while_trigger_en_is_0),
        cmocka_unit_test(the_cycle_counter_stands_still_in_sleep),
        cmocka_unit_test(tma_has_the_art_and_the_ticks_since_its_edge),
        cmocka_unit_test(tsc_has_the_offset_and_tma_has_not),
        cmocka_unit_test(tsc_follows_offset_and_scaling_while_tracing),
        cmocka_unit_test(tsc_is_56_bits),
        cmocka_unit_test(mtc_comes_at_each_step_of_every_frequency),
        cmocka_unit_test(mtc_comes_without_context_and_filter),
        cmocka_unit_test(mtc_burst_keeps_the_last),
        cmocka_unit_test(a_leap_of_256_periods_is_tsc_and_tma),
        cmocka_unit_test(mtc_forces_out_earlier_bits),
        cmocka_unit_test(no_mtc_in_an_overflow),
        cmocka_unit_test(cbr_is_the_ratio_the_host_gave),
    };
    return cmocka_run_group_tests_name("PT time", tests, NULL, NULL);
}
