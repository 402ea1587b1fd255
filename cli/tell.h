/* SPDX-License-Identifier: MIT
 * What the fast host notices while it records, in words: members of struct cofi_fast_options. */
#ifndef COFI_CLI_TELL_H
#define COFI_CLI_TELL_H

#include <stdint.h>

void tell_left(void *opaque, unsigned threads);
void tell_traced(void *opaque, int32_t pid, int32_t tracer, const char *name);

#endif
