/* SPDX-License-Identifier: MIT
 * A thread's log -> PT packets. A packet rewrite: no code is looked at. */
#include "host/fast/encode.h"

#include <immintrin.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/error.h"
#include "host/fast/memo.h"

/* The fast host needs a processor that has these. */
#define FAST_TARGET __attribute__((target("bmi,bmi2,popcnt,lzcnt,avx2")))
#define FAST_INLINE static inline __attribute__((target("bmi,bmi2,popcnt,lzcnt,avx2"), always_inline))

/* A record's packets are at most so many times its size (PSB+ and TIP.PGE of a control record), but for what was
 * outstanding and what stores write behind them. */
enum { ROOM_FACTOR = 4, ROOM_REST = 128, BATCH_READ = 8 + 8, RUN_READ = COFI__FAST_RUN_BYTES + 2 * BATCH_READ };
enum { STRETCH = 8192 }; /* bytes of log, after each of which a PSB+ may be due */
enum { TIP = 0x0d, TIP_PGE = 0x11, TIP_PGD = 0x01, FUP = 0x1d };

static int make_room(struct cofi__fast_encoder *e, size_t n)
{
    if (e->size - e->used >= n)
        return 0;
    uint8_t *out = realloc(e->out, e->used + n);
    if (!out)
        return COFI_ERR_NOMEM;
    e->out = out;
    e->size = e->used + n;
    return 0;
}

/* Every byte of a word. */
#define ALL(byte) (UINT64_C(0x0101010101010101) * (byte))

/* Short TNTs for the outstanding outcomes and `n` more, in the low bits of `bits`: each has a stop bit
 * above six outcomes, and bit 0 clear [SDM Taken/Not-taken (TNT) Packet]. What does not fill a packet
 * stays outstanding. At most 8 packets, whose outcomes are spread over the bytes of one word. */
FAST_INLINE uint8_t *put_tnts(uint8_t *out, unsigned *outstanding,
                                                                              uint64_t bits, unsigned n)
{
    uint64_t all = (uint64_t)*outstanding << n | bits; /* below a marker bit, still */
    unsigned count = 63 - (unsigned)__builtin_clzll(all), packets = count * 43 >> 8, rest = count - 6 * packets;
    uint64_t spread = __builtin_bswap64(_pdep_u64(all >> rest << (48 - 6 * packets), ALL(0x7e))) | ALL(0x80);
    memcpy(out, &spread, 8);
    *outstanding = (unsigned)(all & ((1u << rest) - 1)) | 1u << rest;
    return out + packets;
}

/* A packet of what is outstanding, if that is anything. */
static inline uint8_t *flush_tnt(uint8_t *out, unsigned *outstanding)
{
    *out = (uint8_t)(*outstanding << 1);
    out += *outstanding > 1;
    *outstanding = 1;
    return out;
}

/* A packet with an address in the shortest code [SDM IP Compression], in the order of [PTREF 5.4]. The address
 * is sign-extended from bit 47. */
static inline uint8_t *put_ip(uint8_t *out, uint64_t *last_ip, unsigned opcode, uint64_t ip)
{
    uint64_t differs = ip ^ *last_ip;
    unsigned code = 1 + (differs >> 16 != 0) + (differs >> 32 != 0);
    *out = (uint8_t)(code << 5 | opcode);
    memcpy(out + 1, &ip, 8);
    *last_ip = ip;
    return out + 1 + 2 * code;
}

static void put_address(struct cofi__fast_encoder *e, unsigned opcode, uint64_t ip)
{
    e->used = (size_t)(put_ip(e->out + e->used, &e->last_ip, opcode, sext(ip, 47)) - e->out);
}

static void put_bytes(struct cofi__fast_encoder *e, const char *bytes, size_t n)
{
    memcpy(e->out + e->used, bytes, n);
    e->used += n;
}

/* TSC [SDM Timestamp Counter (TSC) Packet]. */
static void put_tsc(struct cofi__fast_encoder *e, uint64_t tsc)
{
    if (!e->first_tsc)
        e->first_tsc = tsc;
    e->tsc = tsc;
    e->tsc_at = e->used;
    e->out[e->used] = 0x19;
    put_le(e->out + e->used + 1, tsc, 7);
    e->used += 8;
}

/* PSB+ [PTREF 5.11]: MODE.Exec and FUP where control flow tracing is on. */
static void put_psb(struct cofi__fast_encoder *e, uint64_t tsc, uint64_t ip, bool on)
{
    e->psb_at = e->emptied + e->used;
    for (int i = 0; i < 8; i++)
        put_bytes(e, "\x02\x82", 2);
    e->last_ip = 0;
    put_tsc(e, tsc);
    if (on) {
        put_bytes(e, "\x99\x01", 2); /* MODE.Exec: 64-bit */
        put_address(e, FUP, ip);
    }
    put_bytes(e, "\x02\x23", 2);
    e->synced = e->begun = true;
}

/* OVF, where records were lost before this place. TIP.PGE or a FUP follows [SDM Overflow (OVF) Packet].
 * It has no meaning before a PSB. */
static bool put_ovf(struct cofi__fast_encoder *e, uint64_t tsc)
{
    if (!e->lost)
        return false;
    if (!e->begun)
        put_psb(e, tsc, 0, false);
    put_bytes(e, "\x02\xf3", 2);
    e->last_ip = 0;
    e->lost = false;
    e->synced = true;
    return true;
}

static void put_pge(struct cofi__fast_encoder *e, uint64_t tsc, uint64_t ip)
{
    put_ovf(e, tsc);
    if (!e->synced)
        put_psb(e, tsc, ip, false);
    else
        put_tsc(e, tsc);
    put_bytes(e, "\x99\x01", 2);
    put_address(e, TIP_PGE, ip);
    e->enabled = true;
}

static void put_control(struct cofi__fast_encoder *e, unsigned what, uint64_t tsc, uint64_t ip)
{
    if (what == COFI__FAST_CODE) {
        cofi__fast_encode_time(e, tsc);
        return;
    }
    e->used = (size_t)(flush_tnt(e->out + e->used, &e->outstanding) - e->out);
    switch (what) {
    case COFI__FAST_TSC:
        put_tsc(e, tsc);
        break;
    case COFI__FAST_PSB:
        if (put_ovf(e, tsc))
            put_address(e, FUP, ip);
        put_psb(e, tsc, ip, true);
        e->enabled = true;
        break;
    case COFI__FAST_PGE:
        put_pge(e, tsc, ip);
        break;
    case COFI__FAST_EVENT:
        put_address(e, FUP, ip);
        e->out[e->used++] = TIP_PGD;
        e->enabled = false;
        break;
    case COFI__FAST_PGD:
        e->out[e->used++] = TIP_PGD;
        e->enabled = false;
        break;
    case COFI__FAST_LEAVE:
        if (ip == COFI__FAST_NOWHERE)
            e->out[e->used++] = TIP_PGD;
        else
            put_address(e, TIP_PGD, ip);
        e->enabled = false;
        break;
    case COFI__FAST_STOP:
        put_bytes(e, "\x02\x83", 2);
        break;
    case COFI__FAST_OVF:
        cofi__fast_encode_lost(e);
        break;
    default: break; /* outcomes only, or damage */
    }
    e->controlled = e->used;
}

/* The record at p, of COFI__FAST_CONTROL_BYTES. */
static void take_control(struct cofi__fast_encoder *e, const uint8_t *p)
{
    unsigned what = p[1];
    if (e->synced || what == COFI__FAST_PSB || what == COFI__FAST_PGE || what == COFI__FAST_OVF)
        put_control(e, what, le64(p + 2), le64(p + 10));
}

/* The outcomes in eight records' first bytes (0: none), the first of them in the lowest byte, without their top bits.
 * Returns how many. */
FAST_INLINE unsigned gather(uint64_t heads, uint64_t *bits)
{
    uint64_t below = heads; /* in each byte, the bits below the marker */
    below |= below >> 1 & ALL(0x3f);
    below |= below >> 2 & ALL(0x1f);
    below |= below >> 4 & ALL(0x07);
    below = __builtin_bswap64(below >> 1 & ALL(0x3f));
    *bits = _pext_u64(__builtin_bswap64(heads), below);
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
    uint64_t these = _blsmsk_u64(targets); /* up to the first target; all, if there is none */
    uint64_t heads = records & these & ALL(0x7f), none = ~(heads + ALL(0x7f)) & these & ALL(0x80);
    if (none) {
        if (!(records & 0x7f))
            return TOOK_NONE;
        heads &= _blsmsk_u64(none) >> 8;
        targets = 0;
    }
    unsigned count = gather(heads, &bits);
    at->out = put_tnts(at->out, &at->outstanding, bits, count);
    at->branches += count;
    at->p += none ? _tzcnt_u64(none) / 8 : _tzcnt_u64(targets) / 8;
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

/* The run at `at`, which is behind a target: known, or learnt. Most often the one is at hand that came behind
 * the last one when that was taken before; to wait for a look-up would take longer than all the rest. */
FAST_INLINE enum took take_run(struct cofi__fast_memo *memo, struct at *at)
{
    struct cofi__fast_run *run = at->run->next;
    if (!run || !cofi__fast_run_is(run, at->p, at->last_ip))
        run = at->run->next = cofi__fast_run_at(memo, at->p, at->last_ip);
    at->run = run;
    if (!cofi__fast_run_is(run, at->p, at->last_ip)) {
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

/* Branches from p on, up to `stop`, what is something else, or the last BATCH_READ bytes. Returns where that is. */
static FAST_TARGET const uint8_t *take_branches(struct cofi__fast_encoder *e, const uint8_t *p, const uint8_t *stop,
                                                const uint8_t *end)
{
    struct at at = begin_at(e, p);
    enum took took = TOOK_OUTCOMES;
    while (took != TOOK_NONE && at.p < stop && end - at.p >= RUN_READ)
        took = took == TOOK_TARGET && cofi__fast_memo_pays(e->memo) ? take_run(e->memo, &at) : take_some(&at);
    while (took != TOOK_NONE && at.p < stop && end - at.p >= BATCH_READ)
        took = take_some(&at);
    end_at(e, &at);
    return at.p;
}

/* Whether the record has a taken branch. */
static bool has_taken(unsigned head) { return head > COFI__FAST_TIP || (head & (head - 1) & 0x7f); }

/* Branches, up to a target behind which a PSB+ may stand: it is where the program is then, and nothing is outstanding.
 * A time that is told later must not have to stand before it, so a taken branch comes next. Whether there was one. */
static FAST_TARGET bool take_to_target(struct cofi__fast_encoder *e, const uint8_t **p, const uint8_t *stop,
                                       const uint8_t *end)
{
    struct at at = begin_at(e, *p);
    enum took took = TOOK_OUTCOMES;
    while (took != TOOK_NONE && at.p < stop && end - at.p >= BATCH_READ && !(took == TOOK_TARGET && has_taken(*at.p)))
        took = take_some(&at);
    end_at(e, &at);
    *p = at.p;
    return took == TOOK_TARGET && has_taken(*at.p);
}

static bool psb_due(const struct cofi__fast_encoder *e)
{
    return e->psb_bytes && e->emptied + e->used - e->psb_at >= e->psb_bytes;
}

/* As take_branches, with a PSB+ where one is due. */
static const uint8_t *take_stretches(struct cofi__fast_encoder *e, const uint8_t *p, const uint8_t *end)
{
    const uint8_t *stop;
    do {
        stop = end - p > STRETCH ? p + STRETCH : end;
        if (psb_due(e) && take_to_target(e, &p, stop, end)) {
            put_psb(e, e->tsc, e->last_ip, true);
            e->controlled = e->used;
        }
        p = take_branches(e, p, stop, end);
    } while (p >= stop && stop != end);
    return p;
}

size_t cofi__fast_record_size(unsigned head)
{
    if (!head)
        return 0;
    if (head < COFI__FAST_TIP)
        return 1;
    return head == COFI__FAST_CONTROL ? COFI__FAST_CONTROL_BYTES : COFI__FAST_TIP_BYTES;
}

/* One record at p. Returns its size, 0 when it is none or cut short. */
static size_t take_one(struct cofi__fast_encoder *e, const uint8_t *p, size_t n)
{
    uint8_t padded[COFI__FAST_TIP_BYTES + BATCH_READ] = {0};
    size_t size = n ? cofi__fast_record_size(*p) : 0;
    if (!n || !*p || size > n)
        return 0;
    if (*p == COFI__FAST_CONTROL) {
        take_control(e, p);
    } else if (e->synced) {
        memcpy(padded, p, size);
        take_branches(e, padded, padded + sizeof padded, padded + sizeof padded);
    }
    return size;
}

long cofi__fast_encode(struct cofi__fast_encoder *e, const uint8_t *log, size_t n)
{
    const uint8_t *p = log, *end = log + n;
    COFI_TRY(make_room(e, ROOM_FACTOR * n + ROOM_REST));
    e->outstanding = e->outstanding ? e->outstanding : 1;
    for (;;) {
        if (e->synced)
            p = take_stretches(e, p, end);
        size_t size = take_one(e, p, (size_t)(end - p));
        if (!size)
            return p - log;
        p += size;
    }
}

void cofi__fast_encode_gap(struct cofi__fast_encoder *e)
{
    e->lost |= e->begun;
    e->synced = e->enabled = false;
    e->outstanding = 1;
}

void cofi__fast_encode_lost(struct cofi__fast_encoder *e)
{
    cofi__fast_encode_gap(e);
    e->lost = true;
}

void cofi__fast_encode_emptied(struct cofi__fast_encoder *e)
{
    e->emptied += e->used;
    e->used = e->controlled = 0;
    e->tsc_at = SIZE_MAX;
}

int cofi__fast_encode_end(struct cofi__fast_encoder *e)
{
    COFI_TRY(make_room(e, ROOM_REST));
    if (e->outstanding)
        e->used = (size_t)(flush_tnt(e->out + e->used, &e->outstanding) - e->out);
    return 0;
}

void cofi__fast_encode_over(struct cofi__fast_encoder *e, uint64_t tsc) { put_ovf(e, tsc); }

void cofi__fast_encoder_fini(struct cofi__fast_encoder *e)
{
    free(e->out);
    *e = (struct cofi__fast_encoder){0};
}
