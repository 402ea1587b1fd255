/* SPDX-License-Identifier: MIT
 * A plain reader of RTIT packets, written from the manual's figures alone. */
#include "reference/rtit_plain.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static uint64_t number(const uint8_t *p, unsigned n)
{
    uint64_t v = 0;
    for (unsigned i = 0; i < n; i++)
        v |= (uint64_t)p[i] << (8 * i);
    return v;
}

/* [RTIT Figure 13] */
static int read_cycles(const uint8_t *p, size_t n, int *cycles)
{
    if (n < 1)
        return 0;
    unsigned ccnt = p[0] & 3;
    if (ccnt == 0)
        return -1;
    if (n < ccnt)
        return 0;
    *cycles = (int)(number(p, ccnt) >> 2);
    return (int)ccnt;
}

/* [RTIT Figure 8, Table 18] */
static int read_lip(struct plain_state *s, const uint8_t *p, size_t n, struct plain_packet *k)
{
    unsigned cnt = p[0] & 3;
    if (cnt == 3)
        return -1;
    k->lip_bytes = 2 * cnt + 2;
    if (n < 1 + k->lip_bytes)
        return 0;
    k->zext = p[0] >> 2 & 1;
    uint64_t low = number(p + 1, k->lip_bytes), mask = (UINT64_C(1) << (8 * k->lip_bytes)) - 1;
    k->lip = k->zext ? low : (s->last & ~mask & 0xffffffffffff) | low;
    k->known = k->zext || cnt == 2 || s->last_known;
    if (k->kind != PLAIN_OVF) {
        s->last = k->lip;
        s->last_known = k->known;
    }
    return (int)(1 + k->lip_bytes);
}

static int read_fup(struct plain_state *s, const uint8_t *p, size_t n, struct plain_packet *k)
{
    static const int kinds[8] = {PLAIN_PGE, PLAIN_PGD, PLAIN_OVF, PLAIN_PCC, -1, -1, PLAIN_TIP, PLAIN_FAR};
    int kind = kinds[p[0] >> 3 & 7];
    if (kind < 0)
        return -1;
    k->kind = (enum plain_kind)kind;
    return read_lip(s, p, n, k);
}

static int read_tnt(const uint8_t *p, struct plain_packet *k)
{
    unsigned stop = 7;
    while (!(p[0] >> stop & 1))
        stop--;
    k->kind = PLAIN_TNT;
    k->outcomes = stop;
    for (unsigned i = 0; i < stop; i++)
        k->taken[i] = p[0] >> (stop - 1 - i) & 1;
    return 1;
}

static int read_extended(const uint8_t *p, size_t n, struct plain_packet *k)
{
    static const uint8_t psb[9] = {0xc0};
    if (p[0] == 0xc0) {
        k->kind = PLAIN_PSB;
        if (n < 9)
            return memcmp(p, psb, n) ? -1 : 0;
        return memcmp(p, psb, 9) ? -1 : 9;
    }
    if (p[0] == 0xc1) {
        k->kind = PLAIN_STOP;
        return 1;
    }
    if ((p[0] & 0xfe) == 0xc2) {
        if (n < 6)
            return 0;
        k->kind = PLAIN_PIP;
        k->pg = p[0] & 1;
        k->cr3 = number(p + 1, 5);
        return 6;
    }
    if ((p[0] & 0xfc) == 0xc4) {
        if (n < 2)
            return 0;
        k->kind = PLAIN_MTC;
        k->range = p[0] & 3;
        k->ctc = p[1];
        return 2;
    }
    if ((p[0] & 0xf0) != 0xd0)
        return -1;
    if (n < 7)
        return 0;
    k->kind = PLAIN_STS;
    k->acbr = (p[0] & 15u) << 2 | p[1] >> 6;
    k->ecbr = p[1] & 63;
    k->tsc = number(p + 2, 5);
    return 7;
}

static bool takes_cycles(const struct plain_packet *k)
{
    if (k->kind == PLAIN_TNT)
        return k->outcomes == 6;
    return k->kind != PLAIN_PSB && k->kind != PLAIN_STOP;
}

/* [RTIT Figure 2, RTIT Figure 3, RTIT Figure 4, RTIT Figure 5, RTIT Figure 9, RTIT Figure 10, RTIT Figure 11,
 * RTIT Figure 12] */
int plain_read(struct plain_state *s, const uint8_t *p, size_t n, struct plain_packet *k)
{
    if (n == 0)
        return 0;
    *k = (struct plain_packet){.cycles = -1};
    int size;
    if (p[0] == 0)
        return -1;
    if (p[0] < 0x80)
        size = read_tnt(p, k);
    else if (p[0] < 0xc0)
        size = read_fup(s, p, n, k);
    else
        size = read_extended(p, n, k);
    if (size > 0 && s->cycle_acc && takes_cycles(k)) {
        int more = read_cycles(p + size, n - (size_t)size, &k->cycles);
        if (more <= 0)
            return more;
        size += more;
    }
    k->size = size > 0 ? (size_t)size : 0;
    return size;
}

void plain_text(const struct plain_packet *k, char *out, size_t n)
{
    static const char *const names[] = {"tnt", "pge", "pgd", "ovf", "pcc", "tip",
                                        "far", "psb", "stop", "pip", "mtc", "sts"};
    char tail[16] = "", bits[8] = "";
    if (k->cycles >= 0)
        snprintf(tail, sizeof tail, " c%d", k->cycles);
    for (unsigned i = 0; i < k->outcomes; i++)
        bits[i] = k->taken[i] ? 'T' : 'N';
    if (k->kind == PLAIN_TNT)
        snprintf(out, n, "tnt %s%s", bits, tail);
    else if (k->kind == PLAIN_PSB || k->kind == PLAIN_STOP)
        snprintf(out, n, "%s%s", names[k->kind], tail);
    else if (k->kind == PLAIN_PIP)
        snprintf(out, n, "pip %u %" PRIx64 "%s", k->pg, k->cr3, tail);
    else if (k->kind == PLAIN_MTC)
        snprintf(out, n, "mtc %u %02x%s", k->range, k->ctc, tail);
    else if (k->kind == PLAIN_STS)
        snprintf(out, n, "sts %u %u %" PRIx64 "%s", k->acbr, k->ecbr, k->tsc, tail);
    else
        snprintf(out, n, "%s %" PRIx64 "%s%s", names[k->kind], k->lip, tail, k->known ? "" : " ?");
}
