/* SPDX-License-Identifier: MIT
 * Packets that defects of the processor made longer or shorter, by their bytes [PTREF 9.8]. */
#ifndef COFI_PACKET_ERRATA_H
#define COFI_PACKET_ERRATA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SKD007_LEFT = 1, SKD007_SEEN = 3, SKZ84_SIZE = 8 };

/* [ERR SKD007]: an OVF wrote over the end of a CYC, of which SKD007_LEFT bytes are left. The stray
 * second byte is OVF's first. */
static inline bool cofi__is_skd007(const uint8_t *p, size_t n)
{
    return n >= SKD007_SEEN && (p[0] & 7) == 7 && p[1] == 2 && p[2] == 0xf3;
}

/* [ERR SKZ84]: a TMA with reserved bits set has an extra byte and tells nothing. */
static inline bool cofi__is_skz84(const uint8_t *p, size_t n)
{
    return n >= SKZ84_SIZE && p[0] == 2 && p[1] == 0x73 && (p[4] || p[6] & 0xfe);
}

#endif
