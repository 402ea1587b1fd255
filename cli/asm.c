/* SPDX-License-Identifier: MIT
 * Packet text, as cofi dump prints it or written by hand -> the bytes. */
#include "asm.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <cofi/error.h>

#include "cli.h"

static int wrong(const struct assembler *a, uint64_t column, const char *text)
{
    if (a->talk)
        fprintf(a->talk, "cofi asm: %s:%u:%llu: %s\n", a->path, a->line,
                (unsigned long long)column + 1, text);
    return EXIT_DATA;
}

static int append(struct assembler *a, const uint8_t *bytes, size_t n)
{
    if (a->room - a->n < n) {
        size_t room = a->room ? 2 * a->room : 1 << 16;
        uint8_t *more = realloc(a->bytes, room);
        if (!more) {
            if (a->talk)
                fprintf(a->talk, "cofi asm: out of memory\n");
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

static bool ends(const char *p)
{
    return !p[strspn(p, " \t\r")] || strchr("#;", p[strspn(p, " \t\r")]);
}

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
            return wrong(a, (uint64_t)(rest - start),
                         "expected a number of bytes, as many as there are at most");
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
        return wrong(a, (uint64_t)(p - line),
                     a->context.block ? "this packet cannot stand inside of a block so"
                                      : "this packet cannot stand outside of a block");
    return append(a, bytes, (size_t)n);
}

int assemble(struct assembler *a, const char *p, size_t length)
{
    const char *end = p + length;
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
