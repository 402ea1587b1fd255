/* SPDX-License-Identifier: MIT
 * Instruction bytes -> length, class, direct target: by the table where it is sure, else by Zydis. */
#include <cofi/insn.h>

#include "x86/fast.h"
#include "x86/insn_zydis.h"

/* The table's answer to be trusted without Zydis: LOCK is legal on few encodings, and Zydis knows which. */
static bool sure(const struct cofi__fast *x)
{
    if (x->attr & COFI__FAST_SLOW || x->prefixes & COFI__FAST_LOCK)
        return false;
    return !(x->attr & COFI__FAST_V1111) || x->vvvv == 0;
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
    return x.length;
}
