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
        free(pieces->ring[i].bytes);
        cofi__output_free(&pieces->ring[i].out);
    }
    free(pieces->ring);
    free(pieces->ahead);
    cofi_flow_close(pieces->skimmer);
    cofi__pool_free(&pieces->chunks);
    pthread_cond_destroy(&pieces->change);
    pthread_mutex_destroy(&pieces->lock);
}

static const uint8_t psb[16] = {2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82};

/* The first PSB in [from, n), or n. Two bytes of one before it may look like its own [SDM Packet Stream Boundary
 * (PSB) Packet]: the last 16 count. It may begin in the last bytes that are here. */
static size_t find_psb(const uint8_t *bytes, size_t from, size_t n)
{
    const uint8_t *hit = from < n ? memmem(bytes + from, n - from, psb, sizeof psb) : NULL;
    if (!hit)
        return n;
    size_t at = (size_t)(hit - bytes);
    while (at + 18 <= n && bytes[at + 16] == 2 && bytes[at + 17] == 0x82)
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

/* More bytes into `ahead`. */
static int read_on(struct pieces *pieces)
{
    if (!pieces->rest_n) {
        size_t n = 0;
        pieces->rest = pieces->config->pull(pieces->config->opaque, &n);
        pieces->rest_n = pieces->rest ? n : 0;
        pieces->pull_ended = !pieces->rest_n;
    }
    size_t take = pieces->rest_n < pieces->piece_bytes ? pieces->rest_n : pieces->piece_bytes;
    if (pieces->ahead_max - pieces->ahead_n < take) {
        size_t max = 2 * pieces->ahead_n + take + 64;
        uint8_t *larger = realloc(pieces->ahead, max);
        if (!larger)
            return COFI_ERR_NOMEM;
        pieces->ahead = larger;
        pieces->ahead_max = max;
    }
    if (take)
        memcpy(pieces->ahead + pieces->ahead_n, pieces->rest, take);
    pieces->ahead_n += take;
    pieces->rest += take;
    pieces->rest_n -= take;
    return 0;
}

static int read_rtit_piece(struct pieces *pieces, size_t *size)
{
    while (!skim_piece(pieces, pieces->ahead, pieces->ahead_n, pieces->pull_ended, size))
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
        *size = find_psb(pieces->ahead, from, pieces->ahead_n);
        if (*size + 18 <= pieces->ahead_n || pieces->pull_ended)
            return 0;
        if (pieces->ahead_n >= pieces->piece_bytes + PIECE_LONG) {
            *size = pieces->ahead_n;
            return 0;
        }
        if (*size == pieces->ahead_n && *size > from + 15)
            from = *size - 15;
        else if (*size < pieces->ahead_n)
            from = *size;
        COFI_TRY(read_on(pieces));
    }
}

/* Hand the first bytes of `ahead` over to a piece, and keep what is behind them. */
static int take_piece(struct pieces *pieces, size_t size)
{
    uint8_t *bytes = pieces->ahead;
    size_t left = pieces->ahead_n - size;
    pieces->ahead_max = left + 2 * pieces->piece_bytes;
    pieces->ahead = malloc(pieces->ahead_max + 1);
    if (!pieces->ahead) {
        pieces->ahead = bytes;
        return COFI_ERR_NOMEM;
    }
    if (left)
        memcpy(pieces->ahead, bytes + size, left);
    pieces->ahead_n = left;
    struct piece *piece = piece_at(pieces, pieces->cut);
    free(piece->bytes);
    piece->bytes = NULL;
    bool at_psb = !pieces->cut || is_psb(pieces, bytes, size);
    pieces->ended = pieces->pull_ended && !left;
    add(pieces, size, at_psb);
    piece->bytes = bytes;
    piece->n = size;
    return 0;
}

static void cut_pulled(struct pieces *pieces)
{
    size_t size = 0;
    pieces->reading = true;
    pthread_mutex_unlock(&pieces->lock);
    int status = read_piece(pieces, &size);
    pthread_mutex_lock(&pieces->lock);
    if (status >= 0)
        status = take_piece(pieces, size);
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
    if (before) {
        free(before->bytes);
        before->bytes = NULL;
    }
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
