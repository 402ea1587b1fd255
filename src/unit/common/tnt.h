/* SPDX-License-Identifier: MIT
 * Conditional outcomes -> the bits of the next TNT packet, with the valid bit as its leading one. */
#ifndef COFI_UNIT_COMMON_TNT_H
#define COFI_UNIT_COMMON_TNT_H

#include <stdbool.h>
#include <stdint.h>

/* 1 is empty; outcomes shift in at bit 0, oldest next to the leading one. This is RTIT_TNT_BUFF as it
 * stands [RTIT Table 15] and, shifted left by one, PT's short TNT [SDM Taken/Not-taken (TNT) Packet].
 * Holds up to 63 bits, so PT's long TNT fits too. */
typedef uint64_t cofi__tnt; /* a scalar: the house has no typedef for structs */

enum { COFI__TNT_EMPTY = 1 };

static inline cofi__tnt cofi__tnt_push(cofi__tnt tnt, bool taken) { return tnt << 1 | taken; }
static inline bool cofi__tnt_empty(cofi__tnt tnt) { return tnt == COFI__TNT_EMPTY; }
static inline unsigned cofi__tnt_count(cofi__tnt tnt) { return 63 - (unsigned)__builtin_clzll(tnt); }
static inline bool cofi__tnt_full(cofi__tnt tnt, unsigned limit) { return tnt >> limit != 0; }
/* The outcomes without the valid bit: youngest at bit 0, as struct cofi_packet has them. */
static inline uint64_t cofi__tnt_bits(cofi__tnt tnt)
{
    return tnt ^ (UINT64_C(1) << cofi__tnt_count(tnt));
}

#endif
