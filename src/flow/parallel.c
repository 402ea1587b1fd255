/* SPDX-License-Identifier: MIT
 * One PT stream -> the same blocks and events, decoded by several threads between its PSBs. */
#include "flow/walker.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "flow/query.h"

/* At a PSB a piece begins: its worker takes for granted what a PSB+ does not tell (that tracing went on, or
 * was off, there). What the piece before came to is compared with that when both are done; where it differs,
 * the piece is decoded again behind the one before. So the result is the serial one, always. */

struct output {
    const struct cofi_flow_block **blocks; /* and runs (see pack): a tenth of the memory to go through */
    uint64_t *times;
    struct cofi_flow_event *events;
    size_t blocks_n, blocks_max, events_n, events_max;
};

/* All that decoding behind a PSB+ depends on. */
struct seam {
    uint64_t psb, ip, last_ip, cr3, vmcs, disabled_ip;
    struct cofi__clock clock;
    const struct cofi_image *image;
    unsigned mode;
    uint8_t cbr;
    bool enabled, non_root, in_tx, tentative, lost, overflow, stopped, ended, odd;
};

struct piece {
    uint64_t begin, end;     /* offsets of PSBs; end UINT64_MAX: the stream's end */
    struct output out;
    struct seam from, to;
    unsigned worker;
    bool done;
    int status;
};

struct worker {
    struct pool *pool;
    struct cofi_flow *flow;
    unsigned index, held;    /* pieces whose blocks live in this flow's cache */
    pthread_t thread;
    bool started;
};

struct pool {
    const struct cofi_flow_config *config;
    pthread_mutex_t lock;
    pthread_cond_t change;
    struct piece *pieces;
    size_t n, next, taken;   /* next: to be decoded; taken: delivered */
    struct worker *workers;
    struct output *spare;    /* buffers to be used again: fresh ones cost a page fault for each 4 KiB */
    unsigned threads, spare_n;
    bool stop;
};

static const uint64_t UNKNOWN_IP = COFI_NO_IP - 1; /* where tracing was disabled before the piece */

static struct seam seam_of(struct cofi_flow *flow)
{
    struct seam s;
    memset(&s, 0, sizeof s); /* compared bytewise */
    cofi__clock_ticks(&flow->clock);
    s.psb = flow->ended ? UINT64_MAX : flow->psb_offset;
    s.ip = flow->enabled ? position(flow) : 0;
    s.last_ip = flow->last_ip;
    s.cr3 = flow->cr3;
    s.vmcs = flow->vmcs;
    s.disabled_ip = flow->disabled_ip;
    s.clock = flow->clock;
    s.image = flow->images[flow->space];
    s.mode = flow->mode;
    s.cbr = flow->cbr;
    s.enabled = flow->enabled;
    s.non_root = flow->non_root;
    s.in_tx = flow->in_tx;
    s.tentative = flow->tentative;
    s.lost = flow->lost;
    s.overflow = flow->overflow;
    s.stopped = flow->stopped;
    s.ended = flow->ended;
    s.odd = flow->async || flow->tip_due || flow->n || flow->has_packet || flow->pend.n || flow->pend.mode ||
            flow->pend.paging || flow->pend.vmcs || flow->pend.tsx || flow->spill_n;
    return s;
}

static bool same(const struct seam *left, const struct seam *right)
{
    struct seam l = *left, r = *right;
    l.disabled_ip = r.disabled_ip = 0; /* made good when the piece is shown */
    return !l.odd && !r.odd && !l.ended && !memcmp(&l, &r, sizeof l);
}

static bool output_room(struct output *out, bool times)
{
    if (out->blocks_max - out->blocks_n < 4096) {
        size_t max = out->blocks_max ? out->blocks_max * 2 : 1 << 14;
        void *blocks = realloc(out->blocks, max * sizeof *out->blocks);
        if (!blocks)
            return false;
        out->blocks = blocks;
        if (times) {
            void *more = realloc(out->times, max * sizeof *out->times);
            if (!more)
                return false;
            out->times = more;
        }
        out->blocks_max = max;
    }
    if (out->events_max - out->events_n < 256) {
        size_t max = out->events_max ? out->events_max * 2 : 1 << 10;
        void *events = realloc(out->events, max * sizeof *out->events);
        if (!events)
            return false;
        out->events = events;
        out->events_max = max;
    }
    return true;
}

static void output_free(struct output *out)
{
    free(out->blocks);
    free(out->times);
    free(out->events);
    *out = (struct output){0};
}

static struct cofi_flow_batch room(struct cofi_flow *flow, struct output *out)
{
    return (struct cofi_flow_batch){.blocks = out->blocks + out->blocks_n, .blocks_max = 4096,
        .times = flow->config.want_time ? out->times + out->blocks_n : NULL,
        .events = out->events + out->events_n, .events_max = 256};
}

static void add(struct output *out, const struct cofi_flow_batch *batch)
{
    for (size_t i = 0; i < batch->events_n; i++)
        batch->events[i].at += out->blocks_n;
    out->blocks_n += batch->blocks_n;
    out->events_n += batch->events_n;
}

/* Decode up to and with the PSB+ at or after `end`, and add what ran. What the last batch had no room for and
 * the code that this PSB+ makes due belong to it, too. */
static int decode_to(struct cofi_flow *flow, struct output *out, uint64_t end)
{
    flow->stop_psb = end;
    flow->paused = false;
    while ((!flow->paused && !flow->ended) || flow->spill_n || flow->code_due || flow->space_due) {
        if (!output_room(out, flow->config.want_time))
            return COFI_ERR_NOMEM;
        struct cofi_flow_batch batch = room(flow, out);
        COFI_TRY(cofi_flow_next(flow, &batch));
        add(out, &batch);
    }
    return 0;
}

static int decode_piece(struct cofi_flow *flow, struct piece *piece, bool first)
{
    if (first) {
        piece->from = (struct seam){0};
    } else {
        COFI_TRY(cofi__flow_go_on_at(flow, piece->begin));
        flow->disabled_ip = UNKNOWN_IP;
        COFI_TRY(decode_to(flow, &piece->out, piece->begin));
        piece->from = seam_of(flow);
        piece->out.blocks_n = piece->out.events_n = 0; /* the piece before has shown this PSB+ */
    }
    COFI_TRY(decode_to(flow, &piece->out, piece->end));
    piece->to = seam_of(flow);
    return 0;
}

static void *work(void *opaque)
{
    struct worker *w = opaque;
    struct pool *pool = w->pool;
    pthread_mutex_lock(&pool->lock);
    for (;;) {
        bool full = w->held && cofi__cache_full(w->flow);
        while (!pool->stop && pool->next < pool->n &&
               (pool->next >= pool->taken + 2 * pool->threads || full)) {
            pthread_cond_wait(&pool->change, &pool->lock);
            full = w->held && cofi__cache_full(w->flow);
        }
        if (pool->stop || pool->next >= pool->n)
            break;
        struct piece *piece = &pool->pieces[pool->next++];
        piece->worker = w->index;
        bool alone = !w->held++;
        if (pool->spare_n)
            piece->out = pool->spare[--pool->spare_n];
        pthread_mutex_unlock(&pool->lock);
        if (alone && cofi__cache_full(w->flow))
            cofi__cache_flush(w->flow);
        int status = decode_piece(w->flow, piece, piece == pool->pieces);
        pthread_mutex_lock(&pool->lock);
        piece->status = status;
        piece->done = true;
        pthread_cond_broadcast(&pool->change);
    }
    pthread_mutex_unlock(&pool->lock);
    return NULL;
}

/* ---- the pieces, in order ---- */

enum { SHOW_BLOCKS = 4096, SHOW_EVENTS = 256 };

/* The caller, and a batch for it. */
struct show {
    cofi_flow_visit visit;
    void *opaque;
    struct cofi_flow_batch batch; /* empty */
};

static bool show_open(struct show *s, bool times)
{
    s->batch = (struct cofi_flow_batch){.blocks_max = SHOW_BLOCKS, .events_max = SHOW_EVENTS};
    s->batch.blocks = malloc(SHOW_BLOCKS * sizeof *s->batch.blocks);
    s->batch.times = times ? malloc(SHOW_BLOCKS * sizeof *s->batch.times) : NULL;
    s->batch.events = malloc(SHOW_EVENTS * sizeof *s->batch.events);
    return s->batch.blocks && s->batch.events && (!times || s->batch.times);
}

static void show_close(struct show *s)
{
    free(s->batch.blocks);
    free(s->batch.times);
    free(s->batch.events);
}

/* An event that says where tracing was disabled before: the piece could not know. */
static void make_good(struct output *out, struct seam *to, uint64_t disabled_ip)
{
    for (size_t i = 0; i < out->events_n; i++)
        if (out->events[i].ip == UNKNOWN_IP)
            out->events[i].ip = disabled_ip;
    if (to->disabled_ip == UNKNOWN_IP)
        to->disabled_ip = disabled_ip;
}

static int flush(const struct show *s, struct cofi_flow_batch *batch)
{
    int status = batch->blocks_n || batch->events_n ? s->visit(s->opaque, batch) : 0;
    batch->blocks_n = batch->events_n = 0;
    return status;
}

static void unpack_item(struct cofi_flow_batch *batch, const struct output *out, size_t i)
{
    const struct run *run = unpack(out->blocks[i]);
    unsigned blocks = run ? run->blocks : 1;
    if (run)
        run_copy(batch->blocks + batch->blocks_n, run);
    else
        batch->blocks[batch->blocks_n] = out->blocks[i];
    for (unsigned k = 0; batch->times && k < blocks; k++)
        batch->times[batch->blocks_n + k] = out->times[i];
    batch->blocks_n += blocks;
}

static void add_event(struct cofi_flow_batch *batch, const struct cofi_flow_event *event)
{
    batch->events[batch->events_n] = *event;
    batch->events[batch->events_n++].at = batch->blocks_n;
}

static int show(const struct show *s, const struct output *out)
{
    struct cofi_flow_batch batch = s->batch;
    size_t i = 0, e = 0;
    int status = 0;
    while (!status && (i < out->blocks_n || e < out->events_n)) {
        if (e < out->events_n && out->events[e].at == i)
            add_event(&batch, &out->events[e++]);
        else
            unpack_item(&batch, out, i++);
        if (batch.events_n == batch.events_max || batch.blocks_n + RUN_BLOCKS + RUN_COPY > batch.blocks_max)
            status = flush(s, &batch);
    }
    return status ? status : flush(s, &batch);
}

static void wait_for(struct pool *pool, struct piece *piece)
{
    pthread_mutex_lock(&pool->lock);
    while (!piece->done)
        pthread_cond_wait(&pool->change, &pool->lock);
    pthread_mutex_unlock(&pool->lock);
}

static void release(struct pool *pool, struct piece *piece)
{
    pthread_mutex_lock(&pool->lock);
    piece->out.blocks_n = piece->out.events_n = 0;
    pool->spare[pool->spare_n++] = piece->out;
    piece->out = (struct output){0};
    pool->workers[piece->worker].held--;
    pool->taken++;
    pthread_cond_broadcast(&pool->change);
    pthread_mutex_unlock(&pool->lock);
}

/* The serial decoder that stands in: it begins at the start of the last piece that was right, and goes on
 * from where that one ended. */
struct stand_in {
    struct cofi_flow *flow;
    bool active;             /* it stands where the pieces shown so far end */
    struct seam to;
};

static int stand_in_start(struct stand_in *in, struct pool *pool, struct piece *right)
{
    struct output out = {0};
    int status = 0;
    if (!in->flow)
        status = cofi_flow_open(&in->flow, pool->config);
    if (status >= 0)
        in->flow->keep_cache = in->flow->packed = true;
    if (status >= 0 && right != pool->pieces) {
        status = cofi__flow_go_on_at(in->flow, right->begin);
        in->flow->disabled_ip = UNKNOWN_IP;
        if (status >= 0) /* in the worker's steps: where a PSB+ is damaged, both may end behind the piece's end */
            status = decode_to(in->flow, &out, right->begin);
        out.blocks_n = out.events_n = 0;
    }
    if (status >= 0)
        status = decode_to(in->flow, &out, right->end);
    output_free(&out);
    if (status < 0)
        return status;
    in->flow->disabled_ip = right->to.disabled_ip;
    in->active = true;
    return 0;
}

static int redo(struct stand_in *in, struct piece *piece, const struct show *s)
{
    struct output out = {0};
    if (cofi__cache_full(in->flow))
        cofi__cache_flush(in->flow);
    int status = decode_to(in->flow, &out, piece->end);
    if (!status)
        status = show(s, &out);
    output_free(&out);
    in->to = seam_of(in->flow);
    return status;
}

static int join(struct pool *pool, const struct show *s, uint64_t *redone)
{
    struct stand_in in = {0};
    struct seam to = {0};
    int status = 0;
    for (size_t i = 0; i < pool->n && !status; i++) {
        struct piece *piece = &pool->pieces[i];
        wait_for(pool, piece);
        status = piece->status;
        if (!status && (i == 0 || same(&to, &piece->from))) {
            if (i)
                make_good(&piece->out, &piece->to, to.disabled_ip);
            in.active = false;
            status = show(s, &piece->out);
            to = piece->to;
        } else if (!status && !to.ended) {
            ++*redone;
            if (!in.active)
                status = stand_in_start(&in, pool, piece - 1);
            if (!status)
                status = redo(&in, piece, s);
            to = in.to;
        }
        release(pool, piece);
    }
    cofi_flow_close(in.flow);
    return status;
}

/* ---- setting up ---- */

static int cut(struct pool *pool, size_t piece_bytes)
{
    static const uint8_t psb[16] = {2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82};
    const struct cofi_flow_config *c = pool->config;
    size_t max = c->n / piece_bytes + 2, at = 0;
    pool->pieces = calloc(max, sizeof *pool->pieces);
    if (!pool->pieces)
        return COFI_ERR_NOMEM;
    pool->pieces[pool->n++] = (struct piece){.begin = c->offset, .end = UINT64_MAX};
    while (at + piece_bytes < c->n && pool->n < max) {
        const uint8_t *hit = memmem(c->bytes + at + piece_bytes, c->n - at - piece_bytes, psb, sizeof psb);
        if (!hit)
            break;
        at = (size_t)(hit - c->bytes);
        while (at + 18 <= c->n && c->bytes[at + 16] == 2 && c->bytes[at + 17] == 0x82)
            at += 2;
        pool->pieces[pool->n - 1].end = c->offset + at;
        pool->pieces[pool->n++] = (struct piece){.begin = c->offset + at, .end = UINT64_MAX};
    }
    return 0;
}

static int start_workers(struct pool *pool)
{
    struct cofi_flow_config config = *pool->config;
    if (!config.cache_bytes)
        config.cache_bytes = (size_t)48 << 20;
    config.cache_bytes /= pool->threads;
    for (unsigned i = 0; i < pool->threads; i++) {
        struct worker *w = &pool->workers[i];
        w->pool = pool;
        w->index = i;
        COFI_TRY(cofi_flow_open(&w->flow, &config));
        w->flow->keep_cache = w->flow->packed = true;
        if (pthread_create(&w->thread, NULL, work, w))
            return i ? 0 : COFI_ERR_SYSTEM;
        w->started = true;
    }
    return 0;
}

static int serially(const struct cofi_flow_config *config, const struct show *s)
{
    struct cofi_flow *flow;
    struct cofi_flow_batch batch = s->batch;
    COFI_TRY(cofi_flow_open(&flow, config));
    int status = 0, more = 1;
    while (!status && more > 0) {
        more = cofi_flow_next(flow, &batch);
        status = more < 0 ? more : flush(s, &batch);
    }
    cofi_flow_close(flow);
    return status;
}

/* Large enough that beginning one does not count, small enough that all threads have some. */
static size_t usual_piece(const struct pool *pool)
{
    size_t fair = pool->config->n / (8 * (size_t)pool->threads);
    return fair < 1 << 14 ? 1 << 14 : fair > 1 << 16 ? 1 << 16 : fair;
}

static void pool_close(struct pool *pool)
{
    pthread_mutex_lock(&pool->lock);
    pool->stop = true;
    pthread_cond_broadcast(&pool->change);
    pthread_mutex_unlock(&pool->lock);
    for (unsigned i = 0; pool->workers && i < pool->threads; i++) {
        if (pool->workers[i].started)
            pthread_join(pool->workers[i].thread, NULL);
        cofi_flow_close(pool->workers[i].flow);
    }
    for (size_t i = 0; i < pool->n; i++)
        output_free(&pool->pieces[i].out);
    for (unsigned i = 0; i < pool->spare_n; i++)
        output_free(&pool->spare[i]);
    free(pool->spare);
    pthread_cond_destroy(&pool->change);
    pthread_mutex_destroy(&pool->lock);
    free(pool->workers);
    free(pool->pieces);
}

static int by_threads(struct pool *pool, size_t piece_bytes, const struct show *s, uint64_t *redone)
{
    pool->workers = calloc(pool->threads, sizeof *pool->workers);
    pool->spare = calloc(4 * (size_t)pool->threads, sizeof *pool->spare);
    int status = pool->workers && pool->spare ? cut(pool, piece_bytes ? piece_bytes : usual_piece(pool)) : COFI_ERR_NOMEM;
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->change, NULL);
    if (status >= 0)
        status = start_workers(pool);
    if (status >= 0)
        status = join(pool, s, redone);
    pool_close(pool);
    return status;
}

int cofi_flow_parallel(const struct cofi_flow_config *config, unsigned threads, size_t piece_bytes,
                       cofi_flow_visit visit, void *opaque, uint64_t *redone)
{
    struct pool pool = {.config = config, .threads = threads};
    struct show s = {.visit = visit, .opaque = opaque};
    bool one = threads < 2 || config->pull || config->gen != COFI_PT;
    uint64_t again = 0;
    int status = !show_open(&s, config->want_time) ? COFI_ERR_NOMEM
        : one ? serially(config, &s) : by_threads(&pool, piece_bytes, &s, &again);
    show_close(&s);
    if (redone)
        *redone = again;
    return status;
}
