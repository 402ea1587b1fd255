/* SPDX-License-Identifier: MIT
 * Streams: bytes in pieces of any size -> packets with their offsets, synchronized at PSBs. */
#ifndef COFI_STREAM_H
#define COFI_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cofi/packet.h>

#ifdef __cplusplus
extern "C" {
#endif

#define COFI_NO_PSB SIZE_MAX

/* Where the first PSB that begins at or after `from`, or the last one that begins before `before`,
 * stands in bytes[0..n); COFI_NO_PSB: there is none. A PT packet before a PSB may end in the bytes
 * 02 82; of a run that is longer than a PSB its last 16 bytes count [PTREF 9.1]. Thread safe; a few
 * GB/s. */
size_t cofi_sync_forward(enum cofi_gen gen, const uint8_t *bytes, size_t n, size_t from);
size_t cofi_sync_backward(enum cofi_gen gen, const uint8_t *bytes, size_t n, size_t before);

/* What the next three read at most, in bytes. */
enum { COFI_GUESS_BYTES = 4 << 20 };

/* Whether an RTIT stream has cycle counts after its packets (RTIT_CTL.Cycle_Acc), which it does
 * not say itself [RTIT 4.2.15]: both ways are tried from the first PSB on over at most the first
 * COFI_GUESS_BYTES, and the one that finds fewer bytes to be no packet wins; without cycle
 * counts if they draw. bad[0], bad[1]: how many such bytes without and with (may be null). */
bool cofi_stream_guess_cyc(const uint8_t *bytes, size_t n, uint64_t bad[2]);

/* Whether PT bytes begin with a packet, of at most the first COFI_GUESS_BYTES: all
 * are packets up to the first PSB, or the end. What was cut off inside a packet may
 * seem so, until it falls into step with the packets, which is soon. */
bool cofi_stream_guess_synced(const uint8_t *bytes, size_t n);
/* The mode of the code (16, 32, 64) that PT bytes begin in, for cofi_flow_config.mode where
 * they do not begin with a PSB: by the MODE.Execs of at most the first COFI_GUESS_BYTES, where
 * the first one is in a PSB+, which repeats it, or all are the same. 0: not told;
 * COFI_MODE_LATER: there are several, and nothing tells which one is the first. */
unsigned cofi_stream_guess_mode(const uint8_t *bytes, size_t n);

/* One step of a stream: a packet, or bytes that are none. */
struct cofi_stream_item {
    int status;           /* 0: packet; else why the bytes up to the next PSB, or the end, are
                           * skipped: COFI_ERR_NO_SYNC: the stream begins with no PSB;
                           * COFI_ERR_BAD_PACKET: what stands here is no packet, see why;
                           * COFI_ERR_TRUNCATED: the stream ends inside a packet; COFI_ERR_FULL:
                           * up to a break, behind which a packet begins; none may be skipped */
    uint64_t offset;      /* in the stream, of the packet or of the first byte skipped */
    uint64_t size;        /* bytes of the packet, or skipped */
    const uint8_t *bytes; /* the packet's, valid until the next call; null for what is skipped */
    const char *why;      /* BAD_PACKET: which check failed, with its tag; TRUNCATED: so; a packet:
                           * which of the stream's errata made its bytes what they are; else null */
    struct cofi_packet packet;
};

/* A stream in pieces. The members are the reader's own, except that context may be read,
 * and set right after init (RTIT's cyc), as family, model and breaks may. Splitting the
 * input never changes the items. Holds no memory of others but the piece that was fed
 * last, so there is nothing to close. Not thread safe; distinct ones are independent. */
struct cofi_stream {
    struct cofi_packet_context context;
    uint32_t family, model;   /* of the traced processor: with its errata a CYC has lost its
                               * end to an OVF [ERR SKD007], or, with lenient, a TMA with
                               * reserved bits is a byte longer [ERR SKZ84]; 0: none assumed */
    const uint64_t *breaks;   /* PT: offsets where the trace unit's output was full, ascending
                               * (cofi_recording_breaks; one before the place that is read
                               * counts for nothing); must outlive the stream */
    size_t breaks_n;
    uint64_t errata;
    bool final, skipping;
    int skip_status;
    const char *skip_why;
    uint64_t skip_from;
    uint64_t offset;          /* of the next byte to read */
    const uint8_t *piece;     /* the caller's piece, up to the next break */
    size_t piece_n, hidden;   /* bytes of it; and behind that */
    int64_t at;               /* of the next byte in it; negative: in what came before it */
    uint8_t past[64];         /* the last bytes before the piece */
    size_t past_n;
    uint8_t join[128];        /* past's end and the piece's beginning, side by side */
};

/* Begin a stream at an offset (0, or where the bytes lie in a file). synced: the first byte begins
 * a packet, so do not look for a PSB. */
void cofi_stream_init(struct cofi_stream *stream, enum cofi_gen gen, uint64_t offset, bool synced);
/* Hand over the next n bytes (0 is allowed), which must stay until cofi_stream_next
 * has returned 0; before it has, nothing more may be fed. */
void cofi_stream_feed(struct cofi_stream *stream, const uint8_t *bytes, size_t n);
/* No bytes will follow those fed. */
void cofi_stream_finish(struct cofi_stream *stream);
/* The next item. A PT stream's last byte, if it is COFI_PT_END_MARK where a packet would
 * begin, is none. Returns 1, or 0: feed more (after finish: the end, then and later). A
 * stream without any PSB is one NO_SYNC item. After bytes that are skipped, reading goes on
 * at the next PSB. Cost: the packet's decoding; what is skipped is searched at a few GB/s. */
int cofi_stream_next(struct cofi_stream *stream, struct cofi_stream_item *item);

#ifdef __cplusplus
}
#endif
#endif
