/* SPDX-License-Identifier: MIT
 * What was written down of a piece -> counts of blocks, outcomes and edges. */
#include "flow/tally.h"

#include "flow/lists.h"

static void tally_span(struct cofi_flow *flow, struct span *span)
{
    span->count++;
    edge_to(flow, span->first_hash, span->last_hash);
}

static void tally_run(struct cofi_flow *flow, struct run *run)
{
    run->count++;
    edge_to(flow, run->first_hash, run->last_hash);
}

static void tally_block(struct cofi_flow *flow, struct block *block)
{
    block->count++;
    edge_to(flow, block->hash, block->hash);
}

static void tally_outcome(const struct cofi_flow *flow, const struct block *block, bool taken)
{
    flow->out.coverage->outcome(flow->out.coverage->opaque, &block->pub, taken, 1);
}

static void tally_word(struct cofi_flow *flow, uint64_t word)
{
    unsigned what = list_what(word);
    switch (what) {
    case LIST_BLOCK: tally_block(flow, list_at(word)); break;
    case LIST_NOT_TAKEN:
    case LIST_TAKEN: tally_outcome(flow, list_at(word), what == LIST_TAKEN); break;
    case LIST_BREAK: flow->out.prev_hash = 0; break;
    case LIST_SPAN: tally_span(flow, list_at(word)); break;
    default: tally_run(flow, run_of_list(word)); break;
    }
}

void cofi__tally(struct cofi_flow *flow, const struct output *out)
{
    flow->out.prev_hash = 0;
    for (size_t i = 0; i < out->marks_n; i++)
        for (size_t k = 0; k < out->marks[i].lists_n; k++)
            tally_word(flow, out->marks[i].lists[k]);
}

void cofi__ends_begin(struct cofi_flow *flow)
{
    flow->out.first_hash = 0;
    flow->out.prev_hash = HASH_OPEN;
}

void cofi__ends_join(struct cofi_flow *flow, uint32_t *before, struct ends ends)
{
    if (*before && ends.first)
        cofi__edge(flow, edge_index(*before, ends.first), 1);
    if (ends.last != HASH_OPEN)
        *before = ends.last;
}
