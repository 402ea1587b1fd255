/* SPDX-License-Identifier: MIT
 * No second opinion where there is no libipt. */
#include "ipt.h"

#include <stdlib.h>

const bool ipt_is_here = false;

uint64_t *ipt_insns_of(uint8_t *trace, size_t n, const struct ipt_code *pieces, unsigned pieces_n, size_t *count)
{
    (void)trace, (void)n, (void)pieces, (void)pieces_n, (void)count;
    abort();
}

uint64_t *ipt_insns(uint8_t *trace, size_t n, const uint8_t *code, size_t size, uint64_t base, size_t *count)
{
    return ipt_insns_of(trace, n, &(struct ipt_code){code, size, base}, 1, count);
}
