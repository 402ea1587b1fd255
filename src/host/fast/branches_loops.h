/* SPDX-License-Identifier: MIT
 * What branches.c and branches_bmi2.c have in common. Each says for which processors it is (FAST_TARGET), and defines
 * with the instructions that these have:
 *
 *   spread(v)              its lowest 48 bits, six in each byte of a word, above its lowest bit
 *   gather(heads, below)   of each byte those bits that `below` has, its lowest, together; the highest byte's lowest
 *   first_byte(v)          how many bytes lie below the one with the lowest bit; all, if there is none
 *   same_bytes(a, b)       of 64 bytes, a bit for each that is the same */
#ifndef COFI_HOST_FAST_BRANCHES_LOOPS_H
#define COFI_HOST_FAST_BRANCHES_LOOPS_H

#include <immintrin.h>
#include <string.h>

#include "base/bytes.h"
#include "host/fast/branches.h"
#include "host/fast/memo.h"
#include "host/fast/put.h"

#define FAST_INLINE FAST_TARGET static inline __attribute__((always_inline))

/* Every byte of a word. */
#define ALL(byte) (UINT64_C(0x0101010101010101) * (byte))

enum { RUN_READ = COFI__FAST_RUN_BYTES + 2 * COFI__FAST_BATCH_READ };

FAST_INLINE uint64_t spread(uint64_t v);
FAST_INLINE uint64_t gather(uint64_t heads, uint64_t below);
FAST_INLINE unsigned first_byte(uint64_t v);
FAST_INLINE uint64_t same_bytes(const uint8_t *a, const uint8_t *b);

/* Short TNTs for the outstanding outcomes and `n` more, in the low bits of `bits`: each has a stop bit
 * above six outcomes, and bit 0 clear [SDM Taken/Not-taken (TNT) Packet]. What does not fill a packet
 * stays outstanding. At most 8 packets, whose outcomes are spread over the bytes of one word. */
FAST_INLINE uint8_t *put_tnts(uint8_t *out, unsigned *outstanding, uint64_t bits, unsigned n)
{
    uint64_t all = (uint64_t)*outstanding << n | bits; /* below a marker bit, still */
    unsigned count = 63 - (unsigned)__builtin_clzll(all), packets = count * 43 >> 8, rest = count - 6 * packets;
    uint64_t bytes = __builtin_bswap64(spread(all >> rest << (48 - 6 * packets))) | ALL(0x80);
    memcpy(out, &bytes, 8);
    *outstanding = (unsigned)(all & ((1u << rest) - 1)) | 1u << rest;
    return out + packets;
}

/* The outcomes in eight records' first bytes (0: none), the first of them in the lowest byte, without their top bits.
 * Returns how many. */
FAST_INLINE unsigned take_outcomes(uint64_t heads, uint64_t *bits)
{
    uint64_t below = heads; /* in each byte, the bits below the marker */
    below |= below >> 1 & ALL(0x3f);
    below |= below >> 2 & ALL(0x1f);
    below |= below >> 4 & ALL(0x07);
    below = below >> 1 & ALL(0x3f);
    *bits = gather(heads, below);
    return (unsigned)__builtin_popcountll(below);
}

/* Where an encoder stands, in registers. */
struct at {
    const uint8_t *p;
    uint8_t *out;
    uint64_t last_ip, branches;
    unsigned outstanding;
    struct cofi__fast_run *run; /* the last that was taken; any at first */
};

enum took { TOOK_NONE, TOOK_OUTCOMES, TOOK_TARGET };

/* The target of a record at `at`, whose outcomes have been taken. */
FAST_INLINE enum took take_target(struct at *at)
{
    at->out = flush_tnt(at->out, &at->outstanding);
    at->out = put_ip(at->out, &at->last_ip, TIP, sext(le64(at->p + 1), 47));
    at->branches++;
    at->p += COFI__FAST_TIP_BYTES;
    return TOOK_TARGET;
}

/* Up to eight records, the last of which may have a target. What programs do is hard to foresee, so there are few
 * branches on it. */
FAST_INLINE enum took take_some(struct at *at)
{
    uint64_t records = le64(at->p), targets = records & ALL(0x80), bits;
    unsigned head = records & 0xff;
    if (head > COFI__FAST_TIP && at->outstanding == 1) { /* behind a target: most often */
        at->outstanding = head & 0x7f;
        at->branches += 31 - (unsigned)__builtin_clz(at->outstanding);
        return take_target(at);
    }
    uint64_t these = targets ^ (targets - 1); /* up to the first target; all, if there is none */
    uint64_t heads = records & these & ALL(0x7f), none = ~(heads + ALL(0x7f)) & these & ALL(0x80);
    if (none) {
        if (!(records & 0x7f))
            return TOOK_NONE;
        heads &= (none ^ (none - 1)) >> 8;
        targets = 0;
    }
    unsigned count = take_outcomes(heads, &bits);
    at->out = put_tnts(at->out, &at->outstanding, bits, count);
    at->branches += count;
    at->p += first_byte(none ? none : targets);
    if (!targets)
        return TOOK_OUTCOMES;
    return take_target(at);
}

/* Encode up to the last target within a run's bytes, and remember that run. TOOK_OUTCOMES: there is no such target. */
FAST_INLINE enum took learn(struct cofi__fast_run *run, struct at *at)
{
    struct at from = *at, last = *at;
    enum took took;
    while ((took = take_some(at)) != TOOK_NONE && at->p - from.p <= COFI__FAST_RUN_BYTES &&
           at->out - from.out <= COFI__FAST_RUN_BYTES)
        if (took == TOOK_TARGET)
            last = *at;
    if (last.p == from.p)
        return took;
    cofi__fast_run_keep(run, from.p, (size_t)(last.p - from.p), from.out, (size_t)(last.out - from.out));
    run->before = from.last_ip;
    run->after = last.last_ip;
    run->branches = (uint16_t)(last.branches - from.branches);
    *at = last;
    return TOOK_TARGET;
}

FAST_INLINE bool is_run(const struct cofi__fast_run *run, const struct at *at)
{
    return cofi__fast_run_is(run, at->last_ip, same_bytes(run->log, at->p));
}

/* The run at `at`, which is behind a target: known, or learnt. Most often the one is at hand that came behind
 * the last one when that was taken before; to wait for a look-up would take longer than all the rest. */
FAST_INLINE enum took take_run(struct cofi__fast_memo *memo, struct at *at)
{
    struct cofi__fast_run *run = at->run->next;
    if (!run || !is_run(run, at))
        run = at->run->next = cofi__fast_run_at(memo, at->p, at->last_ip);
    at->run = run;
    if (!is_run(run, at)) {
        memo->credit -= COFI__FAST_MISS_COST;
        return learn(run, at);
    }
    memo->credit += memo->credit < COFI__FAST_CREDIT_MAX;
    memcpy(at->out, run->packets, COFI__FAST_RUN_BYTES);
    at->out += run->packet_bytes;
    at->p += run->log_bytes;
    at->last_ip = run->after;
    at->branches += run->branches;
    return TOOK_TARGET;
}

static struct at begin_at(const struct cofi__fast_encoder *e, const uint8_t *p)
{
    return (struct at){p, e->out + e->used, e->last_ip, 0, e->outstanding, e->memo ? e->memo->runs : NULL};
}

static void end_at(struct cofi__fast_encoder *e, const struct at *at)
{
    e->outstanding = at->outstanding;
    e->last_ip = at->last_ip;
    e->branches += at->branches;
    e->used = (size_t)(at->out - e->out);
}

FAST_TARGET static const uint8_t *take_branches(struct cofi__fast_encoder *e, const uint8_t *p, const uint8_t *stop,
                                                const uint8_t *end)
{
    struct at at = begin_at(e, p);
    enum took took = TOOK_OUTCOMES;
    while (took != TOOK_NONE && at.p < stop && end - at.p >= RUN_READ)
        took = took == TOOK_TARGET && cofi__fast_memo_pays(e->memo) ? take_run(e->memo, &at) : take_some(&at);
    while (took != TOOK_NONE && at.p < stop && end - at.p >= COFI__FAST_BATCH_READ)
        took = take_some(&at);
    end_at(e, &at);
    return at.p;
}

/* Whether the record has a taken branch. */
static bool has_taken(unsigned head) { return head > COFI__FAST_TIP || (head & (head - 1) & 0x7f); }

FAST_TARGET static bool take_to_target(struct cofi__fast_encoder *e, const uint8_t **p, const uint8_t *stop,
                                       const uint8_t *end)
{
    struct at at = begin_at(e, *p);
    enum took took = TOOK_OUTCOMES;
    while (took != TOOK_NONE && at.p < stop && end - at.p >= COFI__FAST_BATCH_READ &&
           !(took == TOOK_TARGET && has_taken(*at.p)))
        took = take_some(&at);
    end_at(e, &at);
    *p = at.p;
    return took == TOOK_TARGET && has_taken(*at.p);
}

#endif
