/* SPDX-License-Identifier: MIT
 * The kernel's signal frame for 64-bit programs. */
#ifndef COFI_HOST_FAST_RT_SIGNALS_H
#define COFI_HOST_FAST_RT_SIGNALS_H

#include "host/fast/rt/rt.h"

struct ksigcontext {
    uint64_t r8, r9, r10, r11, r12, r13, r14, r15, rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp, rip, eflags;
    uint16_t cs, gs, fs, ss;
    uint64_t err, trapno, oldmask, cr2, fpstate, reserved[8];
};

struct kucontext {
    uint64_t flags, link;
    struct kstack stack;
    struct ksigcontext mc;
    uint64_t mask;
};

struct kframe {
    uint64_t pretcode;
    struct kucontext uc;
    struct ksiginfo info;
};

/* What the kernel writes into the reserved tail of the FXSAVE area. */
struct ksw_bytes {
    uint32_t magic1, extended_size;
    uint64_t xfeatures;
    uint32_t xstate_size, padding[7];
};

_Static_assert(sizeof(struct ksigcontext) == 256 && sizeof(struct kucontext) == 304, "kernel layout");

#define SS_AUTODISARM_FLAG (1u << 31)

/* altstack.c. Without one its size is 0; its flags are the last that were set, which frames show. One
 * that handlers take away is free when it is there: then a stack pointer in it is not on it. */
bool in_altstack(const struct thread *t, uint64_t sp);
bool on_altstack(const struct thread *t, uint64_t sp);
long set_altstack(struct thread *t, const struct kstack *in); /* as sigaltstack */

/* frame.c. What is in a frame is learnt from each that comes, or known before one is built. */
void regs_from_context(struct thread *t, const struct ksigcontext *mc);
void regs_to_context(const struct thread *t, struct ksigcontext *mc);
void frame_learn(struct thread *t, const struct ksigcontext *mc);
void frame_know(struct thread *t);
uint64_t frame_xstate_bytes(const struct thread *t);
void frame_build(struct thread *t, const struct ksigaction *a, struct kframe *f, uint64_t fpu);

/* signals.c, handler.c */
void must_be_64_bit(uint16_t cs, uint64_t pc);
void rt_handler(int signo, struct ksiginfo *info, struct kucontext *uc);
void signals_put_back(struct thread *t, const struct ksiginfo *info);

#endif
