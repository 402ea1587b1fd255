/* SPDX-License-Identifier: MIT
 * An event that made no packet -> why, in words: which enable was off, or that none was due. */
#include "unit/rtit/rtit.h"

#define BECAUSE(text, tag) (struct rtit_rule){text, tag}

static struct rtit_rule disabled(const struct rtit *u) { return BECAUSE(cofi__rtit_why_disabled(u), "[RTIT 2.1]"); }

/* TriggerEn, and under LESS_PKTS the others too [RTIT Table 17]; a null text: timing packets are on. */
static struct rtit_rule timing_off(const struct rtit *u)
{
    if (!u->trigger_en)
        return disabled(u);
    if (!rtit_has(u, CTL_LESS_PKTS) || u->packet_en)
        return BECAUSE(NULL, NULL);
    return u->context_en ? BECAUSE("RTIT_CTL.LESS_PKTS is set and FilterEn is 0", "[RTIT Table 17]")
                         : BECAUSE("RTIT_CTL.LESS_PKTS is set and ContextEn is 0", "[RTIT Table 17]");
}

static struct rtit_rule no_mtc(const struct rtit *u)
{
    struct rtit_rule off = timing_off(u);
    if (!rtit_has(u, CTL_MTC_EN))
        return BECAUSE("RTIT_CTL.MTC_En is clear", "[RTIT 4.2.12]");
    if (u->sleeping)
        return BECAUSE("the processor sleeps", "[RTIT B 4.1]");
    return off.text ? off : BECAUSE("the watched bits of the TSC did not change", "[RTIT 4.2.12]");
}

static struct rtit_rule no_sts(const struct rtit *u)
{
    return rtit_has(u, CTL_STS_EN) ? timing_off(u) : BECAUSE("RTIT_CTL.STS_En is clear", "[RTIT 4.2.13]");
}

/* MOV CR3 and MOV CR0; FilterEn has no say in them [RTIT 4.2.10]. */
static struct rtit_rule no_pip(const struct rtit *u, const struct cofi_event *event)
{
    if (!u->trigger_en || !u->context_en)
        return disabled(u);
    if (rtit_has(u, CTL_CR3_EN))
        return BECAUSE("RTIT_CTL.CR3En is set: no PIP", "[RTIT 4.2.10]");
    return event->kind == COFI_EV_MOV_CR0 ? BECAUSE("CR0.PG did not change", "[RTIT 4.2.10]")
                                          : BECAUSE("no change of flow", "[RTIT 2.2]");
}

static struct rtit_rule while_enabled(const struct cofi_event *event)
{
    if (event->kind == COFI_EV_JCC)
        return BECAUSE("the outcome waits in RTIT_TNT_BUFF for a full TNT", "[RTIT 4.2.2]");
    if (event->kind == COFI_EV_RET)
        return BECAUSE("it returns behind the last CALL: its outcome waits in RTIT_TNT_BUFF", "[RTIT 4.2.3.2]");
    if (event->kind == COFI_EV_JMP || event->kind == COFI_EV_CALL)
        return BECAUSE("a direct branch follows from the code", "[RTIT 2.2.2.2]");
    return BECAUSE("no change of flow", "[RTIT 2.2]");
}

static struct rtit_rule reason(const struct rtit *u, const struct cofi_event *event, bool before)
{
    if (event->kind == COFI_EV_CLOCK)
        return no_mtc(u);
    if (event->kind == COFI_EV_FREQ || event->kind == COFI_EV_WAKE)
        return no_sts(u);
    if (event->kind == COFI_EV_SLEEP)
        return BECAUSE("falling asleep makes none, waking does", "[RTIT B 4.1]");
    if (u->overflow && (is_instruction(event) || event->kind == COFI_EV_OVERFLOW_HINT))
        return BECAUSE("Buffer_Overflow is set: what it would add is lost", "[RTIT 4.2.5]");
    if (event->kind == COFI_EV_MOV_CR3 || event->kind == COFI_EV_MOV_CR0)
        return no_pip(u, event);
    return before ? while_enabled(event) : disabled(u);
}

void cofi__rtit_explain_silence(struct rtit *u, const struct cofi_event *event, bool before)
{
    cofi__rtit_explain_none(u, reason(u, event, before));
}
