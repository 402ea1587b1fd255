/* SPDX-License-Identifier: MIT
 * Pieces of a stream -> windows in which a packet is contiguous. */
#include "flow/walker.h"

#include <string.h>

#include "base/array.h"

/* The window is a piece, or `stitch`: what was left of the piece before (up to `seam`), with some that were read, and
 * the first seam_from bytes of the current one. Once reading has passed the seam it goes on in the piece itself. */
static bool leave_stitch(struct source *s)
{
    if (!s->stitched || s->p < s->stitch + s->seam || s->piece == s->piece_end)
        return false;
    size_t in = (size_t)(s->p - (s->stitch + s->seam));
    s->p = s->piece + in;
    s->begin = s->piece;
    s->end_offset += (uint64_t)(s->piece_end - (s->piece + s->seam_from));
    s->end = s->piece_end;
    s->stitched = false;
    s->moves++;
    return true;
}

/* ---- breaks ---- */

static uint64_t next_break(const struct cofi_flow *flow, uint64_t behind)
{
    const struct cofi_flow_config *c = &flow->config;
    size_t i = cofi__array_upper_bound(c->breaks, c->breaks_n, sizeof *c->breaks, 0, behind);
    return c->gen == COFI_PT && i < c->breaks_n ? c->breaks[i] : UINT64_MAX;
}

/* What lies behind the next break is not read yet. */
static void hide(struct source *s)
{
    if (s->end_offset <= s->stop)
        return;
    s->hidden = (size_t)(s->end_offset - s->stop);
    s->end -= s->hidden;
    s->end_offset = s->stop;
}

void cofi__source_pass(struct cofi_flow *flow)
{
    struct source *s = &flow->s;
    s->stop = next_break(flow, s->stop);
    s->p = s->end;
    s->end += s->hidden;
    s->end_offset += s->hidden;
    s->hidden = 0;
    s->moves++;
    hide(s);
}

void cofi__source_begin(struct cofi_flow *flow, uint64_t skip)
{
    const struct cofi_flow_config *c = &flow->config;
    struct source *s = &flow->s;
    memset(s, 0, sizeof *s);
    s->stop = next_break(flow, c->offset + skip);
    if (c->pull) {
        s->p = s->begin = s->end = s->stitch;
        s->end_offset = c->offset;
        s->stitched = true;
        return;
    }
    s->p = s->begin = c->bytes ? c->bytes + skip : NULL;
    s->end = c->bytes ? c->bytes + c->n : NULL;
    s->end_offset = c->offset + c->n;
    s->eof = true;
    hide(s);
}

/* ---- more ---- */

static void next_piece(struct cofi_flow *flow)
{
    struct source *s = &flow->s;
    size_t past = source_past(s), left = past + (size_t)(s->end - s->p), n = 0;
    memmove(s->stitch, s->p - past, left);
    const uint8_t *piece = flow->config.pull(flow->config.opaque, &n);
    if (!piece || !n) {
        s->eof = true;
        n = 0;
    }
    size_t room = sizeof s->stitch - left, take = n < room ? n : room;
    if (take)
        memcpy(s->stitch + left, piece, take);
    s->moves++;
    s->begin = s->stitch;
    s->p = s->stitch + past;
    s->end = s->stitch + left + take;
    s->end_offset += take;
    s->stitched = true;
    s->seam = left;
    s->seam_from = take;
    s->piece = take < n ? piece : NULL;
    s->piece_end = take < n ? piece + n : NULL;
}

/* At the very end: the bytes that the tracer still held. */
static void take_tail(struct cofi_flow *flow)
{
    struct source *s = &flow->s;
    size_t past = source_past(s), left = past + (size_t)(s->end - s->p), n = flow->config.tail_n;
    if (!n || left + n > sizeof s->stitch)
        return;
    memmove(s->stitch, s->p - past, left);
    memcpy(s->stitch + left, flow->config.tail, n);
    s->moves++;
    s->begin = s->stitch;
    s->p = s->stitch + past;
    s->end = s->stitch + left + n;
    s->end_offset += n;
    flow->config.tail_n = 0;
}

void cofi__source_more(struct cofi_flow *flow)
{
    struct source *s = &flow->s;
    while (s->end - s->p < SOURCE_AHEAD && !source_ends_at_break(s)) {
        if (!leave_stitch(s)) {
            if (!s->eof && flow->config.pull)
                next_piece(flow);
            else if (flow->config.tail_n)
                take_tail(flow);
            else
                return;
        }
        hide(s);
    }
}
