/* SPDX-License-Identifier: MIT
 * Bytes -> packets -> bytes and text -> packets: the way back is the way there. First byte: the
 * context. */
#include <cofi/error.h>
#include <cofi/packet.h>

#include "../test/reference/packets.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    if (!n)
        return 0;
    struct cofi_packet_context context = {.gen = *bytes & 1 ? COFI_PT : COFI_RTIT};
    context.cyc = context.gen == COFI_RTIT && *bytes & 2;
    context.block = context.gen == COFI_PT ? (*bytes >> 2) % 3 : 0;
    for (size_t i = 1; i < n;) {
        struct cofi_packet_context c = context, r = context, t = context;
        struct cofi_packet packet, plain, parsed;
        uint8_t again[COFI_PACKET_MAX];
        char text[COFI_PACKET_TEXT_MAX], json[512];
        int size = cofi_packet_decode(&context, bytes + i, n - i, &packet);
        MUST(size == reference_decode(&r, bytes + i, n - i, &plain));
        MUST(!memcmp(&context, &r, sizeof r));
        MUST(!cofi_packet_why(&c, bytes + i, n - i) == (size > 0));
        if (size < 0) {
            i++;
            continue;
        }
        MUST(cofi_packet_encode(&c, &packet, again, sizeof again) == size);
        MUST(!memcmp(again, bytes + i, (size_t)size) && !memcmp(&c, &context, sizeof c));
        MUST(cofi_packet_print(&packet, text, sizeof text) < (int)sizeof text);
        MUST(cofi_packet_print_json(&packet, json, sizeof json) < (int)sizeof json);
        MUST(cofi_packet_parse((enum cofi_gen)context.gen, text, &parsed, 0) == 0);
        MUST(cofi_packet_encode(&t, &parsed, again, sizeof again) == size);
        MUST(!memcmp(again, bytes + i, (size_t)size));
        i += (size_t)size;
    }
    return 0;
}
