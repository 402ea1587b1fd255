/* SPDX-License-Identifier: MIT
 * A stream -> its flow's batches -> one event, or the blocks between two, at a time. */
#include "walk.h"

#include <stdlib.h>
#include <string.h>

#include <cofi/flow.h>

/* Arrays for the walk of its own flow. */
enum { WALK_BLOCKS = 4096, WALK_EVENTS = 1024 };

struct walk {
    struct session_stream *stream;
    struct cofi_flow *flow;
    struct cofi_flow_batch batch;
    size_t block, event;  /* of the batch: the next ones to be shown */
    uint64_t ticks;       /* of the last item that has a time */
    struct cofi_flow_stamp told; /* to the visitor */
    bool ended;
    int failed;           /* why it ended there: an error, or 0 */
    int side;             /* of --from and --to, of what is trimmed: see session_side */
    bool turned;          /* somebody else ran in what was left out */
    const struct cofi_flow_block *blocks[WALK_BLOCKS];
    struct cofi_flow_stamp times[WALK_BLOCKS];
    struct cofi_flow_event events[WALK_EVENTS];
};

int walk_open(struct walk **out, struct session_stream *stream, bool timed, bool blocks)
{
    struct walk *walk = malloc(sizeof *walk);
    if (!walk)
        return COFI_ERR_NOMEM;
    walk->stream = stream;
    walk->block = walk->event = 0;
    walk->ticks = 0;
    walk->told = (struct cofi_flow_stamp){0};
    walk->ended = walk->turned = false;
    walk->failed = 0;
    walk->side = 0;
    walk->batch = (struct cofi_flow_batch){.blocks = timed || blocks ? walk->blocks : NULL, .blocks_max = WALK_BLOCKS,
                                           .times = timed ? walk->times : NULL, .events = walk->events,
                                           .events_max = WALK_EVENTS};
    int status = session_flow(stream, timed, &walk->flow);
    if (status < 0) {
        free(walk);
        return status;
    }
    *out = walk;
    return 0;
}

void walk_close(struct walk *walk)
{
    if (walk)
        cofi_flow_close(walk->flow);
    free(walk);
}

struct cofi_flow *walk_flow(struct walk *walk) { return walk->flow; }

/* Have an item at hand. 1, 0 at the end, or an error. */
static int fill(struct walk *walk)
{
    while (!walk->ended && walk->block == walk->batch.blocks_n && walk->event == walk->batch.events_n) {
        int status = cofi_flow_next(walk->flow, &walk->batch);
        walk->block = walk->event = 0;
        walk->ended = status <= 0;
        walk->failed = status < 0 ? status : walk->ended ? session_ended(walk->stream) : 0;
    }
    return walk->ended ? walk->failed : 1;
}

static bool event_is_next(const struct walk *walk)
{
    return walk->event < walk->batch.events_n && walk->batch.events[walk->event].at <= walk->block;
}

/* The first time that is told from the next item on, as far as it is at hand; 0: none. */
static uint64_t first_time(const struct walk *walk)
{
    const struct cofi_flow_batch *batch = &walk->batch;
    uint64_t ticks = batch->times && walk->block < batch->blocks_n ? batch->times[walk->block].ticks : 0;
    for (size_t i = walk->event; i < batch->events_n && batch->events[i].at <= walk->block; i++)
        if (batch->events[i].time.known)
            return batch->events[i].time.ticks;
    return ticks;
}

/* What stands before the first time that a stream tells was shortly before it. */
uint64_t walk_next(struct walk *walk)
{
    if (fill(walk) <= 0)
        return walk->ticks;
    uint64_t ticks = 0;
    if (!walk->ticks)
        ticks = first_time(walk);
    else if (event_is_next(walk))
        ticks = walk->events[walk->event].time.known ? walk->events[walk->event].time.ticks : 0;
    else if (walk->batch.times)
        ticks = walk->times[walk->block].ticks;
    return ticks > walk->ticks ? walk->ticks = ticks : walk->ticks;
}

/* Where an item lies that has a time (ticks), or none (0) of its own. */
static int side_of(struct walk *walk, const struct session_visitor *visitor, uint64_t ticks)
{
    const struct session *session = walk->stream->session;
    if (ticks && visitor->trim && session_by_time(session))
        walk->side = session_side(session, ticks);
    return walk->side;
}

/* A processor's stream: that another thread runs, once something is shown of it. */
static int tell_turn(struct walk *walk, const struct session_visitor *visitor)
{
    if (!walk->turned || walk->side || !visitor->turn)
        return 0;
    walk->turned = false;
    return visitor->turn(visitor->opaque, walk->flow);
}

static int show_event(struct walk *walk, const struct session_visitor *visitor)
{
    const struct cofi_flow_event *event = &walk->batch.events[walk->event++];
    if (session_past_end(walk->stream->session, event->offset, &event->time))
        return 1;
    walk->turned |= event->time.known && session_turn(walk->stream, event->time.ns);
    int side = side_of(walk, visitor, event->time.known ? event->time.ticks : 0), status = tell_turn(walk, visitor);
    if (status || side || !session_shows(walk->stream))
        return status;
    return visitor->event(visitor->opaque, walk->flow, event);
}

static void tell_time(struct walk *walk, const struct session_visitor *visitor, struct cofi_flow_stamp stamp)
{
    if (stamp.ticks == walk->told.ticks && stamp.interpolated == walk->told.interpolated)
        return;
    walk->told = stamp;
    visitor->time(visitor->opaque, stamp);
}

/* How many blocks from here on ran before anything else happened, and where times are told, at one time. */
static size_t blocks_at_once(const struct walk *walk)
{
    const struct cofi_flow_batch *batch = &walk->batch;
    size_t end = walk->event < batch->events_n ? batch->events[walk->event].at : batch->blocks_n, at = walk->block + 1;
    if (!batch->times)
        return end - walk->block;
    while (at < end && !memcmp(&batch->times[at], &batch->times[walk->block], sizeof *batch->times))
        at++;
    return at - walk->block;
}

static int show_blocks(struct walk *walk, const struct session_visitor *visitor)
{
    size_t first = walk->block, n = blocks_at_once(walk);
    walk->block += n;
    int side = side_of(walk, visitor, walk->batch.times ? walk->batch.times[first].ticks : 0),
        status = tell_turn(walk, visitor);
    if (status || side || !visitor->blocks || !session_shows(walk->stream))
        return status;
    if (visitor->time)
        tell_time(walk, visitor, walk->batch.times[first]);
    return visitor->blocks(visitor->opaque, walk->flow, walk->batch.blocks + first, n);
}

int walk_show(struct walk *walk, const struct session_visitor *visitor, uint64_t ticks)
{
    int more;
    while ((more = fill(walk)) > 0) {
        if (ticks != UINT64_MAX && walk_next(walk) > ticks)
            return 1;
        int status = event_is_next(walk) ? show_event(walk, visitor) : show_blocks(walk, visitor);
        if (status)
            return status < 0 ? status : status == SESSION_PAUSE ? WALK_PAUSED : WALK_STOPPED;
    }
    if (walk->side < 0)
        session_none(walk->stream);
    return more;
}

/* ---- a stream on its own ---- */

struct split {
    struct walk walk; /* its flow is the one that may be asked; its own batch is not used */
    const struct session_visitor *visitor;
};

/* See cofi_flow_visit. */
static int show_batch(void *opaque, struct cofi_flow *flow, const struct cofi_flow_batch *batch)
{
    struct split *split = opaque;
    struct walk *walk = &split->walk;
    walk->flow = flow;
    walk->batch = *batch;
    walk->block = walk->event = 0;
    if (!batch->blocks_n && !batch->events_n && split->visitor->end)
        split->visitor->end(split->visitor->opaque, flow);
    while (walk->block < batch->blocks_n || walk->event < batch->events_n) {
        int status = event_is_next(walk) ? show_event(walk, split->visitor) : show_blocks(walk, split->visitor);
        if (status)
            return status;
    }
    return 0;
}

static int walk_split(struct session_stream *stream, const struct session_visitor *visitor)
{
    struct split *split = malloc(sizeof *split);
    if (!split)
        return COFI_ERR_NOMEM;
    split->walk.stream = stream;
    split->walk.told = (struct cofi_flow_stamp){0};
    split->walk.side = 0;
    split->walk.turned = false;
    split->visitor = visitor;
    int status = session_split(stream, visitor, show_batch, split);
    if (status != SESSION_WHOLE && split->walk.side < 0)
        session_none(stream);
    free(split);
    if (!status)
        status = session_ended(stream);
    return status > 0 ? 0 : status;
}

int session_walk(struct session_stream *stream, const struct session_visitor *visitor)
{
    struct walk *walk;
    int status = walk_split(stream, visitor);
    if (status != SESSION_WHOLE)
        return status;
    status = walk_open(&walk, stream, visitor->time || (visitor->trim && session_by_time(stream->session)),
                       visitor->blocks);
    if (status < 0)
        return status;
    status = walk_show(walk, visitor, UINT64_MAX);
    if (visitor->end)
        visitor->end(visitor->opaque, walk->flow);
    walk_close(walk);
    return status < 0 ? status : 0;
}
