/* SPDX-License-Identifier: MIT
 * RTIT packets -> what they bind to: the address or branch at which each one applies. */
#include "flow/query.h"

#include "base/error.h"

/* Show a FUP.PGD that was held because a TIP might follow. */
int cofi__rtit_release(struct cofi_flow *flow)
{
    if (!flow->pgd_held)
        return 0;
    flow->pgd_held = false;
    return cofi__emit_event(flow, &flow->rtit.pgd_event);
}

static int disable(struct cofi_flow *flow, enum cofi_flow_event_kind kind, uint64_t ip)
{
    flow->rtit.pgd_event = cofi__event(flow, kind, flow->packet_offset);
    flow->rtit.pgd_event.ip = flow->disabled_ip = ip;
    flow->pgd_held = true;
    flow->enabled = false;
    cofi__clock_break(&flow->clock); /* CNTP may stand still now [RTIT Table 17] */
    flow->async = flow->far = false;
    return 0;
}

static unsigned mode_at(struct cofi_flow *flow, uint64_t ip)
{
    struct cofi_code code;
    if (cofi_view_find(flow->code.view, ip, &code) == 0 && code.mode)
        return code.mode;
    return ip >> 32 ? 64 : flow->code.mode;
}

/* RTIT has no packet that tells the mode of the code. Where tracing begins in a file, the file's class
 * does; above 4 GiB there is only 64-bit code; elsewhere the mode stays. A program that changes its mode
 * within a file is not followed. */
static void mode_from_code(struct cofi_flow *flow)
{
    unsigned mode = mode_at(flow, flow->packet_ip);
    if (mode == flow->code.mode)
        return;
    flow->code.mode = mode;
    ret_drop_sites(flow);
}

static int enable(struct cofi_flow *flow)
{
    mode_from_code(flow);
    cofi__clock_break(&flow->clock); /* and may have until now */
    flow->enabled = true;
    flow->unknown = flow->rtit.stopped = false;
    place_set(flow, flow->packet_ip);
    flow->rtit.last_end = 0;
    struct cofi_flow_event event = cofi__event(flow, COFI_FLOW_ENABLED, flow->packet_offset);
    event.ip = flow->disabled_ip;
    event.target = flow->packet_ip;
    cofi__code_at_return(flow);
    return cofi__emit_event(flow, &event);
}

/* Tracing may have been turned off without a FUP.PGD, with outcomes left that come only now
 * [RTIT 4.2.8]; so one that was on is no error. */
static int act_pge(struct cofi_flow *flow)
{
    if (!flow->packet_has_ip)
        return cofi__lose(flow, COFI_ERR_MISMATCH, false, "FUP.PGE whose address rests on one not seen");
    if (flow->lost) {
        COFI_TRY(cofi__found(flow));
    } else if (flow->enabled) {
        flow->disabled_ip = COFI_NO_IP;
        struct cofi_flow_event event = cofi__event(flow, COFI_FLOW_DISABLED, flow->packet_offset);
        COFI_TRY(cofi__emit_event(flow, &event));
    }
    flow->async = flow->far = flow->tip_due = false;
    COFI_TRY(cofi__code_due(flow, flow->packet_offset));
    return enable(flow);
}

/* The instruction that ran last was a branch, already followed, and it left the traced region: FUP.PGD
 * carries the address behind it [RTIT 4.2.8], [RTIT Table 19]. Where nobody told the ranges, execution may as well
 * have come to that address and been interrupted there: `reached` says that the code leads to it. */
static bool left_by_branch(const struct cofi_flow *flow, bool reached)
{
    if (!flow->rtit.last_end || flow->rtit.last_end != flow->packet_ip)
        return false;
    return flow->config.ranges_known ? !cofi__in_ranges(flow, position(flow)) : !reached;
}

static int act_pgd(struct cofi_flow *flow)
{
    uint64_t ip = flow->packet_ip;
    if (flow->lost) {
        COFI_TRY(cofi__found(flow));
        flow->unknown = false;
        return disable(flow, COFI_FLOW_DISABLED, COFI_NO_IP);
    }
    if (!flow->enabled) { /* [ERR E2] */
        flow->unknown = false;
        return 0;
    }
    if (!flow->packet_has_ip)
        return cofi__lose(flow, COFI_ERR_MISMATCH, true, "FUP.PGD whose address rests on one not seen");
    struct goal goal = {.by_ip = true, .ip = ip, .by_end = true, .end_ip = ip, .leaving = true};
    struct place place;
    enum goal_stop stop = cofi__walk_find(flow, &goal, &place);
    if (left_by_branch(flow, stop == STOP_INSN))
        return disable(flow, COFI_FLOW_DISABLED, ip);
    if (stop == STOP_ERROR)
        return cofi__walk_lose(flow, &place, "no code on the way to a FUP.PGD [RTIT 4.2.8]");
    if (stop == STOP_BRANCH && !place.named)
        return cofi__lose(flow, COFI_ERR_MISMATCH, true, "a FUP.PGD's address is not reached [RTIT 4.2.8]");
    COFI_TRY(cofi__walk_take(flow, &place, stop == STOP_INSN ? place.insn : place.insn + 1));
    bool sync = stop == STOP_BRANCH || (flow->config.ranges_known && !cofi__in_ranges(flow, ip));
    return disable(flow, sync ? COFI_FLOW_DISABLED : COFI_FLOW_ASYNC_DISABLED, ip);
}

/* FUP.FAR: behind a far transfer instruction, or where an event came [RTIT 4.2.9]. */
static int act_far(struct cofi_flow *flow)
{
    if (flow->lost)
        return 0;
    if (!flow->enabled || !flow->packet_has_ip)
        return cofi__lose(flow, flow->unknown ? COFI_ERR_NO_SYNC : COFI_ERR_MISMATCH, flow->unknown,
                          "FUP.FAR while tracing is off [RTIT 4.2.9]");
    struct goal goal = {.by_ip = true, .ip = flow->packet_ip, .by_end = true, .end_ip = flow->packet_ip};
    struct place place;
    enum goal_stop stop = cofi__walk_find(flow, &goal, &place);
    if (stop == STOP_ERROR)
        return cofi__walk_lose(flow, &place, "no code on the way to a FUP.FAR [RTIT 4.2.9]");
    if (stop == STOP_BRANCH && !place.named)
        return cofi__lose(flow, COFI_ERR_MISMATCH, true, "a FUP.FAR's address is not reached [RTIT 4.2.9]");
    flow->far = stop == STOP_BRANCH;
    flow->async = !flow->far;
    flow->async_ip = flow->packet_ip;
    flow->async_offset = flow->packet_offset;
    return cofi__walk_take(flow, &place, flow->far ? place.insn + 1 : place.insn);
}

static int act_tip(struct cofi_flow *flow)
{
    if (flow->pgd_held) { /* a far transfer out of the region: where to [RTIT 2.2.6] */
        flow->rtit.pgd_event.target = flow->packet_has_ip ? flow->packet_ip : COFI_NO_IP;
        return cofi__rtit_release(flow);
    }
    if (flow->lost || flow->unknown) {
        if (!flow->packet_has_ip || (flow->lost && !flow->gap.any_tip && !flow->packet_full_ip))
            return 0;
        if (!flow->lost)
            COFI_TRY(cofi__lose(flow, COFI_ERR_NO_SYNC, true, "no address since the first PSB [RTIT 4.2.1]"));
        COFI_TRY(cofi__found(flow));
        flow->unknown = false;
        flow->enabled = true;
    } else if (!flow->enabled || !flow->packet_has_ip) {
        return cofi__lose(flow, COFI_ERR_MISMATCH, false, "a TIP while tracing is off [RTIT 4.2.3]");
    } else if (flow->async) {
        struct cofi_flow_event event = cofi__event(flow, COFI_FLOW_ASYNC, flow->async_offset);
        event.ip = flow->async_ip;
        event.target = flow->packet_ip;
        COFI_TRY(cofi__emit_event(flow, &event));
        flow->rtit.last_end = 0;
    }
    flow->async = flow->far = false;
    place_set(flow, flow->packet_ip);
    return 0;
}

static int act_buffovf(struct cofi_flow *flow)
{
    if (flow->lost)
        COFI_TRY(cofi__found(flow));
    struct cofi_flow_event event = cofi__event(flow, COFI_FLOW_OVERFLOW, flow->packet_offset);
    event.since = flow->clock.exact;
    event.a = flow->rtit.stop_was_last ? 4 : 0;
    ret_clear(flow);
    cofi__clock_break(&flow->clock); /* ContextEn may have been 0, and MTCs may have wrapped */
    if (flow->enabled)
        flow->disabled_ip = COFI_NO_IP; /* if it is off now, where it went off is lost, too */
    flow->async = flow->far = flow->tip_due = flow->unknown = flow->rtit.stopped = false;
    flow->rtit.last_end = 0;
    flow->enabled = flow->packet_has_ip &&
                    (!flow->config.ranges_known || cofi__in_ranges(flow, flow->packet_ip));
    if (flow->enabled)
        event.target = flow->packet_ip;
    place_set(flow, flow->packet_has_ip ? flow->packet_ip : COFI_NO_IP);
    flow->just_overflowed = flow->time_hidden = true;
    cofi__code_at_return(flow);
    COFI_TRY(cofi__emit_event(flow, &event));
    if (flow->packet_has_ip)
        return 0;
    flow->enabled = true;
    return cofi__lose(flow, COFI_ERR_MISMATCH, false, "FUP.BuffOvf with a compressed address [RTIT 4.2.5]");
}

/* A PIP comes from MOV CR3, or from MOV CR0 when that changes CR0.PG [RTIT 4.2.10]. The latter changes no address
 * space, so where it stands in the code does not matter: it is not looked for, and no MOV CR3 ahead is taken for it. */
static int act_pip(struct cofi_flow *flow)
{
    uint8_t pg = 1 + flow->packet.pip.pg;
    bool from_cr0 = flow->rtit.pg && flow->rtit.pg != pg;
    flow->rtit.pg = pg;
    flow->pend.paging = true;
    flow->pend.cr3 = flow->packet.pip.cr3;
    flow->pend.nr = flow->packet.pip.pg;
    flow->pend.paging_offset = flow->packet_offset;
    if (!from_cr0)
        COFI_TRY(cofi__bind_paging(flow));
    return flow->pend.paging ? cofi__show_paging(flow, COFI_NO_IP) : 0;
}

/* Outcomes may be left in the processor; what follows the packet, if any, belongs before it
 * [RTIT 4.2.11]. */
static int act_tracestop(struct cofi_flow *flow)
{
    struct cofi_flow_event event = cofi__event(flow, COFI_FLOW_STOP, flow->packet_offset);
    flow->rtit.stopped |= flow->enabled;
    flow->rtit.stop_was_last = true;
    flow->enabled = false;
    return cofi__emit_event(flow, &event);
}

/* Carries nothing: position and last address go on [RTIT 4.2.1]. */
static int act_psb(struct cofi_flow *flow)
{
    if (!flow->synced && !flow->lost)
        flow->unknown = true;
    flow->synced = true;
    flow->psb.offset = flow->packet_offset;
    /* Each enabling makes a PSB, and no packet tells that one from others: the next MTC is not believed [ERR E7]. */
    flow->clock.skip_mtc |= (flow->errata & ERR_RTIT) != 0;
    if (flow->known.timeless)
        COFI_TRY(cofi__code_due(flow, flow->packet_offset));
    struct cofi_flow_event event = cofi__event(flow, COFI_FLOW_PSB, flow->packet_offset);
    flow->paused = flow->psb.offset >= flow->stop_psb;
    return cofi__emit_event(flow, &event);
}

static int act_sts(struct cofi_flow *flow)
{
    const struct cofi_packet *p = &flow->packet;
    cofi__clock_packet(&flow->clock, p);
    flow->time_hidden = false;
    COFI_TRY(cofi__code_due(flow, flow->packet_offset));
    if (flow->cbr == p->sts.acbr && flow->rtit.ecbr == p->sts.ecbr)
        return 0;
    struct cofi_flow_event event = cofi__event(flow, COFI_FLOW_CBR, flow->packet_offset);
    flow->cbr = event.a = p->sts.acbr;
    flow->rtit.ecbr = event.b = p->sts.ecbr;
    return cofi__emit_event(flow, &event);
}

static int (*const acts[COFI_PKT_KINDS])(struct cofi_flow *) = {
    [COFI_RTIT_PGE] = act_pge, [COFI_RTIT_PGD] = act_pgd, [COFI_RTIT_BUFFOVF] = act_buffovf,
    [COFI_RTIT_TIP] = act_tip, [COFI_RTIT_FAR] = act_far, [COFI_RTIT_PSB] = act_psb,
    [COFI_RTIT_TRACESTOP] = act_tracestop, [COFI_RTIT_PIP] = act_pip, [COFI_RTIT_STS] = act_sts,
};

/* The first packet behind FUP.BuffOvf is a TIP: of a branch, like any, or the repeated address of [ERR E5].
 * Where the code could come back to that address, both are possible; execution stands there in either case, so
 * all that is uncertain is whether one more iteration belongs to what the overflow hid (docs/decisions/0217). */
static bool spurious_tip(struct cofi_flow *flow)
{
    const struct goal none = {0};
    struct place place;
    if (flow->packet_ip != position(flow))
        return false;
    if (flow->errata & ERR_RTIT || !flow->enabled) /* while tracing is off there is no other */
        return true;
    if (cofi__walk_find(flow, &none, &place) != STOP_BRANCH)
        return true;
    uint8_t cls = place.block->pub.cls;
    return cls != COFI_CLASS_JMP_IND && cls != COFI_CLASS_CALL_IND && cls != COFI_CLASS_RET;
}

int cofi__rtit_act(struct cofi_flow *flow)
{
    uint8_t kind = flow->packet.kind;
    flow->has_packet = false;
    if (flow->just_overflowed && kind != COFI_RTIT_PSB && kind != COFI_RTIT_STS) {
        flow->just_overflowed = false;
        /* if not that, it is like any: a TIP is a branch's */
        flow->has_packet = kind != COFI_RTIT_TIP || flow->lost || !spurious_tip(flow);
        return 0;
    }
    if (kind != COFI_RTIT_PSB && kind != COFI_RTIT_STS && kind != COFI_RTIT_BUFFOVF)
        flow->rtit.stop_was_last = false;
    if (flow->pgd_held && kind != COFI_RTIT_TIP && kind != COFI_RTIT_PSB && kind != COFI_RTIT_STS)
        COFI_TRY(cofi__rtit_release(flow));
    return acts[kind] ? acts[kind](flow) : 0;
}
