/* SPDX-License-Identifier: MIT
 * Arrays that grow, and rows in order of a number. */
#ifndef COFI_BASE_ARRAY_H
#define COFI_BASE_ARRAY_H

#include <stddef.h>
#include <stdint.h>

int cofi__array_double(void *array, size_t *room, size_t size);
/* Make room for one more row of `size` bytes behind the n that the array has. array: the address of the pointer to
 * the rows. Room doubles, from 64. 0, or COFI_ERR_NOMEM and all as it was. */
static inline int cofi__array_grow(void *array, size_t *room, size_t n, size_t size)
{
    return n < *room ? 0 : cofi__array_double(array, room, size);
}

/* How many of n rows, ordered by the uint64_t that each has at `key` bytes from its start, have one of
 * at most value. */
static inline size_t cofi__array_upper_bound(const void *rows, size_t n, size_t size, size_t key, uint64_t value)
{
    size_t low = 0, high = n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (*(const uint64_t *)((const char *)rows + middle * size + key) <= value)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

#endif
