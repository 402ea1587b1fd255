/* SPDX-License-Identifier: MIT
 * All packets of a stream -> the time behind each, for who reads no flow. */
#include <stddef.h>
#include <stdlib.h>

#include <cofi/error.h>

#include "base/error.h"
#include "base/sized.h"
#include "time/clock.h"
#include "x86/errata.h"

struct cofi_clock {
    struct cofi__clock clock;
    uint64_t vmcs;
    bool rtit_errata;
    bool in_psb, paging, non_root; /* PT: PSB+ told an address space, which counts from its end on */
};

int cofi_clock_open(struct cofi_clock **out, const struct cofi_clock_config *given)
{
    struct cofi_clock_config config;
    COFI_TRY(cofi__sized(&config, sizeof config, given, offsetof(struct cofi_clock_config, reference_tsc), NULL));
    if ((config.gen != COFI_PT && config.gen != COFI_RTIT) || config.time.mtc_freq > COFI_MTC_FREQ_MOST)
        return COFI_ERR_RANGE;
    struct cofi_clock *clock = calloc(1, sizeof *clock);
    if (!clock)
        return COFI_ERR_NOMEM;
    cofi__clock_init(&clock->clock, config.gen, &config.time, config.reference_tsc);
    clock->rtit_errata = cofi__cpu_errata(config.gen, config.family, config.model) & ERR_RTIT;
    clock->clock.cyc_off_by_one = clock->clock.skip_mtc = clock->rtit_errata;
    *out = clock;
    return 0;
}

static void rtit_packet(struct cofi_clock *clock, const struct cofi_packet *packet)
{
    bool stands = packet->kind == COFI_RTIT_PGE || packet->kind == COFI_RTIT_PGD || packet->kind == COFI_RTIT_BUFFOVF;
    if (packet->kind == COFI_RTIT_PSB)
        clock->clock.skip_mtc |= clock->rtit_errata;
    else if (stands) /* CNTP may have stood still [RTIT Table 17] */
        cofi__clock_break(&clock->clock);
}

static void end_psb(struct cofi_clock *clock)
{
    if (clock->in_psb && clock->paging)
        cofi__clock_guest(&clock->clock, clock->non_root, clock->vmcs, true);
    clock->in_psb = false;
}

static void pt_packet(struct cofi_clock *clock, const struct cofi_packet *packet)
{
    switch (packet->kind) {
    case COFI_PT_PSB:
        cofi__clock_psb(&clock->clock);
        clock->in_psb = true;
        clock->paging = false;
        break;
    case COFI_PT_PSBEND: end_psb(clock); break;
    case COFI_PT_OVF:
        cofi__clock_break(&clock->clock);
        clock->in_psb = false;
        break;
    case COFI_PT_VMCS: clock->vmcs = packet->vmcs.base; break;
    case COFI_PT_PIP:
        clock->paging = true;
        clock->non_root = packet->pip.nr;
        if (!clock->in_psb)
            cofi__clock_guest(&clock->clock, clock->non_root, clock->vmcs, false);
        break;
    }
}

void cofi_clock_packet(struct cofi_clock *clock, const struct cofi_packet *packet)
{
    cofi__clock_packet(&clock->clock, packet);
    (clock->clock.rtit ? rtit_packet : pt_packet)(clock, packet);
}

void cofi_clock_lost(struct cofi_clock *clock)
{
    cofi__clock_break(&clock->clock);
    clock->in_psb = false;
}

struct cofi_flow_time cofi_clock_now(struct cofi_clock *clock)
{
    const struct cofi_time_conv *conv = &clock->clock.info.conv;
    uint64_t ticks = cofi__clock_ticks(&clock->clock);
    bool ahead = ticks > clock->clock.exact; /* an estimate was, and time stands still until it is that late */
    return (struct cofi_flow_time){.ticks = ticks,
                                   .known = clock->clock.known,
                                   .interpolated = clock->clock.interpolated || ahead,
                                   .ns = clock->clock.known && conv->mult ? cofi_time_ns(conv, ticks) : 0};
}

void cofi_clock_close(struct cofi_clock *clock) { free(clock); }
