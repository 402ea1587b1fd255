/* SPDX-License-Identifier: MIT
 * What was decoded against what ran. */
#ifndef COFI_CLI_COMPARE_H
#define COFI_CLI_COMPARE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cofi/flow.h>

#include "truth.h"
#include "writer.h"

/* One thread's comparison. Begins with only `truth` and `out` set; compare_end frees what it took. */
struct comparison {
    struct writer *out;
    const struct truth_thread *truth; /* null: nothing to compare with */
    uint64_t at;                      /* of the truth: how far it agreed */
    uint64_t optional;                /* of the truth's: the next not yet passed */
    uint64_t hidden;                  /* of the truth: what overflows hid */
    uint64_t after_stop;              /* of the truth: what ran when TraceStop had ended the trace */
    bool differs;
    bool stopped;                     /* by TraceStop, and not enabled again */
    bool astray;                      /* an overflow came: where the truth goes on is to be found */
    uint64_t *segment;                /* decoded since then */
    size_t segment_n, segment_room;
};

/* Each in the order of the flow; offset: in the stream, for messages. A difference is printed, the first only. */
void compare_block(struct comparison *c, const struct cofi_flow_block *block, uint64_t offset);
/* What follows must be in the truth, in one piece, somewhere behind. */
void compare_overflow(struct comparison *c, uint64_t offset);
/* TraceStop: where no block follows, what else ran is not in the trace. */
void compare_stop(struct comparison *c);
void compare_end(struct comparison *c, uint64_t offset);

#endif
