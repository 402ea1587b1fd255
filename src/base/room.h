/* SPDX-License-Identifier: MIT
 * Memory that is let go at once, in huge pages. */
#ifndef COFI_BASE_ROOM_H
#define COFI_BASE_ROOM_H

#include <stddef.h>
#include <stdint.h>

/* What is filled soon goes into huge pages: one costs 60 us, of which the kernel clears 2 MB; a page of
 * 4 KB costs a fault of 2 to 3 us (in a virtual machine), so 25 of them cost as much. */
enum { COFI__HUGE_BYTES = 1 << 21 };

/* n bytes, a multiple of COFI__HUGE_BYTES, in huge pages where the kernel has some; to be freed by
 * free(). Null: out of memory. */
void *cofi__huge_take(size_t n);

struct cofi__room_page;
struct cofi__room {
    struct cofi__room_page *pages;
    uint8_t *at, *end; /* free in the last page */
};

/* n bytes, at most COFI__ROOM_MOST, 64-aligned, whatever is in them. Null: out of memory. */
enum { COFI__ROOM_MOST = COFI__HUGE_BYTES / 2 };
void *cofi__room_take(struct cofi__room *room, size_t n);
/* All that was taken; the room can be used again. */
void cofi__room_free(struct cofi__room *room);

#endif
