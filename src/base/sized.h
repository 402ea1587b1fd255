/* SPDX-License-Identifier: MIT
 * Structs that begin with their size, given by a caller of another version. */
#ifndef COFI_BASE_SIZED_H
#define COFI_BASE_SIZED_H

#include <stddef.h>

#include "base/error.h"

/* Copy *given, whose first member is its size, to *known of `size` bytes, which then says `size`. Members that the
 * caller does not know are 0; of those that this library does not know none may be set: COFI_ERR_UNSUPPORTED.
 * COFI_ERR_RANGE: it has less than `least` bytes, or says that it has more, or another number, than any struct. */
int cofi__sized(void *known, size_t size, const void *given, size_t least, struct cofi_error *error);

#endif
