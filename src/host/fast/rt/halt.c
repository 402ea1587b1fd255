/* SPDX-License-Identifier: MIT
 * The end of a process with several threads: the others are stopped first, each where it is, so that
 * what they ran up to there is in their logs. They stay in the runtime until the kernel ends them, or go
 * on, if an exec fails after all. */
#include <errno.h>
#include <linux/futex.h>
#include <signal.h>
#include <sys/syscall.h>

#include "host/fast/rt/rt.h"

enum { ROUNDS = 20000, ASK_AGAIN = 200, LOOK_AGAIN_NS = 100000000 };

/* Whether a thread may be in the program's code: one that is in the kernel has logged all. */
static bool runs(const struct thread *t, uint64_t process)
{
    return t->process == process && !__atomic_load_n(&t->paused, __ATOMIC_SEQ_CST) &&
           __atomic_load_n(&t->head.state, __ATOMIC_ACQUIRE) == COFI__FAST_SLOT_LIVE;
}

/* The fault signals are never blocked, so this one reaches every thread [rt_handler]. It says that it is
 * ours, for it may come when the halt is over. One is on its way at a time, so that each that comes is known
 * by `asked`. A thread that is about to make a call has said so before it looks at that [halt_await]. */
static bool ask_to_halt(const struct thread *t, uint64_t process)
{
    uint64_t pid = (uint64_t)t->pid;
    struct ksiginfo info = {.signo = SIGTRAP, .code = COFI__FAST_SI_HALT, .addr = pid};
    uint32_t *asked = (uint32_t *)&t->asked;
    if (!runs(t, process) || __atomic_exchange_n(asked, 1, __ATOMIC_SEQ_CST))
        return false;
    if (!runs(t, process) || sys(SYS_rt_tgsigqueueinfo, pid, (uint64_t)t->tid, SIGTRAP, (uint64_t)&info, 0, 0) < 0)
        __atomic_store_n(asked, 0, __ATOMIC_SEQ_CST);
    return false;
}

/* What asks the thread to halt comes before its call, which might take it for a signal of the program's
 * (sigtimedwait, a signalfd). If it does not come within a second, a tracer has taken it away. */
void halt_await(struct thread *t)
{
    unsigned round = 0;
    while (__atomic_load_n(&t->asked, __ATOMIC_SEQ_CST) && !(t->safepoint & SAFEPOINT_HALT) && round < ROUNDS / 2)
        rt_pause(round++);
    if (round == ROUNDS / 2)
        __atomic_store_n(&t->asked, 0, __ATOMIC_SEQ_CST);
}

/* Who ends a process [rt.halting]: processes that share their memory share the runtime, too. */
static uint64_t name_of(const struct thread *t)
{
    return (uint64_t)t->process << 32 | (uint32_t)t->tid;
}

static bool concerns(uint64_t who, const struct thread *t)
{
    return who && who >> 32 == t->process;
}

static void wait_while(uint64_t who)
{
    uint64_t timeout[2] = {0, LOOK_AGAIN_NS};
    sys(SYS_futex, (uint64_t)&rt.halting, FUTEX_WAIT | FUTEX_PRIVATE_FLAG, (uint32_t)who, (uint64_t)timeout, 0, 0);
}

/* One that is just beginning may still have the name of who made it. */
static bool is_another(const struct thread *t, uint64_t who) { return concerns(who, t) && name_of(t) != who; }

/* What another process has left there, which is gone, or about to be, says nothing to ours. */
static void take_turn(const struct thread *t)
{
    uint64_t who = 0;
    while (!__atomic_compare_exchange_n(&rt.halting, &who, name_of(t), false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
        if (concerns(who, t)) {
            wait_while(who);
            who = 0;
        }
}

/* Stop the others of t's process, if there are any; t is in the kernel as far as the trace goes. A
 * thread that does not come for two seconds (there may be thousands) is not waited for. */
void halt_others(struct thread *t)
{
    if (!threads_any(is_another, name_of(t)))
        return;
    take_turn(t);
    for (unsigned round = 0; round < ROUNDS && threads_any(runs, t->process); round++) {
        if (round % ASK_AGAIN == 0)
            threads_any(ask_to_halt, t->process);
        rt_pause(round);
    }
}

/* The process lives on: so do its threads. */
void halt_over(struct thread *t)
{
    uint64_t mine = name_of(t);
    if (__atomic_compare_exchange_n(&rt.halting, &mine, 0, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
        sys(SYS_futex, (uint64_t)&rt.halting, FUTEX_WAKE | FUTEX_PRIVATE_FLAG, 1 << 30, 0, 0, 0);
}

/* Whether a signal that has come asks the thread to halt, and is nothing else. Where as many signals are
 * pending as may be (RLIMIT_SIGPENDING), the kernel keeps nothing of it but its number. Another SIGTRAP,
 * a trap or the program's, may have come in the place of ours, for of a number one is pending: so it
 * asks, too. Whether ours is still to come is known at the gate. */
bool halt_asked(struct thread *t, int signo, const struct ksiginfo *info)
{
    if (signo != SIGTRAP)
        return false;
    bool asked = __atomic_load_n(&t->asked, __ATOMIC_SEQ_CST), lost = info->code == SI_USER && !info->addr && asked;
    bool ours = lost || (info->code == COFI__FAST_SI_HALT && (int32_t)info->addr == t->pid);
    if (asked || ours)
        t->safepoint |= SAFEPOINT_HALT;
    if (ours)
        __atomic_store_n(&t->asked, 0, __ATOMIC_SEQ_CST);
    return ours;
}

/* The thread is about to leave the kernel, as far as the trace goes: it waits here while another ends
 * the process. What had asked for that has come, if nobody does. */
void halt_gate(struct thread *t)
{
    for (;;) {
        bool asked = __atomic_load_n(&t->asked, __ATOMIC_SEQ_CST);
        __atomic_store_n(&t->paused, false, __ATOMIC_SEQ_CST);
        uint64_t who = __atomic_load_n(&rt.halting, __ATOMIC_SEQ_CST);
        if (!concerns(who, t) && asked)
            __atomic_store_n(&t->asked, 0, __ATOMIC_SEQ_CST);
        if (!concerns(who, t) || who == name_of(t))
            return;
        __atomic_store_n(&t->paused, true, __ATOMIC_SEQ_CST);
        wait_while(who);
    }
}
