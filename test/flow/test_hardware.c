/* SPDX-License-Identifier: MIT
 * What a model of a processor ran, from the packets that it made, in all the orders and forms that the manual leaves open.
 *
 * COFI_SEED=N is the first seed, COFI_COUNT=N how many (1000): by hand, thousands (COFI_COUNT=5000 build/test/flow/test-flow-hardware). With
 * COFI_SAVE=FILE the trace of the last seed is written there, for `cofi dump`. */
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
#include "ipt.h"

/* ---- against the truth ---- */

static const char *text_of(const struct hw_event *e)
{
    static char texts[4][160];
    static unsigned next;
    char *text = texts[next++ & 3];
    snprintf(text, sizeof *texts, "[%s ip %lx target %lx value %lx a%x b%x c%x behind %zu..%zu]", cofi_flow_event_name(e->kind), e->ip, e->target,
        e->value, e->a, e->b, e->c, e->lo, e->at);
    return text;
}

static bool same_event(const struct hw_event *told, const struct hw_event *true_one)
{
    return told->kind == true_one->kind && told->ip == true_one->ip && told->target == true_one->target && told->value == true_one->value &&
           told->a == true_one->a && told->b == true_one->b && told->c == true_one->c && told->at >= true_one->lo && told->at <= true_one->at;
}

static void assert_true_story(const struct said *said)
{
    const struct hw_truth *t = &hw.truth;
    for (size_t i = 0; i < said->events_n && i < t->events_n; i++)
        if (!same_event(&said->events[i], &t->events[i]))
            fail_msg("seed %lu: event %zu: %s behind%s instead of %s behind%s; %s", seed_now, i, text_of(&said->events[i]),
                way_to(said->ips, said->events[i].at), text_of(&t->events[i]), way_to(t->ran, t->events[i].at), said->gap);
    for (size_t i = 0; i < said->n && i < t->n; i++)
        if (said->ips[i] != t->ran[i])
            fail_msg("seed %lu: instruction %zu of %zu: %#lx, ran %#lx; %s", seed_now, i, t->n, said->ips[i], t->ran[i], said->gap);
    if (said->n != t->n || said->events_n != t->events_n)
        fail_msg("seed %lu: %zu instructions of %zu, %zu events of %zu; %s", seed_now, said->n, t->n, said->events_n, t->events_n, said->gap);
}

/* ---- decoding ---- */

/* Once more with all code known, and from each PSB. */
static void warm_and_from_psbs(struct cofi_flow *flow, const struct cofi_flow_config *config, const struct log *cold)
{
    const struct hw_truth *t = &hw.truth;
    assert_same_again(flow, config, cold);
    for (size_t i = 0; i < t->psbs_n; i += 1 + t->psbs_n / 8) {
        struct said said = {0};
        assert_int_equal(cofi_flow_seek(flow, t->psbs[i].offset), 0);
        assert_int_equal(cofi_flow_offset(flow), t->psbs[i].offset);
        all(flow, config->want_time, &said, NULL);
        size_t n = t->n - t->psbs[i].n;
        if (said.gap[0] || said.n != n || (n && memcmp(said.ips, t->ran + t->psbs[i].n, n * sizeof *said.ips)))
            fail_msg("seed %lu: from the PSB at %#zx on %zu instructions instead of %zu; %s", seed_now, t->psbs[i].offset, said.n, n, said.gap);
        forget(&said);
    }
}

/* The generator has a judge, too, where it makes what that knows. Behind the last packet libipt goes on to the next branch. */
static void as_libipt_has_it(void)
{
    struct ipt_code pieces[HW_SEGMENTS];
    size_t n, i = 0;
    for (unsigned k = 0; k < HW_SEGMENTS; k++)
        pieces[k] = (struct ipt_code){hw.code.segments[k].bytes, hw.code.segments[k].size, hw.code.segments[k].base};
    uint64_t *ips = ipt_insns_of(hw.wire.bytes, hw.wire.n, pieces, HW_SEGMENTS, &n);
    while (i < n && i < hw.truth.n && ips[i] == hw.truth.ran[i])
        i++;
    if (i < hw.truth.n)
        fail_msg("seed %lu: libipt: instruction %zu of %zu, of %zu that ran: behind%s, not%s", seed_now, i, n, hw.truth.n,
            way_to(ips, i < n ? i + 1 : n), way_to(hw.truth.ran, i + 1));
    free(ips);
}

static void judge(uint64_t seed)
{
    struct said said = {0};
    struct log log = {0};
    seed_now = seed;
    hw_run(&hw, seed, false);
    save();
    struct cofi_image *image = image_of_code();
    struct cofi_flow_config config = configuration(image);
    struct cofi_flow *flow = flow_of(&config);
    all(flow, config.want_time, &said, &log);
    assert_true_story(&said);
    warm_and_from_psbs(flow, &config, &log);
    cofi_flow_close(flow);
    assert_same_in_pieces(config, &log);
    assert_same_by_threads(&config, &log);
    assert_same_coverage(&config, &said);
    assert_same_at_other_times(config, &said);
    assert_true_times(&said);
    if (!hw.beyond_libipt && ipt_is_here)
        as_libipt_has_it();
    cofi_image_close(image);
    forget(&said);
    free(log.words);
    hw_free(&hw);
}

static void what_a_processor_ran_is_what_its_packets_say(void **state)
{
    (void)state;
    each_seed(judge);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_a_processor_ran_is_what_its_packets_say),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
