/* SPDX-License-Identifier: MIT
 * PT's power events and the address that they share: MWAIT, PWRE, EXSTOP, its FUP, perhaps more PWREs,
 * PWRX [PTREF 5.7] [SDM Power Event Tracing]. */
#include "flow/query.h"

#include "base/error.h"

int cofi__act_mwait(struct cofi_flow *flow)
{
    struct cofi_flow_event event = cofi__told(flow, COFI_FLOW_MWAIT, flow->packet.mwait.hints, flow->packet.mwait.ext,
                                              0);
    return cofi__pend_add(flow, &event, true);
}

/* It came without an MWAIT, which would have said that a FUP follows. */
static bool pwre_waits(const struct cofi_flow *flow)
{
    return flow->pend.n && !flow->pend.fup && flow->pend.list[0].kind == COFI_FLOW_PWRE;
}

/* No EXSTOP comes for it. */
int cofi__let_pwre_go(struct cofi_flow *flow)
{
    return pwre_waits(flow) ? cofi__pend_flush(flow, COFI_NO_IP) : 0;
}

static bool pend_has(const struct cofi_flow *flow, enum cofi_flow_event_kind kind)
{
    for (unsigned i = 0; i < flow->pend.n; i++)
        if (flow->pend.list[i].kind == kind)
            return true;
    return false;
}

/* Its EXSTOP tells where a C-state was entered, if one was. */
void cofi__note_sleep(struct cofi_flow *flow, uint64_t ip)
{
    if (!pend_has(flow, COFI_FLOW_PWRE) || !pend_has(flow, COFI_FLOW_EXSTOP))
        return;
    flow->sleep.on = true;
    flow->sleep.exstop.ip = ip;
    flow->sleep.exstop.units = units_used(flow);
}

int cofi__act_exstop(struct cofi_flow *flow)
{
    struct cofi_flow_event event = cofi__event(flow, COFI_FLOW_EXSTOP, flow->packet_offset);
    if (flow->packet.exstop.ip)
        return cofi__pend_add(flow, &event, true);
    if (!pwre_waits(flow) && !(flow->pend.n && flow->pend.list[0].kind == COFI_FLOW_MWAIT))
        return cofi__emit_event(flow, &event);
    COFI_TRY(cofi__pend_add(flow, &event, false));
    cofi__note_sleep(flow, COFI_NO_IP);
    return cofi__pend_flush(flow, COFI_NO_IP); /* no FUP comes for any of them */
}

/* Up to its PWRX a processor that sleeps does nothing but enter other C-states. */
bool cofi__sleeps(const struct cofi_flow *flow)
{
    const struct told *exstop = &flow->sleep.exstop;
    bool ran = flow->enabled && !flow->lost && exstop->ip != COFI_NO_IP && exstop->ip != position(flow);
    return flow->sleep.on && exstop->units == units_used(flow) && !ran;
}

int cofi__act_pwre(struct cofi_flow *flow)
{
    const struct cofi_packet *p = &flow->packet;
    struct cofi_flow_event event = cofi__told(flow, COFI_FLOW_PWRE, p->pwre.state, p->pwre.sub, p->pwre.hw);
    if (flow->pend.n || !cofi__sleeps(flow))
        return cofi__pend_add(flow, &event, flow->pend.fup);
    event.ip = flow->sleep.exstop.ip;
    return cofi__emit_event(flow, &event);
}

int cofi__act_pwrx(struct cofi_flow *flow)
{
    const struct cofi_packet *p = &flow->packet;
    struct cofi_flow_event event = cofi__told(flow, COFI_FLOW_PWRX, p->pwrx.last, p->pwrx.deepest, p->pwrx.wake);
    flow->sleep.on = false;
    return cofi__emit_event(flow, &event);
}
