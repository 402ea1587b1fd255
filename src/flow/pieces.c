/* SPDX-License-Identifier: MIT
 * A stream, in memory or by pull -> pieces that begin at its PSBs. */
#include "flow/pieces.h"

#include <stdlib.h>
#include <string.h>

#include <cofi/stream.h>

#include "base/error.h"

int cofi__pieces_open(struct pieces *pieces, const struct cofi_flow_config *config, size_t piece_bytes, uint64_t room)
{
    *pieces = (struct pieces){.config = config, .piece_bytes = piece_bytes, .room = room};
    pthread_mutex_init(&pieces->lock, NULL);
    pthread_cond_init(&pieces->change, NULL);
    pieces->ring = calloc(room, sizeof *pieces->ring);
    if (!pieces->ring)
        return COFI_ERR_NOMEM;
    return config->gen == COFI_RTIT ? cofi__skim_open(&pieces->skimmer, config) : 0;
}

void cofi__pieces_close(struct pieces *pieces)
{
    for (uint64_t i = 0; pieces->ring && i < pieces->room; i++) {
        free(pieces->ring[i].copy.bytes);
        cofi__output_free(&pieces->ring[i].out);
    }
    free(pieces->ring);
    free(pieces->ahead.bytes);
    for (unsigned i = 0; i < pieces->spare_n; i++)
        free(pieces->spare[i].bytes);
    cofi_flow_close(pieces->skimmer);
    cofi__pool_free(&pieces->chunks);
    pthread_cond_destroy(&pieces->change);
    pthread_mutex_destroy(&pieces->lock);
}

enum { PSB_SURE = 18 }; /* with what follows, see find_psb */
static const uint8_t psb[16] = {2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82};

/* The first PSB in [from, n), or n. Two bytes of one before it may look like its own [SDM Packet Stream Boundary
 * (PSB) Packet]: the last 16 count. It may begin in the last bytes that are here. */
static size_t find_psb(const uint8_t *bytes, size_t from, size_t n)
{
    const uint8_t *hit = from < n ? memmem(bytes + from, n - from, psb, sizeof psb) : NULL;
    if (!hit)
        return n;
    size_t at = (size_t)(hit - bytes);
    while (at + PSB_SURE <= n && bytes[at + 16] == 2 && bytes[at + 17] == 0x82)
        at += 2;
    return at;
}

/* Where the piece begins that is cut next. */
static uint64_t next_begin(const struct pieces *pieces)
{
    return pieces->cut ? pieces->ring[(pieces->cut - 1) % pieces->room].end : pieces->config->offset;
}

static void add(struct pieces *pieces, uint64_t size, bool at_psb)
{
    struct piece *piece = piece_at(pieces, pieces->cut);
    uint64_t begin = next_begin(pieces);
    bool unknown = pieces->skimmer && pieces->cut && !pieces->from_psb.known;
    bool in_order = size >= PIECE_LONG || !at_psb || unknown;
    *piece = (struct piece){.index = pieces->cut++, .begin = begin, .end = pieces->ended ? UINT64_MAX : begin + size,
        .from_psb = pieces->from_psb, .in_order = in_order};
    pieces->from_psb = pieces->next_psb;
}

static bool is_psb(const struct pieces *pieces, const uint8_t *bytes, size_t n)
{
    return cofi_sync_forward(pieces->config->gen, bytes, n < sizeof psb ? n : sizeof psb, 0) == 0;
}

/* ---- RTIT: where a walk from the PSB before knows its way ---- */

/* What lies between the next two PSBs, or null: the second one is not here. */
static struct skim *next_skim(struct pieces *pieces, const uint8_t *bytes, size_t n)
{
    if (pieces->skims_at == pieces->skims_n) {
        size_t from = pieces->skimmed, to;
        pieces->skims_at = pieces->skims_n = 0;
        while (pieces->skims_n < 4 && (to = cofi_sync_forward(COFI_RTIT, bytes, n, from + 1)) != COFI_NO_PSB) {
            pieces->skims[pieces->skims_n++] = (struct skim){.bytes = bytes + from, .n = to - from};
            from = to;
        }
        cofi__skim_ahead(pieces->skimmer, pieces->skims, pieces->skims_n);
    }
    return pieces->skims_at < pieces->skims_n ? &pieces->skims[pieces->skims_at++] : NULL;
}

/* Take it. Whether the next piece may begin behind it. */
static bool take_skim(struct pieces *pieces, struct skim *skim)
{
    uint64_t begin = next_begin(pieces);
    if (!is_psb(pieces, skim->bytes, skim->n)) /* the stream's beginning, or a cut without a PSB */
        return false;
    cofi__skim_tell(pieces->skimmer, &pieces->next_psb);
    pieces->next_psb.offset = begin + pieces->skimmed;
    pieces->next_psb.into = pieces->skimmed;
    return cofi__skim(pieces->skimmer, skim);
}

/* How much of the bytes is the next piece. False: that shows when there are more. */
static bool skim_piece(struct pieces *pieces, const uint8_t *bytes, size_t n, bool last, size_t *size)
{
    bool good = false;
    while (pieces->skimmed < pieces->piece_bytes || (!good && pieces->skimmed < PIECE_LONG)) {
        struct skim *skim = next_skim(pieces, bytes, n);
        if (!skim && !last && n < pieces->piece_bytes + PIECE_LONG)
            return false;
        good = false;
        if (!skim) {
            pieces->skimmed = n;
            break;
        }
        skim->bytes = bytes + pieces->skimmed; /* they may lie elsewhere now */
        good = take_skim(pieces, skim);
        pieces->skimmed += skim->n;
    }
    pieces->next_psb.known = good;
    *size = pieces->skimmed;
    pieces->skimmed = 0;
    return true;
}

/* ---- in memory ---- */

static size_t in_memory(struct pieces *pieces)
{
    const struct cofi_flow_config *c = pieces->config;
    size_t from = (size_t)(next_begin(pieces) - c->offset), size = c->n - from;
    if (pieces->skimmer)
        skim_piece(pieces, c->bytes + from, c->n - from, true, &size);
    else if (size > pieces->piece_bytes)
        size = find_psb(c->bytes, from + pieces->piece_bytes, c->n) - from;
    return size;
}

static void cut_bytes(struct pieces *pieces)
{
    pieces->reading = true;
    pthread_mutex_unlock(&pieces->lock);
    size_t size = in_memory(pieces);
    pthread_mutex_lock(&pieces->lock);
    pieces->reading = false;
    uint64_t begin = next_begin(pieces);
    pieces->ended = begin + size == pieces->config->offset + pieces->config->n;
    add(pieces, size, true);
    pthread_cond_broadcast(&pieces->change);
}

/* ---- by pull ---- */

static bool buffer_room(struct buffer *b, size_t n)
{
    if (b->max - b->n >= n)
        return true;
    size_t max = 2 * b->n + n + 64;
    uint8_t *larger = realloc(b->bytes, max);
    if (!larger)
        return false;
    b->bytes = larger;
    b->max = max;
    return true;
}

static void drop_copy(struct pieces *pieces, struct piece *piece)
{
    struct buffer *copy = &piece->copy;
    copy->n = 0;
    if (copy->bytes && pieces->spare_n < sizeof pieces->spare / sizeof pieces->spare[0])
        pieces->spare[pieces->spare_n++] = *copy;
    else
        free(copy->bytes);
    *copy = (struct buffer){0};
}

/* What pull gives behind `rest`; looked at only. False: nothing. */
static bool look_behind(struct pieces *pieces)
{
    if (!pieces->after_n && !pieces->pull_ended) {
        pieces->after = pieces->config->pull(pieces->config->opaque, &pieces->after_n);
        pieces->after_n = pieces->after ? pieces->after_n : 0;
        pieces->pull_ended = !pieces->after_n;
    }
    return pieces->after_n;
}

static bool fetch(struct pieces *pieces)
{
    if (!pieces->rest_n && look_behind(pieces)) {
        pieces->rest = pieces->after;
        pieces->rest_n = pieces->after_n;
        pieces->rest_past = pieces->after_n = 0;
    }
    return pieces->rest_n;
}

/* What is left of the stream is in `ahead`. */
static bool all_read(const struct pieces *pieces) { return pieces->pull_ended && !pieces->rest_n; }

static void pass(struct pieces *pieces, size_t n)
{
    pieces->rest += n;
    pieces->rest_n -= n;
    pieces->rest_past += n;
}

/* More bytes into `ahead`. */
static int read_on(struct pieces *pieces)
{
    struct buffer *ahead = &pieces->ahead;
    if (!fetch(pieces))
        return 0;
    size_t take = pieces->rest_n < pieces->piece_bytes ? pieces->rest_n : pieces->piece_bytes;
    if (!buffer_room(ahead, take))
        return COFI_ERR_NOMEM;
    memcpy(ahead->bytes + ahead->n, pieces->rest, take);
    ahead->n += take;
    pass(pieces, take);
    return 0;
}

static int read_rtit_piece(struct pieces *pieces, size_t *size)
{
    while (!skim_piece(pieces, pieces->ahead.bytes, pieces->ahead.n, all_read(pieces), size))
        COFI_TRY(read_on(pieces));
    return 0;
}

/* How much of `ahead` is the next piece; all of it at the stream's end. */
static int read_piece(struct pieces *pieces, size_t *size)
{
    if (pieces->skimmer)
        return read_rtit_piece(pieces, size);
    size_t from = pieces->piece_bytes;
    for (;;) {
        *size = find_psb(pieces->ahead.bytes, from, pieces->ahead.n);
        if (*size + PSB_SURE <= pieces->ahead.n || all_read(pieces))
            return 0;
        if (pieces->ahead.n >= pieces->piece_bytes + PIECE_LONG) {
            *size = pieces->ahead.n;
            return 0;
        }
        if (*size == pieces->ahead.n && *size > from + 15)
            from = *size - 15;
        else if (*size < pieces->ahead.n)
            from = *size;
        COFI_TRY(read_on(pieces));
    }
}

/* Whether a piece may be what pull gave, and no copy of it. */
static bool may_lie(const struct pieces *pieces) { return pieces->config->pull_stays && !pieces->skimmer; }

static void add_pulled(struct pieces *pieces, const uint8_t *bytes, size_t n, struct buffer copy)
{
    struct piece *piece = piece_at(pieces, pieces->cut);
    drop_copy(pieces, piece);
    pieces->ended = all_read(pieces) && !pieces->ahead.n;
    add(pieces, n, !pieces->cut || is_psb(pieces, bytes, n));
    piece->bytes = bytes;
    piece->n = n;
    piece->copy = copy;
}

/* What of `ahead` is left need not have been copied. */
static void give_back(struct pieces *pieces)
{
    size_t n = pieces->ahead.n;
    if (!n || !may_lie(pieces) || n > pieces->rest_past)
        return;
    pieces->rest -= n;
    pieces->rest_n += n;
    pieces->rest_past -= n;
    pieces->ahead.n = 0;
}

/* Hand the first bytes of `ahead` over to a piece, and keep what is behind them. */
static int take_copy(struct pieces *pieces, size_t size)
{
    struct buffer own = pieces->ahead, ahead = {0};
    size_t left = own.n - size;
    if (pieces->spare_n)
        ahead = pieces->spare[--pieces->spare_n];
    if (!buffer_room(&ahead, left + 2 * pieces->piece_bytes)) {
        pieces->spare[pieces->spare_n++] = ahead;
        return COFI_ERR_NOMEM;
    }
    if (left)
        memcpy(ahead.bytes, own.bytes + size, left);
    ahead.n = left;
    own.n = size;
    pieces->ahead = ahead;
    add_pulled(pieces, own.bytes, size, own);
    give_back(pieces);
    return 0;
}

static bool begins_with_psb(const uint8_t *bytes, size_t n)
{
    return n >= PSB_SURE && find_psb(bytes, 0, PSB_SURE) == 0;
}

/* How much of `rest` is a piece as it lies there; 0: it has to be put together. */
static size_t piece_that_lies(struct pieces *pieces)
{
    if (!may_lie(pieces) || pieces->ahead.n || !fetch(pieces))
        return 0;
    size_t most = pieces->piece_bytes + PIECE_LONG, n = pieces->rest_n < most ? pieces->rest_n : most;
    size_t size = find_psb(pieces->rest, pieces->piece_bytes, n);
    if (size + PSB_SURE <= n)
        return size;
    if (n == most)
        return most;
    return !look_behind(pieces) || begins_with_psb(pieces->after, pieces->after_n) ? pieces->rest_n : 0;
}

static void take_as_it_lies(struct pieces *pieces, size_t size)
{
    const uint8_t *bytes = pieces->rest;
    pass(pieces, size);
    add_pulled(pieces, bytes, size, (struct buffer){0});
}

static void cut_pulled(struct pieces *pieces)
{
    int status = 0;
    pieces->reading = true;
    pthread_mutex_unlock(&pieces->lock);
    size_t size = piece_that_lies(pieces);
    bool lies = size;
    if (!lies)
        status = read_piece(pieces, &size);
    pthread_mutex_lock(&pieces->lock);
    if (lies)
        take_as_it_lies(pieces, size);
    else if (status >= 0)
        status = take_copy(pieces, size);
    pieces->reading = false;
    if (status < 0) {
        pieces->status = status;
        pieces->ended = true;
    }
    pthread_cond_broadcast(&pieces->change);
}

bool cofi__pieces_get(struct pieces *pieces, uint64_t i)
{
    while (i >= pieces->cut && !pieces->stop) {
        if (pieces->reading)
            pthread_cond_wait(&pieces->change, &pieces->lock);
        else if (!pieces_may_cut(pieces))
            return false;
        else if (pieces->config->pull)
            cut_pulled(pieces);
        else
            cut_bytes(pieces);
    }
    return !pieces->stop;
}

void cofi__pieces_drop(struct pieces *pieces)
{
    struct piece *before = pieces->shown > 1 ? piece_at(pieces, pieces->shown - 2) : NULL;
    if (before)
        drop_copy(pieces, before);
    pieces->shown++;
    if (pieces->next < pieces->shown)
        pieces->next = pieces->shown;
    pthread_cond_broadcast(&pieces->change);
}

void cofi__output_clear(struct pieces *pieces, struct output *out)
{
    cofi__arena_clear(&pieces->chunks, &out->room);
    out->events_n = out->marks_n = 0;
}

void cofi__output_drop(struct pieces *pieces, struct output *out)
{
    pthread_mutex_lock(&pieces->lock);
    cofi__output_clear(pieces, out);
    pthread_mutex_unlock(&pieces->lock);
}

void cofi__output_free(struct output *out)
{
    free(out->events);
    free(out->marks);
    *out = (struct output){0};
}
