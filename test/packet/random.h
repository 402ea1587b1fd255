/* SPDX-License-Identifier: MIT
 * Random bytes for tests: reproducible, and shaped so that every packet comes up. */
#ifndef COFI_TEST_RANDOM_H
#define COFI_TEST_RANDOM_H

#include <stddef.h>
#include <stdint.h>

struct random {
    uint64_t state;
};

/* splitmix64 */
static inline uint64_t random_u64(struct random *r)
{
    uint64_t z = (r->state += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

static inline unsigned random_below(struct random *r, unsigned n)
{
    return (unsigned)(random_u64(r) % n);
}

/* Half of the bytes are 0, 1, 2, 82 and such that headers and reserved fields are often right. */
static inline void random_bytes(struct random *r, uint8_t *bytes, size_t n)
{
    static const uint8_t likely[] = {0x00, 0x00, 0x00, 0x02, 0x82, 0x01,
                                     0x03, 0xc0, 0x88, 0x99, 0x20, 0xff};
    for (size_t i = 0; i < n; i++) {
        uint64_t v = random_u64(r);
        bytes[i] = v & 1 ? likely[(v >> 8) % sizeof likely] : (uint8_t)(v >> 16);
    }
}

/* The same as the beginning of a packet: often an extended one, and often with single bits in its
 * fields. */
static inline void random_packet_bytes(struct random *r, uint8_t *bytes, size_t n)
{
    static const uint8_t second[] = {0x03, 0x12, 0x92, 0x32, 0xb2, 0x13, 0x22, 0x23,
                                     0x33, 0xb3, 0x43, 0x53, 0x62, 0xe2, 0x63, 0x73,
                                     0x82, 0x83, 0xa2, 0xa3, 0xc2, 0xc3, 0xc8, 0xf3};
    random_bytes(r, bytes, n);
    uint64_t v = random_u64(r);
    if (v & 1)
        bytes[0] = v & 2 ? 0x02 : v & 4 ? 0x99 : 0xd9;
    if (bytes[0] == 0x02 && v & 8)
        bytes[1] = second[(v >> 16) % sizeof second];
    for (size_t i = v >> 32 & 15; v & 16 && i < n; i++)
        bytes[i] = 0;
    if (v & 32)
        bytes[1 + (v >> 40) % 8] |= (uint8_t)(1u << (v >> 48 & 7));
}

#endif
