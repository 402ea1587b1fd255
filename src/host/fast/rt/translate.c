/* SPDX-License-Identifier: MIT
 * A plan -> code: the guest's instructions, and between them what writes the log. Flags, stack and all registers
 * but R11 are the guest's own; R11 is where the next record goes, and its guest value lies in the thread. What is
 * logged of branches is known when the code is made: one byte at each way out says which of a superblock's were
 * taken. So nothing is counted and nothing checked; the guard page behind a chunk stops a thread that fills it. */
#include "cofi/insn.h"
#include "host/fast/rt/cache.h"
#include "host/fast/rt/emit.h"
#include "host/fast/rt/plan.h"

/* Registers that stand in for R11. Their low three bits never ask for a SIB byte or a displacement, and the
 * extension bit is R11's, so only three bits of an encoding change. */
const uint8_t stand_ins[STAND_INS] = {R8, R9, R10, R14, R15};
enum { NONE = STAND_INS };
/* … and for RIP. */
const uint8_t rip_stand_ins[4] = {RSI, RDI, RBP, RBP};

struct build {
    struct out hot, cold;
    struct arena *arena;
    struct block *b;
    struct point *points;
    unsigned marks;    /* of them */
    const struct plan *plan;
    unsigned at;       /* index in it */
    unsigned pending;  /* outcomes since the last record, below a marker bit, not in the log yet; 1 where nothing is traced */
    uint64_t compared_to; /* guest address up to which the code is compared at each entry; 0: it is not */
    bool traced;       /* else nothing goes to the log; it is still stored to, for safepoints */
    unsigned held;     /* the stand-in (an index) that holds R11's guest value, or NONE: the thread's memory does */
    bool dirty;        /* … and that of the thread's memory is older */
    bool empty;        /* … or will, when the instruction has run */
    unsigned out;      /* of RCX and RDX (bits), those whose guest value is in s_rcx, s_rdx; the register holds something else */
};

enum { OUT_RCX = 1 << RCX, OUT_RDX = 1 << RDX };

static void mark(struct build *g, uint64_t pc, unsigned fix)
{
    if (g->held != NONE)
        fix |= (g->empty ? FIX_STAND_IN : FIX_R11) | g->held << FIX_R11_SHIFT;
    fix |= (g->out & OUT_RCX ? FIX_RCX : 0) | (g->out & OUT_RDX ? FIX_RDX : 0);
    g->points[g->marks++] = (struct point){(int32_t)(pc - g->b->pc), (uint16_t)(g->hot.p - g->b->code_start), (uint16_t)fix,
                                           (uint8_t)g->pending};
}

/* Leave to the runtime with the exit's descriptor. */
static void emit_leave(const struct build *g, struct out *o, const struct exit *e)
{
    store_imm(o, AT(exit_id), address_of(e));
    jump(o, g->arena->leave);
}

static struct exit *new_exit(struct build *g, unsigned kind, uint64_t pc)
{
    unsigned index = g->b->exits++;
    struct exit *e = &block_exits(g->b)[index];
    uint64_t d = pc - g->b->pc;
    *e = (struct exit){.pc_low = (uint32_t)d, .pc_high = (int8_t)(d >> 32), .index = index & 31, .kind = kind & 15, .store = NO_STORE};
    return e;
}

/* Where code begins that o goes to. */
static const uint8_t *start_of(const struct build *g, const struct out *o)
{
    return g->b->code_start + (o == &g->cold ? g->b->cold_start : 0);
}

/* Log outcomes, below a marker bit. Nothing is too little to log where the way out might be part of a loop that
 * logs nothing: then the store alone lets a safepoint stop it. */
static void emit_outcomes(const struct build *g, struct out *o, struct exit *e, unsigned outcomes)
{
    e->outcomes = outcomes & 0x7f;
    e->in_cold = o == &g->cold;
    e->store = (uint16_t)(o->p - start_of(g, o));
    log_byte(o, outcomes > 1 ? outcomes : 0);
    if (outcomes > 1)
        BYTES(o, LOG_NEXT_1);
}

/* What is pending, and one more outcome. */
static unsigned and_outcome(const struct build *g, bool taken)
{
    return g->traced ? g->pending << 1 | taken : 1;
}

/* A jump that can be linked; its 4 bytes must not cross a cache line, since they change while others run. */
static void emit_exit(struct build *g, struct out *o, uint64_t pc, unsigned outcomes)
{
    struct exit *e = new_exit(g, EXIT_DIRECT, pc);
    emit_outcomes(g, o, e, outcomes);
    while ((((uintptr_t)o->p + 1) & 63) > 60)
        b1(o, 0x90);
    e->jump = (o->p - start_of(g, o) - e->store) & 15;
    const uint8_t *stub = e->in_cold ? o->p + 5 : g->cold.p;
    e->stub = (uint16_t)(stub - start_of(g, &g->cold));
    jump(o, stub);
    emit_leave(g, &g->cold, e);
}

/* A way out that may change the mode: the runtime does the rest. */
static void emit_turn(const struct build *g, struct out *o, struct exit *e, unsigned outcomes)
{
    emit_outcomes(g, o, e, outcomes);
    emit_leave(g, o, e);
}

/* A conditional branch's taken way. */
static void emit_taken(struct build *g, struct out *o, uint64_t target)
{
    if (filter_mode(g->b->mode, target, true) != g->b->mode)
        emit_turn(g, o, new_exit(g, EXIT_JCC, target), g->pending);
    else
        emit_exit(g, o, target, and_outcome(g, true));
}

/* … its other one. */
static void emit_not_taken(struct build *g, struct out *o, uint64_t next)
{
    if (filter_mode(g->b->mode, next, false) != g->b->mode)
        emit_turn(g, o, new_exit(g, EXIT_NEXT, next), and_outcome(g, false));
    else
        emit_exit(g, o, next, and_outcome(g, false));
}

static unsigned pick_rip(uint32_t used)
{
    for (unsigned i = 0; i < 4; i++)
        if (!(used >> rip_stand_ins[i] & 1))
            return i;
    return 0; /* cannot be: an instruction names three other registers at most */
}

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

/* Give the stand-in its own value back; R11's goes to the thread's memory. */
static void emit_release(const struct build *g, struct out *o)
{
    if (g->held == NONE)
        return;
    if (g->dirty)
        store(o, stand_ins[g->held], AT_REG(R11));
    load(o, stand_ins[g->held], AT(s_reg));
}

static void release(struct build *g)
{
    emit_release(g, &g->hot);
    g->held = NONE;
    g->dirty = false;
}

/* RCX and RDX (those of `regs`) have their own values again. */
static void emit_back(const struct build *g, struct out *o, unsigned regs)
{
    if (g->out & regs & OUT_RDX)
        load(o, RDX, AT(s_rdx));
    if (g->out & regs & OUT_RCX)
        load(o, RCX, AT(s_rcx));
}

static void back(struct build *g, unsigned regs)
{
    emit_back(g, &g->hot, regs);
    g->out &= ~regs;
}

/* RCX or RDX may be used for something else from now on. */
static void take_out(struct build *g, unsigned reg)
{
    if (!(g->out >> reg & 1))
        store(&g->hot, reg, reg == RCX ? AT(s_rcx) : AT(s_rdx));
    g->out |= 1u << reg;
}

/* All registers are the guest's own but R11. */
static void emit_settle(const struct build *g, struct out *o)
{
    emit_release(g, o);
    emit_back(g, o, OUT_RCX | OUT_RDX);
}

static void settle(struct build *g)
{
    release(g);
    back(g, OUT_RCX | OUT_RDX);
}

/* The general register that the instruction writes, all 64 bits of it, without reading it; -1: none that is known. */
static int overwrites(const struct cofi__fast *x)
{
    unsigned reg = (x->modrm >> 3 & 7) | (x->rex & 4) << 1, rm = (x->modrm & 7) | (x->rex & 1) << 3;
    bool in_reg = x->modrm >= 0xc0;
    if (x->space != COFI__FAST_LEGACY || x->prefixes & (COFI__FAST_P66 | COFI__FAST_PF2 | COFI__FAST_PF3 | COFI__FAST_LOCK))
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

/* The stand-in for R11 in an instruction that names the registers `used`: of those that it does not name, the one
 * that is not named for longest. */
static unsigned hold(struct build *g, uint32_t used)
{
    if (g->held != NONE && used >> stand_ins[g->held] & 1)
        release(g);
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

/* In a copied instruction, put register `to` (r8..r15) for R11 wherever a field names it. */
static void rename_r11(uint8_t *p, const struct cofi__fast *x, unsigned to)
{
    unsigned low = to & 7;
    if (x->attr & COFI__FAST_OPC && x->rex & 1 && (x->opcode & 7) == 3)
        p[x->opcode_offset] = (uint8_t)((p[x->opcode_offset] & 0xf8) | low);
    if (x->attr & COFI__FAST_VVVV && (x->vvvv & 15) == R11) {
        /* vvvv ends the second-last byte of VEX2, the last of VEX3, the third of EVEX; inverted. */
        unsigned at = x->rex_offset - 1u + (p[x->rex_offset - 1] == 0xc5 ? 1 : 2);
        p[at] = (uint8_t)((p[at] & ~0x78) | (~to & 15) << 3);
    }
    if (!x->modrm_offset)
        return;
    uint8_t *modrm = &p[x->modrm_offset];
    if (x->attr & COFI__FAST_REG && x->rex & 4 && (x->modrm >> 3 & 7) == 3)
        *modrm = (uint8_t)((*modrm & 0xc7) | low << 3);
    if (x->sib_offset) {
        uint8_t *sib = &p[x->sib_offset];
        if (x->rex & 1 && (x->sib & 7) == 3)
            *sib = (uint8_t)((*sib & 0xf8) | low);
        if (!(x->attr & COFI__FAST_VSIB) && x->rex & 2 && (x->sib >> 3 & 7) == 3)
            *sib = (uint8_t)((*sib & 0xc7) | low << 3);
    } else if (x->rex & 1 && (x->modrm & 7) == 3 && (x->modrm < 0xc0 || x->attr & COFI__FAST_RM)) {
        *modrm = (uint8_t)((*modrm & 0xf8) | low);
    }
}

static bool fits32(int64_t v)
{
    return v == (int32_t)v;
}

/* Make a RIP-relative operand [reg + disp32 0] instead: mod 10 keeps the layout, B must be clear. */
static void rename_rip(uint8_t *p, const struct cofi__fast *x, unsigned reg)
{
    p[x->modrm_offset] = (uint8_t)((p[x->modrm_offset] & 0x38) | 0x80 | reg);
    __builtin_memset(p + x->disp_offset, 0, 4);
    if (!x->rex_offset)
        return;
    uint8_t *rex = &p[x->rex_offset - 1];
    if (x->space == COFI__FAST_LEGACY)
        *rex &= 0xfe;
    else if (*rex != 0xc5)
        rex[1] |= 0x20;
}

static uint64_t rip_target(const struct item *it)
{
    uint64_t t = it->pc + it->x.length + (uint64_t)it->x.disp;
    return it->x.prefixes & COFI__FAST_P67 ? (uint32_t)t : t;
}

static bool reaches(const struct out *o, uint64_t address)
{
    int64_t d = (int64_t)(address - (uint64_t)o->p);
    return fits32(d + 256) && fits32(d - 256);
}

static bool reach(const struct out *o, const struct item *it)
{
    return reaches(o, rip_target(it)) && !(it->x.prefixes & COFI__FAST_P67);
}

/* Registers that an instruction reads are to have their values; one that it only writes gets it from there. Returns
 * that one's bit. */
static unsigned back_for(struct build *g, const struct item *it)
{
    unsigned needs = g->out ? g->out & cofi__fast_touches(&it->x, it->used) : 0, writes = 0;
    int reg = needs ? overwrites(&it->x) : -1;
    if (reg == RCX || reg == RDX) {
        struct cofi__fast y = without_written(&it->x);
        writes = needs & 1u << reg & ~cofi__fast_touches(&y, cofi__fast_registers(&y));
    }
    back(g, needs & ~writes);
    return writes;
}

/* An instruction as it is, but for R11 and RIP. */
static void emit_copy(struct build *g, const struct item *it)
{
    struct out *o = &g->hot;
    const struct cofi__fast *x = &it->x;
    bool r11 = it->used >> R11 & 1, move_rip = x->rip_relative && !reach(o, it);
    unsigned s = R11, sr = move_rip ? pick_rip(it->used) : 0;
    if (r11)
        s = hold(g, it->used);
    else if (g->held != NONE && it->used >> stand_ins[g->held] & 1)
        release(g);
    unsigned writes = back_for(g, it);
    mark(g, it->pc, move_rip ? FIX_RIP | sr << FIX_RIP_SHIFT : 0);
    if (move_rip) {
        store(o, rip_stand_ins[sr], AT(s_rip));
        move_imm(o, rip_stand_ins[sr], rip_target(it));
    }
    uint8_t *p = o->p;
    insn_bytes(o, it->bytes, x->length);
    if (r11)
        rename_r11(p, x, s);
    if (move_rip) {
        rename_rip(p, x, rip_stand_ins[sr]);
        load(o, rip_stand_ins[sr], AT(s_rip));
    } else if (x->rip_relative) {
        uint32_t disp = (uint32_t)(rip_target(it) - (uint64_t)o->p);
        __builtin_memcpy(p + x->disp_offset, &disp, 4);
    }
    if (x->space == COFI__FAST_LEGACY && x->map == 0 && x->opcode == 0x9d) { /* POPF: a trap by TF comes before the next one */
        mark(g, it->pc + x->length, 0);
        b1(o, 0x90);
    }
    g->out &= ~writes;
    g->empty = false;
    g->dirty |= r11 && may_write_r11(x);
    if (r11 && g->at + 1 + distance(g->plan, g->at + 1, R11) == g->plan->count)
        release(g);
}

/* The condition's jump to `cold`, near or by a hop for those that have 8 bits only. */
static void emit_condition(struct out *o, const struct item *it, bool invert, const uint8_t *cold)
{
    const struct cofi__fast *x = &it->x;
    if (x->map == 0 && (x->opcode & 0xfc) == 0xe0) { /* LOOPcc, LOOP, JRCXZ: REP before them counts, too */
        bytes(o, it->bytes, x->opcode_offset + 1u);
        BYTES(o, "\x02\xeb\x05");
        jump(o, cold);
        return;
    }
    few(o, 0x800f | ((x->opcode & 15u) ^ invert) << 8 | (uint64_t)(uint32_t)(cold - (o->p + 6)) << 16, 6);
}

static void emit_jcc(struct build *g, const struct item *it)
{
    back(g, cofi__fast_touches(&it->x, it->used)); /* JRCXZ and its like */
    mark(g, it->pc, 0);
    emit_condition(&g->hot, it, false, g->cold.p);
    emit_settle(g, &g->cold);
    emit_taken(g, &g->cold, it->target);
    g->pending = and_outcome(g, false);
}

/* The plan goes on at the target. */
static void emit_jcc_taken(struct build *g, const struct item *it)
{
    mark(g, it->pc, 0);
    emit_condition(&g->hot, it, true, g->cold.p);
    emit_settle(g, &g->cold);
    emit_not_taken(g, &g->cold, it->pc + it->x.length);
    g->pending = and_outcome(g, true);
}

/* Both ways leave; the likely one stays in line. */
static void emit_jcc_last(struct build *g, const struct item *it)
{
    uint64_t next = it->pc + it->x.length;
    back(g, cofi__fast_touches(&it->x, it->used));
    mark(g, it->pc, 0);
    emit_condition(&g->hot, it, it->likely, g->cold.p);
    emit_settle(g, &g->cold);
    settle(g);
    if (it->likely) {
        emit_not_taken(g, &g->cold, next); /* first what the condition jumps to */
        emit_taken(g, &g->hot, it->target);
    } else {
        emit_taken(g, &g->cold, it->target);
        emit_not_taken(g, &g->hot, next);
    }
}

/* push imm64 without a register. */
static void emit_push(struct build *g, uint64_t v)
{
    if (fits32((int64_t)v)) {
        b1(&g->hot, 0x68);
        b4(&g->hot, (uint32_t)v);
        return;
    }
    g->cold.p = (uint8_t *)(((uintptr_t)g->cold.p + 7) & ~(uintptr_t)7);
    BYTES(&g->hot, "\xff\x35");
    rel32(&g->hot, g->cold.p);
    b8(&g->cold, v);
}

/* To the block that the mode's table has for RCX. */
static void emit_lookup(struct build *g, struct out *o)
{
    BYTES(o, "\x0f\xb7\xd1");  /* movzx edx, cx */
    BYTES(o, "\xff\x24\xd5");  /* jmp *ibl(,rdx,8) */
    b4(o, (uint32_t)(CACHE_IBL + g->b->mode * CACHE_IBL_STRIDE));
}

/* An indirect transfer, RCX = target: log it. */
static void emit_target_record(struct build *g, uint64_t pc)
{
    struct out *o = &g->hot;
    mark(g, pc, FIX_DONE);
    if (g->traced) {
        BYTES(o, LOG_TARGET);
        log_byte(o, COFI__FAST_TIP | g->pending);
        BYTES(o, LOG_NEXT_7);
    } else {
        log_byte(o, 0);
    }
    take_out(g, RDX);
    g->pending = 1;
}

static void emit_dispatch(struct build *g, uint64_t pc)
{
    emit_target_record(g, pc);
    emit_lookup(g, &g->hot);
}

/* mov reg, [the branch's memory operand]. */
static void emit_target_load(struct out *o, const struct item *it, unsigned reg, unsigned r11_as)
{
    const struct cofi__fast *x = &it->x;
    struct cofi__fast y = *x;
    if (x->prefixes & COFI__FAST_FS)
        b1(o, 0x64);
    if (x->prefixes & COFI__FAST_P67)
        b1(o, 0x67);
    uint8_t *p = o->p;
    b1(o, (uint8_t)(0x48 | (reg >> 3) << 2 | (x->rex & 3)));
    b1(o, 0x8b);
    b1(o, (uint8_t)((x->modrm & 0xc7) | (reg & 7) << 3));
    unsigned tail = x->length - x->modrm_offset - 1u;
    bytes(o, it->bytes + x->modrm_offset + 1, tail);
    y.rex_offset = 1;
    y.opcode_offset = 1;
    y.modrm_offset = 2;
    y.sib_offset = x->sib_offset ? 3 : 0;
    y.attr = 0;
    rename_r11(p, &y, r11_as);
}

/* RCX = the target, from memory. */
static void emit_memory_target(struct build *g, const struct item *it)
{
    struct out *o = &g->hot;
    if (it->x.rip_relative && reach(o, it)) {
        emit_target_load(o, it, RCX, R11);
        uint32_t disp = (uint32_t)(rip_target(it) - (uint64_t)o->p);
        __builtin_memcpy(o->p - 4, &disp, 4);
    } else if (it->x.rip_relative) {
        move_imm(o, RCX, rip_target(it));
        if (it->x.prefixes & COFI__FAST_FS)
            b1(o, 0x64);
        BYTES(o, "\x48\x8b\x09"); /* mov rcx, [rcx] */
    } else {
        emit_target_load(o, it, RCX, g->held != NONE ? stand_ins[g->held] : R11);
    }
}

static void emit_indirect(struct build *g, const struct item *it)
{
    struct out *o = &g->hot;
    unsigned reg = (it->x.modrm & 7) | (it->x.rex & 1) << 3;
    bool r11 = it->used >> R11 & 1;
    if (r11)
        reg = hold(g, it->used);
    else
        release(g);
    back(g, cofi__fast_touches(&it->x, it->used));
    take_out(g, RCX);
    mark(g, it->pc, 0);
    if (it->x.modrm < 0xc0)
        emit_memory_target(g, it);
    else if (reg != RCX)
        move(o, RCX, reg);
    release(g);
    if (it->action == DO_CALL_IND) {
        mark(g, it->pc, 0);
        emit_push(g, it->pc + it->x.length);
    }
    emit_dispatch(g, it->pc);
}

/* RCX = the return address. */
static void emit_pop(struct build *g, const struct item *it)
{
    struct out *o = &g->hot;
    release(g);
    take_out(g, RCX);
    mark(g, it->pc, 0);
    b1(o, 0x59); /* pop rcx */
    if (it->x.imm_bytes) {
        BYTES(o, "\x48\x8d\xa4\x24"); /* lea rsp, [rsp+disp32] */
        b4(o, (uint32_t)it->x.imm & 0xffff);
    }
}

static void emit_ret(struct build *g, const struct item *it)
{
    emit_pop(g, it);
    emit_dispatch(g, it->pc);
}

/* Go to `other` unless RCX has the value; it is 0 then. */
static void emit_unless(struct out *o, uint64_t value, const uint8_t *other)
{
    move_imm(o, RDX, -value);
    BYTES(o, "\x48\x8d\x0c\x11"); /* lea rcx, [rcx+rdx] */
    BYTES(o, "\xe3\x05");         /* jrcxz over the jump */
    jump(o, other);
}

/* A return to where the plan goes on; elsewhere, by the table. */
static void emit_ret_here(struct build *g, const struct item *it)
{
    struct out *o = &g->hot;
    emit_pop(g, it);
    emit_target_record(g, it->pc);
    emit_unless(o, it->target, g->cold.p);
    move_imm(&g->cold, RDX, it->target);
    BYTES(&g->cold, "\x48\x8d\x0c\x11"); /* lea rcx, [rcx+rdx] */
    emit_lookup(g, &g->cold);
}

/* To the runtime for an instruction that it does itself. */
static void emit_special(struct build *g, const struct item *it, unsigned kind)
{
    settle(g);
    struct exit *e = new_exit(g, kind, it->pc);
    if (g->pending > 1)
        emit_outcomes(g, &g->hot, e, g->pending);
    emit_leave(g, &g->hot, e);
}

static void emit_item(struct build *g, const struct item *it)
{
    switch ((enum action)it->action) {
    case DO_COPY: emit_copy(g, it); break;
    case DO_JCC: emit_jcc(g, it); break;
    case DO_JCC_TAKEN: emit_jcc_taken(g, it); break;
    case DO_JCC_LAST: emit_jcc_last(g, it); break;
    case DO_JMP: break;
    case DO_CALL:
        mark(g, it->pc, 0);
        emit_push(g, it->pc + it->x.length);
        break;
    case DO_JMP_IND:
    case DO_CALL_IND: emit_indirect(g, it); break;
    case DO_RET: emit_ret(g, it); break;
    case DO_RET_HERE: emit_ret_here(g, it); break;
    case DO_SYSCALL: emit_special(g, it, EXIT_SYSCALL); break;
    case DO_STEP: emit_special(g, it, EXIT_STEP); break;
    case DO_LEAVE:
        settle(g);
        if (it->kind == EXIT_DIRECT)
            emit_exit(g, &g->hot, it->pc, g->pending);
        else
            emit_turn(g, &g->hot, new_exit(g, it->kind, it->pc), g->pending);
        break;
    }
}

/* Arrival from an indirect transfer: RCX = target, logged already. The block has RCX and RDX where the transfer has put
 * them: most of what is returned to or called writes them before it reads them. */
static void emit_arrival(struct build *g, uint64_t pc)
{
    struct out *o = &g->hot;
    if (rt.control->loops)
        jump_gs(o, AT(miss_entry));
    g->b->code_start = o->p;
    move_imm(o, RDX, -pc);
    if (rt.control->loops) {
        BYTES(o, "\x48\x8d\x4c\x11\x01"); /* lea rcx, [rcx+rdx+1] */
        BYTES(o, "\xe2\xe7");             /* loop to the jump: falls through where RCX was 1, and leaves it one less */
    } else {
        BYTES(o, "\x48\x8d\x0c\x11"); /* lea rcx, [rcx+rdx] */
        BYTES(o, "\xe3\x08");         /* jrcxz over the jump */
        jump_gs(o, AT(miss_entry));
    }
}

/* Where the count of a cold block's runs jumps when that is enough, which must be near. RCX is out there. */
static const uint8_t *emit_hot_door(struct build *g)
{
    const uint8_t *door = g->hot.p;
    few(&g->hot, 0xb9 | (uint64_t)(address_of(g->b) + EXIT_ID_BLOCK) << 8, 5); /* mov ecx, … */
    jump(&g->hot, g->b->arrived ? g->arena->leave_hot_arrived : g->arena->leave_hot);
    return door;
}

/* Count a run; RCX is out then. */
static void emit_count(struct build *g, const uint8_t *door)
{
    struct out *o = &g->hot;
    take_out(g, RCX);
    uint64_t count = g->b->runs_left;
    few(o, 0x250cb70f | count << 32, 8); /* movzx ecx, word [runs_left] */
    BYTES(o, "\x8d\x49\xff\x66\x89\x0c\x25"); /* lea ecx, [rcx-1]; mov [runs_left], cx */
    few(o, count | (uint64_t)0xe3 << 32 | (uint64_t)(uint8_t)(door - (o->p + 6)) << 40, 6); /* jrcxz */
}

/* mov rcx, the first bytes at a guest address: 8, 4, 2 or 1. */
static void emit_peek(struct out *o, uint64_t address, unsigned bytes)
{
    static const uint8_t longs[] = {0x48, 0x8b}, ints[] = {0x8b}, shorts[] = {0x0f, 0xb7}, chars[] = {0x0f, 0xb6};
    const uint8_t *op = bytes == 8 ? longs : bytes == 4 ? ints : bytes == 2 ? shorts : chars;
    bool near = reaches(o, address);
    if (!near)
        move_imm(o, RCX, address);
    for (unsigned i = 0; i < (bytes == 4 ? 1 : 2); i++)
        b1(o, op[i]);
    b1(o, near ? 0x0d : 0x09); /* [rip + …], [rcx] */
    if (near)
        b4(o, (uint32_t)(address - ((uint64_t)o->p + 4)));
}

/* The bytes at a guest address as a number. */
static uint64_t peek(uint64_t address, unsigned bytes)
{
    uint64_t v = 0;
    __builtin_memcpy(&v, (const void *)address, bytes);
    return v;
}

/* Code whose writes are not noticed: compare it with what it is now. */
static void emit_check(struct build *g)
{
    struct out *o = &g->hot;
    const uint8_t *stale = g->cold.p;
    uint64_t at = g->b->pc, high = g->compared_to;
    take_out(g, RCX);
    take_out(g, RDX);
    mark(g, g->b->pc, 0);
    while (at < high) {
        unsigned left = (unsigned)(high - at), n = left >= 8 ? 8 : left >= 4 ? 4 : left >= 2 ? 2 : 1;
        emit_peek(o, at, n);
        emit_unless(o, peek(at, n), stale);
        at += n;
    }
    emit_settle(g, &g->cold);
    emit_leave(g, &g->cold, new_exit(g, EXIT_STALE, g->b->pc));
}

/* What blocks of an arena jump to, to leave to the runtime: an exit whose id is stored; a block's count that has ended, whose id is
 * in RCX. */
void translate_doors(struct arena *a)
{
    struct out o = {a->hot};
    a->leave = o.p;
    jump_gs(&o, AT(exit_entry));
    a->leave_hot_arrived = o.p;
    load(&o, RDX, AT(s_rdx));
    a->leave_hot = o.p;
    store(&o, RCX, AT(exit_id));
    load(&o, RCX, AT(s_rcx));
    jump_gs(&o, AT(exit_entry));
    a->hot = o.p;
}

/* All of the plan. */
static void emit_plan(struct build *g)
{
    struct block *b = g->b;
    const uint8_t *door = b->cold ? emit_hot_door(g) : NULL;
    b->code_start = g->hot.p;
    g->out = b->arrived ? OUT_RCX | OUT_RDX : 0;
    if (b->arrived)
        emit_arrival(g, b->pc);
    b->cold_start = (uint32_t)(g->cold.p - b->code_start);
    b->entry = (uint8_t)(g->hot.p - b->code_start);
    if (b->cold)
        emit_count(g, door);
    if (g->compared_to)
        emit_check(g);
    for (g->at = 0; g->at < g->plan->count; g->at++)
        emit_item(g, &g->plan->item[g->at]);
}

static void begin_count(struct block *b)
{
    uint16_t *runs_left = arena_count();
    *runs_left = (uint16_t)rt.control->cold_runs;
    b->runs_left = address_of(runs_left);
}

/* Translate the block at pc, which lies in r, for a mode and a way to come there. The lock is held. */
struct block *translate(const struct region *r, uint64_t pc, unsigned mode, bool arrived, bool cold)
{
    static struct plan plan;
    static struct point points[4 * PLAN_INSNS + 8];
    plan_make(&plan, r, pc, mode, cold);
    struct arena *a = cache_arena(pc);
    struct block *b = rt_alloc(sizeof *b + sizeof(struct exit) * PLAN_EXITS + POINT_BYTES_MAX * ARRAY_LEN(points));
    *b = (struct block){.pc = pc, .mode = (uint8_t)mode, .arrived = arrived, .cold = cold,
                        .below = (uint32_t)(pc - plan.low), .above = (uint32_t)(plan.high - pc)};
    if (cold)
        begin_count(b);
    struct build g = {.hot = {a->hot}, .cold = {a->cold}, .arena = a, .b = b, .points = points, .plan = &plan,
                      .compared_to = !plan.compared ? 0 : plan.high < r->end ? plan.high : r->end,
                      .traced = mode == MODE_TRACED, .held = NONE, .pending = 1};
    emit_plan(&g);
    a->hot = g.hot.p;
    a->cold = g.cold.p;
    uint8_t *packed = (uint8_t *)(block_exits(b) + b->exits);
    b->points = (uint16_t)points_pack(packed, points, g.marks);
    rt_trim(packed + b->points);
    cache_add(a, b);
    return b;
}
