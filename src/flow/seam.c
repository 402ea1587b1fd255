/* SPDX-License-Identifier: MIT
 * Where a piece ends and the next one begins: what decoding goes on with, and whether that is the same
 * on both sides. */
#include <string.h>

#include "flow/pieces.h"
#include "flow/query.h"
#include "flow/walker.h"

/* What RTIT's PSB leaves as it was. */
static void seam_of_rtit(const struct cofi_flow *flow, struct seam *s)
{
    const struct ret_entry *ret = &flow->rets.entry[flow->rets.top % RET_DEPTH];
    s->has_ret = flow->rets.n && !flow->known.dis_retc;
    if (s->has_ret)
        s->ret_ip = ret->site ? ret->site->pub.end : ret->ip;
    s->last_end = flow->rtit.last_end;
    s->seen_ns = flow->code.seen_ns;
    s->used_ticks = flow->config.want_time ? 0 : flow->used.ticks; /* of a gap that follows; else it asks the clock */
    s->last_ip_valid = flow->last_ip_valid;
    s->stop_was_last = flow->rtit.stop_was_last;
    s->ecbr = flow->rtit.ecbr;
    s->pg = flow->rtit.pg;
    s->odd = flow->far || flow->just_overflowed || flow->time_hidden || flow->unknown || flow->pgd_held;
}

struct seam cofi__seam_of(const struct cofi_flow *flow)
{
    struct seam s;
    memset(&s, 0, sizeof s); /* compared bytewise */
    s.psb = flow->ended ? UINT64_MAX : flow->psb.offset;
    s.ip = flow->enabled ? position(flow) : 0;
    s.last_ip = flow->last_ip;
    s.cr3 = flow->code.cr3;
    s.vmcs = flow->code.vmcs;
    s.next_change = cofi_view_next_change(flow->code.view); /* which code is seen */
    s.disabled_ip = flow->disabled_ip;
    s.clock = flow->clock;
    s.clock.tsc = s.clock.tsc_exact = s.clock.before_tsc = s.clock.before_now = 0; /* until its PSBEND only */
    s.clock.least = 0; /* not of what follows */
    s.clock.tsc_in_psb = false;
    if (s.clock.new_cycles) /* learnt, whether or not anybody has asked since */
        s.clock.ratio = (s.clock.new_ticks << COFI_CLOCK_SHIFT) / s.clock.new_cycles;
    s.clock.new_cycles = s.clock.new_ticks = 0;
    if (flow->config.gen == COFI_RTIT)
        seam_of_rtit(flow, &s);
    s.image = flow->code.images[flow->code.space];
    s.mode = flow->code.mode;
    s.cbr = flow->cbr;
    s.enabled = flow->enabled;
    s.non_root = flow->code.non_root;
    s.in_tx = flow->in_tx;
    s.tentative = flow->tentative;
    s.code_missed = flow->code.missed;
    s.doubt = doubt(flow);
    s.overflow = flow->overflow;
    s.overflow_ticks = flow->overflow ? flow->ovf.ticks : 0;
    s.ovf_ip = flow->ovf.psb.units == units_used(flow) ? flow->ovf.psb.ip : COFI_NO_IP;
    s.asleep = cofi__sleeps(flow);
    s.sleep_ip = s.asleep ? flow->sleep.exstop.ip : COFI_NO_IP;
    s.stopped = flow->rtit.stopped;
    s.events_seen = flow->config.ctl_known ? 0 : flow->ovf.events_seen;
    s.ended = flow->ended;
    s.odd |= flow->lost || flow->headless || flow->async || flow->tip_due || flow->n || flow->has_packet ||
             flow->pend.n || flow->pend.mode || flow->pend.paging || flow->pend.vmcs || flow->pend.tsx ||
             flow->out.spill_n;
    return s;
}

bool cofi__seam_fits(const struct seam *left, const struct seam *right)
{
    struct seam l = *left, r = *right;
    if (r.disabled_ip == PIECE_UNKNOWN_IP)
        l.disabled_ip = r.disabled_ip; /* made good when the piece is shown */
    if (r.clock.now < l.clock.now)
        r.clock.now = l.clock.now; /* so is this */
    return !l.odd && !r.odd && !l.ended && !memcmp(&l, &r, sizeof l);
}
