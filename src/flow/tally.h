/* SPDX-License-Identifier: MIT
 * Counting by several threads: each writes down what it decodes ahead, and counts it when that turned
 * out to be right. */
#ifndef COFI_FLOW_TALLY_H
#define COFI_FLOW_TALLY_H

#include "flow/pieces.h"
#include "flow/walker.h"

/* Count what this flow has written down, but for the edge that leads to it. */
void cofi__tally(struct cofi_flow *flow, const struct output *out);

/* What is written down from here on begins, for its edges: flow->out.first_hash and prev_hash are its ends. */
void cofi__ends_begin(struct cofi_flow *flow);
/* The edge from what came before, whose last block has the hash *before (0: none), into a piece; then
 * *before is that piece's. */
void cofi__ends_join(struct cofi_flow *flow, uint32_t *before, struct ends ends);

#endif
