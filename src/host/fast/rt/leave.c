/* SPDX-License-Identifier: MIT
 * The program goes on without the runtime: its threads come to rest where their state is exact, and give
 * back what was the program's. Then the collector sets them off natively [detach.c]. */
#include <linux/futex.h>
#include <sys/syscall.h>

#include "host/fast/rt/cache.h"

/* Whether the threads of t's process are to rest. A child that shares its parent's memory for a while is
 * to come to its end or exec. One that was attached to in a wait of some time is to go on with that
 * first: if it was stopped in the wait below, it would go on with that. */
bool leave_wanted(const struct thread *t)
{
    return !t->head.vfork && t->attach.restart != RESTART_BLOCK &&
           __atomic_load_n(&rt.control->leaving, __ATOMIC_ACQUIRE) == t->space &&
           !(__atomic_load_n(&rt.control->owner, __ATOMIC_ACQUIRE) & FUTEX_OWNER_DIED);
}

/* The state is exact at pc, nothing waits to be delivered: rest, until the collector takes the thread
 * out of here or has given up, or a signal comes. */
void leave_gate(struct thread *t)
{
    uint64_t timeout[2] = {0, 100000000};
    signals_block_all();
    trace_pause(t, COFI__FAST_EVENT, t->pc);
    __atomic_store_n(&t->attach.parked, 1, __ATOMIC_SEQ_CST);
    while (leave_wanted(t) && !t->signal.has && !t->safepoint)
        sys(SYS_futex, (uint64_t)&rt.control->leaving, FUTEX_WAIT, (uint32_t)t->space, (uint64_t)timeout, 0, 0);
    __atomic_store_n(&t->attach.parked, 0, __ATOMIC_SEQ_CST);
    if (t->signal.has)
        return;
    signals_set_mask(t);
    trace_resume(t);
}

/* At a system call: have the collector take the process out, which makes it natively then. Where that has enough, it
 * does so all the same, in the end. True: it was to rest, and is still here, or a signal came first. */
bool leave_ask(struct thread *t)
{
    t->attach.asked = true;
    signals_block_all();
    __atomic_store_n(&t->head.answer, 0, __ATOMIC_SEQ_CST);
    __atomic_store_n(&t->head.leaves, 1, __ATOMIC_SEQ_CST);
    bool rests = collector_answer(t, &rt.control->gone);
    if (rests)
        leave_gate(t);
    else
        signals_set_mask(t);
    return rests;
}

/* ID as the program has it, which ptrace does not set. */
static void give_back_flags(const struct thread *t)
{
    __asm__ volatile("push %0\n popfq" : : "r"(t->flags & FLAG_ID) : "memory", "cc");
}

/* All threads of the process rest, or wait in a system call that will be made again; all signals are
 * blocked. No call here may change what the kernel keeps to restart that one: so the wait has no timeout. */
void leave_now(struct thread *t)
{
    if (t->attach.how == LEAVES_FIRST) {
        pages_release_all();
        signals_give_back_actions(t);
        arena_unmap();
    }
    signals_give_back(t);
    forbid_lend(t, true);
    give_back_flags(t);
    __atomic_store_n(&t->attach.left, 1, __ATOMIC_SEQ_CST);
    for (;;)
        sys(SYS_futex, (uint64_t)&t->attach.left, FUTEX_WAIT, 1, 0, 0, 0);
}
