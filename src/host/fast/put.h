/* SPDX-License-Identifier: MIT
 * Packets at the end of what was written: of what is outstanding, and with an address. */
#ifndef COFI_HOST_FAST_PUT_H
#define COFI_HOST_FAST_PUT_H

#include <stdint.h>
#include <string.h>

enum { TIP = 0x0d, TIP_PGE = 0x11, TIP_PGD = 0x01, FUP = 0x1d };

/* A packet of what is outstanding, if that is anything. */
static inline uint8_t *flush_tnt(uint8_t *out, unsigned *outstanding)
{
    *out = (uint8_t)(*outstanding << 1);
    out += *outstanding > 1;
    *outstanding = 1;
    return out;
}

/* A packet with an address in the shortest code [SDM IP Compression], in the order of [PTREF 5.4]. The address
 * is sign-extended from bit 47. */
static inline uint8_t *put_ip(uint8_t *out, uint64_t *last_ip, unsigned opcode, uint64_t ip)
{
    uint64_t differs = ip ^ *last_ip;
    unsigned code = 1 + (differs >> 16 != 0) + (differs >> 32 != 0);
    *out = (uint8_t)(code << 5 | opcode);
    memcpy(out + 1, &ip, 8);
    *last_ip = ip;
    return out + 1 + 2 * code;
}

#endif
