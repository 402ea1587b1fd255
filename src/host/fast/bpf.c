/* SPDX-License-Identifier: MIT
 * A seccomp filter (classic BPF) and a system call of which not all is known -> what the filter may say
 * to it. Jumps lead forward only, so one pass over the instructions is enough: each is come to with the
 * state that all ways to it have in common. */
#include "host/fast/bpf.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/seccomp.h>
#include <stdlib.h>

#include "base/error.h"

struct word {
    bool known;
    uint32_t value; /* 0 where it is not known */
};

/* What is known where an instruction begins. */
struct state {
    bool reached;
    struct word a, x, m[BPF_MEMWORDS];
};

struct run {
    const struct sock_filter *code;
    size_t n;
    const struct cofi__bpf_call *call;
    struct state *states;
    enum cofi__bpf_answer worst;
};

static const struct word unknown = {false, 0};

static struct word know(uint32_t value)
{
    return (struct word){true, value};
}

static void find(struct run *r, enum cofi__bpf_answer answer)
{
    r->worst = answer > r->worst ? answer : r->worst;
}

static void join_word(struct word *to, struct word from)
{
    if (!from.known || from.value != to->value)
        *to = unknown;
}

/* One more way leads to an instruction. */
static void come_to(struct run *r, size_t pc, const struct state *from)
{
    if (pc >= r->n) {
        find(r, BPF_ELSE);
        return;
    }
    struct state *to = &r->states[pc];
    if (!to->reached) {
        *to = *from;
        return;
    }
    join_word(&to->a, from->a);
    join_word(&to->x, from->x);
    for (size_t i = 0; i < ARRAY_LEN(to->m); i++)
        join_word(&to->m[i], from->m[i]);
}

/* A word of struct seccomp_data. */
static struct word load(const struct cofi__bpf_call *call, uint32_t offset)
{
    enum { ARGS = offsetof(struct seccomp_data, args) };
    if (offset == offsetof(struct seccomp_data, nr))
        return know(call->nr);
    if (offset == offsetof(struct seccomp_data, arch))
        return know(AUDIT_ARCH_X86_64);
    if (offset < ARGS || offset >= sizeof(struct seccomp_data) || offset & 3)
        return unknown;
    const struct cofi__bpf_value *v = &call->args[(offset - ARGS) / 8];
    return v->known ? know((uint32_t)(v->value >> (offset & 4 ? 32 : 0))) : unknown;
}

static struct word loaded(const struct run *r, const struct state *s, const struct sock_filter *f)
{
    switch (BPF_MODE(f->code)) {
    case BPF_IMM: return know(f->k);
    case BPF_ABS: return load(r->call, f->k);
    case BPF_MEM: return s->m[f->k % BPF_MEMWORDS];
    case BPF_LEN: return know(sizeof(struct seccomp_data));
    default: return unknown;
    }
}

static struct word compute(unsigned op, uint32_t a, uint32_t b)
{
    switch (op) {
    case BPF_ADD: return know(a + b);
    case BPF_SUB: return know(a - b);
    case BPF_MUL: return know(a * b);
    case BPF_DIV: return b ? know(a / b) : unknown;
    case BPF_AND: return know(a & b);
    case BPF_OR: return know(a | b);
    case BPF_XOR: return know(a ^ b);
    case BPF_LSH: return b < 32 ? know(a << b) : unknown;
    case BPF_RSH: return b < 32 ? know(a >> b) : unknown;
    case BPF_NEG: return know(-a);
    default: return unknown;
    }
}

static struct word operand(const struct state *s, const struct sock_filter *f)
{
    return BPF_SRC(f->code) == BPF_X ? s->x : know(f->k);
}

static struct word computed(struct run *r, const struct state *s, const struct sock_filter *f)
{
    struct word b = operand(s, f);
    if (BPF_OP(f->code) == BPF_DIV && (!b.known || !b.value))
        find(r, BPF_ELSE); /* division by 0 kills */
    return s->a.known && b.known ? compute(BPF_OP(f->code), s->a.value, b.value) : unknown;
}

static bool holds(unsigned op, uint32_t a, uint32_t b)
{
    return op == BPF_JEQ ? a == b : op == BPF_JGT ? a > b : op == BPF_JGE ? a >= b : a & b;
}

/* All ways that a jump may go. */
static void jump(struct run *r, size_t pc, const struct state *s)
{
    const struct sock_filter *f = &r->code[pc];
    unsigned op = BPF_OP(f->code);
    struct word b = operand(s, f);
    bool known = s->a.known && b.known, yes = known && holds(op, s->a.value, b.value);
    if (op == BPF_JA) {
        come_to(r, pc + 1 + (size_t)f->k, s);
        return;
    }
    if (yes || !known)
        come_to(r, pc + 1 + f->jt, s);
    if (!yes)
        come_to(r, pc + 1 + f->jf, s);
}

static enum cofi__bpf_answer answer(struct word w)
{
    uint32_t action = w.value & SECCOMP_RET_ACTION_FULL, data = w.value & SECCOMP_RET_DATA;
    if (w.known && (action == SECCOMP_RET_ALLOW || action == SECCOMP_RET_LOG))
        return BPF_PASSES;
    return w.known && action == SECCOMP_RET_ERRNO && (data == EPERM || data == ENOSYS) ? BPF_FAILS : BPF_ELSE;
}

/* The instruction at pc, which is reached. */
static void step(struct run *r, size_t pc)
{
    const struct sock_filter *f = &r->code[pc];
    struct state s = r->states[pc];
    switch (BPF_CLASS(f->code)) {
    case BPF_LD: s.a = loaded(r, &s, f); break;
    case BPF_LDX: s.x = loaded(r, &s, f); break;
    case BPF_ST: s.m[f->k % BPF_MEMWORDS] = s.a; break;
    case BPF_STX: s.m[f->k % BPF_MEMWORDS] = s.x; break;
    case BPF_ALU: s.a = computed(r, &s, f); break;
    case BPF_JMP: jump(r, pc, &s); return;
    case BPF_RET: find(r, answer(BPF_RVAL(f->code) == BPF_A ? s.a : know(f->k))); return;
    default:
        if (BPF_MISCOP(f->code) == BPF_TAX)
            s.x = s.a;
        else
            s.a = s.x;
        break;
    }
    come_to(r, pc + 1, &s);
}

int cofi__bpf_ask(const struct sock_filter *code, size_t n, const struct cofi__bpf_call *call)
{
    const struct state start = {.reached = true, .a = know(0), .x = know(0)}; /* memory is written before it is read */
    struct run r = {code, n, call, calloc(n + 1, sizeof *r.states), BPF_PASSES};
    if (!r.states)
        return COFI_ERR_NOMEM;
    come_to(&r, 0, &start);
    for (size_t pc = 0; pc < n && r.worst != BPF_ELSE; pc++)
        if (r.states[pc].reached)
            step(&r, pc);
    free(r.states);
    return (int)r.worst;
}

bool cofi__bpf_reads_place(const struct sock_filter *code, size_t n)
{
    const uint32_t low = offsetof(struct seccomp_data, instruction_pointer);
    for (size_t i = 0; i < n; i++)
        if (BPF_CLASS(code[i].code) == BPF_LD && BPF_MODE(code[i].code) == BPF_ABS &&
            (code[i].k == low || code[i].k == low + 4))
            return true;
    return false;
}
