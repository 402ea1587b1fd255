/* SPDX-License-Identifier: MIT
 * Code that ran, by address space and page, as it was last recorded. */
#include "host/qemu/pages.h"

#include <stdlib.h>
#include <string.h>

#include <cofi/error.h>

#include "base/array.h"

int32_t cofi__pages_space(struct cofi__pages *pages, uint64_t cr3, bool *is_new)
{
    const uint32_t *known = cofi__map_get(&pages->spaces, cr3, 0);
    *is_new = !known;
    if (known)
        return (int32_t)*known;
    if (cofi__map_put(&pages->spaces, cr3, 0, pages->spaces_n + 1) < 0)
        return 0;
    return (int32_t)++pages->spaces_n;
}

static struct cofi__page *add(struct cofi__pages *pages, int32_t space, uint64_t address)
{
    struct cofi__page *page;
    if (cofi__array_grow(&pages->rows, &pages->room, pages->n, sizeof *pages->rows) < 0 ||
        !(page = calloc(1, sizeof *page)))
        return NULL;
    if (cofi__map_put(&pages->index, (uint32_t)space, address, (uint32_t)pages->n) < 0) {
        free(page);
        return NULL;
    }
    page->space = space;
    page->address = address;
    return pages->rows[pages->n++] = page;
}

int cofi__pages_look(struct cofi__pages *pages, int32_t space, uint64_t address, const uint8_t *bytes, size_t n,
                     struct cofi__page **page)
{
    uint64_t start = address & ~(uint64_t)(PAGE_BYTES - 1);
    const uint32_t *row = cofi__map_get(&pages->index, (uint32_t)space, start);
    *page = row ? pages->rows[*row] : add(pages, space, start);
    if (!*page)
        return COFI_ERR_NOMEM;
    if (!row)
        return PAGE_NEW;
    if (!memcmp((*page)->bytes + (address - start), bytes, n))
        return PAGE_SAME;
    pages->version++;
    return PAGE_CHANGED;
}

void cofi__pages_free(struct cofi__pages *pages)
{
    for (size_t i = 0; i < pages->n; i++)
        free(pages->rows[i]);
    free(pages->rows);
    cofi__map_free(&pages->index);
    cofi__map_free(&pages->spaces);
    *pages = (struct cofi__pages){0};
}
