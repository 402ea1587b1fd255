/* SPDX-License-Identifier: MIT
 * What this x86-64 processor has. */
#ifndef COFI_BASE_CPU_H
#define COFI_BASE_CPU_H

#include <stdbool.h>

/* AVX2, and PEXT and PDEP that are fast: AMD's before Zen 3 take hundreds of cycles for these. */
static inline bool cofi__has_avx2_bmi2(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi2") && !__builtin_cpu_is("znver1") &&
           !__builtin_cpu_is("znver2") && !__builtin_cpu_is("bdver4");
}

#endif
