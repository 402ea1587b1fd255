/* SPDX-License-Identifier: MIT
 * Operations' bytes -> the internal buffer -> output; its overflow and the way out of it.
 * [SDM Internal Buffer Overflow]. An operation's packets go in together or not at all, so that an
 * overflow never cuts a compound event in two. */
#include <string.h>

#include "base/bytes.h"
#include "unit/pt/pt.h"

/* Bytes leave for the output; what it says is kept for react(). After STOP or an error the rest is
 * lost. */
int cofi__pt_leave(void *opaque, const uint8_t *bytes, size_t n)
{
    struct cofi__pt *pt = opaque;
    if (!(pt->happened & (PT_OUTPUT_STOP | PT_OUTPUT_ERROR)))
        pt->happened |= cofi__pt_output_write(&pt->out, bytes, n);
    return 0;
}

static void interrupt(struct cofi__pt *pt)
{
    if (pt->disabling &&
        cofi__pt_ctl(pt) & PT_BIT(CTL_INJECT)) /* kept for the next enable [PTREF 2.2] */
        pt->msr[PT_MSR_STATUS] |= PT_BIT(STATUS_PEND_PMI);
    else if (pt->config.pmi)
        pt->config.pmi(pt->config.opaque);
}

/* [SDM Operational Errors, SDM ToPA STOP, SDM ToPA PMI] */
static void react(struct cofi__pt *pt)
{
    unsigned what = pt->happened;
    if (!what)
        return;
    pt->happened = 0;
    if (what & PT_OUTPUT_LOST)
        pt->lost = true;
    if (what & PT_OUTPUT_STOP)
        pt->msr[PT_MSR_STATUS] |= PT_BIT(STATUS_STOPPED);
    if (what & PT_OUTPUT_ERROR)
        pt->msr[PT_MSR_STATUS] |= PT_BIT(STATUS_ERROR);
    if (what & (PT_OUTPUT_STOP | PT_OUTPUT_ERROR)) {
        pt->stage_count = pt->op_start = pt->buffer.fill = pt->said_n = 0;
        cofi__pt_trigger_off(pt);
    }
    if (what & PT_OUTPUT_PMI)
        interrupt(pt);
}

/* Committed bytes of the stage, to the output (unbounded buffer). */
static void push_out(struct cofi__pt *pt)
{
    uint32_t n = pt->stage_count;
    pt->stage_count = pt->op_start = 0;
    if (n > 0)
        cofi__pt_leave(pt, pt->stage, n);
    react(pt);
}

void cofi__pt_drain_to_now(struct cofi__pt *pt)
{
    cofi__buffer_advance(&pt->buffer, pt->cycles - pt->drained_at);
    pt->drained_at = pt->cycles;
    react(pt);
}

void cofi__pt_drain_all(struct cofi__pt *pt)
{
    cofi__buffer_flush(&pt->buffer);
    push_out(pt);
}

static void count_bytes(struct cofi__pt *pt, uint32_t n)
{
    pt->bytes += n;
    pt->psb_bytes += n;
    if (pt->psb_bytes >= pt->psb_period)
        pt->attention |= PT_DO_PSB;
}

/* The internal buffer is full: what follows is lost until it has drained. Bits that are not in a
 * packet yet are lost too; those that this operation forced out still belong before [PTREF 6.6]. */
void cofi__pt_overflow(struct cofi__pt *pt)
{
    uint32_t earlier = pt->op_tnt_end ? pt->op_tnt_end - pt->op_start : 0;
    bool kept = earlier && pt->buffer.capacity && cofi__buffer_push(&pt->buffer, pt->stage + pt->op_start, earlier);
    cofi__pt_explain(pt, kept ? pt->op_tnt_end : pt->op_start);
    if (kept)
        count_bytes(pt, earlier);
    pt->stage_count = pt->op_start;
    pt->op_tnt_end = 0;
    pt->tnt_count = pt->deferred_count = 0;
    pt->overflow = true;
    pt->attention |= PT_DO_RESUME;
    cofi__pt_ret_clear(pt);
}

static void commit_ring(struct cofi__pt *pt, uint32_t n)
{
    if (!cofi__buffer_push(&pt->buffer, pt->stage + pt->op_start, n)) {
        cofi__pt_overflow(pt);
        return;
    }
    if (pt->said_n)
        cofi__pt_explain(pt, UINT32_MAX);
    pt->stage_count = pt->op_start = 0;
    count_bytes(pt, n);
}

/* The operation is complete. */
void cofi__pt_commit(struct cofi__pt *pt)
{
    uint32_t n = pt->stage_count - pt->op_start;
    if (n == 0)
        return;
    if (pt->buffer.capacity) {
        commit_ring(pt, n);
        pt->op_tnt_end = 0;
        return;
    }
    if (pt->said_n)
        cofi__pt_explain(pt, UINT32_MAX);
    count_bytes(pt, n);
    pt->op_start = pt->stage_count;
    pt->op_tnt_end = 0;
    if (pt->out.mode != PT_OUTPUT_SINK || pt->stage_count > PT_STAGE_BYTES - PT_OP_BYTES)
        push_out(pt);
}

static bool same_to_decoders(const struct cofi__pt *pt)
{
    const struct cofi_context *was = &pt->event_context, *is = &pt->context;
    struct cofi_packet mode;
    return pt->overflow_mode == cofi__pt_mode_byte(pt, &mode) && was->cr3 == is->cr3 &&
           was->vmx == is->vmx && !was->intx && !is->intx;
}

/* Has the buffer room again? OVF, and where tracing goes on at ip: FUP, or, if what decoders know
 * of the processor changed meanwhile, the packets that tell and TIP.PGE; docs/decisions/0302.
 * Without an address (ip_known false) tracing is about to end: OVF only. */
void cofi__pt_resume(struct cofi__pt *pt, uint64_t ip, bool ip_known)
{
    bool same = same_to_decoders(pt);
    pt->overflow = false;
    pt->attention &= (uint8_t)~PT_DO_RESUME;
    pt->ip_full = true;
    pt->block_open = false;
    pt->tnt_count = pt->deferred_count = 0;
    cofi__pt_ret_clear(pt);
    uint32_t start = pt->stage_count;
    cofi__pt_emit_kind(pt, COFI_PT_OVF, PT_RULE_OVF);
    cofi__pt_erratum_cyc_before_ovf(pt, start);
    if (!pt->packet_en || !ip_known) {
        pt->mode_sent = PT_MODE_NONE;
        if (ip_known)
            cofi__pt_erratum_after_ovf(pt, ip, pt->overflow_packets);
        if (!ip_known) /* OVF has turned packets off */
            pt->packet_en = false;
    } else if (same && !(pt->config.errata & COFI_ERRATUM_SKD010)) {
        pt->mode_sent = pt->overflow_mode;
        cofi__pt_emit_ip(pt, COFI_PT_FUP, ip, PT_RULE_RESUME);
    } else if (!same) {
        if (cofi__pt_ctl(pt) & PT_BIT(CTL_OS))
            cofi__pt_emit_pip(pt, false, PT_RULE_RESUME);
        cofi__pt_emit_tsx(pt, pt->context.intx, false, PT_RULE_RESUME);
        cofi__pt_emit_mode(pt, true, PT_RULE_RESUME);
        cofi__pt_emit_ip(pt, COFI_PT_TIP_PGE, ip, PT_RULE_RESUME);
    }
    cofi__pt_commit(pt);
}
