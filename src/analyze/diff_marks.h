/* SPDX-License-Identifier: MIT
 * A run's steps since a parting -> its marks: the places at which it may be together with the other run
 * again, in order. */
#ifndef COFI_ANALYZE_DIFF_MARKS_H
#define COFI_ANALYZE_DIFF_MARKS_H

#include "analyze/diff.h"

enum { DIFF_MARKS = 1 << 16 /* of each run at a time */ };

/* A step that may be where they are together again. */
struct diff_mark {
    uint64_t place;
    int32_t above;     /* frames that were left since the parting */
    int32_t step;      /* of those that wait; -1: the last that both did */
    uint32_t distance; /* marks before it since the parting */
    bool returned;     /* the first with so many frames left */
};

/* Which steps are marks. */
enum diff_depths {
    IN_FRAMES, /* those of the function that they parted in, or of one that it returns to; of calls:
                * those that these make */
    ANY_DEPTH, /* all up to a gap */
    PAST_GAPS  /* all: nothing is known of the depth behind a gap */
};

struct diff_marks {
    struct diff_run *run;
    struct diff_mark *rows; /* up to DIFF_MARKS */
    size_t room;
    size_t n, scanned;      /* marks; steps looked at or passed over */
    uint32_t distance;
    enum diff_depths depths;
    bool gap;               /* there is one behind these: no more is known of depths */
    uint32_t base, least;   /* depths: at the parting, the least since */
};

/* Without marks, but the last that both did if those are of frames. 0 or COFI_ERR_NOMEM. */
int cofi__diff_marks_begin(struct diff_marks *marks, struct diff_run *run, enum diff_depths depths);
/* The marks, and the steps they are of, are done with. What comes next is looked at. */
void cofi__diff_marks_forget(struct diff_marks *marks);

/* Look at steps until there is a mark of this number, or so many steps were looked at. 1; 0: there is
 * none; or an error. */
int cofi__diff_marks_find(struct cofi_diff *diff, struct diff_marks *marks, size_t i, size_t steps);

static inline bool cofi__diff_same_mark(const struct diff_mark *a, const struct diff_mark *b)
{
    return a->place == b->place && a->above == b->above;
}

#endif
