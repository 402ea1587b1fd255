/* SPDX-License-Identifier: MIT
 * The address that a TIP, FUP, TIP.PGE or TIP.PGD tells [SDM IP Compression]. */
#ifndef COFI_FLOW_PT_IP_H
#define COFI_FLOW_PT_IP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"

/* By IPBytes: how many bytes follow, and which of them replace those of LastIP; 0: none do, or it is reserved. */
static const uint8_t pt_ip_bytes[8] = {0, 2, 4, 6, 6, 0, 8, 0};
static const uint64_t pt_ip_mask[8] = {0, 0xffff,     0xffffffff, UINT64_C(0xffffffffffff), UINT64_C(0xffffffffffff),
                                       0, UINT64_MAX, 0};

static inline bool pt_ip_is_full(unsigned code) { return code == 3 || code == 6; }

/* payload: 8 bytes as they lie in the stream, or more than it has. The mask is not 0. */
static inline uint64_t pt_ip(uint64_t last_ip, unsigned code, uint64_t payload)
{
    uint64_t mask = pt_ip_mask[code];
    return code == 3 ? sext(payload & mask, 47) : (last_ip & ~mask) | (payload & mask);
}

#endif
