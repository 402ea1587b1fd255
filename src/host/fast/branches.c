/* SPDX-License-Identifier: MIT
 * For every x86-64 processor. */
#define FAST_TARGET
#include "host/fast/branches_loops.h"

/* Halves, their halves, and theirs: what lies above moves up by what the part below has too few. */
FAST_INLINE uint64_t spread(uint64_t v)
{
    v = (v & 0xffffff) | (v & UINT64_C(0xffffff000000)) << 8;
    v += (v & UINT64_C(0x00fff00000fff000)) * 0xf;
    v += (v & UINT64_C(0x0fc00fc00fc00fc0)) * 3;
    return v << 1;
}

/* Bits below markers, in pairs of lanes of 16 bits, put together in lanes of 32: the first one's are moved up by
 * being multiplied by the second one's marker. */
struct marked {
    __m128i bits, markers;
};

FAST_INLINE struct marked join(struct marked m)
{
    __m128i first = _mm_and_si128(m.markers, _mm_set1_epi32(0xffff)), second = _mm_srli_epi32(m.markers, 16);
    __m128i up = _mm_or_si128(second, _mm_set1_epi32(1 << 16)); /* the second one's stay */
    return (struct marked){_mm_madd_epi16(m.bits, up), _mm_madd_epi16(first, second)};
}

FAST_INLINE uint64_t gather(uint64_t heads, uint64_t below)
{
    const __m128i zero = _mm_setzero_si128();
    struct marked m = {_mm_unpacklo_epi8(_mm_cvtsi64_si128((long long)(heads & below)), zero),
                       _mm_unpacklo_epi8(_mm_cvtsi64_si128((long long)(below + ALL(1))), zero)};
    m = join(m);
    m = join((struct marked){_mm_packs_epi32(m.bits, zero), _mm_packs_epi32(m.markers, zero)});
    uint64_t both = (uint64_t)_mm_cvtsi128_si64(m.bits), markers = (uint64_t)_mm_cvtsi128_si64(m.markers);
    return (both & UINT32_MAX) * (markers >> 32) + (both >> 32);
}

FAST_INLINE unsigned first_byte(uint64_t v) { return v ? (unsigned)__builtin_ctzll(v) / 8 : 8; }

FAST_INLINE uint64_t same_bytes(const uint8_t *a, const uint8_t *b)
{
    const __m128i *x = (const __m128i *)a, *y = (const __m128i *)b;
    uint64_t same = 0;
    for (unsigned i = 0; i < 4; i++) {
        __m128i equal = _mm_cmpeq_epi8(_mm_loadu_si128(x + i), _mm_loadu_si128(y + i));
        same |= (uint64_t)(unsigned)_mm_movemask_epi8(equal) << 16 * i;
    }
    return same;
}

const struct cofi__fast_branches cofi__fast_branches_usual = {take_branches, take_to_target};
