/* SPDX-License-Identifier: MIT
 * RTIT bytes -> pending outcomes and clock, up to the next packet that the walker must act on. */
#include "flow/walker.h"

#include "base/bytes.h"

/* [RTIT 4.2.3.1]: CNT 2, 4 or 6 bytes; above them zeros (Zext) or those of the last address sent. After a
 * PSB the processor may or may not have forgotten that one [RTIT 3.3.9]; when it has, it sends no address
 * that rests on it, so remembering it here is right in both cases. */
static void take_ip(struct cofi_flow *flow, unsigned code, uint64_t payload)
{
    unsigned width = 16 + 16 * (code & 3);
    bool zext = code & 4, full = zext || width == 48;
    uint64_t upper = full ? 0 : flow->last_ip >> width << width;
    flow->packet_has_ip = full || flow->last_ip_valid;
    flow->packet_full_ip = full;
    flow->packet_ip = sext(upper | payload, 47);
    if (!flow->packet_has_ip)
        return;
    flow->last_ip = flow->packet_ip;
    flow->last_ip_valid = true;
}

static bool has_address(unsigned kind)
{
    return kind == COFI_RTIT_PGE || kind == COFI_RTIT_PGD || kind == COFI_RTIT_BUFFOVF ||
           kind == COFI_RTIT_PCC || kind == COFI_RTIT_TIP || kind == COFI_RTIT_FAR;
}

const uint8_t cofi__rtit_sizes[256] = {BYTES(RTIT_SIZE)};

static enum pump_result slow(struct cofi_flow *flow, bool *again)
{
    struct source *s = &flow->s;
    uint64_t offset = source_offset(s);
    struct cofi_packet packet;
    *again = false;
    int size = cofi_packet_decode(&flow->context, s->p, (size_t)(s->end - s->p), &packet);
    if (size < 0) {
        flow->packet_error = size;
        return PUMP_BAD;
    }
    bool timed = packet.ccp_size || packet.kind == COFI_RTIT_MTC;
    if (timed && flow->n && flow->config.want_time)
        return PUMP_TIME;
    if (packet.kind == COFI_RTIT_TNT) {
        if (flow->n + packet.tnt.count > 64)
            return PUMP_FULL;
        flow->bits = flow->bits << packet.tnt.count | packet.tnt.bits;
        flow->n += flow->tail = packet.tnt.count;
    }
    if (timed)
        cofi__clock_packet(&flow->clock, &packet);
    s->p += size;
    if (packet.kind == COFI_RTIT_BUFFOVF) /* LAST_LIP is cleared before it and not set by it [RTIT 4.2.5] */
        flow->last_ip_valid = false;
    if (has_address(packet.kind))
        take_ip(flow, packet.ip.code, packet.ip.payload);
    if (packet.kind == COFI_RTIT_BUFFOVF)
        flow->last_ip_valid = false;
    if (packet.kind == COFI_RTIT_PCC) /* something ran: the TIP to come is a branch's [ERR E5] */
        flow->just_overflowed = false;
    if (packet.kind == COFI_RTIT_TNT || packet.kind == COFI_RTIT_MTC || packet.kind == COFI_RTIT_PCC) {
        *again = true;
        return PUMP_FULL;
    }
    flow->packet = packet;
    flow->packet_offset = offset;
    flow->has_packet = true;
    return PUMP_PACKET;
}

/* The cycle count that follows a full TNT or a TIP: low two bits of its first byte tell its length
 * [RTIT 4.2.14]. Null: none, which is an error. */
static const uint8_t *suffix(struct cofi_flow *flow, const uint8_t *p)
{
    unsigned size = *p & 3;
    if (!size)
        return NULL;
    uint32_t cycles = (uint32_t)(le(p, size) >> 2);
    flow->clock.cycles += cycles + (flow->clock.cyc_off_by_one && cycles);
    return p + size;
}

/* TNT and TIP packets, which are nearly all. */
static enum pump_result fast(struct cofi_flow *flow, bool *again)
{
    struct source *s = &flow->s;
    const uint8_t *p = s->p, *stop = s->end - SOURCE_AHEAD, *next;
    bool cyc = flow->context.cyc, wait = cyc && flow->config.want_time;
    enum pump_result result = PUMP_FULL;
    *again = false;
    while (p <= stop) {
        unsigned c = *p;
        if (c && c < 0x80) {
            unsigned k = 31u - (unsigned)__builtin_clz(c);
            if (flow->n > 58)
                break;
            next = p + 1;
            if (cyc && k == 6) {
                if (wait && flow->n) {
                    result = PUMP_TIME;
                    break;
                }
                next = suffix(flow, next);
            }
            *again = !next;
            if (!next)
                break;
            flow->bits = flow->bits << k | (c & ((1u << k) - 1));
            flow->n += flow->tail = k;
            p = next;
        } else if ((c & 0xf8) == 0xb0 && (c & 3) != 3 && !cyc) {
            unsigned size = 2 + 2 * (c & 3);
            flow->packet.kind = COFI_RTIT_TIP;
            flow->packet_offset = s->end_offset - (uint64_t)(s->end - p);
            flow->has_packet = true;
            take_ip(flow, c & 7, le(p + 1, size));
            p += 1 + size;
            result = PUMP_PACKET;
            break;
        } else {
            *again = true;
            break;
        }
    }
    if (p > stop && result == PUMP_FULL)
        *again = true;
    s->p = p;
    return result;
}

enum pump_result cofi__rtit_pump(struct cofi_flow *flow)
{
    struct source *s = &flow->s;
    for (bool again = true; again;) {
        if (flow->sieved)
            cofi__sieve_more(flow);
        if (s->end - s->p < SOURCE_AHEAD)
            cofi__source_more(flow);
        if (s->p == s->end)
            return PUMP_END;
        enum pump_result result = PUMP_FULL;
        if (s->end - s->p >= SOURCE_AHEAD) {
            result = fast(flow, &again);
            if (!again)
                return result;
            if (flow->sieved || s->end - s->p < SOURCE_AHEAD)
                continue;
        }
        result = slow(flow, &again);
        if (!again)
            return result;
    }
    return PUMP_FULL;
}
