/* SPDX-License-Identifier: MIT
 * Log records -> packets. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cofi/packet.h>

#include "host/fast/encode.h"
#include "host/fast/memo.h"

/* Records; addresses and times below 2^32 here. */
#define LE4(v) (uint8_t)(v), (uint8_t)((v) >> 8), (uint8_t)((v) >> 16), (uint8_t)((v) >> 24)
#define TIP(outcomes, target) COFI__FAST_TIP | (outcomes), LE4(target), 0, 0
#define CONTROL(kind, tsc, address) COFI__FAST_CONTROL, COFI__FAST_##kind, LE4(tsc), 0, 0, 0, 0, LE4(address), 0, 0, 0, 0
#define NOWHERE 255, 255, 255, 255, 255, 255, 255, 255
#define LOG(r) (r), sizeof(r)

enum { PSB_PLUS_BYTES = 16 + 8 + 2 + 5 + 2 };

/* Not with AVX2 and BMI2, if this processor has them: each test runs with and without. */
static bool usual;

static void expect(const uint8_t *log, size_t n, const char *const *lines)
{
    struct cofi__fast_encoder e = {.usual = usual};
    struct cofi_packet_context context = {.gen = COFI_PT};
    assert_int_equal(cofi__fast_encode(&e, log, n), n);
    assert_int_equal(cofi__fast_encode_end(&e), 0);
    size_t at = 0;
    for (; *lines; lines++) {
        struct cofi_packet p;
        char text[128];
        int size = cofi_packet_decode(&context, e.out + at, e.used - at, &p);
        assert_true(size > 0);
        cofi_packet_print(&p, text, sizeof text);
        for (char *c = text; *c; c++) /* columns are the printer's affair */
            if (*c == ' ')
                while (c[1] == ' ')
                    memmove(c, c + 1, strlen(c));
        assert_string_equal(text, *lines);
        at += (size_t)size;
    }
    assert_int_equal(at, e.used);
    cofi__fast_encoder_fini(&e);
}

static void the_first_pge_follows_a_psb_without_fup(void **state)
{
    (void)state;
    const uint8_t r[] = {CONTROL(PGE, 0x1234, 0x401000)};
    const char *const lines[] = {"psb", "tsc 1234", "psbend", "mode.exec cs.l", "tip.pge 2: ????????00401000", NULL};
    expect(LOG(r), (const char *const *)lines);
}

static void outcomes_fill_short_tnts_across_records(void **state)
{
    (void)state;
    /* 4 outcomes, then 4: six of them fill a packet, two wait for the target. */
    const uint8_t r[] = {CONTROL(PGE, 1, 0x401000), 0x1a, TIP(0x15, 0x401020)};
    const char *const lines[] = {"psb", "tsc 1", "psbend", "mode.exec cs.l", "tip.pge 2: ????????00401000",
                                 "tnt.8 !.!..!", "tnt.8 .!", "tip 1: ????????????1020", NULL};
    expect(LOG(r), (const char *const *)lines);
}

static void records_before_the_first_synchronisation_are_dropped(void **state)
{
    (void)state;
    const uint8_t r[] = {TIP(3, 0x401000), CONTROL(TSC, 7, 0), 2, CONTROL(PSB, 9, 0x401010), 3};
    const char *const lines[] = {"psb", "tsc 9", "mode.exec cs.l", "fup 2: ????????00401010", "psbend", "tnt.8 !", NULL};
    expect(LOG(r), (const char *const *)lines);
}

static void what_is_lost_before_all_else_shows(void **state)
{
    (void)state;
    const uint8_t r[] = {CONTROL(OVF, 7, 0), 2, CONTROL(PGE, 9, 0x401000), 3};
    const char *const lines[] = {"psb", "tsc 9", "psbend", "ovf", "tsc 9", "mode.exec cs.l", "tip.pge 2: ????????00401000", "tnt.8 !", NULL};
    expect(LOG(r), (const char *const *)lines);
}

static void an_event_is_a_fup_and_a_pgd(void **state)
{
    (void)state;
    const uint8_t r[] = {CONTROL(PGE, 1, 0x401000), 2, CONTROL(EVENT, 5, 0x401010), CONTROL(PGE, 6, 0x402000)};
    const char *const lines[] = {"psb", "tsc 1", "psbend", "mode.exec cs.l", "tip.pge 2: ????????00401000", "tnt.8 .",
                                 "fup 1: ????????????1010", "tip.pgd 0: ????????????????", "tsc 6", "mode.exec cs.l",
                                 "tip.pge 1: ????????????2000", NULL};
    expect(LOG(r), (const char *const *)lines);
}

/* Every way in which outcomes of two records can meet. */
static void outcomes_keep_their_order_across_records(void **state)
{
    (void)state;
    for (unsigned i = 2; i < 128; i++)
        for (unsigned j = 2; j < 128; j++) {
            const uint8_t r[] = {CONTROL(PSB, 1, 0x401000), (uint8_t)i, (uint8_t)j};
            struct cofi__fast_encoder e = {.usual = usual};
            uint64_t want = 1, got = 1;
            assert_int_equal(cofi__fast_encode(&e, LOG(r)), sizeof r);
            assert_int_equal(cofi__fast_encode_end(&e), 0);
            for (int bit = 31 - __builtin_clz(i); bit-- > 0;)
                want = want << 1 | (i >> bit & 1);
            for (int bit = 31 - __builtin_clz(j); bit-- > 0;)
                want = want << 1 | (j >> bit & 1);
            for (size_t at = PSB_PLUS_BYTES; at < e.used; at++) {
                assert_false(e.out[at] & 1);
                for (int bit = 31 - __builtin_clz(e.out[at]); bit-- > 1;)
                    got = got << 1 | (e.out[at] >> bit & 1);
            }
            assert_int_equal(got, want);
            assert_true(e.used <= PSB_PLUS_BYTES + 2);
            cofi__fast_encoder_fini(&e);
        }
}

/* Batches of records, wherever a target stands in them. */
static void many_records_at_once_are_as_one_by_one(void **state)
{
    (void)state;
    uint8_t r[18 + 40 + 7 + 40] = {CONTROL(PSB, 1, 0x401000)};
    for (size_t target_at = 0; target_at <= 40; target_at++) {
        size_t n = 18;
        for (size_t i = 0; i < 80; i++) {
            unsigned count = 1 + (unsigned)(i * 5 + target_at) % 6, outcomes = (unsigned)(i * 37 + 11) & ((1u << count) - 1);
            if (i == target_at) {
                memcpy(r + n, (const uint8_t[]){COFI__FAST_TIP | 1, LE4(0x401020), 0, 0}, 7);
                n += 7;
            }
            if (n < sizeof r)
                r[n++] = (uint8_t)(1u << count | outcomes);
        }
        struct cofi__fast_encoder whole = {.usual = usual}, single = {.usual = usual};
        assert_int_equal(cofi__fast_encode(&whole, r, n), n);
        for (size_t at = 0; at < n;) {
            long took = cofi__fast_encode(&single, r + at, at == 0 ? 18 : r[at] & COFI__FAST_TIP ? 7 : 1);
            assert_true(took > 0);
            at += (size_t)took;
        }
        assert_int_equal(cofi__fast_encode_end(&whole), 0);
        assert_int_equal(cofi__fast_encode_end(&single), 0);
        assert_int_equal(whole.used, single.used);
        assert_memory_equal(whole.out, single.out, single.used);
        assert_int_equal(whole.branches, single.branches);
        cofi__fast_encoder_fini(&whole);
        cofi__fast_encoder_fini(&single);
    }
}

/* A log with and without a memo, which knows most of it the second time. */
static void what_is_remembered_is_what_was_encoded(void **state)
{
    (void)state;
    enum { BYTES = 20000 };
    uint8_t *log = calloc(1, BYTES + 64);
    struct cofi__fast_memo *memo = calloc(1, sizeof *memo);
    const uint8_t psb[] = {CONTROL(PSB, 1, 0x401000)};
    uint64_t random = 88172645463325252u;
    size_t n = sizeof psb;
    memcpy(log, psb, sizeof psb);
    while (n < BYTES) {
        random ^= random << 13, random ^= random >> 7, random ^= random << 17;
        unsigned count = 1 + random % 6;
        log[n++] = (uint8_t)(1u << count | (random >> 8 & ((1u << count) - 1)));
        if (random >> 20 & 1) {
            log[n - 1] |= COFI__FAST_TIP;
            memcpy(log + n, (const uint8_t[]){LE4(0x401000 + (random >> 24 & 3) * (random >> 30 & 1 ? 0x100000u : 1u)), 0, 0}, 6);
            n += 6;
        }
    }
    struct cofi__fast_encoder plain = {.usual = usual}, other = {.usual = !usual};
    long took = cofi__fast_encode(&plain, log, n);
    assert_int_equal(cofi__fast_encode(&other, log, n), took);
    assert_int_equal(other.used, plain.used);
    assert_memory_equal(other.out, plain.out, plain.used);
    cofi__fast_encoder_fini(&other);
    for (int round = 0; round < 3; round++) {
        struct cofi__fast_encoder e = {.memo = memo, .usual = usual};
        memo->credit = 1 << 20;
        assert_int_equal(cofi__fast_encode(&e, log, n), took);
        assert_int_equal(e.used, plain.used);
        assert_memory_equal(e.out, plain.out, plain.used);
        assert_int_equal(e.branches, plain.branches);
        assert_int_equal(e.last_ip, plain.last_ip);
        if (round)
            assert_true(memo->credit > (1 << 20) - 3 * 100); /* hits */
        cofi__fast_encoder_fini(&e);
    }
    cofi__fast_encoder_fini(&plain);
    free(memo);
    free(log);
}

static void a_run_is_not_taken_for_one_behind_another_target(void **state)
{
    (void)state;
    uint8_t log[2][18 + 7 + 200] = {{CONTROL(PSB, 1, 0x401000), TIP(1, 0x7f001000)},
                                    {CONTROL(PSB, 1, 0x401000), TIP(1, 0x401000)}};
    struct cofi__fast_memo *memo = calloc(1, sizeof *memo);
    memo->credit = 1 << 20;
    for (int i = 0; i < 2; i++)
        for (size_t n = 25; n + 7 <= sizeof log[i]; n += 7)
            memcpy(log[i] + n, (const uint8_t[]){TIP(5, 0x401020)}, 7);
    for (int i = 0; i < 2; i++) {
        struct cofi__fast_encoder plain = {.usual = usual}, e = {.memo = memo, .usual = usual};
        long took = cofi__fast_encode(&plain, LOG(log[i]));
        assert_int_equal(cofi__fast_encode(&e, LOG(log[i])), took);
        assert_int_equal(e.used, plain.used);
        assert_memory_equal(e.out, plain.out, plain.used);
        struct cofi__fast_run *first = memo->runs;
        while (!first->where || first->before != 0x7f001000)
            first++;
        for (size_t k = 0; k < COFI__FAST_RUNS; k++) /* wherever it is looked for */
            memo->runs[k] = *first;
        cofi__fast_encoder_fini(&plain);
        cofi__fast_encoder_fini(&e);
    }
    free(memo);
}

static void targets_are_sign_extended_and_compressed(void **state)
{
    (void)state;
    const uint8_t r[] = {CONTROL(PGE, 1, 0x401000), COFI__FAST_TIP | 1, 0, 0, 0x60, 0xff, 0xff, 0xff,
                         COFI__FAST_TIP | 1, 4, 0, 0x60, 0xff, 0xff, 0xff, TIP(3, 0x7f001234)};
    const char *const lines[] = {"psb", "tsc 1", "psbend", "mode.exec cs.l", "tip.pge 2: ????????00401000",
                                 "tip 3: ffffffffff600000", "tip 1: ????????????0004", "tnt.8 !",
                                 "tip 3: 000000007f001234", NULL};
    expect(LOG(r), (const char *const *)lines);
}

static void a_zero_byte_and_a_cut_record_end_the_log(void **state)
{
    (void)state;
    const uint8_t zero[] = {CONTROL(PGE, 1, 0x401000), 0, 3};
    const uint8_t cut[] = {CONTROL(PGE, 1, 0x401000), COFI__FAST_TIP | 1, 0, 0x10, 0x40};
    struct cofi__fast_encoder e = {.usual = usual};
    assert_int_equal(cofi__fast_encode(&e, LOG(zero)), 18);
    assert_int_equal(cofi__fast_encode(&e, LOG(cut)), 18);
    cofi__fast_encoder_fini(&e);
}

static void the_time_of_code_stands_before_the_last_taken_branch(void **state)
{
    (void)state;
    /* Outstanding: N T N N; the last taken one and what follows it come after the time. */
    const uint8_t r[] = {CONTROL(PGE, 1, 0x401000), 0x14, CONTROL(CODE, 9, 0x5000), TIP(2, 0x401020)};
    const char *const lines[] = {"psb", "tsc 1", "psbend", "mode.exec cs.l", "tip.pge 2: ????????00401000", "tnt.8 .",
                                 "tsc 9", "tnt.8 !...", "tip 1: ????????????1020", NULL};
    expect(LOG(r), (const char *const *)lines);
}

static void the_time_of_code_cuts_a_tnt_that_is_written(void **state)
{
    (void)state;
    /* T T N N N N are a packet, N is outstanding. */
    const uint8_t r[] = {CONTROL(PGE, 1, 0x401000), 0x70, 2, CONTROL(CODE, 9, 0x5000), CONTROL(CODE, 10, 0x5000)};
    const char *const lines[] = {"psb", "tsc 1", "psbend", "mode.exec cs.l", "tip.pge 2: ????????00401000", "tnt.8 !",
                                 "tsc 9", "tsc a", "tnt.8 !....", "tnt.8 .", NULL};
    expect(LOG(r), (const char *const *)lines);
}

static void the_time_of_code_stands_before_a_tip(void **state)
{
    (void)state;
    const uint8_t r[] = {CONTROL(PGE, 1, 0x401000), TIP(3, 0x401020), 2, CONTROL(CODE, 9, 0x5000)};
    const char *const lines[] = {"psb", "tsc 1", "psbend", "mode.exec cs.l", "tip.pge 2: ????????00401000", "tnt.8 !",
                                 "tsc 9", "tip 1: ????????????1020", "tnt.8 .", NULL};
    expect(LOG(r), (const char *const *)lines);
}

static void the_time_of_code_where_tracing_begins_is_that_of_the_beginning(void **state)
{
    (void)state;
    const uint8_t r[] = {CONTROL(PGE, 1, 0x401000), CONTROL(PGD, 2, 0), CONTROL(PGE, 3, 0x401002),
                          CONTROL(CODE, 9, 0x5000)};
    const char *const lines[] = {"psb", "tsc 1", "psbend", "mode.exec cs.l", "tip.pge 2: ????????00401000",
                                 "tip.pgd 0: ????????????????", "tsc 9", "mode.exec cs.l", "tip.pge 1: ????????????1002", NULL};
    expect(LOG(r), (const char *const *)lines);
}

static void leaving_a_filter_ends_at_the_target_or_nowhere(void **state)
{
    (void)state;
    const uint8_t r[] = {CONTROL(PGE, 1, 0x401000), 2, CONTROL(LEAVE, 2, 0x401100), CONTROL(PGE, 3, 0x401000),
                          COFI__FAST_CONTROL, COFI__FAST_LEAVE, LE4(4), 0, 0, 0, 0, NOWHERE, CONTROL(STOP, 5, 0x402000)};
    const char *const lines[] = {"psb", "tsc 1", "psbend", "mode.exec cs.l", "tip.pge 2: ????????00401000", "tnt.8 .",
                                 "tip.pgd 1: ????????????1100", "tsc 3", "mode.exec cs.l", "tip.pge 1: ????????????1000",
                                 "tip.pgd 0: ????????????????", "stop", NULL};
    expect(LOG(r), (const char *const *)lines);
}

/* ---- PSB+ that are due ---- */

enum { TOLD_MAX = 100000, OUTCOME_TAKEN = 1, OUTCOME_NOT_TAKEN = 2 }; /* targets are other numbers */

/* What packets tell. */
struct told {
    uint64_t *what;     /* outcomes and targets */
    size_t n;
    size_t psbs, nearest, apart; /* bytes between two, at least and at most */
    size_t psb_at;
    uint64_t last_ip, tsc;
    bool behind_target;
};

static struct cofi_packet next_packet(const uint8_t *bytes, size_t n, size_t *at)
{
    struct cofi_packet_context context = {.gen = COFI_PT};
    struct cofi_packet p;
    int size = cofi_packet_decode(&context, bytes + *at, n - *at, &p);
    assert_true(size > 0);
    *at += (size_t)size;
    return p;
}

/* It says again what is known: the time, and where the program is. */
static void check_psb(struct told *told, const uint8_t *bytes, size_t n, size_t *at)
{
    uint64_t ip;
    struct cofi_packet p = next_packet(bytes, n, at);
    if (told->psbs++) {
        size_t apart = *at - told->psb_at;
        told->apart = apart > told->apart ? apart : told->apart;
        told->nearest = apart < told->nearest ? apart : told->nearest;
        assert_true(told->behind_target);
        assert_int_equal(p.kind, COFI_PT_TSC);
        assert_int_equal(p.tsc.tsc, told->tsc);
        p = next_packet(bytes, n, at);
        assert_int_equal(p.kind, COFI_PT_MODE_EXEC);
        p = next_packet(bytes, n, at);
        assert_int_equal(p.kind, COFI_PT_FUP);
        assert_true(cofi_ip_expand(&p, 0, &ip));
        assert_int_equal(ip, told->last_ip);
        assert_int_equal(next_packet(bytes, n, at).kind, COFI_PT_PSBEND);
    }
    told->psb_at = *at;
}

static void tell(struct told *told, const uint8_t *bytes, size_t n)
{
    for (size_t at = 0; at < n;) {
        struct cofi_packet p = next_packet(bytes, n, &at);
        for (unsigned i = p.kind == COFI_PT_TNT ? p.tnt.count : 0; i--;)
            told->what[told->n++] = p.tnt.bits >> i & 1 ? OUTCOME_TAKEN : OUTCOME_NOT_TAKEN;
        if (p.kind == COFI_PT_TIP || p.kind == COFI_PT_TIP_PGE)
            cofi_ip_expand(&p, told->last_ip, &told->last_ip);
        if (p.kind == COFI_PT_TIP)
            told->what[told->n++] = told->last_ip;
        if (p.kind == COFI_PT_TSC)
            told->tsc = p.tsc.tsc;
        if (p.kind == COFI_PT_PSB)
            check_psb(told, bytes, n, &at);
        told->behind_target = p.kind == COFI_PT_TIP;
        assert_true(told->n < TOLD_MAX - 64);
    }
}

/* Pieces of a log, as the collector encodes them. */
static struct told tell_log(const uint8_t *log, size_t n, size_t piece, uint64_t psb_bytes, struct cofi__fast_memo *memo)
{
    struct told told = {.what = calloc(TOLD_MAX, sizeof *told.what), .nearest = SIZE_MAX};
    struct cofi__fast_encoder e = {.psb_bytes = psb_bytes, .memo = memo, .usual = usual};
    uint8_t *all = calloc(1, 4 * n + 256);
    size_t used = 0;
    for (size_t at = 0; at < n;) {
        long took = cofi__fast_encode(&e, log + at, n - at < piece ? n - at : piece);
        assert_true(took > 0);
        at += (size_t)took;
        if (at == n)
            assert_int_equal(cofi__fast_encode_end(&e), 0);
        memcpy(all + used, e.out, e.used);
        used += e.used;
        cofi__fast_encode_emptied(&e);
    }
    tell(&told, all, used);
    cofi__fast_encoder_fini(&e);
    free(all);
    return told;
}

/* Targets, behind each of them the outcomes `behind` (0: N or T), and a time now and then. */
static size_t make_log(uint8_t *log, size_t bytes, unsigned behind)
{
    const uint8_t first[] = {CONTROL(PGE, 1, 0x401000)};
    uint64_t random = 88172645463325252u;
    size_t n = sizeof first;
    memcpy(log, first, n);
    while (n + 32 < bytes) {
        random ^= random << 13, random ^= random >> 7, random ^= random << 17;
        memcpy(log + n, (const uint8_t[]){TIP(2 + (random & 1), 0x401000 + (random >> 24 & 0xfffff)), (uint8_t)(behind ? behind : 2 + (random >> 60 & 1))}, 8);
        n += 8;
        if (!(random >> 50 & 63)) {
            memcpy(log + n, (const uint8_t[]){CONTROL(TSC, n, 0)}, 18);
            log[n + 1] = random >> 56 & 1 ? COFI__FAST_CODE : COFI__FAST_TSC;
            n += 18;
        }
    }
    return n;
}

static void a_psb_that_is_due_stands_behind_a_target(void **state)
{
    (void)state;
    enum { BYTES = 200000, PERIOD = 2048, LATE = 8192 + 64 };
    uint8_t *log = calloc(1, BYTES + 64);
    struct cofi__fast_memo *memo = calloc(1, sizeof *memo);
    size_t n = make_log(log, BYTES, 3);
    struct told plain = tell_log(log, n, n, 0, NULL);
    assert_int_equal(plain.psbs, 1);
    for (size_t piece = 10000; piece <= BYTES; piece *= 4)
        for (int with_memo = 0; with_memo < 2; with_memo++) {
            struct told told = tell_log(log, n, piece, PERIOD, with_memo ? memo : NULL);
            assert_int_equal(told.n, plain.n);
            assert_memory_equal(told.what, plain.what, plain.n * sizeof *plain.what);
            assert_true(told.psbs > n / (PERIOD + LATE));
            assert_true(told.nearest > PERIOD - PSB_PLUS_BYTES && told.apart <= PERIOD + LATE);
            free(told.what);
        }
    free(plain.what);
    free(memo);
    free(log);
}

/* A time that is told behind it would have to stand before the target, and so before the PSB. */
static void no_psb_stands_where_a_branch_comes_next_that_is_not_taken(void **state)
{
    (void)state;
    enum { BYTES = 100000 };
    uint8_t *log = calloc(1, BYTES + 64);
    size_t n = make_log(log, BYTES, 2);
    struct told told = tell_log(log, n, n, 2048, NULL);
    assert_int_equal(told.psbs, 1);
    free(told.what);
    free(log);
}

/* Where the last PSB begins and where that time is told; SIZE_MAX: nowhere. */
static void find(const struct cofi__fast_encoder *e, uint64_t tsc, size_t *psb, size_t *time)
{
    *psb = *time = SIZE_MAX;
    for (size_t at = 0; at < e->used;) {
        size_t from = at;
        struct cofi_packet p = next_packet(e->out, e->used, &at);
        if (p.kind == COFI_PT_PSB)
            *psb = from;
        if (p.kind == COFI_PT_TSC && p.tsc.tsc == tsc)
            *time = from;
    }
}

/* Wherever the log ends, so also right behind what follows the target. */
static void the_time_of_code_is_told_behind_a_psb_that_was_due(void **state)
{
    (void)state;
    enum { BYTES = 8192 + 600, NOW = 0x123456 };
    uint8_t *log = calloc(1, BYTES + 64);
    size_t n = make_log(log, BYTES, 0), psbs = 0;
    for (size_t end = 8192; end <= n; end++) {
        struct cofi__fast_encoder e = {.psb_bytes = 1, .usual = usual};
        size_t psb, time;
        long took = cofi__fast_encode(&e, log, end);
        assert_true(took > 0);
        find(&e, NOW, &psb, &time);
        assert_true(e.controlled > psb); /* a time is put between packets of branches only */
        cofi__fast_encode_time(&e, NOW);
        assert_int_equal(cofi__fast_encode_end(&e), 0);
        find(&e, NOW, &psb, &time);
        assert_true(time != SIZE_MAX && time > psb + 16);
        psbs += psb != 0;
        cofi__fast_encoder_fini(&e);
    }
    assert_true(psbs > 100);
    free(log);
}

static int by_usual(void **state)
{
    (void)state;
    usual = true;
    return 0;
}

static int by_best(void **state)
{
    (void)state;
    usual = false;
    return 0;
}

#define BOTH(test) cmocka_unit_test_setup(test, by_best), {#test ", as every processor can", test, by_usual, NULL, NULL}

int main(void)
{
    const struct CMUnitTest tests[] = {
        BOTH(the_first_pge_follows_a_psb_without_fup),
        BOTH(outcomes_fill_short_tnts_across_records),
        BOTH(records_before_the_first_synchronisation_are_dropped),
        BOTH(what_is_lost_before_all_else_shows),
        BOTH(an_event_is_a_fup_and_a_pgd),
        BOTH(outcomes_keep_their_order_across_records),
        BOTH(many_records_at_once_are_as_one_by_one),
        BOTH(what_is_remembered_is_what_was_encoded),
        BOTH(a_run_is_not_taken_for_one_behind_another_target),
        BOTH(targets_are_sign_extended_and_compressed),
        BOTH(a_zero_byte_and_a_cut_record_end_the_log),
        BOTH(the_time_of_code_stands_before_the_last_taken_branch),
        BOTH(the_time_of_code_cuts_a_tnt_that_is_written),
        BOTH(the_time_of_code_stands_before_a_tip),
        BOTH(the_time_of_code_where_tracing_begins_is_that_of_the_beginning),
        BOTH(leaving_a_filter_ends_at_the_target_or_nowhere),
        BOTH(a_psb_that_is_due_stands_behind_a_target),
        BOTH(no_psb_stands_where_a_branch_comes_next_that_is_not_taken),
        BOTH(the_time_of_code_is_told_behind_a_psb_that_was_due),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
