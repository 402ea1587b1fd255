/* SPDX-License-Identifier: MIT
 * A PT trace without timing -> the same one as a unit with CYC and MTC enabled would have written it. */
#ifndef BENCH_TIMING_H
#define BENCH_TIMING_H

#include "load.h"

/* CYC before every TNT, TIP, TIP.PGE and TIP.PGD, MTC every 800 ticks of the TSC, TMA behind every TSC; a branch takes a
 * cycle. False: out of memory. */
bool bench_add_timing(struct bench_load *load);

#endif
