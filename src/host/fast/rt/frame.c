/* SPDX-License-Identifier: MIT
 * Signal frames as the kernel makes them: registers, and the extended state, of which those that come
 * tell what it holds. */
#include "host/fast/rt/signals.h"

/* What the kernel writes into the extended state, and where [asm/sigcontext.h]; components of it (SDM, XSAVE). */
enum { FXSAVE_BYTES = 512, MAGIC1 = 0x46505853, MAGIC2 = 0x46505845, SW_BYTES = 464, HEADER = FXSAVE_BYTES };
enum { KEYS = 1 << 9, TILES = 1 << 18 };

void regs_from_context(struct thread *t, const struct ksigcontext *mc)
{
    uint64_t *r = t->regs;
    r[RAX] = mc->rax, r[RCX] = mc->rcx, r[RDX] = mc->rdx, r[RBX] = mc->rbx;
    r[RSP] = mc->rsp, r[RBP] = mc->rbp, r[RSI] = mc->rsi, r[RDI] = mc->rdi;
    r[R8] = mc->r8, r[R9] = mc->r9, r[R10] = mc->r10, r[R12] = mc->r12;
    r[R13] = mc->r13, r[R14] = mc->r14, r[R15] = mc->r15;
    t->flags = mc->eflags;
}

void regs_to_context(const struct thread *t, struct ksigcontext *mc)
{
    const uint64_t *r = t->regs;
    mc->rax = r[RAX], mc->rcx = r[RCX], mc->rdx = r[RDX], mc->rbx = r[RBX];
    mc->rsp = r[RSP], mc->rbp = r[RBP], mc->rsi = r[RSI], mc->rdi = r[RDI];
    mc->r8 = r[R8], mc->r9 = r[R9], mc->r10 = r[R10], mc->r11 = r[R11], mc->r12 = r[R12];
    mc->r13 = r[R13], mc->r14 = r[R14], mc->r15 = r[R15];
    mc->rip = t->pc;
    mc->eflags = t->flags | 0x200;
}

/* What the kernel's frame looks like here, for the frames that we build. */
void frame_learn(struct thread *t, const struct ksigcontext *mc)
{
    struct ksw_bytes sw;
    if (!mc->fpstate)
        return;
    if (!rt.control->xsave) {
        t->xstate.size = FXSAVE_BYTES;
        return;
    }
    memcpy(&sw, (uint8_t *)mc->fpstate + SW_BYTES, sizeof sw);
    if (sw.magic1 == MAGIC1) {
        t->xstate.features = sw.xfeatures;
        t->xstate.size = sw.xstate_size;
        t->xstate.keys = sw.xfeatures & KEYS ? keys_now() : 0;
    }
}

/* What the kernel's frames look like is learnt from each that comes: of a signal that no kernel sends,
 * the first one or the first since the thread has used tiles, from that of a fault. */
void frame_know(struct thread *t)
{
    bool more = rt_xgetbv(0) & TILES && rt_xgetbv(1) & TILES & ~t->xstate.features;
    if (!t->xstate.size || more)
        rt_probe(&(char){0}, (const void *)~0ul, 1);
}

uint64_t frame_xstate_bytes(const struct thread *t)
{
    return t->xstate.size + (t->xstate.features ? sizeof(uint32_t) : 0);
}

/* All at their start (SDM, FNINIT and MXCSR): FXRSTOR takes both registers from there, XRSTOR only MXCSR. */
static const uint8_t *fresh(void)
{
    static uint8_t init[4096] __attribute__((aligned(64)));
    memcpy(init, &(uint16_t){0x37f}, 2);
    memcpy(init + 24, &(uint32_t){0x1f80}, 4);
    return init;
}

/* As below, where there is no XSAVE. */
static void save_legacy(uint8_t *p)
{
    memset(p, 0, FXSAVE_BYTES);
    __asm__ volatile("fxsave64 (%0)" : : "r"(p) : "memory");
    __asm__ volatile("fxrstor64 (%0)" : : "r"(fresh()) : "memory");
}

/* Save the vector and FPU state as the kernel does, and start the handler with a fresh one. */
static void save_fpu(struct thread *t, uint64_t area)
{
    if (!t->xstate.features) {
        save_legacy((uint8_t *)area);
        return;
    }
    struct ksw_bytes sw = {MAGIC1, t->xstate.size + 4, t->xstate.features, t->xstate.size, {0}};
    uint32_t lo = (uint32_t)t->xstate.features, hi = (uint32_t)(t->xstate.features >> 32);
    uint8_t *p = (uint8_t *)area;
    memset(p, 0, t->xstate.size + 4);
    __asm__ volatile("xsave64 (%0)" : : "r"(p), "a"(lo), "d"(hi) : "memory");
    uint64_t bv;
    memcpy(&bv, p + HEADER, 8);
    bv |= 3;
    memcpy(p + HEADER, &bv, 8);
    memcpy(p + SW_BYTES, &sw, sizeof sw);
    memcpy(p + t->xstate.size, &(uint32_t){MAGIC2}, 4);
    lo &= ~(uint32_t)KEYS; /* PKRU's start is the kernel's choice */
    __asm__ volatile("xrstor64 (%0)" : : "r"(fresh()), "a"(lo), "d"(hi) : "memory");
    if (t->xstate.features & KEYS)
        keys_set(t->xstate.keys);
}

void frame_build(struct thread *t, const struct ksigaction *a, struct kframe *f, uint64_t fpu)
{
    memset(f, 0, sizeof *f);
    f->pretcode = a->restorer;
    f->info = t->signal.info;
    f->uc.flags = (t->xstate.features ? 1 : 0) | 2 | 4; /* extended state, SS saved, SS strict */
    f->uc.stack = t->altstack;
    f->uc.mask = t->mask;
    regs_to_context(t, &f->uc.mc);
    f->uc.mc.cs = 0x33;
    f->uc.mc.ss = 0x2b;
    f->uc.mc.err = t->fault.err;
    f->uc.mc.trapno = t->fault.trapno;
    f->uc.mc.cr2 = t->fault.cr2;
    f->uc.mc.oldmask = t->mask;
    f->uc.mc.fpstate = fpu;
    save_fpu(t, fpu);
}
