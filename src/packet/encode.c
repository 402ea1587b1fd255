/* SPDX-License-Identifier: MIT
 * One packet -> bytes, from the tables; both generations. */
#include <assert.h>
#include <string.h>

#include "base/bytes.h"
#include "base/error.h"
#include "packet/row.h"

enum { LONGEST = 16, CCP_MAX = (1 << 22) - 1 };

static bool fits(uint64_t value, unsigned width) { return width >= 64 || value >> width == 0; }

/* OR bits into a packet; every argument but p and value is a constant. */
static inline void put(uint8_t *p, uint64_t value, unsigned lsb, unsigned width)
{
    unsigned n = (lsb % 8 + width + 7) / 8;
    uint64_t old = le(p + lsb / 8, n);
    put_le(p + lsb / 8, old | bits(value, 0, width) << lsb % 8, n);
}

/* The fields of a FIXED packet; false: a member has bits that no field holds. */
static bool put_fields(uint8_t *p, const struct cofi_packet *packet)
{
    uint64_t lost = 0;
    switch ((enum cofi_packet_kind)packet->kind) {
/* What the parts of a split member hold is taken off it, part by part. */
#define F(member, lsb, width, left)                                             \
    put(p, (uint64_t)packet->member >> left, lsb, width);                       \
    lost |= rest; \
    rest = packet->member & ~(bits(UINT64_MAX, 0, width) << left);
#define P(member, lsb, width, left)                                             \
    put(p, (uint64_t)packet->member >> left, lsb, width);                       \
    rest &= ~(bits(UINT64_MAX, 0, width) << left);
#define R(lsb, width)
#define PACKET(kind, name, shape, size, header, mask, fields, text, traits, binds, tag) \
    case COFI_##kind: { uint64_t rest = 0; PUT_##shape(fields) lost |= rest; break; }
#define PUT_FIXED(fields) fields
#define PUT_MODE(fields) fields
#define PUT_TRIG(fields)
#define PUT_TNT(fields)
#define PUT_TNT64(fields)
#define PUT_IP(fields)
#define PUT_CYC(fields)
#define PUT_PSB(fields)
#define PUT_PTW(fields)
#define PUT_BIP(fields)
#define PUT_RTIT_TNT(fields)
#define PUT_RTIT_IP(fields)
#include "packet/pt.def"
#include "packet/rtit.def"
#undef PACKET
    case COFI_PKT_NONE:
    case COFI_PKT_KINDS: break;
    }
    return !lost;
}

static int put_fixed(const struct row *row, const struct cofi_packet *packet, uint8_t *out)
{
    if (!put_fields(out, packet) || (row->shape == SHAPE_MODE && (out[1] & 3) == 3))
        return COFI_ERR_RANGE;
    return row->size;
}

/* A TNT inside of a block whose low bits are those of BIP would be read as one [PTREF 5.9]. */
static int put_tnt(const struct cofi_packet_context *context, const struct cofi_packet *packet,
                   uint8_t *out)
{
    unsigned count = packet->tnt.count, shift = context->gen == COFI_PT;
    if (count < 1 || count > 6 || !fits(packet->tnt.bits, count))
        return COFI_ERR_RANGE;
    out[0] = (uint8_t)((1u << count | packet->tnt.bits) << shift);
    return context->block && context->gen == COFI_PT && (out[0] & 7) == 4 ? COFI_ERR_RANGE : 1;
}

static int put_tnt64(const struct cofi_packet *packet, uint8_t *out)
{
    unsigned count = packet->tnt.count;
    if (count < 1 || count > 47 || !fits(packet->tnt.bits, count))
        return COFI_ERR_RANGE;
    put_le(out + 2, UINT64_C(1) << count | packet->tnt.bits, 6);
    return 8;
}

static int put_ip(enum cofi_gen gen, const struct cofi_packet *packet, uint8_t *out)
{
    int n = cofi__ip_bytes(gen, packet->ip.code);
    if (n < 0 || (n ? !fits(packet->ip.payload, 8 * (unsigned)n) : packet->ip.payload != 0))
        return COFI_ERR_RANGE;
    out[0] |= (uint8_t)(gen == COFI_PT ? packet->ip.code << 5 : packet->ip.code);
    put_le(out + 1, packet->ip.payload, (size_t)n);
    return 1 + n;
}

static int put_cyc(const struct cofi_packet *packet, uint8_t *out)
{
    unsigned size = packet->cyc.bytes, least = 1;
    while (least < 10 && packet->cyc.count >> (5 + 7 * (least - 1)))
        least++;
    if (!size)
        size = least;
    if (size < least || size > 10)
        return COFI_ERR_RANGE;
    uint64_t rest = packet->cyc.count >> 5;
    out[0] = (uint8_t)((packet->cyc.count & 0x1f) << 3 | (size > 1) << 2 | 3);
    for (unsigned i = 1; i < size; i++, rest >>= 7)
        out[i] = (uint8_t)((rest & 0x7f) << 1 | (i + 1 < size));
    return (int)size;
}

static int put_psb(const struct cofi_packet *packet, uint8_t *out)
{
    size_t size;
    const uint8_t *psb = cofi__psb_bytes((enum cofi_packet_kind)packet->kind, &size);
    memcpy(out, psb, size);
    return (int)size;
}

static int put_ptw(const struct cofi_packet *packet, uint8_t *out)
{
    unsigned n = packet->ptw.wide ? 8 : 4;
    if (packet->ptw.wide > 1 || packet->ptw.ip > 1 || !fits(packet->ptw.payload, 8 * n))
        return COFI_ERR_RANGE;
    out[1] |= (uint8_t)(packet->ptw.ip << 7 | packet->ptw.wide << 5);
    put_le(out + 2, packet->ptw.payload, n);
    return 2 + (int)n;
}

static int put_bip(const struct cofi_packet_context *context, const struct cofi_packet *packet,
                   uint8_t *out)
{
    unsigned n = packet->bip.wide ? 8 : 4;
    if (!context->block || packet->bip.wide != (context->block == 1) || packet->bip.id > 31 ||
        !fits(packet->bip.payload, 8 * n))
        return COFI_ERR_RANGE;
    out[0] |= (uint8_t)(packet->bip.id << 3);
    put_le(out + 1, packet->bip.payload, n);
    return 1 + (int)n;
}

static int put_trig(const struct cofi_packet *packet, uint8_t *out)
{
    if (packet->trig.ip > 1 || packet->trig.icntv > 1 || packet->trig.mult > 1 ||
        (!packet->trig.icntv && packet->trig.icnt))
        return COFI_ERR_RANGE;
    out[1] = (uint8_t)(packet->trig.ip << 7 | packet->trig.icntv << 6 | packet->trig.mult << 5);
    out[2] = packet->trig.trbv;
    put_le(out + 3, packet->trig.icnt, 2);
    return packet->trig.icntv ? 5 : 3;
}

/* The packet without its suffix; out is as long as the longest and 0. */
static int put_shape(const struct cofi_packet_context *context, const struct row *row,
                     const struct cofi_packet *packet, uint8_t *out)
{
    switch ((enum shape)row->shape) {
    case SHAPE_FIXED:
    case SHAPE_MODE: return put_fixed(row, packet, out);
    case SHAPE_TNT:
    case SHAPE_RTIT_TNT: return put_tnt(context, packet, out);
    case SHAPE_TNT64: return put_tnt64(packet, out);
    case SHAPE_IP:
    case SHAPE_RTIT_IP: return put_ip((enum cofi_gen)row->gen, packet, out);
    case SHAPE_CYC: return put_cyc(packet, out);
    case SHAPE_PSB: return put_psb(packet, out);
    case SHAPE_PTW: return put_ptw(packet, out);
    case SHAPE_BIP: return put_bip(context, packet, out);
    case SHAPE_TRIG: return put_trig(packet, out);
    }
    return COFI_ERR_RANGE;
}

/* The cycle count after a packet of size bytes [RTIT 4.2.14], the shortest unless ccp_size wants
 * more; the size of both. */
static int put_suffix(const struct cofi_packet_context *context, const struct row *row,
                      const struct cofi_packet *packet, uint8_t *out, int size)
{
    bool has = row->gen == COFI_RTIT && context->cyc && row->traits & COFI_TRAIT_CYC_ELIGIBLE &&
               !(row->shape == SHAPE_RTIT_TNT && packet->tnt.count < 6);
    if (!has)
        return packet->ccp_size || packet->ccp ? COFI_ERR_RANGE : size;
    unsigned least = packet->ccp < 1 << 6 ? 1 : packet->ccp < 1 << 14 ? 2 : 3;
    unsigned length = packet->ccp_size ? packet->ccp_size : least;
    if (packet->ccp > CCP_MAX || length < least || length > 3)
        return COFI_ERR_RANGE;
    put_le(out + size, (uint64_t)packet->ccp << 2 | length, length);
    return size + (int)length;
}

int cofi_packet_encode(struct cofi_packet_context *context, const struct cofi_packet *packet,
                       uint8_t *out, size_t n)
{
    assert(context->gen == COFI_PT || context->gen == COFI_RTIT);
    if (packet->kind >= COFI_PKT_KINDS || cofi__packet_rows[packet->kind].gen != context->gen)
        return COFI_ERR_RANGE;
    const struct row *row = &cofi__packet_rows[packet->kind];
    uint8_t bytes[COFI_PACKET_MAX] = {0};
    put_le(bytes, row->header, 3);
    int size = put_shape(context, row, packet, bytes);
    if (size > 0)
        size = put_suffix(context, row, packet, bytes, size);
    if (size < 0)
        return size;
    if (n < (size_t)size)
        return COFI_ERR_FULL;
    memcpy(out, bytes, (size_t)size);
    if (row->gen == COFI_PT)
        cofi__packet_update(context, packet);
    return size;
}
