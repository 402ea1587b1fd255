/* SPDX-License-Identifier: MIT
 * Where execution went to -> the function there, asked for once. */
#ifndef COFI_ANALYZE_PLACES_H
#define COFI_ANALYZE_PLACES_H

#include <cofi/analyze.h>

#include "base/index.h"

struct place {
    uint64_t address;
    struct cofi_function function;
    uint32_t asked; /* in which generation; the function of an older one is not valid */
    bool stub;      /* the function is a linker's, that leads to the one that was called: PLT, and what
                     * binds that when it is first called */
    bool called;    /* a CALL went there, so a function starts there: in all generations */
};

struct places {
    cofi_function_at *at;
    void *opaque;
    struct place *rows; /* row 0 is no place: never asked */
    size_t n, room;
    struct cofi__index by_address;
    uint32_t generation; /* from 1 on; counts up when code changes */
};

/* Of places that are all zero. Inverse: cofi__places_fini, also after an error. 0 or COFI_ERR_NOMEM. */
int cofi__places_init(struct places *places, cofi_function_at *at, void *opaque);
void cofi__places_fini(struct places *places);
/* The place at an address, known or new, its function asked for. Null: out of memory. */
struct place *cofi__places_find(struct places *places, uint64_t address);

/* The same at once, if it was gone to lately. Valid until the next call. */
static inline struct place *cofi__place(struct places *places, uint64_t address)
{
    struct place *place = &places->rows[cofi__index_recent(&places->by_address, cofi__hash(address, 0))];
    bool known = place->address == address && place->asked == places->generation;
    return known ? place : cofi__places_find(places, address);
}

#endif
