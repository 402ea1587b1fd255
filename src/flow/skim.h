/* SPDX-License-Identifier: MIT
 * What RTIT packets tell without the code. */
#ifndef COFI_FLOW_SKIM_H
#define COFI_FLOW_SKIM_H

#include "flow/walker.h"

/* State at a PSB, before it. */
struct skimmed {
    bool known;
    uint64_t offset;
    size_t into;             /* the piece before the one that it is for: so many bytes */
    struct cofi__clock clock;
    uint64_t cr3, seen_ns;
    uint8_t cbr, ecbr, pg;
};

enum { SKIM_OTHERS = 64 };

/* What lies between two PSBs, with the first of them. */
struct skim {
    const uint8_t *bytes;
    size_t n, at;            /* how many; before which all has been looked at */
    uint8_t met, since;      /* TIPs: in it; behind the last packet that moves execution */
    unsigned others_n;
    size_t others[SKIM_OTHERS]; /* where packets before `at` begin that are neither outcomes nor targets */
};

/* A flow that only reads packets. Closed by cofi_flow_close. */
int cofi__skim_open(struct cofi_flow **skimmer, const struct cofi_flow_config *config);
/* Find the packets that matter in up to four of them, as far as that is quick. */
void cofi__skim_ahead(struct cofi_flow *skimmer, struct skim skims[4], unsigned n);
/* Take what they tell, in order. Whether a walk that begins there knows its way at the end and nothing is in the air: a
 * whole address stands in it, and no packet behind the last one that an event's other half may follow. */
bool cofi__skim(struct cofi_flow *skimmer, struct skim *skim);
void cofi__skim_tell(const struct cofi_flow *skimmer, struct skimmed *out);
/* Into a flow that stands at that PSB. 0 or an error. */
int cofi__skim_take(struct cofi_flow *flow, const struct skimmed *known);

#endif
