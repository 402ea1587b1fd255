/* SPDX-License-Identifier: MIT
 * Bytes of code -> where the recording has them already: processes of the same program, and the vDSO of
 * all, have the same. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/index.h"
#include "trace/writer.h"

/* 256 MB of code, a page each; the oldest of a set is forgotten for others. Below LEAST a record that
 * tells a place is hardly shorter than the bytes. */
enum { SETS = 1 << 13, WAYS = 8, LEAST = 512, MOST = 4096 + COFI_CODE_AHEAD };

struct cofi__known_code {
    struct set {
        struct row {
            uint64_t at; /* 0: none */
            uint32_t hash, n;
        } rows[WAYS];
        unsigned turn; /* whose place is taken next */
    } sets[SETS];
};

static uint32_t hash_of(const uint8_t *bytes, size_t n)
{
    uint64_t h = n;
    for (size_t i = 0; i + 8 <= n; i += 8)
        h = (h ^ le64(bytes + i)) * UINT64_C(0x9e3779b97f4a7c15);
    return cofi__hash(h, h >> 32);
}

/* Whether the recording has these bytes there: on their way, or written. */
static bool has(const struct cofi_writer *writer, uint64_t at, const uint8_t *bytes, size_t n)
{
    uint8_t there[MOST];
    if (at >= writer->end)
        return at - writer->end + n <= writer->sideband.n &&
               !memcmp(writer->sideband.bytes + (at - writer->end), bytes, n);
    return pread(writer->fd, there, n, (off_t)at) == (ssize_t)n && !memcmp(there, bytes, n);
}

uint64_t cofi__known_code_find(const struct cofi_writer *writer, const uint8_t *bytes, size_t n)
{
    if (!writer->known || n < LEAST || n > MOST)
        return 0;
    uint32_t hash = hash_of(bytes, n);
    const struct row *row = writer->known->sets[hash % SETS].rows, *end = row + WAYS;
    for (; row < end; row++)
        if (row->at && row->hash == hash && row->n == n && has(writer, row->at, bytes, n))
            return row->at;
    return 0;
}

void cofi__known_code_add(struct cofi_writer *writer, const uint8_t *bytes, size_t n, uint64_t at)
{
    if (writer->deflate || n < LEAST || n > MOST) /* what is compressed cannot be looked at, and finds
                                                   * such bytes itself */
        return;
    if (!writer->known && !(writer->known = calloc(1, sizeof *writer->known)))
        return;
    uint32_t hash = hash_of(bytes, n);
    struct set *set = &writer->known->sets[hash % SETS];
    set->rows[set->turn++ % WAYS] = (struct row){at, hash, (uint32_t)n};
}
