/* SPDX-License-Identifier: MIT
 * cofi asm: packet text, as cofi dump prints it or written by hand -> the bytes. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <cofi/error.h>
#include <cofi/packet.h>

#include "cli.h"
#include "file.h"

struct assembler {
    const char *path;
    unsigned line;
    struct cofi_packet_context context;
    uint8_t *bytes;
    size_t n, room;
};

static void usage(FILE *out)
{
    fputs("usage: cofi asm [--gen=pt|rtit] [-o FILE] [FILE]\n"
          "Turn packet text into trace bytes; the inverse of 'cofi dump'.\n\n"
          "  --gen=pt|rtit   what the text is until a line '.gen rtit' says otherwise (default pt)\n"
          "  -o FILE         write there instead of standard output\n\n"
          "A line is a packet as 'cofi dump' prints it, with or without its offset, a comment after '#' or ';',\n"
          "or one of: .gen pt|rtit    .bytes XX XX ...    .back N (take N bytes back)\n", out);
}

static int wrong(const struct assembler *a, uint64_t column, const char *text)
{
    fprintf(stderr, "cofi asm: %s:%u:%llu: %s\n", a->path, a->line, (unsigned long long)column + 1, text);
    return EXIT_DATA;
}

static int append(struct assembler *a, const uint8_t *bytes, size_t n)
{
    if (a->room - a->n < n) {
        size_t room = a->room ? 2 * a->room : 1 << 16;
        uint8_t *more = realloc(a->bytes, room);
        if (!more) {
            fprintf(stderr, "cofi asm: out of memory\n");
            return EXIT_ENVIRONMENT;
        }
        a->bytes = more;
        a->room = room;
    }
    memcpy(a->bytes + a->n, bytes, n);
    a->n += n;
    return 0;
}

static bool is_word(const char *p, const char *word, const char **rest)
{
    size_t n = strlen(word);
    if (strncasecmp(p, word, n) || !strchr(" \t", p[n]))
        return false;
    *rest = p + n + strspn(p + n, " \t");
    return true;
}

static bool ends(const char *p) { return !p[strspn(p, " \t\r")] || strchr("#;", p[strspn(p, " \t\r")]); }

static int bytes_directive(struct assembler *a, const char *start, const char *p)
{
    while (!ends(p)) {
        char *end;
        unsigned long value = strtoul(p, &end, 16);
        if (end == p || value > 0xff)
            return wrong(a, (uint64_t)(p - start), "expected bytes in hex");
        uint8_t byte = (uint8_t)value;
        int status = append(a, &byte, 1);
        if (status)
            return status;
        p = end;
    }
    /* What stands here was no packet: a PSB comes next, and ends what was open. */
    a->context.block = 0;
    return 0;
}

static int directive(struct assembler *a, const char *start, const char *p)
{
    const char *rest;
    if (is_word(p, ".gen", &rest)) {
        if (is_word(rest, "pt", &p))
            a->context = (struct cofi_packet_context){.gen = COFI_PT};
        else if (is_word(rest, "rtit", &p))
            a->context = (struct cofi_packet_context){.gen = COFI_RTIT};
        else
            return wrong(a, (uint64_t)(rest - start), "expected pt or rtit");
        return 0;
    }
    if (is_word(p, ".bytes", &rest))
        return bytes_directive(a, start, rest);
    if (is_word(p, ".back", &rest)) {
        char *end;
        unsigned long count = strtoul(rest, &end, 10);
        if (end == rest || !ends(end) || count > a->n)
            return wrong(a, (uint64_t)(rest - start), "expected a number of bytes, as many as there are at most");
        a->n -= count;
        a->context.block = 0;
        return 0;
    }
    return wrong(a, (uint64_t)(p - start), "no such directive");
}

/* Skip the offset that cofi dump prints: 8 digits or more and a blank. */
static const char *skip_offset(const char *p)
{
    size_t n = strspn(p, "0123456789abcdefABCDEF");
    return n >= 8 && (p[n] == ' ' || p[n] == '\t') ? p + n + strspn(p + n, " \t") : p;
}

static int one_line(struct assembler *a, const char *line)
{
    const char *p = line + strspn(line, " \t");
    p = skip_offset(p);
    /* ptdump prints its errors in brackets. */
    if (ends(p) || *p == '[')
        return 0;
    if (*p == '.')
        return directive(a, line, p);
    struct cofi_packet packet;
    struct cofi_error error;
    uint8_t bytes[COFI_PACKET_MAX];
    if (cofi_packet_parse((enum cofi_gen)a->context.gen, p, &packet, &error) < 0)
        return wrong(a, (uint64_t)(p - line) + error.offset, error.text);
    a->context.cyc = packet.ccp_size != 0;
    int n = cofi_packet_encode(&a->context, &packet, bytes, sizeof bytes);
    if (n < 0)
        return wrong(a, (uint64_t)(p - line), a->context.block ? "this packet cannot stand inside of a block so"
                                                               : "this packet cannot stand outside of a block");
    return append(a, bytes, (size_t)n);
}

static int assemble(struct assembler *a, const struct file *file)
{
    const char *p = (const char *)file->bytes, *end = p + file->n;
    char line[1024];
    int worst = 0;
    for (a->line = 1; p < end; a->line++) {
        const char *newline = memchr(p, '\n', (size_t)(end - p));
        size_t n = (size_t)((newline ? newline : end) - p);
        int status;
        if (n >= sizeof line || memchr(p, 0, n)) {
            status = wrong(a, 0, "this is no text");
            n = (size_t)(end - p);
        } else {
            memcpy(line, p, n);
            line[n] = 0;
            status = one_line(a, line);
        }
        worst = status > worst ? status : worst;
        p = newline && p + n < end ? p + n + 1 : end;
    }
    return worst;
}

static int write_out(const struct assembler *a, const char *path)
{
    FILE *out = path ? fopen(path, "wb") : stdout;
    if (!out || fwrite(a->bytes, 1, a->n, out) != a->n || (path ? fclose(out) : fflush(out))) {
        fprintf(stderr, "cofi asm: ");
        perror(path ? path : "standard output");
        return EXIT_ENVIRONMENT;
    }
    return 0;
}

int cmd_asm(int argc, char **argv)
{
    static const struct option options[] = {
        {"gen", required_argument, 0, 'g'}, {"output", required_argument, 0, 'o'}, {"help", no_argument, 0, 'h'}, {0}};
    struct assembler a = {.path = "-", .context = {.gen = COFI_PT}};
    const char *out = 0;
    for (int option; (option = getopt_long(argc, argv, "o:", options, 0)) != -1;) {
        if (option == 'h') {
            usage(stdout);
            return EXIT_DONE;
        }
        if (option == 'o')
            out = optarg;
        else if (option == 'g' && !strcmp(optarg, "rtit"))
            a.context.gen = COFI_RTIT;
        else if (option != 'g' || strcmp(optarg, "pt"))
            return option == 'g' ? (fprintf(stderr, "cofi asm: --gen is pt or rtit\n"), EXIT_USAGE) : EXIT_USAGE;
    }
    if (argc - optind > 1) {
        fprintf(stderr, "cofi asm: one file at a time; 'cofi asm --help' tells more\n");
        return EXIT_USAGE;
    }
    if (argc > optind)
        a.path = argv[optind];
    struct file file;
    int status = file_open(&file, "asm", a.path);
    if (status)
        return status;
    status = assemble(&a, &file);
    file_close(&file);
    /* What could be assembled is not written when some of it could not. */
    if (!status)
        status = write_out(&a, out);
    free(a.bytes);
    return status;
}
