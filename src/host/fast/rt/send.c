/* SPDX-License-Identifier: MIT
 * Signals that a program sends to itself, and that another of its threads ends it by. The kernel ends the sender
 * with it, before its call returns [linux, complete_signal]; here the other thread does so, a little later. */
#include <signal.h>
#include <sys/syscall.h>

#include "host/fast/rt/rt.h"

enum { ROUNDS = 10000 }; /* a second */

struct sent {
    const struct thread *from;
    int signo, tid; /* tid 0: any thread of the process */
};

/* Whom the call has sent its signal to, as far as it tells: a pidfd does not. False: not to the caller's process. */
static bool is_to_own(const struct thread *t, struct sent *s)
{
    int64_t first = (int)t->regs[RDI], second = (int)t->regs[RSI];
    bool thread = t->sysno == SYS_tgkill || t->sysno == SYS_rt_tgsigqueueinfo,
         group = t->sysno == SYS_kill && first <= 0;
    s->signo = thread ? (int)t->regs[RDX] : (int)second;
    s->tid = thread ? (int)second : t->sysno == SYS_tkill ? (int)first : 0;
    if (group && first)
        return first != -1 && !t->filtered && -first == sys(SYS_getpgid, 0, 0, 0, 0, 0, 0);
    return group || first == t->pid || s->tid;
}

/* Whether it comes to that thread, and not back as the result of a wait. */
static bool comes_to(const struct thread *t, uint64_t value)
{
    const struct sent *s = (const struct sent *)value;
    return t != s->from && t->pid == s->from->pid && !t->head.vfork && (!s->tid || s->tid == t->tid) &&
           held_lets_in(t, s->signo);
}

/* A core is another thing: there the kernel, too, leaves the end to the thread that gets the signal. */
void send_await(struct thread *t)
{
    struct sent s = {.from = t};
    if (t->pid == 1 || t->head.vfork || !is_to_own(t, &s) || s.signo < 1 || s.signo > 64 ||
        !signals_ends_all(t, s.signo))
        return;
    for (unsigned round = 0; round < ROUNDS && !t->signal.has && !rt.halting && threads_any(comes_to, (uint64_t)&s);
         round++)
        rt_pause(round);
}
