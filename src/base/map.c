/* SPDX-License-Identifier: MIT
 * Open addressing with linear probing; at most three quarters full. */
#include "base/map.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/index.h"

/* The slot that holds (a, b), or the free one where it belongs. */
static struct cofi__map_slot *slot_of(const struct cofi__map *map, uint64_t a, uint64_t b)
{
    size_t i = cofi__hash(a, b) & (map->size - 1);
    while (map->slots[i].used && (map->slots[i].a != a || map->slots[i].b != b))
        i = (i + 1) & (map->size - 1);
    return &map->slots[i];
}

static int grow(struct cofi__map *map)
{
    struct cofi__map larger = {.size = map->size ? map->size * 2 : 64, .used = map->used};
    larger.slots = calloc(larger.size, sizeof *larger.slots);
    if (!larger.slots)
        return COFI_ERR_NOMEM;
    for (size_t i = 0; i < map->size; i++)
        if (map->slots[i].used)
            *slot_of(&larger, map->slots[i].a, map->slots[i].b) = map->slots[i];
    free(map->slots);
    *map = larger;
    return 0;
}

uint32_t *cofi__map_get(const struct cofi__map *map, uint64_t a, uint64_t b)
{
    if (!map->size)
        return NULL;
    struct cofi__map_slot *slot = slot_of(map, a, b);
    return slot->used ? &slot->value : NULL;
}

int cofi__map_put(struct cofi__map *map, uint64_t a, uint64_t b, uint32_t value)
{
    if (map->used >= map->size / 4 * 3)
        COFI_TRY(grow(map));
    struct cofi__map_slot *slot = slot_of(map, a, b);
    if (!slot->used)
        map->used++;
    *slot = (struct cofi__map_slot){a, b, value, true};
    return 0;
}

void cofi__map_clear(struct cofi__map *map)
{
    if (map->slots)
        memset(map->slots, 0, map->size * sizeof *map->slots);
    map->used = 0;
}

void cofi__map_free(struct cofi__map *map)
{
    free(map->slots);
    *map = (struct cofi__map){0};
}
