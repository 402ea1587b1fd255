/* SPDX-License-Identifier: MIT
 * Places that are new, or whose code changed. */
#include "analyze/places.h"

#include <stdlib.h>

#include "base/array.h"
#include "base/error.h"
#include "base/strings.h"

void cofi_view_function(struct cofi_view *view, struct cofi_demangler *names, uint64_t address,
                        struct cofi_function *function)
{
    struct cofi_symbol symbol;
    cofi_view_symbol(view, address, false, &symbol);
    function->module = symbol.module;
    if (!symbol.name) {
        function->offset = symbol.offset;
        return;
    }
    function->name = cofi_demangle(names, symbol.name);
    function->start = address - symbol.offset;
}

int cofi__places_init(struct places *places, cofi_function_at *at, void *opaque)
{
    places->at = at;
    places->opaque = opaque;
    places->n = places->generation = 1;
    COFI_TRY(cofi__array_grow(&places->rows, &places->room, 0, sizeof *places->rows));
    places->rows[0] = (struct place){0};
    return cofi__index_init(&places->by_address);
}

void cofi__places_fini(struct places *places)
{
    free(places->rows);
    cofi__index_free(&places->by_address);
}

/* A new row, or 0: out of memory. */
static uint32_t add(struct places *places, uint64_t address, uint32_t hash)
{
    if (cofi__array_grow(&places->rows, &places->room, places->n, sizeof *places->rows) < 0 ||
        cofi__index_add(&places->by_address, hash, (uint32_t)places->n) < 0)
        return 0;
    places->rows[places->n] = (struct place){.address = address};
    return (uint32_t)places->n++;
}

static void ask(struct places *places, struct place *place)
{
    place->function = (struct cofi_function){.start = place->address};
    places->at(places->opaque, place->address, &place->function);
    place->stub = cofi__is_stub_name(place->function.name);
    place->asked = places->generation;
}

struct place *cofi__places_find(struct places *places, uint64_t address)
{
    uint32_t hash = cofi__hash(address, 0), at = hash, row;
    do
        row = cofi__index_next(&places->by_address, hash, &at);
    while (row && places->rows[row].address != address);
    if (!row && !(row = add(places, address, hash)))
        return NULL;
    struct place *place = &places->rows[row];
    if (place->asked != places->generation)
        ask(places, place);
    cofi__index_note(&places->by_address, hash, row);
    return place;
}
