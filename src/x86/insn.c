/* SPDX-License-Identifier: MIT
 * Instruction bytes -> length, class, direct target: by the table where it is sure, else by Zydis. */
#include <cofi/insn.h>

#include <string.h>

#include "x86/fast.h"
#include "x86/insn_zydis.h"

/* The table's answer to be trusted without Zydis: LOCK is legal on few encodings, and Zydis knows which. */
static bool sure(const struct cofi__fast *x)
{
    if (x->attr & COFI__FAST_SLOW || x->prefixes & COFI__FAST_LOCK)
        return false;
    return !(x->attr & COFI__FAST_V1111) || x->vvvv == 0;
}

/* All but the target and the prefixes. */
static struct cofi_insn of_table(const struct cofi__fast *x)
{
    return (struct cofi_insn){.length = x->length,
                              .cls = (uint8_t)cofi__fast_class(x),
                              .far = x->attr >> COFI__FAST_FAR_SHIFT & 31,
                              .writes = x->attr & COFI__FAST_WRITES};
}

static bool is_far(const struct cofi_insn *insn)
{
    return insn->cls >= COFI_CLASS_FAR_JMP && insn->cls <= COFI_CLASS_VMENTRY;
}

static bool is_prefix(uint8_t byte)
{
    static const uint8_t prefixes[] = {0x26, 0x2e, 0x36, 0x3e, 0x64, 0x65, 0x66, 0x67, 0xf0, 0xf2, 0xf3};
    return byte >> 4 == 4 || memchr(prefixes, byte, sizeof prefixes);
}

/* Prefix bytes of a far transfer in 64-bit code, REX among them. */
static void count_prefixes(struct cofi_insn *insn, const uint8_t *bytes)
{
    while (is_prefix(bytes[insn->prefixes]))
        insn->prefixes++;
}

/* ---- 32-bit code by the same table, where it says the same ---- */

/* Behind the prefixes, 0 where there is nothing. */
static size_t opcode_at(const uint8_t *bytes, size_t n)
{
    for (size_t i = 0; i < n && i < 15; i++)
        if (!is_prefix(bytes[i]) || bytes[i] >> 4 == 4)
            return i + 1;
    return 0;
}

/* Opcodes that are others in 64-bit code, and do not fail there: BOUND, ARPL, MOV with an address, LES,
 * LDS, whose bytes VEX and EVEX took. */
static bool is_other_in_32(uint8_t opcode)
{
    return opcode == 0x62 || opcode == 0x63 || (opcode & 0xfc) == 0xa0 || opcode == 0xc4 || opcode == 0xc5;
}

/* In 64-bit code only, with no REX to tell: SWAPGS, UIRET and their like; RDFSBASE and its like. */
static bool is_of_64(const struct cofi__fast *x)
{
    return x->map == 1 && x->modrm >= 0xc0 && (x->opcode == 0x01 || x->opcode == 0xae || x->opcode == 0xc7);
}

/* The sizes of addresses (67h) and of near branches' operands (66h) are others, too. */
static bool sure_in_32(const struct cofi__fast *x)
{
    if (!sure(x) || x->prefixes & COFI__FAST_P67 || is_of_64(x))
        return false;
    return cofi__fast_class(x) == COFI_CLASS_OTHER || !(x->prefixes & COFI__FAST_P66);
}

/* Returns the length, 0 where the table does not do. */
static int decode_32(struct cofi_insn *insn, uint64_t ip, const uint8_t *bytes, size_t n)
{
    struct cofi__fast x;
    size_t at = opcode_at(bytes, n);
    if (!at || is_other_in_32(bytes[at - 1]))
        return 0;
    if (bytes[at - 1] >> 4 == 4) { /* INC, DEC: REX in 64-bit code */
        *insn = (struct cofi_insn){.length = (uint8_t)at, .cls = COFI_CLASS_OTHER};
        return memchr(bytes, 0xf0, at) ? 0 : (int)at;
    }
    if (cofi__fast_decode(&x, bytes, n) <= 0 || !sure_in_32(&x))
        return 0;
    *insn = of_table(&x);
    if (is_far(insn))
        return 0;
    if (x.attr & COFI__FAST_REL)
        insn->target = (uint32_t)(ip + x.length + (uint64_t)x.imm);
    return x.length;
}

int cofi_insn_decode(struct cofi_insn *insn, unsigned mode, uint64_t ip, const uint8_t *bytes, size_t n)
{
    struct cofi__fast x;
    int length = mode == 32 ? decode_32(insn, ip, bytes, n) : 0;
    if (length > 0)
        return length;
    if (mode != 64 || cofi__fast_decode(&x, bytes, n) <= 0 || !sure(&x))
        return cofi__insn_decode_zydis(insn, mode, ip, bytes, n);
    *insn = of_table(&x);
    if (x.attr & COFI__FAST_REL)
        insn->target = ip + x.length + (uint64_t)x.imm;
    if (is_far(insn))
        count_prefixes(insn, bytes);
    return x.length;
}
