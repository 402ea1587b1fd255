/* SPDX-License-Identifier: MIT
 * A stream's pieces -> its bytes at an offset, and places in it to start from. */
#include <cofi/stream.h>

#include "base/array.h"
#include "packet/psb_plus.h"
#include "time/clock.h"
#include "trace/reader.h"

static const struct cofi__piece *find_piece(const struct cofi_recording *recording, size_t stream, uint64_t offset)
{
    const struct cofi__in_stream *streams = recording->streams.items;
    if (stream >= recording->streams.n || offset >= streams[stream].public.bytes)
        return NULL;
    const struct cofi__piece *pieces = streams[stream].pieces.items;
    size_t low = 0, high = streams[stream].pieces.n;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (pieces[middle].stream_offset <= offset)
            low = middle;
        else
            high = middle;
    }
    return &pieces[low];
}

const uint8_t *cofi_recording_bytes(const struct cofi_recording *recording, size_t stream, uint64_t offset, size_t *n)
{
    const struct cofi__piece *piece = find_piece(recording, stream, offset);
    *n = 0;
    if (!piece)
        return NULL;
    uint64_t in_piece = offset - piece->stream_offset;
    *n = (size_t)(piece->bytes - in_piece);
    return cofi__piece_bytes(recording, piece) + in_piece;
}

const uint64_t *cofi_recording_breaks(const struct cofi_recording *recording, size_t stream, size_t *n)
{
    const struct cofi__in_stream *streams = recording->streams.items;
    *n = stream < recording->streams.n ? streams[stream].breaks.n : 0;
    return *n ? streams[stream].breaks.items : NULL;
}

void cofi_recording_unneeded(const struct cofi_recording *recording, size_t stream, uint64_t offset, uint64_t n)
{
    size_t some = 1;
    for (uint64_t end = offset + n; recording->in.mapped && offset < end && some; offset += some) {
        const uint8_t *bytes = cofi_recording_bytes(recording, stream, offset, &some);
        some = some < end - offset ? some : (size_t)(end - offset);
        bool in_file = some && bytes >= recording->in.bytes && bytes < recording->in.bytes + recording->in.mapped_bytes;
        uint64_t at = in_file ? (uint64_t)(bytes - recording->in.bytes) : 0;
        cofi__input_unneeded(&recording->in, at, in_file ? at + some : 0);
    }
}

uint64_t cofi_recording_file_offset(const struct cofi_recording *recording, size_t stream, uint64_t offset)
{
    const struct cofi__piece *piece = find_piece(recording, stream, offset);
    return !piece ? UINT64_MAX : piece->file_offset + (piece->memory ? 0 : offset - piece->stream_offset);
}

/* The last PSB that begins at or before an offset in the piece; SIZE_MAX: none. */
static size_t psb_before(const struct cofi_recording *recording, const struct cofi__piece *piece, uint64_t offset)
{
    size_t before = offset < piece->bytes ? (size_t)offset + 1 : (size_t)piece->bytes;
    return cofi_sync_backward(recording->info.gen, cofi__piece_bytes(recording, piece), (size_t)piece->bytes,
                              before);
}

static size_t psb_after(const struct cofi_recording *recording, const struct cofi__piece *piece, uint64_t offset)
{
    return cofi_sync_forward(recording->info.gen, cofi__piece_bytes(recording, piece), (size_t)piece->bytes,
                             (size_t)offset);
}

/* A PSB lies whole in a piece, because pieces begin and end between packets. */
uint64_t cofi_recording_psb(const struct cofi_recording *recording, size_t stream, uint64_t offset, bool forward)
{
    if (stream >= recording->streams.n)
        return UINT64_MAX;
    const struct cofi__in_stream *s = (const struct cofi__in_stream *)recording->streams.items + stream;
    const struct cofi__piece *pieces = s->pieces.items, *piece;
    if (!s->public.bytes || (forward && offset >= s->public.bytes))
        return UINT64_MAX;
    piece = find_piece(recording, stream, offset < s->public.bytes ? offset : s->public.bytes - 1);
    for (size_t i = (size_t)(piece - pieces);; i += forward ? 1 : (size_t)-1) {
        uint64_t in_piece = offset > pieces[i].stream_offset ? offset - pieces[i].stream_offset : 0;
        size_t at = forward ? psb_after(recording, &pieces[i], in_piece) : psb_before(recording, &pieces[i], in_piece);
        if (at != COFI_NO_PSB)
            return pieces[i].stream_offset + at;
        if (i == (forward ? s->pieces.n - 1 : 0))
            return UINT64_MAX;
    }
}

/* The time that the PSB+ at a place tells, 0: none, or a guest's. */
static uint64_t time_of_psb(const uint8_t *p, const uint8_t *end, uint64_t near)
{
    enum { LOOK_AT = 64 };
    const uint64_t low = (UINT64_C(1) << 56) - 1;
    struct cofi_packet_context context = {.gen = COFI_PT, .lenient = true};
    struct cofi_packet packet;
    uint64_t time = 0;
    for (int i = 0; i < LOOK_AT && p < end; i++) {
        int n = cofi_packet_decode(&context, p, (size_t)(end - p), &packet);
        if (n < 0 || (packet.kind == COFI_PT_PIP && packet.pip.nr))
            return 0;
        if (cofi__ends_psb_plus(packet.kind))
            return time;
        if (packet.kind == COFI_PT_TSC) /* its bits 55:0; the others are those of a time shortly before */
            time = (near & ~low) + packet.tsc.tsc + (packet.tsc.tsc < (near & low) >> 1 ? low + 1 : 0);
        p += n;
    }
    return time;
}

/* What begins in a piece ends there, or where the trace unit's output was full. */
static size_t end_of(const struct cofi__in_stream *s, const struct cofi__piece *piece, size_t from)
{
    const uint64_t *breaks = s->breaks.items;
    size_t i = cofi__array_upper_bound(breaks, s->breaks.n, sizeof *breaks, 0, piece->stream_offset + from);
    uint64_t left = i < s->breaks.n ? breaks[i] - piece->stream_offset : piece->bytes;
    return (size_t)(left < piece->bytes ? left : piece->bytes);
}

/* The first PSB in [*at, high) that tells a time, soon: then *at is moved there. 0: none of the next ones does. */
static uint64_t next_time(const struct cofi__in_stream *s, const struct cofi__piece *piece, const uint8_t *bytes,
                          size_t high, size_t *at)
{
    enum { TRIES = 16, PSB_BYTES = 16 };
    uint64_t time = 0;
    for (size_t psb = *at, i = 0; i < TRIES && !time; i++, psb += PSB_BYTES) {
        psb = psb < high ? cofi_sync_forward(COFI_PT, bytes, high, psb) : COFI_NO_PSB;
        if (psb == COFI_NO_PSB)
            return 0;
        time = time_of_psb(bytes + psb, bytes + end_of(s, piece, psb), piece->reference);
        *at = time ? psb : *at;
    }
    return time;
}

/* In a piece: the last PSB that tells a time at or before, by halves; SIZE_MAX: none. */
static size_t seek_in_piece(const struct cofi_recording *recording, const struct cofi__in_stream *s,
                            const struct cofi__piece *piece, uint64_t tsc_ticks)
{
    enum { NEAR_ENOUGH = 4096 };
    const uint8_t *bytes = cofi__piece_bytes(recording, piece);
    size_t low = 0, high = (size_t)piece->bytes, best = SIZE_MAX;
    while (recording->info.gen == COFI_PT && high - low > NEAR_ENOUGH) {
        size_t middle = low + (high - low) / 2, at = middle;
        uint64_t time = next_time(s, piece, bytes, high, &at);
        if (time && time <= tsc_ticks)
            low = best = at;
        else
            high = middle;
    }
    return best;
}

/* The last of some pieces with a PSB at or before the time, by halves; the first one, if none has. */
static size_t piece_by_psbs(const struct cofi_recording *recording, const struct cofi__in_stream *s, size_t first,
                            size_t end, uint64_t tsc_ticks)
{
    const struct cofi__piece *pieces = s->pieces.items;
    size_t best = first;
    for (size_t low = first + 1; low < end;) {
        size_t middle = low + (end - low) / 2, i = middle - 1;
        uint64_t time = 0;
        while (!time && ++i < end)
            time = next_time(s, &pieces[i], cofi__piece_bytes(recording, &pieces[i]), (size_t)pieces[i].bytes,
                             &(size_t){0});
        if (time && time <= tsc_ticks)
            low = (best = i) + 1;
        else
            end = middle;
    }
    return best;
}

/* The last piece that begins at or before the time, by their references; SIZE_MAX: none. Until 28
 * November 2026 the fast host gave all pieces of a program the same one. */
static size_t piece_at(const struct cofi_recording *recording, const struct cofi__in_stream *s, uint64_t tsc_ticks)
{
    const struct cofi__piece *pieces = s->pieces.items;
    size_t end = cofi__array_upper_bound(pieces, s->pieces.n, sizeof *pieces, offsetof(struct cofi__piece, reference),
                                         tsc_ticks);
    if (!end)
        return SIZE_MAX;
    uint64_t reference = pieces[end - 1].reference;
    size_t first = reference ? cofi__array_upper_bound(pieces, end, sizeof *pieces,
                                                       offsetof(struct cofi__piece, reference), reference - 1)
                             : 0;
    return recording->info.gen == COFI_PT ? piece_by_psbs(recording, s, first, end, tsc_ticks) : first;
}

/* The last PSB at or before an offset; RTIT, whose PSB tells no address: the one before that, so that
 * the way is known at it. 0: there is none. */
static uint64_t start_before(const struct cofi_recording *recording, size_t stream, uint64_t offset)
{
    uint64_t psb = cofi_recording_psb(recording, stream, offset, false);
    if (recording->info.gen == COFI_RTIT && psb && psb != UINT64_MAX)
        psb = cofi_recording_psb(recording, stream, psb - 1, false);
    return psb == UINT64_MAX ? 0 : psb;
}

uint64_t cofi_recording_seek(const struct cofi_recording *recording, size_t stream, uint64_t tsc_ticks)
{
    if (stream >= recording->streams.n)
        return 0;
    const struct cofi__in_stream *s = (const struct cofi__in_stream *)recording->streams.items + stream;
    const struct cofi__piece *pieces = s->pieces.items;
    uint64_t before = tsc_ticks - cofi__clock_ahead(&recording->info.time, tsc_ticks);
    before -= before > 0; /* what runs up to a PSB is shown when its time is known */
    size_t i = piece_at(recording, s, before);
    if (i == SIZE_MAX)
        return 0;
    size_t inside = seek_in_piece(recording, s, &pieces[i], before);
    if (inside != SIZE_MAX)
        return pieces[i].stream_offset + inside;
    return start_before(recording, stream, pieces[i].stream_offset);
}
