/* SPDX-License-Identifier: MIT
 * The processors' errata that decoders must live with: each changes packets after the rules have
 * made them. [PTREF 9.8]. BDM70, SKD010, SKD022, SKL014, BDM106 and GOLDMONT are a condition at the rule they
 * break. */
#include <string.h>

#include "unit/pt/pt.h"

static bool on(const struct cofi__pt *pt, uint64_t erratum) { return pt->config.errata & erratum; }

/* [ERR BDM64]: the branch just before an abort has a wrong target. */
void cofi__pt_erratum_abort(struct cofi__pt *pt)
{
    if (pt->tip_held)
        pt->held_ip ^= 0x10;
}

/* [ERR SKD007]: OVF overwrites all but the first byte of the CYC before it; start: where that
 * begins. */
void cofi__pt_erratum_cyc_before_ovf(struct cofi__pt *pt, uint32_t start)
{
    uint32_t n = pt->stage_count - start;
    if (!on(pt, COFI_ERRATUM_SKD007) || n <= 3 || (pt->stage[start] & 7) != 7)
        return;
    memmove(pt->stage + start + 1, pt->stage + pt->stage_count - 2, 2);
    pt->stage_count = start + 3;
    if (pt->said_n >= 2) {
        pt->said[pt->said_n - 2].packet.size = 1;
        pt->said[pt->said_n - 1].at = start + 1;
    }
}

/* [ERR APL11]: TIP.PGD tells after OVF that packets went off. [ERR APL12]: a FUP although they are
 * off. */
void cofi__pt_erratum_after_ovf(struct cofi__pt *pt, uint64_t ip, bool was_on)
{
    if (on(pt, COFI_ERRATUM_APL11) && was_on)
        cofi__pt_emit_no_ip(pt, COFI_PT_TIP_PGD, PT_RULE_RESUME);
    if (on(pt, COFI_ERRATUM_APL12))
        cofi__pt_emit_ip(pt, COFI_PT_FUP, ip, PT_RULE_RESUME);
}

/* [ERR SKL168]: the cycles up to a PSB are lost. (MTCs too: clock.c drops those due while a PSB
 * is.) */
void cofi__pt_erratum_before_psb(struct cofi__pt *pt)
{
    if (on(pt, COFI_ERRATUM_SKL168))
        pt->cyc_base = pt->cyc_last = pt->cycles;
}

/* [ERR SKZ84]: under a TSC offset or scaling the TMA has reserved bits set and a byte too many. */
void cofi__pt_erratum_tma(struct cofi__pt *pt)
{
    if (!on(pt, COFI_ERRATUM_SKZ84) || !(pt->tsc_offset | pt->tsc_multiplier) || pt->stage_count - pt->op_start < 7)
        return;
    pt->stage[pt->stage_count - 3] = 1;
    pt->stage[pt->stage_count++] = 0;
    if (pt->said_n)
        pt->said[pt->said_n - 1].packet.size++;
}
