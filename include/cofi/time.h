/* SPDX-License-Identifier: MIT
 * Time: the clocks of a trace and how they become nanoseconds. */
#ifndef COFI_TIME_H
#define COFI_TIME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* perf's conversion of TSC ticks to its clock [perf_event_open time_shift]. */
struct cofi_time_conv {
    uint64_t zero;
    uint32_t mult;   /* 0: no conversion, the trace has no perf time */
    uint16_t shift;
};

enum { COFI_MTC_FREQ_MOST = 15 }; /* of its four bits [SDM IA32_RTIT_CTL MSR] */

/* What a recording tells of its clocks; all zero: nothing, and then events have ticks but no nanoseconds. */
struct cofi_time_info {
    struct cofi_time_conv conv;
    uint32_t tsc_num, tsc_den; /* PT: TSC ticks = ART ticks * num / den; 0: unknown */
    uint8_t mtc_freq;          /* PT MTCFreq, at most COFI_MTC_FREQ_MOST; RTIT: MTC_Range */
    uint8_t nominal_ratio;     /* maximum non-turbo ratio: TSC in 100 MHz; 0: unknown */
    bool tsc, mtc, cyc;        /* which timing packets the configuration has; RTIT, cyc: counts follow packets */
    bool monotonic;            /* nanoseconds are CLOCK_MONOTONIC's, as in a JIT's jitdump; else perf's own, or another clock's */
};

/* What is known of the time besides a stream's packets: from the packet at `offset` on it is `least` ticks at least; and before
 * `most`, until a packet tells a time. */
struct cofi_time_bound {
    uint64_t offset, least, most;
};

/* TSC ticks -> nanoseconds of the recording's clock, rounded down, modulo 2^64 [PTREF 10.3]; and back: the first tick whose
 * nanosecond is at least ns, so that cofi_time_ns(cofi_time_ticks(ns)) is ns or the next one there is; 0 for an ns before conv->zero (which
 * may be below 0, modulo 2^64). conv->mult must not be 0. Pure: from any thread, at the cost of a multiplication or a division. */
uint64_t cofi_time_ns(const struct cofi_time_conv *conv, uint64_t tsc_ticks);
uint64_t cofi_time_ticks(const struct cofi_time_conv *conv, uint64_t ns);

#ifdef __cplusplus
}
#endif
#endif
