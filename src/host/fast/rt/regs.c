/* SPDX-License-Identifier: MIT
 * Registers that translated code borrows: R11, for which another stands in where the guest names it, and
 * RCX and RDX around indirect transfers. */
#include "host/fast/rt/build.h"

/* Registers that stand in for R11. Their low three bits never ask for a SIB byte or a displacement, and the
 * extension bit is R11's, so only three bits of an encoding change. */
const uint8_t stand_ins[STAND_INS] = {R8, R9, R10, R14, R15};

/* How many instructions of the plan, from the index on, come before one that names the register. */
static unsigned distance(const struct plan *plan, unsigned from, unsigned reg)
{
    unsigned i = from;
    while (i < plan->count && !(plan->item[i].used >> reg & 1))
        i++;
    return i - from;
}

/* … where the plan is a loop: behind its end comes its beginning. */
static unsigned distance_round(const struct plan *plan, unsigned from, unsigned reg)
{
    unsigned d = distance(plan, from, reg);
    return from + d < plan->count ? d : d + distance(plan, 0, reg);
}

static void emit_release(const struct build *g, struct out *o)
{
    if (g->held == NONE)
        return;
    if (g->dirty)
        store(o, stand_ins[g->held], AT_REG(R11));
    load(o, stand_ins[g->held], AT(s_reg));
}

void regs_release(struct build *g)
{
    emit_release(g, &g->hot);
    g->held = NONE;
    g->dirty = false;
}

static void emit_back(const struct build *g, struct out *o, unsigned regs)
{
    if (g->out & regs & OUT_RDX)
        load(o, RDX, AT(s_rdx));
    if (g->out & regs & OUT_RCX)
        load(o, RCX, AT(s_rcx));
}

void regs_back(struct build *g, unsigned regs)
{
    emit_back(g, &g->hot, regs);
    g->out &= ~regs;
}

void regs_take_out(struct build *g, unsigned reg)
{
    if (!(g->out >> reg & 1))
        store(&g->hot, reg, reg == RCX ? AT(s_rcx) : AT(s_rdx));
    g->out |= 1u << reg;
}

void regs_emit_settle(const struct build *g, struct out *o)
{
    emit_release(g, o);
    emit_back(g, o, OUT_RCX | OUT_RDX);
}

void regs_settle(struct build *g)
{
    regs_release(g);
    regs_back(g, OUT_RCX | OUT_RDX);
}

/* The general register that the instruction writes, all 64 bits of it, without reading it; -1: none that is known. */
static int overwrites(const struct cofi__fast *x)
{
    unsigned reg = (x->modrm >> 3 & 7) | (x->rex & 4) << 1, rm = (x->modrm & 7) | (x->rex & 1) << 3;
    bool in_reg = x->modrm >= 0xc0;
    if (x->space != COFI__FAST_LEGACY ||
        x->prefixes & (COFI__FAST_P66 | COFI__FAST_PF2 | COFI__FAST_PF3 | COFI__FAST_LOCK))
        return -1;
    if (x->map == 1) /* MOVZX, MOVSX */
        return x->opcode == 0xb6 || x->opcode == 0xb7 || x->opcode == 0xbe || x->opcode == 0xbf ? (int)reg : -1;
    if (x->map)
        return -1;
    if (x->opcode == 0x8b || x->opcode == 0x8d || x->opcode == 0x63)
        return (int)reg;
    if (x->opcode == 0x89 || x->opcode == 0xc7)
        return in_reg ? (int)rm : -1;
    if (x->opcode == 0x31 || x->opcode == 0x33) /* XOR with itself */
        return in_reg && reg == rm ? (int)rm : -1;
    if ((x->opcode & 0xf8) == 0x58 || (x->opcode & 0xf8) == 0xb8)
        return (int)((x->opcode & 7) | (x->rex & 1) << 3);
    return -1;
}

/* The instruction without the field that names what it overwrites. */
static struct cofi__fast without_written(const struct cofi__fast *x)
{
    struct cofi__fast y = *x;
    bool rm = y.opcode == 0x89 || y.opcode == 0xc7, both = y.opcode == 0x31 || y.opcode == 0x33;
    y.attr &= ~(uint32_t)(both ? COFI__FAST_REG | COFI__FAST_RM
                               : rm ? COFI__FAST_RM : COFI__FAST_REG | COFI__FAST_OPC);
    return y;
}

/* Whether a copied instruction writes all of R11 and does not read it. */
static bool replaces_r11(const struct item *it)
{
    if (it->action != DO_COPY || overwrites(&it->x) != R11)
        return false;
    struct cofi__fast y = without_written(&it->x);
    return !(cofi__fast_registers(&y) >> R11 & 1);
}

/* Of those that the instruction does not name, the one that is not named for longest. */
unsigned regs_hold(struct build *g, uint32_t used)
{
    if (g->held != NONE && used >> stand_ins[g->held] & 1)
        regs_release(g);
    if (g->held != NONE)
        return stand_ins[g->held];
    unsigned best = NONE, longest = 0;
    for (unsigned i = 0; i < STAND_INS; i++) {
        unsigned d = distance_round(g->plan, g->at, stand_ins[i]);
        if (d > longest)
            best = i, longest = d;
    }
    g->held = best; /* an instruction names three other registers at most */
    store(&g->hot, stand_ins[best], AT(s_reg));
    g->empty = replaces_r11(&g->plan->item[g->at]);
    if (!g->empty)
        load(&g->hot, stand_ins[best], AT_REG(R11));
    return stand_ins[best];
}

/* Whether an instruction that names R11 may change it. */
static bool may_write_r11(const struct cofi__fast *x)
{
    bool in_reg = x->attr & COFI__FAST_REG && x->rex & 4 && (x->modrm >> 3 & 7) == 3;
    bool in_rm = x->modrm >= 0xc0 && x->attr & COFI__FAST_RM && x->rex & 1 && (x->modrm & 7) == 3;
    bool in_memory_only = x->modrm_offset && !in_reg && !in_rm && !(x->attr & (COFI__FAST_OPC | COFI__FAST_VVVV));
    bool compares = x->space == COFI__FAST_LEGACY && x->map == 0 &&
                    ((x->opcode >= 0x38 && x->opcode <= 0x3b) || (x->opcode & 0xfe) == 0x84);
    bool stores = x->space == COFI__FAST_LEGACY && x->map == 0 && (x->opcode & 0xfe) == 0x88 && !in_rm;
    return !in_memory_only && !compares && !stores;
}

void regs_named_r11(struct build *g, const struct cofi__fast *x)
{
    g->empty = false;
    g->dirty |= may_write_r11(x);
    if (g->at + 1 + distance(g->plan, g->at + 1, R11) == g->plan->count)
        regs_release(g);
}

unsigned regs_back_for(struct build *g, const struct item *it)
{
    unsigned needs = g->out ? g->out & cofi__fast_touches(&it->x, it->used) : 0, writes = 0;
    int reg = needs ? overwrites(&it->x) : -1;
    if (reg == RCX || reg == RDX) {
        struct cofi__fast y = without_written(&it->x);
        writes = needs & 1u << reg & ~cofi__fast_touches(&y, cofi__fast_registers(&y));
    }
    regs_back(g, needs & ~writes);
    return writes;
}
