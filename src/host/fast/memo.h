/* SPDX-License-Identifier: MIT
 * Runs of the log that were encoded before -> their packets, by comparison and copy. Programs are loops: most of what
 * they log they have logged before. A run begins and ends behind a target, where nothing is outstanding, so its packets
 * depend on its bytes and the target before it only. */
#ifndef COFI_HOST_FAST_MEMO_H
#define COFI_HOST_FAST_MEMO_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/bytes.h"

enum {
    COFI__FAST_RUN_BYTES = 64,   /* of log, and of packets, at most */
    COFI__FAST_RUNS = 2048,
    COFI__FAST_MISS_COST = 3,    /* in hits: what a hit saves is so much less than what a miss costs more */
    COFI__FAST_CREDIT_MAX = 64,
    COFI__FAST_PAUSE = 256       /* targets without a memo once the credit is used up */
};

struct cofi__fast_run {
    uint8_t log[COFI__FAST_RUN_BYTES], packets[COFI__FAST_RUN_BYTES];
    uint64_t before, after;      /* last IP */
    uint64_t where;              /* a bit for each byte of log that counts; 0: no run */
    uint8_t log_bytes, packet_bytes;
    uint16_t branches;
    struct cofi__fast_run *next; /* what came behind this one last; null: not known */
};

struct cofi__fast_memo {
    struct cofi__fast_run runs[COFI__FAST_RUNS];
    int32_t credit;              /* of hits for misses */
    uint32_t pause;
};

/* Whether to look for a run here: there may be no memo, or few hits of late. */
static inline bool cofi__fast_memo_pays(struct cofi__fast_memo *memo)
{
    if (!memo)
        return false;
    if (memo->credit >= 0)
        return true;
    if (++memo->pause < COFI__FAST_PAUSE)
        return false;
    memo->pause = 0;
    memo->credit = COFI__FAST_CREDIT_MAX / 4;
    return true;
}

/* The place for the run at log (COFI__FAST_RUN_BYTES readable) behind a target. All of a run counts:
 * runs that differ late would take each other's place again and again. */
static inline struct cofi__fast_run *cofi__fast_run_at(struct cofi__fast_memo *memo, const uint8_t *log,
                                                       uint64_t last_ip)
{
    uint64_t h = ((le64(log) ^ last_ip) + le64(log + 20) * 3 + le64(log + 40) * 5) * 0x9e3779b97f4a7c15u;
    return &memo->runs[h >> 53];
}

/* Whether it is this run, of which so many bytes of log (a bit for each) are the same. */
static inline bool cofi__fast_run_is(const struct cofi__fast_run *run, uint64_t last_ip, uint64_t same)
{
    return run->where && run->before == last_ip && !(run->where & ~same);
}

/* Remember that log[0..n) gives packets[0..m). As much as a run may have is readable of both. */
static inline void cofi__fast_run_keep(struct cofi__fast_run *run, const uint8_t *log, size_t n, const uint8_t *packets,
                                       size_t m)
{
    memcpy(run->log, log, COFI__FAST_RUN_BYTES);
    memcpy(run->packets, packets, COFI__FAST_RUN_BYTES);
    run->where = UINT64_MAX >> (64 - n);
    run->log_bytes = (uint8_t)n;
    run->packet_bytes = (uint8_t)m;
}

#endif
