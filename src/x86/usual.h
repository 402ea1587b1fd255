/* SPDX-License-Identifier: MIT
 * Length and registers of most instructions, in a fraction of the decoder's time, by a table that is
 * made of the decoder's: no branch, no prefix but REX, a base where there is memory, not RIP, and
 * nothing about it that depends on more than opcode and ModRM. */
#ifndef COFI_X86_USUAL_H
#define COFI_X86_USUAL_H

#include "base/bytes.h"
#include "x86/fast.h"

struct cofi__usual {
    uint8_t length;     /* 0: it is not one of these */
    uint8_t touches;    /* cofi__fast_touches */
    uint16_t registers; /* cofi__fast_registers */
};

/* By map (one-byte, 0F), opcode, and ModRM: whether mod is 3, reg. 0: the decoder is needed. The lowest
 * bits are attributes. */
enum {
    COFI__USUAL_ATTRIBUTES = COFI__FAST_IMM_MASK | COFI__FAST_MODRM | COFI__FAST_REG | COFI__FAST_RM | COFI__FAST_OPC,
    COFI__USUAL_SHIFT = 9,      /* down to `touches`, of the next two */
    COFI__USUAL_RCX = 2 << 9,   /* without naming it */
    COFI__USUAL_RDX = 4 << 9,
    COFI__USUAL_HIGH = 1 << 12, /* without REX, registers 4 to 7 may be AH, CH, DH and BH */
    COFI__USUAL = 1 << 15
};
extern const uint16_t cofi__usuals[2][256][16];

/* 1 if v has the flag. */
static inline unsigned cofi__bit(unsigned v, unsigned flag)
{
    return v / flag & 1;
}

/* One of these, taken apart. */
struct cofi__usual_parts {
    unsigned has_rex, rex, opcode, has_modrm, modrm;
    unsigned sib;    /* if there is one */
    unsigned is;     /* the table's word */
    unsigned length; /* without the displacement of a SIB without a base */
};

static inline struct cofi__usual_parts cofi__usual_parts(const uint8_t *p)
{
    /* From ModRM to the displacement's end, without SIB's own. */
    static const uint8_t modrm_bytes[4][8] = {
        {1, 1, 1, 1, 2, 5, 1, 1}, {2, 2, 2, 2, 3, 2, 2, 2}, {5, 5, 5, 5, 6, 5, 5, 5}, {1, 1, 1, 1, 1, 1, 1, 1}};
    uint64_t w = le64(p);
    unsigned has_rex = (w & 0xf0) == 0x40, rex = (unsigned)w & -has_rex & 7;
    w >>= 8 * has_rex;
    unsigned map = (w & 0xff) == 0x0f;
    w >>= 8 * map;
    unsigned opcode = w & 0xff, modrm = w >> 8 & 0xff;
    unsigned is = cofi__usuals[map][opcode][(modrm >= 0xc0) << 3 | (modrm >> 3 & 7)],
             has_modrm = cofi__bit(is, COFI__FAST_MODRM);
    unsigned length = has_rex + map + 1 + (modrm_bytes[modrm >> 6][modrm & 7] & -has_modrm) +
                      (is & COFI__FAST_IMM_MASK);
    return (struct cofi__usual_parts){has_rex, rex, opcode, has_modrm, modrm, w >> 16 & 0xff, is, length};
}

/* Of the instruction at p, where 8 bytes can be read, the length, with and without a base; 0: it is not
 * one of these. */
static inline unsigned cofi__usual_length(const uint8_t *p)
{
    struct cofi__usual_parts x = cofi__usual_parts(p);
    unsigned no_base = x.has_modrm & ((x.modrm & 0xc7) == 4) & ((x.sib & 7) == 5);
    return (x.length + 4 * no_base) & -cofi__bit(x.is, COFI__USUAL);
}

/* The instruction at p, where 8 bytes can be read. Which fields there are differs from one to the next
 * and cannot be foreseen, so there is one branch only, and the next instruction, which waits for this
 * one's length, waits for two loads. */
static inline struct cofi__usual cofi__usual(const uint8_t *p)
{
    struct cofi__usual_parts x = cofi__usual_parts(p);
    unsigned mod = x.modrm >> 6, reg = x.modrm >> 3 & 7, rm = x.modrm & 7;
    unsigned memory = x.has_modrm & (mod != 3), has_sib = memory & (rm == 4), sib = x.sib & -has_sib;
    unsigned base = (has_sib ? sib : rm) & 7, index = (sib >> 3 & 7) | (x.rex & 2) << 2;
    if (!(cofi__bit(x.is, COFI__USUAL) & ~(memory & (mod == 0) & (base == 5))))
        return (struct cofi__usual){0, 0, 0};
    unsigned used = cofi__bit(x.is, COFI__FAST_OPC) << ((x.opcode & 7) | (x.rex & 1) << 3) |
                    cofi__bit(x.is, COFI__FAST_REG) << (reg | (x.rex & 4) << 1) |
                    (memory | cofi__bit(x.is, COFI__FAST_RM)) << (base | (x.rex & 1) << 3) |
                    (has_sib & (index != 4)) << index;
    unsigned high = -(cofi__bit(x.is, COFI__USUAL_HIGH) & ~x.has_rex) & (used & 0x60) >> 4;
    return (struct cofi__usual){(uint8_t)x.length, (uint8_t)((used | high | x.is >> COFI__USUAL_SHIFT) & 6),
                                (uint16_t)used};
}

#endif
