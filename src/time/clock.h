/* SPDX-License-Identifier: MIT
 * One stream's clock: timing packets in, ticks of the TSC out. */
#ifndef COFI_TIME_CLOCK_H
#define COFI_TIME_CLOCK_H

#include <cofi/packet.h>
#include <cofi/time.h>

/* What a tick is worth that cycles stand for: fixed point, ticks per core cycle << 16. */
enum { COFI_CLOCK_SHIFT = 16 };

enum { COFI_CLOCK_BACK = 0x10000 }; /* a step back of more ticks is believed [PTREF 8.3] */

/* How far before a time reading must begin, so that none from before makes time stand still at it: as far as
 * what cycle counts estimate may run ahead of the exact time behind it [PTREF 8.3]. At most ticks. */
static inline uint64_t cofi__clock_ahead(const struct cofi_time_info *info, uint64_t ticks)
{
    uint64_t ahead = info->cyc ? COFI_CLOCK_BACK : 0;
    return ticks < ahead ? ticks : ahead;
}

struct cofi__clock {
    struct cofi_time_info info;
    uint64_t now;          /* what is reported; never runs backwards by interpolation */
    uint64_t exact;        /* of the last TSC, MTC or STS */
    uint64_t passed;       /* PT: ticks from then to the last CBR behind it, estimated at the ratio that
                            * held before it */
    uint64_t cycles;       /* core cycles since both */
    uint64_t ratio;        /* ticks per cycle << COFI_CLOCK_SHIFT; 0: not known */
    uint64_t new_ticks, new_cycles; /* the ratio is that of these, divided when asked; 0 cycles: see ratio */
    uint64_t limit;        /* cycles may not carry time past this (the next MTC) */
    uint64_t limit_rem;    /* PT, with on_grid: it is this many tsc_den-ths more */
    uint64_t step, step_rem; /* PT: ticks between two MTCs, and how many tsc_den-ths more */
    uint64_t reference;    /* upper bits that packets lack */
    uint64_t span_cycles;  /* since the last MTC, for calibration */
    uint64_t mtc_exact;    /* time of that MTC; 0 without mtc_seen behind a PSB, so that clocks can be
                            * compared (seam.c) */
    uint64_t tma_base;     /* PT: TSC at ART = ctc_base */
    uint64_t ctc_delta;    /* PT: ART ticks since */
    uint8_t last_mtc;
    /* PT: a guest has a TSC of its own; its offsets, as far as they were learnt. */
    uint64_t vmcs;
    struct {
        uint64_t vmcs, offset; /* guest's minus host's */
    } guests[4];
    uint64_t least;        /* exact time since whoever asks set it; 0: a step back was believed, so that
                            * now is not the latest */
    uint64_t tsc, tsc_exact; /* of the last TSC packet, and what it was taken for */
    uint64_t before_tsc, before_now; /* the exact time that was known before it, and what was reported */
    uint8_t guests_n;
    bool guest;            /* in VMX non-root operation */
    bool tsc_in_psb;       /* the last TSC packet is of the PSB+ at hand */
    bool known, interpolated;
    bool have_tma;         /* PT: base and last_mtc are valid */
    bool fix_mtc;          /* PT: MTCFreq > 8: upper bits of last_mtc come with the first MTC */
    bool on_grid;          /* PT: limit is when the MTC after last_mtc is due */
    bool mtc_seen;         /* calibration may use the next interval */
    bool skip_mtc;         /* RTIT: [ERR E7]: do not trust the next MTC */
    bool cyc_off_by_one;   /* [ERR E6] */
    bool rtit;
};

void cofi__clock_init(struct cofi__clock *clock, enum cofi_gen gen, const struct cofi_time_info *info,
                      uint64_t reference);
/* One timing packet (TSC, TMA, MTC, CYC, CBR; STS, MTC); others are ignored, but an RTIT packet's cycle
 * count suffix counts. [PTREF 8.3], [RTIT 4.2.12], [RTIT 4.2.13], [RTIT 4.2.14] */
void cofi__clock_packet(struct cofi__clock *clock, const struct cofi_packet *packet);
void cofi__clock_mtc(struct cofi__clock *clock, uint8_t ctc);
/* Cycles were lost (overflow) or not counted (disabled): do not calibrate over this interval. */
void cofi__clock_break(struct cofi__clock *clock);

/* A PSB+ comes: it tells all timing afresh, so nothing of an interval that is open counts any more. */
void cofi__clock_psb(struct cofi__clock *clock);

/* PT: execution is in VMX non-root operation of a VMCS or not. in_psb: PSB+ tells so, behind its TSC,
 * which is then taken anew. */
void cofi__clock_guest(struct cofi__clock *clock, bool guest, uint64_t vmcs, bool in_psb);

/* It is so late at least, as is known from elsewhere. */
void cofi__clock_at_least(struct cofi__clock *clock, uint64_t ticks);

/* The time as of now, in ticks. */
uint64_t cofi__clock_ticks(struct cofi__clock *clock);

#endif
