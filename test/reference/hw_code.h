/* SPDX-License-Identifier: MIT
 * Random programs of real x86 code in several segments of addresses, and a table of their instructions that is not made by decoding them. */
#ifndef TEST_REFERENCE_HW_CODE_H
#define TEST_REFERENCE_HW_CODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum hw_kind {
    HW_OTHER, HW_JCC, HW_JMP, HW_CALL, HW_JMP_IND, HW_CALL_IND, HW_RET,
    HW_FAR_IN,   /* SYSCALL, SYSENTER, INT n: into a kernel */
    HW_INT,      /* INT n, INT3: the same, with a FUP */
    HW_FAR_OUT,  /* IRET, SYSRET */
    HW_FAR_SAME, /* far JMP, CALL and RET: the same privilege, perhaps another mode */
    HW_MOV_CR3, HW_PTW4, HW_PTW8, HW_XBEGIN, HW_XEND, HW_XABORT,
    HW_VMENTRY, HW_VMPTRLD, HW_CPUID, /* leaves a guest */
    HW_MWAIT, HW_HLT, HW_IF, HW_WRMSR, HW_ENCLU, HW_FAULT,
};

struct hw_insn {
    uint64_t ip, next, target;
    uint8_t kind, length;
    bool guard; /* a JCC past a call: taken where calls nest too deep */
};

enum hw_place { HW_USER, HW_USER_HIGH, HW_USER32, HW_USER16, HW_KERNEL, HW_KERNEL_LOW, HW_KERNEL32, HW_REAL, HW_GUEST, HW_SEGMENTS };
enum { HW_BYTES = 3000 };

struct hw_segment {
    uint64_t base;
    unsigned mode, cpl;
    uint8_t bytes[HW_BYTES];
    size_t size;
    struct hw_insn at[HW_BYTES]; /* by offset; length 0: none begins there */
    uint16_t starts[HW_BYTES];   /* offsets of all */
    size_t starts_n;
};

struct hw_code {
    uint64_t seed;
    bool only32; /* 32-bit programs and kernels */
    bool calm; /* mostly direct calls and conditional branches: thousands of outcomes may come without a target */
    struct hw_segment segments[HW_SEGMENTS];
};

/* A stream of random numbers; the seed must not be 0. */
uint64_t hw_random(uint64_t *seed);
unsigned hw_below(uint64_t *seed, unsigned n);
void hw_code_make(struct hw_code *code, uint64_t seed);
const struct hw_insn *hw_code_find(const struct hw_code *code, uint64_t ip);

#endif
