/* SPDX-License-Identifier: MIT
 * Transactions (RTM). Neither host can run in one: what they do would abort it. So they abort each where
 * it begins, with nothing in EAX, as an interrupt would (SDM, XBEGIN): to observers, one comes at XBEGIN
 * and returns to its fallback. */
#ifndef COFI_HOST_TRANSACTIONS_H
#define COFI_HOST_TRANSACTIONS_H

#include <cpuid.h>
#include <stdbool.h>

/* Whether the processor has XBEGIN: RTM, or that turned off so that it always aborts (RTM_ALWAYS_ABORT)
 * (SDM, CPUID leaf 7). */
static inline bool cofi__has_transactions(void)
{
    unsigned a, b, c, d;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && ((b | d) & 1 << 11);
}

#endif
