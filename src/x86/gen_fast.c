/* SPDX-License-Identifier: MIT
 * Zydis -> the table of x86/fast.c, as a C header on stdout. Every encoding is asked for in every variant that
 * can matter; where a variant outside of the key matters too, the attribute says SLOW. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <Zydis/Zydis.h>
#include <cofi/insn.h>

#include "base/error.h"
#include "x86/usual.h"
#include "x86/insn_zydis.h"

enum { TABLES = 12, VARIANTS = 6 * 2 * 2 * 8 };

static ZydisDecoder decoder;
static uint32_t attrs[4096];
static unsigned attr_count;
static uint16_t rows[TABLES * 256][VARIANTS];
static unsigned row_count;
static uint16_t top[TABLES][256];
static uint8_t modrm_bits[TABLES][32];

/* Mnemonics that always write all arithmetic flags and leave none as it was (SDM volume 2, EFLAGS Cross-Reference). */
static bool kills_flags(const ZydisDecodedInstruction *zy)
{
    switch ((int)zy->mnemonic) {
    case ZYDIS_MNEMONIC_ADD: case ZYDIS_MNEMONIC_SUB: case ZYDIS_MNEMONIC_CMP: case ZYDIS_MNEMONIC_NEG:
    case ZYDIS_MNEMONIC_AND: case ZYDIS_MNEMONIC_OR: case ZYDIS_MNEMONIC_XOR: case ZYDIS_MNEMONIC_TEST:
    case ZYDIS_MNEMONIC_COMISS: case ZYDIS_MNEMONIC_COMISD: case ZYDIS_MNEMONIC_UCOMISS:
    case ZYDIS_MNEMONIC_UCOMISD: case ZYDIS_MNEMONIC_PTEST:
        return true;
    default: /* not ours */
        return false;
    }
}

static bool is_gpr(ZydisRegister reg)
{
    ZydisRegisterClass c = ZydisRegisterGetClass(reg);
    return c == ZYDIS_REGCLASS_GPR8 || c == ZYDIS_REGCLASS_GPR16 || c == ZYDIS_REGCLASS_GPR32 ||
           c == ZYDIS_REGCLASS_GPR64;
}

static uint32_t operand_bits(const ZydisDecodedOperand *op)
{
    if (op->type == ZYDIS_OPERAND_TYPE_MEMORY && op->mem.type == ZYDIS_MEMOP_TYPE_VSIB)
        return COFI__FAST_VSIB;
    if (op->type != ZYDIS_OPERAND_TYPE_REGISTER || !is_gpr(op->reg.value))
        return 0;
    switch ((int)op->encoding) {
    case ZYDIS_OPERAND_ENCODING_MODRM_REG: return COFI__FAST_REG;
    case ZYDIS_OPERAND_ENCODING_MODRM_RM: return COFI__FAST_RM;
    case ZYDIS_OPERAND_ENCODING_NDSNDD: return COFI__FAST_VVVV;
    case ZYDIS_OPERAND_ENCODING_OPCODE: return COFI__FAST_OPC;
    default: return 0; /* not ours */
    }
}

/* RCX and RDX where no field of the encoding says so. */
static uint32_t implied_bits(const ZydisDecodedOperand *op)
{
    ZydisRegister reg = op->type == ZYDIS_OPERAND_TYPE_MEMORY ? op->mem.base : op->reg.value;
    bool memory = op->type == ZYDIS_OPERAND_TYPE_MEMORY && op->visibility == ZYDIS_OPERAND_VISIBILITY_HIDDEN;
    if ((!memory && op->type != ZYDIS_OPERAND_TYPE_REGISTER) || !is_gpr(reg) || operand_bits(op))
        return 0;
    ZydisRegister wide = ZydisRegisterGetLargestEnclosing(ZYDIS_MACHINE_MODE_LONG_64, reg);
    return wide == ZYDIS_REGISTER_RCX ? COFI__FAST_RCX : wide == ZYDIS_REGISTER_RDX ? COFI__FAST_RDX : 0;
}

/* Attributes of one byte string; INVALID where Zydis refuses it. */
static uint32_t ask(const uint8_t *bytes)
{
    ZydisDecodedInstruction zy;
    ZydisDecodedOperand ops[ZYDIS_MAX_OPERAND_COUNT];
    if (!ZYAN_SUCCESS(ZydisDecoderDecodeFull(&decoder, bytes, 15, &zy, ops)))
        return COFI__FAST_INVALID;
    struct cofi_insn insn;
    cofi__insn_from_zydis(&zy, ops, 64, 0, &insn);
    uint32_t a = (uint32_t)(zy.raw.imm[0].size + zy.raw.imm[1].size) / 8;
    if (zy.attributes & ZYDIS_ATTRIB_HAS_MODRM)
        a |= COFI__FAST_MODRM;
    if (zy.raw.imm[0].is_relative)
        a |= COFI__FAST_REL;
    if (zy.opcode_map == ZYDIS_OPCODE_MAP_DEFAULT && (zy.opcode & 0xfc) == 0xa0)
        a = (a & ~(uint32_t)COFI__FAST_IMM_MASK) | COFI__FAST_MOFFS;
    if (zy.mnemonic == ZYDIS_MNEMONIC_PAUSE) /* with REX.B, which Zydis disregards, processors exchange
                                              * R8 and RAX [measured] */
        a |= COFI__FAST_OPC;
    for (unsigned i = 0; i < zy.operand_count; i++)
        a |= operand_bits(&ops[i]) | implied_bits(&ops[i]);
    if (insn.writes)
        a |= COFI__FAST_WRITES;
    if (zy.cpu_flags && zy.cpu_flags->tested)
        a |= COFI__FAST_FLAGS_READ;
    else if (kills_flags(&zy))
        a |= COFI__FAST_FLAGS_KILL;
    return a | (uint32_t)insn.cls << COFI__FAST_CLASS_SHIFT | (uint32_t)insn.far << COFI__FAST_FAR_SHIFT;
}

/* Two answers for one key: what both agree on, SLOW where they do not. */
static uint32_t merge(uint32_t a, uint32_t b)
{
    const uint32_t registers =
        COFI__FAST_REG | COFI__FAST_RM | COFI__FAST_VVVV | COFI__FAST_OPC | COFI__FAST_RCX | COFI__FAST_RDX;
    if (a == b)
        return a;
    if (a == COFI__FAST_INVALID)
        return b | COFI__FAST_SLOW;
    if (b == COFI__FAST_INVALID)
        return a | COFI__FAST_SLOW;
    uint32_t same = COFI__FAST_IMM_MASK | COFI__FAST_MODRM | COFI__FAST_REL | COFI__FAST_MOFFS | COFI__FAST_VSIB;
    if ((a & same) != (b & same)) {
        fprintf(stderr, "layouts differ: %x %x\n", a, b);
        exit(1);
    }
    uint32_t slow = ((a ^ b) & ~registers & ~(uint32_t)COFI__FAST_SLOW) ? COFI__FAST_SLOW : 0;
    uint32_t kill = a & b & COFI__FAST_FLAGS_KILL;
    return ((a | b) & ~(uint32_t)COFI__FAST_FLAGS_KILL) | kill | slow;
}

/* An encoding under question. */
struct key {
    unsigned table, opcode, pfx, w, mod3, reg;
};

static const uint8_t rms[] = {0, 4, 5, 3, 7, 1, 2, 6};
static const uint8_t vex_rms[] = {0, 4, 4 | 8, 5};
static const uint8_t pp_of[6] = {0, 2, 3, 1, 0, 0};

static unsigned put_legacy(const struct key *k, unsigned rex, uint8_t *p)
{
    unsigned n = 0;
    if (k->pfx >= 3)
        p[n++] = 0x66;
    if (k->pfx % 3)
        p[n++] = k->pfx % 3 == 1 ? 0xf3 : 0xf2;
    if (rex || k->w)
        p[n++] = (uint8_t)(0x40 | k->w << 3 | rex);
    if (k->table)
        p[n++] = 0x0f;
    if (k->table > 1)
        p[n++] = k->table == 2 ? 0x38 : 0x3a;
    p[n++] = (uint8_t)k->opcode;
    return n;
}

static uint32_t ask_legacy(const struct key *k)
{
    uint32_t a = 0;
    bool first = true;
    static const uint8_t rexes[] = {0, 4, 1, 5, 2};
    for (unsigned r = 0; r < sizeof rexes; r++)
        for (unsigned m = 0; m < (k->mod3 ? 8 : 4); m++) {
            uint8_t b[15] = {0};
            unsigned n = put_legacy(k, rexes[r], b);
            b[n] = (uint8_t)(k->mod3 << 7 | k->mod3 << 6 | k->reg << 3 | rms[m]);
            b[n + 1] = 0x18; /* a SIB byte where there is one */
            uint32_t one = ask(b);
            a = first ? one : merge(a, one);
            first = false;
        }
    return a;
}

/* 3-byte VEX or EVEX with the given L, vvvv (register number) and EVEX.aaa. */
static uint32_t ask_vex_one(const struct key *k, unsigned l, unsigned v, unsigned rm, unsigned aaa)
{
    static const uint8_t maps[TABLES] = {0, 0, 0, 0, 1, 2, 3, 1, 2, 3, 5, 6};
    uint8_t b[15] = {0};
    unsigned n = 0;
    bool evex = k->table >= 7;
    b[n++] = evex ? 0x62 : 0xc4;
    b[n++] = (uint8_t)((evex ? 0xf0 : 0xe0) | maps[k->table]);
    b[n++] = (uint8_t)(k->w << 7 | (~v & 15) << 3 | (evex ? 4 : l << 2) | pp_of[k->pfx]);
    if (evex)
        b[n++] = (uint8_t)(l << 5 | 8 | aaa);
    b[n++] = (uint8_t)k->opcode;
    b[n++] = (uint8_t)(k->mod3 << 7 | k->mod3 << 6 | k->reg << 3 | (rm & 7));
    b[n++] = rm & 8 ? 0x28 : 0x18; /* index 5 or 3: a gather's must differ from its other registers */
    return ask(b);
}

/* Validity in these spaces hangs on much; the front end trusts a VEX row only when it is plain. */
static uint32_t ask_vex(const struct key *k)
{
    bool evex = k->table >= 7;
    uint32_t a = COFI__FAST_INVALID;
    bool all_v = true, all_l = true, mask = false;
    for (unsigned l = 0; l < (evex ? 3u : 2u); l++)
        for (unsigned m = 0; m < sizeof vex_rms; m++)
            for (unsigned aaa = 0; aaa < (evex ? 2u : 1u); aaa++) {
                uint32_t plain = ask_vex_one(k, l, 0, vex_rms[m], aaa);
                uint32_t other = ask_vex_one(k, l, 2, vex_rms[m], aaa);
                all_l &= plain != COFI__FAST_INVALID || other != COFI__FAST_INVALID;
                all_v &= other != COFI__FAST_INVALID;
                /* A mask register in vvvv: 0..7 only. */
                mask |= other != COFI__FAST_INVALID && ask_vex_one(k, l, 10, vex_rms[m], aaa) == COFI__FAST_INVALID;
                if (plain != COFI__FAST_INVALID)
                    a = a == COFI__FAST_INVALID ? plain : merge(a, plain);
                if (other != COFI__FAST_INVALID)
                    a = a == COFI__FAST_INVALID ? other : merge(a, other);
            }
    if (a == COFI__FAST_INVALID)
        return a;
    if (evex || !all_l || mask || a & COFI__FAST_VSIB)
        a |= COFI__FAST_SLOW;
    return all_v ? a : a | COFI__FAST_V1111;
}

static unsigned attr_index(uint32_t a)
{
    for (unsigned i = 0; i < attr_count; i++)
        if (attrs[i] == a)
            return i;
    attrs[attr_count] = a;
    return attr_count++;
}

static bool has_modrm(unsigned table, unsigned opcode)
{
    for (unsigned pfx = 0; pfx < 6; pfx++)
        for (unsigned mod3 = 0; mod3 < 2; mod3++)
            for (unsigned reg = 0; reg < 8; reg++) {
                struct key k = {table, opcode, pfx, 0, mod3, reg};
                uint32_t a = table < 4 ? ask_legacy(&k) : ask_vex(&k);
                if (a != COFI__FAST_INVALID)
                    return a & COFI__FAST_MODRM;
            }
    return table != 0; /* invalid in every way */
}

/* Prefixes and escapes are no opcodes. */
static bool is_opcode(unsigned table, unsigned op)
{
    if (table == 1)
        return op != 0x38 && op != 0x3a;
    if (table)
        return true;
    return op != 0x0f && op != 0x62 && op != 0xc4 && op != 0xc5 && (op & 0xf0) != 0x40 && op != 0x26 &&
           op != 0x2e && op != 0x36 && op != 0x3e && op != 0x64 && op != 0x65 && op != 0x66 && op != 0x67 &&
           op != 0xf0 && op != 0xf2 && op != 0xf3;
}

static void fill_row(unsigned table, unsigned opcode)
{
    uint16_t *row = rows[row_count];
    bool modrm = is_opcode(table, opcode) && has_modrm(table, opcode);
    for (unsigned i = 0; i < VARIANTS; i++) {
        struct key k = {table, opcode, i >> 5, i >> 4 & 1, i >> 3 & 1, i & 7};
        uint32_t a;
        if (!is_opcode(table, opcode) || (table >= 4 && k.pfx > 3))
            a = COFI__FAST_INVALID;
        else if (!modrm && i & 15)
            a = attrs[row[i & ~15u]];
        else
            a = table < 4 ? ask_legacy(&k) : ask_vex(&k);
        row[i] = (uint16_t)attr_index(a);
    }
    if (modrm)
        modrm_bits[table][opcode >> 3] |= (uint8_t)(1u << (opcode & 7));
    unsigned same = 0;
    while (memcmp(rows[same], row, sizeof rows[0]))
        same++;
    top[table][opcode] = (uint16_t)same;
    if (same == row_count)
        row_count++;
}

/* Segment registers, flags as a whole, GS's base, time: of these more is asked. MOV of control and debug
 * registers has no memory. */
static bool is_odd(unsigned table, unsigned op)
{
    if (!table)
        return op == 0x8c || op == 0x8e || op == 0x9c || op == 0x9d;
    return op == 0x01 || (op & 0xfc) == 0x20 || op == 0x31 || op == 0xa8 || op == 0xa9 || op == 0xae || op == 0xb5;
}

/* What cofi__usual needs of an encoding without prefixes but REX; 0: it needs the decoder. */
static unsigned usual(unsigned table, unsigned opcode, unsigned mod_and_reg)
{
    uint32_t narrow = attrs[rows[top[table][opcode]][mod_and_reg]],
             a = attrs[rows[top[table][opcode]][16 | mod_and_reg]];
    const uint32_t taken = COFI__FAST_IMM_MASK | COFI__FAST_MODRM | COFI__FAST_REG | COFI__FAST_RM | COFI__FAST_OPC |
                           COFI__FAST_RCX | COFI__FAST_RDX,
                   harmless = COFI__FAST_WRITES | COFI__FAST_FLAGS_READ | COFI__FAST_FLAGS_KILL;
    if (is_odd(table, opcode) || a & ~(taken | harmless) || (a ^ narrow) & taken || narrow & COFI__FAST_INVALID)
        return 0;
    bool high = table || !(opcode & 1) || (opcode & 0xf8) == 0xb0; /* cofi__fast_may_name_high_bytes */
    return (a & COFI__USUAL_ATTRIBUTES) | (a & COFI__FAST_RCX ? COFI__USUAL_RCX : 0) |
           (a & COFI__FAST_RDX ? COFI__USUAL_RDX : 0) | (high ? COFI__USUAL_HIGH : 0) | COFI__USUAL;
}

static void print_usual(void)
{
    printf("const uint16_t cofi__usuals[2][256][16] = {\n");
    for (unsigned t = 0; t < 2; t++) {
        printf("{");
        for (unsigned i = 0; i < 256 * 16; i++)
            printf("%s%u,%s", i % 16 ? "" : "{", usual(t, i / 16, i % 16), i % 16 == 15 ? "}," : "");
        printf("},\n");
    }
    printf("};\n");
}

static void print_table(void)
{
    printf("/* Generated by x86/gen_fast.c. */\nstatic const uint32_t cofi__fast_attrs[%u] = {", attr_count);
    for (unsigned i = 0; i < attr_count; i++)
        printf("%s0x%x,", i % 8 ? "" : "\n", attrs[i]);
    printf("};\nstatic const %s cofi__fast_rows[%u][%u] = {\n", attr_count <= 256 ? "uint8_t" : "uint16_t", row_count,
           VARIANTS);
    for (unsigned r = 0; r < row_count; r++) {
        printf("{");
        for (unsigned i = 0; i < VARIANTS; i++)
            printf("%u,", rows[r][i]);
        printf("},\n");
    }
    printf("};\nstatic const uint16_t cofi__fast_top[%u][256] = {\n", TABLES);
    for (unsigned t = 0; t < TABLES; t++) {
        printf("{");
        for (unsigned i = 0; i < 256; i++)
            printf("%u,", top[t][i]);
        printf("},\n");
    }
    printf("};\nstatic const uint8_t cofi__fast_modrm[%u][32] = {\n", TABLES);
    for (unsigned t = 0; t < TABLES; t++) {
        printf("{");
        for (unsigned i = 0; i < 32; i++)
            printf("%u,", modrm_bits[t][i]);
        printf("},\n");
    }
    printf("};\n");
}

int main(void)
{
    ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
    for (unsigned table = 0; table < TABLES; table++)
        for (unsigned opcode = 0; opcode < 256; opcode++)
            fill_row(table, opcode);
    fprintf(stderr, "%u attributes, %u rows\n", attr_count, row_count);
    print_table();
    print_usual();
    return 0;
}
