/* SPDX-License-Identifier: MIT
 * Strings in JSON. */
#ifndef COFI_PRESENT_JSON_H
#define COFI_PRESENT_JSON_H

#include <stddef.h>

/* text, quoted and escaped, into out (cut to fit); "null" for a null pointer. Returns out. n >= 8. */
const char *cofi__json_string(const char *text, char *out, size_t n);

#endif
