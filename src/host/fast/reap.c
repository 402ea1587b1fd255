/* SPDX-License-Identifier: MIT
 * Slots whose threads have gone without a word: killed, alone or before they began. */
#include "host/fast/collect.h"
#include "host/fast/hold.h"

#include <errno.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static void free_taken(struct cofi__fast_collector *c, uint32_t index)
{
    struct thread *t = cofi__fast_slot(c, index);
    uint32_t taken = COFI__FAST_SLOT_TAKEN;
    cofi__fast_forget_child(&t->head);
    t->head.thread = 0;
    if (!__atomic_compare_exchange_n(&t->head.state, &taken, COFI__FAST_SLOT_FREE, false, __ATOMIC_SEQ_CST,
                                     __ATOMIC_RELAXED))
        return;
    c->seats[index] = (struct cofi__fast_seat){0}; /* a program that was killed as it started had one;
                                                    * nobody else is to have its number */
    cofi__fast_freed(c->control, index);
}

/* A slot whose thread has not begun, and whose maker is gone without having told who it is: after two
 * seconds it is free, for a child process that its maker did not outlive may yet begin. */
static void reap_orphan(struct cofi__fast_collector *c, uint32_t index, bool gone)
{
    enum { PATIENCE = 2 };
    struct cofi__fast_seat *seat = &c->seats[index];
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    if (!gone)
        seat->lost_at = 0;
    else if (!seat->lost_at)
        seat->lost_at = now.tv_sec;
    else if (now.tv_sec > seat->lost_at + PATIENCE)
        free_taken(c, index);
}

static bool is_none(const struct cofi__fast_collector *c, int32_t pid, int32_t tid)
{
    if (pid <= 0 || tid <= 0 || (syscall(SYS_tgkill, pid, tid, 0) && errno == ESRCH))
        return true;
    return c->zombies_too && cofi__fast_is_zombie(tid);
}

static bool is_gone(struct cofi__fast_collector *c, uint32_t index)
{
    cofi__fast_place(c, index);
    return is_none(c, c->seats[index].pid, c->seats[index].tid);
}

/* Of a slot whose thread has not begun. */
static bool maker_is_gone(struct cofi__fast_collector *c, const struct thread *t)
{
    if (!t->head.nested || !t->head.tid)
        return !t->head.tid || is_none(c, t->head.pid, t->head.tid);
    uint32_t index = cofi__fast_maker(c, t);
    const struct thread *maker = cofi__fast_slot(c, index);
    return maker->head.state != COFI__FAST_SLOT_LIVE || maker->head.pid != t->head.pid ||
           maker->head.tid != t->head.tid || is_gone(c, index);
}

/* Of such a slot, once its maker has told whom it is for: that one was killed before it began. */
static bool child_is_gone(const struct thread *t)
{
    int32_t tid = (int32_t)__atomic_load_n(&t->head.child, __ATOMIC_ACQUIRE);
    return tid > 0 && !t->head.nested && syscall(SYS_tkill, tid, 0) && errno == ESRCH;
}

/* … and no thread of a process begins that is gone: it ended while another of its threads was making this one. */
static bool process_is_gone(const struct thread *t)
{
    return __atomic_load_n(&t->head.thread, __ATOMIC_ACQUIRE) && !t->head.nested && kill(t->head.pid, 0) &&
           errno == ESRCH;
}

/* … and nobody is about to say who it is for: whoever took it was killed before. */
static bool is_nobodys(const struct cofi__fast_collector *c, uint32_t index)
{
    const int32_t *tid = &cofi__fast_slot(c, index)->head.tid;
    if (__atomic_load_n(tid, __ATOMIC_ACQUIRE))
        return false;
    for (uint32_t i = 0; i < cofi__fast_slots(c); i++)
        if (__atomic_load_n(&cofi__fast_slot(c, i)->head.claims, __ATOMIC_ACQUIRE) == index + 1)
            return false;
    return !__atomic_load_n(tid, __ATOMIC_ACQUIRE); /* or it has been said meanwhile */
}

static void reap_taken(struct cofi__fast_collector *c, uint32_t index)
{
    const struct thread *t = cofi__fast_slot(c, index);
    if (child_is_gone(t) || process_is_gone(t) || is_nobodys(c, index))
        free_taken(c, index);
    else
        reap_orphan(c, index, maker_is_gone(c, t));
}

void cofi__fast_reap_lost(struct cofi__fast_collector *c)
{
    for (uint32_t i = 0; i < cofi__fast_slots(c); i++) {
        struct thread *t = cofi__fast_slot(c, i);
        uint32_t state = cofi__fast_state(c, i);
        if (state == COFI__FAST_SLOT_LIVE && (c->seats[i].placed || t->head.tid) && is_gone(c, i)) {
            cofi__fast_begin_slot(c, i);
            cofi__fast_free_slot(c, i);
        } else if (state == COFI__FAST_SLOT_TAKEN) {
            reap_taken(c, i);
        }
    }
}
