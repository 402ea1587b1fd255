/* SPDX-License-Identifier: MIT
 * Batches of blocks and events -> one item at a time. */
#include "walk.h"

void walk_begin(struct walk *walk, struct cofi_flow *flow)
{
    walk->flow = flow;
    walk->block = walk->event = 0;
    walk->batch = (struct cofi_flow_batch){.blocks = walk->blocks, .blocks_max = WALK_BLOCKS,
                                           .events = walk->events, .events_max = WALK_EVENTS};
}

int walk_next(struct walk *walk, const struct cofi_flow_block **block, const struct cofi_flow_event **event)
{
    struct cofi_flow_batch *batch = &walk->batch;
    *block = NULL;
    *event = NULL;
    while (walk->block == batch->blocks_n && walk->event == batch->events_n) {
        int status = cofi_flow_next(walk->flow, batch);
        if (status <= 0)
            return status;
        walk->block = walk->event = 0;
    }
    if (walk->event < batch->events_n && batch->events[walk->event].at <= walk->block)
        *event = &batch->events[walk->event++];
    else
        *block = batch->blocks[walk->block++];
    return 1;
}

void walk_end(struct walk *walk) { cofi_flow_close(walk->flow); }
