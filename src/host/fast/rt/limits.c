/* SPDX-License-Identifier: MIT
 * The guest's limits of its memory: what the kernel is told has room for the runtime's own, of which the
 * guest sees nothing. Only those that are made under us: one that was there before stays as it is. */
#include <sys/syscall.h>

#include "host/fast/limits.h"
#include "host/fast/rt/cache.h"

struct limit {
    uint64_t soft, hard;
};

/* How much of the resource may be ours; 0: it is not one of those. */
static uint64_t room_in(uint64_t resource)
{
    bool ours = resource == RLIMIT_AS || resource == RLIMIT_DATA;
    return ours && rt.control->limits >> resource & 1 ? cofi__fast_room(rt.control, (unsigned)resource) : 0;
}

/* From now on the kernel counts as much of ours as there can ever be. */
static void hold_room(void)
{
    rt_lock();
    arena_hold_room();
    rt_unlock();
}

static long pass(struct thread *t) { return rt_guest_syscall(t) ? SYS_PENDING : (long)t->regs[RAX]; }

/* What is told to the kernel. A soft limit of no data at all stays that: it is none to the kernel but
 * for the heap (Linux, may_expand_vm: "Workaround for Valgrind"); mappings have the hard one then. */
static struct limit with_room(struct limit l, uint64_t resource, uint64_t room)
{
    bool heap_only = resource == RLIMIT_DATA && !l.soft;
    return (struct limit){heap_only ? 0 : cofi__fast_with_room(l.soft, room), cofi__fast_with_room(l.hard, room)};
}

/* The call with the limit at `in`, which register `reg` has, made larger. */
static long set(struct thread *t, unsigned reg, uint64_t in, uint64_t resource)
{
    struct limit l;
    if (rt_probe(&l, (const void *)in, sizeof l))
        return pass(t);
    l = with_room(l, resource, room_in(resource));
    if (l.soft != RLIM_INFINITY)
        hold_room();
    return call_with(t, reg, (uint64_t)&l);
}

/* What the kernel has written, without our room. */
static long show(uint64_t out, uint64_t room)
{
    struct limit l;
    if (rt_probe(&l, (const void *)out, sizeof l))
        return -14;
    l = (struct limit){cofi__fast_without_room(l.soft, room), cofi__fast_without_room(l.hard, room)};
    return rt_probe((void *)out, &l, sizeof l) ? -14 : 0;
}

/* Whether a process is recorded with us, so that its limits have room, too. In other PID namespaces its
 * number is another one. */
static bool is_recorded(int32_t pid)
{
    for (uint32_t i = 0; !rt.other_pids && i < rt.control->slots_used; i++) {
        const struct cofi__fast_slot *s = (const struct cofi__fast_slot *)cofi__fast_slot_address(rt.control, i);
        if (__atomic_load_n(&s->state, __ATOMIC_ACQUIRE) == COFI__FAST_SLOT_LIVE && (s->pid == pid || s->tid == pid))
            return true;
    }
    return false;
}

/* getrlimit, setrlimit, prlimit64. */
long do_limit(struct thread *t)
{
    const uint64_t *r = t->regs;
    bool either = t->sysno == SYS_prlimit64;
    int32_t pid = either ? (int32_t)r[RDI] : 0;
    uint64_t in = either ? r[RDX] : t->sysno == SYS_setrlimit ? r[RSI] : 0;
    uint64_t out = either ? r[R10] : t->sysno == SYS_getrlimit ? r[RSI] : 0;
    bool own = !pid || pid == t->pid || pid == t->tid;
    uint64_t resource = (uint32_t)r[either ? RSI : RDI], room = own || is_recorded(pid) ? room_in(resource) : 0;
    if (!room)
        return SYS_PASS;
    long result = in ? set(t, either ? RDX : RSI, in, resource) : pass(t);
    return result || !out ? result : show(out, room);
}
