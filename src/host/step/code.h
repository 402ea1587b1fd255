/* SPDX-License-Identifier: MIT
 * Instruction bytes -> what stepping over it takes. */
#ifndef COFI_HOST_STEP_CODE_H
#define COFI_HOST_STEP_CODE_H

#include <sys/user.h>

#include "host/step/space.h"

/* Fill *code from bytes[0..n). Returns the length or an error of cofi_insn_decode. */
int cofi__step_code_decode(struct step_code *code, const uint8_t *bytes, size_t n, uint64_t ip, unsigned mode);
/* Will this JCC be taken with these registers? Asked where its successors do not tell. */
bool cofi__step_code_taken(const struct step_code *code, const struct user_regs_struct *regs, unsigned mode);

#endif
