/* SPDX-License-Identifier: MIT
 * All streams of a recording -> their items in the order of time. */
#include <stdlib.h>

#include "merge.h"
#include "walk.h"

/* Streams beyond so many, as samples and snapshots are, are closed again until it is their time. */
enum { OPEN_MOST = 64 };

/* A stream on its way; the lane with the earliest item is shown up to where another one has an earlier. */
struct lane {
    struct session_stream stream;
    struct walk *walk; /* null: it is not open */
    uint64_t at;       /* when its next item was */
};

struct merge {
    struct lane *lanes;
    size_t lanes_n;
    size_t *heap, n; /* lanes that are not at their end: none is before that at half its place */
};

/* Equal times: the first stream. */
static bool before(const struct merge *merge, size_t a, size_t b)
{
    const struct lane *x = &merge->lanes[merge->heap[a]], *y = &merge->lanes[merge->heap[b]];
    return x->at != y->at ? x->at < y->at : x < y;
}

static size_t first_of(const struct merge *merge, size_t i, size_t child)
{
    return child < merge->n && before(merge, child, i) ? child : i;
}

static void sink(struct merge *merge, size_t i)
{
    for (;;) {
        size_t first = first_of(merge, first_of(merge, i, 2 * i + 1), 2 * i + 2), lane = merge->heap[i];
        if (first == i)
            return;
        merge->heap[i] = merge->heap[first];
        merge->heap[first] = lane;
        i = first;
    }
}

/* When the first item of the lanes behind the first one is. */
static uint64_t next_time(const struct merge *merge)
{
    uint64_t at = merge->n > 1 ? merge->lanes[merge->heap[1]].at : UINT64_MAX;
    uint64_t other = merge->n > 2 ? merge->lanes[merge->heap[2]].at : UINT64_MAX;
    return at < other ? at : other;
}

static int open_lane(struct lane *lane)
{
    return lane->walk ? 0 : walk_open(&lane->walk, &lane->stream, true, true);
}

static void close_lane(struct lane *lane)
{
    walk_close(lane->walk);
    lane->walk = NULL;
}

static void begin_stream(struct lane *lane, struct session *session, size_t i, uint64_t from_ns)
{
    session_stream(session, i, &lane->stream);
    if (!from_ns)
        return;
    lane->stream.start = session_seek(&lane->stream, from_ns);
    session_turn(&lane->stream, from_ns);
}

static int open_all(struct merge *merge, struct session *session, uint64_t from_ns)
{
    for (size_t i = 0; i < merge->lanes_n; i++) {
        struct lane *lane = &merge->lanes[i];
        begin_stream(lane, session, i, from_ns);
        int status = open_lane(lane);
        if (status < 0)
            return status;
        lane->at = walk_next(lane->walk);
        if (i >= OPEN_MOST) {
            close_lane(lane);
            begin_stream(lane, session, i, from_ns);
        }
        merge->heap[i] = i;
    }
    merge->n = merge->lanes_n;
    for (size_t i = merge->n / 2; i--;)
        sink(merge, i);
    return 0;
}

static void end_lane(struct merge *merge, struct lane *lane, const struct session_visitor *visitor)
{
    if (visitor->stream)
        visitor->stream(visitor->opaque, &lane->stream);
    if (visitor->end)
        visitor->end(visitor->opaque, walk_flow(lane->walk));
    close_lane(lane);
    merge->heap[0] = merge->heap[--merge->n];
}

int merge_step(struct merge *merge, const struct session_visitor *visitor)
{
    if (!merge->n)
        return 0;
    struct lane *lane = &merge->lanes[merge->heap[0]];
    int status = open_lane(lane);
    if (status >= 0 && visitor->stream)
        status = visitor->stream(visitor->opaque, &lane->stream);
    if (!status)
        status = walk_show(lane->walk, visitor, next_time(merge));
    if (status < 0)
        return status;
    if (!status || status == WALK_STOPPED)
        end_lane(merge, lane, visitor);
    else
        lane->at = walk_next(lane->walk);
    sink(merge, 0);
    return 1;
}

bool merge_is_past(const struct merge *merge, uint64_t until_ns, int32_t tid)
{
    const struct cofi_time_conv *conv = merge->n ? session_time_conv(merge->lanes->stream.session) : NULL;
    if (conv && (!conv->mult || cofi_time_ns(conv, merge->lanes[merge->heap[0]].at) <= until_ns))
        return false;
    for (size_t i = 0; i < merge->lanes_n; i++)
        if (merge->lanes[i].stream.tid == tid)
            return false;
    return true;
}

int merge_open(struct merge **out, struct session *session, uint64_t from_ns)
{
    struct merge *merge = calloc(1, sizeof *merge);
    if (!merge)
        return COFI_ERR_NOMEM;
    merge->lanes_n = session_streams(session);
    merge->lanes = calloc(merge->lanes_n + 1, sizeof *merge->lanes);
    merge->heap = calloc(merge->lanes_n + 1, sizeof *merge->heap);
    int status = merge->lanes && merge->heap ? open_all(merge, session, from_ns) : COFI_ERR_NOMEM;
    if (status < 0) {
        merge_close(merge);
        return status;
    }
    *out = merge;
    return 0;
}

void merge_close(struct merge *merge)
{
    if (!merge)
        return;
    for (size_t i = 0; merge->lanes && i < merge->lanes_n; i++)
        close_lane(&merge->lanes[i]);
    free(merge->lanes);
    free(merge->heap);
    free(merge);
}

int session_walk_by_time(struct session *session, const struct session_visitor *visitor)
{
    struct merge *merge;
    int status = merge_open(&merge, session, 0);
    if (status < 0)
        return status;
    do
        status = merge_step(merge, visitor);
    while (status > 0);
    merge_close(merge);
    return status;
}
