/* SPDX-License-Identifier: MIT
 * The reference's smaller tables, row by row [RTIT Table 1, Table 2, Table 7, Table 17, Table 18, Table 20]. */
#include "unit/rtit_rig.h"

#define RANGE "filter_event_id=0 lip0=1000 lip2=2000"
#define IN "jmp ip=500 next=502 target=1100"
#define OUT "jmp ip=500 next=502 target=3000"
#define ON "jmp ip=500 next=502 target=501"

/* [RTIT Table 1, RTIT 2.2.6, RTIT 4.2.4] */
static const struct scripted table_1[] = {
    {"far CALL and JMP: next instruction", "", 0, "far far-call ip=10 next=17 target=20", "far 17; tip 20", 0},
    {"SYSENTER: next instruction", "", 0, "far sysenter ip=10 next=12 target=20 : cpl=0", "far 12; tip 20", 0},
    {"SYSEXIT: next instruction", "", "far sysenter ip=10 next=12 target=20 : cpl=0",
     "far sysexit ip=20 next=22 target=12 : cpl=3", "far 22; tip 12", 0},
    {"SYSCALL: next instruction", "", 0, "far syscall ip=10 next=12 target=20 : cpl=0", "far 12; tip 20", 0},
    {"SYSRET: next instruction", "", 0, "far sysret ip=20 next=23 target=12 : cpl=3", "far 23; tip 12", 0},
    {"far RET: next instruction", "", 0, "far far-ret ip=10 next=11 target=20", "far 11; tip 20", 0},
    {"IRET: next instruction", "", 0, "far iret ip=10 next=12 target=20", "far 12; tip 20", 0},
    {"INT n: next instruction", "", 0, "far int ip=10 next=12 target=20 : cpl=0", "far 12; tip 20", 0},
    {"external interrupt: the instruction that would have run", "", 0, "event intr ip=10 target=20 : cpl=0",
     "far 10; tip 20", 0},
    {"NMI: the instruction that would have run", "", 0, "event nmi ip=10 target=20 : cpl=0", "far 10; tip 20", 0},
    {"trap: the instruction that would have run", "", 0, "event trap ip=10 target=20 : cpl=0", "far 10; tip 20", 0},
    {"machine check, trap-like: the instruction that would have run", "", 0, "event mc-trap ip=10 target=20 : cpl=0",
     "far 10; tip 20", 0},
    {"INIT: the instruction that would have run", "", 0, "event init-bsp ip=10 target=fff0 : cpl=0", "far 10; tip fff0", 0},
    {"INIT and SIPI: the state after the SIPI decides", "cr3_en=1 cr3_match=100", "mov-cr3 ip=1 next=4 : cr3=2000",
     "event init-ap ip=10 : cpl=0 cr3=0;event sipi target=9000 : cpl=0 mode=16 cr3=2000", "far 10; tip 9000", 0},
    {"INIT and SIPI: from where INIT hit to the SIPI's vector", "", 0,
     "event init-ap ip=10 : cpl=0;event sipi target=9000 : cpl=0 mode=16", "far 10; tip 9000", 0},
    {"SMI: the instruction that would have run", "", 0, "event smi ip=10 target=38000 : smm=1", "pgd 10", 0},
    {"walking out: next instruction", RANGE, IN, "insn ip=1ff0 next=2000", "pgd 2000", 0},
    {"other instruction that ends ContextEn: next instruction", "os=0", 0, "state ip=10 next=12 : cpl=0", "pgd 12", 0},
    {"near jump out: next instruction", RANGE, IN, "jmp ip=1100 next=1102 target=5", "pgd 1102", 0},
    {"fault: the faulting instruction", "", 0, "event fault ip=10 target=20 : cpl=0", "far 10; tip 20", 0},
    {"machine check, fault-like: the instruction", "", 0, "event mc-fault ip=10 target=20 : cpl=0", "far 10; tip 20", 0},
    {"overflow: the instruction that will run, after a branch", "", "jmp ip=10 next=12 target=20;ovf", "insn ip=20 next=22",
     "ovf 20", 0},
    {"overflow: the instruction that will run, sequentially", "", "insn ip=10 next=12;ovf", "insn ip=12 next=14", "ovf 12", 0},
    {"PCC: the next sequential instruction (docs/decisions/0206)", "cycle_acc=1",
     "wrmsr ip=8 next=a msr=76b value=200000", "insn ip=10 next=12", "pcc 12 c2097152", "cntp=0"},
    {"PacketEn rises by a branch: its target", RANGE, OUT, "jmp ip=3000 next=3002 target=1100", "pge 1100", 0},
    {"PacketEn rises sequentially: the next instruction", RANGE, OUT, "insn ip=ff0 next=1000", "pge 1000", 0},
    {"VM entry: where it goes on", "", "event vmexit ip=10 target=20 : vmx=1", "far vmentry ip=20 next=23 target=10 : vmx=2",
     "pge 10", 0},
    {"RSM: where it goes on", "", "event smi ip=10 target=20 : smm=1", "far rsm ip=20 next=22 target=10 : smm=0", "pge 10", 0},
    {"VM exit: the guest RIP", "", 0, "event vmexit ip=10 target=20 : vmx=1", "pgd 10", 0},
};

/* [RTIT Table 2, RTIT 2.2.2.1, RTIT 2.2.2.2, RTIT 2.2.3, RTIT 2.2.4, RTIT 2.2.5, RTIT 2.2.7] */
static const struct scripted table_2[] = {
    {"Jcc and LOOP: TNT", "", 0,
     "jcc ip=1 next=3 target=9 taken;jcc ip=9 next=b target=1;jcc ip=b next=d target=1 taken;"
     "jcc ip=1 next=3 target=9;jcc ip=3 next=5 target=9;jcc ip=5 next=7 target=9 taken", "tnt TNTNNT", 0},
    {"near JMP indirect: TIP with BLIP", "", 0, "jmp* ip=1 next=3 target=9", "tip 9", 0},
    {"near CALL indirect: TIP with BLIP", "", 0, "call* ip=1 next=3 target=9", "tip 9", 0},
    {"near RET: TIP with BLIP", "", 0, "ret ip=1 next=2 target=9", "tip 9", 0},
    {"far JMP: FUP, TIP", "", 0, "far far-jmp ip=1 next=8 target=9", "far 8; tip 9", 0},
    {"far RET and IRET: FUP, TIP", "", 0, "far iret ip=1 next=2 target=9", "far 2; tip 9", 0},
    {"exception, interrupt, trap: FUP, TIP", "", 0, "event trap ip=1 target=9", "far 1; tip 9", 0},
    {"SYSENTER, SYSEXIT: FUP, TIP", "", 0, "far sysexit ip=1 next=3 target=9", "far 3; tip 9", 0},
    {"SYSCALL, SYSRET: FUP, TIP", "", 0, "far sysret ip=1 next=3 target=9", "far 3; tip 9", 0},
    {"direct JMP and CALL: nothing [RTIT 2.2.2.2]", "", 0, "jmp ip=1 next=3 target=9;call ip=9 next=e target=20", "", 0},
};

#define TWO "lip0=1000 lip2=2000 lip1=4000 lip3=5000 filter_event_id="
static const struct scripted table_7[] = {
    {"0: RANGE0", TWO "0", 0, "jmp target=1000;jmp ip=1000 next=1002 target=4000", "pge 1000; pgd 1002", "filter_en=0"},
    {"1: RANGE1", TWO "1", 0, "jmp target=4fff;jmp ip=4fff next=5001 target=1000", "pge 4fff; pgd 5001", "filter_en=0"},
    {"2: either, and from one to the other", TWO "2", 0,
     "jmp target=1000;jmp ip=1000 next=1002 target=4000;jmp ip=4000 next=4002 target=3000", "pge 1000; pgd 4002", 0},
    {"3: reserved, never matches (docs/decisions/0204)", TWO "3", 0, "jmp target=1000;jmp target=4000", "", "filter_en=0"},
    {"4: reserved, never matches", TWO "4", 0, "jmp target=1000;jmp target=4000", "", "filter_en=0 filter_event_id=4"},
    {"5: reserved, never matches", TWO "5", 0, "jmp target=1000;jmp target=4000", "", "filter_en=0"},
    {"6: always off", TWO "6", 0, "jmp target=1000;jmp target=4000", "", "filter_en=0"},
    {"7: always on", TWO "7", 0, "jmp target=9000", "", "filter_en=1"},
    {"RANGE0 ends before its limit", TWO "0", 0, "jmp target=1fff;jmp ip=1fff next=2001 target=2000",
     "pge 1fff; pgd 2001", 0},
    {"walking over base and limit, both ranges", TWO "2", OUT,
     "insn ip=ffe next=1000;insn ip=1ffe next=2000;insn ip=3ffe next=4000;insn ip=4ffe next=5000",
     "pge 1000; pgd 2000; pge 4000; pgd 5000", 0},
    {"an instruction across the base does not enter", TWO "0", OUT, "insn ip=fff next=1001", "", "filter_en=0"},
    {"an instruction across the limit does not leave", TWO "0", IN, "insn ip=1fff next=2001", "", "filter_en=1"},
    {"an empty range is never entered (docs/decisions/0205)", "lip0=1000 lip2=1000 filter_event_id=0", 0,
     "insn ip=ffe next=1000;jmp ip=1000 next=1002 target=1000", "", "filter_en=0"},
    {"a range of the upper half holds canonical addresses", "lip0=ffff81001000 lip2=ffff81002000 filter_event_id=0", 0,
     "jmp target=ffffffff81001100;jmp ip=ffffffff81001100 next=ffffffff81001105 target=1100", "pge ffff81001100; pgd ffff81001105", 0},
    {"a reserved id clears FilterEn when it is next looked at, in sequential flow too (docs/decisions/0204)", TWO "7", ON,
     "wrmsr ip=1100 next=1102 msr=76c value=33", "pgd 1102", "filter_en=0"},
    {"enabled within a range: not entered until base or a branch", TWO "0", "wrmsr ip=1100 next=1102 msr=769 value=0",
     "insn ip=1102 next=1104;jmp ip=1104 next=1106 target=1108", "pge 1108", 0},
    {"enabled within a range, and it walks to the limit: nothing [RTIT 3.3.5]", TWO "0", "wrmsr ip=1100 next=1102 msr=769 value=0",
     "insn ip=1102 next=1ffe;insn ip=1ffe next=2000;insn ip=2000 next=2002", "", "filter_en=0"},
    {"enabled within a TraceStop range: nothing until base or a branch [RTIT 3.3.5]", TWO "7 tracestop_event_id=0 trace_active=0",
     "jmp ip=1 next=3 target=1100;wrmsr ip=1100 next=1102 msr=768 value=200d", "insn ip=1102 next=1104;jmp ip=1104 next=1106 target=1108",
     "stop", "trace_active=0"},
    {"TraceStop 0: a branch into RANGE0", TWO "7 tracestop_event_id=0", 0, "jmp ip=1 next=3 target=1100", "stop",
     "trace_active=0 filter_en=0 trace_en=1"},
    {"TraceStop 0: walking in", TWO "7 tracestop_event_id=0", 0, "insn ip=ffe next=1000", "stop", "trace_active=0"},
    {"TraceStop 1: a branch into RANGE1, not RANGE0", TWO "7 tracestop_event_id=1", 0,
     "jmp ip=1 next=3 target=1100;jmp* ip=1100 next=1102 target=4000", "tip 4000; stop", "trace_active=0"},
    {"TraceStop 2: either", TWO "7 tracestop_event_id=2", 0, "jmp ip=1 next=3 target=4100", "stop", "trace_active=0"},
    {"TraceStop 3: never", TWO "7 tracestop_event_id=3", 0, "jmp ip=1 next=3 target=1100", "", "trace_active=1"},
    {"TraceStop 4: never", TWO "7 tracestop_event_id=4", 0, "jmp ip=1 next=3 target=1100", "", "trace_active=1"},
    {"TraceStop 5: never", TWO "7 tracestop_event_id=5", 0, "jmp ip=1 next=3 target=1100", "", "trace_active=1"},
    {"TraceStop 6: never", TWO "7 tracestop_event_id=6", 0, "jmp ip=1 next=3 target=1100", "", "trace_active=1"},
    {"TraceStop 7: at once", TWO "7", 0, "wrmsr ip=1 next=3 msr=76c value=3f", "stop", "trace_active=0"},
    {"filter on RANGE0, stop on RANGE1", TWO "0 tracestop_event_id=1", IN,
     "jmp ip=1100 next=1102 target=3000;jmp ip=3000 next=3002 target=4000", "pgd 1102; stop", "trace_active=0"},
    {"TraceStop needs ContextEn [RTIT 4.2.11]", TWO "7 tracestop_event_id=0 os=0", "far syscall ip=1 next=3 target=9 : cpl=0",
     "jmp ip=9 next=b target=1100", "", "trace_active=1"},
    {"TraceStop leaves TNT_BUFF as it is [RTIT 4.2.11]", TWO "7 tracestop_event_id=0", 0,
     "jcc ip=1 next=3 target=1100 taken", "stop", "tnt_buff=3 trace_active=0"},
    {"a far transfer out of the filter into TraceStop: FAR, as no PGD is due", TWO "0 tracestop_event_id=1", IN,
     "far far-jmp ip=1100 next=1105 target=4000", "far 1105; tip 4000; stop", 0},
    {"TraceSTOP is the last packet: no PSB, though it reaches Pkt_Cnt's limit (docs/decisions/0221)", TWO "7 tracestop_event_id=0",
     "wrmsr ip=1 next=3 msr=77c value=7ff", "jmp ip=1 next=3 target=1100;insn ip=1100 next=1102", "stop", "pkt_cnt=800"},
    {"a far transfer into TraceStop makes its packets (docs/decisions/0208)", TWO "7 tracestop_event_id=0", 0,
     "far far-jmp ip=1 next=8 target=1100", "far 8; tip 1100; stop", 0},
};

/* T, C, F: TriggerEn, ContextEn, FilterEn. */
#define NO_T "wrmsr ip=1 next=3 msr=768 value=60f"
#define NO_C "far syscall ip=1 next=3 target=1100 : cpl=0"
#define NO_F "wrmsr ip=1 next=3 msr=76c value=36"
#define MTC_ON "mtc_en=1 sts_en=1 "
#define C0 ";clock tsc=0 cycles=0"
#define PCC ";wrmsr ip=1 next=3 msr=76b value=200000"
/* [RTIT Table 17, RTIT 4.1] */
static const struct scripted table_17[] = {
    {"branch packets: T C F", "", 0, "jmp* ip=1 next=3 target=9", "tip 9", 0},
    {"branch packets: not without T", "", NO_T, "jmp* ip=1 next=3 target=9;far iret ip=9 next=a target=1", "", 0},
    {"branch packets: not without C", "os=0", NO_C, "jmp* ip=1 next=3 target=9;far iret ip=9 next=a target=1", "", 0},
    {"branch packets: not without F", "", NO_F, "jmp* ip=1 next=3 target=9;far iret ip=9 next=a target=1", "", 0},
    {"FUP.PGE: T C F", RANGE, OUT, "jmp ip=1 next=3 target=1100", "pge 1100", 0},
    {"FUP.PGE: not without T", RANGE, NO_T, "jmp ip=1 next=3 target=1100", "", "filter_en=1"},
    {"FUP.PGE: not without C", RANGE " os=0", NO_C, "jmp ip=1 next=3 target=1100", "", 0},
    {"FUP.PGD: T", RANGE, IN, "jmp ip=1100 next=1102 target=9", "pgd 1102", 0},
    {"FUP.PGD: not without T", RANGE, IN ";" NO_T, "jmp ip=1100 next=1102 target=9", "", "filter_en=0"},
    {"TraceStop: clears T", "tracestop_event_id=0 lip0=10 lip2=20", 0, "jmp ip=1 next=3 target=10", "stop", "trigger_en=0"},
    {"PSB: T, without C and F", "mtc_en=1", NO_C C0 ";" NO_F ";wrmsr ip=1 next=3 msr=77c value=7ff",
     "clock tsc=80 cycles=1;clock tsc=160 cycles=2", "mtc 0 01; psb", 0},
    {"PSB: not without T", "mtc_en=1", NO_T C0, "wrmsr ip=1 next=3 msr=77c value=800", "", "pkt_cnt=800"},
    {"STS, MTC with LESS_PKTS: T C F", MTC_ON "less_pkts=1", ON C0, "clock tsc=128;freq tsc=129", "mtc 0 01; sts 0 0 81", 0},
    {"STS, MTC with LESS_PKTS: not without C", MTC_ON "less_pkts=1 os=0", NO_C C0, "clock tsc=128;freq tsc=129", "", 0},
    {"STS, MTC with LESS_PKTS: not without F", MTC_ON "less_pkts=1", NO_F C0, "clock tsc=128;freq tsc=129", "", 0},
    {"STS, MTC without LESS_PKTS: without C", MTC_ON "os=0", NO_C C0, "clock tsc=128;freq tsc=129", "mtc 0 01; sts 0 0 81", 0},
    {"STS, MTC without LESS_PKTS: without F", MTC_ON, NO_F C0, "clock tsc=128;freq tsc=129", "mtc 0 01; sts 0 0 81", 0},
    {"STS, MTC without LESS_PKTS: not without T", MTC_ON, NO_T C0, "clock tsc=128;freq tsc=129", "", 0},
    {"FUP.PCC with LESS_PKTS: T C F", "cycle_acc=1 less_pkts=1", ON PCC, "insn ip=10 next=12", "pcc 12 c2097152", 0},
    {"FUP.PCC with LESS_PKTS: not without F", "cycle_acc=1 less_pkts=1", NO_F PCC, "insn ip=10 next=12", "", 0},
    {"FUP.PCC with LESS_PKTS: not without C", "cycle_acc=1 less_pkts=1 os=0", NO_C PCC, "insn ip=10 next=12", "", 0},
    {"FUP.PCC without LESS_PKTS: without F", "cycle_acc=1", NO_F PCC, "insn ip=10 next=12", "pcc 12 c2097152", 0},
    {"FUP.PCC without LESS_PKTS: not without C", "cycle_acc=1 os=0", NO_C PCC, "insn ip=10 next=12", "", 0},
    {"FUP.BuffOvf: T C, without F", "", NO_F ";ovf", "insn ip=10 next=12", "ovf 10", "buffer_overflow=0"},
    {"FUP.BuffOvf: not without C", "os=0", NO_C ";ovf", "insn ip=10 next=12", "", "buffer_overflow=1"},
    {"FUP.BuffOvf: not without T", "", NO_T ";ovf", "insn ip=10 next=12", "", "buffer_overflow=1"},
    {"cycle counter with LESS_PKTS: T C F (docs/decisions/0203)", "less_pkts=1", ON C0, "clock cycles=7", "", "cntp=7"},
    {"cycle counter with LESS_PKTS: not without F", "less_pkts=1", NO_F C0, "clock cycles=7", "", "cntp=0"},
    {"cycle counter without LESS_PKTS: without F", "", NO_F C0, "clock cycles=7", "", "cntp=7"},
    {"cycle counter without LESS_PKTS: not without C", "os=0", NO_C C0, "clock cycles=7", "", "cntp=0"},
    {"cycle counter without LESS_PKTS: not without T", "", NO_T C0, "clock cycles=7", "", "cntp=0"},
};

/* [RTIT Table 20, RTIT 4.4] */
static const struct scripted table_20[] = {
    {"PSB: a synchronization point by byte count", "", 0, "wrmsr ip=1 next=3 msr=77c value=800", "psb", "pkt_cnt=9"},
    {"FUP: the cycle counter is half full", "cycle_acc=1", ON PCC, "insn ip=10 next=12", "pcc 12 c2097152", 0},
    {"FUP: packet generation turned on", RANGE, OUT, "jmp target=1100", "pge 1100", 0},
    {"FUP: packet generation turned off", RANGE, IN, "jmp ip=1100 next=1102 target=9", "pgd 1102", 0},
    {"TraceStop: turns RTIT off", "tracestop_event_id=0 lip0=10 lip2=20", 0, "jmp target=10;jmp* target=20", "stop", 0},
    {"MTC: a small clock", "mtc_en=1", ON C0, "clock tsc=128;clock tsc=255;clock tsc=256", "mtc 0 01; mtc 0 02", 0},
    {"STS: frequency", "sts_en=1", ON C0, "freq value=12 size=16 tsc=5", "sts 18 16 5", 0},
    {"STS: waking", "sts_en=1", ON C0 ";sleep size=1", "wake tsc=9", "sts 0 0 9", 0},
};

/* [RTIT Table 18]: last LIP, LIP, expected CNT and Zext. */
static const struct { const char *name; uint64_t last, lip; unsigned cnt, zext; } table_18[] = {
    {"table_18: row 1: both match, high not zero: 2 bytes", 0x123456780000, 0x123456781111, 0, 0},
    {"table_18: row 2: both match, only high zero: 2 bytes", 0x000056780000, 0x000056781111, 0, 0},
    {"table_18: row 3: both zero: 2 bytes, zero extended", 0x123456780000, 0x000000001111, 0, 1},
    {"table_18: row 3: both zero and both match: zero extended", 0x000000000000, 0x000000001111, 0, 1},
    {"table_18: row 4: high matches, middle not, high not zero: 4 bytes", 0x123456780000, 0x123499991111, 1, 0},
    {"table_18: row 5: high zero, middle not, high matches: 4 bytes, zero extended", 0x000012340000, 0x000056781111, 1, 1},
    {"table_18: row 6: high zero, high differs: 4 bytes, zero extended", 0x123456780000, 0x000056781111, 1, 1},
    {"table_18: row 7: high differs, not zero: 6 bytes", 0x123456780000, 0x999956781111, 2, 0},
};

static void lip_compression_row(void **state)
{
    static struct rig rig;
    size_t i = (size_t)*state;
    rig_open(&rig, NULL);
    rig_start(&rig, 0);
    branch(&rig, COFI_EV_JMP_IND, 1, 3, table_18[i].last);
    rig_packets(&rig);
    size_t at = rig.n;
    branch(&rig, COFI_EV_JMP_IND, 1, 3, table_18[i].lip);
    cofi_unit_drain(rig.unit);
    assert_int_equal(rig.bytes[at], 0xb0 | table_18[i].zext << 2 | table_18[i].cnt);
    assert_int_equal(rig.n - at, 3 + 2 * table_18[i].cnt);
    assert_int_equal(rig_read(&rig, MSR_LAST_LIP), table_18[i].lip >> 16 | UINT64_C(1) << 32);
    rig_close(&rig);
}

static void the_first_lip_is_never_compressed_against_nothing(void **state)
{
    (void)state;
    static struct rig rig;
    rig_open(&rig, NULL);
    rig_start(&rig, 0);
    rig_write(&rig, MSR_LAST_LIP, 0x12345678); /* values, but not valid */
    size_t at = rig.n;
    branch(&rig, COFI_EV_JMP_IND, 1, 3, 0x123456780000);
    cofi_unit_drain(rig.unit);
    assert_int_equal(rig.bytes[at], 0xb2);
    rig_close(&rig);
}

int main(void)
{
    enum { ROWS = sizeof table_18 / sizeof table_18[0] };
    struct CMUnitTest compression[ROWS + 1] = {
        cmocka_unit_test(the_first_lip_is_never_compressed_against_nothing)};
    for (size_t i = 0; i < ROWS; i++)
        compression[i + 1] = (struct CMUnitTest){table_18[i].name, lip_compression_row, NULL, NULL, (void *)i};
    ADD_ROWS(table_1);
    ADD_ROWS(table_2);
    ADD_ROWS(table_7);
    ADD_ROWS(table_17);
    ADD_TESTS(compression);
    ADD_ROWS(table_20);
    return run_suite();
}
