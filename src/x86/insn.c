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

int cofi_insn_decode(struct cofi_insn *insn, unsigned mode, uint64_t ip, const uint8_t *bytes, size_t n)
{
    struct cofi__fast x;
    if (mode != 64 || cofi__fast_decode(&x, bytes, n) <= 0 || !sure(&x))
        return cofi__insn_decode_zydis(insn, mode, ip, bytes, n);
    *insn = (struct cofi_insn){.length = x.length, .cls = (uint8_t)cofi__fast_class(&x),
                               .far = x.attr >> COFI__FAST_FAR_SHIFT & 31,
                               .writes = x.attr & COFI__FAST_WRITES};
    if (x.attr & COFI__FAST_REL)
        insn->target = ip + x.length + (uint64_t)x.imm;
    if (insn->cls >= COFI_CLASS_FAR_JMP && insn->cls <= COFI_CLASS_VMENTRY)
        count_prefixes(insn, bytes);
    return x.length;
}
