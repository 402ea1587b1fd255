/* SPDX-License-Identifier: MIT
 * A run: what a list of branch outcomes leads through. */
#ifndef COFI_FLOW_RUN_TYPE_H
#define COFI_FLOW_RUN_TYPE_H

#include <stddef.h>
#include <string.h>

#include "flow/block.h"

enum run_kind {
    RUN_AT,  /* goes on at exit */
    RUN_RET, /* the last bit was a compressed RET: goes on at the return stack's top */
    RUN_TIP, /* ends with a branch that takes a TIP */
    RUN_NOWHERE, /* goes on where there is no code */
    RUN_STUB, /* none: where it leads depends on the return stack, look up with its top, too */
};

enum {
    RUN_SHORT = 10,              /* outcomes of a run at most, where longer ones are hardly met again */
    RUN_WATCH = 4096,            /* runs made until it is looked how many were found meanwhile */
    RUN_ENTRIES = 64,            /* of 256 classes of blocks, at most so many begin them */
    RUN_RETRY = 1 << 23,         /* outcomes until longer ones are tried again, twice as many each time */
};
enum { RUN_BITS = 24, ASKED_TIP = 1 << (RUN_BITS + 1), RUN_BLOCKS = 192, RUN_CALLS = 24, RUN_POPS = 6, RUN_COPY = 8 };

struct run {
    /* The first cache line is all that most visits need. */
    struct block *entry;
    struct run *next;     /* the run that followed last time */
    union {
        struct block *exit; /* RUN_AT: where; RUN_TIP: where it went last time */
        uint64_t nowhere;   /* RUN_NOWHERE */
    };
    uint64_t count;       /* coverage: visits not yet added up */
    uint32_t bits;        /* the outcomes consumed, oldest first */
    uint32_t epoch;       /* of the blocks when this was last found whole */
    uint32_t insns;
    uint32_t first_hash, last_hash; /* of its first and last block */
    uint16_t blocks;
    uint8_t n;            /* bits */
    uint8_t kind;
    uint8_t calls;        /* return addresses that it leaves on the stack */
    uint8_t peak;         /* how far the stack grew */
    uint8_t guards;       /* return sites that it took off the stack, or for RTIT relied on: it holds
                           * only when they are there */
    bool by_ret : 1;      /* RUN_TIP: of a RET, so no outcome may be pending [PTREF 7.3] */
    bool beyond : 1;      /* goes on after its last outcome, so it needs an outcome or a TIP behind */
    bool pops : 1;        /* its last branch takes an address off the stack that it did not put there */
    bool ends_in_branch : 1;
    bool at_bottom : 1;   /* RUN_RET: the stack has nothing left: that is its last guard, null */
    bool waits : 1;       /* RUN_TIP: of an indirect JMP or CALL, whose TIP a processor may let wait */
    bool from_kernel : 1; /* RUN_TIP: its branch is in the upper half of the addresses */
    uint32_t asked;       /* the outcomes that it was looked up with, below a 1; ASKED_TIP: and a TIP behind them */
    struct run *older;    /* all runs, youngest first */
    struct block *list[]; /* blocks, then the calls' blocks, then the guards */
};
_Static_assert(offsetof(struct run, older) <= 64, "the hot part of a run is one cache line");

enum { LIST_FIRST = 7 }; /* blocks of a list that are in its first cache line */
_Static_assert(offsetof(struct run, list) == 128 - LIST_FIRST * sizeof(struct block *),
               "lists begin in a run's second cache line");

/* A pointer to a run (48 bits) below 16 bits of its key, so that more slots fit into a cache; 0: empty.
 * Two keys may look the same: who looks up checks what it finds. */
struct run_slot {
    uint64_t word;
};

/* RTIT: address behind the branch that ran last, 0 if it was none. */
static inline uint64_t run_end(const struct run *run)
{
    return run->ends_in_branch ? run->list[run->blocks - 1]->pub.end : 0;
}

#endif
