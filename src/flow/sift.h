/* SPDX-License-Identifier: MIT
 * Taking out of a stretch of trace what only tells the time. */
#ifndef COFI_FLOW_SIFT_H
#define COFI_FLOW_SIFT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "time/clock.h"

struct cofi_flow;

enum { SIFT_WINDOW = 64, SIFT_MORE = 2 * SIFT_WINDOW /* bytes that may be written behind the last packet */ };

/* How far a stretch has been gone through. */
struct sift {
    const uint8_t *p;           /* behind the last packet read */
    uint8_t *q;                 /* behind the last packet written */
    uint64_t acc;               /* outcomes, youngest at bit 0; those that are not written yet: */
    unsigned n;
    const uint8_t *tnt;         /* the last TNT */
    const uint8_t *tip, *tip_before; /* the last two targets */
    uint64_t last_ip;
};

/* A TNT of n outcomes, fewer than 6, youngest at bit 0 of acc. */
static inline uint8_t short_tnt(uint64_t acc, unsigned n, bool pt)
{
    return (uint8_t)((1u << n | (acc & ((1u << n) - 1))) << pt);
}

/* On to the first packet that ends behind `stop`, which may be some packets behind it, or to what is neither
 * timing nor a branch's; the clock is told. No byte at `end` or behind is read, if 32 lie between. */
void cofi__sift(struct cofi_flow *flow, struct sift *w, const uint8_t *stop, const uint8_t *end);
/* The same once more, without writing, to where so many bytes were written; the clock may be null. */
void cofi__sift_until(const struct cofi_flow *flow, struct sift *w, struct cofi__clock *clock, const uint8_t *stop,
                      const uint8_t *until);
/* How many outcomes a TNT has. */
unsigned cofi__sift_outcomes(const struct cofi_flow *flow, const uint8_t *tnt);

/* PT, by windows of 64 bytes while no other packet comes and `end` is far enough. It stands then where
 * another packet's window begins; or behind `stop`. Only for processors that have what it takes. */
typedef void sift_wide(struct sift *w, struct cofi__clock *clock, const uint8_t *stop, const uint8_t *end);
#ifdef __x86_64__
sift_wide cofi__sift_avx512, cofi__sift_avx2;
bool cofi__sift_avx512_here(void);
bool cofi__sift_avx2_here(void);
#endif

/* The fastest of these that this processor has; null: none. */
static inline sift_wide *sift_widest(void)
{
#ifdef __x86_64__
    return cofi__sift_avx512_here() ? cofi__sift_avx512 : cofi__sift_avx2_here() ? cofi__sift_avx2 : NULL;
#else
    return NULL;
#endif
}

#endif
