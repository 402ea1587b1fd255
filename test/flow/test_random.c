/* SPDX-License-Identifier: MIT
 * Random programs through the units and back: the decoded list is the list that ran. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <cofi/flow.h>
#include <cofi/insn.h>

#include "ipt.h"
#include "prog.h"

static struct prog prog;

struct feed {
    const struct prog_run *run;
    size_t at, piece;
};

static const uint8_t *pull(void *opaque, size_t *n)
{
    struct feed *feed = opaque;
    *n = feed->run->n - feed->at < feed->piece ? feed->run->n - feed->at : feed->piece;
    feed->at += *n;
    return feed->run->trace + feed->at - *n;
}

static void configure(struct cofi_flow_config *config, const struct prog_run *run)
{
    cofi_flow_config_init(config, run->gen);
    config->bytes = run->trace;
    config->n = run->n;
    config->ctl_known = true;
    config->ctl = run->ctl | 1 | (run->gen == COFI_PT && run->limit ? UINT64_C(1) << 32 : 0);
    config->ranges_known = true;
    config->range_base[0] = run->base;
    config->range_limit[0] = run->limit + (run->gen == COFI_RTIT);
    config->events = run->limit ? 0 : 7;
}

struct told {
    uint64_t *ips;
    size_t n, max, gaps, overflows;
    uint64_t last_ticks;
    char why[200];
};

static void add(struct told *told, const struct cofi_flow_batch *batch)
{
    struct cofi_flow_cursor cursor = {0};
    struct cofi_flow_insn insns[64];
    for (size_t n; (n = cofi_flow_insns(batch, &cursor, batch->blocks_n, insns, 64)) > 0;)
        for (size_t i = 0; i < n; i++) {
            if (told->n == told->max)
                told->ips = realloc(told->ips, (told->max = told->max ? told->max * 2 : 4096) * sizeof *told->ips);
            told->ips[told->n++] = insns[i].ip;
        }
    for (size_t i = 0; i < batch->events_n; i++) {
        const struct cofi_flow_event *e = &batch->events[i];
        assert_true(e->time.ticks >= told->last_ticks);
        told->last_ticks = e->time.ticks;
        told->overflows += e->kind == COFI_FLOW_OVERFLOW;
        if (e->kind != COFI_FLOW_GAP)
            continue;
        if (!told->gaps++)
            snprintf(told->why, sizeof told->why, "%s at %#lx ip %#lx", e->text, e->offset, e->ip);
    }
}

static void decode(struct told *told, const struct cofi_flow_config *config)
{
    static const struct cofi_flow_block *blocks[1024];
    struct cofi_flow_event events[64];
    struct cofi_flow_batch batch = {.blocks = blocks, .blocks_max = 1024, .events = events, .events_max = 64};
    struct cofi_flow *flow;
    assert_int_equal(cofi_flow_open(&flow, config), 0);
    *told = (struct told){0};
    int status;
    while ((status = cofi_flow_next(flow, &batch)) > 0)
        add(told, &batch);
    assert_int_equal(status, 0);
    cofi_flow_close(flow);
}

static void assert_same(const struct told *told, const struct prog_run *run)
{
    if (told->gaps)
        fail_msg("seed %lu: %zu gaps, the first: %s", run->seed, told->gaps, told->why);
    for (size_t i = 0; i < told->n && i < run->truth_n; i++)
        if (told->ips[i] != run->truth[i])
            fail_msg("seed %lu: instruction %zu of %zu: %#lx, ran %#lx", run->seed, i, run->truth_n, told->ips[i], run->truth[i]);
    assert_int_equal(told->n, run->truth_n);
}

static void one(struct prog_run run, uint64_t seed)
{
    struct cofi_flow_config config;
    struct told told;
    prog_make(&prog, seed, 4 + (unsigned)(seed % 40));
    run.seed = seed;
    prog_go(&prog, &run);
    struct cofi_image *image = prog_image(&prog);
    configure(&config, &run);
    config.image = image;
    decode(&told, &config);
    assert_same(&told, &run);
    free(told.ips);
    struct feed feed = {.run = &run, .piece = 1 + seed % 50};
    config.opaque = &feed;
    config.pull = pull;
    config.cache_bytes = (seed & 3) ? 0 : 600000;
    config.want_time = seed & 1;
    decode(&told, &config);
    assert_same(&told, &run);
    free(told.ips);
    cofi_image_close(image);
    prog_free(&run);
}

/* PT's IA32_RTIT_CTL. */
enum { CYC = 2, OS = 4, USER = 8, MTC = 1 << 9, TSC = 1 << 10, DISRETC = 1 << 11, BRANCH = 1 << 13 };
#define DISTNT (UINT64_C(1) << 55)
/* RTIT_CTL */
enum { R_CYC = 2, R_OS = 4, R_USER = 8, R_MTC = 1 << 9, R_STS = 1 << 10, R_RETC = 1 << 11 };

static void pt_user_code(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed < 40; seed++)
        one((struct prog_run){.gen = COFI_PT, .ctl = USER | BRANCH | (seed & 1 ? DISRETC : 0), .insns = 20000,
            .interrupt = 100, .signal = 50, .odd_return = 2000}, seed);
}

static void pt_user_and_kernel_with_all_timing(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed < 40; seed++)
        one((struct prog_run){.gen = COFI_PT, .ctl = OS | USER | BRANCH | CYC | MTC | TSC | 3 << 14, .insns = 20000,
            .interrupt = 200, .odd_return = 500, .os = true, .clock = true}, seed);
}

static void pt_deferred_tips(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed < 40; seed++)
        one((struct prog_run){.gen = COFI_PT, .ctl = USER | BRANCH | (seed & 1 ? DISRETC : 0), .insns = 20000,
            .interrupt = 100, .deferred = true}, seed);
}

static void pt_with_an_address_filter(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed < 40; seed++)
        one((struct prog_run){.gen = COFI_PT, .ctl = USER | BRANCH, .insns = 20000, .interrupt = 50,
            .base = PROG_BASE + 0x100, .limit = PROG_BASE + 0x800}, seed);
}

static void rtit_user_code(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed < 40; seed++)
        one((struct prog_run){.gen = COFI_RTIT, .ctl = R_USER | (seed & 1 ? R_RETC : 0), .insns = 20000,
            .interrupt = 100, .signal = 50, .odd_return = 2000}, seed);
}

static void rtit_user_and_kernel_with_all_timing(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed < 40; seed++)
        one((struct prog_run){.gen = COFI_RTIT, .ctl = R_OS | R_USER | R_CYC | R_MTC | R_STS | R_RETC, .insns = 20000,
            .interrupt = 200, .odd_return = 500, .os = true, .clock = true}, seed);
}

static void rtit_with_an_address_filter(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed < 40; seed++)
        one((struct prog_run){.gen = COFI_RTIT, .ctl = R_USER | R_RETC, .insns = 20000, .interrupt = 50,
            .base = PROG_BASE + 0x100, .limit = PROG_BASE + 0x800}, seed);
}

/* The instructions that libipt finds are ours, on streams whose returns all three rules agree about
 * [PTREF 7.2]. */
static void libipt_finds_the_same_instructions(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed < 20; seed++) {
        struct prog_run run = {.gen = COFI_PT, .ctl = USER | BRANCH | TSC | (seed & 1 ? DISRETC : 0),
            .insns = 20000, .interrupt = 50, .seed = seed};
        prog_make(&prog, seed, 10);
        prog_go(&prog, &run);
        size_t n = 0;
        uint64_t *ips = ipt_insns(run.trace, run.n, prog.code, prog.size, PROG_BASE, &n);
        for (size_t i = 0; i < n && i < run.truth_n; i++)
            assert_int_equal(ips[i], run.truth[i]);
        assert_int_equal(n, run.truth_n);
        free(ips);
        prog_free(&run);
    }
}

/* ---- lost packets, and starting in the middle ---- */

/* What was decoded is what ran, in its order, with pieces missing. */
static void assert_part(const struct told *told, const struct prog_run *run)
{
    size_t at = 0;
    for (size_t i = 0; i < told->n; i++, at++) {
        while (at < run->truth_n && run->truth[at] != told->ips[i])
            at++;
        if (at == run->truth_n)
            fail_msg("seed %lu: instruction %zu (%#lx) did not run there", run->seed, i, told->ips[i]);
    }
}

/* A random program's run, decoded: all that is told ran. *told is to be freed. */
static void decode_part(struct told *told, struct prog_run *run)
{
    struct cofi_flow_config config;
    prog_make(&prog, run->seed, 20);
    prog_go(&prog, run);
    struct cofi_image *image = prog_image(&prog);
    configure(&config, run);
    config.image = image;
    decode(told, &config);
    assert_part(told, run);
    cofi_image_close(image);
}

static void overflows_lose_instructions_and_invent_none(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed < 30; seed++) {
        struct prog_run run = {.gen = seed & 1 ? COFI_PT : COFI_RTIT, .insns = 20000, .interrupt = 50, .overflow = 40,
            .seed = seed};
        run.ctl = seed & 1 ? USER | BRANCH : R_USER | R_RETC;
        struct told told;
        decode_part(&told, &run);
        assert_true(told.overflows > 0);
        if (told.gaps)
            fail_msg("seed %lu: %zu gaps, the first: %s", seed, told.gaps, told.why);
        assert_true(told.n > run.truth_n / 4);
        free(told.ips);
        prog_free(&run);
    }
}

/* Returns have TIPs: what each TIP leads to is known up to the next conditional branch. */
static void without_outcomes_nothing_is_invented(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed < 40; seed++) {
        struct prog_run run = {.gen = COFI_PT, .ctl = USER | BRANCH | DISTNT | DISRETC, .insns = 20000, .interrupt = 50, .seed = seed};
        struct told told;
        decode_part(&told, &run);
        assert_true(told.gaps && told.n > run.truth_n / 10);
        free(told.ips);
        prog_free(&run);
    }
}

static void from_any_psb_on_it_is_the_rest_of_the_list(void **state)
{
    (void)state;
    struct prog_run run = {.gen = COFI_PT, .ctl = OS | USER | BRANCH | TSC, .insns = 40000, .interrupt = 50, .os = true,
        .clock = true, .seed = 4};
    static const struct cofi_flow_block *blocks[1024];
    struct cofi_flow_event events[64];
    struct cofi_flow_batch batch = {.blocks = blocks, .blocks_max = 1024, .events = events, .events_max = 64};
    struct cofi_flow_config config;
    struct cofi_flow *flow;
    prog_make(&prog, 4, 20);
    prog_go(&prog, &run);
    struct cofi_image *image = prog_image(&prog);
    configure(&config, &run);
    config.image = image;
    assert_int_equal(cofi_flow_open(&flow, &config), 0);
    for (size_t offset = 0; offset < run.n; offset += 997) {
        if (cofi_flow_seek(flow, offset) < 0)
            break;
        uint64_t at = cofi_flow_offset(flow), first = 0;
        struct told told = {0};
        while (cofi_flow_next(flow, &batch) > 0) {
            if (!first && batch.events_n)
                first = batch.events[batch.events_n - 1].time.ticks;
            add(&told, &batch);
        }
        assert_int_equal(told.gaps, 0);
        assert_true(told.n <= run.truth_n);
        assert_memory_equal(told.ips, run.truth + run.truth_n - told.n, told.n * sizeof *told.ips);
        free(told.ips);
        /* the PSB's own time leads to the same place */
        assert_int_equal(cofi_flow_seek(flow, at), 0);
        assert_int_equal(cofi_flow_offset(flow), at);
    }
    uint64_t before = 0;
    for (uint64_t ticks = 1000000; ticks < 1300000; ticks += 7001) {
        assert_int_equal(cofi_flow_seek_time(flow, ticks), 0);
        assert_true(cofi_flow_offset(flow) >= before);
        before = cofi_flow_offset(flow);
        struct told told = {0};
        assert_true(cofi_flow_next(flow, &batch) > 0);
        assert_true(batch.events_n == 0 || before == 0 || batch.events[0].time.ticks <= ticks);
        free(told.ips);
    }
    assert_true(before > 0);
    cofi_flow_close(flow);
    cofi_image_close(image);
    prog_free(&run);
}

/* ---- coverage ---- */

struct naive {
    uint8_t map[1 << 12];
    uint64_t count, insns, last;
};

/* Edges block by block, forgetting the one before at each event that breaks the flow. */
static void count_edges(struct naive *naive, const struct cofi_flow_batch *batch)
{
    size_t e = 0;
    for (size_t i = 0; i < batch->blocks_n; i++) {
        for (; e < batch->events_n && batch->events[e].at <= i; e++) {
            uint8_t kind = batch->events[e].kind;
            if (kind == COFI_FLOW_ENABLED || kind == COFI_FLOW_DISABLED || kind == COFI_FLOW_ASYNC ||
                kind == COFI_FLOW_ASYNC_DISABLED || kind == COFI_FLOW_OVERFLOW || kind == COFI_FLOW_GAP)
                naive->last = 0;
        }
        if (naive->last)
            naive->map[cofi_flow_edge(naive->last, batch->blocks[i]->ip) & 0xfff]++;
        naive->last = batch->blocks[i]->ip;
        naive->count++;
        naive->insns += batch->blocks[i]->n;
    }
    for (; e < batch->events_n; e++)
        if (batch->events[e].kind != COFI_FLOW_PSB && batch->events[e].kind != COFI_FLOW_CBR)
            naive->last = 0;
}

static void count_block(void *opaque, const struct cofi_flow_block *block, uint64_t count)
{
    (void)block;
    *(uint64_t *)opaque += count;
}

static void coverage_is_the_sum_of_the_blocks(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed < 12; seed++) {
        struct prog_run run = {.gen = seed & 1 ? COFI_PT : COFI_RTIT, .insns = 30000, .interrupt = 50, .seed = seed};
        run.ctl = seed & 1 ? USER | BRANCH : R_USER | R_RETC;
        prog_make(&prog, seed, 20);
        prog_go(&prog, &run);
        static const struct cofi_flow_block *blocks[1024];
        struct cofi_flow_event events[64];
        struct cofi_flow_batch batch = {.blocks = blocks, .blocks_max = 1024, .events = events, .events_max = 64};
        struct cofi_image *image = prog_image(&prog);
        struct cofi_flow_config config;
        struct cofi_flow *flow;
        static struct naive naive;
        static uint8_t map[1 << 12];
        configure(&config, &run);
        config.image = image;
        config.cache_bytes = seed & 2 ? 700000 : 0;
        assert_int_equal(cofi_flow_open(&flow, &config), 0);
        memset(&naive, 0, sizeof naive);
        memset(map, 0, sizeof map);
        while (cofi_flow_next(flow, &batch) > 0)
            count_edges(&naive, &batch);
        assert_int_equal(cofi_flow_seek(flow, 0), 0);
        uint64_t counted = 0;
        struct cofi_flow_coverage coverage = {.map = map, .map_size = sizeof map, .block = count_block, .opaque = &counted};
        assert_int_equal(cofi_flow_cover(flow, &coverage), 0);
        assert_memory_equal(map, naive.map, sizeof map);
        assert_int_equal(counted, naive.count);
        assert_int_equal(coverage.insns, naive.insns);
        assert_int_equal(cofi_flow_seek(flow, 0), 0); /* and then the blocks again */
        static struct naive again;
        memset(&again, 0, sizeof again);
        while (cofi_flow_next(flow, &batch) > 0)
            count_edges(&again, &batch);
        assert_memory_equal(&again, &naive, sizeof naive);
        cofi_flow_close(flow);
        cofi_image_close(image);
        prog_free(&run);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pt_user_code),
        cmocka_unit_test(pt_user_and_kernel_with_all_timing),
        cmocka_unit_test(pt_deferred_tips),
        cmocka_unit_test(pt_with_an_address_filter),
        cmocka_unit_test(rtit_user_code),
        cmocka_unit_test(rtit_user_and_kernel_with_all_timing),
        cmocka_unit_test(rtit_with_an_address_filter),
        cmocka_unit_test(libipt_finds_the_same_instructions),
        cmocka_unit_test(overflows_lose_instructions_and_invent_none),
        cmocka_unit_test(without_outcomes_nothing_is_invented),
        cmocka_unit_test(from_any_psb_on_it_is_the_rest_of_the_list),
        cmocka_unit_test(coverage_is_the_sum_of_the_blocks),
    };
    if (!ipt_is_here)
        cmocka_set_skip_filter("libipt_*");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
