/* SPDX-License-Identifier: MIT
 * Trace bytes -> outcomes and targets alone; timing between them goes to the clock. */
#include "flow/walker.h"

#include <stdlib.h>
#include <string.h>

/* A byte that begins neither outcomes nor a target. */
enum { PT_NONE = 2, RTIT_NONE = 0 };

/* So many bytes of the trace, in stages. */
static struct sift sift_all(struct cofi_flow *flow, struct sift w, size_t n)
{
    struct sieve *sieve = flow->sieve;
    const uint8_t *last = sieve->from + n, *stop;
    w.last_ip = flow->last_ip;
    sieve->stages_n = sieve->stage = 0;
    do {
        size_t left = (size_t)(last - w.p);
        stop = w.p + (left < SIEVE_STAGE ? left : SIEVE_STAGE);
        cofi__sift(flow, &w, stop, sieve->end);
        sieve->stages[sieve->stages_n++] = w;
    } while (w.p > stop && w.p < last);
    return w;
}

/* To where the flow is. */
static void sift_exactly(const struct cofi_flow *flow, struct sift *w, struct cofi__clock *clock)
{
    cofi__sift_until(flow, w, clock, flow->sieve->sifted.p, flow->s.p);
}

/* ---- in and out ---- */

void cofi__sieve_restart(struct cofi_flow *flow)
{
    flow->sieved = flow->spans.bare = false;
    if (!flow->sieve)
        return;
    flow->sieve->limit = SIEVE_FIRST;
    flow->sieve->past = flow->sieve->bare = flow->sieve->wait = 0;
}

static struct sieve *sieve_of(struct cofi_flow *flow)
{
    if (!flow->sieve && (flow->sieve = malloc(sizeof *flow->sieve)))
        cofi__sieve_restart(flow);
    return flow->sieve;
}

static bool pays(const struct cofi_flow *flow)
{
    const struct sieve *sieve = flow->sieve;
    return flow->s.end - flow->s.p >= SIEVE_PAD && (!sieve || source_offset(&flow->s) >= sieve->past);
}

static uint64_t raw_offset(const struct sieve *sieve, const uint8_t *p)
{
    return sieve->end_offset - (uint64_t)(sieve->end - p);
}

/* A trace whose configuration nobody tells may be without timing: then for longer and longer it is read
 * as it lies, and only a part of it looked through. */
static void weigh(struct cofi_flow *flow, const struct sift *w)
{
    struct sieve *sieve = flow->sieve;
    uint64_t read = (uint64_t)(w->p - sieve->from), trust;
    sieve->bare = w->q - sieve->clean < w->p - sieve->from ? 0 : sieve->bare + read;
    flow->spans.bare = sieve->bare >= SIEVE_BARE;
    if (!flow->spans.bare)
        return;
    trust = sieve->bare * 8 < SIEVE_TRUST ? sieve->bare * 8 : SIEVE_TRUST;
    sieve->past = raw_offset(sieve, w->p) + trust;
}

static struct sift start_of(const struct sieve *sieve) { return (struct sift){.p = sieve->from,
                                                                              .q = (uint8_t *)sieve->clean}; }

static void go_to(struct cofi_flow *flow, const uint8_t *p, const uint8_t *end, uint64_t end_offset)
{
    flow->s.p = p;
    flow->s.end = end;
    flow->s.end_offset = end_offset;
    flow->s.moves++;
}

void cofi__sieve_enter(struct cofi_flow *flow)
{
    struct source *s = &flow->s;
    if (!flow->sifts || !only_branches(flow) || !pays(flow))
        return;
    struct sieve *sieve = sieve_of(flow);
    if (!sieve)
        return;
    sieve->from = s->p;
    sieve->end = s->end;
    sieve->end_offset = s->end_offset;
    sieve->clock = flow->clock;
    size_t room = (size_t)(s->end - s->p) - SOURCE_AHEAD;
    struct sift w = sift_all(flow, start_of(sieve), room < sieve->limit ? room : sieve->limit);
    if (w.q - sieve->clean < SIEVE_LEAST) {
        flow->clock = sieve->clock;
        sieve->past = s->end_offset - (uint64_t)(s->end - w.p) + 1;
        return;
    }
    *w.q = short_tnt(w.acc, w.n, flow->config.gen == COFI_PT);
    w.q += w.n != 0;
    weigh(flow, &w);
    memset(w.q, flow->config.gen == COFI_PT ? PT_NONE : RTIT_NONE, SIEVE_PAD);
    sieve->sifted = w;
    sieve->asked = start_of(sieve);
    flow->sieved = true;
    go_to(flow, sieve->clean, w.q + SIEVE_PAD, SIEVE_OFFSET + (uint64_t)(w.q + SIEVE_PAD - sieve->clean));
}

/* How many outcomes the last TNT had. */
static unsigned tail_of(const struct cofi_flow *flow, const struct sift *w)
{
    return w->tnt ? cofi__sift_outcomes(flow, w->tnt) : flow->tail;
}

/* The offset of the last target that was used, or of the last one read: as they lie in the trace. */
static void tell_offsets(struct cofi_flow *flow, const struct sift *w)
{
    const uint8_t *used = flow->has_packet ? w->tip_before : w->tip;
    if (flow->used.offset >= SIEVE_OFFSET)
        flow->used.offset = raw_offset(flow->sieve, used);
    if (flow->packet_offset >= SIEVE_OFFSET)
        flow->packet_offset = raw_offset(flow->sieve, w->tip);
}

static void end(struct cofi_flow *flow)
{
    struct sieve *sieve = flow->sieve;
    const struct sift *w = &sieve->sifted;
    cofi__span_seam(flow, flow->s.p);
    tell_offsets(flow, w);
    flow->tail = tail_of(flow, w);
    sieve->limit = sieve->limit < SIEVE_MOST ? sieve->limit * 2 : SIEVE_MOST;
    sieve->wait = 0;
    flow->sieved = false;
    go_to(flow, w->p, sieve->end, sieve->end_offset);
}

void cofi__sieve_more(struct cofi_flow *flow)
{
    if (flow->s.p != flow->sieve->sifted.q)
        return;
    end(flow);
    cofi__sieve_enter(flow);
}

/* A TNT of which some outcomes were read only: it is read again, or all of it now. */
static void take_rest(struct cofi_flow *flow, struct sift *w)
{
    unsigned read = tail_of(flow, w) - w->n;
    if (flow->n >= read) {
        flow->n -= read;
        flow->bits >>= read;
        w->p = w->tnt;
        return;
    }
    flow->bits = flow->bits << w->n | (w->acc & ((1u << w->n) - 1));
    flow->n += w->n;
}

/* Most of the work was for nothing: where code is missing, gaps are only a few bytes apart. */
static void leave_early(struct sieve *sieve, const uint8_t *at)
{
    sieve->wait = sieve->wait ? sieve->wait * 2 : SIEVE_FIRST / 8;
    if (sieve->wait > SIEVE_WAIT)
        sieve->wait = SIEVE_WAIT;
    sieve->past = raw_offset(sieve, at) + sieve->wait;
}

void cofi__sieve_leave(struct cofi_flow *flow)
{
    struct sieve *sieve = flow->sieve;
    if (!flow->sieved)
        return;
    struct sift w = start_of(sieve);
    flow->spans.draft.on = false;
    flow->clock = sieve->clock; /* also at the end of it: there may be timing behind the packet in hand */
    sift_exactly(flow, &w, &flow->clock);
    tell_offsets(flow, &w);
    if (w.n && w.q == flow->s.p)
        take_rest(flow, &w);
    flow->tail = tail_of(flow, &w);
    sieve->limit = SIEVE_FIRST;
    if ((w.p - sieve->from) * 4 < sieve->sifted.p - sieve->from)
        leave_early(sieve, w.p);
    flow->sieved = false;
    go_to(flow, w.p, sieve->end, sieve->end_offset);
}

uint64_t cofi__sieve_begin(const struct cofi_flow *flow) { return raw_offset(flow->sieve, flow->sieve->from); }

uint64_t cofi__sieve_offset(const struct cofi_flow *flow)
{
    struct sieve *sieve = flow->sieve;
    if (flow->s.p == sieve->sifted.q)
        return raw_offset(sieve, sieve->sifted.p);
    while (sieve->stage < sieve->stages_n && sieve->stages[sieve->stage].q < flow->s.p)
        sieve->asked = sieve->stages[sieve->stage++];
    sift_exactly(flow, &sieve->asked, NULL);
    return raw_offset(sieve, sieve->asked.p);
}
