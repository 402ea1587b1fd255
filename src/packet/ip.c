/* SPDX-License-Identifier: MIT
 * IP compression of both generations: address <-> (code, payload) against LastIP. */
#include "base/bytes.h"
#include "packet/row.h"

/* [SDM IP Compression]; [RTIT 4.2.3.1]. */
bool cofi_ip_expand(const struct cofi_packet *packet, uint64_t last, uint64_t *ip)
{
    uint64_t payload = packet->ip.payload;
    unsigned code = packet->ip.code;
    if (cofi_packet_gen((enum cofi_packet_kind)packet->kind) == COFI_RTIT) {
        int bytes = cofi__ip_bytes(COFI_RTIT, code);
        if (bytes < 0)
            return false;
        unsigned width = 8u * (unsigned)bytes;
        /* Zext: zeros above; else what LastIP has there. Linear addresses have 48 bits
         * [RTIT 3.3.6]. */
        uint64_t upper = code & 4 ? 0 : last >> width << width;
        *ip = sext(bits(upper | payload, 0, 48), 47);
        return true;
    }
    switch (code) {
    case 1: *ip = (last & ~UINT64_C(0xffff)) | payload; return true;
    case 2: *ip = (last & ~UINT64_C(0xffffffff)) | payload; return true;
    case 3: *ip = sext(payload, 47); return true;
    case 4: *ip = (last & ~UINT64_C(0xffffffffffff)) | payload; return true;
    case 6: *ip = payload; return true;
    }
    return false;
}

/* [RTIT Table 18], by row: zeros above are preferred, then what LastIP has. */
static void compress_rtit(struct cofi_packet *packet, uint64_t ip, uint64_t last, bool last_valid)
{
    bool match_high = last_valid && bits(ip ^ last, 32, 16) == 0;
    bool match_low = last_valid && bits(ip ^ last, 16, 16) == 0;
    bool zero_high = bits(ip, 32, 16) == 0, zero_low = bits(ip, 16, 16) == 0;
    unsigned cnt, zext;
    if (zero_high && zero_low)
        cnt = 0, zext = 1;
    else if (match_high && match_low)
        cnt = 0, zext = 0;
    else if (zero_high)
        cnt = 1, zext = 1;
    else if (match_high)
        cnt = 1, zext = 0;
    else
        cnt = 2, zext = 0;
    packet->ip.code = (uint8_t)(cnt | zext << 2);
    packet->ip.payload = bits(ip, 0, 16 * (cnt + 1));
}

/* [PTREF 5.4]: the manual leaves the choice open; this order is ours. */
static void compress_pt(struct cofi_packet *packet, uint64_t ip, uint64_t last, bool last_valid)
{
    unsigned code, width;
    if (last_valid && (ip ^ last) >> 16 == 0)
        code = 1, width = 16;
    else if (last_valid && (ip ^ last) >> 32 == 0)
        code = 2, width = 32;
    else if (sext(ip, 47) == ip)
        code = 3, width = 48;
    else if (last_valid && (ip ^ last) >> 48 == 0)
        code = 4, width = 48;
    else
        code = 6, width = 64;
    packet->ip.code = (uint8_t)code;
    packet->ip.payload = bits(ip, 0, width);
}

void cofi_ip_compress(struct cofi_packet *packet, uint64_t ip, uint64_t last, bool last_valid)
{
    if (cofi_packet_gen((enum cofi_packet_kind)packet->kind) == COFI_RTIT)
        compress_rtit(packet, ip, last, last_valid);
    else
        compress_pt(packet, ip, last, last_valid);
}
