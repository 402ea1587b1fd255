/* SPDX-License-Identifier: MIT
 * libipt's instruction decoder, as a second opinion. */
#ifndef COFI_TEST_FLOW_IPT_H
#define COFI_TEST_FLOW_IPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Whether this machine has it. */
extern const bool ipt_is_here;

struct ipt_code {
    const uint8_t *bytes;
    size_t size;
    uint64_t base;
};

/* All instructions of a trace; to be freed. */
uint64_t *ipt_insns_of(uint8_t *trace, size_t n, const struct ipt_code *pieces, unsigned pieces_n, size_t *count);
/* All instructions of a trace over one piece of code; to be freed. */
uint64_t *ipt_insns(uint8_t *trace, size_t n, const uint8_t *code, size_t size, uint64_t base, size_t *count);

#endif
