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

/* ---- what is no packet, and why ---- */

static void hex(const char **p, uint8_t *bytes, int *n)
{
    for (unsigned v; sscanf(*p, "%2x", &v) == 1 && **p != '|'; *p += 2 + strspn(*p + 2, " "))
        bytes[(*n)++] = (uint8_t)v;
}

static FILE *open_golden(const char *name)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s",
             getenv("COFI_GOLDEN") ? getenv("COFI_GOLDEN") : "test/packet", name);
    FILE *in = fopen(path, "r");
    assert_non_null(in);
    return in;
}

static void each_bad_line_is_refused_for_its_reason(void **state)
{
    (void)state;
    FILE *in = open_golden("bad.golden");
    char line[512];
    failures = 0;
    struct golden g = {.file = "bad.golden"};
    while (fgets(line, sizeof line, in)) {
        g.line++;
        if (*line == '#')
            continue;
        const char *p = strchr(line, '|') + 2;
        g.context = (struct cofi_packet_context){.gen = *line == 'p' ? COFI_PT : COFI_RTIT,
                                                 .cyc = *line == 'c'};
        g.n = 0;
        hex(&p, g.bytes, &g.n);
        snprintf(g.text, sizeof g.text, "%.*s", (int)strcspn(p + 2, "\n"), p + 2);
        struct cofi_packet_context context = g.context;
        struct cofi_packet packet;
        int status = cofi_packet_decode(&context, g.bytes, (size_t)g.n, &packet);
        const char *why = cofi_packet_why(&g.context, g.bytes, (size_t)g.n);
        if (status != COFI_ERR_BAD_PACKET || !why || strcmp(why, g.text))
            wrong(&g, "refused", why ? why : "(null)", status);
        /* No byte of it may be missing: all before are a prefix of a packet. */
        for (int cut = 0; cut < g.n; cut++) {
            status = cofi_packet_decode(&context, g.bytes, (size_t)cut, &packet);
            if (status != COFI_ERR_TRUNCATED &&
                !(cut && cofi_packet_why(&g.context, g.bytes, (size_t)cut)))
                wrong(&g, "prefix", "", cut);
        }
    }
    fclose(in);
    assert_int_equal(failures, 0);
}

/* ---- sequences ---- */

/* Hex with P and H -> bytes. */
static size_t sequence(const char *p, uint8_t *out)
{
    size_t n = 0;
    for (unsigned v; *p && *p != '|';) {
        if (*p == ' ') {
            p++;
            continue;
        }
        if (*p == 'P' || *p == 'H')
            for (int i = 0; i < 8; i++, n += 2)
                memcpy(out + n, "\x02\x82", 2);
        if (*p == 'H') {
            memcpy(out + n, "\x02\x23\x99\x01\x71\x00\x10\x40\x00\x00\x00", 11);
            n += 11;
        }
        if (*p == 'P' || *p == 'H') {
            p++;
            continue;
        }
        assert_int_equal(sscanf(p, "%2x", &v), 1);
        out[n++] = (uint8_t)v;
        p += 2;
    }
    return n;
}

static void one_example(const char *line)
{
    uint8_t bytes[512], again[512];
    char text[4096] = "", want[4096] = "";
    size_t n = sequence(line, bytes), at = 0, m = 0;
    struct cofi_packet_context context = {.gen = COFI_PT}, encode = context;
    const char *p = strchr(line, '|') + 2;
    if (*line == 'H')
        strcpy(want, "psb; psbend; mode.exec cs.l; tip.pge 3: 0000000000401000; ");
    snprintf(want + strlen(want), 2048, "%.*s", (int)(strstr(p, " | ") - p), p);
    while (at < n) {
        char one[COFI_PACKET_TEXT_MAX];
        struct cofi_packet packet;
        int size = cofi_packet_decode(&context, bytes + at, n - at, &packet);
        assert_true(size > 0);
        at += (size_t)size;
        m += (size_t)cofi_packet_encode(&encode, &packet, again + m, sizeof again - m);
        cofi_packet_print(&packet, one, sizeof one);
        /* One blank between name and payload. */
        size_t name = strcspn(one, " "), blanks = strspn(one + name, " ");
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s%.*s%s%s", *text ? "; " : "",
                 (int)name, one, one[name] ? " " : "", one + name + blanks);
    }
    assert_string_equal(text, want);
    assert_int_equal(m, n);
    assert_memory_equal(again, bytes, n);
}

static void each_example_of_the_reference_reads_and_writes(void **state)
{
    (void)state;
    FILE *in = open_golden("examples.golden");
    char line[4096];
    int count = 0;
    while (fgets(line, sizeof line, in))
        if (*line != '#') {
            one_example(line);
            count++;
        }
    fclose(in);
    assert_true(count >= 22);
}

static bool seen[COFI_PKT_KINDS];

static void run(const char *name, enum cofi_gen gen, void (*what)(const struct golden *))
{
    FILE *in = open_golden(name);
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

static void each_pt_line_decodes_and_prints(void **state)
{
    (void)state;
    run("pt.golden", COFI_PT, decodes);
}
static void each_pt_line_parses_and_encodes(void **state)
{
    (void)state;
    run("pt.golden", COFI_PT, encodes);
}
static void each_rtit_line_decodes_and_prints(void **state)
{
    (void)state;
    run("rtit.golden", COFI_RTIT, decodes);
}
static void each_rtit_line_parses_and_encodes(void **state)
{
    (void)state;
    run("rtit.golden", COFI_RTIT, encodes);
}

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
        cmocka_unit_test(each_bad_line_is_refused_for_its_reason),
        cmocka_unit_test(each_example_of_the_reference_reads_and_writes),
        cmocka_unit_test(each_row_of_the_tables_has_a_golden_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
