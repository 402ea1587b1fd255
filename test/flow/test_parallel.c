/* SPDX-License-Identifier: MIT
 * Several threads give the serial result: every block, event and time, on whole and on damaged streams. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <cofi/flow.h>
#include <cofi/stream.h>

#include "base/array.h"
#include "base/error.h"
#include "log.h"
#include "prog.h"

/* Rounds are divided by this: the thread sanitizer looks at what the threads do, which a few show, and takes minutes. */
#ifdef __SANITIZE_THREAD__
enum { FEWER = 16 };
#else
enum { FEWER = 1 };
#endif

static struct prog prog;
static struct prog_run run;
static struct cofi_image *image;
static bool untimed;              /* without times spans are used, and shown as lists of their runs */
static bool synced;               /* the first bytes need not be a PSB */
static uint64_t span_bytes;       /* of threads */

/* What a visitor was told, and what it saw when it asked. */
struct told {
    struct log log;
    uint64_t code;                /* the first bytes of all blocks that ran, as they were then */
    uint64_t blocks;              /* where they are only counted */
    bool told_blocks;
    unsigned ends;                /* batches that hold nothing */
    struct cofi_flow_stats stats; /* at the end */
};

static void see_code(struct told *told, struct cofi_flow *flow, const struct cofi_flow_batch *batch)
{
    struct cofi_code code;
    for (size_t i = 0; i < batch->blocks_n; i++) {
        assert_int_equal(cofi_view_find(cofi_flow_view(flow), batch->blocks[i]->ip, &code), 0);
        told->code = told->code * 31 + code.bytes[batch->blocks[i]->ip - code.start];
    }
}

static int visit(void *opaque, struct cofi_flow *flow, const struct cofi_flow_batch *batch)
{
    struct told *told = opaque;
    log_batch(&told->log, batch);
    see_code(told, flow, batch);
    told->ends += !batch->blocks_n && !batch->events_n;
    cofi_flow_stats(flow, &told->stats);
    return 0;
}

/* The stream in pieces of a size that changes, each in the same memory, or, where they are to stay, in its own; of these some end before a PSB. */
struct feed {
    const uint8_t *bytes;
    size_t n, at, size;
    uint8_t piece[4096];
    uint8_t **stay;
    size_t stay_n, stay_room;
};

static const uint8_t *feed(void *opaque, size_t *n)
{
    struct feed *f = opaque;
    f->size = f->size * 7 % 4093 + 1;
    *n = f->size < f->n - f->at ? f->size : f->n - f->at;
    memcpy(f->piece, f->bytes + f->at, *n);
    f->at += *n;
    return f->piece;
}

static const uint8_t *feed_to_stay(void *opaque, size_t *n)
{
    struct feed *f = opaque;
    const uint8_t *from = f->bytes + f->at;
    f->size = f->size * 7 % 4093 + 1;
    size_t left = f->n - f->at;
    *n = f->size < left ? f->size : left;
    size_t psb = cofi_sync_forward(run.gen, from, *n, *n > 1);
    if (f->size % 3 && psb != COFI_NO_PSB)
        *n = psb;
    assert_int_equal(cofi__array_grow(&f->stay, &f->stay_room, f->stay_n, sizeof *f->stay), 0);
    f->at += *n;
    return f->stay[f->stay_n++] = memcpy(malloc(*n + 1), from, *n);
}

static void take_away(struct feed *f)
{
    for (size_t i = 0; i < f->stay_n; i++)
        free(f->stay[i]);
    free(f->stay);
}

static void configure(struct cofi_flow_config *config, const uint8_t *bytes, size_t n)
{
    cofi_flow_config_init(config, run.gen);
    config->bytes = bytes;
    config->n = n;
    config->image = image;
    config->want_time = !untimed;
    config->synced = synced;
    config->ctl_known = run.gen == COFI_RTIT; /* whether there are cycle counts */
    config->ctl = run.ctl;
    config->time.nominal_ratio = 24;
    config->time.tsc_num = 42;
    config->time.tsc_den = 2;
    config->time.mtc_freq = 3;
}

static void same_stats(const struct cofi_flow_stats *one, const struct cofi_flow_stats *many)
{
    assert_int_equal(one->insns, many->insns);
    assert_int_equal(one->blocks, many->blocks);
    assert_int_equal(one->events, many->events);
    assert_int_equal(one->gaps, many->gaps);
    assert_int_equal(one->overflows, many->overflows);
    assert_int_equal(one->tnt_bits, many->tnt_bits);
    assert_int_equal(one->tips, many->tips);
    assert_int_equal(one->bytes, many->bytes);
    assert_int_equal(one->lost_bytes, many->lost_bytes);
    assert_int_equal(one->last_ticks, many->last_ticks);
    assert_int_equal(one->lost_ticks, many->lost_ticks);
}

static void same(const struct told *one, const struct told *many)
{
    log_assert_same(&many->log, &one->log, run.seed);
    assert_int_equal(one->code, many->code);
    assert_int_equal(one->ends, 1);
    assert_int_equal(many->ends, 1);
    same_stats(&one->stats, &many->stats);
    free(many->log.words);
}

/* ---- counting ---- */

enum { THREADS = 3, MAP = 256 };

static void set_up_loops(void)
{
    static const uint8_t code[] = {0xff, 0xc9, 0x75, 0xfc, 0xff, 0xca, 0x75, 0xf8, 0x0f, 0x05};
    run.gen = COFI_PT;
    assert_int_equal(cofi_image_open(&image), 0);
    assert_int_equal(cofi_image_map_bytes(image, 0, PROG_BASE, code, sizeof code, "loop"), 0);
}

static void a_map_has_a_size(void **state)
{
    uint8_t map[3];
    struct cofi_flow_coverage coverage[] = {{0}, {.map = map, .map_size = sizeof map}};
    (void)state;
    set_up_loops();
    struct cofi_flow_config config;
    configure(&config, map, 0);
    assert_int_equal(cofi_flow_cover_parallel(&config, 0, 0, coverage, NULL, NULL), 0);
    assert_int_equal(cofi_flow_cover_parallel(&config, 0, 0, coverage + 1, NULL, NULL), COFI_ERR_RANGE);
    assert_int_equal(cofi_flow_cover_parallel(&config, 2, 0, coverage, NULL, NULL), COFI_ERR_RANGE);
    config.mode = 7;
    coverage[1].map = NULL;
    assert_int_equal(cofi_flow_cover_parallel(&config, 2, 0, coverage, NULL, NULL), COFI_ERR_RANGE);
    cofi_image_close(image);
}

/* Sums over all blocks, and outcomes, that do not depend on the order in which they are told. */
struct counted {
    uint64_t blocks, outcomes, code;
    uint8_t map[MAP];
    struct cofi_flow_coverage *coverage;
};

static uint64_t sum_of(const struct cofi_flow_block *block) { return (block->ip * 31 + block->n) * UINT64_C(0x9e3779b97f4a7c15); }

static void count_block(void *opaque, const struct cofi_flow_block *block, uint64_t count)
{
    ((struct counted *)opaque)->blocks += count * (sum_of(block) | 1);
}

static void count_outcome(void *opaque, const struct cofi_flow_block *block, bool taken, uint64_t count)
{
    ((struct counted *)opaque)->outcomes += count * (sum_of(block) + taken * 7 + 1);
}

/* The code is what it was when the block was decoded. */
static void see_block(void *opaque, const struct cofi_flow_block *block)
{
    struct counted *counted = opaque;
    struct cofi_code code;
    assert_int_equal(cofi_view_find(cofi_flow_view(counted->coverage->flow), block->ip, &code), 0);
    counted->code++;
}

static void begin_counting(struct cofi_flow_coverage *coverage, struct counted *counted, bool saturate)
{
    *counted = (struct counted){.coverage = coverage};
    *coverage = (struct cofi_flow_coverage){.map = counted->map, .map_size = MAP, .saturate = saturate, .block = count_block,
        .decoded = see_block, .outcome = count_outcome, .opaque = counted};
}

/* To the first one what the others have counted. */
static void add_up(struct cofi_flow_coverage *coverage, struct counted *counted, bool saturate)
{
    for (unsigned i = 1; i < THREADS; i++) {
        coverage->insns += coverage[i].insns;
        coverage->edges += coverage[i].edges;
        counted->blocks += counted[i].blocks;
        counted->outcomes += counted[i].outcomes;
        counted->code += counted[i].code;
        for (unsigned k = 0; k < MAP; k++) {
            unsigned sum = counted->map[k] + counted[i].map[k];
            counted->map[k] = (uint8_t)(saturate && sum > UINT8_MAX ? UINT8_MAX : sum);
        }
    }
}

/* The same counts, from the bytes or as they are pulled, as by one thread. */
static void counts_are_alike(const struct cofi_flow_config *config, const struct cofi_flow_config *serial, size_t piece_bytes, bool saturate)
{
    struct counted one, many[THREADS];
    struct cofi_flow_coverage of_one, of_many[THREADS];
    struct cofi_flow_stats stats, stats_of_many;
    begin_counting(&of_one, &one, saturate);
    for (unsigned i = 0; i < THREADS; i++)
        begin_counting(&of_many[i], &many[i], saturate);
    assert_int_equal(cofi_flow_cover_parallel(serial, 1, 0, &of_one, &stats, NULL), 0);
    assert_int_equal(cofi_flow_cover_parallel(config, THREADS, piece_bytes, of_many, &stats_of_many, NULL), 0);
    add_up(of_many, many, saturate);
    same_stats(&stats, &stats_of_many);
    assert_int_equal(of_many[0].insns, of_one.insns);
    assert_int_equal(of_many[0].insns, stats.insns);
    assert_int_equal(of_many[0].edges, of_one.edges);
    assert_int_equal(many[0].blocks, one.blocks);
    assert_int_equal(many[0].outcomes, one.outcomes);
    assert_true(many[0].code >= one.code); /* threads decode the same code */
    assert_memory_equal(many[0].map, one.map, MAP);
}

static void counts(const uint8_t *bytes, size_t n)
{
    struct cofi_flow_config serial, pulled;
    struct feed pieces = {.bytes = bytes, .n = n, .size = n % 4093};
    configure(&serial, bytes, n);
    counts_are_alike(&serial, &serial, 1, false);
    pulled = serial;
    pulled.bytes = NULL;
    pulled.pull = feed;
    pulled.opaque = &pieces;
    counts_are_alike(&pulled, &serial, 1 + n % 3000, true);
}

/* ---- showing ---- */

static uint64_t compare(const uint8_t *bytes, size_t n)
{
    struct cofi_flow_config config;
    struct told one = {0}, many = {0}, pulled = {0}, stayed = {0};
    struct feed pieces = {.bytes = bytes, .n = n, .size = n % 4093}, stay = pieces;
    uint64_t redone = 0;
    configure(&config, bytes, n);
    assert_int_equal(cofi_flow_parallel(&config, 1, 0, visit, &one, NULL), 0);
    assert_int_equal(cofi_flow_parallel(&config, 3, 1, visit, &many, &redone), 0);
    same(&one, &many);
    span_bytes += many.stats.span_bytes;
    config.bytes = NULL;
    config.pull = feed;
    config.opaque = &pieces;
    assert_int_equal(cofi_flow_parallel(&config, 3, 1 + n % 3000, visit, &pulled, NULL), 0);
    same(&one, &pulled);
    config.pull = feed_to_stay;
    config.pull_stays = true;
    config.opaque = &stay;
    assert_int_equal(cofi_flow_parallel(&config, 3, 1 + n % 3000, visit, &stayed, NULL), 0);
    same(&one, &stayed);
    take_away(&stay);
    free(one.log.words);
    if (FEWER == 1 || n % 2)
        counts(bytes, n);
    return redone;
}

/* Blocks that are counted only. */
static int visit_events(void *opaque, struct cofi_flow *flow, const struct cofi_flow_batch *batch)
{
    struct told *told = opaque;
    log_events(&told->log, batch, told->blocks);
    told->blocks += batch->blocks_n;
    told->ends += !batch->blocks_n && !batch->events_n;
    told->told_blocks |= batch->blocks || batch->times;
    cofi_flow_stats(flow, &told->stats);
    return 0;
}

static void blocks_are_counted_alike(const uint8_t *bytes, size_t n)
{
    struct cofi_flow_config config;
    struct told with = {0}, one = {0}, many = {0};
    configure(&config, bytes, n);
    config.want_time = false;
    assert_int_equal(cofi_flow_parallel(&config, 1, 0, visit_events, &with, NULL), 0);
    config.no_blocks = config.want_time = true; /* of what is not shown */
    assert_int_equal(cofi_flow_parallel(&config, 1, 0, visit_events, &one, NULL), 0);
    assert_int_equal(cofi_flow_parallel(&config, 3, 1, visit_events, &many, NULL), 0);
    assert_true(with.told_blocks && !one.told_blocks && !many.told_blocks);
    assert_int_equal(with.blocks, with.stats.blocks);
    assert_int_equal(many.blocks, with.blocks);
    same(&with, &many);
    same(&with, &one);
    free(with.log.words);
}

static void set_up_gen(enum cofi_gen gen, uint64_t ctl, bool os, uint64_t seed)
{
    static const uint8_t nop[] = {0x90}, other[] = {0xf8};
    run = (struct prog_run){.gen = gen, .ctl = ctl, .insns = gen == COFI_PT ? 60000 : 200000, .interrupt = 100, .os = os, .clock = true,
        .seed = seed};
    prog_make(&prog, seed, 20);
    prog_go(&prog, &run);
    image = prog_image(&prog);
    for (unsigned i = 1; i < 40; i++) /* what stands for a kernel changes at these times */
        assert_int_equal(cofi_image_map_bytes(image, i * UINT64_C(4000), KERNEL, i % 2 ? other : nop, 1, "kernel"), 0);
}

static void set_up(uint64_t ctl, bool os, uint64_t seed) { set_up_gen(COFI_PT, ctl, os, seed); }

static void tear_down(void)
{
    cofi_image_close(image);
    prog_free(&run);
}

enum { CYC = 2, OS = 4, USER = 8, MTC = 1 << 9, TSC = 1 << 10, BRANCH = 1 << 13 };

static void the_result_is_the_serial_one(void **state)
{
    static const uint64_t ctls[] = {USER | BRANCH, OS | USER | BRANCH | TSC, OS | USER | BRANCH | TSC | MTC | 3 << 14,
        USER | BRANCH | TSC | MTC | CYC | 3 << 14};
    (void)state;
    for (unsigned i = 0; i < 12; i++) {
        set_up(ctls[i % 4], ctls[i % 4] & OS, i + 1);
        untimed = i / 4 == 1;
        assert_int_equal(compare(run.trace, run.n), 0); /* nothing was taken for granted wrongly */
        blocks_are_counted_alike(run.trace, run.n);
        untimed = false;
        tear_down();
    }
}

/* RTIT_CTL */
enum { R_CYC = 2, R_OS = 4, R_USER = 8, R_MTC = 1 << 9, R_STS = 1 << 10, R_RETC = 1 << 11 };

static const uint64_t rtit_ctls[] = {R_USER, R_OS | R_USER | R_STS | R_RETC, R_OS | R_USER | R_MTC | R_STS | R_RETC,
    R_USER | R_CYC | R_MTC | R_STS | R_RETC};

/* Its PSB tells nothing: a piece begins at the one before. */
static void so_it_is_for_rtit(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 16; i++) {
        set_up_gen(COFI_RTIT, rtit_ctls[i % 4], rtit_ctls[i % 4] & R_OS, i + 1);
        assert_int_equal(compare(run.trace, run.n), 0);
        tear_down();
    }
}

static uint8_t *put(uint8_t *to, const char *bytes, size_t n) { return (uint8_t *)memcpy(to, bytes, n) + n; }

/* A function that a CALL entered long before returns, by an outcome: behind the PSBs between, nobody but who has seen the
 * CALL knows where to. */
static void a_call_of_long_ago_is_not_guessed(void **state)
{
    enum { CALLS = 2000, JUMPS = 60 };
    static const char psb[9] = "\xc0";
    static const uint8_t code[] = {0xe8, 0x0b, 0, 0, 0, 0x0f, 0x05, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90,
                                   0xff, 0xe0, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0xc3};
    uint8_t *bytes = malloc(CALLS * (JUMPS * (sizeof psb + 5) + 32)), *p = bytes;
    (void)state;
    run = (struct prog_run){.gen = COFI_RTIT, .ctl = R_USER | R_RETC};
    assert_int_equal(cofi_image_open(&image), 0);
    assert_int_equal(cofi_image_map_bytes(image, 0, 0x401000, code, sizeof code, "code"), 0);
    for (unsigned i = 0; i < CALLS; i++) {
        p = put(put(p, psb, sizeof psb), "\x85\x00\x10\x40\x00", 5); /* FUP.PGE; call 401010 */
        for (unsigned k = 0; k < JUMPS; k++) { /* there jmp to itself */
            p = put(p, "\xb5\x10\x10\x40\x00", 5);
            p = k % 10 ? p : put(p, psb, sizeof psb);
        }
        p = put(put(p, "\xb5\x18\x10\x40\x00\x03", 6), "\x8d\x07\x10\x40\x00", 5); /* ret; syscall, FUP.PGD */
    }
    assert_true(compare(bytes, (size_t)(p - bytes)) > 0);
    cofi_image_close(image);
    free(bytes);
}

/* Time, ratios, CR3, and CR0.PG, by which a PIP of a MOV CR0 is known: who knows what a piece begins with does not decode it again. */
static void packets_that_move_nothing_count_for_later_pieces(void **state)
{
    enum { JUMPS = 60000 };
    static const char psb[9] = "\xc0";
    static const uint8_t code[] = {0x0f, 0x22, 0xd8, 0xff, 0xe0}; /* mov cr3, rax; jmp rax */
    uint8_t *bytes = malloc(64 + JUMPS * 30), *p = bytes;
    (void)state;
    run = (struct prog_run){.gen = COFI_RTIT, .ctl = R_USER | R_MTC | R_STS | R_RETC};
    assert_int_equal(cofi_image_open(&image), 0);
    assert_int_equal(cofi_image_map_bytes(image, 0, 0x401000, code, sizeof code, "code"), 0);
    p = put(put(put(p, psb, sizeof psb), "\xd4\x05\x00\x10\x00\x00\x00", 7), "\x85\x00\x10\x40\x00", 5); /* STS, FUP.PGE */
    for (unsigned i = 0; i < JUMPS; i++) { /* TIP; MTC; STS, the ratios as before; PIP */
        p = put(p, "\xb5\x00\x10\x40\x00", 5);
        p = put(put(p, "\xc4", 1), (char[]){(char)i}, 1);
        p = i % 100 ? p : put(p, psb, sizeof psb);
        p = i % 500 != 400 ? p : put(put(p, "\xd4\x05\x00\x10", 4), (char[]){(char)(i >> 9), (char)(i >> 17), 0}, 3);
        p = i % 1050 != 1000 ? p : put(p, i % 2100 < 1050 ? "\xc3\x01\x50\x00\x00\x00" : "\xc3\x00\x50\x00\x00\x00", 6);
    }
    assert_true(compare(bytes, (size_t)(p - bytes)) == 0);
    cofi_image_close(image);
    free(bytes);
}

/* A PSB+ tells a time far ahead: the next one takes it back, and the code with it. */
static void spoil_time(uint8_t *bytes, size_t n, size_t at)
{
    static const uint8_t psb[] = {2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82, 0x19};
    uint8_t *found = memmem(bytes + at, n - at, psb, sizeof psb);
    if (found && bytes + n - found > 24)
        found[sizeof psb + 5] ^= 0x10;
}

static void damage(unsigned rounds)
{
    uint64_t seed = 3;
    uint8_t *bytes = malloc(run.n);
    for (unsigned i = 0; i < rounds / FEWER; i++) {
        memcpy(bytes, run.trace, run.n);
        for (unsigned k = 0; k < 1 + i % 8; k++) {
            seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407;
            bytes[(seed >> 33) % run.n] ^= (uint8_t)(1u << (seed >> 30 & 7));
            if (k % 2 == 0)
                spoil_time(bytes, run.n, (size_t)(seed >> 20) % run.n);
        }
        compare(bytes, run.n - i * 13);
        if (i % 4 == 3)
            blocks_are_counted_alike(bytes, run.n - i * 13);
    }
    free(bytes);
    tear_down();
}

static void so_it_is_on_damaged_streams(void **state)
{
    (void)state;
    set_up(OS | USER | BRANCH | TSC, true, 5);
    damage(40);
    set_up(USER | BRANCH | TSC | MTC | CYC | 3 << 14, false, 6);
    damage(20);
    for (unsigned i = 0; i < ARRAY_LEN(rtit_ctls); i++) {
        set_up_gen(COFI_RTIT, rtit_ctls[i], rtit_ctls[i] & R_OS, 5);
        damage(20);
    }
}

/* Each thread's share is less than its tables take, so that its cache is emptied whenever nothing of it waits. */
static void a_cache_that_is_always_full_changes_nothing(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 8; i++) {
        struct cofi_flow_config config;
        struct told one = {0}, many = {0};
        set_up(OS | USER | BRANCH | TSC, true, i + 50);
        configure(&config, run.trace, run.n);
        config.want_time = i & 1; /* without: spans, too */
        assert_int_equal(cofi_flow_parallel(&config, 1, 0, visit, &one, NULL), 0);
        struct cofi_flow_config small = config;
        small.cache_bytes = 1 << (12 + i);
        assert_int_equal(cofi_flow_parallel(&small, 3, 1, visit, &many, NULL), 0);
        same(&one, &many);
        counts_are_alike(&small, &config, 1, false);
        free(one.log.words);
        tear_down();
    }
}

/* The calling thread decodes later pieces while it waits, and then again one that was begun wrongly: with the code as it
 * was by then. */
static void code_is_that_of_its_time_when_a_piece_is_decoded_again(void **state)
{
    static const uint8_t nop[] = {0x90}, other[] = {0xf8};
    (void)state;
    uint64_t seed = 7, redone = 0;
    set_up(OS | USER | BRANCH | TSC, true, 5);
    for (unsigned i = 0; i < 400; i++)
        assert_int_equal(cofi_image_map_bytes(image, i * UINT64_C(8000), KERNEL, i % 2 ? nop : other, 1, "kernel"), 0);
    uint8_t *bytes = malloc(run.n);
    for (unsigned i = 0; i < 150 / FEWER; i++) {
        memcpy(bytes, run.trace, run.n);
        for (unsigned k = 0; k < 12; k++) {
            seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407;
            bytes[(seed >> 33) % run.n] ^= (uint8_t)(1u << (seed >> 30 & 7));
        }
        redone += compare(bytes, run.n);
    }
    assert_true(redone > 0);
    free(bytes);
    tear_down();
}

enum { LOOPS_START = 27 };

/* Nested loops with a PSB at each of these offsets, and outcomes in one byte of so many. */
static const uint8_t *loops(uint8_t *bytes, size_t n, const size_t *psbs, size_t psbs_n, size_t every)
{
    static const uint8_t start[LOOPS_START] = {2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82, 2, 0x23,
                                    0x99, 1, 0x71, 0x00, 0x10, 0x40, 0, 0, 0};
    for (size_t i = 0; i < n; i++)
        bytes[i] = (i + 1) % every ? 0 : i % 256 == 255 ? 0xde : 0xfe;
    for (size_t i = 0; i < psbs_n; i++)
        memcpy(bytes + psbs[i], start, sizeof start);
    return bytes;
}

/* Nobody can split it: no PSB for more than PIECE_LONG bytes. Bytes that come by pull are cut there, one cut inside of
 * a PSB; behind, where PSBs are near each other, they are split again. */
static void a_stream_without_psbs_is_decoded_in_order(void **state)
{
    enum { N = 5 << 20, CUT = 1 << 20, EVERY = 16 };
    static const size_t psbs[] = {0, CUT + 2993, 3 * CUT, 4 * CUT, 4 * CUT + 40000, 4 * CUT + 80000, 4 * CUT + 120000};
    uint8_t *bytes = malloc(N);
    (void)state;
    set_up_loops();
    compare(loops(bytes, N, psbs, ARRAY_LEN(psbs), EVERY), N);
    compare(loops(bytes, N, psbs, 1, EVERY), N);
    compare(loops(bytes, N, psbs + 1, 3, EVERY), N);
    synced = true;
    compare(loops(bytes, N, psbs + 1, 6, EVERY), N);
    memcpy(bytes, "\x99\x01\x71\x00\x10\x40\0\0\0", 9);
    compare(bytes, N);
    bytes[N - 1] = COFI_PT_END_MARK;
    compare(bytes, N);
    synced = false;
    cofi_image_close(image);
    free(bytes);
}

static void so_it_is_where_spans_are_used(void **state)
{
    enum { PSBS = 20, N = PSBS * 20000 };
    size_t psbs[PSBS];
    uint8_t *bytes = malloc(N);
    (void)state;
    for (size_t i = 0; i < PSBS; i++)
        psbs[i] = i * (N / PSBS);
    set_up_loops();
    untimed = true;
    span_bytes = 0;
    compare(loops(bytes, N, psbs, PSBS, 1), N);
    assert_true(span_bytes > N / 2);
    untimed = false;
    cofi_image_close(image);
    free(bytes);
}

/* Outcomes that are the same again after so many bytes, and not before. */
static void vary(uint8_t *bytes, size_t n, size_t period)
{
    static const uint8_t outcomes[] = {0xfe, 0xee, 0xf6, 0xde};
    for (size_t i = 0; i < n; i++)
        if (bytes[i] == 0xfe || bytes[i] == 0xde)
            bytes[i] = outcomes[i % period * UINT64_C(0x9e3779b97f4a7c15) >> 62];
}

/* As a processor writes it where tracing is on: FUP, MODE.Exec. */
static const uint8_t psb_of_loops[LOOPS_START] = {2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82,
                                                  0x7d, 0x00, 0x10, 0x40, 0, 0, 0, 0x99, 1, 2, 0x23};

/* Between each PSB and the one right behind it runs nothing; a thread's spans are more than it may keep, while its blocks and runs are not. */
static void counts_are_right_without_room_for_spans(void **state)
{
    enum { PSBS = 40, PERIOD = 40000, N = PSBS / 2 * PERIOD };
    size_t psbs[PSBS];
    uint8_t *bytes = malloc(N);
    struct cofi_flow_config config, small;
    (void)state;
    for (size_t i = 0; i < PSBS; i++)
        psbs[i] = i / 2 * PERIOD + i % 2 * LOOPS_START;
    set_up_loops();
    loops(bytes, N, psbs, PSBS, 1);
    vary(bytes, N, PERIOD);
    for (size_t i = 0; i < PSBS; i++)
        memcpy(bytes + psbs[i], psb_of_loops, sizeof psb_of_loops);
    untimed = true;
    configure(&config, bytes, N);
    small = config;
    for (size_t room = 2 << 20; room <= 6 << 20; room += FEWER << 19) {
        small.cache_bytes = THREADS * room;
        counts_are_alike(&small, &config, 1, false);
    }
    untimed = false;
    cofi_image_close(image);
    free(bytes);
}

/* What is held does not grow with the stream: a thread that never gets a piece of its own reads ahead so far and no
 * farther. */
struct ahead {
    struct feed feed;
    uint64_t most;
    _Atomic uint64_t shown;
};

static const uint8_t *count_ahead(void *opaque, size_t *n)
{
    struct ahead *ahead = opaque;
    const uint8_t *bytes = feed(&ahead->feed, n);
    if (ahead->feed.at - ahead->shown > ahead->most)
        ahead->most = ahead->feed.at - ahead->shown;
    return bytes;
}

static int count_shown(void *opaque, struct cofi_flow *flow, const struct cofi_flow_batch *batch)
{
    (void)batch;
    ((struct ahead *)opaque)->shown = cofi_flow_offset(flow);
    return 0;
}

static void a_stream_without_psbs_is_not_held(void **state)
{
    enum { N = 48 << 20 };
    static const size_t psb = 0;
    struct ahead ahead = {.feed = {.bytes = malloc(N), .n = N, .size = 5}};
    struct cofi_flow_config config;
    (void)state;
    set_up_loops();
    configure(&config, NULL, 0);
    loops((uint8_t *)ahead.feed.bytes, N, &psb, 1, 16);
    config.pull = count_ahead;
    config.opaque = &ahead;
    assert_int_equal(cofi_flow_parallel(&config, 2, 0, count_shown, &ahead, NULL), 0);
    assert_true(ahead.shown == N);
    assert_true(ahead.most < UINT64_C(20) << 20); /* 4 * 2 + 4 pieces of 1 MiB, and what a batch is */
    cofi_image_close(image);
    free((void *)ahead.feed.bytes);
}

/* Whatever size a caller asks for, by pull too, where there is to be room for a piece before it comes. */
static void a_piece_may_be_of_any_size(void **state)
{
    static const size_t sizes[] = {SIZE_MAX, SIZE_MAX / 2 + 1, SIZE_MAX - (1 << 20), (size_t)1 << 40, 1 << 20, 1};
    (void)state;
    set_up(OS | USER | BRANCH, true, 9);
    struct cofi_flow_config config;
    struct told one = {0};
    configure(&config, run.trace, run.n);
    assert_int_equal(cofi_flow_parallel(&config, 1, 0, visit, &one, NULL), 0);
    for (size_t i = 0; i < 2 * sizeof sizes / sizeof sizes[0]; i++) {
        struct feed source = {.bytes = run.trace, .n = run.n, .size = 5};
        struct told many = {0};
        if (i & 1) {
            config.pull = feed;
            config.opaque = &source;
        }
        assert_int_equal(cofi_flow_parallel(&config, 3, sizes[i / 2], visit, &many, NULL), 0);
        config.pull = NULL;
        same(&one, &many);
    }
    free(one.log.words);
    tear_down();
}

static int three_times(void *opaque, struct cofi_flow *flow, const struct cofi_flow_batch *batch)
{
    (void)flow;
    (void)batch;
    return --*(int *)opaque ? 0 : 7;
}

/* Pieces begin at PSBs that overflows end before they tell the time: since when packets were lost was told before. */
static void an_overflow_that_is_open_where_a_piece_begins_has_its_time(void **state)
{
    static const uint8_t psb[16] = {2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82}, ovf[2] = {2, 0xf3};
    static uint8_t bytes[300 * 44];
    size_t n = 0;
    (void)state;
    set_up(USER | BRANCH | TSC, false, 1);
    for (uint16_t i = 0; i < 300; i++) {
        const uint8_t rest[10] = {0x19, (uint8_t)i, (uint8_t)(i >> 8), 1, 0, 0, 0, 0, 0x02, 0x23};
        memcpy(bytes + n, psb, sizeof psb);
        memcpy(bytes + n + sizeof psb, rest, sizeof rest);
        n += sizeof psb + sizeof rest;
        memcpy(bytes + n, psb, sizeof psb);
        memcpy(bytes + n + sizeof psb, ovf, sizeof ovf);
        n += sizeof psb + sizeof ovf;
    }
    for (unsigned i = 0; i < 30; i++)
        compare(bytes, n);
    tear_down();
}

static void the_visitor_may_stop_it(void **state)
{
    (void)state;
    struct cofi_flow_config config;
    set_up(OS | USER | BRANCH, true, 9);
    configure(&config, run.trace, run.n);
    config.want_time = false;
    for (unsigned i = 0; i < 20; i++) { /* at pieces decoded ahead, and at others */
        int left = 3;
        assert_int_equal(cofi_flow_parallel(&config, 2, 1, three_times, &left, NULL), 7);
    }
    tear_down();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_map_has_a_size),
        cmocka_unit_test(the_result_is_the_serial_one),
        cmocka_unit_test(so_it_is_for_rtit),
        cmocka_unit_test(a_call_of_long_ago_is_not_guessed),
        cmocka_unit_test(packets_that_move_nothing_count_for_later_pieces),
        cmocka_unit_test(so_it_is_on_damaged_streams),
        cmocka_unit_test(a_cache_that_is_always_full_changes_nothing),
        cmocka_unit_test(code_is_that_of_its_time_when_a_piece_is_decoded_again),
        cmocka_unit_test(a_stream_without_psbs_is_decoded_in_order),
        cmocka_unit_test(so_it_is_where_spans_are_used),
        cmocka_unit_test(counts_are_right_without_room_for_spans),
        cmocka_unit_test(a_stream_without_psbs_is_not_held),
        cmocka_unit_test(an_overflow_that_is_open_where_a_piece_begins_has_its_time),
        cmocka_unit_test(a_piece_may_be_of_any_size),
        cmocka_unit_test(the_visitor_may_stop_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
