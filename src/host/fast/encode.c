/* SPDX-License-Identifier: MIT
 * A thread's log -> PT packets. A packet rewrite: no code is looked at. */
#include "host/fast/encode.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/error.h"

enum { RECORD_BYTES_MAX = 96, TIP = 0x0d, TIP_PGE = 0x11, TIP_PGD = 0x01, FUP = 0x1d };

static int make_room(struct cofi__fast_encoder *e, size_t n)
{
    if (e->size - e->used >= n)
        return 0;
    size_t size = e->size ? e->size * 2 : 1 << 20;
    while (size - e->used < n)
        size *= 2;
    uint8_t *out = realloc(e->out, size);
    if (!out)
        return COFI_ERR_NOMEM;
    e->out = out;
    e->size = size;
    return 0;
}

/* Short TNT: a stop bit above the outcomes, bit 0 clear [SDM Taken/Not-taken (TNT) Packet]. */
static void put_tnt(struct cofi__fast_encoder *e, unsigned n)
{
    uint64_t v = e->tnt >> (e->tnt_count - n) & ((1u << n) - 1);
    e->out[e->used++] = (uint8_t)(1u << (n + 1) | v << 1);
    e->tnt_count -= n;
}

static void flush_tnt(struct cofi__fast_encoder *e)
{
    while (e->tnt_count >= 6)
        put_tnt(e, 6);
    if (e->tnt_count)
        put_tnt(e, e->tnt_count);
}

/* Add a record's outcomes; at most 5 stay outstanding. */
static void add_outcomes(struct cofi__fast_encoder *e, uint32_t word)
{
    unsigned n = 31 - (unsigned)__builtin_clz(word);
    e->branches += n;
    e->tnt = e->tnt << n | (word & ((1u << n) - 1));
    e->tnt_count += n;
    while (e->tnt_count >= 6)
        put_tnt(e, 6);
}

/* A packet with an address in the shortest code [SDM IP Compression], in the order of [PTREF 5.4]. */
static void put_ip(struct cofi__fast_encoder *e, unsigned opcode, uint64_t ip)
{
    uint64_t differs = ip ^ e->last_ip;
    unsigned code, n;
    if (!(differs >> 16))
        code = 1, n = 2;
    else if (!(differs >> 32))
        code = 2, n = 4;
    else if (ip == sext(ip, 47))
        code = 3, n = 6;
    else
        code = 6, n = 8;
    e->out[e->used] = (uint8_t)(code << 5 | opcode);
    memcpy(e->out + e->used + 1, &ip, 8);
    e->used += 1 + n;
    e->last_ip = ip;
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
    e->out[e->used] = 0x19;
    put_le(e->out + e->used + 1, tsc, 7);
    e->used += 8;
}

/* PSB+ [PTREF 5.11]: MODE.Exec and FUP where control flow tracing is on. */
static void put_psb(struct cofi__fast_encoder *e, uint64_t tsc, uint64_t ip, bool on)
{
    for (int i = 0; i < 8; i++)
        put_bytes(e, "\x02\x82", 2);
    e->last_ip = 0;
    put_tsc(e, tsc);
    if (on) {
        put_bytes(e, "\x99\x01", 2); /* MODE.Exec: 64-bit */
        put_ip(e, FUP, ip);
    }
    put_bytes(e, "\x02\x23", 2);
    e->synced = true;
}

static void put_pge(struct cofi__fast_encoder *e, uint64_t tsc, uint64_t ip)
{
    if (!e->synced)
        put_psb(e, tsc, ip, false);
    else
        put_tsc(e, tsc);
    put_bytes(e, "\x99\x01", 2);
    put_ip(e, TIP_PGE, ip);
    e->enabled = true;
}

static void put_control(struct cofi__fast_encoder *e, unsigned what, uint64_t tsc, uint64_t ip)
{
    flush_tnt(e);
    switch (what) {
    case COFI__FAST_TSC:
        put_tsc(e, tsc);
        break;
    case COFI__FAST_PSB:
        put_psb(e, tsc, ip, true);
        e->enabled = true;
        break;
    case COFI__FAST_PGE:
        put_pge(e, tsc, ip);
        break;
    case COFI__FAST_EVENT:
        put_ip(e, FUP, ip);
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
            put_ip(e, TIP_PGD, ip);
        e->enabled = false;
        break;
    case COFI__FAST_STOP:
        put_bytes(e, "\x02\x83", 2);
        break;
    case COFI__FAST_OVF:
        put_bytes(e, "\x02\xf3", 2);
        e->last_ip = 0;
        put_tsc(e, tsc);
        put_ip(e, FUP, ip);
        break;
    default: break; /* outcomes only, or damage */
    }
}

static void take_control(struct cofi__fast_encoder *e, uint32_t word, const uint8_t *p)
{
    unsigned what = word & 0xff;
    if (e->synced || what == COFI__FAST_PSB || what == COFI__FAST_PGE)
        put_control(e, what, le64(p + 4), le64(p + 12));
}

static size_t record_size(uint32_t word)
{
    if (word < COFI__FAST_TIP)
        return 4;
    return word < COFI__FAST_CONTROL ? COFI__FAST_TIP_BYTES : COFI__FAST_CONTROL_BYTES;
}

long cofi__fast_encode(struct cofi__fast_encoder *e, const uint8_t *log, size_t n)
{
    size_t i = 0;
    while (n - i >= 4) {
        uint32_t word = le32(log + i);
        size_t size = record_size(word);
        if (!word || n - i < size)
            break;
        if (e->size - e->used < RECORD_BYTES_MAX)
            COFI_TRY(make_room(e, RECORD_BYTES_MAX));
        if (size == COFI__FAST_CONTROL_BYTES) {
            take_control(e, word, log + i);
        } else if (e->synced) {
            uint32_t outcomes = word & ~COFI__FAST_TIP;
            add_outcomes(e, outcomes ? outcomes : 1);
            if (size == COFI__FAST_TIP_BYTES) {
                flush_tnt(e);
                put_ip(e, TIP, le64(log + i + 4));
                e->branches++;
            }
        }
        i += size;
    }
    return (long)i;
}

int cofi__fast_encode_end(struct cofi__fast_encoder *e)
{
    COFI_TRY(make_room(e, 16));
    flush_tnt(e);
    return 0;
}

void cofi__fast_encoder_fini(struct cofi__fast_encoder *e)
{
    free(e->out);
    *e = (struct cofi__fast_encoder){0};
}
