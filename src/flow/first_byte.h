/* SPDX-License-Identifier: MIT
 * Packets of outcomes and targets, and those between them, by their first byte. */
#ifndef COFI_FLOW_FIRST_BYTE_H
#define COFI_FLOW_FIRST_BYTE_H

#include <stdint.h>

/* Something for each value of a byte. */
#define BYTES4(f, c) f(c), f((c) + 1), f((c) + 2), f((c) + 3)
#define BYTES16(f, c) BYTES4(f, c), BYTES4(f, (c) + 4), BYTES4(f, (c) + 8), BYTES4(f, (c) + 12)
#define BYTES64(f, c) BYTES16(f, c), BYTES16(f, (c) + 16), BYTES16(f, (c) + 32), BYTES16(f, (c) + 48)
/* A short TNT [SDM Taken/Not-taken (TNT) Packet], [RTIT 4.2.2]: outcomes below a 1. How many, and above
 * bit 8 the outcomes. */
#define TNT_COUNT(v) ((v) < 2 ? 0 : (v) < 4 ? 1 : (v) < 8 ? 2 : (v) < 16 ? 3 : (v) < 32 ? 4 : (v) < 64 ? 5 : 6)
#define TNT_OUTCOMES(v) (uint16_t)(TNT_COUNT(v) | ((v) & ((1u << TNT_COUNT(v)) - 1)) << 8)
/* RTIT's TNT, and TIP by the bytes of its address, by their first byte; 0: another packet [RTIT 4.2]. */
#define RTIT_SIZE(c) ((c) && (c) < 0x80 ? 1 : ((c) & 0xf8) == 0xb0 && ((c) & 3) != 3 ? 3 + 2 * ((c) & 3) : 0)
/* PT's first bytes: an MTC, of two bytes [SDM Mini Time Counter (MTC) Packet], a TIP by its IPBytes
 * [SDM IP Compression]; TNT and TIP as above. */
enum { PT_MTC = 0x59 };
#define PT_TIP(code) ((code) << 5 | 0x0d)
#define PT_TIP_SIZE(code) ((code) == 1 ? 3 : (code) == 2 ? 5 : (code) == 3 || (code) == 4 ? 7 : (code) == 6 ? 9 : 0)
#define PT_SIZE(c) ((c) & 1 ? ((c) & 31) == PT_TIP(0) ? PT_TIP_SIZE((c) >> 5) : 0 : (c) != 0 && (c) != 2)
#define BYTES(f) BYTES64(f, 0u), BYTES64(f, 64u), BYTES64(f, 128u), BYTES64(f, 192u)

#endif
