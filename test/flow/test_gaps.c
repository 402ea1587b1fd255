/* SPDX-License-Identifier: MIT
 * What a gap says besides that it is one: from where to where, since when, and what the statistics add up. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "rig.h"

static struct rig rig;

/* jne 401004; nop; nop; 401004 jne 401006; 401006 jmp *rax */
#define CODE "7502 9090 7500 ffe0"
enum { HEAD = 16 + 2 + 2 + 7, GAPS = 8 };

struct told {
    struct cofi_flow_event gaps[GAPS];
    size_t n;
    struct cofi_flow_stats stats;
};

static struct told decode(const char *trace, bool want_time)
{
    const struct cofi_flow_block *blocks[COFI_FLOW_BATCH_MIN];
    struct cofi_flow_stamp times[COFI_FLOW_BATCH_MIN];
    struct cofi_flow_event events[16];
    struct cofi_flow_batch batch = {.blocks = blocks, .blocks_max = COFI_FLOW_BATCH_MIN, .times = want_time ? times : NULL, .events = events,
                                    .events_max = 16};
    struct cofi_flow *flow;
    struct told told = {0};
    rig_open(&rig, COFI_PT, 0x401000, CODE);
    rig_trace(&rig, trace);
    rig.config.image = rig.image;
    rig.config.bytes = rig.trace;
    rig.config.n = rig.n;
    rig.config.want_time = want_time;
    assert_int_equal(cofi_flow_open(&flow, &rig.config), 0);
    while (cofi_flow_next(flow, &batch) > 0)
        for (size_t i = 0; i < batch.events_n; i++)
            if (events[i].kind == COFI_FLOW_GAP && told.n < GAPS)
                told.gaps[told.n++] = events[i];
    cofi_flow_stats(flow, &told.stats);
    cofi_flow_close(flow);
    rig_close(&rig);
    return told;
}

/* Of each gap: cause, the last address, where it begins and ends, a time before it and the one at its end; of all: bytes. */
static const struct row {
    const char *trace;
    struct gap {
        int cause;
        uint64_t ip, offset, end, since, ticks;
    } gaps[2];
    uint64_t bytes;
} rows[] = {
    /* A TIP where an outcome is due contradicts, and tells where execution is: nothing is between. */
    {"H 1964000000000000 6d041040000000 06 2d0610", {{COFI_ERR_MISMATCH, 0x401000, HEAD + 8, HEAD + 8, 0, 100}}, 0},
    /* No code at a target: from its TIP on, which was used, to the one that leads back. */
    {"H 1964000000000000 06 06 2d0020 19c800000000000000 6d041040000000 192c01000000000000 06 2d0610",
     {{COFI_ERR_NO_CODE, 0x402000, HEAD + 13, HEAD + 22, 100, 200}}, 9},
    /* Bytes that are no packet: from the last one that was used to the next PSB. */
    {"H 1964000000000000 06 06 2d0610 d5 19c800000000000000 P 0223 71041040000000 06 2d0610",
     {{COFI_ERR_BAD_PACKET, 0x401006, HEAD + 13, HEAD + 39, 0, 100}}, 26},
    /* To the end of the trace. */
    {"H 1964000000000000 06 06 2d0020 19c800000000000000 06", {{COFI_ERR_NO_CODE, 0x402000, HEAD + 13, UINT64_MAX, 100, 200}}, 10},
    /* Two, each from where it began. */
    {"H 1964000000000000 06 06 2d0020 19c800000000000000 6d041040000000 192c01000000000000 06 2d0030 199001000000000000 6d041040000000 06 2d0610",
     {{COFI_ERR_NO_CODE, 0x402000, HEAD + 13, HEAD + 22, 100, 200}, {COFI_ERR_NO_CODE, 0x403000, HEAD + 42, HEAD + 51, 300, 400}}, 18},
};

/* With want_time the time before is the last one known, so it may be a later one. */
static void assert_gap(const struct cofi_flow_event *told, const struct gap *gap, bool want_time)
{
    assert_int_equal(told->cause, gap->cause);
    assert_int_equal(told->ip, gap->ip);
    assert_int_equal(told->offset, gap->offset);
    assert_int_equal(told->end, gap->end);
    assert_int_equal(told->time.ticks, gap->ticks);
    assert_in_range(told->since, gap->since, want_time ? gap->ticks : gap->since);
}

static void a_gap_says_from_where_to_where_it_is(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (int want_time = 0; want_time < 2; want_time++) {
            struct told told = decode(rows[i].trace, want_time);
            uint64_t ticks = 0;
            assert_int_equal(told.n, rows[i].gaps[1].cause ? 2 : 1);
            for (size_t k = 0; k < told.n; k++) {
                assert_gap(&told.gaps[k], &rows[i].gaps[k], want_time);
                ticks += told.gaps[k].time.ticks - told.gaps[k].since;
            }
            assert_int_equal(told.stats.lost_ticks, ticks);
            assert_int_equal(told.stats.lost_bytes, rows[i].bytes);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_gap_says_from_where_to_where_it_is),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
