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

/* Copy a chunk from `from` on. Returns how many bytes that are, or -1: the thread writes over it already. */
static long copy_chunk(const struct cofi__fast_collector *c, const struct thread *t, uint64_t number, uint64_t from,
                       uint8_t *copy, bool live)
{
    const struct cofi__fast_control *k = &c->made;
    uint32_t chunk = (uint32_t)(number % k->chunks);
    const uint8_t *log = (const uint8_t *)t + cofi__fast_chunk_offset(k, chunk);
    bool whole = number < __atomic_load_n(&t->head.full, __ATOMIC_ACQUIRE);
    uint64_t n = whole ? t->head.used[chunk] : written(log, k->chunk_bytes);
    n = n > k->chunk_bytes ? k->chunk_bytes : n;
    if (n > from)
        memcpy(copy, log + from, n - from);
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    if (live && __atomic_load_n(&t->head.full, __ATOMIC_ACQUIRE) >= number + k->chunks)
        return -1;
    return n > from ? (long)(n - from) : 0;
}

void cofi__fast_take_ring(struct cofi__fast_collector *c, uint32_t index, bool live)
{
    const struct thread *t = cofi__fast_slot(c, index);
    struct cofi__fast_seat *seat = &c->seats[index];
    uint64_t chunks = c->made.chunks, full = __atomic_load_n(&t->head.full, __ATOMIC_ACQUIRE);
    uint64_t oldest = full >= chunks ? full + 1 - chunks : 0;
    uint8_t *copy = malloc(c->made.chunk_bytes);
    if (!copy) {
        cofi__fast_keep_error(c, COFI_ERR_NOMEM);
        return;
    }
    for (uint64_t i = seat->taken_chunks > oldest ? seat->taken_chunks : oldest; full - i < chunks; i++) {
        if (i == full && t->head.chunk != full % chunks)
            break; /* it has begun no other yet */
        bool follows = i == seat->taken_chunks;
        long n = copy_chunk(c, t, i, follows ? seat->taken_bytes : 0, copy, live);
        if (n < 0)
            continue;
        if (!follows)
            cofi__fast_encode_lost(&seat->encoder);
        cofi__fast_take_log(c, seat, copy, (size_t)n);
        seat->taken_bytes = i < full ? 0 : (follows ? seat->taken_bytes : 0) + (uint64_t)n;
        seat->taken_chunks = i + (i < full);
    }
    free(copy);
    cofi__fast_keep_error(c, cofi__fast_encode_end(&seat->encoder));
    cofi__fast_write_out(c, seat);
}

void cofi__fast_take_live(struct cofi__fast_collector *c, uint32_t index)
{
    const struct thread *t = cofi__fast_slot(c, index);
    const struct cofi__fast_control *k = &c->made;
    struct cofi__fast_seat *seat = &c->seats[index];
    uint32_t chunk = t->head.chunk;
    if (k->keep_all && chunk == t->head.full % k->chunks) {
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
