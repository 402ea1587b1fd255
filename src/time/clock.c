/* SPDX-License-Identifier: MIT
 * TSC, TMA, MTC, CYC, CBR (PT) or STS, MTC and cycle counts (RTIT) -> ticks. */
#include "time/clock.h"

#include <string.h>

static bool has_art(const struct cofi__clock *clock)
{
    return clock->info.tsc_num && clock->info.tsc_den;
}

void cofi__clock_init(struct cofi__clock *clock, enum cofi_gen gen, const struct cofi_time_info *info,
                      uint64_t reference)
{
    memset(clock, 0, sizeof *clock);
    clock->info = *info;
    clock->reference = reference;
    clock->rtit = gen == COFI_RTIT;
    clock->limit = UINT64_MAX;
    if (has_art(clock)) {
        uint64_t ticks = (uint64_t)info->tsc_num << info->mtc_freq;
        clock->step = ticks / info->tsc_den;
        clock->step_rem = ticks % info->tsc_den;
    }
}

/* The value congruent to v modulo 2^width that is nearest to near. */
static uint64_t extend(uint64_t v, unsigned width, uint64_t near)
{
    uint64_t period = UINT64_C(1) << width;
    uint64_t t = (near & ~(period - 1)) | (v & (period - 1));
    if (t > near && t - near > period / 2 && t >= period)
        return t - period;
    if (t < near && near - t > period / 2)
        return t + period;
    return t;
}

/* A time that is known and not estimated. A step back is an estimate that ran ahead: time stands still
 * then; a large one is a wrong value before, and is believed [PTREF 8.3]. */
static void set_exact(struct cofi__clock *clock, uint64_t ticks)
{
    bool believed = !clock->known || (clock->now > ticks && clock->now - ticks > COFI_CLOCK_BACK);
    clock->exact = ticks;
    clock->passed = clock->cycles = 0;
    if (believed || ticks > clock->now)
        clock->now = ticks;
    if (believed || ticks < clock->least)
        clock->least = believed ? 0 : ticks;
    clock->known = true;
    clock->interpolated = false;
}

/* ART ticks to TSC ticks: x * EBX / EAX of CPUID.15H, without overflow. */
static uint64_t art_ticks(const struct cofi__clock *clock, uint64_t x)
{
    uint64_t num = clock->info.tsc_num, den = clock->info.tsc_den;
    return x / den * num + x % den * num / den;
}

/* How far a guest's TSC is from the host's: what the first packet of that guest is away from the last time known. Less
 * than half a minute or so is the time that passed, and the guest has none. [SDM: TSC offset, VM-execution control] */
static uint64_t guest_offset(struct cofi__clock *clock, uint64_t tsc, uint64_t near)
{
    const uint64_t far = UINT64_C(1) << 36;
    unsigned i = 0, room = sizeof clock->guests / sizeof clock->guests[0];
    while (i < clock->guests_n && clock->guests[i].vmcs != clock->vmcs)
        i++;
    if (i < clock->guests_n)
        return clock->guests[i].offset;
    uint64_t offset = tsc - near;
    if (!near || offset < far || -offset < far)
        offset = 0;
    i = i < room ? i : room - 1;
    clock->guests[i].vmcs = clock->vmcs;
    clock->guests[i].offset = offset;
    clock->guests_n = (uint8_t)(i + 1);
    return offset;
}

static uint64_t host_ticks(struct cofi__clock *clock, uint64_t tsc)
{
    uint64_t near = clock->before_tsc, ticks = extend(tsc, 56, near);
    return clock->guest ? extend(ticks - guest_offset(clock, ticks, near), 56, near) : ticks;
}

static void on_tsc(struct cofi__clock *clock, uint64_t tsc)
{
    clock->before_tsc = clock->known ? clock->exact : clock->reference;
    clock->before_now = clock->now;
    clock->tsc = tsc;
    clock->tsc_exact = host_ticks(clock, tsc);
    clock->tsc_in_psb = true;
    set_exact(clock, clock->tsc_exact);
    clock->have_tma = clock->fix_mtc = clock->mtc_seen = false;
    clock->limit = UINT64_MAX;
}

/* Learn what a cycle is worth from an interval between two MTC packets. One without a CYC goes into the next: below the
 * threshold none is sent, and the one that comes then counts for both [SDM Cycle Thresholds]. */
static void calibrate(struct cofi__clock *clock, uint64_t ticks)
{
    if (clock->mtc_seen && !clock->span_cycles)
        return;
    if (clock->mtc_seen && clock->span_cycles > 64 && ticks > clock->mtc_exact) {
        uint64_t span = ticks - clock->mtc_exact;
        if (span < UINT64_C(1) << 40) {
            clock->new_ticks = span;
            clock->new_cycles = clock->span_cycles;
        }
    }
    clock->mtc_seen = true;
    clock->mtc_exact = ticks;
    clock->span_cycles = 0;
}

/* The CTC of TMA has 16 bits; for MTCFreq > 8 the upper bits of the MTC byte show only now. */
static void fix_last_mtc(struct cofi__clock *clock, uint8_t ctc)
{
    uint8_t mask = (uint8_t)((1u << (16 - clock->info.mtc_freq)) - 1);
    uint8_t last = (uint8_t)((ctc & ~mask) | (clock->last_mtc & mask));
    clock->last_mtc = last > ctc ? (uint8_t)(last - mask - 1) : last;
    clock->fix_mtc = false;
}

/* When the MTC at ctc_delta is due. */
static void find_grid(struct cofi__clock *clock)
{
    uint64_t num = clock->info.tsc_num, den = clock->info.tsc_den;
    clock->limit = clock->tma_base + art_ticks(clock, clock->ctc_delta);
    clock->limit_rem = clock->ctc_delta % den * num % den;
    clock->on_grid = true;
}

/* And the one behind it, without a division. */
static void next_on_grid(struct cofi__clock *clock)
{
    clock->limit += clock->step;
    clock->limit_rem += clock->step_rem;
    if (clock->limit_rem >= clock->info.tsc_den) {
        clock->limit_rem -= clock->info.tsc_den;
        clock->limit++;
    }
}

/* [SDM TSC/MTC Alignment (TMA) Packet]: ties the ART to the TSC that came just before. */
static void on_tma(struct cofi__clock *clock, uint16_t ctc, uint16_t fc)
{
    if (!clock->known || !has_art(clock))
        return;
    unsigned shift = clock->info.mtc_freq;
    uint64_t rem = ctc & ((UINT64_C(1) << shift) - 1);
    clock->tma_base = clock->exact - fc - art_ticks(clock, rem);
    clock->last_mtc = (uint8_t)(ctc >> shift);
    clock->fix_mtc = shift > 8;
    clock->ctc_delta = 0;
    clock->have_tma = true;
    clock->on_grid = false;
    if (clock->info.mtc) { /* so it is known when the first one is due */
        find_grid(clock);
        next_on_grid(clock);
    }
}

/* A TSC without a TMA that can be used [ERR SKZ84]: the first MTC tells no time, but those behind it how much passed
 * since, so that time lags by less than a period. */
static void first_mtc(struct cofi__clock *clock, uint8_t ctc)
{
    clock->have_tma = clock->known && has_art(clock);
    clock->tma_base = clock->exact;
    clock->ctc_delta = 0;
    clock->last_mtc = ctc;
    clock->on_grid = clock->fix_mtc = false;
}

static void pt_mtc(struct cofi__clock *clock, uint8_t ctc)
{
    if (!clock->have_tma) {
        first_mtc(clock, ctc);
        return;
    }
    if (clock->fix_mtc)
        fix_last_mtc(clock, ctc);
    clock->span_cycles += clock->cycles;
    uint8_t steps = (uint8_t)(ctc - clock->last_mtc);
    clock->ctc_delta += (uint64_t)steps << clock->info.mtc_freq;
    clock->last_mtc = ctc;
    if (!clock->on_grid || steps != 1)
        find_grid(clock);
    uint64_t ticks = clock->limit;
    calibrate(clock, ticks);
    set_exact(clock, ticks);
    next_on_grid(clock);
}

/* RTIT: eight bits of the hardware TSC, from bit 7, 9, 11 or 13 on [RTIT 4.2.12]. They changed just now,
 * so the bits below are zero. */
static void rtit_mtc(struct cofi__clock *clock, uint8_t ctc, uint8_t range)
{
    unsigned low = 7 + 2 * (range & 3u);
    if (clock->skip_mtc || !clock->known) {
        clock->skip_mtc = false;
        return;
    }
    uint64_t period = UINT64_C(1) << (low + 8);
    uint64_t ticks = (clock->exact & ~(period - 1)) | (uint64_t)ctc << low;
    if (ticks >> low == clock->exact >> low)
        return; /* the bits did not change: it came too early or twice [ERR E7] */
    if (ticks < clock->exact)
        ticks += period;
    clock->span_cycles += clock->cycles;
    calibrate(clock, ticks);
    set_exact(clock, ticks);
    clock->limit = ticks + (UINT64_C(1) << low);
}

void cofi__clock_mtc(struct cofi__clock *clock, uint8_t ctc)
{
    pt_mtc(clock, ctc);
}

/* What the cycles are worth, in ticks; 0: nobody has told. */
static uint64_t ticks_of_cycles(struct cofi__clock *clock)
{
    if (clock->new_cycles) {
        clock->ratio = (clock->new_ticks << COFI_CLOCK_SHIFT) / clock->new_cycles;
        clock->new_cycles = 0;
    }
    uint64_t cycles = clock->cycles < UINT64_C(1) << 36 ? clock->cycles : UINT64_C(1) << 36;
    return cycles * clock->ratio >> COFI_CLOCK_SHIFT;
}

/* The frequency changes: cycles so far passed at the old one, if it is known. */
static void end_of_ratio(struct cofi__clock *clock)
{
    cofi__clock_ticks(clock);
    clock->passed += ticks_of_cycles(clock);
    if (clock->ratio)
        clock->cycles = 0;
}

static void on_ratio(struct cofi__clock *clock, uint8_t ratio)
{
    clock->mtc_seen = false;
    if (ratio && clock->info.nominal_ratio) {
        end_of_ratio(clock);
        clock->ratio = ((uint64_t)clock->info.nominal_ratio << COFI_CLOCK_SHIFT) / ratio;
        clock->new_cycles = 0;
    }
}

/* 40 bits of the hardware TSC [RTIT 4.2.13]; they wrap in about 500 s at 2 GHz. It never goes back, but what was taken
 * for the time may have run ahead of it: 2^31 ticks (a second) are back, the rest is forward. Before any time is known
 * the nearest to the reference is right. */
static void on_sts(struct cofi__clock *clock, const struct cofi_packet *packet)
{
    const uint64_t period = UINT64_C(1) << 40, ahead = UINT64_C(1) << 31, from = clock->exact;
    uint64_t forward = (packet->sts.tsc - from) & (period - 1);
    if (!clock->known)
        set_exact(clock, extend(packet->sts.tsc, 40, clock->reference));
    else
        set_exact(clock, from + forward - (forward > period - ahead && from >= period - forward ? period : 0));
    bool modulated = packet->sts.ecbr && packet->sts.ecbr < packet->sts.acbr;
    on_ratio(clock, modulated ? packet->sts.ecbr : packet->sts.acbr); /* docs/decisions/0218 */
    clock->limit = UINT64_MAX;
}

static void rtit_suffix(struct cofi__clock *clock, const struct cofi_packet *packet)
{
    if (packet->ccp_size)
        clock->cycles += packet->ccp + (clock->cyc_off_by_one && packet->ccp != 0);
}

void cofi__clock_packet(struct cofi__clock *clock, const struct cofi_packet *packet)
{
    if (clock->rtit) {
        rtit_suffix(clock, packet);
        if (packet->kind == COFI_RTIT_STS)
            on_sts(clock, packet);
        else if (packet->kind == COFI_RTIT_MTC)
            rtit_mtc(clock, packet->mtc.ctc, packet->mtc.range);
    } else if (packet->kind == COFI_PT_TSC) {
        on_tsc(clock, packet->tsc.tsc);
    } else if (packet->kind == COFI_PT_TMA) {
        on_tma(clock, packet->tma.ctc, packet->tma.fc);
    } else if (packet->kind == COFI_PT_MTC) {
        pt_mtc(clock, packet->mtc.ctc);
    } else if (packet->kind == COFI_PT_CBR) {
        on_ratio(clock, packet->cbr.ratio);
    } else if (packet->kind == COFI_PT_CYC) {
        clock->cycles += packet->cyc.count;
    }
}

void cofi__clock_guest(struct cofi__clock *clock, bool guest, uint64_t vmcs, bool in_psb)
{
    if (clock->guest == guest && clock->vmcs == vmcs)
        return;
    clock->guest = guest;
    clock->vmcs = vmcs;
    if (!in_psb || !clock->tsc_in_psb)
        return;
    uint64_t delta = host_ticks(clock, clock->tsc) - clock->tsc_exact;
    if (!delta)
        return;
    clock->tsc_exact += delta;
    clock->exact += delta;
    clock->tma_base += delta;
    clock->mtc_exact += clock->mtc_seen ? delta : 0;
    clock->limit += clock->limit != UINT64_MAX ? delta : 0;
    bool behind = clock->before_now > clock->exact && clock->before_now - clock->exact <= COFI_CLOCK_BACK;
    clock->now = behind ? clock->before_now : clock->exact;
    clock->least = 0;
}

void cofi__clock_psb(struct cofi__clock *clock)
{
    clock->tsc_in_psb = false;
    clock->mtc_seen = false;
    clock->span_cycles = clock->mtc_exact = 0;
    if (!clock->known)
        clock->passed = clock->cycles = 0;
}

void cofi__clock_break(struct cofi__clock *clock)
{
    clock->mtc_seen = false;
}

void cofi__clock_at_least(struct cofi__clock *clock, uint64_t ticks)
{
    if (!clock->known || ticks <= clock->now)
        return;
    clock->now = ticks;
    clock->interpolated = true;
}

uint64_t cofi__clock_ticks(struct cofi__clock *clock)
{
    if (!clock->cycles || !clock->known)
        return clock->now;
    uint64_t ticks = ticks_of_cycles(clock);
    if (!clock->ratio)
        return clock->now;
    ticks += clock->exact + clock->passed;
    if (ticks >= clock->limit)
        ticks = clock->limit - 1;
    clock->interpolated = true;
    if (ticks > clock->now)
        clock->now = ticks;
    return clock->now;
}
