/* SPDX-License-Identifier: MIT
 * The sieve's work, 64 bytes of a PT trace at a time, for processors with AVX-512 VBMI2. */
#include "flow/sift.h"

#include <immintrin.h>

#include "base/bytes.h"
#include "flow/walker.h"

#define WIDE_TARGET target("avx512f,avx512bw,avx512vl,avx512vbmi,avx512vbmi2,bmi,bmi2,lzcnt,popcnt")
#define WIDE static inline __attribute__((always_inline, WIDE_TARGET))

/* What a byte begins: its packet's size, and which it is. TWO alone: an MTC; neither of these four: a TNT. A PAD is a CYC of no cycles. OTHER: a
 * packet that is for the loop that goes packet by packet. */
enum { SIZE = 0x0f, TWO = 0x10, CYC = 0x20, TIP = 0x40, OTHER = 0x80 };

#define KIND(c) \
    ((c) == 0 ? CYC | 1 : (c) == PT_MTC ? TWO | 2 : PT_SIZE(c) > 1 ? TIP | PT_SIZE(c) : PT_SIZE(c) ? 1 : ((c) & 7) == 3 ? CYC | 1 : \
     ((c) & 7) == 7 ? CYC | TWO | 2 : OTHER | 1)
static const _Alignas(64) uint8_t kinds[256] = {BYTES(KIND)};

enum { WINDOW = SIFT_WINDOW, READS = WINDOW + 8, WINDOWS = 8 };

/* 64 bytes of trace, a bit each. */
struct window {
    uint64_t tnt, tip, cyc; /* where these begin */
    uint64_t two;           /* of timing those that have two bytes */
    uint64_t partial;       /* TNTs of fewer than 6 outcomes */
    uint64_t far;           /* TIPs that tell whether their target is the kernel's */
    uint64_t keep;          /* bytes of TNTs and TIPs */
};

/* The packet that reaches into the next window: by so many bytes, which are timing or not. */
struct carry {
    unsigned at;
    uint64_t timing;
};

/* ---- where packets begin ---- */

/* Each byte's kind [SDM Packet Definitions]. */
WIDE __m512i kinds_of(__m512i v)
{
    const __m512i *table = (const __m512i *)kinds;
    __m512i low = _mm512_permutex2var_epi8(table[0], v, table[1]), high = _mm512_permutex2var_epi8(table[2], v, table[3]);
    return _mm512_mask_blend_epi8(_mm512_movepi8_mask(v), low, high);
}

/* From each byte on, were it a packet's first one, whose are the next ones up to the end of its 16? `next` is where the one behind
 * a packet begins, then behind two, four and eight; what is outside of the 16 has bit 7, which PSHUFB leaves out. Then only
 * four steps have to wait for each other. *at: where the first packet begins; then where the first one does that is behind the window. */
WIDE uint64_t starts_of(__m512i kind, unsigned *at)
{
    enum { IN = 0x70, GROUP = 16 };
    const __m512i lane = _mm512_broadcast_i32x4(_mm_setr_epi8(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15));
    __m512i low = _mm512_broadcast_i32x4(_mm_set_epi64x(0, (long long)0x8040201008040201)),
            high = _mm512_broadcast_i32x4(_mm_set_epi64x((long long)0x8040201008040201, 0));
    __m512i next = _mm512_add_epi8(_mm512_add_epi8(lane, _mm512_set1_epi8(IN)), _mm512_and_si512(kind, _mm512_set1_epi8(SIZE)));
    _Alignas(64) uint8_t lows[WINDOW], highs[WINDOW], ends[WINDOW];
    for (unsigned i = 0; i < 4; i++) {
        low = _mm512_or_si512(low, _mm512_shuffle_epi8(low, next));
        high = _mm512_or_si512(high, _mm512_shuffle_epi8(high, next));
        next = _mm512_max_epu8(next, _mm512_shuffle_epi8(next, next));
    }
    _mm512_store_si512(lows, low);
    _mm512_store_si512(highs, high);
    _mm512_store_si512(ends, next);
    uint64_t starts = 0;
    for (unsigned group = 0; group < WINDOW; group += GROUP) {
        unsigned first = group + *at;
        starts |= (uint64_t)(lows[first] | highs[first] << 8) << group;
        *at = ends[first] - (IN + GROUP);
    }
    return starts;
}

WIDE uint64_t with(__m512i kind, unsigned which) { return _mm512_test_epi8_mask(kind, _mm512_set1_epi8((char)which)); }
WIDE uint64_t at_least(__m512i kind, unsigned which) { return _mm512_cmpge_epu8_mask(kind, _mm512_set1_epi8((char)which)); }
WIDE uint64_t is(__m512i v, unsigned which) { return _mm512_cmpeq_epi8_mask(v, _mm512_set1_epi8((char)which)); }
WIDE uint64_t signs(__m512i v) { return (uint64_t)_mm512_movepi8_mask(v); }

/* False where there are other packets, or long CYCs. */
WIDE bool look(struct window *x, const uint8_t *bytes, struct carry *carry)
{
    __m512i v = _mm512_loadu_si512(bytes), kind = kinds_of(v);
    uint64_t starts = starts_of(kind, &carry->at);
    x->tip = with(kind, TIP) & starts;
    x->cyc = with(kind, CYC) & starts;
    x->two = with(kind, TWO) & starts;
    x->far = at_least(kind, TIP | 7) & x->tip;
    x->tnt = starts & ~(x->tip | x->cyc | x->two);
    x->partial = x->tnt & ~signs(v);
    x->keep = ~(x->cyc | x->two | x->two << 1 | carry->timing);
    carry->timing = x->two >> 63;
    return !((signs(kind) & starts) | (x->two & x->cyc & with(_mm512_loadu_si512(bytes + 1), 1)));
}

/* ---- timing ---- */

/* The cycles of some CYCs of one or two bytes, in eight parts [SDM Cycle Count Packet (CYC) Packet]. */
WIDE __m512i cycles_of(const struct window *x, const uint8_t *bytes, uint64_t which)
{
    __m512i v = _mm512_loadu_si512(bytes), behind = _mm512_loadu_si512(bytes + 1), zero = _mm512_setzero_si512();
    __m512i low = _mm512_and_si512(_mm512_srli_epi16(v, 3), _mm512_set1_epi8(0x1f));
    __m512i high = _mm512_and_si512(_mm512_srli_epi16(behind, 1), _mm512_set1_epi8(0x7f));
    __m512i lows = _mm512_sad_epu8(_mm512_maskz_mov_epi8(which, low), zero);
    __m512i highs = _mm512_sad_epu8(_mm512_maskz_mov_epi8(which & x->two, high), zero);
    return _mm512_add_epi64(lows, _mm512_slli_epi64(highs, 5));
}

/* The window's MTCs, and the cycles before each. Returns those behind the last one. */
WIDE __m512i tell(struct cofi__clock *clock, const struct window *x, const uint8_t *bytes, __m512i cycles)
{
    uint64_t left = x->cyc;
    for (uint64_t mtc = x->two & ~x->cyc; mtc; mtc = _blsr_u64(mtc)) {
        uint64_t before = _blsmsk_u64(mtc);
        clock->cycles += (uint64_t)_mm512_reduce_add_epi64(_mm512_add_epi64(cycles, cycles_of(x, bytes, left & before)));
        cofi__clock_mtc(clock, bytes[_tzcnt_u64(mtc) + 1]);
        cycles = _mm512_setzero_si512();
        left &= ~before;
    }
    return _mm512_add_epi64(cycles, cycles_of(x, bytes, left));
}

/* ---- outcomes and targets ---- */

/* May one of the targets be in user mode, and the one before in the kernel? Addresses of 6 and 8 bytes tell [SDM IP Compression]. */
WIDE bool leaves_kernel(const struct window *x, const uint8_t *bytes, uint64_t *last_ip)
{
    __m512i v = _mm512_loadu_si512(bytes);
    uint64_t of_6 = x->far & is(v, PT_TIP(3)), of_8 = x->far & is(v, PT_TIP(6)), all = of_6 | of_8;
    uint64_t kernel = (of_6 & signs(_mm512_loadu_si512(bytes + 6))) | (of_8 & signs(_mm512_loadu_si512(bytes + 8)));
    if (kernel != all && (kernel || *last_ip >> 63))
        return true;
    if (all)
        *last_ip = kernel ? ~UINT64_C(0) : 0;
    return false;
}

/* Outcomes of up to 8 TNTs, put to those that wait; six of them are a TNT. */
WIDE uint8_t *merge_8(struct sift *w, uint8_t *q, const uint8_t *tnts, unsigned count)
{
    uint64_t x = __builtin_bswap64(le64(tnts)) & ~UINT64_C(0) << (64 - 8 * count);
    uint64_t below = x >> 1 & UINT64_C(0x7f7f7f7f7f7f7f7f); /* all bits below each byte's highest */
    below |= below >> 1 & UINT64_C(0x3f3f3f3f3f3f3f3f);
    below |= below >> 2 & UINT64_C(0x1f1f1f1f1f1f1f1f);
    below |= below >> 4 & UINT64_C(0x0707070707070707);
    below &= UINT64_C(0xfefefefefefefefe);
    unsigned bits = (unsigned)_mm_popcnt_u64(below), n = w->n + bits, full = n * 43 / 256; /* n / 6 */
    w->acc = w->acc << bits | _pext_u64(x, below);
    w->n = n - 6 * full;
    uint64_t out = _pdep_u64(w->acc >> w->n << (48 - 6 * full), UINT64_C(0x7e7e7e7e7e7e7e7e)) | UINT64_C(0x8080808080808080);
    put_le(q, __builtin_bswap64(out), 8);
    return q + full;
}

WIDE uint8_t *merge(struct sift *w, uint8_t *q, const uint8_t *tnts, unsigned count)
{
    for (; count > 8; count -= 8, tnts += 8)
        q = merge_8(w, q, tnts, 8);
    return count ? merge_8(w, q, tnts, count) : q;
}

/* The first set bit from one on, at most n. */
WIDE unsigned next_bit(uint64_t bits, unsigned from, unsigned n)
{
    bits &= ~UINT64_C(0) << from;
    return bits ? (unsigned)_tzcnt_u64(bits) : n;
}

/* Bytes kept, where TNTs were cut: those between a cut and the next target have to be put together anew. */
WIDE uint8_t *put_cut(struct sift *w, uint8_t *q, __m512i v, uint64_t tips, uint64_t cuts, unsigned n)
{
    _Alignas(64) uint8_t kept[WINDOW + 8];
    _mm512_store_si512(kept, v);
    put_le(kept + WINDOW, 0, 8);
    for (unsigned at = 0; at < n;) {
        if (!w->n) {
            unsigned cut = next_bit(cuts, at, n);
            _mm512_storeu_si512(q, _mm512_maskz_compress_epi8(~UINT64_C(0) << at, v));
            q += cut - at;
            at = cut;
            if (at == n)
                break;
        }
        unsigned tip = next_bit(tips, at, n);
        q = merge(w, q, kept + at, tip - at);
        at = tip;
        if (at < n && w->n) {
            *q++ = short_tnt(w->acc, w->n, true);
            w->n = 0;
        }
    }
    return q;
}

WIDE uint8_t *put(struct sift *w, uint8_t *q, const struct window *x, const uint8_t *bytes)
{
    __m512i v = _mm512_maskz_compress_epi8(x->keep, _mm512_loadu_si512(bytes));
    unsigned n = (unsigned)_mm_popcnt_u64(x->keep);
    uint64_t tips = _pext_u64(x->tip, x->keep), cuts = _pext_u64(x->partial, x->keep) & ~(tips >> 1);
    if (w->n || cuts)
        return put_cut(w, q, v, tips, cuts, n);
    _mm512_storeu_si512(q, v);
    return q + n;
}

WIDE const uint8_t *last_of(const uint8_t *bytes, uint64_t bits) { return bytes + 63 - _lzcnt_u64(bits); }

WIDE void note_last(struct sift *w, const struct window *x, const uint8_t *bytes)
{
    if (x->tnt)
        w->tnt = last_of(bytes, x->tnt);
    if (!x->tip)
        return;
    const uint8_t *last = last_of(bytes, x->tip);
    uint64_t before = x->tip & ~(UINT64_C(1) << (last - bytes));
    w->tip_before = before ? last_of(bytes, before) : w->tip;
    w->tip = last;
}

/* What is left of a TIP that begins in the last window, behind it. */
WIDE uint8_t *put_rest(uint8_t *q, const uint8_t *p, const struct carry *carry)
{
    memcpy(q, p, 8);
    return carry->timing ? q : q + carry->at;
}

/* The next windows, until there is a packet that cannot be taken here: all of them first, for that waits for no branch. */
WIDE unsigned look_ahead(struct window *x, const uint8_t *p, const uint8_t *stop, const uint8_t *end, uint64_t *last_ip, struct carry *carry)
{
    unsigned n = 0;
    for (; n < WINDOWS && p + carry->at <= stop && end - p >= READS; n++, p += WINDOW) {
        struct carry next = *carry;
        if (!look(&x[n], p, &next) || (x[n].far && leaves_kernel(&x[n], p, last_ip)))
            break;
        *carry = next;
    }
    return n;
}

__attribute__((WIDE_TARGET))
void cofi__sift_wide(struct sift *w, struct cofi__clock *clock, const uint8_t *stop, const uint8_t *end)
{
    struct window x[WINDOWS];
    while (w->p <= stop) {
        struct carry carry = {0};
        unsigned n = look_ahead(x, w->p, stop, end, &w->last_ip, &carry);
        if (!n)
            break;
        __m512i cycles = _mm512_setzero_si512();
        for (unsigned i = 0; i < n; i++) {
            w->q = put(w, w->q, &x[i], w->p + i * WINDOW);
            note_last(w, &x[i], w->p + i * WINDOW);
        }
        for (unsigned i = 0; i < n; i++)
            cycles = tell(clock, &x[i], w->p + i * WINDOW, cycles);
        clock->cycles += (uint64_t)_mm512_reduce_add_epi64(cycles);
        w->p += n * WINDOW;
        w->q = put_rest(w->q, w->p, &carry);
        w->p += carry.at;
    }
}

bool cofi__sift_wide_here(void)
{
    return __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512vbmi") &&
           __builtin_cpu_supports("avx512vbmi2") && __builtin_cpu_supports("bmi2");
}
