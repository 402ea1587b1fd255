/* SPDX-License-Identifier: MIT
 * Text -> packet -> text: what parses prints to what parses to the same. First byte: the
 * generation. */
#include <cofi/error.h>
#include <cofi/packet.h>

#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    if (!n)
        return 0;
    enum cofi_gen gen = *bytes & 1 ? COFI_PT : COFI_RTIT;
    char *text = malloc(n), one[COFI_PACKET_TEXT_MAX], two[COFI_PACKET_TEXT_MAX];
    memcpy(text, bytes + 1, n - 1);
    text[n - 1] = 0;
    struct cofi_packet packet, back;
    struct cofi_error error;
    int status = cofi_packet_parse(gen, text, &packet, &error);
    if (status < 0) {
        MUST(status == COFI_ERR_SYNTAX || status == COFI_ERR_RANGE);
        MUST(error.code == status && error.offset <= strlen(text));
    } else {
        MUST(cofi_packet_print(&packet, one, sizeof one) < (int)sizeof one);
        MUST(cofi_packet_parse(gen, one, &back, 0) == 0);
        cofi_packet_print(&back, two, sizeof two);
        MUST(!strcmp(one, two) && packet.size == back.size);
    }
    free(text);
    return 0;
}
