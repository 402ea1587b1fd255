/* SPDX-License-Identifier: MIT
 * Bytes -> a stream's items: in one piece and in many they are the same, and no byte is lost. First
 * byte: the generation, breaks and the pieces' size. */
#include <cofi/stream.h>

#include "fuzz.h"

struct reader {
    struct cofi_stream stream;
    const uint8_t *bytes;
    size_t n, fed, step;
};

static int next(struct reader *r, struct cofi_stream_item *item)
{
    while (!cofi_stream_next(&r->stream, item)) {
        if (r->fed == r->n && r->stream.final)
            return 0;
        size_t k = r->n - r->fed < r->step ? r->n - r->fed : r->step;
        cofi_stream_feed(&r->stream, r->bytes + r->fed, k);
        r->fed += k;
        if (r->fed == r->n)
            cofi_stream_finish(&r->stream);
    }
    return 1;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    if (!n)
        return 0;
    enum cofi_gen gen = *bytes & 1 ? COFI_PT : COFI_RTIT;
    struct reader whole = {.bytes = bytes + 1, .n = n - 1, .step = n}, split = whole;
    split.step = (*bytes >> 3) + 1u;
    cofi_stream_init(&whole.stream, gen, 0, *bytes & 4);
    cofi_stream_init(&split.stream, gen, 0, *bytes & 4);
    whole.stream.context.cyc = split.stream.context.cyc = gen == COFI_RTIT && *bytes & 2;
    uint64_t breaks[2] = {n > 4 ? bytes[2] + 1u : 1, n > 4 ? bytes[2] + bytes[3] + 2u : 2};
    whole.stream.breaks = split.stream.breaks = breaks;
    whole.stream.breaks_n = split.stream.breaks_n = *bytes & 64 ? 2 : 0;
    struct cofi_stream_item a, b;
    uint64_t at = 0;
    while (next(&whole, &a)) {
        MUST(next(&split, &b));
        MUST(a.status == b.status && a.offset == b.offset && a.size == b.size);
        MUST(a.status || (a.packet.kind == b.packet.kind && !memcmp(a.bytes, b.bytes, a.size)));
        MUST(a.offset <= at);
        at = a.offset + a.size;
    }
    at += gen == COFI_PT && at == n - 2 && bytes[n - 1] == COFI_PT_END_MARK;
    MUST(!next(&split, &b) && at == n - 1);
    size_t first = cofi_sync_forward(gen, bytes, n, 0), last = cofi_sync_backward(gen, bytes, n, n);
    MUST((first == COFI_NO_PSB) == (last == COFI_NO_PSB) && first <= last);
    return 0;
}
