/* SPDX-License-Identifier: MIT
 * A block's points, packed: which guest instruction a byte of code belongs to, and what to restore
 * there. They are read when a signal comes only, and there are many. Each takes
 *    7 6   5      4     3  0
 *   | 0 | bits | fix | step |  offset | [pc, 4 bytes] | [fix, 2 bytes] | [bits, 1 byte]
 * step: the guest address, from the last point's; FAR: from the block's, in 4 bytes. offset: of the code, from
 * the last point's; FAR_CODE: 2 bytes follow. fix and bits stand there where they are not the last point's. */
#include "host/fast/rt/block.h"

enum { STEP = 15, FAR = 15, HAS_FIX = 16, HAS_BITS = 32, FAR_CODE = 255 };

/* Where both ways begin. */
static const struct point origin = {.bits = 1};

#define PUT(to, v) (__builtin_memcpy(to, &(v), sizeof(v)), (to) += sizeof(v))
#define TAKE(v, from) (__builtin_memcpy(&(v), from, sizeof(v)), (from) += sizeof(v))

static uint8_t *pack(uint8_t *to, const struct point *p, const struct point *last)
{
    int32_t step = p->pc - last->pc;
    uint16_t offset = (uint16_t)(p->offset - last->offset);
    bool far = step < 0 || step >= FAR, fix = p->fix != last->fix, bits = p->bits != last->bits;
    *to++ = (uint8_t)((far ? FAR : step) | (fix ? HAS_FIX : 0) | (bits ? HAS_BITS : 0));
    *to++ = offset < FAR_CODE ? (uint8_t)offset : FAR_CODE;
    if (offset >= FAR_CODE)
        PUT(to, offset);
    if (far)
        PUT(to, p->pc);
    /* Without branches: which point differs from the last one cannot be foreseen. */
    __builtin_memcpy(to, &p->fix, sizeof p->fix);
    to += fix * sizeof p->fix;
    *to = p->bits;
    return to + bits;
}

/* Pack n points, POINT_BYTES_MAX each at most. Returns the bytes. */
size_t points_pack(uint8_t *to, const struct point *points, unsigned n)
{
    uint8_t *at = to;
    for (unsigned i = 0; i < n; i++)
        at = pack(at, &points[i], i ? &points[i - 1] : &origin);
    return (size_t)(at - to);
}

/* The next point, from the last one. */
static const uint8_t *unpack(struct point *p, const uint8_t *at)
{
    uint8_t head = *at++;
    uint16_t offset = *at++;
    if (offset == FAR_CODE)
        TAKE(offset, at);
    p->offset = (uint16_t)(p->offset + offset);
    p->pc += head & STEP;
    if ((head & STEP) == FAR)
        TAKE(p->pc, at);
    if (head & HAS_FIX)
        TAKE(p->fix, at);
    if (head & HAS_BITS)
        p->bits = *at++;
    return at;
}

/* The last point at or before an address in the block's code; false: there is none. */
bool point_find(const struct block *b, const uint8_t *code, struct point *found)
{
    const uint8_t *at = (const uint8_t *)(block_exits(b) + b->exits), *end = at + b->points;
    struct point p = origin;
    bool any = false;
    while (at < end) {
        at = unpack(&p, at);
        if (any && b->code_start + p.offset > code)
            break;
        *found = p;
        any = true;
    }
    return any;
}

static bool is_compared(const struct block *b)
{
    const struct exit *e = block_exits(b);
    for (unsigned i = 0; i < b->exits; i++)
        if (e[i].kind == EXIT_STALE)
            return true;
    return false;
}

/* Whether an address in the block's code lies where it compares the guest's, which comes first from its entry on. */
bool point_is_check(const struct block *b, const uint8_t *code)
{
    const uint8_t *at = (const uint8_t *)(block_exits(b) + b->exits), *end = at + b->points;
    struct point p = origin;
    if (!is_compared(b))
        return false;
    do
        at = unpack(&p, at);
    while (at < end && p.offset < b->entry);
    if (at == end)
        return true;
    unpack(&p, at);
    return code < b->code_start + p.offset;
}
