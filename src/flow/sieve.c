/* SPDX-License-Identifier: MIT
 * Trace bytes -> outcomes and targets alone; timing between them goes to the clock. */
#include "flow/walker.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"

/* By the first byte; 0: another packet, or a TNT without any. */
#define PT_OUTCOMES(c) ((c) & 1 ? 0 : TNT_OUTCOMES((c) >> 1))
#define RTIT_OUTCOMES(c) ((c) >= 0x80 ? 0 : TNT_OUTCOMES(c))
static const uint16_t pt_outcomes[256] = {BYTES(PT_OUTCOMES)}, rtit_outcomes[256] = {BYTES(RTIT_OUTCOMES)};

/* A byte that begins neither outcomes nor a target. */
enum { PT_NONE = 2, RTIT_NONE = 0 };

/* ---- PT's and RTIT's, one packet ---- */

/* From the kernel to the user: who reads that asks the clock. Bit 63 of LastIP is told by IPBytes 3 and 6 [SDM IP Compression]. */
static bool to_user(uint64_t *last_ip, unsigned code, uint64_t payload)
{
    bool kernel = *last_ip >> 63;
    if (code == 3)
        *last_ip = payload << 16;
    else if (code == 6)
        *last_ip = payload;
    return kernel && !(*last_ip >> 63);
}

static void tell_mtc(struct cofi__clock *clock, bool pt, const uint8_t *p)
{
    struct cofi_packet packet = {.kind = COFI_RTIT_MTC};
    packet.mtc.range = p[0] & 3;
    packet.mtc.ctc = p[1];
    if (pt)
        cofi__clock_mtc(clock, p[1]);
    else
        cofi__clock_packet(clock, &packet);
}

/* Two bytes [SDM (MTC) Packet], [RTIT 4.2.12]. */
static bool is_mtc(bool pt, unsigned c) { return pt ? c == 0x59 : (c & 0xfc) == 0xc4; }

/* A TNT of n outcomes, fewer than 6, youngest at bit 0 of acc. */
static inline uint8_t short_tnt(uint64_t acc, unsigned n, bool pt) { return (uint8_t)((1u << n | (acc & ((1u << n) - 1))) << pt); }

/* Up to `stop`, or to what is neither timing nor a branch's. Of TNTs that have no target between them the outcomes are put
 * together, as they are where no MTC cuts them, so that no more is written than is read, but for the last byte. until: not
 * null where all was written before; where to end then. */
static inline __attribute__((always_inline)) void sift(const struct cofi_flow *flow, struct sift *w, bool pt, struct cofi__clock *clock,
                                                       const uint8_t *stop, const uint8_t *until)
{
    const uint16_t *outcomes = pt ? pt_outcomes : rtit_outcomes;
    const uint8_t *sizes = pt ? cofi__pt_sizes : cofi__rtit_sizes, *p = w->p, *tnt = w->tnt;
    uint8_t *q = w->q;
    uint64_t cycles = 0, last_ip = w->last_ip, acc = w->acc;
    unsigned n = w->n, long_cyc = flow->errata & ERR_SKD007 ? 0xff : 1;
    while (p <= stop && (!until || q < until)) {
        unsigned c = *p;
        if (pt && (c & 7) == 3) { /* a CYC stands before most packets [SDM Cycle Count Packet (CYC) Packet] */
            cycles += c >> 3;
            c = *++p;
        } else if (pt && (c & 7) == 7 && !(p[1] & long_cyc)) {
            cycles += c >> 3 | (p[1] & 0xfeu) << 4;
            c = *(p += 2);
        }
        unsigned what = outcomes[c], k = (uint8_t)what, size;
        if (k) {
            tnt = p++;
            acc = acc << k | what >> 8;
            n += k;
            if (n < 6)
                continue;
            n -= 6;
            if (!until)
                *q = (uint8_t)((0x40 | (acc >> n & 0x3f)) << pt);
            q++;
        } else if (pt && (c & 3) == 3) {
            const uint8_t *next = cofi__pt_long_cyc(flow, p, &cycles);
            if (!next)
                break;
            p = next;
        } else if ((size = sizes[c]) > 1) {
            if (pt && !until && to_user(&last_ip, c >> 5, le64(p + 1)))
                break;
            if (!until)
                *q = short_tnt(acc, n, pt);
            q += n != 0;
            n = 0;
            if (until && q == until)
                break;
            w->tip_before = w->tip;
            w->tip = p;
            if (!until)
                memcpy(q, p, 16);
            p += size;
            q += size;
        } else if (is_mtc(pt, c)) {
            if (clock) {
                clock->cycles += cycles;
                tell_mtc(clock, pt, p);
            }
            cycles = 0;
            p += 2;
        } else if (pt ? !c : size) { /* PAD; a TNT without outcomes */
            p++;
        } else {
            break;
        }
    }
    if (clock)
        clock->cycles += cycles;
    w->p = p;
    w->q = q;
    w->last_ip = last_ip;
    w->tnt = tnt;
    w->acc = acc;
    w->n = n;
}

static void sift_to(struct cofi_flow *flow, struct sift *w, const uint8_t *stop)
{
    if (flow->config.gen == COFI_PT)
        sift(flow, w, true, &flow->clock, stop, NULL);
    else
        sift(flow, w, false, &flow->clock, stop, NULL);
}

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
        sift_to(flow, &w, stop);
        sieve->stages[sieve->stages_n++] = w;
    } while (w.p > stop && w.p < last);
    return w;
}

/* To where the flow is. */
static void sift_exactly(const struct cofi_flow *flow, struct sift *w, struct cofi__clock *clock)
{
    const uint8_t *stop = flow->sieve->sifted.p;
    sift(flow, w, flow->config.gen == COFI_PT, clock, stop, flow->s.p);
}

/* ---- in and out ---- */

void cofi__sieve_restart(struct cofi_flow *flow)
{
    flow->sieved = false;
    if (!flow->sieve)
        return;
    flow->sieve->limit = SIEVE_FIRST;
    flow->sieve->past = flow->sieve->wait = 0;
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

static struct sift start_of(const struct sieve *sieve) { return (struct sift){.p = sieve->from, .q = (uint8_t *)sieve->clean}; }

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
    memset(w.q, flow->config.gen == COFI_PT ? PT_NONE : RTIT_NONE, SIEVE_PAD);
    sieve->sifted = w;
    sieve->asked = start_of(sieve);
    flow->sieved = true;
    go_to(flow, sieve->clean, w.q + SIEVE_PAD, SIEVE_OFFSET + (uint64_t)(w.q + SIEVE_PAD - sieve->clean));
}

/* How many outcomes the last TNT had. */
static unsigned tail_of(const struct cofi_flow *flow, const struct sift *w)
{
    const uint16_t *outcomes = flow->config.gen == COFI_PT ? pt_outcomes : rtit_outcomes;
    return w->tnt ? (uint8_t)outcomes[*w->tnt] : flow->tail;
}

static uint64_t raw_offset(const struct sieve *sieve, const uint8_t *p) { return sieve->end_offset - (uint64_t)(sieve->end - p); }

/* The offset of the last target that was used, or of the last one read: as they lie in the trace. */
static void tell_offsets(struct cofi_flow *flow, const struct sift *w)
{
    const uint8_t *used = flow->has_packet ? w->tip_before : w->tip;
    if (flow->used_offset >= SIEVE_OFFSET)
        flow->used_offset = raw_offset(flow->sieve, used);
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
