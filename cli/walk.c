/* SPDX-License-Identifier: MIT
 * A stream -> its flow's batches -> one block or event at a time. */
#include <stdlib.h>

#include <cofi/flow.h>

#include "session.h"

enum { WALK_BLOCKS = 4096, WALK_EVENTS = 1024 };

struct walk {
    struct session_stream *stream;
    const struct session_visitor *visitor;
    struct cofi_flow *flow;
    struct cofi_flow_batch batch;
    const struct cofi_flow_block *blocks[WALK_BLOCKS];
    struct cofi_flow_event events[WALK_EVENTS];
};

/* Show the blocks of a batch from *block up to `until`. */
static int show_blocks(struct walk *walk, size_t *block, size_t until)
{
    int status = 0;
    while (*block < until && !status)
        status = walk->visitor->block(walk->visitor->opaque, walk->flow, walk->blocks[(*block)++]);
    return status;
}

static int show_batch(struct walk *walk)
{
    size_t block = 0;
    int status = 0;
    for (size_t i = 0; i < walk->batch.events_n && !status; i++) {
        const struct cofi_flow_event *event = &walk->events[i];
        status = show_blocks(walk, &block, event->at);
        if (!status && session_past_end(walk->stream->session, event->offset, &event->time))
            status = 1;
        if (!status)
            status = walk->visitor->event(walk->visitor->opaque, walk->flow, event);
    }
    return status ? status : show_blocks(walk, &block, walk->batch.blocks_n);
}

static int show_all(struct walk *walk)
{
    int status;
    while ((status = cofi_flow_next(walk->flow, &walk->batch)) > 0)
        if ((status = show_batch(walk)))
            break;
    return status < 0 ? status : 0;
}

int session_walk(struct session_stream *stream, const struct session_visitor *visitor)
{
    struct walk *walk = malloc(sizeof *walk);
    if (!walk)
        return COFI_ERR_NOMEM;
    walk->stream = stream;
    walk->visitor = visitor;
    walk->batch = (struct cofi_flow_batch){.blocks = walk->blocks, .blocks_max = WALK_BLOCKS,
                                           .events = walk->events, .events_max = WALK_EVENTS};
    int status = session_flow(stream, false, &walk->flow);
    if (status >= 0) {
        status = show_all(walk);
        if (visitor->end)
            visitor->end(visitor->opaque, walk->flow);
        cofi_flow_close(walk->flow);
    }
    free(walk);
    return status;
}
