/* SPDX-License-Identifier: MIT
 * Streams with timing decode through the sieve as they do packet by packet, wherever it has to be left. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <cofi/flow.h>

#include "flow/walker.h"
#include "log.h"
#include "prog.h"

/* PT's IA32_RTIT_CTL, RTIT_CTL. */
enum { CYC = 2, OS = 4, USER = 8, MTC = 1 << 9, TSC = 1 << 10, DISRETC = 1 << 11, BRANCH = 1 << 13 };
enum { R_OS = 4, R_USER = 8, R_MTC = 1 << 9, R_STS = 1 << 10, R_RETC = 1 << 11 };

static const struct variant {
    enum cofi_gen gen;
    uint64_t ctl;
    bool deferred;
} variants[] = {
    {COFI_PT, USER | BRANCH | TSC | CYC | MTC | 3 << 14, false},
    {COFI_PT, USER | BRANCH | TSC | CYC | MTC, true},
    {COFI_PT, USER | BRANCH | TSC | MTC | DISRETC | 3 << 14, true},
    {COFI_PT, OS | USER | BRANCH | TSC | CYC | MTC, false},
    {COFI_PT, OS | USER | BRANCH | TSC | CYC | MTC | DISRETC, true},
    {COFI_RTIT, R_USER | R_MTC | R_STS | R_RETC, false},
    {COFI_RTIT, R_OS | R_USER | R_MTC | R_STS, false},
};
enum { VARIANTS = sizeof variants / sizeof *variants, BLOCKS = 256 };

static struct prog prog;
static struct prog_run run;
static struct cofi_image *image;

static void set_up(uint64_t seed)
{
    const struct variant *v = &variants[seed % VARIANTS];
    run = (struct prog_run){.gen = v->gen, .ctl = v->ctl, .insns = 60000, .interrupt = seed % 3 ? 0 : 20, .os = v->ctl & OS,
        .odd_return = seed % 2 ? 500 : 0, .clock = true, .deferred = v->deferred, .seed = seed};
    prog_make(&prog, seed, 1 + (unsigned)(seed * 7 % 30));
    prog_go(&prog, &run);
    image = prog_image(&prog);
}

static void tear_down(void)
{
    cofi_image_close(image);
    prog_free(&run);
}

static struct cofi_flow *open_flow(bool plain)
{
    struct cofi_flow_config config;
    struct cofi_flow *flow;
    cofi_flow_config_init(&config, run.gen);
    config.bytes = run.trace;
    config.n = run.n;
    config.image = image;
    config.time.nominal_ratio = 24;
    config.time.tsc_num = 42;
    config.time.tsc_den = 2;
    assert_int_equal(cofi_flow_open(&flow, &config), 0);
    flow->spans.plain = plain;
    return flow;
}

/* Where it went, without when: to ask for times between keeps later estimates from being earlier. */
static void log_way(struct log *log, const struct cofi_flow_batch *batch)
{
    size_t at = 0;
    for (size_t i = 0; i <= batch->blocks_n; i++) {
        for (; at < batch->events_n && batch->events[at].at <= i; at++) {
            log_word(log, batch->events[at].kind);
            log_word(log, batch->events[at].ip);
            log_word(log, batch->events[at].offset);
        }
        if (i < batch->blocks_n)
            log_word(log, batch->blocks[i]->ip);
    }
}

/* With times in one of so many batches; 0: none. Returns how many batches ended in the sieve. */
static unsigned decode(struct cofi_flow *flow, struct log *log, unsigned timed, bool way)
{
    static const struct cofi_flow_block *blocks[BLOCKS];
    static struct cofi_flow_stamp times[BLOCKS];
    struct cofi_flow_event events[64];
    struct cofi_flow_batch batch = {.blocks = blocks, .blocks_max = BLOCKS, .events = events, .events_max = 64};
    unsigned sieved = 0, n = 0;
    int status;
    *log = (struct log){0};
    while (batch.times = timed && ++n % timed == 0 ? times : NULL, (status = cofi_flow_next(flow, &batch)) > 0) {
        batch.times = NULL; /* by batches, they are not where they were */
        (way ? log_way : log_batch)(log, &batch);
        sieved += flow->sieved;
    }
    assert_int_equal(status, 0);
    return sieved;
}

/* Returns how many batches ended in the sieve: some programs have system calls all the time, which end it. */
static unsigned assert_same(uint64_t seed, unsigned timed)
{
    unsigned sieved = 0;
    struct cofi_flow *flow = open_flow(false), *plain = open_flow(true);
    struct log log, want;
    assert_int_equal(decode(plain, &want, 0, timed), 0);
    for (int pass = 0; pass < 3; pass++) {
        sieved += decode(flow, &log, timed, timed);
        log_assert_same(&log, &want, seed);
        free(log.words);
        assert_int_equal(cofi_flow_bytes(flow, run.trace, run.n), 0);
    }
    free(want.words);
    cofi_flow_close(flow);
    cofi_flow_close(plain);
    return sieved;
}

/* Targets behind outcomes of branches that came later, in TNTs that MTCs cut. */
static void it_is_the_same(void **state)
{
    unsigned sieved = 0;
    (void)state;
    for (uint64_t seed = 1; seed < 5 * VARIANTS; seed++) {
        set_up(seed);
        sieved += assert_same(seed, 0);
        tear_down();
    }
    assert_true(sieved > 1000);
}

static void so_it_is_where_times_are_asked_for_now_and_then(void **state)
{
    unsigned sieved = 0;
    (void)state;
    for (uint64_t seed = 1; seed < 3 * VARIANTS; seed++) {
        set_up(seed);
        sieved += assert_same(seed, 3 + seed % 4);
        tear_down();
    }
    assert_true(sieved > 1000);
}

/* Which bytes begin a packet. */
static uint8_t *packet_starts(void)
{
    uint8_t *starts = calloc(run.n + 1, 1);
    struct cofi_packet_context context = {.gen = (uint8_t)run.gen};
    struct cofi_packet packet;
    for (size_t at = 0; at < run.n;) {
        starts[at] = 1;
        int size = cofi_packet_decode(&context, run.trace + at, run.n - at, &packet);
        assert_true(size > 0);
        at += (size_t)size;
    }
    starts[run.n] = 1;
    return starts;
}

static void its_offset_is_that_of_a_packet(void **state)
{
    uint64_t sieved = 0;
    (void)state;
    for (uint64_t seed = 1; seed < VARIANTS + 1; seed++) {
        static const struct cofi_flow_block *blocks[BLOCKS];
        struct cofi_flow_event events[64];
        struct cofi_flow_batch batch = {.blocks = blocks, .blocks_max = BLOCKS, .events = events, .events_max = 64};
        set_up(seed);
        uint8_t *starts = packet_starts();
        struct cofi_flow *flow = open_flow(false);
        uint64_t before = 0;
        while (cofi_flow_next(flow, &batch) > 0) {
            uint64_t at = cofi_flow_offset(flow);
            assert_in_range(at, before, run.n);
            assert_true(starts[at]);
            sieved += flow->sieved && at > before;
            before = at;
        }
        assert_int_equal(before, run.n);
        cofi_flow_close(flow);
        free(starts);
        tear_down();
    }
    assert_true(sieved > 200);
}

/* A target that does not fit, the last one before another packet, is where the way is found again: that is before the MTCs
 * behind it. */
static void timing_behind_the_packet_in_hand_comes_later(void **state)
{
    static const uint8_t code[] = {0x75, 0xfe, 0xff, 0xe0}; /* jne itself; jmp rax */
    static const uint8_t start[] = {2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82, /* PSB */
        0x19, 0, 0x10, 0, 0, 0, 0, 0, 2, 0x73, 0, 0, 0, 0, 0, /* TSC, TMA */
        2, 0x23, 0x71, 0x00, 0x10, 0x40, 0, 0, 0};            /* PSBEND, TIP.PGE */
    static const uint8_t lap[] = {0xfe, 0x59, 1, 0xfe, 0xfe, 0xfc, 0x2d, 0x00, 0x10}; /* ... with an MTC; TIP */
    static const uint8_t wrong[] = {0xfe, 0x6d, 0x00, 0x10, 0x40, 0, 0, 0, 0x59, 9, 0x59, 10, 0x59, 11, 1}; /* TIP, MTCs, TIP.PGD */
    enum { LAPS = 100 };
    uint8_t bytes[sizeof start + LAPS * sizeof lap + sizeof wrong + SIEVE_PAD] = {0};
    size_t n = 0;
    (void)state;
    memcpy(bytes, start, sizeof start);
    n += sizeof start;
    for (unsigned i = 0; i < LAPS; i++, n += sizeof lap)
        memcpy(bytes + n, lap, sizeof lap);
    memcpy(bytes + n, wrong, sizeof wrong); /* and PAD */
    run = (struct prog_run){.gen = COFI_PT, .trace = bytes, .n = sizeof bytes};
    assert_int_equal(cofi_image_open(&image), 0);
    assert_int_equal(cofi_image_map_bytes(image, 0, 0x401000, code, sizeof code, "code"), 0);
    struct cofi_flow *flow = open_flow(false), *plain = open_flow(true);
    struct log log, want;
    decode(flow, &log, 0, false);
    decode(plain, &want, 0, false);
    struct cofi_flow_stats stats;
    cofi_flow_stats(plain, &stats);
    assert_int_equal(stats.gaps, 1);
    assert_non_null(flow->sieve);
    log_assert_same(&log, &want, 0);
    free(log.words);
    free(want.words);
    cofi_flow_close(flow);
    cofi_flow_close(plain);
    cofi_image_close(image);
}

/* The same program so many times without timing, then with it, and without once more. */
static void splice(uint64_t seed, unsigned before, unsigned behind)
{
    struct prog_run bare = {.gen = COFI_PT, .ctl = USER | BRANCH | TSC, .insns = 60000, .clock = true, .seed = seed};
    struct prog_run timed = {.gen = COFI_PT, .ctl = USER | BRANCH | TSC | CYC | MTC | 3 << 14, .insns = 60000, .clock = true, .seed = seed};
    prog_make(&prog, seed, 1 + (unsigned)(seed * 7 % 30));
    prog_go(&prog, &bare);
    prog_go(&prog, &timed);
    image = prog_image(&prog);
    run = (struct prog_run){.gen = COFI_PT, .trace = malloc(bare.n * (before + behind) + timed.n)};
    for (unsigned i = 0; i < before + behind + 1; i++) {
        const struct prog_run *part = i == before ? &timed : &bare;
        memcpy(run.trace + run.n, part->trace, part->n);
        run.n += part->n;
    }
    prog_free(&bare);
    prog_free(&timed);
}

/* Whose configuration is not told. */
static void a_trace_that_seems_to_be_without_timing_is_read_as_it_lies(void **state)
{
    unsigned bare = 0, sieved = 0;
    (void)state;
    for (uint64_t seed = 1; seed < 8; seed++) {
        splice(seed, 0, 2);
        struct cofi_flow *flow = open_flow(false);
        struct log log;
        sieved += decode(flow, &log, 0, false);
        bare += flow->spans.bare;
        free(log.words);
        cofi_flow_close(flow);
        tear_down();
        splice(seed, 2, 2);
        assert_same(seed, seed % 2 * 3);
        tear_down();
    }
    assert_true(bare > 3); /* others leave what is traced all the time */
    assert_true(sieved > 0);
}

/* 401000 jne 401002; jmp 401000, by outcomes that nothing predicts: no run of 24 comes again. */
static void runs_get_short_where_a_hot_loop_decides_by_data(void **state)
{
    static const uint8_t code[] = {0x75, 0x00, 0xeb, 0xfc};
    static const uint8_t start[] = {2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82, /* PSB */
        2, 0x23, 0x71, 0x00, 0x10, 0x40, 0, 0, 0};                                                          /* PSBEND, TIP.PGE */
    enum { TNTS = 100000 };
    static uint8_t bytes[sizeof start + TNTS];
    uint64_t random = 1;
    struct cofi_flow_stats stats;
    struct log log;
    (void)state;
    memcpy(bytes, start, sizeof start);
    for (unsigned i = 0; i < TNTS; i++) {
        random = random * UINT64_C(6364136223846793005) + 1442695040888963407;
        bytes[sizeof start + i] = (uint8_t)(0x80 | random >> 57 << 1);
    }
    run = (struct prog_run){.gen = COFI_PT, .trace = bytes, .n = sizeof bytes};
    assert_int_equal(cofi_image_open(&image), 0);
    assert_int_equal(cofi_image_map_bytes(image, 0, 0x401000, code, sizeof code, "code"), 0);
    struct cofi_flow *flow = open_flow(false);
    decode(flow, &log, 0, false);
    cofi_flow_stats(flow, &stats);
    assert_int_equal(stats.tnt_bits, 6 * TNTS);
    assert_int_equal(stats.gaps, 0);
    assert_int_equal(flow->lengths.bits, RUN_SHORT);
    assert_in_range(stats.run_misses, RUN_WATCH, 2 * RUN_WATCH); /* of 25,000 */
    free(log.words);
    cofi_flow_close(flow);
    cofi_image_close(image);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_is_the_same),
        cmocka_unit_test(so_it_is_where_times_are_asked_for_now_and_then),
        cmocka_unit_test(its_offset_is_that_of_a_packet),
        cmocka_unit_test(timing_behind_the_packet_in_hand_comes_later),
        cmocka_unit_test(runs_get_short_where_a_hot_loop_decides_by_data),
        cmocka_unit_test(a_trace_that_seems_to_be_without_timing_is_read_as_it_lies),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
