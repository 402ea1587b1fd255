/* SPDX-License-Identifier: MIT
 * The sieve by windows, for processors with AVX-512 VBMI2. */
#define WIDE_TARGET target("avx512f,avx512bw,avx512vl,avx512vbmi,avx512vbmi2,bmi,bmi2,lzcnt,popcnt")
#include "flow/sift_lanes.h"

typedef __m512i vec;
enum { VECS = 1 };
#define OP(name) _mm512_##name
#define OF(name) _mm512_##name##_si512

static const _Alignas(64) uint8_t kinds[256] = {BYTES(KIND)};

/* [SDM Packet Definitions] */
WIDE vec kinds_of(vec v)
{
    const vec *table = (const vec *)kinds;
    vec low = _mm512_permutex2var_epi8(table[0], v, table[1]), high = _mm512_permutex2var_epi8(table[2], v, table[3]);
    return _mm512_mask_blend_epi8(_mm512_movepi8_mask(v), low, high);
}

WIDE vec each(__m128i v) { return _mm512_broadcast_i32x4(v); }
WIDE uint64_t with(vec v, unsigned bit)
{
    return bit == 0x80 ? _mm512_movepi8_mask(v) : _mm512_test_epi8_mask(v, _mm512_set1_epi8((char)bit));
}

WIDE uint64_t at_least(vec v, unsigned c) { return _mm512_cmpge_epu8_mask(v, _mm512_set1_epi8((char)c)); }
WIDE uint64_t is(vec v, unsigned c) { return _mm512_cmpeq_epi8_mask(v, _mm512_set1_epi8((char)c)); }
WIDE vec only(vec v, uint64_t mask) { return _mm512_maskz_mov_epi8(mask, v); }

WIDE void put_kept(uint8_t *q, uint64_t keep, const uint8_t *p)
{
    _mm512_storeu_si512(q, _mm512_maskz_compress_epi8(keep, _mm512_loadu_si512(p)));
}

WIDE void put_behind(uint8_t *q, const uint8_t *kept, unsigned at) { put_kept(q, ~UINT64_C(0) << at, kept); }

#include "flow/sift_windows.h"

__attribute__((WIDE_TARGET))
void cofi__sift_avx512(struct sift *w, struct cofi__clock *clock, const uint8_t *stop, const uint8_t *end)
{
    sift_windows(w, clock, stop, end);
}

bool cofi__sift_avx512_here(void)
{
    return __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
           __builtin_cpu_supports("avx512vbmi") && __builtin_cpu_supports("avx512vbmi2") &&
           __builtin_cpu_supports("bmi2");
}
