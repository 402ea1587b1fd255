/* SPDX-License-Identifier: MIT
 * What must hold for any bytes: both decoders agree, and every way there leads back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include <cofi/error.h>
#include <cofi/packet.h>

#include "../reference/packets.h"
#include "random.h"

enum { ROUNDS = 400000 };

static const struct cofi_packet_context contexts[] = {
    {COFI_PT, 0, 0}, {COFI_PT, 0, 1}, {COFI_PT, 0, 2}, {COFI_RTIT, 0, 0}, {COFI_RTIT, 1, 0},
};
enum { CONTEXTS = sizeof contexts / sizeof *contexts };

static void show(const uint8_t *bytes, size_t n, const struct cofi_packet_context *c)
{
    print_error("gen %u cyc %u block %u:", c->gen, c->cyc, c->block);
    for (size_t i = 0; i < n; i++)
        print_error(" %02x", bytes[i]);
    print_error("\n");
}

/* Decode with both; the size of ours. */
static int both(const struct cofi_packet_context *before, const uint8_t *bytes, size_t n,
                struct cofi_packet_context *after, struct cofi_packet *packet)
{
    struct cofi_packet_context c = *before;
    struct cofi_packet reference;
    char ours[COFI_PACKET_TEXT_MAX] = "", theirs[COFI_PACKET_TEXT_MAX] = "";
    *after = *before;
    int size = cofi_packet_decode(after, bytes, n, packet),
        want = reference_decode(&c, bytes, n, &reference);
    if (size > 0)
        cofi_packet_print(packet, ours, sizeof ours);
    if (want > 0)
        cofi_packet_print(&reference, theirs, sizeof theirs);
    if (size != want || strcmp(ours, theirs) || memcmp(after, &c, sizeof c) ||
        (size > 0 && (packet->size != size || packet->kind != reference.kind))) {
        show(bytes, n, before);
        fail_msg("%d '%s', reference %d '%s'", size, ours, want, theirs);
    }
    return size;
}

static void both_decoders_agree_on_every_two_bytes(void **state)
{
    (void)state;
    struct cofi_packet_context after;
    struct cofi_packet packet;
    for (size_t c = 0; c < CONTEXTS; c++)
        for (unsigned v = 0; v < 1 << 16; v++)
            for (unsigned fill = 0; fill < 3; fill++) {
                uint8_t bytes[24];
                memset(bytes, fill == 0 ? 0x00 : fill == 1 ? 0xff : 0x01, sizeof bytes);
                bytes[0] = (uint8_t)v;
                bytes[1] = (uint8_t)(v >> 8);
                both(&contexts[c], bytes, sizeof bytes, &after, &packet);
            }
}

static void both_decoders_agree_on_random_bytes_of_any_length(void **state)
{
    (void)state;
    struct random r = {1};
    struct cofi_packet_context after;
    struct cofi_packet packet;
    for (int i = 0; i < ROUNDS; i++) {
        uint8_t bytes[24];
        random_packet_bytes(&r, bytes, sizeof bytes);
        both(&contexts[i % CONTEXTS], bytes, random_below(&r, sizeof bytes + 1), &after, &packet);
    }
}

/* What decodes encodes to the same bytes, and its text parses to the same packet. */
static void what_decodes_encodes_and_prints_and_parses_back(void **state)
{
    (void)state;
    struct random r = {2};
    unsigned seen[COFI_PKT_KINDS] = {0};
    for (int i = 0; i < 4 * ROUNDS; i++) {
        uint8_t bytes[24], again[COFI_PACKET_MAX];
        struct cofi_packet_context before = contexts[i % CONTEXTS], after = before, c = before;
        struct cofi_packet packet, parsed;
        char text[COFI_PACKET_TEXT_MAX], text2[COFI_PACKET_TEXT_MAX], json[512];
        random_packet_bytes(&r, bytes, sizeof bytes);
        int size = cofi_packet_decode(&after, bytes, sizeof bytes, &packet);
        if (size < 0) {
            assert_non_null(cofi_packet_why(&before, bytes, sizeof bytes));
            continue;
        }
        seen[packet.kind]++;
        assert_null(cofi_packet_why(&before, bytes, sizeof bytes));
        if (cofi_packet_encode(&c, &packet, again, sizeof again) != size ||
            memcmp(again, bytes, (size_t)size) || memcmp(&c, &after, sizeof c)) {
            show(bytes, (size_t)size, &before);
            fail_msg("encodes otherwise");
        }
        int n = cofi_packet_print(&packet, text, sizeof text);
        assert_true(n > 0 && n < (int)sizeof text);
        assert_int_equal(cofi_packet_parse((enum cofi_gen)before.gen, text, &parsed, 0), 0);
        assert_int_equal(parsed.size, size);
        cofi_packet_print(&parsed, text2, sizeof text2);
        assert_string_equal(text, text2);
        c = before;
        if (cofi_packet_encode(&c, &parsed, again, sizeof again) != size ||
            memcmp(again, bytes, (size_t)size)) {
            show(bytes, (size_t)size, &before);
            fail_msg("'%s' assembles otherwise", text);
        }
        assert_true(cofi_packet_print_json(&packet, json, sizeof json) < (int)sizeof json);
    }
    for (int kind = 1; kind < COFI_PKT_KINDS; kind++)
        if (!seen[kind] && kind != COFI_PT_PSB && kind != COFI_RTIT_PSB)
            fail_msg("no %s came up", cofi_packet_name((enum cofi_packet_kind)kind));
}

/* What a struct of random members encodes to decodes to what was encoded. */
static void what_encodes_decodes_back(void **state)
{
    (void)state;
    struct random r = {3};
    unsigned good = 0;
    for (int i = 0; i < 4 * ROUNDS; i++) {
        struct cofi_packet_context before = contexts[i % CONTEXTS], c = before, d = before;
        struct cofi_packet packet, back;
        uint8_t bytes[COFI_PACKET_MAX + 9] = {0};
        char one[COFI_PACKET_TEXT_MAX], two[COFI_PACKET_TEXT_MAX];
        random_bytes(&r, (uint8_t *)&packet, sizeof packet);
        if (i & 8) {
            /* Small members are more often legal. */
            uint64_t word = random_u64(&r) >> random_below(&r, 64),
                     tail = random_u64(&r) & 0x0101010107010107;
            memcpy((uint8_t *)&packet + 8, &word, 8);
            memcpy((uint8_t *)&packet + 16, &tail, 8);
        }
        packet.kind = (uint8_t)random_below(&r, COFI_PKT_KINDS + 2);
        packet.ccp_size = before.cyc ? packet.ccp_size & 3 : 0;
        packet.ccp = before.cyc ? packet.ccp >> random_below(&r, 32) : 0;
        int size = cofi_packet_encode(&c, &packet, bytes, COFI_PACKET_MAX);
        if (size < 0) {
            assert_int_equal(size, COFI_ERR_RANGE);
            assert_memory_equal(&c, &before, sizeof c);
            continue;
        }
        good++;
        assert_int_equal(cofi_packet_decode(&d, bytes, sizeof bytes, &back), size);
        assert_memory_equal(&c, &d, sizeof c);
        assert_int_equal(back.kind, packet.kind);
        if (packet.kind == COFI_PT_CYC && !packet.cyc.bytes)
            packet.cyc.bytes = back.cyc.bytes;
        if (!packet.ccp_size)
            packet.ccp_size = back.ccp_size;
        cofi_packet_print(&packet, one, sizeof one);
        cofi_packet_print(&back, two, sizeof two);
        assert_string_equal(one, two);
    }
    assert_true(good > ROUNDS / 20);
}

/* No text crashes the parser, and what it takes prints and parses to the same. */
static void damaged_text_is_refused_or_means_a_packet(void **state)
{
    (void)state;
    struct random r = {4};
    for (int i = 0; i < ROUNDS; i++) {
        struct cofi_packet_context c = contexts[i % CONTEXTS];
        uint8_t bytes[24];
        char text[COFI_PACKET_TEXT_MAX], again[COFI_PACKET_TEXT_MAX];
        struct cofi_packet packet, second;
        struct cofi_error error;
        random_bytes(&r, bytes, sizeof bytes);
        enum cofi_gen gen = (enum cofi_gen)c.gen;
        if (cofi_packet_decode(&c, bytes, sizeof bytes, &packet) < 0)
            continue;
        int n = cofi_packet_print(&packet, text, sizeof text);
        for (unsigned k = random_below(&r, 3) + 1; k; k--) {
            unsigned at = random_below(&r, (unsigned)n);
            text[at] = " :,?/.xfz019"[random_below(&r, 12)];
        }
        int status = cofi_packet_parse(gen, text, &packet, &error);
        if (status < 0) {
            assert_true(status == COFI_ERR_SYNTAX || status == COFI_ERR_RANGE);
            assert_true(error.offset <= strlen(text));
            continue;
        }
        cofi_packet_print(&packet, text, sizeof text);
        assert_int_equal(cofi_packet_parse(gen, text, &second, 0), 0);
        cofi_packet_print(&second, again, sizeof again);
        assert_string_equal(text, again);
    }
}

/* [PTREF 9.4]; a kind that is none stands alone. */
static void packets_bind_as_their_rows_say(void **state)
{
    (void)state;
    static const struct { enum cofi_packet_kind kind; enum cofi_packet_binding binds; } rows[] = {
        {COFI_PT_TNT, COFI_BINDS_BRANCH}, {COFI_PT_FUP, COFI_BINDS_ITS_IP}, {COFI_PT_EXSTOP, COFI_BINDS_NEXT_FUP},
        {COFI_PT_PTW, COFI_BINDS_PTWRITE}, {COFI_PT_PSB, COFI_BINDS_STANDALONE}, {COFI_RTIT_TNT, COFI_BINDS_BRANCH},
        {COFI_PKT_KINDS, COFI_BINDS_STANDALONE}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        assert_int_equal(cofi_packet_binds(rows[i].kind), rows[i].binds);
}

/* [PTREF 5.8]: interrupt, SIPI, VM exit by an interrupt, user interrupt, software interrupt. */
static void five_types_of_cfe_have_a_vector(void **state)
{
    (void)state;
    static const bool have[32] = {[0x01] = true, [0x05] = true, [0x09] = true, [0x0c] = true, [0x0e] = true};
    for (unsigned type = 0; type < 32; type++) {
        struct cofi_packet packet = {.kind = COFI_PT_CFE, .cfe = {.type = (uint8_t)type}};
        char text[COFI_PACKET_TEXT_MAX];
        cofi_packet_print(&packet, text, sizeof text);
        assert_int_equal(cofi_cfe_has_vector(type), have[type]);
        assert_int_equal(strchr(text, ':') != NULL, have[type]);
    }
    assert_false(cofi_cfe_has_vector(0x21) || cofi_cfe_has_vector(0x101));
}

/* What no decoder makes: more outcomes than there are bits for. */
static void outcomes_without_a_bit_are_not_taken(void **state)
{
    (void)state;
    static const char expected[] = "......" "!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!";
    static const enum cofi_packet_kind kinds[] = {COFI_PT_TNT, COFI_PT_TNT64, COFI_RTIT_TNT};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        struct cofi_packet packet = {.kind = (uint8_t)kinds[i], .tnt = {.bits = UINT64_MAX, .count = 70}};
        char text[COFI_PACKET_TEXT_MAX], json[512];
        cofi_packet_print(&packet, text, sizeof text);
        assert_non_null(strstr(text, kinds[i] == COFI_RTIT_TNT ? "NT NT NT NT NT NT T T" : expected));
        cofi_packet_print_json(&packet, json, sizeof json);
        assert_non_null(strstr(json, expected));
        packet.tnt.count = UINT8_MAX;
        assert_true(cofi_packet_print(&packet, text, sizeof text) < (int)sizeof text);
        assert_true(cofi_packet_print_json(&packet, json, sizeof json) < (int)sizeof json);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_decoders_agree_on_every_two_bytes),
        cmocka_unit_test(both_decoders_agree_on_random_bytes_of_any_length),
        cmocka_unit_test(what_decodes_encodes_and_prints_and_parses_back),
        cmocka_unit_test(what_encodes_decodes_back),
        cmocka_unit_test(damaged_text_is_refused_or_means_a_packet),
        cmocka_unit_test(packets_bind_as_their_rows_say),
        cmocka_unit_test(outcomes_without_a_bit_are_not_taken),
        cmocka_unit_test(five_types_of_cfe_have_a_vector),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
