/* SPDX-License-Identifier: MIT
 * Traces of the model of a processor with bytes that are wrong, missing or there twice: from the next PSB on all is as it was; and what is said of
 * them is the same in pieces, by threads, again, and whether time is asked for or not, also where code is missing.
 *
 * COFI_SEED, COFI_COUNT and COFI_SAVE as in test_hardware.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <cofi/flow.h>

#include "hardware.h"

enum { DAMAGE = 4, SEAM = 64 /* bytes, at most */ };

static bool same_from(const struct said *said, size_t psb, size_t moved)
{
    const struct hw_truth *t = &hw.truth;
    for (size_t i = 0; i < said->events_n; i++) {
        const struct hw_event *e = &said->events[i];
        if (e->kind != COFI_FLOW_PSB || e->offset != t->psbs[psb].offset + moved)
            continue;
        size_t n = t->n - t->psbs[psb].n;
        for (size_t k = i; k < said->events_n; k++)
            if (said->events[k].kind == COFI_FLOW_GAP)
                return false;
        return said->n - e->at == n && (!n || !memcmp(said->ips + e->at, t->ran + t->psbs[psb].n, n * sizeof *said->ips));
    }
    return false;
}

/* A few bytes, bit by bit, by others, or by zeros. */
static void damage(uint64_t *random, uint8_t *bytes, size_t at)
{
    unsigned how = hw_below(random, 3), len = 1 + hw_below(random, DAMAGE);
    for (size_t i = at; i < at + len && i < hw.wire.n; i++)
        bytes[i] = how == 0 ? (uint8_t)(bytes[i] ^ 1u << hw_below(random, 8)) : how == 1 ? (uint8_t)hw_random(random) : 0;
}

/* As where a ring is read while it is written: bytes are left out, or come once more. How far what follows has moved. */
static size_t tear(uint64_t *random, uint8_t *bytes, size_t at)
{
    size_t len = 1 + hw_below(random, SEAM), from = hw_below(random, 2) ? at + len : at - (len < at ? len : at);
    from = from < hw.wire.n ? from : hw.wire.n;
    memcpy(bytes + at, hw.wire.bytes + from, hw.wire.n - from);
    return at - from;
}

/* The first PSB behind it that is whole, and tells by itself where execution goes on. */
static size_t psb_behind(size_t at)
{
    const struct hw_truth *t = &hw.truth;
    size_t psb = 0;
    while (psb < t->psbs_n && (t->psbs[psb].offset < at || t->psbs[psb].cut || t->psbs[psb].doubtful))
        psb++;
    return psb;
}

/* With all code known. (Seeking passes over what is before the first PSB.) */
static void again(struct cofi_flow *flow, const struct cofi_flow_config *config, const struct log *cold)
{
    struct log warm = {0};
    assert_int_equal(cofi_flow_bytes(flow, config->bytes, config->n), 0);
    all(flow, config->want_time, NULL, &warm);
    log_assert_same(&warm, cold, seed_now);
    free(warm.words);
}

/* The trace in hand is damaged. */
static void in_other_ways(const struct cofi_flow_config *config)
{
    struct said said = {.damaged = true};
    struct log log = {0};
    struct cofi_flow *flow = flow_of(config);
    all(flow, config->want_time, &said, &log);
    again(flow, config, &log);
    assert_same_in_pieces(*config, &log);
    assert_same_by_threads(config, &log);
    assert_same_at_other_times(*config, &said);
    cofi_flow_close(flow);
    forget(&said);
    free(log.words);
}

static void in_all_ways(struct cofi_flow_config config, uint8_t *bytes, size_t n, const struct cofi_image *holes)
{
    struct hw_wire wire = hw.wire;
    hw.wire.bytes = bytes;
    hw.wire.n = n;
    save();
    in_other_ways(&config);
    config.image = holes;
    in_other_ways(&config);
    hw.wire = wire;
}

/* holes: the code where some of it is missing; null: neither with that nor in other ways. */
static void decode_damaged(struct cofi_flow_config config, uint8_t *copy, uint64_t *random, const struct cofi_image *holes)
{
    struct said said = {.damaged = true};
    size_t at = hw_below(random, (unsigned)hw.wire.n), moved = 0;
    bool torn = hw_below(random, 4) == 0;
    size_t psb = psb_behind(at + (torn ? SEAM : DAMAGE));
    memcpy(copy, hw.wire.bytes, hw.wire.n);
    if (torn)
        moved = tear(random, copy, at);
    else
        damage(random, copy, at);
    config.bytes = copy;
    config.n += moved;
    struct cofi_flow *flow = flow_of(&config);
    all(flow, config.want_time, &said, NULL);
    if (psb < hw.truth.psbs_n && !same_from(&said, psb, moved))
        fail_msg("seed %lu: %s at %#zx: from the PSB at %#zx on it is not the same; %s", seed_now, torn ? "tear" : "damage", at, hw.truth.psbs[psb].offset, said.gap);
    cofi_flow_close(flow);
    forget(&said);
    if (holes)
        in_all_ways(config, copy, config.n, holes);
}

static void judge(uint64_t seed)
{
    uint64_t random = seed * 2 + 1;
    seed_now = seed;
    hw_run(&hw, seed, false);
    save();
    struct cofi_image *image = image_of_code(), *holes = image_without(1 + hw_below(&random, (1 << HW_SEGMENTS) - 2));
    uint8_t *copy = malloc(hw.wire.n + SEAM);
    for (unsigned i = 0; i < 8 && hw.wire.n; i++)
        decode_damaged(configuration(image), copy, &random, i ? NULL : holes);
    free(copy);
    cofi_image_close(image);
    cofi_image_close(holes);
    hw_free(&hw);
}

static void damage_costs_no_more_than_is_before_the_next_psb(void **state)
{
    (void)state;
    each_seed(judge);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(damage_costs_no_more_than_is_before_the_next_psb)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
