/* SPDX-License-Identifier: MIT
 * Signals of faults that are sent while the guest blocks them. The kernel does not know that it does, so they come all
 * the same, and wait here: what was sent to a thread, with it, what was sent to the process, for any thread of it. */
#include <signal.h>
#include <sys/syscall.h>

#include "host/fast/rt/rt.h"

/* A signal of this code was sent to the process with the code in si_errno, and a thread that blocks it
 * has passed it on. */
enum { SI_PASSED = -0x6370 };

static struct held process_held;

static uint64_t bit_of(int signo) { return 1ul << (signo - 1); }

/* Of a number one is pending: what comes while one is, is lost [signal(7)]. */
static void put_in(struct held *h, const struct ksiginfo *info)
{
    uint64_t bit = bit_of(info->signo);
    if (__atomic_fetch_or(&h->taken, bit, __ATOMIC_SEQ_CST) & bit)
        return;
    h->info[info->signo] = *info;
    __atomic_fetch_or(&h->set, bit, __ATOMIC_SEQ_CST);
}

/* Take the first of the signals in `set`; 0: none. */
static int take_from(struct held *h, uint64_t set, struct ksiginfo *info)
{
    for (uint64_t due; (due = __atomic_load_n(&h->set, __ATOMIC_SEQ_CST) & set) != 0;) {
        int signo = __builtin_ctzl(due) + 1;
        if (!(__atomic_fetch_and(&h->set, ~bit_of(signo), __ATOMIC_SEQ_CST) & bit_of(signo)))
            continue; /* another thread was first */
        *info = h->info[signo];
        __atomic_fetch_and(&h->taken, ~bit_of(signo), __ATOMIC_SEQ_CST);
        return signo;
    }
    return 0;
}

/* Whether it was sent to the process, as far as it tells: timers, message queues and files may send to a
 * thread, but seldom do. A child that shares its parent's memory has but the one thread. */
static bool is_for_process(const struct thread *t, const struct ksiginfo *info)
{
    return !t->head.vfork && info->code <= SI_USER && info->code >= SI_SIGIO;
}

static bool waits_for(const struct thread *t, int signo)
{
    uint64_t set = 0;
    bool waits = t->paused && t->sysno == SYS_rt_sigtimedwait && !rt_probe(&set, (void *)t->regs[RDI], sizeof set);
    return waits && set & bit_of(signo);
}

/* Another thread's mask, or that of the call that it waits in. */
static bool blocks(const struct thread *t, int signo)
{
    return (t->paused ? signals_mask_now(t) : t->mask) & bit_of(signo);
}

bool held_lets_in(const struct thread *t, int signo)
{
    return !blocks(t, signo) && !waits_for(t, signo);
}

struct offer {
    const struct thread *from;
    const struct ksiginfo *info;
};

static bool would_take(const struct thread *t, uint64_t value)
{
    const struct offer *o = (const struct offer *)value;
    int signo = o->info->signo;
    return t != o->from && t->pid == o->from->pid && !t->head.vfork &&
           __atomic_load_n(&t->head.state, __ATOMIC_ACQUIRE) == COFI__FAST_SLOT_LIVE &&
           (!blocks(t, signo) || waits_for(t, signo));
}

/* Another thread may not be sent what says that a kill sent it [rt_sigqueueinfo(2)]. */
static bool takes(const struct thread *t, uint64_t value)
{
    const struct offer *o = (const struct offer *)value;
    struct ksiginfo passed = *o->info;
    passed.error = passed.code;
    passed.code = SI_PASSED;
    return would_take(t, value) && !sys(SYS_rt_tgsigqueueinfo, (uint64_t)t->pid, (uint64_t)t->tid,
                                        (uint64_t)passed.signo, (uint64_t)&passed, 0, 0);
}

void held_as_sent(struct ksiginfo *info)
{
    if (info->code != SI_PASSED)
        return;
    info->code = info->error;
    info->error = 0;
}

/* The kernel has chosen a thread that blocks it. If another one lets it in only after it was asked, it
 * has not seen that one waits. */
static void put_for_process(struct thread *t, const struct ksiginfo *info)
{
    struct ksiginfo copy = *info;
    struct offer offer = {t, &copy};
    if (threads_any(takes, (uint64_t)&offer))
        return;
    put_in(&process_held, &copy);
    if (threads_any(would_take, (uint64_t)&offer) && take_from(&process_held, bit_of(info->signo), &copy) &&
        !threads_any(takes, (uint64_t)&offer))
        put_in(&process_held, &copy);
}

void held_put(struct thread *t, const struct ksiginfo *info)
{
    if (is_for_process(t, info) && t->mask & bit_of(info->signo))
        put_for_process(t, info);
    else
        put_in(&t->held, info);
}

uint64_t held_set(const struct thread *t)
{
    uint64_t shared = t->head.vfork ? 0 : __atomic_load_n(&process_held.set, __ATOMIC_SEQ_CST);
    return shared | __atomic_load_n(&t->held.set, __ATOMIC_SEQ_CST);
}

int held_take(struct thread *t, uint64_t set, struct ksiginfo *info)
{
    int signo = take_from(&t->held, set, info);
    return signo || t->head.vfork ? signo : take_from(&process_held, set, info);
}

int held_take_shared(const struct thread *t, struct ksiginfo *info)
{
    return t->head.vfork ? 0 : take_from(&process_held, ~0ul, info);
}

void held_drop(struct thread *t, int signo)
{
    struct ksiginfo dropped;
    while (held_take(t, bit_of(signo), &dropped))
        ;
}

void held_forked(void) { process_held = (struct held){0}; }
