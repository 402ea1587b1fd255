/* SPDX-License-Identifier: MIT
 * The real recording, where it is: its packets are those that perf counts and libipt decodes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "libipt.h"
#include "real_data.h"

static void libipt_agrees_on_the_real_trace(void **state)
{
    (void)state;
    struct real_data data;
    assert_true(real_data_open(&data));
    size_t packets = 0;
    for (size_t i = 0; i < data.streams; i++) {
        struct pt_packet_decoder *decoder = libipt_on(data.stream[i].bytes, data.stream[i].n);
        for (size_t at = 0, n = data.stream[i].n; at < n; packets++) {
            int size = compare(decoder, data.stream[i].bytes, n, at);
            assert_true(size > 0);
            at += (size_t)size;
        }
        pt_pkt_free_decoder(decoder);
    }
    assert_true(packets > 80000);
    real_data_close(&data);
}

/* The counts that perf 6.1 finds, as the data's README has them. */
static void the_real_trace_has_the_packets_that_perf_counts(void **state)
{
    (void)state;
    struct real_data data;
    unsigned count[COFI_PKT_KINDS] = {0};
    assert_true(real_data_open(&data));
    for (size_t i = 0; i < data.streams; i++) {
        struct cofi_packet_context context = {.gen = COFI_PT};
        struct cofi_packet packet;
        for (size_t at = 0, n = data.stream[i].n; at < n; at += packet.size) {
            const uint8_t *bytes = data.stream[i].bytes + at;
            assert_true(cofi_packet_decode(&context, bytes, n - at, &packet) > 0);
            count[packet.kind]++;
        }
    }
    assert_int_equal(data.streams, 2);
    assert_int_equal(count[COFI_PT_TNT] + count[COFI_PT_TNT64], 69516);
    assert_int_equal(count[COFI_PT_TIP], 12039);
    assert_int_equal(count[COFI_PT_MTC], 2802);
    assert_int_equal(count[COFI_PT_PIP], 441);
    assert_int_equal(count[COFI_PT_FUP], 149);
    assert_int_equal(count[COFI_PT_PSB], 10);
    assert_int_equal(count[COFI_PT_CYC], 0);
    assert_int_equal(count[COFI_PT_OVF], 0);
    real_data_close(&data);
}

int main(void)
{
    struct real_data data;
    if (!real_data_open(&data)) {
        puts("1..2\nok 1 - libipt_agrees_on_the_real_trace # SKIP no real data here\n"
             "ok 2 - the_real_trace_has_the_packets_that_perf_counts # SKIP no real data here");
        return 0;
    }
    real_data_close(&data);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(libipt_agrees_on_the_real_trace),
        cmocka_unit_test(the_real_trace_has_the_packets_that_perf_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
