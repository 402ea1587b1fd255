/* SPDX-License-Identifier: MIT
 * A hash index: a pair of numbers -> the row of an array that has it as its key. Keys stay in the rows, the caller
 * compares them. Grows, never shrinks. */
#ifndef COFI_BASE_INDEX_H
#define COFI_BASE_INDEX_H

#include <stddef.h>
#include <stdint.h>

struct cofi__index_slot {
    uint32_t hash, row; /* row 0: free */
};

enum { INDEX_RECENT = 4096 };

struct cofi__index {
    struct cofi__index_slot *slots;
    uint32_t mask, used; /* mask: a power of two, less 1 */
    uint32_t recent_mask; /* the same, below INDEX_RECENT: it grows with the slots, for many are small */
    uint32_t *recent;     /* by hash: the row noted last */
};

/* Of an index that is all zero. Inverse: cofi__index_free. 0 or COFI_ERR_NOMEM. */
int cofi__index_init(struct cofi__index *index);
/* Put a row in that is not in it. 0 or COFI_ERR_NOMEM. */
int cofi__index_add(struct cofi__index *index, uint32_t hash, uint32_t row);
void cofi__index_free(struct cofi__index *index);

/* Of map.h's pairs, too. */
static inline uint32_t cofi__hash(uint64_t a, uint64_t b)
{
    return (uint32_t)((a ^ (b * UINT64_C(0x9e3779b97f4a7c15))) * UINT64_C(0xbf58476d1ce4e5b9) >> 32);
}

/* A row that was noted lately, of whatever key, or 0: a look here costs less than a search. */
static inline uint32_t cofi__index_recent(const struct cofi__index *index, uint32_t hash)
{
    return index->recent[hash & index->recent_mask];
}
static inline void cofi__index_note(struct cofi__index *index, uint32_t hash, uint32_t row)
{
    index->recent[hash & index->recent_mask] = row;
}

/* The rows of this hash, one a call, 0 behind the last; *at: the hash at first. */
static inline uint32_t cofi__index_next(const struct cofi__index *index, uint32_t hash, uint32_t *at)
{
    const struct cofi__index_slot *slot;
    do
        slot = &index->slots[(*at)++ & index->mask];
    while (slot->row && slot->hash != hash);
    return slot->row;
}

#endif
