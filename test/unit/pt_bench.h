/* SPDX-License-Identifier: MIT
 * A random program under a unit of random configuration: the trace, and what a decoder must find in it. */
#ifndef COFI_TEST_PT_BENCH_H
#define COFI_TEST_PT_BENCH_H

#include "pt_program.h"
#include "pt_rig.h"

enum { BENCH_MOST = 1 << 16, BENCH_RANGES = 4 };

/* A branch that turned PacketEn off in bytes [from, to). */
struct bench_leave {
    size_t from, to;
    size_t at; /* its place in truth[] */
    uint64_t target;
    uint8_t how; /* enum cofi_event_kind */
};

/* A transfer, traced at both ends. */
struct bench_hop {
    uint64_t from, to;
};

struct bench_range {
    uint64_t base, limit; /* inclusive */
    bool stop;
};

/* What a seed may choose. */
struct bench_wish {
    bool wide;     /* processors' presets, small PSB periods; VMX, SMM, WRMSR, MWAIT, UD2 */
    uint64_t errata; /* COFI_ERRATUM_* that the unit shows */
    bool for_perf; /* only what perf follows: no guests, no CR3 filter (docs/decisions/0310) */
};

struct bench {
    struct program program;
    struct pt_rig rig;
    struct bench_wish wish;
    struct bench_leave leaves[BENCH_MOST];
    size_t left;
    uint64_t ctl, tsc, cycles;
    struct bench_range ranges[BENCH_RANGES];
    unsigned range_count;
    uint64_t truth[BENCH_MOST]; /* the instructions that ran while PacketEn was 1 */
    size_t ran;
    struct bench_hop hops[BENCH_MOST];
    size_t hop_count;
    const char *model;
    bool may_lose; /* the internal buffer is finite */
};

/* Choose program and configuration, run so many steps; the trace is in bench->rig. To be closed with rig_close. */
void bench_run(struct bench *bench, uint64_t seed, unsigned steps, struct bench_wish wish);

#endif
