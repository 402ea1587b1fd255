/* SPDX-License-Identifier: MIT
 * What was met before is decoded as if it were new: every block, event and count, on whole and on damaged
 * streams. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <cofi/flow.h>

#include "base/error.h"
#include "flow/walker.h"
#include "log.h"
#include "prog.h"

static struct prog prog;
static struct prog_run run;
static struct cofi_image *image;

/* PT's IA32_RTIT_CTL, RTIT_CTL. */
enum { CYC = 2, OS = 4, USER = 8, MTC = 1 << 9, TSC = 1 << 10, DISRETC = 1 << 11, BRANCH = 1 << 13 };
enum { R_OS = 4, R_USER = 8, R_MTC = 1 << 9, R_STS = 1 << 10, R_RETC = 1 << 11 };

static const struct variant {
    enum cofi_gen gen;
    uint64_t ctl;
} variants[] = {
    {COFI_PT, USER | BRANCH},
    {COFI_PT, USER | BRANCH | DISRETC},
    {COFI_PT, OS | USER | BRANCH | TSC | CYC | MTC | 3 << 14},
    {COFI_PT, USER | BRANCH | TSC | MTC | 3 << 14},
    {COFI_RTIT, R_USER | R_RETC},
    {COFI_RTIT, R_OS | R_USER | R_MTC | R_STS | R_RETC},
    {COFI_RTIT, R_USER},
};
enum { VARIANTS = sizeof variants / sizeof *variants };

static void stats(struct log *log, struct cofi_flow *flow, const struct cofi_flow_stats *before)
{
    struct cofi_flow_stats s;
    cofi_flow_stats(flow, &s);
    log_word(log, s.insns - before->insns);
    log_word(log, s.blocks - before->blocks);
    log_word(log, s.tnt_bits - before->tnt_bits);
    log_word(log, s.tips - before->tips);
    log_word(log, s.lost_bytes - before->lost_bytes);
}

/* As where hardly any span is found: they are looked for seldom, and TIPs are read ahead. */
static bool seldom;

static struct log decode(struct cofi_flow *flow, size_t blocks_max)
{
    static const struct cofi_flow_block *blocks[4096];
    struct cofi_flow_event events[64];
    struct cofi_flow_batch batch = {.blocks = blocks, .blocks_max = blocks_max, .events = events, .events_max = 64};
    struct cofi_flow_stats before;
    struct log log = {0};
    int status;
    cofi_flow_stats(flow, &before);
    do {
        if (seldom)
            flow->spans.level = SPAN_LEVELS;
        status = cofi_flow_next(flow, &batch);
        if (status > 0)
            log_batch(&log, &batch);
    } while (status > 0);
    assert_int_equal(status, 0);
    stats(&log, flow, &before);
    return log;
}

static struct cofi_time_bound bound; /* if its offset is not 0 */

static struct cofi_flow *open_flow(const uint8_t *bytes, size_t n)
{
    struct cofi_flow_config config;
    struct cofi_flow *flow;
    cofi_flow_config_init(&config, run.gen);
    config.bytes = bytes;
    config.n = n;
    config.image = image;
    config.ctl_known = true;
    config.ctl = run.ctl | 1;
    config.events = 7;
    config.time.nominal_ratio = 24;
    config.time.tsc_num = 42;
    config.time.tsc_den = 2;
    config.time.mtc_freq = 3;
    config.bounds = &bound;
    config.bounds_n = bound.offset != 0;
    assert_int_equal(cofi_flow_open(&flow, &config), 0);
    return flow;
}

static struct log plainly(const uint8_t *bytes, size_t n)
{
    struct cofi_flow *flow = open_flow(bytes, n);
    flow->spans.plain = true;
    struct log log = decode(flow, 4096);
    cofi_flow_close(flow);
    return log;
}

static void set_up_long(const struct variant *v, uint64_t seed, unsigned insns)
{
    bool os = v->ctl & OS;
    run = (struct prog_run){.gen = v->gen, .ctl = v->ctl, .insns = insns, .interrupt = seed % 3 ? 40 : 0, .os = os,
        .odd_return = seed % 2 ? 500 : 0, .clock = v->ctl & (TSC | CYC | MTC), .seed = seed};
    prog_make(&prog, seed, 1 + (unsigned)(seed * 7 % 30));
    prog_go(&prog, &run);
    image = prog_image(&prog);
}

static void set_up(const struct variant *v, uint64_t seed) { set_up_long(v, seed, 40000); }

static void tear_down(void)
{
    cofi_image_close(image);
    prog_free(&run);
}

/* Much of a stream is spans when it comes again: else the other tests show nothing. */
static void much_is_known_when_it_comes_again(void **state)
{
    (void)state;
    for (unsigned i = 0; i < VARIANTS; i++) {
        struct cofi_flow_stats s, before;
        set_up(&variants[i], 3);
        struct cofi_flow *flow = open_flow(run.trace, run.n);
        for (int pass = 0; pass < 12; pass++) {
            cofi_flow_stats(flow, &before);
            assert_int_equal(cofi_flow_seek(flow, 0), 0);
            free(decode(flow, 4096).words);
        }
        cofi_flow_stats(flow, &s);
        if ((s.span_bytes - before.span_bytes) * (variants[i].ctl & (CYC | MTC) ? 8 : 4) < run.n) /* timing is in no span */
            fail_msg("variant %u: %lu of %zu bytes", i, s.span_bytes - before.span_bytes, run.n);
        cofi_flow_close(flow);
        tear_down();
    }
}

/* A loop that calls f, which calls itself: spans that follow each other again and again are put together, over CALLs and
 * RETs, too, up to what one may have. */
static void those_that_follow_each_other_become_one(void **state)
{
    static const uint8_t loop[] = {0xe8, 0x0b, 0, 0, 0, 0x75, 0xf9}, f[] = {0x75, 5, 0xe8, 0xf9, 0xff, 0xff, 0xff, 0xc3};
    enum { DEPTH = 5, PERIOD = 2 * DEPTH + 3 }; /* JNE down, none, then RETs and the loop's JNE */
    static const uint8_t start[] = {2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82, 2, 0x23,
                                    0x71, 0x00, 0x10, 0x40, 0, 0, 0}; /* PSB, PSBEND, TIP.PGE */
    static uint8_t bytes[200000];
    struct cofi_flow_stats s;
    (void)state;
    memcpy(bytes, start, sizeof start);
    for (size_t i = sizeof start, bit = 0; i < sizeof bytes; i++) {
        uint8_t tnt = 1;
        for (unsigned k = 0; k < 6; k++, bit++)
            tnt = (uint8_t)(tnt << 1 | (bit % PERIOD >= DEPTH));
        bytes[i] = (uint8_t)(tnt << 1);
    }
    run = (struct prog_run){.gen = COFI_PT, .ctl = USER | BRANCH};
    assert_int_equal(cofi_image_open(&image), 0);
    assert_int_equal(cofi_image_map_bytes(image, 0, 0x401000, loop, sizeof loop, "loop"), 0);
    assert_int_equal(cofi_image_map_bytes(image, 0, 0x401010, f, sizeof f, "f"), 0);
    struct cofi_flow *flow = open_flow(bytes, sizeof bytes);
    struct log log = decode(flow, 4096), plain = plainly(bytes, sizeof bytes);
    cofi_flow_stats(flow, &s);
    assert_int_equal(s.gaps, 0);
    assert_true(s.span_bytes > sizeof bytes / 2);
    assert_true(s.tnt_bits / flow->spans.used > 2 * SPAN_UNITS);
    log_assert_same(&log, &plain, 0);
    free(log.words);
    free(plain.words);
    cofi_flow_close(flow);
    cofi_image_close(image);
}

/* After much that never came again, so that places are looked at seldom, a program that calls the kernel every few bytes of trace. */
static void they_are_found_between_system_calls(void **state)
{
    enum { AT = 0x401000, RANDOM = 60000, LAPS = 5000 };
    static const uint8_t code[] = {0x75, 0xfe, 0x75, 0xfc, 0xeb, 0xfa, [16] = 0xff, 0xc9, 0x75, 0xfc, 0x0f, 0x05, 0xeb, 0xf8}; /* jne, jne, jmp;
                                                                                               dec, jne, syscall, jmp */
    static const uint8_t start[] = {2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82, 2, 0x23,
                                    0x71, 0x00, 0x10, 0x40, 0, 0, 0};
    static const uint8_t over[] = {0xfe, 0x3d, 0x00, 0x10, 0x01, 0x31, 0x10, 0x10}; /* TNT, FUP and TIP.PGD, TIP.PGE */
    static const uint8_t lap[] = {0xfe, 0xfe, 0xfe, 0xfe, 0xfe, 0xfe, 0xfe, 0xfe, 0xfe, 0xfc, 0x01, 0x31, 0x16, 0x10}; /* TIP.PGD, TIP.PGE */
    enum { N = sizeof start + RANDOM + sizeof over + LAPS * sizeof lap };
    static uint8_t bytes[N];
    uint8_t *p = (uint8_t *)memcpy(bytes, start, sizeof start) + sizeof start;
    uint64_t seed = 1;
    struct cofi_flow_stats s;
    (void)state;
    for (unsigned i = 0; i < RANDOM; i++)
        *p++ = (uint8_t)(0x80 | ((seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407) >> 57 & 0x7e));
    p = (uint8_t *)memcpy(p, over, sizeof over) + sizeof over;
    for (unsigned i = 0; i < LAPS; i++, p += sizeof lap)
        memcpy(p, lap, sizeof lap);
    run = (struct prog_run){.gen = COFI_PT, .ctl = USER | BRANCH};
    assert_int_equal(cofi_image_open(&image), 0);
    assert_int_equal(cofi_image_map_bytes(image, 0, AT, code, sizeof code, "code"), 0);
    struct cofi_flow *flow = open_flow(bytes, N);
    struct log log = decode(flow, 4096), plain = plainly(bytes, N);
    cofi_flow_stats(flow, &s);
    assert_int_equal(s.gaps, 0);
    assert_true(s.span_bytes > LAPS * 9);
    log_assert_same(&log, &plain, 0);
    free(log.words);
    free(plain.words);
    cofi_flow_close(flow);
    cofi_image_close(image);
}

/* One that was found where a batch had no room for it, or that stands before a PSB+, is not what the next one follows.
 * Nested loops, tracing begun anew at each PSB. */
static void those_that_only_seem_to_follow_do_not(void **state)
{
    static const uint8_t code[] = {0xff, 0xc9, 0x75, 0xfc, 0xff, 0xca, 0x75, 0xf8, 0x0f, 0x05};
    static const uint8_t start[] = {2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82, 2, 0x23,
                                    0x71, 0x00, 0x10, 0x40, 0, 0, 0};
    static const size_t rooms[] = {4010, 2863, 1000}; /* with the first two it did, once */
    enum { N = 400000 };
    uint8_t *bytes = malloc(N);
    (void)state;
    for (size_t i = 0; i < N; i++)
        bytes[i] = i % 16 == 15 ? 0xde : 0xfe;
    for (size_t i = 0; i < N; i += N / 20)
        memcpy(bytes + i, start, sizeof start);
    run = (struct prog_run){.gen = COFI_PT, .ctl = USER | BRANCH};
    assert_int_equal(cofi_image_open(&image), 0);
    assert_int_equal(cofi_image_map_bytes(image, 0, PROG_BASE, code, sizeof code, "loop"), 0);
    struct log plain = plainly(bytes, N);
    for (size_t i = 0; i < ARRAY_LEN(rooms); i++) {
        struct cofi_flow *flow = open_flow(bytes, N);
        for (int pass = 0; pass < 3; pass++) {
            struct log log = decode(flow, rooms[i]);
            log_assert_same(&log, &plain, rooms[i]);
            free(log.words);
            assert_int_equal(cofi_flow_bytes(flow, bytes, N), 0);
        }
        cofi_flow_close(flow);
    }
    free(plain.words);
    free(bytes);
    cofi_image_close(image);
}

/* Runs move to the larger table: none of them is made again. */
static void runs_are_found_when_their_table_has_grown(void **state)
{
    enum { GROWN = 1 << 15 };
    struct cofi_flow_stats first, second;
    (void)state;
    set_up_long(&variants[0], 3, 1000000);
    struct cofi_flow *flow = open_flow(run.trace, run.n);
    flow->spans.plain = true;
    free(decode(flow, 4096).words);
    cofi_flow_stats(flow, &first);
    assert_true(flow->cache.runs_size >= GROWN);
    assert_int_equal(cofi_flow_seek(flow, 0), 0);
    free(decode(flow, 4096).words);
    cofi_flow_stats(flow, &second);
    assert_true((second.run_misses - first.run_misses) * 50 < first.run_misses);
    cofi_flow_close(flow);
    tear_down();
}

/* Emptying the cache keeps the tables' memory, and nothing that they held; the stream is the same behind it. */
static void an_emptied_cache_knows_nothing(void **state)
{
    (void)state;
    set_up(&variants[0], 3);
    struct cofi_flow *flow = open_flow(run.trace, run.n);
    struct log plain = plainly(run.trace, run.n);
    for (int pass = 0; pass < 4; pass++) {
        assert_int_equal(cofi_flow_bytes(flow, run.trace, run.n), 0);
        struct log log = decode(flow, 4096);
        log_assert_same(&log, &plain, run.seed);
        free(log.words);
        assert_true(flow->cache.table_size && flow->cache.runs_size && flow->cache.runs_n && flow->spans.slots);
        cofi__cache_flush(flow);
        assert_int_equal(flow->cache.chunks.used, 0);
        assert_true(flow->cache.table_size && flow->cache.runs_size);
        for (size_t i = 0; i < flow->cache.table_size; i++)
            assert_null(flow->cache.table[i]);
        for (size_t i = 0; i < flow->cache.runs_size; i++)
            assert_int_equal(flow->cache.runs[i].word, 0);
        for (size_t i = 0; i < SPAN_SLOTS; i++)
            assert_int_equal(flow->spans.slots[i], 0);
    }
    free(plain.words);
    cofi_flow_close(flow);
    tear_down();
}

static void again_and_again(void)
{
    for (uint64_t seed = 1; seed < 4 * VARIANTS; seed++) {
        set_up(&variants[seed % VARIANTS], seed);
        struct cofi_flow *flow = open_flow(run.trace, run.n);
        struct log plain = plainly(run.trace, run.n);
        for (int pass = 0; pass < 7; pass++) {
            assert_int_equal(cofi_flow_bytes(flow, run.trace, run.n), 0);
            struct log log = decode(flow, pass % 2 ? 512 : 4096);
            log_assert_same(&log, &plain, run.seed);
            free(log.words);
        }
        free(plain.words);
        cofi_flow_close(flow);
        tear_down();
    }
}

static void again_and_again_it_is_the_same(void **state)
{
    (void)state;
    again_and_again();
}

static void so_it_is_where_targets_are_read_ahead(void **state)
{
    (void)state;
    seldom = true;
    again_and_again();
    set_up_long(&variants[1], 3, 1000000);
    struct cofi_flow *flow = open_flow(run.trace, run.n);
    free(decode(flow, 4096).words);
    assert_true(flow->ahead.tips * 2 > flow->stats.tips); /* else nothing was shown */
    cofi_flow_close(flow);
    tear_down();
    seldom = false;
}

static uint64_t draw(uint64_t *seed)
{
    *seed = *seed * UINT64_C(6364136223846793005) + 1442695040888963407;
    return *seed >> 33;
}

/* Bits flipped, pieces moved or left out: what is met is then partly known, and partly not what followed. */
static size_t damage(uint8_t *bytes, size_t n, uint64_t *seed)
{
    for (unsigned k = 0; k < 1 + *seed % 5; k++) {
        size_t from = draw(seed) % n, to = draw(seed) % n, size = draw(seed) % 300;
        if (from + size > n || to + size > n)
            size = 0;
        if (k % 2)
            memmove(bytes + to, bytes + from, size);
        else
            bytes[from] ^= (uint8_t)(1u << draw(seed) % 8);
    }
    return n - draw(seed) % 40;
}

static void damaged_in_many_ways(uint64_t random)
{
    for (uint64_t seed = 1; seed < 2 * VARIANTS; seed++) {
        set_up(&variants[seed % VARIANTS], seed);
        struct cofi_flow *flow = open_flow(run.trace, run.n);
        uint8_t *bytes = malloc(run.n);
        for (int pass = 0; pass < 40; pass++) {
            memcpy(bytes, run.trace, run.n);
            size_t n = pass < 4 ? run.n : damage(bytes, run.n, &random);
            assert_int_equal(cofi_flow_bytes(flow, bytes, n), 0);
            struct log log = decode(flow, 4096), plain = plainly(bytes, n);
            log_assert_same(&log, &plain, run.seed);
            free(log.words);
            free(plain.words);
        }
        free(bytes);
        cofi_flow_close(flow);
        tear_down();
    }
}

struct counts {
    uint8_t map[1 << 14];
    uint64_t blocks, insns, edges;
};

static void count_block(void *opaque, const struct cofi_flow_block *block, uint64_t count)
{
    ((struct counts *)opaque)->blocks += count * (block->ip & 0xffff);
}

static struct counts cover(struct cofi_flow *flow)
{
    static struct counts counts;
    memset(&counts, 0, sizeof counts);
    struct cofi_flow_coverage coverage = {.map = counts.map, .map_size = sizeof counts.map, .block = count_block,
        .opaque = &counts};
    assert_int_equal(cofi_flow_cover(flow, &coverage), 0);
    counts.insns = coverage.insns;
    counts.edges = coverage.edges;
    return counts;
}

static void counted(void)
{
    for (uint64_t seed = 1; seed < 3 * VARIANTS; seed++) {
        set_up(&variants[seed % VARIANTS], seed);
        struct cofi_flow *flow = open_flow(run.trace, run.n), *plain = open_flow(run.trace, run.n);
        static struct counts want, got;
        plain->spans.plain = true;
        want = cover(plain);
        assert_true(want.insns > 0 && want.edges > 0);
        for (int pass = 0; pass < 6; pass++) {
            if (seldom)
                flow->spans.level = SPAN_LEVELS;
            got = cover(flow);
            assert_memory_equal(&got, &want, sizeof want);
            assert_int_equal(cofi_flow_bytes(flow, run.trace, run.n), 0);
        }
        cofi_flow_close(flow);
        cofi_flow_close(plain);
        tear_down();
    }
}

static void it_is_counted_the_same(void **state)
{
    (void)state;
    counted();
    seldom = true;
    counted();
    seldom = false;
}

/* The same stream several times in a row, in pieces; a piece is gone when the next one comes. */
struct feed {
    size_t at, piece;
    uint8_t *copy;
};

static const uint8_t *pull(void *opaque, size_t *n)
{
    struct feed *feed = opaque;
    size_t left = 4 * run.n - feed->at;
    *n = left < feed->piece ? left : feed->piece;
    free(feed->copy);
    feed->copy = malloc(*n + 1);
    for (size_t i = 0; i < *n; i++)
        feed->copy[i] = run.trace[(feed->at + i) % run.n];
    feed->at += *n;
    return feed->copy;
}

static void and_in_pieces(void **state)
{
    static const size_t pieces[] = {1, 100, 250, 1000, 4096, 1 << 20};
    (void)state;
    for (unsigned i = 0; i < 12; i++) {
        struct cofi_flow *flow[2];
        struct log log[2];
        set_up(&variants[i % VARIANTS], i + 20);
        for (int plain = 0; plain < 2; plain++) {
            struct feed feed = {.piece = pieces[i % 6]};
            struct cofi_flow_config config;
            cofi_flow_config_init(&config, run.gen);
            config.image = image;
            config.pull = pull;
            config.opaque = &feed;
            assert_int_equal(cofi_flow_open(&flow[plain], &config), 0);
            flow[plain]->spans.plain = plain;
            log[plain] = decode(flow[plain], 1024);
            cofi_flow_close(flow[plain]);
            free(feed.copy);
        }
        log_assert_same(&log[0], &log[1], run.seed);
        free(log[0].words);
        free(log[1].words);
        tear_down();
    }
}

/* Two loops, A and B, through the same code, with the same bytes: where a TIP of two bytes leads rests on the
 * address that was sent before [SDM IP Compression]. */
static void a_target_rests_on_the_one_before(void **state)
{
    static const uint8_t jump_a[] = {0xe9, 0xfb, 0xef, 0x0f, 0x00}, jump_b[] = {0xe9, 0xfb, 0xef, 0x0f, 0xf0};
    static const uint8_t loop[] = {0x75, 0xfe, 0xff, 0xe0}; /* jne itself; jmp rax */
    static const uint8_t psb[] = {2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82, 2, 0x23};
    static const uint8_t to_a[] = {0x71, 0x00, 0x10, 0x40, 0, 0, 0}, to_b[] = {1, 0x71, 0x00, 0x10, 0x40, 0x10, 0, 0};
    static const uint8_t lap[] = {0xfe, 0xfe, 0xfe, 0xfe, 0xfe, 0xfe, 0xfe, 0xfe, 0xfe, 0xfe, 0xfe, 0xfc, 0x2d, 0x00, 0x10};
    enum { LAPS = 200 };
    uint8_t bytes[4 * LAPS * sizeof lap];
    size_t n = sizeof psb;
    (void)state;
    memcpy(bytes, psb, sizeof psb);
    for (unsigned i = 0; i < 2 * LAPS; i++) {
        const uint8_t *to = i == 0 ? to_a : i == LAPS ? to_b : NULL;
        size_t size = i == 0 ? sizeof to_a : i == LAPS ? sizeof to_b : 0;
        memcpy(bytes + n, to ? to : lap, size);
        n += size;
        memcpy(bytes + n, lap, sizeof lap);
        n += sizeof lap;
    }
    run = (struct prog_run){.gen = COFI_PT, .ctl = USER | BRANCH};
    assert_int_equal(cofi_image_open(&image), 0);
    assert_int_equal(cofi_image_map_bytes(image, 0, 0x401000, jump_a, sizeof jump_a, "a"), 0);
    assert_int_equal(cofi_image_map_bytes(image, 0, 0x10401000, jump_b, sizeof jump_b, "b"), 0);
    assert_int_equal(cofi_image_map_bytes(image, 0, 0x500000, loop, sizeof loop, "loop"), 0);
    struct cofi_flow *flow = open_flow(bytes, n);
    struct log log = decode(flow, 4096), plain = plainly(bytes, n);
    struct cofi_flow_stats s;
    cofi_flow_stats(flow, &s);
    assert_true(s.span_bytes > n / 4);
    size_t in_b = 0;
    for (size_t i = 0; i < log.n; i++)
        in_b += log.words[i] == 0x10401000;
    assert_true(in_b >= LAPS);
    log_assert_same(&log, &plain, run.seed);
    free(log.words);
    free(plain.words);
    cofi_flow_close(flow);
    cofi_image_close(image);
}

static void so_it_is_when_the_stream_is_damaged(void **state)
{
    (void)state;
    damaged_in_many_ways(5);
    seldom = true;
    damaged_in_many_ways(6);
    seldom = false;
}

/* PSB+ with a time, tracing begun at an address, then to and fro, with a time half-way. */
static size_t targets(uint8_t *bytes, uint64_t at, uint64_t then)
{
    enum { TIMES = 60, LATER = 31, TSC_LATER = 0x2000 };
    static const uint8_t psb[] = {2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82, 0x19, 0, 0x10, 0, 0, 0, 0, 0, 2, 0x23, 0x99, 1};
    size_t n = sizeof psb;
    memcpy(bytes, psb, n);
    for (unsigned i = 0; i <= TIMES; i++) {
        if (i == LATER) {
            bytes[n++] = 0x19;
            for (unsigned k = 0; k < 7; k++)
                bytes[n++] = (uint8_t)((uint64_t)TSC_LATER >> 8 * k);
        }
        uint64_t to = i & 1 ? then : at;
        bytes[n++] = i ? 0xcd : 0xd1; /* TIP, TIP.PGE of 8 bytes */
        for (unsigned k = 0; k < 8; k++)
            bytes[n++] = (uint8_t)(to >> 8 * k);
    }
    return n;
}

/* Code at `then` becomes other code at a time that the trace tells, and again at one that only the bounds tell, which counts where the kernel
 * returns to user code: what is known of it from before is not gone by. */
static void targets_read_ahead_lead_to_the_code_of_their_time(void **state)
{
    static const uint8_t jump[] = {0xff, 0xe0}, later[] = {0x90, 0xff, 0xe0};
    static const struct { uint64_t at, then; } ways[] = {
        {0x401000, 0x402000}, {UINT64_C(0xffffffff81000000), 0x401000}, {UINT64_C(0xffffffff81000000), UINT64_C(0xffffffff81002000)}};
    (void)state;
    seldom = true;
    for (size_t i = 0; i < ARRAY_LEN(ways); i++) {
        uint8_t bytes[1024];
        size_t n = targets(bytes, ways[i].at, ways[i].then);
        run = (struct prog_run){.gen = COFI_PT, .ctl = OS | USER | BRANCH | TSC};
        assert_int_equal(cofi_image_open(&image), 0);
        assert_int_equal(cofi_image_map_bytes(image, 0, ways[i].at, jump, sizeof jump, "jump"), 0);
        assert_int_equal(cofi_image_map_bytes(image, 0, ways[i].then, jump, sizeof jump, "jump"), 0);
        assert_int_equal(cofi_image_map_bytes(image, 0x2000, ways[i].then, later, sizeof later, "later"), 0);
        assert_int_equal(cofi_image_map_bytes(image, 0x3000, ways[i].then, jump, sizeof jump, "jump"), 0);
        bound = (struct cofi_time_bound){.offset = n - 100, .least = 0x3000, .most = 0x4000};
        struct cofi_flow *flow = open_flow(bytes, n);
        struct log log = decode(flow, 4096), plain = plainly(bytes, n);
        assert_true(flow->ahead.tips > 20 || (ways[i].at ^ ways[i].then) >> 63);
        log_assert_same(&log, &plain, i);
        free(log.words);
        free(plain.words);
        cofi_flow_close(flow);
        cofi_image_close(image);
    }
    bound.offset = 0;
    seldom = false;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(much_is_known_when_it_comes_again),
        cmocka_unit_test(those_that_follow_each_other_become_one),
        cmocka_unit_test(they_are_found_between_system_calls),
        cmocka_unit_test(those_that_only_seem_to_follow_do_not),
        cmocka_unit_test(runs_are_found_when_their_table_has_grown),
        cmocka_unit_test(an_emptied_cache_knows_nothing),
        cmocka_unit_test(again_and_again_it_is_the_same),
        cmocka_unit_test(so_it_is_where_targets_are_read_ahead),
        cmocka_unit_test(so_it_is_when_the_stream_is_damaged),
        cmocka_unit_test(targets_read_ahead_lead_to_the_code_of_their_time),
        cmocka_unit_test(it_is_counted_the_same),
        cmocka_unit_test(and_in_pieces),
        cmocka_unit_test(a_target_rests_on_the_one_before),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
