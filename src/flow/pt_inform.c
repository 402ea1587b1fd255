/* SPDX-License-Identifier: MIT
 * PT packets that tell something beside the flow: PTW, CFE and EVD, blocks, TRIG -> events, where they belong. */
#include "flow/query.h"

#include "base/error.h"

/* A PTW without FUP belongs to the next PTWRITE [PTREF 9.4]. */
int cofi__act_ptw(struct cofi_flow *flow)
{
    const struct cofi_packet *p = &flow->packet;
    struct cofi_flow_event event = cofi__event(flow, COFI_FLOW_PTWRITE, flow->packet_offset);
    event.value = p->ptw.payload;
    event.a = p->ptw.wide ? 8 : 4;
    if (p->ptw.ip)
        return cofi__pend_add(flow, &event, true);
    COFI_TRY(cofi__take_overflows_fup(flow));
    if (cofi__waits_for_space(flow))
        return 0;
    struct goal goal = {.classes = 1u << COFI_CLASS_PTWRITE};
    struct place place;
    enum goal_stop stop = flow->enabled && !flow->lost && !may_be_stray(flow) ? cofi__walk_find(flow, &goal, &place)
                                                                              : STOP_BRANCH;
    if (stop == STOP_ERROR)
        COFI_TRY(cofi__lose_on_way(flow));
    if (stop == STOP_INSN) {
        event.ip = place.block->pub.insns[place.insn].ip;
        COFI_TRY(cofi__walk_take(flow, &place, place.insn + 1));
    }
    return cofi__emit_event(flow, &event);
}

struct cofi_flow_event cofi__told(struct cofi_flow *flow, enum cofi_flow_event_kind kind, uint8_t a, uint8_t b,
                                  uint8_t c)
{
    struct cofi_flow_event event = cofi__event(flow, kind, flow->packet_offset);
    event.a = a;
    event.b = b;
    event.c = c;
    return event;
}

/* Whether there is such a type [PTREF 5.8]. A wrong bit makes a CFE of a CBR, mostly of one that there is not. */
static bool cfe_is_known(uint8_t type) { return type != 0x00 && type != 0x0b && type <= 0x0f; }

/* [PTREF 5.8]: types that stand alone when no IP follows; the others bind to the FUP or branch to come. */
static bool cfe_alone(uint8_t type) { return type == 0x0a || !cfe_is_known(type); }

int cofi__act_cfe(struct cofi_flow *flow)
{
    const struct cofi_packet *p = &flow->packet;
    struct cofi_flow_event event = cofi__event(flow, COFI_FLOW_CFE, flow->packet_offset);
    event.a = p->cfe.type;
    event.b = p->cfe.vector;
    event.c = p->cfe.ip;
    if (cfe_is_known(p->cfe.type))
        cofi__event_en_shows(flow, cofi__packets_are_wrong(flow) ? 1 : EVENTS_SURE);
    COFI_TRY(cofi__pend_add(flow, &event, p->cfe.ip));
    if (p->cfe.ip || (flow->enabled && !may_be_stray(flow) && !cfe_alone(p->cfe.type)))
        return 0;
    return cofi__pend_flush(flow, COFI_NO_IP);
}

int cofi__act_evd(struct cofi_flow *flow)
{
    struct cofi_flow_event event = cofi__event(flow, COFI_FLOW_EVD, flow->packet_offset);
    event.a = flow->packet.evd.type;
    event.value = flow->packet.evd.payload;
    cofi__event_en_shows(flow, 1); /* a CFE follows; a PIP is but a bit away */
    return cofi__pend_add(flow, &event, false);
}

int cofi__act_bbp(struct cofi_flow *flow)
{
    struct cofi_flow_event event = cofi__told(flow, COFI_FLOW_BBP, flow->packet.bbp.type, flow->packet.bbp.sz, 0);
    return cofi__emit_event(flow, &event);
}

int cofi__act_bip(struct cofi_flow *flow)
{
    struct cofi_flow_event event = cofi__event(flow, COFI_FLOW_BIP, flow->packet_offset);
    event.a = flow->packet.bip.id;
    event.value = flow->packet.bip.payload;
    return cofi__emit_event(flow, &event);
}

int cofi__act_bep(struct cofi_flow *flow)
{
    struct cofi_flow_event event = cofi__event(flow, COFI_FLOW_BEP, flow->packet_offset);
    return flow->packet.bep.ip ? cofi__pend_add(flow, &event, true) : cofi__emit_event(flow, &event);
}

/* ICNT: so many instructions behind the last FUP, TIP, TIP.PGE, outcome or TRIG with one. It is shown
 * without a place where they lead to none. */
static int find_trigger(struct cofi_flow *flow, struct cofi_flow_event *event)
{
    uint64_t count = flow->packet.trig.icnt, ran = cofi__since(flow);
    struct goal goal = {.by_count = true, .count = count - ran};
    struct place place;
    if (!flow->enabled || flow->lost || flow->async || may_be_stray(flow) || ran > count)
        return 0;
    if (cofi__walk_find(flow, &goal, &place) != STOP_INSN)
        return 0;
    COFI_TRY(cofi__walk_take(flow, &place, place.insn));
    event->ip = position(flow);
    return 0;
}

int cofi__act_trig(struct cofi_flow *flow)
{
    const struct cofi_packet *p = &flow->packet;
    struct cofi_flow_event event = cofi__event(flow, COFI_FLOW_TRIG, flow->packet_offset);
    event.a = p->trig.trbv;
    event.b = p->trig.icntv;
    event.c = p->trig.mult;
    event.value = p->trig.icnt;
    if (p->trig.ip)
        return cofi__pend_add(flow, &event, true);
    if (p->trig.icntv) {
        COFI_TRY(cofi__take_overflows_fup(flow));
        if (cofi__waits_for_space(flow))
            return 0;
        COFI_TRY(find_trigger(flow, &event));
        flow->since.insns = event.ip == COFI_NO_IP ? SINCE_UNKNOWN : 0;
        flow->since.units = units_used(flow);
    }
    return cofi__emit_event(flow, &event);
}
