/* SPDX-License-Identifier: MIT
 * A time that must stand before the branch that was encoded last: code that was written or mapped just now is
 * looked up by decoders with the last TSC that they have seen. They walk on from a branch as soon as they
 * have it, and perf goes by a new time only at a taken one; so it stands before the last taken branch. */
#include <string.h>

#include "base/bytes.h"
#include "host/fast/encode.h"

enum { TSC_BYTES = 8 };

static void write_tsc(uint8_t *at, uint64_t tsc)
{
    at[0] = 0x19;
    put_le(at + 1, tsc, 7);
}

/* Short TNT of n outcomes, none if n is 0. Returns how many bytes it takes. */
static size_t write_tnt(uint8_t *at, unsigned outcomes, unsigned n)
{
    if (n)
        *at = (uint8_t)(1u << (n + 1) | (outcomes & ((1u << n) - 1)) << 1);
    return n != 0;
}

/* The size of a packet that branches make: short TNT, or TIP with 2, 4, 6 or 8 bytes of address. */
static size_t branch_bytes(uint8_t head)
{
    static const uint8_t address[8] = {0, 2, 4, 6, 6, 0, 8, 0};
    return head & 1 ? 1u + address[head >> 5] : 1;
}

/* How many of n outcomes, youngest lowest, come from the youngest taken one on; 0: none is taken. */
static unsigned since_taken(uint64_t outcomes, unsigned n)
{
    uint64_t these = outcomes & ((UINT64_C(1) << n) - 1);
    return these ? (unsigned)__builtin_ctzll(these) + 1 : 0;
}

/* Put a TSC before the packet at `at`, or between the outcomes of a TNT there. */
static void insert(struct cofi__fast_encoder *e, size_t at, uint64_t tsc)
{
    uint8_t *p = e->out + at, parts[2] = {0};
    size_t first = 0, rest = 0, taken_out = 0;
    if (at < e->used && !(*p & 1)) {
        unsigned outcomes = *p >> 1, n = 31 - (unsigned)__builtin_clz(outcomes);
        unsigned young = since_taken(outcomes ^ 1u << n, n);
        first = write_tnt(&parts[0], outcomes >> young, n - young);
        rest = write_tnt(&parts[1], outcomes, young);
        taken_out = 1;
    }
    memmove(p + first + TSC_BYTES + rest, p + taken_out, e->used - at - taken_out);
    memcpy(p, &parts[0], first);
    write_tsc(p + first, tsc);
    memcpy(p + first + TSC_BYTES, &parts[1], rest);
    e->tsc_at = at + first;
    e->used += first + TSC_BYTES + rest - taken_out;
    e->controlled = at + first + TSC_BYTES;
}

/* Outcomes that are outstanding, from the youngest taken one on, stay so. False: none of them is taken. */
static bool insert_in_outstanding(struct cofi__fast_encoder *e, uint64_t tsc)
{
    unsigned n = e->outstanding ? 31 - (unsigned)__builtin_clz(e->outstanding) : 0;
    unsigned young = since_taken(e->outstanding, n);
    if (!young)
        return false;
    e->used += write_tnt(e->out + e->used, e->outstanding >> young, n - young);
    e->outstanding = 1u << young | (e->outstanding & ((1u << young) - 1));
    insert(e, e->used, tsc);
    return true;
}

void cofi__fast_encode_time(struct cofi__fast_encoder *e, uint64_t tsc)
{
    size_t place = SIZE_MAX;
    e->tsc = tsc;
    if (insert_in_outstanding(e, tsc))
        return;
    for (size_t at = e->controlled; at < e->used; at += branch_bytes(e->out[at])) {
        unsigned outcomes = e->out[at] >> 1;
        if (e->out[at] & 1 || outcomes & (outcomes - 1)) /* a TIP, or more than the marker bit */
            place = at;
    }
    if (place != SIZE_MAX)
        insert(e, place, tsc);
    else if (e->enabled && e->tsc_at != SIZE_MAX)
        write_tsc(e->out + e->tsc_at, tsc); /* tracing has begun there */
    else
        insert(e, e->used, tsc);
}
