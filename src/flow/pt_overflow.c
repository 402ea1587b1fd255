/* SPDX-License-Identifier: MIT
 * OVF, and where the output was full; behind an OVF: where PT's packets tell again where execution is,
 * and what they leave in doubt [PTREF 9.6]. */
#include "flow/walker.h"

#include "base/error.h"
#include "flow/block.h"
#include "flow/query.h"

/* Take a packet's word that tracing is on, until a TIP.PGE says that it was not. offset: of the packet;
 * UINT64_MAX: an event has shown it. */
void cofi__presume_enabled(struct cofi_flow *flow, uint64_t offset)
{
    flow->enabled = flow->tentative = true;
    flow->fup.offset = offset;
    flow->fup.stray = flow->fup.of_mode = false;
}

/* There is only 64-bit code. */
void cofi__mode_above_4_gib(struct cofi_flow *flow)
{
    if (flow->pend.mode ? flow->pend.mode_bits == 64 : flow->code.mode == 64)
        return;
    flow->pend.mode = true;
    flow->pend.mode_bits = 64;
    flow->pend.mode_offset = flow->packet_offset;
}

/* Where execution goes on behind lost packets, among which may have been a MODE.Exec; another one may
 * have told it since. */
static int go_on_behind_loss(struct cofi_flow *flow, uint64_t ip)
{
    if (ip >> 32 && !flow->pend.mode)
        cofi__mode_above_4_gib(flow);
    place_set(flow, ip);
    return cofi__due_at_target(flow, may_be_stray(flow) ? COFI_NO_IP : ip);
}

/* An overflow ends where packets tell an address again, or leaves tracing off [PTREF 9.6].
 * What they told before it, the mode above all, holds at that address. */
int cofi__end_overflow(struct cofi_flow *flow, uint64_t ip)
{
    if (!flow->overflow)
        return 0;
    flow->overflow = false;
    struct cofi_flow_event event = cofi__event(flow, COFI_FLOW_OVERFLOW, flow->ovf.offset);
    event.target = ip;
    event.since = flow->ovf.ticks;
    COFI_TRY(cofi__emit_event(flow, &event));
    flow->enabled = ip != COFI_NO_IP;
    if (!flow->enabled)
        return 0;
    COFI_TRY(go_on_behind_loss(flow, ip));
    cofi__code_at_return(flow);
    return 0;
}

/* Packets are lost. What is due to others is not told any more; outcomes and address before it were used up. */
static int lose_packets(struct cofi_flow *flow)
{
    flow->synced |= flow->in_psb; /* a PSB+ that it ends is one, too */
    flow->in_psb = flow->ovf.before = false;
    COFI_TRY(cofi__settle(flow));
    COFI_TRY(cofi__pend_flush(flow, COFI_NO_IP));
    if (cofi__fup_is_doubtful(flow))
        COFI_TRY(cofi__show_without_place(flow));
    flow->ovf.psb.ip = COFI_NO_IP; /* this one's FUP may still come, no other's */
    flow->sleep.on = false; /* it may hide a PWRX */
    COFI_TRY(cofi__end_overflow(flow, COFI_NO_IP));
    flow->pend.tsx = flow->pend.mode = false;
    if (flow->enabled)
        flow->disabled_ip = COFI_NO_IP; /* where it went off then is lost, too */
    flow->async = flow->tip_due = flow->waits.trusted = false;
    flow->last_ip = 0;
    flow->last_ip_valid = false;
    ret_clear(flow);
    cofi__clock_break(&flow->clock);
    return 0;
}

/* [PTREF 9.6] */
int cofi__pt_ovf(struct cofi_flow *flow)
{
    if (flow->lost)
        COFI_TRY(cofi__found(flow));
    COFI_TRY(lose_packets(flow));
    flow->enabled = false;
    flow->overflow = flow->time_hidden = true;
    flow->ovf.offset = flow->packet_offset;
    flow->ovf.ticks = cofi__clock_ticks(&flow->clock);
    return 0;
}

/* The output was full, and a packet may be cut. Tracing has begun anew since, and what the first address
 * may be compressed against is among what is lost [PTREF 4.4]. */
int cofi__pt_break(struct cofi_flow *flow)
{
    flow->used.offset = flow->packet_offset = source_offset(&flow->s);
    COFI_TRY(lose_packets(flow));
    COFI_TRY(
        cofi__lose(flow, COFI_ERR_FULL, false, "the trace buffer was full, and what ran then is lost [PTREF 4.4]"));
    flow->enabled = flow->gap.any_tip = flow->waits.outcomes_before = false;
    flow->headless = !flow->synced;
    flow->context.block = 0;
    cofi__source_pass(flow);
    return 0;
}

/* Its FUP is missing [ERR SKD010]; tracing is on, though. */
int cofi__outcomes_after_overflow(struct cofi_flow *flow)
{
    COFI_TRY(cofi__end_overflow(flow, COFI_NO_IP));
    COFI_TRY(cofi__show_without_place(flow));
    COFI_TRY(cofi__lose(flow, COFI_ERR_MISMATCH, true, "branch outcomes after OVF before any address [PTREF 9.6]"));
    flow->enabled = flow->code.missed = true;
    return 0;
}

/* A short address rests on the one before, which may be missing with the overflow's own FUP. */
static bool address_is_sure(struct cofi_flow *flow)
{
    flow->last_ip_valid |= flow->packet_full_ip;
    return flow->packet_has_ip && flow->last_ip_valid;
}

/* The FUP is missing again, and what ran up to this TIP with it. */
int cofi__tip_after_overflow(struct cofi_flow *flow)
{
    if (!address_is_sure(flow))
        return 0;
    flow->code.missed = true;
    return cofi__end_overflow(flow, flow->packet_ip);
}

/* ---- a FUP that may be the overflow's own or an event's ----
 *
 * Two ways lead to it: the overflow's own may be missing [ERR SKD010]; and a PSB+ may have come before it and told the
 * address already [SDM Overflow (OVF) Packet]. Execution is there in any case. Of an event a TIP follows. So does it of
 * the overflow's own where an indirect branch comes next: then nothing tells which of the two it was, and what ran up
 * to that TIP is a gap (decision 0620). Where decoding begins at the PSB+ and no OVF stands before it, it is an
 * event's. */

const char cofi__doubtful_fup[] =
    "a FUP behind an overflow may be that's own or an event's, and a TIP follows [ERR SKD010]";

static void doubt_fup(struct cofi_flow *flow)
{
    flow->async = true;
    flow->async_ip = flow->ovf.psb.ip = flow->packet_ip;
    flow->async_offset = flow->packet_offset;
    flow->ovf.psb.units = units_used(flow);
    flow->ovf.seen = true;
}

/* [ERR SKD010]: its own, or if that is missing a transaction's, which a MODE.TSX stands before, or an event's. */
static int first_fup_after_overflow(struct cofi_flow *flow)
{
    COFI_TRY(cofi__end_overflow(flow, flow->packet_ip));
    flow->code.missed = true;
    if (!flow->ovf.behind_tsx || flow->pend.abort)
        doubt_fup(flow);
    if (flow->ovf.behind_tsx)
        flow->ovf.psb.ip = COFI_NO_IP;
    return 0;
}

/* Behind a MODE.Exec it may be that of a new RFLAGS.IF, with packets off, until it is known whether EventEn is set. */
static int fup_behind_mode(struct cofi_flow *flow)
{
    bool may_be = flow->pend.mode && !flow->config.ctl_known;
    COFI_TRY(cofi__end_overflow(flow, flow->packet_ip));
    if (may_be)
        cofi__presume_enabled(flow, UINT64_MAX);
    flow->fup.of_mode = may_be;
    return 0;
}

/* The address where tracing goes on after an overflow. [ERR APL12]: where tracing is off by then, whatever it was
 * before, the FUP is a stray one; then a TIP.PGE or a PSB+ without FUP follows before anything else of the flow. */
int cofi__fup_after_overflow(struct cofi_flow *flow)
{
    if (!flow->packet_has_ip)
        return 0;
    if (flow->errata & ERR_SKD010)
        return first_fup_after_overflow(flow);
    if (!(flow->errata & ERR_APL12))
        return fup_behind_mode(flow);
    COFI_TRY(cofi__end_overflow(flow, COFI_NO_IP));
    cofi__presume_enabled(flow, flow->packet_offset);
    flow->fup.stray = true;
    return go_on_behind_loss(flow, flow->packet_ip);
}

/* [ERR APL12]: a packet's own FUP behind one that may be a stray one. If that was none, execution has
 * come from there, and where code is missing on the way nothing is known of it before this one. */
void cofi__stray_fup_again(struct cofi_flow *flow)
{
    struct goal goal = {.by_ip = true, .ip = flow->packet_ip};
    struct place place;
    if (!flow->packet_has_ip || cofi__walk_find(flow, &goal, &place) != STOP_ERROR ||
        flow->code.error != COFI_ERR_NO_CODE)
        return;
    place_set(flow, flow->packet_ip);
    flow->fup.offset = flow->packet_offset;
    flow->code.missed = true;
}

/* So many packets that come with EventEn only: once it is sure that it is set, such a FUP was not the overflow's. */
void cofi__event_en_shows(struct cofi_flow *flow, unsigned n)
{
    n += flow->ovf.events_seen;
    if (flow->ovf.events_seen < EVENTS_SURE)
        flow->ovf.events_seen = n < EVENTS_SURE ? (uint8_t)n : EVENTS_SURE;
    if (flow->ovf.events_seen >= EVENTS_SURE && flow->tentative && flow->fup.of_mode)
        flow->enabled = flow->tentative = false;
}

/* PTW, EXSTOP and their like stand before it, or the MODE.Exec of a new RFLAGS.IF, so it is theirs; the
 * overflow's own would have come first, so packets are off [SDM Overflow (OVF) Packet]; where
 * [ERR SKD010] may have lost that, later packets tell. */
int cofi__fup_of_packet_after_overflow(struct cofi_flow *flow)
{
    if (!(flow->errata & ERR_SKD010))
        COFI_TRY(cofi__end_overflow(flow, COFI_NO_IP));
    uint64_t ip = address_is_sure(flow) ? flow->packet_ip : COFI_NO_IP;
    flow->fup.of_mode = !flow->pend.fup && !flow->config.ctl_known;
    cofi__note_sleep(flow, ip);
    COFI_TRY(cofi__pend_flush(flow, ip));
    return flow->pend.mode ? cofi__due_at_target(flow, ip) : 0;
}

bool cofi__fup_is_doubtful(const struct cofi_flow *flow)
{
    return flow->async && flow->ovf.psb.ip != COFI_NO_IP && flow->async_ip == flow->ovf.psb.ip &&
           flow->ovf.psb.units == units_used(flow);
}

/* The PSB+ in hand has ended an overflow, or one that came before all that was read. */
void cofi__expect_overflows_fup(struct cofi_flow *flow, bool seen)
{
    flow->ovf.psb.ip = flow->psb.ip;
    flow->ovf.psb.units = units_used(flow);
    flow->ovf.seen = seen;
}

/* Behind a PSB+ that has ended an overflow: its own, if the processor is known to send it. */
bool cofi__fup_is_overflows(struct cofi_flow *flow)
{
    bool sure = flow->ovf.seen && flow->config.family && !(flow->errata & ERR_SKD010) && !flow->async &&
                !flow->pend.tsx;
    if (!sure || flow->ovf.psb.ip == COFI_NO_IP || flow->packet_ip != flow->ovf.psb.ip ||
        flow->ovf.psb.units != units_used(flow))
        return false;
    flow->ovf.psb.ip = COFI_NO_IP;
    return true;
}

/* What comes now is no event's TIP, so that it was the overflow's. A PIP in between is what runs behind it then. */
int cofi__take_overflows_fup(struct cofi_flow *flow)
{
    if (!cofi__fup_is_doubtful(flow))
        return 0;
    flow->async = false;
    flow->ovf.psb.ip = COFI_NO_IP;
    if (flow->pend.vmcs && flow->pend.vmcs_offset < flow->pend.paging_offset)
        COFI_TRY(cofi__bind_vmcs(flow));
    if (flow->pend.paging)
        COFI_TRY(cofi__bind_paging(flow));
    return flow->pend.vmcs ? cofi__bind_vmcs(flow) : 0;
}

/* Code that comes to a conditional branch first: no TIP is that's. */
static bool outcome_is_due(struct cofi_flow *flow)
{
    struct goal goal = {0};
    struct place place;
    return !flow->known.dis_tnt && cofi__walk_find(flow, &goal, &place) == STOP_BRANCH &&
           place.block->pub.cls == COFI_CLASS_JCC;
}

/* The event's, or that of an instruction behind the FUP. */
int cofi__show_without_place(struct cofi_flow *flow)
{
    if (flow->pend.paging)
        COFI_TRY(cofi__show_paging(flow, COFI_NO_IP));
    return flow->pend.vmcs ? cofi__show_vmcs(flow, COFI_NO_IP) : 0;
}

/* Tracing went on, but where is not told; [ERR APL11]; [ERR APL12]: the stray FUP may follow. No TIP
 * comes any more for a PIP from before the overflow. */
int cofi__pgd_after_overflow(struct cofi_flow *flow)
{
    flow->disabled_ip = COFI_NO_IP; /* where it went off is lost, too */
    if (!(flow->errata & ERR_APL12))
        COFI_TRY(cofi__end_overflow(flow, COFI_NO_IP));
    return cofi__show_without_place(flow);
}

int cofi__tip_behind_doubtful_fup(struct cofi_flow *flow)
{
    flow->ovf.psb.ip = COFI_NO_IP;
    if (!flow->ovf.seen || outcome_is_due(flow)) {
        COFI_TRY(cofi__end_async(flow, COFI_FLOW_ASYNC));
        place_set(flow, flow->packet_ip);
        return cofi__due_at_target(flow, flow->packet_ip);
    }
    COFI_TRY(cofi__lose(flow, COFI_ERR_MISMATCH, true, cofi__doubtful_fup));
    flow->code.missed = true;
    COFI_TRY(cofi__show_without_place(flow));
    return cofi__resume_at_tip(flow);
}
