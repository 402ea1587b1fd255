/* SPDX-License-Identifier: MIT
 * Strings, each kept once: equal ones are the same pointer. */
#ifndef COFI_BASE_STRINGS_H
#define COFI_BASE_STRINGS_H

#include <stdbool.h>
#include <string.h>

#include "base/index.h"

struct cofi__strings {
    char **rows; /* row 0 is none */
    size_t n, room;
    struct cofi__index by_text;
};

/* Of strings that are all zero. Inverse: cofi__strings_fini, also after an error. 0 or COFI_ERR_NOMEM. */
int cofi__strings_init(struct cofi__strings *strings);
void cofi__strings_fini(struct cofi__strings *strings);
/* The one that is kept. Null: out of memory. */
const char *cofi__strings_keep(struct cofi__strings *strings, const char *text);
uint64_t cofi__text_hash(const char *text);
/* Either may be null. */
static inline bool cofi__same_text(const char *a, const char *b) { return a == b || (a && b && !strcmp(a, b)); }

/* A PLT's stub, by the names that images give them; null is none. */
bool cofi__is_stub_name(const char *name);

#endif
