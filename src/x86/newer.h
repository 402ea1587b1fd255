/* SPDX-License-Identifier: MIT
 * What Zydis does not know yet. */
#ifndef COFI_X86_NEWER_H
#define COFI_X86_NEWER_H

#include <cofi/insn.h>

/* Its name, without operands, and *insn; null: this table does not know it either. */
const char *cofi__insn_newer(struct cofi_insn *insn, unsigned mode, const uint8_t *bytes, size_t n);

#endif
