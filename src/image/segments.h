/* SPDX-License-Identifier: MIT
 * What is where: disjoint ranges of addresses, in their order. */
#ifndef COFI_IMAGE_SEGMENTS_H
#define COFI_IMAGE_SEGMENTS_H

#include <stddef.h>
#include <stdint.h>

struct cofi__source;

struct cofi__segment {
    uint64_t start, end, pgoff;
    struct cofi__source *source;
};

/* Segments that follow each other; never none. */
struct cofi__leaf {
    uint64_t end; /* of the last one */
    size_t n;
    struct cofi__segment *rows;
};

/* Leaves in address order. They are small, so that one segment more moves few others, however many there are. */
struct cofi__segments {
    struct cofi__leaf *leaves;
    size_t n, room;
};

/* Where a segment stands; it holds until something is put. */
struct cofi__place {
    size_t leaf, row;
};

/* The place of the first segment that ends behind addr. */
struct cofi__place cofi__segments_from(const struct cofi__segments *segments, uint64_t addr);
/* The segment at a place, which becomes that of the next one; null: no more. */
const struct cofi__segment *cofi__segments_next(const struct cofi__segments *segments, struct cofi__place *place);
/* The segment that holds addr, or null. */
const struct cofi__segment *cofi__segments_find(const struct cofi__segments *segments, uint64_t addr);
/* Put a segment, which is not empty, over what is there; source null: nothing is there any more. 0 or COFI_ERR_NOMEM.
 * Cost: the logarithm of how many there are, and how many it covers. */
int cofi__segments_put(struct cofi__segments *segments, const struct cofi__segment *segment);
void cofi__segments_free(struct cofi__segments *segments);

#endif
