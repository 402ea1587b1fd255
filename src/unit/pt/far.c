/* SPDX-License-Identifier: MIT
 * Far transfers and events -> event trace, FUP, PIP, MODE.Exec, TIP of one kind or another,
 * TraceStop. [SDM Packet Generation under Different Enable Conditions]; the order of the parts is
 * PTREF 6.3's. */
#include "base/bytes.h"
#include "unit/pt/pt.h"

/* Event trace [PTREF 5.8]: the type of an event, and whether it may carry its own FUP. */
struct cfe_row {
    uint8_t type; /* 0: none */
    bool ip_allowed;
};

static const struct cfe_row far_cfe[COFI_FAR_KINDS] = {
    [COFI_FAR_IRET] = {0x02, true},     [COFI_FAR_SYSRET] = {0x02, true},
    [COFI_FAR_SYSEXIT] = {0x02, true},  [COFI_FAR_ERETU] = {0x02, true},
    [COFI_FAR_ERETS] = {0x02, true},    [COFI_FAR_RSM] = {0x04, false},
    [COFI_FAR_VMENTRY] = {0x07, true},  [COFI_FAR_UIRET] = {0x0d, true},
    [COFI_FAR_VMENTRY_LATE] = {0x07, true},
    [COFI_FAR_INT] = {0x0e, true},      [COFI_FAR_SYSCALL] = {0x0f, true},
    [COFI_FAR_SYSENTER] = {0x0f, true},
};

static const struct cfe_row cause_cfe[COFI_CAUSE_KINDS] = {
    [COFI_CAUSE_INTR] = {0x01, true},     [COFI_CAUSE_NMI] = {0x01, true},
    [COFI_CAUSE_TRAP] = {0x01, true},     [COFI_CAUSE_FAULT] = {0x01, true},
    [COFI_CAUSE_MC_TRAP] = {0x01, true},  [COFI_CAUSE_MC_FAULT] = {0x01, true},
    [COFI_CAUSE_SMI] = {0x03, true},      [COFI_CAUSE_SIPI] = {0x05, false},
    [COFI_CAUSE_INIT_BSP] = {0x06, true}, [COFI_CAUSE_INIT_AP] = {0x06, true},
    [COFI_CAUSE_VMEXIT] = {0x08, true},   [COFI_CAUSE_SHUTDOWN] = {0x0a, false},
    [COFI_CAUSE_UINTR] = {0x0c, true},    [COFI_CAUSE_AEX] = {0x01, true},
    [COFI_CAUSE_VMX_ABORT] = {0x08, true},
};

enum {
    CFE_VMEXIT_INTR = 0x09,
    EVD_CR2 = 0,
    EVD_QUALIFICATION = 1,
    EVD_REASON = 2,
    PAGE_FAULT = 14
};

static void evd(struct cofi__pt *pt, uint8_t type, uint64_t payload)
{
    struct cofi_packet packet = {.kind = COFI_PT_EVD};
    packet.evd.type = type;
    packet.evd.payload = payload;
    cofi__pt_emit(pt, &packet, PT_RULE_CFE);
}

static void event_data(struct cofi__pt *pt, const struct cofi_event *event)
{
    if (event->kind != COFI_EV_EVENT)
        return;
    if (event->cause == COFI_CAUSE_FAULT && event->vector == PAGE_FAULT)
        evd(pt, EVD_CR2, event->value);
    if (event->cause == COFI_CAUSE_VMEXIT) {
        evd(pt, EVD_QUALIFICATION, event->value);
        evd(pt, EVD_REASON, event->value2);
    }
}

/* EVD and CFE go first. CFE has its own FUP where the event's packets will not have one although
 * the context is traced [PTREF 5.8, PTREF 6.7]. */
static void event_trace(struct cofi__pt *pt, const struct cofi_event *event,
                        const struct cofi_context *after)
{
    if (event->cause >= (event->kind == COFI_EV_FAR ? COFI_FAR_KINDS : COFI_CAUSE_KINDS))
        return;
    struct cfe_row row =
        event->kind == COFI_EV_FAR ? far_cfe[event->cause] : cause_cfe[event->cause];
    if (!row.type || !pt->trigger_en || !(cofi__pt_ctl(pt) & PT_BIT(CTL_EVENT_EN)))
        return;
    if (!pt->context_en && !cofi__pt_context_value(pt, after))
        return;
    struct cofi_packet packet = {.kind = COFI_PT_CFE};
    bool vector = event->vector != COFI_NO_VECTOR;
    packet.cfe.type = row.type == 0x08 && vector ? CFE_VMEXIT_INTR : row.type;
    packet.cfe.vector = vector ? (uint8_t)event->vector : 0;
    packet.cfe.ip = row.ip_allowed && pt->context_en && !pt->packet_en;
    event_data(pt, event);
    cofi__pt_emit(pt, &packet, PT_RULE_CFE);
    if (packet.cfe.ip)
        cofi__pt_emit_ip(pt, COFI_PT_FUP, event->ip, PT_RULE_CFE);
}

/* Does the transfer write CR3, as the trace sees it? [SDM VMX-Specific Packets and VMCS Controls]
 */
static bool writes_cr3(const struct cofi__pt *pt, const struct cofi_event *event,
                       const struct cofi_context *before)
{
    if (event->kind == COFI_EV_EVENT && event->cause == COFI_CAUSE_VMEXIT)
        return !(before->conceal & COFI_CONCEAL_EXITS);
    if (event->kind == COFI_EV_FAR && event->cause == COFI_FAR_VMENTRY_LATE)
        return !(before->conceal & COFI_CONCEAL_EXITS);
    if (event->kind == COFI_EV_FAR && event->cause == COFI_FAR_VMENTRY)
        return !(before->conceal & COFI_CONCEAL_ENTRIES) && before->vmx != pt->context.vmx;
    if (event->kind == COFI_EV_FAR && event->cause == COFI_FAR_RSM)
        return false;
    if (event->kind == COFI_EV_EVENT &&
        (event->cause == COFI_CAUSE_INIT_BSP || event->cause == COFI_CAUSE_INIT_AP))
        return true;
    return before->cr3 != pt->context.cr3;
}

static void pip(struct cofi__pt *pt, const struct cofi_event *event,
                const struct cofi_context *before)
{
    bool entry = event->kind == COFI_EV_FAR && event->cause == COFI_FAR_VMENTRY;
    bool vmx = entry || (event->kind == COFI_EV_FAR ? event->cause == COFI_FAR_VMENTRY_LATE
                                                    : event->cause == COFI_CAUSE_VMEXIT);
    if (pt->trigger_en && pt->context_en && cofi__pt_ctl(pt) & PT_BIT(CTL_OS) &&
        writes_cr3(pt, event, before))
        cofi__pt_emit_pip(pt, entry, vmx ? PT_RULE_PIP_VMX : PT_RULE_PIP);
}

/* Into an STM and out of it again: which VMCS runs now [SDM VMX-Specific Packets and VMCS Controls, SDM
 * Tracing And Smm Transfer Monitor (Stm)]. */
static void stm_vmcs(struct cofi__pt *pt, const struct cofi_event *event,
                     const struct cofi_context *before)
{
    bool exit = event->kind == COFI_EV_EVENT && event->cause == COFI_CAUSE_VMEXIT;
    bool entry = event->kind == COFI_EV_FAR && event->cause == COFI_FAR_VMENTRY;
    uint8_t concealed = exit ? COFI_CONCEAL_EXITS : COFI_CONCEAL_ENTRIES;
    if ((exit || entry) && before->smm != pt->context.smm && !(before->conceal & concealed) &&
        pt->trigger_en && pt->context_en)
        cofi__pt_emit_vmcs(pt, PT_RULE_VMCS_STM);
}

/* Everything after the FUP: PIP, MODE.Exec, the TIP of the edge, TraceStop. */
static void arrive(struct cofi__pt *pt, const struct cofi_event *event,
                   const struct cofi_context *after, bool before_en)
{
    struct cofi_context before = pt->context;
    bool is_event = event->kind == COFI_EV_EVENT;
    cofi__pt_enables_context(pt, after);
    cofi__pt_enables_filter(pt, event->target);
    cofi__pt_enables_packet(pt);
    pip(pt, event, &before);
    stm_vmcs(pt, event, &before);
    if (pt->packet_en) {
        cofi__pt_emit_mode(pt, !before_en, PT_RULE_MODE);
        if (before_en)
            cofi__pt_emit_ip(pt, COFI_PT_TIP, event->target,
                             is_event ? PT_RULE_TIP_EVENT : PT_RULE_TIP_FAR);
        else
            cofi__pt_emit_ip(pt, COFI_PT_TIP_PGE, event->target, PT_RULE_PGE);
    } else if (before_en && pt->context_en) {
        cofi__pt_emit_ip(pt, COFI_PT_TIP_PGD, event->target, PT_RULE_PGD);
    } else if (before_en) {
        cofi__pt_emit_no_ip(pt, COFI_PT_TIP_PGD, PT_RULE_PGD);
    }
    if (pt->stopping)
        cofi__pt_trace_stop(pt);
}

/* Does the transfer tell where it came from? Events do, of instructions only INT n and enclave transitions
 * [SDM FUP Cases and IP Payload]. */
static bool has_fup(const struct cofi_event *event)
{
    if (event->kind == COFI_EV_EVENT)
        return event->cause != COFI_CAUSE_SIPI;
    return event->cause == COFI_FAR_INT || event->cause == COFI_FAR_EENTER || event->cause == COFI_FAR_EEXIT;
}

/* The source's address; of an indirect branch that an event comes before, Goldmont tells the end [ERR GOLDMONT]. */
static uint64_t source(const struct cofi__pt *pt, const struct cofi_event *event)
{
    bool end = event->kind == COFI_EV_EVENT && event->next && pt->config.errata & COFI_ERRATUM_GOLDMONT;
    return end ? event->next : event->ip;
}

static void fup(struct cofi__pt *pt, uint64_t ip)
{
    if (pt->packet_en)
        cofi__pt_emit_ip(pt, COFI_PT_FUP, ip, PT_RULE_FUP_EVENT);
}

/* A transition whose own MSR lists write the control register [SDM Managing Trace Packet Generation
 * Across VMX Transitions]: cleared TraceEn gives PIP?, TIP.PGD(), set TraceEn is an enable at the
 * target. */
static void loaded_control(struct cofi__pt *pt, const struct cofi_event *event,
                           const struct cofi_context *after)
{
    struct cofi_context before = pt->context;
    if (cofi__pt_ctl(pt) & PT_BIT(CTL_TRACE_EN)) {
        if (event->kind == COFI_EV_FAR && pt->config.errata & COFI_ERRATUM_SKD022)
            fup(pt, event->ip);
        cofi__pt_enables_context(pt, after);
        pip(pt, event, &before);
        cofi__pt_disable(pt, 0, false);
    }
    pt->context = *after;
    pt->ip = event->target;
    pt->rsm = event->kind == COFI_EV_FAR && event->cause == COFI_FAR_RSM ? event : NULL;
    cofi__pt_ctl_load(pt, event->control, event->target, event->target);
    pt->rsm = NULL;
}

/* RSM has turned tracing on: its CFE stands before TIP.PGE [PTREF 6.7]. */
void cofi__pt_tell_rsm(struct cofi__pt *pt)
{
    if (pt->rsm)
        event_trace(pt, pt->rsm, &pt->context);
}

/* Not where TraceEn is 1 before and after: such a list does not change the register [PTREF 2]. */
static bool loads_control(const struct cofi__pt *pt, const struct cofi_event *event)
{
    return event->msr && !(event->control & cofi__pt_ctl(pt) & PT_BIT(CTL_TRACE_EN));
}

/* A VM entry that fails late has loaded the guest's state: its PIP comes first. Where lists cleared
 * TraceEn and set it again, the time of that enable stands between; no packet tells of the time
 * between [SDM Failed VM Entry]. */
static void late_failure(struct cofi__pt *pt, const struct cofi_event *event)
{
    struct cofi_context host = pt->context;
    if (!pt->trigger_en)
        return;
    if (event->msr) {
        cofi__pt_tsc_tma(pt, PT_RULE_ENABLE);
        cofi__pt_cbr(pt, PT_RULE_ENABLE);
    } else if (pt->context_en && cofi__pt_ctl(pt) & PT_BIT(CTL_OS) &&
               !(host.conceal & COFI_CONCEAL_ENTRIES)) {
        pt->context.cr3 = event->value;
        pt->context.vmx = 2;
        cofi__pt_emit_pip(pt, true, PT_RULE_PIP_VMX);
        pt->context = host;
    }
}

/* TraceEn is cleared and no packet tells; bits that are not in a packet yet are dropped [SDM
 * SENTER/ENTERACCS and ACM]. */
static void senter(struct cofi__pt *pt, const struct cofi_context *after)
{
    pt->tnt_count = pt->deferred_count = 0;
    pt->packet_en = false;
    if (cofi__pt_ctl(pt) & PT_BIT(CTL_TRACE_EN))
        cofi__pt_disable(pt, 0, false);
    pt->context = *after;
}

/* Off and on again without TIP.PGD and TIP.PGE; the time is told [SDM SENTER/ENTERACCS and ACM]. */
static void code_module(struct cofi__pt *pt)
{
    if (!pt->trigger_en)
        return;
    cofi__pt_tsc_tma(pt, PT_RULE_ACM);
    cofi__pt_cbr(pt, PT_RULE_ACM);
}

/* Tracing is being turned off while an EVENT or FAR waits for its target: what is known of it is told, and that
 * tracing ends there. */
void cofi__pt_abandon(struct cofi__pt *pt)
{
    struct cofi_event event = pt->pending;
    pt->attention &= (uint8_t)~PT_DO_PENDING;
    event_trace(pt, &event, event.context_set ? &event.after : &pt->context);
    if (has_fup(&event))
        fup(pt, event.ip);
    if (event.context_set)
        pt->context = event.after;
}

/* The RET stack is not kept across far transfers [PTREF 7.2]. RSM while TraceEn is 1 ends in shutdown and makes
 * nothing [PTREF 6.3]. */
void cofi__pt_far(struct cofi__pt *pt, const struct cofi_event *event)
{
    const struct cofi_context *after = event->context_set ? &event->after : &pt->context;
    struct cofi_context copy = *after;
    bool before_en = pt->packet_en;
    if (event->cause == COFI_FAR_RSM && cofi__pt_ctl(pt) & PT_BIT(CTL_TRACE_EN))
        return;
    event_trace(pt, event, &copy);
    if (event->cause == COFI_FAR_VMENTRY_LATE)
        late_failure(pt, event);
    if (has_fup(event))
        fup(pt, source(pt, event));
    if (event->cause == COFI_FAR_SENTER)
        senter(pt, &copy);
    else if (event->cause == COFI_FAR_ACM)
        code_module(pt);
    else if (loads_control(pt, event))
        loaded_control(pt, event, &copy);
    else
        arrive(pt, event, &copy, before_en);
    if (!pt->config.returns_pop)
        cofi__pt_ret_clear(pt);
}

/* State after INIT, unless the host says [SDM Packet Generation under Different Enable Conditions].
 */
static struct cofi_context reset_context(void)
{
    return (struct cofi_context){.vmcs = UINT64_MAX, .cs_base = 0xffff0000, .mode = 16};
}

/* An application processor now waits for SIPI: FUP, PIP(0)?, and the TIP comes with SIPI; nothing at all where
 * packets are off. */
static void init_ap(struct cofi__pt *pt, const struct cofi_event *event,
                    const struct cofi_context *after)
{
    struct cofi_context before = pt->context;
    bool filter = pt->filter_en, context = pt->context_en;
    cofi__pt_enables_context(pt, after);
    pt->compound = pt->packet_en;
    if (pt->packet_en) {
        pip(pt, event, &before);
        pt->context_en = context; /* enables move with SIPI */
        pt->filter_en = filter;
    }
}

/* INIT ends in a sleep, told after its packets [SDM PwrEvtEn and PTWEn Packet Generation under
 * Different Enable Conditions]. */
static void init_power(struct cofi__pt *pt, uint64_t ip)
{
    if (pt->trigger_en && cofi__pt_ctl(pt) & PT_BIT(CTL_PWR_EVT_EN))
        cofi__pt_stop_clock(pt, ip, 1, 0, false);
}

static void smi(struct cofi__pt *pt, const struct cofi_event *event,
                const struct cofi_context *after)
{
    if (cofi__pt_ctl(pt) & PT_BIT(CTL_TRACE_EN))
        cofi__pt_disable(pt, event->ip, true);
    pt->context = *after;
}

/* Packets of the VM exit may be missing and its TIP may be dropped; this one ends the flow for every
 * reader, docs/decisions/0307. Then the processor is in shutdown [SDM VMX Abort]. */
static void vmx_abort(struct cofi__pt *pt, const struct cofi_event *event,
                      const struct cofi_context *after)
{
    fup(pt, event->ip);
    if (pt->packet_en)
        cofi__pt_emit_no_ip(pt, COFI_PT_TIP_PGD, PT_RULE_VMX_ABORT);
    cofi__pt_enables_context(pt, after);
    pt->filter_en = false;
    cofi__pt_enables_packet(pt);
    init_power(pt, event->ip);
}

void cofi__pt_interrupt(struct cofi__pt *pt, const struct cofi_event *event)
{
    enum cofi_cause cause = event->cause;
    bool init = cause == COFI_CAUSE_INIT_BSP || cause == COFI_CAUSE_INIT_AP;
    struct cofi_context after = event->context_set ? event->after
                                : init             ? reset_context()
                                                   : pt->context;
    bool before_en = pt->packet_en;
    event_trace(pt, event, &after);
    if (cause == COFI_CAUSE_SMI) {
        smi(pt, event, &after);
        return;
    }
    if (cause == COFI_CAUSE_SHUTDOWN) {
        init_power(pt, event->ip);
        return;
    }
    if (cause == COFI_CAUSE_VMX_ABORT) {
        vmx_abort(pt, event, &after);
        return;
    }
    if (has_fup(event))
        fup(pt, source(pt, event));
    if (cause == COFI_CAUSE_INIT_AP) {
        init_ap(pt, event, &after);
    } else if (loads_control(pt, event)) {
        loaded_control(pt, event, &after);
    } else {
        pt->compound = false;
        arrive(pt, event, &after, before_en);
    }
    if (init)
        init_power(pt, event->ip);
}
