/* SPDX-License-Identifier: MIT
 * Text -> its one copy. */
#include "base/strings.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/error.h"

uint64_t cofi__text_hash(const char *text)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325); /* FNV-1a */
    for (; *text; text++)
        hash = (hash ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
    return hash;
}

int cofi__strings_init(struct cofi__strings *strings)
{
    strings->n = 1;
    return cofi__index_init(&strings->by_text);
}

void cofi__strings_fini(struct cofi__strings *strings)
{
    for (size_t i = 1; i < strings->n; i++)
        free(strings->rows[i]);
    free(strings->rows);
    cofi__index_free(&strings->by_text);
}

static uint32_t find(const struct cofi__strings *strings, const char *text, uint32_t hash)
{
    uint32_t at = hash, row;
    do
        row = cofi__index_next(&strings->by_text, hash, &at);
    while (row && strcmp(strings->rows[row], text) != 0);
    return row;
}

const char *cofi__strings_keep(struct cofi__strings *strings, const char *text)
{
    uint32_t hash = cofi__hash(cofi__text_hash(text), 0), row = find(strings, text, hash);
    if (row)
        return strings->rows[row];
    if (cofi__array_grow(&strings->rows, &strings->room, strings->n, sizeof *strings->rows) < 0)
        return NULL;
    char *copy = strdup(text);
    if (!copy || cofi__index_add(&strings->by_text, hash, (uint32_t)strings->n) < 0) {
        free(copy);
        return NULL;
    }
    return strings->rows[strings->n++] = copy;
}

bool cofi__is_stub_name(const char *name)
{
    size_t n = name ? strlen(name) : 0;
    return n >= 4 && (!strcmp(name + n - 4, "@plt") || !strcmp(name, ".plt"));
}
