/* SPDX-License-Identifier: MIT
 * Bytes in pieces -> packets and what had to be skipped, with offsets. */
#include <cofi/error.h>
#include <cofi/stream.h>
#include <string.h>

#include "packet/errata.h"
#include "stream/sync.h"
#include "x86/errata.h"

void cofi_stream_init(struct cofi_stream *stream, enum cofi_gen gen, uint64_t offset, bool synced)
{
    memset(stream, 0, sizeof *stream);
    stream->context.gen = (uint8_t)gen;
    stream->offset = stream->skip_from = offset;
    stream->skipping = !synced;
    stream->skip_status = COFI_ERR_NO_SYNC;
}

/* What of the piece lies behind the next break is not read yet. One that has been passed is none any more. */
static void hide(struct cofi_stream *s)
{
    uint64_t end = s->offset - (uint64_t)s->at + s->piece_n;
    uint64_t least = s->at < 0 ? end - s->piece_n : s->offset;
    for (; s->breaks_n && s->breaks[0] < least; s->breaks_n--)
        s->breaks++;
    if (!s->breaks_n || end <= s->breaks[0])
        return;
    s->hidden = (size_t)(end - s->breaks[0]);
    s->piece_n -= s->hidden;
}

static bool ends_at_break(const struct cofi_stream *s)
{
    return s->breaks_n && s->offset - (uint64_t)s->at + s->piece_n == s->breaks[0];
}

/* No byte follows the piece: none is to come, or a break. */
static bool is_last(const struct cofi_stream *s) { return s->final || ends_at_break(s); }

void cofi_stream_feed(struct cofi_stream *stream, const uint8_t *bytes, size_t n)
{
    stream->piece = bytes;
    stream->piece_n = n;
    hide(stream);
    if (stream->family)
        stream->errata = cofi__cpu_errata((enum cofi_gen)stream->context.gen, stream->family, stream->model);
}

void cofi_stream_finish(struct cofi_stream *stream) { stream->final = true; }

/* The bytes from here on: all there are, or where the pieces meet at least as many as any packet
 * and any PSB needs. *last: they reach the piece's end. */
static const uint8_t *window(struct cofi_stream *s, size_t *n, bool *last)
{
    if (s->at >= 0) {
        *n = s->piece_n - (size_t)s->at;
        *last = true;
        return *n ? s->piece + s->at : s->join;
    }
    size_t old = (size_t)-s->at, fresh = sizeof s->join - old;
    if (fresh > s->piece_n)
        fresh = s->piece_n;
    memcpy(s->join, s->past + s->past_n - old, old);
    if (fresh)
        memcpy(s->join + old, s->piece, fresh);
    *n = old + fresh;
    *last = fresh == s->piece_n;
    return s->join;
}

static void advance(struct cofi_stream *s, size_t n)
{
    s->at += (int64_t)n;
    s->offset += n;
}

/* Go back by n bytes, or as far as there are any. */
static void go_back(struct cofi_stream *s, size_t n)
{
    int64_t least = -(int64_t)s->past_n;
    if (s->at - (int64_t)n < least)
        n = (size_t)(s->at - least);
    s->at -= (int64_t)n;
    s->offset -= n;
}

/* The piece is used up: keep its end. */
static int want_more(struct cofi_stream *s)
{
    size_t room = sizeof s->past, fresh = s->piece_n < room ? s->piece_n : room;
    size_t old = s->past_n < room - fresh ? s->past_n : room - fresh;
    memmove(s->past, s->past + s->past_n - old, old);
    if (fresh)
        memcpy(s->past + old, s->piece + s->piece_n - fresh, fresh);
    s->past_n = old + fresh;
    s->at -= (int64_t)s->piece_n;
    s->piece_n = 0;
    return 0;
}

/* From the item's offset up to here nothing was a packet. */
static int skipped(struct cofi_stream *s, struct cofi_stream_item *item)
{
    s->skipping = false;
    *item = (struct cofi_stream_item){
        .status = s->skip_status, .offset = s->skip_from, .why = s->skip_why};
    item->size = s->offset > s->skip_from ? s->offset - s->skip_from : 0;
    return 1;
}

/* Bytes that are no packet: look for a PSB. The packet before may have been none either, and may
 * have swallowed the beginning of one. */
static void begin_skipping(struct cofi_stream *s, const char *why)
{
    s->skipping = true;
    s->skip_status = COFI_ERR_BAD_PACKET;
    s->skip_why = why;
    s->skip_from = s->offset;
    s->context.block = 0;
    go_back(s, s->context.gen == COFI_PT ? 15 : 8);
}

/* Look for a PSB: 1 found (or the end, with an item), 0 more is needed, -1 go on. */
static int skip(struct cofi_stream *s, struct cofi_stream_item *item)
{
    size_t n, at;
    bool last;
    const uint8_t *p = window(s, &n, &last);
    bool found = cofi__sync_find((enum cofi_gen)s->context.gen, p, n, 0, last && is_last(s), &at);
    advance(s, at);
    if (!found && !last)
        return -1;
    if (!found && !is_last(s))
        return want_more(s);
    if (s->offset > s->skip_from || s->skip_status != COFI_ERR_NO_SYNC)
        return skipped(s, item);
    s->skipping = false;
    return -1;
}

/* The size of the packet that was read, errata considered; 0: more bytes are needed to know. */
static int by_errata(const struct cofi_stream *s, const uint8_t *p, size_t n, int size, struct cofi_stream_item *item)
{
    bool cyc = item->packet.kind == COFI_PT_CYC && s->errata & ERR_SKD007;
    bool tma = item->packet.kind == COFI_PT_TMA && s->errata & ERR_SKZ84;
    if (n < (cyc ? SKD007_SEEN : tma ? SKZ84_SIZE : 0) && !is_last(s))
        return 0;
    if (tma && cofi__is_skz84(p, n)) {
        item->why = "a TMA with a byte too many [ERR SKZ84]";
        return SKZ84_SIZE;
    }
    if (!cyc || !cofi__is_skd007(p, n))
        return size;
    item->packet.cyc.count = p[0] >> 3;
    item->packet.cyc.bytes = SKD007_LEFT;
    item->why = "a CYC whose end an OVF wrote over [ERR SKD007]";
    return SKD007_LEFT;
}

/* What stands here is no packet: it may be the mark behind the last one. */
static bool is_end_mark(const struct cofi_stream *s, const uint8_t *p, size_t n)
{
    return s->context.gen == COFI_PT && n == 1 && !ends_at_break(s) && *p == COFI_PT_END_MARK;
}

/* The output was full: what comes begins with a packet. */
static void pass_break(struct cofi_stream *s)
{
    s->context.block = 0;
    s->breaks++;
    s->breaks_n--;
    s->piece_n += s->hidden;
    s->hidden = 0;
    hide(s);
}

/* The bytes end, maybe inside a packet: n are left. */
static int at_end(struct cofi_stream *s, size_t n, struct cofi_stream_item *item)
{
    bool full = ends_at_break(s);
    if (!full && (!s->final || !n))
        return want_more(s);
    s->skip_from = s->offset;
    s->skip_status = full ? COFI_ERR_FULL : COFI_ERR_TRUNCATED;
    s->skip_why = full ? "the trace buffer was full, and what ran then is lost [PTREF 4.4]"
                       : "the data end inside a packet";
    advance(s, n);
    if (full)
        pass_break(s);
    return skipped(s, item);
}

int cofi_stream_next(struct cofi_stream *s, struct cofi_stream_item *item)
{
    for (;;) {
        if (s->skipping) {
            int done = skip(s, item);
            if (done >= 0)
                return done;
            continue;
        }
        size_t n;
        bool last;
        const uint8_t *p = window(s, &n, &last);
        int size = cofi_packet_decode(&s->context, p, n, &item->packet);
        item->why = NULL;
        if (size > 0 && s->errata && !(size = by_errata(s, p, n, size, item)))
            return want_more(s);
        if (size > 0) {
            item->status = 0;
            item->offset = s->offset;
            item->size = (uint64_t)size;
            item->bytes = p;
            advance(s, (size_t)size);
            return 1;
        }
        if (size != COFI_ERR_BAD_PACKET)
            return at_end(s, n, item);
        if (!is_end_mark(s, p, n)) {
            begin_skipping(s, cofi_packet_why(&s->context, p, n));
            continue;
        }
        if (!s->final)
            return want_more(s);
        advance(s, n);
    }
}

bool cofi_stream_guess_synced(const uint8_t *bytes, size_t n)
{
    struct cofi_stream stream;
    struct cofi_stream_item item;
    size_t most = n < COFI_GUESS_BYTES ? n : COFI_GUESS_BYTES, psb = cofi_sync_forward(COFI_PT, bytes, most, 0);
    cofi_stream_init(&stream, COFI_PT, 0, true);
    stream.context.lenient = true;
    cofi_stream_feed(&stream, bytes, psb == COFI_NO_PSB ? most : psb);
    if (psb != COFI_NO_PSB || most == n)
        cofi_stream_finish(&stream);
    while (cofi_stream_next(&stream, &item))
        if (item.status && (item.status != COFI_ERR_TRUNCATED || psb != COFI_NO_PSB || !item.offset))
            return false;
    return n;
}

static unsigned mode_of(const struct cofi_packet *packet)
{
    return packet->mode_exec.csl ? 64 : packet->mode_exec.csd ? 32 : 16;
}

/* Whether the items to come tell no other mode. */
static bool tells_no_other(struct cofi_stream *stream, unsigned mode)
{
    struct cofi_stream_item item;
    while (cofi_stream_next(stream, &item))
        if (!item.status && item.packet.kind == COFI_PT_MODE_EXEC && mode_of(&item.packet) != mode)
            return false;
    return true;
}

unsigned cofi_stream_guess_mode(const uint8_t *bytes, size_t n)
{
    struct cofi_stream stream;
    struct cofi_stream_item item;
    unsigned told = 0;
    bool in_psb = false, lost = false;
    cofi_stream_init(&stream, COFI_PT, 0, true);
    stream.context.lenient = true;
    cofi_stream_feed(&stream, bytes, n < COFI_GUESS_BYTES ? n : COFI_GUESS_BYTES);
    while (cofi_stream_next(&stream, &item)) {
        enum cofi_packet_kind kind = item.status ? COFI_PT_PAD : (enum cofi_packet_kind)item.packet.kind;
        in_psb = (in_psb || kind == COFI_PT_PSB) && kind != COFI_PT_PSBEND;
        if (kind == COFI_PT_MODE_EXEC)
            told = mode_of(&item.packet);
        lost |= kind == COFI_PT_OVF; /* and perhaps a change with it */
        if (told && in_psb && !lost)
            return told;
        if (told) /* a change, of RFLAGS.IF with EventEn or not at all [PTREF 5.8] */
            return tells_no_other(&stream, told) ? told : COFI_MODE_LATER;
    }
    return told;
}

/* Bytes that are no packet from the first PSB on, with or without cycle counts; one at least for
 * each place. */
static uint64_t count_bad(const uint8_t *bytes, size_t n, bool cyc)
{
    struct cofi_stream stream;
    struct cofi_stream_item item;
    uint64_t bad = 0;
    cofi_stream_init(&stream, COFI_RTIT, 0, false);
    stream.context.cyc = cyc;
    cofi_stream_feed(&stream, bytes, n);
    cofi_stream_finish(&stream);
    while (cofi_stream_next(&stream, &item))
        bad += item.status == COFI_ERR_BAD_PACKET ? item.size + !item.size : 0;
    return bad;
}

bool cofi_stream_guess_cyc(const uint8_t *bytes, size_t n, uint64_t bad[2])
{
    uint64_t found[2];
    for (int cyc = 0; cyc < 2; cyc++)
        found[cyc] = count_bad(bytes, n < COFI_GUESS_BYTES ? n : COFI_GUESS_BYTES, cyc);
    if (bad)
        memcpy(bad, found, sizeof found);
    return found[1] < found[0];
}
