/* SPDX-License-Identifier: MIT
 * A restartable sequence as one piece of code with a descriptor of its own, which the kernel restarts as
 * it would the guest's. At each instruction all registers are the guest's own, for the kernel restarts it
 * at any: but R11, which a register that the sequence does not name stands in for. R11 counts the outcomes
 * of branches; what they were, and which instruction is next, is written down in the thread's slot. */
#include "host/fast/rt/sequence.h"
#include "host/fast/rt/build.h"

/* A place in the path: the instruction that is next there, or a way out; whether a branch was taken to it. */
struct place {
    uint8_t next, taken;
};
enum { PLACES = SLOT_PATH_BYTES / sizeof(struct place), PLACE_OUT = SEQUENCE_INSNS + 1 /* and a branch's index */ };
_Static_assert(PLACE_OUT + SEQUENCE_INSNS <= UINT8_MAX, "a place");

static struct place *path_of(const struct thread *t)
{
    return (struct place *)((uint64_t)t + SLOT_PATH);
}

/* ---- what it consists of ---- */

/* Whether it does in a copy what it does in its place, whatever the registers hold: but for R11 and RIP in operands. */
static bool is_copied(const struct cofi__fast *x)
{
    bool popf = x->space == COFI__FAST_LEGACY && x->map == 0 && x->opcode == 0x9d; /* it may set TF */
    return plan_action(x) == DO_COPY && !(x->prefixes & COFI__FAST_GS) && !popf;
}

/* Take one instruction in, at s->at[s->count]. */
static bool take(struct sequence *s, const struct cofi__fast *x)
{
    unsigned at = s->at[s->count], next = at + x->length;
    bool conditional = plan_action(x) == DO_JCC && plan_is_invertible(x),
         branch = conditional || plan_action(x) == DO_JMP;
    int64_t to = branch ? (int64_t)next + x->imm : NO_BRANCH;
    if ((!branch && !is_copied(x)) || !fits32(to))
        return false;
    s->to[s->count] = (int32_t)to;
    s->conditional[s->count] = conditional ? 0x80 | (x->opcode & 15) : 0;
    s->branches += branch;
    s->used |= cofi__fast_registers(x);
    s->at[++s->count] = (uint16_t)next;
    return true;
}

/* The instruction that a branch leads to; s->count: none within. */
static unsigned index_of(const struct sequence *s, int32_t to)
{
    unsigned i = 0;
    while (i < s->count && s->at[i] != to)
        i++;
    return i;
}

/* All branches lead to instructions, or out. */
static bool leads_well(const struct sequence *s)
{
    for (unsigned i = 0; i < s->count; i++)
        if (s->to[i] >= 0 && s->to[i] < s->at[s->count] && index_of(s, s->to[i]) == s->count)
            return false;
    return true;
}

static bool read(struct sequence *s, unsigned bytes)
{
    struct cofi__fast x;
    while (s->at[s->count] < bytes && s->count < SEQUENCE_INSNS)
        if (cofi__fast_decode(&x, s->bytes + s->at[s->count], bytes - s->at[s->count]) <= 0 || !take(s, &x))
            return false;
    return s->at[s->count] == bytes && leads_well(s);
}

struct sequence *sequence_make(const struct descriptor *d)
{
    if (d->bytes > SEQUENCE_BYTES || d->flags || rt_kept_left() < 4 * sizeof(struct sequence))
        return NULL;
    struct sequence *s = rt_alloc_kept(sizeof *s);
    *s = (struct sequence){.start = d->start, .end = d->start + d->bytes, .abort = d->abort};
    return !rt_probe(s->bytes, (const void *)d->start, d->bytes) && read(s, (unsigned)d->bytes) ? s : NULL;
}

/* ---- its code ---- */

enum left { LEFT_SO, LEFT_RESTARTED, LEFT_LONG };

/* Where the pieces lie: known when they were made once, so all is made twice. */
static struct layout {
    const uint8_t *body, *leave, *too_long, *insn[SEQUENCE_INSNS + 1], *stub[SEQUENCE_INSNS];
} lay;

/* An index in stand_ins; STAND_INS: there is none, or no need of it. */
static unsigned stand_in(const struct sequence *s)
{
    unsigned i = s->used >> R11 & 1 ? 0 : STAND_INS;
    while (i < STAND_INS && s->used >> stand_ins[i] & 1)
        i++;
    return i;
}

/* movb gs:[r11 + the path's next place], i */
static void emit_next(struct out *o, unsigned i)
{
    BYTES(o, "\x65\x41\xc6\x83");
    b4(o, SLOT_PATH);
    b1(o, (uint8_t)i);
}

/* A branch's outcome is known: from here on the next place counts. */
static void emit_outcome(struct out *o, unsigned next, bool taken)
{
    BYTES(o, "\x65\x66\x41\xc7\x83"); /* movw gs:[r11 + … + 2], … */
    b4(o, SLOT_PATH + sizeof(struct place));
    b1(o, (uint8_t)next);
    b1(o, taken);
    BYTES(o, "\x4d\x8d\x5b\x02"); /* lea r11, [r11+2] */
}

/* Out of the sequence: all registers but R11 and its stand-in are as they should be. */
static void emit_leave(struct out *o, unsigned held, enum left how)
{
    if (held != STAND_INS) {
        store(o, stand_ins[held], AT_REG(R11));
        load(o, stand_ins[held], AT(s_reg));
    }
    store(o, R11, AT(sequence.at));
    load(o, R11, AT(p));
    store_imm(o, AT(sequence.how), how);
    jump_gs(o, AT(exit_entry));
}

/* One more round, counted in RCX: JRCXZ leaves the flags alone. */
static void emit_round(struct out *o)
{
    store(o, RCX, AT(s_rcx));
    store_imm(o, AT(sequence.counts), 1);
    load(o, RCX, AT(sequence.rounds));
    BYTES(o, "\x48\x8d\x49\xff"); /* lea rcx, [rcx-1] */
    store(o, RCX, AT(sequence.rounds));
    BYTES(o, "\xe3\x02\xeb\x05"); /* jrcxz to the jump; jmp over it */
    jump(o, lay.too_long);
    load(o, RCX, AT(s_rcx));
    store_imm(o, AT(sequence.counts), 0);
}

/* An instruction, all of whose registers but R11 are the guest's. False: its operand is too far away. */
static bool emit_copy(struct out *o, const struct sequence *s, unsigned i, unsigned held)
{
    struct item it = {.pc = s->start + s->at[i], .bytes = s->bytes + s->at[i]};
    cofi__fast_decode(&it.x, it.bytes, s->at[i + 1] - s->at[i]);
    if (it.x.rip_relative && !copy_reach(o, &it))
        return false;
    uint8_t *p = out_bytes(o);
    bytes(o, it.bytes, it.x.length);
    if (cofi__fast_registers(&it.x) >> R11 & 1)
        copy_rename_r11(p, &it.x, stand_ins[held]);
    if (it.x.rip_relative)
        copy_relocate(o, &it);
    return true;
}

/* A branch, which goes on at its stub, or behind itself. */
static void emit_branch(struct out *o, const struct sequence *s, unsigned i)
{
    if (!s->conditional[i]) {
        jump(o, lay.stub[i]);
        return;
    }
    b1(o, 0x0f);
    b1(o, s->conditional[i]);
    rel32(o, lay.stub[i]);
    emit_outcome(o, i + 1, false);
}

static bool emit_body(struct out *o, const struct sequence *s, unsigned held)
{
    lay.body = o->p;
    for (unsigned i = 0; i < s->count; i++) {
        lay.insn[i] = o->p;
        emit_next(o, i);
        if (s->to[i] != NO_BRANCH)
            emit_branch(o, s, i);
        else if (!emit_copy(o, s, i, held))
            return false;
    }
    return true;
}

/* What follows a branch that was taken to another instruction, or out of the sequence. */
static void emit_taken(struct out *o, const struct sequence *s, unsigned i)
{
    unsigned to = index_of(s, s->to[i]), next = to < s->count ? to : PLACE_OUT + i;
    if (to <= i)
        emit_round(o);
    if (s->conditional[i])
        emit_outcome(o, next, true);
    else
        emit_next(o, next);
    jump(o, to < s->count ? lay.insn[to] : lay.leave);
}

/* … of those within, or those out of it. */
static void emit_stubs(struct out *o, const struct sequence *s, bool within)
{
    for (unsigned i = 0; i < s->count; i++) {
        if (s->to[i] == NO_BRANCH || (index_of(s, s->to[i]) < s->count) != within)
            continue;
        lay.stub[i] = o->p;
        emit_taken(o, s, i);
    }
}

/* From where it is entered. The store of the descriptor's address is the last instruction before its
 * start, as in the guest's own. */
static bool emit(struct out *o, const struct sequence *s, struct descriptor *d, uint32_t signature)
{
    unsigned held = stand_in(s);
    if (held != STAND_INS) {
        store(o, stand_ins[held], AT(s_reg));
        load(o, stand_ins[held], AT_REG(R11));
    }
    load(o, R11, AT(rseq.at));
    BYTES(o, "\x49\xc7\x43"); /* movq [r11 + …], … */
    b1(o, RSEQ_CS);
    b4(o, address_of(d));
    d->start = (uint64_t)o->p;
    BYTES(o, "\x41\xbb\0\0\0\0"); /* mov r11d, 0 */
    jump(o, lay.body);
    emit_stubs(o, s, true);
    if (!emit_body(o, s, held))
        return false;
    d->bytes = (uint64_t)o->p - d->start;
    lay.insn[s->count] = o->p;
    emit_next(o, s->count);
    lay.leave = o->p;
    emit_leave(o, held, LEFT_SO);
    emit_stubs(o, s, false);
    lay.too_long = o->p;
    emit_leave(o, held, LEFT_LONG);
    b4(o, signature);
    d->abort = (uint64_t)o->p;
    emit_leave(o, held, LEFT_RESTARTED);
    return true;
}

static bool make_code(struct sequence *s, const struct region *r, uint32_t signature)
{
    struct arena *a = arena_for(r, s->start);
    struct descriptor *d = rt_alloc(sizeof *d);
    *d = (struct descriptor){0};
    if (s->used >> R11 & 1 && stand_in(s) == STAND_INS)
        return false;
    for (unsigned i = 0; i < 2; i++) {
        struct out o = out_at(a->hot, a->hot);
        if (!emit(&o, s, d, signature))
            return false;
        s->code_end = o.p;
    }
    s->code = a->hot;
    s->restarts = (const uint8_t *)d->abort;
    a->hot += s->code_end - s->code;
    s->epoch = rt.epoch;
    return true;
}

bool sequence_ready(struct sequence *s, const struct region *r, uint32_t signature)
{
    uint8_t now[SEQUENCE_BYTES];
    size_t n = s->end - s->start;
    bool same = !rt_probe(now, (const void *)s->start, n) && !memcmp(now, s->bytes, n);
    return same && (s->epoch == rt.epoch || make_code(s, r, signature));
}

/* ---- a run of it ---- */

void sequence_begin(struct thread *t)
{
    const struct sequence *s = t->sequence.runs;
    t->sequence.counts = 0;
    t->sequence.rounds = PLACES / (s->branches + 1u) - 1; /* each has a place a branch at the most, and
                                                           * so has what follows */
    *path_of(t) = (struct place){0, 0};
    t->target = (uint64_t)s->code;
}

/* A place of the path -> where that is in the guest's code. */
static uint64_t pc_at(const struct sequence *s, struct place p)
{
    return s->start + (p.next < PLACE_OUT ? s->at[p.next] : (uint64_t)(int64_t)s->to[p.next - PLACE_OUT]);
}

/* The branches up to the place where it was left. */
static struct place walk(struct thread *t)
{
    const struct place *path = path_of(t), *last = path + t->sequence.at / sizeof *path;
    if (t->sequence.at >= SLOT_PATH_BYTES) /* the kernel has restarted it before R11 was anything */
        last = path;
    for (const struct place *p = path; p < last; p++)
        if (t->mode == MODE_TRACED)
            log_outcomes(t, p[1].taken ? 3 : 2);
    return *last;
}

void sequence_forget(const struct thread *t)
{
    uint64_t none = 0;
    rt_probe((void *)(t->rseq.at + RSEQ_CS), &none, 8);
}

void sequence_abort(struct thread *t, uint64_t at, uint64_t handler)
{
    trace_pause(t, COFI__FAST_EVENT, at);
    t->pc = handler;
    if (!t->signal.has)
        trace_resume(t);
}

bool sequence_left(struct thread *t)
{
    const struct sequence *s = t->sequence.runs;
    bool fault = t->signal.has && t->signal.sync;
    t->sequence.runs = NULL;
    t->pc = pc_at(s, walk(t));
    sequence_forget(t);
    if (t->sequence.counts)
        t->regs[RCX] = t->s_rcx;
    if (t->sequence.how == LEFT_SO)
        return false;
    t->fault.pc = fault ? t->pc : t->fault.pc;
    /* SIGILL and SIGFPE name the instruction */
    if (fault && t->signal.info.addr >= (uint64_t)s->code && t->signal.info.addr < (uint64_t)s->code_end)
        t->signal.info.addr = t->pc;
    sequence_abort(t, t->pc, s->abort);
    return t->sequence.how == LEFT_LONG;
}
