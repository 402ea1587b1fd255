/* SPDX-License-Identifier: MIT
 * Flight recorder: the rings of threads, which may be writing, -> the recording. */
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "host/fast/collect.h"

/* How many bytes of a chunk that is being written are whole records: a record's first byte is written last. */
static size_t written(const uint8_t *log, size_t n)
{
    size_t at = 0;
    while (at < n) {
        size_t size = cofi__fast_record_size(__atomic_load_n(&log[at], __ATOMIC_ACQUIRE));
        if (!size || size > n - at)
            break;
        at += size;
    }
    return at;
}

static const uint8_t *chunk_of(const struct cofi__fast_collector *c, const struct thread *t, uint64_t number)
{
    return (const uint8_t *)t + cofi__fast_chunk_offset(&c->made, (uint32_t)(number % c->made.chunks));
}

/* Bytes of a chunk that is full. */
static uint64_t used_of(const struct cofi__fast_collector *c, const struct thread *t, uint64_t number)
{
    uint64_t used = t->head.used[number % c->made.chunks];
    return used > c->made.chunk_bytes ? c->made.chunk_bytes : used;
}

/* Copy a chunk from `from` on. Returns how many bytes that are, or -1: the thread writes over it already. */
static long copy_chunk(const struct cofi__fast_collector *c, const struct thread *t, uint64_t number, uint64_t from,
                       uint8_t *copy)
{
    const struct cofi__fast_control *k = &c->made;
    const uint8_t *log = chunk_of(c, t, number);
    bool whole = number < __atomic_load_n(&t->head.full, __ATOMIC_ACQUIRE);
    uint64_t n = whole ? used_of(c, t, number) : written(log, k->chunk_bytes);
    if (n > from)
        memcpy(copy, log + from, n - from);
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    if (__atomic_load_n(&t->head.full, __ATOMIC_ACQUIRE) >= number + k->chunks)
        return -1;
    return n > from ? (long)(n - from) : 0;
}

/* Chunks by their numbers: the ones of a ring that were not taken yet. */
struct untaken {
    uint64_t first, full, end; /* up to `full` they are whole; one behind it may have begun */
};

static struct untaken untaken(const struct cofi__fast_collector *c, const struct thread *t,
                              const struct cofi__fast_seat *seat)
{
    uint64_t chunks = c->made.chunks, full = __atomic_load_n(&t->head.full, __ATOMIC_ACQUIRE);
    uint64_t oldest = full >= chunks ? full + 1 - chunks : 0;
    struct untaken u = {.first = seat->taken_chunks > oldest ? seat->taken_chunks : oldest, .full = full,
                        .end = full + (t->head.chunk == full % chunks)};
    if (u.first > u.end) /* the program has written over what tells */
        u.first = u.end;
    return u;
}

static uint64_t taken_of(const struct cofi__fast_seat *seat, uint64_t number)
{
    return number == seat->taken_chunks ? seat->taken_bytes : 0;
}

static void take_bytes(struct cofi__fast_collector *c, struct cofi__fast_seat *seat, uint64_t number, bool whole,
                       const uint8_t *log, size_t n)
{
    uint64_t before = taken_of(seat, number);
    if (number != seat->taken_chunks)
        cofi__fast_encode_gap(&seat->encoder);
    cofi__fast_take_log(c, seat, log, n);
    seat->taken_bytes = whole ? 0 : before + n;
    seat->taken_chunks = number + whole;
}

/* The youngest first, for the thread overtakes the oldest while this goes on; all before any is encoded,
 * for it would overtake them meanwhile. Returns how many could not be had. */
static uint64_t copy_untaken(const struct cofi__fast_collector *c, const struct thread *t,
                             const struct cofi__fast_seat *seat, const struct untaken *u, uint8_t *copies, long *sizes)
{
    for (uint64_t i = u->end; i-- > u->first;) {
        uint64_t k = i - u->first;
        sizes[k] = copy_chunk(c, t, i, taken_of(seat, i), copies + k * c->made.chunk_bytes);
        if (sizes[k] < 0)
            return k + 1;
    }
    return 0;
}

/* Of a thread that writes on. False: out of memory. */
static bool take_running(struct cofi__fast_collector *c, const struct thread *t, struct cofi__fast_seat *seat)
{
    enum { TRIES = 16 }; /* who is not let run may miss a whole turn of the ring */
    uint64_t chunks = c->made.chunks, lost = 0;
    uint8_t *copies = malloc(chunks * c->made.chunk_bytes);
    long *sizes = malloc(chunks * sizeof *sizes);
    struct untaken u = {0};
    for (int i = 0; copies && sizes && i < TRIES && lost == u.end - u.first; i++) {
        u = untaken(c, t, seat);
        lost = copy_untaken(c, t, seat, &u, copies, sizes);
    }
    for (uint64_t k = lost; k < u.end - u.first; k++)
        take_bytes(c, seat, u.first + k, u.first + k < u.full, copies + k * c->made.chunk_bytes, (size_t)sizes[k]);
    bool had = copies && sizes;
    free(copies);
    free(sizes);
    return had;
}

/* Of one that has ended: as the chunks lie there. What is in the last one ends at its first zero, where
 * the encoder stops. */
static void take_ended(struct cofi__fast_collector *c, const struct thread *t, struct cofi__fast_seat *seat)
{
    struct untaken u = untaken(c, t, seat);
    for (uint64_t i = u.first; i < u.end; i++) {
        uint64_t from = taken_of(seat, i), n = i < u.full ? used_of(c, t, i) : c->made.chunk_bytes;
        take_bytes(c, seat, i, i < u.full, chunk_of(c, t, i) + from, n > from ? n - from : 0);
    }
}

void cofi__fast_take_ring(struct cofi__fast_collector *c, uint32_t index, bool live)
{
    const struct thread *t = cofi__fast_slot(c, index);
    struct cofi__fast_seat *seat = &c->seats[index];
    if (!live)
        take_ended(c, t, seat);
    else if (!take_running(c, t, seat)) {
        cofi__fast_keep_error(c, COFI_ERR_NOMEM);
        return;
    }
    cofi__fast_keep_error(c, cofi__fast_encode_end(&seat->encoder));
    cofi__fast_write_out(c, seat);
}

void cofi__fast_take_live(struct cofi__fast_collector *c, uint32_t index)
{
    const struct thread *t = cofi__fast_slot(c, index);
    const struct cofi__fast_control *k = &c->made;
    struct cofi__fast_seat *seat = &c->seats[index];
    uint64_t next = t->head.drained; /* it may be full meanwhile, and stays as it is then */
    uint32_t chunk = (uint32_t)(next % k->chunks);
    if (k->keep_all && (chunk == t->head.chunk || __atomic_load_n(&t->head.full, __ATOMIC_ACQUIRE) > next)) {
        const uint8_t *log = (const uint8_t *)t + cofi__fast_chunk_offset(k, chunk);
        cofi__fast_take_log(c, seat, log, written(log, k->chunk_bytes));
    } else if (!k->keep_all) {
        cofi__fast_take_ring(c, index, true);
    }
    cofi__fast_keep_error(c, cofi__fast_encode_end(&seat->encoder));
    cofi__fast_write_out(c, seat);
}

void cofi__fast_snapshot(struct cofi__fast_collector *c)
{
    if (c->made.keep_all || c->ended)
        return;
    c->result->snapshots++;
    for (uint32_t i = 0; i < cofi__fast_slots(c); i++)
        if (c->seats[i].known && cofi__fast_state(c, i) == COFI__FAST_SLOT_LIVE)
            cofi__fast_take_ring(c, i, true);
    if (c->writer)
        cofi__fast_keep_error(c, cofi_writer_flush(c->writer));
}
