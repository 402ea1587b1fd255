/* SPDX-License-Identifier: MIT
 * The sieve by windows, for processors with AVX2. */
#define WIDE_TARGET target("avx2,bmi,bmi2,lzcnt,popcnt")
#include "base/cpu.h"
#include "flow/sift_lanes.h"

typedef __m256i vec;
enum { VECS = 2 };
#define OP(name) _mm256_##name
#define OF(name) _mm256_##name##_si256

WIDE vec each(__m128i v) { return _mm256_broadcastsi128_si256(v); }
WIDE vec all(unsigned c) { return _mm256_set1_epi8((char)c); }
WIDE uint32_t signs(vec v) { return (uint32_t)_mm256_movemask_epi8(v); }
WIDE vec are(vec v, unsigned c) { return _mm256_cmpeq_epi8(v, all(c)); }
WIDE uint32_t is(vec v, unsigned c) { return signs(are(v, c)); }
WIDE uint32_t at_least(vec v, unsigned c) { return signs(_mm256_cmpeq_epi8(_mm256_max_epu8(v, all(c)), v)); }
WIDE uint32_t with(vec v, unsigned bit) { return signs(_mm256_slli_epi16(v, __builtin_clz(bit) - 24)); }

/* Each byte has its bit of the mask's, 8 bytes a byte of it. */
WIDE vec only(vec v, uint64_t mask)
{
    const vec from = _mm256_setr_epi64x(0, 0x0101010101010101, 0x0202020202020202, 0x0303030303030303);
    const vec bit = _mm256_set1_epi64x((long long)0x8040201008040201);
    vec bits = _mm256_and_si256(_mm256_shuffle_epi8(_mm256_set1_epi32((int)mask), from), bit);
    return _mm256_and_si256(v, _mm256_cmpeq_epi8(bits, bit));
}

/* By the low four bits: TNTs, CYCs; those that are none of these are told apart by all of them
 * [SDM Packet Definitions]. */
WIDE vec kinds_of(vec v)
{
    enum { TIP_BITS = 0x1f };
    const vec low = each(_mm_setr_epi8(1, (char)(OTHER | 1), 1, CYC | 1, 1, (char)(OTHER | 1), 1, CYC | TWO | 2, 1,
                                       (char)(OTHER | 1), 1, CYC | 1, 1, (char)(OTHER | 1), 1, CYC | TWO | 2));
    const vec tips = each(_mm_setr_epi8((char)KIND(PT_TIP(0)), KIND(PT_TIP(1)), KIND(PT_TIP(2)), KIND(PT_TIP(3)),
                                        KIND(PT_TIP(4)), (char)KIND(PT_TIP(5)), KIND(PT_TIP(6)), (char)KIND(PT_TIP(7)),
                                        0, 0, 0, 0, 0, 0, 0, 0));
    vec kind = _mm256_shuffle_epi8(low, _mm256_and_si256(v, all(15)));
    vec tip = _mm256_shuffle_epi8(tips, _mm256_and_si256(_mm256_srli_epi16(v, 5), all(7)));
    kind = _mm256_blendv_epi8(kind, tip, are(_mm256_and_si256(v, all(TIP_BITS)), PT_TIP(0) & TIP_BITS));
    kind = _mm256_blendv_epi8(kind, all(TWO | 2), are(v, PT_MTC));
    kind = _mm256_blendv_epi8(kind, all(CYC | 1), are(v, 0));
    return _mm256_or_si256(kind, _mm256_and_si256(are(v, 2), all(OTHER)));
}

WIDE void put_kept(uint8_t *q, uint64_t keep, const uint8_t *p)
{
    for (unsigned i = 0; i < WINDOW; i += 8) {
        uint64_t bytes = _pdep_u64(keep >> i, UINT64_C(0x0101010101010101)) * 0xff;
        put_le(q, _pext_u64(le64(p + i), bytes), 8);
        q += _mm_popcnt_u64(keep >> i & 0xff);
    }
}

WIDE void put_behind(uint8_t *q, const uint8_t *kept, unsigned at)
{
    memcpy(q, kept + at, WINDOW);
}

#include "flow/sift_windows.h"

__attribute__((WIDE_TARGET))
void cofi__sift_avx2(struct sift *w, struct cofi__clock *clock, const uint8_t *stop, const uint8_t *end)
{
    sift_windows(w, clock, stop, end);
}

bool cofi__sift_avx2_here(void) { return cofi__has_avx2_bmi2(); }
