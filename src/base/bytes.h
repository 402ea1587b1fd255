/* SPDX-License-Identifier: MIT
 * Little-endian reads and writes; the caller has checked the bounds. */
#ifndef COFI_BASE_BYTES_H
#define COFI_BASE_BYTES_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* memcpy is how C says "unaligned load"; the hosts of cofi are little-endian [design decision]. Built
 * in: in a freestanding program, which the fast host's runtime is, a plain one is a call. */
static inline uint16_t le16(const uint8_t *p) { uint16_t v; __builtin_memcpy(&v, p, sizeof v); return v; }
static inline uint32_t le32(const uint8_t *p) { uint32_t v; __builtin_memcpy(&v, p, sizeof v); return v; }
static inline uint64_t le64(const uint8_t *p) { uint64_t v; __builtin_memcpy(&v, p, sizeof v); return v; }

/* n bytes, 0..8. */
static inline uint64_t le(const uint8_t *p, size_t n)
{
    uint64_t v = 0;
    memcpy(&v, p, n);
    return v;
}

static inline void put_le(uint8_t *p, uint64_t v, size_t n) { memcpy(p, &v, n); }

/* Bits [lsb, lsb + width) of v. */
static inline uint64_t bits(uint64_t v, unsigned lsb, unsigned width)
{
    return (v >> lsb) & (width < 64 ? (UINT64_C(1) << width) - 1 : UINT64_MAX);
}

/* Sign-extend from the given bit. */
static inline uint64_t sext(uint64_t v, unsigned bit)
{
    unsigned shift = 63 - bit;
    return (uint64_t)((int64_t)(v << shift) >> shift);
}

#endif
