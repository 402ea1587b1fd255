/* SPDX-License-Identifier: MIT
 * Zydis's answer -> struct cofi_insn: the slow path, and what the fast table is made from. */
#ifndef COFI_X86_INSN_ZYDIS_H
#define COFI_X86_INSN_ZYDIS_H

#include <Zydis/Zydis.h>
#include <cofi/insn.h>

/* What a decoded instruction is to a trace. */
void cofi__insn_from_zydis(const ZydisDecodedInstruction *zy, const ZydisDecodedOperand *operands, unsigned mode,
                           uint64_t ip, struct cofi_insn *insn);
/* What Zydis and newer.c know. */
int cofi__insn_decode_known(struct cofi_insn *insn, unsigned mode, uint64_t ip, const uint8_t *bytes, size_t n);
/* cofi_insn_decode without the table. */
int cofi__insn_decode_zydis(struct cofi_insn *insn, unsigned mode, uint64_t ip, const uint8_t *bytes, size_t n);

#endif
