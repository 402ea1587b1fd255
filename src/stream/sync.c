/* SPDX-License-Identifier: MIT
 * Bytes -> where the next or the previous PSB is. */
#include "stream/sync.h"

#include "base/bytes.h"

enum { PT_PSB = 16, RTIT_ZEROS = 8 };

/* Every PT PSB contains one of these as an 8-byte word at a multiple of 8 from any start. */
#define PT_EVEN UINT64_C(0x8202820282028202)
#define PT_ODD UINT64_C(0x0282028202820282)

/* Whether eight bytes may be inside of a PSB. RTIT: in each are four zeros at a multiple of 4. */
static inline unsigned is_pt_word(uint64_t w) { return w == PT_EVEN || w == PT_ODD; }
static inline bool is_rtit_word(uint64_t w) { return (uint32_t)w == 0 || w >> 32 == 0; }

/* The first i >= from (in steps of 8) with such a word at i; n: none. */
static size_t next_pt_word(const uint8_t *p, size_t n, size_t i)
{
    for (; n - i >= 32; i += 32) {
        unsigned hit = is_pt_word(le64(p + i)) | is_pt_word(le64(p + i + 8)) |
                       is_pt_word(le64(p + i + 16)) | is_pt_word(le64(p + i + 24));
        if (hit)
            break;
    }
    for (; n - i >= 8; i += 8)
        if (is_pt_word(le64(p + i)))
            return i;
    return n;
}

static size_t next_rtit_word(const uint8_t *p, size_t n, size_t i)
{
    for (; n - i >= 8; i += 8)
        if (is_rtit_word(le64(p + i)))
            return i;
    return n - i >= 4 && le32(p + i) == 0 ? i : n;
}

/* The run of 02 82 around the word at i, not before `from`: [*start, *end). */
static void pt_run(const uint8_t *p, size_t n, size_t from, size_t i, size_t *start, size_t *end)
{
    if (p[i] == 0x82)
        i++;
    for (*start = i; *start - from >= 2 && le16(p + *start - 2) == 0x8202;)
        *start -= 2;
    for (*end = i; n - *end >= 2 && le16(p + *end) == 0x8202;)
        *end += 2;
}

/* Keep what may be the beginning of a PSB at the end of p[0..n). */
static size_t pt_tail(const uint8_t *p, size_t n, size_t from)
{
    size_t end = n;
    if (end > from && p[end - 1] == 0x02)
        end--;
    size_t start = end;
    while (start - from >= 2 && end - start < PT_PSB && le16(p + start - 2) == 0x8202)
        start -= 2;
    return start;
}

static bool pt_find(const uint8_t *p, size_t n, size_t from, bool final, size_t *at)
{
    for (size_t i = from; (i = next_pt_word(p, n, i)) < n;) {
        size_t start, end;
        pt_run(p, n, from, i, &start, &end);
        bool open = !final && (end == n || (n - end == 1 && p[end] == 0x02));
        if (end - start >= PT_PSB) {
            *at = end - PT_PSB;
            return !open;
        }
        i = end > i + 8 ? end : i + 8;
    }
    *at = final ? n : pt_tail(p, n, from);
    return false;
}

/* C0 before the zeros around i makes it a PSB; *past: where the zeros end. */
static bool rtit_at(const uint8_t *p, size_t n, size_t from, size_t i, size_t *at, size_t *past)
{
    size_t start = i;
    while (start > from && p[start - 1] == 0)
        start--;
    for (*past = i; *past < n && p[*past] == 0;)
        ++*past;
    *at = start - 1;
    return start > from && p[start - 1] == 0xc0 && *past - start >= RTIT_ZEROS;
}

static bool rtit_find(const uint8_t *p, size_t n, size_t from, bool final, size_t *at)
{
    for (size_t i = from, past; (i = next_rtit_word(p, n, i)) < n; i = past > i + 4 ? past : i + 4)
        if (rtit_at(p, n, from, le32(p + i) == 0 ? i : i + 4, at, &past))
            return true;
    *at = n;
    if (!final) {
        size_t start = n;
        while (start > from && n - start < RTIT_ZEROS && p[start - 1] == 0)
            start--;
        if (start > from && p[start - 1] == 0xc0 && n - start < RTIT_ZEROS)
            *at = start - 1;
    }
    return false;
}

bool cofi__sync_find(enum cofi_gen gen, const uint8_t *p, size_t n, size_t from, bool final,
                     size_t *at)
{
    if (from >= n) {
        *at = n;
        return false;
    }
    return gen == COFI_PT ? pt_find(p, n, from, final, at) : rtit_find(p, n, from, final, at);
}

size_t cofi_sync_forward(enum cofi_gen gen, const uint8_t *bytes, size_t n, size_t from)
{
    size_t at;
    return cofi__sync_find(gen, bytes, n, from, true, &at) ? at : COFI_NO_PSB;
}

/* By blocks from the end: the last PSB that begins in a block is the last that a forward search
 * finds. What begins there ends at most one PSB behind it, a longer run of 02 82 does not begin
 * there. */
size_t cofi_sync_backward(enum cofi_gen gen, const uint8_t *bytes, size_t n, size_t before)
{
    enum { BLOCK = 4096 };
    for (size_t hi = before < n ? before : n, lo; hi; hi = lo) {
        lo = hi > BLOCK ? hi - BLOCK : 0;
        size_t end = n - hi > 2 * PT_PSB ? hi + 2 * PT_PSB : n, found = COFI_NO_PSB, at;
        for (size_t from = lo; cofi__sync_find(gen, bytes, end, from, end == n, &at) && at < hi;
             from = at + 1)
            found = at;
        if (found != COFI_NO_PSB)
            return found;
    }
    return COFI_NO_PSB;
}
