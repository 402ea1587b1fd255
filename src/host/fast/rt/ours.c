/* SPDX-License-Identifier: MIT
 * Calls that reach over the runtime's own memory, of which the program does not know: as far as can be they do what
 * they would if nothing lay there. */
#include <errno.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/syscall.h>

#include "host/fast/rt/cache.h"

/* The lower one of two, of which both end behind `from`. */
static void take_lower(struct span *best, uint64_t from, uint64_t start, uint64_t end)
{
    if (end > from && start < best->start)
        *best = (struct span){start, end};
}

/* What is ours and reaches into [from, end): the lowest. */
static bool ours_in(uint64_t from, uint64_t end, struct span *ours)
{
    struct span s;
    *ours = (struct span){end, end};
    take_lower(ours, from, COFI__FAST_RUNTIME_BASE, COFI__FAST_RUNTIME_BASE + COFI__FAST_RUNTIME_BYTES);
    take_lower(ours, from, COFI__FAST_SHARED_BASE, COFI__FAST_SHARED_BASE + cofi__fast_shared_bytes(rt.control));
    for (unsigned i = 0; arena_number(i, &s); i++)
        take_lower(ours, from, s.start, s.end);
    return ours->start < end;
}

bool ours_at(uint64_t address)
{
    struct span ours;
    return ours_in(address, address + 1, &ours);
}

/* Whether the kernel will look at a range at all. */
static bool is_sound(uint64_t start, uint64_t bytes)
{
    return start % PAGE == 0 && start < USER_END && bytes && bytes <= USER_END - start;
}

/* Whether it will, and comes to something of ours. */
static bool meets_ours(uint64_t start, uint64_t bytes, struct span *ours)
{
    return is_sound(start, bytes) && ours_in(start, end_of(start, bytes), ours);
}

/* The call, with another range. */
static long call_on(struct thread *t, long (*call)(struct thread *), uint64_t start, uint64_t end)
{
    uint64_t was[3] = {t->regs[RDI], t->regs[RSI], t->regs[RAX]};
    t->regs[RDI] = start;
    t->regs[RSI] = end - start;
    long r = call(t);
    t->regs[RDI] = was[0];
    t->regs[RSI] = was[1];
    t->regs[RAX] = was[2]; /* another piece may follow */
    return r;
}

/* On what lies beside ours, piece by piece. The first error ends it, or where on_and_on only a signal. */
static long call_beside(struct thread *t, long (*call)(struct thread *), bool on_and_on)
{
    uint64_t at = t->regs[RDI], end = end_of(at, t->regs[RSI]);
    struct span ours = {0};
    long r = 0;
    while (at < end && (r >= 0 || (on_and_on && r != SYS_PENDING))) {
        ours_in(at, end, &ours);
        if (ours.start > at) {
            long now = call_on(t, call, at, ours.start);
            r = r < 0 && now >= 0 ? r : now;
        }
        at = ours.end;
    }
    return r;
}

/* mprotect changes rights up to a hole [mprotect(2)]. */
static long call_before(struct thread *t, long (*call)(struct thread *), uint64_t ours)
{
    long r = ours > t->regs[RDI] ? call_on(t, call, t->regs[RDI], ours) : 0;
    return r < 0 ? r : -ENOMEM;
}

/* Over a range where there is something of ours. */
static long spare(struct thread *t, long (*call)(struct thread *), const struct span *ours)
{
    long r;
    switch (t->sysno) {
    case SYS_munmap: return call_beside(t, call, false);
    case SYS_mprotect:
    case SYS_pkey_mprotect: return call_before(t, call, ours->start);
    case SYS_madvise: /* holes are passed over, and told in the end */
        r = call_beside(t, call, true);
        return r < 0 ? r : -ENOMEM;
    case SYS_mremap: return -EFAULT;
    default: return call_on(t, call, 0, PAGE); /* mseal does nothing at all then, as there */
    }
}

/* Whether the call puts other memory where there is something of ours. */
static bool replaces_ours(const struct thread *t, struct span *ours)
{
    const uint64_t *r = t->regs;
    switch (t->sysno) {
    case SYS_mmap:
        return r[R10] & MAP_FIXED && !(r[R10] & MAP_FIXED_NOREPLACE) && meets_ours(r[RDI], r[RSI], ours);
    case SYS_mremap: return r[R10] & MREMAP_FIXED && meets_ours(r[R8], r[RDX], ours);
    case SYS_shmat: return r[RDX] & SHM_REMAP && meets_ours(r[RSI], PAGE, ours);
    default: return false;
    }
}

/* A call that changes mappings, made by `call`. */
long ours_spared(struct thread *t, long (*call)(struct thread *))
{
    struct span ours;
    bool ranged = t->sysno != SYS_mmap && t->sysno != SYS_shmat && t->sysno != SYS_shmdt;
    if (replaces_ours(t, &ours))
        rt_die("the program maps memory over the fast host's (--host=step has none there), at", ours.start);
    return ranged && meets_ours(t->regs[RDI], t->regs[RSI], &ours) ? spare(t, call, &ours) : call(t);
}
