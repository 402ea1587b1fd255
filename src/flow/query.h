/* SPDX-License-Identifier: MIT
 * What both query layers share. */
#ifndef COFI_FLOW_QUERY_H
#define COFI_FLOW_QUERY_H

#include "flow/walker.h"

int cofi__settle(struct cofi_flow *flow);
/* Why a gap begins at a branch whose outcome no packet tells. */
extern const char cofi__outcomes_untold[];
/* Why one begins where decoding began before a PSB. */
extern const char cofi__no_address_yet[];
/* DisTNT: a way that ends there may go on in two. */
bool cofi__is_untold(const struct cofi_flow *flow, const struct place *place);
int cofi__show_paging(struct cofi_flow *flow, uint64_t ip);
int cofi__show_vmcs(struct cofi_flow *flow, uint64_t ip);
int cofi__show_tsx(struct cofi_flow *flow, uint64_t ip);
int cofi__bind_vmcs(struct cofi_flow *flow);
bool cofi__tells_iflag(const struct cofi_flow *flow);
int cofi__rtit_release(struct cofi_flow *flow);
int cofi__resume_at_tip(struct cofi_flow *flow);
int cofi__end_async(struct cofi_flow *flow, enum cofi_flow_event_kind kind);
/* pt_overflow.c */
void cofi__mode_above_4_gib(struct cofi_flow *flow);
void cofi__presume_enabled(struct cofi_flow *flow, uint64_t offset);
int cofi__pt_ovf(struct cofi_flow *flow);
int cofi__end_overflow(struct cofi_flow *flow, uint64_t ip);
int cofi__fup_after_overflow(struct cofi_flow *flow);
int cofi__fup_of_packet_after_overflow(struct cofi_flow *flow);
void cofi__stray_fup_again(struct cofi_flow *flow);
void cofi__event_en_shows(struct cofi_flow *flow, unsigned n);
int cofi__tip_after_overflow(struct cofi_flow *flow);
int cofi__pgd_after_overflow(struct cofi_flow *flow);
int cofi__outcomes_after_overflow(struct cofi_flow *flow);
void cofi__expect_overflows_fup(struct cofi_flow *flow, bool seen);
bool cofi__fup_is_overflows(struct cofi_flow *flow);
bool cofi__fup_is_doubtful(const struct cofi_flow *flow);
int cofi__take_overflows_fup(struct cofi_flow *flow);
int cofi__show_without_place(struct cofi_flow *flow);
int cofi__tip_behind_doubtful_fup(struct cofi_flow *flow);
extern const char cofi__doubtful_fup[];
/* pt_inform.c */
/* The packet's event, with what it carries. */
struct cofi_flow_event cofi__told(struct cofi_flow *flow, enum cofi_flow_event_kind kind, uint8_t a, uint8_t b,
                                  uint8_t c);
int cofi__act_ptw(struct cofi_flow *flow);
int cofi__act_cfe(struct cofi_flow *flow);
int cofi__act_evd(struct cofi_flow *flow);
int cofi__act_bbp(struct cofi_flow *flow);
int cofi__act_bip(struct cofi_flow *flow);
int cofi__act_bep(struct cofi_flow *flow);
int cofi__act_trig(struct cofi_flow *flow);
/* pt_power.c */
int cofi__act_mwait(struct cofi_flow *flow);
int cofi__act_pwre(struct cofi_flow *flow);
int cofi__act_exstop(struct cofi_flow *flow);
int cofi__act_pwrx(struct cofi_flow *flow);
int cofi__let_pwre_go(struct cofi_flow *flow);
bool cofi__sleeps(const struct cofi_flow *flow);
void cofi__note_sleep(struct cofi_flow *flow, uint64_t ip);
/* All that packets told is forgotten, decoded code is kept; skip: bytes to pass over. */
void cofi__flow_restart(struct cofi_flow *flow, uint64_t skip);
/* Start at an offset as if nothing had been read; where the bytes come by pull, it gives those from there on. */
int cofi__flow_afresh_at(struct cofi_flow *flow, uint64_t offset);
/* RTIT: read the packets up to a PSB for their times only; the code is seen as of the last one. A PSB of
 * RTIT tells no time [RTIT 4.2.1]: it goes on from what was told before. */
int cofi__flow_catch_up(struct cofi_flow *flow, uint64_t psb);
/* The code is seen as of this time, which is not before what was seen. 0 or COFI_ERR_NOMEM. */
int cofi__flow_see_code(struct cofi_flow *flow, uint64_t ns);
/* Start at the PSB at an offset as if decoding had come there. */
int cofi__flow_go_on_at(struct cofi_flow *flow, uint64_t offset);
/* What comes may be earlier than what was shown: code as it was at first. Nothing to do where it never changed. */
int cofi__flow_rewind_code(struct cofi_flow *flow);
int cofi__flow_cover(struct cofi_flow *flow);
int cofi__coverage_check(const struct cofi_flow_coverage *coverage); /* COFI_ERR_RANGE: see cofi_flow_cover */
int cofi__pend_add(struct cofi_flow *flow, const struct cofi_flow_event *event, bool fup);
/* No code leads to where a stand-alone packet belongs. */
int cofi__lose_on_way(struct cofi_flow *flow);
/* As of when code is seen from a place on that is exact, such as where tracing is enabled, in ns; false:
 * that is not known. */
bool cofi__code_time(struct cofi_flow *flow, uint64_t offset, uint64_t *ns);
/* The time as of the packet is known and may bring other code. */
int cofi__code_due(struct cofi_flow *flow, uint64_t offset);
/* The look-up where execution is has failed, but code comes there before a packet tells the time next,
 * as bounds say or because an overflow hid the last one that did: then it is as late as that. */
bool cofi__code_comes(struct cofi_flow *flow);
void cofi__code_at_return(struct cofi_flow *flow);

/* A new address space is due first: the packet is acted on again, then. */
static inline bool cofi__waits_for_space(struct cofi_flow *flow)
{
    flow->has_packet |= flow->space_due;
    return flow->space_due;
}

#endif
