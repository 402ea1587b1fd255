/* SPDX-License-Identifier: MIT
 * All streams of a recording as they are shown in the order of time, a part at a time: see session_walk_by_time. */
#ifndef COFI_CLI_MERGE_H
#define COFI_CLI_MERGE_H

#include "session.h"

struct merge;

/* From a time (ns) on, or a little before it; 0: all. 0 or an error, said. Inverse: merge_close, which
 * may be given null. */
int merge_open(struct merge **merge, struct session *session, uint64_t from_ns);
void merge_close(struct merge *merge);
/* Show what comes next, up to where another stream goes on or the visitor pauses. 1; 0: there is no
 * more; or an error. */
int merge_step(struct merge *merge, const struct session_visitor *visitor);
/* Whether a thread that ended at a time (ns) runs no more: all that was so early has been shown, and no
 * processor has it now. */
bool merge_is_past(const struct merge *merge, uint64_t until_ns, int32_t tid);

#endif
