/* SPDX-License-Identifier: MIT
 * Arrays that grow, and memory that lives as long as a recording. */
#include <stdlib.h>
#include <string.h>

#include "trace/reader.h"

struct cofi__keep_block {
    struct cofi__keep_block *next;
    size_t n, room;
    uint8_t bytes[];
};

enum { BLOCK = 1 << 16 };

void *cofi__keep_alloc(struct cofi__keep *keep, size_t n)
{
    struct cofi__keep_block *block = keep->blocks;
    n = (n + 7) & ~(size_t)7;
    if (!block || block->room - block->n < n) {
        size_t room = n > BLOCK ? n : BLOCK;
        block = malloc(sizeof *block + room);
        if (!block) {
            keep->failed = true;
            return NULL;
        }
        *block = (struct cofi__keep_block){keep->blocks, 0, room};
        keep->blocks = block;
    }
    void *result = block->bytes + block->n;
    block->n += n;
    return result;
}

char *cofi__keep_string(struct cofi__keep *keep, const uint8_t *bytes, size_t n)
{
    n = strnlen((const char *)bytes, n);
    char *text = cofi__keep_alloc(keep, n + 1);
    if (!text)
        return NULL;
    memcpy(text, bytes, n);
    text[n] = 0;
    return text;
}

void cofi__keep_free(struct cofi__keep *keep)
{
    while (keep->blocks) {
        struct cofi__keep_block *block = keep->blocks;
        keep->blocks = block->next;
        free(block);
    }
}

void *cofi__vector_push(struct cofi__vector *array)
{
    if (array->n == array->room) {
        size_t room = array->room ? array->room * 2 : 8;
        void *items = array->failed ? NULL : realloc(array->items, room * array->item_bytes);
        if (!items) {
            array->failed = true;
            return NULL;
        }
        array->items = items;
        array->room = room;
    }
    uint8_t *item = (uint8_t *)array->items + array->n++ * array->item_bytes;
    memset(item, 0, array->item_bytes);
    return item;
}
