/* SPDX-License-Identifier: MIT
 * The errata, each switched on, and off as its control [RTIT Appendix E]. */
#include "unit/rtit_rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CONFIG(e) static const struct cofi_unit_config with_##e = {.errata = COFI_ERRATUM_RTIT_##e}
CONFIG(E1); CONFIG(E2); CONFIG(E3); CONFIG(E6); CONFIG(E7); CONFIG(E8);
static const struct cofi_unit_config
    small = {.buffer_bytes = 16, .drain_bytes = 16, .drain_cycles = 100},
    with_E4 = {.errata = COFI_ERRATUM_RTIT_E4, .buffer_bytes = 16, .drain_bytes = 16, .drain_cycles = 100},
    with_E5 = {.errata = COFI_ERRATUM_RTIT_E5, .buffer_bytes = 16, .drain_bytes = 16, .drain_cycles = 100};

#define C0 "clock tsc=1 cycles=0;"
#define OVER C0 "jmp* ip=1 next=3 target=111100000000;jmp* ip=1 next=3 target=222200000000;jmp* ip=1 next=3 target=333300000000;"
#define FILLED "tip 111100000000; tip 222200000000"
#define EMPTY "clock tsc=1 cycles=100;"
#define STOP "tracestop_event_id=0 lip0=1000 lip2=2000"
#define RANGE "filter_event_id=0 lip0=1000 lip2=2000 os=0"
#define E2_EVENTS "jmp ip=1 next=3 target=1100;far syscall ip=1100 next=1102 target=9 : cpl=0"

static const struct scripted errata[] = {
    {"E1: FUP.FAR lies inside a far transfer with more than 3 prefixes", "", 0, "far far-ret ip=10 next=16 target=20 size=5",
     "far 12; tip 20", 0, &with_E1},
    {"E1: 4 prefixes are enough", "", 0, "far far-ret ip=10 next=16 target=20 size=4", "far 11; tip 20", 0, &with_E1},
    {"E1: FUP.PGD in the place of FUP.FAR lies there too (docs/decisions/0223)", "filter_event_id=0 lip0=1000 lip2=2000", "jmp target=1100",
     "far far-ret ip=1100 next=1106 target=20 size=5", "pgd 1102; tip 20", 0, &with_E1},
    {"E1: not with 3 prefixes", "", 0, "far far-ret ip=10 next=16 target=20 size=3", "far 16; tip 20", 0, &with_E1},
    {"E1: off", "", 0, "far far-ret ip=10 next=16 target=20 size=5", "far 16; tip 20", 0, 0},
    {"E2: ContextEn rises while FilterEn falls: extra PGD", RANGE, E2_EVENTS, "far sysret ip=9 next=c target=5000 : cpl=3",
     "pgd c", 0, &with_E2},
    {"E2: TraceStop while ContextEn rises: extra PGD", "os=0 " STOP, "far syscall ip=1 next=3 target=9 : cpl=0",
     "far sysret ip=9 next=c target=1100 : cpl=3", "stop; pgd c", "trace_active=0", &with_E2},
    {"E2: TraceStop at the write that enables: extra PGD", "tracestop_event_id=7 trace_active=0", 0,
     "wrmsr ip=1 next=3 msr=768 value=d;wrmsr ip=3 next=5 msr=768 value=200d", "psb; stop; pgd 5", "trace_active=0", &with_E2},
    {"E2: TraceStop while ContextEn rises and FilterEn was 0 all the time: extra PGD", "filter_event_id=6 os=0 " STOP,
     "far syscall ip=1 next=3 target=9 : cpl=0", "far sysret ip=9 next=c target=1100 : cpl=3", "stop; pgd c", "trace_active=0", &with_E2},
    {"E2: off", RANGE, E2_EVENTS, "far sysret ip=9 next=c target=5000 : cpl=3", "", 0, 0},
    {"E3: the PSB comes one packet late", "", "wrmsr ip=1 next=3 msr=77c value=7fe",
     "jmp* ip=1 next=3 target=9;jmp* ip=9 next=b target=5;jmp* ip=5 next=7 target=6", "tip 9; tip 5; psb; tip 6", 0, &with_E3},
    {"E3: enabling makes the PSB that was late", "", "wrmsr ip=1 next=3 msr=77c value=7fe",
     "jmp* ip=1 next=3 target=9;wrmsr ip=9 next=b msr=768 value=d;wrmsr ip=b next=d msr=768 value=200d;jmp* target=6",
     "tip 9; psb; pge d; tip 6", 0, &with_E3},
    {"E3: off", "", "wrmsr ip=1 next=3 msr=77c value=7fe", "jmp* ip=1 next=3 target=9;jmp* ip=9 next=b target=5",
     "tip 9; psb; tip 5", 0, 0},
    {"E4: TraceSTOP before FUP.BuffOvf, and tracing goes on", STOP, 0,
     OVER "jmp ip=3 next=5 target=1000;" EMPTY "jmp* ip=5000 next=5002 target=9", FILLED "; stop; ovf 5000; tip 9",
     "trace_active=1", &with_E4},
    {"E4: off", STOP, 0, OVER "jmp ip=3 next=5 target=1000;" EMPTY "jmp* ip=5000 next=5002 target=9", FILLED "; ovf 5000; stop",
     "trace_active=0", &small},
    {"E5: FUP.BuffOvf is followed by the TIP of the branch before", "", 0,
     OVER "jmp* ip=30 next=32 target=5000;" EMPTY "insn ip=5000 next=5002", FILLED "; ovf 5000; tip 5000", 0, &with_E5},
    {"E5: a far transfer is a branch too", "", 0,
     OVER "far iret ip=30 next=32 target=5000;" EMPTY "insn ip=5000 next=5002", FILLED "; ovf 5000; tip 5000", 0, &with_E5},
    {"E5: not for a branch of an overflow before", "", 0,
     OVER "jmp* ip=30 next=32 target=5000;wrmsr ip=5000 next=5002 msr=769 value=1;wrmsr ip=5002 next=5004 msr=769 value=9;"
     "jmp ip=5004 next=5006 target=5000;" EMPTY "insn ip=5000 next=5002", FILLED "; ovf 5000", 0, &with_E5},
    {"E5: not when execution went on elsewhere", "", 0,
     OVER "jmp* ip=30 next=32 target=5000;insn ip=5000 next=5002;" EMPTY "insn ip=5002 next=5004", FILLED "; ovf 5002", 0, &with_E5},
    {"E5: off", "", 0, OVER "jmp* ip=30 next=32 target=5000;" EMPTY "insn ip=5000 next=5002", FILLED "; ovf 5000", 0, &small},
    {"E6: cycle counts are one too small, but not below 0", "cycle_acc=1", C0,
     "clock tsc=1 cycles=10;far iret ip=1 next=2 target=3", "far 2 c9; tip 3 c0", 0, &with_E6},
    {"E6: off", "cycle_acc=1", C0, "clock tsc=1 cycles=10;far iret ip=1 next=2 target=3", "far 2 c10; tip 3 c0", 0, 0},
    {"E7: enabling sends an MTC at the wrong time", "mtc_en=1", "clock tsc=700;wrmsr ip=1 next=3 msr=768 value=20d",
     "wrmsr ip=3 next=5 msr=768 value=220d;clock tsc=768", "psb; mtc 0 05; pge 5; mtc 0 06", 0, &with_E7},
    {"E7: off", "mtc_en=1", "clock tsc=700;wrmsr ip=1 next=3 msr=768 value=20d",
     "wrmsr ip=3 next=5 msr=768 value=220d;clock tsc=768", "psb; pge 5; mtc 0 06", 0, 0},
    {"E8: after a PSB two packets change places", "", "wrmsr ip=1 next=3 msr=77c value=7fe",
     "jmp* ip=1 next=3 target=9;jmp* ip=9 next=b target=5;jmp* ip=5 next=7 target=6;jmp* ip=6 next=8 target=7",
     "tip 9; psb; tip 6; tip 5; tip 7", 0, &with_E8},
    {"E8: after the next such PSB one packet is overwritten", "",
     "wrmsr ip=1 next=3 msr=77c value=7fe;jmp* target=9;jmp* target=5;jmp* target=6;wrmsr ip=1 next=3 msr=77c value=7fe;"
     "jmp* target=9;jmp* target=9;wrmsr ip=1 next=3 msr=77c value=7fe",
     "jmp* target=9;jmp* target=5;jmp* target=6;jmp* target=7", "tip 9; psb; tip 6; tip 7", 0, &with_E8},
    {"E8: a drain brings out what is late", "", "wrmsr ip=1 next=3 msr=77c value=7fe",
     "jmp* target=9;jmp* target=5;wrmsr ip=1 next=3 msr=768 value=200d;jmp* target=6", "tip 9; psb; tip 5; tip 6", 0, &with_E8},
    {"E8: off", "", "wrmsr ip=1 next=3 msr=77c value=7fe",
     "jmp* ip=1 next=3 target=9;jmp* ip=9 next=b target=5;jmp* ip=5 next=7 target=6", "tip 9; psb; tip 5; tip 6", 0, 0},
};

/* Behind every second PSB, five cases in turn: which packet is late or lost, and by how many [ERR E8]. */
static void e8_shows_its_five_cases_in_turn(void **state)
{
    (void)state;
    static const char *const expected[] = {
        "2 1 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 ", "2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 ",
        "1 2 3 5 6 7 8 9 4 10 11 12 13 14 15 16 17 18 19 20 21 22 ", "2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 1 22 ",
        "1 2 3 4 5 6 7 8 9 10 12 13 14 15 16 17 18 19 20 21 22 "};
    static struct rig rig;
    rig_open(&rig, &with_E8);
    rig_start(&rig, 0);
    for (int psb = 2; psb <= 11; psb++) {
        char got[256] = "", *at = got;
        rig_packets(&rig);
        rig_events(&rig, "wrmsr ip=1 next=3 msr=77c value=800");
        for (uint64_t i = 1; i <= 22; i++)
            branch(&rig, COFI_EV_JMP_IND, 1, 3, i);
        for (const char *p = strstr(rig_packets(&rig), "tip"); p; p = strstr(p + 3, "tip"))
            at += sprintf(at, "%ld ", strtol(p + 4, NULL, 16));
        if (psb % 2 == 0)
            assert_string_equal(got, expected[psb / 2 - 1]);
        else
            assert_string_equal(got, "1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 ");
    }
    rig_close(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(e8_shows_its_five_cases_in_turn)};
    ADD_TESTS(tests);
    ADD_ROWS(errata);
    return run_suite();
}
