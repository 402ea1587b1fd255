/* SPDX-License-Identifier: MIT
 * Registers and processor state -> TriggerEn, ContextEn, FilterEn, PacketEn, and what their edges
 * make. [SDM Packet Generation Enable Controls] */
#include "base/bytes.h"
#include "unit/pt/pt.h"

/* An address as filters and payloads see it [SDM Packet Decoding of RIP versus LIP]. */
uint64_t cofi__pt_address(const struct cofi__pt *pt, uint64_t ip)
{
    if (cofi__pt_caps_has(pt->caps, PT_NEED_LIP) || pt->context.mode == 64)
        return ip;
    return (uint32_t)(ip - pt->context.cs_base);
}

/* ADDRn_CFG 1: filter, 2: TraceStop [SDM Filtering by IP]. */
static void load_ranges(struct cofi__pt *pt)
{
    pt->filter_count = pt->stop_count = 0;
    for (unsigned i = 0; i < cofi__pt_caps_ranges(pt->caps); i++) {
        struct cofi__pt_range range = {pt->msr[PT_MSR_ADDR0_A + 2 * i],
                                       pt->msr[PT_MSR_ADDR0_B + 2 * i]};
        uint64_t cfg = bits(cofi__pt_ctl(pt), PT_CTL_ADDR0_CFG_LSB + 4 * i, 4);
        if (cfg == 1)
            pt->filters[pt->filter_count++] = range;
        else if (cfg == 2)
            pt->stops[pt->stop_count++] = range;
    }
}

static bool in_any(const struct cofi__pt_range *ranges, unsigned n, uint64_t address)
{
    for (unsigned i = 0; i < n; i++)
        if (address >= ranges[i].base && address <= ranges[i].limit)
            return true;
    return false;
}

bool cofi__pt_in_stop(const struct cofi__pt *pt, uint64_t ip)
{
    return pt->stop_count > 0 && in_any(pt->stops, pt->stop_count, cofi__pt_address(pt, ip));
}

/* CR3 matches in 63:12, under PAE paging in 63:5 [SDM Filtering by CR3]. */
static bool cr3_matches(const struct cofi__pt *pt, const struct cofi_context *context)
{
    uint64_t differ = context->cr3 ^ pt->msr[PT_MSR_CR3_MATCH];
    return (differ >> (context->pae ? 5 : 12)) == 0;
}

/* [SDM Context Enable (ContextEn)] */
bool cofi__pt_context_value(const struct cofi__pt *pt, const struct cofi_context *context)
{
    uint64_t ctl = cofi__pt_ctl(pt);
    if (!(ctl & (context->cpl == 0 ? PT_BIT(CTL_OS) : PT_BIT(CTL_USER))) || context->enclave)
        return false;
    return !(ctl & PT_BIT(CTL_CR3_FILTER)) || cr3_matches(pt, context);
}

/* The processor's state changed. ContextEn does not follow while TriggerEn is 0 [PTREF 2.2]. */
void cofi__pt_enables_context(struct cofi__pt *pt, const struct cofi_context *context)
{
    pt->context = *context;
    if (pt->trigger_en)
        pt->context_en = cofi__pt_context_value(pt, context);
}

/* Would FilterEn be 1 at ip? */
bool cofi__pt_passes(const struct cofi__pt *pt, uint64_t ip)
{
    return !cofi__pt_in_stop(pt, ip) &&
           (pt->filter_count == 0 ||
            in_any(pt->filters, pt->filter_count, cofi__pt_address(pt, ip)));
}

/* A taken branch, an event or an enable leads to ip; FilterEn follows only while ContextEn is 1,
 * and TraceStop ranges win [SDM Filter Enable (FilterEn), PTREF 3.1]. */
void cofi__pt_enables_filter(struct cofi__pt *pt, uint64_t ip)
{
    if (!pt->trigger_en || !pt->context_en)
        return;
    pt->stopping = cofi__pt_in_stop(pt, ip);
    pt->filter_en = cofi__pt_passes(pt, ip);
}

/* [SDM Packet Enable (PacketEn)]. Returns are never compressed across a time without it
 * [PTREF 7.1]. */
void cofi__pt_enables_packet(struct cofi__pt *pt)
{
    bool now = pt->trigger_en && pt->context_en && pt->filter_en &&
               (cofi__pt_ctl(pt) & PT_BIT(CTL_BRANCH_EN));
    if (now != pt->packet_en)
        cofi__pt_ret_clear(pt);
    pt->packet_en = now;
}

/* Nothing is generated any more; what is not in the output yet is lost. ContextEn keeps its value.
 */
void cofi__pt_trigger_off(struct cofi__pt *pt)
{
    if (!pt->trigger_en)
        return;
    uint64_t count = pt->psb_bytes;
    uint64_t most = (UINT64_C(1) << PT_STATUS_PACKET_BYTE_CNT_WIDTH) - 1;
    pt->msr[PT_MSR_STATUS] &= ~(most << PT_STATUS_PACKET_BYTE_CNT_LSB);
    if (cofi__pt_caps_has(pt->caps, PT_NEED_PSB_CYC))
        pt->msr[PT_MSR_STATUS] |= (count < most ? count : most) << PT_STATUS_PACKET_BYTE_CNT_LSB;
    pt->trigger_en = false;
    pt->stopping = false;
    pt->overflow = false;
    pt->block_open = false;
    pt->codec.block = 0;
    pt->compound = false;
    pt->tnt_count = pt->deferred_count = 0;
    pt->tip_held = false;
    pt->mtc_tsc = UINT64_MAX;
    pt->attention &= PT_DO_CLOCK;
    cofi__pt_enables_packet(pt);
}

/* Tracing ends in an internal overflow: what is inside goes out, so that the overflow can be told. */
static void tell_overflow(struct cofi__pt *pt)
{
    if (!pt->overflow)
        return;
    cofi__pt_drain_all(pt);
    if (pt->overflow) /* the output may have stopped everything */
        cofi__pt_resume(pt, 0, false);
}

/* Execution reached a TraceStop range; any TIP.PGD is already made [SDM TraceStop Packet]. In an
 * internal overflow the packet is lost, and the overflow is told [PTREF 3.3]. */
void cofi__pt_trace_stop(struct cofi__pt *pt)
{
    pt->stopping = false;
    tell_overflow(pt);
    cofi__pt_emit_kind(pt, COFI_PT_TRACESTOP, PT_RULE_TRACESTOP);
    cofi__pt_commit(pt);
    pt->msr[PT_MSR_STATUS] |= PT_BIT(STATUS_STOPPED);
    cofi__pt_trigger_off(pt);
}

static enum cofi__pt_output_mode output_mode(const struct cofi__pt *pt)
{
    if (!pt->config.memory.write || cofi__pt_ctl(pt) & PT_BIT(CTL_FABRIC_EN))
        return PT_OUTPUT_SINK;
    return cofi__pt_ctl(pt) & PT_BIT(CTL_TOPA) ? PT_OUTPUT_TOPA : PT_OUTPUT_RANGE;
}

/* Is a PSB owed at this enable? [SDM Enabling Packet Generation, PTREF 1.2, PTREF 2.2] */
static bool psb_owed(struct cofi__pt *pt, enum cofi__pt_rule *rule)
{
    bool pend =
        cofi__pt_ctl(pt) & PT_BIT(CTL_INJECT) && pt->msr[PT_MSR_STATUS] & PT_BIT(STATUS_PEND_PSB);
    if (pend) {
        pt->msr[PT_MSR_STATUS] &= ~PT_BIT(STATUS_PEND_PSB);
        *rule = PT_RULE_PSB_PEND;
        return true;
    }
    *rule = PT_RULE_PSB_ENABLE;
    return pt->psb_bytes == 0 || !cofi__pt_caps_has(pt->caps, PT_NEED_PSB_CYC);
}

/* A PMI that came due while tracing was being turned off is delivered now [PTREF 2.2]. */
static void inject_pmi(struct cofi__pt *pt)
{
    if (!(cofi__pt_ctl(pt) & PT_BIT(CTL_INJECT)) ||
        !(pt->msr[PT_MSR_STATUS] & PT_BIT(STATUS_PEND_PMI)))
        return;
    pt->msr[PT_MSR_STATUS] &= ~PT_BIT(STATUS_PEND_PMI);
    if (pt->config.pmi)
        pt->config.pmi(pt->config.opaque);
}

/* The output that the registers describe, unless an earlier stop or error forbids it: is it there? */
static bool open_output(struct cofi__pt *pt)
{
    pt->out.mode = PT_OUTPUT_SINK; /* the registers stay as they are */
    if (pt->msr[PT_MSR_STATUS] & (PT_BIT(STATUS_ERROR) | PT_BIT(STATUS_STOPPED)))
        return false;
    unsigned what = cofi__pt_output_start(&pt->out, output_mode(pt), pt->msr[PT_MSR_OUTPUT_BASE],
                                          pt->msr[PT_MSR_OUTPUT_MASK_PTRS]);
    if (what & PT_OUTPUT_ERROR)
        pt->msr[PT_MSR_STATUS] |= PT_BIT(STATUS_ERROR);
    return !(what & PT_OUTPUT_ERROR);
}

/* TraceEn became 1 by an instruction at clip, and the next is at ip [SDM Enabling Packet Generation, PTREF 6.1].
 * A TraceStop range with that instruction in it stops, too [PTREF 3.3]. */
void cofi__pt_enable(struct cofi__pt *pt, uint64_t clip, uint64_t ip)
{
    enum cofi__pt_rule rule;
    load_ranges(pt);
    if (!open_output(pt))
        return;
    pt->trigger_en = true;
    pt->filter_en = pt->filter_count == 0;
    pt->psb_bytes = PT_GET(pt->msr[PT_MSR_STATUS], STATUS_PACKET_BYTE_CNT);
    pt->last_ip = 0;
    pt->ip_full = true; /* another trace may have passed since LastIP was */
    pt->mode_sent = PT_MODE_NONE;
    cofi__pt_clock_start(pt);
    cofi__pt_enables_context(pt, &pt->context);
    cofi__pt_enables_filter(pt, ip);
    if (pt->context_en && cofi__pt_in_stop(pt, clip)) {
        pt->stopping = true;
        pt->filter_en = false;
    }
    inject_pmi(pt);
    if (psb_owed(pt, &rule)) {
        cofi__pt_psb(pt, true, ip, rule);
    } else {
        cofi__pt_tsc_tma(pt, PT_RULE_ENABLE);
        cofi__pt_cbr(pt, PT_RULE_ENABLE);
    }
    if (!pt->trigger_en) /* the output stopped already */
        return;
    cofi__pt_tell_rsm(pt);
    cofi__pt_enables_packet(pt);
    if (pt->packet_en) {
        cofi__pt_emit_mode(pt, true, PT_RULE_MODE);
        cofi__pt_emit_ip(pt, COFI_PT_TIP_PGE, ip, PT_RULE_ENABLE);
    }
    if (pt->stopping)
        cofi__pt_trace_stop(pt);
    cofi__pt_commit(pt);
}

/* FUP(CLIP), TIP.PGD() if packets are on [SDM Disabling Packet Generation]. */
static void last_packets(struct cofi__pt *pt, uint64_t fup_ip, bool fup)
{
    if (pt->buffer.capacity) /* so that they find room */
        cofi__pt_drain_all(pt);
    tell_overflow(pt);
    if (pt->attention & PT_DO_PENDING)
        cofi__pt_abandon(pt);
    else if (pt->packet_en && fup)
        cofi__pt_emit_ip(pt, COFI_PT_FUP, fup_ip, PT_RULE_DISABLE);
    if (pt->packet_en)
        cofi__pt_emit_no_ip(pt, COFI_PT_TIP_PGD, PT_RULE_DISABLE);
    cofi__pt_flush_tnt(pt);
    cofi__pt_commit(pt);
}

/* The output registers are the unit's while TraceEn is 1, and software's from now on. */
void cofi__pt_output_store(struct cofi__pt *pt)
{
    if (pt->out.mode == PT_OUTPUT_SINK)
        return;
    pt->msr[PT_MSR_OUTPUT_BASE] = cofi__pt_output_base(&pt->out);
    pt->msr[PT_MSR_OUTPUT_MASK_PTRS] = cofi__pt_output_mask_ptrs(&pt->out);
}

/* TraceEn becomes 0 (the register still has it): what is inside goes out [SDM Flushing Trace
 * Output]. */
void cofi__pt_disable(struct cofi__pt *pt, uint64_t fup_ip, bool fup)
{
    bool traced = pt->trigger_en;
    pt->disabling = true;
    if (traced)
        last_packets(pt, fup_ip, fup);
    cofi__pt_drain_all(pt);
    pt->disabling = false;
    if (traced && pt->psb_bytes >= pt->psb_period && cofi__pt_ctl(pt) & PT_BIT(CTL_INJECT))
        pt->msr[PT_MSR_STATUS] |= PT_BIT(STATUS_PEND_PSB);
    cofi__pt_trigger_off(pt);
    cofi__pt_output_store(pt);
    pt->msr[PT_MSR_CTL] &= ~PT_BIT(CTL_TRACE_EN);
}
