/* SPDX-License-Identifier: MIT
 * One piece -> the blocks and events that ran in it, in a buffer. */
#include "flow/worker.h"

#include <stdlib.h>

#include "base/error.h"
#include "flow/query.h"
#include "flow/tally.h"

/* Room for n more of so many, of this size each. */
static bool grow(void *array, size_t *max, size_t used, size_t n, size_t size)
{
    void **at = array;
    size_t more = *max ? *max * 2 : 4 * n;
    if (*max - used >= n)
        return true;
    void *larger = realloc(*at, more * size);
    if (larger) {
        *at = larger;
        *max = more;
    }
    return larger;
}

static bool output_room(struct output *out)
{
    return grow(&out->events, &out->events_max, out->events_n, BATCH_EVENTS, sizeof *out->events) &&
           grow(&out->marks, &out->marks_max, out->marks_n, 1, sizeof *out->marks);
}

/* What is written down beside blocks: outcomes of a run that is told block by block, and breaks. */
enum { WORDS_BESIDE = RUN_BLOCKS + 2 * BATCH_EVENTS };

/* Room for a batch's blocks, or lists of them, and, if wanted, their times. False: out of memory. */
static bool batch_room(struct pieces *pieces, struct output *out, struct cofi_flow_batch *batch, void **blocks)
{
    const struct cofi_flow_config *config = pieces->config;
    batch->blocks_max = config->no_blocks ? COUNT_BLOCKS : BATCH_BLOCKS;
    if (config->no_blocks)
        return true;
    pthread_mutex_lock(&pieces->lock);
    if (config->want_time)
        batch->times = cofi__arena_take(&pieces->chunks, &out->room, BATCH_BLOCKS * sizeof *batch->times);
    *blocks = cofi__arena_take(&pieces->chunks, &out->room, (BATCH_BLOCKS + WORDS_BESIDE) * sizeof *batch->blocks);
    pthread_mutex_unlock(&pieces->lock);
    return *blocks && (batch->times || !config->want_time);
}

int cofi__worker_batch(struct worker *w, struct output *out)
{
    struct cofi_flow *flow = w->flow;
    struct cofi_flow_batch batch = {0};
    void *room = NULL;
    if (!output_room(out) || !batch_room(w->pieces, out, &batch, &room))
        return COFI_ERR_NOMEM;
    bool ahead = !out->live; /* to be unpacked when it is shown: a list is what another thread can copy as well */
    batch.blocks = ahead ? NULL : room;
    flow->out.lists = ahead ? room : NULL;
    flow->out.lists_n = 0;
    batch.events = out->events + out->events_n;
    batch.events_max = BATCH_EVENTS;
    COFI_TRY(cofi_flow_next(flow, &batch));
    if (room) /* the rest of it is the next batch's */
        out->room.at = (uint8_t *)room + (ahead ? flow->out.lists_n : batch.blocks_n) * sizeof(uint64_t);
    out->events_n += batch.events_n;
    out->marks[out->marks_n++] = (struct mark){batch.blocks,
                                               flow->out.lists,
                                               flow->out.lists_n,
                                               batch.times,
                                               batch.blocks_n,
                                               out->events_n,
                                               flow->code.images[flow->code.space],
                                               flow->code.viewed_ns[flow->code.space],
                                               cofi_flow_offset(flow)};
    return 0;
}

/* Decode up to and with the PSB+ at or after `end`, and add what ran. */
static int decode_to(struct worker *w, struct output *out, uint64_t end)
{
    struct cofi_flow *flow = w->flow;
    flow->stop_psb = end;
    flow->paused = false;
    while (worker_goes_on(flow))
        COFI_TRY(cofi__worker_batch(w, out));
    return 0;
}

int cofi__worker_unseen(struct worker *w, struct output *scratch, uint64_t end)
{
    struct cofi_flow *flow = w->flow;
    int status = 0;
    flow->stop_psb = end;
    flow->paused = false;
    while (!status && worker_goes_on(flow)) {
        status = cofi__worker_batch(w, scratch);
        cofi__output_drop(w->pieces, scratch);
    }
    return status;
}

static void stand_at(struct worker *w, const struct piece *piece)
{
    w->own = w->at = piece->index;
    w->into = 0;
    w->cut_short = false;
    w->flow->config.tail_n = w->pieces->config->tail_n; /* it may have been at the stream's end already */
}

static int go_on_at(struct worker *w, const struct piece *piece, struct output *scratch)
{
    const struct skimmed *before = &piece->from_psb;
    stand_at(w, piece);
    w->at -= before->known;
    w->into = before->known ? before->into : 0;
    COFI_TRY(cofi__flow_go_on_at(w->flow, before->known ? before->offset : piece->begin));
    if (before->known)
        COFI_TRY(cofi__skim_take(w->flow, before));
    w->flow->disabled_ip = PIECE_UNKNOWN_IP;
    w->flow->code.missed = piece->code_missed;
    w->flow->ovf.events_seen = piece->events_seen;
    doubt_set(w->flow, (struct doubt){0}); /* enough was seen before */
    int status = cofi__worker_unseen(w, scratch, piece->begin);
    w->flow->speculative = false;
    return status;
}

/* A view shows the code of later than now. */
static bool view_is_ahead(const struct cofi_flow *flow)
{
    for (unsigned i = 0; i < flow->code.spaces; i++)
        if (flow->code.viewed_ns[i] > flow->code.seen_ns)
            return true;
    return false;
}

int cofi__worker_begin(struct worker *w, const struct piece *piece, struct output *scratch)
{
    if (!piece->index) {
        stand_at(w, piece);
        COFI_TRY(cofi__flow_rewind_code(w->flow));
        return cofi__flow_afresh_at(w->flow, piece->begin);
    }
    COFI_TRY(go_on_at(w, piece, scratch));
    if (!view_is_ahead(w->flow))
        return 0;
    COFI_TRY(cofi__flow_rewind_code(w->flow));
    return go_on_at(w, piece, scratch);
}

static void minus(struct cofi_flow_stats *sum, const struct cofi_flow_stats *less)
{
    sum->insns -= less->insns;
    sum->blocks -= less->blocks;
    sum->events -= less->events;
    sum->gaps -= less->gaps;
    sum->overflows -= less->overflows;
    sum->tnt_bits -= less->tnt_bits;
    sum->tips -= less->tips;
    sum->lost_bytes -= less->lost_bytes;
    sum->lost_ticks -= less->lost_ticks;
    sum->run_misses -= less->run_misses;
    sum->blocks_decoded -= less->blocks_decoded;
    sum->span_bytes -= less->span_bytes;
}

void cofi__stats_add(struct cofi_flow_stats *sum, const struct cofi_flow_stats *more)
{
    struct cofi_flow_stats less = {0};
    minus(&less, more);
    minus(sum, &less);
}

struct cofi_flow_stats cofi__stats_since(const struct cofi_flow *flow, const struct cofi_flow_stats *before)
{
    struct cofi_flow_stats stats = flow->stats;
    minus(&stats, before);
    return stats;
}

int cofi__worker_piece(struct worker *w, struct piece *piece)
{
    struct cofi_flow *flow = w->flow;
    COFI_TRY(cofi__worker_begin(w, piece, &piece->out));
    struct cofi_flow_stats before = flow->stats;
    uint64_t tips = flow->tips_that_wait;
    piece->from = piece->index ? cofi__seam_of(flow) : (struct seam){0};
    cofi__ends_begin(flow);
    flow->clock.least = UINT64_MAX;
    flow->waits.asked = false;
    COFI_TRY(decode_to(w, &piece->out, piece->end));
    piece->to = cofi__seam_of(flow);
    piece->ends = (struct ends){flow->out.first_hash, flow->out.prev_hash};
    piece->least = flow->clock.least;
    piece->asked = flow->waits.asked;
    piece->stats = cofi__stats_since(flow, &before);
    piece->tips_that_wait = flow->tips_that_wait - tips;
    piece->from.odd |= w->cut_short;
    return 0;
}
