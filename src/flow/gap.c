/* SPDX-License-Identifier: MIT
 * Losing the way, and finding it at the next place where that is safe. */
#include "flow/walker.h"

#include <string.h>

#include "base/error.h"

enum next { NEXT_TNT, NEXT_TIP, NEXT_OTHER };

/* What follows the TIP in hand; padding and MNT force nothing out. */
static enum next what_follows(struct cofi_flow *flow)
{
    if (flow->s.end - flow->s.p < SOURCE_AHEAD)
        cofi__source_more(flow);
    const uint8_t *p = flow->s.p, *end = flow->s.end;
    while (p < end && !*p)
        p++;
    bool is_mnt = end - p > 1 && p[0] == 0x02 && p[1] == 0xc3;
    if (p < end && ((*p & 31) == PT_TIP(0) || is_mnt))
        return NEXT_TIP; /* behind an MNT one may be, too */
    bool tnt = p < end && (cofi__pt_outcomes[*p] || (end - p > 1 && p[0] == 0x02 && p[1] == 0xa3));
    return tnt ? NEXT_TNT : NEXT_OTHER;
}

/* Whether from ip on an outcome may be used before a TIP is. */
static bool outcome_comes_first(struct cofi_flow *flow, uint64_t ip)
{
    struct goal goal = {0};
    struct place place;
    uint64_t before = position(flow);
    place_set(flow, ip);
    enum goal_stop stop = cofi__walk_find(flow, &goal, &place);
    place_set(flow, before);
    uint8_t cls = stop == STOP_ERROR ? COFI_CLASS_JCC : place.block->pub.cls;
    return cls == COFI_CLASS_JCC || (cls == COFI_CLASS_RET && !flow->known.dis_retc);
}

/* Not where another TIP would have to stand behind it then; nor where only itself can have forced the
 * outcomes before it out: they are less than a TNT packet holds, and the next one follows. */
bool cofi__may_have_waited(struct cofi_flow *flow)
{
    enum next next = what_follows(flow);
    if (next != NEXT_TIP &&
        ((next == NEXT_TNT && flow->tail < TNT_SHORT) || !outcome_comes_first(flow, flow->packet_ip)))
        return false;
    /* it must not last where every TIP may have waited */
    flow->waits.doubt_units -= flow->waits.doubt_units > units_used(flow) && !flow->waits.passed;
    flow->waits.doubt_parts -= flow->waits.doubt_parts > tip_parts(flow) && !flow->waits.passed;
    flow->waits.passed = true;
    return true;
}

static bool is_wrong(int cause)
{
    return cause == COFI_ERR_MISMATCH || cause == COFI_ERR_BAD_PACKET || cause == COFI_ERR_BAD_RETC;
}

bool cofi__packets_are_wrong(const struct cofi_flow *flow) { return flow->lost && is_wrong(flow->gap.cause); }

/* Damage may have looked like what comes with EventEn only; or packets were on where that said that they were off. */
void cofi__doubt_events(struct cofi_flow *flow, int cause)
{
    if (is_wrong(cause) && (flow->ovf.events_seen < EVENTS_FIRM || (flow->fup.of_mode && !flow->enabled)))
        flow->ovf.events_seen = 0;
}

/* From here on nothing is known. any_tip: the packets are still good (only code was missing), so any TIP
 * says where execution is; else only one whose address does not rest on others. */
int cofi__lose(struct cofi_flow *flow, int cause, bool any_tip, const char *text)
{
    if (flow->status < 0)
        return flow->status;
    cofi__doubt_events(flow, cause);
    if (flow->lost)
        return 0;
    cofi__sieve_leave(flow);
    any_tip |= cause == COFI_ERR_MISMATCH && flow->waits.trusted; /* it had waited, and the packets are good */
    note_waited(flow, cause != COFI_ERR_MISMATCH);
    flow->waits.outcomes_before = flow->n || flow->stats.tnt_bits != flow->waits.forced_bits;
    flow->waits.passed = false;
    flow->lost = true;
    flow->spans.draft.on = false;
    flow->spans.last = NULL;
    flow->gap.any_tip = any_tip;
    flow->code.missed |= cause == COFI_ERR_NO_CODE || (cause == COFI_ERR_NO_SYNC && !flow->speculative);
    flow->gap.cause = (int16_t)cause;
    flow->gap.text = text;
    flow->gap.ip = flow->enabled ? position(flow) : COFI_NO_IP;
    bool contradicts = cause == COFI_ERR_MISMATCH && flow->has_packet && !flow->n;
    /* not: read so far, which is less where time is asked for */
    flow->gap.offset = contradicts ? flow->packet_offset : flow->used.offset;
    flow->gap.ticks = flow->config.want_time ? cofi__clock_ticks(&flow->clock) : flow->used.ticks;
    ret_clear(flow);
    flow->n = 0;
    flow->cur = NULL;
    flow->last_run = NULL;
    flow->ovf.psb.ip = flow->mov_cr3.ip = COFI_NO_IP; /* outcomes and targets in a gap are not counted */
    flow->fup.pip_units = UINT64_MAX;
    flow->async = flow->far = flow->tip_due = flow->overflow = flow->tentative = flow->sleep.on = false;
    flow->idle.runs = 0;
    flow->idle.mark = NULL;
    return 0;
}

/* Where a gap ended there is no code: the next one begins, and what is said of its packets still holds. */
int cofi__lose_again(struct cofi_flow *flow)
{
    COFI_TRY(cofi__lose(flow, COFI_ERR_NO_CODE, true, "no code where execution goes [PTREF 9.5]"));
    flow->waits.outcomes_before = flow->waits.passed = true;
    return 0;
}

/* In the reach of [ERR E8]: 21 packets, of at most 10 bytes, behind a PSB of 9. */
static bool soon_behind_psb(const struct cofi_flow *flow)
{
    return flow->config.gen == COFI_RTIT && flow->synced && is_wrong(flow->gap.cause) &&
           flow->gap.offset >= flow->psb.offset && flow->gap.offset - flow->psb.offset <= 9 + 21 * 10;
}

/* The packet in hand tells where execution is again. */
int cofi__found(struct cofi_flow *flow)
{
    if (!flow->lost)
        return 0;
    flow->lost = false;
    struct cofi_flow_event event = cofi__event(flow, COFI_FLOW_GAP, flow->gap.offset);
    event.cause = flow->gap.cause;
    event.text = flow->gap.text;
    event.ip = flow->gap.ip;
    event.end = flow->ended ? UINT64_MAX : flow->packet_offset;
    event.since = flow->gap.ticks;
    event.a = soon_behind_psb(flow) ? 8 : 0;
    uint64_t end = flow->ended ? source_offset(&flow->s) : flow->packet_offset;
    if (end > flow->gap.offset)
        flow->stats.lost_bytes += end - flow->gap.offset;
    if (event.time.ticks > event.since)
        flow->stats.lost_ticks += event.time.ticks - event.since;
    return cofi__emit_event(flow, &event);
}

static const uint8_t pt_psb[16] = {2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82};
static const uint8_t rtit_psb[9] = {0xc0};

/* The pattern may go on when data repeat it: the packet is the last one [PTREF 9.1]. */
static void last_of_pattern(struct cofi_flow *flow)
{
    for (;;) {
        if (flow->s.end - flow->s.p < SOURCE_AHEAD)
            cofi__source_more(flow);
        if (flow->s.end - flow->s.p < 18 || flow->s.p[16] != 2 || flow->s.p[17] != 0x82)
            return;
        flow->s.p += 2;
    }
}

/* Whether the current byte begins a PSB. */
bool cofi__at_psb(struct cofi_flow *flow)
{
    if (flow->s.end - flow->s.p < SOURCE_AHEAD)
        cofi__source_more(flow);
    return flow->s.end - flow->s.p >= (ptrdiff_t)sizeof pt_psb && !memcmp(flow->s.p, pt_psb, sizeof pt_psb);
}

/* An OVF [SDM Overflow (OVF) Packet], or bytes that look like it, of a packet that is not read: a FUP
 * behind the PSB+ is doubtful in either case. */
static bool ovf_precedes(const struct cofi_flow *flow, const uint8_t *p)
{
    const uint8_t *first = flow->config.bytes ? flow->config.bytes : flow->s.begin;
    return p - first >= 2 && p[-2] == 0x02 && p[-1] == 0xf3;
}

bool cofi__sync_here(struct cofi_flow *flow)
{
    bool pt = flow->config.gen == COFI_PT;
    const uint8_t *pattern = pt ? pt_psb : rtit_psb;
    size_t size = pt ? sizeof pt_psb : sizeof rtit_psb;
    struct source *s = &flow->s;
    flow->context.block = 0;
    flow->last_ip = 0;
    flow->last_ip_valid = false;
    for (;;) {
        if (s->end - s->p < SOURCE_AHEAD)
            cofi__source_more(flow);
        size_t left = (size_t)(s->end - s->p);
        const uint8_t *hit = left ? memmem(s->p, left, pattern, size) : NULL;
        if (hit) {
            s->p = hit;
            flow->ovf.before = pt && ovf_precedes(flow, hit);
            if (pt)
                last_of_pattern(flow);
            return true;
        }
        if (left < SOURCE_AHEAD) {
            s->p = s->end;
            return false;
        }
        s->p = s->end - (size - 1);
    }
}

bool cofi__sync(struct cofi_flow *flow)
{
    bool hit;
    while (!(hit = cofi__sync_here(flow)) && source_ends_at_break(&flow->s))
        cofi__source_pass(flow);
    return hit;
}

/* The packet before may have been none either, cut where the tracer stopped, and have swallowed the beginning of
 * a PSB. The PSB that was read last begins farther back than its own length, so that it is not found again. */
bool cofi__resync(struct cofi_flow *flow)
{
    size_t back = flow->config.gen == COFI_PT ? sizeof pt_psb - 1 : sizeof rtit_psb - 1, past = source_past(&flow->s);
    flow->s.p -= past < back ? past : back;
    return cofi__sync_here(flow);
}
