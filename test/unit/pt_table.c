/* SPDX-License-Identifier: MIT
 * Every case of the manual's two tables of packets by its number, and that none is missing.
 * [SDM Packet Generation under Different Enable Conditions; SDM PwrEvtEn and PTWEn Packet Generation under Different
 * Enable Conditions; PTREF 6.1; PTREF 6.2; PTREF 6.3; PTREF 6.4; PTREF 6.5]. Where the tables slip, PTREF 6.9's reading
 * and docs/decisions/0309 hold. */
#include "pt_row.h"

#include <stdio.h>
#include <string.h>

#define T (TSC_EN | MTC_EN)
#define P PWR_EVT_EN
#define TASK .cr3 = 0x7000          /* a task switch */
#define GUEST {CPL(0), .vmx = 3}
#define ROOT {CPL(0), .vmx = 2}

#define FAR_JMP(from, to) FAR(JMP, from, to)
#define HW_INT(from, to) INT(INTR, from, to)
#define SW_INT(from, to) FAR(INT, from, to, .vector = 0x80)
#define A_FAULT(from, to) INT(FAULT, from, to)

/* The name begins with the case's number. */
static const struct row rows[] = {
    {"1a other instruction, packets off", UK | FILTER, {0}, OUT, EV(INSN, OUT), {0}, ""},
    {"1b other instruction, packets on", UK, {0}, IN, EV(INSN, IN), {0}, ""},
    {"2a TraceEn set with a byte count, out of context", 0, IN_KERNEL, KERNEL, CTL(KERNEL, U | T), {0}, "tsc(0) tma(0,0) cbr(24)",
     .count = 100},
    {"2a without MTCEn no TMA", 0, IN_KERNEL, KERNEL, CTL(KERNEL, U | TSC_EN), {0}, "tsc(0) cbr(24)", .count = 100},
    {"2a without TSCEn neither", 0, IN_KERNEL, KERNEL, CTL(KERNEL, U | MTC_EN), {0}, "cbr(24)", .count = 100},
    {"2a with BranchEn=0", 0, {0}, IN, CTL(IN, NOBR), {0}, "cbr(24)", .count = 1},
    {"2a in a TraceStop range", 0, {0}, STOPS, CTL(STOPS, U | STOP), {0}, "cbr(24) stop", .count = 100},
    {"2a by the last instruction of a TraceStop range", 0, {0}, STOPS, CTL(STOPS + 0xfff, U | STOP), {0}, "cbr(24) stop", .count = 100},
    {"2a out of context in a TraceStop range", 0, IN_KERNEL, STOPS, CTL(STOPS, U | STOP), {0}, "cbr(24)", .count = 100},
    {"2b TraceEn set without a byte count, out of context", 0, IN_KERNEL, KERNEL, CTL(KERNEL, U | T), {0},
     "psb tsc(0) tma(0,0) cbr(24) psbend"},
    {"2b with BranchEn=0", 0, {0}, IN, CTL(IN, NOBR), {0}, "psb pip(1000) cbr(24) psbend"},
    {"2b outside the filter", 0, {0}, OUT, CTL(OUT, UK | FILTER), {0}, "psb pip(1000) cbr(24) mode.tsx(commit) psbend"},
    {"2d TraceEn set with a byte count, in context", 0, {0}, IN, CTL(IN, U | T), {0},
     "tsc(0) tma(0,0) cbr(24) mode.exec(64) tip.pge(401002)", .count = 100},
    {"2e TraceEn set without a byte count, in context", 0, {0}, IN, CTL(IN, U | T), {0},
     "psb tsc(0) tma(0,0) cbr(24) mode.tsx(commit) psbend mode.exec(64) tip.pge(401002)"},
    {"3a TraceEn cleared, packets off", U, IN_KERNEL, KERNEL, CTL(KERNEL, U & ~TRACE_EN), {0}, ""},
    {"3b TraceEn cleared, packets on", U, {0}, IN, CTL(IN, U & ~TRACE_EN), {0}, "tnt.8(T) fup(401000) tip.pgd()", .bits = 1},

    {"5a MOV CR3 out of context", K | CR3_FILTER, IN_KERNEL, IN, CR3(IN), {.cr3 = 0x2000}, ""},
    {"5f MOV CR3 outside the filter", K | FILTER, IN_KERNEL, OUT, CR3(OUT), {.cr3 = 0x2000}, "pip(2000)"},
    {"5f in a TraceStop range", K | FILTER | STOP, IN_KERNEL, OUT, CR3(STOPS), {.cr3 = 0x2000}, "pip(2000) stop"},
    {"5f into context, outside the filter", K | CR3_FILTER | FILTER, IN_KERNEL, OUT, CR3(OUT), {.cr3 = 0x5000}, "pip(5000)"},
    {"5f into context, in a TraceStop range", K | CR3_FILTER | STOP, IN_KERNEL, STOPS, CR3(STOPS), {.cr3 = 0x5000}, "pip(5000) stop"},
    {"5b MOV CR3 into context", K | CR3_FILTER, IN_KERNEL, IN, CR3(IN), {.cr3 = 0x5000}, "pip(5000) mode.exec(64) tip.pge(401002)"},
    {"5b in a guest", K | CR3_FILTER, GUEST, IN, CR3(IN), {.cr3 = 0x5000}, "pip(5000,nr) mode.exec(64) tip.pge(401002)"},
    {"5c MOV CR3 out of context from packets", K | CR3_FILTER, {CPL(0), .cr3 = 0x5000}, IN, CR3(IN), {.cr3 = 0x2000}, "tip.pgd()"},
    {"5e MOV CR3 in a TraceStop range", K | STOP, IN_KERNEL, IN, CR3(STOPS), {.cr3 = 0x2000}, "pip(2000) tip.pgd(600002) stop"},
    {"5e by the last instruction of a TraceStop range", K | STOP, IN_KERNEL, IN, CR3(STOPS + 0xffe), {.cr3 = 0x2000},
     "pip(2000) tip.pgd(601000) stop"},
    {"5d in front of a TraceStop range", K | STOP, IN_KERNEL, IN, CR3(STOPS - 2), {.cr3 = 0x2000}, "pip(2000)"},
    {"5d by the last instruction of the filter", K | FILTER, IN_KERNEL, IN, CR3(IN + 0xffe), {.cr3 = 0x2000}, "pip(2000)"},
    {"5d MOV CR3, packets on", K, IN_KERNEL, IN, CR3(IN), {.cr3 = 0x2000}, "pip(2000)"},
    {"5d in a guest", K, GUEST, IN, CR3(IN), {.cr3 = 0x2000}, "pip(2000,nr)"},
    {"5d in a guest that conceals VMX", K, {CPL(0), .vmx = 3, .conceal = COFI_CONCEAL_VMX}, IN, CR3(IN), {.cr3 = 0x2000}, "pip(2000)"},

    {"6a direct jump, packets off", UK | FILTER, {0}, OUT, NEAR(JMP, OUT, OUT + 64), {0}, ""},
    {"6b direct jump out of the filter", UK | FILTER, {0}, IN, NEAR(JMP, IN, OUT), {0}, "tip.pgd(500000)"},
    {"6b direct call into a TraceStop range", UK | STOP, {0}, IN, NEAR(CALL, IN, STOPS), {0}, "tip.pgd(600000) stop"},
    {"6c direct jump into the filter", UK | FILTER, {0}, OUT, NEAR(JMP, OUT, IN), {0}, "mode.exec(64) tip.pge(401000)"},
    {"6d direct jump, packets on", UK, {0}, IN, NEAR(JMP, IN, OUT), {0}, ""},
    {"6d direct call, packets on", UK, {0}, IN, NEAR(CALL, IN, OUT), {0}, ""},

    {"7a taken Jcc, packets off", UK | FILTER, {0}, OUT, JCC(OUT, OUT + 64, true), {0}, ""},
    {"7a taken Jcc that fills no TNT", UK, {0}, IN, JCC(IN, IN, true), {0}, "", .bits = 4},
    {"7b taken Jcc into the filter", UK | FILTER, {0}, OUT, JCC(OUT, IN, true), {0}, "mode.exec(64) tip.pge(401000)"},
    {"7e taken Jcc out of the filter, no bits", UK | FILTER, {0}, IN, JCC(IN, OUT, true), {0}, "tip.pgd()"},
    {"7e compressed RET out of the filter, no bits", UK | FILTER, {0}, IN, NEAR(RET, IN, 0x402000), {0}, "tip.pgd()",
     .first = NEAR(CALL, 0x401ffe, IN)},
    {"7e taken Jcc into a TraceStop range", UK | STOP, {0}, IN, JCC(IN, STOPS, true), {0}, "tip.pgd() stop"},
    {"7f taken Jcc out of the filter behind bits", UK | FILTER, {0}, IN, JCC(IN, OUT, true), {0}, "tnt.8(TT) tip.pgd()", .bits = 2},
    {"7f compressed RET out of the filter behind bits", UK | FILTER, {0}, IN, NEAR(RET, IN, 0x402000), {0}, "tnt.8(TT) tip.pgd()",
     .bits = 2, .first = NEAR(CALL, 0x401ffe, IN)},
    {"7f taken Jcc into a TraceStop range behind bits", UK | STOP, {0}, IN, JCC(IN, STOPS, true), {0}, "tnt.8(TT) tip.pgd() stop",
     .bits = 2},
    {"7d taken Jcc that fills the TNT", UK, {0}, IN, JCC(IN, IN, true), {0}, "tnt.8(TTTTTT)", .bits = 5},
    {"7d compressed RET that fills the TNT", UK, {0}, IN, NEAR(RET, OUT, IN + 2), {0}, "tnt.8(TTTTTT)", .bits = 5,
     .first = NEAR(CALL, IN, OUT)},
    {"8a Jcc not taken, packets off", UK | FILTER, {0}, OUT, JCC(OUT, IN, false), {0}, ""},
    {"8d Jcc not taken that fills the TNT", UK | FILTER, {0}, IN, JCC(IN, OUT, false), {0}, "tnt.8(TTTTTN)", .bits = 5},

    {"9a indirect jump, packets off", UK | FILTER, {0}, OUT, NEAR(JMP_IND, OUT, OUT + 64), {0}, ""},
    {"9b indirect call into the filter", UK | FILTER, {0}, OUT, NEAR(CALL_IND, OUT, IN), {0}, "mode.exec(64) tip.pge(401000)"},
    {"9b RET into the filter", UK | FILTER, {0}, OUT, NEAR(RET, OUT, IN), {0}, "mode.exec(64) tip.pge(401000)"},
    {"9c indirect call out of the filter", UK | FILTER, {0}, IN, NEAR(CALL_IND, IN, OUT), {0}, "tnt.8(T) tip.pgd(500000)", .bits = 1},
    {"9c uncompressed RET out of the filter", UK | FILTER, {0}, IN, NEAR(RET, IN, OUT), {0}, "tip.pgd(500000)"},
    {"9c indirect jump into a TraceStop range", UK | STOP, {0}, IN, NEAR(JMP_IND, IN, STOPS), {0}, "tip.pgd(600000) stop"},
    {"9c uncompressed RET into a TraceStop range", UK | STOP, {0}, IN, NEAR(RET, IN, STOPS), {0}, "tip.pgd(600000) stop"},
    {"9d indirect jump, packets on", UK, {0}, IN, NEAR(JMP_IND, IN, OUT), {0}, "tnt.8(T) tip(500000)", .bits = 1},

#define FAR_CASES(n, what, out)                                                                                       \
    {n "a " what " out of context", U, IN_KERNEL, KERNEL, out(KERNEL, KERNEL + 64), {0}, ""},                         \
    {n "f " what " outside the filter", UK | FILTER, {0}, OUT, out(OUT, KERNEL), {CPL(0)}, ""},                       \
    {n "f " what " outside the filter, task switch", UK | FILTER, {0}, OUT, out(OUT, KERNEL), {CPL(0), TASK}, "pip(7000)"}, \
    {n "f " what " outside the filter, task switch, OS=0", U | FILTER, {0}, OUT, out(OUT, OUT + 64), {TASK}, ""},     \
    {n "f " what " outside the filter, task switch, in a guest", UK | FILTER, GUEST, OUT, out(OUT, KERNEL), {TASK}, "pip(7000,nr)"}, \
    {n "f " what " outside the filter, task switch, TraceStop", UK | FILTER | STOP, {0}, OUT, out(OUT, STOPS), {TASK}, \
     "pip(7000) stop"},                                                                                                \
    {n "b " what " into context", U, IN_KERNEL, KERNEL, out(KERNEL, IN), {CPL(3)}, "mode.exec(64) tip.pge(401000)"},  \
    {n "b " what " into the filter, task switch", UK | FILTER, {0}, OUT, out(OUT, IN), {TASK},                        \
     "pip(7000) mode.exec(64) tip.pge(401000)"},                                                                       \
    {n "b " what " into the filter, 32-bit", UK | FILTER, {0}, OUT, out(OUT, IN), {.mode = 33}, "mode.exec(32) tip.pge(401000)"}

    FAR_CASES("10", "far branch", FAR_JMP),
    {"10c far branch out of context from packets", U, {0}, IN, FAR(CALL, IN, KERNEL), {CPL(0)}, "tnt.8(T) tip.pgd()", .bits = 1},
    {"10d far branch out of the filter", UK | FILTER, {0}, IN, FAR(CALL, IN, OUT), {0}, "tip.pgd(500000)"},
    {"10d task switch out of the filter", UK | FILTER, {0}, IN, FAR(JMP, IN, OUT), {TASK}, "pip(7000) tip.pgd(500000)"},
    {"10d task switch into a TraceStop range", UK | STOP, {0}, IN, FAR(JMP, IN, STOPS), {TASK}, "pip(7000) tip.pgd(600000) stop"},
    {"10e far branch, packets on", UK, {0}, IN, FAR(RET, IN, OUT), {0}, "tnt.8(T) tip(500000)", .bits = 1},
    {"10e task switch to 32-bit code", UK, {0}, IN, FAR(IRET, IN, OUT), {TASK, .mode = 33}, "pip(7000) mode.exec(32) tip(500000)"},

#define EVENT_CASES(n, what, out)                                                                                     \
    {n "c " what " out of context from packets", U, {0}, IN, out(IN, KERNEL), {CPL(0)}, "tnt.8(T) fup(401000) tip.pgd()", .bits = 1}, \
    {n "d " what " out of the filter", UK | FILTER, {0}, IN, out(IN, OUT), {0}, "fup(401000) tip.pgd(500000)"},       \
    {n "d " what " out of the filter, task switch", UK | FILTER, {0}, IN, out(IN, OUT), {TASK},                       \
     "fup(401000) pip(7000) tip.pgd(500000)"},                                                                         \
    {n "d " what " into a TraceStop range", UK | STOP, {0}, IN, out(IN, STOPS), {TASK},                               \
     "fup(401000) pip(7000) tip.pgd(600000) stop"},                                                                    \
    {n "e " what ", packets on", UK, {0}, IN, out(IN, KERNEL), {CPL(0)}, "tnt.8(T) fup(401000) tip(ffffffff81000000)", .bits = 1}, \
    {n "e " what ", task switch to 16-bit code", UK, {0}, IN, out(IN, OUT), {TASK, .mode = 17},                       \
     "fup(401000) pip(7000) mode.exec(16) tip(500000)"}

    FAR_CASES("11", "interrupt", HW_INT), EVENT_CASES("11", "interrupt", HW_INT),
    FAR_CASES("12", "INT n", SW_INT), EVENT_CASES("12", "INT n", SW_INT),
    FAR_CASES("13", "fault", A_FAULT), EVENT_CASES("13", "fault", A_FAULT),

    {"14a SMI, packets off", U, IN_KERNEL, KERNEL, INT(SMI, KERNEL, 0x8000), {.smm = 2}, ""},
    {"14b SMI, packets on", UK, {0}, IN, INT(SMI, IN, 0x8000), {CPL(0), .smm = 2}, "tnt.8(T) fup(401000) tip.pgd()", .bits = 1},
    {"15a RSM that leaves TraceEn 0", 0, IN_KERNEL, 0x8000, FAR(RSM, 0x8000, IN, .msr = MSR_CTL, .control = UK & ~TRACE_EN), {CPL(3)}, ""},
    {"15b RSM that sets TraceEn, out of context", 0, IN_KERNEL, 0x8000, FAR(RSM, 0x8000, KERNEL, .msr = MSR_CTL, .control = U), {.smm = 1},
     "psb cbr(24) psbend"},
    {"15c RSM that sets TraceEn, in context", 0, IN_KERNEL, 0x8000, FAR(RSM, 0x8000, IN, .msr = MSR_CTL, .control = U), {CPL(3)},
     "cbr(24) mode.exec(64) tip.pge(401000)", .count = 100},
    {"15d RSM while TraceEn is 1, packets on", UK, IN_KERNEL, IN, FAR(RSM, IN, OUT), {CPL(3)}, ""},
    {"15e RSM while TraceEn is 1, out of context after", K, IN_KERNEL, IN, FAR(RSM, IN, OUT), {CPL(3)}, ""},
    {"15f RSM while TraceEn is 1, outside the filter after", UK | FILTER, IN_KERNEL, IN, FAR(RSM, IN, OUT), {TASK}, ""},

    {"16i VM exit out of context", U, GUEST, KERNEL, INT(VMEXIT, KERNEL, KERNEL + 64), {.vmx = 2, .cr3 = 0x3000}, ""},
    {"16a VM exit outside the filter", UK | FILTER, GUEST, OUT, INT(VMEXIT, OUT, KERNEL), {.vmx = 2, .cr3 = 0x3000}, "pip(3000)"},
    {"16a concealed", UK | FILTER, {CPL(0), .vmx = 3, .conceal = COFI_CONCEAL_EXITS}, OUT, INT(VMEXIT, OUT, KERNEL),
     {.vmx = 2, .cr3 = 0x3000}, ""},
    {"16a into a TraceStop range", UK | FILTER | STOP, GUEST, OUT, INT(VMEXIT, OUT, STOPS), {.vmx = 2}, "pip(1000) stop"},
    {"16b VM exit whose list sets TraceEn, out of context", 0, GUEST, IN, INT(VMEXIT, IN, KERNEL, .msr = MSR_CTL, .control = U),
     {.vmx = 2}, "psb cbr(24) psbend"},
    {"16c VM exit whose list sets TraceEn, in context", 0, GUEST, IN, INT(VMEXIT, IN, KERNEL, .msr = MSR_CTL, .control = K),
     {.vmx = 2}, "cbr(24) mode.exec(64) tip.pge(ffffffff81000000)", .count = 100},
    {"16e VM exit into the filter", UK | FILTER, GUEST, OUT, INT(VMEXIT, OUT, IN), {.vmx = 2}, "pip(1000) mode.exec(64) tip.pge(401000)"},
    {"16f VM exit whose list clears TraceEn", UK, GUEST, IN, INT(VMEXIT, IN, KERNEL, .msr = MSR_CTL, .control = UK & ~TRACE_EN),
     {.vmx = 2, .cr3 = 0x3000}, "tnt.8(T) fup(401000) pip(3000) tip.pgd()", .bits = 1},
    {"16f with OS=0", U, {.vmx = 3}, IN, INT(VMEXIT, IN, KERNEL, .msr = MSR_CTL, .control = 0), {CPL(0), .vmx = 2},
     "fup(401000) tip.pgd()"},
    {"16j VM exit out of context from packets", U, {.vmx = 3}, IN, INT(VMEXIT, IN, KERNEL), {CPL(0), .vmx = 2}, "fup(401000) tip.pgd()"},
    {"16g VM exit out of the filter", UK | FILTER, GUEST, IN, INT(VMEXIT, IN, OUT), {.vmx = 2}, "fup(401000) pip(1000) tip.pgd(500000)"},
    {"16g concealed", UK | FILTER, {CPL(0), .vmx = 3, .conceal = COFI_CONCEAL_EXITS}, IN, INT(VMEXIT, IN, OUT), {.vmx = 2},
     "fup(401000) tip.pgd(500000)"},
    {"16g into a TraceStop range", UK | STOP, GUEST, IN, INT(VMEXIT, IN, STOPS), {.vmx = 2}, "fup(401000) pip(1000) tip.pgd(600000) stop"},
    {"16h VM exit, packets on", UK, GUEST, IN, INT(VMEXIT, IN, OUT), {.vmx = 2}, "fup(401000) pip(1000) tip(500000)"},
    {"16h from 32-bit code", UK, {CPL(0), .vmx = 3, .mode = 33}, IN, INT(VMEXIT, IN, OUT), {.vmx = 2, .mode = 65},
     "fup(401000) pip(1000) mode.exec(64) tip(500000)"},
    {"17a VM entry out of context", U, ROOT, IN, FAR(VMENTRY, IN, KERNEL), {.vmx = 3, .cr3 = 0x3000}, ""},
    {"17b VM entry outside the filter", UK | FILTER, ROOT, OUT, FAR(VMENTRY, OUT, KERNEL), {.vmx = 3, .cr3 = 0x3000}, "pip(3000,nr)"},
    {"17b concealed", UK | FILTER, {CPL(0), .vmx = 2, .conceal = COFI_CONCEAL_ENTRIES}, OUT, FAR(VMENTRY, OUT, KERNEL), {.vmx = 3}, ""},
    {"17b into a TraceStop range", UK | FILTER | STOP, ROOT, OUT, FAR(VMENTRY, OUT, STOPS), {.vmx = 3}, "pip(1000,nr) stop"},
    {"17c VM entry whose list sets TraceEn, out of context", 0, ROOT, IN, FAR(VMENTRY, IN, KERNEL, .msr = MSR_CTL, .control = U),
     {.vmx = 3}, "cbr(24)", .count = 100},
    {"17d VM entry whose list sets TraceEn, in context", 0, ROOT, IN, FAR(VMENTRY, IN, KERNEL, .msr = MSR_CTL, .control = K),
     {.vmx = 3}, "cbr(24) mode.exec(64) tip.pge(ffffffff81000000)", .count = 100},
    {"17f VM entry into the filter", UK | FILTER, ROOT, OUT, FAR(VMENTRY, OUT, IN), {.vmx = 3}, "pip(1000,nr) mode.exec(64) tip.pge(401000)"},
    {"17j VM entry into context", U, ROOT, IN, FAR(VMENTRY, IN, OUT), {CPL(3), .vmx = 3}, "mode.exec(64) tip.pge(500000)"},
    {"17j VM entry into context by CR3", K | CR3_FILTER, ROOT, IN, FAR(VMENTRY, IN, OUT), {.vmx = 3, .cr3 = 0x5000},
     "pip(5000,nr) mode.exec(64) tip.pge(500000)"},
    {"17g VM entry whose list clears TraceEn", UK, ROOT, IN, FAR(VMENTRY, IN, OUT, .msr = MSR_CTL, .control = 0),
     {.vmx = 3, .cr3 = 0x3000}, "tnt.8(T) pip(3000,nr) tip.pgd()", .bits = 1},
    {"17h VM entry out of the filter", UK | FILTER, ROOT, IN, FAR(VMENTRY, IN, OUT), {.vmx = 3}, "pip(1000,nr) tip.pgd(500000)"},
    {"17h into a TraceStop range", UK | STOP, ROOT, IN, FAR(VMENTRY, IN, STOPS), {.vmx = 3}, "pip(1000,nr) tip.pgd(600000) stop"},
    {"17h out of context", K | CR3_FILTER, {CPL(0), .vmx = 2, .cr3 = 0x5000}, IN, FAR(VMENTRY, IN, OUT), {.vmx = 3, .cr3 = 0x3000},
     "tip.pgd()"},
    {"17i VM entry, packets on", UK, ROOT, IN, FAR(VMENTRY, IN, OUT), {.vmx = 3, .mode = 33}, "pip(1000,nr) mode.exec(32) tip(500000)"},

    {"20a EENTER of a production enclave, packets off", K, {0}, IN, FAR(EENTER, IN, OUT), {.enclave = 2}, ""},
    {"20c EENTER of a production enclave", U, {0}, IN, FAR(EENTER, IN, OUT), {.enclave = 2}, "tnt.8(T) fup(401000) tip.pgd()", .bits = 1},
    {"21a EEXIT of a production enclave, packets off", U | FILTER, {.enclave = 2}, OUT, FAR(EEXIT, OUT, OUT + 64), {.enclave = 1}, ""},
    {"21b EEXIT of a production enclave", U, {.enclave = 2}, IN, FAR(EEXIT, IN, OUT), {.enclave = 1}, "mode.exec(64) tip.pge(500000)"},
    {"22a AEX of a production enclave, packets off", U | FILTER, {.enclave = 2}, OUT, INT(AEX, OUT, OUT + 64), {.enclave = 1}, ""},
    {"22b AEX of a production enclave", U, {.enclave = 2}, IN, INT(AEX, IN, OUT), {.enclave = 1}, "mode.exec(64) tip.pge(500000)"},

#define DEBUG_ENCLAVE(n, what, out)                                                                                   \
    {n "b " what " into the filter", U | FILTER, {0}, OUT, out(OUT, IN), {0}, "mode.exec(64) tip.pge(401000)"},        \
    {n "d " what " out of the filter", U | FILTER, {0}, IN, out(IN, OUT), {0}, "fup(401000) tip.pgd(500000)"},         \
    {n "d " what " into a TraceStop range", U | STOP, {0}, IN, out(IN, STOPS), {0}, "fup(401000) tip.pgd(600000) stop"}, \
    {n "e " what ", packets on", U, {0}, IN, out(IN, OUT), {0}, "tnt.8(T) fup(401000) tip(500000)", .bits = 1}
#define ENTER(from, to) FAR(EENTER, from, to)
#define EXIT(from, to) FAR(EEXIT, from, to)
#define ASYNC(from, to) INT(AEX, from, to)
    {"23a EENTER of a debug enclave, packets off", U | FILTER, {0}, OUT, FAR(EENTER, OUT, OUT + 64), {0}, ""},
    DEBUG_ENCLAVE("23", "EENTER of a debug enclave", ENTER),
    {"23c EENTER of a debug enclave out of context", U, {0}, IN, FAR(EENTER, IN, OUT), {CPL(0)}, "fup(401000) tip.pgd()"},
    {"24f EEXIT of a debug enclave, packets off", U | FILTER, {0}, OUT, FAR(EEXIT, OUT, OUT + 64), {0}, ""},
    DEBUG_ENCLAVE("24", "EEXIT of a debug enclave", EXIT),
    {"25a AEX of a debug enclave, packets off", U | FILTER, {0}, OUT, INT(AEX, OUT, OUT + 64), {0}, ""},
    DEBUG_ENCLAVE("25", "AEX of a debug enclave", ASYNC),
    {"25e AEX of a debug enclave to another mode", U, {0}, IN, INT(AEX, IN, OUT), {.mode = 33}, "fup(401000) mode.exec(32) tip(500000)"},

    {"26a XBEGIN out of context", U, IN_KERNEL, IN, EV(XBEGIN, IN), {.intx = 2}, ""},
    {"26a XBEGIN with BranchEn=0", NOBR, {0}, IN, EV(XBEGIN, IN), {.intx = 2}, ""},
    {"26a XBEGIN outside the filter, no FUP", U | FILTER, {0}, OUT, EV(XBEGIN, OUT), {.intx = 2}, "mode.tsx(begin)"},
    {"26d nested XBEGIN", U, {.intx = 2}, IN, EV(XBEGIN, IN), {.intx = 2}, ""},
    {"26e XBEGIN", U, {0}, IN, EV(XBEGIN, IN), {.intx = 2}, "tnt.8(T) mode.tsx(begin) fup(401000)", .bits = 1},
    {"27a XEND out of context", U, {CPL(0), .intx = 2}, IN, EV(XEND, IN), {.intx = 1}, ""},
    {"27a XEND outside the filter, no FUP", U | FILTER, {.intx = 2}, OUT, EV(XEND, OUT), {.intx = 1}, "mode.tsx(commit)"},
    {"27d nested XEND", U, {.intx = 2}, IN, EV(XEND, IN), {.intx = 2}, ""},
    {"27e XEND", U, {.intx = 2}, IN, EV(XEND, IN), {.intx = 1}, "mode.tsx(commit) fup(401000)"},
    {"28a abort out of context", U, {CPL(0), .intx = 2}, IN, EV(XABORT, IN, .target = OUT), {.intx = 1}, ""},
    {"28a abort with BranchEn=0", NOBR, {.intx = 2}, IN, EV(XABORT, IN, .target = OUT), {.intx = 1}, ""},
    {"28e abort outside the filter", U | FILTER, {.intx = 2}, OUT, EV(XABORT, OUT, .target = OUT + 64), {.intx = 1}, "mode.tsx(abort)"},
    {"28e abort outside the filter into a TraceStop range", U | FILTER | STOP, {.intx = 2}, OUT, EV(XABORT, OUT, .target = STOPS),
     {.intx = 1}, "mode.tsx(abort) stop"},
    {"28b abort into the filter", U | FILTER, {.intx = 2}, OUT, EV(XABORT, OUT, .target = IN), {.intx = 1},
     "mode.tsx(abort) mode.exec(64) tip.pge(401000)"},
    {"28c abort out of the filter", U | FILTER, {.intx = 2}, IN, EV(XABORT, IN, .target = OUT), {.intx = 1},
     "mode.tsx(abort) fup(401000) tip.pgd(500000)"},
    {"28c abort into a TraceStop range", U | STOP, {.intx = 2}, IN, EV(XABORT, IN, .target = STOPS), {.intx = 1},
     "mode.tsx(abort) fup(401000) tip.pgd(600000) stop"},
    {"28d abort, packets on", U, {.intx = 2}, IN, EV(XABORT, IN, .target = OUT), {.intx = 1},
     "tnt.8(T) mode.tsx(abort) fup(401000) tip(500000)", .bits = 1},

    {"30a INIT (BSP) out of context", U, IN_KERNEL, KERNEL, INT(INIT_BSP, KERNEL, 0xfffffff0), {0}, ""},
    {"30b INIT (BSP) outside the filter", UK | FILTER, {0}, OUT, INT(INIT_BSP, OUT, 0xfffffff0), {0}, "pip(0)"},
    {"30b into a TraceStop range", UK | FILTER | STOP, {0}, OUT, INT(INIT_BSP, OUT, STOPS), {0}, "pip(0) stop"},
    {"30c INIT (BSP) into context", K, {CPL(3)}, IN, INT(INIT_BSP, IN, 0xfffffff0), {0}, "pip(0) mode.exec(16) tip.pge(fffffff0)"},
    {"30d INIT (BSP) out of context from packets", U, {0}, IN, INT(INIT_BSP, IN, 0xfffffff0), {0}, "fup(401000) tip.pgd()"},
    {"30e INIT (BSP) out of the filter", UK | FILTER, {0}, IN, INT(INIT_BSP, IN, 0xfffffff0), {0}, "fup(401000) pip(0) tip.pgd(fffffff0)"},
    {"30e into a TraceStop range", UK | STOP, {0}, IN, INT(INIT_BSP, IN, STOPS), {0}, "fup(401000) pip(0) tip.pgd(600000) stop"},
    {"30f INIT (BSP), packets on", UK, {0}, IN, INT(INIT_BSP, IN, 0xfffffff0), {0}, "tnt.8(T) fup(401000) pip(0) mode.exec(16) tip(fffffff0)",
     .bits = 1},
    {"31a INIT (AP) out of context", U, IN_KERNEL, KERNEL, INT(INIT_AP, KERNEL, 0), {0}, ""},
    {"31a INIT (AP) outside the filter", UK | FILTER, {0}, OUT, INT(INIT_AP, OUT, 0), {0}, ""},
    {"31b INIT (AP), packets on", UK, {0}, IN, INT(INIT_AP, IN, 0), {0}, "fup(401000) pip(0)"},
    {"31b INIT (AP), packets on, OS=0", U, {0}, IN, INT(INIT_AP, IN, 0), {0}, "fup(401000)"},

#define INIT .first = INT(INIT_AP, IN, 0), .first_after = {CPL(0), .mode = 17}
    {"32a SIPI out of context", U, IN_KERNEL, KERNEL, INT(SIPI, KERNEL, 0x9000, .vector = 9), {.mode = 17}, ""},
    {"32a SIPI outside the filter", UK | FILTER, {0}, OUT, INT(SIPI, OUT, 0x9000, .vector = 9), {CPL(0), .mode = 17}, ""},
    {"32c SIPI into context", K, {0}, IN, INT(SIPI, IN, 0x9000, .vector = 9), {CPL(0), .mode = 17}, "mode.exec(16) tip.pge(9000)"},
    {"32d SIPI out of context from packets", U, {0}, IN, INT(SIPI, IN, 0x9000, .vector = 9), {CPL(0), .mode = 17},
     "fup(401000) tip.pgd()", INIT},
    {"32e SIPI out of the filter", UK | FILTER, {0}, IN, INT(SIPI, IN, 0x9000, .vector = 9), {CPL(0), .mode = 17},
     "fup(401000) pip(1000) tip.pgd(9000)", INIT},
    {"32e SIPI into a TraceStop range", UK | STOP, {0}, IN, INT(SIPI, IN, STOPS, .vector = 9), {CPL(0), .mode = 17},
     "fup(401000) pip(1000) tip.pgd(600000) stop", INIT},
    {"32f SIPI, packets on", UK, {0}, IN, INT(SIPI, IN, 0x9000, .vector = 9), {CPL(0), .mode = 17},
     "fup(401000) pip(1000) mode.exec(16) tip(9000)", INIT},
    {"33a MWAIT to C0", UK, IN_KERNEL, IN, EV(MWAIT, IN, .value = 0xf0), {0}, ""},
    {"33b MWAIT deeper, on wake", UK | T, IN_KERNEL, IN, EV(WAKE, IN, .size = 6, .tsc = 845), {0}, "tsc(845) tma(10,5) cbr(24)",
     .first = EV(MWAIT, IN, .value = 0x60, .size = 6)},

    /* the second table; 16.1 are faults and 16.2 VM exits, which are above, and the store's 16.2 is called 16.20 here */
    {"16.3 MWAIT that asks for C0", UK | P, IN_KERNEL, IN, EV(MWAIT, IN, .value = 0xf0), {0}, ""},
    {"16.4a MWAIT out of context", U | P, IN_KERNEL, IN, EV(MWAIT, IN, .value = 0x21, .size = 3), {0}, "pwre(c3.1) exstop"},
    {"16.4b MWAIT in context", UK | P, IN_KERNEL, IN, EV(MWAIT, IN, .value = UINT64_C(0x300000021), .size = 3), {0},
     "tnt.8(T) mwait(21,3) pwre(c3.1) exstopip fup(401000)", .bits = 1},
    {"16.4b MWAIT outside the filter", UK | P | FILTER, IN_KERNEL, OUT, EV(MWAIT, OUT, .value = 0x21, .size = 3), {0},
     "mwait(21,0) pwre(c3.1) exstopip fup(500000)"},
    {"16.4b MWAIT with BranchEn=0", NOBR | P, IN_KERNEL, IN, EV(MWAIT, IN, .value = 0x21, .size = 3), {0},
     "mwait(21,0) pwre(c3.1) exstopip fup(401000)"},
    {"16.5a MWAIT with an event pending, out of context", U | P | T, IN_KERNEL, IN, EV(MWAIT, IN, .value = 0x21, .size = 3, .taken = true),
     {0}, "pwre(c3.1) exstop tsc(0) tma(0,0) cbr(24) pwrx(c3,c3,0)"},
    {"16.5b MWAIT with an event pending, in context", UK | P | T, IN_KERNEL, IN, EV(MWAIT, IN, .value = 0x21, .size = 3, .taken = true),
     {0}, "pwre(c3.1) exstopip fup(401000) tsc(0) tma(0,0) cbr(24) pwrx(c3,c3,0)"},
    {"16.5b without PwrEvtEn only the time", UK | T, IN_KERNEL, IN, EV(MWAIT, IN, .value = 0x21, .size = 3, .taken = true), {0},
     "tsc(0) tma(0,0) cbr(24)"},
    {"16.6a MWAIT(5) that comes to C1, out of context", U | P, IN_KERNEL, IN, EV(MWAIT, IN, .value = 0x50, .size = 1), {0},
     "pwre(c1.0) exstop"},
    {"16.6b MWAIT(5) that comes to C1, in context", UK | P, IN_KERNEL, IN, EV(MWAIT, IN, .value = 0x50, .size = 1), {0},
     "mwait(50,0) pwre(c1.0) exstopip fup(401000)"},
    {"16.9a HLT out of context", U | P, IN_KERNEL, IN, EV(SLEEP, IN, .size = 1), {0}, "pwre(c1.0) exstop"},
    {"16.9a shutdown out of context", U | P, IN_KERNEL, IN, INT(SHUTDOWN, IN, 0), {0}, "pwre(c1.0) exstop"},
    {"16.9b HLT in context", UK | P, IN_KERNEL, IN, EV(SLEEP, IN, .size = 1), {0}, "tnt.8(T) pwre(c1.0) exstopip fup(401000)", .bits = 1},
    {"16.9b shutdown in context", UK | P, IN_KERNEL, IN, INT(SHUTDOWN, IN, 0), {0}, "pwre(c1.0) exstopip fup(401000)"},
    {"16.9b RSM to a C-state", 0, IN_KERNEL, 0x8000, EV(SLEEP, IN, .size = 1), {0},
     "cbr(24) mode.exec(64) tip.pge(401000) pwre(c1.0) exstopip fup(401000)", .count = 100,
     .first = FAR(RSM, 0x8000, IN, .msr = MSR_CTL, .control = UK | P), .first_after = {.smm = 1}},
    {"16.10a VMX abort out of context", U | P, GUEST, IN, INT(VMX_ABORT, IN, 0), {.vmx = 2}, "pwre(c1.0) exstop"},
    {"16.10b VMX abort in context", UK | P, GUEST, IN, INT(VMX_ABORT, IN, 0), {.vmx = 2},
     "fup(401000) tip.pgd() pwre(c1.0) exstopip fup(401000)"},
    {"16.11a RSM to shutdown, out of context", U | P, IN_KERNEL, IN, INT(SHUTDOWN, IN, 0), {0}, "pwre(c1.0) exstop",
     .first = FAR(RSM, IN, OUT)},
    {"16.11b RSM to shutdown, in context", UK | P, IN_KERNEL, IN, INT(SHUTDOWN, IN, 0), {0}, "pwre(c1.0) exstopip fup(401000)",
     .first = FAR(RSM, IN, OUT)},
    {"16.12a INIT (BSP) out of context", U | P, IN_KERNEL, IN, INT(INIT_BSP, IN, 0xfffffff0), {0}, "pwre(c1.0) exstop"},
    {"16.12b INIT (BSP) in context", UK | P, {0}, IN, INT(INIT_BSP, IN, 0xfffffff0), {0},
     "fup(401000) pip(0) mode.exec(16) tip(fffffff0) pwre(c1.0) exstopip fup(401000)"},
    {"16.13a INIT (AP) out of context", U | P, IN_KERNEL, IN, INT(INIT_AP, IN, 0), {0}, "pwre(c1.0) exstop"},
    {"16.13b INIT (AP) in context", UK | P, {0}, IN, INT(INIT_AP, IN, 0), {0}, "fup(401000) pip(0) pwre(c1.0) exstopip fup(401000)"},
    {"16.14a duty cycling out of context", U | P | T, IN_KERNEL, IN, EV(WAKE, IN, .cause = 8, .size = 6), {0},
     "pwre(c6.0,hw) exstop tsc(0) tma(0,0) cbr(24) pwrx(c6,c6,8)", .first = EV(SLEEP, IN, .size = 6, .cause = 1)},
    {"16.14b duty cycling in context", UK | P | T, {0}, IN, EV(WAKE, IN, .cause = 8, .size = 6), {0},
     "pwre(c6.0,hw) exstopip fup(401000) tsc(0) tma(0,0) cbr(24) pwrx(c6,c6,8)", .first = EV(SLEEP, IN, .size = 6, .cause = 1)},
    {"16.15a VM entry to HLT out of context", U | P, ROOT, IN, EV(SLEEP, OUT, .size = 1), {0}, "pwre(c1.0) exstop",
     .first = FAR(VMENTRY, IN, OUT), .first_after = {.vmx = 3}},
    {"16.15b VM entry to HLT in context", UK | P, ROOT, IN, EV(SLEEP, OUT, .size = 1), {0},
     "pip(1000,nr) tip(500000) pwre(c1.0) exstopip fup(500000)", .first = FAR(VMENTRY, IN, OUT), .first_after = {.vmx = 3}},
    {"16.16a another frequency out of context", U | P | T, IN_KERNEL, IN, EV(FREQ, IN, .value = 30, .tsc = 83), {0},
     "exstop tsc(83) tma(0,83) cbr(30)"},
    {"16.16b another frequency in context", UK | P | T, {0}, IN, EV(FREQ, IN, .value = 30, .tsc = 83), {0},
     "tnt.8(T) exstopip fup(401000) tsc(83) tma(0,83) cbr(30)", .bits = 1},
    {"16.17 another frequency while asleep", UK | P | T, {0}, IN, EV(FREQ, IN, .value = 30, .tsc = 83), {0},
     "pwre(c1.0) exstopip fup(401000)", .first = EV(SLEEP, IN, .size = 1)},
    {"16.18 interrupt in a C-state", UK | P | T, {0}, IN, INT(INTR, IN, KERNEL), {CPL(0)},
     "tsc(0) tma(0,0) cbr(24) pwrx(c1,c6,1) fup(401000) tip(ffffffff81000000)", .first = EV(WAKE, IN, .cause = 1, .size = 1, .value = 6)},
    {"16.18 SMI in a C-state", UK | P | T, {0}, IN, INT(SMI, IN, 0x8000), {CPL(0), .smm = 2},
     "tsc(0) tma(0,0) cbr(24) pwrx(c1,c1,0) fup(401000) tip.pgd()", .first = EV(WAKE, IN, .size = 1)},
    {"16.19 NMI in a C-state", UK | P | T, {0}, IN, INT(NMI, IN, KERNEL), {CPL(0)},
     "tsc(0) tma(0,0) cbr(24) pwrx(c6,c6,0) fup(401000) tip(ffffffff81000000)", .first = EV(WAKE, IN, .size = 6)},
    {"16.20 store to the monitored line", UK | P | T, {0}, IN, EV(WAKE, IN, .cause = 4, .size = 6), {0},
     "tsc(0) tma(0,0) cbr(24) pwrx(c6,c6,4)"},
    {"16.22 timer in a C-state", U | P, IN_KERNEL, IN, EV(WAKE, IN, .size = 6, .value = 7), {0}, "cbr(24) pwrx(c6,c7,0)"},
};

enum { ROWS = sizeof rows / sizeof rows[0] };

/* All numbers, in the order of the tables. 14f, 14c and 33's siblings cannot happen, 16.1 and 16.2 are said above. */
static const char *const cases[] = {
    "1a", "1b", "2a", "2b", "2d", "2e", "3a", "3b", "5a", "5f", "5b", "5c", "5e", "5d", "6a", "6b", "6c", "6d", "7a", "7b", "7e",
    "7f", "7d", "8a", "8d", "9a", "9b", "9c", "9d", "10a", "10f", "10b", "10c", "10d", "10e", "11a", "11f", "11b", "11c", "11d",
    "11e", "12a", "12f", "12b", "12c", "12d", "12e", "13a", "13f", "13b", "13c", "13d", "13e", "14a", "14b", "15a", "15b", "15c",
    "15e", "15f", "15d", "16i", "16a", "16b", "16c", "16e", "16f", "16j", "16g", "16h", "17a", "17b", "17c", "17d", "17f", "17j",
    "17g", "17h", "17i", "20a", "20c", "21a", "21b", "22a", "22b", "23a", "23b", "23c", "23d", "23e", "24f", "24b", "24d", "24e",
    "25a", "25b", "25d", "25e", "26a", "26d", "26e", "27a", "27d", "27e", "28a", "28e", "28b", "28c", "28d", "30a", "30b", "30c",
    "30d", "30e", "30f", "31a", "31b", "32a", "32c", "32d", "32e", "32f", "33a", "33b", "16.3", "16.4a", "16.4b", "16.5a",
    "16.5b", "16.6a", "16.6b", "16.9a", "16.9b", "16.10a", "16.10b", "16.11a", "16.11b", "16.12a", "16.12b", "16.13a", "16.13b",
    "16.14a", "16.14b", "16.15a", "16.15b", "16.16a", "16.16b", "16.17", "16.18", "16.19", "16.20", "16.22",
};

static void every_case_has_a_row(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        size_t n = strlen(cases[i]), k = 0;
        while (k < ROWS && (strncmp(rows[k].name, cases[i], n) != 0 || rows[k].name[n] != ' '))
            k++;
        if (k == ROWS)
            fail_msg("case %s has no row", cases[i]);
    }
}

int main(void)
{
    static struct CMUnitTest tests[ROWS + 1];
    for (size_t i = 0; i < ROWS; i++)
        tests[i] = (struct CMUnitTest){.name = rows[i].name, .test_func = check_row, .initial_state = (void *)&rows[i]};
    tests[ROWS] = (struct CMUnitTest)cmocka_unit_test(every_case_has_a_row);
    return _cmocka_run_group_tests("packet generation, case by case", tests, ROWS + 1, NULL, NULL);
}
