/* SPDX-License-Identifier: MIT
 * Bytes and orders: the byte examples of [PTREF 12], compression, TNT forms, deferred TIPs, PSB+, overflow,
 * INIT and SIPI, blocks, errata, explanations. */
#include "pt_rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const uint64_t user = TRACE_EN | USER | BRANCH_EN, all = TRACE_EN | USER | OS | BRANCH_EN;

/* The bytes since the last look, in hex. */
static const char *hex(struct pt_rig *rig)
{
    static char text[4096];
    cofi_unit_drain(rig->unit);
    text[0] = 0;
    for (size_t i = rig->shown, n = 0; i < rig->size && n < sizeof text - 3; i++, n += 2)
        snprintf(text + n, 3, "%02x", rig->bytes[i]);
    rig->shown = rig->size;
    return text;
}

#define expect_hex(rig, bytes) assert_string_equal(hex(rig), bytes)

static void tip(struct pt_rig *rig, uint64_t target) { rig_near(rig, COFI_EV_JMP_IND, 0x401000, 2, target); }

static void example_1_tnt_and_pgd(void **state)
{
    struct pt_rig *rig = rig_new(NULL, user, 0x401000);
    (void)state;
    rig_jcc(rig, 0x401000, 0x401010, true);
    rig_jcc(rig, 0x401010, 0x401020, true);
    rig_jcc(rig, 0x401020, 0x401030, false);
    rig_far(rig, COFI_FAR_SYSCALL, 0x401022, 0, 0);
    expect_hex(rig, "1c01");
    rig_free(rig);
}

static void start_is_psb_psbend_mode_and_pge(void **state)
{
    struct pt_rig *rig = malloc(sizeof *rig);
    (void)state;
    rig_open(rig, NULL);
    rig->context.cpl = 3;
    cofi_unit_context(rig->unit, &rig->context, 0x401000);
    cofi_unit_wrmsr(rig->unit, MSR_CTL, user);
    /* MODEL order with CBR and MODE.TSX, then what the examples call H, whose PGE is one of six bytes: the shortest
     * code against LastIP 0 is 2 */
    expect_hex(rig, "02820282028202820282028202820282" "02031800" "9920" "0223" "9901" "5100104000");
    rig_free(rig);
}

/* Example 2's addresses, with the code that [PTREF 5.4]'s order picks. */
/* [SDM TIP/FUP IP Reconstruction; SDM Target IP (TIP) Packet; PTREF 5.4; PTREF 12.2] */
static void example_2_ip_compression(void **state)
{
    struct pt_rig *rig = rig_new(NULL, user, 0x401000);
    (void)state;
    tip(rig, 0x7ffff75badd0);
    expect_hex(rig, "6dd0ad5bf7ff7f");
    tip(rig, 0x7fff00002000);
    expect_hex(rig, "4d00200000");
    tip(rig, 0x7fff00003456);
    expect_hex(rig, "2d5634");
    tip(rig, UINT64_C(0x00007fffffffffff));
    expect_hex(rig, "4dffffffff");
    tip(rig, UINT64_C(0xdeadbeefdeadbeef));
    expect_hex(rig, "cdefbeaddeefbeadde");
    tip(rig, UINT64_C(0xdeadbeef00000001));
    expect_hex(rig, "4d01000000");
    tip(rig, UINT64_C(0xdead000000000001));
    expect_hex(rig, "8d010000000000");
    tip(rig, UINT64_C(0xffffffffff800000));
    expect_hex(rig, "6d000080ffffff");
    rig_free(rig);
}

/* [PTREF 5.5; SDM FUP Cases and IP Payload] */
static void example_3_asynchronous_branch(void **state)
{
    struct pt_rig *rig = rig_new(NULL, all, 0x401000);
    (void)state;
    rig_interrupt(rig, COFI_CAUSE_INTR, 0x40101a, UINT64_C(0xffffffff00810000), 0);
    expect_hex(rig, "3d1a10" "6d00008100ffff");
    rig_free(rig);
}

static void example_4_asynchronous_branch_with_cr3(void **state)
{
    struct pt_rig *rig = rig_new(NULL, all, 0x401000);
    (void)state;
    struct cofi_event event = {.kind = COFI_EV_EVENT, .cause = COFI_CAUSE_INTR, .ip = 0x40101a, .vector = 32,
                               .target = UINT64_C(0xffffffff00810000), .context_set = true, .after = rig->context};
    event.after.cpl = 0;
    event.after.cr3 = UINT64_C(0xac682400000);
    rig_event(rig, &event);
    /* as in the example, but that MODE.Exec is not repeated */
    expect_hex(rig, "3d1a10" "024300002468ac00" "6d00008100ffff");
    rig_free(rig);
}

static void example_6_overflow_with_packets_is_fup(void **state)
{
    struct pt_rig *rig = rig_new(NULL, all, 0x401000);
    (void)state;
    rig_event(rig, &(struct cofi_event){.kind = COFI_EV_OVERFLOW_HINT});
    rig_jcc(rig, 0x401234, 0x401240, true);
    rig_far(rig, COFI_FAR_SYSCALL, 0x401240, 0x401240, 3);
    expect_hex(rig, "02f3" "7d341240000000" "06" "2d4012");
    rig_free(rig);
}

static void example_6_overflow_without_packets_is_pge_later(void **state)
{
    struct pt_rig *rig = rig_new(NULL, user, 0x401000);
    (void)state;
    rig_far(rig, COFI_FAR_SYSCALL, 0x401000, 0x500000, 0);
    hex(rig);
    rig_event(rig, &(struct cofi_event){.kind = COFI_EV_OVERFLOW_HINT});
    rig_far(rig, COFI_FAR_SYSRET, 0x500000, 0x401234, 3);
    rig_jcc(rig, 0x401234, 0x401240, false);
    tip(rig, 0x401234);
    expect_hex(rig, "02f3" "9901" "71341240000000" "04" "2d3412");
    rig_free(rig);
}

static void example_7_transactions(void **state)
{
    struct pt_rig *rig = rig_new(NULL, user, 0x401000);
    (void)state;
    rig_event(rig, &(struct cofi_event){.kind = COFI_EV_XBEGIN, .ip = 0x401005, .next = 0x40100b});
    rig_event(rig, &(struct cofi_event){.kind = COFI_EV_XEND, .ip = 0x401009, .next = 0x40100c});
    rig_event(rig, &(struct cofi_event){.kind = COFI_EV_XBEGIN, .ip = 0x40100d, .next = 0x401010});
    rig_event(rig, &(struct cofi_event){.kind = COFI_EV_XABORT, .ip = 0x401010, .target = 0x401020});
    expect_hex(rig, "9921" "3d0510" "9920" "3d0910" "9921" "3d0d10" "9922" "3d1010" "2d2010");
    rig_free(rig);
}

/* [SDM Software Trace Instrumentation with PTWRITE; PTREF 5.7] */
static void example_8_ptwrite(void **state)
{
    struct pt_rig *rig = rig_new(NULL, user | PTW_EN, 0x401000);
    (void)state;
    rig_event(rig, &(struct cofi_event){.kind = COFI_EV_PTWRITE, .ip = 0x401010, .value = 0x12345678, .size = 4});
    rig_event(rig, &(struct cofi_event){.kind = COFI_EV_PTWRITE, .ip = 0x401010, .value = UINT64_C(0x123456789abcdef), .size = 8});
    expect_hex(rig, "021278563412" "0232efcdab8967452301");
    rig_free(rig);
    rig = rig_new(NULL, user | PTW_EN | FUP_ON_PTW, 0x401000);
    rig_event(rig, &(struct cofi_event){.kind = COFI_EV_PTWRITE, .ip = 0x401010, .value = 0x12345678, .size = 4});
    expect_hex(rig, "029278563412" "3d1010");
    rig_free(rig);
}

static void example_9_event_trace(void **state)
{
    struct pt_rig *rig = rig_new(NULL, all | EVENT_EN, 0x401000);
    (void)state;
    struct cofi_event fault = {.kind = COFI_EV_EVENT, .cause = COFI_CAUSE_FAULT, .ip = 0x401010, .vector = 14, .value = 0xbadf000,
                               .target = UINT64_C(0xffffffff00810000), .context_set = true, .after = rig->context};
    fault.after.cpl = 0;
    rig_event(rig, &fault);
    expect_hex(rig, "025300" "00f0ad0b00000000" "0213010e" "3d1010" "6d00008100ffff");
    rig_free(rig);
}

/* [SDM Power Event Tracing; SDM MWAIT Packet] */
static void example_12_power(void **state)
{
    struct pt_rig *rig = rig_new(NULL, user | PWR_EVT_EN, 0x401000);
    (void)state;
    rig_event(rig, &(struct cofi_event){.kind = COFI_EV_MWAIT, .ip = 0x401010, .next = 0x401013, .value = UINT64_C(0x100000060), .size = 3});
    expect_hex(rig, "02c26000000001000000" "02220020" "02e2" "3d1010");
    rig_event(rig, &(struct cofi_event){.kind = COFI_EV_WAKE, .cause = 1, .size = 3});
    expect_hex(rig, "02031800" "02a22201000000");
    rig_free(rig);
}

/* [PTREF 5.9] */
static void example_13_blocks(void **state)
{
    struct pt_rig *rig = rig_new(NULL, user, 0x401000);
    (void)state;
    rig_event(rig, &(struct cofi_event){.kind = COFI_EV_BLOCK, .value = 4, .size = 8});
    rig_event(rig, &(struct cofi_event){.kind = COFI_EV_BLOCK_ITEM, .size = 0, .value = UINT64_C(0x8877665544332211)});
    rig_event(rig, &(struct cofi_event){.kind = COFI_EV_BLOCK_ITEM, .size = 1, .value = UINT64_C(0x8877665544332211)});
    rig_event(rig, &(struct cofi_event){.kind = COFI_EV_BLOCK_END, .ip = 0x401010, .taken = true});
    expect_hex(rig, "026304" "041122334455667788" "0c1122334455667788" "02b3" "3d1010");
    rig_free(rig);
}

static void blocks_of_4_byte_items(void **state)
{
    struct pt_rig *rig = rig_new(NULL, user, 0x401000);
    (void)state;
    rig_jcc(rig, 0x401000, 0x401010, true);
    rig_event(rig, &(struct cofi_event){.kind = COFI_EV_BLOCK, .value = 1, .size = 4});
    rig_event(rig, &(struct cofi_event){.kind = COFI_EV_BLOCK_ITEM, .size = 2, .value = 7});
    rig_event(rig, &(struct cofi_event){.kind = COFI_EV_BLOCK_END});
    expect_hex(rig, "06" "026381" "1407000000" "0233");
    rig_free(rig);
}

static void bits_in_a_block_close_it(void **state)
{
    struct pt_rig *rig = rig_new(NULL, user, 0x401000);
    (void)state;
    rig_event(rig, &(struct cofi_event){.kind = COFI_EV_BLOCK, .value = 4, .size = 8});
    rig_jcc(rig, 0x401000, 0x401000, false);
    rig_near(rig, COFI_EV_JMP_IND, 0x401002, 2, 0x402000);
    rig_event(rig, &(struct cofi_event){.kind = COFI_EV_BLOCK_ITEM, .size = 0, .value = 1});
    rig_expect(rig, "bbp(4,8) bep tnt.8(N) tip(402000)");
    rig_free(rig);
}

/* [PTREF 5.10; PTREF 2.9] */
static void example_14_triggers(void **state)
{
    struct pt_rig *rig = rig_new(NULL, user, 0x401000);
    (void)state;
    rig_event(rig, &(struct cofi_event){.kind = COFI_EV_TRIGGER, .ip = 0x401010, .value = 1, .value2 = 3, .taken = true});
    expect_hex(rig, "d940010300");
    rig_event(rig, &(struct cofi_event){.kind = COFI_EV_TRIGGER, .ip = 0x401010, .value = 1});
    expect_hex(rig, "d9c0010000" "3d1010");
    rig_free(rig);
}

/* The unit finds out which triggers an input fires: those that have it and are logged [PTREF 2.9]. */
static void an_input_fires_the_triggers_that_have_it(void **state)
{
    struct pt_rig *rig = calloc(1, sizeof *rig);
    (void)state;
    rig_open(rig, NULL);
    assert_int_equal(cofi_unit_set_field(rig->unit, "trigger0_cfg", UINT64_C(0x8003804000038003)), 0);
    assert_int_equal(cofi_unit_set_field(rig->unit, "trigger1_cfg", UINT64_C(0x8003) << 48), 0);
    rig_start(rig, user, 3, 0x401000);
    rig_event(rig, &(struct cofi_event){.kind = COFI_EV_TRIGGER, .cause = 1, .ip = 0x401010, .value = 3, .value2 = 5, .taken = true});
    rig_event(rig, &(struct cofi_event){.kind = COFI_EV_TRIGGER, .cause = 1, .ip = 0x401010, .value = 0x40, .value2 = 6, .taken = true});
    rig_event(rig, &(struct cofi_event){.kind = COFI_EV_TRIGGER, .cause = 1, .ip = 0x401010, .value = 0x41, .value2 = 7, .taken = true});
    rig_expect(rig, "trig(89,5) trig(4,6)");
    rig_free(rig);
}

/* [PTREF 6.7] IF changes unseen outside of the filter: the same MODE.Exec byte twice. */
static void a_new_if_is_told_even_if_the_byte_was_sent_last(void **state)
{
    struct pt_rig *rig = malloc(sizeof *rig);
    (void)state;
    rig_open(rig, NULL);
    rig_start(rig, all | EVENT_EN | ADDR_CFG(0, 1), 0, 0x500000); /* the filter is the address 0 */
    for (unsigned i = 0; i < 2; i++) {
        struct cofi_event sti = {.kind = COFI_EV_STATE, .ip = 0x500000, .next = 0x500001, .context_set = true, .after = rig->context};
        sti.after.iflag = true;
        rig_event(rig, &sti);
        rig->context.iflag = false;
        rig_interrupt(rig, COFI_CAUSE_TRAP, 0x500001, 0x500000, 0);
    }
    rig_expect(rig, "mode.exec(64,if) fup(500001) cfeip(1,0) fup(500001) mode.exec(64,if) fup(500001) cfeip(1,0) fup(500001)");
    rig_free(rig);
}

/* [SDM Paging Information (PIP) Packet]: PCIDs and other low bits are no address. */
static void pip_has_bits_11_to_5_under_pae_only(void **state)
{
    struct pt_rig *rig = rig_new(NULL, all, 0x401000);
    (void)state;
    rig_mov_cr3(rig, 0x401000, UINT64_C(0x8ff7fff000002fff));
    rig->context.pae = true;
    rig_mov_cr3(rig, 0x401003, 0x2fff);
    expect_hex(rig, "0243" "000200" "00ff7f" "0243" "fe0200" "000000");
    rig_free(rig);
}

/* docs/decisions/0309 */
static void tracing_that_ends_before_a_target_is_known_tells_the_source(void **state)
{
    static const struct { enum cofi_event_kind kind; unsigned cause; const char *packets; } cases[] = {
        {COFI_EV_EVENT, COFI_CAUSE_INTR, "tnt.8(T) cfe(1,20) fup(401010) tip.pgd()"},
        {COFI_EV_FAR, COFI_FAR_INT, "tnt.8(T) cfe(e,20) fup(401010) tip.pgd()"},
        {COFI_EV_FAR, COFI_FAR_SYSCALL, "tnt.8(T) cfe(f,20) tip.pgd()"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct pt_rig *rig = rig_new(NULL, all | EVENT_EN, 0x401000);
        rig_jcc(rig, 0x401000, 0x401010, true);
        struct cofi_event event = {.kind = (uint8_t)cases[i].kind, .cause = (uint8_t)cases[i].cause, .ip = 0x401010, .next = 0x401012,
                                   .vector = 32, .deferred = true, .context_set = true, .after = rig->context};
        event.after.cpl = 0;
        rig_event(rig, &event);
        cofi_unit_wrmsr(rig->unit, MSR_CTL, all | EVENT_EN);
        rig_expect(rig, "");
        cofi_unit_wrmsr(rig->unit, MSR_CTL, USER | BRANCH_EN);
        rig_expect(rig, cases[i].packets);
        cofi_unit_wrmsr(rig->unit, MSR_STATUS, UINT64_C(1) << 32);
        cofi_unit_wrmsr(rig->unit, MSR_CTL, user); /* the event's context is there: CPL 0 */
        rig_event(rig, &(struct cofi_event){.kind = COFI_EV_BOUNDARY, .ip = 0x600000});
        rig_expect(rig, "cbr(24)");
        rig_free(rig);
    }
}

/* Example 16: call, compressed returns, a loop, an indirect jump, a system call. */
/* [PTREF 12.16; SDM COFI Type for Branch Instructions; SDM Change of Flow Instruction (COFI) Tracing] */
static void example_16_flow(void **state)
{
    struct pt_rig *rig = rig_new(NULL, user, 0x401000);
    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        rig_near(rig, COFI_EV_CALL, 0x401005, 5, 0x401018);
        rig_near(rig, COFI_EV_RET, 0x401019, 1, 0x40100a);
        rig_jcc(rig, 0x40100c, 0x401005, i == 0);
        if (i == 0)
            continue;
    }
    rig_near(rig, COFI_EV_JMP_IND, 0x401015, 2, 0x40101a);
    rig_far(rig, COFI_FAR_SYSCALL, 0x401021, 0, 0);
    expect_hex(rig, "3c" "2d1a10" "01"); /* the example's 1e 04 in one packet */
    rig_free(rig);
}

/* Example 17: INT 80h, IRET, #UD, IRET, an interrupt that leaves. */
/* [PTREF 12.17] */
static void example_17_interrupts(void **state)
{
    struct pt_rig *rig = rig_new(NULL, user, 0x401000);
    (void)state;
    rig_far(rig, COFI_FAR_INT, 0x401001, 0x401007, 3);
    rig_far(rig, COFI_FAR_IRET, 0x401009, 0x401003, 3);
    rig_interrupt(rig, COFI_CAUSE_FAULT, 0x401004, 0x401007, 3);
    rig_far(rig, COFI_FAR_IRET, 0x401009, 0x401006, 3);
    rig_interrupt(rig, COFI_CAUSE_INTR, 0x401006, 0, 0);
    expect_hex(rig, "3d0110" "2d0710" "2d0310" "3d0410" "2d0710" "2d0610" "3d0610" "01");
    rig_free(rig);
}

/* Example 19: leaving and entering [401000,401020) in four ways. */
/* [PTREF 12.19; SDM Filtering by IP; SDM Trace Filtering; SDM Filter Enable (FilterEn)] */
static void example_19_filter(void **state)
{
    struct pt_rig *rig = malloc(sizeof *rig);
    (void)state;
    rig_open(rig, NULL);
    cofi_unit_wrmsr(rig->unit, MSR_ADDR0_A, 0x401000);
    cofi_unit_wrmsr(rig->unit, MSR_ADDR0_B, 0x40101f);
    rig_start(rig, user | ADDR_CFG(0, 1), 3, 0x401000);
    rig_jcc(rig, 0x401000, 0x401005, false);
    rig_jcc(rig, 0x401002, 0x401022, true);
    rig_near(rig, COFI_EV_JMP, 0x401024, 2, 0x401005);
    rig_near(rig, COFI_EV_JMP, 0x401005, 2, 0x401022);
    rig_near(rig, COFI_EV_JMP, 0x401024, 2, 0x401008);
    rig_near(rig, COFI_EV_JMP_IND, 0x401008, 2, 0x401030);
    /* MODE.Exec goes before every PGE [PTREF 6.0] */
    expect_hex(rig, "04" "01" "9901" "310510" "212210" "9901" "310810" "213010");
    rig_free(rig);
}

/* [PTREF 3.1; PTREF 3.3; SDM TraceStop Packet] */
static void filters_are_inclusive_at_both_ends_and_stop_wins(void **state)
{
    struct pt_rig *rig = malloc(sizeof *rig);
    (void)state;
    rig_open(rig, NULL);
    cofi_unit_wrmsr(rig->unit, MSR_ADDR0_A, 0x401000);
    cofi_unit_wrmsr(rig->unit, MSR_ADDR0_B, 0x401fff);
    cofi_unit_wrmsr(rig->unit, MSR_ADDR0_A + 2, 0x401800);
    cofi_unit_wrmsr(rig->unit, MSR_ADDR0_A + 3, 0x401800);
    rig_start(rig, user | ADDR_CFG(0, 1) | ADDR_CFG(1, 2), 3, 0x500000);
    tip(rig, 0x401000);
    tip(rig, 0x401fff);
    tip(rig, 0x402000);
    tip(rig, 0x400fff);
    rig_expect(rig, "mode.exec(64) tip.pge(401000) tip(401fff) tip.pgd(402000)");
    tip(rig, 0x401801);
    tip(rig, 0x401800);
    tip(rig, 0x401000);
    rig_expect(rig, "mode.exec(64) tip.pge(401801) tip.pgd(401800) stop");
    assert_int_equal(rig_msr(rig, MSR_STATUS) & 0x34, 0x20);
    rig_free(rig);
}

static void falling_out_of_a_filter_changes_nothing_until_a_branch(void **state)
{
    struct pt_rig *rig = malloc(sizeof *rig);
    (void)state;
    rig_open(rig, NULL);
    cofi_unit_wrmsr(rig->unit, MSR_ADDR0_A, 0x401000);
    cofi_unit_wrmsr(rig->unit, MSR_ADDR0_B, 0x401001);
    rig_start(rig, user | ADDR_CFG(0, 1), 3, 0x401000);
    rig_event(rig, &(struct cofi_event){.kind = COFI_EV_INSN, .ip = 0x401000, .next = 0x401002});
    rig_jcc(rig, 0x401002, 0x401000, false);
    tip(rig, 0x402000);
    rig_expect(rig, "tnt.8(N) tip.pgd(402000)");
    rig_free(rig);
}

static void enabling_outside_the_filter_makes_no_pge(void **state)
{
    struct pt_rig *rig = malloc(sizeof *rig);
    (void)state;
    rig_open(rig, NULL);
    cofi_unit_wrmsr(rig->unit, MSR_ADDR0_A, 0x401000);
    cofi_unit_wrmsr(rig->unit, MSR_ADDR0_B, 0x401001);
    rig->context.cpl = 3;
    cofi_unit_context(rig->unit, &rig->context, 0x500000);
    cofi_unit_wrmsr(rig->unit, MSR_CTL, all | ADDR_CFG(0, 1));
    rig_expect(rig, "psb pip(1000) cbr(24) mode.tsx(commit) psbend");
    rig_free(rig);
}

static void enabling_in_a_stop_range_stops_after_psb_plus(void **state)
{
    struct pt_rig *rig = malloc(sizeof *rig);
    (void)state;
    rig_open(rig, NULL);
    cofi_unit_wrmsr(rig->unit, MSR_ADDR0_A, 0x401000);
    cofi_unit_wrmsr(rig->unit, MSR_ADDR0_B, 0x401001);
    rig->context.cpl = 3;
    cofi_unit_context(rig->unit, &rig->context, 0x401000);
    cofi_unit_wrmsr(rig->unit, MSR_CTL, user | ADDR_CFG(0, 2));
    rig_expect(rig, "psb cbr(24) mode.tsx(commit) psbend stop");
    rig_free(rig);
}

/* [SDM Filtering by CR3; PTREF 2.5] */
static void pae_compares_cr3_down_to_bit_5(void **state)
{
    struct pt_rig *rig = malloc(sizeof *rig);
    (void)state;
    rig_open(rig, NULL);
    cofi_unit_wrmsr(rig->unit, MSR_CR3_MATCH, 0x2020);
    rig->context.cr3 = 0x2040;
    rig->context.pae = true;
    rig_start(rig, user | CR3_FILTER, 3, 0x401000);
    tip(rig, 0x402000);
    rig_expect(rig, "");
    rig_mov_cr3(rig, 0x402000, 0x2020);
    rig_expect(rig, "mode.exec(64) tip.pge(402003)");
    rig_free(rig);
    rig = malloc(sizeof *rig);
    rig_open(rig, NULL);
    cofi_unit_wrmsr(rig->unit, MSR_CR3_MATCH, 0x2020);
    rig->context.cr3 = 0x2040;
    rig_start(rig, user | CR3_FILTER, 3, 0x401000);
    tip(rig, 0x402000);
    rig_expect(rig, "tip(402000)");
    rig_free(rig);
}

/* [SDM Packet Decoding of RIP versus LIP] */
static void rip_payloads_and_filters_subtract_the_cs_base(void **state)
{
    struct pt_rig *rig = malloc(sizeof *rig);
    (void)state;
    rig_open(rig, &(struct cofi_unit_config){.model = "skylake"});
    cofi_unit_wrmsr(rig->unit, MSR_ADDR0_A, 0x1000);
    cofi_unit_wrmsr(rig->unit, MSR_ADDR0_B, 0x1fff);
    rig->context.mode = 32;
    rig->context.cs_base = 0x400000;
    rig_start(rig, user | ADDR_CFG(0, 1), 3, 0x500000);
    tip(rig, 0x401234);
    tip(rig, 0x401000);
    tip(rig, 0x402000);
    rig_expect(rig, "mode.exec(32) tip.pge(1234) tip(1000) tip.pgd(2000)");
    rig_free(rig);
    rig = malloc(sizeof *rig); /* "all" has linear payloads */
    rig_open(rig, NULL);
    rig->context.mode = 32;
    rig->context.cs_base = 0x400000;
    rig_start(rig, user, 3, 0x500000);
    tip(rig, 0x401234);
    rig_expect(rig, "tip(401234)");
    rig_free(rig);
}

/* ---- TNT, RET, deferred TIPs ---- */

static void six_bits_fill_a_short_tnt(void **state)
{
    struct pt_rig *rig = rig_new(NULL, user, 0x401000);
    (void)state;
    for (unsigned i = 0; i < 6; i++)
        rig_jcc(rig, 0x401000, 0x401000, i == 0);
    expect_hex(rig, "c0");
    rig_free(rig);
}

static void forty_seven_bits_fill_a_long_tnt(void **state)
{
    struct pt_rig *rig = rig_new(&(struct cofi_unit_config){.long_tnt = true}, user, 0x401000);
    (void)state;
    for (unsigned i = 0; i < 47; i++)
        rig_jcc(rig, 0x401000, 0x401000, true);
    expect_hex(rig, "02a3ffffffffffff");
    for (unsigned i = 0; i < 10; i++)
        rig_jcc(rig, 0x401000, 0x401000, i % 2 == 0);
    tip(rig, 0x402000);
    expect_hex(rig, "02a3aa0600000000" "2d0020");
    rig_jcc(rig, 0x401000, 0x401000, true);
    tip(rig, 0x402000);
    expect_hex(rig, "06" "2d0020"); /* few bits: the short form */
    rig_free(rig);
}

/* [SDM TNT Examples with Deferred TIPs], both columns. */
static void deferred_example(bool deferred, const char *packets)
{
    struct pt_rig *rig = rig_new(&(struct cofi_unit_config){.deferred_tips = deferred}, all, 0x1000);
    rig_jcc(rig, 0x1004, 0x1400, false);
    rig_near(rig, COFI_EV_JMP_IND, 0x1008, 2, 0x1308);
    rig_jcc(rig, 0x130c, 0x1400, false);
    rig_jcc(rig, 0x1314, 0x1500, true);
    rig_jcc(rig, 0x1504, 0x1400, false);
    rig_near(rig, COFI_EV_JMP_IND, 0x1508, 2, 0x1100);
    rig_jcc(rig, 0x1104, 0x1000, false);
    rig_interrupt(rig, COFI_CAUSE_INTR, 0x110c, 0xcc00, 0);
    rig_expect(rig, packets);
    rig_free(rig);
}

static void sdm_example_of_tips_not_deferred(void **state)
{
    (void)state;
    deferred_example(false, "tnt.8(N) tip(1308) tnt.8(NTN) tip(1100) tnt.8(N) fup(110c) tip(cc00)");
}

/* [PTREF 7.3; PTREF 12.18; SDM Deferred TIPs] */
static void sdm_example_of_deferred_tips(void **state)
{
    (void)state;
    deferred_example(true, "tnt.8(NNTNN) tip(1308) tip(1100) fup(110c) tip(cc00)");
}

static void uncompressed_returns_are_not_deferred(void **state)
{
    struct pt_rig *rig = rig_new(&(struct cofi_unit_config){.deferred_tips = true}, user, 0x401000);
    (void)state;
    rig_jcc(rig, 0x401000, 0x401000, true);
    rig_near(rig, COFI_EV_JMP_IND, 0x401002, 2, 0x402000);
    rig_near(rig, COFI_EV_RET, 0x402000, 1, 0x403000);
    rig_expect(rig, "tnt.8(T) tip(402000) tip(403000)");
    rig_free(rig);
}

/* [PTREF 7.1; SDM Indirect Transfer Compression for Returns (RET)] */
static void ret_stack_has_64_entries(void **state)
{
    struct pt_rig *rig = rig_new(NULL, user, 0x401000);
    (void)state;
    for (unsigned i = 0; i < 65; i++)
        rig_near(rig, COFI_EV_CALL, 0x401000 + 16 * i, 5, 0x401000 + 16 * (i + 1));
    for (unsigned i = 65; i-- > 0;)
        rig_near(rig, COFI_EV_RET, 0x402000, 1, 0x401005 + 16 * i);
    const char *text = rig_packets(rig);
    assert_int_equal(strncmp(text, "tnt.8(TTTTTT) ", 14), 0);
    assert_string_equal(text + strlen(text) - 24, " tnt.8(TTTT) tip(401005)");
    rig_free(rig);
}

static void call_to_the_next_instruction_is_not_pushed(void **state)
{
    struct pt_rig *rig = rig_new(NULL, user, 0x401000);
    (void)state;
    rig_near(rig, COFI_EV_CALL, 0x401000, 5, 0x402000);
    rig_near(rig, COFI_EV_CALL, 0x402000, 5, 0x402005);
    rig_near(rig, COFI_EV_RET, 0x402005, 1, 0x401005); /* its own return address was popped by other means */
    tip(rig, 0x403000);
    rig_expect(rig, "tnt.8(T) tip(403000)");
    rig_free(rig);
}

/* [PTREF 7.2; PTREF 9.9] */
static void ret_after_a_mismatch_is_not_compressed(void **state)
{
    struct pt_rig *rig = rig_new(NULL, user, 0x401000);
    (void)state;
    rig_near(rig, COFI_EV_CALL, 0x401000, 5, 0x402000);
    rig_near(rig, COFI_EV_CALL, 0x402000, 5, 0x403000);
    rig_near(rig, COFI_EV_RET, 0x403000, 1, 0x404000);
    rig_near(rig, COFI_EV_RET, 0x404000, 1, 0x401005);
    rig_expect(rig, "tip(404000) tip(401005)");
    rig_free(rig);
}

static void dis_retc_and_dis_tnt_leave_returns_uncompressed(void **state)
{
    static const uint64_t bits[] = {DIS_RETC, DIS_TNT};
    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        struct pt_rig *rig = rig_new(NULL, user | bits[i], 0x401000);
        rig_near(rig, COFI_EV_CALL, 0x401000, 5, 0x402000);
        rig_near(rig, COFI_EV_RET, 0x402000, 1, 0x401005);
        rig_expect(rig, "tip(401005)");
        rig_free(rig);
    }
}

static void dis_tnt_suppresses_bits(void **state)
{
    struct pt_rig *rig = rig_new(NULL, user | DIS_TNT, 0x401000);
    (void)state;
    for (unsigned i = 0; i < 20; i++)
        rig_jcc(rig, 0x401000, 0x401000, true);
    tip(rig, 0x402000);
    rig_expect(rig, "tip(402000)");
    rig_free(rig);
}

static void leaving_context_forgets_the_calls(void **state)
{
    struct pt_rig *rig = rig_new(NULL, user, 0x401000);
    (void)state;
    rig_near(rig, COFI_EV_CALL, 0x401000, 5, 0x402000);
    rig_far(rig, COFI_FAR_SYSCALL, 0x402000, 0, 0);
    rig_far(rig, COFI_FAR_SYSRET, 0, 0x402002, 3);
    rig_near(rig, COFI_EV_RET, 0x402002, 1, 0x401005);
    rig_expect(rig, "tip.pgd() mode.exec(64) tip.pge(402002) tip(401005)");
    rig_free(rig);
}

static void ret_in_32_bit_mode_compares_32_bits(void **state)
{
    struct pt_rig *rig = rig_new(NULL, all, 0x401000);
    (void)state;
    rig_near(rig, COFI_EV_CALL, UINT64_C(0x500401000), 5, 0x402000);
    struct cofi_event mode = {.kind = COFI_EV_MOV_CR0, .ip = 0x402000, .next = 0x402003, .context_set = true,
                              .after = rig->context};
    mode.after.mode = 32;
    rig_event(rig, &mode);
    rig_near(rig, COFI_EV_RET, 0x402003, 1, 0x401005);
    tip(rig, 0x403000);
    rig_expect(rig, "tnt.8(T) tip(403000)");
    rig_free(rig);
}

/* ---- PSB+ ---- */

/* [PTREF 5.11; SDM Packets in PSB+; SDM Decoder Synchronization (PSB+)] */
static void psb_plus_in_a_guest_has_all_its_members(void **state)
{
    struct pt_rig *rig = rig_new(&(struct cofi_unit_config){.tsc_art_num = 10, .tsc_art_den = 1}, 0, 0x401000);
    (void)state;
    rig->context.vmx = 2;
    rig->context.vmcs = 0x77000;
    rig->context.intx = true;
    rig->context.cpl = 0;
    cofi_unit_wrmsr(rig->unit, MSR_STATUS, UINT64_C(2040) << 32);
    rig_start(rig, all | TSC_EN | MTC_EN, 0, 0x401000);
    tip(rig, 0x402000);
    tip(rig, 0x403000);
    rig_expect(rig, "psb tsc(0) tma(0,0) pip(1000,nr) vmcs(77000) cbr(24) mode.tsx(begin) mode.exec(64) fup(401000) psbend "
                    "tip(402000) tip(403000)");
    rig_free(rig);
}

static void psb_plus_in_a_guest_that_conceals_vmx_has_no_vmcs(void **state)
{
    struct pt_rig *rig = rig_new(NULL, 0, 0x401000);
    (void)state;
    rig->context.vmx = 2;
    rig->context.conceal = COFI_CONCEAL_VMX;
    rig->context.cpl = 0;
    cofi_unit_context(rig->unit, &rig->context, 0x401000);
    cofi_unit_wrmsr(rig->unit, MSR_CTL, all);
    rig_expect(rig, "psb pip(1000) cbr(24) mode.tsx(commit) psbend mode.exec(64) tip.pge(401000)");
    rig_free(rig);
}

/* Timing packets alone reach the period, too: with packets off no address is needed [PTREF 5.11]. */
static void psb_plus_comes_between_timing_packets_while_packets_are_off(void **state)
{
    struct pt_rig *rig = rig_new(&(struct cofi_unit_config){.tsc_art_num = 1, .tsc_art_den = 1}, user | MTC_EN, 0x401000);
    (void)state;
    rig_far(rig, COFI_FAR_SYSCALL, 0x401000, 0xffffffff81000000, 0);
    for (unsigned i = 1; i <= 3000; i++)
        rig_clock(rig, i, 0);
    const char *psb = strstr(rig_packets(rig), "psb");
    assert_non_null(psb);
    assert_memory_equal(psb, "psb cbr(24) psbend mtc(", 23);
    assert_non_null(strstr(psb + 12, " psb "));
    rig_free(rig);
    rig = rig_new(&(struct cofi_unit_config){.tsc_art_num = 1, .tsc_art_den = 1}, user | MTC_EN, 0x401000);
    for (unsigned i = 1; i <= 3000; i++) /* with packets on, the FUP's address must come first */
        rig_clock(rig, i, 0);
    assert_null(strstr(rig_packets(rig), "psb"));
    rig_jcc(rig, 0x401002, 0x401000, true);
    assert_non_null(strstr(rig_packets(rig), "fup(401002) psbend"));
    rig_free(rig);
}

static void no_psb_between_init_and_sipi(void **state)
{
    struct pt_rig *rig = rig_new(NULL, 0, 0x401000);
    (void)state;
    cofi_unit_wrmsr(rig->unit, MSR_STATUS, UINT64_C(2040) << 32);
    rig_start(rig, all, 3, 0x401000); /* 11 bytes: a PSB is due */
    rig_interrupt(rig, COFI_CAUSE_INIT_AP, 0x401000, 0, 0);
    rig_event(rig, &(struct cofi_event){.kind = COFI_EV_BOUNDARY, .ip = 0x9000});
    struct cofi_event sipi = {.kind = COFI_EV_EVENT, .cause = COFI_CAUSE_SIPI, .ip = 0x9000, .target = 0x9000, .vector = 9,
                              .context_set = true, .after = rig->context};
    sipi.after.mode = 16;
    rig_event(rig, &sipi);
    assert_string_equal(strstr(rig_packets(rig), " psbend "), " psbend fup(401000) pip(1000) mode.exec(16) tip(9000)");
    rig_free(rig);
}

/* [PTREF 6.8; PTREF 12.22] */
static void psb_goes_before_the_event_and_never_into_it(void **state)
{
    (void)state;
    for (unsigned count = 1980; count < 2048; count++) { /* wherever the period ends */
        struct pt_rig *rig = rig_new(NULL, 0, 0x401000);
        cofi_unit_wrmsr(rig->unit, MSR_STATUS, (uint64_t)count << 32);
        rig_start(rig, all, 3, 0x401000);
        for (unsigned i = 0; i < 6; i++) {
            rig_interrupt(rig, COFI_CAUSE_INTR, 0x401000, 0x500000, 0);
            rig_far(rig, COFI_FAR_IRET, 0x500000, 0x401000, 3);
        }
        const char *psb = strstr(rig_packets(rig), "psb ");
        if (psb && psb != rig->text)
            assert_true(psb >= rig->text + 12 && !strncmp(psb - 12, "tip(", 4));
        rig_free(rig);
    }
}

/* ---- overflow ---- */

/* [SDM Internal Buffer Overflow; PTREF 6.6] */
static void bits_before_an_overflow_belong_before_it(void **state)
{
    struct pt_rig *rig = rig_new(NULL, user, 0x401000);
    (void)state;
    rig_jcc(rig, 0x401000, 0x401010, true);
    rig_event(rig, &(struct cofi_event){.kind = COFI_EV_OVERFLOW_HINT});
    rig_jcc(rig, 0x401010, 0x401020, true);
    rig_expect(rig, "tnt.8(T) ovf fup(401010)");
    rig_free(rig);
}

/* TIPs until the buffer of so many bytes has no room for a far transfer's packets. */
static void fill(struct pt_rig *rig, uint64_t bytes)
{
    uint64_t before = cofi_unit_bytes(rig->unit);
    while (cofi_unit_bytes(rig->unit) - before < bytes - 7)
        tip(rig, (cofi_unit_bytes(rig->unit) & 1) ? 0x401000 : UINT64_C(0x7fff00000000));
    while (cofi_unit_bytes(rig->unit) - before < bytes - 1)
        rig_jcc(rig, 0x401000, 0x401000, true);
}

/* [SDM Overflow Impact on Enables] */
static void overflow_resumes_as_an_enable_if_the_mode_changed(void **state)
{
    struct pt_rig *rig = rig_new(&(struct cofi_unit_config){.buffer_bytes = 256}, all, 0x401000);
    (void)state;
    fill(rig, 256);
    struct cofi_event event = {.kind = COFI_EV_FAR, .cause = COFI_FAR_RET, .ip = 0x401000, .next = 0x401002, .target = 0x500000,
                               .context_set = true, .vector = COFI_NO_VECTOR, .after = rig->context};
    event.after.mode = 32;
    rig_event(rig, &event); /* lost */
    rig_packets(rig);
    rig_jcc(rig, 0x500000, 0x500010, true);
    rig_expect(rig, "ovf pip(1000) mode.tsx(commit) mode.exec(32) tip.pge(500000)");
    rig_free(rig);
}

static void a_small_buffer_overflows_and_drains_with_the_cycles(void **state)
{
    struct pt_rig *rig = rig_new(&(struct cofi_unit_config){.buffer_bytes = 256, .drain_bytes = 1, .drain_cycles = 1}, user, 0x401000);
    (void)state;
    for (unsigned i = 0; i < 60; i++)
        rig_near(rig, COFI_EV_JMP_IND, 0x401000, 2, i & 1 ? 0x401000 : 0x7fff00000000);
    rig_clock(rig, 0, 400);
    rig_near(rig, COFI_EV_JMP_IND, 0x401abc, 2, 0x402000);
    const char *text = rig_packets(rig);
    assert_non_null(strstr(text, " ovf fup(401abc) tip(402000)"));
    assert_null(strstr(strstr(text, "ovf") + 1, "ovf"));
    rig_free(rig);
}

static void disabling_in_an_overflow_tells_it(void **state)
{
    struct pt_rig *rig = rig_new(NULL, user, 0x401000);
    (void)state;
    rig_event(rig, &(struct cofi_event){.kind = COFI_EV_OVERFLOW_HINT});
    cofi_unit_wrmsr(rig->unit, MSR_CTL, 0);
    rig_expect(rig, "ovf");
    rig_free(rig);
}

static void tracestop_in_an_overflow_still_stops(void **state)
{
    struct pt_rig *rig = malloc(sizeof *rig);
    (void)state;
    rig_open(rig, NULL);
    cofi_unit_wrmsr(rig->unit, MSR_ADDR0_A, 0x600000);
    cofi_unit_wrmsr(rig->unit, MSR_ADDR0_B, 0x600000);
    rig_start(rig, user | ADDR_CFG(0, 2), 3, 0x401000);
    rig_far(rig, COFI_FAR_SYSCALL, 0x401000, 0, 0);
    rig_packets(rig);
    rig_event(rig, &(struct cofi_event){.kind = COFI_EV_OVERFLOW_HINT});
    rig_far(rig, COFI_FAR_SYSRET, 0, 0x600000, 3);
    rig_expect(rig, "ovf stop");
    assert_int_equal(rig_msr(rig, MSR_STATUS) & 0x34, 0x20);
    rig_free(rig);
}

/* ---- the narrow door ---- */

static void the_narrow_door_makes_the_same_bytes(void **state)
{
    /* PSBs would stand at other places, for only TIP tells the narrow door an address */
    struct pt_rig *wide = rig_new(NULL, user | PSB_FREQ(15), 0x401000), *narrow = rig_new(NULL, user | PSB_FREQ(15), 0x401000);
    (void)state;
    for (unsigned i = 0; i < 20000; i++) {
        uint64_t bits = i * UINT64_C(0x9e3779b97f4a7c15), target = 0x401000 + (bits >> 40);
        unsigned n = i % 65;
        for (unsigned k = 0; k < i % 7; k++) { /* by the wide door in between */
            rig_jcc(wide, 0x401000, 0x401010, true);
            rig_jcc(narrow, 0x401000, 0x401010, true);
        }
        for (unsigned k = n; k-- > 0;)
            rig_jcc(wide, 0x401000, 0x401010, bits >> k & 1);
        cofi_unit_tnt(narrow->unit, bits, n);
        rig_near(wide, COFI_EV_JMP_IND, 0x401000, 2, target);
        cofi_unit_tip(narrow->unit, target);
    }
    cofi_unit_drain(wide->unit);
    cofi_unit_drain(narrow->unit);
    assert_int_equal(wide->size, narrow->size);
    assert_memory_equal(wide->bytes, narrow->bytes, wide->size);
    rig_free(wide);
    rig_free(narrow);
}

/* ---- errata ---- */

static struct pt_rig *with_erratum(uint64_t erratum, uint64_t ctl)
{
    return rig_new(&(struct cofi_unit_config){.errata = erratum, .tsc_offset = erratum == COFI_ERRATUM_SKZ84}, ctl, 0x401000);
}

/* [ERR BDM70; PTREF 9.8] */
static void erratum_bdm70_psb_plus_at_enable_has_fup(void **state)
{
    struct pt_rig *rig = with_erratum(COFI_ERRATUM_BDM70, 0);
    (void)state;
    cofi_unit_wrmsr(rig->unit, MSR_CTL, user);
    rig_expect(rig, "psb cbr(24) mode.tsx(commit) mode.exec(64) fup(401000) psbend mode.exec(64) tip.pge(401000)");
    rig_free(rig);
}

/* [ERR BDM64] */
static void erratum_bdm64_target_before_an_abort_is_wrong(void **state)
{
    struct pt_rig *rig = with_erratum(COFI_ERRATUM_BDM64, user);
    (void)state;
    rig_event(rig, &(struct cofi_event){.kind = COFI_EV_XBEGIN, .ip = 0x401000, .next = 0x401006});
    tip(rig, 0x402000);
    tip(rig, 0x403000);
    rig_event(rig, &(struct cofi_event){.kind = COFI_EV_XABORT, .ip = 0x403000, .target = 0x404000});
    tip(rig, 0x405000);
    rig_expect(rig, "mode.tsx(begin) fup(401000) tip(402000) tip(403010) mode.tsx(abort) fup(403000) tip(404000) tip(405000)");
    rig_free(rig);
}

/* A TIP that waits is not of the next trace. */
static void erratum_bdm64_a_tip_that_waits_ends_with_the_trace(void **state)
{
    struct pt_rig *rig = with_erratum(COFI_ERRATUM_BDM64, user);
    (void)state;
    rig_event(rig, &(struct cofi_event){.kind = COFI_EV_XBEGIN, .ip = 0x401000, .next = 0x401006});
    tip(rig, 0x402000);
    cofi_unit_reset(rig->unit, COFI_RESET_WARM);
    rig_packets(rig);
    cofi_unit_wrmsr(rig->unit, MSR_CTL, user);
    tip(rig, 0x403000);
    rig_event(rig, &(struct cofi_event){.kind = COFI_EV_XEND, .ip = 0x403000, .next = 0x403003});
    assert_null(strstr(rig_packets(rig), " tip(402000)"));
    rig_free(rig);
}

/* [ERR SKD007] */
static void erratum_skd007_ovf_overwrites_the_cyc(void **state)
{
    struct pt_rig *rig = with_erratum(COFI_ERRATUM_SKD007, user | CYC_EN);
    (void)state;
    rig_event(rig, &(struct cofi_event){.kind = COFI_EV_OVERFLOW_HINT});
    rig_clock(rig, 0, 100);
    rig_jcc(rig, 0x401000, 0x401010, true);
    expect_hex(rig, "27" "02f3" "7d001040000000"); /* 27 06 is cyc 100 */
    rig_free(rig);
}

/* [ERR SKD010] */
static void erratum_skd010_no_fup_after_ovf(void **state)
{
    struct pt_rig *rig = with_erratum(COFI_ERRATUM_SKD010, user);
    (void)state;
    rig_event(rig, &(struct cofi_event){.kind = COFI_EV_OVERFLOW_HINT});
    tip(rig, 0x402000);
    rig_expect(rig, "ovf tip(402000)");
    rig_free(rig);
}

/* [ERR SKD022] */
static void erratum_skd022_fup_at_vm_entry(void **state)
{
    struct pt_rig *rig = with_erratum(COFI_ERRATUM_SKD022, all);
    (void)state;
    rig_event(rig, &(struct cofi_event){.kind = COFI_EV_FAR, .cause = COFI_FAR_VMENTRY, .ip = 0x401000, .next = 0x401003,
                                        .target = 0x500000, .msr = MSR_CTL, .vector = COFI_NO_VECTOR});
    rig_expect(rig, "fup(401000) tip.pgd()");
    rig_free(rig);
}

/* [ERR SKL014] */
static void erratum_skl014_direct_branch_out_has_no_ip(void **state)
{
    struct pt_rig *rig = malloc(sizeof *rig);
    (void)state;
    rig_open(rig, &(struct cofi_unit_config){.errata = COFI_ERRATUM_SKL014});
    cofi_unit_wrmsr(rig->unit, MSR_ADDR0_A, 0x401000);
    cofi_unit_wrmsr(rig->unit, MSR_ADDR0_B, 0x401fff);
    rig_start(rig, user | ADDR_CFG(0, 1), 3, 0x401000);
    rig_near(rig, COFI_EV_JMP, 0x401000, 5, 0x500000);
    rig_expect(rig, "tip.pgd()");
    rig_free(rig);
}

/* [ERR APL12; ERR APL11] */
static void erratum_apl12_stray_fup_and_apl11_pgd_after_ovf(void **state)
{
    struct pt_rig *rig = rig_new(&(struct cofi_unit_config){.errata = COFI_ERRATUM_APL12 | COFI_ERRATUM_APL11,
                                                          .buffer_bytes = 256}, user, 0x401000);
    (void)state;
    fill(rig, 256);
    rig_interrupt(rig, COFI_CAUSE_INTR, 0x401000, 0x500000, 0); /* lost */
    cofi_unit_drain(rig->unit);
    rig_event(rig, &(struct cofi_event){.kind = COFI_EV_BOUNDARY, .ip = 0x500000});
    const char *text = rig_packets(rig);
    assert_string_equal(strstr(text, "ovf"), "ovf tip.pgd() fup(500000)");
    rig_free(rig);
}

/* [ERR SKL168] */
static void erratum_skl168_cycles_before_a_psb_are_lost(void **state)
{
    struct pt_rig *rig = malloc(sizeof *rig);
    (void)state;
    rig_open(rig, &(struct cofi_unit_config){.errata = COFI_ERRATUM_SKL168});
    cofi_unit_wrmsr(rig->unit, MSR_STATUS, UINT64_C(2047) << 32);
    rig_start(rig, user | CYC_EN | TSC_EN, 3, 0x401000);
    rig_clock(rig, 50, 50);
    tip(rig, 0x402000);
    assert_null(strstr(rig_packets(rig), "cyc"));
    rig_free(rig);
}

/* [ERR SKZ84] */
static void erratum_skz84_tma_is_a_byte_longer(void **state)
{
    struct pt_rig *rig = with_erratum(COFI_ERRATUM_SKZ84, 0);
    (void)state;
    cofi_unit_wrmsr(rig->unit, MSR_CTL, user | TSC_EN | MTC_EN);
    const char *tma = strstr(hex(rig), "0273");
    assert_non_null(tma);
    assert_int_equal(strncmp(tma, "0273" "0000" "01" "0000" "00" "0203", 20), 0);
    rig_free(rig);
}

/* [ERR BDM106] */
static void erratum_bdm106_branch_en_0_faults(void **state)
{
    struct pt_rig *rig = with_erratum(COFI_ERRATUM_BDM106, 0);
    (void)state;
    assert_int_equal(cofi_unit_wrmsr(rig->unit, MSR_CTL, TRACE_EN | USER), COFI_ERR_GP);
    rig_free(rig);
}

/* [ERR GOLDMONT] */
static void erratum_goldmont_fup_at_an_indirect_branch_is_behind_it(void **state)
{
    (void)state;
    for (int wrong = 0; wrong < 2; wrong++) {
        struct pt_rig *rig = with_erratum(wrong ? COFI_ERRATUM_GOLDMONT : 0, all);
        struct cofi_event event = {.kind = COFI_EV_EVENT, .cause = COFI_CAUSE_INTR, .ip = 0x401010, .next = 0x401013, .target = 0x500000,
                                   .vector = COFI_NO_VECTOR};
        rig_event(rig, &event);
        event.next = 0; /* the next instruction is no indirect branch */
        rig_event(rig, &event);
        rig_expect(rig, wrong ? "fup(401013) tip(500000) fup(401010) tip(500000)" : "fup(401010) tip(500000) fup(401010) tip(500000)");
        rig_free(rig);
    }
}

/* ---- explanations ---- */

struct story {
    char text[2000];
};

static void hear(void *opaque, const struct cofi_explain *line)
{
    struct story *story = opaque;
    size_t n = strlen(story->text);
    snprintf(story->text + n, sizeof story->text - n, "%s: %s %s\n",
             line->packet ? cofi_packet_name(line->packet->kind) : "-", line->rule, line->tag);
}

static void every_event_is_explained(void **state)
{
    struct story story = {""};
    struct pt_rig *rig = rig_new(&(struct cofi_unit_config){.explain = hear, .opaque = &story}, user, 0x401000);
    (void)state;
    story.text[0] = 0;
    rig_jcc(rig, 0x401000, 0x401010, true);
    rig_near(rig, COFI_EV_JMP, 0x401010, 2, 0x401020);
    rig_far(rig, COFI_FAR_SYSCALL, 0x401020, 0x500000, 0);
    rig_jcc(rig, 0x500000, 0x500010, true);
    assert_string_equal(story.text,
                        "-: one bit into the TNT buffer [SDM Taken/Not-taken (TNT) Packet]\n"
                        "-: no packet: this makes none [SDM Packet Generation under Different Enable Conditions]\n"
                        "tnt.8: the next packet forces out the bits before it [SDM Packet Relationships and Ordering]\n"
                        "tip.pgd: PacketEn became 0 [SDM Packet Generation Disable (TIP.PGD)]\n"
                        "-: no packet: ContextEn is 0 [SDM Context Enable (ContextEn)]\n");
    rig_free(rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test(name)
        T(example_1_tnt_and_pgd), T(start_is_psb_psbend_mode_and_pge), T(example_2_ip_compression),
        T(example_3_asynchronous_branch), T(example_4_asynchronous_branch_with_cr3),
        T(example_6_overflow_with_packets_is_fup), T(example_6_overflow_without_packets_is_pge_later),
        T(example_7_transactions), T(example_8_ptwrite), T(example_9_event_trace), T(example_12_power), T(example_13_blocks),
        T(blocks_of_4_byte_items), T(bits_in_a_block_close_it), T(example_14_triggers), T(an_input_fires_the_triggers_that_have_it),
        T(example_16_flow), T(example_17_interrupts),
        T(a_new_if_is_told_even_if_the_byte_was_sent_last),
        T(pip_has_bits_11_to_5_under_pae_only), T(tracing_that_ends_before_a_target_is_known_tells_the_source),
        T(psb_plus_comes_between_timing_packets_while_packets_are_off), T(example_19_filter),
        T(filters_are_inclusive_at_both_ends_and_stop_wins), T(falling_out_of_a_filter_changes_nothing_until_a_branch),
        T(enabling_outside_the_filter_makes_no_pge), T(enabling_in_a_stop_range_stops_after_psb_plus),
        T(pae_compares_cr3_down_to_bit_5), T(rip_payloads_and_filters_subtract_the_cs_base), T(six_bits_fill_a_short_tnt),
        T(forty_seven_bits_fill_a_long_tnt), T(sdm_example_of_tips_not_deferred), T(sdm_example_of_deferred_tips),
        T(uncompressed_returns_are_not_deferred), T(ret_stack_has_64_entries), T(call_to_the_next_instruction_is_not_pushed),
        T(ret_after_a_mismatch_is_not_compressed), T(dis_retc_and_dis_tnt_leave_returns_uncompressed), T(dis_tnt_suppresses_bits),
        T(leaving_context_forgets_the_calls), T(ret_in_32_bit_mode_compares_32_bits), T(psb_plus_in_a_guest_has_all_its_members),
        T(psb_plus_in_a_guest_that_conceals_vmx_has_no_vmcs), T(no_psb_between_init_and_sipi),
        T(psb_goes_before_the_event_and_never_into_it), T(bits_before_an_overflow_belong_before_it),
        T(overflow_resumes_as_an_enable_if_the_mode_changed), T(a_small_buffer_overflows_and_drains_with_the_cycles),
        T(disabling_in_an_overflow_tells_it), T(tracestop_in_an_overflow_still_stops), T(the_narrow_door_makes_the_same_bytes),
        T(erratum_bdm70_psb_plus_at_enable_has_fup), T(erratum_bdm64_target_before_an_abort_is_wrong),
        T(erratum_bdm64_a_tip_that_waits_ends_with_the_trace), T(erratum_skd007_ovf_overwrites_the_cyc), T(erratum_skd010_no_fup_after_ovf),
        T(erratum_skd022_fup_at_vm_entry),
        T(erratum_skl014_direct_branch_out_has_no_ip), T(erratum_apl12_stray_fup_and_apl11_pgd_after_ovf),
        T(erratum_skl168_cycles_before_a_psb_are_lost), T(erratum_skz84_tma_is_a_byte_longer),
        T(erratum_bdm106_branch_en_0_faults), T(erratum_goldmont_fup_at_an_indirect_branch_is_behind_it), T(every_event_is_explained),
    };
    return cmocka_run_group_tests_name("PT packets", tests, NULL, NULL);
}
