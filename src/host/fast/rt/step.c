/* SPDX-License-Identifier: MIT
 * Instructions that run in place under the trap flag: what they mean to the trace. */
#include "cofi/insn.h"
#include "host/fast/rt/rt.h"
#include "x86/fast.h"

static bool is_interrupt(const struct cofi__fast *x)
{
    return x->space == COFI__FAST_LEGACY && x->map == 0 &&
           (x->opcode == 0xcc || x->opcode == 0xcd || x->opcode == 0xf1 || x->opcode == 0xce);
}

/* Of INT n; 0: it is none. */
static uint8_t interrupt_number(const struct cofi__fast *x, const uint8_t *code)
{
    uint8_t number = 0;
    if (is_interrupt(x) && x->opcode == 0xcd)
        rt_probe(&number, code + x->length - 1, 1);
    return number;
}

/* INT1, and INT3 in both its forms. */
static bool is_breakpoint(const struct cofi__fast *x, const uint8_t *code)
{
    return is_interrupt(x) && (x->opcode == 0xcc || x->opcode == 0xf1 || interrupt_number(x, code) == 3);
}

/* What stands at t->pc, also where the thread's protection keys forbid to read it; the bytes it takes,
 * not more than 0 where it is none. The lock is not held. */
int step_decode(struct thread *t, struct cofi__fast *x)
{
    uint64_t pc = t->pc;
    uint32_t keys = keys_open();
    rt_lock(); /* the mappings change, and may have changed beside it since it was translated */
    maps_find(t, pc);
    size_t n = maps_readable(pc);
    rt_unlock();
    int bytes = cofi__fast_decode(x, (const uint8_t *)pc, n);
    keys_close(keys);
    return bytes;
}

static bool is_xbegin(const struct cofi__fast *x)
{
    bool locked = x->prefixes & COFI__FAST_LOCK; /* no instruction */
    return x->space == COFI__FAST_LEGACY && x->map == 0 && x->opcode == 0xc7 && x->modrm == 0xf8 && !locked &&
           rt.control->transactions;
}

/* The runtime is no place for a transaction: it is aborted where it begins, for no reason that one could
 * tell, as by an interrupt. */
bool step_aborts(struct thread *t)
{
    struct cofi__fast x;
    int32_t offset = 0;
    if (step_decode(t, &x) <= 0 || !is_xbegin(&x))
        return false;
    unsigned size = x.length - x.modrm_offset - 1u;
    if (rt_probe(&offset, (const void *)(t->pc + x.length - size), size))
        return false;
    trace_pause(t, COFI__FAST_EVENT, t->pc);
    t->pc += x.length + (uint64_t)(int64_t)(size == 2 ? (int16_t)offset : offset);
    t->regs[RAX] = 0;
    trace_resume(t);
    return true;
}

/* Before the instruction at t->pc runs in place. A transfer to the kernel ends tracing: by INT with a FUP, by
 * SYSENTER without one. */
void step_begin(struct thread *t)
{
    struct cofi__fast x;
    t->step.cls = COFI_CLASS_OTHER;
    t->step.pushes = t->step.pops = t->step.traps = false;
    if (step_decode(t, &x) <= 0)
        return;
    t->step.cls = (uint8_t)cofi__fast_class(&x);
    t->step.next = t->pc + x.length;
    t->step.traps = is_breakpoint(&x, (const uint8_t *)t->pc);
    bool legacy = x.space == COFI__FAST_LEGACY && x.map == 0;
    t->step.pushes = legacy && x.opcode == 0x9c;
    t->step.pops = legacy && (x.opcode == 0x9d || x.opcode == 0xcf);
    if (t->step.cls == COFI_CLASS_FAR_CALL) {
        if (x.modrm_offset && x.opcode == 0xff)
            return; /* far CALL stays with the program */
        trace_pause(t, is_interrupt(&x) ? COFI__FAST_EVENT : COFI__FAST_PGD, t->pc);
        if (t->strict && interrupt_number(&x, (const uint8_t *)t->pc) == 0x80)
            seccomp_strict(t, true);
    }
}

/* Whether the instruction at t->pc is SYSCALL. */
bool step_is_call(struct thread *t)
{
    struct cofi__fast x;
    return step_decode(t, &x) > 0 && x.space == COFI__FAST_LEGACY &&
           x.map == 1 && x.opcode == 0x05;
}

/* The flags that PUSHF has pushed, as they would be without our trap flag. */
static void clear_pushed(const struct thread *t)
{
    uint8_t high;
    void *at = (void *)(t->regs[RSP] + 1);
    if (!rt_probe(&high, at, 1)) {
        high &= (uint8_t)~1;
        rt_probe(at, &high, 1);
    }
}

/* The instruction at `from` has run, t->pc is what comes next. */
void step_done(struct thread *t, uint64_t from)
{
    (void)from;
    if (t->step.pushes && !(t->flags & FLAG_TF))
        clear_pushed(t);
    if (t->paused) {
        trace_resume(t);
        return;
    }
    switch ((enum cofi_class)t->step.cls) {
    case COFI_CLASS_JCC:
        if (t->pc == t->step.next && t->mode == MODE_TRACED)
            log_outcomes(t, 2);
        trace_branch(t, t->pc == t->step.next ? HOW_NEXT : HOW_JCC, 1);
        break;
    case COFI_CLASS_JMP:
    case COFI_CLASS_CALL: trace_branch(t, HOW_DIRECT, 1); break;
    case COFI_CLASS_JMP_IND:
    case COFI_CLASS_CALL_IND:
    case COFI_CLASS_RET:
    case COFI_CLASS_FAR_JMP:
    case COFI_CLASS_FAR_CALL:
    case COFI_CLASS_FAR_RET: trace_branch(t, HOW_INDIRECT, 1); break;
    case COFI_CLASS_OTHER:
    case COFI_CLASS_VMENTRY:
    case COFI_CLASS_MOV_CR3:
    case COFI_CLASS_PTWRITE:
    case COFI_CLASS_VMPTRLD:
    case COFI_CLASS_TSX:
    case COFI_CLASS_KINDS: trace_branch(t, HOW_NEXT, 1); break;
    }
    t->step.cls = COFI_CLASS_OTHER;
}
