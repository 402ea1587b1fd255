/* SPDX-License-Identifier: MIT
 * Going to a PSB of a stream whose bytes are all there: what came before it is read only where the time needs it. */
#include "flow/walker.h"

#include <cofi/stream.h>

#include "base/error.h"
#include "flow/query.h"
#include "packet/psb_plus.h"

enum { BACK_FIRST = 1 << 16, BACK_MOST = 1 << 26 }; /* bytes: so far back a time is looked for */

/* The packets up to a byte, for their times. What cannot be read is passed over up to the next PSB. */
static void read_times(struct cofi_flow *flow, uint64_t to)
{
    struct source *s = &flow->s;
    struct cofi_packet packet;
    while (cofi__source_more(flow), s->p < s->end && source_offset(s) < to) {
        int size = cofi_packet_decode(&flow->context, s->p, (size_t)(s->end - s->p), &packet);
        if (size > 0)
            cofi__clock_packet(&flow->clock, &packet);
        s->p += size > 0 ? size : 1;
        if (size <= 0 && !cofi__sync(flow))
            return;
    }
}

int cofi__flow_see_code(struct cofi_flow *flow, uint64_t ns)
{
    flow->code.seen_ns = ns;
    if (cofi_view_next_change(flow->code.view) > ns)
        return 0;
    flow->code.viewed_ns[0] = ns;
    flow->code.changed = true;
    int changed = cofi_view_advance(flow->code.view, flow->code.seen_ns, cofi__block_changed, flow);
    return changed < 0 ? changed : 0;
}

int cofi__flow_catch_up(struct cofi_flow *flow, uint64_t psb)
{
    uint64_t ns;
    read_times(flow, psb);
    return cofi__code_time(flow, psb, &ns) ? cofi__flow_see_code(flow, ns) : 0;
}

/* As decoding would have come there: from farther and farther back, until a time is known. */
static int go_on_with_time(struct cofi_flow *flow, uint64_t psb)
{
    const struct cofi_flow_config *c = &flow->config;
    if (flow->known.timeless)
        return cofi__flow_catch_up(flow, psb);
    size_t at = (size_t)(psb - c->offset), before = at;
    for (size_t back = BACK_FIRST; before && back <= BACK_MOST && !flow->clock.known; back *= 4) {
        before = at > back ? cofi_sync_backward(c->gen, c->bytes, c->n, at - back) : COFI_NO_PSB;
        if (before == COFI_NO_PSB)
            before = 0;
        cofi__flow_restart(flow, before);
        cofi__sync(flow);
        COFI_TRY(cofi__flow_catch_up(flow, psb));
    }
    return 0;
}

int cofi_flow_seek(struct cofi_flow *flow, uint64_t offset)
{
    if (flow->config.pull)
        return COFI_ERR_UNSUPPORTED;
    COFI_TRY(cofi__flow_rewind_code(flow));
    uint64_t skip = offset > flow->config.offset ? offset - flow->config.offset : 0;
    if (skip > flow->config.n)
        skip = flow->config.n;
    cofi__flow_restart(flow, skip);
    if (!cofi__sync(flow))
        return COFI_ERR_NO_SYNC;
    uint64_t psb = source_offset(&flow->s);
    if (flow->config.gen == COFI_RTIT)
        COFI_TRY(go_on_with_time(flow, psb));
    flow->first_offset = psb;
    flow->started = true;
    return 0;
}

/* Whether the PSB+ that the flow stands at tells a time (PT's TSC), or what RTIT told before, or tells soon. */
static bool has_time(struct cofi_flow *flow)
{
    for (unsigned packets = 0; packets < 64 && !flow->clock.known; packets++) {
        flow->n = 0;
        if (pump(flow) == PUMP_END || flow->packet_error < 0)
            break;
        if (cofi__ends_psb_plus(flow->packet.kind))
            break;
        cofi__clock_packet(&flow->clock, &flow->packet);
    }
    flow->packet_error = 0;
    return flow->clock.known;
}

/* The first PSB from there on whose time is known; one that damage or a break cut is passed over. False:
 * there is none before end. */
static bool next_with_time(struct cofi_flow *flow, uint64_t end, uint64_t *psb)
{
    while ((*psb = source_offset(&flow->s)) < end) {
        if (has_time(flow))
            return true;
        if (!cofi__sync(flow))
            return false;
    }
    return false;
}

/* RTIT's PSB tells no address: from the one before it the way is known at this one. */
static uint64_t where_way_is_known(const struct cofi_flow *flow, uint64_t psb)
{
    const struct cofi_flow_config *c = &flow->config;
    if (c->gen != COFI_RTIT)
        return psb;
    size_t before = cofi_sync_backward(c->gen, c->bytes, c->n, (size_t)(psb - c->offset));
    return before == COFI_NO_PSB ? psb : c->offset + before;
}

int cofi_flow_seek_time(struct cofi_flow *flow, uint64_t ticks)
{
    uint64_t low = flow->config.offset, high = flow->config.offset + flow->config.n, best = low;
    ticks -= cofi__clock_ahead(&flow->config.time, ticks);
    while (low < high) {
        uint64_t middle = low + (high - low) / 2, at;
        int status = cofi_flow_seek(flow, middle);
        if (status < 0 && status != COFI_ERR_NO_SYNC)
            return status;
        if (status == 0 && next_with_time(flow, high, &at) && flow->clock.exact <= ticks) {
            best = at;
            low = at + 1;
        } else {
            high = middle;
        }
    }
    return cofi_flow_seek(flow, where_way_is_known(flow, best));
}
