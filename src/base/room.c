/* SPDX-License-Identifier: MIT
 * See room.h. */
#include "base/room.h"

#include <stdlib.h>
#include <sys/mman.h>

struct cofi__room_page {
    _Alignas(64) struct cofi__room_page *next;
};

void *cofi__huge_take(size_t n)
{
    void *at = aligned_alloc(COFI__HUGE_BYTES, n);
    if (at)
        madvise(at, n, MADV_HUGEPAGE); /* refused: it is memory all the same */
    return at;
}

static int more(struct cofi__room *room)
{
    struct cofi__room_page *page = cofi__huge_take(COFI__HUGE_BYTES);
    if (!page)
        return -1;
    page->next = room->pages;
    room->pages = page;
    room->at = (uint8_t *)(page + 1);
    room->end = (uint8_t *)page + COFI__HUGE_BYTES;
    return 0;
}

void *cofi__room_take(struct cofi__room *room, size_t n)
{
    n = (n + 63) & ~(size_t)63;
    if ((size_t)(room->end - room->at) < n && more(room))
        return NULL;
    void *at = room->at;
    room->at += n;
    return at;
}

void cofi__room_free(struct cofi__room *room)
{
    while (room->pages) {
        struct cofi__room_page *page = room->pages;
        room->pages = page->next;
        free(page);
    }
    *room = (struct cofi__room){0};
}
