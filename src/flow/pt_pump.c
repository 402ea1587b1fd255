/* SPDX-License-Identifier: MIT
 * PT bytes -> pending outcomes and clock, up to the next packet that the walker must act on. */
#include "flow/walker.h"

#include "flow/pt_ip.h"
#include "packet/errata.h"

/* The address that an IP packet tells; payload as pt_ip has it. */
static inline bool take_ip(struct cofi_flow *flow, unsigned code, uint64_t payload)
{
    if (!pt_ip_mask[code]) {
        flow->packet_has_ip = flow->packet_full_ip = false;
        flow->packet_ip = COFI_NO_IP;
        return code == 0;
    }
    flow->packet_has_ip = true;
    flow->packet_full_ip = pt_ip_is_full(code);
    flow->last_ip = flow->packet_ip = pt_ip(flow->last_ip, code, payload);
    return true;
}

static enum pump_result got(struct cofi_flow *flow, unsigned kind, uint64_t offset)
{
    flow->packet.kind = (uint8_t)kind;
    flow->packet_offset = offset;
    flow->has_packet = true;
    return PUMP_PACKET;
}

static bool is_skd007(const struct cofi_flow *flow, const uint8_t *p, int64_t left)
{
    return flow->errata & ERR_SKD007 && cofi__is_skd007(p, (size_t)left);
}

static bool is_skz84(const struct cofi_flow *flow, const uint8_t *p, int64_t left)
{
    return flow->errata & ERR_SKZ84 && cofi__is_skz84(p, (size_t)left);
}

static bool is_timing(unsigned kind)
{
    return kind == COFI_PT_MTC || kind == COFI_PT_CYC || kind == COFI_PT_TMA;
}

/* Outcomes are used up before time changes. Not those that came before a TIP that is due: they belong behind it. */
static bool stops_for_time(const struct cofi_flow *flow) { return flow->config.want_time && !flow->tip_due; }

/* One packet by the codec: the rare ones, and all near the end of the bytes. */
static enum pump_result slow(struct cofi_flow *flow, bool *again)
{
    struct source *s = &flow->s;
    int64_t left = s->end - s->p;
    *again = false;
    if (is_skd007(flow, s->p, left))
        s->p += SKD007_LEFT;
    uint64_t offset = source_offset(s);
    if (is_skz84(flow, s->p, left)) {
        s->p += SKZ84_SIZE;
        *again = true;
        return PUMP_FULL;
    }
    struct cofi_packet packet;
    struct cofi_packet_context context = flow->context;
    int size = cofi_packet_decode(&context, s->p, (size_t)(s->end - s->p), &packet);
    if (size < 0) {
        flow->packet_error = size;
        return PUMP_BAD;
    }
    if (packet.kind == COFI_PT_TNT || packet.kind == COFI_PT_TNT64) {
        if (flow->n + packet.tnt.count > 64)
            return PUMP_FULL;
        flow->bits = flow->bits << packet.tnt.count | packet.tnt.bits;
        flow->n += flow->tail = packet.tnt.count;
        *again = true;
    } else if (is_timing(packet.kind)) {
        if (flow->n && stops_for_time(flow))
            return PUMP_TIME;
        cofi__clock_packet(&flow->clock, &packet);
        *again = true;
    } else if (packet.kind == COFI_PT_PAD || packet.kind == COFI_PT_MNT) {
        *again = true;
    }
    flow->context = context;
    s->p += size;
    if (*again)
        return PUMP_FULL;
    flow->packet = packet;
    bool has_ip = packet.kind == COFI_PT_TIP || packet.kind == COFI_PT_TIP_PGE ||
                  packet.kind == COFI_PT_TIP_PGD || packet.kind == COFI_PT_FUP;
    if (has_ip && !take_ip(flow, packet.ip.code, packet.ip.payload)) {
        flow->packet_error = COFI_ERR_BAD_PACKET;
        return PUMP_BAD;
    }
    return got(flow, packet.kind, offset);
}

/* What the first byte says to the hot loop: of a short TNT what TNT_OUTCOMES says, 1..6 below bit 8. */
enum { RARE = 0, PAD = 7, CYC = 8, MTC = 9, TIP = 16 /* + kind */ };

#define EVEN(c) ((c) == 0 ? PAD : TNT_OUTCOMES((c) >> 1) /* 2: RARE */)
#define ODD(c)                                                                                     \
    (((c) & 3) == 3 ? CYC : (c) == PT_MTC ? MTC : ((c) & 31) == PT_TIP(0) ? TIP + COFI_PT_TIP      \
     : ((c) & 31) == 0x11 ? TIP + COFI_PT_TIP_PGE : ((c) & 31) == 0x01 ? TIP + COFI_PT_TIP_PGD     \
     : ((c) & 31) == 0x1d ? TIP + COFI_PT_FUP : RARE)
#define FIRST(c) ((c) & 1 ? ODD(c) : EVEN(c))
static const uint16_t first[256] = {BYTES(FIRST)};

const uint8_t cofi__pt_sizes[256] = {BYTES(PT_SIZE)};

/* CYC: 5 bits, then 7 a byte while the extend bit is set [SDM Cycle Count Packet (CYC) Packet]. Null: longer
 * than time allows, for the codec to judge. */
const uint8_t *cofi__pt_long_cyc(const struct cofi_flow *flow, const uint8_t *p, uint64_t *cycles)
{
    if (is_skd007(flow, p, SOURCE_AHEAD))
        return NULL;
    unsigned c = *p++;
    uint64_t count = c >> 3;
    bool more = c & 4;
    for (unsigned shift = 5; more; shift += 7) {
        if (shift > 33)
            return NULL;
        c = *p++;
        count |= (uint64_t)(c >> 1) << shift;
        more = c & 1;
    }
    *cycles += count;
    return p;
}

/* What the hot loop does not do itself: timing, IP packets, all that is rare. Null: it ends here. */
static const uint8_t *lukewarm(struct cofi_flow *flow, const uint8_t *p, unsigned n, enum pump_result *result,
                               bool *again)
{
    unsigned c = *p, what = first[c];
    if ((what == CYC || what == MTC) && n && stops_for_time(flow)) {
        *result = PUMP_TIME;
        return NULL;
    }
    if (what == MTC) {
        cofi__clock_mtc(&flow->clock, p[1]);
        return p + 2;
    }
    const uint8_t *next = what == CYC ? cofi__pt_long_cyc(flow, p, &flow->clock.cycles) : NULL;
    *again = !next;
    return next;
}

/* The hot loop. Leaves at what is rare, at an IP packet (taken), or when bits or bytes run out. */
static enum pump_result fast(struct cofi_flow *flow, bool *again)
{
    const uint8_t *p = flow->s.p, *stop = flow->s.end - SOURCE_AHEAD;
    uint64_t bits = flow->bits, cycles = 0;
    unsigned n = flow->n, tail = flow->tail;
    unsigned cyc_short = flow->config.want_time ? 0xff : 7; /* with it, all CYC are lukewarm */
    enum pump_result result = PUMP_FULL;
    *again = false;
    while (p <= stop) {
        unsigned c = *p, what = first[c], k = (uint8_t)what;
        if (k - 1 < 6) {
            if (n > 58)
                break;
            bits = bits << k | what >> 8;
            n += tail = k;
            p++;
        } else if ((c & cyc_short) == 3) {
            cycles += c >> 3;
            p++;
        } else if (what >= TIP) {
            if (!take_ip(flow, c >> 5, le64(p + 1))) {
                *again = true;
                break;
            }
            result = got(flow, what - TIP, flow->s.end_offset - (uint64_t)(flow->s.end - p));
            p += 1 + pt_ip_bytes[c >> 5];
            break;
        } else if (what == PAD) {
            p++;
        } else {
            flow->clock.cycles += cycles;
            cycles = 0;
            const uint8_t *next = lukewarm(flow, p, n, &result, again);
            if (!next)
                break;
            p = next;
        }
    }
    if (p > stop && result == PUMP_FULL)
        *again = true;
    flow->s.p = p;
    flow->bits = bits;
    flow->n = n;
    flow->tail = tail;
    flow->clock.cycles += cycles;
    return result;
}

enum pump_result cofi__pt_pump(struct cofi_flow *flow)
{
    bool again = true;
    enum pump_result result = PUMP_FULL;
    while (again) {
        struct source *s = &flow->s;
        if (flow->sieved)
            cofi__sieve_more(flow);
        if (s->end - s->p < SOURCE_AHEAD)
            cofi__source_more(flow);
        if (s->p == s->end)
            return PUMP_END;
        if (s->end - s->p >= SOURCE_AHEAD && !flow->context.block) {
            result = fast(flow, &again);
            if (!again)
                return result;
            if (flow->sieved || s->end - s->p < SOURCE_AHEAD)
                continue;
        }
        result = slow(flow, &again);
    }
    return result;
}
