/* SPDX-License-Identifier: MIT
 * COMPRESSED records, one zstd stream over all of them -> the records inside. */
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#include "base/bytes.h"
#include "base/error.h"
#include "trace/perf_data.h"
#include "trace/reader.h"

enum { OUT_BYTES = 1 << 18 };

struct cofi__inflate {
    ZSTD_DStream *stream;
    uint64_t in, out; /* bytes, in all: their ratio is bounded */
    bool broken;
    size_t n;         /* of bytes: records not read yet, the last one cut */
    uint8_t bytes[OUT_BYTES];
};

static struct cofi__inflate *get(struct cofi_recording *recording)
{
    if (recording->inflate)
        return recording->inflate;
    struct cofi__inflate *inflate = calloc(1, sizeof *inflate);
    if (inflate && !(inflate->stream = ZSTD_createDStream())) {
        free(inflate);
        inflate = NULL;
    }
    recording->nomem |= !inflate;
    return recording->inflate = inflate;
}

void cofi__inflate_close(struct cofi__inflate *inflate)
{
    if (!inflate)
        return;
    ZSTD_freeDStream(inflate->stream);
    free(inflate);
}

/* Read all whole records that are there; keep the rest. */
static void take_records(struct cofi_recording *recording, struct cofi__inflate *inflate, uint64_t at)
{
    size_t i = 0;
    while (inflate->n - i >= PERF_RECORD_HEADER_BYTES) {
        size_t size = le16(inflate->bytes + i + 6);
        if (size < PERF_RECORD_HEADER_BYTES) {
            cofi__damage(recording, "no record in the compressed data at %#llx: the rest of them is left out",
                       (unsigned long long)at);
            inflate->broken = true;
            return;
        }
        if (size > inflate->n - i)
            break;
        cofi__read_record(recording, inflate->bytes + i, size, at, true);
        i += size;
    }
    memmove(inflate->bytes, inflate->bytes + i, inflate->n - i);
    inflate->n -= i;
}

void cofi__read_compressed(struct cofi_recording *recording, const uint8_t *bytes, size_t n, uint64_t at)
{
    struct cofi__inflate *inflate = get(recording);
    ZSTD_inBuffer in = {bytes, n, 0};
    if (!inflate || inflate->broken)
        return;
    inflate->in += n;
    for (bool more = true; more && !inflate->broken && !recording->nomem;) {
        ZSTD_outBuffer out = {inflate->bytes, OUT_BYTES, inflate->n};
        size_t status = ZSTD_decompressStream(inflate->stream, &out, &in);
        inflate->out += out.pos - inflate->n;
        /* 100 is far above what records reach, and stops a file made to fill the memory. */
        if (ZSTD_isError(status) || inflate->out / 100 > inflate->in + 16384) {
            cofi__damage(recording, "compressed records at %#llx: %s", (unsigned long long)at,
                       ZSTD_isError(status) ? ZSTD_getErrorName(status) : "they would fill the memory");
            inflate->broken = true;
            return;
        }
        more = in.pos < in.size || out.pos == OUT_BYTES;
        inflate->n = out.pos;
        take_records(recording, inflate, at);
    }
}
