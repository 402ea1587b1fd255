/* SPDX-License-Identifier: MIT
 * What one thread of a recording did, piece by piece, as a diff asks for it. */
#ifndef COFI_CLI_DIFF_FEED_H
#define COFI_CLI_DIFF_FEED_H

#include <cofi/diff.h>

#include "merge.h"
#include "threads.h"
#include "walk.h"

struct diff_feed {
    struct cofi_diff *diff;
    unsigned run;
    struct session *session;
    const struct thread *thread;
    size_t next;                   /* of the thread's streams */
    struct session_stream stream;
    struct walk *walk;             /* of a stream of its own; null: none is open */
    struct merge *merge;           /* of processors' streams */
    const struct session_stream *processor; /* that is shown now */
    struct cofi_view *view;        /* for lines; null: not asked for yet */
    uint64_t now_ns;               /* the last time that was told */
};

/* Show more. 1; 0: there is no more; or an error, said. */
int diff_feed_more(struct diff_feed *feed);
void diff_feed_end(struct diff_feed *feed);
/* What lies at an address, about as of now; line only where it is wanted. All null and 0 where nobody knows. */
void diff_feed_symbol(struct diff_feed *feed, uint64_t ip, bool want_line, struct cofi_symbol *symbol);

#endif
