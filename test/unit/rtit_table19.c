/* SPDX-License-Identifier: MIT
 * Every row of Table 19: operation, PacketEn before and after, outcomes waiting -> packets [RTIT Table 19]. */
#include "unit/rtit_rig.h"

/* [RTIT 4.3.1, RTIT 4.2.3, RTIT 4.2.7, RTIT 4.2.8, RTIT 4.2.9]. RANGE0 is [1000, 2000). */
#define RANGE "filter_event_id=0 lip0=1000 lip2=2000"
#define IN "jmp ip=500 next=502 target=1100"
#define OUT "jmp ip=500 next=502 target=3000"
#define ONE ";jcc ip=1100 next=1102 target=1110"
#define FIVE ONE ONE ONE ONE ONE
#define BUFF(x) ";wrmsr ip=3000 next=3002 msr=77d value=" #x
#define STS " sts_en=1 sts_on_cr3=1"

static const struct scripted table_19[] = {
    {"row 1: other, in to in: nothing", RANGE, IN, "insn ip=1100 next=1102", "", 0},
    {"row 2: other, out to out: nothing", RANGE, OUT, "insn ip=3000 next=3002", "", 0},
    {"row 3: other, walks out: PGD with NLIP", RANGE, IN, "insn ip=1ffe next=2000", "pgd 2000", 0},
    {"row 4: other, walks out with outcomes: TNT, PGD", RANGE, IN ONE, "insn ip=1ffe next=2000", "tnt N; pgd 2000", 0},
    {"row 5: other, walks in: PGE with NLIP", RANGE, OUT, "insn ip=ffe next=1000", "pge 1000", 0},
    {"row 6: direct jump, in to in: nothing", RANGE, IN, "jmp ip=1100 next=1102 target=1200", "", 0},
    {"row 7: direct jump, out to out: nothing", RANGE, OUT, "jmp ip=3000 next=3002 target=4000", "", 0},
    {"row 8: direct jump out: PGD with NLIP", RANGE, IN, "jmp ip=1100 next=1102 target=3000", "pgd 1102", 0},
    {"row 9: direct jump out with outcomes: TNT, PGD", RANGE, IN ONE, "jmp ip=1100 next=1102 target=3000",
     "tnt N; pgd 1102", 0},
    {"row 10: direct jump in: PGE with BLIP", RANGE, OUT, "jmp ip=3000 next=3002 target=1100", "pge 1100", 0},
    {"row 11: taken, in to in: kept", RANGE, IN, "jcc ip=1100 next=1102 target=1200 taken", "", "tnt_buff=3"},
    {"row 11: taken, out to out: nothing", RANGE, OUT, "jcc ip=3000 next=3002 target=4000 taken", "", "tnt_buff=1"},
    {"row 11: taken, out: TNT with it, PGD", RANGE, IN, "jcc ip=1100 next=1102 target=3000 taken", "tnt T; pgd 1102", 0},
    {"row 11: taken, in: PGE with BLIP", RANGE, OUT, "jcc ip=3000 next=3002 target=1100 taken", "pge 1100", "tnt_buff=1"},
    {"row 12: not taken, in to in: kept", RANGE, IN, "jcc ip=1100 next=1102 target=3000", "", "tnt_buff=2"},
    {"row 12: not taken, out to out: nothing", RANGE, OUT, "jcc ip=3000 next=3002 target=1100", "", "tnt_buff=1"},
    {"row 12: not taken, walks out: TNT with it, PGD", RANGE, IN, "jcc ip=1ffe next=2000 target=1100",
     "tnt N; pgd 2000", 0},
    {"row 12: not taken, walks in: PGE with NLIP", RANGE, OUT, "jcc ip=ffe next=1000 target=5000", "pge 1000", "tnt_buff=1"},
    {"row 13: sixth taken, in to in: TNT", RANGE, IN FIVE, "jcc ip=1100 next=1102 target=1200 taken", "tnt NNNNNT",
     "tnt_buff=1"},
    {"row 14: sixth taken, out to out: buffer untouched", RANGE, OUT BUFF(20),
     "jcc ip=3000 next=3002 target=4000 taken", "", "tnt_buff=20"},
    {"row 15: sixth taken, out: TNT, PGD", RANGE, IN FIVE, "jcc ip=1100 next=1102 target=3000 taken",
     "tnt NNNNNT; pgd 1102", 0},
    {"row 16: sixth taken, in: the five, PGE", RANGE, OUT BUFF(20), "jcc ip=3000 next=3002 target=1100 taken",
     "tnt NNNNN; pge 1100", "tnt_buff=1"},
    {"row 17: sixth not taken, in to in: TNT", RANGE, IN FIVE, "jcc ip=1100 next=1102 target=1200", "tnt NNNNNN",
     "tnt_buff=1"},
    {"row 18: sixth not taken, out to out: buffer untouched", RANGE, OUT BUFF(20), "jcc ip=3000 next=3002 target=1100",
     "", "tnt_buff=20"},
    {"row 19: sixth not taken, walks out: TNT, PGD", RANGE, IN FIVE, "jcc ip=1ffe next=2000 target=1100",
     "tnt NNNNNN; pgd 2000", 0},
    {"row 20: sixth not taken, walks in: the five, PGE", RANGE, OUT BUFF(20), "jcc ip=ffe next=1000 target=5000",
     "tnt NNNNN; pge 1000", "tnt_buff=1"},
    {"row 21: indirect, in to in: TIP with BLIP", RANGE, IN, "jmp* ip=1100 next=1102 target=1200", "tip 1200", 0},
    {"row 21: RET, in to in: TIP with BLIP", RANGE, IN, "ret ip=1100 next=1101 target=1200", "tip 1200", 0},
    {"row 21: CALL, in to in: TIP with BLIP", RANGE, IN, "call* ip=1100 next=1102 target=1200", "tip 1200", 0},
    {"row 22: indirect with outcomes: TNT, TIP", RANGE, IN ONE, "jmp* ip=1100 next=1102 target=1200", "tnt N; tip 1200", 0},
    {"row 23: indirect, out to out: nothing", RANGE, OUT, "call* ip=3000 next=3002 target=4000", "", 0},
    {"row 24: indirect out: TIP, PGD with NLIP", RANGE, IN, "jmp* ip=1100 next=1102 target=3000", "tip 3000; pgd 1102", 0},
    {"row 25: indirect out with outcomes: TNT, TIP, PGD", RANGE, IN ONE, "ret ip=1100 next=1101 target=3000",
     "tnt N; tip 3000; pgd 1101", 0},
    {"row 26: indirect in: PGE only", RANGE, OUT, "jmp* ip=3000 next=3002 target=1200", "pge 1200", 0},
    {"row 27: far, in to in: FAR with NLIP, TIP", RANGE, IN, "far far-jmp ip=1100 next=1105 target=1200",
     "far 1105; tip 1200", 0},
    {"row 27: exception, in to in: FAR with CLIP, TIP", RANGE, IN, "event fault ip=1100 target=1200 : cpl=0",
     "far 1100; tip 1200", 0},
    {"row 28: far with outcomes: TNT, FAR, TIP", RANGE, IN ONE, "event intr ip=1102 target=1200 : cpl=0",
     "tnt N; far 1102; tip 1200", 0},
    {"row 29: far, out to out: nothing", RANGE, OUT, "far far-jmp ip=3000 next=3005 target=4000", "", 0},
    {"row 30: far out, ContextEn stays: PGD, TIP", RANGE, IN, "far far-jmp ip=1100 next=1105 target=3000",
     "pgd 1105; tip 3000", 0},
    {"row 31: far out with outcomes, ContextEn stays: TNT, PGD, TIP", RANGE, IN ONE,
     "far far-call ip=1100 next=1105 target=3000", "tnt N; pgd 1105; tip 3000", 0},
    {"row 32: far, ContextEn ends: PGD only", RANGE " os=0", IN, "far syscall ip=1100 next=1102 target=1200 : cpl=0",
     "pgd 1102", 0},
    {"row 33: far with outcomes, ContextEn ends: TNT, PGD", RANGE " os=0", IN ONE,
     "event intr ip=1102 target=3000 : cpl=0", "tnt N; pgd 1102", 0},
    {"row 34: far in, ContextEn was 0: PGE only", RANGE " os=0", OUT ";event intr ip=3000 target=4000 : cpl=0",
     "far iret ip=4000 next=4002 target=1200 : cpl=3", "pge 1200", 0},
    {"row 35: far in, ContextEn was 1: PGE only", RANGE, OUT, "far far-ret ip=3000 next=3001 target=1200", "pge 1200", 0},
    {"row 36: SMI: PGD with the saved address", RANGE, IN, "event smi ip=1102 target=38000 : smm=1 cpl=0", "pgd 1102", 0},
    {"row 36: VM exit: PGD with the saved address", RANGE, IN, "event vmexit ip=1100 target=1400 : vmx=1 cpl=0",
     "pgd 1100", 0},
    {"row 37: SMI with outcomes: TNT, PGD", RANGE, IN ONE, "event smi ip=1102 target=38000 : smm=1 cpl=0",
     "tnt N; pgd 1102", 0},
    {"row 38: RSM: PGE with BLIP", RANGE, IN ";event smi ip=1102 target=38000 : smm=1 cpl=0",
     "far rsm ip=38000 next=38002 target=1102 : smm=0 cpl=3", "pge 1102", 0},
    {"row 38: VM entry: PGE with BLIP", RANGE, IN ";event vmexit ip=1102 target=40000 : vmx=1 cpl=0",
     "far vmentry ip=40000 next=40003 target=1102 : vmx=2 cpl=3", "pge 1102", 0},
    {"row 39: MOV CR3, in to in: PIP, STS", RANGE STS, IN, "mov-cr3 ip=1100 next=1103 : cr3=5000",
     "pip 1 5000; sts 0 0 0", 0},
    {"row 40: MOV CR3 with outcomes: TNT, PIP, STS", RANGE STS, IN ONE, "mov-cr3 ip=1100 next=1103 : cr3=5000",
     "tnt N; pip 1 5000; sts 0 0 0", 0},
    {"row 41: MOV CR3, out to out: PIP, STS", RANGE STS, OUT, "mov-cr3 ip=3000 next=3003 : cr3=5000",
     "pip 1 5000; sts 0 0 0", 0},
    {"row 42: MOV CR3 walks in: PIP, STS, PGE with NLIP", RANGE STS, OUT, "mov-cr3 ip=ffd next=1000 : cr3=5000",
     "pip 1 5000; sts 0 0 0; pge 1000", 0},
    {"row 42: MOV CR3 to the traced CR3: STS, PGE", "cr3_en=1 cr3_match=100" STS,
     "mov-cr3 ip=1 next=4 : cr3=5000", "mov-cr3 ip=1100 next=1103 : cr3=2000", "sts 0 0 0; pge 1103", 0},
    {"row 43: MOV CR3 walks out: PIP, STS, PGD with NLIP", RANGE STS, IN, "mov-cr3 ip=1ffd next=2000 : cr3=5000",
     "pip 1 5000; sts 0 0 0; pgd 2000", 0},
    {"row 43: MOV CR3 away from the traced CR3: STS, PGD", "cr3_en=1 cr3_match=100" STS,
     "mov-cr3 ip=1 next=4 : cr3=2000", "mov-cr3 ip=1100 next=1103 : cr3=5000", "sts 0 0 0; pgd 1103", 0},
    {"row 44: MOV CR3 walks out with outcomes: TNT, PIP, STS, PGD", RANGE STS, IN ONE,
     "mov-cr3 ip=1ffd next=2000 : cr3=5000", "tnt N; pip 1 5000; sts 0 0 0; pgd 2000", 0},
    {"row 44: MOV CR3 away with outcomes: STS, TNT, PGD (docs/decisions/0207)", "cr3_en=1 cr3_match=100" STS,
     "mov-cr3 ip=1 next=4 : cr3=2000" ONE, "mov-cr3 ip=1100 next=1103 : cr3=5000", "sts 0 0 0; tnt N; pgd 1103", 0},
};

/* [RTIT 4.3.2] */
static const struct scripted entering_and_leaving[] = {
    {"RET in does not touch the TNT buffer", RANGE " cmprs_ret=1", OUT, "ret ip=3000 next=3001 target=1100", "pge 1100",
     "tnt_buff=1"},
    {"compressed RET out: its outcome, PGD", RANGE " cmprs_ret=1", IN ";call ip=1100 next=3000 target=1200",
     "ret ip=1200 next=1201 target=3000", "tnt T; pgd 1201", 0},
    {"CALL in does not update LAST_CALL_NLIP", RANGE " cmprs_ret=1", OUT, "call ip=3000 next=3005 target=1100",
     "pge 1100", "nlip_valid=0"},
    {"CALL out updates LAST_CALL_NLIP", RANGE " cmprs_ret=1", IN, "call ip=1100 next=1105 target=3000", "pgd 1105",
     "nlip_valid=1 call_nlip=1105"},
    {"far CALL does not update LAST_CALL_NLIP", RANGE " cmprs_ret=1", IN, "far far-call ip=1100 next=1105 target=1200",
     "far 1105; tip 1200", "nlip_valid=0"},
    {"CALL without CMPRS_RET does not update LAST_CALL_NLIP", RANGE, IN, "call ip=1100 next=1105 target=1200", "",
     "nlip_valid=0"},
    {"compressed RET does not update LAST_LIP", "cmprs_ret=1",
     "jmp* ip=1 next=3 target=123456780000;call ip=9999aaaa0000 next=9999aaaa0005 target=1200", "ret ip=1200 next=1201 target=9999aaaa0005", "",
     "cmprs_lip_high=1234 cmprs_lip_low=5678 cmprs_lip_valid=1 tnt_buff=3"},
    {"the sixth outcome may be a compressed RET's: TNT", "cmprs_ret=1",
     "jcc taken;jcc taken;jcc taken;jcc taken;jcc taken;call ip=1100 next=1105 target=1200", "ret ip=1200 next=1201 target=1105", "tnt TTTTTT",
     "tnt_buff=1"},
    {"NLIP_Valid clear: a RET to the address is no match", "cmprs_ret=1", "wrmsr ip=1 next=3 msr=76f value=1105",
     "ret ip=1200 next=1201 target=1105", "tip 1105", "tnt_buff=1"},
    {"a CALL whose own TIP reaches Pkt_Cnt's limit is forgotten with the PSB [RTIT 3.3.9]", "cmprs_ret=1",
     "wrmsr ip=1 next=3 msr=77c value=7fd", "call* ip=1100 next=1102 target=1200;ret ip=1200 next=1201 target=1102",
     "tip 1200; psb; tip 1102", "nlip_valid=0"},
    {"a second RET to the same place is compressed too (docs/decisions/0215)", "cmprs_ret=1", "call ip=1100 next=1105 target=1200",
     "ret ip=1200 next=1201 target=1105;ret ip=1105 next=1106 target=1105;jmp* target=9", "tnt TT; tip 9", "nlip_valid=1"},
    {"the stack was changed: TIP", "cmprs_ret=1", "call ip=1100 next=1105 target=1200", "ret ip=1200 next=1201 target=5555", "tip 5555", 0},
    {"an indirect CALL's NLIP counts too", "cmprs_ret=1", "call* ip=1100 next=1102 target=1200", "ret ip=1200 next=1201 target=1102;jmp* target=9",
     "tnt T; tip 9", 0},
    {"RET elsewhere than after the CALL: TIP", RANGE " cmprs_ret=1", IN ";call ip=1100 next=1105 target=1200",
     "ret ip=1200 next=1201 target=1106", "tip 1106", "call_nlip=1105 nlip_valid=1"},
};

/* Cycle counts: footnote 3 [RTIT Table 19]. */
static const struct scripted footnote_3[] = {
    {"the second packet of an instruction counts 0 cycles", "cycle_acc=1",
     "clock tsc=0 cycles=0;clock tsc=10 cycles=100", "far far-jmp ip=1 next=5 target=1200", "far 5 c100; tip 1200 c0", "cntp=0"},
};

int main(void)
{
    ADD_ROWS(table_19);
    ADD_ROWS(entering_and_leaving);
    ADD_ROWS(footnote_3);
    return run_suite();
}
