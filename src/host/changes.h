/* SPDX-License-Identifier: MIT
 * When code of processes became other code, for who makes traces that tell no full time. */
#ifndef COFI_HOST_CHANGES_H
#define COFI_HOST_CHANGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cofi/trace.h>

/* All zero: none. Inverse of what note has made: cofi__changes_fini. */
struct cofi__changes {
    struct cofi__change *rows; /* in the order in which they were noted, which is that of time */
    size_t n, room;
};

/* Keep what a sideband record says of code; others say nothing. 0 or COFI_ERR_NOMEM. */
int cofi__changes_note(struct cofi__changes *changes, const struct cofi_sideband *sideband);
/* Go over the rows from *at on, up to a time: whether one of them was the process's. */
bool cofi__changes_until(const struct cofi__changes *changes, size_t *at, int32_t pid, uint64_t ns);
void cofi__changes_fini(struct cofi__changes *changes);

#endif
