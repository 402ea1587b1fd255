/* SPDX-License-Identifier: MIT
 * RTIT packets -> what they alone tell, without the code: time and CR3, for a piece of the stream to begin with. */
#include "flow/skim.h"

#include <cofi/stream.h>

#include "base/error.h"
#include "flow/query.h"

int cofi__skim_open(struct cofi_flow **skimmer, const struct cofi_flow_config *config)
{
    struct cofi_flow_config own = *config;
    own.want_time = false;
    own.pull = NULL;
    own.bytes = NULL;
    own.n = own.tail_n = 0;
    return cofi_flow_open(skimmer, &own);
}

/* ---- past outcomes and targets ---- */

/* By a packet's first byte: its size (without cycle counts), whether it is a TIP, and one whose address
 * is whole; 0: another packet. */
enum { SIZE = 15, TIP = 16, WHOLE = 32 };
#define STEP(c) (RTIT_SIZE(c) > 1 ? RTIT_SIZE(c) | TIP | ((c) & 4 || ((c) & 3) == 2 ? WHOLE : 0) : RTIT_SIZE(c))
static const uint8_t steps[256] = {BYTES(STEP)};

static const uint8_t *next(const struct skim *skim) { return skim->bytes + skim->at; }

static void note(struct skim *skim, const uint8_t *p, unsigned met)
{
    skim->at = (size_t)(p - skim->bytes);
    skim->met |= met;
    skim->since |= met;
}

/* Where a packet begins is known when the one before has been looked at. Four at a time wait for one another's less. */
static void together(struct skim skims[4], size_t n)
{
    const uint8_t *a = next(&skims[0]), *b = next(&skims[1]), *c = next(&skims[2]), *d = next(&skims[3]);
    unsigned va, vb, vc, vd, ma = 0, mb = 0, mc = 0, md = 0;
    for (; n; n--) {
        va = steps[*a];
        vb = steps[*b];
        vc = steps[*c];
        vd = steps[*d];
        if (!va | !vb | !vc | !vd)
            break;
        a += va & SIZE;
        b += vb & SIZE;
        c += vc & SIZE;
        d += vd & SIZE;
        ma |= va;
        mb |= vb;
        mc |= vc;
        md |= vd;
    }
    note(&skims[0], a, ma);
    note(&skims[1], b, mb);
    note(&skims[2], c, mc);
    note(&skims[3], d, md);
}

static void alone(struct skim *skim)
{
    const uint8_t *p = next(skim), *end = skim->bytes + skim->n;
    unsigned met = 0;
    for (unsigned v; p < end && (v = steps[*p]) && (v & SIZE) <= (size_t)(end - p); p += v & SIZE)
        met |= v;
    note(skim, p, met);
}

/* ---- the others ---- */

static bool is_still(unsigned kind)
{
    return kind == COFI_RTIT_PSB || kind == COFI_RTIT_STS || kind == COFI_RTIT_MTC || kind == COFI_RTIT_PCC;
}

/* One packet of another kind. False: it is none, or there is no room for it. */
static bool other(struct cofi_flow *skimmer, struct skim *skim)
{
    struct cofi_packet packet;
    if (skim->at >= skim->n || skim->others_n == SKIM_OTHERS)
        return false;
    int size = cofi_packet_decode(&skimmer->context, next(skim), skim->n - skim->at, &packet);
    if (size <= 0)
        return false;
    bool enabling = packet.kind == COFI_RTIT_PGE;
    skim->met |= enabling && (packet.ip.code & 4 || (packet.ip.code & 3) == 2) ? WHOLE : 0;
    if (!is_still(packet.kind))
        skim->since = enabling ? TIP : 0;
    skim->others[skim->others_n++] = skim->at;
    skim->at += (size_t)size;
    return true;
}

/* How many packets surely fit into each of the four. */
static size_t packets_left(const struct skim skims[4])
{
    enum { LONGEST = 7 };
    size_t least = SIZE_MAX;
    for (unsigned i = 0; i < 4; i++) {
        size_t left = skims[i].at < skims[i].n ? (skims[i].n - skims[i].at) / LONGEST : 0;
        least = left < least ? left : least;
    }
    return least;
}

static bool others(struct cofi_flow *skimmer, struct skim skims[4])
{
    bool all = true;
    for (unsigned i = 0; i < 4; i++)
        all &= skims[i].at < skims[i].n && (steps[*next(&skims[i])] || other(skimmer, &skims[i]));
    return all;
}

void cofi__skim_ahead(struct cofi_flow *skimmer, struct skim skims[4], unsigned n)
{
    bool more = n == 4;
    if (skimmer->context.cyc)
        return;
    for (size_t left; more && (left = packets_left(skims)) > 0; more = others(skimmer, skims))
        together(skims, left);
    for (unsigned i = 0; i < n; i++)
        do
            alone(&skims[i]);
        while (other(skimmer, &skims[i]));
}

/* ---- what they tell ---- */

static void take_time(struct cofi_flow *flow)
{
    uint64_t ticks = cofi__clock_ticks(&flow->clock);
    if (flow->clock.known)
        flow->code.seen_ns = cofi__ns(flow, ticks);
}

/* As rtit_query.c does it, as far as it does not depend on where execution is. */
static void take_packet(struct cofi_flow *flow, const struct cofi_packet *p)
{
    if (p->kind == COFI_RTIT_PSB) {
        flow->clock.skip_mtc |= (flow->errata & ERR_RTIT) != 0;
    } else if (p->kind == COFI_RTIT_STS) {
        cofi__clock_packet(&flow->clock, p);
        flow->cbr = p->sts.acbr;
        flow->rtit.ecbr = p->sts.ecbr;
        take_time(flow);
    } else if (p->kind == COFI_RTIT_PGE) {
        take_time(flow);
        cofi__clock_break(&flow->clock);
    } else if (p->kind == COFI_RTIT_PGD || p->kind == COFI_RTIT_BUFFOVF) {
        cofi__clock_break(&flow->clock);
    } else if (p->kind == COFI_RTIT_PIP) {
        flow->code.cr3 = p->pip.cr3;
        flow->rtit.pg = 1 + p->pip.pg;
    }
}

static void take_others(struct cofi_flow *flow, const struct skim *skim)
{
    struct cofi_packet packet;
    for (size_t i = 0; i < skim->others_n; i++) {
        cofi_packet_decode(&flow->context, skim->bytes + skim->others[i], skim->n - skim->others[i], &packet);
        if (packet.kind == COFI_RTIT_MTC)
            cofi__clock_packet(&flow->clock, &packet);
        take_packet(flow, &packet);
    }
}

/* The way that flows read: with cycle counts, and where what stands there is no packet. */
static void take_rest(struct cofi_flow *flow, struct skim *skim)
{
    flow->s.p = next(skim);
    flow->s.begin = skim->bytes;
    flow->s.end = skim->bytes + skim->n;
    flow->s.eof = true;
    for (enum pump_result got; (got = pump(flow)) != PUMP_END; flow->n = 0, flow->has_packet = false) {
        const struct cofi_packet *p = &flow->packet;
        bool address = p->kind == COFI_RTIT_TIP || p->kind == COFI_RTIT_PGE;
        if (got == PUMP_BAD) {
            cofi__resync(flow);
            skim->met = skim->since = 0;
        } else if (got == PUMP_PACKET) {
            skim->met |= address && flow->packet_full_ip ? WHOLE : 0;
            if (!is_still(p->kind))
                skim->since = address ? TIP : 0;
            take_packet(flow, p);
        }
    }
}

bool cofi__skim(struct cofi_flow *skimmer, struct skim *skim)
{
    take_others(skimmer, skim);
    take_rest(skimmer, skim);
    return skim->met & WHOLE && skim->since & TIP;
}

void cofi__skim_tell(const struct cofi_flow *skimmer, struct skimmed *out)
{
    out->clock = skimmer->clock;
    out->cr3 = skimmer->code.cr3;
    out->seen_ns = skimmer->code.seen_ns;
    out->cbr = skimmer->cbr;
    out->ecbr = skimmer->rtit.ecbr;
    out->pg = skimmer->rtit.pg;
}

int cofi__skim_take(struct cofi_flow *flow, const struct skimmed *known)
{
    flow->clock = known->clock;
    flow->code.cr3 = known->cr3;
    flow->cbr = known->cbr;
    flow->rtit.ecbr = known->ecbr;
    flow->rtit.pg = known->pg;
    flow->space_due = known->cr3 && flow->config.space;
    uint64_t ns = known->seen_ns;
    if (flow->known.timeless && !cofi__code_time(flow, source_offset(&flow->s), &ns))
        return 0;
    return cofi__flow_see_code(flow, ns);
}
