/* SPDX-License-Identifier: MIT
 * Where tracing begins, ends, may be entered, and goes on behind lost packets [PTREF 5.11; PTREF 6.1; PTREF 6.6]. */
#include <assert.h>
#include <stdlib.h>

#include "reference/hw.h"

/* ---- PSB+ ---- */

enum { ST_TSC, ST_PIP, ST_VMCS, ST_CBR, ST_TSX, ST_MODE, ST_FUP, ST_FILL, ST_N };

static bool status_packet(struct hw *h, unsigned which, bool on)
{
    switch (which) {
    case ST_TSC:
        return !h->config.tsc || hw_tsc(h);
    case ST_PIP:
        return !(h->context_en && h->config.os) || hw_pip(h);
    case ST_VMCS:
        return !(h->config.vmx && h->context_en) || hw_vmcs(h);
    case ST_CBR:
        return hw_cbr(h);
    case ST_TSX:
        return !(h->context_en && h->config.branch) || hw_mode_tsx(h, h->in_tx);
    case ST_MODE:
        return !on || hw_mode_exec(h);
    case ST_FUP:
        return !on || hw_ip(h, HW_FUP, h->ip);
    default:
        return true;
    }
}

static bool all_status(struct hw *h, bool on)
{
    unsigned order[ST_N];
    bool shuffled = hw_below(&h->seed, 2);
    for (unsigned i = 0; i < ST_N; i++) {
        unsigned k = shuffled ? hw_below(&h->seed, i + 1) : i;
        order[i] = order[k];
        order[k] = i;
    }
    for (unsigned i = 0; i < ST_N; i++)
        if (!status_packet(h, order[i], on))
            return false;
    return true;
}

static void note_psb(struct hw *h)
{
    struct hw_truth *t = &h->truth;
    if (t->psbs_n == t->psbs_max) {
        t->psbs = realloc(t->psbs, (t->psbs_max = t->psbs_max ? t->psbs_max * 2 : 64) * sizeof *t->psbs);
        assert(t->psbs);
    }
    t->psbs[t->psbs_n].offset = h->wire.n - 16;
    t->psbs[t->psbs_n].n = t->n;
    t->psbs[t->psbs_n].doubtful = false;
    t->psbs[t->psbs_n++].cut = true;
}

/* What it tells that is known already is not shown again. */
static void told_by_psb(struct hw *h, bool on)
{
    struct hw_truth *t = &h->truth;
    uint64_t ip = on ? h->ip : COFI_NO_IP;
    if (on) {
        t->known = t->n;
        t->enabled = true;
        h->wire.adrift = false;
        t->places[t->places_n - 1].resumes = true;
    }
    hw_truth_overflow(h, ip); /* one that is open: [ERR BDM70] */
    t->paging &= t->paging_cr3 != t->shown_cr3 || t->paging_nr != t->shown_nr;
    t->vmcs &= t->vmcs_base != t->shown_vmcs;
    t->tsx &= t->tsx_in != t->shown_tsx;
    hw_truth_target(h, ip);
    hw_truth_somewhere(h, hw_event(COFI_FLOW_PSB, ip, COFI_NO_IP));
    t->psbs[t->psbs_n - 1].cut = false;
}

static void told_without_place(struct hw *h)
{
    if (h->truth.paging)
        hw_truth_paging(h, COFI_NO_IP);
    if (h->truth.vmcs)
        hw_truth_vmcs(h, COFI_NO_IP);
}

void hw_psb(struct hw *h, enum hw_psb_kind kind)
{
    struct hw_truth *t = &h->truth;
    bool on = hw_packet_en(h) && kind != HW_PSB_OFF;
    uint8_t psb[16];
    for (unsigned i = 0; i < 16; i++)
        psb[i] = i & 1 ? 0x82 : 0x02;
    if (!hw_packet(h, false, psb, 16))
        return;
    note_psb(h);
    told_without_place(h); /* an overflow has taken their TIP */
    t->paging = t->vmcs = t->mode = t->tsx = false;
    h->wire.last_ip = 0;
    h->wire.whole_ip = false;
    h->wire.in_psb = true;
    h->mode_sent = 0xff;
    h->mode_in_doubt = true;
    bool whole = all_status(h, on) && hw_short(h, false, 0x02, 0x23);
    h->wire.in_psb = false;
    h->rets_n = 0;
    if (whole)
        told_by_psb(h, on);
}

/* ---- enabling ---- */

static void put_pge(struct hw *h)
{
    if ((h->mode_sent != hw_mode_byte(h) || h->config.mode_always || hw_below(&h->seed, 2)) && !hw_mode_exec(h))
        return;
    h->rets_n = 0;
    if (!hw_ip(h, HW_PGE, h->ip))
        return;
    hw_truth_overflow(h, COFI_NO_IP);
    hw_truth_target(h, h->ip);
    hw_truth_add(h, hw_event(COFI_FLOW_ENABLED, h->truth.disabled_ip, h->ip));
    h->truth.enabled = true;
}

/* PacketByteCnt is 0: a PSB+ [SDM Enabling and Disabling Packet Generation with TraceEn]. */
static void enable_with_psb(struct hw *h, bool on, bool first)
{
    bool early = on && hw_has_bdm70(h);
    bool pge_first = on && !first && h->config.pge_first;
    unsigned loss = h->config.loss;
    if (early) /* that packets are on would be told, and then that they were lost, in any order */
        h->config.loss = 0;
    if (pge_first)
        put_pge(h);
    hw_psb(h, pge_first ? HW_PSB_STATE : early && hw_below(&h->seed, 2) ? HW_PSB_EARLY : HW_PSB_OFF);
    if (on && !pge_first)
        put_pge(h);
    h->config.loss = loss;
}

static void enable_without(struct hw *h, bool on)
{
    if (h->config.tsc)
        hw_tsc(h);
    hw_cbr(h);
    if (on)
        put_pge(h);
}

void hw_enable(struct hw *h)
{
    bool first = !h->wire.n;
    h->trace_en = true;
    h->stopped = false;
    hw_context(h, h->ip);
    bool stopping = h->context_en && hw_stops(h, h->ip), on = hw_packet_en(h) && !stopping;
    if (first || hw_below(&h->seed, 2))
        enable_with_psb(h, on, first);
    else
        enable_without(h, on);
    if (stopping)
        hw_stop(h);
}

/* TraceEn goes to 0 by WRMSR or SMI at ip, which is the next instruction's that did not run. */
void hw_disable(struct hw *h, uint64_t ip)
{
    if (h->wire.losing)
        hw_loss_end(h);
    bool told = hw_packet_en(h) && hw_ip(h, HW_FUP, ip);
    if (told)
        hw_truth_found(h, ip);
    if (told && hw_no_ip(h, HW_PGD)) {
        hw_truth_target(h, COFI_NO_IP);
        hw_truth_add(h, hw_event(COFI_FLOW_ASYNC_DISABLED, ip, COFI_NO_IP));
        h->truth.disabled_ip = ip;
        h->truth.enabled = false;
    }
    h->trace_en = false;
    if (h->wire.losing)
        hw_loss_end(h);
    h->rets_n = 0;
}

/* ---- overflow ---- */

/* [SDM Overflow (OVF) Packet]: what packets before it began has no end. */
static void put_ovf(struct hw *h)
{
    struct hw_truth *t = &h->truth;
    h->wire.losing = h->wire.adrift = false;
    unsigned loss = h->config.loss, filler = h->config.filler;
    h->config.loss = h->config.filler = 0; /* the CYC stands right before it */
    hw_cut_cyc(h, hw_has_skd007(h));
    hw_short(h, true, 0x02, 0xf3);
    h->config.loss = loss;
    h->config.filler = filler;
    hw_truth_flush(h, COFI_NO_IP);
    hw_truth_overflow(h, COFI_NO_IP);
    h->mode_in_doubt |= t->mode;
    t->mode = t->tsx = false;
    t->overflow = true;
    if (t->enabled)
        t->disabled_ip = COFI_NO_IP;
    t->enabled = false;
    h->wire.whole_ip = true;
    h->mode_sent = 0xff;
    h->rets_n = 0;
}

void hw_overflow_alone(struct hw *h) { put_ovf(h); }

/* Nothing but a MODE.Exec was due, or above 4 GiB not even that. */
static void resume_by_fup(struct hw *h, bool mode)
{
    struct hw_truth *t = &h->truth;
    if (mode && !hw_mode_exec(h))
        return;
    if (!hw_ip(h, HW_FUP, h->ip))
        return;
    t->places[t->places_n - 1].resumes = true;
    t->places[t->places_n - 1].doubtful = hw_has_skd010(h) || hw_has_apl12(h);
    hw_truth_overflow(h, h->ip);
    t->enabled = true;
    if (h->ip >> 32 && t->shown_mode != 64 && !t->mode) {
        t->mode = true;
        t->mode_bits = 64;
    }
    hw_truth_target(h, h->ip);
}

/* As if packets had been off. */
static void resume_by_pge(struct hw *h)
{
    if (h->config.os && hw_below(&h->seed, 2) && hw_pip(h))
        hw_truth_paging(h, COFI_NO_IP);
    if (hw_below(&h->seed, 2) && hw_mode_tsx(h, h->in_tx))
        hw_truth_tsx(h, COFI_NO_IP);
    h->mode_sent = 0xff;
    put_pge(h);
}

/* An outcome comes first or a second FUP, so that it is plain whose the first one was. */
static bool tells_whose_fup(const struct hw *h)
{
    const struct hw_config *c = &h->config;
    bool ranges = c->range_use[0] | c->range_use[1] | c->range_use[2] | c->range_use[3];
    return hw_code_find(&h->code, h->ip)->kind == HW_JCC && !ranges && !c->dis_tnt;
}

/* The overflow's FUP may be missing, or the PSB+ may have been told in place of it. */
static bool is_fup_sure(const struct hw *h) { return h->config.family && !hw_has_skd010(h); }

bool hw_loss_may_end(const struct hw *h)
{
    return h->config.gaps || !hw_has_skd010(h) || !hw_packet_en(h) || tells_whose_fup(h);
}

/* Packets are off behind it [ERR APL11], [ERR APL12]. */
static void stays_off(struct hw *h, bool was_on)
{
    if (was_on && hw_has_apl11(h) && hw_below(&h->seed, 2) && hw_no_ip(h, HW_PGD)) {
        hw_truth_overflow(h, COFI_NO_IP);
        told_without_place(h);
    }
    if (hw_has_apl12(h) && hw_below(&h->seed, 2))
        hw_ip(h, HW_FUP, h->ip);
}

/* [SDM Overflow (OVF) Packet]: a PSB+ may stand before the FUP, and tells the address, too. */
static void resume_by_psb(struct hw *h)
{
    hw_psb(h, HW_PSB_STATE);
    if (h->wire.losing || !hw_ip(h, HW_FUP, h->ip))
        return;
    h->truth.places[h->truth.places_n - 1].doubtful = !is_fup_sure(h);
    h->truth.psbs[h->truth.psbs_n - 1].doubtful = true;
}

void hw_loss_end(struct hw *h)
{
    bool was_on = h->truth.enabled;
    put_ovf(h);
    if (!hw_packet_en(h)) {
        stays_off(h, was_on);
        return;
    }
    bool differs = h->truth.shown_mode != hw_mode(h) || h->mode_in_doubt, guessed = h->ip >> 32 && !h->config.plain;
    if (h->config.gaps && hw_has_skd010(h) && !h->config.defer && !differs && hw_below(&h->seed, 2)) {
        h->wire.adrift = true;
        h->wire.adrift_on = false;
        return;
    }
    bool psb = !h->config.plain && (h->config.gaps || tells_whose_fup(h));
    if (psb && hw_below(&h->seed, 4) == 0) {
        resume_by_psb(h);
        return;
    }
    bool mode = (differs && !(guessed && hw_below(&h->seed, 2))) || (!h->config.plain && hw_below(&h->seed, 4) == 0);
    if (h->config.event ? differs || hw_below(&h->seed, 2) : hw_below(&h->seed, 3) == 0 || (differs && h->config.plain))
        resume_by_pge(h);
    else
        resume_by_fup(h, mode && !h->config.event);
}
