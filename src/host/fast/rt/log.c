/* SPDX-License-Identifier: MIT
 * The thread's log: chunks that translated code fills, and notes beside it. */
#include <errno.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "host/fast/rt/rt.h"

static uint64_t chunk_start(const struct thread *t, uint32_t chunk)
{
    return (uint64_t)t + cofi__fast_chunk_offset(rt.control, chunk);
}

/* Wake the collector. */
void bell(struct thread *t)
{
    slot_keep(t);
    __atomic_add_fetch(&rt.control->bell, 1, __ATOMIC_SEQ_CST);
    sys(SYS_futex, (uint64_t)&rt.control->bell, 1, 1, 0, 0, 0);
}

/* Whether nobody takes what is logged, because the collector was killed or has enough. */
bool collector_gone(void)
{
    if (__atomic_load_n(&rt.control->owner, __ATOMIC_ACQUIRE) & FUTEX_OWNER_DIED)
        rt.control->stopped = rt.control->gone = 1;
    return rt.control->stopped;
}

/* What the collector answers; 0: nobody does any more, for over (of control) says so. */
uint32_t collector_answer(struct thread *t, const uint32_t *over)
{
    bell(t);
    while (!__atomic_load_n(&t->head.answer, __ATOMIC_ACQUIRE) && (!collector_gone() || !*over)) {
        uint64_t timeout[2] = {0, 100000000};
        sys(SYS_futex, (uint64_t)&t->head.answer, 0, 0, (uint64_t)timeout, 0, 0);
    }
    return __atomic_load_n(&t->head.answer, __ATOMIC_ACQUIRE);
}

/* A note without bytes, and the answer to it. */
uint32_t collector_ask(struct thread *t, uint32_t note, const uint64_t v[4])
{
    __atomic_store_n(&t->head.answer, 0, __ATOMIC_SEQ_CST);
    note_put(t, note, v, NULL, 0);
    return collector_answer(t, &rt.control->stopped);
}

/* Give the collector a moment for each file of notes that it is to look for while their mappings are
 * there. place: low half of the last one's end. */
void collector_look(struct thread *t, uint32_t place)
{
    uint64_t moment[2] = {0, 50000000};
    bell(t);
    for (;;) {
        uint32_t looked = __atomic_load_n(&t->head.looked, __ATOMIC_ACQUIRE);
        if ((int32_t)(looked - place) >= 0 || collector_gone() ||
            sys(SYS_futex, (uint64_t)&t->head.looked, 0, looked, (uint64_t)moment, 0, 0) == -ETIMEDOUT)
            return;
    }
}

static bool has_room(const struct thread *t)
{
    return t->head.full + 1 - __atomic_load_n(&t->head.drained, __ATOMIC_ACQUIRE) < rt.control->chunks;
}

/* In a complete recording, wait until the chunk behind the current one has been taken. False: it is not
 * to be waited for. */
static bool wait_for_room(struct thread *t)
{
    while (rt.control->keep_all && !collector_gone()) {
        uint32_t word = __atomic_load_n(&t->head.drained_word, __ATOMIC_ACQUIRE);
        if (has_room(t))
            return true;
        bell(t);
        if (rt.control->drop)
            return false;
        uint64_t timeout[2] = {0, 100000000};
        sys(SYS_futex, (uint64_t)&t->head.drained_word, 0, word, (uint64_t)timeout, 0, 0);
    }
    return !rt.control->keep_all && !collector_gone();
}

/* Its memory is zero: what a killed thread has written ends at the first zero. */
static void use_chunk(struct thread *t, uint32_t chunk)
{
    t->p = chunk_start(t, chunk);
    t->chunk_end = t->p + rt.control->chunk_bytes;
    uint64_t dirty = t->head.dirty[chunk];
    memset((void *)t->p, 0, dirty < rt.control->chunk_bytes ? dirty : rt.control->chunk_bytes);
    t->head.dirty[chunk] = rt.control->chunk_bytes;
    __atomic_store_n(&t->head.chunk, chunk, __ATOMIC_RELEASE);
}

/* The thread logs no more, perhaps: who has its slot next needs to clear that much only. A record's last
 * bytes lie behind p. */
void log_rest(struct thread *t)
{
    uint64_t end = t->p + COFI__FAST_CONTROL_BYTES;
    t->head.dirty[t->head.chunk] = (end < t->chunk_end ? end : t->chunk_end) - chunk_start(t, t->head.chunk);
}

/* It does, after all. */
void log_again(struct thread *t)
{
    t->head.dirty[t->head.chunk] = rt.control->chunk_bytes;
}

static void put_record(struct thread *t, unsigned what, uint64_t address);

/* The chunk is full. Where the next one is not to be had, this one is used again. */
static void next_chunk(struct thread *t)
{
    bool room = wait_for_room(t);
    if (room) {
        t->head.used[t->head.chunk] = t->p - chunk_start(t, t->head.chunk);
        __atomic_store_n(&t->head.full, t->head.full + 1, __ATOMIC_RELEASE);
        if (rt.control->keep_all)
            bell(t);
        use_chunk(t, (t->head.chunk + 1) % rt.control->chunks);
    } else {
        use_chunk(t, t->head.chunk);
        put_record(t, COFI__FAST_OVF, 0);
    }
    t->safepoint |= SAFEPOINT_PSB | (collector_gone() ? SAFEPOINT_END : 0);
}

static bool guard_chunks(struct thread *t)
{
    uint32_t index = cofi__fast_slot_index(rt.control, (uint64_t)t);
    uint64_t *word = &rt.guarded[index / 64], bit = UINT64_C(1) << index % 64;
    rt.guarded_slots += !(*word & bit);
    *word |= bit;
    for (uint32_t i = 0; i < rt.control->chunks; i++)
        if (sys(SYS_mprotect, chunk_start(t, i) + rt.control->chunk_bytes, COFI__FAST_GUARD, 0, 0, 0, 0) < 0)
            return false;
    return true;
}

/* Whether a slot has guard pages here that no thread of this address space is, or will be, in need of. */
static bool has_old_guards(uint32_t index)
{
    if (!(rt.guarded[index / 64] >> index % 64 & 1))
        return false;
    if (__atomic_load_n(&cofi__fast_spaces(rt.control)[index], __ATOMIC_ACQUIRE) != rt.space)
        return true;
    const struct cofi__fast_slot *s = (const struct cofi__fast_slot *)cofi__fast_slot_address(rt.control, index);
    uint32_t state = __atomic_load_n(&s->state, __ATOMIC_ACQUIRE);
    return state == COFI__FAST_SLOT_FREE || state == COFI__FAST_SLOT_ENDED;
}

enum { FEW_GUARDED = 64 };

/* Guard pages of threads that have ended are mappings that the program may lack, that each fork copies,
 * and that each end of a child takes apart. Those of neighbours go in one call. Locked. */
static void drop_guards(void)
{
    for (uint32_t i = 0, end; i < rt.control->slots; i = end + 1) {
        for (end = i; end < rt.control->slots && has_old_guards(end); end++) {
            rt.guarded[end / 64] &= ~(UINT64_C(1) << end % 64);
            rt.guarded_slots--;
        }
        uint64_t start = cofi__fast_slot_address(rt.control, i), bytes = (end - i) * rt.control->slot_bytes;
        if (bytes)
            sys(SYS_mprotect, start, bytes, PROT_READ | PROT_WRITE, 0, 0, 0);
        else if (!rt.guarded[i / 64])
            end |= 63;
    }
    rt.guarded_kept = rt.guarded_slots;
}

/* To look at each slot takes less than to copy its mappings. */
void log_drop_guards(void)
{
    if (rt.guarded_slots >= FEW_GUARDED)
        drop_guards();
}

bool log_open(struct thread *t)
{
    rt_lock();
    if (rt.guarded_slots >= FEW_GUARDED + 2 * rt.guarded_kept)
        drop_guards();
    bool guarded = guard_chunks(t);
    if (!guarded) { /* the mappings that it needs may be those of few that have ended */
        drop_guards();
        guarded = guard_chunks(t);
    }
    rt_unlock();
    if (!guarded)
        return false;
    use_chunk(t, 0);
    t->safepoint = 0;
    t->real_p = 0;
    return true;
}

/* Where P points for a safepoint: a place to which no record can be written. */
uint64_t log_nowhere(const struct thread *t)
{
    return t->chunk_end + COFI__FAST_GUARD / 2;
}

/* P as translated code has left it -> the true one. A safepoint was asked for perhaps, and P moved on
 * since then: behind a record that was written just before. */
void log_settle(struct thread *t)
{
    if (t->real_p)
        t->p = t->real_p + (t->p - log_nowhere(t));
    t->real_p = 0;
}

/* A record's place; its first byte is to be written last. */
static uint8_t *take_room(struct thread *t, size_t n)
{
    if (t->p + n > t->chunk_end)
        next_chunk(t);
    uint8_t *at = (uint8_t *)t->p;
    t->p += n;
    return at;
}

static void put_byte(uint8_t *at, unsigned byte)
{
    __atomic_store_n(at, (uint8_t)byte, __ATOMIC_RELEASE);
}

/* Write one of COFI__FAST_TSC … with the time and an address. */
static void put_record(struct thread *t, unsigned what, uint64_t address)
{
    uint8_t *at = take_room(t, COFI__FAST_CONTROL_BYTES);
    uint64_t tsc = rdtsc();
    at[1] = (uint8_t)what;
    memcpy(at + 2, &tsc, 8);
    memcpy(at + 10, &address, 8);
    if (what == COFI__FAST_TSC || what == COFI__FAST_PSB || what == COFI__FAST_PGE || what == COFI__FAST_CODE)
        t->told = tsc;
    put_byte(at, COFI__FAST_CONTROL);
}

void log_put(struct thread *t, unsigned what, uint64_t address)
{
    if (rt.control->trace)
        put_record(t, what, address);
}

/* Outcomes below a marker bit. */
void log_outcomes(struct thread *t, unsigned outcomes)
{
    if (outcomes > 1)
        put_byte(take_room(t, 1), outcomes);
}

/* The last record was an indirect transfer: as if it had not been logged. Returns the outcomes in it. */
unsigned log_take_back(struct thread *t)
{
    t->p -= COFI__FAST_TIP_BYTES;
    unsigned outcomes = *(const uint8_t *)t->p & ~COFI__FAST_TIP;
    memset((void *)t->p, 0, COFI__FAST_TIP_BYTES);
    return outcomes;
}

/* A store met the guard page. Code that is not traced logs nothing, so the chunk is changed for it. */
void log_guard(struct thread *t)
{
    if (t->mode != MODE_TRACED && t->p + COFI__FAST_CONTROL_BYTES > t->chunk_end)
        next_chunk(t);
}

/* An indirect transfer that translated code has not logged. */
void log_tip(struct thread *t, unsigned outcomes, uint64_t target)
{
    uint8_t *at = take_room(t, COFI__FAST_TIP_BYTES);
    memcpy(at + 1, &target, 6);
    put_byte(at, COFI__FAST_TIP | outcomes);
}

/* A target beyond the 47 bits of user space left its top bits behind its record. */
void log_trim(struct thread *t)
{
    memset((void *)t->p, 0, t->chunk_end - t->p < 2 ? t->chunk_end - t->p : 2);
}

/* Whether a store by translated code met the guard page of the chunk, which is how chunks end and how a
 * safepoint is had. */
bool log_is_guard(const struct thread *t, uint64_t fault)
{
    return fault >= t->chunk_end && fault < t->chunk_end + COFI__FAST_GUARD;
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

/* As of when a note tells what it does. */
static uint64_t note_time(const struct thread *t, unsigned kind, const uint64_t v[4])
{
    if (kind == COFI__FAST_NOTE_MAP && rt.maps_tsc)
        return rt.maps_tsc;
    if (kind == COFI__FAST_NOTE_CODE && v[1])
        return v[1];
    return kind == COFI__FAST_NOTE_FORK ? t->made : rdtsc();
}

/* Append a note; waits while the ring is full, so none is lost while there is a collector. */
void note_put(struct thread *t, unsigned kind, const uint64_t v[4], const void *bytes, size_t n)
{
    if (n > COFI__FAST_NOTE_MOST)
        n = COFI__FAST_NOTE_MOST;
    size_t size = (sizeof(struct cofi__fast_note_head) + n + 7) & ~(size_t)7;
    while (COFI__FAST_NOTES_BYTES - (t->head.notes_head - __atomic_load_n(&t->head.notes_tail, __ATOMIC_ACQUIRE)) <
           size) {
        if (collector_gone())
            return;
        bell(t);
        uint64_t pause[2] = {0, 200000};
        sys(SYS_nanosleep, (uint64_t)pause, 0, 0, 0, 0, 0);
    }
    struct cofi__fast_note_head h =
        {(uint32_t)size, kind,         t->pid,      t->tid, note_time(t, kind, v), v ? v[0] : 0, v ? v[1] : 0,
         v ? v[2] : 0,   v ? v[3] : 0, (uint32_t)n, 0};
    uint8_t *ring = (uint8_t *)t + COFI__FAST_SLOT_NOTES;
    copy_in(ring, t->head.notes_head, &h, sizeof h);
    copy_in(ring, t->head.notes_head + sizeof h, bytes, n);
    __atomic_store_n(&t->head.notes_head, t->head.notes_head + size, __ATOMIC_RELEASE);
}
