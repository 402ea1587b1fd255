/* SPDX-License-Identifier: MIT
 * The PSB search against a naive one; streams: splitting changes nothing, damage stays within a PSB
 * interval. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <cofi/error.h>
#include <cofi/stream.h>

#include "random.h"

/* ---- the search ---- */

/* A PSB by its words: 16 bytes 02 82 that no 02 82 follows; C0 and 8 zeros. */
static bool is_psb(enum cofi_gen gen, const uint8_t *p, size_t n, size_t i)
{
    if (gen == COFI_RTIT) {
        for (size_t k = 1; k < 9; k++)
            if (i + k >= n || p[i + k])
                return false;
        return p[i] == 0xc0;
    }
    for (size_t k = 0; k < 16; k++)
        if (i + k >= n || p[i + k] != (k & 1 ? 0x82 : 0x02))
            return false;
    return i + 18 > n || p[i + 16] != 0x02 || p[i + 17] != 0x82;
}

static size_t naive_forward(enum cofi_gen gen, const uint8_t *p, size_t n, size_t from)
{
    for (size_t i = from; i < n; i++)
        if (is_psb(gen, p, n, i))
            return i;
    return COFI_NO_PSB;
}

static size_t naive_backward(enum cofi_gen gen, const uint8_t *p, size_t n, size_t before)
{
    for (size_t i = before < n ? before : n; i-- > 0;)
        if (is_psb(gen, p, n, i))
            return i;
    return COFI_NO_PSB;
}

static void a_psb_is_found_at_every_offset(void **state)
{
    (void)state;
    static const uint8_t pt[16] = {2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82,
                                   2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82};
    static const uint8_t rtit[9] = {0xc0};
    for (size_t at = 0; at < 80; at++)
        for (size_t tail = 0; tail < 12; tail++) {
            uint8_t *p = malloc(at + 16 + tail), *r = malloc(at + 9 + tail);
            memset(p, 0x82, at + 16 + tail);
            memset(r, 0xc0, at + 9 + tail);
            memcpy(p + at, pt, 16);
            memcpy(r + at, rtit, 9);
            assert_int_equal(cofi_sync_forward(COFI_PT, p, at + 16 + tail, 0), at);
            assert_int_equal(cofi_sync_backward(COFI_PT, p, at + 16 + tail, SIZE_MAX), at);
            assert_int_equal(cofi_sync_forward(COFI_RTIT, r, at + 9 + tail, 0), at);
            assert_int_equal(cofi_sync_backward(COFI_RTIT, r, at + 9 + tail, SIZE_MAX), at);
            assert_int_equal(cofi_sync_forward(COFI_PT, p, at + 15, 0), COFI_NO_PSB);
            assert_int_equal(cofi_sync_forward(COFI_RTIT, r, at + 8, 0), COFI_NO_PSB);
            assert_int_equal(cofi_sync_backward(COFI_PT, p, at + 16 + tail, at), COFI_NO_PSB);
            free(p);
            free(r);
        }
}

/* [PTREF 9.1]: a TIP whose payload ends in 02 82, then a PSB. */
static void a_packet_that_ends_in_02_82_does_not_shift_the_psb(void **state)
{
    (void)state;
    uint8_t p[64] = {0x6d, 0x11, 0x22, 0x02, 0x82, 0x02, 0x82};
    for (int i = 0; i < 8; i++)
        memcpy(p + 7 + 2 * i, "\x02\x82", 2);
    p[23] = 0x02;
    p[24] = 0x23;
    assert_int_equal(cofi_sync_forward(COFI_PT, p, sizeof p, 0), 7);
    assert_int_equal(cofi_sync_backward(COFI_PT, p, sizeof p, sizeof p), 7);
}

static void the_search_finds_what_a_naive_one_finds(void **state)
{
    (void)state;
    struct random r = {5};
    enum { N = 300 };
    uint8_t p[N];
    unsigned found = 0;
    for (int round = 0; round < 30000; round++) {
        enum cofi_gen gen = round & 1 ? COFI_PT : COFI_RTIT;
        size_t n = random_below(&r, N + 1);
        for (size_t i = 0; i < n;) {
            size_t run = random_below(&r, 24) + 1;
            unsigned what = random_below(&r, 3), phase = random_below(&r, 2);
            for (; run-- && i < n; i++, phase++)
                p[i] = what == 0 ? (uint8_t)random_u64(&r)
                     : gen == COFI_PT ? (phase & 1 ? 0x82 : 0x02) : what == 1 ? 0x00 : 0xc0;
        }
        size_t at = random_below(&r, (unsigned)n + 1);
        size_t want = naive_forward(gen, p, n, at), back = naive_backward(gen, p, n, at);
        found += want != COFI_NO_PSB;
        if (cofi_sync_forward(gen, p, n, at) != want || cofi_sync_backward(gen, p, n, at) != back)
            fail_msg("round %d: from %zu: forward %zu, naive %zu; backward %zu, naive %zu", round,
                     at, cofi_sync_forward(gen, p, n, at), want, cofi_sync_backward(gen, p, n, at),
                     back);
    }
    assert_true(found > 1000);
}

/* Over blocks of the backward search, and beyond what a run may be. */
static void a_psb_far_back_is_found(void **state)
{
    (void)state;
    enum { N = 40000 };
    uint8_t *p = calloc(N, 1);
    for (size_t at = 4000; at < 4200; at += 7) {
        memset(p, 0x06, N);
        for (size_t i = 0; i < 16; i++)
            p[at + i] = i & 1 ? 0x82 : 0x02;
        assert_int_equal(cofi_sync_backward(COFI_PT, p, N, N), at);
    }
    for (size_t i = 0; i < N; i++)
        p[i] = i & 1 ? 0x82 : 0x02;
    assert_int_equal(cofi_sync_backward(COFI_PT, p, N, N), N - 16);
    assert_int_equal(cofi_sync_backward(COFI_PT, p, N, N - 16), COFI_NO_PSB);
    free(p);
}

/* ---- streams ---- */

/* A legal stream of random packets with a PSB every now and then. */
static size_t make_stream(struct random *r, enum cofi_gen gen, bool cyc, uint8_t *out, size_t room)
{
    struct cofi_packet_context context = {(uint8_t)gen, cyc, 0};
    size_t n = 0;
    for (unsigned i = 0; n + 2 * COFI_PACKET_MAX < room; i++) {
        struct cofi_packet packet;
        uint8_t bytes[24];
        struct cofi_packet_context c = context;
        random_bytes(r, bytes, sizeof bytes);
        if (i % 40 == 0) {
            packet = (struct cofi_packet){.kind = gen == COFI_PT ? COFI_PT_PSB : COFI_RTIT_PSB};
        } else if (cofi_packet_decode(&c, bytes, sizeof bytes, &packet) < 0) {
            i--;
            continue;
        }
        int size = cofi_packet_encode(&context, &packet, out + n, room - n);
        assert_true(size > 0);
        n += (size_t)size;
    }
    return n;
}

struct record {
    int status;
    uint64_t offset, size;
    uint8_t kind, first;
};

/* Of the stream that is read next. */
static uint64_t breaks[2];
static size_t breaks_n;

/* All items of a stream that comes in pieces of at most `most` bytes, each in memory of its own. */
static size_t read_stream(enum cofi_gen gen, bool cyc, const uint8_t *bytes, size_t n, size_t most,
                          struct random *r, struct record *out, size_t room)
{
    struct cofi_stream s;
    struct cofi_stream_item item;
    size_t count = 0, i = 0;
    uint8_t *piece = 0;
    cofi_stream_init(&s, gen, 1000, false);
    s.context.cyc = cyc;
    s.breaks = breaks;
    s.breaks_n = breaks_n;
    for (;;) {
        while (cofi_stream_next(&s, &item)) {
            assert_true(count < room);
            if (!item.status)
                assert_memory_equal(item.bytes, bytes + (item.offset - 1000), item.size);
            out[count++] =
                (struct record){item.status, item.offset, item.size,
                                item.status ? 0 : item.packet.kind, item.status ? 0 : *item.bytes};
        }
        free(piece);
        if (i == n && s.final)
            return count;
        size_t k = most < n - i ? most : n - i;
        if (k > 1 && r)
            k = random_below(r, (unsigned)k) + 1;
        piece = malloc(k + !k);
        memcpy(piece, bytes + i, k);
        cofi_stream_feed(&s, piece, k);
        i += k;
        /* Sometimes the end is told with the last piece, sometimes after it. */
        if (i == n && (!k || !r || random_below(r, 2)))
            cofi_stream_finish(&s);
    }
}

enum { ROOM = 1 << 13 };

static void damage(struct random *r, uint8_t *bytes, size_t n, unsigned flips)
{
    while (flips--) {
        unsigned at = random_below(r, (unsigned)n);
        bytes[at] ^= (uint8_t)(1u << random_below(r, 8));
    }
}

static void splitting_the_input_never_changes_the_items(void **state)
{
    (void)state;
    struct random r = {6};
    static uint8_t bytes[ROOM];
    static struct record whole[ROOM], split[ROOM];
    unsigned skips = 0;
    for (int round = 0; round < 400; round++) {
        enum cofi_gen gen = round & 1 ? COFI_PT : COFI_RTIT;
        bool cyc = round & 2;
        size_t n = make_stream(&r, gen, cyc, bytes, 200 + random_below(&r, 2000));
        damage(&r, bytes, n, random_below(&r, 8));
        size_t cut = random_below(&r, 30);
        breaks[0] = 1001 + random_below(&r, (unsigned)n);
        breaks[1] = breaks[0] + 1 + random_below(&r, 20);
        breaks_n = gen == COFI_PT ? random_below(&r, 3) : 0;
        size_t a = read_stream(gen, cyc, bytes + cut, n - cut, SIZE_MAX / 2, 0, whole, ROOM);
        static const size_t most[] = {1, 2, 3, 15, 16, 17, 40, 90, 700};
        for (size_t m = 0; m < sizeof most / sizeof *most; m++) {
            size_t b =
                read_stream(gen, cyc, bytes + cut, n - cut, most[m], m ? &r : 0, split, ROOM);
            if (a != b || memcmp(whole, split, a * sizeof *whole))
                fail_msg("round %d, pieces of %zu: %zu items, %zu in one piece", round, most[m], b,
                         a);
        }
        for (size_t i = 0; i < a; i++)
            skips += whole[i].status == COFI_ERR_BAD_PACKET;
    }
    breaks_n = 0;
    assert_true(skips > 200);
}

/* CYC whose end an OVF wrote over, OVF; a TMA with reserved bits and a byte more, TNT. Fed byte by byte. */
static void errata_are_read_as_what_they_are_where_they_may_be(void **state)
{
    static const uint8_t bytes[] = {0x0f, 0x02, 0xf3, 0x02, 0x73, 0x12, 0x34, 0xff, 0x56, 0x01, 0xff, 0x06, 0x07, 0x02};
    static const struct {
        uint32_t model;
        const char *items;
    } cases[] = {{0, "cyc 2, cyc 1, tma 7, cyc 2, cyc 2, "}, {0x5e, "cyc 1!, ovf 2, tma 7, cyc 2, cyc 2, "},
                 {0x55, "cyc 2, cyc 1, tma 8!, tnt.8 1, cyc 2, "}};
    (void)state;
    for (size_t c = 0; c < 3; c++) {
        struct cofi_stream stream;
        struct cofi_stream_item item;
        char items[100] = "";
        cofi_stream_init(&stream, COFI_PT, 0, true);
        stream.context.lenient = true;
        stream.family = cases[c].model ? 6 : 0;
        stream.model = cases[c].model;
        for (size_t i = 0; i <= sizeof bytes; i++) {
            while (cofi_stream_next(&stream, &item))
                snprintf(items + strlen(items), sizeof items - strlen(items), "%s %u%s, ", cofi_packet_name(item.packet.kind),
                         (unsigned)item.size, item.why ? "!" : "");
            if (i == sizeof bytes)
                break;
            cofi_stream_feed(&stream, bytes + i, 1);
            if (i == sizeof bytes - 1)
                cofi_stream_finish(&stream);
        }
        assert_string_equal(items, cases[c].items);
    }
}

static void items_cover_the_stream_without_a_gap(void **state)
{
    (void)state;
    struct random r = {7};
    static uint8_t bytes[ROOM];
    static struct record items[ROOM];
    for (int round = 0; round < 1000; round++) {
        enum cofi_gen gen = round & 1 ? COFI_PT : COFI_RTIT;
        size_t n = make_stream(&r, gen, false, bytes, 1500);
        damage(&r, bytes, n, random_below(&r, 8));
        size_t count = read_stream(gen, false, bytes, n, SIZE_MAX / 2, 0, items, ROOM);
        uint64_t at = 1000;
        for (size_t i = 0; i < count; i++) {
            /* Only a PSB may begin in what was taken for a packet, right after that turned out. */
            bool psb = items[i].kind == COFI_PT_PSB || items[i].kind == COFI_RTIT_PSB;
            if (items[i].offset < at)
                assert_true(psb && i && items[i - 1].status == COFI_ERR_BAD_PACKET &&
                            !items[i - 1].size);
            else
                assert_int_equal(items[i].offset, at);
            at = items[i].offset + items[i].size;
        }
        assert_int_equal(at, 1000 + n);
    }
}

/* From the second PSB after the flipped byte on (the first one may be the flipped one itself), and
 * before the last PSB before it, nothing changes. */
static void a_flipped_byte_costs_at_most_one_psb_interval(void **state)
{
    (void)state;
    struct random r = {8};
    static uint8_t bytes[ROOM];
    static struct record good[ROOM], bad[ROOM];
    for (int gen = COFI_RTIT; gen <= COFI_PT; gen++) {
        size_t n = make_stream(&r, (enum cofi_gen)gen, gen == COFI_RTIT, bytes, 4000);
        size_t a = read_stream((enum cofi_gen)gen, gen == COFI_RTIT, bytes, n, SIZE_MAX / 2, 0,
                               good, ROOM);
        for (size_t flip = 0; flip < n; flip++) {
            uint8_t old = bytes[flip];
            bytes[flip] = (uint8_t)(old ^ (random_below(&r, 255) + 1));
            size_t b = read_stream((enum cofi_gen)gen, gen == COFI_RTIT, bytes, n, SIZE_MAX / 2, 0,
                                   bad, ROOM);
            bytes[flip] = old;
            size_t next = cofi_sync_forward((enum cofi_gen)gen, bytes, n, flip + 1);
            if (next == COFI_NO_PSB)
                continue;
            size_t i = 0, j = 0;
            while (i < a && good[i].offset != 1000 + next)
                i++;
            while (j < b && !(bad[j].offset == 1000 + next && !bad[j].status))
                j++;
            if (a - i != b - j || memcmp(good + i, bad + j, (a - i) * sizeof *good))
                fail_msg("gen %d: byte %zu flipped: the PSB at %zu is not read", gen, flip, next);
        }
    }
}

static void rtit_cycle_counts_are_found_out(void **state)
{
    (void)state;
    struct random r = {10};
    static uint8_t bytes[ROOM];
    for (int round = 0; round < 50; round++) {
        uint64_t bad[2];
        size_t n = make_stream(&r, COFI_RTIT, round & 1, bytes, 3000);
        assert_int_equal(cofi_stream_guess_cyc(bytes, n, bad), round & 1);
        assert_int_equal(bad[round & 1], 0);
        /* One damaged place in the first interval does not change the mind. */
        bytes[20] = 0xe0;
        assert_int_equal(cofi_stream_guess_cyc(bytes, n, 0), round & 1);
    }
}

static void an_empty_stream_and_one_without_psb_end(void **state)
{
    (void)state;
    struct record items[4];
    assert_int_equal(read_stream(COFI_PT, false, (const uint8_t *)"", 0, 1, 0, items, 4), 0);
    assert_int_equal(
        read_stream(COFI_PT, false, (const uint8_t *)"\x02\x82\x02\x82\x02", 5, 1, 0, items, 4), 1);
    assert_int_equal(items[0].status, COFI_ERR_NO_SYNC);
    assert_int_equal(items[0].size, 5);
}

/* A packet that is cut, one that is not, bytes that are none, and no PSB before; none of them costs what follows. */
static void behind_a_break_packets_begin_anew(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        size_t n, at[2], items;
        int before; /* what is told of the bytes before the first break, besides the break itself: 0: a PSB and a TIP */
    } rows[] = {
        {"\x02\x82\x02\x82\x02\x82\x02\x82\x02\x82\x02\x82\x02\x82\x02\x82" "\x2d\x11\x22" "\x71\x33" "\x99\x01" "\x04", 24, {21, 24}, 6, 0},
        {"\x02\x82\x02\x82\x02\x82\x02\x82\x02\x82\x02\x82\x02\x82\x02\x82" "\x2d\x11\x22" "\x99\x01" "\x04", 22, {19, 22}, 6, 0},
        {"\x02\x82\x02\x82\x02\x82\x02\x82\x02\x82\x02\x82\x02\x82\x02\x82" "\xd5\x11\x22" "\x99\x01" "\x04", 22, {19, 22}, 6, COFI_ERR_BAD_PACKET},
        {"\x82\x02\x82\x02\x82" "\x99\x01" "\x04", 8, {5, 8}, 5, COFI_ERR_NO_SYNC},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (size_t most = 1; most < 30; most++) {
            struct record items[8];
            breaks[0] = 1000 + rows[i].at[0];
            breaks[1] = 1000 + rows[i].at[1];
            breaks_n = 2;
            size_t n = read_stream(COFI_PT, false, (const uint8_t *)rows[i].bytes, rows[i].n, most, 0, items, 8);
            breaks_n = 0;
            assert_int_equal(n, rows[i].items);
            const struct record *full = &items[n - 4], *mode = full + 1, *tnt = full + 2, *end = full + 3;
            if (rows[i].before)
                assert_int_equal(full[-1].status, rows[i].before);
            else
                assert_int_equal(full[-1].kind, COFI_PT_TIP);
            assert_int_equal(full->status, COFI_ERR_FULL);
            assert_int_equal(full->offset, full[-1].offset + full[-1].size);
            assert_int_equal(full->offset + full->size, breaks[0]);
            assert_int_equal(mode->kind, COFI_PT_MODE_EXEC);
            assert_int_equal(mode->offset, breaks[0]);
            assert_int_equal(tnt->kind, COFI_PT_TNT);
            assert_int_equal(end->status, COFI_ERR_FULL);
            assert_int_equal(end->size, 0);
        }
}

/* Whoever gives them in another order has those that come too late for none; nothing is read twice, or beyond the bytes. */
static void a_break_behind_which_reading_stands_is_none(void **state)
{
    (void)state;
    static const uint8_t bytes[] = "\x02\x82\x02\x82\x02\x82\x02\x82\x02\x82\x02\x82\x02\x82\x02\x82\x2d\x11\x22\x71\x33\x99\x01\x04";
    for (size_t most = 1; most < 30; most++)
        for (uint64_t late = 0; late < 1021; late += late ? 1 : 990) {
            struct record one[8], both[8];
            breaks[0] = 1021;
            breaks[1] = late;
            breaks_n = 1;
            size_t n = read_stream(COFI_PT, false, bytes, sizeof bytes - 1, most, 0, one, 8);
            breaks_n = 2;
            assert_int_equal(read_stream(COFI_PT, false, bytes, sizeof bytes - 1, most, 0, both, 8), n);
            breaks_n = 0;
            assert_int_equal(n, 5);
            for (size_t i = 0; i < n; i++) {
                assert_int_equal(both[i].status, one[i].status);
                assert_int_equal(both[i].offset, one[i].offset);
                assert_int_equal(both[i].size, one[i].size);
            }
        }
}

/* A mark behind the last packet is passed over, however the bytes come; one elsewhere is no packet. */
static void a_mark_may_stand_behind_the_last_packet(void **state)
{
    (void)state;
    struct record items[4];
    static const char psb[] = "\x02\x82\x02\x82\x02\x82\x02\x82\x02\x82\x02\x82\x02\x82\x02\x82\x06\x55\x00";
    for (size_t cut = 1; cut <= 19; cut++) {
        assert_int_equal(read_stream(COFI_PT, false, (const uint8_t *)psb, 18, cut, 0, items, 4), 2);
        assert_int_equal(items[1].kind, COFI_PT_TNT);
        assert_int_equal(read_stream(COFI_PT, false, (const uint8_t *)psb, 19, cut, 0, items, 4), 3);
        assert_int_equal(items[2].status, COFI_ERR_BAD_PACKET);
        assert_int_equal(items[2].size, 2);
    }
}

static void whether_a_stream_begins_with_a_packet_is_found_out(void **state)
{
    (void)state;
#define PSB "\x02\x82\x02\x82\x02\x82\x02\x82\x02\x82\x02\x82\x02\x82\x02\x82"
#define GUESS(text) cofi_stream_guess_synced((const uint8_t *)(text), sizeof(text) - 1)
    assert_true(GUESS("\x99\x01\x71\x01\x02\x03\x04\x05\x06\x06\x55"));
    assert_true(GUESS("\x99\x01\x71\x01\x02\x03\x04\x05\x06" PSB "\x05")); /* behind the PSB it is no matter */
    assert_true(GUESS(PSB "\x06"));
    assert_true(GUESS("\x06\x71\x01\x02"));                                     /* cut at the end */
    assert_false(GUESS("\x06\x71\x01\x02" PSB));                                /* but not before a PSB */
    assert_false(GUESS("\x06\x05\x06" PSB));
    assert_false(GUESS("\x06\x55\x06"));
    assert_false(GUESS("\x71\x01\x02"));
    assert_false(GUESS(""));
}

static void the_mode_that_a_stream_begins_in_is_found_out(void **state)
{
    (void)state;
#define MODE(text) cofi_stream_guess_mode((const uint8_t *)(text), sizeof(text) - 1)
#define TIP "\x2d\x01\x02"
    assert_int_equal(MODE(""), 0);
    assert_int_equal(MODE("\x06" TIP), 0);
    assert_int_equal(MODE("\x06" PSB "\x99\x02\x02\x23"), 32); /* repeated */
    assert_int_equal(MODE("\x06" PSB "\x99\x08\x02\x23"), 16);
    assert_int_equal(MODE("\x06" PSB "\x99\x01\x02\x23\x99\x02" TIP), 64);
    assert_int_equal(MODE("\x06" PSB "\x02\x23\x99\x02\x31\x01\x02"), 32);     /* tracing went on with it */
    assert_int_equal(MODE("\x06\x99\x02" TIP), 32);                               /* a change, or none */
    assert_int_equal(MODE("\x06\x99\x01\x59\x01" TIP "\x06\x99\x02" TIP), COFI_MODE_LATER); /* an interrupt, and back */
    assert_int_equal(MODE("\x06\x99\x01" TIP "\x06\x99\x05" TIP), 64);          /* of RFLAGS.IF */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_psb_is_found_at_every_offset),
        cmocka_unit_test(a_packet_that_ends_in_02_82_does_not_shift_the_psb),
        cmocka_unit_test(the_search_finds_what_a_naive_one_finds),
        cmocka_unit_test(a_psb_far_back_is_found),
        cmocka_unit_test(splitting_the_input_never_changes_the_items),
        cmocka_unit_test(errata_are_read_as_what_they_are_where_they_may_be),
        cmocka_unit_test(items_cover_the_stream_without_a_gap),
        cmocka_unit_test(a_flipped_byte_costs_at_most_one_psb_interval),
        cmocka_unit_test(rtit_cycle_counts_are_found_out),
        cmocka_unit_test(an_empty_stream_and_one_without_psb_end),
        cmocka_unit_test(behind_a_break_packets_begin_anew),
        cmocka_unit_test(a_break_behind_which_reading_stands_is_none),
        cmocka_unit_test(a_mark_may_stand_behind_the_last_packet),
        cmocka_unit_test(whether_a_stream_begins_with_a_packet_is_found_out),
        cmocka_unit_test(the_mode_that_a_stream_begins_in_is_found_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
