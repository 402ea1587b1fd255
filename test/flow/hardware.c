/* SPDX-License-Identifier: MIT
 * A decode of a trace that a model of a processor made, and what it said. */
#include "hardware.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <cofi/insn.h>

struct hw hw;
uint64_t seed_now;

/* ---- what the flow says ---- */

static void add_ips(struct said *said, const struct cofi_flow_insn *insns, size_t n)
{
    if (said->n + n > said->max)
        said->ips = realloc(said->ips, (said->max = (said->n + n) * 2) * sizeof *said->ips);
    for (size_t i = 0; i < n; i++)
        said->ips[said->n++] = insns[i].ip;
}

static void add_event(struct said *said, const struct cofi_flow_event *e)
{
    if (said->events_n == said->events_max)
        said->events = realloc(said->events, (said->events_max = said->events_max * 2 + 64) * sizeof *said->events);
    said->events[said->events_n++] = (struct hw_event){.kind = e->kind, .a = e->a, .b = e->b, .c = e->c, .ip = e->ip, .target = e->target,
        .value = e->kind == COFI_FLOW_GAP ? e->end : e->value, .offset = e->offset, .ticks = e->time.known ? e->time.ticks : 0, .lo = said->n, .at = said->n};
    bool back = e->time.ticks < said->last_ticks && said->last_ticks - e->time.ticks <= 0x10000; /* more is believed [PTREF 8.3] */
    if (back && !said->damaged)
        fail_msg("seed %lu: event %zu at %#lx: time goes from %lu back to %lu", seed_now, said->events_n, e->offset, said->last_ticks, e->time.ticks);
    said->last_ticks = e->time.ticks;
    if (e->kind == COFI_FLOW_GAP && !said->gap[0])
        snprintf(said->gap, sizeof said->gap, "gap at %#lx ip %#lx behind %zu: %s", e->offset, e->ip, said->n, e->text);
}

static uint64_t sum_of(const struct cofi_flow_block *block)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < block->n; i++)
        sum += (block->insns[i].ip + 1) * (block->insns[i].ip ^ UINT64_C(0x9e3779b97f4a7c15));
    return sum;
}

static struct jcc *jcc_at(struct jcc *jccs, uint64_t ip)
{
    for (size_t at = ip, n = 0; n < JCC_ROWS; at++, n++) {
        struct jcc *jcc = &jccs[at % JCC_ROWS];
        if (!jcc->end || jcc->ip == ip)
            return jcc;
    }
    fail_msg("more than %d branches", JCC_ROWS);
    return NULL;
}

static struct jcc *jcc_of(struct jcc *jccs, const struct cofi_flow_block *block)
{
    struct jcc *jcc = jcc_at(jccs, block->insns[block->n - 1].ip);
    jcc->ip = block->insns[block->n - 1].ip;
    jcc->end = block->end;
    jcc->target = block->target;
    return jcc;
}

/* An event may be behind instructions that are not shown [ERR BDM64]. */
static void add_outcome(struct said *said, uint64_t to)
{
    if (said->open && (to == said->open->end || to == said->open->target))
        said->open->led[to == said->open->target]++;
    said->open = NULL;
}

static void add_blocks(struct said *said, const struct cofi_flow_block *const *blocks, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        add_outcome(said, blocks[i]->ip);
        if (blocks[i]->cls == COFI_CLASS_JCC) {
            said->open = jcc_of(said->jccs, blocks[i]);
            said->open->ran++;
        }
        if (said->last_block)
            said->map[cofi_flow_edge(said->last_block, blocks[i]->ip) % sizeof said->map]++;
        said->last_block = blocks[i]->ip;
        said->sum += sum_of(blocks[i]);
    }
}

/* Of what ends here no edge leads on. */
static bool breaks(uint8_t kind)
{
    return kind == COFI_FLOW_ENABLED || kind == COFI_FLOW_DISABLED || kind == COFI_FLOW_ASYNC || kind == COFI_FLOW_ASYNC_DISABLED ||
           kind == COFI_FLOW_OVERFLOW || kind == COFI_FLOW_GAP;
}

void hear(struct said *said, const struct cofi_flow_batch *batch)
{
    struct cofi_flow_cursor cursor = {0};
    struct cofi_flow_insn insns[64];
    size_t block = 0;
    for (size_t e = 0; e <= batch->events_n; e++) {
        size_t until = e < batch->events_n ? batch->events[e].at : batch->blocks_n;
        for (size_t n; (n = cofi_flow_insns(batch, &cursor, until, insns, 64)) > 0;)
            add_ips(said, insns, n);
        add_blocks(said, batch->blocks + block, until - block);
        block = until;
        if (e == batch->events_n)
            break;
        const struct cofi_flow_event *event = &batch->events[e];
        add_event(said, event);
        if (event->kind == COFI_FLOW_ASYNC || event->kind == COFI_FLOW_ASYNC_DISABLED)
            add_outcome(said, event->ip);
        if (event->kind == COFI_FLOW_DISABLED && said->open && said->open->ip == event->ip)
            add_outcome(said, said->open->target); /* only a taken one leaves */
        if (breaks(event->kind)) {
            said->last_block = 0;
            if (said->open && event->kind == COFI_FLOW_GAP && event->cause == COFI_ERR_NO_OUTCOMES)
                said->open->untold++;
            said->open = NULL;
        }
    }
}

void forget(struct said *said)
{
    free(said->ips);
    free(said->events);
}

/* The last few instructions before a place. */
const char *way_to(const uint64_t *ips, size_t n)
{
    static char texts[2][200];
    static unsigned next;
    char *text = texts[next++ & 1];
    int at = 0;
    text[0] = 0;
    for (size_t i = n < 8 ? 0 : n - 8; i < n; i++)
        at += snprintf(text + at, sizeof *texts - (size_t)at, " %lx", ips[i]);
    return text;
}

/* ---- decoding ---- */

struct cofi_image *image_of_code(void) { return image_without(0); }

struct cofi_image *image_without(unsigned segments)
{
    struct cofi_image *image;
    assert_int_equal(cofi_image_open(&image), 0);
    for (unsigned i = 0; i < HW_SEGMENTS; i++)
        if (!(segments >> i & 1))
            assert_int_equal(cofi_image_map_bytes(image, 0, hw.code.segments[i].base, hw.code.segments[i].bytes, hw.code.segments[i].size, "code"), 0);
    return image;
}

struct cofi_flow_config configuration(const struct cofi_image *image)
{
    struct cofi_flow_config config;
    cofi_flow_config_init(&config, COFI_PT);
    config.image = image;
    config.bytes = hw.wire.bytes;
    config.n = hw.wire.n;
    config.family = hw.config.family;
    config.model = hw.config.model;
    config.ctl_known = (hw.config.event && !hw.config.gaps) || hw.config.dis_tnt || hw_has_skl014(&hw) || seed_now & 1;
    config.ctl = hw_ctl(&hw.config);
    config.ranges_known = hw_has_skl014(&hw) || (config.ctl_known && seed_now & 2);
    memcpy(config.range_base, hw.config.range_base, sizeof config.range_base);
    memcpy(config.range_limit, hw.config.range_limit, sizeof config.range_limit);
    config.time = (struct cofi_time_info){.tsc = hw.config.tsc, .mtc = hw.config.mtc, .cyc = hw.config.cyc, .mtc_freq = (uint8_t)hw.config.mtc_freq,
        .tsc_num = 8, .tsc_den = 2, .nominal_ratio = 24};
    config.want_time = seed_now & 4;
    return config;
}

static const struct cofi_flow_block *blocks[1024];
static struct cofi_flow_stamp stamps[1024];
static struct cofi_flow_event events[64];

struct cofi_flow_batch batch_of(bool times)
{
    return (struct cofi_flow_batch){.blocks = blocks, .blocks_max = 1024, .times = times ? stamps : NULL, .events = events, .events_max = 64};
}

struct cofi_flow *flow_of(const struct cofi_flow_config *config)
{
    struct cofi_flow *flow;
    assert_int_equal(cofi_flow_open(&flow, config), 0);
    return flow;
}

void all(struct cofi_flow *flow, bool times, struct said *said, struct log *log)
{
    struct cofi_flow_batch batch = batch_of(times);
    int status;
    while ((status = cofi_flow_next(flow, &batch)) > 0) {
        if (said)
            hear(said, &batch);
        if (log)
            log_batch(log, &batch);
    }
    assert_int_equal(status, 0);
}

/* ---- in other ways ---- */

void assert_same_again(struct cofi_flow *flow, const struct cofi_flow_config *config, const struct log *cold)
{
    struct log warm = {0};
    assert_int_equal(cofi_flow_seek(flow, 0), 0);
    all(flow, config->want_time, NULL, &warm);
    log_assert_same(&warm, cold, seed_now);
    free(warm.words);
}

struct feed {
    size_t at;
    uint64_t random;
    uint8_t *copy;
};

/* Mostly some packets, now and then a byte, or much. */
static size_t piece_size(struct feed *feed)
{
    unsigned how = hw_below(&feed->random, 8);
    return how == 0 ? 1 : how == 1 ? 1 + hw_below(&feed->random, 2000) : 1 + hw_below(&feed->random, 60);
}

static const uint8_t *pull(void *opaque, size_t *n)
{
    struct feed *feed = opaque;
    size_t left = hw.wire.n - feed->at, size = piece_size(feed);
    *n = left < size ? left : size;
    free(feed->copy);
    feed->copy = malloc(*n + 1);
    memcpy(feed->copy, hw.wire.bytes + feed->at, *n);
    feed->at += *n;
    return feed->copy;
}

void assert_same_in_pieces(struct cofi_flow_config config, const struct log *whole)
{
    struct feed feed = {.random = seed_now + 1};
    struct log log = {0};
    config.opaque = &feed;
    config.pull = pull;
    struct cofi_flow *flow = flow_of(&config);
    all(flow, config.want_time, NULL, &log);
    log_assert_same(&log, whole, seed_now);
    cofi_flow_close(flow);
    free(log.words);
    free(feed.copy);
}

static int visit(void *opaque, struct cofi_flow *flow, const struct cofi_flow_batch *batch)
{
    (void)flow;
    log_batch(opaque, batch);
    return 0;
}

void assert_same_by_threads(const struct cofi_flow_config *config, const struct log *serial)
{
    struct log log = {0};
    size_t piece_bytes = seed_now % 4 ? 64 + seed_now % 500 : 1;
    assert_int_equal(cofi_flow_parallel(config, 2 + seed_now % 2, piece_bytes, visit, &log, NULL), 0);
    log_assert_same(&log, serial, seed_now);
    free(log.words);
}

static bool same_but_for_time(const struct hw_event *a, const struct hw_event *b)
{
    return a->kind == b->kind && a->a == b->a && a->b == b->b && a->c == b->c && a->ip == b->ip && a->target == b->target && a->value == b->value &&
           a->offset == b->offset;
}

/* Before the event number i, or the end. Up to an outcome that is wrong, one of two may have shown more of a way without outcomes that is longer
 * than a run (one in 11,000 damaged traces: seed 2010941 of test_flips, 257 instructions and 236). */
static void assert_same_way(const struct said *a, const struct said *b, size_t i)
{
    size_t from = i ? a->events[i - 1].at : 0, other_from = i ? b->events[i - 1].at : 0;
    size_t n = (i < a->events_n ? a->events[i].at : a->n) - from, other_n = (i < b->events_n ? b->events[i].at : b->n) - other_from;
    size_t least = n < other_n ? n : other_n;
    if ((n != other_n && !a->damaged) || (least && memcmp(a->ips + from, b->ips + other_from, least * sizeof *a->ips)))
        fail_msg("seed %lu: %zu instructions before event %zu, %zu where time is asked for or is not; %s", seed_now, n, i, other_n, a->gap);
}

void assert_same_at_other_times(struct cofi_flow_config config, const struct said *said)
{
    struct said other = {.damaged = said->damaged};
    config.want_time = !config.want_time;
    struct cofi_flow *flow = flow_of(&config);
    all(flow, config.want_time, &other, NULL);
    for (size_t i = 0; i < said->events_n && i < other.events_n; i++) {
        const struct hw_event *a = &said->events[i], *b = &other.events[i];
        if (!same_but_for_time(a, b))
            fail_msg("seed %lu: event %zu: %s at %#lx, with want_time %d %s at %#lx", seed_now, i, cofi_flow_event_name((enum cofi_flow_event_kind)a->kind),
                a->offset, config.want_time, cofi_flow_event_name((enum cofi_flow_event_kind)b->kind), b->offset);
        assert_same_way(said, &other, i);
    }
    assert_int_equal(other.events_n, said->events_n);
    assert_same_way(said, &other, said->events_n);
    cofi_flow_close(flow);
    forget(&other);
}

/* ---- time ---- */

/* What waits for no other packet, so that it has the time of its own. */
static bool is_told_at_once(uint8_t kind)
{
    return kind == COFI_FLOW_PWRX || kind == COFI_FLOW_BBP || kind == COFI_FLOW_BIP || (kind == COFI_FLOW_PTWRITE && !hw.config.ptw_fup);
}

/* Of MTCs 256 and more may be lost in a row, by an overflow. */
static bool is_time(uint64_t ticks, uint64_t truth)
{
    uint64_t wrap = UINT64_C(4) * 256 << hw.config.mtc_freq;
    return ticks == truth || (hw.config.mtc && ticks < truth && (truth - ticks) % wrap == 0);
}

void assert_true_times(const struct said *said)
{
    const struct hw_truth *t = &hw.truth;
    if (hw.config.cyc || !hw.config.tsc || hw_has_skz84(&hw))
        return;
    for (size_t i = 0, k = 0; i < said->events_n; i++) {
        const struct hw_event *e = &said->events[i];
        if (!is_told_at_once(e->kind))
            continue;
        while (k < t->places_n && t->places[k].offset < e->offset)
            k++;
        if (k < t->places_n && t->places[k].offset == e->offset && t->places[k].ticks && !is_time(e->ticks, t->places[k].ticks))
            fail_msg("seed %lu: %s at %#lx: it was %lu, not %lu", seed_now, cofi_flow_event_name((enum cofi_flow_event_kind)e->kind), e->offset,
                t->places[k].ticks, e->ticks);
    }
}

/* ---- coverage ---- */

struct counted {
    uint64_t sum;
    uint8_t map[sizeof ((struct said *)NULL)->map];
    struct jcc jccs[JCC_ROWS];
};

static void add_counted(void *opaque, const struct cofi_flow_block *block, uint64_t count)
{
    struct counted *counted = opaque;
    counted->sum += count * sum_of(block);
    if (block->cls == COFI_CLASS_JCC)
        jcc_of(counted->jccs, block)->ran += (uint32_t)count;
}

static void add_counted_outcome(void *opaque, const struct cofi_flow_block *block, bool taken, uint64_t count)
{
    struct counted *counted = opaque;
    jcc_of(counted->jccs, block)->led[taken] += (uint32_t)count;
}

/* What the blocks show was counted, and of the others no more than there were: the trace may tell where a branch led behind which it broke. */
static void assert_outcomes(const struct counted *counted, const struct said *said)
{
    for (size_t i = 0; i < JCC_ROWS; i++) {
        const struct jcc *c = &counted->jccs[i], *s = jcc_at((struct jcc *)said->jccs, c->ip);
        if (c->end && (c->ran != s->ran || c->led[0] < s->led[0] || c->led[1] < s->led[1] || c->led[0] + c->led[1] + s->untold > c->ran))
            fail_msg("seed %lu: the branch at %#lx: ran %u of %u times, not taken %u of %u, taken %u of %u, untold %u", seed_now, c->ip,
                c->ran, s->ran, c->led[0], s->led[0], c->led[1], s->led[1], s->untold);
    }
}

static struct cofi_flow_coverage coverage_of(struct counted *counted)
{
    *counted = (struct counted){0};
    return (struct cofi_flow_coverage){.map = counted->map, .map_size = sizeof counted->map, .block = add_counted, .outcome = add_counted_outcome,
        .opaque = counted};
}

static void assert_counted(const struct counted *counted, uint64_t insns, const struct said *said, const char *how)
{
    bool same_map = !memcmp(counted->map, said->map, sizeof said->map);
    if (insns != said->n || counted->sum != said->sum || !same_map)
        fail_msg("seed %lu: coverage, %s: %lu instructions of %zu; the blocks are %s, the edges %s", seed_now, how, insns, said->n,
            counted->sum == said->sum ? "right" : "wrong", same_map ? "right" : "wrong");
    assert_outcomes(counted, said);
}

/* To the first what the other has counted. */
static void add_counts(struct counted *to, const struct counted *from)
{
    to->sum += from->sum;
    for (size_t i = 0; i < sizeof to->map; i++)
        to->map[i] += from->map[i];
    for (size_t i = 0; i < JCC_ROWS; i++) {
        const struct jcc *other = &from->jccs[i];
        if (!other->end)
            continue;
        struct jcc *jcc = jcc_at(to->jccs, other->ip);
        *jcc = (struct jcc){other->ip, other->end, other->target, jcc->ran + other->ran, {jcc->led[0] + other->led[0], jcc->led[1] + other->led[1]}, 0};
    }
}

static void assert_coverage_by_threads(const struct cofi_flow_config *config, const struct said *said)
{
    enum { THREADS = 3 };
    struct counted counted[THREADS];
    struct cofi_flow_coverage coverage[THREADS];
    uint64_t insns = 0;
    for (unsigned i = 0; i < THREADS; i++)
        coverage[i] = coverage_of(&counted[i]);
    assert_int_equal(cofi_flow_cover_parallel(config, THREADS, seed_now % 3 ? 64 + seed_now % 500 : 1, coverage, NULL, NULL), 0);
    for (unsigned i = 0; i < THREADS; i++)
        insns += coverage[i].insns;
    for (unsigned i = 1; i < THREADS; i++)
        add_counts(&counted[0], &counted[i]);
    assert_counted(&counted[0], insns, said, "by threads");
}

void assert_same_coverage(const struct cofi_flow_config *config, const struct said *said)
{
    struct cofi_flow *flow = flow_of(config);
    for (unsigned pass = 1; pass <= 2; pass++) {
        struct counted counted;
        struct cofi_flow_coverage coverage = coverage_of(&counted);
        assert_int_equal(cofi_flow_cover(flow, &coverage), 0);
        assert_counted(&counted, coverage.insns, said, pass == 1 ? "once" : "again");
        assert_int_equal(cofi_flow_seek(flow, 0), 0);
    }
    cofi_flow_close(flow);
    assert_coverage_by_threads(config, said);
}

/* ---- by hand ---- */

void save(void)
{
    const char *name = getenv("COFI_SAVE");
    FILE *file = name ? fopen(name, "wb") : NULL;
    if (!file)
        return;
    assert_int_equal(fwrite(hw.wire.bytes, 1, hw.wire.n, file), hw.wire.n);
    fclose(file);
}

static uint64_t number(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text ? strtoull(text, NULL, 0) : otherwise;
}

void each_seed(void (*judge)(uint64_t seed))
{
    uint64_t first = number("COFI_SEED", 1), count = number("COFI_COUNT", 1000);
    for (uint64_t seed = first; seed < first + count; seed++)
        judge(seed);
}

