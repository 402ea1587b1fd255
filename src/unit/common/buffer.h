/* SPDX-License-Identifier: MIT
 * Packets -> the unit's internal buffer -> output, at the rate at which the buffer drains. */
#ifndef COFI_UNIT_COMMON_BUFFER_H
#define COFI_UNIT_COMMON_BUFFER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Where drained bytes go. 0, or COFI_ERR_FULL: the bytes are lost. */
struct cofi__drain {
    int (*write)(void *opaque, const uint8_t *bytes, size_t n);
    void *opaque;
};

/* A ring of whole packets. With capacity 0 it holds nothing: what is pushed goes straight to the
 * drain, and it never overflows. Owned by one unit; the ring's memory is the caller's. */
struct cofi__buffer {
    uint8_t *ring;
    uint32_t capacity;      /* bytes; 0: unbounded */
    uint32_t drain_bytes;   /* drains this many bytes … */
    uint32_t drain_cycles;  /* … each so many cycles; 0 of either: only when flushed */
    struct cofi__drain drain;
    uint32_t head, fill;    /* read position and bytes in the ring */
    uint64_t credit_cycles; /* cycles passed since the last portion left */
    uint64_t drained;       /* bytes that have left, in all */
    int status;             /* first error of the drain since cofi__buffer_status was asked */
};

void cofi__buffer_init(struct cofi__buffer *buffer, uint8_t *ring, uint32_t capacity,
                       uint32_t drain_bytes, uint32_t drain_cycles, struct cofi__drain drain);
/* True and the bytes are in, or false and none is: there is no room [RTIT 4.2.5; SDM Internal Buffer
 * Overflow]. */
bool cofi__buffer_push(struct cofi__buffer *buffer, const uint8_t *bytes, size_t n);
/* Cycles have passed in which the buffer drained. Returns whether a byte left. */
bool cofi__buffer_advance(struct cofi__buffer *buffer, uint64_t cycles);
void cofi__buffer_flush(struct cofi__buffer *buffer);
static inline bool cofi__buffer_empty(const struct cofi__buffer *buffer) { return buffer->fill == 0; }
/* Bytes pushed so far, in all. */
static inline uint64_t cofi__buffer_pushed(const struct cofi__buffer *buffer)
{
    return buffer->drained + buffer->fill;
}
/* The error of the drain since the last call, 0 if none; forgets it. */
int cofi__buffer_status(struct cofi__buffer *buffer);

#endif
