/* SPDX-License-Identifier: MIT
 * The packet tables as data: a row for each kind. */
#ifndef COFI_PACKET_ROW_H
#define COFI_PACKET_ROW_H

#include <cofi/packet.h>

/* FIXED and MODE are said by their fields; the others have a function a direction. */
enum shape {
    SHAPE_FIXED,
    SHAPE_MODE, /* FIXED, but the two low bits exclude each other */
    SHAPE_TNT,
    SHAPE_TNT64,
    SHAPE_IP,
    SHAPE_CYC,
    SHAPE_PSB,
    SHAPE_PTW,
    SHAPE_BIP,
    SHAPE_TRIG,
    SHAPE_RTIT_TNT,
    SHAPE_RTIT_IP
};

struct field {
    const char *name;      /* as in the .def file, "pip.cr3"; null: reserved */
    uint8_t offset, bytes; /* of the member in struct cofi_packet */
    uint8_t lsb, width, left;
    uint8_t part;          /* a further part of a member named before */
};

struct row {
    const char *name, *text, *tag;
    uint32_t header, mask;
    const struct field *fields;
    uint8_t field_count;
    uint8_t gen, shape, size, traits, binds;
};

/* Indexed by kind. */
extern const struct row cofi__packet_rows[COFI_PKT_KINDS];

/* Member of a field in *packet. */
uint64_t cofi__field_get(const struct cofi_packet *packet, const struct field *field);
void cofi__field_set(struct cofi_packet *packet, const struct field *field, uint64_t value);

/* The bytes of a kind of shape PSB; *n of them. */
const uint8_t *cofi__psb_bytes(enum cofi_packet_kind kind, size_t *n);

/* Blocks begin with BBP and end with what has the trait [PTREF 5.9]. */
static inline void cofi__packet_update(struct cofi_packet_context *context,
                                       const struct cofi_packet *packet)
{
    if (packet->kind == COFI_PT_BBP)
        context->block = packet->bbp.sz ? 2 : 1;
    else if (cofi__packet_rows[packet->kind].traits & COFI_TRAIT_LEAVES_BLOCK)
        context->block = 0;
}

/* Payload bytes of an IP code; -1: reserved [SDM IP Compression; RTIT Table 18]. */
static inline int cofi__ip_bytes(enum cofi_gen gen, unsigned code)
{
    static const signed char pt[8] = {0, 2, 4, 6, 6, -1, 8, -1};
    /* CNT | Zext << 2: six bytes leave nothing to extend. */
    static const signed char rtit[8] = {2, 4, 6, -1, 2, 4, -1, -1};
    return code > 7 ? -1 : gen == COFI_PT ? pt[code] : rtit[code];
}

/* The i-th outcome of a TNT, from its youngest on; of a packet made by hand there may be more than bits. */
static inline bool cofi__tnt_taken(const struct cofi_packet *packet, unsigned i)
{
    return i < 64 && packet->tnt.bits >> i & 1;
}

#endif
