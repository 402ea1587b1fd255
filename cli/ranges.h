/* SPDX-License-Identifier: MIT
 * The address ranges that a PT recording was filtered by: its own words, or perf's filter text and the mappings. */
#ifndef COFI_CLI_RANGES_H
#define COFI_CLI_RANGES_H

#include <stdbool.h>
#include <stdint.h>

#include <cofi/trace.h>

enum { RANGES_MAX = 4 };

/* IA32_RTIT_ADDRn_A and _B (inclusive), and ADDRn_CFG where IA32_RTIT_CTL has them. */
struct ranges {
    bool known;
    uint64_t base[RANGES_MAX], limit[RANGES_MAX];
    uint64_t cfg;
};

/* Range i: filter or TraceStop. */
void ranges_set(struct ranges *ranges, unsigned i, uint64_t base, uint64_t limit, bool stop);
/* Those of a process (pid -1: of any). Not known: the recording does not tell, or not all that it tells
 * can be placed. */
struct ranges ranges_of(const struct cofi_recording *recording, int32_t pid);
/* Whether filters let an address through: there are none, or it is inside of one. */
bool ranges_pass(const struct ranges *ranges, uint64_t ip);

#endif
