/* SPDX-License-Identifier: MIT
 * A flow's batches, handed out item by item in order. */
#ifndef COFI_CLI_WALK_H
#define COFI_CLI_WALK_H

#include <cofi/flow.h>

enum { WALK_BLOCKS = 4096, WALK_EVENTS = 1024 };

struct walk {
    struct cofi_flow *flow;
    struct cofi_flow_batch batch;
    size_t block, event;
    const struct cofi_flow_block *blocks[WALK_BLOCKS];
    struct cofi_flow_event events[WALK_EVENTS];
};

/* Large: make it static or on the heap. Takes the flow over. */
void walk_begin(struct walk *walk, struct cofi_flow *flow);
/* 1: *block or *event is the next item, the other is null; 0: the end; else an error (enum cofi_status). */
int walk_next(struct walk *walk, const struct cofi_flow_block **block, const struct cofi_flow_event **event);
void walk_end(struct walk *walk);

#endif
