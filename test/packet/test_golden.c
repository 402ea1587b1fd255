/* SPDX-License-Identifier: MIT
 * The golden packets, used both ways and for every strict prefix. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <cofi/error.h>
#include <cofi/packet.h>

struct golden {
    struct cofi_packet_context context;
    uint8_t bytes[32];
    int n;
    char text[128];
    const char *file;
    int line;
};

/* One line of a golden file; false at its end. */
static bool next(FILE *in, struct golden *g)
{
    char line[512];
    while (fgets(line, sizeof line, in)) {
        g->line++;
        if (*line == '#' || *line == '\n')
            continue;
        char *p = line, *bar;
        g->context.cyc = g->context.block = 0;
        g->n = 0;
        if (!strncmp(p, "cyc | ", 6)) {
            g->context.cyc = 1;
            p += 6;
        } else if (!strncmp(p, "block ", 6)) {
            g->context.block = p[6] == '8' ? 1 : 2;
            p += 10;
        }
        for (char *end; *p != '|'; p = end + strspn(end, " "))
            g->bytes[g->n++] = (uint8_t)strtoul(p, &end, 16);
        p += 2;
        bar = strstr(p, " | ");
        assert_non_null(bar);
        snprintf(g->text, sizeof g->text, "%.*s", (int)(bar - p), p);
        return true;
    }
    return false;
}

/* What is wrong is told with its line, and all lines are tried. */
static int failures;
static void wrong(const struct golden *g, const char *what, const char *got, int n)
{
    failures++;
    print_error("%s:%d: %s: \"%s\": got \"%s\" %d\n", g->file, g->line, what, g->text, got, n);
}

static void decodes(const struct golden *g)
{
    struct cofi_packet packet;
    struct cofi_packet_context context = g->context;
    char text[COFI_PACKET_TEXT_MAX];
    uint8_t room[40];
    /* With nothing and with bytes behind it: the slow way and the fast one. */
    for (int tail = 0; tail <= 8; tail += 8) {
        memset(room, 0x5a, sizeof room);
        memcpy(room, g->bytes, (size_t)g->n);
        context = g->context;
        int n = cofi_packet_decode(&context, room, (size_t)(g->n + tail), &packet);
        if (n != g->n || packet.size != n) {
            wrong(g, "decode", cofi_error_name(n < 0 ? n : 0), n);
            continue;
        }
        n = cofi_packet_print(&packet, text, sizeof text);
        if (strcmp(text, g->text) || n != (int)strlen(text))
            wrong(g, "print", text, n);
    }
    for (int cut = 0; cut < g->n; cut++) {
        /* In a buffer of its own, so that a sanitizer sees a read behind its end. */
        uint8_t *exact = malloc((size_t)cut + !cut);
        memcpy(exact, g->bytes, (size_t)cut);
        context = g->context;
        int n = cofi_packet_decode(&context, exact, (size_t)cut, &packet);
        if (n != COFI_ERR_TRUNCATED)
            wrong(g, "prefix is not TRUNCATED", cofi_error_name(n < 0 ? n : 0), cut);
        free(exact);
    }
}

static void encodes(const struct golden *g)
{
    struct cofi_packet packet;
    struct cofi_packet_context context = g->context;
    struct cofi_error error;
    uint8_t bytes[COFI_PACKET_MAX];
    enum cofi_gen gen = (enum cofi_gen)g->context.gen;
    int n = cofi_packet_parse(gen, g->text, &packet, &error);
    if (n) {
        wrong(g, "parse", error.text, n);
        return;
    }
    if (packet.size != g->n)
        wrong(g, "size of what was parsed", "", packet.size);
    n = cofi_packet_encode(&context, &packet, bytes, sizeof bytes);
    if (n != g->n || memcmp(bytes, g->bytes, (size_t)n))
        wrong(g, "encode", cofi_error_name(n < 0 ? n : 0), n);
    for (int room = 0; room < g->n; room++) {
        context = g->context;
        if (cofi_packet_encode(&context, &packet, bytes, (size_t)room) != COFI_ERR_FULL)
            wrong(g, "no room is not FULL", "", room);
    }
}

static bool seen[COFI_PKT_KINDS];

static void run(const char *name, enum cofi_gen gen, void (*what)(const struct golden *))
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", getenv("COFI_GOLDEN") ? getenv("COFI_GOLDEN") : "test/packet", name);
    FILE *in = fopen(path, "r");
    assert_non_null(in);
    struct golden g = {.context = {.gen = (uint8_t)gen}, .file = name};
    failures = 0;
    for (int lines = 0; next(in, &g); lines++) {
        struct cofi_packet packet;
        struct cofi_packet_context context = g.context;
        if (cofi_packet_decode(&context, g.bytes, (size_t)g.n, &packet) > 0)
            seen[packet.kind] = true;
        what(&g);
    }
    fclose(in);
    assert_int_equal(failures, 0);
}

static void each_pt_line_decodes_and_prints(void **state) { (void)state; run("pt.golden", COFI_PT, decodes); }
static void each_pt_line_parses_and_encodes(void **state) { (void)state; run("pt.golden", COFI_PT, encodes); }
static void each_rtit_line_decodes_and_prints(void **state) { (void)state; run("rtit.golden", COFI_RTIT, decodes); }
static void each_rtit_line_parses_and_encodes(void **state) { (void)state; run("rtit.golden", COFI_RTIT, encodes); }

static void each_row_of_the_tables_has_a_golden_line(void **state)
{
    (void)state;
    for (int kind = 1; kind < COFI_PKT_KINDS; kind++)
        if (!seen[kind])
            fail_msg("no golden line for %s", cofi_packet_name((enum cofi_packet_kind)kind));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_pt_line_decodes_and_prints),
        cmocka_unit_test(each_pt_line_parses_and_encodes),
        cmocka_unit_test(each_rtit_line_decodes_and_prints),
        cmocka_unit_test(each_rtit_line_parses_and_encodes),
        cmocka_unit_test(each_row_of_the_tables_has_a_golden_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
