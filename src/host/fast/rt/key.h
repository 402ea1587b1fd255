/* SPDX-License-Identifier: MIT
 * Where a block stands in the table of blocks. */
#ifndef COFI_HOST_FAST_RT_KEY_H
#define COFI_HOST_FAST_RT_KEY_H

#include <stdbool.h>
#include <stdint.h>

/* The key of a block at a guest's address. Neighbours in the guest's code are neighbours in the table,
 * which is what comes next most often; no farther than two cache lines, so that where pieces of code
 * that are all blocks meet, they are a short run of entries [decision 0730]. A key tells where its entry
 * lies in a table of any size, and is the same for few other blocks. */
static inline uint32_t key_of(uint64_t pc, unsigned mode, bool arrived)
{
    enum { NEIGHBOURS_LOG2 = 6 }; /* bytes of code, whose entries are two cache lines */
    uint64_t piece = pc >> NEIGHBOURS_LOG2 ^ (uint64_t)(2 * mode + arrived) << 45;
    return (uint32_t)pc ^ (uint32_t)(piece * 0x9e3779b97f4a7c15u >> 32);
}

/* In a table of `entries`, a power of 2. */
static inline uint32_t place_of(uint32_t key, uint32_t entries) { return key >> 2 & (entries - 1); }

#endif
