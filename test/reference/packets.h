/* SPDX-License-Identifier: MIT
 * A second packet decoder, plain and slow, written from the manuals without the tables; to compare
 * with. */
#ifndef COFI_TEST_REFERENCE_PACKETS_H
#define COFI_TEST_REFERENCE_PACKETS_H

#include <cofi/packet.h>

/* As cofi_packet_decode, byte by byte. */
int reference_decode(struct cofi_packet_context *context, const uint8_t *bytes, size_t n,
                     struct cofi_packet *packet);

#endif
