/* SPDX-License-Identifier: MIT
 * Near branches and MOV CR3 -> packets [SDM Packet Generation under Different Enable Conditions].
 */
#include "base/bytes.h"
#include "unit/pt/pt.h"

/* PacketEn went 0 -> 1 at ip. */
static void page_in(struct cofi__pt *pt, uint64_t ip)
{
    cofi__pt_emit_mode(pt, true, PT_RULE_MODE);
    cofi__pt_emit_ip(pt, COFI_PT_TIP_PGE, ip, PT_RULE_PGE);
}

/* A near branch to target is taken: move FilterEn. Returns whether PacketEn is the same before and
 * after. */
static bool move(struct cofi__pt *pt, uint64_t target)
{
    bool before = pt->packet_en;
    cofi__pt_enables_filter(pt, target);
    cofi__pt_enables_packet(pt);
    return pt->packet_en == before;
}

/* The edges that all taken near branches share; with_ip: TIP.PGD carries the target. */
static void edge(struct cofi__pt *pt, uint64_t target, bool with_ip)
{
    if (pt->packet_en)
        page_in(pt, target);
    else if (with_ip)
        cofi__pt_emit_ip(pt, COFI_PT_TIP_PGD, target, PT_RULE_PGD);
    else
        cofi__pt_emit_no_ip(pt, COFI_PT_TIP_PGD, PT_RULE_PGD);
}

static void end(struct cofi__pt *pt)
{
    if (pt->stopping)
        cofi__pt_trace_stop(pt);
}

/* Only a taken one moves FilterEn; leaving, it has no bit and TIP.PGD no address [PTREF 6.2]. */
void cofi__pt_jcc(struct cofi__pt *pt, const struct cofi_event *event)
{
    if (event->taken && !move(pt, event->target))
        edge(pt, event->target, false);
    else if (pt->packet_en)
        cofi__pt_bit(pt, event->taken);
    end(pt);
}

/* The code tells the target, so packets stand only at the edges [SDM Direct Transfer COFI]. */
void cofi__pt_direct(struct cofi__pt *pt, const struct cofi_event *event, bool call)
{
    bool no_ip = pt->config.errata & COFI_ERRATUM_SKL014;
    if (!move(pt, event->target))
        edge(pt, event->target, !no_ip);
    else if (call && pt->packet_en && event->target != event->next)
        cofi__pt_ret_push(pt, event->next);
    end(pt);
}

void cofi__pt_indirect(struct cofi__pt *pt, const struct cofi_event *event, bool call)
{
    if (!move(pt, event->target)) {
        edge(pt, event->target, true);
    } else if (pt->packet_en) {
        cofi__pt_tip(pt, event->target, PT_RULE_TIP);
        if (call)
            cofi__pt_ret_push(pt, event->next);
    }
    end(pt);
}

/* A return that would be compressed leaves as a taken conditional does [PTREF 6.2]. */
void cofi__pt_return(struct cofi__pt *pt, const struct cofi_event *event)
{
    bool compressed = pt->packet_en && cofi__pt_ret_pop(pt, event->target);
    if (!move(pt, event->target))
        edge(pt, event->target, !compressed);
    else if (compressed)
        cofi__pt_bit(pt, true);
    else if (pt->packet_en)
        cofi__pt_tip(pt, event->target, PT_RULE_TIP_RET);
    end(pt);
}

/* A change of context that is no branch: MOV CR3 with its PIP, others without. FilterEn follows
 * only when ContextEn becomes 1; MOV CR3 in a TraceStop range stops [PTREF 3.1, PTREF 3.3]. */
static void change(struct cofi__pt *pt, const struct cofi_event *event, bool cr3)
{
    bool before = pt->packet_en, context = pt->context_en;
    cofi__pt_enables_context(pt, &event->after);
    if (!context && pt->context_en)
        cofi__pt_enables_filter(pt, event->next);
    if (cr3 && pt->trigger_en && pt->context_en && cofi__pt_in_stop(pt, event->ip)) {
        pt->stopping = true;
        pt->filter_en = false;
    }
    cofi__pt_enables_packet(pt);
    if (cr3 && pt->trigger_en && pt->context_en && cofi__pt_ctl(pt) & PT_BIT(CTL_OS))
        cofi__pt_emit_pip(pt, false, PT_RULE_PIP);
    if (!before && pt->packet_en)
        page_in(pt, event->next);
    else if (before && !pt->packet_en)
        edge(pt, event->next, pt->context_en);
    end(pt);
}

void cofi__pt_mov_cr3(struct cofi__pt *pt, const struct cofi_event *event)
{
    change(pt, event, true);
}

/* VMXON clears TraceEn on parts that cannot trace in VMX operation [PTREF 1.4]. */
static bool vmxon(const struct cofi__pt *pt, const struct cofi_event *event)
{
    return !pt->caps->vmx && event->after.vmx != 0;
}

/* CLI, STI, POPF and others. A new RFLAGS.IF is told at once under event trace: MODE.Exec,
 * FUP(NLIP) [PTREF 6.7]. */
void cofi__pt_state(struct cofi__pt *pt, const struct cofi_event *event)
{
    bool iflag = pt->context.iflag != event->after.iflag && cofi__pt_ctl(pt) & PT_BIT(CTL_EVENT_EN);
    if (vmxon(pt, event) && cofi__pt_ctl(pt) & PT_BIT(CTL_TRACE_EN))
        cofi__pt_disable(pt, event->ip, true);
    change(pt, event, false);
    if (iflag && pt->trigger_en && pt->context_en) {
        cofi__pt_emit_mode(pt, true, PT_RULE_MODE_IF);
        cofi__pt_emit_ip(pt, COFI_PT_FUP, event->next, PT_RULE_MODE_IF);
    }
}
