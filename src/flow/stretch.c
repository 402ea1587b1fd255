/* SPDX-License-Identifier: MIT
 * Trace bytes -> the bytes of outcomes and targets among them, and the time told between these. */
#include "flow/walker.h"

#include <string.h>

#include "base/bytes.h"

/* An MTC has two bytes in both generations [SDM (MTC) Packet], [RTIT 4.2.12]. */
static bool pass_mtc(struct stretch *w)
{
    if (w->mtcs == STRETCH_MTCS)
        return false;
    w->mtc[w->mtcs].p = w->p;
    w->mtc[w->mtcs++].cycles = w->cycles;
    w->cycles = 0;
    w->p += 2;
    return true;
}

static bool pass_long_cyc(const struct cofi_flow *flow, struct stretch *w)
{
    const uint8_t *next = cofi__pt_long_cyc(flow, w->p, &w->cycles);
    if (next)
        w->p = next;
    return next;
}

/* One packet of padding or timing. False: it is none, or one for the pump. */
static inline bool pass_over(const struct cofi_flow *flow, struct stretch *w)
{
    unsigned c = *w->p;
    if (flow->config.gen == COFI_RTIT)
        return (c & 0xfc) == 0xc4 && pass_mtc(w);
    if ((c & 3) == 3) {
        if (c & 4)
            return pass_long_cyc(flow, w);
        w->cycles += c >> 3;
        w->p++;
        return true;
    }
    if (c == 0x59)
        return pass_mtc(w);
    w->p += !c;
    return !c;
}

/* How long outcomes and targets are by their first byte; 0: another packet. */
static const uint8_t *sizes_of(const struct cofi_flow *flow)
{
    return flow->config.gen == COFI_PT ? cofi__pt_sizes : cofi__rtit_sizes;
}

/* A short CYC stands before most packets: the lowest bits that tell one, and those that it has. */
static unsigned cyc_bits(const struct cofi_flow *flow) { return flow->config.gen == COFI_PT ? 7 : 0; }
enum { CYC_SHORT = 3 };

/* For each byte wanted there are at most two to be read, but for what pass_over takes. */
static bool has_bytes(const struct stretch *w, const uint8_t *p, const uint8_t *want, const uint8_t *end)
{
    return w->stop - p >= 2 * (end - want);
}

bool cofi__stretch_match(const struct cofi_flow *flow, struct stretch *w, const uint8_t *want, unsigned n)
{
    const uint8_t *end = want + n, *sizes = sizes_of(flow), *p = w->p;
    unsigned cyc = cyc_bits(flow);
    uint64_t cycles = 0;
    if (!has_bytes(w, p, want, end))
        return false;
    while (want < end) {
        unsigned c = *p;
        if ((c & cyc) == CYC_SHORT) {
            cycles += c >> 3;
            c = *++p;
        }
        if (c == *want && sizes[c] == 1) { /* a branch, so that where the next one lies does not wait for the table */
            p++;
            want++;
            continue;
        }
        if (c == *want) {
            unsigned size = sizes[c];
            if ((le64(p + 1) ^ le64(want + 1)) << (72 - 8 * size))
                return false;
            w->tip = p;
            p += size;
            want += size;
            continue;
        }
        w->p = p;
        w->cycles += cycles;
        cycles = 0;
        if (sizes[c] || !pass_over(flow, w) || !has_bytes(w, w->p, want, end))
            return false;
        p = w->p;
    }
    w->p = p;
    w->cycles += cycles;
    return true;
}

int cofi__stretch_copy(const struct cofi_flow *flow, struct stretch *w, uint8_t *out, unsigned max, unsigned *tip_at)
{
    const uint8_t *sizes = sizes_of(flow);
    unsigned n = 0;
    while (w->p < w->stop) {
        unsigned size = sizes[*w->p];
        if (!size && pass_over(flow, w))
            continue;
        if (!size || n + size > max)
            return -1;
        memcpy(out + n, w->p, size);
        *tip_at = size > 1 ? n : *tip_at;
        w->p += size;
        n += size;
    }
    return (int)n;
}

bool cofi__stretch_key(const struct cofi_flow *flow, struct stretch *w, uint64_t bytes[2])
{
    const uint8_t *sizes = sizes_of(flow);
    uint8_t key[SPAN_KEY + 8] = {0};
    unsigned n = 0;
    while (n < SPAN_KEY && w->p <= w->stop) {
        unsigned size = sizes[*w->p];
        if (!size && pass_over(flow, w))
            continue;
        if (!size)
            break;
        put_le(key + n, le64(w->p), 8); /* what is too much is written over */
        w->p += size;
        n += size;
    }
    if (n < SPAN_KEY)
        memset(key + n, 0, sizeof key - n);
    bytes[0] = le64(key);
    bytes[1] = le64(key + 8);
    return n >= SPAN_LEAST;
}

void cofi__stretch_mtcs(struct cofi_flow *flow, const struct stretch *w)
{
    for (unsigned i = 0; i < w->mtcs; i++) {
        const uint8_t *p = w->mtc[i].p;
        struct cofi_packet packet = {.kind = COFI_PT_MTC};
        if (flow->config.gen == COFI_RTIT)
            packet.kind = COFI_RTIT_MTC;
        packet.mtc.range = p[0] & 3;
        packet.mtc.ctc = p[1];
        flow->clock.cycles += w->mtc[i].cycles;
        cofi__clock_packet(&flow->clock, &packet);
    }
}
