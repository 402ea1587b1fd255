/* SPDX-License-Identifier: MIT
 * Trace bytes -> outcomes and targets alone, packet by packet; timing between them goes to the clock. */
#include "flow/sift.h"

#include <string.h>

#include "base/bytes.h"
#include "flow/walker.h"

/* By the first byte; 0: another packet, or a TNT without any. */
#define PT_OUTCOMES(c) ((c) & 1 ? 0 : TNT_OUTCOMES((c) >> 1))
#define RTIT_OUTCOMES(c) ((c) >= 0x80 ? 0 : TNT_OUTCOMES(c))
const uint16_t cofi__pt_outcomes[256] = {BYTES(PT_OUTCOMES)};
static const uint16_t rtit_outcomes[256] = {BYTES(RTIT_OUTCOMES)};

/* From the kernel to the user: who reads that asks the clock. Else LastIP becomes the target's, of which
 * bit 63 is what is wanted: IPBytes 3 and 6 tell it [SDM IP Compression]. */
static bool to_user(uint64_t *last_ip, unsigned code, uint64_t payload)
{
    if (code != 3 && code != 6)
        return false;
    uint64_t ip = code == 3 ? payload << 16 : payload;
    if (*last_ip >> 63 && !(ip >> 63))
        return true;
    *last_ip = ip;
    return false;
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
static bool is_mtc(bool pt, unsigned c) { return pt ? c == PT_MTC : (c & 0xfc) == 0xc4; }

/* Up to `stop`, or to what is neither timing nor a branch's. Of TNTs that have no target between them
 * the outcomes are put together, as they are where no MTC cuts them, so that no more is written than is
 * read, but for the last byte. until: not null where all was written before; where to end then. */
static inline __attribute__((always_inline)) void sift(const struct cofi_flow *flow, struct sift *w, bool pt,
                                                       struct cofi__clock *clock, const uint8_t *stop,
                                                       const uint8_t *until)
{
    const uint16_t *outcomes = pt ? cofi__pt_outcomes : rtit_outcomes;
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

static const uint8_t *nearer(const uint8_t *p, size_t n, const uint8_t *stop)
{
    return (size_t)(stop - p) < n ? stop : p + n;
}

/* By windows; where one holds another packet, packet by packet behind it. */
static void sift_pt(struct cofi_flow *flow, struct sift *w, const uint8_t *stop, const uint8_t *end)
{
    const uint8_t *near = stop;
    do {
        if (flow->sift_wide) {
            flow->sift_wide(w, &flow->clock, stop, end);
            if (w->p > stop)
                return;
            near = nearer(w->p, SIFT_WINDOW - 1, stop);
        }
        sift(flow, w, true, &flow->clock, near, NULL);
    } while (w->p > near && near < stop);
}

void cofi__sift(struct cofi_flow *flow, struct sift *w, const uint8_t *stop, const uint8_t *end)
{
    if (flow->config.gen == COFI_PT)
        sift_pt(flow, w, stop, end);
    else
        sift(flow, w, false, &flow->clock, stop, NULL);
}

void cofi__sift_until(const struct cofi_flow *flow, struct sift *w, struct cofi__clock *clock, const uint8_t *stop,
                      const uint8_t *until)
{
    sift(flow, w, flow->config.gen == COFI_PT, clock, stop, until);
}

unsigned cofi__sift_outcomes(const struct cofi_flow *flow, const uint8_t *tnt)
{
    return (uint8_t)(flow->config.gen == COFI_PT ? cofi__pt_outcomes : rtit_outcomes)[*tnt];
}
