/* SPDX-License-Identifier: MIT
 * Lines of text put together by hand, for commands that print millions: a few times as fast as
 * printf. */
#ifndef COFI_CLI_LINE_H
#define COFI_CLI_LINE_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

struct line {
    FILE *out;
    size_t n;
    char text[2048]; /* what does not fit is left out */
};

static inline void line_put(struct line *line, const char *text, size_t n)
{
    if (n > sizeof line->text - 1 - line->n)
        n = sizeof line->text - 1 - line->n;
    memcpy(line->text + line->n, text, n);
    line->n += n;
}

static inline void line_str(struct line *line, const char *text)
{
    line_put(line, text, strlen(text));
}

/* In hex with `digits` digits, or as many as it needs if 0. */
static inline void line_hex(struct line *line, uint64_t value, unsigned digits)
{
    char text[16];
    if (!digits)
        digits = value ? (67 - (unsigned)__builtin_clzll(value)) / 4 : 1;
    for (unsigned i = digits; i-- > 0; value >>= 4)
        text[i] = "0123456789abcdef"[value & 15];
    line_put(line, text, digits);
}

static inline void line_dec(struct line *line, uint64_t value)
{
    char text[20], *p = text + sizeof text;
    do
        *--p = (char)('0' + value % 10);
    while (value /= 10);
    line_put(line, p, (size_t)(text + sizeof text - p));
}

/* Blanks up to a column, two at least. */
static inline void line_column(struct line *line, size_t column)
{
    static const char blanks[] =
        "                                                                                ";
    size_t n = line->n + 2 < column ? column - line->n : 2;
    line_put(line, blanks, n < sizeof blanks - 1 ? n : sizeof blanks - 1);
}

static inline void line_bytes(struct line *line, const uint8_t *bytes, size_t n,
                              const char *between)
{
    for (size_t i = 0; i < n; i++) {
        if (i && *between)
            line_put(line, between, 1);
        line_hex(line, bytes[i], 2);
    }
}

/* Print the line and begin the next one. */
static inline void line_end(struct line *line)
{
    line->text[line->n] = '\n';
    fwrite(line->text, 1, line->n + 1, line->out);
    line->n = 0;
}

#endif
