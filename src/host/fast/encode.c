/* SPDX-License-Identifier: MIT
 * A thread's log -> PT packets. A packet rewrite: no code is looked at. Control records are encoded here, branches
 * by branches.h. */
#include "host/fast/encode.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/cpu.h"
#include "base/error.h"
#include "host/fast/branches.h"
#include "host/fast/put.h"

/* A record's packets are at most so many times its size (PSB+ and TIP.PGE of a control record), but for what was
 * outstanding and what stores write behind them. */
enum { ROOM_FACTOR = 4, ROOM_REST = 128 };
enum { STRETCH = 8192 }; /* bytes of log, after each of which a PSB+ may be due */

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

static const struct cofi__fast_branches *branches_of(const struct cofi__fast_encoder *e)
{
    return !e->usual && cofi__has_avx2_bmi2() ? &cofi__fast_branches_bmi2 : &cofi__fast_branches_usual;
}

static bool psb_due(const struct cofi__fast_encoder *e)
{
    return e->psb_bytes && e->emptied + e->used - e->psb_at >= e->psb_bytes;
}

/* Branches, with a PSB+ where one is due. */
static const uint8_t *take_stretches(struct cofi__fast_encoder *e, const uint8_t *p, const uint8_t *end)
{
    const struct cofi__fast_branches *branches = branches_of(e);
    const uint8_t *stop;
    do {
        stop = end - p > STRETCH ? p + STRETCH : end;
        if (psb_due(e) && branches->to_target(e, &p, stop, end)) {
            put_psb(e, e->tsc, e->last_ip, true);
            e->controlled = e->used;
        }
        p = branches->take(e, p, stop, end);
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
    uint8_t padded[COFI__FAST_TIP_BYTES + COFI__FAST_BATCH_READ] = {0};
    size_t size = n ? cofi__fast_record_size(*p) : 0;
    if (!n || !*p || size > n)
        return 0;
    if (*p == COFI__FAST_CONTROL) {
        take_control(e, p);
    } else if (e->synced) {
        memcpy(padded, p, size);
        branches_of(e)->take(e, padded, padded + sizeof padded, padded + sizeof padded);
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
