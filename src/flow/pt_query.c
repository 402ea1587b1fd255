/* SPDX-License-Identifier: MIT
 * PT packets -> what they bind to: the address or branch at which each one applies [PTREF 9.4]. */
#include "flow/walker.h"

#include <string.h>

#include "base/error.h"
#include "flow/query.h"

/* Tracing was known to be on by a PSB+ only, and now a packet shows that it is. */
int cofi__settle(struct cofi_flow *flow)
{
    if (!flow->tentative)
        return 0;
    flow->tentative = false;
    if (flow->fup.offset == UINT64_MAX)
        return 0;
    struct cofi_flow_event event = cofi__event(flow, COFI_FLOW_ENABLED, flow->fup.offset);
    event.target = position(flow);
    return cofi__emit_event(flow, &event);
}

/* [PTREF 9.8] Goldmont: the FUP of a far transfer may have the address behind it. */
static bool is_behind_branch(const struct cofi_flow *flow, const struct place *place, uint64_t ip)
{
    return flow->errata & ERR_GOLDMONT && place->block && takes_tip(place->block->pub.cls) &&
           place->block->pub.end == ip;
}

const char cofi__outcomes_untold[] = "where it led is not told, for DisTNT is set [SDM Taken/Not-taken (TNT) Packet]";

/* A conditional branch, or a RET that may have been compressed, whose outcome nothing tells. */
bool cofi__is_untold(const struct cofi_flow *flow, const struct place *place)
{
    uint8_t cls = flow->known.dis_tnt && !place->named ? place->block->pub.cls : COFI_CLASS_OTHER;
    return cls == COFI_CLASS_JCC || (cls == COFI_CLASS_RET && !flow->known.dis_retc);
}

/* Past such a branch, to where the packet in hand says that execution came. */
static int walk_past(struct cofi_flow *flow, const struct place *place)
{
    uint64_t branch = place->block->pub.insns[place->insn].ip;
    COFI_TRY(cofi__walk_take(flow, place, place->insn + 1));
    place_set(flow, branch);
    COFI_TRY(cofi__lose(flow, COFI_ERR_NO_OUTCOMES, true, cofi__outcomes_untold));
    return cofi__found(flow);
}

/* The gap ends: the packet in hand says that execution is at ip. */
static int go_on(struct cofi_flow *flow, uint64_t ip)
{
    COFI_TRY(cofi__found(flow));
    place_set(flow, ip);
    bool to_user = flow->gap.ip != COFI_NO_IP && flow->gap.ip >> 63 && !(ip >> 63);
    return to_user ? cofi__code_due(flow, flow->packet_offset) : 0; /* see take_tip */
}

/* The FUP of a packet that comes wherever the context is traced, whether or not packets of branches are on. */
static bool fup_is_of_packet(const struct cofi_flow *flow)
{
    return flow->pend.fup || (flow->pend.mode && cofi__tells_iflag(flow));
}

/* Go to ip by direct jumps; it must be reached without a packet. */
static int walk_to(struct cofi_flow *flow, uint64_t ip, const char *text)
{
    struct goal goal = {.by_ip = true, .ip = ip};
    struct place place;
    if (position(flow) == ip)
        return 0;
    enum goal_stop stop = cofi__walk_find(flow, &goal, &place);
    if (stop == STOP_INSN)
        return cofi__walk_take(flow, &place, place.insn);
    if (stop == STOP_BRANCH && is_behind_branch(flow, &place, ip))
        return cofi__walk_take(flow, &place, place.insn + 1);
    if (stop == STOP_BRANCH && cofi__is_untold(flow, &place)) {
        COFI_TRY(walk_past(flow, &place));
        place_set(flow, ip);
        return 0;
    }
    bool missing = stop == STOP_ERROR && flow->code.error == COFI_ERR_NO_CODE;
    if (flow->errata & ERR_BDM64 && flow->pend.tsx && flow->pend.abort && !(missing && here(flow))) {
        place_set(flow, ip); /* [ERR BDM64]: the target of the branch before an abort was wrong */
        return 0;
    }
    if (missing) {
        COFI_TRY(cofi__walk_lose(flow, &place, "no code on the way to a FUP's address [PTREF 9.5]"));
        return go_on(flow, ip);
    }
    COFI_TRY(cofi__lose(flow, COFI_ERR_MISMATCH, true, text));
    return fup_is_of_packet(flow) ? 0 : go_on(flow, ip);
}

/* ---- branches ---- */

/* The TIP in hand may have waited for outcomes, so that execution is somewhere behind its address. It tells
 * what holds there all the same, and where there is no code it is known where the next gap begins. */
static int pass_over_tip(struct cofi_flow *flow)
{
    if (cofi__block_at(flow, flow->packet_ip))
        return cofi__due_at_target(flow, flow->packet_ip);
    COFI_TRY(go_on(flow, flow->packet_ip));
    flow->enabled = true;
    COFI_TRY(cofi__due_at_target(flow, flow->packet_ip));
    return cofi__lose_again(flow);
}

int cofi__resume_at_tip(struct cofi_flow *flow)
{
    if (!flow->packet_has_ip || !(flow->gap.any_tip || flow->packet_full_ip))
        return cofi__due_at_target(flow, COFI_NO_IP);
    if (may_have_waited(flow))
        return pass_over_tip(flow);
    COFI_TRY(go_on(flow, flow->packet_ip));
    flow->enabled = true;
    flow->waits.trusted = flow->waits.outcomes_before;
    if (flow->waits.trusted)
        flow->waits.forced_bits = flow->stats.tnt_bits - 1; /* nothing has forced them out yet */
    return cofi__due_at_target(flow, flow->packet_ip);
}

/* The target of an asynchronous event whose FUP came before. */
int cofi__end_async(struct cofi_flow *flow, enum cofi_flow_event_kind kind)
{
    struct cofi_flow_event event = cofi__event(flow, kind, flow->async_offset);
    event.ip = flow->async_ip;
    event.target = flow->packet_ip;
    flow->async = false;
    flow->mov_cr3.ip = COFI_NO_IP;
    if (flow->pend.n)
        COFI_TRY(cofi__pend_flush(flow, flow->async_ip));
    return cofi__emit_event(flow, &event);
}

static int act_tip(struct cofi_flow *flow)
{
    if (flow->lost)
        return cofi__resume_at_tip(flow);
    if (flow->overflow)
        return cofi__tip_after_overflow(flow);
    if (!flow->enabled) {
        COFI_TRY(cofi__lose(flow, COFI_ERR_MISMATCH, false, "a TIP while tracing is off [SDM Target IP (TIP) Packet]"));
        return cofi__resume_at_tip(flow);
    }
    if (!flow->packet_has_ip)
        return cofi__lose(flow, COFI_ERR_MISMATCH, false, "a TIP without an address [SDM IP Compression]");
    if (cofi__fup_is_doubtful(flow))
        return cofi__tip_behind_doubtful_fup(flow);
    COFI_TRY(cofi__end_async(flow, COFI_FLOW_ASYNC));
    place_set(flow, flow->packet_ip);
    return cofi__due_at_target(flow, flow->packet_ip);
}

static int act_pge(struct cofi_flow *flow)
{
    uint64_t ip = flow->packet_ip;
    if (!flow->packet_has_ip)
        return flow->lost ? 0 : cofi__lose(flow, COFI_ERR_MISMATCH, false, "TIP.PGE without an address");
    if (flow->lost) {
        if (!flow->gap.any_tip && !flow->packet_full_ip)
            return 0;
        COFI_TRY(cofi__found(flow));
    } else if (flow->overflow) {
        COFI_TRY(cofi__end_overflow(flow, COFI_NO_IP));
    } else if (flow->enabled && !flow->tentative) {
        COFI_TRY(cofi__lose(flow, COFI_ERR_MISMATCH, true,
                            "TIP.PGE while tracing is on [SDM Packet Generation Enable (TIP.PGE)]"));
        COFI_TRY(cofi__found(flow));
    }
    flow->mov_cr3.ip = flow->ovf.psb.ip = COFI_NO_IP;
    flow->waits.trusted = flow->fup.of_mode = false;
    flow->tentative = false; /* [ERR BDM70]: the PSB+ told the address too early */
    COFI_TRY(cofi__code_due(flow, flow->packet_offset));
    COFI_TRY(cofi__due_at_target(flow, ip));
    flow->enabled = true;
    flow->rtit.stopped = false;
    ret_clear(flow);
    place_set(flow, ip);
    struct cofi_flow_event event = cofi__event(flow, COFI_FLOW_ENABLED, flow->packet_offset);
    event.target = ip;
    event.ip = flow->disabled_ip;
    cofi__code_at_return(flow);
    return cofi__emit_event(flow, &event);
}

static int disable(struct cofi_flow *flow, enum cofi_flow_event_kind kind, uint64_t ip)
{
    COFI_TRY(cofi__due_at_target(flow, COFI_NO_IP));
    struct cofi_flow_event event = cofi__event(flow, kind, flow->packet_offset);
    event.ip = ip;
    event.target = flow->packet_ip;
    flow->enabled = false;
    flow->disabled_ip = ip;
    ret_clear(flow);
    return cofi__emit_event(flow, &event);
}

/* MOV CR3 in a TraceStop range that was come to without a branch: PIP, TIP.PGD with the next
 * instruction's address [PTREF 6.2]. The PIP has found it. A branch behind it that left the ranges for
 * that very address would look the same, where these are not known. */
static bool is_of_mov_cr3(const struct cofi_flow *flow)
{
    if (flow->config.ranges_known && cofi__in_ranges(flow, flow->mov_cr3.ip))
        return false;
    return flow->packet_has_ip && flow->mov_cr3.ip != COFI_NO_IP && flow->mov_cr3.units == units_used(flow) &&
           position(flow) == flow->packet_ip;
}

/* Whatever was before: a TIP.PGD says that tracing is off. */
static int disable_from_gap(struct cofi_flow *flow)
{
    COFI_TRY(cofi__found(flow));
    flow->disabled_ip = COFI_NO_IP;
    return disable(flow, COFI_FLOW_DISABLED, COFI_NO_IP);
}

/* The same where the FUP before it may have been a stray one [ERR APL12], so that the PIP was shown
 * without its place. */
static bool is_of_unplaced_mov_cr3(struct cofi_flow *flow)
{
    struct goal goal = {.classes = 1u << COFI_CLASS_MOV_CR3};
    struct place place;
    if (!flow->packet_has_ip || flow->fup.pip_units != units_used(flow) ||
        cofi__walk_find(flow, &goal, &place) != STOP_INSN)
        return false;
    const struct cofi_flow_block *b = &place.block->pub;
    return (place.insn + 1 < b->n ? b->insns[place.insn + 1].ip : b->end) == flow->packet_ip;
}

/* Where a TIP.PGD without a FUP binds [PTREF 9.4]: with an address, to the direct branch that leads
 * there; with and without, to the next branch that would take an outcome or a TIP. */
static int act_pgd_sync(struct cofi_flow *flow)
{
    struct goal goal = {.by_target = flow->packet_has_ip, .target = flow->packet_ip, .leaving = true};
    struct place place;
    if (is_of_mov_cr3(flow))
        return disable(flow, COFI_FLOW_DISABLED, flow->mov_cr3.ip);
    bool cr3_filter = !flow->config.ctl_known || flow->config.ctl >> 7 & 1;
    if (cr3_filter || flow->pend.paging || is_of_unplaced_mov_cr3(flow))
        goal.classes = 1u << COFI_CLASS_MOV_CR3;
    enum goal_stop stop = cofi__walk_find(flow, &goal, &place);
    if (stop == STOP_ERROR) {
        COFI_TRY(cofi__walk_lose(flow, &place, "no code on the way to a TIP.PGD [PTREF 9.4]"));
        return disable_from_gap(flow);
    }
    if (stop == STOP_BRANCH && cofi__is_untold(flow, &place)) {
        COFI_TRY(walk_past(flow, &place));
        return disable(flow, COFI_FLOW_DISABLED, COFI_NO_IP);
    }
    uint64_t ip = place.block->pub.insns[place.insn].ip;
    COFI_TRY(cofi__walk_take(flow, &place, place.insn + 1));
    if (stop == STOP_BRANCH)
        cofi__tell_outcome(flow, place.block, place.block->pub.target, 1); /* only a taken one leaves; it
                                                                            * has no outcome [PTREF 6.2] */
    return disable(flow, COFI_FLOW_DISABLED, ip);
}

/* [ERR SKD022]: a VM entry that clears TraceEn shows a FUP before its TIP.PGD, which has no address then; one with an
 * address is an interrupt's before the VM entry [PTREF 6.4]. */
static bool is_skd022(struct cofi_flow *flow)
{
    struct block *b = flow->errata & ERR_SKD022 && !flow->packet_has_ip ? here(flow) : NULL;
    return b && b->pub.insns[0].cls == COFI_CLASS_VMENTRY;
}

static int act_pgd(struct cofi_flow *flow)
{
    if (flow->lost)
        return disable_from_gap(flow);
    if (flow->overflow)
        return cofi__pgd_after_overflow(flow);
    if (!flow->enabled) {
        COFI_TRY(cofi__lose(flow, COFI_ERR_MISMATCH, true,
                            "TIP.PGD while tracing is off [SDM Packet Generation Disable (TIP.PGD)]"));
        return cofi__found(flow);
    }
    if (!flow->async)
        return act_pgd_sync(flow);
    bool doubtful = flow->ovf.seen && cofi__fup_is_doubtful(flow);
    flow->async = false;
    if (is_skd022(flow))
        return act_pgd_sync(flow);
    if (doubtful) {
        COFI_TRY(cofi__lose(flow, COFI_ERR_MISMATCH, true, cofi__doubtful_fup));
        return disable_from_gap(flow);
    }
    if (flow->pend.n)
        COFI_TRY(cofi__pend_flush(flow, flow->async_ip));
    return disable(flow, COFI_FLOW_ASYNC_DISABLED, flow->async_ip);
}

/* ---- FUP: an address for what stands before it, or the start of an asynchronous event ---- */

static int fup_bound(struct cofi_flow *flow)
{
    if (flow->async && flow->packet_ip != flow->async_ip)
        COFI_TRY(cofi__take_overflows_fup(flow));
    if (cofi__waits_for_space(flow))
        return 0;
    if (may_be_stray(flow))
        cofi__stray_fup_again(flow);
    if (flow->enabled && !flow->lost && !flow->async && !may_be_stray(flow))
        COFI_TRY(walk_to(flow, flow->packet_ip, "a FUP's address is not reached [PTREF 9.4]"));
    flow->mov_cr3.ip = COFI_NO_IP; /* a MOV CR3's own TIP.PGD would have come before */
    cofi__note_sleep(flow, flow->packet_ip);
    COFI_TRY(cofi__pend_flush(flow, flow->packet_ip));
    if (flow->pend.tsx && !flow->pend.abort)
        COFI_TRY(cofi__show_tsx(flow, flow->packet_ip));
    if (flow->pend.mode)
        return cofi__due_at_target(flow, flow->packet_ip);
    return 0;
}

static int act_fup(struct cofi_flow *flow)
{
    if (flow->overflow && fup_is_of_packet(flow))
        return cofi__fup_of_packet_after_overflow(flow);
    if (flow->overflow)
        return cofi__fup_after_overflow(flow);
    if (flow->lost && flow->gap.any_tip && flow->enabled && flow->packet_has_ip)
        COFI_TRY(go_on(flow, flow->packet_ip));
    bool bound = flow->pend.fup || (flow->pend.tsx && !flow->pend.abort) || flow->pend.mode;
    if (bound)
        return fup_bound(flow);
    if (flow->lost)
        return 0;
    if (!flow->enabled) {
        COFI_TRY(
            cofi__lose(flow, COFI_ERR_MISMATCH, true, "a FUP while tracing is off [SDM Flow Update (FUP) Packet]"));
        return cofi__found(flow);
    }
    if (cofi__fup_is_overflows(flow))
        return 0;
    COFI_TRY(cofi__take_overflows_fup(flow));
    if (cofi__waits_for_space(flow))
        return 0;
    if (flow->async)
        return cofi__lose(flow, COFI_ERR_MISMATCH, true, "a FUP where a TIP is due [PTREF 9.4]");
    if (!flow->packet_has_ip)
        return cofi__lose(flow, COFI_ERR_MISMATCH, true, "a FUP without an address [SDM Flow Update (FUP) Packet]");
    COFI_TRY(walk_to(flow, flow->packet_ip, "an asynchronous event's address is not reached [PTREF 9.5]"));
    if (flow->lost)
        return 0;
    flow->async = true;
    flow->async_ip = flow->packet_ip;
    flow->async_offset = flow->packet_offset;
    return 0;
}

/* ---- state ---- */

static int act_pip(struct cofi_flow *flow)
{
    if (flow->pend.paging) /* no event has two */
        COFI_TRY(cofi__take_overflows_fup(flow));
    if (cofi__waits_for_space(flow))
        return 0;
    flow->pend.paging = true;
    flow->pend.cr3 = flow->packet.pip.cr3;
    flow->pend.nr = flow->packet.pip.nr;
    flow->pend.paging_offset = flow->packet_offset;
    if (may_be_stray(flow) && !flow->in_psb)
        flow->fup.pip_units = units_used(flow);
    return flow->in_psb ? 0 : cofi__bind_paging(flow);
}

static int act_vmcs(struct cofi_flow *flow)
{
    if (flow->pend.vmcs)
        COFI_TRY(cofi__take_overflows_fup(flow));
    if (cofi__waits_for_space(flow))
        return 0;
    flow->pend.vmcs = true;
    flow->pend.vmcs_base = flow->packet.vmcs.base;
    flow->pend.vmcs_offset = flow->packet_offset;
    return flow->in_psb ? 0 : cofi__bind_vmcs(flow);
}

static int act_mode_exec(struct cofi_flow *flow)
{
    const struct cofi_packet *p = &flow->packet;
    if (p->mode_exec.csl && p->mode_exec.csd)
        return cofi__lose(flow, COFI_ERR_BAD_PACKET, false, "MODE.Exec with CS.L and CS.D [SDM MODE Packets]");
    flow->pend.mode = true;
    flow->pend.mode_bits = p->mode_exec.csl ? 64 : p->mode_exec.csd ? 32 : 16;
    flow->pend.iflag = p->mode_exec.iflag;
    cofi__event_en_shows(flow, p->mode_exec.iflag);
    flow->pend.mode_offset = flow->packet_offset;
    return 0;
}

static int act_mode_tsx(struct cofi_flow *flow)
{
    flow->pend.tsx = true;
    flow->pend.intx = flow->packet.mode_tsx.intx;
    flow->pend.abort = flow->packet.mode_tsx.abort;
    flow->pend.tsx_offset = flow->packet_offset;
    if (flow->in_psb || (flow->enabled && (!flow->lost || flow->gap.any_tip)))
        return 0; /* its FUP comes */
    flow->ovf.behind_tsx = flow->overflow;
    return cofi__show_tsx(flow, COFI_NO_IP);
}

static int act_tracestop(struct cofi_flow *flow)
{
    struct cofi_flow_event event = cofi__event(flow, COFI_FLOW_STOP, flow->packet_offset);
    event.ip = flow->enabled && !may_be_stray(flow) ? position(flow) : flow->disabled_ip;
    flow->enabled = flow->tentative = false;
    return cofi__emit_event(flow, &event);
}

/* ---- PSB+ ---- */

static int act_psb(struct cofi_flow *flow)
{
    COFI_TRY(cofi__take_overflows_fup(flow)); /* no PSB+ stands before an event's TIP */
    if (!flow->in_psb)
        COFI_TRY(cofi__show_without_place(flow)); /* whose TIP an overflow took */
    flow->last_ip = 0;
    flow->last_ip_valid = true;
    flow->mov_cr3.ip = COFI_NO_IP;
    cofi__clock_psb(&flow->clock);
    flow->in_psb = true;
    flow->psb.has_ip = false;
    flow->psb.offset = flow->packet_offset;
    flow->async = false;
    if (flow->pend.n)
        COFI_TRY(cofi__pend_flush(flow, COFI_NO_IP));
    flow->pend.mode = flow->pend.paging = flow->pend.vmcs = flow->pend.tsx = false;
    return 0;
}

/* Execution comes to the PSB+'s address without a packet. Where it does not, packets may have gone off
 * in what is wrong, and the PSB+'s word is all. */
static int walk_to_psb(struct cofi_flow *flow)
{
    uint64_t gaps = flow->stats.gaps;
    COFI_TRY(walk_to(flow, flow->psb.ip, "the PSB+'s address is not reached [PTREF 9.3]"));
    if (flow->lost)
        COFI_TRY(cofi__found(flow));
    if (flow->stats.gaps != gaps)
        cofi__presume_enabled(flow, UINT64_MAX);
    return 0;
}

/* Where execution was before the PSB+ must lead to its address without a packet [PTREF 9.3]. */
static int psb_position(struct cofi_flow *flow)
{
    if (flow->overflow && !flow->psb.has_ip) /* packets are off: a FUP behind it is not the overflow's [PTREF 5.11] */
        return cofi__end_overflow(flow, COFI_NO_IP);
    if (flow->lost || flow->overflow || !flow->synced) {
        COFI_TRY(cofi__found(flow));
        if (flow->overflow) {
            COFI_TRY(cofi__end_overflow(flow, flow->psb.ip));
            cofi__expect_overflows_fup(flow, true);
            cofi__presume_enabled(flow, UINT64_MAX); /* [ERR BDM70] */
            return 0;
        }
        flow->enabled = flow->psb.has_ip;
        if (flow->psb.has_ip && !flow->speculative) {
            cofi__expect_overflows_fup(flow, flow->ovf.before);
            cofi__presume_enabled(flow, flow->psb.offset);
        }
        flow->speculative = false;
    } else if (flow->enabled && flow->psb.has_ip) {
        COFI_TRY(walk_to_psb(flow));
    } else if (flow->enabled != flow->psb.has_ip) {
        if (flow->enabled && !may_be_stray(flow)) {
            COFI_TRY(cofi__lose(flow, COFI_ERR_MISMATCH, true, "PSB+ says that tracing is off [PTREF 9.3]"));
            COFI_TRY(cofi__found(flow));
        }
        flow->enabled = flow->tentative = false;
        if (flow->psb.has_ip)
            cofi__presume_enabled(flow, flow->psb.offset);
    }
    if (flow->psb.has_ip)
        place_set(flow, flow->psb.ip);
    return 0;
}

static int act_psbend(struct cofi_flow *flow)
{
    struct pend *pend = &flow->pend;
    if (!flow->in_psb) /* an OVF ended the PSB+ [PTREF 9.6], and its end was sent all the same */
        return 0;
    flow->in_psb = false;
    if (pend->paging)
        cofi__clock_guest(&flow->clock, pend->nr, pend->vmcs ? pend->vmcs_base : flow->code.vmcs, true);
    pend->paging &= !(pend->cr3 == flow->code.cr3 && pend->nr == flow->code.non_root);
    pend->vmcs &= pend->vmcs_base != flow->code.vmcs;
    pend->tsx &= pend->intx != flow->in_tx;
    if (flow->lost)
        cofi__doubt_events(flow, flow->gap.cause); /* what came in it may be damage, too */
    flow->ovf.events_seen += flow->ovf.events_seen == EVENTS_SURE;
    COFI_TRY(psb_position(flow));
    flow->ovf.before = flow->fup.of_mode = false;
    note_waited(flow, true);
    ret_clear(flow);
    flow->code.missed = false; /* what was missing on the way here is no CALL that it could have */
    flow->synced = true;
    COFI_TRY(cofi__code_due(flow, flow->psb.offset));
    COFI_TRY(cofi__due_at_target(flow, flow->psb.has_ip ? flow->psb.ip : COFI_NO_IP));
    struct cofi_flow_event event = cofi__event(flow, COFI_FLOW_PSB, flow->psb.offset);
    event.ip = flow->psb.has_ip ? flow->psb.ip : COFI_NO_IP;
    flow->used.ticks = flow->clock.now; /* as a piece has it that begins here */
    flow->paused = flow->psb.offset >= flow->stop_psb;
    return cofi__emit_event(flow, &event);
}

/* In PSB+ only status packets are allowed [PTREF 5.11]. Traces of guests made by Xen have some without a
 * PSBEND: where tracing is enabled the PSB+ is over, and what came before has told all that counts. */
static int in_psb(struct cofi_flow *flow)
{
    if (flow->packet.kind == COFI_PT_FUP) {
        flow->psb.has_ip = flow->packet_has_ip;
        flow->psb.ip = flow->packet_ip;
        return 1;
    }
    if (flow->packet.kind == COFI_PT_PSB || cofi_packet_traits(flow->packet.kind) & COFI_TRAIT_PSB_PLUS)
        return 0;
    bool known = flow->packet_full_ip || (flow->packet_has_ip && flow->psb.has_ip); /* rests on the PSB+'s own */
    if (flow->packet.kind == COFI_PT_TIP_PGE && known) {
        COFI_TRY(act_psbend(flow));
        flow->has_packet = true; /* acted on next */
        return 1;
    }
    flow->in_psb = false;
    COFI_TRY(cofi__lose(flow, COFI_ERR_BAD_PACKET, false, "a packet that PSB+ must not hold [PTREF 5.11]"));
    return 1;
}

/* ---- time ---- */

static int act_tsc(struct cofi_flow *flow)
{
    cofi__clock_packet(&flow->clock, &flow->packet);
    flow->time_hidden = false;
    return flow->in_psb ? 0 : cofi__code_due(flow, flow->packet_offset);
}

static int act_cbr(struct cofi_flow *flow)
{
    bool same = flow->cbr == flow->packet.cbr.ratio;
    cofi__clock_packet(&flow->clock, &flow->packet);
    if (same)
        return 0;
    struct cofi_flow_event event = cofi__event(flow, COFI_FLOW_CBR, flow->packet_offset);
    flow->cbr = event.a = flow->packet.cbr.ratio;
    return cofi__emit_event(flow, &event);
}

static int (*const acts[COFI_PKT_KINDS])(struct cofi_flow *) = {
    [COFI_PT_TIP] = act_tip, [COFI_PT_TIP_PGE] = act_pge, [COFI_PT_TIP_PGD] = act_pgd,
    [COFI_PT_FUP] = act_fup, [COFI_PT_PIP] = act_pip, [COFI_PT_MODE_EXEC] = act_mode_exec,
    [COFI_PT_MODE_TSX] = act_mode_tsx, [COFI_PT_TRACESTOP] = act_tracestop, [COFI_PT_CBR] = act_cbr,
    [COFI_PT_TSC] = act_tsc, [COFI_PT_VMCS] = act_vmcs, [COFI_PT_OVF] = cofi__pt_ovf,
    [COFI_PT_PSB] = act_psb, [COFI_PT_PSBEND] = act_psbend, [COFI_PT_PTW] = cofi__act_ptw,
    [COFI_PT_EXSTOP] = cofi__act_exstop, [COFI_PT_MWAIT] = cofi__act_mwait, [COFI_PT_PWRE] = cofi__act_pwre,
    [COFI_PT_PWRX] = cofi__act_pwrx, [COFI_PT_CFE] = cofi__act_cfe, [COFI_PT_EVD] = cofi__act_evd,
    [COFI_PT_BBP] = cofi__act_bbp, [COFI_PT_BIP] = cofi__act_bip, [COFI_PT_BEP] = cofi__act_bep,
    [COFI_PT_TRIG] = cofi__act_trig,
};

/* Packets after which tracing is surely on or off, so that a PSB+'s word is settled. PTW, and a FUP that
 * belongs to a packet before it, come wherever the context is traced. */
static bool settles(const struct cofi_flow *flow)
{
    uint8_t kind = flow->packet.kind;
    bool counted = kind == COFI_PT_TRIG && flow->packet.trig.icntv;
    if (kind == COFI_PT_PTW || counted || (kind == COFI_PT_FUP && fup_is_of_packet(flow)))
        return !flow->fup.stray;
    return kind == COFI_PT_TIP || kind == COFI_PT_TIP_PGD || kind == COFI_PT_FUP;
}

const char cofi__no_address_yet[] = "no PSB and no full address since the first byte [PTREF 9.1]";

/* The mode at the address in hand: told, or that of the ELF file, or there is only one. Where none
 * comes, any guess is as good. */
static bool mode_is_known(const struct cofi_flow *flow)
{
    struct cofi_code code;
    if (flow->config.mode != COFI_MODE_LATER || flow->code.mode_told || flow->pend.mode || flow->packet_ip >> 32)
        return true;
    return cofi_view_find(flow->code.view, flow->packet_ip, &code) == 0 && code.mode;
}

/* Before the first PSB an address is believed that does not rest on others, or that of a TIP.PGE with
 * which tracing begins. Returns 1 if the packet is to be acted on, 0: it says nothing yet. */
static int act_headless(struct cofi_flow *flow)
{
    uint8_t kind = flow->packet.kind;
    bool flows = kind == COFI_PT_TIP || kind == COFI_PT_TIP_PGD || kind == COFI_PT_FUP || kind == COFI_PT_OVF;
    bool begins = kind == COFI_PT_TIP_PGE && (!flow->lost || flow->packet_full_ip);
    bool tells = (begins || (kind == COFI_PT_TIP && flow->packet_full_ip)) && mode_is_known(flow);
    bool waits = kind == COFI_PT_TIP && flow->waits.outcomes_before;
    flow->headless = !tells && kind != COFI_PT_PSB;
    flow->synced = tells;
    if (flows || kind == COFI_PT_TIP_PGE) {
        flow->ovf.before = kind == COFI_PT_OVF;
        COFI_TRY(cofi__pend_flush(flow, COFI_NO_IP)); /* the rest of a packet may look as if a FUP belonged to it */
    }
    if (flows || (kind == COFI_PT_TIP_PGE && !tells))
        COFI_TRY(cofi__lose(flow, COFI_ERR_NO_SYNC, false, cofi__no_address_yet));
    flow->waits.outcomes_before = waits;
    flow->gap.any_tip |= tells; /* others rest on this one */
    if (tells && flow->packet_ip >> 32)
        cofi__mode_above_4_gib(flow);
    return tells || !(flows || kind == COFI_PT_TIP_PGE);
}

static bool is_timing(uint8_t kind) { return kind == COFI_PT_TSC || kind == COFI_PT_CBR; }

/* An ICNT behind it counts from here; outcomes and TIPs show by units_used. */
static bool counts_anew(const struct cofi_flow *flow)
{
    uint8_t kind = flow->packet.kind;
    return kind == COFI_PT_FUP || kind == COFI_PT_TIP_PGE || kind == COFI_PT_PSBEND;
}

/* Act on flow->packet. All that was pending before it is used up. */
int cofi__pt_act(struct cofi_flow *flow)
{
    flow->has_packet = false;
    if (flow->headless) {
        int done = act_headless(flow);
        if (done <= 0)
            return done;
    }
    if (flow->packet.kind != COFI_PT_EXSTOP && !is_timing(flow->packet.kind))
        COFI_TRY(cofi__let_pwre_go(flow));
    if (flow->in_psb) {
        int done = in_psb(flow);
        if (done)
            return done < 0 ? done : 0;
    }
    if (flow->tentative && settles(flow))
        COFI_TRY(cofi__settle(flow));
    if (flow->packet.kind != COFI_PT_TIP) {
        flow->waits.outcomes_before = false;
        flow->waits.forced_bits = flow->stats.tnt_bits;
    }
    flow->ovf.behind_tsx &= flow->packet.kind == COFI_PT_FUP || is_timing(flow->packet.kind);
    if (acts[flow->packet.kind])
        COFI_TRY(acts[flow->packet.kind](flow));
    if (counts_anew(flow))
        flow->since.insns = 0;
    return 0;
}
