/* SPDX-License-Identifier: MIT
 * The state of a call tree. */
#ifndef COFI_ANALYZE_CALLS_H
#define COFI_ANALYZE_CALLS_H

#include <cofi/analyze.h>

#include "analyze/places.h"
#include "base/index.h"
#include "base/strings.h"

/* A call that has not returned. Tail calls share the return address of the frame below. */
struct frame {
    uint64_t ret;
    uint64_t start; /* of the node's function */
    uint32_t node;
    bool called;      /* by a CALL, not a jump */
    bool stub;        /* see struct place */
    bool interrupted; /* no call: where a handler returns to */
};

struct cofi_calls {
    struct places places;
    struct cofi_calls_node *nodes;
    size_t node_count, node_room;
    struct cofi__index by_path; /* (parent node, function start) -> node */
    struct frame *stack;
    size_t depth, stack_room;
    struct cofi_calls_watcher watcher;
    uint64_t insns; /* in all nodes */
    /* Of the block that a flow showed last: where it led is known when the next item comes. */
    bool pending;
    uint8_t last_cls; /* enum cofi_class */
    uint64_t last_end;
};

/* The frame of the function that runs; there is one. */
static inline const struct frame *cofi__calls_top(const struct cofi_calls *calls)
{
    return &calls->stack[calls->depth - 1];
}

/* Whether a place is in the function of a frame. Without symbols nobody knows where a function ends: then what was
 * called is a start, and anything else in the module is in the function. */
static inline bool cofi__calls_holds(const struct cofi_calls *calls, const struct frame *frame,
                                     const struct place *place)
{
    if (frame->start == place->function.start)
        return true;
    if (place->function.name || place->called)
        return false;
    const struct cofi_function *here = &calls->nodes[frame->node].function;
    return !here->name && cofi__same_text(here->module, place->function.module);
}

static inline void cofi__calls_count(struct cofi_calls *calls, uint32_t node, uint64_t insns)
{
    calls->nodes[node].self += insns;
    calls->insns += insns;
}

/* What the thread began in counts as called by nobody. 0 or COFI_ERR_NOMEM. */
int cofi__calls_first(struct cofi_calls *calls, uint64_t ip);
/* What runs returns, and what jumped to it with it, to where tracing is off: an address, 0 if nobody knows. */
uint64_t cofi__calls_return_unseen(struct cofi_calls *calls);
/* The same for what jumped to a place there, which returns in its stead. 0 or COFI_ERR_NOMEM. */
int cofi__calls_jump_unseen(struct cofi_calls *calls, uint64_t to);
/* Have a function that runs. */
static inline int cofi__calls_begin(struct cofi_calls *calls, uint64_t ip)
{
    return calls->depth ? 0 : cofi__calls_first(calls, ip);
}

#endif
