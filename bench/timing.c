/* SPDX-License-Identifier: MIT
 * See timing.h. */
#include "timing.h"

#include <stdlib.h>
#include <string.h>

#include <cofi/stream.h>

enum { CYCLES_BIT = 1, CYCLES_TIP = 3, MTC_FREQ = 3, TSC_PER_ART = 100, MTC_TICKS = TSC_PER_ART << MTC_FREQ };

struct timer {
    struct cofi_packet_context context;
    uint8_t *out;
    size_t n;
    uint64_t now, told; /* ticks of the TSC, one a core cycle; the last CYC's */
    uint64_t mtc;       /* when the next one is due */
    uint8_t ctc, ratio; /* of the core to the bus: the TSC's, so that a cycle is a tick */
};

static void put(struct timer *t, const struct cofi_packet *packet)
{
    int n = cofi_packet_encode(&t->context, packet, t->out + t->n, COFI_PACKET_MAX);
    t->n += n > 0 ? (size_t)n : 0;
}

static void put_cycles(struct timer *t)
{
    if (t->now > t->told)
        put(t, &(struct cofi_packet){.kind = COFI_PT_CYC, .cyc.count = t->now - t->told});
    t->told = t->now;
}

/* So many outcomes, the oldest of the packet's first, behind the cycles they took. */
static void put_outcomes(struct timer *t, const struct cofi_packet *tnt, unsigned from, unsigned n)
{
    struct cofi_packet part = {.kind = COFI_PT_TNT};
    part.tnt.count = (uint8_t)n;
    part.tnt.bits = tnt->tnt.bits >> (tnt->tnt.count - from - n) & ((UINT64_C(1) << n) - 1);
    put_cycles(t);
    put(t, &part);
}

static void put_mtc(struct timer *t)
{
    struct cofi_packet mtc = {.kind = COFI_PT_MTC};
    mtc.mtc.ctc = ++t->ctc;
    put_cycles(t);
    put(t, &mtc);
    t->mtc += MTC_TICKS;
}

/* As the unit does: a packet when there are six, or when an MTC is due. */
static void put_tnt(struct timer *t, const struct cofi_packet *tnt)
{
    unsigned from = 0;
    for (unsigned i = 0; i < tnt->tnt.count; i++) {
        t->now += CYCLES_BIT;
        bool due = t->now >= t->mtc;
        if (i + 1 - from == 6 || i + 1 == tnt->tnt.count || due) {
            put_outcomes(t, tnt, from, i + 1 - from);
            from = i + 1;
        }
        if (due)
            put_mtc(t);
    }
}

/* [SDM TSC/MTC Alignment (TMA) Packet] */
static void put_tsc(struct timer *t, struct cofi_packet *tsc)
{
    if (tsc->tsc.tsc > t->now)
        t->now = tsc->tsc.tsc;
    tsc->tsc.tsc = t->told = t->now;
    put(t, tsc);
    struct cofi_packet tma = {.kind = COFI_PT_TMA};
    uint64_t art = t->now / TSC_PER_ART;
    tma.tma.ctc = (uint16_t)art;
    tma.tma.fc = (uint16_t)(t->now % TSC_PER_ART);
    put(t, &tma);
    put(t, &(struct cofi_packet){.kind = COFI_PT_CBR, .cbr.ratio = t->ratio});
    t->ctc = (uint8_t)(art >> MTC_FREQ);
    t->mtc = (art >> MTC_FREQ << MTC_FREQ) * TSC_PER_ART + MTC_TICKS;
}

/* What takes time of its own. */
static bool is_target(unsigned kind)
{
    return kind == COFI_PT_TIP || kind == COFI_PT_TIP_PGE || kind == COFI_PT_TIP_PGD;
}

static void add(struct timer *t, struct cofi_packet *packet)
{
    if (packet->kind == COFI_PT_TNT || packet->kind == COFI_PT_TNT64) {
        put_tnt(t, packet);
    } else if (packet->kind == COFI_PT_TSC) {
        put_tsc(t, packet);
    } else {
        if (is_target(packet->kind)) {
            t->now += CYCLES_TIP;
            put_cycles(t);
        }
        put(t, packet);
    }
}

bool bench_add_timing(struct bench_load *load)
{
    struct timer t = {.context = {.gen = COFI_PT}, .out = malloc(4 * load->n + COFI_PACKET_MAX), .mtc = UINT64_MAX};
    t.ratio = load->config.time.nominal_ratio;
    struct cofi_stream stream;
    struct cofi_stream_item item;
    if (!t.out)
        return false;
    cofi_stream_init(&stream, COFI_PT, 0, false);
    cofi_stream_feed(&stream, load->trace, load->n);
    cofi_stream_finish(&stream);
    while (cofi_stream_next(&stream, &item))
        if (!item.status)
            add(&t, &item.packet);
    free(load->trace);
    load->config.bytes = load->trace = t.out;
    load->config.n = load->n = t.n;
    load->config.ctl |= 1 << 1 | 1 << 9 | MTC_FREQ << 14; /* CYCEn, MTCEn [SDM IA32_RTIT_CTL] */
    load->config.time.mtc = load->config.time.cyc = true;
    load->config.time.mtc_freq = MTC_FREQ;
    load->config.time.tsc_num = TSC_PER_ART;
    load->config.time.tsc_den = 1;
    return true;
}
