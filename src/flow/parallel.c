/* SPDX-License-Identifier: MIT
 * One stream -> the same blocks and events, decoded by several threads between its PSBs. */
#include "flow/worker.h"

#include <stdlib.h>

#include "base/error.h"
#include "flow/lists.h"
#include "flow/query.h"
#include "flow/tally.h"

/* At a PSB a piece begins: who decodes it takes for granted what a PSB+ does not tell (that tracing went on, or
 * was off, there). What the piece before came to is compared with that when it is shown; where it differs, the
 * piece is decoded again behind the one before. So the result is the serial one, always. RTIT's PSB tells nothing:
 * there a piece begins at the PSB before, unseen, with what the packets up to there tell without the code
 * (skim.c). The calling thread shows the pieces in order. One that nobody has begun when its turn comes it decodes
 * straight into the caller's hands; while the one whose turn it is is being decoded, it decodes a later one. */

struct pool {
    struct pieces pieces;
    struct worker *workers;  /* the first is the calling thread */
    unsigned threads;
    struct output *spare;    /* buffers to be used again: fresh ones cost a page fault for each 4 KiB */
    unsigned spare_n;
    /* What is shown, by the calling thread. */
    cofi_flow_visit visit;
    void *opaque;
    struct cofi_flow *front; /* what the visitor may ask: code, place, sums. It decodes nothing */
    struct output live;      /* one batch that goes straight on */
    const struct cofi_flow_block **unpacked; /* one that was decoded ahead */
    struct cofi_flow_coverage *coverage; /* each thread's, or null; then nothing is shown: pieces are
                                          * counted when their turn has come */
    struct cofi_flow_stats *stats; /* there: the sum, at the end */
    uint32_t edge;           /* and hash of the block that ran last; 0: no edge comes from it */
    struct seam to;          /* what the pieces shown so far came to */
    struct doubt doubt;      /* where the last one began */
    uint64_t floor;          /* no time in the last one is before this: see raise_times */
    bool restartable;        /* the last one would be decoded rightly from its PSB */
    bool behind;             /* workers[0].flow stands where the pieces shown so far end */
};

/* ---- bytes, where they come by pull ---- */

/* Nobody needs what a worker has decoded any more. */
static void let_go(struct worker *w, struct output *out)
{
    struct pool *pool = w->pool;
    w->held--;
    pool->pieces.out_bytes -= output_bytes(out);
    cofi__output_clear(&pool->pieces, out);
    if (pool->spare_n < pool->pieces.room)
        pool->spare[pool->spare_n++] = *out;
    else
        cofi__output_free(out);
}

/* The first piece has been shown, by whoever decoded it; or who decoded it is to count it. */
static void release(struct pool *pool)
{
    struct pieces *pieces = &pool->pieces;
    struct piece *piece = piece_at(pieces, pieces->shown);
    struct worker *w = piece->worker;
    if (w && w->due && piece->right)
        w->due[w->due_n++] = piece->out;
    else if (w)
        let_go(w, &piece->out);
    if (w)
        piece->out = (struct output){0};
    cofi__pieces_drop(pieces);
}

/* The calling thread needs bytes far behind the piece that it decodes in order: all up to there is left to it. */
static void pass_by(struct pool *pool)
{
    struct pieces *pieces = &pool->pieces;
    struct piece *piece = piece_at(pieces, pieces->shown);
    while (piece->state == PIECE_TAKEN && piece->worker)
        pthread_cond_wait(&pieces->change, &pieces->lock);
    release(pool);
}

static const uint8_t *pull(void *opaque, size_t *n)
{
    struct worker *w = opaque;
    struct pieces *pieces = w->pieces;
    const uint8_t *bytes = NULL;
    *n = 0;
    pthread_mutex_lock(&pieces->lock);
    bool first = w == w->pool->workers;
    w->cut_short = !first && w->at > w->own + PIECE_BEHIND;
    while (first && w->at >= pieces->cut && !pieces->ended && !pieces_may_cut(pieces))
        pass_by(w->pool);
    if (!w->cut_short && cofi__pieces_get(pieces, w->at)) {
        const struct piece *piece = piece_at(pieces, w->at++);
        bytes = piece->bytes + w->into;
        *n = piece->n - w->into;
        w->into = 0;
    }
    pthread_mutex_unlock(&pieces->lock);
    return bytes;
}

static const struct cofi_image *space(void *opaque, uint64_t cr3, uint64_t vmcs, bool non_root)
{
    const struct cofi_flow_config *config = ((struct worker *)opaque)->pieces->config;
    return config->space(config->opaque, cr3, vmcs, non_root);
}

/* ---- who decodes what ---- */

/* Most of what was decoded ahead was wrong: then it is tried now and then, for streams change. */
static bool hopeless(const struct pieces *pieces)
{
    return pieces->redone > 4 && pieces->redone * 8 > pieces->shown;
}

/* A piece to decode ahead of its turn, or null. */
static struct piece *take(struct worker *w)
{
    struct pool *pool = w->pool;
    struct pieces *pieces = &pool->pieces;
    for (;;) {
        if (pieces->stop || hopeless(pieces) || pieces->next + PIECE_BEHIND + 2 >= pieces->shown + pieces->room ||
            pieces->out_bytes > OUTPUTS_MOST || (w->held && (cofi__cache_full(w->flow) || cofi__spans_full(w->flow))))
            return NULL;
        if (pieces->next >= pieces->cut && (pieces->reading || !cofi__pieces_get(pieces, pieces->next)))
            return NULL;
        struct piece *piece = piece_at(pieces, pieces->next++);
        if (piece->in_order)
            continue;
        piece->state = PIECE_TAKEN;
        piece->worker = w;
        piece->code_missed = pieces->code_missed;
        piece->events_seen = pieces->events_seen;
        if (pool->spare_n)
            piece->out = pool->spare[--pool->spare_n];
        return piece;
    }
}

/* No piece that waits rests on what the flow keeps. */
static void make_room(struct cofi_flow *flow)
{
    if (cofi__cache_full(flow))
        cofi__cache_flush(flow);
    if (cofi__spans_full(flow))
        cofi__span_forget(flow);
}

/* With the lock held, which is open while the piece is decoded. */
static void decode_ahead(struct worker *w, struct piece *piece)
{
    struct pieces *pieces = w->pieces;
    bool alone = !w->held++;
    pthread_mutex_unlock(&pieces->lock);
    if (alone)
        make_room(w->flow);
    int status = cofi__worker_piece(w, piece);
    pthread_mutex_lock(&pieces->lock);
    piece->status = status;
    piece->state = PIECE_DONE;
    pieces->out_bytes += output_bytes(&piece->out);
    pthread_cond_broadcast(&pieces->change);
}

/* With the lock held, which is open meanwhile. So no worker has more due than there are pieces. */
static void count_due(struct worker *w)
{
    struct pieces *pieces = w->pieces;
    while (w->due_n) {
        struct output out = w->due[--w->due_n];
        pthread_mutex_unlock(&pieces->lock);
        cofi__tally(w->flow, &out);
        pthread_mutex_lock(&pieces->lock);
        let_go(w, &out);
    }
}

/* Nothing more comes that this worker could do. */
static bool is_over(const struct worker *w)
{
    const struct pieces *pieces = w->pieces;
    return pieces->stop || (!w->due && pieces->ended && pieces->next >= pieces->cut);
}

static void *work(void *opaque)
{
    struct worker *w = opaque;
    struct pieces *pieces = w->pieces;
    pthread_mutex_lock(&pieces->lock);
    while (!is_over(w)) {
        count_due(w);
        struct piece *piece = take(w);
        if (piece)
            decode_ahead(w, piece);
        else if (!w->due_n && !is_over(w))
            pthread_cond_wait(&pieces->change, &pieces->lock);
    }
    count_due(w);
    pthread_mutex_unlock(&pieces->lock);
    if (w->due)
        cofi__run_count_all(w->flow);
    return NULL;
}

/* ---- showing ---- */

/* The visitor's view of the code, as of a batch. */
static int front_view(struct pool *pool, const struct mark *mark)
{
    struct cofi_flow *front = pool->front;
    int space = cofi__space_of(front, mark->image);
    COFI_TRY(space);
    front->code.space = (unsigned)space;
    if (mark->view_ns < front->code.viewed_ns[space]) { /* the flow that decoded this looked at it less lately */
        cofi_view_close(front->code.views[space]);
        front->code.views[space] = NULL;
        front->code.viewed_ns[space] = 0;
        COFI_TRY(cofi__flow_view_open(front, &front->code.views[space], mark->image));
    }
    front->code.view = front->code.views[space];
    if (cofi_view_next_change(front->code.view) <= mark->view_ns) { /* else it is as it was: no later
                                                                     * time to go back from */
        COFI_TRY(cofi_view_advance(front->code.view, mark->view_ns, NULL, NULL));
        front->code.viewed_ns[space] = mark->view_ns;
    }
    return 0;
}

/* Where tracing was disabled before: a piece could not know. */
static void tell_disabled(struct output *out, struct seam *to, uint64_t disabled_ip)
{
    for (size_t i = 0; i < out->events_n; i++)
        if (out->events[i].ip == PIECE_UNKNOWN_IP)
            out->events[i].ip = disabled_ip;
    if (to->disabled_ip == PIECE_UNKNOWN_IP)
        to->disabled_ip = disabled_ip;
}

/* Nor did it know of an estimate that ran ahead before its PSB: time stands still until it is as late.
 * That is the same as if it had been known if time is the latest one met throughout, and none went into
 * a gap's length. No code changes in between, or the seams would differ. */
static bool may_raise(const struct piece *piece, uint64_t floor)
{
    return floor <= piece->from.clock.now || (piece->least && piece->least + COFI_CLOCK_BACK >= floor &&
                                              !piece->to.overflow && !piece->stats.gaps && !piece->stats.overflows);
}

static void raise_times(const struct cofi_flow *flow, struct piece *piece, uint64_t floor)
{
    struct output *out = &piece->out;
    for (size_t i = 0; i < out->events_n; i++) {
        struct cofi_flow_time *time = &out->events[i].time;
        if (!time->known || time->ticks >= floor)
            continue;
        time->ticks = floor;
        time->ns = flow->config.time.conv.mult ? cofi__ns(flow, floor) : 0;
    }
    for (size_t i = 0; i < out->marks_n; i++)
        for (size_t k = 0; out->marks[i].times && k < out->marks[i].blocks_n; k++)
            if (out->marks[i].times[k].ticks < floor)
                out->marks[i].times[k].ticks = floor;
    if (piece->to.clock.now < floor)
        piece->to.clock.now = floor;
}

/* The same for a flow that stands where its piece begins. */
static void raise_clock(struct cofi_flow *flow, uint64_t floor)
{
    if (flow->clock.now < floor)
        flow->clock.now = floor;
    if (flow->used.ticks < floor)
        flow->used.ticks = floor;
}

/* As far as the visitor, or who asks for the stats, is told. */
static void front_at(struct pool *pool, uint64_t offset) { pool->front->s = (struct source){.end_offset = offset}; }

static int show(struct pool *pool, const struct output *out)
{
    size_t event = 0;
    int status = 0;
    for (size_t i = 0; i < out->marks_n && !status; i++) {
        const struct mark *mark = &out->marks[i];
        if (mark->lists)
            lists_unpack(pool->unpacked, mark->lists, mark->lists_n);
        struct cofi_flow_batch batch = {.blocks = mark->lists ? pool->unpacked : mark->blocks,
                                        .blocks_n = mark->blocks_n, .times = mark->times, .events = out->events + event,
                                        .events_n = mark->events_n - event};
        batch.blocks_max = batch.blocks_n;
        batch.events_max = batch.events_n;
        event = mark->events_n;
        COFI_TRY(front_view(pool, mark));
        front_at(pool, mark->offset);
        if (batch.blocks_n || batch.events_n)
            status = pool->visit(pool->opaque, pool->front, &batch);
    }
    return status;
}

/* Some blocks and events more, by the calling thread's flow. */
static int show_more(struct pool *pool)
{
    struct worker *w = &pool->workers[0];
    if (pool->coverage)
        return cofi__flow_cover(w->flow);
    cofi__output_drop(&pool->pieces, &pool->live);
    int status = cofi__worker_batch(w, &pool->live);
    return status ? status : show(pool, &pool->live);
}

/* Decode with the calling thread's flow, and show or count at once. */
static int show_to(struct pool *pool, uint64_t end)
{
    struct worker *w = &pool->workers[0];
    struct cofi_flow *flow = w->flow;
    struct cofi_flow_stats before = flow->stats;
    int status = 0;
    flow->stop_psb = end;
    flow->paused = false;
    flow->cache.keep = w->held;
    flow->out.counting = pool->coverage;
    flow->out.lists = NULL;
    flow->out.prev_hash = pool->edge;
    while (!status && worker_goes_on(flow))
        status = show_more(pool);
    pool->edge = flow->out.prev_hash;
    flow->out.counting = false;
    front_at(pool, cofi_flow_offset(flow));
    flow->cache.keep = true;
    pool->to = cofi__seam_of(flow);
    struct cofi_flow_stats more = cofi__stats_since(flow, &before);
    cofi__stats_add(&pool->front->stats, &more);
    return status;
}

/* It took for granted that no TIPs wait. Where that did not matter, it is as if it had known. */
static void hand_on_doubt(struct piece *piece, struct doubt before)
{
    uint64_t units = piece->stats.tnt_bits + piece->stats.tips, parts = piece->tips_that_wait * TIP_PARTS;
    struct doubt *to = &piece->to.doubt;
    if (piece->asked)
        return;
    piece->from.doubt = before;
    if (to->units || to->parts) /* one has waited in it */
        return;
    to->units = (uint16_t)(before.units > units ? before.units - units : 0);
    to->parts = (uint16_t)(before.parts > parts ? before.parts - parts : 0);
}

/* The piece fits to those before it, and was decoded ahead. */
static int show_ahead(struct pool *pool, struct piece *piece)
{
    tell_disabled(&piece->out, &piece->to, pool->to.disabled_ip);
    pool->floor = piece->index && pool->to.clock.now > piece->from.clock.now ? pool->to.clock.now : 0;
    if (pool->floor)
        raise_times(pool->front, piece, pool->floor);
    pool->to = piece->to;
    pool->restartable = true;
    pool->behind = false;
    cofi__stats_add(&pool->front->stats, &piece->stats);
    piece->right = true;
    if (!pool->coverage)
        return show(pool, &piece->out);
    cofi__ends_join(pool->workers[0].flow, &pool->edge, piece->ends);
    if (piece->out.marks_n)
        front_at(pool, piece->out.marks[piece->out.marks_n - 1].offset);
    return 0;
}

static void note_redone(struct pieces *pieces)
{
    pthread_mutex_lock(&pieces->lock);
    pieces->redone++;
    pthread_mutex_unlock(&pieces->lock);
}

/* Decode it behind the pieces that were shown. */
static int show_behind(struct pool *pool, const struct piece *piece, bool redo)
{
    struct worker *w = &pool->workers[0];
    uint64_t end = piece->end;
    if (pool->behind && w->flow->paused && w->flow->psb.offset >= end) /* the one before had to go on so far */
        return 0;
    if (!piece->index) {
        COFI_TRY(cofi__worker_begin(w, piece, &pool->live));
    } else if (!pool->behind) { /* from the start of the one before; to where that one came */
        const struct piece *before = piece_at(&pool->pieces, piece->index - 1);
        COFI_TRY(cofi__worker_begin(w, before, &pool->live));
        if (before->index)
            doubt_set(w->flow, pool->doubt);
        raise_clock(w->flow, pool->floor);
        COFI_TRY(cofi__worker_unseen(w, &pool->live, before->end));
        w->flow->disabled_ip = pool->to.disabled_ip;
    }
    if (redo)
        note_redone(&pool->pieces);
    pool->behind = true;
    pool->restartable = false;
    return show_to(pool, end);
}

/* Nobody has decoded it: here and now, from its PSB if that is right. */
static int show_now(struct pool *pool, const struct piece *piece)
{
    struct worker *w = &pool->workers[0];
    bool lost = piece->in_order && (!pool->restartable || pool->pieces.skimmer);
    if (!piece->index || pool->behind || lost)
        return show_behind(pool, piece, false);
    COFI_TRY(cofi__worker_begin(w, piece, &pool->live));
    doubt_set(w->flow, pool->to.doubt);
    struct seam from = cofi__seam_of(w->flow);
    if (!cofi__seam_fits(&pool->to, &from))
        return show_behind(pool, piece, true);
    w->flow->disabled_ip = pool->to.disabled_ip;
    pool->floor = pool->to.clock.now;
    raise_clock(w->flow, pool->floor);
    pool->restartable = true;
    return show_to(pool, piece->end);
}

static int show_piece(struct pool *pool, struct piece *piece)
{
    if (piece->index && pool->to.ended)
        return 0;
    if (!piece->worker)
        return show_now(pool, piece);
    COFI_TRY(piece->status);
    if (piece->index)
        hand_on_doubt(piece, pool->to.doubt);
    bool right = piece->index ? cofi__seam_fits(&pool->to, &piece->from) && may_raise(piece, pool->to.clock.now)
                              : !piece->from.odd;
    return right ? show_ahead(pool, piece) : show_behind(pool, piece, true);
}

/* Decode a later piece, or wait. To take one may open the lock, so the piece may have been finished since. */
static void meanwhile(struct pool *pool, const struct piece *piece)
{
    struct piece *later = pool->restartable ? take(&pool->workers[0]) : NULL;
    if (later)
        decode_ahead(&pool->workers[0], later);
    else if (piece->state == PIECE_TAKEN)
        pthread_cond_wait(&pool->pieces.change, &pool->pieces.lock);
}

static int show_all(struct pool *pool)
{
    struct pieces *pieces = &pool->pieces;
    int status = 0;
    pthread_mutex_lock(&pieces->lock);
    while (!status && cofi__pieces_get(pieces, pieces->shown)) {
        count_due(&pool->workers[0]);
        struct piece *piece = piece_at(pieces, pieces->shown);
        uint64_t index = piece->index;
        if (piece->state == PIECE_TAKEN) {
            meanwhile(pool, piece);
            continue;
        }
        if (piece->state == PIECE_CUT) {
            piece->state = PIECE_TAKEN;
            piece->code_missed = pieces->code_missed;
            piece->events_seen = pieces->events_seen;
        }
        if (pieces->next <= index)
            pieces->next = index + 1;
        pthread_mutex_unlock(&pieces->lock);
        struct doubt doubt = pool->to.doubt;
        status = show_piece(pool, piece);
        pool->doubt = doubt;
        pool->front->clock.now = pool->to.clock.now;
        pthread_mutex_lock(&pieces->lock);
        pieces->code_missed = pieces->skimmer && pool->to.code_missed;
        pieces->events_seen = pool->to.events_seen;
        if (pieces->shown == index) /* else it was passed by */
            release(pool);
    }
    status = status ? status : pieces->status;
    pthread_mutex_unlock(&pieces->lock);
    return status;
}

/* ---- setting up ---- */

/* Each thread's blocks are its own. */
static int open_counting(struct worker *w, unsigned i)
{
    w->flow->out.coverage = &w->pool->coverage[i];
    w->flow->out.coverage->flow = w->flow;
    w->due = calloc(w->pieces->room, sizeof *w->due);
    return w->due ? 0 : COFI_ERR_NOMEM;
}

static int open_worker(struct pool *pool, unsigned i)
{
    struct worker *w = &pool->workers[i];
    struct cofi_flow_config config = *pool->pieces.config;
    config.cache_bytes /= pool->threads;
    if (config.pull) {
        config.pull = pull;
        config.space = config.space ? space : NULL;
        config.opaque = w;
    }
    w->pool = pool;
    w->pieces = &pool->pieces;
    COFI_TRY(cofi_flow_open(&w->flow, &config));
    w->flow->cache.keep = true;
    if (pool->coverage)
        return open_counting(w, i);
    w->flow->cache.id_first = i;
    w->flow->cache.id_step = pool->threads;
    return 0;
}

/* As many threads as there can be; the calling one alone does it, too. */
static int start_workers(struct pool *pool)
{
    for (unsigned i = 0; i < pool->threads; i++)
        COFI_TRY(open_worker(pool, i));
    for (unsigned i = 1; i < pool->threads; i++)
        pool->workers[i].started = !pthread_create(&pool->workers[i].thread, NULL, work, &pool->workers[i]);
    return 0;
}

static void stop(struct pool *pool)
{
    struct pieces *pieces = &pool->pieces;
    pthread_mutex_lock(&pieces->lock);
    pieces->stop = true;
    pthread_cond_broadcast(&pieces->change);
    pthread_mutex_unlock(&pieces->lock);
}

static void pool_close(struct pool *pool)
{
    struct pieces *pieces = &pool->pieces;
    stop(pool);
    for (unsigned i = 0; pool->workers && i < pool->threads; i++) {
        if (pool->workers[i].started)
            pthread_join(pool->workers[i].thread, NULL);
        cofi_flow_close(pool->workers[i].flow);
        for (unsigned k = 0; k < pool->workers[i].due_n; k++)
            cofi__output_free(&pool->workers[i].due[k]);
        free(pool->workers[i].due);
    }
    for (unsigned i = 0; i < pool->spare_n; i++)
        cofi__output_free(&pool->spare[i]);
    cofi__output_free(&pool->live);
    cofi_flow_close(pool->front);
    free(pool->spare);
    free(pool->unpacked);
    free(pool->workers);
    cofi__pieces_close(pieces);
}

/* Large enough that beginning one does not count, small enough that all threads have some, and that what
 * comes by a pipe is shown soon. RTIT's begin with what lies between two PSBs, some KiB. */
static size_t usual_piece(const struct cofi_flow_config *config, unsigned threads)
{
    size_t most = config->gen == COFI_RTIT || config->pull_stays ? 1 << 18 : config->pull ? 1 << 16 : 1 << 17;
    size_t fair = config->pull ? most : config->n / (8 * (size_t)threads);
    return fair < 1 << 14 ? 1 << 14 : fair > most ? most : fair;
}

/* By pull there is room for two of them before there is one. */
static size_t piece_of(const struct cofi_flow_config *config, unsigned threads, size_t asked)
{
    size_t most = config->pull ? 64 << 20 : SIZE_MAX;
    return !asked ? usual_piece(config, threads) : asked < most ? asked : most;
}

/* All is shown: what the threads know of it goes to their coverages. */
static void count_all(struct pool *pool)
{
    struct worker *w = &pool->workers[0];
    stop(pool);
    pthread_mutex_lock(&pool->pieces.lock);
    count_due(w);
    pthread_mutex_unlock(&pool->pieces.lock);
    cofi__run_count_all(w->flow);
    pool->coverage[0].insns += pool->front->stats.insns;
}

/* The stream has ended. */
static int finish(struct pool *pool)
{
    if (!pool->coverage)
        return pool->visit(pool->opaque, pool->front, &(struct cofi_flow_batch){0});
    count_all(pool);
    cofi_flow_stats(pool->front, pool->stats);
    return 0;
}

static int by_threads(struct pool *pool, const struct cofi_flow_config *config, size_t piece_bytes)
{
    /* A piece of code that is met for the first time takes ten times as long as others: meanwhile there
     * are enough of them. By pull each holds bytes. */
    uint64_t room = (config->pull ? 4 : 16) * (uint64_t)pool->threads + 4;
    int status = cofi__pieces_open(&pool->pieces, config, piece_of(config, pool->threads, piece_bytes), room);
    pool->workers = calloc(pool->threads, sizeof *pool->workers);
    pool->spare = calloc(room, sizeof *pool->spare);
    pool->unpacked = malloc((BATCH_BLOCKS + RUN_COPY) * sizeof *pool->unpacked);
    if (!pool->workers || !pool->spare || !pool->unpacked)
        status = COFI_ERR_NOMEM;
    if (status >= 0)
        status = cofi_flow_open(&pool->front, config);
    if (status >= 0)
        status = start_workers(pool);
    if (status >= 0)
        status = show_all(pool);
    if (!status)
        status = finish(pool);
    pool_close(pool);
    return status;
}

static int serially(struct pool *pool, const struct cofi_flow_config *config)
{
    bool blocks = !config->no_blocks, times = config->want_time;
    struct cofi_flow_batch room = {.blocks_max = blocks ? BATCH_BLOCKS : COUNT_BLOCKS, .events_max = BATCH_EVENTS,
        .blocks = blocks ? malloc(BATCH_BLOCKS * sizeof *room.blocks) : NULL,
        .times = times ? malloc(BATCH_BLOCKS * sizeof *room.times) : NULL,
        .events = malloc(BATCH_EVENTS * sizeof *room.events)};
    struct cofi_flow *flow = NULL;
    bool no_memory = (blocks && !room.blocks) || !room.events || (times && !room.times);
    int status = no_memory ? COFI_ERR_NOMEM : cofi_flow_open(&flow, config), more = 1;
    while (!status && more > 0) {
        struct cofi_flow_batch batch = room;
        more = cofi_flow_next(flow, &batch);
        if (more > 0 && (batch.blocks_n || batch.events_n))
            status = pool->visit(pool->opaque, flow, &batch);
        status = more < 0 ? more : status;
    }
    if (!status)
        status = pool->visit(pool->opaque, flow, &(struct cofi_flow_batch){0});
    free(room.blocks);
    free(room.times);
    free(room.events);
    cofi_flow_close(flow);
    return status;
}

int cofi_flow_parallel(const struct cofi_flow_config *given, unsigned threads, size_t piece_bytes,
                       cofi_flow_visit visit, void *opaque, uint64_t *redone)
{
    struct cofi_flow_config own, *config = &own;
    COFI_TRY(cofi__flow_config_of(&own, given));
    own.want_time &= !own.no_blocks;
    struct pool pool = {.threads = threads, .visit = visit, .opaque = opaque, .live.live = true};
    int status = threads < 2 ? serially(&pool, config) : by_threads(&pool, config, piece_bytes);
    if (redone)
        *redone = pool.pieces.redone;
    return status;
}

static int cover_serially(struct pool *pool, const struct cofi_flow_config *config)
{
    struct cofi_flow *flow;
    COFI_TRY(cofi_flow_open(&flow, config));
    int status = cofi_flow_cover(flow, pool->coverage);
    cofi_flow_stats(flow, pool->stats);
    cofi_flow_close(flow);
    return status;
}

int cofi_flow_cover_parallel(const struct cofi_flow_config *given, unsigned threads, size_t piece_bytes,
                             struct cofi_flow_coverage *coverage, struct cofi_flow_stats *stats, uint64_t *redone)
{
    struct cofi_flow_config config;
    COFI_TRY(cofi__flow_config_of(&config, given));
    for (unsigned i = 0; i < (threads ? threads : 1); i++)
        COFI_TRY(cofi__coverage_check(&coverage[i]));
    config.want_time = config.no_blocks = false;
    struct cofi_flow_stats unasked;
    struct pool pool = {.threads = threads, .coverage = coverage, .stats = stats ? stats : &unasked};
    int status = threads < 2 ? cover_serially(&pool, &config) : by_threads(&pool, &config, piece_bytes);
    if (redone)
        *redone = pool.pieces.redone;
    return status;
}
