/* SPDX-License-Identifier: MIT
 * Which configurations tell full times. */
#ifndef COFI_PACKET_FULL_TIME_H
#define COFI_PACKET_FULL_TIME_H

#include <stdbool.h>
#include <stdint.h>

#include <cofi/packet.h>

/* Whether a trace made with this IA32_RTIT_CTL or RTIT_CTL never tells a full time: PT without TSCEn; RTIT without
 * STS_En, or with Less_Pkts, which drops the STS before a FUP.PGE [SDM IA32_RTIT_CTL MSR], [RTIT 4.2.13]. */
static inline bool cofi__tells_no_full_time(enum cofi_gen gen, uint64_t ctl)
{
    bool full_time = ctl >> 10 & 1, less_pkts = gen == COFI_RTIT && ctl >> 12 & 1;
    return !full_time || less_pkts;
}

#endif
