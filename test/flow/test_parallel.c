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

#include "log.h"
#include "prog.h"

static struct prog prog;
static struct prog_run run;
static struct cofi_image *image;

static int visit(void *opaque, const struct cofi_flow_batch *batch)
{
    log_batch(opaque, batch);
    return 0;
}

static void configure(struct cofi_flow_config *config, const uint8_t *bytes, size_t n)
{
    cofi_flow_config_init(config, run.gen);
    config->bytes = bytes;
    config->n = n;
    config->image = image;
    config->want_time = true;
    config->time.nominal_ratio = 24;
    config->time.tsc_num = 42;
    config->time.tsc_den = 2;
    config->time.mtc_freq = 3;
}

static uint64_t compare(const uint8_t *bytes, size_t n)
{
    struct cofi_flow_config config;
    struct log one = {0}, many = {0};
    uint64_t redone = 0;
    configure(&config, bytes, n);
    assert_int_equal(cofi_flow_parallel(&config, 1, 0, visit, &one, NULL), 0);
    assert_int_equal(cofi_flow_parallel(&config, 3, 1, visit, &many, &redone), 0);
    log_assert_same(&many, &one, run.seed);
    free(one.words);
    free(many.words);
    return redone;
}

static void set_up(uint64_t ctl, bool os, uint64_t seed)
{
    run = (struct prog_run){.gen = COFI_PT, .ctl = ctl, .insns = 60000, .interrupt = 100, .os = os, .clock = true,
        .seed = seed};
    prog_make(&prog, seed, 20);
    prog_go(&prog, &run);
    image = prog_image(&prog);
}

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
        uint64_t redone = compare(run.trace, run.n);
        if (i % 4 < 2)
            assert_int_equal(redone, 0); /* nothing was taken for granted wrongly */
        tear_down();
    }
}

static void so_it_is_on_damaged_streams(void **state)
{
    (void)state;
    uint64_t seed = 3;
    set_up(OS | USER | BRANCH | TSC, true, 5);
    uint8_t *bytes = malloc(run.n);
    for (unsigned i = 0; i < 40; i++) {
        memcpy(bytes, run.trace, run.n);
        for (unsigned k = 0; k < 1 + i % 8; k++) {
            seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407;
            bytes[(seed >> 33) % run.n] ^= (uint8_t)(1u << (seed >> 30 & 7));
        }
        compare(bytes, run.n - i * 13);
    }
    free(bytes);
    tear_down();
}

static int three_times(void *opaque, const struct cofi_flow_batch *batch)
{
    (void)batch;
    return --*(int *)opaque ? 0 : 7;
}

static void the_visitor_may_stop_it(void **state)
{
    (void)state;
    struct cofi_flow_config config;
    int left = 3;
    set_up(OS | USER | BRANCH, true, 9);
    configure(&config, run.trace, run.n);
    config.want_time = false;
    assert_int_equal(cofi_flow_parallel(&config, 2, 1, three_times, &left, NULL), 7);
    tear_down();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_result_is_the_serial_one),
        cmocka_unit_test(so_it_is_on_damaged_streams),
        cmocka_unit_test(the_visitor_may_stop_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
