/* SPDX-License-Identifier: MIT
 * Writes a short PT trace with the codec, reads it back as a stream in pieces of 7 bytes, and prints it; with a
 * file name, prints that raw PT stream instead. Usage: packets [FILE] */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include <cofi/packet.h>
#include <cofi/stream.h>

enum { PIECE = 7 };

/* PSB, PSBEND, 64-bit mode, enabled at 401000, branches T N T, an indirect branch. */
static size_t make_trace(uint8_t *out, size_t room)
{
    static const char *const text[] = {"psb", "psbend", "mode.exec cs.l", "tip.pge 3: 401000", "tnt.8 !.!", 0};
    struct cofi_packet_context context = {.gen = COFI_PT};
    struct cofi_packet packet;
    size_t n = 0;
    for (int i = 0; text[i]; i++)
        if (cofi_packet_parse(COFI_PT, text[i], &packet, 0) == 0)
            n += (size_t)cofi_packet_encode(&context, &packet, out + n, room - n);
    packet = (struct cofi_packet){.kind = COFI_PT_TIP};
    cofi_ip_compress(&packet, 0x40101a, 0x401000, true);
    return n + (size_t)cofi_packet_encode(&context, &packet, out + n, room - n);
}

static size_t read_piece(FILE *in, const uint8_t *trace, size_t n, size_t *at, uint8_t *piece)
{
    if (in)
        return fread(piece, 1, PIECE, in);
    size_t k = n - *at < PIECE ? n - *at : PIECE;
    for (size_t i = 0; i < k; i++)
        piece[i] = trace[(*at)++];
    return k;
}

int main(int argc, char **argv)
{
    uint8_t trace[256], piece[PIECE];
    size_t n = make_trace(trace, sizeof trace), at = 0, got;
    FILE *in = argc > 1 ? fopen(argv[1], "rb") : 0;
    if (argc > 1 && !in) {
        perror(argv[1]);
        return 3;
    }
    struct cofi_stream stream;
    struct cofi_stream_item item;
    cofi_stream_init(&stream, COFI_PT, 0, false);
    do {
        got = read_piece(in, trace, n, &at, piece);
        cofi_stream_feed(&stream, piece, got);
        if (!got)
            cofi_stream_finish(&stream);
        while (cofi_stream_next(&stream, &item)) {
            char text[COFI_PACKET_TEXT_MAX];
            if (item.status)
                printf("%06" PRIx64 "  %" PRIu64 " bytes skipped\n", item.offset, item.size);
            else if (cofi_packet_print(&item.packet, text, sizeof text) > 0)
                printf("%06" PRIx64 "  %s\n", item.offset, text);
        }
    } while (got);
    return 0;
}
