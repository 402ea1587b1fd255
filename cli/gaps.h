/* SPDX-License-Identifier: MIT
 * Gaps, as a person wants to be told of them: the first ones where they are, all of them by reason. */
#ifndef COFI_CLI_GAPS_H
#define COFI_CLI_GAPS_H

#include <cofi/flow.h>

#include "session.h"

enum { GAPS_TOLD = 20, GAPS_REASONS = 12, GAPS_REASON_BYTES = 200 };

/* Of one stream, or summed up. All zero: none. */
struct gaps {
    uint64_t n, overflows, insns;
    uint64_t bytes, lost_bytes, ticks, lost_ticks;
    uint64_t first_ticks, last_ticks; /* of one stream */
    struct {
        char text[GAPS_REASON_BYTES];
        uint64_t n;
    } reasons[GAPS_REASONS];          /* the last one: all others */
};

/* Note an event's time, and what of it is missing. */
void gaps_time(struct gaps *gaps, const struct cofi_flow_event *event);
/* The same, and a gap; the first GAPS_TOLD of a stream are told on standard error. */
void gaps_event(struct gaps *gaps, const struct session_stream *stream, struct cofi_flow *flow,
                const struct cofi_flow_event *event);
/* Before the flow is closed. */
void gaps_end(struct gaps *gaps, const struct cofi_flow *flow);
void gaps_add(struct gaps *sum, const struct gaps *more);
/* On standard error, if there is anything to tell: how much is missing, and why. */
void gaps_tell(const struct gaps *sum, const char *command);

#endif
