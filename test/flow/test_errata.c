/* SPDX-License-Identifier: MIT
 * Defects of traced processors [PTREF 9.8], each with the processor that has it and, where it matters, one that has not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "rig.h"

static struct rig rig;

enum { NONE = 0, BROADWELL = 0x3d, SKYLAKE = 0x5e, SERVER = 0x55, GOLDMONT = 0x5c, TREMONT = 0x86 };

/* Code at 401000, a trace, a model of family 6. */
static const char *decode(unsigned model, const char *code, const char *trace)
{
    static char *kept;
    rig_open(&rig, COFI_PT, 0x401000, code);
    rig.config.family = model ? 6 : 0;
    rig.config.model = model;
    rig_trace(&rig, trace);
    free(kept);
    kept = strdup(rig_run(&rig));
    rig_close(&rig);
    return kept;
}

static void bdm70_a_psb_behind_an_overflow_tells_the_address_too_early_too(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 3; i++)
        assert_string_equal(decode((unsigned[]){BROADWELL, SKYLAKE, NONE}[i], "7500 7500 0f05",
                                   "H 06 02f3 P 9901 7d0210400000 00 0223 9901 310210 04 01"),
            "[psb] [enabled >401000] 401000 [overflow >401002] [psb 401002] [enabled >401002] 401002 401004 [disabled 401004]");
}

static void bdm64_a_wrong_target_before_an_abort_is_not_followed(void **state)
{
    (void)state;
    /* 401000 jmp *rax; 401002 nop; 401003 syscall; 401005 nop; 401006 syscall. In a transaction the JMP goes to 401005;
     * the trace says 401002; the abort is at 401005, its handler at 401006. */
    const char *code = "ffe0 90 0f05 90 0f05", *trace = "H 2d0210 9922 3d0510 2d0610 01";
    assert_string_equal(decode(BROADWELL, code, trace),
        "[psb] [enabled >401000] 401000 [async 401005 >401006] [tsx 401006 a0 b1 c0] 401006 [disabled 401006]");
    assert_string_equal(decode(NONE, code, trace),
        "[psb] [enabled >401000] 401000 [gap 401002 MISMATCH] [async 401005 >401006] [tsx 401006 a0 b1 c0] 401006 [disabled 401006]");
}

static void bdm64_a_right_target_before_an_abort_is_followed(void **state)
{
    (void)state;
    assert_string_equal(decode(BROADWELL, "ffe0 90 90 90 90 0f05", "H 2d0210 9922 3d0410 2d0610 01"),
        "[psb] [enabled >401000] 401000 401002 401003 [async 401004 >401006] [tsx 401006 a0 b1 c0] 401006 "
        "[disabled 401006]");
}

static void skd007_an_overflow_over_the_tail_of_a_cyc_is_one(void **state)
{
    (void)state;
    /* CYC of two bytes (07), the second one OVF's first */
    assert_string_equal(decode(SKYLAKE, "7500 7500 0f05", "H 06 07 02f3 7d021040000000 04 01"),
        "[psb] [enabled >401000] 401000 [overflow >401002] 401002 401004 [disabled 401004]");
    /* elsewhere the two bytes are a CYC, and F3 is one more */
    assert_string_equal(decode(NONE, "7500 7500 0f05", "H 06 0702 f3 04 01"),
        "[psb] [enabled >401000] 401000 401002 401004 [disabled 401004]");
}

static void skd010_a_missing_fup_after_an_overflow_costs_up_to_the_next_full_address(void **state)
{
    (void)state;
    const char *code = "ffe0 7500 0f05";
    assert_string_equal(decode(SKYLAKE, code, "H 02f3 6d021040000000 04 01"),
        "[psb] [enabled >401000] [overflow >401002] 401002 401004 [disabled 401004]");
    /* an address of two bytes rests on the one that is missing: it is not believed */
    assert_string_equal(decode(SKYLAKE, code, "H 02f3 2d0210 6d021040000000 04 01"),
        "[psb] [enabled >401000] [overflow >401002] 401002 401004 [disabled 401004]");
    assert_string_equal(decode(SKYLAKE, code, "H 02f3 P 9901 7d0210400000 00 0223 04 01"),
        "[psb] [enabled >401000] [overflow >401002] [psb 401002] 401002 401004 [disabled 401004]");
    /* outcomes before any address belong nowhere */
    assert_string_equal(decode(SKYLAKE, code, "H 02f3 06 6d021040000000 04 01"),
        "[psb] [enabled >401000] [overflow] [gap MISMATCH] 401002 401004 [disabled 401004]");
}

/* 401000 nop; 401001 jmp *rax; 401003 jnz; 401005 syscall */
static void skd010_a_fup_behind_an_overflow_may_be_an_events(void **state)
{
    (void)state;
    const char *code = "90 ffe0 7500 0f05", *jump = "H 02f3 7d001040000000 2d0310 04 01", *event = "H 02f3 7d031040000000 2d0010 2d0510 01";
    assert_string_equal(decode(SKYLAKE, code, jump),
        "[psb] [enabled >401000] [overflow >401000] [gap 401000 MISMATCH] 401003 401005 [disabled 401005]");
    assert_string_equal(decode(NONE, code, jump),
        "[psb] [enabled >401000] [overflow >401000] 401000 401001 401003 401005 [disabled 401005]");
    assert_string_equal(decode(SKYLAKE, code, "H 02f3 7d001040000000 01"),
        "[psb] [enabled >401000] [overflow >401000] [gap 401000 MISMATCH] [disabled]");
    /* no TIP can be that of the conditional branch at 401003; outcomes and a second FUP are none of an event */
    assert_string_equal(decode(SKYLAKE, code, event),
        "[psb] [enabled >401000] [overflow >401003] [async 401003 >401000] 401000 401001 401005 [disabled 401005]");
    assert_string_equal(decode(SKYLAKE, code, "H 02f3 7d031040000000 04 01"),
        "[psb] [enabled >401000] [overflow >401003] 401003 401005 [disabled 401005]");
    assert_string_equal(decode(SKYLAKE, code, "H 02f3 7d001040000000 3d0110 2d0310 04 01"),
        "[psb] [enabled >401000] [overflow >401000] 401000 [async 401001 >401003] 401003 401005 [disabled 401005]");
}

static void skd010_what_comes_first_may_have_a_fup_of_its_own(void **state)
{
    (void)state;
    const char *code = "90 ffe0 7500 0f05";
    assert_string_equal(decode(SKYLAKE, code, "H 02f3 9921 7d001040000000 2d0310 04 01"),
        "[psb] [enabled >401000] [tsx a1 b0 c0] [overflow >401000] 401000 401001 401003 401005 [disabled 401005]");
    assert_string_equal(decode(SKYLAKE, code, "H 02f3 9922 7d001040000000 2d0310 04 01"),
        "[psb] [enabled >401000] [tsx a0 b1 c0] [overflow >401000] [async 401000 >401003] 401003 401005 [disabled 401005]");
    /* an EXSTOP's comes with packets of branches on and off; the short address behind it rests on it */
    assert_string_equal(decode(SKYLAKE, code, "H 02f3 02e2 7d011040000000 2d0310 04 01"),
        "[psb] [enabled >401000] [exstop 401001] [overflow >401003] 401003 401005 [disabled 401005]");
}

static void skd022_a_vm_entry_that_ends_tracing_ran(void **state)
{
    (void)state;
    /* nop; vmlaunch */
    assert_string_equal(decode(SKYLAKE, "90 0f01c2 90", "H 3d0110 01"),
        "[psb] [enabled >401000] 401000 401001 [disabled 401001]");
    assert_string_equal(decode(NONE, "90 0f01c2 90", "H 3d0110 01"),
        "[psb] [enabled >401000] 401000 [async-disabled 401001]");
    /* the address of an interrupt's handler that is filtered out: it did not run */
    assert_string_equal(decode(SKYLAKE, "90 0f01c2 90", "H 3d0110 21 0020"),
        "[psb] [enabled >401000] 401000 [async-disabled 401001 >402000]");
}

/* 401000 nop; 401001 jmp 401008; 401003 …; 401008 jmp *rax; a range for a use. */
static const char *with_range(unsigned i, uint64_t use, uint64_t base, uint64_t limit, const char *trace)
{
    rig_open(&rig, COFI_PT, 0x401000, "90 eb05 9090909090 ffe0");
    rig.config.family = 6;
    rig.config.model = SKYLAKE;
    rig.config.ctl_known = rig.config.ranges_known = true;
    rig.config.ctl = use << (32 + 4 * i);
    rig.config.range_base[i] = base;
    rig.config.range_limit[i] = limit;
    rig_trace(&rig, trace);
    return rig_run(&rig);
}

static void skl014_a_direct_branch_out_of_the_ranges_takes_a_pgd_without_address(void **state)
{
    (void)state;
    assert_string_equal(with_range(0, 1, 0x401000, 0x401004, "H 01"), "[psb] [enabled >401000] 401000 401001 [disabled 401001]");
    rig_close(&rig);
}

/* Nor one that ends tracing by going where it stops. */
static void skl014_so_does_one_into_a_range_that_stops(void **state)
{
    (void)state;
    assert_string_equal(with_range(1, 2, 0x401008, 0x401008, "H 01 0283"),
        "[psb] [enabled >401000] 401000 401001 [disabled 401001] [tracestop 401001]");
    rig_close(&rig);
}

static void apl12_a_stray_fup_after_an_overflow_while_off_is_taken_back(void **state)
{
    (void)state;
    const char *code = "7500 7500 0f05";
    /* tracing is off; OVF, stray FUP, then it is enabled elsewhere */
    assert_string_equal(decode(GOLDMONT, code, "H 06 01 02f3 7d001040000000 71021040000000 04 01"),
        "[psb] [enabled >401000] 401000 401002 [disabled 401002] [overflow] [enabled 401002 >401002] 401002 401004 "
        "[disabled 401004]");
    /* the same, and the FUP was right: outcomes follow */
    assert_string_equal(decode(GOLDMONT, code, "H 06 01 02f3 7d021040000000 04 01"),
        "[psb] [enabled >401000] 401000 401002 [disabled 401002] [overflow] [enabled >401002] 401002 401004 "
        "[disabled 401004]");
}

/* It says "when outside of TIP.PGE and TIP.PGD": tracing may have been turned off by what the overflow lost. */
static void apl12_tracing_may_end_in_the_overflow(void **state)
{
    (void)state;
    const char *code = "7500 7500 0f05";
    assert_string_equal(decode(GOLDMONT, code, "H 06 02f3 7d001040000000 71021040000000 04 01"),
        "[psb] [enabled >401000] 401000 [overflow] [enabled >401002] 401002 401004 [disabled 401004]");
    assert_string_equal(decode(GOLDMONT, code, "H 06 02f3 7d001040000000 P 9901 0223 71021040000000 04 01"),
        "[psb] [enabled >401000] 401000 [overflow] [psb] [enabled >401002] 401002 401004 [disabled 401004]");
    assert_string_equal(decode(GOLDMONT, code, "H 06 02f3 7d021040000000 04 01"),
        "[psb] [enabled >401000] 401000 [overflow] [enabled >401002] 401002 401004 [disabled 401004]");
    assert_non_null(strstr(decode(NONE, code, "H 06 02f3 7d001040000000 P 9901 0223 71021040000000 04 01"), "gap"));
}

static void apl11_an_overflow_may_end_with_a_disable(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 3; i++)
        assert_string_equal(decode((unsigned[]){GOLDMONT, TREMONT, NONE}[i], "7500 7500 0f05",
                                   "H 06 02f3 01 71021040000000 04 01"),
            "[psb] [enabled >401000] 401000 [overflow] [enabled >401002] 401002 401004 [disabled 401004]");
}

static void apl12_the_stray_fup_may_follow_that_disable(void **state)
{
    (void)state;
    assert_string_equal(decode(GOLDMONT, "7500 7500 0f05", "H 06 02f3 01 7d001040000000 71021040000000 04 01"),
        "[psb] [enabled >401000] 401000 [overflow] [enabled >401002] 401002 401004 [disabled 401004]");
}

/* PIP, EXSTOP and their like come with packets of branches off, too: they do not say that the FUP was right. */
static void apl12_nothing_ran_where_packets_of_any_context_follow(void **state)
{
    (void)state;
    assert_string_equal(decode(GOLDMONT, "90 0f22d8 90 7500 0f05", "H 01 02f3 7d001040000000 0243000500000000 02e2 3d0410 71051040000000 04 01"),
        "[psb] [enabled >401000] 401000 401001 [disabled 401001] [overflow] [paging v5000] [exstop 401004] "
        "[enabled 401001 >401005] 401005 401007 [disabled 401007]");
}

/* 401002 jmp to where there is no code; 401010 jnz. The PTWRITE's FUP lies behind that jump, if the overflow's was right: outcomes follow. */
static void apl12_a_fup_behind_missing_code_tells_where_too(void **state)
{
    (void)state;
    assert_string_equal(decode(GOLDMONT, "7500 eb7f 909090909090909090909090 7500 0f05", "H 06 02f3 7d021040000000 029278563412 3d1010 04 01"),
        "[psb] [enabled >401000] 401000 [overflow] [ptwrite 401010 a4 b0 c0 v12345678] [enabled >401010] 401010 401012 [disabled 401012]");
}

/* 401002 mov cr3; 401005 nop; 401006 jmp 401005: the TIP.PGD is the MOV CR3's, whose PIP came while the overflow's FUP was in doubt. */
static void apl12_a_mov_cr3_that_ends_tracing_is_found(void **state)
{
    (void)state;
    static const struct { const char *code, *trace, *flow; } cases[] = {
        {"7500 0f22d8 90 ebfd", "0243000500000000 210510", "[paging v5000] [enabled >401002] 401002 [disabled 401002 >401005]"},
        /* without an address it is the far branch's behind them */
        {"7500 0f22d8 0f22d8 0f05", "0243000500000000 0243000500000000 01",
            "[paging v5000] [paging v5000] [enabled >401002] 401002 401005 401008 [disabled 401008]"},
    };
    for (size_t i = 0; i < 2; i++) {
        char trace[200], want[300];
        snprintf(trace, sizeof trace, "H 06 02f3 7d021040000000 %s", cases[i].trace);
        snprintf(want, sizeof want, "[psb] [enabled >401000] 401000 [overflow] %s", cases[i].flow);
        rig_open(&rig, COFI_PT, 0x401000, cases[i].code);
        rig.config.family = 6;
        rig.config.model = GOLDMONT;
        rig.config.ctl_known = true;
        rig_trace(&rig, trace);
        assert_string_equal(rig_run(&rig), want);
        rig_close(&rig);
    }
}

/* Where it went off is not told. */
static void skd010_an_overflow_without_its_fup_may_end_with_a_disable(void **state)
{
    (void)state;
    assert_string_equal(decode(SKYLAKE, "7500 7500 0f05", "H 06 01 02f3 61021040000000 0283"),
        "[psb] [enabled >401000] 401000 401002 [disabled 401002] [overflow] [tracestop]");
}

/* Its TIP was lost. CR3 is what it says, whether a PSB+, or outcomes, come next, or a FUP or TIP.PGD. */
static void skd010_a_pip_before_an_overflow_is_told(void **state)
{
    (void)state;
    const char *code = "7500 7500 0f05";
    for (unsigned i = 0; i < 2; i++)
        assert_string_equal(decode((unsigned[]){SKYLAKE, NONE}[i], code,
                                   "H 06 0243000700000000 02f3 P 0243000500000000 9901 7d021040000000 0223 04 01"),
            "[psb] [enabled >401000] 401000 [paging v7000] [overflow >401002] [paging 401002 v5000] [psb 401002] 401002 401004 "
            "[disabled 401004]");
    assert_string_equal(decode(SKYLAKE, code, "H 06 0243000700000000 02f3 06 P 0243000700000000 9901 7d021040000000 0223 04 01"),
        "[psb] [enabled >401000] 401000 [overflow] [paging v7000] [gap MISMATCH] [psb 401002] [enabled >401002] 401002 401004 "
        "[disabled 401004]");
    assert_string_equal(decode(SERVER, code, "H 06 0243000700000000 02f3 7d021040000000 04 01"),
        "[psb] [enabled >401000] 401000 [overflow >401002] [paging 401002 v7000] 401002 401004 [disabled 401004]");
    /* or another overflow, so that whose the FUP was is not known */
    assert_string_equal(decode(SKYLAKE, code, "H 06 02f3 7d021040000000 0243000700000000 02f3 7d021040000000 04 01"),
        "[psb] [enabled >401000] 401000 [overflow >401002] [paging v7000] [overflow >401002] 401002 401004 [disabled 401004]");
    /* packets go off: the next PIP is another one */
    assert_string_equal(decode(SKYLAKE, code, "H 06 0243000700000000 02f3 61021040000000 0243000500000000 71021040000000 04 01"),
        "[psb] [enabled >401000] 401000 [overflow] [paging v7000] [paging v5000] [enabled >401002] 401002 401004 [disabled 401004]");
}

/* 401002 vmptrld; 401005 mov cr3: each is found only when outcomes tell whose the FUP was. */
static void what_waits_behind_a_doubtful_fup_is_bound_in_order(void **state)
{
    (void)state;
    assert_string_equal(decode(NONE, "7500 0fc730 0f22d8 7500 0f05",
                               "H 06 02f3 P 9901 7d021040000000 0223 7d021040000000 02c80300000000 0243000500000000 04 01"),
        "[psb] [enabled >401000] 401000 [overflow >401002] [psb 401002] 401002 [vmcs 401002 v3000] 401005 [paging 401005 v5000] 401008 40100a "
        "[disabled 40100a]");
}

/* 401000 jnz 401052, where there is no code. An OVF stands before the first PSB, not before the second one. */
static void an_overflow_before_a_psb_is_not_before_the_next_one(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"02f3 P 9901 7d001040000000 0223", "[psb 401000] [enabled >401000]"},
        {"02f3 P 02f3 7d001040000000", "[overflow >401000]"}, /* another one ends the first PSB+ */
    };
    for (size_t i = 0; i < 2; i++) {
        char trace[600], want[300];
        snprintf(trace, sizeof trace, "%s 06 06 P 9901 7d021040000000 0223 3d0210 2d0410 01 %0100d", cases[i][0], 0); /* far from the end */
        snprintf(want, sizeof want, "[gap NO_SYNC] %s 401000 [gap 401052 NO_CODE] [psb 401002] [enabled >401002] [async 401002 >401004] 401004 [disabled 401004]",
            cases[i][1]);
        assert_string_equal(decode(SERVER, "7550 7500 0f05", trace), want);
    }
}

/* 401002 jnz 401054, where there is no code. Outcomes stand before the FUP, so that it is an event's. */
static void a_fup_behind_a_gap_is_not_the_overflows(void **state)
{
    (void)state;
    assert_string_equal(decode(SERVER, "7500 7550 0f05", "H 06 02f3 P 9901 7d021040000000 0223 06 04 3d0210 2d0410 01"),
        "[psb] [enabled >401000] 401000 [overflow >401002] [psb 401002] 401002 [gap 401054 NO_CODE] [async 401002 >401004] 401004 "
        "[disabled 401004]");
}

static void psb_between_an_overflow_and_its_fup_is_certain_where_none_is_missing(void **state)
{
    (void)state;
    const char *code = "7500 90 ffe0 7500 0f05", *trace = "H 06 02f3 P 9901 7d021040000000 0223 7d021040000000 2d0510 04 01";
    assert_string_equal(decode(SERVER, code, trace),
        "[psb] [enabled >401000] 401000 [overflow >401002] [psb 401002] 401002 401003 401005 401007 [disabled 401007]");
    /* where tracing was off until a TIP.PGE came, none is due: the next FUP is an event's [ERR BDM70] */
    assert_string_equal(decode(SERVER, code, "H 06 02f3 P 9901 7d021040000000 0223 71021040000000 3d0210 2d0510 04 01"),
        "[psb] [enabled >401000] 401000 [overflow >401002] [psb 401002] [enabled >401002] [async 401002 >401005] 401005 401007 [disabled 401007]");
    for (unsigned i = 0; i < 2; i++)
        assert_string_equal(decode((unsigned[]){SKYLAKE, NONE}[i], code, trace),
            "[psb] [enabled >401000] 401000 [overflow >401002] [psb 401002] [gap 401002 MISMATCH] 401005 401007 [disabled 401007]");
}

static void skz84_a_tma_with_a_byte_too_many_is_skipped(void **state)
{
    (void)state;
    assert_string_equal(decode(SERVER, "7500 0f05", "H 0273 1234 ff 56 01 ff 06 01"),
        "[psb] [enabled >401000] 401000 401002 [disabled 401002]");
}

static void goldmont_a_fup_may_have_the_address_behind_the_instruction(void **state)
{
    (void)state;
    /* nop; int 80h; nop; iret at 401004 */
    const char *code = "90 cd80 90 48cf", *trace = "H 3d0310 2d0410 2d0310 3d0410 01";
    assert_string_equal(decode(GOLDMONT, code, trace),
        "[psb] [enabled >401000] 401000 401001 [async 401003 >401004] 401004 401003 [async-disabled 401004]");
    assert_string_equal(decode(NONE, code, trace),
        "[psb] [enabled >401000] [gap 401000 MISMATCH] [async 401003 >401004] 401004 401003 [async-disabled 401004]");
}

/* [PTREF 9.9]: what others write or take, each with what we make of it. */
static void reserved_bits_of_packets_that_only_inform_are_read_over(void **state)
{
    (void)state;
    /* PWRE with libipt's HW bit (byte 2, bit 3), CBR, TMA, MODE.TSX with reserved bits; long TNT without outcomes */
    const char *packets[] = {"02220820", "020318ff", "0273 1234 ff 56 01", "02a3010000000000"};
    char trace[200];
    for (size_t i = 0; i < 4; i++) {
        snprintf(trace, sizeof trace, "H %s 06 01", packets[i]);
        const char *said = decode(NONE, "7500 0f05", trace);
        assert_null(strstr(said, "gap"));
        assert_non_null(strstr(said, "401000 401002 [disabled 401002]"));
    }
    assert_non_null(strstr(decode(NONE, "7500 0f05", "H 0285 06 01"), "BAD_PACKET"));
}

static void an_overflow_before_a_psb_with_its_address_and_a_fup(void **state)
{
    (void)state; /* libipt ends with bad_status_update; perf reports one error and goes on */
    assert_string_equal(decode(NONE, "7500 7500 0f05", "H 06 02f3 P 9901 7d0210400000 00 0223 04 01"),
        "[psb] [enabled >401000] 401000 [overflow >401002] [psb 401002] 401002 401004 [disabled 401004]");
}

static void lastip_is_zero_behind_an_overflow(void **state)
{
    (void)state; /* [PTREF 5.4]: FUP of four bytes */
    assert_string_equal(decode(NONE, "7500 7500 0f05", "H 06 02f3 5d02104000 04 01"),
        "[psb] [enabled >401000] 401000 [overflow >401002] 401002 401004 [disabled 401004]");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bdm64_a_wrong_target_before_an_abort_is_not_followed),
        cmocka_unit_test(bdm64_a_right_target_before_an_abort_is_followed),
        cmocka_unit_test(bdm70_a_psb_behind_an_overflow_tells_the_address_too_early_too),
        cmocka_unit_test(skd007_an_overflow_over_the_tail_of_a_cyc_is_one),
        cmocka_unit_test(skd010_a_missing_fup_after_an_overflow_costs_up_to_the_next_full_address),
        cmocka_unit_test(skd022_a_vm_entry_that_ends_tracing_ran),
        cmocka_unit_test(skl014_a_direct_branch_out_of_the_ranges_takes_a_pgd_without_address),
        cmocka_unit_test(skl014_so_does_one_into_a_range_that_stops),
        cmocka_unit_test(skd010_a_fup_behind_an_overflow_may_be_an_events),
        cmocka_unit_test(skd010_what_comes_first_may_have_a_fup_of_its_own),
        cmocka_unit_test(apl12_a_fup_behind_missing_code_tells_where_too),
        cmocka_unit_test(apl12_a_mov_cr3_that_ends_tracing_is_found),
        cmocka_unit_test(skd010_an_overflow_without_its_fup_may_end_with_a_disable),
        cmocka_unit_test(skd010_a_pip_before_an_overflow_is_told),
        cmocka_unit_test(an_overflow_before_a_psb_is_not_before_the_next_one),
        cmocka_unit_test(a_fup_behind_a_gap_is_not_the_overflows),
        cmocka_unit_test(what_waits_behind_a_doubtful_fup_is_bound_in_order),
        cmocka_unit_test(apl12_nothing_ran_where_packets_of_any_context_follow),
        cmocka_unit_test(psb_between_an_overflow_and_its_fup_is_certain_where_none_is_missing),
        cmocka_unit_test(apl12_a_stray_fup_after_an_overflow_while_off_is_taken_back),
        cmocka_unit_test(apl12_tracing_may_end_in_the_overflow),
        cmocka_unit_test(apl11_an_overflow_may_end_with_a_disable),
        cmocka_unit_test(apl12_the_stray_fup_may_follow_that_disable),
        cmocka_unit_test(skz84_a_tma_with_a_byte_too_many_is_skipped),
        cmocka_unit_test(goldmont_a_fup_may_have_the_address_behind_the_instruction),
        cmocka_unit_test(reserved_bits_of_packets_that_only_inform_are_read_over),
        cmocka_unit_test(an_overflow_before_a_psb_with_its_address_and_a_fup),
        cmocka_unit_test(lastip_is_zero_behind_an_overflow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
