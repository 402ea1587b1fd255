/* SPDX-License-Identifier: MIT
 * What an instruction is to a trace: its length and how it ends a block. */
#ifndef COFI_INSN_H
#define COFI_INSN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Classes after [SDM Change of Flow Instruction (COFI) Tracing] and [RTIT Table 2]. */
#define COFI_CLASSES(X)                                                                            \
    X(OTHER, "other")                                                                              \
    X(JCC, "cond")         /* Jcc, JCXZ, LOOP: a TNT bit */                                        \
    X(JMP, "jump")         /* direct near */                                                       \
    X(CALL, "call")                                                                                \
    X(JMP_IND, "jump*")                                                                            \
    X(CALL_IND, "call*")                                                                           \
    X(RET, "ret")                                                                                  \
    X(FAR_JMP, "far-jump")                                                                         \
    X(FAR_CALL, "far-call") /* far CALL, SYSCALL, SYSENTER, INT n, INT3, INT1, INTO */             \
    X(FAR_RET, "far-ret")  /* far RET, IRET, SYSRET, SYSEXIT, UIRET, ERETU, ERETS, RSM */          \
    X(VMENTRY, "vmentry")  /* VMLAUNCH, VMRESUME */                                                \
    X(MOV_CR3, "mov-cr3")                                                                          \
    X(PTWRITE, "ptwrite")                                                                          \
    X(VMPTRLD, "vmptrld")                                                                          \
    X(TSX, "tsx")          /* XBEGIN, XEND, XABORT: may move a transaction */

enum cofi_class {
#define X(name, text) COFI_CLASS_##name,
    COFI_CLASSES(X)
#undef X
    COFI_CLASS_KINDS
};

struct cofi_insn {
    uint8_t length;   /* bytes, 1..15 */
    uint8_t cls;      /* enum cofi_class */
    uint8_t far;      /* FAR_*: enum cofi_far of event.h */
    uint8_t prefixes; /* FAR_*, VMENTRY: how many prefix bytes it has [ERR E1]; else 0 */
    bool writes;      /* writes memory explicitly (RTIT and PT do not care; hosts
                       * that watch code do) */
    uint64_t target;  /* JCC, JMP, CALL, XBEGIN: the direct target, truncated to the
                       * mode's width; 16-bit code above 64 KiB, which lies in a
                       * segment with a base: to 32 bits */
};

/* Decode the instruction at bytes[0..n), which lies at ip, in mode 16, 32 or 64. Returns its
 * length, or COFI_ERR_TRUNCATED (n < length), COFI_ERR_BAD_INSN. Thread safe, as the others. */
int cofi_insn_decode(struct cofi_insn *insn, unsigned mode, uint64_t ip, const uint8_t *bytes,
                     size_t n);
/* Disassembly in Intel syntax (symbol-free), e.g. "mov rax, [rbx+0x8]". Returns the
 * length as snprintf, or COFI_ERR_BAD_INSN. */
int cofi_insn_print(unsigned mode, uint64_t ip, const uint8_t *bytes, size_t n, char *out,
                    size_t size);
const char *cofi_class_name(enum cofi_class cls);

#ifdef __cplusplus
}
#endif
#endif
