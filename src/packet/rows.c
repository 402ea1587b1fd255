/* SPDX-License-Identifier: MIT
 * pt.def and rtit.def -> one row a kind, and the questions about a kind. */
#include "packet/row.h"

#include <string.h>

#include "base/error.h"

#define PSB_PLUS COFI_TRAIT_PSB_PLUS
#define TIMING COFI_TRAIT_TIMING
#define HAS_IP COFI_TRAIT_HAS_IP
#define CYC_ELIGIBLE COFI_TRAIT_CYC_ELIGIBLE
#define LEAVES_BLOCK COFI_TRAIT_LEAVES_BLOCK

/* The first entry keeps an empty list legal. */
#define MEMBER(member) #member, offsetof(struct cofi_packet, member), sizeof((struct cofi_packet){0}.member)
#define F(member, lsb, width, left) {MEMBER(member), lsb, width, left, 0},
#define P(member, lsb, width, left) {MEMBER(member), lsb, width, left, 1},
#define R(lsb, width) {0, 0, 0, lsb, width, 0, 0},
#define PACKET(kind, name, shape, size, header, mask, fields, text, traits, binds, tag) \
    static const struct field fields_##kind[] = {{0}, fields};
#include "packet/pt.def"
#include "packet/rtit.def"
#undef PACKET

#define ROW(kind, name, gen, shape, size, header, mask, text, traits, binds, tag)                  \
    [COFI_##kind] = {name, text, tag, header, mask, fields_##kind + 1,                             \
                     ARRAY_LEN(fields_##kind) - 1, gen, SHAPE_##shape, size, traits,               \
                     COFI_BINDS_##binds},
const struct row cofi__packet_rows[COFI_PKT_KINDS] = {
    [COFI_PKT_NONE] = {.name = "none", .text = "", .tag = ""},
#define PACKET(kind, name, shape, size, header, mask, fields, text, traits, binds, tag) \
    ROW(kind, name, COFI_PT, shape, size, header, mask, text, traits, binds, tag)
#include "packet/pt.def"
#undef PACKET
#define PACKET(kind, name, shape, size, header, mask, fields, text, traits, binds, tag) \
    ROW(kind, name, COFI_RTIT, shape, size, header, mask, text, traits, binds, tag)
#include "packet/rtit.def"
#undef PACKET
};

static const struct row *row_of(enum cofi_packet_kind kind)
{
    return &cofi__packet_rows[(unsigned)kind < COFI_PKT_KINDS ? kind : COFI_PKT_NONE];
}

const char *cofi_packet_name(enum cofi_packet_kind kind) { return row_of(kind)->name; }

enum cofi_gen cofi_packet_gen(enum cofi_packet_kind kind)
{
    return (enum cofi_gen)row_of(kind)->gen;
}

unsigned cofi_packet_traits(enum cofi_packet_kind kind) { return row_of(kind)->traits; }

enum cofi_packet_binding cofi_packet_binds(enum cofi_packet_kind kind)
{
    return (enum cofi_packet_binding)row_of(kind)->binds;
}

bool cofi_cfe_has_vector(unsigned type)
{
    return type == 0x1 || type == 0x5 || type == 0x9 || type == 0xc || type == 0xe;
}

uint64_t cofi__field_get(const struct cofi_packet *packet, const struct field *field)
{
    uint64_t value = 0;
    memcpy(&value, (const char *)packet + field->offset, field->bytes);
    return value;
}

void cofi__field_set(struct cofi_packet *packet, const struct field *field, uint64_t value)
{
    memcpy((char *)packet + field->offset, &value, field->bytes);
}

const uint8_t *cofi__psb_bytes(enum cofi_packet_kind kind, size_t *n)
{
    static const uint8_t pt[16] = {2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82,
                                   2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82};
    static const uint8_t rtit[9] = {0xc0};
    *n = kind == COFI_PT_PSB ? sizeof pt : sizeof rtit;
    return kind == COFI_PT_PSB ? pt : rtit;
}
