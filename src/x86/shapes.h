/* SPDX-License-Identifier: MIT
 * What no table knows: instructions by the shape of their prefixes. */
#ifndef COFI_X86_SHAPES_H
#define COFI_X86_SHAPES_H

#include <cofi/insn.h>

/* 64-bit code. An instruction with REX2, VEX or EVEX that Zydis does not know: its length, or
 * COFI_ERR_TRUNCATED, COFI_ERR_BAD_INSN: it has none of these, or more than 15 bytes. An unassigned
 * opcode passes for one that does not change control flow. */
int cofi__insn_by_shape(struct cofi_insn *insn, uint64_t ip, const uint8_t *bytes, size_t n);
/* What can be said of it in words, as snprintf. bytes: a whole instruction of which the former tells the length. */
int cofi__shape_print(const uint8_t *bytes, size_t n, char *out, size_t size);

#endif
