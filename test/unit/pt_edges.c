/* SPDX-License-Identifier: MIT
 * What rules leave behind: state that must not outlive a PSB, an overflow, the end of tracing or a reset, and limits to the bit.
 * Each test fails when its rule is taken out of the unit. */
#include "pt_memory.h"
#include "pt_rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const uint64_t user = TRACE_EN | USER | BRANCH_EN, all = TRACE_EN | USER | OS | BRANCH_EN;
enum { IN = 0x401000, OUT = 0x500000 };
#define KERNEL UINT64_C(0xffffffff81000000)

static void filter(struct pt_rig *rig, uint64_t base, uint64_t limit)
{
    assert_int_equal(cofi_unit_wrmsr(rig->unit, MSR_ADDR0_A, base), 0);
    assert_int_equal(cofi_unit_wrmsr(rig->unit, MSR_ADDR0_B, limit), 0);
}

static void tip(struct pt_rig *rig, uint64_t target) { rig_near(rig, COFI_EV_JMP_IND, IN, 2, target); }
static void simple(struct pt_rig *rig, enum cofi_event_kind kind) { rig_event(rig, &(struct cofi_event){.kind = (uint8_t)kind, .ip = IN}); }
static void ctl(struct pt_rig *rig, uint64_t value) { assert_int_equal(cofi_unit_wrmsr(rig->unit, MSR_CTL, value), 0); }
static void status(struct pt_rig *rig, uint64_t value) { assert_int_equal(cofi_unit_wrmsr(rig->unit, MSR_STATUS, value), 0); }

/* The context as it is with another mode, CR3 or transaction, by an instruction that is no branch. */
static void become(struct pt_rig *rig, unsigned mode, uint64_t cr3)
{
    struct cofi_event event = {.kind = COFI_EV_STATE, .ip = IN, .next = IN + 2, .context_set = true, .after = rig->context};
    event.after.mode = (uint8_t)mode;
    event.after.cr3 = cr3;
    rig_event(rig, &event);
}

static void far_to(struct pt_rig *rig, uint64_t target, unsigned mode)
{
    rig->context.mode = (uint8_t)mode;
    rig_far(rig, COFI_FAR_JMP, IN, target, -1);
}

/* A call at IN and its return, with something between. */
static void call(struct pt_rig *rig) { rig_near(rig, COFI_EV_CALL, IN, 5, IN + 0x100); }
static void ret(struct pt_rig *rig) { rig_near(rig, COFI_EV_RET, IN + 0x100, 1, IN + 5); }

/* ---- the RET stack ---- */

/* [PTREF 7.1] */
static void no_return_is_compressed_across_a_psb(void **state)
{
    struct pt_rig *rig = rig_new(NULL, user, IN);
    (void)state;
    call(rig);
    simple(rig, COFI_EV_PSB_HINT);
    ret(rig);
    rig_expect(rig, "psb cbr(24) mode.tsx(commit) mode.exec(64) fup(401000) psbend tip(401005)");
    rig_free(rig);
}

static void no_return_is_compressed_across_an_overflow(void **state)
{
    struct pt_rig *rig = rig_new(NULL, user, IN);
    (void)state;
    call(rig);
    simple(rig, COFI_EV_OVERFLOW_HINT);
    ret(rig);
    rig_expect(rig, "ovf fup(401100) tip(401005)");
    rig_free(rig);
}

/* Near branches, so that nothing but the change of PacketEn forgets. */
static void no_return_is_compressed_across_a_time_outside_of_the_filter(void **state)
{
    struct cofi_unit_config pop = {.returns_pop = true};
    struct pt_rig *rig = malloc(sizeof *rig);
    (void)state;
    rig_open(rig, &pop);
    filter(rig, IN, IN + 0xfff);
    rig_start(rig, user | ADDR_CFG(0, 1), 3, IN);
    call(rig);
    rig_near(rig, COFI_EV_JMP, IN + 0x100, 5, OUT);
    rig_near(rig, COFI_EV_CALL, OUT, 5, OUT + 64); /* not pushed: packets are off */
    rig_near(rig, COFI_EV_JMP, OUT + 64, 5, IN + 0x100);
    ret(rig);
    rig_expect(rig, "tip.pgd(500000) mode.exec(64) tip.pge(401100) tip(401005)");
    rig_free(rig);
}

static void an_abort_forgets_the_calls(void **state)
{
    struct pt_rig *rig = rig_new(NULL, user, IN);
    (void)state;
    call(rig);
    simple(rig, COFI_EV_XBEGIN);
    rig_event(rig, &(struct cofi_event){.kind = COFI_EV_XABORT, .ip = IN, .target = IN + 0x100});
    ret(rig);
    rig_expect(rig, "mode.tsx(begin) fup(401000) mode.tsx(abort) fup(401000) tip(401100) tip(401005)");
    rig_free(rig);
}

/* [PTREF 7.2]: the safe rule, and the manual's. */
static void far_transfers_and_mismatches_forget_the_calls_unless_returns_pop(void **state)
{
    (void)state;
    for (int pop = 0; pop < 2; pop++) {
        struct pt_rig *rig = rig_new(&(struct cofi_unit_config){.returns_pop = pop}, user, IN);
        call(rig);
        rig_far(rig, COFI_FAR_JMP, IN + 0x100, IN + 0x100, 3);
        ret(rig);
        tip(rig, OUT);
        rig_expect(rig, pop ? "tip(401100) tnt.8(T) tip(500000)" : "tip(401100) tip(401005) tip(500000)");
        call(rig);
        rig_near(rig, COFI_EV_CALL, OUT, 5, OUT);
        rig_near(rig, COFI_EV_RET, OUT, 1, OUT + 64); /* not where it was called from */
        ret(rig);
        tip(rig, OUT);
        rig_expect(rig, pop ? "tip(500040) tnt.8(T) tip(500000)" : "tip(500040) tip(401005) tip(500000)");
        rig_free(rig);
    }
}

static void a_64_bit_return_compares_64_bits(void **state)
{
    struct pt_rig *rig = rig_new(NULL, user, IN);
    (void)state;
    rig_near(rig, COFI_EV_CALL, UINT64_C(0x500401000), 5, IN + 0x100);
    ret(rig);
    rig_expect(rig, "tip(401005)");
    rig_free(rig);
}

/* ---- what decoders know of the mode ---- */

/* PSB+, and an enable without PSB, made while packets are off tell no mode; a FUP behind OVF would have none. */
static void an_overflow_over_the_first_pge_resumes_with_the_mode(void **state)
{
    (void)state;
    for (int way = 0; way < 2; way++) {
        struct pt_rig *rig = rig_new(&(struct cofi_unit_config){.buffer_bytes = 256, .tsc_art_num = 10, .tsc_art_den = 1}, user | MTC_EN, IN);
        rig_far(rig, COFI_FAR_SYSCALL, IN, KERNEL, 0);
        if (way == 0) {
            rig_event(rig, &(struct cofi_event){.kind = COFI_EV_PSB_HINT, .ip = KERNEL});
        } else {
            ctl(rig, USER | BRANCH_EN);
            ctl(rig, user | MTC_EN);
        }
        rig_packets(rig);
        for (unsigned i = 1; i < 200; i++) /* until the buffer is full */
            rig_clock(rig, 10 * i, 0);
        rig_far(rig, COFI_FAR_SYSRET, KERNEL, IN, 3); /* its PGE is lost */
        rig_packets(rig);
        rig_jcc(rig, IN, IN, true);
        rig_expect(rig, "ovf mode.tsx(commit) mode.exec(64) tip.pge(401000)");
        rig_free(rig);
    }
}

/* docs/decisions/0302: FUP where nothing changed, else the state and TIP.PGE. */
static void what_changed_in_an_overflow_is_told_behind_it(void **state)
{
    static const char *const packets[] = {
        "ovf fup(401000)",
        "ovf pip(1000) mode.tsx(commit) mode.exec(32) tip.pge(401000)",
        "ovf pip(2000) mode.tsx(commit) mode.exec(64) tip.pge(401000)",
        "ovf pip(1000,nr) mode.tsx(commit) mode.exec(64) tip.pge(401000)",
        "ovf pip(1000) mode.tsx(begin) mode.exec(64) tip.pge(401000)",
    };
    (void)state;
    for (int way = 0; way < 5; way++) {
        struct pt_rig *rig = rig_new(&(struct cofi_unit_config){.buffer_bytes = 256}, all, IN);
        while (cofi_unit_bytes(rig->unit) < 400 && cofi_unit_bytes(rig->unit) - rig->size < 250)
            tip(rig, cofi_unit_bytes(rig->unit) & 1 ? IN : UINT64_C(0x7fff00000000));
        tip(rig, UINT64_C(0x7ffe12345678)); /* lost at last */
        tip(rig, UINT64_C(0x12345678));
        tip(rig, UINT64_C(0x7ffe12345678));
        if (way == 3)
            rig->context.vmx = 2;
        if (way == 4)
            simple(rig, COFI_EV_XBEGIN);
        else
            become(rig, way == 1 ? 32 : 64, way == 2 ? 0x2000 : 0x1000);
        rig_packets(rig);
        rig_jcc(rig, IN, IN, true);
        rig_expect(rig, packets[way]);
        rig_free(rig);
    }
}

static void a_transaction_over_an_overflow_is_told_again(void **state)
{
    struct pt_rig *rig = rig_new(NULL, user, IN);
    (void)state;
    simple(rig, COFI_EV_XBEGIN);
    rig_packets(rig);
    simple(rig, COFI_EV_OVERFLOW_HINT);
    rig_jcc(rig, IN, IN, true);
    rig_expect(rig, "ovf mode.tsx(begin) mode.exec(64) tip.pge(401000)");
    rig_free(rig);
}

/* There and back in an overflow: what was sent last is what decoders have, not what was lost. */
static void a_mode_exec_that_an_overflow_lost_was_not_sent(void **state)
{
    struct pt_rig *rig = rig_new(&(struct cofi_unit_config){.buffer_bytes = 256}, user, IN);
    (void)state;
    for (unsigned i = 0; i < 60; i++)
        tip(rig, i & 1 ? IN : UINT64_C(0x7fff00000000));
    far_to(rig, IN, 32);
    become(rig, 64, 0x1000);
    rig_packets(rig);
    rig_jcc(rig, IN, IN, true);
    far_to(rig, OUT, 32);
    rig_expect(rig, "ovf fup(401000) tnt.8(T) mode.exec(32) tip(500000)");
    rig_free(rig);
}

static void behind_an_overflow_addresses_are_whole(void **state)
{
    static const struct { uint64_t ip; const char *bytes; } cases[] = {
        {0x401000, "\x02\xf3\x7d\x00\x10\x40\x00\x00\x00"},
        {UINT64_C(0x00007fffffffffff), "\x02\xf3\x7d\xff\xff\xff\xff\xff\x7f"},
        {UINT64_C(0x0000800000000000), "\x02\xf3\xdd\x00\x00\x00\x00\x00\x80\x00\x00"},
        {UINT64_C(0xffff800000000000), "\x02\xf3\x7d\x00\x00\x00\x00\x00\x80"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct pt_rig *rig = rig_new(NULL, user, IN);
        size_t from = rig->size;
        simple(rig, COFI_EV_OVERFLOW_HINT);
        rig_jcc(rig, cases[i].ip, IN, true);
        cofi_unit_drain(rig->unit);
        assert_int_equal(rig->size - from, cases[i].bytes[2] == '\xdd' ? 11 : 9);
        assert_memory_equal(rig->bytes + from, cases[i].bytes, rig->size - from);
        rig_free(rig);
    }
}

/* [PTREF 5.4]: another trace may lie between, so the first address is whole without a PSB, too. */
static void the_first_address_of_an_enable_without_psb_is_whole(void **state)
{
    struct pt_rig *rig = rig_new(NULL, 0, IN);
    (void)state;
    status(rig, UINT64_C(100) << 32);
    ctl(rig, user);
    cofi_unit_drain(rig->unit);
    assert_int_equal(rig->size, 4 + 2 + 7);
    assert_memory_equal(rig->bytes + 6, "\x71\x00\x10\x40\x00\x00\x00", 7);
    rig_free(rig);
}

/* ---- what ends with tracing ---- */

static void a_block_ends_with_the_trace(void **state)
{
    struct pt_rig *rig = rig_new(NULL, TRACE_EN | USER | OS, IN);
    (void)state;
    rig_event(rig, &(struct cofi_event){.kind = COFI_EV_BLOCK, .value = 4, .size = 8});
    ctl(rig, 0);
    ctl(rig, TRACE_EN | USER | OS);
    rig_event(rig, &(struct cofi_event){.kind = COFI_EV_BLOCK_ITEM, .size = 1, .value = 1});
    rig_expect(rig, "bbp(4,8) cbr(24)");
    rig_free(rig);
}

static void blocks_need_the_context_and_no_overflow(void **state)
{
    struct pt_rig *rig = rig_new(NULL, user, IN);
    struct cofi_event block = {.kind = COFI_EV_BLOCK, .value = 0x10, .size = 8}, item = {.kind = COFI_EV_BLOCK_ITEM, .size = 31, .value = 9};
    (void)state;
    rig_event(rig, &block);
    rig_event(rig, &item);
    simple(rig, COFI_EV_BLOCK_END);
    rig_expect(rig, "bbp(16,8) bip(31,9) bep");
    simple(rig, COFI_EV_OVERFLOW_HINT);
    rig_event(rig, &block);
    simple(rig, COFI_EV_BOUNDARY);
    rig_event(rig, &item);
    rig_expect(rig, "ovf fup(401000)");
    rig_far(rig, COFI_FAR_SYSCALL, IN, KERNEL, 0);
    rig_event(rig, &block);
    rig_event(rig, &item);
    simple(rig, COFI_EV_BLOCK_END);
    rig_expect(rig, "tip.pgd()");
    rig_free(rig);
}

/* [PTREF 5.11]: a PSB+ is no item. */
static void no_psb_inside_a_block(void **state)
{
    struct pt_rig *rig = rig_new(NULL, 0, IN);
    (void)state;
    status(rig, UINT64_C(2040) << 32);
    rig_start(rig, TRACE_EN | USER, 3, IN); /* 4 bytes of CBR */
    rig_event(rig, &(struct cofi_event){.kind = COFI_EV_BLOCK, .value = 4, .size = 8});
    rig_event(rig, &(struct cofi_event){.kind = COFI_EV_BLOCK_ITEM, .size = 1, .value = 1});
    simple(rig, COFI_EV_INSN);
    simple(rig, COFI_EV_PSB_HINT);
    rig_expect(rig, "bbp(4,8) bip(1,1)");
    simple(rig, COFI_EV_BLOCK_END);
    simple(rig, COFI_EV_INSN);
    rig_expect(rig, "bep psb cbr(24) psbend");
    rig_free(rig);
}

static void no_psb_inside_other_compound_events_even_if_asked(void **state)
{
    struct pt_rig *rig = rig_new(NULL, all, IN);
    (void)state;
    struct cofi_event event = {.kind = COFI_EV_EVENT, .cause = COFI_CAUSE_INTR, .ip = IN, .deferred = true, .vector = COFI_NO_VECTOR};
    rig_event(rig, &event);
    simple(rig, COFI_EV_PSB_HINT);
    rig_event(rig, &(struct cofi_event){.kind = COFI_EV_BOUNDARY, .ip = OUT});
    rig_expect(rig, "fup(401000) tip(500000)");
    rig_interrupt(rig, COFI_CAUSE_INIT_AP, IN, 0, 0);
    simple(rig, COFI_EV_PSB_HINT);
    rig_expect(rig, "fup(401000) pip(1000)");
    rig_free(rig);
}

/* INIT without SIPI, and SIPI: PSBs come again. */
static void psbs_come_again_behind_sipi_and_behind_the_end_of_tracing(void **state)
{
    (void)state;
    for (int way = 0; way < 2; way++) {
        struct pt_rig *rig = rig_new(NULL, all, IN);
        rig_interrupt(rig, COFI_CAUSE_INIT_AP, IN, 0, 0);
        if (way == 0) {
            rig_interrupt(rig, COFI_CAUSE_SIPI, IN, IN, 0);
        } else {
            ctl(rig, OS | USER | BRANCH_EN);
            ctl(rig, all);
        }
        rig_packets(rig);
        simple(rig, COFI_EV_PSB_HINT);
        assert_memory_equal(rig_packets(rig), "psb ", 4);
        rig_free(rig);
    }
}

static void an_overflow_ends_with_the_trace(void **state)
{
    struct pt_rig *rig = rig_new(NULL, user, IN);
    (void)state;
    simple(rig, COFI_EV_OVERFLOW_HINT);
    cofi_unit_reset(rig->unit, COFI_RESET_WARM);
    ctl(rig, user);
    rig_packets(rig);
    rig_jcc(rig, IN, IN, true);
    tip(rig, OUT);
    rig_expect(rig, "tnt.8(T) tip(500000)");
    rig_free(rig);
}

static void what_a_reset_finds_in_the_buffer_is_lost(void **state)
{
    struct pt_rig *rig = rig_new(&(struct cofi_unit_config){.buffer_bytes = 256}, user, IN);
    (void)state;
    tip(rig, OUT);
    cofi_unit_reset(rig->unit, COFI_RESET_WARM);
    rig_expect(rig, "");
    status(rig, 0);
    ctl(rig, user);
    rig_expect(rig, "psb cbr(24) mode.tsx(commit) psbend mode.exec(64) tip.pge(500000)");
    rig_free(rig);
}

static void a_reset_wakes(void **state)
{
    struct pt_rig *rig = rig_new(&(struct cofi_unit_config){.tsc_art_num = 10, .tsc_art_den = 1}, user | MTC_EN, IN);
    (void)state;
    rig_event(rig, &(struct cofi_event){.kind = COFI_EV_SLEEP, .ip = IN, .size = 1});
    rig_clock(rig, 10, 0);
    rig_expect(rig, ""); /* the clocks stand */
    cofi_unit_reset(rig->unit, COFI_RESET_WARM);
    ctl(rig, user | MTC_EN);
    rig_packets(rig);
    rig_clock(rig, 20, 0);
    rig_expect(rig, "mtc(2)");
    rig_free(rig);
}

/* ---- STATUS ---- */

/* [PTREF 2.2] */
static void status_counts_on_from_what_software_wrote(void **state)
{
    struct pt_rig *rig = rig_new(NULL, 0, IN);
    (void)state;
    status(rig, UINT64_C(127) << 32);
    ctl(rig, user);                                          /* CBR 4, MODE.Exec 2, TIP.PGE 7 */
    assert_int_equal(rig_msr(rig, MSR_STATUS) >> 32, 127 + 13);
    ctl(rig, USER | BRANCH_EN);                              /* FUP 1: the address of PGE; TIP.PGD 1 */
    assert_int_equal(rig_msr(rig, MSR_STATUS) >> 32, 127 + 13 + rig->size - 13);
    rig_free(rig);
}

static void status_has_no_count_without_configurable_psb(void **state)
{
    struct pt_rig *rig = rig_new(&(struct cofi_unit_config){.model = "broadwell"}, user | TOPA, IN);
    (void)state;
    assert_true(rig->size > 0);
    assert_int_equal(rig_msr(rig, MSR_STATUS) >> 32, 0);
    ctl(rig, USER | BRANCH_EN | TOPA);
    assert_int_equal(rig_msr(rig, MSR_STATUS) >> 32, 0);
    ctl(rig, user | TOPA); /* so each enable makes a PSB */
    assert_non_null(strstr(rig_packets(rig), " psb "));
    rig_free(rig);
}

static void filter_en_waits_for_the_context(void **state)
{
    struct pt_rig *rig = malloc(sizeof *rig);
    (void)state;
    rig_open(rig, NULL);
    filter(rig, IN, IN + 0xfff);
    rig_start(rig, user | ADDR_CFG(0, 1), 0, IN); /* inside, but in the kernel */
    assert_int_equal(rig_msr(rig, MSR_STATUS) & 7, 4);
    rig_far(rig, COFI_FAR_SYSRET, IN, IN, 3);
    assert_int_equal(rig_msr(rig, MSR_STATUS) & 7, 7);
    rig_far(rig, COFI_FAR_SYSCALL, IN, OUT, 0);
    assert_int_equal(rig_msr(rig, MSR_STATUS) & 7, 5); /* does not follow while ContextEn is 0 */
    rig_free(rig);
}

static void tracestop_forces_filter_en_to_0(void **state)
{
    struct pt_rig *rig = malloc(sizeof *rig);
    (void)state;
    rig_open(rig, NULL);
    filter(rig, OUT, OUT);
    rig_start(rig, user | ADDR_CFG(0, 2), 3, IN);
    assert_int_equal(rig_msr(rig, MSR_STATUS) & 0x37, 7);
    tip(rig, OUT);
    assert_int_equal(rig_msr(rig, MSR_STATUS) & 0x37, 0x22);
    ctl(rig, 0);
    assert_int_equal(rig_msr(rig, MSR_STATUS) & 0x37, 0x22);
    rig_free(rig);
}

static void a_warm_reset_clears_the_enables(void **state)
{
    struct pt_rig *rig = rig_new(NULL, user, IN);
    (void)state;
    assert_int_equal(rig_msr(rig, MSR_STATUS) & 7, 7);
    cofi_unit_reset(rig->unit, COFI_RESET_WARM);
    assert_int_equal(rig_msr(rig, MSR_STATUS) & 7, 0);
    rig_free(rig);
}

static void pend_psb_needs_injection_and_a_full_period(void **state)
{
    (void)state;
    for (unsigned way = 0; way < 3; way++) {
        struct pt_rig *rig = rig_new(NULL, 0, IN);
        status(rig, UINT64_C(2025) << 32);
        ctl(rig, user | (way ? INJECT : 0)); /* 2038 */
        if (way < 2)
            rig_interrupt(rig, COFI_CAUSE_INTR, IN, UINT64_C(0xffff800012345678), 3); /* 10 or more */
        ctl(rig, way ? INJECT : 0);
        uint64_t now = rig_msr(rig, MSR_STATUS);
        assert_int_equal(now & 0x40, way == 1 ? 0x40 : 0);
        assert_true(way == 2 || now >> 32 >= 2048);
        status(rig, 0x20); /* nothing is traced, so nothing comes due */
        ctl(rig, user | INJECT);
        ctl(rig, INJECT);
        assert_int_equal(rig_msr(rig, MSR_STATUS) & 0x40, 0);
        rig_free(rig);
    }
}

/* ---- overflow of the internal buffer ---- */

/* Only an empty buffer ends it [PTREF 6.6], docs/decisions/0302. */
static void an_overflow_lasts_until_the_buffer_is_empty(void **state)
{
    struct pt_rig *rig = rig_new(&(struct cofi_unit_config){.buffer_bytes = 256, .drain_bytes = 100, .drain_cycles = 10}, user, IN);
    (void)state;
    for (unsigned i = 0; i < 60; i++)
        tip(rig, i & 1 ? IN : UINT64_C(0x7fff00000000));
    uint64_t made = cofi_unit_bytes(rig->unit);
    rig_clock(rig, 0, 10); /* 100 bytes have left */
    rig_jcc(rig, IN, IN, true);
    rig_clock(rig, 0, 20);
    rig_jcc(rig, IN, IN, true);
    assert_int_equal(cofi_unit_bytes(rig->unit), made);
    rig_clock(rig, 0, 30);
    rig_jcc(rig, IN, IN, true);
    assert_int_equal(cofi_unit_bytes(rig->unit), made + 9);
    rig_free(rig);
}

/* The bits that a lost operation forced out still fit [PTREF 6.6]; all bytes are counted. */
static void bits_before_a_lost_packet_are_kept(void **state)
{
    struct pt_rig *rig = rig_new(&(struct cofi_unit_config){.buffer_bytes = 256, .tsc_art_num = 10, .tsc_art_den = 1}, user | MTC_EN, IN);
    (void)state;
    for (unsigned i = 1; i <= 126; i++)
        rig_clock(rig, 10 * i, 0); /* 2 bytes each: 252 of 256 */
    rig_jcc(rig, IN, IN, true);
    tip(rig, UINT64_C(0x7fff12345678)); /* TNT fits, TIP does not */
    const char *text = rig_packets(rig);
    assert_string_equal(text + strlen(text) - 17, "mtc(126) tnt.8(T)");
    rig_jcc(rig, IN, IN, false);
    rig_expect(rig, "ovf fup(401000)");
    assert_int_equal(cofi_unit_bytes(rig->unit), rig->size);
    rig_free(rig);
}

static void no_cyc_in_an_overflow_and_ovf_has_all_cycles(void **state)
{
    struct pt_rig *rig = rig_new(&(struct cofi_unit_config){.cyc_limit = 100}, user | CYC_EN, IN);
    (void)state;
    simple(rig, COFI_EV_OVERFLOW_HINT);
    rig_clock(rig, 0, 150);
    rig_clock(rig, 0, 450);
    rig_jcc(rig, IN, IN, true);
    rig_expect(rig, "cyc(450) ovf fup(401000)");
    rig_free(rig);
}

static void with_os_0_resuming_makes_no_pip(void **state)
{
    struct pt_rig *rig = rig_new(NULL, user, IN);
    (void)state;
    simple(rig, COFI_EV_XBEGIN);
    rig_packets(rig);
    simple(rig, COFI_EV_OVERFLOW_HINT);
    simple(rig, COFI_EV_BOUNDARY);
    rig_expect(rig, "ovf mode.tsx(begin) mode.exec(64) tip.pge(401000)");
    rig_free(rig);
}

/* ---- time ---- */

/* [SDM Cycle-Accurate Mode]: the eligible packets, and the others. */
static void packets_that_are_cyc_eligible_and_those_that_are_not(void **state)
{
    static const struct { const char *packets; uint64_t more; struct cofi_event event; } cases[] = {
        {"cyc(7)", 0, {.kind = COFI_EV_JCC, .ip = IN, .target = IN, .taken = true}},
        {"cyc(7) tip(500000)", 0, {.kind = COFI_EV_JMP_IND, .ip = IN, .target = OUT}},
        {"cyc(7) pip(2000)", 0, {.kind = COFI_EV_MOV_CR3, .ip = IN, .next = IN, .context_set = true, .after = {.cr3 = 0x2000, .cpl = 3, .mode = 64}}},
        {"cyc(7) mode.tsx(begin) fup(401000)", 0, {.kind = COFI_EV_XBEGIN, .ip = IN}},
        {"cyc(7) vmcs(7000)", 0, {.kind = COFI_EV_VMPTRLD, .ip = IN, .context_set = true, .after = {.vmcs = 0x7000, .cpl = 3, .mode = 64}}},
        {"cyc(7) ptw4(5)", PTW_EN, {.kind = COFI_EV_PTWRITE, .ip = IN, .value = 5, .size = 4}},
        {"cyc(7) mwait(20,0) pwre(c1.0) exstopip fup(401000)", PWR_EVT_EN, {.kind = COFI_EV_MWAIT, .ip = IN, .value = 0x20, .size = 1}},
        {"pwre(c1.0) cyc(7) exstopip fup(401000)", PWR_EVT_EN, {.kind = COFI_EV_SLEEP, .ip = IN, .size = 1, .tsc = 7, .cycles = 7}},
        {"cyc(7) tsc(7) cbr(24)", TSC_EN, {.kind = COFI_EV_WAKE, .ip = IN, .size = 1, .tsc = 7, .cycles = 7}},
        {"cbr(24)", 0, {.kind = COFI_EV_WAKE, .ip = IN, .size = 1, .tsc = 7, .cycles = 7}},
        {"fup(401000) cyc(7) tip(500000)", 0, {.kind = COFI_EV_EVENT, .cause = COFI_CAUSE_INTR, .ip = IN, .target = OUT}},
        {"fup(401000) cyc(7) mode.exec(32) tip(500000)", 0, {.kind = COFI_EV_EVENT, .cause = COFI_CAUSE_INTR, .ip = IN, .target = OUT,
          .context_set = true, .after = {.cr3 = 0x1000, .cpl = 3, .mode = 32}}},
        {"psb cyc(7) tsc(7) pip(1000) cbr(24) mode.tsx(commit) mode.exec(64) fup(401000) psbend", TSC_EN, {.kind = COFI_EV_PSB_HINT, .ip = IN}},
        {"trig(1,3)", 0, {.kind = COFI_EV_TRIGGER, .ip = IN, .value = 1, .value2 = 3, .taken = true}},
        {"bbp(4,8)", 0, {.kind = COFI_EV_BLOCK, .value = 4, .size = 8}},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct pt_rig *rig = rig_new(NULL, all | CYC_EN | cases[i].more, IN);
        rig_clock(rig, 7, 7);
        struct cofi_event event = cases[i].event;
        event.vector = COFI_NO_VECTOR;
        rig_event(rig, &event);
        rig_expect(rig, cases[i].packets);
        rig_free(rig);
    }
}

static void tip_pgd_tip_pge_and_mtc_are_cyc_eligible_and_tracestop_is_not(void **state)
{
    struct pt_rig *rig = malloc(sizeof *rig);
    (void)state;
    rig_open(rig, &(struct cofi_unit_config){.tsc_art_num = 10, .tsc_art_den = 1});
    filter(rig, OUT, OUT);
    rig_start(rig, user | CYC_EN | MTC_EN | ADDR_CFG(0, 2), 3, IN);
    rig_clock(rig, 1, 7);
    rig_far(rig, COFI_FAR_SYSCALL, IN, KERNEL, 0);
    rig_clock(rig, 10, 9);
    rig_clock(rig, 11, 12);
    rig_far(rig, COFI_FAR_SYSRET, KERNEL, OUT, 3);
    rig_expect(rig, "cyc(7) tip.pgd() cyc(2) mtc(1) stop");
    rig_free(rig);
    rig = rig_new(NULL, user | CYC_EN, IN);
    rig_far(rig, COFI_FAR_SYSCALL, IN, KERNEL, 0);
    rig_packets(rig);
    rig_clock(rig, 0, 9);
    rig_far(rig, COFI_FAR_SYSRET, KERNEL, IN, 3);
    rig_expect(rig, "cyc(9) mode.exec(64) tip.pge(401000)");
    rig_free(rig);
}

static void a_cycle_has_one_cyc_even_a_stand_alone_one(void **state)
{
    struct pt_rig *rig = rig_new(&(struct cofi_unit_config){.cyc_limit = 100}, user | CYC_EN, IN);
    (void)state;
    rig_clock(rig, 0, 100);
    tip(rig, OUT);
    rig_clock(rig, 0, 103);
    tip(rig, OUT);
    rig_expect(rig, "cyc(100) tip(500000) cyc(3) tip(500000)");
    rig_free(rig);
}

static void a_stand_alone_cyc_waits_for_the_threshold_and_flushes_bits(void **state)
{
    struct pt_rig *rig = rig_new(&(struct cofi_unit_config){.cyc_limit = 100}, user | CYC_EN | CYC_THRESH(9), IN); /* 256 */
    (void)state;
    rig_jcc(rig, IN, IN, true);
    rig_clock(rig, 0, 255);
    rig_expect(rig, "");
    rig_clock(rig, 0, 256);
    rig_expect(rig, "tnt.8(T) cyc(256)");
    rig_free(rig);
}

static void the_cyc_of_a_later_trace_is_its_own(void **state)
{
    struct pt_rig *rig = rig_new(NULL, user | CYC_EN, IN);
    (void)state;
    rig_clock(rig, 0, 50);
    tip(rig, OUT);
    ctl(rig, USER | BRANCH_EN | CYC_EN);
    rig_packets(rig);
    ctl(rig, user | CYC_EN); /* in the cycle of the last CYC: it has one, of 0 */
    rig_expect(rig, "cbr(24) cyc(0) mode.exec(64) tip.pge(500000)");
    rig_free(rig);
}

/* [SDM Cycle Counter]: counts up to where the clocks first stop, and from where they run again. */
static void deeper_sleep_does_not_count(void **state)
{
    struct pt_rig *rig = rig_new(NULL, user | CYC_EN | TSC_EN | PWR_EVT_EN, IN);
    (void)state;
    rig_event(rig, &(struct cofi_event){.kind = COFI_EV_SLEEP, .ip = IN, .size = 1, .tsc = 100, .cycles = 100});
    rig_event(rig, &(struct cofi_event){.kind = COFI_EV_SLEEP, .ip = IN, .size = 6, .cause = 1, .tsc = 150, .cycles = 150});
    rig_event(rig, &(struct cofi_event){.kind = COFI_EV_WAKE, .size = 6, .tsc = 990, .cycles = 990});
    rig_expect(rig, "pwre(c1.0) cyc(100) exstopip fup(401000) pwre(c6.0,hw) cyc(0) tsc(990) cbr(24) pwrx(c6,c6,0)");
    rig_event(rig, &(struct cofi_event){.kind = COFI_EV_WAKE, .size = 1, .tsc = 1000, .cycles = 1000}); /* was awake */
    rig_expect(rig, "cyc(10) tsc(1000) cbr(24) pwrx(c1,c1,0)");
    rig_free(rig);
}

static void mtcs_go_on_from_the_wake(void **state)
{
    struct pt_rig *rig = rig_new(&(struct cofi_unit_config){.tsc_art_num = 10, .tsc_art_den = 1}, user | MTC_EN, IN);
    (void)state;
    rig_event(rig, &(struct cofi_event){.kind = COFI_EV_SLEEP, .ip = IN, .size = 1, .tsc = 5});
    rig_clock(rig, 500, 0);
    rig_event(rig, &(struct cofi_event){.kind = COFI_EV_WAKE, .size = 1, .tsc = 1005});
    rig_clock(rig, 1009, 0);
    rig_clock(rig, 1010, 0);
    rig_expect(rig, "cbr(24) mtc(101)");
    rig_free(rig);
}

static void a_leap_without_tsc_en_is_one_mtc(void **state)
{
    struct pt_rig *rig = rig_new(&(struct cofi_unit_config){.tsc_art_num = 10, .tsc_art_den = 1}, user | MTC_EN, IN);
    (void)state;
    rig_clock(rig, 2560, 0);
    rig_expect(rig, "mtc(0)");
    rig_free(rig);
}

/* [PTREF 8.1] at a ratio of 7/2 and of 400. */
static void art_edges_fall_between_tsc_ticks(void **state)
{
    static const struct { uint64_t num, den, tsc; const char *packets; } cases[] = {
        {7, 2, 3, "tsc(3) tma(0,3) cbr(24)"}, {7, 2, 4, "tsc(4) tma(1,0) cbr(24)"}, {7, 2, 6, "tsc(6) tma(1,2) cbr(24)"},
        {7, 2, 7, "tsc(7) tma(2,0) cbr(24)"}, {400, 1, 799, "tsc(799) tma(1,399) cbr(24)"},
        {1, 1, 0x12345, "tsc(74565) tma(9029,0) cbr(24)"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct pt_rig *rig = rig_new(&(struct cofi_unit_config){.tsc_art_num = cases[i].num, .tsc_art_den = cases[i].den},
                                     user | TSC_EN | MTC_EN, IN);
        rig_event(rig, &(struct cofi_event){.kind = COFI_EV_WAKE, .size = 1, .tsc = cases[i].tsc});
        rig_expect(rig, cases[i].packets);
        rig_free(rig);
    }
}

static int drop(void *opaque, const uint8_t *bytes, size_t n)
{
    (void)opaque, (void)bytes, (void)n;
    return 0;
}

static void count_psbs(void *opaque, const struct cofi_explain *line)
{
    uint64_t *last = opaque;
    if (line->packet && line->packet->kind == COFI_PT_PSB) {
        last[0] = last[1];
        last[1] = line->offset;
    }
}

/* [PTREF 2.1]: 2^(PSBFreq + 11) bytes, from one PSB to the next, to a packet's length. */
static void every_psb_freq_has_its_period(void **state)
{
    (void)state;
    for (unsigned freq = 0; freq < 16; freq++) {
        uint64_t last[2] = {0, 0};
        struct pt_rig *rig = malloc(sizeof *rig);
        rig_open(rig, &(struct cofi_unit_config){.sink = {drop, NULL}, .explain = count_psbs, .opaque = last});
        rig->context.cpl = 3;
        cofi_unit_context(rig->unit, &rig->context, IN);
        ctl(rig, TRACE_EN | OS | USER | EVENT_EN | PSB_FREQ(freq));
        while (last[1] == 0) /* without BranchEn: EVD 11, CFE 4, FUP */
            rig_event(rig, &(struct cofi_event){.kind = COFI_EV_EVENT, .cause = COFI_CAUSE_FAULT, .vector = 14,
                                                .ip = last[0] ? 0 : UINT64_C(0x0123456789abcdef), .target = IN});
        assert_in_range(last[1] - last[0], UINT64_C(2048) << freq, (UINT64_C(2048) << freq) + 40);
        rig_free(rig);
    }
}

/* ---- deferred TIPs ---- */

static void at_most_16_tips_are_held_back_and_none_with_cycle_counts(void **state)
{
    struct pt_rig *rig = rig_new(&(struct cofi_unit_config){.deferred_tips = true}, user, IN);
    (void)state;
    rig_jcc(rig, IN, IN, true);
    for (unsigned i = 0; i < 15; i++)
        tip(rig, OUT);
    rig_expect(rig, "");
    tip(rig, OUT);
    const char *text = rig_packets(rig);
    assert_int_equal(strncmp(text, "tnt.8(T) tip(500000)", 20), 0);
    assert_int_equal(strlen(text), 8 + 16 * 12);
    rig_free(rig);
    rig = rig_new(&(struct cofi_unit_config){.deferred_tips = true}, user | CYC_EN, IN);
    rig_clock(rig, 0, 5);
    rig_jcc(rig, IN, IN, true);
    rig_clock(rig, 0, 9);
    tip(rig, OUT);
    rig_expect(rig, "cyc(5) tnt.8(T) cyc(4) tip(500000)");
    rig_free(rig);
}

/* ---- event trace ---- */

/* [PTREF 5.8]: the type of every cause. */
static void every_event_has_its_cfe_type(void **state)
{
    static const int fars[COFI_FAR_KINDS] = {
        [COFI_FAR_JMP] = -1, [COFI_FAR_CALL] = -1, [COFI_FAR_RET] = -1, [COFI_FAR_IRET] = 2, [COFI_FAR_SYSCALL] = 15,
        [COFI_FAR_SYSRET] = 2, [COFI_FAR_SYSENTER] = 15, [COFI_FAR_SYSEXIT] = 2, [COFI_FAR_INT] = 14, [COFI_FAR_UIRET] = 13,
        [COFI_FAR_ERETU] = 2, [COFI_FAR_ERETS] = 2, [COFI_FAR_VMENTRY] = 7, [COFI_FAR_RSM] = -1, [COFI_FAR_EENTER] = -1,
        [COFI_FAR_EEXIT] = -1, [COFI_FAR_VMENTRY_LATE] = 7, [COFI_FAR_SENTER] = -1, [COFI_FAR_ACM] = -1};
    static const int causes[COFI_CAUSE_KINDS] = {
        [COFI_CAUSE_INTR] = 1, [COFI_CAUSE_NMI] = 1, [COFI_CAUSE_TRAP] = 1, [COFI_CAUSE_FAULT] = 1, [COFI_CAUSE_MC_TRAP] = 1,
        [COFI_CAUSE_MC_FAULT] = 1, [COFI_CAUSE_SMI] = 3, [COFI_CAUSE_INIT_BSP] = 6, [COFI_CAUSE_INIT_AP] = 6, [COFI_CAUSE_SIPI] = 5,
        [COFI_CAUSE_VMEXIT] = 9, [COFI_CAUSE_AEX] = 1, [COFI_CAUSE_UINTR] = 12, [COFI_CAUSE_SHUTDOWN] = 10, [COFI_CAUSE_VMX_ABORT] = 9};
    (void)state;
    for (int k = 0; k < COFI_FAR_KINDS + COFI_CAUSE_KINDS; k++) {
        bool is_far = k < COFI_FAR_KINDS;
        int type = is_far ? fars[k] : causes[k - COFI_FAR_KINDS];
        char expected[32] = "";
        struct pt_rig *rig = rig_new(NULL, all | EVENT_EN, IN);
        rig_event(rig, &(struct cofi_event){.kind = is_far ? COFI_EV_FAR : COFI_EV_EVENT, .cause = (uint8_t)(is_far ? k : k - COFI_FAR_KINDS),
                                            .ip = IN, .next = IN + 2, .target = OUT, .vector = 33});
        if (type >= 0)
            snprintf(expected, sizeof expected, "cfe(%x,21)", (unsigned)type);
        const char *text = rig_packets(rig), *cfe = strstr(text, "cfe");
        assert_true(type >= 0 ? cfe && !strncmp(cfe, expected, strlen(expected)) : !cfe);
        rig_free(rig);
    }
}

/* ---- addresses ---- */

/* [SDM Packet Decoding of RIP versus LIP]: INIT's CS base is ffff0000. */
static void the_reset_vector_is_an_offset_where_payloads_are_rip(void **state)
{
    struct pt_rig *rig = rig_new(&(struct cofi_unit_config){.model = "skylake"}, all, IN);
    (void)state;
    rig_event(rig, &(struct cofi_event){.kind = COFI_EV_EVENT, .cause = COFI_CAUSE_INIT_BSP, .ip = IN, .target = 0xfffffff0,
                                        .vector = COFI_NO_VECTOR});
    rig_expect(rig, "fup(401000) pip(0) mode.exec(16) tip(fff0)");
    rig_free(rig);
}

static void triggers_need_the_capability(void **state)
{
    struct pt_rig *rig = rig_new(&(struct cofi_unit_config){.model = "skylake"}, all, IN);
    (void)state;
    rig_event(rig, &(struct cofi_event){.kind = COFI_EV_TRIGGER, .ip = IN, .value = 1, .taken = true});
    rig_expect(rig, "");
    rig_free(rig);
}

/* ---- errata ---- */

/* [ERR APL11]: no TIP.PGD where packets were off when it began. */
static void erratum_apl11_needs_packets_that_were_on(void **state)
{
    struct pt_rig *rig = rig_new(&(struct cofi_unit_config){.errata = COFI_ERRATUM_APL11}, user, IN);
    (void)state;
    rig_far(rig, COFI_FAR_SYSCALL, IN, KERNEL, 0);
    rig_packets(rig);
    simple(rig, COFI_EV_OVERFLOW_HINT);
    simple(rig, COFI_EV_BOUNDARY);
    rig_expect(rig, "ovf");
    rig_free(rig);
}

/* [ERR SKL168] */
static void erratum_skl168_mtcs_before_a_psb_are_lost(void **state)
{
    (void)state;
    for (int wrong = 0; wrong < 2; wrong++) {
        struct pt_rig *rig = rig_new(&(struct cofi_unit_config){.errata = wrong ? COFI_ERRATUM_SKL168 : 0, .tsc_art_num = 10,
                                                                .tsc_art_den = 1}, 0, IN);
        status(rig, UINT64_C(2047) << 32);
        rig_start(rig, user | MTC_EN, 3, IN);
        rig_clock(rig, 10, 0);
        rig_jcc(rig, IN, IN, true);
        rig_clock(rig, 20, 0);
        const char *text = rig_packets(rig);
        assert_string_equal(text + strlen(text) - 15, "tnt.8(T) mtc(2)");
        assert_int_equal(strncmp(text, wrong ? "psb" : "mtc(1) psb", 3), 0);
        rig_free(rig);
    }
}

/* ---- output ---- */

static struct pt_rig *open_memory(struct pt_memory *memory, const struct cofi_unit_config *config)
{
    struct pt_rig *rig = malloc(sizeof *rig);
    struct cofi_unit_config own = *config;
    own.memory = memory_access(memory);
    rig_open(rig, &own);
    rig->context.cpl = 3;
    cofi_unit_context(rig->unit, &rig->context, IN);
    memory_entry(memory, 0x1000, 0, 0x10000 | TOPA_INT);
    memory_entry(memory, 0x1000, 1, 0x20000 | TOPA_STOP);
    memory_entry(memory, 0x1000, 2, 0x1000 | TOPA_END);
    assert_int_equal(cofi_unit_wrmsr(rig->unit, MSR_OUTPUT_BASE, 0x1000), 0);
    return rig;
}

static void close_memory(struct pt_rig *rig, struct pt_memory *memory)
{
    free(memory);
    rig_free(rig);
}

static bool zero(const uint8_t *p, size_t n)
{
    while (n > 0 && *p == 0)
        p++, n--;
    return n == 0;
}

/* [SDM ToPA STOP]: nothing behind the region, however the buffer drains; what it holds is not of the next trace. */
static void nothing_comes_behind_a_stop(void **state)
{
    (void)state;
    struct pt_memory *memory = memory_new();
    for (unsigned at = 3400; at < 4064; at += 5) { /* wherever the ring of the buffer is just then */
        memset(memory->bytes, 0, 0x30000);
        struct pt_rig *rig = open_memory(memory, &(struct cofi_unit_config){.buffer_bytes = 256, .drain_bytes = at % 3 ? 150 : 250,
                                                                            .drain_cycles = 1});
        assert_int_equal(cofi_unit_wrmsr(rig->unit, MSR_OUTPUT_MASK_PTRS, (uint64_t)at << 32 | 1 << 7), 0);
        ctl(rig, user | TOPA | DIS_RETC);
        for (unsigned i = 1; i < 600 && !(rig_msr(rig, MSR_STATUS) & 0x20); i++) {
            tip(rig, i & 1 ? UINT64_C(0x7fff00000000) : IN);
            if (i % 25 == 0)
                rig_clock(rig, 0, i / 25);
        }
        assert_int_equal(rig_msr(rig, MSR_STATUS) & 0x34, 0x20);
        ctl(rig, 0);
        assert_int_equal(rig_msr(rig, MSR_OUTPUT_MASK_PTRS), UINT64_C(4096) << 32 | 1 << 7 | 0x7f);
        assert_true(zero(memory->bytes + 0x21000, 0x8000));
        status(rig, 0);
        assert_int_equal(cofi_unit_wrmsr(rig->unit, MSR_OUTPUT_MASK_PTRS, 0), 0);
        ctl(rig, user | TOPA);
        ctl(rig, 0);
        assert_memory_equal(memory->bytes + 0x10000, "\x02\x82\x02\x82", 4);
        rig_free(rig);
    }
    free(memory);
}

/* [PTREF 2.2]: a PMI that only the flush at the end brings is pending, and comes at the next enable. */
static void a_pmi_of_the_last_flush_is_pending_with_injection(void **state)
{
    (void)state;
    for (unsigned inject = 0; inject < 2; inject++) {
        struct pt_memory *memory = memory_new();
        struct pt_rig *rig = open_memory(memory, &(struct cofi_unit_config){.buffer_bytes = 256});
        uint64_t on = user | TOPA | (inject ? INJECT : 0);
        assert_int_equal(cofi_unit_wrmsr(rig->unit, MSR_OUTPUT_MASK_PTRS, UINT64_C(4090) << 32), 0);
        ctl(rig, on);
        assert_int_equal(rig->pmis, 0); /* all inside */
        ctl(rig, on & ~TRACE_EN);
        assert_int_equal(rig->pmis, !inject);
        assert_int_equal(rig_msr(rig, MSR_STATUS) & 0x80, inject ? 0x80 : 0);
        ctl(rig, on);
        assert_int_equal(rig->pmis, 1);
        close_memory(rig, memory);
    }
}

/* A TraceStop that was seen while enabling filled the last region is not of the next enable. */
static void a_stop_by_the_output_leaves_no_tracestop_behind(void **state)
{
    struct pt_memory *memory = memory_new();
    struct pt_rig *rig = open_memory(memory, &(struct cofi_unit_config){0});
    (void)state;
    filter(rig, IN, IN);
    assert_int_equal(cofi_unit_wrmsr(rig->unit, MSR_OUTPUT_MASK_PTRS, UINT64_C(4090) << 32 | 1 << 7), 0);
    ctl(rig, user | TOPA | ADDR_CFG(0, 2));
    assert_int_equal(rig_msr(rig, MSR_STATUS) & 0x34, 0x20);
    ctl(rig, 0);
    status(rig, 0);
    assert_int_equal(cofi_unit_wrmsr(rig->unit, MSR_OUTPUT_MASK_PTRS, 0), 0);
    rig->context.cpl = 0;
    cofi_unit_context(rig->unit, &rig->context, IN);
    ctl(rig, user | TOPA | ADDR_CFG(0, 2)); /* out of context */
    assert_int_equal(rig_msr(rig, MSR_STATUS) & 0x34, 4);
    close_memory(rig, memory);
}

static void wrmsr_events_say_what_is_gp(void **state)
{
    struct pt_rig *rig = rig_new(NULL, user, IN);
    struct cofi_event event = {.kind = COFI_EV_WRMSR, .ip = IN, .next = IN + 2, .msr = 0x1d9, .value = 1};
    (void)state;
    assert_int_equal(rig_event(rig, &event), 0); /* not the unit's */
    event.msr = MSR_STATUS;
    assert_int_equal(rig_event(rig, &event), COFI_ERR_GP);
    event.msr = MSR_CTL;
    event.value = 0;
    assert_int_equal(rig_event(rig, &event), 0);
    rig_expect(rig, "fup(401000) tip.pgd()");
    rig_free(rig);
}

static void a_same_value_leaves_the_buffer_alone(void **state)
{
    struct pt_rig *rig = rig_new(&(struct cofi_unit_config){.buffer_bytes = 256}, user, IN);
    (void)state;
    size_t before = rig->size;
    tip(rig, OUT);
    ctl(rig, user);
    assert_int_equal(rig->size, before);
    rig_expect(rig, "tip(500000)");
    rig_free(rig);
}

/* Stores that memory refuses are the guest's affair; a sink that refuses is the host's. */
static void memory_that_refuses_is_no_error_of_the_event(void **state)
{
    struct pt_memory *memory = memory_new();
    struct pt_rig *rig = open_memory(memory, &(struct cofi_unit_config){0});
    (void)state;
    memory->restricted = 0x10000;
    memory->restricted_end = 0x11000;
    ctl(rig, user | TOPA);
    assert_int_equal(rig_event(rig, &(struct cofi_event){.kind = COFI_EV_JMP_IND, .ip = IN, .next = IN + 2, .target = OUT}), 0);
    close_memory(rig, memory);
}

static int keep(void *opaque, uint64_t address, const uint8_t *bytes, size_t n)
{
    (void)opaque, (void)address, (void)bytes, (void)n;
    return 0;
}

static void a_host_without_memory_to_read_has_no_tables(void **state)
{
    struct pt_rig *rig = malloc(sizeof *rig);
    (void)state;
    rig_open(rig, &(struct cofi_unit_config){.memory = {NULL, keep, NULL}});
    ctl(rig, user | TOPA);
    assert_int_equal(rig_msr(rig, MSR_STATUS) & 0x34, 0x10);
    rig_free(rig);
}

/* The narrow door while packets are off, and what it leaves for the wide one. */
static void the_narrow_door_makes_nothing_while_packets_are_off(void **state)
{
    struct pt_rig *rig = rig_new(NULL, user, IN);
    (void)state;
    rig_far(rig, COFI_FAR_SYSCALL, IN, KERNEL, 0);
    cofi_unit_tnt(rig->unit, 5, 3);
    cofi_unit_tip(rig->unit, OUT);
    cofi_unit_tnt(rig->unit, UINT64_MAX, 64);
    rig_expect(rig, "tip.pgd()");
    rig_far(rig, COFI_FAR_SYSRET, KERNEL, IN, 3);
    cofi_unit_tnt(rig->unit, 4, 3);
    rig_jcc(rig, IN, IN, true);
    cofi_unit_tip(rig->unit, OUT);
    rig_expect(rig, "mode.exec(64) tip.pge(401000) tnt.8(TNNT) tip(500000)");
    rig_free(rig);
}

/* [PTREF 1.2]: 512 bytes before the end of the one region, to the byte. */
static void one_entry_parts_interrupt_512_bytes_before_the_end(void **state)
{
    (void)state;
    for (unsigned early = 0; early < 2; early++) {
        struct pt_memory *memory = memory_new();
        struct pt_rig *rig = open_memory(memory, &(struct cofi_unit_config){.model = "broadwell"});
        memory_entry(memory, 0x1000, 1, 0x1000 | TOPA_END);
        assert_int_equal(cofi_unit_wrmsr(rig->unit, MSR_OUTPUT_MASK_PTRS, (UINT64_C(4096) - 512 - 31 - early) << 32), 0);
        ctl(rig, user | TOPA); /* 31 bytes */
        assert_int_equal(cofi_unit_bytes(rig->unit), 31);
        assert_int_equal(rig->pmis, !early);
        close_memory(rig, memory);
    }
}

static void a_single_range_may_begin_at_its_last_byte(void **state)
{
    struct pt_memory *memory = memory_new();
    struct pt_rig *rig = open_memory(memory, &(struct cofi_unit_config){0});
    (void)state;
    assert_int_equal(cofi_unit_wrmsr(rig->unit, MSR_OUTPUT_MASK_PTRS, UINT64_C(0x7f) << 32 | 0x7f), 0);
    ctl(rig, user);
    assert_int_equal(rig_msr(rig, MSR_STATUS) & 0x34, 4);
    assert_int_equal(memory->bytes[0x107f], 2);
    assert_int_equal(memory->bytes[0x1000], 0x82);
    close_memory(rig, memory);
}

/* The readers say no where the registers or tables are none that a unit leaves. */
static void readers_refuse_what_no_unit_leaves(void **state)
{
    struct pt_memory *memory = memory_new();
    struct cofi_memory access = memory_access(memory);
    struct cofi_sink to = memory_reader(memory);
    struct cofi_error error;
    (void)state;
    memory_entry(memory, 0x1000, 0, 0x10000);
    memory_entry(memory, 0x1000, 1, 0x1000 | TOPA_END);
    memory_entry(memory, 0x2000, 0, 0x20000);
    memory_entry(memory, 0x2000, 1, 0x30000);
    memory_entry(memory, 0x2000, 2, 0x2000 | TOPA_END);
    struct cofi_topa_place place = {.table = 0x1000, .base = 0x1000, .mask_ptrs = UINT64_C(4097) << 32, .maxphyaddr = 46};
    assert_int_equal(cofi_output_read_topa(&access, &place, &to, &error), COFI_ERR_RANGE);
    place.mask_ptrs = UINT64_C(4096) << 32;
    assert_int_equal(cofi_output_read_topa(&access, &place, &to, &error), 0);
    place = (struct cofi_topa_place){.table = 0x2000, .base = 0x1000, .mask_ptrs = 0x7f, .maxphyaddr = 46};
    assert_int_equal(cofi_output_read_topa(&access, &place, &to, &error), COFI_ERR_RANGE); /* a circle without the current entry */
    assert_true(memory->back_size < 0x10000);
    assert_int_equal(cofi_output_read_range(&access, 0x10000, UINT64_C(0x1000) << 32 | 0xfff, 0, &to, &error), COFI_ERR_RANGE);
    assert_int_equal(cofi_output_read_range(&access, 0x10000, UINT64_C(0xfff) << 32 | 0xfff, 0, &to, &error), 0);
    free(memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test(name)
        T(no_return_is_compressed_across_a_psb), T(no_return_is_compressed_across_an_overflow),
        T(no_return_is_compressed_across_a_time_outside_of_the_filter), T(an_abort_forgets_the_calls),
        T(far_transfers_and_mismatches_forget_the_calls_unless_returns_pop), T(a_64_bit_return_compares_64_bits),
        T(an_overflow_over_the_first_pge_resumes_with_the_mode), T(what_changed_in_an_overflow_is_told_behind_it),
        T(a_transaction_over_an_overflow_is_told_again), T(a_mode_exec_that_an_overflow_lost_was_not_sent),
        T(behind_an_overflow_addresses_are_whole), T(the_first_address_of_an_enable_without_psb_is_whole), T(a_block_ends_with_the_trace),
        T(blocks_need_the_context_and_no_overflow), T(no_psb_inside_a_block), T(no_psb_inside_other_compound_events_even_if_asked),
        T(psbs_come_again_behind_sipi_and_behind_the_end_of_tracing), T(an_overflow_ends_with_the_trace),
        T(what_a_reset_finds_in_the_buffer_is_lost), T(a_reset_wakes), T(status_counts_on_from_what_software_wrote),
        T(status_has_no_count_without_configurable_psb), T(filter_en_waits_for_the_context), T(tracestop_forces_filter_en_to_0),
        T(a_warm_reset_clears_the_enables), T(pend_psb_needs_injection_and_a_full_period), T(an_overflow_lasts_until_the_buffer_is_empty),
        T(bits_before_a_lost_packet_are_kept), T(no_cyc_in_an_overflow_and_ovf_has_all_cycles), T(with_os_0_resuming_makes_no_pip),
        T(packets_that_are_cyc_eligible_and_those_that_are_not), T(tip_pgd_tip_pge_and_mtc_are_cyc_eligible_and_tracestop_is_not),
        T(a_cycle_has_one_cyc_even_a_stand_alone_one), T(a_stand_alone_cyc_waits_for_the_threshold_and_flushes_bits),
        T(the_cyc_of_a_later_trace_is_its_own), T(deeper_sleep_does_not_count), T(mtcs_go_on_from_the_wake),
        T(a_leap_without_tsc_en_is_one_mtc), T(art_edges_fall_between_tsc_ticks), T(every_psb_freq_has_its_period),
        T(at_most_16_tips_are_held_back_and_none_with_cycle_counts), T(every_event_has_its_cfe_type),
        T(the_reset_vector_is_an_offset_where_payloads_are_rip), T(triggers_need_the_capability),
        T(erratum_apl11_needs_packets_that_were_on), T(erratum_skl168_mtcs_before_a_psb_are_lost), T(nothing_comes_behind_a_stop),
        T(a_stop_by_the_output_leaves_no_tracestop_behind), T(wrmsr_events_say_what_is_gp), T(a_pmi_of_the_last_flush_is_pending_with_injection),
        T(a_same_value_leaves_the_buffer_alone),
        T(memory_that_refuses_is_no_error_of_the_event), T(one_entry_parts_interrupt_512_bytes_before_the_end),
        T(a_host_without_memory_to_read_has_no_tables), T(the_narrow_door_makes_nothing_while_packets_are_off),
        T(a_single_range_may_begin_at_its_last_byte), T(readers_refuse_what_no_unit_leaves),
    };
    return cmocka_run_group_tests_name("PT edges", tests, NULL, NULL);
}
