/* SPDX-License-Identifier: MIT
 * Open addressing with linear probing; at most half full. */
#include "base/index.h"

#include <stdlib.h>

#include "base/error.h"

enum { FIRST_SLOTS = 64 };

int cofi__index_init(struct cofi__index *index)
{
    index->slots = calloc(FIRST_SLOTS, sizeof *index->slots);
    index->recent = calloc(FIRST_SLOTS, sizeof *index->recent);
    index->mask = index->recent_mask = FIRST_SLOTS - 1;
    if (index->slots && index->recent)
        return 0;
    cofi__index_free(index);
    return COFI_ERR_NOMEM;
}

static void put(struct cofi__index *index, struct cofi__index_slot slot)
{
    uint32_t i = slot.hash & index->mask;
    while (index->slots[i].row)
        i = (i + 1) & index->mask;
    index->slots[i] = slot;
}

/* As many as slots, up to a number. Without memory it is as it was. */
static void grow_recent(struct cofi__index *index)
{
    size_t n = index->mask < INDEX_RECENT ? (size_t)index->mask + 1 : INDEX_RECENT;
    uint32_t *recent = n > (size_t)index->recent_mask + 1 ? calloc(n, sizeof *recent) : NULL;
    if (!recent)
        return;
    free(index->recent);
    index->recent = recent;
    index->recent_mask = (uint32_t)n - 1;
}

static int grow(struct cofi__index *index)
{
    struct cofi__index_slot *slots = index->slots;
    uint32_t mask = index->mask;
    index->slots = calloc(2 * ((size_t)mask + 1), sizeof *slots);
    if (!index->slots) {
        index->slots = slots;
        return COFI_ERR_NOMEM;
    }
    index->mask = mask * 2 + 1;
    for (size_t i = 0; i <= mask; i++)
        if (slots[i].row)
            put(index, slots[i]);
    free(slots);
    grow_recent(index);
    return 0;
}

int cofi__index_add(struct cofi__index *index, uint32_t hash, uint32_t row)
{
    if (index->used > index->mask / 2)
        COFI_TRY(grow(index));
    put(index, (struct cofi__index_slot){hash, row});
    index->used++;
    return 0;
}

void cofi__index_free(struct cofi__index *index)
{
    free(index->slots);
    free(index->recent);
    *index = (struct cofi__index){0};
}
