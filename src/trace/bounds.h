/* SPDX-License-Identifier: MIT
 * Between two full times of a stream: which address spaces it came to, and when. */
#ifndef COFI_TRACE_BOUNDS_H
#define COFI_TRACE_BOUNDS_H

#include "trace/reader.h"

/* A PIP tells another address space than the one before. */
struct cofi__cr3_change {
    uint64_t offset;
    uint64_t key; /* of its CR3, the same for both halves of page table isolation */
};

/* From one full time to the next: ticks and ns of the recording's clock. to: UINT64_MAX at the stream's end. */
struct cofi__interval {
    uint64_t offset;      /* of the packet that tells the time */
    uint64_t from, to, from_ns, to_ns;
    uint64_t key;         /* the space at its beginning; COFI__NO_KEY: not known */
    size_t first, n;      /* its changes */
};
#define COFI__NO_KEY UINT64_MAX

/* What was read of a stream. */
struct cofi__spaces {
    struct cofi__vector intervals; /* struct cofi__interval: those with changes of spaces or of code, or
                                    * another space than before */
    struct cofi__vector changes;   /* struct cofi__cr3_change */
};

/* align.c: when each change of spaces was at the earliest, by the switches of that processor. Appends to bounds (struct
 * cofi_time_bound), in the order of offsets, the beginnings of the intervals among them. 0 or COFI_ERR_NOMEM. */
int cofi__align_spaces(struct cofi_recording *recording, int32_t cpu, const struct cofi__spaces *spaces,
                       struct cofi__vector *bounds);

#endif
