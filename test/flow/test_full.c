/* SPDX-License-Identifier: MIT
 * Traces whose output was full now and then, as perf's buffer is: what is told did run, all behind a break is told, in every way to decode. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <cofi/error.h>
#include <cofi/flow.h>
#include <cofi/stream.h>

#include "log.h"
#include "prog.h"
#include "rig.h"

static struct prog prog;
static uint64_t seed_now;

/* ---- what is told ---- */

struct told {
    uint64_t *ips;
    size_t n, max;
    size_t after[PROG_BREAKS + 1], after_n; /* instructions before each gap of a full output */
    const struct prog_run *run;
};

static void add_block(struct told *told, const struct cofi_flow_block *block)
{
    for (uint32_t i = 0; i < block->n; i++) {
        if (told->n == told->max) {
            told->max = told->max ? told->max * 2 : 4096;
            told->ips = realloc(told->ips, told->max * sizeof *told->ips);
            assert_non_null(told->ips);
        }
        told->ips[told->n++] = block->insns[i].ip;
    }
}

static void add_event(struct told *told, const struct cofi_flow_event *event)
{
    if (event->kind != COFI_FLOW_GAP)
        return;
    if (event->cause != COFI_ERR_FULL || told->after_n == told->run->breaks_n)
        fail_msg("seed %lu: %s at %#lx", seed_now, event->text, event->offset);
    uint64_t at = told->run->breaks[told->after_n];
    if (event->offset > at || event->offset + 16 < at || event->end < at)
        fail_msg("seed %lu: a gap from %#lx to %#lx instead of %#lx", seed_now, event->offset, event->end, at);
    told->after[told->after_n++] = told->n;
}

static void add(struct told *told, const struct cofi_flow_batch *batch)
{
    size_t event = 0;
    for (size_t b = 0; b <= batch->blocks_n; b++) {
        for (; event < batch->events_n && batch->events[event].at == b; event++)
            add_event(told, &batch->events[event]);
        if (b < batch->blocks_n)
            add_block(told, batch->blocks[b]);
    }
}

static void decode(const struct cofi_flow_config *config, struct told *told, struct log *log)
{
    enum { BLOCKS = 1024, EVENTS = 64 };
    static const struct cofi_flow_block *blocks[BLOCKS];
    static struct cofi_flow_stamp times[BLOCKS];
    struct cofi_flow_event events[EVENTS];
    struct cofi_flow_batch batch = {.blocks = blocks, .blocks_max = BLOCKS, .events = events, .events_max = EVENTS,
        .times = config->want_time ? times : NULL};
    struct cofi_flow *flow;
    int status;
    assert_int_equal(cofi_flow_open(&flow, config), 0);
    while ((status = cofi_flow_next(flow, &batch)) > 0) {
        if (told)
            add(told, &batch);
        log_batch(log, &batch);
    }
    assert_int_equal(status, 0);
    cofi_flow_close(flow);
}

/* ---- judges ---- */

/* Behind each break all from the first instruction on, up to where the next one leaves it untold. */
static void assert_true_story(const struct told *told, const struct prog_run *run)
{
    assert_int_equal(told->after_n, run->breaks_n);
    for (size_t i = 0; i <= run->breaks_n; i++) {
        size_t from = i ? told->after[i - 1] : 0, to = i < run->breaks_n ? told->after[i] : told->n;
        size_t begin = i ? run->resumed[i - 1] : 0, least = i < run->breaks_n ? run->sure[i] : run->truth_n;
        size_t most = i < run->breaks_n ? run->resumed[i] : run->truth_n, n = to - from;
        if (begin + n > most || (n && memcmp(told->ips + from, run->truth + begin, n * sizeof *run->truth)))
            fail_msg("seed %lu: %zu instructions behind break %zu did not run so", seed_now, n, i);
        if (least > begin && n < least - begin)
            fail_msg("seed %lu: %zu instructions of %zu behind break %zu", seed_now, n, least - begin, i);
    }
}

struct feed {
    const struct prog_run *run;
    size_t at, piece;
    uint8_t *copy;
};

static const uint8_t *pull(void *opaque, size_t *n)
{
    struct feed *feed = opaque;
    size_t left = feed->run->n - feed->at;
    *n = left < feed->piece ? left : feed->piece;
    free(feed->copy);
    feed->copy = malloc(*n + 1);
    assert_non_null(feed->copy);
    memcpy(feed->copy, feed->run->trace + feed->at, *n);
    feed->at += *n;
    return feed->copy;
}

static void assert_same_in_pieces(struct cofi_flow_config config, const struct prog_run *run, const struct log *whole)
{
    for (size_t piece = 1; piece < 5000; piece = piece * 7 + 3) {
        struct feed feed = {.run = run, .piece = piece};
        struct log log = {0};
        config.opaque = &feed;
        config.pull = pull;
        decode(&config, NULL, &log);
        log_assert_same(&log, whole, seed_now);
        free(log.words);
        free(feed.copy);
    }
}

static int visit(void *opaque, struct cofi_flow *flow, const struct cofi_flow_batch *batch)
{
    (void)flow;
    log_batch(opaque, batch);
    return 0;
}

static void assert_same_by_threads(struct cofi_flow_config config, const struct prog_run *run, const struct log *whole)
{
    for (int pulled = 0; pulled < 2; pulled++) {
        struct feed feed = {.run = run, .piece = 100};
        struct log log = {0};
        config.opaque = &feed;
        config.pull = pulled ? pull : NULL;
        assert_int_equal(cofi_flow_parallel(&config, 3, 64 + seed_now % 2000, visit, &log, NULL), 0);
        log_assert_same(&log, whole, seed_now);
        free(log.words);
        free(feed.copy);
    }
}

static void sum(void *opaque, const struct cofi_flow_block *block, uint64_t count)
{
    *(uint64_t *)opaque += block->n * count;
}

static void assert_same_count(const struct cofi_flow_config *config, const struct told *told)
{
    uint64_t counted = 0;
    struct cofi_flow_coverage coverage = {.block = sum, .opaque = &counted};
    struct cofi_flow *flow;
    assert_int_equal(cofi_flow_open(&flow, config), 0);
    assert_int_equal(cofi_flow_cover(flow, &coverage), 0);
    assert_int_equal(counted, told->n);
    cofi_flow_close(flow);
}

/* From a PSB behind any byte on: the end of what is told from the start. */
static void assert_same_from(const struct cofi_flow_config *config, const struct told *whole, uint64_t from)
{
    struct told told = {.run = whole->run};
    struct cofi_flow *flow;
    static const struct cofi_flow_block *blocks[512];
    struct cofi_flow_event events[16];
    struct cofi_flow_batch batch = {.blocks = blocks, .blocks_max = 512, .events = events, .events_max = 16};
    assert_int_equal(cofi_flow_open(&flow, config), 0);
    int status = cofi_flow_seek(flow, from);
    while (told.after_n < whole->run->breaks_n && whole->run->breaks[told.after_n] <= cofi_flow_offset(flow))
        told.after[told.after_n++] = 0;
    while (status >= 0 && (status = cofi_flow_next(flow, &batch)) > 0)
        add(&told, &batch);
    assert_int_equal(status, cofi_sync_forward(COFI_PT, config->bytes, config->n, from) == COFI_NO_PSB ? COFI_ERR_NO_SYNC : 0);
    if (told.n > whole->n || (told.n && memcmp(told.ips, whole->ips + whole->n - told.n, told.n * sizeof *told.ips)))
        fail_msg("seed %lu: from %#lx on %zu instructions that are not the last ones", seed_now, from, told.n);
    cofi_flow_close(flow);
    free(told.ips);
}

static void judge(struct prog_run run, uint64_t seed)
{
    struct cofi_flow_config config;
    struct told told = {.run = &run};
    struct log log = {0};
    seed_now = seed;
    prog_make(&prog, seed, 4 + (unsigned)(seed % 40));
    run.seed = seed;
    prog_go(&prog, &run);
    struct cofi_image *image = prog_image(&prog);
    cofi_flow_config_init(&config, run.gen);
    config.bytes = run.trace;
    config.n = run.n;
    config.ctl_known = true;
    config.ctl = run.ctl | 1;
    config.image = image;
    config.breaks = run.breaks;
    config.breaks_n = run.breaks_n;
    config.want_time = seed % 3 == 0;
    decode(&config, &told, &log);
    assert_true_story(&told, &run);
    assert_same_in_pieces(config, &run, &log);
    assert_same_by_threads(config, &run, &log);
    assert_same_count(&config, &told);
    for (uint64_t from = seed % 1000; from < run.n; from += 5000)
        assert_same_from(&config, &told, from);
    cofi_image_close(image);
    free(told.ips);
    free(log.words);
    prog_free(&run);
}

enum { CYC = 2, OS = 4, USER = 8, MTC = 1 << 9, TSC = 1 << 10, DISRETC = 1 << 11, BRANCH = 1 << 13 };

static uint64_t seed_of(const char *name, uint64_t usual)
{
    const char *told = getenv(name);
    return told ? strtoull(told, NULL, 0) : usual;
}

static void what_ran_between_is_lost_and_nothing_else(void **state)
{
    static const uint64_t ctls[] = {USER | BRANCH, USER | OS | BRANCH | TSC | MTC | CYC, USER | BRANCH | TSC | MTC | DISRETC, USER | OS | BRANCH};
    uint64_t first = seed_of("COFI_SEED", 1), count = seed_of("COFI_COUNT", 60);
    (void)state;
    for (uint64_t seed = first; seed < first + count; seed++) {
        uint64_t ctl = ctls[seed % 4];
        judge((struct prog_run){.gen = COFI_PT, .ctl = ctl, .insns = 30000, .interrupt = 100, .signal = 50, .odd_return = 500, .os = ctl & OS,
            .clock = ctl & TSC, .mtc_freq = 3, .full = 200 + seed * 37 % 3000}, seed);
    }
}

/* ---- by hand ---- */

static struct rig rig;

/* 401000 nop; 401001 jnz 401001; 401003 nop; 401004 syscall; 401006 nop; 401007 nop; 401008 syscall */
static const char *decode_from(bool synced, const char *before, const char *behind)
{
    static uint64_t at;
    static char *kept, all[256];
    snprintf(all, sizeof all, "%s %s", before, behind);
    rig_open(&rig, COFI_PT, 0x401000, "90 75fe 90 0f05 90 90 0f05");
    rig_trace(&rig, before);
    at = rig.n;
    rig_trace(&rig, all);
    rig.config.breaks = &at;
    rig.config.breaks_n = 1;
    rig.config.synced = synced;
    free(kept);
    kept = strdup(rig_run(&rig));
    rig_close(&rig);
    return kept;
}

static const char *decode_by_hand(const char *before, const char *behind) { return decode_from(true, before, behind); }

#define BEFORE "[psb] [enabled >401000] 401000 401001 [gap 401003 FULL] "

static void a_packet_that_is_cut_swallows_nothing(void **state)
{
    (void)state;
    assert_string_equal(decode_by_hand("H 04 2d04", "9901 71061040000000 01"), BEFORE "[enabled >401006] 401006 401007 401008 [disabled 401008]");
    assert_string_equal(decode_by_hand("H 04 02", "9901 71061040000000 01"), BEFORE "[enabled >401006] 401006 401007 401008 [disabled 401008]");
    assert_string_equal(decode_by_hand("H 04", "9901 71061040000000 01"), BEFORE "[enabled >401006] 401006 401007 401008 [disabled 401008]");
}

/* What it is compressed against may be among what was lost. */
static void a_short_address_behind_a_break_is_none(void **state)
{
    (void)state;
    assert_string_equal(decode_by_hand("H 04", "31 0610 01 71031040000000 01"),
        BEFORE "[disabled] [enabled >401003] 401003 401004 [disabled 401004]");
}

static void at_the_end_it_is_told_too(void **state)
{
    (void)state;
    assert_string_equal(decode_by_hand("H 04", ""), "[psb] [enabled >401000] 401000 401001 [gap 401003 FULL]");
}

/* Nothing before it can be read, but what is behind it can. */
static void a_break_needs_no_psb(void **state)
{
    (void)state;
    for (int synced = 0; synced < 2; synced++)
        assert_string_equal(decode_from(synced, "06", "9901 71061040000000 P 7d061040000000 0223 01"),
            "[gap NO_SYNC] [enabled >401006] [psb 401006] 401006 401007 401008 [disabled 401008]");
    assert_string_equal(decode_by_hand("H 04 d5", "9901 71061040000000 01"),
        "[psb] [enabled >401000] 401000 401001 [gap 401003 BAD_PACKET] [enabled >401006] 401006 401007 401008 [disabled 401008]");
}

/* Bytes of a block's items are others outside of it. */
static void a_block_does_not_go_on_behind_it(void **state)
{
    (void)state;
    assert_string_equal(decode_by_hand("H 04 026301", "04 71061040000000 01"),
        "[psb] [enabled >401000] 401000 401001 [bbp a1 b0 c0] [gap 401003 FULL] [enabled >401006] 401006 401007 401008 [disabled 401008]");
}

/* A CFE whose FUP or TIP was lost is told, and one behind it that waits for neither is not kept back. */
static void what_waits_for_a_packet_that_is_lost_is_told(void **state)
{
    (void)state;
    assert_string_equal(decode_by_hand("H 04 02130420", "71061040000000 01"),
        "[psb] [enabled >401000] 401000 401001 [cfe a4 b20 c0] [gap 401003 FULL] [enabled >401006] 401006 401007 401008 [disabled 401008]");
    assert_string_equal(decode_by_hand("H 04", "02130420 71061040000000 01"),
        "[psb] [enabled >401000] 401000 401001 [cfe a4 b20 c0] [gap 401003 FULL] [enabled >401006] 401006 401007 401008 [disabled 401008]");
}

static void an_overflow_before_a_break_is_told(void **state)
{
    (void)state;
    assert_string_equal(decode_by_hand("H 04 02f3", "71061040000000 01"),
        "[psb] [enabled >401000] 401000 401001 [overflow] [gap FULL] [enabled >401006] 401006 401007 401008 [disabled 401008]");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_ran_between_is_lost_and_nothing_else),
        cmocka_unit_test(a_packet_that_is_cut_swallows_nothing),
        cmocka_unit_test(a_short_address_behind_a_break_is_none),
        cmocka_unit_test(at_the_end_it_is_told_too),
        cmocka_unit_test(a_break_needs_no_psb),
        cmocka_unit_test(a_block_does_not_go_on_behind_it),
        cmocka_unit_test(what_waits_for_a_packet_that_is_lost_is_told),
        cmocka_unit_test(an_overflow_before_a_break_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
