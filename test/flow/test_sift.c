/* SPDX-License-Identifier: MIT
 * Timing is taken out by windows of 64 bytes, in each way that the processor has, as it is packet by packet: the same bytes, outcomes that wait,
 * places and time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <cofi/flow.h>

#include "flow/walker.h"

enum { BYTES_MOST = 2000, END = 2 * BYTES_MOST, GUARD = 0xa5 };

static struct cofi_flow *flow;
static struct cofi_image *image;
static uint64_t seed;
static uint8_t made[END], *trace; /* the latter: exactly as long as it may be read */
static const uint8_t psb[] = {0x02, 0x82};

static uint64_t next(uint64_t below)
{
    seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407;
    return (seed >> 33) % below;
}

/* ---- streams ---- */

static size_t put_tip(uint8_t *p, bool kernel)
{
    static const uint8_t first[] = {0x2d, 0x2d, 0x4d, 0x6d, 0x8d, 0xcd}, size[] = {3, 3, 5, 7, 7, 9};
    unsigned which = (unsigned)next(6);
    p[0] = first[which];
    for (unsigned i = 1; i < size[which]; i++)
        p[i] = (uint8_t)next(256);
    if (which >= 3) { /* the address's sign */
        p[6] = kernel ? 0xff : 0x7f;
        p[size[which] - 1] = kernel ? 0xff : 0x7f;
    }
    return size[which];
}

static size_t put_cyc(uint8_t *p, unsigned longer)
{
    unsigned n = 1 + !next(3) + (!next(40) ? longer : 0);
    for (unsigned i = 0; i < n; i++) {
        bool more = i + 1 < n;
        p[i] = i ? (uint8_t)(next(128) << 1 | more) : (uint8_t)(next(32) << 3 | (unsigned)more << 2 | 3);
    }
    return n;
}

/* So often each kind of packet comes, of 100. */
struct mix {
    unsigned cyc, mtc, tip, pad, full;
    unsigned longer; /* bytes of long CYCs */
    unsigned kernel; /* of 100 TIPs */
};

static size_t make(const struct mix *mix)
{
    size_t n = 0, most = next(BYTES_MOST - 64);
    while (n < most) {
        if (next(100) < mix->cyc)
            n += put_cyc(made + n, mix->longer);
        unsigned what = (unsigned)next(100);
        if (what < mix->mtc) {
            made[n++] = 0x59;
            made[n++] = (uint8_t)next(256);
        } else if ((what -= mix->mtc) < mix->tip) {
            n += put_tip(made + n, next(100) < mix->kernel);
        } else if ((what -= mix->tip) < mix->pad) {
            made[n++] = 0;
        } else {
            made[n++] = next(100) < mix->full ? (uint8_t)(0x80 | next(64) << 1) : (uint8_t)(4 + 2 * next(62));
        }
    }
    return n;
}

/* ---- each way ---- */

struct result {
    struct sift w;
    struct cofi__clock clock;
    uint8_t out[END + SIFT_MORE + 64];
};

static struct sift start_of(struct result *r, uint64_t acc, unsigned n, uint64_t last_ip)
{
    memset(r->out, GUARD, sizeof r->out);
    return (struct sift){.p = trace, .q = r->out, .acc = acc, .n = n, .last_ip = last_ip};
}

/* First to `near`, by windows or not; then packet by packet. */
static void sift_to(struct result *r, struct sift w, sift_wide *wide, const uint8_t *near, const uint8_t *stop, const uint8_t *end)
{
    struct cofi__clock before = flow->clock;
    flow->sift_wide = wide;
    cofi__sift(flow, &w, near, end);
    flow->sift_wide = NULL;
    if (w.p > near)
        cofi__sift(flow, &w, stop, end);
    r->w = w;
    r->clock = flow->clock;
    flow->clock = before;
}

static void assert_same(const struct result *got, const struct result *want)
{
    size_t n = (size_t)(want->w.q - want->out);
    uint64_t waiting = (UINT64_C(1) << want->w.n) - 1;
    assert_int_equal(got->w.p - trace, want->w.p - trace);
    assert_int_equal(got->w.q - got->out, n);
    assert_memory_equal(got->out, want->out, n);
    assert_int_equal(got->w.n, want->w.n);
    assert_int_equal(got->w.acc & waiting, want->w.acc & waiting);
    assert_ptr_equal(got->w.tnt, want->w.tnt);
    assert_ptr_equal(got->w.tip, want->w.tip);
    assert_ptr_equal(got->w.tip_before, want->w.tip_before);
    assert_int_equal(got->w.last_ip >> 63, want->w.last_ip >> 63);
    assert_int_equal(got->clock.cycles, want->clock.cycles);
    assert_int_equal(got->clock.exact, want->clock.exact);
    assert_int_equal(got->clock.ctc_delta, want->clock.ctc_delta);
    assert_int_equal(got->clock.span_cycles, want->clock.span_cycles);
    for (size_t i = n + SIFT_MORE; i < sizeof got->out; i++)
        assert_int_equal(got->out[i], GUARD);
}

/* A stream of n bytes, TIP.PGEs behind it, by windows in one way. Returns how many were sifted. */
static size_t go(size_t n, sift_wide *wide)
{
    static struct result got, want;
    size_t all = n + 32 + next(100);
    memset(made + n, 0x11, END - n);
    trace = malloc(all);
    assert_non_null(trace);
    memcpy(trace, made, all);
    uint64_t acc = next(1u << 30), last_ip = next(2) << 63;
    unsigned waits = (unsigned)next(6);
    const uint8_t *end = trace + all, *stop = trace + n;
    sift_to(&want, start_of(&want, acc, waits, last_ip), NULL, stop, stop, end);
    for (unsigned way = 0; way < 3; way++) {
        const uint8_t *near = way ? trace + next(n + 1) : stop;
        sift_to(&got, start_of(&got, acc, waits, last_ip), way < 2 ? wide : NULL, near, stop, end);
        assert_same(&got, &want);
    }
    size_t sifted = (size_t)(want.w.p - trace);
    free(trace);
    return sifted;
}

static int set_up(void **state)
{
    struct cofi_flow_config config;
    (void)state;
    cofi_flow_config_init(&config, COFI_PT);
    if (cofi_image_open(&image))
        return -1;
    config.image = image;
    config.bytes = psb;
    config.n = sizeof psb;
    config.time.nominal_ratio = 24;
    config.time.tsc_num = 42;
    config.time.tsc_den = 2;
    if (cofi_flow_open(&flow, &config))
        return -1;
    flow->clock.known = flow->clock.have_tma = true;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    cofi_flow_close(flow);
    cofi_image_close(image);
    return 0;
}

static void packets_are_sifted_the_same(sift_wide *wide)
{
    static const struct mix mixes[] = {
        {60, 4, 20, 0, 100, 0, 0},  /* a program with calls */
        {60, 8, 1, 0, 90, 0, 0},    /* loops: outcomes are put together over whole windows */
        {50, 10, 30, 10, 40, 3, 0}, /* all sorts, long CYCs */
        {30, 2, 60, 2, 50, 1, 50},  /* in and out of the kernel */
        {30, 2, 60, 2, 50, 0, 97},
        {0, 30, 0, 0, 50, 0, 0},
        {100, 90, 5, 0, 50, 0, 0},
    };
    size_t bytes = 0;
    for (seed = 1; seed < 1000; seed++) {
        uint64_t from = seed;
        bytes += go(make(&mixes[from % (sizeof mixes / sizeof *mixes)]), wide);
        seed = from;
    }
    assert_true(bytes > 500000);
}

/* Not even packets. */
static void bytes_are_sifted_the_same(sift_wide *wide)
{
    for (uint64_t i = 1; i < 20000; i++) {
        size_t n = 0;
        seed = i;
        for (; n < 200; n++) /* even ones, TNTs, more than others, so that it goes on for a while */
            made[n] = (uint8_t)(next(16) ? next(256) & ~UINT64_C(1) : next(256));
        go(n, wide);
    }
}

/* All packets that there are for it are taken: what is left is less than a window. */
static void no_packet_is_left(sift_wide *wide)
{
    static const struct mix mix = {60, 8, 20, 5, 80, 0, 0};
    static struct result got;
    for (seed = 1; seed < 100; seed++) {
        uint64_t from = seed;
        size_t n = make(&mix);
        memset(made + n, 0x11, END - n);
        trace = made;
        struct sift w = start_of(&got, 0, 0, 0);
        struct cofi__clock clock = flow->clock;
        wide(&w, &clock, trace + n, made + END);
        assert_true((size_t)(w.p - trace) + SIFT_WINDOW > n);
        seed = from;
    }
}

static void check(sift_wide *wide)
{
    packets_are_sifted_the_same(wide);
    bytes_are_sifted_the_same(wide);
    no_packet_is_left(wide);
}

static void by_avx512(void **state)
{
    (void)state;
    check(cofi__sift_avx512);
}

static void by_avx2(void **state)
{
    (void)state;
    check(cofi__sift_avx2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(by_avx512),
        cmocka_unit_test(by_avx2),
    };
    if (!cofi__sift_avx512_here()) /* not skip(): cmocka's TAP says "not ok" of that */
        cmocka_set_skip_filter(cofi__sift_avx2_here() ? "by_avx512" : "by_*");
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
