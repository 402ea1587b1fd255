/* SPDX-License-Identifier: MIT
 * Code that ran, by address space and page, as it was last recorded. */
#ifndef COFI_HOST_QEMU_PAGES_H
#define COFI_HOST_QEMU_PAGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/map.h"

enum { PAGE_BYTES = 4096, SPACE_KERNEL = -1 };

struct cofi__page {
    int32_t space;
    uint64_t address;
    uint8_t bytes[PAGE_BYTES];
};

/* Zero-initialised is empty. */
struct cofi__pages {
    struct cofi__map index;   /* (space, address) -> row */
    struct cofi__page **rows;
    size_t n, room;
    uint32_t version;         /* how often a page was other than recorded */
    struct cofi__map spaces;  /* CR3 -> number, from 1 */
    uint32_t spaces_n;
};

enum cofi__page_state { PAGE_SAME, PAGE_NEW, PAGE_CHANGED };

/* The number of a CR3's address space; *is_new: it had none. 0: no memory. */
int32_t cofi__pages_space(struct cofi__pages *pages, uint64_t cr3, bool *is_new);
/* In which of them an address is looked up: the kernel's half is the same in all. */
static inline int32_t cofi__pages_space_of(int32_t space, uint64_t address)
{
    return address >> 63 ? SPACE_KERNEL : space;
}

/* Whether [address, address + n), within a page, holds these bytes as recorded; else *page is to be
 * filled and recorded, which cofi__pages_get made if it is new. COFI_ERR_NOMEM. */
int cofi__pages_look(struct cofi__pages *pages, int32_t space, uint64_t address, const uint8_t *bytes, size_t n,
                     struct cofi__page **page);
void cofi__pages_free(struct cofi__pages *pages);

#endif
