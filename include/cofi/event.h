/* SPDX-License-Identifier: MIT
 * Events: what a processor did, as a host reports it to a trace unit. */
#ifndef COFI_EVENT_H
#define COFI_EVENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Processor state that enables and filters look at. Every event that can change it
 * carries the state after it. */
struct cofi_context {
    uint64_t cr3;
    uint64_t vmcs;   /* current VMCS pointer, all ones if none */
    uint64_t cs_base;
    uint8_t cpl;     /* 0..3; real-address mode 0, virtual-8086 mode 3 */
    uint8_t mode;    /* 16, 32 or 64: CS.D, CS.L & EFER.LMA */
    bool iflag;      /* RFLAGS.IF */
    bool cr0_pg;
    bool pae;        /* 32-bit PAE paging: CR3 matches in 63:5 */
    bool smm;
    uint8_t vmx;     /* 0 outside VMX operation, 1 root, 2 non-root */
    bool enclave;    /* in a production enclave */
    bool intx;       /* in a transaction */
    uint8_t conceal; /* enum cofi_conceal bits: the VMX controls that hide VMX from the trace */
};

/* [SDM Tracing In VMX Operation]: the controls of the current VMCS. */
enum cofi_conceal {
    COFI_CONCEAL_VMX = 1,    /* secondary processor-based control 19: no NR bit, no VMCS packet */
    COFI_CONCEAL_EXITS = 2,  /* VM-exit control 24: no PIP on VM exits */
    COFI_CONCEAL_ENTRIES = 4 /* VM-entry control 17: no PIP on VM entries */
};

/* Kinds. `ip` is the address of the instruction (CLIP), `next` of the sequentially next one (NLIP),
 * `target` where execution goes on (BLIP). */
#define COFI_EVENTS(X)                                                                             \
    /* instructions that retire */                                                                 \
    X(INSN, "insn")             /* any that is none of the below: ip, next */                      \
    X(JCC, "jcc")               /* Jcc, JCXZ, LOOP: ip, next, target, taken */                     \
    X(JMP, "jmp")               /* direct near: ip, next, target */                                \
    X(CALL, "call")             /* direct near; target == next is displacement 0 */                \
    X(JMP_IND, "jmp*")                                                                             \
    X(CALL_IND, "call*")                                                                           \
    X(RET, "ret")               /* near */                                                         \
    X(FAR, "far")               /* far transfer instruction: cause is enum cofi_far; after */      \
    X(MOV_CR3, "mov-cr3")       /* after.cr3 */                                                    \
    X(MOV_CR0, "mov-cr0")       /* after.cr0_pg, after.mode */                                     \
    X(STATE, "state")           /* other non-branch that changes the context (CLI, STI, POPF) */   \
    X(WRMSR, "wrmsr")           /* ip, next, msr, value */                                         \
    X(PTWRITE, "ptwrite")       /* ip, next, value, size 4 or 8 */                                 \
    X(VMPTRLD, "vmptrld")       /* after.vmcs */                                                   \
    X(XBEGIN, "xbegin")         /* outermost only; after.intx */                                   \
    X(XEND, "xend")             /* outermost only */                                               \
    X(XABORT, "xabort")         /* any abort: ip, target = fallback */                             \
    X(MWAIT, "mwait")           /* value = hints | ext << 32; size = C-state entered, C1 is 1, 0 none; \
                                 * taken: an event was pending, so it does not sleep */            \
    /* transfers that are no instruction */                                                        \
    X(EVENT, "event")           /* cause is enum cofi_cause; ip = the address the FUP carries */   \
    X(BOUNDARY, "boundary")     /* the next instruction is at ip: completes a deferred target */   \
    /* time and power: tsc, cycles as of now; no instruction */                                    \
    X(CLOCK, "clock")           /* time has passed */                                              \
    X(FREQ, "freq")             /* ratio (value), effective ratio (size) changed */                \
    X(SLEEP, "sleep")           /* enters the C-state in size, not by MWAIT: clocks stop; ip: HLT's, \
                                 * or the next instruction's with cause 1 (hardware's decision) */ \
    X(WAKE, "wake")             /* cause is the wake reason bits of PWRX, size = C-state left, \
                                 * value = the deepest one, 0: the same */                         \
    X(OVERFLOW_HINT, "ovf")     /* the host forces an internal buffer overflow (tests) */          \
    /* what other units of the processor put into the trace (PT only) */                           \
    X(BLOCK, "block")           /* value = block type, size = bytes an item (4, 8); PEBS via PT */ \
    X(BLOCK_ITEM, "block-item") /* size = item id, value = payload */                              \
    X(BLOCK_END, "block-end")   /* ip: the instruction it belongs to, taken: has that address */   \
    X(TRIGGER, "trigger")       /* value = trigger vector, or with cause 1 the input that fired, as a \
                                 * trigger register has it; value2 = instructions since the last \
                                 * address in the trace (taken: known), size = 1: more fired */ \
    X(PSB_HINT, "psb")          /* the host asks for a PSB+ here (replay); ip: the
                                 * next instruction */

enum cofi_event_kind {
#define X(name, text) COFI_EV_##name,
    COFI_EVENTS(X)
#undef X
    COFI_EVENT_KINDS
};

/* Which far transfer instruction [SDM Far Transfer COFI]. VMENTRY with target next: a
 * VM entry that failed early; VMENTRY_LATE: one that failed after it had loaded the
 * guest's state and left by a VM exit: value is the guest's CR3, target and after are
 * the host's, msr != 0: lists turned tracing off and on again [SDM Failed VM Entry].
 * SENTER: GETSEC[SENTER], GETSEC[ENTERACCS] or another processor's SENTER; ACM: an
 * authenticated code module ran, from ip to target [SDM SENTER/ENTERACCS and ACM]. */
#define COFI_FARS(X)                                                                               \
    X(JMP, "far-jmp") X(CALL, "far-call") X(RET, "far-ret") X(IRET, "iret") X(SYSCALL, "syscall")  \
    X(SYSRET, "sysret") X(SYSENTER, "sysenter") X(SYSEXIT, "sysexit") X(INT, "int") X(UIRET, "uiret") \
    X(ERETU, "eretu") X(ERETS, "erets") X(VMENTRY, "vmentry") X(RSM, "rsm")                        \
    X(EENTER, "eenter") X(EEXIT, "eexit") X(VMENTRY_LATE, "vmentry-late") X(SENTER, "senter")      \
    X(ACM, "acm")

enum cofi_far {
#define X(name, text) COFI_FAR_##name,
    COFI_FARS(X)
#undef X
    COFI_FAR_KINDS
};

/* Why an EVENT happened. FAULT: ip is the faulting instruction; TRAP and INTR: the next one to run;
 * VMEXIT with after.smm: an SMM VM exit, to an STM; VMX_ABORT: a VM exit that ended in shutdown. */
#define COFI_CAUSES(X)                                                                             \
    X(INTR, "intr") X(NMI, "nmi") X(TRAP, "trap") X(FAULT, "fault") X(MC_TRAP, "mc-trap")          \
    X(MC_FAULT, "mc-fault") X(SMI, "smi") X(INIT_BSP, "init-bsp") X(INIT_AP, "init-ap")            \
    X(SIPI, "sipi") X(VMEXIT, "vmexit") X(AEX, "aex") X(UINTR, "uintr") X(SHUTDOWN, "shutdown")    \
    X(VMX_ABORT, "vmx-abort")

enum cofi_cause {
#define X(name, text) COFI_CAUSE_##name,
    COFI_CAUSES(X)
#undef X
    COFI_CAUSE_KINDS
};

enum { COFI_NO_VECTOR = 0xffff };

struct cofi_event {
    uint8_t kind;     /* enum cofi_event_kind */
    uint8_t cause;    /* enum cofi_far or enum cofi_cause, or the wake reason */
    bool taken;
    bool deferred;    /* EVENT, FAR: target not known yet, the next BOUNDARY tells it */
    bool context_set; /* after is valid and differs from the state before */
    uint8_t size;     /* see the kinds; FAR: how many prefixes it has, 0 unknown [ERR E1] */
    uint16_t vector;  /* EVENT, FAR: vector, or COFI_NO_VECTOR; units look at no other kind's */
    uint32_t msr;
    uint64_t ip, next, target;
    uint64_t value;   /* PTWRITE payload, WRMSR value, CR2 of a page fault, exit qualification */
    uint64_t value2;  /* VM exit reason */
    uint64_t control; /* FAR VMENTRY, FAR RSM, EVENT VMEXIT with msr != 0: the
                       * transition's own lists leave this value in the trace control
                       * register; the target must be known */
    uint64_t tsc;     /* CLOCK, FREQ, SLEEP, WAKE: hardware TSC, ticks */
    uint64_t cycles;  /* same: core cycles since reset */
    struct cofi_context after;
};

/* Text form: one line without newline, "jcc ip=401000 next=401002 target=401010 taken",
 * "event intr ip=401010 target=ffffffff81000000 vector=32 : cpl=0": the kind, the cause
 * where the kind has one, key=value pairs in any order, flags, and behind a colon the state
 * after the event, where it differs (cofi-sim(1) shows more). Addresses, values and MSR
 * numbers are hexadecimal, the rest decimal. before is the state before the event (null: all
 * zero, no VMCS): print shows what differs from it, parse starts from it. print returns the
 * length, as snprintf. parse fills *event and returns 0, or COFI_ERR_SYNTAX, COFI_ERR_RANGE
 * with *error (offset: bytes into the line). Each is the other's inverse. Thread safe. */
struct cofi_error;
int cofi_event_print(const struct cofi_event *event, const struct cofi_context *before, char *out,
                     size_t n);
int cofi_event_parse(const char *text, const struct cofi_context *before, struct cofi_event *event,
                     struct cofi_error *error);

/* ---- for hosts that see instructions only ---- */

/* Tells events from a stream of instructions, each reported when it is about to run:
 * what the one before it did follows from where execution went. All members are the
 * adapter's; no allocation, not thread safe. */
struct cofi_stepper {
    struct cofi_context context;
    uint64_t ip, target;
    uint8_t length, cls, far, prefixes;
    bool running; /* ip.. is an instruction whose end is not known yet */
};

struct cofi_insn;
/* The kind of event as which an instruction of this class (enum cofi_class) is told.
 * INSN too for PTWRITE and TSX, whose effect no class tells: the host reports those
 * that have one in full. Thread safe. */
enum cofi_event_kind cofi_event_of_class(unsigned cls);
void cofi_stepper_init(struct cofi_stepper *stepper, const struct cofi_context *context);
/* The instruction at ip, decoded, is about to run; context is the state now (null: as
 * before). Writes the events since the last call, in order, for cofi_unit_event, and
 * returns how many: 0 (the first one, or a string instruction goes on), 1 (the
 * instruction before), or 2 (then an interrupt, because execution went where that
 * instruction does not lead). PTWRITE, WRMSR, TSX and clocks are the host's to report. */
int cofi_stepper_next(struct cofi_stepper *stepper, uint64_t ip, const struct cofi_insn *insn,
                      const struct cofi_context *context, struct cofi_event events[2]);
/* The instruction last reported did not complete: a fault, to the handler (null
 * context: same state). */
void cofi_stepper_fault(struct cofi_stepper *stepper, enum cofi_cause cause, uint16_t vector,
                        uint64_t handler, const struct cofi_context *context,
                        struct cofi_event *event);

#ifdef __cplusplus
}
#endif
#endif
