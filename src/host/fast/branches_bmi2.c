/* SPDX-License-Identifier: MIT
 * For processors with AVX2 and BMI2. */
#define FAST_TARGET __attribute__((target("avx2,bmi,bmi2,lzcnt,popcnt")))
#include "host/fast/branches_loops.h"

FAST_INLINE uint64_t spread(uint64_t v) { return _pdep_u64(v, ALL(0x7e)); }

FAST_INLINE uint64_t gather(uint64_t heads, uint64_t below)
{
    return _pext_u64(__builtin_bswap64(heads), __builtin_bswap64(below));
}

FAST_INLINE unsigned first_byte(uint64_t v) { return (unsigned)_tzcnt_u64(v) / 8; }

FAST_INLINE uint64_t same_bytes(const uint8_t *a, const uint8_t *b)
{
    const __m256i *x = (const __m256i *)a, *y = (const __m256i *)b;
    __m256i low = _mm256_cmpeq_epi8(_mm256_loadu_si256(x), _mm256_loadu_si256(y));
    __m256i high = _mm256_cmpeq_epi8(_mm256_loadu_si256(x + 1), _mm256_loadu_si256(y + 1));
    return (uint64_t)(uint32_t)_mm256_movemask_epi8(high) << 32 | (uint32_t)_mm256_movemask_epi8(low);
}

const struct cofi__fast_branches cofi__fast_branches_bmi2 = {take_branches, take_to_target};
