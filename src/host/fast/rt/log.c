/* SPDX-License-Identifier: MIT
 * The thread's log: chunks that translated code fills, and notes beside it. */
#include <sys/syscall.h>

#include "host/fast/rt/rt.h"

static uint64_t chunk_start(const struct thread *t, uint32_t chunk)
{
    return (uint64_t)t + cofi__fast_chunk_offset(rt.control, chunk);
}

/* Wake the collector. */
void bell(void)
{
    __atomic_add_fetch(&rt.control->bell, 1, __ATOMIC_SEQ_CST);
    sys(SYS_futex, (uint64_t)&rt.control->bell, 1, 1, 0, 0, 0);
}

/* In a complete recording, wait until the collector has taken the chunk that comes next. */
static void wait_for_room(struct thread *t)
{
    const struct cofi__fast_control *c = rt.control;
    while (c->keep_all && !c->stopped) {
        uint32_t word = __atomic_load_n(&t->head.drained_word, __ATOMIC_ACQUIRE);
        if (t->head.full - __atomic_load_n(&t->head.drained, __ATOMIC_ACQUIRE) < c->chunks)
            return;
        bell();
        uint64_t timeout[2] = {0, 100000000};
        sys(SYS_futex, (uint64_t)&t->head.drained_word, 0, word, (uint64_t)timeout, 0, 0);
    }
}

static void use_chunk(struct thread *t, uint32_t chunk)
{
    t->head.chunk = chunk;
    t->head.p = chunk_start(t, chunk);
    t->chunk_end = t->head.p + rt.control->chunk_bytes;
}

static void next_chunk(struct thread *t, uint64_t used)
{
    t->head.used[t->head.chunk] = used;
    __atomic_store_n(&t->head.full, t->head.full + 1, __ATOMIC_RELEASE);
    wait_for_room(t);
    use_chunk(t, (t->head.chunk + 1) % rt.control->chunks);
    if (rt.control->keep_all)
        bell();
    /* A synchronisation point as soon as the guest's address is known. */
    t->safepoint |= 2;
    t->thr = 0;
    t->thr_shift = 0;
}

void log_open(struct thread *t)
{
    uint64_t guard = COFI__FAST_GUARD;
    for (uint32_t i = 0; i < rt.control->chunks; i++)
        sys(SYS_mprotect, chunk_start(t, i) + rt.control->chunk_bytes, guard, 0, 0, 0, 0);
    use_chunk(t, 0);
    t->acc = 1;
    t->safepoint = 0;
    t->thr = 0x7fffffff;
    t->thr_shift = 31;
}

static void put(struct thread *t, uint64_t outcomes, uint64_t what)
{
    struct cofi__fast_record *r = (struct cofi__fast_record *)t->head.p;
    r->outcomes = outcomes;
    r->what = what;
    __atomic_store_n(&t->head.p, t->head.p + sizeof *r, __ATOMIC_RELEASE);
}

/* Write outstanding outcomes and one of COFI__FAST_TSC … with the time and an address. */
void log_put(struct thread *t, unsigned what, uint64_t address)
{
    if (!rt.control->trace) {
        t->acc = 1;
        return;
    }
    uint64_t start = chunk_start(t, t->head.chunk);
    if (t->head.p + 2 * sizeof(struct cofi__fast_record) > t->chunk_end)
        next_chunk(t, t->head.p - start);
    struct cofi__fast_record *r = (struct cofi__fast_record *)t->head.p;
    r[0] = (struct cofi__fast_record){t->acc, COFI__FAST_WHAT(what)};
    r[1] = (struct cofi__fast_record){rdtsc(), address};
    __atomic_store_n(&t->head.p, t->head.p + sizeof r[0] * 2, __ATOMIC_RELEASE);
    t->acc = 1;
}

/* An indirect transfer that was not made by translated code. */
void log_tip(struct thread *t, uint64_t target)
{
    if (!rt.control->trace)
        return;
    if (t->head.p + sizeof(struct cofi__fast_record) > t->chunk_end)
        next_chunk(t, t->head.p - chunk_start(t, t->head.chunk));
    put(t, t->acc, target);
    t->acc = 1;
}

/* Translated code ran into the guard page: go on in the next chunk. */
bool log_guard(struct thread *t, uint64_t fault, uint64_t *rcx)
{
    if (fault < t->chunk_end || fault >= t->chunk_end + COFI__FAST_GUARD)
        return false;
    next_chunk(t, rt.control->chunk_bytes);
    *rcx = t->head.p;
    return true;
}

static void copy_in(uint8_t *ring, uint64_t at, const void *from, size_t n)
{
    const uint8_t *p = from;
    while (n) {
        uint64_t i = at % COFI__FAST_NOTES_BYTES;
        size_t piece = COFI__FAST_NOTES_BYTES - i < n ? COFI__FAST_NOTES_BYTES - i : n;
        memcpy(ring + i, p, piece);
        at += piece, p += piece, n -= piece;
    }
}

/* Append a note; waits while the ring is full, so none is lost while there is a collector. */
void note_put(struct thread *t, unsigned kind, const uint64_t v[4], const void *bytes, size_t n)
{
    if (n > 4096)
        n = 4096;
    size_t size = (sizeof(struct cofi__fast_note_head) + n + 7) & ~(size_t)7;
    while (COFI__FAST_NOTES_BYTES - (t->head.notes_head - __atomic_load_n(&t->head.notes_tail, __ATOMIC_ACQUIRE)) < size) {
        if (rt.control->stopped)
            return;
        bell();
        uint64_t pause[2] = {0, 200000};
        sys(SYS_nanosleep, (uint64_t)pause, 0, 0, 0, 0, 0);
    }
    struct cofi__fast_note_head h = {(uint32_t)size, kind, t->pid, t->tid, rdtsc(), v ? v[0] : 0, v ? v[1] : 0,
                                     v ? v[2] : 0, v ? v[3] : 0, (uint32_t)n, 0};
    uint8_t *ring = (uint8_t *)t + COFI__FAST_SLOT_NOTES;
    copy_in(ring, t->head.notes_head, &h, sizeof h);
    copy_in(ring, t->head.notes_head + sizeof h, bytes, n);
    __atomic_store_n(&t->head.notes_head, t->head.notes_head + size, __ATOMIC_RELEASE);
}
