/* SPDX-License-Identifier: MIT
 * Register writes that enable and disable, SMM, VMX, INIT, enabling again [RTIT 2.6, RTIT 3.3.2, RTIT B 4.2]. */
#include "unit/rtit_rig.h"

#include <malloc.h>

#define CTL(value) "wrmsr ip=1 next=3 msr=768 value=" #value
#define RANGE "filter_event_id=0 lip0=1000 lip2=2000"
#define IN "jmp ip=500 next=502 target=1100"
#define SMI "event smi ip=1100 target=38000 : smm=1 cpl=0"

/* [RTIT 2.1.1, RTIT 2.1.2, RTIT 2.1.3, RTIT 2.4.1, RTIT 2.4.2, RTIT 2.4.3] */
static const struct scripted enabling[] = {
    {"TriggerEn 0 to 1: PSB, then PGE", "", CTL(d), CTL(200d), "psb; pge 3", 0},
    {"TriggerEn 0 to 1 outside of the range: PSB only", RANGE, CTL(d), CTL(200d), "psb", 0},
    {"Trace_En and TraceActive in one write: the same", "", CTL(0), CTL(200d), "psb; pge 3", 0},
    {"setting TraceActive again: nothing", "", 0, CTL(200d), "", 0},
    {"clearing TraceActive: no PGD, no TraceSTOP, TNT_BUFF stays [RTIT 4.2.8]", "", "jcc ip=1 next=3 target=9 taken", CTL(d), "",
     "tnt_buff=3 trigger_en=0"},
    {"clearing Trace_En: no PGD", "", 0, CTL(200c), "", "trigger_en=0"},
    {"the next PGE then comes with a partial TNT [RTIT 4.2.8]", "", "jcc ip=1 next=3 target=9 taken;" CTL(d), CTL(200d),
     "psb; tnt T; pge 3", "tnt_buff=1"},
    {"clearing User in user code: PGD", "", 0, CTL(2005), "pgd 3", "context_en=0"},
    {"clearing OS in user code: nothing", "", 0, CTL(2009), "", "context_en=1"},
    {"clearing OS in OS code: PGD", "", "far syscall ip=1 next=3 target=1 : cpl=0", CTL(2009), "pgd 3", 0},
    {"setting CR3En with another CR3: PGD", "cr3_match=100", 0, CTL(208d), "pgd 3", 0},
    {"setting User in user code: PGE", "user=0", 0, CTL(200d), "pge 3", 0},
    {"clearing FilterEn through RTIT_STATUS: PGD, until a branch lands inside", RANGE, IN,
     "wrmsr ip=1100 next=1102 msr=769 value=0;jmp ip=1102 next=1104 target=1200", "pgd 1102; pge 1200", 0},
    {"setting FilterEn through RTIT_STATUS: PGE", RANGE, 0, "wrmsr ip=500 next=502 msr=769 value=1", "pge 502", "filter_en=1"},
    {"FilterEn is frozen while Trace_En is 0 [RTIT 2.4.3]", RANGE, CTL(c), "jmp ip=1 next=3 target=1100", "", "filter_en=0"},
    {"FilterEn is not frozen while TraceActive is 0", RANGE, CTL(d), "jmp ip=1 next=3 target=1100", "", "filter_en=1"},
    {"FilterEn is frozen while ContextEn is 0 [RTIT 2.1.3]", RANGE " os=0", IN ";far syscall ip=1100 next=1102 target=5000 : cpl=0",
     "jmp ip=5000 next=5002 target=6000", "", "filter_en=1"},
    {"ContextEn rises in range: PGE [RTIT 4.2.7]", RANGE " os=0", IN ";far syscall ip=1100 next=1102 target=5000 : cpl=0",
     "far sysret ip=5000 next=5003 target=1102 : cpl=3", "pge 1102", 0},
    {"ContextEn rises out of range: nothing", RANGE " os=0", IN ";far syscall ip=1100 next=1102 target=5000 : cpl=0",
     "far sysret ip=5000 next=5003 target=3000 : cpl=3", "", "filter_en=0"},
    {"a page fault out of user-only tracing: FUP, no TIP [RTIT 2.4.1]", "os=0", 0, "event fault ip=10 target=5000 vector=14 : cpl=0",
     "pgd 10", 0},
    {"CPL 1 and 2 are User [RTIT 3.3.2]", "os=0", 0, "far far-ret ip=1 next=2 target=9 : cpl=1;far far-ret ip=9 next=a target=1 : cpl=2",
     "far 2; tip 9; far a; tip 1", 0},
    {"a write of another MSR is an instruction like others", "", 0, "wrmsr ip=1 next=3 msr=10 value=5", "", 0},
};

static const struct scripted smm_and_vmx[] = {
    {"SMI while ContextEn is 0: nothing", "os=0", "far syscall ip=1 next=3 target=9 : cpl=0", SMI, "", "context_en=0"},
    {"in SMM nothing is traced [RTIT 2.6.1]", "", SMI, "jmp* ip=38000 next=38002 target=39000;far iret ip=39000 next=39002 target=1", "", 0},
    {"RSM to another address than the SMI's [RTIT 2.6.1]", "", SMI, "far rsm ip=38000 next=38002 target=1234 : smm=0 cpl=3", "pge 1234", 0},
    {"RSM out of the region [RTIT 2.6.1]", RANGE, IN ";" SMI, "far rsm ip=38000 next=38002 target=5000 : smm=0 cpl=3", "", "filter_en=0"},
    {"RSM with another CR3 [RTIT 2.6.1]", "cr3_en=1 cr3_match=100", "mov-cr3 ip=1 next=3 : cr3=2000;" SMI,
     "far rsm ip=38000 next=38002 target=1100 : smm=0 cpl=3 cr3=9000", "", "context_en=0"},
    {"RSM to a CPL that is not traced", "os=0", SMI, "far rsm ip=38000 next=38002 target=1100 : smm=0 cpl=0", "", "context_en=0"},
    {"in VMX root mode nothing is traced [RTIT 2.6.2]", "", "event vmexit ip=10 target=20 : vmx=1 cpl=0",
     "jmp* ip=20 next=22 target=30;mov-cr3 ip=30 next=33 : cr3=7000", "", "context_en=0"},
    {"VM entry evaluates CR3 anew [RTIT 2.6.2]", "cr3_en=1 cr3_match=100",
     "mov-cr3 ip=1 next=3 : cr3=2000;event vmexit ip=10 target=20 : vmx=1 cpl=0 cr3=9000",
     "far vmentry ip=20 next=23 target=10 : vmx=2 cpl=3 cr3=2000", "pge 10", 0},
    {"VM entry with a CR3 that is not traced", "cr3_en=1 cr3_match=100",
     "mov-cr3 ip=1 next=3 : cr3=2000;event vmexit ip=10 target=20 : vmx=1 cpl=0 cr3=9000",
     "far vmentry ip=20 next=23 target=10 : vmx=2 cpl=3 cr3=3000", "", "context_en=0"},
    {"a VM entry's MSR list enables: PSB, PGE at the guest [RTIT 4.2.1] (docs/decisions/0216)", "trace_active=0",
     "event vmexit ip=10 target=20 : vmx=1 cpl=0;" CTL(d), "far vmentry ip=20 next=23 target=10 msr=768 control=200d : vmx=2 cpl=3",
     "psb; pge 10", "trigger_en=1"},
    {"a VM entry's MSR list disables: nothing", "", "event vmexit ip=10 target=20 : vmx=1 cpl=0",
     "far vmentry ip=20 next=23 target=10 msr=768 control=d : vmx=2 cpl=3;jmp* ip=10 next=12 target=20", "", "trigger_en=0"},
    {"a VM exit's MSR list disables: PGD at the guest RIP first", "", 0, "event vmexit ip=10 target=20 msr=768 control=d : vmx=1 cpl=0",
     "pgd 10", "trigger_en=0"},
    {"a VM exit's MSR list enables: PSB, nothing else in root mode", "", CTL(d),
     "event vmexit ip=10 target=20 msr=768 control=200d : vmx=1 cpl=0;jmp* ip=20 next=22 target=30", "psb", "trigger_en=1"},
    {"lists that load other MSRs are not RTIT's", "", "event vmexit ip=10 target=20 : vmx=1 cpl=0",
     "far vmentry ip=20 next=23 target=10 msr=570 control=d : vmx=2 cpl=3", "pge 10", "trigger_en=1"},
    {"deferred targets come with the next boundary", "", 0, "event intr ip=10 vector=32 deferred : cpl=0;boundary ip=9000",
     "far 10; tip 9000", 0},
    {"or with the next instruction", "", 0, "event intr ip=10 vector=32 deferred : cpl=0;insn ip=9000 next=9002", "far 10; tip 9000", 0},
};

/* [RTIT 2.4.2, RTIT Table 10, RTIT 3.3.8] */
static const struct scripted cr3_filter[] = {
    {"bits 35:5 decide: PCD and PWT do not", "cr3_en=1 cr3_match=100", "mov-cr3 ip=1 next=4 : cr3=2000", "mov-cr3 ip=4 next=7 : cr3=2018", "",
     "context_en=1"},
    {"bit 5 does (PAE)", "cr3_en=1 cr3_match=100", "mov-cr3 ip=1 next=4 : cr3=2000", "mov-cr3 ip=4 next=7 : cr3=2020", "pgd 7", 0},
    {"bit 35 does", "cr3_en=1 cr3_match=100", "mov-cr3 ip=1 next=4 : cr3=2000", "mov-cr3 ip=4 next=7 : cr3=800002000", "pgd 7", 0},
    {"bit 36 does not", "cr3_en=1 cr3_match=100", "mov-cr3 ip=1 next=4 : cr3=2000", "mov-cr3 ip=4 next=7 : cr3=1000002000", "", "context_en=1"},
    {"without CR3En all are traced", "cr3_match=100", "mov-cr3 ip=1 next=4 : cr3=2000", "jmp* target=9", "tip 9", 0},
    {"paging off does not change the filter", "cr3_en=1 cr3_match=100", "mov-cr3 ip=1 next=4 : cr3=2000", "mov-cr0 ip=4 next=7 : pg=0;jmp* target=9",
     "tip 9", "context_en=1"},
    {"CR3 matches, but the CPL is not traced", "cr3_en=1 cr3_match=100 user=0", "mov-cr3 ip=1 next=4 : cr3=9000", "mov-cr3 ip=4 next=7 : cr3=2000",
     "", "context_en=0"},
    {"a write of RTIT_CR3_MATCH: PGD, PGE [RTIT 4.2.7]", "cr3_en=1 cr3_match=100", "mov-cr3 ip=1 next=4 : cr3=2000",
     "wrmsr ip=4 next=6 msr=777 value=3000;wrmsr ip=6 next=8 msr=777 value=2000", "pgd 6; pge 8", 0},
    {"a task switch changes CR3 without PIP [RTIT 4.2.10]", "", 0, "far far-jmp ip=1 next=8 target=9 : cr3=7000", "far 8; tip 9", 0},
    {"INIT changes CR3 and paging without PIP [RTIT 4.2.10]", "", 0, "event init-bsp ip=10 target=fff0 : cpl=0 cr3=0 pg=0", "far 10; tip fff0", 0},
};

/* [RTIT 3.3.13, RTIT 4.2.2] */
static const struct scripted tnt_buff[] = {
    {"six outcomes written by software are a full TNT, sent soon", "", "wrmsr ip=1 next=3 msr=77d value=7f", "insn ip=3 next=5", "tnt TTTTTT",
     "tnt_buff=1"},
    {"outcomes written by software go first", "", "wrmsr ip=1 next=3 msr=77d value=5", "jcc ip=3 next=5 target=9 taken;jmp* target=9",
     "tnt NTT; tip 9", "tnt_buff=1"},
    {"a full TNT written while PacketEn is 0 waits", "filter_event_id=0 lip0=1000 lip2=2000",
     "wrmsr ip=1 next=3 msr=77d value=7f", "insn ip=3 next=5;insn ip=5 next=7", "", "tnt_buff=7f"},
    {"a full TNT written while PacketEn is 0 waits for the next FUP", "filter_event_id=0 lip0=1000 lip2=2000",
     "wrmsr ip=1 next=3 msr=77d value=7f", "insn ip=3 next=5;insn ip=5 next=7;jmp target=1100", "tnt TTTTTT; pge 1100", "tnt_buff=1"},
    {"they shift in from the right", "", 0, "jcc taken;jcc;jcc taken", "", "tnt_buff=d"},
    {"reset by software: the outcomes are gone [RTIT B 4.2.1]", "", "jcc taken;jcc;wrmsr ip=1 next=3 msr=77d value=1", "jmp* target=9", "tip 9", 0},
    {"STS, PSB and TraceSTOP do not force them out (docs/decisions/0207)", "sts_en=1 tracestop_event_id=0 lip0=10 lip2=20", "clock tsc=1;jcc taken",
     "freq value=8 size=8 tsc=1;wrmsr ip=1 next=3 msr=77c value=800;jmp target=10", "sts 8 8 1; psb; stop", "tnt_buff=3"},
};

static const struct scripted lip_compression[] = {
    {"1: the first LIP cannot be compressed [RTIT 4.2.3.1]", "", CTL(d), "wrmsr ip=1 next=123456780000 msr=768 value=200d",
     "psb; pge 123456780000", "pkt_cnt=10"},
    {"2: the next is compressed against it", "", "jmp* target=123456780000", "jmp* target=123456781111", "tip 123456781111",
     "cmprs_lip_high=1234 cmprs_lip_low=5678 pkt_cnt=16"},
    {"4: three of one instruction: PCC against what was last, FAR against it, TIP against that", "cycle_acc=1",
     "jmp* target=123456780000;wrmsr ip=1 next=3 msr=77c value=0;wrmsr ip=3 next=5 msr=76b value=200000",
     "far far-jmp ip=123456790000 next=123456790005 target=9999", "pcc 123456790005 c2097152; far 123456790005 c0; tip 9999 c0",
     "pkt_cnt=10 cmprs_lip_high=0 cmprs_lip_low=0"},
    {"FUP and TIP compress against each other [RTIT 4.2.3.1]", "", "jmp* ip=1 next=3 target=123456780000",
     "far far-jmp ip=123456780000 next=123456780005 target=123499990000", "far 123456780005; tip 123499990000", "pkt_cnt=1b"},
    {"a PSB clears LAST_LIP and LAST_CALL_NLIP [RTIT 4.2.1]", "cmprs_ret=1", "call ip=1 next=6 target=123400000000",
     "wrmsr ip=1 next=3 msr=77c value=800;ret ip=1 next=2 target=6", "psb; tip 6", 0},
    {"Pkt_Mask 0 to 3: bit 11", "pkt_mask=0", "wrmsr ip=1 next=3 msr=77c value=7fd", "jmp* target=9", "tip 9; psb", "pkt_cnt=9"},
    {"Pkt_Mask 1: bit 12", "pkt_mask=1", "wrmsr ip=1 next=3 msr=77c value=10ffd", "jmp* target=9", "tip 9; psb", "pkt_cnt=9"},
    {"Pkt_Mask 2: bit 13", "pkt_mask=2", "wrmsr ip=1 next=3 msr=77c value=21ffd", "jmp* target=9", "tip 9; psb", "pkt_cnt=9"},
    {"Pkt_Mask 3: not with all 14 bits set", "pkt_mask=3", "wrmsr ip=1 next=3 msr=77c value=33ffc", "jmp* target=9", "tip 9",
     "pkt_cnt=3fff"},
    {"Pkt_Mask 3: the carry out of bit 13", "pkt_mask=3", "wrmsr ip=1 next=3 msr=77c value=33ffd", "jmp* target=9", "tip 9; psb",
     "pkt_cnt=9"},
};

/* [RTIT 3.1] */
static void there_is_no_enumeration(void **state)
{
    (void)state;
    static struct rig rig;
    uint32_t regs[4];
    rig_open(&rig, NULL);
    for (uint32_t leaf = 0; leaf < 0x20; leaf++)
        assert_int_equal(cofi_unit_cpuid(rig.unit, leaf, 0, regs), COFI_ERR_RANGE);
    rig_close(&rig);
}

static void init_leaves_tracing_on(void **state)
{
    (void)state;
    static struct rig rig;
    rig_open(&rig, NULL);
    rig_start(&rig, 0);
    cofi_unit_reset(rig.unit, COFI_RESET_INIT);
    rig_events(&rig, "event init-bsp ip=10 target=fffffff0 : cpl=0 mode=16 pg=0");
    assert_packets(&rig, "far 10; tip fffffff0");
    rig_close(&rig);
}

/* A list that loads reserved bits makes the entry fail: nothing of it happened (docs/decisions/0216). */
static void a_vm_entry_whose_list_faults_does_not_happen(void **state)
{
    (void)state;
    static struct rig rig;
    rig_open(&rig, NULL);
    rig_start(&rig, 0);
    rig_events(&rig, "event vmexit ip=10 target=20 : vmx=1 cpl=0");
    rig_packets(&rig);
    struct cofi_event entry = {.kind = COFI_EV_FAR, .cause = COFI_FAR_VMENTRY, .ip = 0x20, .next = 0x23, .target = 0x10, .msr = MSR_CTL,
                               .control = 0x1200d, .context_set = true, .after = rig.context};
    entry.after.vmx = 2;
    assert_int_equal(cofi_unit_event(rig.unit, &entry), COFI_ERR_GP);
    assert_packets(&rig, "");
    assert_int_equal(rig_read(&rig, MSR_STATUS), 5); /* TriggerEn and FilterEn, in root mode */
    rig_close(&rig);
}

/* Whatever it was in the middle of: a reset unit makes what a fresh one makes. */
static void after_a_reset_the_unit_is_as_new(void **state)
{
    (void)state;
    static const struct cofi_unit_config small = {.buffer_bytes = 16, .drain_bytes = 1, .drain_cycles = 10, .errata = COFI_ERRATUM_RTIT_E3};
    static const char *const middles[] = {
        "jmp* ip=1 next=3 target=111100000000", "jcc taken;jcc", "event intr ip=10 vector=32 deferred : cpl=0", "event init-ap ip=10 : cpl=0",
        "sleep size=1 tsc=500 cycles=500", "jmp* target=9;ovf;jmp ip=3 next=5 target=1000",
        "wrmsr ip=3 next=5 msr=77c value=7fa;jmp* target=111100000000",
        "wrmsr ip=3 next=5 msr=77c value=7f4;jmp* target=111100000000;jmp* target=222200000000;jmp* target=333300000000",
        "clock tsc=70000 cycles=90", "call ip=1 next=6 target=9"};
    static struct rig rig;
    for (size_t i = 0; i <= sizeof middles / sizeof middles[0]; i++) {
        rig_open(&rig, &small);
        if (i > 0) {
            rig_fields(&rig, "tracestop_event_id=0 lip0=1000 lip2=2000 cmprs_ret=1 mtc_en=1");
            rig_enable(&rig);
            rig_events(&rig, "clock tsc=1 cycles=0");
            rig_packets(&rig);
            rig_events(&rig, middles[i - 1]);
            size_t n = rig.n;
            cofi_unit_reset(rig.unit, COFI_RESET_WARM);
            assert_int_equal(rig.n, n); /* what was on its way is lost */
            rig.context = (struct cofi_context){.vmcs = UINT64_MAX, .cpl = 3, .mode = 64, .iflag = true, .cr0_pg = true};
            cofi_unit_context(rig.unit, &rig.context, 0x800);
            rig_read(&rig, MSR_CTL);
            rig.seen = rig.n;
            rig.plain = (struct plain_state){0};
        }
        rig_fields(&rig, "cmprs_ret=1 mtc_en=1 cycle_acc=1");
        rig_enable(&rig);
        rig_events(&rig, "clock tsc=100 cycles=10;insn ip=802 next=804;clock tsc=200 cycles=100;jmp* ip=804 next=806 target=9");
        assert_packets(&rig, "psb; pge 800 c0; mtc 0 01 c25; tip 9 c65");
        rig_close(&rig);
    }
}

static void the_unit_wants_instructions_when_it_has_a_range(void **state)
{
    (void)state;
    static struct rig rig;
    rig_open(&rig, NULL);
    rig_fields(&rig, "");
    assert_int_equal(cofi_unit_wants(rig.unit), 0);
    rig_field(&rig, "tracestop_event_id", 1);
    assert_int_equal(cofi_unit_wants(rig.unit), COFI_WANTS_INSN);
    rig_fields(&rig, "filter_event_id=2");
    assert_int_equal(cofi_unit_wants(rig.unit), COFI_WANTS_INSN);
    rig_close(&rig);
}

static void nothing_allocates_after_open(void **state)
{
    (void)state;
    static struct rig rig;
    const struct cofi_unit_config config = {.buffer_bytes = 64, .drain_bytes = 8, .drain_cycles = 10};
    rig_open(&rig, &config);
    rig_start(&rig, 1 << 1 | 1 << 9 | 1 << 10);
    size_t before = mallinfo2().uordblks;
    for (uint64_t i = 0; i < 5000; i++) {
        struct cofi_event e = {.kind = (uint8_t)(i % COFI_EV_OVERFLOW_HINT), .ip = i, .next = i + 2, .target = i << 20, .tsc = i * 50,
                               .cycles = i * 40};
        cofi_unit_event(rig.unit, &e);
    }
    assert_int_equal(mallinfo2().uordblks, before);
    rig_close(&rig);
}

static void a_buffer_that_holds_no_packet_is_refused(void **state)
{
    (void)state;
    struct cofi_unit *unit;
    struct cofi_unit_config config = {.size = sizeof config, .gen = COFI_RTIT, .buffer_bytes = 9};
    assert_int_equal(cofi_unit_open(&unit, &config), COFI_ERR_RANGE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(there_is_no_enumeration),
        cmocka_unit_test(init_leaves_tracing_on),
        cmocka_unit_test(a_vm_entry_whose_list_faults_does_not_happen),
        cmocka_unit_test(after_a_reset_the_unit_is_as_new),
        cmocka_unit_test(the_unit_wants_instructions_when_it_has_a_range),
        cmocka_unit_test(nothing_allocates_after_open),
        cmocka_unit_test(a_buffer_that_holds_no_packet_is_refused),
    };
    ADD_ROWS(enabling);
    ADD_ROWS(smm_and_vmx);
    ADD_ROWS(cr3_filter);
    ADD_ROWS(tnt_buff);
    ADD_ROWS(lip_compression);
    ADD_TESTS(tests);
    return run_suite();
}
