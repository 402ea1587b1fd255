/* SPDX-License-Identifier: MIT
 * Alternate stacks for signals: the program's, which the kernel knows nothing of, and ours in its place. */
#include <errno.h>
#include <signal.h>
#include <sys/syscall.h>

#include "host/fast/rt/signals.h"

static long own_stack(const struct thread *t, uint64_t bytes)
{
    struct kstack s = {(uint64_t)t + COFI__FAST_SLOT_ALT, 0, 0, bytes};
    return sys(SYS_sigaltstack, (uint64_t)&s, 0, 0, 0, 0, 0);
}

void signals_own_stack(struct thread *t) { own_stack(t, COFI__FAST_STACK_BYTES); }

bool in_altstack(const struct thread *t, uint64_t sp)
{
    return sp > t->altstack.sp && sp - t->altstack.sp <= t->altstack.size;
}

bool on_altstack(const struct thread *t, uint64_t sp)
{
    return !(t->altstack.flags & (int)SS_AUTODISARM_FLAG) && in_altstack(t, sp);
}

/* For what the kernel checks ours for: until the end of it no signal comes. Returns the mask that there was. */
static uint64_t begin_lent_size(const struct thread *t, uint64_t bytes, bool *taken)
{
    uint64_t mask = signals_block_all();
    *taken = !own_stack(t, bytes);
    return mask;
}

static void end_lent_size(struct thread *t, uint64_t mask)
{
    signals_own_stack(t);
    sys(SYS_rt_sigprocmask, SIG_SETMASK, (uint64_t)&mask, 0, 8, 0, 0);
}

/* Whether a program may have one of that size: there must be room for a frame with all registers that it
 * may use, AMX's among them. */
static bool is_enough(struct thread *t, uint64_t bytes)
{
    bool taken = true;
    if (bytes < COFI__FAST_STACK_BYTES)
        end_lent_size(t, begin_lent_size(t, bytes, &taken));
    return taken;
}

long set_altstack(struct thread *t, const struct kstack *in)
{
    int mode = in->flags & (int)~SS_AUTODISARM_FLAG;
    struct kstack s = {in->sp, in->flags, 0, in->size};
    if (on_altstack(t, t->regs[RSP]))
        return -EPERM;
    if (mode != 0 && mode != SS_ONSTACK && mode != SS_DISABLE)
        return -EINVAL;
    if (mode == SS_DISABLE)
        s.sp = s.size = 0;
    else if (memcmp(&s, &t->altstack, sizeof s) && !is_enough(t, s.size)) /* what it has already, it may have */
        return -ENOMEM;
    t->altstack = s;
    return 0;
}

long do_sigaltstack(struct thread *t)
{
    struct kstack in, old = t->altstack;
    long r = 0;
    old.flags &= (int)SS_AUTODISARM_FLAG;
    old.flags |= !old.size ? SS_DISABLE : on_altstack(t, t->regs[RSP]) ? SS_ONSTACK : 0;
    if (t->regs[RDI])
        r = rt_probe(&in, (void *)t->regs[RDI], sizeof in) ? -EFAULT : set_altstack(t, &in);
    return !r && t->regs[RSI] && rt_probe((void *)t->regs[RSI], &old, sizeof old) ? -EFAULT : r;
}

static uint64_t smallest; /* of the process's threads; the lock is held */

static bool note_smallest(const struct thread *t, uint64_t pid)
{
    if (t->pid == (int)pid && t->altstack.size && t->altstack.size < smallest)
        smallest = t->altstack.size;
    return false;
}

static uint64_t smallest_of(const struct thread *t)
{
    rt_lock();
    smallest = COFI__FAST_STACK_BYTES;
    threads_any(note_smallest, (uint64_t)t->pid);
    uint64_t bytes = smallest;
    rt_unlock();
    return bytes;
}

/* The kernel refuses a program registers for which some thread's alternate stack is too small. It sees ours. */
long do_more_registers(struct thread *t)
{
    bool taken;
    uint64_t mask = begin_lent_size(t, smallest_of(t), &taken);
    long r = rt_guest_syscall(t) ? SYS_PENDING : (long)t->regs[RAX];
    end_lent_size(t, mask);
    return r;
}
