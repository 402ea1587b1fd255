/* SPDX-License-Identifier: MIT
 * A raw stream that is none: what it looks like instead. */
#ifndef COFI_CLI_FOREIGN_H
#define COFI_CLI_FOREIGN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cofi/packet.h>

/* What bytes that are said to be a raw stream seem to be, and what to do then; null: a stream of that
 * generation, or nothing that is known. */
const char *foreign_hint(const uint8_t *bytes, size_t n, enum cofi_gen gen);
/* Whether a stream of n bytes, of which there is at least one, is nothing but zeros; of a long one that
 * is not asked. */
bool foreign_zeros(const uint8_t *bytes, size_t n);

#endif
