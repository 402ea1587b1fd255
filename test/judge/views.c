/* SPDX-License-Identifier: MIT
 * Every stream of a recording in every view: as it is read in pieces of several sizes, by several threads, from each PSB on and
 * up to each PSB. All must be parts of one list of instructions, which is printed ("TID ADDRESS", the form of the truth).
 * Usage: judge-views RECORDING. What differs is told on standard error; status 1. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cofi/flow.h>
#include <cofi/insn.h>
#include <cofi/stream.h>
#include <cofi/trace.h>

#include "../../examples/flow_common.h"

enum { BLOCKS = 1024, MAP = 1 << 14, COVERS = 3, PSBS_MOST = 400, GAPS_MOST = 1024 };

static int differ;
static const char *recording_path;
static int32_t tid;

static void must(bool holds, const char *what, uint64_t a, uint64_t b)
{
    if (holds)
        return;
    fprintf(stderr, "%s, thread %d: %s: %" PRIu64 ", not %" PRIu64 "\n", recording_path, tid, what, a, b);
    differ = 1;
}

/* ---- the list, and what the other views should say of it ---- */

struct list {
    uint64_t *ips;
    size_t n, max;
    uint64_t branches, last_block, blocks;
    uint64_t outcomes, untold, outcomes_sum; /* of conditional branches; those behind which the trace breaks; the first ones, in any order */
    struct cofi_flow_block jcc; /* the last block, if its outcome is what comes next; n 0: none */
    uint64_t events; /* a hash of them: what, when, where in the stream, behind how many instructions */
    size_t gaps[GAPS_MOST], gaps_n; /* instructions before each */
    uint8_t map[MAP];
};

static void add_ip(struct list *list, uint64_t ip)
{
    if (list->n == list->max && !(list->ips = realloc(list->ips, (list->max = list->max * 2 + 4096) * sizeof *list->ips)))
        exit(3);
    list->ips[list->n++] = ip;
}

static bool breaks(const struct cofi_flow_event *event)
{
    return event->kind == COFI_FLOW_ENABLED || event->kind == COFI_FLOW_DISABLED || event->kind == COFI_FLOW_ASYNC ||
           event->kind == COFI_FLOW_ASYNC_DISABLED || event->kind == COFI_FLOW_OVERFLOW || event->kind == COFI_FLOW_GAP;
}

static uint64_t outcome_word(const struct cofi_flow_block *block, bool taken)
{
    return (block->insns[block->n - 1].ip * 2 + taken) * UINT64_C(0x9e3779b97f4a7c15);
}

/* COFI_NO_IP: nobody knows where it led. */
static void add_outcome(struct list *list, uint64_t to)
{
    const struct cofi_flow_block *jcc = &list->jcc;
    if (jcc->n && to == COFI_NO_IP)
        list->untold++;
    if (jcc->n && to != COFI_NO_IP) {
        list->outcomes++;
        list->outcomes_sum += outcome_word(jcc, to != jcc->end || jcc->target == to);
    }
    list->jcc.n = 0;
}

static void add_break(struct list *list, const struct cofi_flow_event *event)
{
    if (!breaks(event))
        return;
    const struct cofi_flow_block *jcc = &list->jcc;
    bool async = event->kind == COFI_FLOW_ASYNC || event->kind == COFI_FLOW_ASYNC_DISABLED;
    bool left = event->kind == COFI_FLOW_DISABLED && jcc->n && event->ip == jcc->insns[jcc->n - 1].ip; /* only a taken one does */
    list->last_block = 0;
    add_outcome(list, async ? event->ip : left ? jcc->target : COFI_NO_IP);
}

static void add_block(struct list *list, const struct cofi_flow_block *block)
{
    add_outcome(list, block->ip);
    if (block->cls == COFI_CLASS_JCC)
        list->jcc = *block;
    if (list->last_block)
        list->map[cofi_flow_edge(list->last_block, block->ip) & (MAP - 1)]++;
    list->last_block = block->ip;
    list->blocks++;
}

/* Blocks, and an edge for each two of them that nothing is between. */
static void add_blocks(struct list *list, const struct cofi_flow_batch *batch)
{
    size_t e = 0;
    for (size_t i = 0; i <= batch->blocks_n; i++) {
        for (; e < batch->events_n && batch->events[e].at <= i; e++)
            add_break(list, &batch->events[e]);
        if (i < batch->blocks_n)
            add_block(list, batch->blocks[i]);
    }
}

static void add_gap(struct list *list, size_t insns, const struct cofi_flow_event *gap)
{
    must(gap->cause == COFI_ERR_NO_SYNC || gap->cause == COFI_ERR_BAD_RETC, "a gap by cause", (uint64_t)-gap->cause, 0);
    must(list->gaps_n < GAPS_MOST, "more gaps", list->gaps_n, GAPS_MOST);
    if (list->gaps_n < GAPS_MOST)
        list->gaps[list->gaps_n++] = insns;
}

static void add_events(struct list *list, const struct cofi_flow_batch *batch)
{
    size_t insns = list->n, block = 0;
    for (size_t i = 0; i < batch->events_n; i++) {
        const struct cofi_flow_event *e = &batch->events[i];
        for (; block < e->at; block++)
            insns += batch->blocks[block]->n;
        if (e->kind == COFI_FLOW_GAP)
            add_gap(list, insns, e);
        const uint64_t words[] = {insns, e->kind, e->offset, e->ip, e->target, e->value, e->a, e->b, e->c, e->time.ticks};
        for (size_t k = 0; k < sizeof words / sizeof *words; k++)
            list->events = (list->events ^ words[k]) * UINT64_C(0x9e3779b97f4a7c15);
    }
}

/* Each branch leads from one instruction to the next, unless an event or the batch's end is between. */
static void add_branches(struct list *list, const struct cofi_flow_batch *batch, size_t at)
{
    struct cofi_flow_cursor cursor = {0};
    struct cofi_flow_branch branches[41];
    size_t end = at;
    for (size_t e = 0, block = 0; e <= batch->events_n; e++) {
        size_t until = e < batch->events_n ? batch->events[e].at : batch->blocks_n;
        for (; block < until; block++)
            end += batch->blocks[block]->n;
        for (size_t n; (n = cofi_flow_branches(batch, &cursor, until, branches, 41)) > 0;)
            for (size_t i = 0; i < n; i++, list->branches++) {
                while (at < end && list->ips[at] != branches[i].from)
                    at++;
                must(at++ < end, "a branch from no instruction", branches[i].from, 0);
                if (branches[i].to != COFI_NO_IP && at < end)
                    must(list->ips[at] == branches[i].to, "a branch to another instruction", branches[i].from, branches[i].to);
            }
    }
}

/* The view of instructions must show what the blocks hold. */
static void add_insns(struct list *list, const struct cofi_flow_batch *batch)
{
    struct cofi_flow_cursor cursor = {0};
    struct cofi_flow_insn insns[37];
    size_t before = list->n, at = 0;
    for (size_t n; (n = cofi_flow_insns(batch, &cursor, batch->blocks_n, insns, 37)) > 0;)
        for (size_t i = 0; i < n; i++)
            add_ip(list, insns[i].ip);
    for (size_t b = 0; b < batch->blocks_n; at += batch->blocks[b++]->n)
        must(list->n - before >= at + batch->blocks[b]->n && list->ips[before + at] == batch->blocks[b]->ip,
             "a block that is not in the view of instructions", b, at);
    must(list->n - before == at, "instructions", list->n - before, at);
    add_branches(list, batch, before);
}

static int visit(void *opaque, struct cofi_flow *flow, const struct cofi_flow_batch *batch)
{
    (void)flow;
    add_blocks(opaque, batch);
    add_events(opaque, batch);
    add_insns(opaque, batch);
    return 0;
}

static void clear(struct list *list)
{
    free(list->ips);
    memset(list, 0, sizeof *list);
}

static void decode(struct cofi_flow *flow, struct list *list)
{
    static const struct cofi_flow_block *blocks[BLOCKS];
    static struct cofi_flow_event events[64];
    struct cofi_flow_batch batch = {.blocks = blocks, .blocks_max = BLOCKS, .events = events, .events_max = 64};
    while (cofi_flow_next(flow, &batch) > 0)
        visit(list, flow, &batch);
}

static struct cofi_flow *open_flow(const struct cofi_flow_config *config)
{
    struct cofi_flow *flow;
    if (cofi_flow_open(&flow, config) < 0)
        exit(3);
    return flow;
}

static void same(const struct list *list, const struct list *whole, const char *what)
{
    must(list->n == whole->n && !memcmp(list->ips, whole->ips, whole->n * sizeof *whole->ips), what, list->n, whole->n);
    must(list->branches == whole->branches || !list->n, what, list->branches, whole->branches);
    must(!memcmp(list->map, whole->map, MAP), what, 0, 1);
    must(list->events == whole->events, what, list->events, whole->events);
}

/* ---- pieces ---- */

struct feed {
    const uint8_t *bytes;
    size_t n, at, piece;
    uint8_t *copy; /* a piece is gone when the next one comes */
};

static const uint8_t *pull(void *opaque, size_t *n)
{
    struct feed *feed = opaque;
    *n = feed->n - feed->at < feed->piece ? feed->n - feed->at : feed->piece;
    memset(feed->copy, 0xa5, feed->piece);
    memcpy(feed->copy, feed->bytes + feed->at, *n);
    feed->at += *n;
    return feed->copy;
}

/* The packets of the stream, however it is cut. */
static uint64_t packets(const struct cofi_flow_config *config, size_t piece)
{
    struct cofi_stream stream;
    struct cofi_stream_item item;
    uint64_t hash = 0;
    cofi_stream_init(&stream, config->gen, 0, false);
    stream.context.cyc = config->gen == COFI_RTIT && config->time.cyc;
    for (size_t at = 0; at <= config->n; at += piece) {
        if (at < config->n)
            cofi_stream_feed(&stream, config->bytes + at, config->n - at < piece ? config->n - at : piece);
        if (config->n - at <= piece)
            cofi_stream_finish(&stream);
        while (cofi_stream_next(&stream, &item)) {
            must(item.status == 0, "no packet at", item.offset, 0);
            hash = hash * 31 + item.packet.kind * 7 + item.packet.size + item.offset;
        }
    }
    return hash;
}

/* ---- the ways ---- */

struct counted {
    uint64_t blocks, insns, outcomes, outcomes_sum;
};

static void count_block(void *opaque, const struct cofi_flow_block *block, uint64_t count)
{
    struct counted *counted = opaque;
    counted->blocks += count;
    counted->insns += count * block->n;
}

static void count_outcome(void *opaque, const struct cofi_flow_block *block, bool taken, uint64_t count)
{
    struct counted *counted = opaque;
    counted->outcomes += count;
    counted->outcomes_sum += count * outcome_word(block, taken);
}

static void add_counted(struct counted *to, const struct counted *from)
{
    to->blocks += from->blocks;
    to->insns += from->insns;
    to->outcomes += from->outcomes;
    to->outcomes_sum += from->outcomes_sum;
}

/* By so many threads: 1 to COVERS. */
static void cover(const struct cofi_flow_config *config, const struct list *whole, unsigned threads)
{
    static uint8_t map[COVERS][MAP];
    struct counted counted[COVERS] = {0};
    struct cofi_flow_coverage coverage[COVERS];
    memset(map, 0, sizeof map);
    for (unsigned i = 0; i < threads; i++)
        coverage[i] = (struct cofi_flow_coverage){.map = map[i], .map_size = MAP, .block = count_block, .outcome = count_outcome, .opaque = &counted[i]};
    if (cofi_flow_cover_parallel(config, threads, 1, coverage, NULL, NULL) < 0)
        exit(3);
    for (unsigned i = 1; i < threads; i++) {
        add_counted(&counted[0], &counted[i]);
        coverage[0].insns += coverage[i].insns;
        for (size_t k = 0; k < MAP; k++)
            map[0][k] += map[i][k];
    }
    must(!memcmp(map[0], whole->map, MAP), "coverage: another map", threads, 1);
    must(coverage[0].insns == whole->n && counted[0].insns == whole->n, "coverage: instructions", coverage[0].insns, whole->n);
    must(counted[0].blocks == whole->blocks, "coverage: blocks", counted[0].blocks, whole->blocks);
    must(counted[0].outcomes >= whole->outcomes && counted[0].outcomes <= whole->outcomes + whole->untold + (whole->jcc.n > 0), "coverage: outcomes",
         counted[0].outcomes, whole->outcomes);
    must(counted[0].outcomes_sum == whole->outcomes_sum || counted[0].outcomes != whole->outcomes, "coverage: other outcomes", 0, 0);
}

static void in_pieces(struct cofi_flow_config config, const struct list *whole)
{
    static const size_t sizes[] = {1, 2, 3, 7, 61, 4096, 65536, 1 << 20};
    static struct list list;
    struct feed feed = {.bytes = config.bytes, .n = config.n, .copy = malloc(1 << 20)};
    uint64_t all = packets(&config, config.n + 1);
    for (size_t i = 0; feed.copy && i < sizeof sizes / sizeof *sizes; i++) {
        must(packets(&config, sizes[i]) == all, "other packets in pieces of", sizes[i], 0);
        struct cofi_flow_config cut = config;
        cut.bytes = NULL;
        cut.n = 0;
        cut.pull = pull;
        cut.opaque = &feed;
        feed.piece = sizes[i];
        feed.at = 0;
        struct cofi_flow *flow = open_flow(&cut);
        decode(flow, &list);
        cofi_flow_close(flow);
        same(&list, whole, "in pieces");
        clear(&list);
        feed.at = 0;
        cover(&cut, whole, 1);
        feed.at = 0;
        cover(&cut, whole, COVERS);
        feed.at = 0;
        if (cofi_flow_parallel(&cut, 3, 1, visit, &list, NULL) < 0)
            exit(3);
        same(&list, whole, "in pieces, by three threads");
        clear(&list);
    }
    free(feed.copy);
}

static void by_threads(const struct cofi_flow_config *config, const struct list *whole)
{
    static struct list list;
    for (unsigned threads = 1; threads <= 4; threads++) {
        if (cofi_flow_parallel(config, threads, threads == 4 ? 0 : 1, visit, &list, NULL) < 0)
            exit(3);
        same(&list, whole, "by threads");
        clear(&list);
    }
}

static const uint64_t *find(const uint64_t *ips, size_t n, const uint64_t *part, size_t part_n)
{
    for (; n >= part_n; ips++, n--)
        if (!memcmp(ips, part, part_n * sizeof *part))
            return ips;
    return NULL;
}

/* The end of the whole. RTIT compresses a RET against the last CALL, however long ago that was [RTIT 4.2.3.2]: where it came before
 * the first address behind the PSB, the way back is missing, in a gap. */
static void is_end(const struct list *list, const struct list *whole, enum cofi_gen gen, size_t psb)
{
    const uint64_t *ips = whole->ips;
    size_t left = whole->n, from = 0;
    must(gen == COFI_RTIT || !list->gaps_n, "gaps behind the PSB at", psb, 0);
    for (size_t i = 0; i < list->gaps_n && i < GAPS_MOST; from = list->gaps[i++]) {
        size_t n = list->gaps[i] - from;
        const uint64_t *at = find(ips, left, list->ips + from, n);
        must(at, "what ran before a gap behind the PSB at", psb, n);
        if (!at)
            return;
        left = (size_t)(whole->ips + whole->n - at) - n;
        ips = at + n;
    }
    size_t rest = list->n - from;
    must(rest <= left && !memcmp(list->ips + from, whole->ips + whole->n - rest, rest * sizeof *ips), "from the PSB at", psb, rest);
}

/* From a PSB on it is the rest of the list, up to it the beginning; together not more than all. */
static void cut_at_psbs(const struct cofi_flow_config *config, const struct list *whole)
{
    static struct list list;
    struct cofi_flow *flow = open_flow(config);
    size_t psbs = 0, step;
    for (size_t at = 0; (at = cofi_sync_forward(config->gen, config->bytes, config->n, at)) != COFI_NO_PSB; at++)
        psbs++;
    step = psbs / PSBS_MOST + 1;
    size_t at = 0;
    for (size_t i = 0; i < psbs; i++, at++) {
        at = cofi_sync_forward(config->gen, config->bytes, config->n, at);
        if (i % step != 0)
            continue;
        if (cofi_flow_seek(flow, at) < 0)
            exit(3);
        decode(flow, &list);
        size_t rest = list.n;
        is_end(&list, whole, config->gen, at);
        clear(&list);
        struct cofi_flow_config first = *config;
        first.n = at;
        struct cofi_flow *begin = open_flow(&first);
        decode(begin, &list);
        cofi_flow_close(begin);
        must(list.n <= whole->n && !memcmp(list.ips, whole->ips, list.n * sizeof *list.ips), "up to the PSB at", at, list.n);
        must(list.n + rest <= whole->n, "before and behind the PSB", list.n + rest, whole->n);
        clear(&list);
    }
    cofi_flow_close(flow);
    fprintf(stderr, "# %s, thread %d: %zu PSBs, %zu instructions\n", recording_path, tid, psbs, whole->n);
}

int main(int argc, char **argv)
{
    static struct list whole;
    if (argc != 2)
        return 2;
    recording_path = argv[1];
    struct cofi_recording *recording = open_recording(argv[1]);
    for (size_t s = 0; s < cofi_recording_streams(recording); s++) {
        struct cofi_flow_config config;
        tid = cofi_recording_stream(recording, s)->tid;
        configure(&config, recording, s);
        struct cofi_flow *flow = open_flow(&config);
        decode(flow, &whole);
        tell_gaps(flow);
        cofi_flow_close(flow);
        for (size_t i = 0; i < whole.n; i++)
            printf("%d %016" PRIx64 "\n", tid, whole.ips[i]);
        cover(&config, &whole, 1);
        cover(&config, &whole, COVERS);
        by_threads(&config, &whole);
        in_pieces(config, &whole);
        cut_at_psbs(&config, &whole);
        clear(&whole);
        free((void *)config.bytes);
    }
    cofi_recording_close(recording);
    return differ;
}
