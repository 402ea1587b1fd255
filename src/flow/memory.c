/* SPDX-License-Identifier: MIT
 * Memory of the caches: chunks that are used again, large ones in huge pages. */
#include "flow/memory.h"

#include <stdlib.h>
#include <string.h>

/* Fresh pages are dear (base/room.h), so chunks go back to the pool when a cache is emptied, and lie in
 * huge pages where much is needed. */

struct chunk {
    _Alignas(64) struct chunk *next;
    struct chunk *block_next; /* the first chunk of what was allocated at once */
};

enum { CHUNK_BYTES = 1 << 18, SMALL_CHUNKS = 4 /* that are allocated one by one */ };

/* Too large for a page with others, or in a pool of small pages. */
static bool is_alone(const struct chunk_pool *pool, size_t n) { return !pool->huge || n > COFI__ROOM_MOST; }

static void *table_alone(size_t n)
{
    if (n < COFI__HUGE_BYTES)
        return calloc(1, n);
    n = (n + COFI__HUGE_BYTES - 1) & ~(size_t)(COFI__HUGE_BYTES - 1);
    void *at = cofi__huge_take(n);
    return at ? memset(at, 0, n) : NULL;
}

void *cofi__table_take(struct chunk_pool *pool, size_t n)
{
    if (is_alone(pool, n))
        return table_alone(n);
    void *at = cofi__room_take(&pool->tables, n);
    return at ? memset(at, 0, n) : NULL;
}

void cofi__table_free(struct chunk_pool *pool, void *at, size_t n)
{
    if (is_alone(pool, n))
        free(at);
}

void cofi__tables_clear(struct chunk_pool *pool) { cofi__room_free(&pool->tables); }

static bool more(struct chunk_pool *pool)
{
    bool large = pool->huge || pool->bytes >= (size_t)SMALL_CHUNKS * CHUNK_BYTES;
    size_t size = large ? COFI__HUGE_BYTES : CHUNK_BYTES;
    uint8_t *at = large ? cofi__huge_take(size) : aligned_alloc(64, size);
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
    cofi__tables_clear(pool);
    *pool = (struct chunk_pool){.huge = pool->huge};
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
