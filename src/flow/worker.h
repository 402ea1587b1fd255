/* SPDX-License-Identifier: MIT
 * A thread with a flow of its own, and what it does with one piece. */
#ifndef COFI_FLOW_WORKER_H
#define COFI_FLOW_WORKER_H

#include "flow/pieces.h"
#include "flow/walker.h"

struct worker {
    struct pool *pool;       /* parallel.c's */
    struct pieces *pieces;
    struct cofi_flow *flow;
    unsigned held;           /* pieces whose blocks live in this flow's cache */
    struct output *due;      /* where it counts: due_n of them, which were right and are not counted yet */
    unsigned due_n;
    uint64_t own, at;        /* the piece that it decodes; by pull: the next one whose bytes it gets */
    size_t into;             /* by pull: so many bytes of that one it does not get */
    bool cut_short;          /* by pull: it came too far behind its piece */
    pthread_t thread;
    bool started;
};

enum { BATCH_BLOCKS = 4096, COUNT_BLOCKS = 1 << 16, BATCH_EVENTS = 256 };

/* What the last batch had no room for and the code that the last PSB+ makes due belong to the piece, too. */
static inline bool worker_goes_on(const struct cofi_flow *flow)
{
    return (!flow->paused && !flow->ended) || flow->out.spill_n || flow->code_due || flow->space_due;
}

/* All of these: 0 or a negative error. */
/* Stand where the piece begins. What its PSB+ shows is left out: the piece before has shown it. The flow may have been
 * farther, or a damaged time took it there. */
int cofi__worker_begin(struct worker *w, const struct piece *piece, struct output *scratch);
/* One batch more. */
int cofi__worker_batch(struct worker *w, struct output *out);
/* Decode up to and with the PSB+ at or after `end`, and nobody sees it. */
int cofi__worker_unseen(struct worker *w, struct output *scratch, uint64_t end);
/* All of a piece, into its own buffer. */
int cofi__worker_piece(struct worker *w, struct piece *piece);

void cofi__stats_add(struct cofi_flow_stats *sum, const struct cofi_flow_stats *more);
/* What a flow has counted since `before`. */
struct cofi_flow_stats cofi__stats_since(const struct cofi_flow *flow, const struct cofi_flow_stats *before);

#endif
