/* SPDX-License-Identifier: MIT
 * Restartable sequences of the guest's own (rseq): critical sections that the kernel restarts when the thread is
 * preempted, moved or signalled inside of them. It would not know a section in translated code. So a section runs
 * as a whole, in code with a descriptor of its own [sequence.c]. Where one of a process's cannot, all of them run
 * in place, instruction by instruction, under a lock of the process: none of its other threads is in a section
 * then, which is all that a section may count on, but for the processor: where that is another one, the section
 * aborts before it can tell anybody. A fault inside leads to the abort handler, as it does by the kernel; so does
 * a signal, or patience, but for sections that are as short as they should be, which end first. */
#include <sys/resource.h>
#include <sys/syscall.h>

#include "host/fast/rt/cache.h"
#include "host/fast/rt/sequence.h"

enum { SECTIONS = 256, NEAR = 256, LONG = 4096, STEPS_SIGNALLED = 400, STEPS_MAX = 20000 };

static struct section {
    struct descriptor d;
    struct sequence *whole; /* null: not made yet */
} sections[SECTIONS];
static uint32_t signature, lock;
static bool registered, in_place; /* in_place: all sections, from now on */

static void section_lock(void)
{
    while (__atomic_exchange_n(&lock, 1, __ATOMIC_ACQUIRE)) {
        uint64_t timeout[2] = {0, 1000000};
        sys(SYS_futex, (uint64_t)&lock, 128, 1, (uint64_t)timeout, 0, 0);
    }
}

static void section_unlock(void)
{
    __atomic_store_n(&lock, 0, __ATOMIC_RELEASE);
    sys(SYS_futex, (uint64_t)&lock, 129, 1, 0, 0, 0);
}

/* A forked child has none of the threads that might hold it. */
void section_forked(void)
{
    lock = 0;
}

/* The thread's call of rseq has succeeded. */
void section_register(struct thread *t)
{
    bool off = t->regs[RDX] & 1;
    __atomic_store_n(&t->rseq.at, off ? 0 : t->regs[RDI], __ATOMIC_SEQ_CST); /* the kernel writes there from now on */
    signature = (uint32_t)t->regs[R10];
    registered |= !off;
}

/* … or had, before the thread was attached to. */
void section_attached(const struct thread *t)
{
    signature = t->rseq.at ? t->rseq.signature : signature;
    registered |= t->rseq.at != 0;
}

static struct section *section_at(uint64_t start)
{
    for (unsigned i = 0; i < rt.sections; i++)
        if (sections[i].d.start == start)
            return &sections[i];
    return NULL;
}

bool section_starts(uint64_t pc)
{
    return section_at(pc);
}

/* Code at pc takes the address `at`: is that a section's descriptor? Its start is near by then, behind the store
 * of the address, and the registered signature stands before its abort handler. The lock of the cache is held. */
void section_look(uint64_t pc, uint64_t at)
{
    struct descriptor d;
    uint32_t sign;
    if (rt.sections == SECTIONS || rt_probe(&d, (const void *)at, sizeof d))
        return;
    if (d.version || d.start - pc >= NEAR || !d.bytes || d.bytes > LONG || d.abort - d.start < d.bytes ||
        section_at(d.start) || rt_probe(&sign, (const void *)(d.abort - 4), 4))
        return;
    rt.has_sections = true;
    if (!registered || sign != signature)
        return;
    sections[rt.sections++] = (struct section){d, NULL};
    cache_invalidate(d.start, d.start + d.bytes);
}

/* Where the thread runs, as the kernel has told it in its struct rseq: the processor, twice; node and
 * memory-map concurrency ID. */
static void read_place(const struct thread *t, uint64_t place[2])
{
    rt_probe(&place[0], (const void *)t->rseq.at, 8);
    rt_probe(&place[1], (const void *)(t->rseq.at + RSEQ_NODE), 8);
}

/* How often the thread has lost its processor, to wait or to another one. */
static uint64_t switches(void)
{
    struct rusage u = {0};
    sys(SYS_getrusage, RUSAGE_THREAD, (uint64_t)&u, 0, 0, 0, 0);
    return (uint64_t)u.ru_nvcsw + (uint64_t)u.ru_nivcsw;
}

/* Since the section began; or to another place and back since the latest look, which takes two switches. */
static bool has_moved(struct thread *t)
{
    uint64_t now[2] = {0}, before = switches(), seen = t->section.switches;
    read_place(t, now);
    t->section.switches = before;
    return now[0] != t->section.place[0] || now[1] != t->section.place[1] || switches() - seen > 1;
}

static void leave(struct thread *t)
{
    t->section.end = 0;
    section_unlock();
}

static bool runs_whole(const struct thread *t, uint64_t unused)
{
    (void)unused;
    return __atomic_load_n(&t->sequence.runs, __ATOMIC_SEQ_CST);
}

/* No thread runs one as a whole any more: that would not know of this one. */
static void enter_in_place(struct thread *t, const struct section *s)
{
    __atomic_store_n(&in_place, true, __ATOMIC_SEQ_CST);
    for (unsigned round = 0; threads_any(runs_whole, 0); round++)
        rt_pause(round);
    section_lock();
    sequence_forget(t); /* the kernel is not to abort it at each step */
    t->section.start = s->d.start;
    t->section.end = s->d.start + s->d.bytes;
    t->section.abort = s->d.abort;
    t->section.steps = 0;
    t->section.switches = switches();
    read_place(t, t->section.place);
}

/* Whether the thread, which comes to the section, is to run it as a whole. */
static bool may_be_whole(const struct thread *t, struct section *s)
{
    uint32_t flags = 1; /* of what the kernel does not restart for, until Linux 6.0 */
    rt_probe(&flags, (const void *)(t->rseq.at + RSEQ_FLAGS), 4);
    if (in_place || flags || rt.control->filters || t->gs.selector || t->flags & FLAG_TF)
        return false;
    rt_lock();
    if (!s->whole)
        s->whole = sequence_make(&s->d);
    rt_unlock();
    return s->whole;
}

/* The thread comes to pc, its state exact. Whether it is in a section in place, which it enters, stays
 * in, or leaves here. */
bool section_here(struct thread *t)
{
    struct section *s;
    uint64_t at;
    struct descriptor d;
    bool outside = t->section.end && (t->pc < t->section.start || t->pc >= t->section.end);
    if (outside && t->pc != t->section.end && has_moved(t)) /* not by its end: it is not committed, and
                                                             * has seen two processors, perhaps */
        return true;
    if (outside)
        leave(t);
    if (t->section.end || !t->rseq.at || !rt.sections || !(s = section_at(t->pc)))
        return t->section.end;
    if (rt_probe(&at, (const void *)(t->rseq.at + RSEQ_CS), 8))
        return false;
    /* Zero: the kernel has seen the thread in between, at no address of the section. */
    if (at && (rt_probe(&d, (const void *)at, sizeof d) || d.start != t->pc))
        return false;
    t->section.whole = may_be_whole(t, s) ? s : NULL;
    if (!t->section.whole)
        enter_in_place(t, s);
    return t->section.end;
}

/* Its code is there, and the thread is in translated code from now on. */
static bool begin_whole(struct thread *t, struct sequence *s)
{
    rt_lock();
    const struct region *r = maps_find(t, t->pc);
    while (r && arena_full(r, t->pc)) {
        cache_flush();
        r = maps_find(t, t->pc); /* others may have been here meanwhile */
    }
    bool steady = r && !r->dirty && !r->writable && !r->shared;
    bool ready = steady && sequence_ready(s, r, signature);
    if (ready && r->told && t->mode == MODE_TRACED)
        maps_tell(t, s->start, s->end);
    if (ready)
        __atomic_store_n(&t->inside, rt.epoch, __ATOMIC_RELEASE);
    rt_unlock();
    __atomic_store_n(&t->sequence.runs, ready ? s : NULL, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&in_place, __ATOMIC_SEQ_CST)) /* since a moment */
        t->sequence.runs = NULL;
    return t->sequence.runs;
}

/* The thread goes on at t->pc. If that is where a section begins that it has come to: as a whole, or, if
 * that cannot be, in place. */
bool section_runs(struct thread *t)
{
    const struct section *s = t->section.whole;
    t->section.whole = NULL;
    if (!s || s->d.start != t->pc)
        return false;
    if (!t->step.force && begin_whole(t, s->whole)) {
        sequence_begin(t);
        return true;
    }
    enter_in_place(t, s);
    return false;
}

/* The thread has left a section that it ran as a whole. */
void section_left(struct thread *t)
{
    if (sequence_left(t)) /* too many rounds */
        __atomic_store_n(&in_place, true, __ATOMIC_SEQ_CST);
}

/* Inside of a section: a fault, another processor, or too many steps, fewer if a signal waits, and the
 * thread goes on at its abort handler. */
bool section_aborts(struct thread *t)
{
    bool fault = t->signal.has && t->signal.sync;
    if (!fault && !has_moved(t) && ++t->section.steps <= (t->signal.has ? STEPS_SIGNALLED : STEPS_MAX))
        return false;
    leave(t);
    sequence_abort(t, fault ? t->fault.pc : t->pc, t->section.abort);
    return true;
}

/* Membarrier's command for sections: none that began before goes on behind it. */
void section_barrier(const struct thread *t)
{
    enum { PRIVATE_EXPEDITED_RSEQ = 1 << 7 };
    if ((uint32_t)t->regs[RDI] != PRIVATE_EXPEDITED_RSEQ)
        return;
    section_lock();
    section_unlock();
}
