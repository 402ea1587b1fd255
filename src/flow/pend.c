/* SPDX-License-Identifier: MIT
 * Stand-alone packets, kept until what they bind to is known [PTREF 9.4]. */
#include "flow/query.h"

#include "base/error.h"

/* RSM and SIPI, which find a processor that runs nothing: an INIT's FUP, say, is not theirs [PTREF 5.8]. */
static bool is_nowhere(const struct cofi_flow_event *event)
{
    return event->kind == COFI_FLOW_CFE && (event->a == 0x04 || event->a == 0x05) && !event->c;
}

/* Show what waits for an address, at ip (COFI_NO_IP: nowhere). Its time is that at which it is known:
 * others may have been shown since. */
int cofi__pend_flush(struct cofi_flow *flow, uint64_t ip)
{
    struct pend *pend = &flow->pend;
    for (unsigned i = 0; i < pend->n; i++) {
        struct cofi_flow_event *event = &pend->list[i];
        event->time = cofi__event(flow, event->kind, event->offset).time;
        if (event->ip == COFI_NO_IP && !is_nowhere(event))
            event->ip = ip;
        COFI_TRY(cofi__emit_event(flow, event));
    }
    pend->n = 0;
    pend->fup = false;
    return 0;
}

/* EventEn: MODE.Exec tells RFLAGS.IF, too [PTREF 5.8]. Where that is not known, what comes with EventEn
 * only has been seen. */
bool cofi__tells_iflag(const struct cofi_flow *flow)
{
    return flow->config.ctl_known ? flow->config.ctl >> 31 & 1 : flow->ovf.events_seen >= EVENTS_SURE;
}

static int show_mode(struct cofi_flow *flow, uint64_t ip)
{
    struct pend *pend = &flow->pend;
    struct cofi_flow_event event = cofi__event(flow, COFI_FLOW_MODE, pend->mode_offset);
    bool iflag_known = cofi__tells_iflag(flow);
    pend->mode = false;
    flow->code.mode_told = true;
    if (flow->code.mode == pend->mode_bits && !iflag_known)
        return 0;
    if (flow->code.mode != pend->mode_bits) {
        flow->code.mode = pend->mode_bits;
        place_set(flow, position(flow)); /* there it is another block */
        ret_drop_sites(flow);
    }
    event.ip = ip;
    event.a = pend->mode_bits;
    event.b = pend->iflag;
    event.c = iflag_known;
    return cofi__emit_event(flow, &event);
}

int cofi__show_paging(struct cofi_flow *flow, uint64_t ip)
{
    struct pend *pend = &flow->pend;
    struct cofi_flow_event event = cofi__event(flow, COFI_FLOW_PAGING, pend->paging_offset);
    pend->paging = false;
    event.ip = ip;
    event.value = flow->code.cr3 = pend->cr3;
    event.a = pend->nr;
    if (flow->config.gen == COFI_PT) {
        flow->code.non_root = pend->nr;
        cofi__clock_guest(&flow->clock, pend->nr, pend->vmcs ? pend->vmcs_base : flow->code.vmcs, false);
    }
    flow->space_due = flow->config.space;
    return cofi__emit_event(flow, &event);
}

int cofi__show_vmcs(struct cofi_flow *flow, uint64_t ip)
{
    struct pend *pend = &flow->pend;
    struct cofi_flow_event event = cofi__event(flow, COFI_FLOW_VMCS, pend->vmcs_offset);
    pend->vmcs = false;
    event.ip = ip;
    event.value = flow->code.vmcs = pend->vmcs_base;
    flow->space_due = flow->config.space;
    return cofi__emit_event(flow, &event);
}

int cofi__show_tsx(struct cofi_flow *flow, uint64_t ip)
{
    struct pend *pend = &flow->pend;
    struct cofi_flow_event event = cofi__event(flow, COFI_FLOW_TSX, pend->tsx_offset);
    pend->tsx = false;
    event.ip = ip;
    event.a = flow->in_tx = pend->intx;
    event.b = pend->abort;
    return cofi__emit_event(flow, &event);
}

/* Where nothing has told the mode yet, the class of the ELF file at the address does. */
static void mode_of_file(struct cofi_flow *flow, uint64_t ip)
{
    struct pend *pend = &flow->pend;
    struct cofi_code code;
    if (flow->code.mode_told || pend->mode || ip == COFI_NO_IP || cofi_view_find(flow->code.view, ip, &code) < 0)
        return;
    if (!code.mode || code.mode == flow->code.mode)
        return;
    pend->mode = true;
    pend->mode_bits = code.mode;
    pend->iflag = 0;
    pend->mode_offset = flow->packet_offset;
}

/* What stood before a TIP or TIP.PGE applies at its address. */
int cofi__due_at_target(struct cofi_flow *flow, uint64_t ip)
{
    struct pend *pend = &flow->pend;
    if (flow->config.gen == COFI_PT)
        mode_of_file(flow, ip);
    if (pend->n && !pend->fup)
        COFI_TRY(cofi__pend_flush(flow, COFI_NO_IP));
    if (pend->paging)
        COFI_TRY(cofi__show_paging(flow, ip));
    if (pend->vmcs)
        COFI_TRY(cofi__show_vmcs(flow, ip));
    if (pend->mode)
        COFI_TRY(show_mode(flow, ip));
    if (pend->tsx)
        COFI_TRY(cofi__show_tsx(flow, ip));
    return 0;
}

/* Execution is somewhere behind code that is missing, which the packet in hand would tell: nothing else may. */
int cofi__lose_on_way(struct cofi_flow *flow)
{
    if (flow->code.error != COFI_ERR_NO_CODE || cofi__code_comes(flow))
        return 0;
    return cofi__lose(flow, COFI_ERR_NO_CODE, true, "no code on the way to where a packet belongs [PTREF 9.4]");
}

/* A PIP or VMCS without a FUP before it: the MOV CR3 or VMPTRLD that comes without a packet in between, or the far
 * transfer whose TIP follows [PTREF 9.4]. In missing code, and where outcomes are not told, it may be either. */
static int bind_to(struct cofi_flow *flow, uint32_t classes, int (*show)(struct cofi_flow *, uint64_t))
{
    struct goal goal = {.classes = classes};
    struct place place;
    if (!flow->enabled || flow->lost || may_be_stray(flow))
        return show(flow, COFI_NO_IP);
    if (flow->async || flow->far)
        return 0;
    enum goal_stop stop = cofi__walk_find(flow, &goal, &place);
    if (stop == STOP_ERROR)
        COFI_TRY(cofi__lose_on_way(flow));
    if (flow->lost || (stop == STOP_BRANCH && cofi__is_untold(flow, &place)))
        return show(flow, COFI_NO_IP);
    if (stop != STOP_INSN)
        return 0;
    uint64_t ip = place.block->pub.insns[place.insn].ip;
    COFI_TRY(cofi__walk_take(flow, &place, place.insn + 1));
    return show(flow, ip);
}

/* Of a MOV CR3, which may also end tracing; then that is the next packet. */
static int show_mov_cr3(struct cofi_flow *flow, uint64_t ip)
{
    flow->mov_cr3.ip = ip;
    flow->mov_cr3.units = units_used(flow);
    return cofi__show_paging(flow, ip);
}

int cofi__bind_paging(struct cofi_flow *flow)
{
    return bind_to(flow, 1u << COFI_CLASS_MOV_CR3, show_mov_cr3);
}

int cofi__bind_vmcs(struct cofi_flow *flow)
{
    return bind_to(flow, 1u << COFI_CLASS_VMPTRLD, cofi__show_vmcs);
}

/* Keep an event until its address is known; fup: the next FUP tells it. */
int cofi__pend_add(struct cofi_flow *flow, const struct cofi_flow_event *event, bool fup)
{
    struct pend *pend = &flow->pend;
    if (pend->n == PEND_MAX)
        COFI_TRY(cofi__pend_flush(flow, COFI_NO_IP));
    pend->list[pend->n++] = *event;
    pend->fup |= fup;
    return 0;
}
