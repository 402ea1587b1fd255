/* SPDX-License-Identifier: MIT
 * Registers: every field, every reserved bit, every #GP, reset values, XSAVES, by hand from [PTREF 1, PTREF 2]. */
#include "pt_rig.h"

#include <stdlib.h>
#include <string.h>

static struct pt_rig *open_model(const char *model)
{
    struct pt_rig *rig = malloc(sizeof *rig);
    rig_open(rig, &(struct cofi_unit_config){.model = model});
    return rig;
}

static void done(struct pt_rig *rig)
{
    rig_close(rig);
    free(rig);
}

static int write_msr(struct pt_rig *rig, uint32_t msr, uint64_t value) { return cofi_unit_wrmsr(rig->unit, msr, value); }

#define accepts(rig, msr, value) assert_int_equal(write_msr(rig, msr, value), 0)
#define faults(rig, msr, value) assert_int_equal(write_msr(rig, msr, value), COFI_ERR_GP)

/* Writable bits of each register on a part with everything, transcribed from the bit tables. */
struct mask_row {
    uint32_t msr;
    uint64_t writable, ignored; /* ignored: a 1 is accepted and not kept; the rest faults */
};

static const struct mask_row masks[] = {
    {MSR_CTL, UINT64_C(0x0180ffff8f7bffff), 0},
    {MSR_STATUS, UINT64_C(0x0001ffff000000f0), 7},
    {MSR_OUTPUT_BASE, UINT64_C(0x00003fffffffff80), 0},
    {MSR_OUTPUT_MASK_PTRS, UINT64_C(0xffffffffffffff80), 0x7f},
    {MSR_CR3_MATCH, UINT64_C(0xffffffffffffffe0), 0},
};

/* [PTREF 2.1; PTREF 2.3; PTREF 2.4; PTREF 2.5; SDM IA32_RTIT_CTL fields; SDM IA32_RTIT_OUTPUT_BASE MSR; SDM
 * IA32_RTIT_OUTPUT_MASK_PTRS MSR; SDM IA32_RTIT_CR3_MATCH MSR] */
static void each_bit_is_writable_ignored_or_faults(void **state)
{
    struct pt_rig *rig = open_model("all");
    (void)state;
    for (size_t i = 0; i < sizeof masks / sizeof masks[0]; i++)
        for (unsigned bit = 0; bit < 64; bit++) {
            uint64_t value = UINT64_C(1) << bit;
            bool enables = masks[i].msr == MSR_CTL && bit == 0;
            bool cfg = masks[i].msr == MSR_CTL && bit >= 32 && bit < 48 && bit % 4 >= 2; /* 3..15 are reserved */
            if (enables)
                continue;
            if (cfg || !((masks[i].writable | masks[i].ignored) & value)) {
                faults(rig, masks[i].msr, value);
                continue;
            }
            accepts(rig, masks[i].msr, value);
            uint64_t low = masks[i].msr == MSR_OUTPUT_MASK_PTRS ? 0x7f : 0;
            assert_int_equal(rig_msr(rig, masks[i].msr), (value & masks[i].writable) | low);
        }
    done(rig);
}

struct need_case {
    uint64_t bits;
    const char *without; /* a model that lacks the capability */
};

/* [SDM Detection of Intel Processor Trace and Capability Enumeration; PTREF 1.2] */
static void ctl_bits_fault_without_their_capability(void **state)
{
    static const struct need_case cases[] = {
        {CYC_EN, "broadwell"}, {CYC_THRESH(1), "broadwell"}, {PSB_FREQ(1), "broadwell"}, {MTC_EN, "broadwell"},
        {MTC_FREQ(3), "broadwell"}, {PTW_EN, "skylake"}, {FUP_ON_PTW, "skylake"}, {PWR_EVT_EN, "skylake"},
        {FABRIC_EN, "skylake"}, {EVENT_EN, "skylake"}, {DIS_TNT, "alderlake"}, {INJECT, "skylake"},
        {ADDR_CFG(0, 1), "broadwell"}, {ADDR_CFG(2, 1), "skylake"}, {ADDR_CFG(3, 2), "skylake"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct pt_rig *rig = open_model(cases[i].without);
        faults(rig, MSR_CTL, cases[i].bits);
        done(rig);
        rig = open_model("all");
        accepts(rig, MSR_CTL, cases[i].bits);
        done(rig);
    }
}

/* [PTREF 1.2; SDM Enabling and Configuration MSRs] */
static void registers_fault_without_their_capability(void **state)
{
    struct pt_rig *rig = open_model("broadwell");
    uint64_t value;
    (void)state;
    for (uint32_t msr = MSR_ADDR0_A; msr < MSR_ADDR0_A + 8; msr++) {
        faults(rig, msr, 0);
        assert_int_equal(cofi_unit_rdmsr(rig->unit, msr, &value), COFI_ERR_GP);
    }
    accepts(rig, MSR_CR3_MATCH, 0x1000); /* Broadwell has CR3 filtering */
    done(rig);
    rig = open_model("skylake"); /* two ranges */
    accepts(rig, MSR_ADDR0_A + 3, 0);
    faults(rig, MSR_ADDR0_A + 4, 0);
    done(rig);
}

static void status_byte_count_is_reserved_without_configurable_psb(void **state)
{
    struct pt_rig *rig = open_model("broadwell");
    (void)state;
    faults(rig, MSR_STATUS, UINT64_C(1) << 32);
    accepts(rig, MSR_STATUS, 0x30);
    done(rig);
}

static void status_pending_bits_are_reserved_without_injection(void **state)
{
    struct pt_rig *rig = open_model("skylake");
    (void)state;
    faults(rig, MSR_STATUS, 0x40);
    faults(rig, MSR_STATUS, 0x80);
    done(rig);
}

/* [PTREF 1.3; SDM Cycle Threshold Description] */
static void encodings_not_in_the_bitmaps_fault(void **state)
{
    struct pt_rig *rig = open_model("skylake"); /* MTC 0 3 6 9; CYC 0..13; PSB 0..5 */
    (void)state;
    for (unsigned i = 0; i < 16; i++) {
        assert_int_equal(write_msr(rig, MSR_CTL, MTC_FREQ(i)), i % 3 == 0 && i <= 9 ? 0 : COFI_ERR_GP);
        assert_int_equal(write_msr(rig, MSR_CTL, CYC_THRESH(i)), i <= 13 ? 0 : COFI_ERR_GP);
        assert_int_equal(write_msr(rig, MSR_CTL, PSB_FREQ(i)), i <= 5 ? 0 : COFI_ERR_GP);
        assert_int_equal(write_msr(rig, MSR_CTL, ADDR_CFG(1, i)), i <= 2 ? 0 : COFI_ERR_GP);
    }
    done(rig);
}

/* [PTREF 2.6; SDM IA32_RTIT_ADDRn_A and IA32_RTIT_ADDRn_B MSRs] */
static void range_addresses_must_be_canonical(void **state)
{
    struct pt_rig *rig = open_model("all");
    (void)state;
    for (uint32_t msr = MSR_ADDR0_A; msr < MSR_ADDR0_A + 8; msr++) {
        accepts(rig, msr, UINT64_C(0x00007fffffffffff));
        accepts(rig, msr, UINT64_C(0xffff800000000000));
        faults(rig, msr, UINT64_C(0x0000800000000000));
        faults(rig, msr, UINT64_C(0xffff7fffffffffff));
        assert_int_equal(rig_msr(rig, msr), UINT64_C(0xffff800000000000));
    }
    done(rig);
}

/* [SDM General Considerations; SDM Enabling and Disabling Packet Generation with TraceEn] */
static void while_tracing_other_registers_fault_and_ctl_takes_only_its_own_value(void **state)
{
    struct pt_rig *rig = open_model("all");
    static const uint32_t others[] = {MSR_STATUS, MSR_OUTPUT_BASE, MSR_OUTPUT_MASK_PTRS, MSR_CR3_MATCH, MSR_ADDR0_A,
                                      MSR_ADDR0_B, MSR_ADDR0_A + 7};
    uint64_t ctl = TRACE_EN | USER | BRANCH_EN;
    (void)state;
    rig_start(rig, ctl, 3, 0x401000);
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        faults(rig, others[i], 0);
    accepts(rig, MSR_CTL, ctl);
    rig_expect(rig, "");
    faults(rig, MSR_CTL, ctl | OS);
    faults(rig, MSR_CTL, ctl & ~USER);
    accepts(rig, MSR_CTL, (ctl | OS | TSC_EN) & ~TRACE_EN); /* others may change as TraceEn is cleared */
    rig_expect(rig, "fup(401000) tip.pgd()");
    accepts(rig, MSR_STATUS, 0);
    done(rig);
}

static void a_faulting_write_changes_nothing(void **state)
{
    struct pt_rig *rig = open_model("all");
    (void)state;
    accepts(rig, MSR_CTL, USER | BRANCH_EN);
    faults(rig, MSR_CTL, TRACE_EN | (UINT64_C(1) << 18));
    assert_int_equal(rig_msr(rig, MSR_CTL), USER | BRANCH_EN);
    rig_expect(rig, "");
    done(rig);
}

static int no_memory(void *opaque, uint64_t address, uint8_t *bytes, size_t n)
{
    (void)opaque, (void)address, (void)bytes, (void)n;
    return COFI_ERR_RANGE;
}

static int no_store(void *opaque, uint64_t address, const uint8_t *bytes, size_t n)
{
    (void)opaque, (void)address, (void)bytes, (void)n;
    return COFI_ERR_RANGE;
}

static void trace_en_needs_an_output_that_exists(void **state)
{
    struct pt_rig *rig = malloc(sizeof *rig);
    (void)state;
    rig_open(rig, &(struct cofi_unit_config){.model = "broadwell", .memory = {no_memory, no_store, NULL}});
    faults(rig, MSR_CTL, TRACE_EN | USER | BRANCH_EN); /* no single range there */
    accepts(rig, MSR_CTL, USER | BRANCH_EN);           /* with TraceEn=0 it may be written */
    accepts(rig, MSR_CTL, TRACE_EN | USER | BRANCH_EN | TOPA);
    done(rig);
}

/* [SDM Model Specific Capability Restrictions; ERR BDM106; PTREF 6.9] */
static void broadwell_cannot_do_without_branch_packets(void **state)
{
    struct pt_rig *rig = open_model("broadwell");
    (void)state;
    faults(rig, MSR_CTL, TRACE_EN | USER | TOPA);
    accepts(rig, MSR_CTL, TRACE_EN | USER | TOPA | BRANCH_EN);
    done(rig);
    rig = open_model("skylake");
    accepts(rig, MSR_CTL, TRACE_EN | USER);
    done(rig);
}

/* [PTREF 1.4; SDM Virtual-Machine Extensions (VMX)] */
static void trace_en_faults_in_vmx_operation_of_parts_that_cannot_trace_it(void **state)
{
    struct pt_rig *rig = open_model("broadwell");
    (void)state;
    rig->context.vmx = 1;
    cofi_unit_context(rig->unit, &rig->context, 0x1000);
    faults(rig, MSR_CTL, TRACE_EN | USER | TOPA | BRANCH_EN);
    done(rig);
}

static void vmxon_clears_trace_en_on_parts_that_cannot_trace_it(void **state)
{
    struct pt_rig *rig = open_model("broadwell");
    (void)state;
    rig_start(rig, TRACE_EN | OS | USER | BRANCH_EN | TOPA, 0, 0x401000);
    struct cofi_event vmxon = {.kind = COFI_EV_STATE, .ip = 0x401000, .next = 0x401005, .context_set = true};
    vmxon.after = rig->context;
    vmxon.after.vmx = 1;
    rig_event(rig, &vmxon);
    rig_expect(rig, "fup(401000) tip.pgd()");
    assert_int_equal(rig_msr(rig, MSR_CTL) & TRACE_EN, 0);
    done(rig);
}

static void unknown_registers_are_not_found(void **state)
{
    struct pt_rig *rig = open_model("all");
    uint64_t value;
    (void)state;
    assert_int_equal(cofi_unit_rdmsr(rig->unit, 0x573, &value), COFI_ERR_NOT_FOUND);
    assert_int_equal(cofi_unit_wrmsr(rig->unit, 0x768, 0), COFI_ERR_NOT_FOUND);
    done(rig);
}

/* [PTREF 2.2; SDM IA32_RTIT_STATUS MSR] */
static void status_shows_the_enables_and_the_byte_count(void **state)
{
    struct pt_rig *rig = open_model("all");
    (void)state;
    assert_int_equal(rig_msr(rig, MSR_STATUS), 0);
    rig_start(rig, TRACE_EN | USER | BRANCH_EN, 3, 0x401000); /* PSB 16, CBR 4, MODE.TSX 2, PSBEND 2, MODE 2, PGE 5 */
    assert_int_equal(rig_msr(rig, MSR_STATUS), UINT64_C(31) << 32 | 7);
    rig_far(rig, COFI_FAR_SYSCALL, 0x401000, 0xffffffff81000000, 0);
    assert_int_equal(rig_msr(rig, MSR_STATUS) & 7, 5); /* ContextEn 0; FilterEn stays */
    accepts(rig, MSR_CTL, 0);
    assert_int_equal(rig_msr(rig, MSR_STATUS) & 4, 0);
    assert_int_equal(rig_msr(rig, MSR_STATUS) >> 32, 32);
    done(rig);
}

static void status_does_not_change_while_trace_en_is_0(void **state)
{
    struct pt_rig *rig = open_model("all");
    (void)state;
    rig_start(rig, TRACE_EN | USER | BRANCH_EN, 3, 0x401000);
    accepts(rig, MSR_CTL, 0);
    uint64_t status = rig_msr(rig, MSR_STATUS);
    rig_far(rig, COFI_FAR_SYSCALL, 0x401000, 0xffffffff81000000, 0);
    assert_int_equal(rig_msr(rig, MSR_STATUS), status);
    done(rig);
}

/* [SDM Trigger Enable (TriggerEn)] */
static void enabling_with_stopped_or_error_set_generates_nothing(void **state)
{
    (void)state;
    for (unsigned bit = 4; bit <= 5; bit++) {
        struct pt_rig *rig = open_model("all");
        accepts(rig, MSR_STATUS, UINT64_C(1) << bit);
        cofi_unit_context(rig->unit, &(struct cofi_context){.cpl = 3, .mode = 64}, 0x401000);
        accepts(rig, MSR_CTL, TRACE_EN | USER | BRANCH_EN);
        rig_near(rig, COFI_EV_JMP_IND, 0x401000, 2, 0x402000);
        rig_expect(rig, "");
        assert_int_equal(rig_msr(rig, MSR_STATUS) & 0x34, UINT64_C(1) << bit);
        done(rig);
    }
}

/* [PTREF 6.1; SDM Enabling Packet Generation] */
static void enabling_with_a_byte_count_makes_no_psb(void **state)
{
    struct pt_rig *rig = open_model("all");
    (void)state;
    accepts(rig, MSR_STATUS, UINT64_C(100) << 32);
    cofi_unit_context(rig->unit, &(struct cofi_context){.cpl = 3, .mode = 64}, 0x401000);
    accepts(rig, MSR_CTL, TRACE_EN | USER | BRANCH_EN | TSC_EN | MTC_EN);
    rig_expect(rig, "tsc(0) tma(0,0) cbr(24) mode.exec(64) tip.pge(401000)");
    done(rig);
}

static void a_pending_psb_is_made_at_the_next_enable(void **state)
{
    struct pt_rig *rig = open_model("all");
    (void)state;
    accepts(rig, MSR_STATUS, UINT64_C(100) << 32 | 0x40);
    cofi_unit_context(rig->unit, &(struct cofi_context){.cpl = 3, .mode = 64}, 0x401000);
    accepts(rig, MSR_CTL, TRACE_EN | USER | BRANCH_EN | INJECT);
    rig_expect(rig, "psb cbr(24) mode.tsx(commit) psbend mode.exec(64) tip.pge(401000)");
    assert_int_equal(rig_msr(rig, MSR_STATUS) & 0x40, 0);
    done(rig);
}

static void a_pending_pmi_is_raised_at_the_next_enable(void **state)
{
    struct pt_rig *rig = open_model("all");
    (void)state;
    accepts(rig, MSR_STATUS, 0x80);
    accepts(rig, MSR_CTL, TRACE_EN | USER | BRANCH_EN | INJECT);
    assert_int_equal(rig->pmis, 1);
    assert_int_equal(rig_msr(rig, MSR_STATUS) & 0x80, 0);
    done(rig);
}

static void a_psb_due_when_tracing_ends_is_pending(void **state)
{
    struct pt_rig *rig = open_model("all");
    (void)state;
    rig_start(rig, TRACE_EN | USER | BRANCH_EN | INJECT | DIS_RETC, 3, 0x401000);
    while (rig->size < 2048) {
        rig_near(rig, COFI_EV_JMP_IND, 0x401000, 2, 0x7fff00000000);
        cofi_unit_drain(rig->unit);
    }
    accepts(rig, MSR_CTL, INJECT);
    assert_int_equal(rig_msr(rig, MSR_STATUS) & 0x40, 0x40);
    done(rig);
}

static void cold_reset_clears_all(void **state)
{
    struct pt_rig *rig = open_model("all");
    (void)state;
    accepts(rig, MSR_CR3_MATCH, 0x1000);
    accepts(rig, MSR_OUTPUT_MASK_PTRS, UINT64_C(0x500000fff));
    rig_start(rig, TRACE_EN | USER | BRANCH_EN, 3, 0x401000);
    cofi_unit_reset(rig->unit, COFI_RESET_COLD);
    assert_int_equal(rig_msr(rig, MSR_CTL), 0);
    assert_int_equal(rig_msr(rig, MSR_CR3_MATCH), 0);
    assert_int_equal(rig_msr(rig, MSR_STATUS), 0);
    assert_int_equal(rig_msr(rig, MSR_OUTPUT_MASK_PTRS), 0x7f);
    done(rig);
}

/* [SDM Warm Reset] */
static void warm_reset_clears_only_trace_en_where_ip_filtering_exists(void **state)
{
    struct pt_rig *rig = open_model("skylake");
    (void)state;
    accepts(rig, MSR_CR3_MATCH, 0x1000);
    rig_start(rig, TRACE_EN | USER | BRANCH_EN, 3, 0x401000);
    cofi_unit_reset(rig->unit, COFI_RESET_WARM);
    assert_int_equal(rig_msr(rig, MSR_CTL), USER | BRANCH_EN);
    assert_int_equal(rig_msr(rig, MSR_CR3_MATCH), 0x1000);
    done(rig);
    rig = open_model("broadwell");
    accepts(rig, MSR_CR3_MATCH, 0x1000);
    cofi_unit_reset(rig->unit, COFI_RESET_WARM);
    assert_int_equal(rig_msr(rig, MSR_CR3_MATCH), 0);
    done(rig);
}

static void init_clears_nothing(void **state)
{
    struct pt_rig *rig = open_model("all");
    (void)state;
    rig_start(rig, TRACE_EN | USER | BRANCH_EN, 3, 0x401000);
    cofi_unit_reset(rig->unit, COFI_RESET_INIT);
    assert_int_equal(rig_msr(rig, MSR_CTL), TRACE_EN | USER | BRANCH_EN);
    done(rig);
}

static uint64_t qword(const uint8_t *p)
{
    uint64_t value;
    memcpy(&value, p, 8);
    return value;
}

/* [PTREF 2.7; SDM Trace Configuration Context Switch Using XSAVES/XRSTORS] */
static void xsaves_stores_ctl_and_clears_trace_en(void **state)
{
    struct pt_rig *rig = open_model("all");
    uint8_t image[COFI_XSAVE_BYTES];
    uint64_t ctl = TRACE_EN | USER | BRANCH_EN;
    (void)state;
    accepts(rig, MSR_CR3_MATCH, 0x1000);
    accepts(rig, MSR_ADDR0_A + 3, 0x7777);
    accepts(rig, MSR_OUTPUT_BASE, 0x4000);
    rig_start(rig, ctl, 3, 0x401000);
    assert_int_equal(cofi_unit_xsaves(rig->unit, image), 0);
    rig_expect(rig, "fup(401000) tip.pgd()");
    assert_int_equal(qword(image), ctl);
    assert_int_equal(qword(image + 8), 0x4000);
    assert_int_equal(qword(image + 0x10), 0x7f);
    assert_int_equal(qword(image + 0x18) >> 32, rig->size);
    assert_int_equal(qword(image + 0x20), 0x1000);
    assert_int_equal(qword(image + 0x40), 0x7777);
    assert_int_equal(qword(image + 0x48), 0);
    assert_int_equal(rig_msr(rig, MSR_CTL), ctl & ~TRACE_EN);
    done(rig);
}

static void xrstors_puts_it_back_and_goes_on(void **state)
{
    struct pt_rig *rig = open_model("all");
    uint8_t image[COFI_XSAVE_BYTES];
    (void)state;
    rig_start(rig, TRACE_EN | USER | BRANCH_EN, 3, 0x401000);
    cofi_unit_xsaves(rig->unit, image);
    assert_int_equal(cofi_unit_xrstors(rig->unit, NULL), 0);
    assert_int_equal(rig_msr(rig, MSR_CTL), 0);
    rig_packets(rig);
    assert_int_equal(cofi_unit_xrstors(rig->unit, image), 0);
    rig_expect(rig, "cbr(24) mode.exec(64) tip.pge(401000)"); /* the byte count came back: no PSB */
    assert_int_equal(cofi_unit_xrstors(rig->unit, image), COFI_ERR_GP); /* TraceEn is 1 */
    done(rig);
}

static void xrstors_of_a_reserved_bit_faults_without_effect(void **state)
{
    struct pt_rig *rig = open_model("all");
    uint8_t image[COFI_XSAVE_BYTES] = {0};
    (void)state;
    image[0x20] = 1; /* CR3_MATCH bit 0 */
    image[8] = 0x80;
    assert_int_equal(cofi_unit_xrstors(rig->unit, image), COFI_ERR_GP);
    assert_int_equal(rig_msr(rig, MSR_OUTPUT_BASE), 0);
    done(rig);
}

static struct cofi_event vm_entry(const struct pt_rig *rig, uint64_t control)
{
    return (struct cofi_event){.kind = COFI_EV_FAR, .cause = COFI_FAR_VMENTRY, .ip = 0x401000, .next = 0x401003, .target = 0x500000,
                               .vector = COFI_NO_VECTOR, .msr = MSR_CTL, .control = control, .context_set = true, .after = rig->context};
}

/* [SDM Managing Trace Packet Generation Across VMX Transitions; PTREF 2] */
static void lists_of_vm_transitions_write_what_wrmsr_would_take(void **state)
{
    struct pt_rig *rig = open_model("all");
    uint64_t ctl = TRACE_EN | USER | OS | BRANCH_EN;
    (void)state;
    struct cofi_event entry = vm_entry(rig, USER | DIS_RETC); /* TraceEn 0 before and after: the rest is loaded */
    assert_int_equal(rig_event(rig, &entry), 0);
    assert_int_equal(rig_msr(rig, MSR_CTL), USER | DIS_RETC);
    rig_expect(rig, "");
    entry.control = TRACE_EN | USER | (UINT64_C(1) << 18);
    assert_int_equal(rig_event(rig, &entry), COFI_ERR_GP);
    assert_int_equal(rig_msr(rig, MSR_CTL), USER | DIS_RETC);
    rig_start(rig, ctl, 0, 0x401000);
    entry.control = ctl & ~OS; /* TraceEn 1 before and after: as if it were not there */
    assert_int_equal(rig_event(rig, &entry), 0);
    assert_int_equal(rig_msr(rig, MSR_CTL), ctl);
    rig_expect(rig, "tip(500000)");
    entry.control = DIS_RETC | PSB_FREQ(3);
    assert_int_equal(rig_event(rig, &entry), 0);
    assert_int_equal(rig_msr(rig, MSR_CTL), DIS_RETC | PSB_FREQ(3));
    rig_expect(rig, "tip.pgd()");
    done(rig);
}

static void fields_are_set_by_name(void **state)
{
    struct pt_rig *rig = open_model("all");
    (void)state;
    assert_int_equal(cofi_unit_set_field(rig->unit, "psb_freq", 5), 0);
    assert_int_equal(cofi_unit_set_field(rig->unit, "dis_retc", 1), 0);
    assert_int_equal(rig_msr(rig, MSR_CTL), PSB_FREQ(5) | DIS_RETC);
    assert_int_equal(cofi_unit_set_field(rig->unit, "psb_freq", 16), COFI_ERR_RANGE);
    assert_int_equal(cofi_unit_set_field(rig->unit, "pkt_mask", 1), COFI_ERR_NOT_FOUND);
    assert_int_equal(cofi_unit_set_field(rig->unit, "addr3_b", 0x1234), 0);
    assert_int_equal(rig_msr(rig, MSR_ADDR0_A + 7), 0x1234);
    assert_int_equal(cofi_unit_set_field(rig->unit, "addr0_cfg", 3), COFI_ERR_GP);
    done(rig);
}

/* [PTREF 1.1; SDM CPUID Leaf 14H Enumeration of Intel Processor Trace Capabilities] */
static void cpuid_has_the_leaves_of_the_part(void **state)
{
    struct pt_rig *rig = open_model("skylake");
    uint32_t regs[4];
    (void)state;
    assert_int_equal(cofi_unit_cpuid(rig->unit, 7, 0, regs), 0);
    assert_int_equal(regs[1], UINT32_C(1) << 25);
    assert_int_equal(cofi_unit_cpuid(rig->unit, 0x14, 0, regs), 0);
    assert_int_equal(regs[0], 1);
    assert_int_equal(regs[1], 0xf);
    assert_int_equal(regs[2], 7);
    assert_int_equal(cofi_unit_cpuid(rig->unit, 0x14, 1, regs), 0);
    assert_int_equal(regs[0], 0x02490002);
    assert_int_equal(regs[1], 0x003f3fff);
    assert_int_equal(cofi_unit_cpuid(rig->unit, 0x14, 2, regs), 0);
    assert_int_equal(regs[0] | regs[1] | regs[2] | regs[3], 0);
    assert_int_equal(cofi_unit_cpuid(rig->unit, 0x15, 0, regs), 0);
    assert_true(regs[1] > regs[0] && regs[0] > 0);
    assert_int_equal(cofi_unit_cpuid(rig->unit, 1, 0, regs), COFI_ERR_RANGE);
    done(rig);
}

/* As in the public dumps that docs/decisions/0306 names: 14H.0 EBX, ECX, 14H.1 EAX, EBX, 15H EAX, EBX, ECX. */
static void measured_presets_have_the_leaves_of_their_dumps(void **state)
{
    static const struct { const char *model; uint32_t leaves[7]; } dumps[] = {
        {"broadwell", {1, 1, 0, 0, 0, 0, 0}},
        {"goldmont-plus", {0x3f, 0x80000007, 0x02490002, 0x003f3fff, 3, 0xab, 19200000}},
        {"icelake", {0xf, 7, 0x02490002, 0x003f1fff, 2, 0x4e, 38400000}},
        {"icelake-server", {0xf, 7, 0x02490002, 0x003f1fff, 2, 0xd0, 25000000}},
        {"tigerlake", {0x4f, 7, 0x02490002, 0x003f1fff, 2, 0x7e, 38400000}},
        {"alderlake", {0x5f, 7, 0x02490002, 0x003f003f, 2, 0xa6, 38400000}},
        {"gracemont", {0x5f, 0x80000007, 0x02490002, 0x003f1fff, 2, 0xa6, 38400000}},
        {"arrowlake", {0x15f, 7, 0x02490002, 0x003f003f, 2, 0xda, 38400000}},
        {"skymont", {0x15f, 0x80000007, 0x02490002, 0x003f003f, 2, 0xda, 38400000}},
    };
    (void)state;
    for (size_t i = 0; i < sizeof dumps / sizeof dumps[0]; i++) {
        struct pt_rig *rig = open_model(dumps[i].model);
        uint32_t main[4], sub[4], art[4];
        assert_int_equal(cofi_unit_cpuid(rig->unit, 0x14, 0, main), 0);
        assert_int_equal(cofi_unit_cpuid(rig->unit, 0x14, 1, sub), 0);
        assert_int_equal(cofi_unit_cpuid(rig->unit, 0x15, 0, art), 0);
        uint32_t leaves[7] = {main[1], main[2], sub[0], sub[1], art[0], art[1], art[2]};
        assert_memory_equal(leaves, dumps[i].leaves, sizeof leaves);
        done(rig);
    }
}

/* [PTREF 2.9, 1.3]: as many as CPUID says, of four triggers of 16 bits; by name, and at the address that the host
 * gives. Bits 11:7 and inputs that nobody knows are reserved. */
static void trigger_registers_take_what_is_known_of_triggers(void **state)
{
    struct cofi_unit_config config = {.size = sizeof config, .gen = COFI_PT, .trigger_msrs = 0x5a0};
    struct pt_rig *rig = malloc(sizeof *rig);
    uint64_t value;
    uint32_t regs[4];
    (void)state;
    rig_open(rig, &config);
    assert_int_equal(cofi_unit_cpuid(rig->unit, 0x14, 1, regs), 0);
    assert_int_equal(regs[0] >> 8 & 7, 2);
    assert_int_equal(regs[2], 0x8003);
    accepts(rig, 0x5a0, UINT64_C(0x8000c0438002f027));
    accepts(rig, 0x5a1, 0x8040);
    faults(rig, 0x5a0, 0x8028);               /* between the counters and the DRs */
    faults(rig, 0x5a0, 0x8044);               /* there is no DR4 */
    faults(rig, 0x5a0, 0x0080);               /* reserved */
    faults(rig, 0x5a0, UINT64_C(0x0800) << 48);
    faults(rig, 0x5a2, 0);                    /* two registers only */
    assert_int_equal(cofi_unit_get_field(rig->unit, "trigger0_cfg", &value), 0);
    assert_int_equal(value, UINT64_C(0x8000c0438002f027));
    assert_int_equal(cofi_unit_get_field(rig->unit, "trigger2_cfg", &value), COFI_ERR_GP);
    accepts(rig, MSR_CTL, TRACE_EN | BRANCH_EN | USER);
    faults(rig, 0x5a0, 0);                    /* [PTREF 2] */
    done(rig);

    rig = open_model("all");
    assert_int_equal(cofi_unit_rdmsr(rig->unit, 0x5a0, &value), COFI_ERR_NOT_FOUND);
    assert_int_equal(cofi_unit_set_field(rig->unit, "trigger1_cfg", 0x8041), 0);
    assert_int_equal(cofi_unit_get_field(rig->unit, "trigger1_cfg", &value), 0);
    assert_int_equal(value, 0x8041);
    cofi_unit_reset(rig->unit, COFI_RESET_COLD);
    assert_int_equal(cofi_unit_get_field(rig->unit, "trigger1_cfg", &value), 0);
    assert_int_equal(value, 0);
    done(rig);

    rig = open_model("skylake");
    assert_int_equal(cofi_unit_set_field(rig->unit, "trigger0_cfg", 0), COFI_ERR_GP);
    done(rig);
}

/* [PTREF 9.8] */
static void errata_have_names(void **state)
{
    static const struct { const char *name; uint64_t bit; } names[] = {
        {"bdm70", COFI_ERRATUM_BDM70}, {"bdm64", COFI_ERRATUM_BDM64}, {"skd007", COFI_ERRATUM_SKD007}, {"skd022", COFI_ERRATUM_SKD022},
        {"skd010", COFI_ERRATUM_SKD010}, {"skl014", COFI_ERRATUM_SKL014}, {"apl12", COFI_ERRATUM_APL12}, {"apl11", COFI_ERRATUM_APL11},
        {"skl168", COFI_ERRATUM_SKL168}, {"skz84", COFI_ERRATUM_SKZ84}, {"bdm106", COFI_ERRATUM_BDM106}, {"goldmont", COFI_ERRATUM_GOLDMONT}};
    uint64_t bit;
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        assert_int_equal(cofi_unit_erratum(COFI_PT, names[i].name, &bit), 0);
        assert_int_equal(bit, names[i].bit);
        assert_int_equal(cofi_unit_erratum(COFI_RTIT, names[i].name, &bit), COFI_ERR_NOT_FOUND);
    }
    assert_int_equal(cofi_unit_erratum(COFI_PT, "e1", &bit), COFI_ERR_NOT_FOUND);
    assert_int_equal(cofi_unit_erratum(COFI_PT, "", &bit), COFI_ERR_NOT_FOUND);
    assert_int_equal(cofi_unit_erratum(COFI_RTIT, "e8", &bit), 0);
    assert_int_equal(bit, COFI_ERRATUM_RTIT_E8);
}

static void an_unknown_model_or_an_impossible_buffer_does_not_open(void **state)
{
    struct cofi_unit *unit;
    struct cofi_unit_config config = {.size = sizeof config, .gen = COFI_PT, .model = "i486"};
    (void)state;
    assert_int_equal(cofi_unit_open(&unit, &config), COFI_ERR_RANGE);
    config.model = NULL;
    config.buffer_bytes = 1;
    assert_int_equal(cofi_unit_open(&unit, &config), COFI_ERR_RANGE);
}

static void the_byte_count_saturates_at_17_bits(void **state)
{
    struct pt_rig *rig = open_model("all");
    (void)state;
    rig_start(rig, TRACE_EN | USER | BRANCH_EN | DIS_RETC | PSB_FREQ(15), 3, 0x401000);
    for (unsigned i = 0; i < 20000; i++)
        rig_near(rig, COFI_EV_JMP_IND, 0x401000, 2, i & 1 ? 0x7fff00000000 : 0x401000);
    assert_int_equal(rig_msr(rig, MSR_STATUS) >> 32, 0x1ffff);
    done(rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_bit_is_writable_ignored_or_faults),
        cmocka_unit_test(ctl_bits_fault_without_their_capability),
        cmocka_unit_test(registers_fault_without_their_capability),
        cmocka_unit_test(status_byte_count_is_reserved_without_configurable_psb),
        cmocka_unit_test(status_pending_bits_are_reserved_without_injection),
        cmocka_unit_test(encodings_not_in_the_bitmaps_fault),
        cmocka_unit_test(range_addresses_must_be_canonical),
        cmocka_unit_test(while_tracing_other_registers_fault_and_ctl_takes_only_its_own_value),
        cmocka_unit_test(a_faulting_write_changes_nothing),
        cmocka_unit_test(trace_en_needs_an_output_that_exists),
        cmocka_unit_test(broadwell_cannot_do_without_branch_packets),
        cmocka_unit_test(trace_en_faults_in_vmx_operation_of_parts_that_cannot_trace_it),
        cmocka_unit_test(vmxon_clears_trace_en_on_parts_that_cannot_trace_it),
        cmocka_unit_test(unknown_registers_are_not_found),
        cmocka_unit_test(status_shows_the_enables_and_the_byte_count),
        cmocka_unit_test(status_does_not_change_while_trace_en_is_0),
        cmocka_unit_test(enabling_with_stopped_or_error_set_generates_nothing),
        cmocka_unit_test(enabling_with_a_byte_count_makes_no_psb),
        cmocka_unit_test(a_pending_psb_is_made_at_the_next_enable),
        cmocka_unit_test(a_pending_pmi_is_raised_at_the_next_enable),
        cmocka_unit_test(a_psb_due_when_tracing_ends_is_pending),
        cmocka_unit_test(cold_reset_clears_all),
        cmocka_unit_test(warm_reset_clears_only_trace_en_where_ip_filtering_exists),
        cmocka_unit_test(init_clears_nothing),
        cmocka_unit_test(xsaves_stores_ctl_and_clears_trace_en),
        cmocka_unit_test(xrstors_puts_it_back_and_goes_on),
        cmocka_unit_test(xrstors_of_a_reserved_bit_faults_without_effect),
        cmocka_unit_test(lists_of_vm_transitions_write_what_wrmsr_would_take),
        cmocka_unit_test(fields_are_set_by_name),
        cmocka_unit_test(cpuid_has_the_leaves_of_the_part),
        cmocka_unit_test(measured_presets_have_the_leaves_of_their_dumps),
        cmocka_unit_test(trigger_registers_take_what_is_known_of_triggers),
        cmocka_unit_test(errata_have_names),
        cmocka_unit_test(an_unknown_model_or_an_impossible_buffer_does_not_open),
        cmocka_unit_test(the_byte_count_saturates_at_17_bits),
    };
    return cmocka_run_group_tests_name("PT registers", tests, NULL, NULL);
}
