/* SPDX-License-Identifier: MIT
 * Which defects a processor's trace has: for the decoder that works around them, and for the unit that shows them. */
#ifndef COFI_X86_ERRATA_H
#define COFI_X86_ERRATA_H

#include <stdint.h>

#include <cofi/packet.h>

/* Errata of the PT models [PTREF 9.8]; all of RTIT's [RTIT Appendix E]; Goldmont's FUP behind a far transfer. */
enum {
    ERR_BDM70 = 1 << 0, ERR_BDM64 = 1 << 1, ERR_SKD007 = 1 << 2, ERR_SKD022 = 1 << 3,
    ERR_SKD010 = 1 << 4, ERR_SKL014 = 1 << 5, ERR_APL12 = 1 << 6, ERR_APL11 = 1 << 7,
    ERR_SKL168 = 1 << 8, ERR_SKZ84 = 1 << 9, ERR_RTIT = 1 << 10, ERR_GOLDMONT = 1 << 11,
};

/* 0: none known. */
uint64_t cofi__cpu_errata(enum cofi_gen gen, uint32_t family, uint32_t model);

#endif
