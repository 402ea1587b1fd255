/* SPDX-License-Identifier: MIT
 * One stream's flow as it is shown: its items one after another, each at a time. */
#ifndef COFI_CLI_WALK_H
#define COFI_CLI_WALK_H

#include "session.h"

struct walk;

/* Open the flow of a stream, which must outlive the walk. timed: each block has a time; else without
 * blocks they are only counted. 0 or an error, said. */
int walk_open(struct walk **walk, struct session_stream *stream, bool timed, bool blocks);
void walk_close(struct walk *walk);
struct cofi_flow *walk_flow(struct walk *walk);
/* Show items up to and with a time; UINT64_MAX: all. 1: there are more, 0: none, or that of the visitor that is not 0
 * (STOPPED for 1; PAUSED, behind which it may be called again, for SESSION_PAUSE), or an error. */
enum { WALK_STOPPED = 2, WALK_PAUSED };
int walk_show(struct walk *walk, const struct session_visitor *visitor, uint64_t ticks);
/* When the next item was. 0 before the first time is known. */
uint64_t walk_next(struct walk *walk);

#endif
