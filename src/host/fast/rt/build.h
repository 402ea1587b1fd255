/* SPDX-License-Identifier: MIT
 * A block of code while it is made: what translate.c, regs.c and copy.c share. */
#ifndef COFI_HOST_FAST_RT_BUILD_H
#define COFI_HOST_FAST_RT_BUILD_H

#include "host/fast/rt/cache.h"
#include "host/fast/rt/emit.h"
#include "host/fast/rt/plan.h"

enum { NONE = STAND_INS };

struct build {
    struct out hot, cold;
    struct arena *arena;
    struct block *b;
    struct point *points;
    unsigned marks;    /* of them */
    const struct plan *plan;
    unsigned at;       /* index in it */
    unsigned pending;  /* outcomes since the last record, below a marker bit, not in the log yet; 1 where
                        * nothing is traced */
    uint64_t compared_to; /* guest address up to which the code is compared at each entry; 0: it is not */
    bool traced;       /* else nothing goes to the log; it is still stored to, for safepoints */
    unsigned held;     /* the stand-in (an index) that holds R11's guest value, or NONE: the thread's memory does */
    bool dirty;        /* … and that of the thread's memory is older */
    bool empty;        /* … or will, when the instruction has run */
    unsigned out;      /* of RCX and RDX (bits), those whose guest value is in s_rcx, s_rdx; the register
                        * holds something else */
};

enum { OUT_RCX = 1 << RCX, OUT_RDX = 1 << RDX };

/* A guest instruction's code begins here; the state is what a signal has to put right. */
static inline void mark(struct build *g, uint64_t pc, unsigned fix)
{
    if (g->held != NONE)
        fix |= (g->empty ? FIX_STAND_IN : FIX_R11) | g->held << FIX_R11_SHIFT;
    fix |= (g->out & OUT_RCX ? FIX_RCX : 0) | (g->out & OUT_RDX ? FIX_RDX : 0);
    g->points[g->marks++] = (struct point){(int32_t)(pc - g->b->pc), (uint16_t)(g->hot.p - g->b->code_start),
                                           (uint16_t)fix, (uint8_t)g->pending};
}

/* The 8 bytes of code at p are to be a guest address, or that times -1. */
static inline void note_address(const struct build *g, const uint8_t *p, uint64_t address, bool minus)
{
    if (g->arena->module)
        share_address(g->arena, p, address, minus);
}

/* mov reg, a guest address. */
static inline void move_address(const struct build *g, struct out *o, unsigned reg, uint64_t address)
{
    note_address(g, o->p + 2, address, false);
    move_imm(o, reg, address);
}

/* … times -1. */
static inline void move_minus(const struct build *g, struct out *o, unsigned reg, uint64_t address)
{
    note_address(g, o->p + 2, address, true);
    move_imm(o, reg, -address);
}

static inline bool fits32(int64_t v)
{
    return v == (int32_t)v;
}

/* ---- regs.c ---- */

/* The stand-in for R11 in an instruction that names the registers `used`. */
unsigned regs_hold(struct build *g, uint32_t used);
/* Behind one: whether it was the plan's last one that names R11, and the stand-in is given back. */
void regs_named_r11(struct build *g, const struct cofi__fast *x);
/* Give the stand-in its own value back; R11's goes to the thread's memory. */
void regs_release(struct build *g);
/* RCX or RDX may be used for something else from now on. */
void regs_take_out(struct build *g, unsigned reg);
/* RCX and RDX (bits) have their own values again. */
void regs_back(struct build *g, unsigned regs);
/* … where the instruction reads them; one that it only writes gets it from there. Returns that one's bit. */
unsigned regs_back_for(struct build *g, const struct item *it);
/* All registers are the guest's own but R11: in line, from here on; or on a way out only. */
void regs_settle(struct build *g);
void regs_emit_settle(const struct build *g, struct out *o);

/* ---- copy.c ---- */

/* An instruction as it is, but for R11 and RIP. */
void copy_insn(struct build *g, const struct item *it);
/* In a copied instruction, put register `to` (r8..r15) for R11 wherever a field names it. */
void copy_rename_r11(uint8_t *p, const struct cofi__fast *x, unsigned to);
/* Whether an instruction with GS can be copied. */
bool copy_takes_gs(const struct cofi__fast *x);
/* An instruction with 64-bit operands and the item's memory operand, GS left out: op reg, […], with
 * another register for R11 in it. */
void copy_operand(struct out *o, const struct item *it, unsigned op, unsigned reg, unsigned r11_as);
/* What a RIP-relative operand names, and whether it can be named so from here. */
uint64_t copy_rip_target(const struct item *it);
bool copy_reach(const struct out *o, const struct item *it);
bool copy_reaches(const struct out *o, uint64_t address);
/* … what its copy, which has just been written, names. */
void copy_relocate(const struct out *o, const struct item *it);

#endif
