/* SPDX-License-Identifier: MIT
 * TSC ticks -> perf's nanoseconds and back. */
#include <cofi/time.h>

/* perf time = zero + (tsc * mult) >> shift, computed so that nothing overflows [PTREF 10.3]. */
uint64_t cofi_time_ns(const struct cofi_time_conv *conv, uint64_t tsc_ticks)
{
    unsigned __int128 product = (unsigned __int128)tsc_ticks * conv->mult;
    return conv->zero + (uint64_t)(product >> conv->shift);
}

uint64_t cofi_time_ticks(const struct cofi_time_conv *conv, uint64_t ns)
{
    uint64_t since = ns - conv->zero;
    unsigned __int128 scaled = (unsigned __int128)(since >> 63 ? 0 : since) << conv->shift;
    return (uint64_t)((scaled + conv->mult - 1) / conv->mult);
}
