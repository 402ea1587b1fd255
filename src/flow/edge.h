/* SPDX-License-Identifier: MIT
 * Transitions between blocks -> an index of AFL's map. */
#ifndef COFI_FLOW_EDGE_H
#define COFI_FLOW_EDGE_H

#include <stdint.h>

static inline uint64_t cofi__block_hash(uint64_t ip)
{
    ip *= UINT64_C(0x9e3779b97f4a7c15);
    return ip ^ (ip >> 29);
}

/* Of a block's address; not 0. */
static inline uint32_t edge_hash(uint64_t ip) { return (uint32_t)(cofi__block_hash(ip) >> 24) | 1; }
static inline uint32_t edge_index(uint32_t from_hash, uint32_t to_hash) { return to_hash ^ (from_hash >> 1); }

#endif
