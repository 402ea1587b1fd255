/* SPDX-License-Identifier: MIT
 * Where a PSB+ is over. */
#ifndef COFI_PACKET_PSB_PLUS_H
#define COFI_PACKET_PSB_PLUS_H

#include <stdbool.h>

#include <cofi/packet.h>

/* PT: what lies behind belongs to it no more [PTREF 5.11]. Traces of guests made by Xen have no PSBEND
 * where tracing is enabled. */
static inline bool cofi__ends_psb_plus(enum cofi_packet_kind kind)
{
    return kind == COFI_PT_PSBEND || kind == COFI_PT_OVF || kind == COFI_PT_TIP_PGE;
}

#endif
