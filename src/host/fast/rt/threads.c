/* SPDX-License-Identifier: MIT
 * Threads and processes: a slot for each, set up before the kernel makes it. */
#include <asm/prctl.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>

#include "host/fast/rt/rt.h"

#ifndef CLONE_CLEAR_SIGHAND
#define CLONE_CLEAR_SIGHAND 0x100000000ul
#endif

static void raise_to(uint32_t *word, uint32_t least)
{
    uint32_t seen = __atomic_load_n(word, __ATOMIC_RELAXED);
    while (seen < least &&
           !__atomic_compare_exchange_n(word, &seen, least, false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED))
        ;
}

/* When there is no collector any more, whose slot is nobody's? One that only takes no more frees slots itself. */
static bool is_abandoned(const struct cofi__fast_slot *s)
{
    uint32_t state = __atomic_load_n(&s->state, __ATOMIC_ACQUIRE);
    if (state < COFI__FAST_SLOT_LIVE || !collector_gone() || !rt.control->gone)
        return false;
    bool same_pids = !rt.other_pids && !s->nested;
    return state == COFI__FAST_SLOT_ENDED ||
           (same_pids && sys(SYS_tgkill, (uint64_t)s->pid, (uint64_t)s->tid, 0, 0, 0, 0) == -3); /* ESRCH */
}

/* The claim is told first: a thread may be killed at any moment, and nobody would know whose the slot is. */
static bool slot_claim(struct thread *t, struct cofi__fast_slot *s, uint32_t index)
{
    uint32_t from = is_abandoned(s) ? s->state : COFI__FAST_SLOT_FREE;
    if (s->state != from)
        return false;
    __atomic_store_n(&t->head.claims, index + 1, __ATOMIC_RELEASE);
    return __atomic_compare_exchange_n(&s->state, &from, COFI__FAST_SLOT_TAKEN, false, __ATOMIC_ACQUIRE,
                                       __ATOMIC_RELAXED);
}

void slot_keep(struct thread *t)
{
    if (t->head.state == COFI__FAST_SLOT_LIVE)
        return;
    t->head.pid = t->pid;
    t->head.tid = t->tid;
    __atomic_store_n(&t->head.state, COFI__FAST_SLOT_LIVE, __ATOMIC_RELEASE);
}

/* The first free slot from one on, up to another. */
static struct thread *slot_between(struct thread *t, uint32_t from, uint32_t to)
{
    struct cofi__fast_control *c = rt.control;
    for (uint32_t i = from; i < to && i < c->slots; i++) {
        struct cofi__fast_slot *s = (struct cofi__fast_slot *)cofi__fast_slot_address(c, i);
        raise_to(&c->slots_used, i + 1);
        if (!slot_claim(t, s, i))
            continue;
        __atomic_store_n(&c->slots_full, i + 1, __ATOMIC_RELAXED);
        return (struct thread *)s;
    }
    return NULL;
}

static struct thread *slot_take(struct thread *t)
{
    struct cofi__fast_control *c = rt.control;
    slot_keep(t);
    for (int round = 0; round < 100; round++) {
        uint32_t from = __atomic_load_n(&c->slots_full, __ATOMIC_RELAXED);
        struct thread *s = slot_between(t, from, c->slots);
        s = s ? s : slot_between(t, 0, from);
        if (s)
            return s;
        bell(t); /* ended threads' slots come back */
        uint64_t pause[2] = {0, 10000000};
        sys(SYS_nanosleep, (uint64_t)pause, 0, 0, 0, 0, 0);
    }
    return NULL;
}

static void slot_give_back(struct thread *c)
{
    c->head.thread = 0;
    c->head.tid = 0;
    __atomic_store_n(&c->head.state, COFI__FAST_SLOT_FREE, __ATOMIC_RELEASE);
    cofi__fast_freed(rt.control, cofi__fast_slot_index(rt.control, (uint64_t)c));
}

void thread_set_space(struct thread *t, uint64_t space)
{
    uint64_t *entry = &cofi__fast_spaces(rt.control)[cofi__fast_slot_index(rt.control, (uint64_t)t)];
    __atomic_store_n(&t->space, space, __ATOMIC_RELEASE);
    __atomic_store_n(entry, space, __ATOMIC_RELEASE);
}

/* Whether any thread of this address space is … */
bool threads_any(bool (*is)(const struct thread *t, uint64_t value), uint64_t value)
{
    const uint64_t *spaces = cofi__fast_spaces(rt.control);
    for (uint32_t i = 0; i < rt.control->slots_used; i++) {
        if (__atomic_load_n(&spaces[i], __ATOMIC_ACQUIRE) != rt.space)
            continue;
        const struct thread *t = (const struct thread *)cofi__fast_slot_address(rt.control, i);
        uint32_t state = __atomic_load_n(&t->head.state, __ATOMIC_ACQUIRE);
        if (state != COFI__FAST_SLOT_FREE && state != COFI__FAST_SLOT_ENDED &&
            __atomic_load_n(&t->space, __ATOMIC_ACQUIRE) == rt.space && is(t, value))
            return true;
    }
    return false;
}

/* The child's context: the parent's, but for what the kernel gives a child. */
static struct thread *prepare(struct thread *t, uint64_t flags, uint64_t stack)
{
    struct thread *c = slot_take(t);
    if (!c)
        return NULL;
    c->head.pid = t->pid; /* who to ask for while the child has not begun */
    c->head.maker = cofi__fast_slot_index(rt.control, (uint64_t)t);
    /* behind that: who had the slot before was another's child */
    __atomic_store_n(&c->head.nested, rt.other_pids || flags & CLONE_NEWPID, __ATOMIC_RELEASE);
    __atomic_store_n(&c->head.thread, !!(flags & CLONE_THREAD), __ATOMIC_RELEASE);
    __atomic_store_n(&c->head.tid, t->tid, __ATOMIC_RELEASE);
    __atomic_store_n(&t->head.claims, 0, __ATOMIC_RELEASE);
    size_t from = offsetof(struct thread, s_rdx);
    memcpy((uint8_t *)c + from, (uint8_t *)t + from, sizeof *c - from);
    c->head.full = c->head.drained = 0;
    c->head.chunk = 0;
    c->head.notes_head = c->head.notes_tail = c->head.looked = 0;
    c->head.vfork = (flags & CLONE_VM) && !(flags & CLONE_THREAD);
    t->head.asked_for |= c->head.nested || c->head.vfork;
    c->made = rdtsc();
    c->self = (uint64_t)c;
    thread_set_space(c, t->space);
    c->stack_top = (uint64_t)c + COFI__FAST_SLOT_STACK + COFI__FAST_STACK_BYTES - 64;
    c->regs[RAX] = 0;
    c->regs[RCX] = t->pc + 2;
    c->regs[R11] = t->flags;
    c->pc = t->pc + 2;
    if (stack)
        c->regs[RSP] = stack;
    if ((flags & CLONE_VM) && !(flags & CLONE_VFORK))
        c->altstack = (struct kstack){.flags = SS_DISABLE};
    c->signal.has = false;
    c->clear_sighand = flags & CLONE_CLEAR_SIGHAND;
    c->held.taken = c->held.set = 0;
    c->asked = 0;
    c->dispatch.on = false;
    c->inside = 0;
    c->rseq.at = flags & CLONE_VM ? 0 : t->rseq.at; /* a thread registers its own */
    c->sysno = ~0ul;
    if (!log_open(c)) {
        slot_give_back(c);
        return NULL;
    }
    if (!(flags & CLONE_SIGHAND))
        signals_copy(t, c, flags & CLONE_VM);
    return c;
}

/* First C code of a child: all signals are blocked, GS is still the parent's. */
void rt_child(struct thread *t)
{
    sys(SYS_arch_prctl, ARCH_SET_GS, (uint64_t)t, 0, 0, 0, 0);
    int parent = t->pid;
    t->pid = (int)sys(SYS_getpid, 0, 0, 0, 0, 0, 0);
    t->tid = (int)sys(SYS_gettid, 0, 0, 0, 0, 0, 0);
    t->head.pid = t->pid;
    t->head.tid = t->tid;
    bool thread = t->head.thread; /* numbers do not tell: the first process of a PID namespace may make
                                   * that of another one */
    if (!thread)
        t->process = (uint32_t)t->made;
    if (!thread && !t->head.vfork) {
        thread_set_space(t, rt.space = rdtsc());
        maps_forked(rt.space);
        rt.halting = 0;
        rt.forking = NULL;
        rt.other_pids |= t->head.nested;
        rt.forked = true;
        signals_forked(t);
        section_forked();
        rt_unlock(); /* fork: our copy of the lock, which the parent held */
        advice_forked();
    }
    signals_own_stack(t);
    if (t->clear_sighand)
        signals_cleared(t);
    t->clear_sighand = false;
    t->miss_id = 2;
    uint64_t v[4] = {(uint64_t)parent, (uint64_t)t->parent_tid, 0, 0};
    note_put(t, COFI__FAST_NOTE_FORK, v, NULL, 0);
    __atomic_store_n(&t->head.state, COFI__FAST_SLOT_LIVE, __ATOMIC_RELEASE);
    t->alien |= !thread && !rt.control->follow;
    trace_begin(t, !t->alien);
    signals_set_mask(t);
    rt_dispatch(t);
    rt_resume(t);
}

/* clone, fork, vfork or clone3 as the guest called it. Returns the kernel's answer to the parent. */
long thread_clone(struct thread *t, uint64_t flags, uint64_t stack)
{
    bool own_memory = !(flags & CLONE_VM);
    signals_block_all();
    struct thread *c = prepare(t, flags, stack);
    if (!c) {
        signals_set_mask(t);
        return -11; /* EAGAIN: as if there were too many */
    }
    c->parent_tid = t->tid;
    if (rt.filtered)
        seccomp_block(t);
    uint64_t turn = c->head.child;
    if (own_memory) {
        rt_lock();
        log_drop_guards();
        rt.forking = t;
        c->made = rdtsc(); /* what was told of the mappings up to here is the child's, too */
    }
    long r = rt_clone(t, c);
    if (own_memory) {
        rt.forking = NULL;
        rt_unlock();
    }
    if (r < 0)
        slot_give_back(c);
    else /* unless the child has ended, and the slot is another's */
        __atomic_compare_exchange_n(&c->head.child, &turn, turn | (uint32_t)r, false, __ATOMIC_RELEASE,
                                    __ATOMIC_RELAXED);
    if (r != SYS_PENDING) /* else it was trapped by a filter, and the signal is to be delivered */
        signals_set_mask(t);
    return r;
}
