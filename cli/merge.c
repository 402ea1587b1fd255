/* SPDX-License-Identifier: MIT
 * All streams of a recording -> their items in the order of time. */
#include <stdlib.h>

#include "walk.h"

/* A stream on its way; the lane with the earliest item is shown up to where another one has an earlier. */
struct lane {
    struct session_stream stream;
    struct walk *walk; /* null: it is at its end */
};

struct merge {
    struct lane *lanes;
    size_t n;
};

static void close_lane(struct lane *lane, const struct session_visitor *visitor)
{
    if (visitor->stream)
        visitor->stream(visitor->opaque, &lane->stream);
    if (visitor->end)
        visitor->end(visitor->opaque, walk_flow(lane->walk));
    walk_close(lane->walk);
    lane->walk = NULL;
}

/* The lane whose next item is first, and when the first one of the others is. Equal times: the first stream. */
static struct lane *pick(const struct merge *merge, uint64_t *until)
{
    struct lane *first = NULL;
    uint64_t at = 0;
    *until = UINT64_MAX;
    for (size_t i = 0; i < merge->n; i++) {
        struct lane *lane = &merge->lanes[i];
        if (!lane->walk)
            continue;
        uint64_t next = walk_next(lane->walk);
        if (!first || next < at) {
            *until = first && at < *until ? at : *until;
            first = lane;
            at = next;
        } else if (next < *until) {
            *until = next;
        }
    }
    return first;
}

static int show(struct merge *merge, const struct session_visitor *visitor)
{
    struct lane *lane;
    uint64_t until;
    while ((lane = pick(merge, &until))) {
        int status = visitor->stream ? visitor->stream(visitor->opaque, &lane->stream) : 0;
        if (!status)
            status = walk_show(lane->walk, visitor, until);
        if (status < 0)
            return status;
        if (!status || status == WALK_STOPPED)
            close_lane(lane, visitor);
    }
    return 0;
}

int session_walk_by_time(struct session *session, const struct session_visitor *visitor)
{
    struct merge merge = {.n = session_streams(session)};
    int status = 0;
    merge.lanes = calloc(merge.n ? merge.n : 1, sizeof *merge.lanes);
    if (!merge.lanes)
        return COFI_ERR_NOMEM;
    for (size_t i = 0; i < merge.n && status >= 0; i++) {
        session_stream(session, i, &merge.lanes[i].stream);
        status = walk_open(&merge.lanes[i].walk, &merge.lanes[i].stream, true, true);
    }
    if (status >= 0)
        status = show(&merge, visitor);
    for (size_t i = 0; i < merge.n; i++)
        walk_close(merge.lanes[i].walk);
    free(merge.lanes);
    return status < 0 ? status : 0;
}
