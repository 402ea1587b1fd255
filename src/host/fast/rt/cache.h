/* SPDX-License-Identifier: MIT
 * Where the runtime's tables lie in its window, and what an arena of translated code is. */
#ifndef COFI_HOST_FAST_RT_CACHE_H
#define COFI_HOST_FAST_RT_CACHE_H

#include "host/fast/rt/block.h"

#define CACHE_IBL (COFI__FAST_RUNTIME_BASE + 0x200000)         /* a mode: 64 K entries, by the target's low 16 bits */
#define CACHE_IBL_BYTES 0x80000ul
#define CACHE_IBL2 (CACHE_IBL + CACHE_IBL_BYTES)               /* a mode: what the first table has no place for */
#define CACHE_IBL_STRIDE (2 * CACHE_IBL_BYTES)                 /* from a mode's tables to the next one's */
#define CACHE_HASH (COFI__FAST_RUNTIME_BASE + 0x600000)        /* all blocks by guest address: tables that grow, one behind the other */
#define CACHE_HASH_BYTES 0x2200000ul
#define CACHE_INDEX (CACHE_HASH + CACHE_HASH_BYTES)            /* per arena: its blocks by address of their code */
#define CACHE_INDEX_BYTES 0x200000ul
#define CACHE_COUNTS (CACHE_INDEX + 16 * CACHE_INDEX_BYTES)    /* what cold blocks count, 2 bytes each, halved between two generations */
#define CACHE_COUNTS_END (CACHE_COUNTS + 0x200000)
#define CACHE_KEPT CACHE_COUNTS_END                            /* what lives as long as the process */
#define CACHE_KEPT_END (CACHE_KEPT + 0x100000)
#define CACHE_DESCRIPTORS CACHE_KEPT_END                       /* of blocks, halved between two generations */
#define CACHE_DESCRIPTORS_END (COFI__FAST_RUNTIME_BASE + COFI__FAST_RUNTIME_BYTES)

#define ARENA_BYTES 0x8000000ul
#define ARENA_HOT 0x4000000ul   /* the rest is for what is rarely executed */
#define ARENA_MARGIN 0x10000    /* a block takes less, of each kind of its memory */

enum { HUGE = 2 << 20 }; /* bytes of a huge page */

struct arena {
    uint8_t *base, *hot, *cold;
    const uint8_t *leave, *leave_hot, *leave_hot_arrived; /* translate_doors */
    uint32_t *index; /* addresses of descriptors */
    size_t blocks;
};

bool cache_full(void);
void cache_add(struct arena *a, struct block *b);
void translate_doors(struct arena *a);

/* arena.c; the lock is held, but for arena_at. */
void arena_init(void);
struct arena *cache_arena(uint64_t pc);
const struct arena *arena_at(uint64_t address);
bool arena_full(uint64_t pc);
bool arena_next_generation(void);
void rt_trim(void *end);
uint16_t *arena_count(void);
void arena_unmap(void);
void arena_hold_room(void);
bool arena_is_room(uint64_t address);

#endif
