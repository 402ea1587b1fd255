/* SPDX-License-Identifier: MIT
 * Trace bytes -> writes of at most one 64-byte line each, into a circular region or a sink. */
#include "output/lines.h"

#include <string.h>

#include <cofi/error.h>

void cofi__lines_init(struct cofi__lines *lines, struct cofi_memory memory, struct cofi_sink sink,
                      uint32_t weak_lines, uint64_t weak_seed)
{
    *lines = (struct cofi__lines){
        .memory = memory, .sink = sink,
        .weak_lines = weak_lines < COFI__WEAK_MAX ? weak_lines : COFI__WEAK_MAX,
        .weak_state = weak_seed ? weak_seed : 1, .mask = COFI__LINE - 1};
}

static int store(struct cofi__lines *lines, const struct cofi__line *line)
{
    size_t n = line->end - line->first;
    if (!lines->memory.write)
        return lines->sink.write ? lines->sink.write(lines->sink.opaque, line->bytes + line->first, n) : 0;
    return lines->memory.write(lines->memory.opaque, line->address + line->first,
                               line->bytes + line->first, n);
}

/* The i-th waiting line becomes visible. */
static int release(struct cofi__lines *lines, uint32_t i)
{
    int status = store(lines, &lines->weak[i]);
    lines->waiting--;
    memmove(&lines->weak[i], &lines->weak[i + 1], (lines->waiting - i) * sizeof lines->weak[0]);
    return status;
}

static uint32_t pick(struct cofi__lines *lines)
{
    uint64_t x = lines->weak_state; /* xorshift64: any fixed sequence serves */
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    lines->weak_state = x;
    return (uint32_t)(x % lines->waiting);
}

/* A line leaves the processor. A younger write of a line never overtakes an older one of the same line,
 * and nothing younger than it does either [RTIT 2.3.2]. */
static int send(struct cofi__lines *lines, const struct cofi__line *line)
{
    if (lines->weak_lines == 0 || !lines->memory.write)
        return store(lines, line);
    int status = 0;
    for (uint32_t i = 0; i < lines->waiting;) {
        if (lines->weak[i].address == line->address) {
            int s = release(lines, i);
            status = status < 0 ? status : s;
        } else {
            i++;
        }
    }
    if (lines->waiting == lines->weak_lines) {
        int s = release(lines, pick(lines));
        status = status < 0 ? status : s;
    }
    lines->weak[lines->waiting++] = *line;
    return status;
}

/* The line being filled leaves, if it has bytes. */
static int send_line(struct cofi__lines *lines)
{
    int status = 0;
    if (lines->line.end > lines->line.first)
        status = send(lines, &lines->line);
    lines->line.first = lines->line.end = 0;
    return status;
}

int cofi__lines_flush(struct cofi__lines *lines)
{
    int status = send_line(lines);
    while (lines->waiting > 0) {
        int s = release(lines, pick(lines));
        status = status < 0 ? status : s;
    }
    return status;
}

int cofi__lines_region(struct cofi__lines *lines, uint64_t base, uint64_t mask, uint64_t offset)
{
    int status = cofi__lines_flush(lines);
    lines->base = base & ~mask; /* [RTIT 2.3]; docs/decisions/0202 */
    lines->mask = mask;
    lines->offset = offset;
    return status;
}

int cofi__lines_write(struct cofi__lines *lines, const uint8_t *bytes, size_t n)
{
    int status = 0;
    while (n > 0) {
        struct cofi__line *line = &lines->line;
        uint64_t place = lines->offset & lines->mask;
        if (line->end == 0) {
            line->address = lines->base + (place & ~UINT64_C(63));
            line->first = line->end = place & 63;
        }
        size_t piece = COFI__LINE - line->end;
        if (piece > n)
            piece = n;
        memcpy(line->bytes + line->end, bytes, piece);
        line->end += piece;
        lines->offset = (place + piece) & lines->mask;
        bytes += piece;
        n -= piece;
        if (line->end == COFI__LINE) {
            int s = send_line(lines);
            status = status < 0 ? status : s;
        }
    }
    return status;
}

int cofi__lines_write_c0(struct cofi__lines *lines, uint8_t byte)
{
    int status = cofi__lines_flush(lines);
    uint64_t address = ((lines->base + (lines->offset & lines->mask)) & ~UINT64_C(0xff)) | 0xc0;
    struct cofi__line line = {.address = address & ~UINT64_C(63), .first = 0, .end = 1, .bytes = {byte}};
    lines->offset = (lines->offset + 1) & lines->mask;
    int s = store(lines, &line);
    return status < 0 ? status : s;
}
