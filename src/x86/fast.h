/* SPDX-License-Identifier: MIT
 * 64-bit instruction bytes -> layout, registers, class, by table. No library, no allocation: the translator's
 * runtime includes it too. The table is generated from Zydis (gen_fast.c), and a test holds both together. */
#ifndef COFI_X86_FAST_H
#define COFI_X86_FAST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes of displacement behind ModRM and, where there is one, SIB (SDM volume 2, ModR/M and SIB Bytes). */
static inline unsigned cofi__disp_bytes(uint8_t modrm, uint8_t sib)
{
    unsigned mod = modrm >> 6, rm = modrm & 7;
    bool no_base = mod == 0 && (rm == 5 || (rm == 4 && (sib & 7) == 5));
    return mod == 1 ? 1 : mod == 2 || no_base ? 4 : 0;
}

/* Attributes of an encoding.
 *  31    29 28     24 23     20 19        ... 4 3      0
 * |  0     |   far   |  class  |     flags    |  imm   | */
enum {
    COFI__FAST_IMM_MASK = 0xf,     /* bytes of immediate: 0 1 2 3 (ENTER) 4 8 */
    COFI__FAST_MODRM = 1 << 4,
    COFI__FAST_REG = 1 << 5,       /* ModRM.reg names a general register */
    COFI__FAST_RM = 1 << 6,        /* ModRM.rm does when mod is 3 */
    COFI__FAST_VVVV = 1 << 7,      /* (E)VEX.vvvv does */
    COFI__FAST_OPC = 1 << 8,       /* the opcode's low three bits do */
    COFI__FAST_VSIB = 1 << 9,      /* SIB.index names a vector register */
    COFI__FAST_WRITES = 1 << 10,   /* writes memory, the stack included */
    COFI__FAST_FLAGS_READ = 1 << 11,
    COFI__FAST_FLAGS_KILL = 1 << 12, /* writes all six arithmetic flags, reads none */
    COFI__FAST_INVALID = 1 << 13,
    COFI__FAST_SLOW = 1 << 14,     /* validity, class or writes need a full decoder; the layout is right */
    COFI__FAST_REL = 1 << 15,      /* the immediate is relative to the next instruction */
    COFI__FAST_MOFFS = 1 << 16,    /* the immediate has the address size */
    COFI__FAST_V1111 = 1 << 17,    /* vvvv must be 1111 */
    COFI__FAST_RCX = 1 << 18,      /* reads or writes RCX without naming it */
    COFI__FAST_RDX = 1 << 19,      /* … RDX */
    COFI__FAST_CLASS_SHIFT = 20,
    COFI__FAST_FAR_SHIFT = 24
};

enum cofi__fast_space { COFI__FAST_LEGACY, COFI__FAST_VEX, COFI__FAST_EVEX };

enum {
    COFI__FAST_P66 = 1,
    COFI__FAST_P67 = 2,
    COFI__FAST_PF2 = 4,
    COFI__FAST_PF3 = 8,
    COFI__FAST_LOCK = 16,
    COFI__FAST_FS = 32,
    COFI__FAST_GS = 64
};

/* Offsets are from the first byte; 0 means absent (no field starts there). */
struct cofi__fast {
    uint32_t attr;
    uint8_t length;
    uint8_t space;      /* enum cofi__fast_space */
    uint8_t map;        /* 0 one-byte, 1 0F, 2 0F38, 3 0F3A, 5, 6 */
    uint8_t opcode;
    uint8_t prefixes;   /* COFI__FAST_P66 … */
    uint8_t rex;        /* W R X B in bits 3..0, of REX, VEX or EVEX, as if REX */
    uint8_t rex_offset; /* REX, VEX or EVEX byte; its offset plus 1 */
    uint8_t opcode_offset, modrm_offset, sib_offset, disp_offset, imm_offset;
    uint8_t disp_bytes, imm_bytes;
    uint8_t modrm, sib;
    uint8_t vvvv;       /* register number 0..15 (31 with EVEX.V') */
    bool rip_relative;
    int64_t disp, imm;  /* sign-extended */
};

/* Decode bytes[0..n). Returns the length, 0 when n is too short or longer than 15 bytes, -1 when the
 * encoding is none that the table knows. Reads at most n bytes. */
int cofi__fast_decode(struct cofi__fast *x, const uint8_t *bytes, size_t n);

static inline unsigned cofi__fast_class(const struct cofi__fast *x)
{
    return x->attr >> COFI__FAST_CLASS_SHIFT & 15;
}

/* General registers that the encoding names (bit n: register n), memory operands included; implied ones
 * (RAX of MUL, RSI of MOVS) are not. */
uint32_t cofi__fast_registers(const struct cofi__fast *x);

/* Whether registers 4 to 7 that the encoding names may be AH, CH, DH and BH. */
bool cofi__fast_may_name_high_bytes(const struct cofi__fast *x);

/* Whether the instruction, which names registers `used`, may read or write RCX (bit 1) and RDX (bit 2),
 * named or implied, or a part of it. */
uint32_t cofi__fast_touches(const struct cofi__fast *x, uint32_t used);

#endif
