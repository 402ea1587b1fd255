/* SPDX-License-Identifier: MIT
 * Where the runtime's tables lie in its window, and what an arena of translated code is. */
#ifndef COFI_HOST_FAST_RT_CACHE_H
#define COFI_HOST_FAST_RT_CACHE_H

#include "host/fast/rt/rt.h"

#define CACHE_IBL (COFI__FAST_RUNTIME_BASE + 0x200000)         /* a mode: 64 K entries, by the target's low 16 bits */
#define CACHE_IBL_BYTES 0x80000ul
#define CACHE_HASH (COFI__FAST_RUNTIME_BASE + 0x400000)
#define CACHE_IBL2 (COFI__FAST_RUNTIME_BASE + 0x500000)        /* a mode: what the first table has no place for */
#define CACHE_INDEX (COFI__FAST_RUNTIME_BASE + 0x700000)       /* per arena: its blocks by address */
#define CACHE_INDEX_BYTES 0x400000ul
#define CACHE_KEPT (COFI__FAST_RUNTIME_BASE + 0x4700000)       /* what lives as long as the process */
#define CACHE_KEPT_END (COFI__FAST_RUNTIME_BASE + 0x4800000)
#define CACHE_DESCRIPTORS CACHE_KEPT_END                       /* of blocks, halved between two generations */
#define CACHE_DESCRIPTORS_END (COFI__FAST_RUNTIME_BASE + COFI__FAST_RUNTIME_BYTES)

#define ARENA_BYTES 0x8000000ul
#define ARENA_HOT 0x4000000ul   /* the rest is for what is rarely executed */

struct arena {
    uint8_t *base, *hot, *cold;
    struct block **index;
    size_t blocks;
};

void cache_add(struct arena *a, struct block *b);

/* arena.c; the lock is held, but for arena_at. */
void arena_init(void);
struct arena *cache_arena(uint64_t pc);
const struct arena *arena_at(uint64_t address);
bool arena_full(uint64_t pc);
bool arena_next_generation(void);
void rt_trim(void *end);

#endif
