/* SPDX-License-Identifier: MIT
 * Time: the clocks of a trace and how they become nanoseconds. */
#ifndef COFI_TIME_H
#define COFI_TIME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cofi/packet.h>

#ifdef __cplusplus
extern "C" {
#endif

/* perf's conversion of TSC ticks to its clock [perf_event_open time_shift]. */
struct cofi_time_conv {
    uint64_t zero;
    uint32_t mult;   /* 0: no conversion, the trace has no perf time */
    uint16_t shift;  /* at most 63 */
};

enum { COFI_MTC_FREQ_MOST = 15 }; /* of its four bits [SDM IA32_RTIT_CTL MSR] */

/* What a recording tells of its clocks; all zero: nothing, and then events have
 * ticks but no nanoseconds. */
struct cofi_time_info {
    struct cofi_time_conv conv;
    uint32_t tsc_num, tsc_den; /* PT: TSC ticks = ART ticks * num / den; 0: unknown */
    uint8_t mtc_freq;          /* PT MTCFreq, at most COFI_MTC_FREQ_MOST; RTIT: MTC_Range */
    uint8_t nominal_ratio;     /* maximum non-turbo ratio: TSC in 100 MHz; 0: unknown */
    bool tsc, mtc, cyc;        /* which timing packets the configuration has; RTIT,
                                * cyc: counts follow packets */
    bool monotonic;            /* nanoseconds are CLOCK_MONOTONIC's, as in a JIT's
                                * jitdump; else perf's own, or another clock's */
};

/* When: hardware or software TSC ticks as the trace has them [PTREF 8.3], [RTIT 4.2.13]. */
struct cofi_flow_time {
    uint64_t ticks; /* 0 before the first timing packet; back only by more than 65,536,
                     * where a packet has told a wrong time before, or does now */
    uint64_t ns;    /* by the recording's conversion, 0 if there is none */
    bool known;
    bool interpolated; /* since the last TSC, MTC or STS: by cycle counts */
};

/* What is known of the time besides a stream's packets: from the packet at `offset`
 * on it is `least` ticks at least; and before `most`, until a packet tells a time. */
struct cofi_time_bound {
    uint64_t offset, least, most;
};

/* TSC ticks -> nanoseconds of the recording's clock, rounded down, modulo 2^64
 * [PTREF 10.3]; and back: the first tick whose nanosecond is at least ns, so that
 * cofi_time_ns(cofi_time_ticks(ns)) is ns or the next one there is; 0 for an ns
 * before conv->zero (which may be below 0, modulo 2^64). conv->mult must not be 0.
 * Pure: from any thread, at the cost of a multiplication or a division. */
uint64_t cofi_time_ns(const struct cofi_time_conv *conv, uint64_t tsc_ticks);
uint64_t cofi_time_ticks(const struct cofi_time_conv *conv, uint64_t ns);

/* A stream's clock, for who reads packets (a flow has one of its own): packets in,
 * in their order, and when each of them was [PTREF 8.3], [RTIT 4.2.12],
 * [RTIT 4.2.13], [RTIT 4.2.14]. Not thread safe; distinct clocks are independent. */
struct cofi_clock;

struct cofi_clock_config {
    size_t size;              /* sizeof(struct cofi_clock_config) */
    enum cofi_gen gen;
    struct cofi_time_info time;
    uint64_t reference_tsc;   /* a TSC at or before the first packet: supplies bits a
                               * packet lacks; 0: none */
    uint32_t family, model;   /* of the traced processor: errata; 0: none assumed */
};

/* 0, COFI_ERR_RANGE (size, gen, time.mtc_freq), COFI_ERR_UNSUPPORTED (a member of a
 * newer library is set) or COFI_ERR_NOMEM. Inverse: cofi_clock_close. */
int cofi_clock_open(struct cofi_clock **clock, const struct cofi_clock_config *config);
/* The next packet of the stream, of whatever kind. PT: an address space (PIP) counts
 * from its packet on, not from the branch that it is bound to. */
void cofi_clock_packet(struct cofi_clock *clock, const struct cofi_packet *packet);
/* Bytes of the stream that were no packets: what passed meanwhile is not known. */
void cofi_clock_lost(struct cofi_clock *clock);
/* The time behind the last packet. */
struct cofi_flow_time cofi_clock_now(struct cofi_clock *clock);
void cofi_clock_close(struct cofi_clock *clock); /* null: nothing */

#ifdef __cplusplus
}
#endif
#endif
