/* SPDX-License-Identifier: MIT
 * 64 bytes of a PT trace at once: what sift_avx512.c and sift_avx2.c have in common before they differ. Behind it each
 * defines, with the instructions that it has (WIDE_TARGET), what sift_windows.h is made of; masks have a bit a byte,
 * lowest first:
 *
 *   vec, VECS                        a vector register, and how many are 64 bytes
 *   OP(name), OF(name)               its intrinsics, by what follows _mm…_; OF: of which the name ends in the size
 *   kinds_of(v)                      what each byte begins, see below
 *   is(v, c), with(v, bit), at_least(v, c)   which bytes are c, have the bit, are c or more
 *   only(v, mask)                    zeros elsewhere
 *   put_kept(q, keep, p)             those of 64 bytes at p that are in the mask; up to 64 are written
 *   put_behind(q, kept, at)          of 64 bytes those from at on; 64 are written, and 64 read from there
 *   each(v)                          16 bytes in each 16 of the register */
#ifndef COFI_FLOW_SIFT_LANES_H
#define COFI_FLOW_SIFT_LANES_H

#include <immintrin.h>
#include <string.h>

#include "base/bytes.h"
#include "flow/sift.h"
#include "flow/walker.h"

#define WIDE static inline __attribute__((always_inline, WIDE_TARGET))

/* What a byte begins: its packet's size, and which it is. TWO alone: an MTC; neither of these four: a
 * TNT. A PAD is a CYC of no cycles. OTHER: a packet that is for the loop that goes packet by packet. */
enum { SIZE = 0x0f, TWO = 0x10, CYC = 0x20, TIP = 0x40, OTHER = 0x80 };

#define KIND(c) \
    ((c) == 0          ? CYC | 1 : \
     (c) == PT_MTC     ? TWO | 2 : \
     PT_SIZE(c) > 1    ? TIP | PT_SIZE(c) : \
     PT_SIZE(c)        ? 1 : \
     ((c) & 7) == 3    ? CYC | 1 : \
     ((c) & 7) == 7    ? CYC | TWO | 2 : OTHER | 1)

enum { WINDOW = SIFT_WINDOW, GROUP = 16 };

#endif
