/* SPDX-License-Identifier: MIT
 * Registers, processor state and IP -> TriggerEn, ContextEn, FilterEn, PacketEn, TraceStop [RTIT 2.1]. */
#include "unit/rtit/rtit.h"

/* [RTIT 2.1.2]; CR3 is compared in 35:5 [RTIT Table 10]; VMX means root mode [RTIT 2.6.2]. */
static bool cr3_differs(const struct rtit *u)
{
    return rtit_has(u, CTL_CR3_EN) && ((u->context.cr3 ^ u->reg[RTIT_CR3_MATCH]) & UINT64_C(0xfffffffe0));
}

static bool context_enable(const struct rtit *u)
{
    const struct cofi_context *c = &u->context;
    if (c->cpl == 0 ? !rtit_has(u, CTL_OS) : !rtit_has(u, CTL_USER))
        return false;
    return !cr3_differs(u) && !c->smm && c->vmx != 1;
}

static uint64_t event_id(const struct rtit *u, bool stop) { return u->reg[RTIT_EVENTS] >> (stop ? 3 : 0) & 7; }

void cofi__rtit_update_enables(struct rtit *u)
{
    u->trigger_en = rtit_has(u, CTL_TRACE_EN | CTL_TRACE_ACTIVE);
    u->context_en = context_enable(u);
    u->packet_en = u->trigger_en && u->context_en && u->filter_en;
    u->ip_blind = event_id(u, false) == EVENT_ON && event_id(u, true) > EVENT_EITHER && event_id(u, true) != EVENT_ON;
    u->ip_ranges = event_id(u, false) <= EVENT_EITHER || event_id(u, true) <= EVENT_EITHER;
}

/* RANGEn is [LIPn, LIPn+2 - 1]; an empty one holds nothing [RTIT Table 7]. */
static bool inside(const struct rtit *u, unsigned n, uint64_t ip)
{
    return ip >= u->reg[RTIT_LIP0 + n] && ip < u->reg[RTIT_LIP2 + n];
}

static bool at_base(const struct rtit *u, unsigned n, uint64_t ip)
{
    return ip == u->reg[RTIT_LIP0 + n] && inside(u, n, ip);
}

static bool uses(uint64_t id, unsigned n) { return id == n || id == EVENT_EITHER; }

/* Taken branches and events are compared with the whole range, sequential flow with its base only
 * [RTIT 3.3.5]. */
static bool enters(const struct rtit *u, uint64_t id, uint64_t ip, bool taken)
{
    for (unsigned n = 0; n < 2; n++)
        if (uses(id, n) && (taken ? inside(u, n, ip) : at_base(u, n, ip)))
            return true;
    return id == EVENT_ON;
}

/* Sequential flow leaves at the limit, a taken branch or event wherever it lands outside [RTIT 3.3.5].
 * Reserved ids never match (docs/decisions/0204). */
static bool leaves(const struct rtit *u, uint64_t id, uint64_t ip, bool taken)
{
    if (id > EVENT_EITHER || taken)
        return true; /* asked only when the range was not entered */
    for (unsigned n = 0; n < 2; n++)
        if (uses(id, n) && ip == u->reg[RTIT_LIP2 + n])
            return true;
    return false;
}

bool cofi__rtit_compare_ip(struct rtit *u, uint64_t ip, bool taken)
{
    /* Frozen while Trace_En or ContextEn is 0 [RTIT 2.1.3, RTIT 2.4.3]. */
    if (!rtit_has(u, CTL_TRACE_EN) || !u->context_en)
        return false;
    uint64_t id = event_id(u, false);
    ip &= LIP_MASK;
    if (enters(u, id, ip, taken))
        u->filter_en = true;
    else if (u->filter_en && leaves(u, id, ip, taken))
        u->filter_en = false;
    u->packet_en = u->trigger_en && u->context_en && u->filter_en;
    return u->trigger_en && enters(u, event_id(u, true), ip, taken); /* [RTIT 4.2.11] */
}

const char *cofi__rtit_why_disabled(const struct rtit *u)
{
    if (!rtit_has(u, CTL_TRACE_EN))
        return "TriggerEn is 0: RTIT_CTL.Trace_En is clear";
    if (!rtit_has(u, CTL_TRACE_ACTIVE))
        return "TriggerEn is 0: RTIT_CTL.TraceActive is clear";
    if (u->context.smm)
        return "ContextEn is 0: the processor is in SMM";
    if (u->context.vmx == 1)
        return "ContextEn is 0: the processor is in VMX root mode";
    if (cr3_differs(u))
        return "ContextEn is 0: CR3 is not RTIT_CR3_MATCH";
    if (!u->context_en)
        return u->context.cpl == 0 ? "ContextEn is 0: CPL is 0 and RTIT_CTL.OS is clear"
                                   : "ContextEn is 0: CPL is above 0 and RTIT_CTL.User is clear";
    if (!u->filter_en && event_id(u, false) > EVENT_EITHER && event_id(u, false) != EVENT_ON)
        return "FilterEn is 0: Filter_Event_ID is always off or reserved";
    if (!u->filter_en)
        return "FilterEn is 0: the IP has not entered a range of Filter_Event_ID";
    return "PacketEn is 1";
}
