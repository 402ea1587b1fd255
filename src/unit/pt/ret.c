/* SPDX-License-Identifier: MIT
 * Calls and returns -> is this return compressed?
 * [SDM Indirect Transfer Compression for Returns (RET)]; cleared on a mismatch unless
 * config.returns_pop, so that every public decoder agrees [PTREF 7.2]. */
#include "base/bytes.h"
#include "unit/pt/pt.h"

void cofi__pt_ret_clear(struct cofi__pt *pt) { pt->ret_count = 0; }

/* The oldest entry falls out of a full stack. */
void cofi__pt_ret_push(struct cofi__pt *pt, uint64_t next)
{
    pt->ret_top = (uint8_t)((pt->ret_top + 1) % PT_RET_STACK);
    pt->ret[pt->ret_top] = next;
    if (pt->ret_count < PT_RET_STACK)
        pt->ret_count++;
}

/* Pop the youngest; true if it is target, compared in the width of the return. */
bool cofi__pt_ret_pop(struct cofi__pt *pt, uint64_t target)
{
    uint64_t width = pt->context.mode == 64 ? UINT64_MAX : UINT32_MAX;
    bool match = false;
    if (pt->ret_count > 0) {
        match = ((pt->ret[pt->ret_top] ^ target) & width) == 0;
        pt->ret_top = (uint8_t)((pt->ret_top + PT_RET_STACK - 1) % PT_RET_STACK);
        pt->ret_count--;
    }
    bool compress = match && pt->take_tnt && !(cofi__pt_ctl(pt) & PT_BIT(CTL_DIS_RETC));
    if (!compress && !pt->config.returns_pop)
        cofi__pt_ret_clear(pt);
    return compress;
}
