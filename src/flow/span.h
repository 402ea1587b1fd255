/* SPDX-License-Identifier: MIT
 * Spans: stretches of packets met before, with all that decoding them does. */
#ifndef COFI_FLOW_SPAN_H
#define COFI_FLOW_SPAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct block;
struct run;
struct cofi_flow;

enum {
    SPAN_UNITS = 64, SPAN_RUNS_LEAST = 8, /* outcomes and targets, and runs, that make it worth its memory */
    SPAN_RUNS_ENOUGH = 20, SPAN_RUNS = 40, /* or so many runs, or so many blocks */
    SPAN_BLOCKS_ENOUGH = 200, SPAN_BLOCKS = 400,
    SPAN_BYTES = 160,     /* at most; one that was put together of others: */
    SPAN_BYTES_LONG = 240, SPAN_RUNS_LONG = 160,
    SPAN_AGAIN = 4,       /* times that one followed another until they are put together */
    SPAN_LEAST = 8, SPAN_KEY = 32, /* bytes that it has at least, and of which up to so many are looked up */
    SPAN_AHEAD = 256,     /* bytes that are left in a piece where a span may begin */
    SPAN_CALLS = 32, SPAN_GUARDS = 16,
    SPAN_PEAK = 40,       /* with SPAN_GUARDS less than RET_DEPTH, so that what it takes off was there */
    SPAN_SLOTS = 1 << 16, SPAN_WAYS = 8,
    SPAN_CREDIT = 4096,   /* so many places that were met twice become one before their use must pay: one
                           * for two uses */
    SPAN_HOPE = 32,       /* so many are drafted one behind another, though their places were not met before, */
    SPAN_HOPES = 1024,    /* as long as those made so far were met again: but for so many, two for each
                           * that was, one for */
    SPAN_HOPE_USES = 256, /* so many uses; for SPAN_CHANCE bytes of trace one of either, as there may be
                           * another part of the program */
    SPAN_CHANCE = 1 << 16,
    SPAN_SCORE = 64, SPAN_GRACE = 1000, SPAN_LEVELS = 6,
    SPAN_STEPS = 16,      /* after so many steps one may begin, whatever its key */
};

/* What a span rests on comes first, then what it does. Behind it lie the bytes of its outcomes and
 * targets, the CALLs that it takes off the return stack, those that it leaves there, and the lists of
 * its runs: in the order in which they are needed. */
struct span {
    struct block *entry;
    uint64_t bits;        /* pending outcomes */
    uint64_t last_ip;     /* with a TIP in it: the upper 48 bits count */
    struct span *next, *before; /* those that followed last time, and the time before that one */
    struct span *longer;  /* this one and the one that follows most times */
    uint32_t epoch;
    uint8_t n;            /* bits */
    uint8_t bytes;
    uint8_t guards, calls, runs;
    uint8_t tips;
    uint16_t blocks;

    uint16_t tnt_bits;
    uint8_t exit_n, exit_tail; /* exit_tail 0: no TNT is in it */
    uint32_t insns;
    uint8_t tips_that_wait; /* of indirect JMPs and CALLs */
    struct block *exit;
    struct run *exit_run; /* the last one */
    uint64_t exit_bits, exit_last_ip;
    uint64_t count;       /* coverage: visits not yet added up */
    uint32_t first_hash, last_hash; /* of its first and last block */
    uint8_t again;        /* so many times in a row `next` followed */
    bool met;             /* used once at least */
    uint8_t tip_at;       /* bytes before the last TIP */
    uint8_t peak;         /* how far the return stack grew */
    struct span *older;
    void *list[];
};

static inline uint8_t *span_bytes_of(struct span *s) { return (uint8_t *)s->list; }
static inline struct block **span_guards_of(struct span *s) { return (struct block **)s->list + (s->bytes + 7) / 8; }
static inline struct block **span_calls_of(struct span *s) { return span_guards_of(s) + s->guards; }
static inline uint64_t *span_lists_of(struct span *s) { return (uint64_t *)(span_calls_of(s) + s->calls); }

/* What has been done since a place that was met before, to be a span. */
struct span_draft {
    bool on;
    bool hoped;              /* its place was not met before */
    struct span span;
    uint64_t key;
    const uint8_t *from;     /* trace bytes */
    uint32_t moves;          /* of the source: the bytes are where they were */
    uint64_t tnt_bits, tips, tips_that_wait; /* of the statistics, at its start */
    struct run *run[SPAN_RUNS];
    struct block *call[SPAN_CALLS], *guard[SPAN_GUARDS];
};

struct spans {
    bool plain;           /* none are used: what tests hold the others against */
    bool untimed;         /* the trace has neither cycle counts nor MTC */
    bool bare;            /* it seems to have none hereabouts: it is read without the sieve */
    uint64_t *slots;      /* a pointer (48 bits) below 16 bits of its key; 1 for a pointer: met once */
    struct span *last;    /* the one that was used or made just now */
    struct span *youngest;
    uint64_t made, hoped; /* of places met twice, and of others */
    uint64_t met, used;   /* how many of them, and how often */
    unsigned turn;        /* which of the slots of a key is next to be lost */
    unsigned hope;        /* so many more are drafted where the one before ended */
    int level, score;     /* one in 2^(level + 1) places is looked at; whether it was worth it */
    unsigned steps;       /* since the last place where one may begin */
    struct span_draft draft;
};

/* Use the spans that follow from here, if any. True: bytes were used up. Else the place is noted, or what
 * follows becomes a span. */
bool cofi__span_go(struct cofi_flow *flow);
/* A run is about to be done: part of the draft. */
void cofi__span_run(struct cofi_flow *flow, struct run *run);
/* What follows `until` is no more for the draft, which ends there. */
void cofi__span_seam(struct cofi_flow *flow, const uint8_t *until);
/* A packet is about to be acted on that no span holds: what was drafted ends before it. */
void cofi__span_break(struct cofi_flow *flow);
/* Copy a span, with room behind it for what it says that lies there. Null: no memory. */
struct span *cofi__span_take(struct cofi_flow *flow, const struct span *made);
/* b followed a again and again: a->longer is both, if that is not too much for one. */
void cofi__span_join(struct cofi_flow *flow, struct span *a, struct span *b);
void cofi__span_count_all(struct cofi_flow *flow);
/* Decoding goes on elsewhere. */
void cofi__span_restart(struct cofi_flow *flow);
/* They have their part of the cache: no more are made until they are forgotten. */
bool cofi__spans_full(const struct cofi_flow *flow);
void cofi__span_forget(struct cofi_flow *flow);

#endif
