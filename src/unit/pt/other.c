/* SPDX-License-Identifier: MIT
 * Transactions, PTWRITE, VMPTRLD, PEBS records and triggers -> their packets. */
#include "base/bytes.h"
#include "unit/pt/pt.h"

static void tsx_packet(struct cofi__pt *pt, const struct cofi_event *event, bool abort,
                       bool packets)
{
    if (!pt->trigger_en || !pt->context_en || !(cofi__pt_ctl(pt) & PT_BIT(CTL_BRANCH_EN)))
        return;
    cofi__pt_emit_tsx(pt, pt->context.intx, abort, PT_RULE_TSX);
    if (packets)
        cofi__pt_emit_ip(pt, COFI_PT_FUP, event->ip, PT_RULE_TSX);
}

/* An abort is an event whose target is the fallback address [SDM TSX Packet Scenarios]. */
static void abort_edge(struct cofi__pt *pt, const struct cofi_event *event, bool before)
{
    if (before && pt->packet_en) {
        cofi__pt_emit_ip(pt, COFI_PT_TIP, event->target, PT_RULE_TSX);
    } else if (before) {
        cofi__pt_emit_ip(pt, COFI_PT_TIP_PGD, event->target, PT_RULE_PGD);
    } else if (pt->packet_en) {
        cofi__pt_emit_mode(pt, true, PT_RULE_MODE);
        cofi__pt_emit_ip(pt, COFI_PT_TIP_PGE, event->target, PT_RULE_PGE);
    }
    if (pt->stopping)
        cofi__pt_trace_stop(pt);
}

/* Outermost begin and end, and aborts. Nested ones change nothing and make nothing. */
void cofi__pt_tsx(struct cofi__pt *pt, const struct cofi_event *event)
{
    bool abort = event->kind == COFI_EV_XABORT, was = pt->context.intx, before = pt->packet_en;
    struct cofi_context after = event->context_set ? event->after : pt->context;
    if (!event->context_set)
        after.intx = event->kind == COFI_EV_XBEGIN;
    cofi__pt_enables_context(pt, &after);
    if (after.intx == was && !abort)
        return;
    if (abort)
        cofi__pt_erratum_abort(pt);
    tsx_packet(pt, event, abort, before);
    if (!abort)
        return;
    cofi__pt_enables_filter(pt, event->target);
    cofi__pt_enables_packet(pt);
    cofi__pt_ret_clear(pt);
    abort_edge(pt, event, before);
}

/* [SDM PTWRITE Packet]: needs FilterEn, not BranchEn. */
void cofi__pt_ptwrite(struct cofi__pt *pt, const struct cofi_event *event)
{
    struct cofi_packet packet = {.kind = COFI_PT_PTW};
    packet.ptw.wide = event->size == 8;
    packet.ptw.payload = packet.ptw.wide ? event->value : (uint32_t)event->value;
    packet.ptw.ip = (cofi__pt_ctl(pt) & PT_BIT(CTL_FUP_ON_PTW)) != 0;
    if (!pt->trigger_en || !pt->context_en || !pt->filter_en ||
        !(cofi__pt_ctl(pt) & PT_BIT(CTL_PTW_EN)))
        return;
    cofi__pt_emit(pt, &packet, PT_RULE_PTW);
    if (packet.ptw.ip)
        cofi__pt_emit_ip(pt, COFI_PT_FUP, event->ip, PT_RULE_PTW);
}

/* [SDM VMCS Packet] */
void cofi__pt_vmptrld(struct cofi__pt *pt, const struct cofi_event *event)
{
    cofi__pt_enables_context(pt, &event->after);
    if (pt->trigger_en && pt->context_en)
        cofi__pt_emit_vmcs(pt, PT_RULE_VMCS);
}

/* A PEBS record: BBP, items, BEP and its FUP [PTREF 5.9]. Items outside a block are dropped: a PSB
 * or an overflow has closed it. */
void cofi__pt_block(struct cofi__pt *pt, const struct cofi_event *event)
{
    struct cofi_packet packet = {0};
    if (!pt->trigger_en || !pt->context_en)
        return;
    cofi__pt_flush_tnt(pt); /* which may end the block */
    if (event->kind == COFI_EV_BLOCK) {
        packet.kind = COFI_PT_BBP;
        packet.bbp.type = event->value & 31;
        packet.bbp.sz = event->size == 4;
    } else if (!pt->block_open) {
        return;
    } else if (event->kind == COFI_EV_BLOCK_ITEM) {
        packet.kind = COFI_PT_BIP;
        packet.bip.id = event->size & 31;
        packet.bip.wide = pt->codec.block != 2;
        packet.bip.payload = packet.bip.wide ? event->value : (uint32_t)event->value;
    } else {
        packet.kind = COFI_PT_BEP;
        packet.bep.ip = event->taken;
    }
    cofi__pt_emit(pt, &packet, PT_RULE_BLOCK);
    if (event->kind == COFI_EV_BLOCK)
        pt->block_open = true;
    if (packet.kind == COFI_PT_BEP && event->taken)
        cofi__pt_emit_ip(pt, COFI_PT_FUP, event->ip, PT_RULE_BLOCK);
}

enum { TRIGGER_VECTOR_BITS = 8, TRIGGER_LOG = 0x8000, TRIGGER_INPUT = 0x7f };

/* Which of the first 8 triggers are logged and have that input: a bit each, docs/decisions/0308. */
static uint8_t triggers_of(const struct cofi__pt *pt, uint64_t input)
{
    uint8_t vector = 0;
    for (unsigned i = 0; i < TRIGGER_VECTOR_BITS; i++) {
        uint64_t trigger = bits(pt->msr[PT_MSR_TRIGGER0_CFG + i / 4], i % 4 * 16, 16);
        if (trigger & TRIGGER_LOG && (trigger & TRIGGER_INPUT) == input)
            vector |= (uint8_t)(1 << i);
    }
    return vector;
}

/* ICNT counts from the last address in the trace; unknown, a FUP is the anchor and ICNT is 0
 * [PTREF 5.10]. */
void cofi__pt_trigger(struct cofi__pt *pt, const struct cofi_event *event)
{
    struct cofi_packet packet = {.kind = COFI_PT_TRIG};
    bool anchored = pt->packet_en && event->taken;
    if (!pt->trigger_en || !pt->context_en || !cofi__pt_caps_has(pt->caps, PT_NEED_TRIGGER))
        return;
    packet.trig.trbv = event->cause ? triggers_of(pt, event->value) : (uint8_t)event->value;
    if (event->cause && !packet.trig.trbv)
        return;
    packet.trig.mult = event->size & 1;
    packet.trig.icntv = pt->packet_en;
    packet.trig.icnt = anchored ? (uint16_t)event->value2 : 0;
    packet.trig.ip = pt->packet_en && !anchored;
    cofi__pt_emit(pt, &packet, PT_RULE_TRIGGER);
    if (packet.trig.ip)
        cofi__pt_emit_ip(pt, COFI_PT_FUP, event->ip, PT_RULE_TRIGGER);
}
