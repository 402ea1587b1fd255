/* SPDX-License-Identifier: MIT
 * Memory of the caches: arenas that are emptied at once, of chunks that they share. */
#ifndef COFI_FLOW_MEMORY_H
#define COFI_FLOW_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/room.h"

struct chunk;
struct chunk_pool {
    bool huge;            /* set it before the first use: much will be needed, so it is in huge pages from the start */
    struct chunk *spare;  /* in no arena */
    struct chunk *blocks; /* as they were allocated */
    size_t bytes, used;   /* of all chunks, and of those in arenas */
    struct cofi__room tables; /* small ones */
};
void cofi__pool_free(struct chunk_pool *pool); /* and what is in its arenas, and small tables */

/* Behind each item ARENA_BEHIND bytes may be read, whatever is there. */
enum { ARENA_BEHIND = 128, ARENA_MOST = 1 << 16 };
struct arena {
    struct chunk *chunks;
    uint8_t *at, *end;
    size_t bytes;
};
/* Null: out of memory; 8-aligned; n at most ARENA_MOST. */
void *cofi__arena_take(struct chunk_pool *pool, struct arena *arena, size_t n);
/* Of what was taken last, what lies behind `end` is free again. */
static inline void cofi__arena_cut(struct arena *arena, void *end) { arena->at = end; }
/* The chunks go back to the pool. */
void cofi__arena_clear(struct chunk_pool *pool, struct arena *arena);

/* A table of n bytes, all 0, in huge pages where it is large or the pool is: looked up at random, each small
 * page costs a walk of page tables, in a virtual machine one of two dimensions. Null: out of memory. */
void *cofi__table_take(struct chunk_pool *pool, size_t n);
/* Its place may stay taken until all tables are let go: one that grows by four each time leaves less
 * than half of its size behind. */
void cofi__table_free(struct chunk_pool *pool, void *at, size_t n);
/* All of them were freed. */
void cofi__tables_clear(struct chunk_pool *pool);

#endif
