/* SPDX-License-Identifier: MIT
 * Damaged streams end in bounded time, lose little, and say so. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <cofi/flow.h>
#include <cofi/insn.h>

#include "prog.h"

static struct prog prog;
static struct prog_run run;
static struct cofi_image *image;

enum { TAIL = 200 };

struct summary {
    size_t insns, gaps, events;
    uint64_t sum; /* of all that was said, but for times, in its order */
    uint64_t tail[TAIL]; /* the last instructions, as a ring */
};

static void add(struct summary *s, uint64_t word) { s->sum = (s->sum ^ word) * UINT64_C(0x9e3779b97f4a7c15) ^ s->sum >> 29; }

static void take_event(struct summary *s, const struct cofi_flow_event *e)
{
    const uint64_t words[] = {e->kind, e->offset, e->ip, e->target, e->value, e->a, e->b, e->c, (uint64_t)e->cause, e->end};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        add(s, words[i]);
    s->events++;
    s->gaps += e->kind == COFI_FLOW_GAP;
}

static void take(struct summary *s, const struct cofi_flow_batch *batch)
{
    struct cofi_flow_cursor cursor = {0};
    struct cofi_flow_insn insns[64];
    for (size_t e = 0; e <= batch->events_n; e++) {
        size_t until = e < batch->events_n ? batch->events[e].at : batch->blocks_n;
        assert_true(e == 0 || until >= batch->events[e - 1].at);
        assert_true(until <= batch->blocks_n);
        for (size_t n; (n = cofi_flow_insns(batch, &cursor, until, insns, 64)) > 0;)
            for (size_t i = 0; i < n; i++) {
                uint64_t ip = insns[i].ip;
                assert_true(ip >= KERNEL || ip - PROG_BASE < prog.size);
                s->tail[s->insns++ % TAIL] = ip;
                add(s, ip);
            }
        if (e < batch->events_n)
            take_event(s, &batch->events[e]);
    }
}

static struct cofi_flow_config configuration(const uint8_t *bytes, size_t n)
{
    struct cofi_flow_config config;
    cofi_flow_config_init(&config, run.gen);
    config.bytes = bytes;
    config.n = n;
    config.image = image;
    config.ctl = run.ctl;
    config.ctl_known = true;
    config.ranges_known = true;
    config.events = 7;
    return config;
}

static struct summary decode_as(const struct cofi_flow_config *config)
{
    static const struct cofi_flow_block *blocks[1024];
    static struct cofi_flow_stamp times[1024];
    struct cofi_flow_event events[64];
    struct cofi_flow_batch batch = {.blocks = blocks, .blocks_max = 1024, .times = config->want_time ? times : NULL, .events = events, .events_max = 64};
    struct cofi_flow *flow;
    struct summary s = {0};
    int status;
    assert_int_equal(cofi_flow_open(&flow, config), 0);
    while ((status = cofi_flow_next(flow, &batch)) > 0)
        take(&s, &batch);
    assert_int_equal(status, 0);
    cofi_flow_close(flow);
    return s;
}

static struct summary decode(const uint8_t *bytes, size_t n)
{
    uint8_t *copy = malloc(n ? n : 1); /* so that a read behind it is found */
    memcpy(copy, bytes, n);
    struct cofi_flow_config config = configuration(copy, n);
    struct summary s = decode_as(&config);
    free(copy);
    return s;
}

/* ---- the same in other ways ---- */

struct feed {
    const uint8_t *bytes;
    size_t n, at, piece;
};

static const uint8_t *pull(void *opaque, size_t *n)
{
    struct feed *feed = opaque;
    *n = feed->n - feed->at < feed->piece ? feed->n - feed->at : feed->piece;
    feed->at += *n;
    return feed->bytes + feed->at - *n;
}

static int visit(void *opaque, struct cofi_flow *flow, const struct cofi_flow_batch *batch)
{
    (void)flow;
    take(opaque, batch);
    return 0;
}

static void assert_same(const struct summary *a, const struct summary *b, const char *how, int number)
{
    if (a->sum != b->sum || a->insns != b->insns || a->events != b->events)
        fail_msg("stream %d: %s: %zu instructions, %zu events, %zu gaps, not %zu, %zu, %zu", number, how, a->insns, a->events, a->gaps, b->insns,
            b->events, b->gaps);
}

/* Whether time is asked for, in pieces, by threads. */
static void in_all_ways(const uint8_t *bytes, size_t n, const struct summary *once, int number)
{
    struct cofi_flow_config config = configuration(bytes, n);
    struct feed feed = {bytes, n, 0, 1 + (size_t)number * number % 4099};
    struct summary threads = {0};
    assert_int_equal(cofi_flow_parallel(&config, 2, 1 + (size_t)number % 3000, visit, &threads, NULL), 0);
    assert_same(&threads, once, "by threads", number);
    config.want_time = true;
    struct summary timed = decode_as(&config);
    assert_same(&timed, once, "with its time", number);
    config.want_time = number & 1;
    config.pull = pull;
    config.opaque = &feed;
    struct summary pieces = decode_as(&config);
    assert_same(&pieces, once, "in pieces", number);
}

static void set_up_with(enum cofi_gen gen, uint64_t ctl, unsigned overflow)
{
    run = (struct prog_run){.gen = gen, .ctl = ctl, .insns = 60000, .interrupt = 100, .os = true, .clock = true, .seed = 7, .overflow = overflow};
    prog_make(&prog, 5, 20);
    prog_go(&prog, &run);
    image = prog_image(&prog);
}

static void set_up(enum cofi_gen gen, uint64_t ctl) { set_up_with(gen, ctl, 0); }

static void tear_down(void)
{
    cofi_image_close(image);
    prog_free(&run);
}

static uint64_t seed = 99;
static size_t pick(size_t n)
{
    seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407;
    return (size_t)(seed >> 33) % n;
}

/* A flip in the first half never reaches the last instructions: PSBs lie between. RTIT has no address in a
 * PSB, and a bit error can hide until then. */
static void flips(bool exact)
{
    uint8_t *bytes = malloc(run.n);
    for (int i = 0; i < 300; i++) {
        memcpy(bytes, run.trace, run.n);
        bytes[pick(run.n / 2)] ^= (uint8_t)(1u << pick(8));
        struct summary s = decode(bytes, run.n);
        for (size_t k = 1; exact && k <= TAIL; k++)
            assert_int_equal(s.tail[(s.insns - k) % TAIL], run.truth[run.truth_n - k]);
    }
    free(bytes);
}

/* Two pieces change places. */
static void swap(uint8_t *bytes, size_t at, size_t to, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        uint8_t byte = bytes[at + i];
        bytes[at + i] = bytes[to + i];
        bytes[to + i] = byte;
    }
}

/* How many damaged streams to make: COFI_MUTATIONS of the environment, for long runs by hand. */
static int mutations(void)
{
    const char *count = getenv("COFI_MUTATIONS");
    return count ? atoi(count) : 200;
}

static void many_damages(void)
{
    uint8_t *bytes = malloc(run.n * 2);
    int silent = 0, total = mutations();
    struct summary whole = decode(run.trace, run.n);
    for (int i = 0; i < total; i++) {
        size_t n = run.n;
        memcpy(bytes, run.trace, n);
        for (size_t k = 1 + pick(20); k; k--) {
            size_t at = pick(n), to = pick(n), len = pick(200);
            len = len > n - at ? n - at : len;
            len = len > n - to ? n - to : len;
            if (pick(3) == 0)
                bytes[at] = (uint8_t)pick(256);
            else if (pick(3) == 0)
                memmove(bytes + at, bytes + to, len); /* a piece again, somewhere else */
            else if (pick(2))
                swap(bytes, at, to, len);
            else {
                memmove(bytes + at, bytes + at + len, n - at - len); /* a piece lost */
                n -= len;
            }
        }
        struct summary s = decode(bytes, n);
        assert_true(s.insns <= 100 * run.truth_n); /* a loop is not run for ever */
        in_all_ways(bytes, n, &s, i);
        silent += !s.gaps && s.insns != whole.insns;
    }
    /* Some damage cannot be seen (whole turns of a loop lost), most must be. */
    if (silent * 4 > total)
        fail_msg("%d of %d damaged streams had another length and no gap", silent, total);
    free(bytes);
}

static void cuts(void)
{
    for (size_t n = 0; n < 3000; n++) {
        struct summary s = decode(run.trace, n);
        assert_true(s.insns <= run.truth_n);
        if (s.insns)
            assert_int_equal(s.tail[(s.insns - 1) % TAIL], run.truth[s.insns - 1]);
        assert_true(s.gaps <= 1);
    }
}

enum { CYC = 2, OS = 4, USER = 8, MTC = 1 << 9, TSC = 1 << 10, BRANCH = 1 << 13, RETC = 1 << 11 };

static void pt_flipped_bits_cost_at_most_a_psb_interval(void **state)
{
    (void)state;
    set_up(COFI_PT, OS | USER | BRANCH);
    flips(true);
    tear_down();
}

static void pt_cut_anywhere_is_a_prefix_of_the_truth(void **state)
{
    (void)state;
    set_up(COFI_PT, OS | USER | BRANCH | CYC | MTC | TSC);
    cuts();
    tear_down();
}

static void pt_damage_ends(void **state)
{
    (void)state;
    set_up(COFI_PT, OS | USER | BRANCH | CYC | MTC | TSC);
    many_damages();
    tear_down();
}

static void pt_damage_of_overflows_ends(void **state)
{
    (void)state;
    set_up_with(COFI_PT, OS | USER | BRANCH | CYC | MTC | TSC, 40);
    many_damages();
    tear_down();
}

static void rtit_damage_of_overflows_ends(void **state)
{
    (void)state;
    set_up_with(COFI_RTIT, OS | USER | RETC | MTC | TSC, 40);
    many_damages();
    tear_down();
    set_up_with(COFI_RTIT, OS | USER | RETC | CYC | MTC | TSC, 40);
    many_damages();
    tear_down();
}

static void rtit_flipped_bits_end(void **state)
{
    (void)state;
    set_up(COFI_RTIT, OS | USER | RETC);
    flips(false);
    tear_down();
}

static void rtit_cut_anywhere_is_a_prefix_of_the_truth(void **state)
{
    (void)state;
    set_up(COFI_RTIT, OS | USER | RETC | CYC | MTC | TSC);
    cuts();
    tear_down();
}

static void rtit_damage_ends(void **state)
{
    (void)state;
    set_up(COFI_RTIT, OS | USER | RETC | CYC | MTC | TSC);
    many_damages();
    tear_down();
}

/* ---- missing code ---- */

/* What was decoded, 0 for each gap. */
struct list {
    uint64_t *ips;
    size_t n;
};

static struct list decode_to_list(const struct cofi_image *code)
{
    static const struct cofi_flow_block *blocks[1024];
    struct cofi_flow_event events[64];
    struct cofi_flow_batch batch = {.blocks = blocks, .blocks_max = 1024, .events = events, .events_max = 64};
    struct list list = {calloc(2 * run.truth_n + 1000, sizeof(uint64_t)), 0};
    struct cofi_flow_config config;
    struct cofi_flow *flow;
    cofi_flow_config_init(&config, run.gen);
    config.bytes = run.trace;
    config.n = run.n;
    config.image = code;
    config.ctl = run.ctl;
    config.ctl_known = true;
    assert_int_equal(cofi_flow_open(&flow, &config), 0);
    while (cofi_flow_next(flow, &batch) > 0) {
        struct cofi_flow_cursor cursor = {0};
        for (size_t e = 0; e <= batch.events_n; e++) {
            size_t until = e < batch.events_n ? batch.events[e].at : batch.blocks_n;
            struct cofi_flow_insn insn;
            while (cofi_flow_insns(&batch, &cursor, until, &insn, 1)) {
                assert_true(list.n < 2 * run.truth_n);
                list.ips[list.n++] = insn.ip;
            }
            if (e < batch.events_n && batch.events[e].kind == COFI_FLOW_GAP)
                list.ips[list.n++] = 0;
        }
    }
    cofi_flow_close(flow);
    return list;
}

/* The stretches between gaps lie in the truth, one behind the other. Returns how many instructions that are. */
static size_t match(const struct list *list)
{
    size_t at = 0, right = 0;
    for (size_t i = 0, n; i < list->n; i += n + 1) {
        for (n = 0; i + n < list->n && list->ips[i + n]; n++)
            continue;
        while (n && at + n <= run.truth_n && memcmp(run.truth + at, list->ips + i, n * sizeof *list->ips))
            at++;
        if (at + n > run.truth_n)
            fail_msg("%zu instructions from %lx on are not in the truth", n, (unsigned long)list->ips[i]);
        at += n;
        right += n;
    }
    return right;
}

/* One in seven of the code's pieces of 256 bytes is not there. What is decoded is what ran, in order, and most of it is. */
static void missing_code_invents_no_instruction(void **state)
{
    (void)state;
    static const uint64_t ctls[] = {OS | USER | BRANCH | CYC | MTC | TSC, OS | USER | BRANCH | RETC};
    for (size_t k = 0; k < 6; k++) {
        struct cofi_image *holes;
        set_up(COFI_PT, ctls[k % 2]);
        assert_int_equal(cofi_image_open(&holes), 0);
        for (size_t at = 0; at < prog.size; at += 256)
            if (pick(7))
                assert_int_equal(cofi_image_map_bytes(holes, 0, PROG_BASE + at, prog.code + at,
                                                      prog.size - at < 256 ? prog.size - at : 256, "prog"), 0);
        struct list list = decode_to_list(holes);
        size_t right = match(&list);
        if (right < run.truth_n / 4)
            fail_msg("%zu of %zu instructions", right, run.truth_n);
        free(list.ips);
        cofi_image_close(holes);
        tear_down();
    }
}

/* One function, rewritten 100,000 times and run after each. What was decoded of its old bytes must not be looked at
 * again and again: that took minutes, and the test runner's patience ends before. */
static void code_that_is_rewritten_often_costs_no_more_each_time(void **state)
{
    (void)state;
    enum { VERSIONS = 100000 };
    static const uint8_t head[] = {
        0x02, 0x82, 0x02, 0x82, 0x02, 0x82, 0x02, 0x82, 0x02, 0x82, 0x02, 0x82, 0x02, 0x82, 0x02, 0x82,
        0x19, 0, 0, 0, 0, 0, 0, 0, 0x02, 0x23, 0x99, 0x01, 0x71, 0x00, 0x10, 0x40, 0, 0, 0, 0, 0x01};
    uint8_t *trace = malloc(VERSIONS * sizeof head), code[7] = {0xb8, 0, 0, 0, 0, 0x0f, 0x05};
    assert_int_equal(cofi_image_open(&image), 0);
    for (uint32_t i = 0; i < VERSIONS; i++) {
        memcpy(code + 1, &i, 4);
        assert_int_equal(cofi_image_map_bytes(image, 16 * i + 1, 0x401000, code, sizeof code, NULL), 0);
        uint32_t ticks = 16 * i + 8;
        memcpy(trace + i * sizeof head, head, sizeof head);
        memcpy(trace + i * sizeof head + 17, &ticks, 4);
    }
    struct cofi_flow_config config;
    struct cofi_flow *flow;
    struct cofi_flow_coverage none = {0};
    struct cofi_flow_stats stats;
    cofi_flow_config_init(&config, COFI_PT);
    config.bytes = trace;
    config.n = VERSIONS * sizeof head;
    config.image = image;
    config.time.conv = (struct cofi_time_conv){.mult = 1};
    assert_int_equal(cofi_flow_open(&flow, &config), 0);
    assert_int_equal(cofi_flow_cover(flow, &none), 0);
    cofi_flow_stats(flow, &stats);
    assert_int_equal(stats.insns, 2 * VERSIONS);
    assert_int_equal(stats.gaps, 0);
    assert_int_equal(stats.blocks_decoded, VERSIONS);
    cofi_flow_close(flow);
    cofi_image_close(image);
    free(trace);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pt_flipped_bits_cost_at_most_a_psb_interval),
        cmocka_unit_test(pt_cut_anywhere_is_a_prefix_of_the_truth),
        cmocka_unit_test(pt_damage_ends),
        cmocka_unit_test(pt_damage_of_overflows_ends),
        cmocka_unit_test(rtit_damage_of_overflows_ends),
        cmocka_unit_test(rtit_flipped_bits_end),
        cmocka_unit_test(rtit_cut_anywhere_is_a_prefix_of_the_truth),
        cmocka_unit_test(rtit_damage_ends),
        cmocka_unit_test(missing_code_invents_no_instruction),
        cmocka_unit_test(code_that_is_rewritten_often_costs_no_more_each_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
