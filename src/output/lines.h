/* SPDX-License-Identifier: MIT
 * Trace bytes -> writes of at most one 64-byte line each, into a circular region or a sink. */
#ifndef COFI_OUTPUT_LINES_H
#define COFI_OUTPUT_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cofi/output.h>

enum { COFI__LINE = 64, COFI__WEAK_MAX = 16 };

/* One write on its way to memory. */
struct cofi__line {
    uint64_t address; /* of bytes[first] - first: aligned to the line */
    uint8_t first, end;
    uint8_t bytes[COFI__LINE];
};

/* The tail of the output path [RTIT 2.3]. Bytes gather in a line, which leaves when it is full or when
 * something fences; with weak_lines set, up to so many lines wait and leave in another order, within
 * the bounds of [RTIT 2.3.2]. All members are the writer's own, but offset is also a register. */
struct cofi__lines {
    struct cofi_memory memory; /* write null: bytes go to the sink, without addresses */
    struct cofi_sink sink;
    uint64_t base;             /* of the region, aligned to it */
    uint64_t mask;             /* its size - 1; a multiple of 64, less 1 */
    uint64_t offset;           /* of the next byte in the region: RTIT_OFFSET */
    struct cofi__line line;    /* being filled */
    uint32_t weak_lines;       /* 0: strongly ordered; at most COFI__WEAK_MAX */
    uint64_t weak_state;       /* of the generator that picks the next line; not 0 */
    uint32_t waiting;
    struct cofi__line weak[COFI__WEAK_MAX];
};

void cofi__lines_init(struct cofi__lines *lines, struct cofi_memory memory, struct cofi_sink sink,
                      uint32_t weak_lines, uint64_t weak_seed);
/* The region and the place of the next byte, after a register write; what is gathered leaves first. */
int cofi__lines_region(struct cofi__lines *lines, uint64_t base, uint64_t mask, uint64_t offset);
/* n bytes. 0, or the error of memory or sink (those bytes are lost). */
int cofi__lines_write(struct cofi__lines *lines, const uint8_t *bytes, size_t n);
/* One byte into a line that is begun and not ended by it: true; false: nothing is done, it is for
 * cofi__lines_write. */
static inline bool cofi__lines_put(struct cofi__lines *lines, uint8_t byte)
{
    struct cofi__line *line = &lines->line;
    if (line->end == 0 || line->end >= COFI__LINE - 1)
        return false;
    line->bytes[line->end++] = byte;
    lines->offset = (lines->offset + 1) & lines->mask;
    return true;
}
/* One byte whose address has its low 8 bits forced to 0xC0 [RTIT Table 4]; offset goes on by one. */
int cofi__lines_write_c0(struct cofi__lines *lines, uint8_t byte);
/* Everything leaves, a partial line too [RTIT 2.3.2]. */
int cofi__lines_flush(struct cofi__lines *lines);

#endif
