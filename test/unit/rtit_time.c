/* SPDX-License-Identifier: MIT
 * Clocks: CNTP, cycle counts, MTC, STS, sleep states [RTIT 4.2.12, RTIT 4.2.13, RTIT 4.2.14, RTIT B 4.1]. */
#include "unit/rtit_rig.h"

static const struct cofi_unit_config slow = {.buffer_bytes = 64, .drain_bytes = 1, .drain_cycles = 10};

#define C0 "clock tsc=0 cycles=0"
#define CYC "cycle_acc=1"

/* [RTIT 4.2.14, RTIT 4.2.15, RTIT 4.2.6] */
static const struct scripted cycles[] = {
    {"1 byte up to 63", CYC, C0, "clock cycles=63;jmp* target=9", "tip 9 c63", "cntp=0", 0},
    {"2 bytes up to 16383", CYC, C0, "clock cycles=64;jmp* target=9;clock cycles=16447;jmp* target=a", "tip 9 c64; tip a c16383", 0, 0},
    {"3 bytes above", CYC, C0, "clock cycles=16384;jmp* target=9", "tip 9 c16384", "pkt_cnt=13", 0},
    {"the counter wraps at 22 bits", "", C0, "clock cycles=4194305", "", "cntp=1", 0},
    {"a full TNT has a cycle count, a partial one has none", CYC, C0 ";jcc;jcc;jcc;jcc;jcc",
     "clock cycles=5;jcc;clock cycles=7;jcc;jmp* target=9", "tnt NNNNNN c5; tnt N; tip 9 c2", 0, 0},
    {"FUP has one", CYC, C0, "clock cycles=5;far iret ip=1 next=2 target=3", "far 2 c5; tip 3 c0", 0, 0},
    {"PIP has one", CYC, C0, "clock cycles=5;mov-cr3 ip=1 next=2 : cr3=1000", "pip 1 1000 c5", 0, 0},
    {"MTC has one", CYC " mtc_en=1", C0, "clock tsc=128 cycles=5", "mtc 0 01 c5", 0, 0},
    {"STS has one", CYC " sts_en=1", C0, "clock tsc=9 cycles=5;freq tsc=9 cycles=5 value=8 size=8", "sts 8 8 9 c5", 0, 0},
    {"TraceSTOP and PSB have none", CYC " tracestop_event_id=0 lip0=10 lip2=20", C0,
     "clock cycles=5;wrmsr ip=1 next=3 msr=77c value=800;jmp target=10", "psb; stop", "cntp=5", 0},
    {"without CYCLE_ACC there are none, but the counter runs", "", C0, "clock cycles=5;jmp* target=9", "tip 9", "cntp=5", 0},
    {"PCC comes when bit 21 is set, not before", CYC, C0, "clock cycles=2097151;insn ip=1 next=3;clock cycles=2097152;insn ip=3 next=5",
     "pcc 5 c2097152", "cntp=0", 0},
    {"PCC after a RET carries an address never executed [RTIT 4.2.6]", CYC, C0, "clock cycles=2097152;ret ip=1 next=2 target=9",
     "pcc 2 c2097152; tip 9 c0", 0, 0},
    {"PCC's address is the last LIP then [RTIT 4.2.3.1]", CYC, "wrmsr ip=1 next=3 msr=77c value=800;wrmsr ip=3 next=5 msr=76b value=200000",
     "insn ip=123456780000 next=123456780002", "pcc 123456780002 c2097152", "cmprs_lip_valid=1 cmprs_lip_high=1234 cmprs_lip_low=5678", 0},
    {"PCC forces a partial TNT", CYC, C0 ";jcc taken", "clock cycles=2097152;insn ip=1 next=2", "tnt T; pcc 2 c2097152", 0, 0},
    {"no PCC without CYCLE_ACC", "", C0, "clock cycles=2097152;insn ip=1 next=2", "", "cntp=200000", 0},
};

static const struct scripted mtc[] = {
    {"range 0: TSC[14:7]", "mtc_en=1", C0, "clock tsc=127;clock tsc=128;clock tsc=255;clock tsc=256", "mtc 0 01; mtc 0 02", 0, 0},
    {"range 1: TSC[16:9]", "mtc_en=1 mtc_range=1", C0, "clock tsc=511;clock tsc=512;clock tsc=1024", "mtc 1 01; mtc 1 02", 0, 0},
    {"range 2: TSC[18:11]", "mtc_en=1 mtc_range=2", C0, "clock tsc=2047;clock tsc=2048", "mtc 2 01", 0, 0},
    {"range 3: TSC[20:13]", "mtc_en=1 mtc_range=3", C0, "clock tsc=8191;clock tsc=8192", "mtc 3 01", 0, 0},
    {"the 8 bits wrap", "mtc_en=1", "clock tsc=32640", "clock tsc=32768", "mtc 0 00", 0, 0},
    {"every change on the way, at its cycle", "mtc_en=1 cycle_acc=1", C0, "clock tsc=512 cycles=400",
     "mtc 0 01 c100; mtc 0 02 c100; mtc 0 03 c100; mtc 0 04 c100", 0, 0},
    {"a jump beyond 255 changes: one STS (docs/decisions/0209)", "mtc_en=1 sts_en=1", C0, "clock tsc=1000000;clock tsc=1000064",
     "sts 0 0 f4240; mtc 0 85", 0, 0},
    {"256 changes at once are too many", "mtc_en=1 sts_en=1", C0, "clock tsc=32768", "sts 0 0 8000", 0, 0},
    {"a jump without STS_En: one MTC", "mtc_en=1", C0, "clock tsc=1000000", "mtc 0 84", 0, 0},
    {"a clock that goes back stands still", "mtc_en=1", C0, "clock tsc=256 cycles=10;clock tsc=120 cycles=5;clock tsc=256 cycles=10",
     "mtc 0 01; mtc 0 02", "cntp=a", 0},
    {"off without MTC_En", "", C0, "clock tsc=128", "", 0, 0},
    {"MTC does not force a TNT (docs/decisions/0207)", "mtc_en=1", C0 ";jcc taken", "clock tsc=128", "mtc 0 01", "tnt_buff=3", 0},
};

/* [RTIT 4.2.13, RTIT 4.2.10] */
static const struct scripted sts[] = {
    {"frequency change: both ratios and 40 bits of the TSC", "sts_en=1", C0, "freq value=12 size=16 tsc=1311768467463790320",
     "sts 18 16 789abcdef0", 0, 0},
    {"the 40th bit of the TSC, and no 41st", "sts_en=1", C0, "freq value=63 size=1 tsc=2748779069440;freq value=1 size=1 tsc=1649267441664",
     "sts 63 1 8000000000; sts 1 1 8000000000", 0, 0},
    {"ratios beyond 6 bits stand as 63", "sts_en=1", C0, "freq value=100 size=64 tsc=5", "sts 63 63 5", 0, 0},
    {"clock modulation: the effective ratio", "sts_en=1", "freq value=12 size=18 tsc=1", "freq value=12 size=9 tsc=2", "sts 18 9 2", 0, 0},
    {"MOV CR3 with STS_on_CR3", "sts_en=1 sts_on_cr3=1", C0, "clock tsc=7;mov-cr3 ip=1 next=3 : cr3=1000", "pip 1 1000; sts 0 0 7", 0, 0},
    {"MOV CR3 with CR3 filtering: STS without PIP", "sts_en=1 sts_on_cr3=1 cr3_en=1", C0, "mov-cr3 ip=1 next=3 : cr3=1000",
     "sts 0 0 0; pgd 3", 0, 0},
    {"MOV CR3 under LESS_PKTS: ContextEn after the change decides", "sts_en=1 sts_on_cr3=1 cr3_en=1 less_pkts=1", C0,
     "mov-cr3 ip=1 next=3 : cr3=1000;mov-cr3 ip=3 next=5 : cr3=0", "pgd 3; sts 0 0 0; pge 5", 0, 0},
    {"STS_on_CR3 needs STS_En", "sts_on_cr3=1", C0, "mov-cr3 ip=1 next=3 : cr3=1000", "pip 1 1000", 0, 0},
    {"PIP on CR0.PG changes, without STS", "sts_en=1 sts_on_cr3=1", "mov-cr3 ip=1 next=3 : cr3=1000",
     "mov-cr0 ip=1 next=3 : pg=0;mov-cr0 ip=3 next=5 : pg=0;mov-cr0 ip=5 next=7 : pg=1", "pip 0 1000; pip 1 1000", 0, 0},
    {"no PIP with CR3 filtering, for CR0.PG neither", "cr3_en=1", C0, "mov-cr0 ip=1 next=3 : pg=0", "", 0, 0},
    {"PIP has 40 bits of CR3 [RTIT Figure 9]", "", C0, "mov-cr3 ip=1 next=4 : cr3=a5fedcba9018", "pip 1 fedcba9018", 0, 0},
    {"no PIP while ContextEn is 0", "os=0", "far syscall ip=1 next=3 target=9 : cpl=0", "mov-cr3 ip=9 next=c : cr3=1000", "", 0, 0},
    {"PIP while FilterEn is 0", "filter_event_id=6", C0, "mov-cr3 ip=9 next=c : cr3=1000", "pip 1 1000", 0, 0},
    {"no PIP at SMI, RSM, VM entry or VM exit", "", C0, "event smi ip=1 target=9 : smm=1 cr3=5000;far rsm ip=9 next=b target=1 : smm=0 cr3=6000",
     "pgd 1; pge 1", 0, 0},
};

#define NAP(state) C0 ";clock tsc=10 cycles=10;sleep size=" state " tsc=10 cycles=10"
#define WAKE "clock tsc=5000 cycles=5000;wake tsc=6000 cycles=6000"
#define SLEEPY "mtc_en=1 sts_en=1"
static const struct scripted sleep[] = {
    {"C1: the counter stops, no MTC, STS on waking [RTIT B 4.1.1]", SLEEPY, NAP("1"), WAKE, "sts 0 0 1770", "cntp=a", 0},
    {"C2: the same [RTIT B 4.1.2]", SLEEPY, NAP("2"), WAKE, "sts 0 0 1770", "cntp=a", 0},
    {"C4: the same [RTIT B 4.1.3]", SLEEPY, NAP("4"), WAKE, "sts 0 0 1770", "cntp=a", 0},
    {"C6 and S0ix: the same [RTIT B 4.1.4]", SLEEPY, NAP("6"), WAKE, "sts 0 0 1770", "cntp=a", 0},
    {"shutdown: the same [RTIT B 4.1.1]", SLEEPY, C0 ";event shutdown ip=1", WAKE, "sts 0 0 1770", "cntp=0", 0},
    {"MWAIT that sleeps: the same", SLEEPY, C0 ";clock tsc=10 cycles=10;mwait ip=1 next=4 size=6", WAKE, "sts 0 0 1770", "cntp=a", 0},
    {"MWAIT that does not sleep is an instruction like others", SLEEPY, C0 ";mwait ip=1 next=4 size=6 taken",
     "clock tsc=10 cycles=10", "", "cntp=a", 0},
    {"after waking the clocks go on", SLEEPY, NAP("1") ";" WAKE, "clock tsc=6016 cycles=6003", "mtc 0 2f", "cntp=d", 0},
    {"an aborted C4 looks the same", SLEEPY, C0 ";sleep size=4 tsc=1 cycles=1", "wake tsc=2 cycles=2", "sts 0 0 2", 0, 0},
};

static size_t bytes_after(const char *events)
{
    static struct rig rig;
    rig_open(&rig, &slow);
    rig_start(&rig, 0);
    size_t before = rig.n;
    rig_events(&rig, events);
    /* Only whole lines reach the sink on their own; the unit's own count of what left is RTIT_OFFSET. */
    size_t left = rig_read(&rig, MSR_OFFSET) - (before & 63);
    rig_close(&rig);
    return left;
}

#define SIX "jmp* target=111100000000;jmp* target=222200000000;"
static void the_buffer_stops_draining_in_c1_and_c2(void **state)
{
    (void)state;
    assert_int_equal(bytes_after(C0 ";" SIX "clock cycles=30"), 3);
    assert_int_equal(bytes_after(C0 ";" SIX "clock cycles=30;sleep size=1 cycles=30;clock cycles=1000"), 3);
    assert_int_equal(bytes_after(C0 ";" SIX "clock cycles=30;sleep size=2 cycles=30;clock cycles=1000"), 3);
    assert_int_equal(bytes_after(C0 ";" SIX "clock cycles=30;event shutdown ip=1;clock cycles=1000"), 3);
}

/* What passes while it is empty does not drain what comes then. */
static void an_empty_buffer_saves_up_no_time(void **state)
{
    (void)state;
    assert_int_equal(bytes_after(C0 ";jmp* target=9;clock cycles=35;clock cycles=100;jmp* target=9;clock cycles=109"), 3);
    assert_int_equal(bytes_after(C0 ";jmp* target=9;clock cycles=35;clock cycles=100;jmp* target=9;clock cycles=110"), 4);
}

static void the_buffer_is_drained_before_c4_and_c6(void **state)
{
    (void)state;
    assert_int_equal(bytes_after(C0 ";" SIX "sleep size=4"), 14);
    assert_int_equal(bytes_after(C0 ";" SIX "sleep size=6"), 14);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_buffer_stops_draining_in_c1_and_c2),
        cmocka_unit_test(an_empty_buffer_saves_up_no_time),
        cmocka_unit_test(the_buffer_is_drained_before_c4_and_c6),
    };
    ADD_ROWS(cycles);
    ADD_ROWS(mtc);
    ADD_ROWS(sts);
    ADD_ROWS(sleep);
    ADD_TESTS(tests);
    return run_suite();
}
