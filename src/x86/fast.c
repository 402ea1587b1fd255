/* SPDX-License-Identifier: MIT
 * 64-bit instruction bytes -> layout and attributes, by the generated table. */
#include "x86/fast.h"

#include "base/bytes.h"
#include "x86/usual.h"

#include "x86/fast_table.h"

/* Where the decoder stands. */
struct cursor {
    const uint8_t *bytes;
    size_t n, at;
};

static bool more(const struct cursor *c, size_t need)
{
    return c->n - c->at >= need;
}

static int64_t take(struct cursor *c, unsigned size)
{
    const uint8_t *p = c->bytes + c->at;
    c->at += size;
    switch (size) {
    case 1: return (int8_t)*p;
    case 2: return (int16_t)le16(p);
    case 3: return (int32_t)((uint32_t)le16(p) << 8 | (uint32_t)p[2] << 24) >> 8;
    case 4: return (int32_t)le32(p);
    default: return (int64_t)le64(p);
    }
}

/* Two of three instructions have none or a REX only. */
static bool is_legacy_prefix(uint8_t b)
{
    static const uint32_t set[8] = {[1] = 1u << 6 | 1u << 14 | 1u << 22 | 1u << 30, /* 26, 2E, 36, 3E */
        [3] = 15u << 4, [7] = 1u << 16 | 3u << 18};                                 /* 64 to 67, F0, F2, F3 */
    return set[b >> 5] >> (b & 31) & 1;
}

/* Legacy prefixes in any order; a REX counts only right before the opcode (SDM volume 2, REX Prefixes). */
static bool take_prefixes(struct cofi__fast *x, struct cursor *c)
{
    for (; more(c, 1); c->at++) {
        uint8_t b = c->bytes[c->at];
        if (!is_legacy_prefix(b)) {
            if ((b & 0xf0) != 0x40)
                return true;
            x->rex = b & 15;
            x->rex_offset = (uint8_t)(c->at + 1);
            continue;
        }
        switch (b) {
        case 0x66: x->prefixes |= COFI__FAST_P66; break;
        case 0x67: x->prefixes |= COFI__FAST_P67; break;
        case 0xf2: x->prefixes = (x->prefixes & ~COFI__FAST_PF3) | COFI__FAST_PF2; break;
        case 0xf3: x->prefixes = (x->prefixes & ~COFI__FAST_PF2) | COFI__FAST_PF3; break;
        case 0xf0: x->prefixes |= COFI__FAST_LOCK; break;
        case 0x64: x->prefixes = (x->prefixes & ~COFI__FAST_GS) | COFI__FAST_FS; break;
        case 0x65: x->prefixes = (x->prefixes & ~COFI__FAST_FS) | COFI__FAST_GS; break;
        default: break; /* segments that mean nothing */
        }
        x->rex = 0;
        x->rex_offset = 0;
    }
    return false;
}

/* The index of a row's variant: operand-size and repeat prefixes, W, and the ModRM byte's mod and reg. */
static unsigned variant(unsigned pfx, unsigned w, uint8_t modrm)
{
    return ((pfx * 2 + w) * 2 + (modrm >= 0xc0)) * 8 + (modrm >> 3 & 7);
}

static unsigned legacy_pfx(uint8_t prefixes)
{
    unsigned rep = prefixes & COFI__FAST_PF3 ? 1 : prefixes & COFI__FAST_PF2 ? 2 : 0;
    return rep + (prefixes & COFI__FAST_P66 ? 3 : 0);
}

/* pp -> the same index: none, 66, F3, F2 (SDM volume 2, VEX.pp). */
static const uint8_t pp_pfx[4] = {0, 3, 1, 2};

static bool take_vex(struct cofi__fast *x, struct cursor *c, uint8_t first, unsigned *pfx, bool *other)
{
    unsigned size = first == 0xc5 ? 2 : first == 0xc4 ? 3 : 4;
    if (!more(c, size + 1))
        return false;
    const uint8_t *p = c->bytes + c->at;
    *other = size == 4 &&
             (!(p[2] & 4) || p[1] & 8); /* Knights Corner's encoding, or APX's registers: not in the table */
    uint8_t last = size == 2 ? p[1] : p[2];
    x->space = size == 4 ? COFI__FAST_EVEX : COFI__FAST_VEX;
    x->rex_offset = (uint8_t)(c->at + 1);
    x->rex = size == 2 ? (~p[1] >> 5 & 4) : (~p[1] >> 5 & 7);
    if (size > 2)
        x->rex |= last >> 4 & 8;
    x->map = size == 2 ? 1 : size == 3 ? p[1] & 31 : p[1] & 7;
    x->vvvv = ~last >> 3 & 15;
    if (size == 4 && !(p[3] & 8))
        x->vvvv |= 16;
    *pfx = pp_pfx[last & 3];
    c->at += size;
    return true;
}

static int opcode_map(struct cofi__fast *x, struct cursor *c)
{
    if (c->bytes[c->at] != 0x0f)
        return 0;
    c->at++;
    if (!more(c, 1))
        return -1;
    x->map = 1;
    if (c->bytes[c->at] == 0x38 || c->bytes[c->at] == 0x3a) {
        x->map = c->bytes[c->at] == 0x38 ? 2 : 3;
        c->at++;
    }
    return more(c, 1) ? 0 : -1;
}

/* Table rows lie by space and map; 255: no such map. */
static unsigned table_of(unsigned space, unsigned map)
{
    static const uint8_t tables[3][8] = {
        {0, 1, 2, 3, 255, 255, 255, 255}, {255, 4, 5, 6, 255, 255, 255, 255}, {255, 7, 8, 9, 255, 10, 11, 255}};
    return map < 8 ? tables[space][map] : 255;
}

/* ModRM, SIB and displacement (SDM volume 2, ModR/M and SIB Bytes). */
static bool take_modrm(struct cofi__fast *x, struct cursor *c, bool ignores_mod)
{
    x->modrm_offset = (uint8_t)c->at;
    x->modrm = c->bytes[c->at++];
    if (ignores_mod)
        x->modrm |= 0xc0;
    unsigned mod = x->modrm >> 6, rm = x->modrm & 7;
    if (mod == 3)
        return true;
    if (rm == 4) {
        if (!more(c, 1))
            return false;
        x->sib_offset = (uint8_t)c->at;
        x->sib = c->bytes[c->at++];
    }
    x->rip_relative = mod == 0 && rm == 5;
    x->disp_bytes = (uint8_t)cofi__disp_bytes(x->modrm, x->sib);
    if (!x->disp_bytes)
        return true;
    if (!more(c, x->disp_bytes))
        return false;
    x->disp_offset = (uint8_t)c->at;
    x->disp = take(c, x->disp_bytes);
    return true;
}

static bool take_immediate(struct cofi__fast *x, struct cursor *c)
{
    unsigned size = x->attr & COFI__FAST_IMM_MASK;
    if (x->attr & COFI__FAST_MOFFS)
        size = x->prefixes & COFI__FAST_P67 ? 4 : 8;
    if (!size)
        return true;
    if (!more(c, size))
        return false;
    x->imm_offset = (uint8_t)c->at;
    x->imm_bytes = (uint8_t)size;
    x->imm = take(c, size);
    return true;
}

int cofi__fast_decode(struct cofi__fast *x, const uint8_t *bytes, size_t n)
{
    struct cursor c = {bytes, n < 15 ? n : 15, 0};
    unsigned pfx = 0;
    *x = (struct cofi__fast){0};
    if (!take_prefixes(x, &c))
        return 0;
    uint8_t first = c.bytes[c.at];
    if (first == 0xc4 || first == 0xc5 || first == 0x62) {
        if (x->rex_offset || x->prefixes & (COFI__FAST_P66 | COFI__FAST_PF2 | COFI__FAST_PF3 | COFI__FAST_LOCK))
            return -1;
        bool other = false;
        if (!take_vex(x, &c, first, &pfx, &other))
            return 0;
        if (other)
            return -1;
    } else {
        if (opcode_map(x, &c) < 0)
            return 0;
        pfx = legacy_pfx(x->prefixes);
    }
    unsigned table = table_of(x->space, x->map);
    if (table == 255)
        return -1;
    x->opcode_offset = (uint8_t)c.at;
    x->opcode = c.bytes[c.at++];
    unsigned row = cofi__fast_top[table][x->opcode];
    bool has_modrm = cofi__fast_modrm[table][x->opcode >> 3] >> (x->opcode & 7) & 1;
    if (has_modrm && !more(&c, 1))
        return 0;
    x->attr = cofi__fast_attrs[cofi__fast_rows[row][variant(pfx, x->rex >> 3, has_modrm ? c.bytes[c.at] : 0)]];
    bool mov_control = table == 1 && (x->opcode & 0xfc) == 0x20; /* and debug registers */
    if (has_modrm && !take_modrm(x, &c, mov_control))
        return 0;
    if (x->attr & COFI__FAST_INVALID)
        return -1;
    if (!take_immediate(x, &c))
        return 0;
    x->length = (uint8_t)c.at;
    return x->length;
}

/* A base and an index. */
static uint32_t sib_registers(const struct cofi__fast *x)
{
    uint32_t used = 0;
    unsigned index = (x->sib >> 3 & 7) | (x->rex & 2) << 2;
    if (index != 4 && !(x->attr & COFI__FAST_VSIB))
        used |= 1u << index;
    if ((x->sib & 7) != 5 || x->modrm >= 0x40)
        used |= 1u << ((x->sib & 7) | (x->rex & 1) << 3);
    return used;
}

/* Bit n if the encoding has the attribute. */
static uint32_t named(const struct cofi__fast *x, uint32_t attribute, unsigned n)
{
    return (uint32_t)((x->attr & attribute) != 0) << n;
}

uint32_t cofi__fast_registers(const struct cofi__fast *x)
{
    uint32_t used = named(x, COFI__FAST_OPC, (x->opcode & 7) | (x->rex & 1) << 3) |
                    named(x, COFI__FAST_VVVV, x->vvvv & 15);
    if (!x->modrm_offset)
        return used;
    used |= named(x, COFI__FAST_REG, (x->modrm >> 3 & 7) | (x->rex & 4) << 1);
    if (x->sib_offset)
        return used | sib_registers(x);
    bool rm = x->modrm >= 0xc0 ? x->attr & COFI__FAST_RM : !x->rip_relative;
    return used | (uint32_t)rm << ((x->modrm & 7) | (x->rex & 1) << 3);
}

/* Without REX, registers 5 and 6 of an 8-bit operand are CH and DH (SDM volume 2, Register
 * Operands and the REX Prefix). Maps 1 and 2 have such operands here and there. */
bool cofi__fast_may_name_high_bytes(const struct cofi__fast *x)
{
    if (x->space != COFI__FAST_LEGACY || x->rex_offset)
        return false;
    return x->map == 1 || x->map == 2 || (x->map == 0 && (!(x->opcode & 1) || (x->opcode & 0xf8) == 0xb0));
}

uint32_t cofi__fast_touches(const struct cofi__fast *x, uint32_t used)
{
    if (used & 0x60 && cofi__fast_may_name_high_bytes(x))
        used |= used >> 4;
    used |= (x->attr & COFI__FAST_RCX ? 2 : 0) | (x->attr & COFI__FAST_RDX ? 4 : 0);
    return used & 6;
}
