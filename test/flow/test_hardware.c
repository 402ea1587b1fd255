/* SPDX-License-Identifier: MIT
 * What a model of a processor ran, from the packets that it made, in all the orders and forms that the manual leaves open.
 *
 * COFI_SEED=N is the first seed, COFI_COUNT=N how many (1000): by hand, thousands (COFI_COUNT=5000 build/test/flow/test-flow-hardware). With
 * COFI_SAVE=FILE the trace of the last seed is written there, for `cofi dump`. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <cofi/flow.h>

#include "ipt.h"
#include "log.h"
#include "reference/hw.h"

static struct hw hw;
static uint64_t seed_now;

/* ---- what the flow says ---- */

struct said {
    uint64_t *ips;
    size_t n, max;
    struct hw_event *events;
    size_t events_n, events_max;
    uint64_t last_ticks;
    char gap[200];
};

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
        .value = e->value, .lo = said->n, .at = said->n};
    bool back = e->time.ticks < said->last_ticks && said->last_ticks - e->time.ticks <= 0x10000; /* more is believed [PTREF 8.3] */
    if (back)
        fail_msg("seed %lu: event %zu at %#lx: time goes from %lu back to %lu", seed_now, said->events_n, e->offset, said->last_ticks, e->time.ticks);
    said->last_ticks = e->time.ticks;
    if (e->kind == COFI_FLOW_GAP && !said->gap[0])
        snprintf(said->gap, sizeof said->gap, "gap at %#lx ip %#lx behind %zu: %s", e->offset, e->ip, said->n, e->text);
}

static void hear(struct said *said, const struct cofi_flow_batch *batch)
{
    struct cofi_flow_cursor cursor = {0};
    struct cofi_flow_insn insns[64];
    for (size_t e = 0; e <= batch->events_n; e++) {
        size_t until = e < batch->events_n ? batch->events[e].at : batch->blocks_n;
        for (size_t n; (n = cofi_flow_insns(batch, &cursor, until, insns, 64)) > 0;)
            add_ips(said, insns, n);
        if (e < batch->events_n)
            add_event(said, &batch->events[e]);
    }
}

static void forget(struct said *said)
{
    free(said->ips);
    free(said->events);
}

/* ---- against the truth ---- */

static const char *text_of(const struct hw_event *e)
{
    static char texts[4][160];
    static unsigned next;
    char *text = texts[next++ & 3];
    snprintf(text, sizeof *texts, "[%s ip %lx target %lx value %lx a%x b%x c%x behind %zu..%zu]", cofi_flow_event_name(e->kind), e->ip, e->target,
        e->value, e->a, e->b, e->c, e->lo, e->at);
    return text;
}

static bool same_event(const struct hw_event *told, const struct hw_event *true_one)
{
    return told->kind == true_one->kind && told->ip == true_one->ip && told->target == true_one->target && told->value == true_one->value &&
           told->a == true_one->a && told->b == true_one->b && told->c == true_one->c && told->at >= true_one->lo && told->at <= true_one->at;
}

/* The last few instructions before a place. */
static const char *way_to(const uint64_t *ips, size_t n)
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

static void assert_true_story(const struct said *said)
{
    const struct hw_truth *t = &hw.truth;
    for (size_t i = 0; i < said->events_n && i < t->events_n; i++)
        if (!same_event(&said->events[i], &t->events[i]))
            fail_msg("seed %lu: event %zu: %s behind%s instead of %s behind%s; %s", seed_now, i, text_of(&said->events[i]),
                way_to(said->ips, said->events[i].at), text_of(&t->events[i]), way_to(t->ran, t->events[i].at), said->gap);
    for (size_t i = 0; i < said->n && i < t->n; i++)
        if (said->ips[i] != t->ran[i])
            fail_msg("seed %lu: instruction %zu of %zu: %#lx, ran %#lx; %s", seed_now, i, t->n, said->ips[i], t->ran[i], said->gap);
    if (said->n != t->n || said->events_n != t->events_n)
        fail_msg("seed %lu: %zu instructions of %zu, %zu events of %zu; %s", seed_now, said->n, t->n, said->events_n, t->events_n, said->gap);
}

/* ---- decoding ---- */

static struct cofi_image *image_of(const struct hw_code *code)
{
    struct cofi_image *image;
    assert_int_equal(cofi_image_open(&image), 0);
    for (unsigned i = 0; i < HW_SEGMENTS; i++)
        assert_int_equal(cofi_image_map_bytes(image, 0, code->segments[i].base, code->segments[i].bytes, code->segments[i].size, "code"), 0);
    return image;
}

static struct cofi_flow_config configuration(const struct cofi_image *image)
{
    struct cofi_flow_config config;
    cofi_flow_config_init(&config, COFI_PT);
    config.image = image;
    config.bytes = hw.wire.bytes;
    config.n = hw.wire.n;
    config.family = hw.config.family;
    config.model = hw.config.model;
    config.ctl_known = hw.config.event || hw_has_skl014(&hw) || seed_now & 1;
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

static struct cofi_flow_batch batch_of(bool times)
{
    return (struct cofi_flow_batch){.blocks = blocks, .blocks_max = 1024, .times = times ? stamps : NULL, .events = events, .events_max = 64};
}

static struct cofi_flow *flow_of(const struct cofi_flow_config *config)
{
    struct cofi_flow *flow;
    assert_int_equal(cofi_flow_open(&flow, config), 0);
    return flow;
}

static void all(struct cofi_flow *flow, bool times, struct said *said, struct log *log)
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

/* Once more with all code known, and from each PSB. */
static void warm_and_from_psbs(struct cofi_flow *flow, const struct cofi_flow_config *config, const struct log *cold)
{
    const struct hw_truth *t = &hw.truth;
    struct log warm = {0};
    assert_int_equal(cofi_flow_seek(flow, 0), 0);
    all(flow, config->want_time, NULL, &warm);
    log_assert_same(&warm, cold, seed_now);
    free(warm.words);
    for (size_t i = 0; i < t->psbs_n; i += 1 + t->psbs_n / 8) {
        struct said said = {0};
        assert_int_equal(cofi_flow_seek(flow, t->psbs[i].offset), 0);
        assert_int_equal(cofi_flow_offset(flow), t->psbs[i].offset);
        all(flow, config->want_time, &said, NULL);
        size_t n = t->n - t->psbs[i].n;
        if (said.gap[0] || said.n != n || (n && memcmp(said.ips, t->ran + t->psbs[i].n, n * sizeof *said.ips)))
            fail_msg("seed %lu: from the PSB at %#zx on %zu instructions instead of %zu; %s", seed_now, t->psbs[i].offset, said.n, n, said.gap);
        forget(&said);
    }
}

struct feed {
    size_t at, piece;
    uint8_t *copy;
};

static const uint8_t *pull(void *opaque, size_t *n)
{
    struct feed *feed = opaque;
    size_t left = hw.wire.n - feed->at;
    *n = left < feed->piece ? left : feed->piece;
    free(feed->copy);
    feed->copy = malloc(*n + 1);
    memcpy(feed->copy, hw.wire.bytes + feed->at, *n);
    feed->at += *n;
    return feed->copy;
}

static void in_pieces(struct cofi_flow_config config, const struct log *whole)
{
    struct feed feed = {.piece = 1 + seed_now * 7 % 60};
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

static void by_threads(const struct cofi_flow_config *config, const struct log *serial)
{
    struct log log = {0};
    assert_int_equal(cofi_flow_parallel(config, 2 + seed_now % 2, 64 + seed_now % 500, visit, &log, NULL), 0);
    log_assert_same(&log, serial, seed_now);
    free(log.words);
}

static void covered(const struct cofi_flow_config *config)
{
    static uint8_t map[1 << 12];
    struct cofi_flow_coverage coverage = {.map = map, .map_size = sizeof map};
    struct cofi_flow *flow = flow_of(config);
    for (unsigned pass = 1; pass <= 2; pass++) {
        assert_int_equal(cofi_flow_cover(flow, &coverage), 0);
        assert_int_equal(coverage.insns, pass * hw.truth.n);
        assert_int_equal(cofi_flow_seek(flow, 0), 0);
    }
    cofi_flow_close(flow);
}

/* The generator has a judge, too, where it makes what that knows. Behind the last packet libipt goes on to the next branch. */
static void as_libipt_has_it(void)
{
    struct ipt_code pieces[HW_SEGMENTS];
    size_t n, i = 0;
    for (unsigned k = 0; k < HW_SEGMENTS; k++)
        pieces[k] = (struct ipt_code){hw.code.segments[k].bytes, hw.code.segments[k].size, hw.code.segments[k].base};
    uint64_t *ips = ipt_insns_of(hw.wire.bytes, hw.wire.n, pieces, HW_SEGMENTS, &n);
    while (i < n && i < hw.truth.n && ips[i] == hw.truth.ran[i])
        i++;
    if (i < hw.truth.n)
        fail_msg("seed %lu: libipt: instruction %zu of %zu, of %zu that ran: behind%s, not%s", seed_now, i, n, hw.truth.n,
            way_to(ips, i < n ? i + 1 : n), way_to(hw.truth.ran, i + 1));
    free(ips);
}

static void save(void)
{
    const char *name = getenv("COFI_SAVE");
    FILE *file = name ? fopen(name, "wb") : NULL;
    if (!file)
        return;
    assert_int_equal(fwrite(hw.wire.bytes, 1, hw.wire.n, file), hw.wire.n);
    fclose(file);
}

static void judge(uint64_t seed)
{
    struct said said = {0};
    struct log log = {0};
    seed_now = seed;
    hw_run(&hw, seed);
    save();
    struct cofi_image *image = image_of(&hw.code);
    struct cofi_flow_config config = configuration(image);
    struct cofi_flow *flow = flow_of(&config);
    all(flow, config.want_time, &said, &log);
    assert_true_story(&said);
    warm_and_from_psbs(flow, &config, &log);
    cofi_flow_close(flow);
    in_pieces(config, &log);
    by_threads(&config, &log);
    covered(&config);
    if (!hw.beyond_libipt)
        as_libipt_has_it();
    cofi_image_close(image);
    forget(&said);
    free(log.words);
    hw_free(&hw);
}

static uint64_t number(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text ? strtoull(text, NULL, 0) : otherwise;
}

static void what_a_processor_ran_is_what_its_packets_say(void **state)
{
    (void)state;
    uint64_t first = number("COFI_SEED", 1), count = number("COFI_COUNT", 1000);
    for (uint64_t seed = first; seed < first + count; seed++)
        judge(seed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_a_processor_ran_is_what_its_packets_say),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
