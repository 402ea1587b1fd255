/* SPDX-License-Identifier: MIT
 * PT bytes -> pending outcomes and clock, up to the next packet that the walker must act on. */
#include "flow/walker.h"

#include "base/bytes.h"

enum { HEAD_TIP = 0x0d, HEAD_PGE = 0x11, HEAD_PGD = 0x01, HEAD_FUP = 0x1d, HEAD_MTC = 0x59 };

/* [SDM IP Compression]: the address that an IP packet tells, from LastIP. */
static bool take_ip(struct cofi_flow *flow, unsigned code, const uint8_t *payload)
{
    uint64_t last = flow->last_ip;
    switch (code) {
    case 0:
        flow->packet_has_ip = flow->packet_full_ip = false;
        flow->packet_ip = COFI_NO_IP;
        return true;
    case 1: last = (last & ~UINT64_C(0xffff)) | le16(payload); break;
    case 2: last = (last & ~UINT64_C(0xffffffff)) | le32(payload); break;
    case 3: last = sext(le(payload, 6), 47); break;
    case 4: last = (last & ~UINT64_C(0xffffffffffff)) | le(payload, 6); break;
    case 6: last = le64(payload); break;
    default: return false;
    }
    flow->packet_has_ip = true;
    flow->packet_full_ip = code == 3 || code == 6;
    flow->last_ip = flow->packet_ip = last;
    return true;
}

static const uint8_t ip_bytes[8] = {0, 2, 4, 6, 6, 0, 8, 0};

static unsigned ip_kind(unsigned head)
{
    return head == HEAD_TIP ? COFI_PT_TIP : head == HEAD_PGE ? COFI_PT_TIP_PGE
         : head == HEAD_PGD ? COFI_PT_TIP_PGD : head == HEAD_FUP ? COFI_PT_FUP : 0;
}

static enum pump_result got(struct cofi_flow *flow, unsigned kind, uint64_t offset)
{
    flow->packet.kind = (uint8_t)kind;
    flow->packet_offset = offset;
    flow->has_packet = true;
    return PUMP_PACKET;
}

/* [ERR SKD007]: an OVF wrote over the end of a CYC. The stray second byte is OVF's first. */
static bool is_skd007(const struct cofi_flow *flow, const uint8_t *p, int64_t left)
{
    return flow->errata & ERR_SKD007 && left >= 3 && (p[0] & 7) == 7 && p[1] == 2 && p[2] == 0xf3;
}

/* [ERR SKZ84]: a TMA with reserved bits set has an extra byte and tells nothing. */
static bool is_skz84(const struct cofi_flow *flow, const uint8_t *p, int64_t left)
{
    return flow->errata & ERR_SKZ84 && left >= 8 && p[0] == 2 && p[1] == 0x73 && (p[4] || p[6] & 0xfe);
}

static bool is_timing(unsigned kind)
{
    return kind == COFI_PT_MTC || kind == COFI_PT_CYC || kind == COFI_PT_TMA;
}

/* One packet by the codec: the rare ones, and all near the end of the bytes. */
static enum pump_result slow(struct cofi_flow *flow, bool *again)
{
    struct source *s = &flow->s;
    int64_t left = s->end - s->p;
    uint64_t offset = source_offset(s);
    *again = false;
    if (is_skd007(flow, s->p, left))
        s->p++;
    if (is_skz84(flow, s->p, left)) {
        s->p += 8;
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
        if (flow->n && flow->config.want_time)
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
    uint8_t payload[8];
    put_le(payload, packet.ip.payload, 8);
    if (has_ip && !take_ip(flow, packet.ip.code, payload)) {
        flow->packet_error = COFI_ERR_BAD_PACKET;
        return PUMP_BAD;
    }
    return got(flow, packet.kind, offset);
}

/* CYC: 5 bits, then 7 a byte while the extend bit is set [SDM Cycle Count Packet (CYC) Packet]. */
static const uint8_t *fast_cyc(struct cofi_flow *flow, const uint8_t *p)
{
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
    flow->clock.cycles += count;
    return p;
}

/* The hot loop. Leaves at what is rare, at an IP packet (taken), or when bits or bytes run out. */
static enum pump_result fast(struct cofi_flow *flow, bool *again)
{
    const uint8_t *p = flow->s.p, *stop = flow->s.end - SOURCE_AHEAD;
    uint64_t bits = flow->bits;
    unsigned n = flow->n, tail = flow->tail;
    bool want_time = flow->config.want_time;
    enum pump_result result = PUMP_FULL;
    *again = false;
    while (p <= stop) {
        unsigned c = *p;
        if (!(c & 1)) {
            if (c <= 2) {
                if (c) {
                    *again = true;
                    break;
                }
                p++;
                continue;
            }
            unsigned k = 30u - (unsigned)__builtin_clz(c);
            if (n > 58)
                break;
            bits = bits << k | ((c >> 1) & ((1u << k) - 1));
            n += tail = k;
            p++;
        } else if ((c & 3) == 3) {
            if (n && want_time) {
                result = PUMP_TIME;
                break;
            }
            const uint8_t *next = is_skd007(flow, p, SOURCE_AHEAD) ? NULL : fast_cyc(flow, p);
            if (!next) {
                *again = true;
                break;
            }
            p = next;
        } else if (c == HEAD_MTC) {
            if (n && want_time) {
                result = PUMP_TIME;
                break;
            }
            cofi__clock_mtc(&flow->clock, p[1]);
            p += 2;
        } else {
            unsigned kind = ip_kind(c & 31), code = c >> 5;
            if (!kind || !take_ip(flow, code, p + 1)) {
                *again = true;
                break;
            }
            result = got(flow, kind, flow->s.end_offset - (uint64_t)(flow->s.end - p));
            p += 1 + ip_bytes[code];
            break;
        }
    }
    if (p > stop && result == PUMP_FULL)
        *again = true;
    flow->s.p = p;
    flow->bits = bits;
    flow->n = n;
    flow->tail = tail;
    return result;
}

enum pump_result cofi__pt_pump(struct cofi_flow *flow)
{
    bool again = true;
    enum pump_result result = PUMP_FULL;
    while (again) {
        struct source *s = &flow->s;
        if (s->end - s->p < SOURCE_AHEAD)
            cofi__source_more(flow);
        if (s->p == s->end)
            return PUMP_END;
        again = false;
        if (s->end - s->p >= SOURCE_AHEAD && !flow->context.block) {
            result = fast(flow, &again);
            if (!again)
                return result;
            if (s->end - s->p < SOURCE_AHEAD)
                continue;
        }
        result = slow(flow, &again);
    }
    return result;
}
