/* SPDX-License-Identifier: MIT
 * A plan -> code: the guest's instructions, and between them what writes the log. Flags, stack and all registers
 * but R11 are the guest's own; R11 is where the next record goes, and its guest value lies in the thread. What is
 * logged of branches is known when the code is made: one byte at each way out says which of a superblock's were
 * taken. So nothing is counted and nothing checked; the guard page behind a chunk stops a thread that fills it. */
#include "host/fast/rt/build.h"

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
    *e = (struct exit){.pc_low = (uint32_t)d, .pc_high = (int8_t)(d >> 32), .index = index & 31, .kind = kind & 15,
                       .store = NO_STORE};
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
    regs_back(g, cofi__fast_touches(&it->x, it->used)); /* JRCXZ and its like */
    mark(g, it->pc, 0);
    emit_condition(&g->hot, it, false, g->cold.p);
    regs_emit_settle(g, &g->cold);
    emit_taken(g, &g->cold, it->target);
    g->pending = and_outcome(g, false);
}

/* The plan goes on at the target. */
static void emit_jcc_taken(struct build *g, const struct item *it)
{
    mark(g, it->pc, 0);
    emit_condition(&g->hot, it, true, g->cold.p);
    regs_emit_settle(g, &g->cold);
    emit_not_taken(g, &g->cold, it->pc + it->x.length);
    g->pending = and_outcome(g, true);
}

/* Both ways leave; the likely one stays in line. */
static void emit_jcc_last(struct build *g, const struct item *it)
{
    uint64_t next = it->pc + it->x.length;
    regs_back(g, cofi__fast_touches(&it->x, it->used));
    mark(g, it->pc, 0);
    emit_condition(&g->hot, it, it->likely, g->cold.p);
    regs_emit_settle(g, &g->cold);
    regs_settle(g);
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
    note_address(g, g->cold.p, v, false);
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
    regs_take_out(g, RDX);
    g->pending = 1;
}

static void emit_dispatch(struct build *g, uint64_t pc)
{
    emit_target_record(g, pc);
    emit_lookup(g, &g->hot);
}

/* RCX = the target, from memory. */
static void emit_memory_target(struct build *g, const struct item *it)
{
    struct out *o = &g->hot;
    if (it->x.rip_relative && copy_reach(o, it)) {
        copy_operand(o, it, 0x8b, RCX, R11);
        uint32_t disp = (uint32_t)(copy_rip_target(it) - (uint64_t)o->p);
        __builtin_memcpy(out_bytes(o) - 4, &disp, 4);
    } else if (it->x.rip_relative) {
        move_address(g, o, RCX, copy_rip_target(it));
        if (it->x.prefixes & COFI__FAST_FS)
            b1(o, 0x64);
        BYTES(o, "\x48\x8b\x09"); /* mov rcx, [rcx] */
    } else {
        copy_operand(o, it, 0x8b, RCX, g->held != NONE ? stand_ins[g->held] : R11);
    }
}

static void emit_indirect(struct build *g, const struct item *it)
{
    struct out *o = &g->hot;
    unsigned reg = (it->x.modrm & 7) | (it->x.rex & 1) << 3;
    bool r11 = it->used >> R11 & 1;
    if (r11)
        reg = regs_hold(g, it->used);
    else
        regs_release(g);
    regs_back(g, cofi__fast_touches(&it->x, it->used));
    regs_take_out(g, RCX);
    mark(g, it->pc, 0);
    if (it->x.modrm < 0xc0)
        emit_memory_target(g, it);
    else if (reg != RCX)
        move(o, RCX, reg);
    regs_release(g);
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
    regs_release(g);
    regs_take_out(g, RCX);
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

/* Go to `other` unless RCX has the value that RDX has times -1; it is 0 then. */
static void emit_unless(struct out *o, const uint8_t *other)
{
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
    move_minus(g, o, RDX, it->target);
    emit_unless(o, g->cold.p);
    move_address(g, &g->cold, RDX, it->target);
    BYTES(&g->cold, "\x48\x8d\x0c\x11"); /* lea rcx, [rcx+rdx] */
    emit_lookup(g, &g->cold);
}

/* To the runtime for an instruction that it does itself. */
static void emit_special(struct build *g, const struct item *it, unsigned kind)
{
    regs_settle(g);
    mark(g, it->pc, 0);
    struct exit *e = new_exit(g, kind, it->pc);
    if (g->pending > 1)
        emit_outcomes(g, &g->hot, e, g->pending);
    emit_leave(g, &g->hot, e);
}

/* An instruction that names neither R11 nor a register that is not the guest's now, as it is. */
static void emit_plain(struct build *g, const struct item *it)
{
    if (g->held != NONE && it->used >> stand_ins[g->held] & 1)
        regs_release(g);
    mark(g, it->pc, 0);
    insn_bytes(&g->hot, it->bytes, it->x.length);
}

static void emit_item(struct build *g, const struct item *it)
{
    switch ((enum action)it->action) {
    case DO_COPY: copy_insn(g, it); break;
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
        regs_settle(g);
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
    move_minus(g, o, RDX, pc); /* ARRIVAL_TOP */
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
    regs_take_out(g, RCX);
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
    bool near = copy_reaches(o, address);
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
    regs_take_out(g, RCX);
    regs_take_out(g, RDX);
    mark(g, g->b->pc, 0);
    while (at < high) {
        unsigned left = (unsigned)(high - at), n = left >= 8 ? 8 : left >= 4 ? 4 : left >= 2 ? 2 : 1;
        emit_peek(o, at, n);
        move_imm(o, RDX, -peek(at, n));
        emit_unless(o, stale);
        at += n;
    }
    regs_emit_settle(g, &g->cold);
    emit_leave(g, &g->cold, new_exit(g, EXIT_STALE, g->b->pc));
}

/* What blocks of an arena jump to, to leave to the runtime: an exit whose id is stored; a block's count
 * that has ended, whose id is in RCX. */
void translate_doors(struct arena *a)
{
    struct out o = out_at(a->hot, a->hot);
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
    for (g->at = 0; g->at < g->plan->count; g->at++) {
        const struct item *it = &g->plan->item[g->at];
        if (it->plain && !(g->out & it->touches))
            emit_plain(g, it);
        else
            emit_item(g, it);
    }
}

/* Many counts lie in a cache line: they are written far more often than what else is kept of such blocks
 * is looked at. */
static void begin_count(struct heap *h, struct block *b)
{
    uint16_t *runs_left = h->next_count++;
    *runs_left = (uint16_t)rt.control->cold_runs;
    b->runs_left = address_of(runs_left);
}

/* Code as it is being made. It is put in its place all at once: a processor that has fetched what lies
 * beside a place that is written to, or runs it, begins anew, each time (decision 0719). */
static struct {
    uint8_t hot[ARENA_MARGIN + 32], cold[ARENA_MARGIN + 32];
} draft;

/* Move a line of new code out of the cache for data, from where it is fetched sooner; does nothing on
 * processors without CLDEMOTE. */
static inline void demote(const uint8_t *line)
{
    __asm__ volatile(".byte 0x0f, 0x1c, 0x00" : : "a"(line) : "memory"); /* cldemote [rax] */
}

/* In steps so large that most blocks take as many: up to 31 bytes behind the end are written, too. Returns the end. */
static uint8_t *put_code(uint8_t *to, uint8_t *end, const uint8_t *from)
{
    const uint8_t *line = (const uint8_t *)((uintptr_t)to & ~(uintptr_t)63);
    struct { uint64_t words[4]; } v;
    for (uint8_t *p = to; p < end; p += sizeof v, from += sizeof v) {
        __builtin_memcpy(&v, from, sizeof v);
        __builtin_memcpy(p, &v, sizeof v);
    }
    for (; line < end; line += 64)
        demote(line);
    return end;
}

/* Translate the block at pc, which lies in r, for a mode and a way to come there. The lock is held. */
struct block *translate(const struct region *r, uint64_t pc, unsigned mode, bool arrived, bool cold)
{
    static struct plan plan;
    static struct point points[4 * PLAN_INSNS + 8];
    plan_make(&plan, r, pc, mode, cold);
    struct arena *a = arena_for(r, pc);
    struct block *b = heap_alloc(a->heap,
                                 sizeof *b + sizeof(struct exit) * PLAN_EXITS + POINT_BYTES_MAX * ARRAY_LEN(points));
    *b = (struct block){.pc = pc, .mode = (uint8_t)mode, .arrived = arrived, .cold = cold,
                        .below = (uint32_t)(pc - plan.low), .above = (uint32_t)(plan.high - pc)};
    if (cold)
        begin_count(a->heap, b);
    struct build g = {.hot = out_at(a->hot, draft.hot), .cold = out_at(a->cold, draft.cold), .arena = a, .b = b,
                      .points = points, .plan = &plan,
                      .compared_to = plan.compared ? plan.high : 0,
                      .traced = mode == MODE_TRACED, .held = NONE, .pending = 1};
    emit_plan(&g);
    a->hot = put_code(a->hot, g.hot.p, draft.hot);
    a->cold = put_code(a->cold, g.cold.p, draft.cold);
    uint8_t *packed = (uint8_t *)(block_exits(b) + b->exits);
    b->points = (uint16_t)points_pack(packed, points, g.marks);
    heap_trim(a->heap, packed + b->points);
    cache_add(a, b);
    share_made(a, r, &plan);
    return b;
}
