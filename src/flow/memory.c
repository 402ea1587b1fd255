/* SPDX-License-Identifier: MIT
 * Memory of the caches: chunks that are used again, large ones in huge pages. */
#include "flow/memory.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* A fresh page costs a page fault, some 2 us in a virtual machine, so chunks go back to the pool when a cache is
 * emptied, and the kernel is asked for huge pages where much is needed. */

struct chunk {
    _Alignas(64) struct chunk *next;
    struct chunk *block_next; /* the first chunk of what was allocated at once */
};

enum { CHUNK_BYTES = 1 << 18, HUGE_BYTES = 1 << 21, SMALL_CHUNKS = 4 /* that are allocated one by one */ };

/* n bytes, a multiple of huge pages. */
static void *take_huge(size_t n)
{
    void *at = aligned_alloc(HUGE_BYTES, n);
    if (at)
        madvise(at, n, MADV_HUGEPAGE); /* refused: it is memory all the same */
    return at;
}

void *cofi__table_take(size_t n)
{
    if (n < HUGE_BYTES)
        return calloc(1, n);
    n = (n + HUGE_BYTES - 1) & ~(size_t)(HUGE_BYTES - 1);
    void *at = take_huge(n);
    return at ? memset(at, 0, n) : NULL;
}

static bool more(struct chunk_pool *pool)
{
    bool large = pool->bytes >= (size_t)SMALL_CHUNKS * CHUNK_BYTES;
    size_t size = large ? HUGE_BYTES : CHUNK_BYTES;
    uint8_t *at = large ? take_huge(size) : aligned_alloc(64, size);
    if (!at)
        return false;
    struct chunk *first = (struct chunk *)at;
    first->block_next = pool->blocks;
    pool->blocks = first;
    pool->bytes += size;
    for (size_t i = size; i; i -= CHUNK_BYTES) {
        struct chunk *chunk = (struct chunk *)(at + i - CHUNK_BYTES);
        chunk->next = pool->spare;
        pool->spare = chunk;
    }
    return true;
}

void cofi__pool_free(struct chunk_pool *pool)
{
    while (pool->blocks) {
        struct chunk *chunk = pool->blocks;
        pool->blocks = chunk->block_next;
        free(chunk);
    }
    *pool = (struct chunk_pool){0};
}

void *cofi__arena_take(struct chunk_pool *pool, struct arena *arena, size_t n)
{
    n = (n + 7) & ~(size_t)7;
    if ((size_t)(arena->end - arena->at) < n) {
        if (!pool->spare && !more(pool))
            return NULL;
        struct chunk *chunk = pool->spare;
        pool->spare = chunk->next;
        chunk->next = arena->chunks;
        arena->chunks = chunk;
        arena->at = (uint8_t *)(chunk + 1);
        arena->end = (uint8_t *)chunk + CHUNK_BYTES - ARENA_BEHIND;
        memset(arena->end, 0, ARENA_BEHIND);
        arena->bytes += CHUNK_BYTES;
        pool->used += CHUNK_BYTES;
    }
    void *p = arena->at;
    arena->at += n;
    return p;
}

void cofi__arena_clear(struct chunk_pool *pool, struct arena *arena)
{
    while (arena->chunks) {
        struct chunk *chunk = arena->chunks;
        arena->chunks = chunk->next;
        chunk->next = pool->spare;
        pool->spare = chunk;
    }
    pool->used -= arena->bytes;
    *arena = (struct arena){0};
}
