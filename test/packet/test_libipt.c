/* SPDX-License-Identifier: MIT
 * libipt's packet decoder (2.0.5) as a third opinion, packet by packet, over random bytes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <intel-pt.h>

#include <cofi/error.h>
#include <cofi/packet.h>

#include "random.h"
#include "libipt.h"

static void libipt_agrees_on_random_bytes(void **state)
{
    (void)state;
    enum { N = 1 << 20 };
    struct random r = {11};
    uint8_t *bytes = malloc(N);
    for (size_t i = 0; i < N; i += 16)
        random_packet_bytes(&r, bytes + i, 16);
    struct pt_packet_decoder *decoder = libipt_on(bytes, N);
    for (size_t at = 0; at < N; at++)
        compare(decoder, bytes, N, at);
    pt_pkt_free_decoder(decoder);
    free(bytes);
}

/* A stream of random packets that we encode. */
static void libipt_reads_what_we_encode(void **state)
{
    (void)state;
    struct random r = {12};
    enum { N = 1 << 20 };
    uint8_t *bytes = malloc(N);
    size_t n = 0;
    struct cofi_packet_context context = {.gen = COFI_PT};
    while (n + 32 < N) {
        uint8_t some[24];
        struct cofi_packet_context c = {.gen = COFI_PT};
        struct cofi_packet packet;
        random_packet_bytes(&r, some, sizeof some);
        if (cofi_packet_decode(&c, some, sizeof some, &packet) > 0 &&
            libipt_knows(some, sizeof some))
            n += (size_t)cofi_packet_encode(&context, &packet, bytes + n, N - n);
    }
    struct pt_packet_decoder *decoder = libipt_on(bytes, n);
    for (size_t at = 0; at < n;) {
        int size = compare(decoder, bytes, n, at);
        assert_true(size > 0);
        at += (size_t)size;
    }
    pt_pkt_free_decoder(decoder);
    free(bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(libipt_agrees_on_random_bytes),
        cmocka_unit_test(libipt_reads_what_we_encode),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
