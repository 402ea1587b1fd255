/* SPDX-License-Identifier: MIT
 * TSC and core cycles -> TSC, TMA, MTC, CBR and CYC packets [PTREF 8]. */
#include "base/bytes.h"
#include "unit/pt/pt.h"

enum { CTC_LEAP = 256 }; /* an MTC payload has 8 bits [SDM Mini Time Counter (MTC) Packet] */

typedef unsigned __int128 wide;

/* ART = floor(TSC * den / num) and the first TSC of an ART value [PTREF 8.1]. */
static uint64_t art_of(const struct cofi__pt *pt, uint64_t tsc)
{
    return pt->art_num ? (uint64_t)((wide)tsc * pt->art_den / pt->art_num) : 0;
}

static uint64_t tsc_of(const struct cofi__pt *pt, uint64_t art)
{
    return (uint64_t)(((wide)art * pt->art_num + pt->art_den - 1) / pt->art_den);
}

static unsigned mtc_freq(const struct cofi__pt *pt)
{
    return (unsigned)PT_GET(cofi__pt_ctl(pt), CTL_MTC_FREQ);
}

/* When is the next MTC due? [SDM Mini Time Counter (MTC) Packet] */
void cofi__pt_clock_reschedule(struct cofi__pt *pt)
{
    pt->mtc_count = art_of(pt, pt->tsc) >> mtc_freq(pt);
    pt->mtc_tsc = UINT64_MAX;
    if (pt->trigger_en && pt->art_num && cofi__pt_ctl(pt) & PT_BIT(CTL_MTC_EN))
        pt->mtc_tsc = tsc_of(pt, (pt->mtc_count + 1) << mtc_freq(pt));
}

/* What CTL says about time [SDM Cycle Thresholds, SDM Cycle-Accurate Mode]. */
void cofi__pt_clock_load(struct cofi__pt *pt)
{
    static const uint8_t eligible[] = {
        COFI_PT_TNT,       COFI_PT_TNT64,    COFI_PT_TIP, COFI_PT_TIP_PGE, COFI_PT_TIP_PGD,
        COFI_PT_MODE_EXEC, COFI_PT_MODE_TSX, COFI_PT_PIP, COFI_PT_VMCS,    COFI_PT_OVF,
        COFI_PT_MTC,       COFI_PT_TSC,      COFI_PT_PTW, COFI_PT_EXSTOP,  COFI_PT_MWAIT,
    };
    uint64_t ctl = cofi__pt_ctl(pt);
    for (size_t i = 0; i < sizeof eligible; i++)
        pt->eligible[eligible[i]] = ctl & PT_BIT(CTL_CYC_EN);
    unsigned thresh = (unsigned)PT_GET(ctl, CTL_CYC_THRESH);
    pt->cyc_threshold = thresh ? UINT64_C(1) << (thresh - 1) : 0;
    /* PSBFreq k: 2^(k+11) bytes; parts without the field: assumed 4 KiB. */
    bool configurable = cofi__pt_caps_has(pt->caps, PT_NEED_PSB_CYC);
    pt->psb_period = configurable ? UINT64_C(2048) << PT_GET(ctl, CTL_PSB_FREQ) : 4096;
    pt->take_tnt = !(ctl & PT_BIT(CTL_DIS_TNT));
}

/* TriggerEn became 1: the cycle counter was 0 until now [SDM Cycle Counter]. */
void cofi__pt_clock_start(struct cofi__pt *pt)
{
    cofi__pt_clock_ask(pt);
    pt->cyc_base = pt->cycles;
    pt->cyc_last = UINT64_MAX;
    cofi__pt_clock_reschedule(pt);
}

/* The cycles of an eligible packet: once a cycle, and not below the threshold
 * [SDM Cycle Packet Semantics, SDM Cycle Thresholds]. */
void cofi__pt_cyc(struct cofi__pt *pt)
{
    if (pt->config.clock)
        pt->config.clock(pt->config.opaque, &pt->tsc, &pt->cycles);
    uint64_t count = pt->cycles - pt->cyc_base;
    if (pt->cycles == pt->cyc_last || count < pt->cyc_threshold)
        return;
    cofi__pt_emit_cyc(pt, count, PT_RULE_CYC);
    pt->cyc_base = pt->cyc_last = pt->cycles;
}

static void stand_alone_cyc(struct cofi__pt *pt)
{
    cofi__pt_flush_tnt(pt);
    cofi__pt_emit_cyc(pt, pt->cycles - pt->cyc_base, PT_RULE_CYC_ALONE);
    pt->cyc_base = pt->cyc_last = pt->cycles;
    cofi__pt_commit(pt);
}

/* What RDTSC gives; the hardware's own count goes into everything but TSC packets [PTREF 8.1]. */
static uint64_t software_tsc(const struct cofi__pt *pt)
{
    uint64_t scaled = pt->tsc_multiplier ? (uint64_t)((wide)pt->tsc * pt->tsc_multiplier >> 48) : pt->tsc;
    return scaled + pt->tsc_offset;
}

/* TSC if TSCEn, and TMA right behind it if MTCEn [SDM TSC/MTC Alignment (TMA) Packet]. */
void cofi__pt_tsc_tma(struct cofi__pt *pt, enum cofi__pt_rule rule)
{
    struct cofi_packet tsc = {.kind = COFI_PT_TSC}, tma = {.kind = COFI_PT_TMA};
    if (!(cofi__pt_ctl(pt) & PT_BIT(CTL_TSC_EN)))
        return;
    tsc.tsc.tsc = bits(software_tsc(pt), 0, 56);
    cofi__pt_emit(pt, &tsc, rule);
    if (!(cofi__pt_ctl(pt) & PT_BIT(CTL_MTC_EN)))
        return;
    uint64_t art = art_of(pt, pt->tsc);
    tma.tma.ctc = (uint16_t)art;
    tma.tma.fc = pt->art_num ? (uint16_t)bits(pt->tsc - tsc_of(pt, art), 0, 9) : 0;
    cofi__pt_emit(pt, &tma, rule);
    cofi__pt_erratum_tma(pt);
}

void cofi__pt_cbr(struct cofi__pt *pt, enum cofi__pt_rule rule)
{
    struct cofi_packet packet = {.kind = COFI_PT_CBR};
    packet.cbr.ratio = pt->ratio;
    cofi__pt_emit(pt, &packet, rule);
}

static void emit_mtc(struct cofi__pt *pt, uint64_t count)
{
    struct cofi_packet packet = {.kind = COFI_PT_MTC};
    packet.mtc.ctc = (uint8_t)count;
    cofi__pt_emit(pt, &packet, PT_RULE_MTC);
    cofi__pt_commit(pt);
}

/* ART >> MTCFreq has moved on: an MTC a step. A leap of 256 steps or more, which no MTC can tell,
 * is told by TSC and TMA, docs/decisions/0301. */
static void catch_up_mtc(struct cofi__pt *pt)
{
    uint64_t before = pt->mtc_count;
    cofi__pt_clock_reschedule(pt);
    uint64_t steps = pt->mtc_count - before;
    if (pt->config.errata & COFI_ERRATUM_SKL168 && pt->attention & PT_DO_PSB)
        return;
    if (steps >= CTC_LEAP && cofi__pt_ctl(pt) & PT_BIT(CTL_TSC_EN)) {
        cofi__pt_tsc_tma(pt, PT_RULE_TIME_JUMP);
        return;
    }
    if (steps >= CTC_LEAP)
        steps = 1;
    if (pt->config.mtc_burst && steps > pt->config.mtc_burst)
        steps = pt->config.mtc_burst;
    for (uint64_t i = steps; i-- > 0 && pt->trigger_en;)
        emit_mtc(pt, pt->mtc_count - i);
}

/* Time is now. Between instructions only: what is due now goes out. */
void cofi__pt_clock_set(struct cofi__pt *pt, uint64_t tsc, uint64_t cycles)
{
    pt->tsc = tsc;
    pt->cycles = cycles;
    if (pt->buffer.capacity)
        cofi__pt_drain_to_now(pt);
    if (!pt->trigger_en || pt->sleeping)
        return;
    if (tsc >= pt->mtc_tsc)
        catch_up_mtc(pt);
    uint64_t limit = pt->cyc_limit > pt->cyc_threshold ? pt->cyc_limit : pt->cyc_threshold;
    if (pt->trigger_en && pt->eligible[COFI_PT_MTC] && !pt->overflow &&
        cycles - pt->cyc_base >= limit)
        stand_alone_cyc(pt);
}

void cofi__pt_clock_ask(struct cofi__pt *pt)
{
    uint64_t tsc = pt->tsc, cycles = pt->cycles;
    if (!pt->config.clock)
        return;
    pt->config.clock(pt->config.opaque, &tsc, &cycles);
    cofi__pt_clock_set(pt, tsc, cycles);
}
