/* SPDX-License-Identifier: MIT
 * A hash map from pairs of numbers to a number; grows, never shrinks. */
#ifndef COFI_BASE_MAP_H
#define COFI_BASE_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cofi__map_slot {
    uint64_t a, b;
    uint32_t value;
    bool used;
};

/* Zero-initialised is empty. */
struct cofi__map {
    struct cofi__map_slot *slots;
    size_t size, used; /* size: a power of two */
};

/* The value of (a, b), or null. Valid until the next put. */
uint32_t *cofi__map_get(const struct cofi__map *map, uint64_t a, uint64_t b);
/* Set it. 0 or COFI_ERR_NOMEM. */
int cofi__map_put(struct cofi__map *map, uint64_t a, uint64_t b, uint32_t value);
/* Forget all pairs, keep the room. */
void cofi__map_clear(struct cofi__map *map);
void cofi__map_free(struct cofi__map *map);

#endif
