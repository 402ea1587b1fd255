/* SPDX-License-Identifier: MIT
 * Packets -> the unit's internal buffer -> output, at the rate at which the buffer drains. */
#include "unit/common/buffer.h"

#include <string.h>

void cofi__buffer_init(struct cofi__buffer *buffer, uint8_t *ring, uint32_t capacity,
                       uint32_t drain_bytes, uint32_t drain_cycles, struct cofi__drain drain)
{
    *buffer = (struct cofi__buffer){.ring = ring, .capacity = capacity, .drain_bytes = drain_bytes,
                                    .drain_cycles = drain_cycles, .drain = drain};
}

static void leave(struct cofi__buffer *buffer, const uint8_t *bytes, size_t n)
{
    int status = buffer->drain.write(buffer->drain.opaque, bytes, n);
    if (status < 0 && buffer->status == 0)
        buffer->status = status;
    buffer->drained += n;
}

bool cofi__buffer_push(struct cofi__buffer *buffer, const uint8_t *bytes, size_t n)
{
    if (buffer->capacity == 0) {
        leave(buffer, bytes, n);
        return true;
    }
    if (buffer->capacity - buffer->fill < n)
        return false;
    uint32_t tail = (buffer->head + buffer->fill) % buffer->capacity;
    size_t first = buffer->capacity - tail;
    if (first > n)
        first = n;
    memcpy(buffer->ring + tail, bytes, first);
    memcpy(buffer->ring, bytes + first, n - first);
    buffer->fill += (uint32_t)n;
    return true;
}

/* The oldest n bytes leave, n <= fill. */
static void pop(struct cofi__buffer *buffer, uint32_t n)
{
    while (n > 0) {
        uint32_t piece = buffer->capacity - buffer->head;
        if (piece > n)
            piece = n;
        leave(buffer, buffer->ring + buffer->head, piece);
        buffer->head = (buffer->head + piece) % buffer->capacity;
        buffer->fill -= piece;
        n -= piece;
    }
}

bool cofi__buffer_advance(struct cofi__buffer *buffer, uint64_t cycles)
{
    if (buffer->fill == 0 || buffer->drain_bytes == 0 || buffer->drain_cycles == 0) {
        buffer->credit_cycles = 0; /* an empty buffer saves up nothing */
        return false;
    }
    uint64_t total = buffer->credit_cycles + cycles;
    uint64_t portions = total / buffer->drain_cycles;
    buffer->credit_cycles = total % buffer->drain_cycles;
    if (portions == 0)
        return false;
    uint64_t room = portions > buffer->fill / buffer->drain_bytes ? buffer->fill
                                                                   : portions * buffer->drain_bytes;
    pop(buffer, room < buffer->fill ? (uint32_t)room : buffer->fill);
    return true;
}

void cofi__buffer_flush(struct cofi__buffer *buffer)
{
    pop(buffer, buffer->fill);
    buffer->credit_cycles = 0;
}

int cofi__buffer_status(struct cofi__buffer *buffer)
{
    int status = buffer->status;
    buffer->status = 0;
    return status;
}
