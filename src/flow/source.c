/* SPDX-License-Identifier: MIT
 * Pieces of a stream -> windows in which a packet is contiguous. */
#include "flow/walker.h"

#include <string.h>

/* The window is a piece, or `stitch`: what was left of the piece before (up to `seam`), with some that were read, and the
 * first seam_from bytes of the current one. Once reading has passed the seam it goes on in the piece itself. */
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
    while (s->end - s->p < SOURCE_AHEAD) {
        if (leave_stitch(s))
            continue;
        if (!s->eof && flow->config.pull) {
            next_piece(flow);
            continue;
        }
        if (!flow->config.tail_n)
            return;
        take_tail(flow);
    }
}
