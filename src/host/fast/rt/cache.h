/* SPDX-License-Identifier: MIT
 * Where the runtime's tables lie in its window, and what an arena of translated code is. */
#ifndef COFI_HOST_FAST_RT_CACHE_H
#define COFI_HOST_FAST_RT_CACHE_H

#include "host/fast/rt/block.h"

#define CACHE_IBL (COFI__FAST_RUNTIME_BASE + 0x200000)         /* a mode: 64 K entries, by the target's low 16 bits */
#define CACHE_IBL_BYTES 0x80000ul
#define CACHE_IBL2 (CACHE_IBL + CACHE_IBL_BYTES)               /* a mode: what the first table has no place for */
#define CACHE_IBL_STRIDE (4 * CACHE_IBL_BYTES)                 /* from a mode's tables to the next one's: a huge page */
#define CACHE_SMALL (CACHE_IBL2 + CACHE_IBL_BYTES)             /* the rest of the first mode's, which each program
                                                                * has: first the runtime's variables [rt.ld] */
#define CACHE_HASH_FIRST (CACHE_SMALL + 0x20000)               /* all blocks by guest address: the first table … */
#define CACHE_HASH_FIRST_BYTES 0x10000ul
#define CACHE_POOL (CACHE_HASH_FIRST + CACHE_HASH_FIRST_BYTES) /* first descriptors: of shared code, or else of all */
#define CACHE_POOL_END (CACHE_IBL + CACHE_IBL_STRIDE)
#define CACHE_HASH (COFI__FAST_RUNTIME_BASE + COFI__FAST_FIRST_BYTES) /* … and those that it grows into, one
                                                                * behind the other */
#define CACHE_HASH_BYTES 0x2200000ul
#define CACHE_INDEX (CACHE_HASH + CACHE_HASH_BYTES)            /* per arena: its blocks by address of their code */
#define CACHE_INDEX_BYTES 0x200000ul
#define CACHE_COUNTS (CACHE_INDEX + 16 * CACHE_INDEX_BYTES)    /* what cold blocks count, 2 bytes each,
                                                                * halved between two generations */
#define CACHE_COUNTS_END (CACHE_COUNTS + 0x200000)
#define CACHE_KEPT CACHE_COUNTS_END                            /* what lives as long as the process */
#define CACHE_KEPT_END (CACHE_KEPT + 0x100000)
#define CACHE_MODULES CACHE_KEPT_END                           /* descriptors and counts of code that
                                                                * runs of a program share (share.c) */
#define CACHE_MODULES_BYTES 0x3000000ul
#define CACHE_DESCRIPTORS (CACHE_MODULES + CACHE_MODULES_BYTES) /* of blocks, halved between two generations */
#define CACHE_DESCRIPTORS_END (COFI__FAST_RUNTIME_BASE + COFI__FAST_RUNTIME_BYTES)

#define ARENA_BYTES 0x8000000ul
#define ARENA_HOT 0x4000000ul   /* the rest is for what is rarely executed */
#define ARENA_MARGIN 0x10000    /* a block takes less, of each kind of its memory */

enum { HUGE = 2 << 20 }; /* bytes of a huge page */

/* Memory for descriptors, first in the pool, which may be none of it, then elsewhere; and for what cold
 * blocks count. */
struct heap {
    struct piece { uint8_t *bottom, *top, *end, *claimed; } piece[2];
    unsigned at; /* the piece that is used */
    uint16_t *counts, *next_count, *counts_end;
};

static inline bool heap_has(const struct heap *h, const void *p)
{
    const uint8_t *b = p;
    return (b >= h->piece[0].bottom && b < h->piece[0].top) || (b >= h->piece[1].bottom && b < h->piece[1].top);
}

struct module;

struct arena {
    uint8_t *base, *first_hot, *first_cold, *hot, *cold;
    uint8_t *hot_claimed, *cold_claimed;
    const uint8_t *leave, *leave_hot, *leave_hot_arrived; /* translate_doors */
    uint32_t *index; /* addresses of descriptors */
    size_t blocks;
    struct heap *heap;
    struct module *module; /* whose code alone lies here, or null */
};

bool cache_full(void);
void cache_add(struct arena *a, struct block *b);
/* Blocks that an arena has got, with links between them. */
void cache_adopt(struct arena *a, uint64_t since);
void translate_doors(struct arena *a);

/* arena.c; the lock is held, but for arena_at and arena_number. */
void arena_init(void);
/* What is to be written from now on; arena_claim_first is to come before any variable is written. */
void arena_claim(uint64_t from, uint64_t to);
void arena_claim_first(const struct cofi__fast_control *control);
/* Where the code at pc of the region goes. */
struct arena *arena_for(const struct region *r, uint64_t pc);
/* One more arena for a module: at base, and arena_place follows, or near pc where that is 0; null: there
 * is no place. */
struct arena *arena_for_module(struct module *m, struct heap *heap, uint64_t base, uint64_t pc);
/* It is used from these places on, which count from its base. */
void arena_place(struct arena *a, uint64_t first_hot, uint64_t first_cold);
void arena_use_huge_pages(uint64_t from, uint64_t to);
const struct arena *arena_at(uint64_t address);
bool arena_number(unsigned number, struct span *arena);
bool arena_full(const struct region *r, uint64_t pc);
bool arena_next_generation(void);
/* What is not shared begins in the pool, behind so much of it. */
void arena_take_pool(uint64_t used);
void heap_begin(struct heap *h, unsigned piece, uint64_t start, uint64_t bytes);
void *heap_alloc(struct heap *h, size_t n);
void heap_trim(struct heap *h, void *end);
void arena_unmap(void);
void arena_hold_room(void);

/* share.c; the lock is held, but at a program's begin and end. */
enum { SHARE_BLOCKS = 160 << 10 }; /* of a module */
/* A program begins. How much of the pool is for shared code that there is, or will be. */
uint64_t share_begin(uint64_t key);
/* Code of the region is about to be translated. Whether there are blocks of it now that were not. */
bool share_meet(struct thread *t, const struct region *r);
/* The arena of the module that the region shows; null: its code is not shared. */
struct arena *share_arena(const struct region *r);
/* The arena has a new block, made of code in r. */
struct plan;
void share_made(struct arena *a, const struct region *r, const struct plan *plan);
/* The 8 bytes at p, in the arena, are to be a guest address, or that times -1. */
void share_address(struct arena *a, const uint8_t *p, uint64_t address, bool minus);

#endif
