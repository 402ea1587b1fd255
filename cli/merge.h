/* SPDX-License-Identifier: MIT
 * All streams of a recording as they are shown in the order of time, a part at a time: see session_walk_by_time. */
#ifndef COFI_CLI_MERGE_H
#define COFI_CLI_MERGE_H

#include "session.h"

struct merge;

/* 0 or an error, said. Inverse: merge_close, which may be given null. */
int merge_open(struct merge **merge, struct session *session);
void merge_close(struct merge *merge);
/* Show what comes next, up to where another stream goes on or the visitor pauses. 1; 0: there is no more; or an error. */
int merge_step(struct merge *merge, const struct session_visitor *visitor);

#endif
