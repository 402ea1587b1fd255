/* SPDX-License-Identifier: MIT
 * Bytes -> one packet, from the tables; both generations. */
#include <assert.h>
#include <string.h>

#include "base/bytes.h"
#include "base/error.h"
#include "packet/row.h"

/* A packet that is one step: its value is (8 bytes at skip, little-endian, >> shift) & mask. */
struct step {
    uint64_t mask;
    uint8_t kind, size, skip, shift, aux;
};

#include "packet_lookup.h"

static_assert(offsetof(struct cofi_packet, ccp) == 4 && offsetof(struct cofi_packet, tnt) == 8 &&
              offsetof(struct cofi_packet, tnt.count) == 16 &&
              offsetof(struct cofi_packet, ip.code) == 16 && offsetof(struct cofi_packet, size) == 1 &&
              offsetof(struct cofi_packet, cyc.bytes) == 16 &&
              offsetof(struct cofi_packet, mtc.range) == 16 && sizeof(struct cofi_packet) <= 40,
              "take_step fills a packet as 8 + 8 + 1 bytes");

/* What the slow way carries along. */
struct decoder {
    const struct cofi_packet_context *context;
    const uint8_t *bytes;
    size_t n;
    struct cofi_packet *packet;
    const char *why;
};

static int bad(struct decoder *d, const char *why)
{
    d->why = why;
    return COFI_ERR_BAD_PACKET;
}

/* Bits of a packet; every argument but p is a constant. */
static inline uint64_t take(const uint8_t *p, unsigned lsb, unsigned width)
{
    return bits(le(p + lsb / 8, (lsb % 8 + width + 7) / 8), lsb % 8, width);
}

/* The fields of a FIXED packet, size bytes at p, straight from the table; false: a reserved bit is
 * set. */
static bool take_fields(const uint8_t *p, struct cofi_packet *packet)
{
    uint64_t reserved = 0;
    switch ((enum cofi_packet_kind)packet->kind) {
#define F(member, lsb, width, left) packet->member = take(p, lsb, width) << left;
#define P(member, lsb, width, left) packet->member |= take(p, lsb, width) << left;
#define R(lsb, width) reserved |= take(p, lsb, width);
#define PACKET(kind, name, shape, size, header, mask, fields, text, traits, binds, tag) \
    case COFI_##kind: TAKE_##shape(fields) break;
#define TAKE_FIXED(fields) fields
#define TAKE_MODE(fields) fields
#define TAKE_TRIG(fields)
#define TAKE_TNT(fields)
#define TAKE_TNT64(fields)
#define TAKE_IP(fields)
#define TAKE_CYC(fields)
#define TAKE_PSB(fields)
#define TAKE_PTW(fields)
#define TAKE_BIP(fields)
#define TAKE_RTIT_TNT(fields)
#define TAKE_RTIT_IP(fields)
#include "packet/pt.def"
#include "packet/rtit.def"
#undef PACKET
    case COFI_PKT_NONE:
    case COFI_PKT_KINDS: break;
    }
    return !reserved;
}

/* FIXED and MODE. Of a packet cut short what is there is checked, so that a prefix is one of a
 * packet. */
static int take_fixed(struct decoder *d, const struct row *row)
{
    uint8_t padded[16] = {0};
    const uint8_t *p = d->bytes;
    if (d->n < row->size) {
        memcpy(padded, d->bytes, d->n);
        p = padded;
    }
    if (row->mask >> 16 && d->n > 2 &&
        ((unsigned)d->bytes[2] << 16 ^ row->header) & row->mask & 0xff0000)
        return bad(d, "reserved third byte [SDM (MNT) Packet]");
    if (!take_fields(p, d->packet) && !d->context->lenient)
        return bad(d, "reserved bit set [SDM Trace Packets and Data Types]");
    if (row->shape == SHAPE_MODE && d->n > 1 && (d->bytes[1] & 3) == 3)
        return bad(d, "MODE with both low bits set [SDM MODE Packets]");
    return d->n < row->size ? COFI_ERR_TRUNCATED : row->size;
}

static int take_tnt(struct decoder *d, unsigned value, unsigned max)
{
    if (value < 2)
        return bad(d, "TNT without a result bit [RTIT 4.2.2]");
    unsigned count = 31 - (unsigned)__builtin_clz(value);
    if (count > max)
        return bad(d, "TNT with more than 6 bits");
    d->packet->tnt.bits = value & ((1u << count) - 1);
    d->packet->tnt.count = (uint8_t)count;
    return 1;
}

/* [SDM (TNT) Packet]: the stop bit alone, or none, is malformed. */
static int take_tnt64(struct decoder *d)
{
    if (d->n < 8)
        return COFI_ERR_TRUNCATED;
    uint64_t value = le(d->bytes + 2, 6);
    if (value == 0 || (value == 1 && !d->context->lenient))
        return bad(d, "long TNT without a result bit [SDM (TNT) Packet]");
    unsigned count = 63 - (unsigned)__builtin_clzll(value);
    d->packet->tnt.bits = value & ((UINT64_C(1) << count) - 1);
    d->packet->tnt.count = (uint8_t)count;
    return 8;
}

static int take_ip(struct decoder *d, unsigned code)
{
    int n = cofi__ip_bytes((enum cofi_gen)d->context->gen, code);
    if (n < 0 && d->context->gen == COFI_PT)
        return bad(d, code == 5 ? "reserved IPBytes 5 [SDM IP Compression]"
                                : "reserved IPBytes 7 [SDM IP Compression]");
    if (n < 0)
        return bad(d, (code & 3) == 3 ? "reserved CNT 3 [RTIT 4.2.3]"
                                      : "Zext with CNT 2 [RTIT Table 18]");
    if (d->n < 1 + (size_t)n)
        return COFI_ERR_TRUNCATED;
    d->packet->ip.payload = le(d->bytes + 1, (size_t)n);
    d->packet->ip.code = (uint8_t)code;
    return 1 + n;
}

/* [SDM CYC Packet]: 5 bits, then 7 a byte; 10 bytes hold 64 bits and four more, which must be 0. */
static int take_cyc(struct decoder *d)
{
    uint64_t count = d->bytes[0] >> 3;
    unsigned size = 1, shift = 5;
    bool more = d->bytes[0] & 4;
    for (; more; shift += 7, size++) {
        if (size == 10)
            return bad(d, "CYC longer than 10 bytes [SDM CYC Packet]");
        if (d->n <= size)
            return COFI_ERR_TRUNCATED;
        uint64_t part = d->bytes[size] >> 1;
        if (shift > 57 && part >> (64 - shift))
            return bad(d, "CYC count of more than 64 bits [SDM CYC Packet]");
        count |= part << shift;
        more = d->bytes[size] & 1;
    }
    d->packet->cyc.count = count;
    d->packet->cyc.bytes = (uint8_t)size;
    return (int)size;
}

static int take_psb(struct decoder *d)
{
    size_t size;
    const uint8_t *psb = cofi__psb_bytes((enum cofi_packet_kind)d->packet->kind, &size);
    if (memcmp(d->bytes, psb, d->n < size ? d->n : size))
        return bad(d, d->context->gen == COFI_PT ? "broken PSB pattern [SDM (PSB) Packet]"
                                                 : "broken PSB pattern [RTIT 4.2.1]");
    return d->n < size ? COFI_ERR_TRUNCATED : (int)size;
}

static int take_ptw(struct decoder *d)
{
    if (d->bytes[1] & 0x40)
        return bad(d, "reserved PayloadBytes [SDM PTWRITE Packet]");
    unsigned wide = d->bytes[1] >> 5 & 1, size = wide ? 10 : 6;
    if (d->n < size)
        return COFI_ERR_TRUNCATED;
    d->packet->ptw.payload = le(d->bytes + 2, size - 2);
    d->packet->ptw.wide = (uint8_t)wide;
    d->packet->ptw.ip = d->bytes[1] >> 7;
    return (int)size;
}

static int take_bip(struct decoder *d)
{
    unsigned wide = d->context->block == 1, size = wide ? 9 : 5;
    if (d->n < size)
        return COFI_ERR_TRUNCATED;
    d->packet->bip.payload = le(d->bytes + 1, size - 1);
    d->packet->bip.id = d->bytes[0] >> 3;
    d->packet->bip.wide = (uint8_t)wide;
    return (int)size;
}

static int take_trig(struct decoder *d)
{
    if (d->n < 2)
        return COFI_ERR_TRUNCATED;
    if (d->bytes[1] & 0x1f && !d->context->lenient)
        return bad(d, "reserved bit set [PTREF 5.10]");
    unsigned flags = d->bytes[1], size = flags & 0x40 ? 5 : 3;
    if (d->n < size)
        return COFI_ERR_TRUNCATED;
    d->packet->trig.ip = flags >> 7;
    d->packet->trig.icntv = flags >> 6 & 1;
    d->packet->trig.mult = flags >> 5 & 1;
    d->packet->trig.trbv = d->bytes[2];
    d->packet->trig.icnt = size == 5 ? le16(d->bytes + 3) : 0;
    return (int)size;
}

/* The packet without its suffix. */
static int take_shape(struct decoder *d)
{
    const struct row *row = &cofi__packet_rows[d->packet->kind];
    switch ((enum shape)row->shape) {
    case SHAPE_FIXED:
    case SHAPE_MODE: return take_fixed(d, row);
    case SHAPE_TNT: return take_tnt(d, d->bytes[0] >> 1, 6);
    case SHAPE_TNT64: return take_tnt64(d);
    case SHAPE_IP: return take_ip(d, d->bytes[0] >> 5);
    case SHAPE_CYC: return take_cyc(d);
    case SHAPE_PSB: return take_psb(d);
    case SHAPE_PTW: return take_ptw(d);
    case SHAPE_BIP: return take_bip(d);
    case SHAPE_TRIG: return take_trig(d);
    case SHAPE_RTIT_TNT: return take_tnt(d, d->bytes[0], 6);
    case SHAPE_RTIT_IP: return take_ip(d, d->bytes[0] & 7);
    }
    return COFI_ERR_BAD_PACKET;
}

/* Which packet begins here [SDM Trace Packets and Data Types; RTIT Figure 2]; negative: none. */
static int find_kind(struct decoder *d)
{
    uint8_t first = d->bytes[0];
    if (d->context->gen == COFI_RTIT)
        return rtit_first[first] ? rtit_first[first] : bad(d, "reserved header [RTIT Figure 2]");
    if (d->context->block && (first & 7) == 4)
        return COFI_PT_BIP;
    unsigned kind = pt_first[first];
    if (kind < COFI_PKT_KINDS)
        return kind ? (int)kind : bad(d, "reserved header [SDM Trace Packets and Data Types]");
    if (d->n < 2)
        return COFI_ERR_TRUNCATED;
    kind = (first == 0x02 ? pt_after_02 : pt_after_99)[d->bytes[1]];
    return kind ? (int)kind
                : bad(d, first == 0x02
                             ? "reserved second byte after 02 [SDM Trace Packets and Data Types]"
                             : "reserved MODE leaf [SDM MODE Packets]");
}

/* The cycle count after a packet of size bytes [RTIT 4.2.14]; the size of both. A partial TNT has
 * none, and what is not of the trait neither [RTIT 4.2.15]. */
static int take_suffix(struct decoder *d, int size)
{
    const struct row *row = &cofi__packet_rows[d->packet->kind];
    if (!(row->traits & COFI_TRAIT_CYC_ELIGIBLE) ||
        (row->shape == SHAPE_RTIT_TNT && d->packet->tnt.count < 6))
        return size;
    if (d->n <= (size_t)size)
        return COFI_ERR_TRUNCATED;
    unsigned length = d->bytes[size] & 3;
    if (!length)
        return bad(d, "reserved cycle count length 0 [RTIT 4.2.14]");
    if (d->n < (size_t)size + length)
        return COFI_ERR_TRUNCATED;
    d->packet->ccp = (uint32_t)(le(d->bytes + size, length) >> 2);
    d->packet->ccp_size = (uint8_t)length;
    return size + (int)length;
}

/* Any packet, any context, any n. */
static int decode(struct decoder *d)
{
    assert(d->context->gen == COFI_PT || d->context->gen == COFI_RTIT);
    if (!d->n)
        return COFI_ERR_TRUNCATED;
    int kind = find_kind(d);
    if (kind < 0)
        return kind;
    memset(d->packet, 0, sizeof *d->packet);
    d->packet->kind = (uint8_t)kind;
    int size = take_shape(d);
    if (size > 0 && d->context->gen == COFI_RTIT && d->context->cyc)
        size = take_suffix(d, size);
    if (size > 0)
        d->packet->size = (uint8_t)size;
    return size;
}

/* Not inlined, so that the way below it stays short. */
static __attribute__((noinline)) int decode_slow(struct cofi_packet_context *context,
                                                 const uint8_t *bytes, size_t n,
                                                 struct cofi_packet *packet)
{
    struct decoder d = {context, bytes, n, packet, 0};
    int size = decode(&d);
    if (size > 0 && context->gen == COFI_PT)
        cofi__packet_update(context, packet);
    return size;
}

/* A packet of one step; 8 bytes at skip must be there. */
static inline int take_step(const struct step *s, const uint8_t *bytes, struct cofi_packet *packet)
{
    uint64_t head = s->kind | (uint64_t)s->size << 8;
    memcpy(packet, &head, sizeof head);
    packet->tnt.bits = le64(bytes + s->skip) >> s->shift & s->mask;
    packet->tnt.count = s->aux;
    return s->size;
}

/* An RTIT packet of one step and its cycle count, 12 bytes at least [RTIT 4.2.14]; 0: it takes
 * more, or is bad. */
static int take_counted_step(const uint8_t *bytes, struct cofi_packet *packet)
{
    const struct step *s = &rtit_steps[bytes[0]];
    if (!s->size)
        return 0;
    int size = take_step(s, bytes, packet);
    if (s->kind == COFI_RTIT_TRACESTOP || (s->kind == COFI_RTIT_TNT && s->aux < 6))
        return size;
    uint32_t count = le32(bytes + size);
    unsigned length = count & 3;
    packet->ccp_size = (uint8_t)length;
    packet->size = (uint8_t)(size + (int)length);
    packet->ccp = (uint32_t)bits(count, 2, 8 * length - 2);
    return length ? packet->size : 0;
}

int cofi_packet_decode(struct cofi_packet_context *context, const uint8_t *bytes, size_t n,
                       struct cofi_packet *packet)
{
    if (__builtin_expect(n >= 9 && !(context->block | context->cyc), 1)) {
        const struct step *s = &(context->gen == COFI_PT ? pt_steps : rtit_steps)[bytes[0]];
        if (__builtin_expect(s->size, 1))
            return take_step(s, bytes, packet);
        /* CYC of two bytes, which is what follows a branch mispredicted or a cache missed. */
        if ((bytes[0] & 7) == 7 && !(bytes[1] & 1) && context->gen == COFI_PT) {
            uint64_t head = COFI_PT_CYC | 2 << 8;
            memcpy(packet, &head, sizeof head);
            packet->cyc.count = bytes[0] >> 3 | (uint64_t)(bytes[1] >> 1) << 5;
            packet->cyc.bytes = 2;
            return 2;
        }
    } else if (n >= 12 && context->cyc && context->gen == COFI_RTIT) {
        int size = take_counted_step(bytes, packet);
        if (size)
            return size;
    }
    return decode_slow(context, bytes, n, packet);
}

const char *cofi_packet_why(const struct cofi_packet_context *context, const uint8_t *bytes,
                            size_t n)
{
    struct cofi_packet packet;
    struct decoder d = {context, bytes, n, &packet, 0};
    int size = decode(&d);
    return size == COFI_ERR_TRUNCATED ? "the data end inside a packet" : size < 0 ? d.why : 0;
}
