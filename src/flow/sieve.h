/* SPDX-License-Identifier: MIT
 * Trace bytes without what only tells the time, as far as nothing else lies between: outcomes and targets as a trace
 * unit without timing packets would have sent them. */
#ifndef COFI_FLOW_SIEVE_H
#define COFI_FLOW_SIEVE_H

#include <stdbool.h>
#include <stdint.h>

#include "flow/sift.h"
#include "flow/span.h"
#include "time/clock.h"

struct cofi_flow;

enum {
    SIEVE_MOST = 16384, SIEVE_FIRST = 512, /* bytes of trace at a time */
    SIEVE_WAIT = 4096,                     /* at most */
    SIEVE_BARE = 2048,                     /* so many in a row of which nothing was taken out, and the
                                            * trace is thought to be without timing */
    SIEVE_TRUST = 1 << 20,                 /* for so many at most */
    SIEVE_LEAST = 32,                      /* fewer bytes of outcomes and targets are read where they lie */
    SIEVE_PAD = SPAN_AHEAD + 32,           /* bytes behind them that are neither */
    SIEVE_STAGE = 512,                     /* bytes of trace from which on a place in the middle is looked for */
};

struct sieve {
    const uint8_t *from, *end;  /* the window: from here on; where it goes on: sifted.p */
    uint64_t end_offset;        /* of `end` */
    struct cofi__clock clock;   /* at `from`; the flow's own is at sifted.p already */
    struct sift sifted, asked;  /* to the end of it; as far as the offset was asked for */
    struct sift stages[SIEVE_MOST / SIEVE_STAGE + 1]; /* how far it was after so many bytes each */
    unsigned stages_n, stage;   /* of them; the first that `asked` is not behind */
    unsigned limit;             /* bytes at a time: less where the flow had to leave */
    uint64_t past;              /* it does not pay before this offset */
    uint64_t bare;              /* bytes in a row of which nothing was taken out */
    unsigned wait;              /* bytes to let pass where the flow had to leave soon again and again */
    uint8_t clean[SIEVE_MOST + SIFT_MORE + SIEVE_PAD];
};

/* Offsets of packets while they are read here. */
#define SIEVE_OFFSET (UINT64_C(1) << 63)

/* Decoding goes on elsewhere. */
void cofi__sieve_restart(struct cofi_flow *flow);
/* Read on in the sieve, if that pays. */
void cofi__sieve_enter(struct cofi_flow *flow);
/* If all of it was read: go on with what follows, in the sieve again or in the trace's own bytes. */
void cofi__sieve_more(struct cofi_flow *flow);
/* Somebody must know which packet this is, or what time: as if there had been no sieve. Nothing happens
 * outside of it. */
void cofi__sieve_leave(struct cofi_flow *flow);
/* Where the flow is, in the sieve: where its bytes begin in the trace; behind the last packet that was read. */
uint64_t cofi__sieve_begin(const struct cofi_flow *flow);
uint64_t cofi__sieve_offset(const struct cofi_flow *flow);

#endif
