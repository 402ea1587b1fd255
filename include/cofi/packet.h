/* SPDX-License-Identifier: MIT
 * Packets of both generations: their kinds, their fields, and the codec in both directions. */
#ifndef COFI_PACKET_H
#define COFI_PACKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The two generations of instruction trace. */
enum cofi_gen { COFI_RTIT = 1, COFI_PT = 2 };
/* In place of a mode of code (16, 32, 64): there are several in the trace, and it is
 * not known which one is the first. */
enum { COFI_MODE_LATER = 1 };

/* Kinds, in the order of the tables src/packet/pt.def and src/packet/rtit.def, which a test holds
 * against this list. PT: [SDM Trace Packets and Data Types], RTIT: [RTIT Figure 2]. */
enum cofi_packet_kind {
    COFI_PKT_NONE,
    COFI_PT_PAD,
    COFI_PT_TNT,    /* short, 1..6 bits */
    COFI_PT_TNT64,  /* long, 1..47 bits */
    COFI_PT_TIP,
    COFI_PT_TIP_PGE,
    COFI_PT_TIP_PGD,
    COFI_PT_FUP,
    COFI_PT_PIP,
    COFI_PT_MODE_EXEC,
    COFI_PT_MODE_TSX,
    COFI_PT_TRACESTOP,
    COFI_PT_CBR,
    COFI_PT_TSC,
    COFI_PT_MTC,
    COFI_PT_TMA,
    COFI_PT_CYC,
    COFI_PT_VMCS,
    COFI_PT_OVF,
    COFI_PT_PSB,
    COFI_PT_PSBEND,
    COFI_PT_MNT,
    COFI_PT_PTW,
    COFI_PT_EXSTOP,
    COFI_PT_MWAIT,
    COFI_PT_PWRE,
    COFI_PT_PWRX,
    COFI_PT_CFE,
    COFI_PT_EVD,
    COFI_PT_BBP,
    COFI_PT_BIP,
    COFI_PT_BEP,
    COFI_PT_TRIG,
    COFI_RTIT_TNT,
    COFI_RTIT_PGE,     /* FUP.PGE, packet generation enable */
    COFI_RTIT_PGD,     /* FUP.PGD, packet generation disable */
    COFI_RTIT_BUFFOVF, /* FUP.BuffOvf */
    COFI_RTIT_PCC,     /* FUP.PCC, periodic cycle count */
    COFI_RTIT_TIP,
    COFI_RTIT_FAR,     /* FUP.FAR */
    COFI_RTIT_PSB,
    COFI_RTIT_TRACESTOP,
    COFI_RTIT_PIP,
    COFI_RTIT_MTC,
    COFI_RTIT_STS,
    COFI_PKT_KINDS
};

/* One packet, decoded. 40 bytes at most. */
struct cofi_packet {
    uint8_t kind;     /* enum cofi_packet_kind */
    uint8_t size;     /* bytes in the stream, an RTIT cycle count suffix included */
    uint8_t ccp_size; /* RTIT: bytes of the cycle count suffix, 0..3 [RTIT 4.2.14] */
    uint32_t ccp;     /* RTIT: the count in it, core cycles, 22 bits */
    __extension__ union {
        struct { uint64_t bits; uint8_t count; } tnt; /* youngest at bit 0, oldest at count-1 */
        /* TIP, TIP.PGE, TIP.PGD, FUP and RTIT's whole FUP family: payload as in the stream, not yet
         * expanded; code: PT IPBytes (0..4, 6); RTIT CNT | Zext << 2. */
        struct { uint64_t payload; uint8_t code; } ip;
        struct { uint64_t cr3; uint8_t nr; uint8_t pg; } pip; /* nr: PT; pg (CR0.PG): RTIT */
        struct { uint8_t csl, csd, iflag; } mode_exec;
        struct { uint8_t intx, abort; } mode_tsx;
        struct { uint8_t ratio; } cbr;
        struct { uint64_t tsc; } tsc;                 /* 56 bits */
        struct { uint8_t ctc, none[7], range; } mtc;  /* ctc: 8-bit payload; range: RTIT's RNG */
        struct { uint16_t ctc, fc; } tma;
        struct { uint64_t count; uint8_t bytes; } cyc; /* bytes: encoded length; 0: the shortest */
        struct { uint64_t base; } vmcs;               /* address bits 51:12 in place */
        struct { uint64_t payload; } mnt;
        struct { uint64_t payload; uint8_t wide; uint8_t ip; } ptw; /* wide: 8 bytes, else 4 */
        struct { uint8_t ip; } exstop;
        struct { uint8_t hints, ext; } mwait;
        struct { uint8_t state, sub, hw; } pwre;
        struct { uint8_t last, deepest, wake; } pwrx;
        struct { uint8_t type, vector, ip; } cfe;
        struct { uint64_t payload; uint8_t type; } evd;
        struct { uint8_t type, sz; } bbp;             /* sz=1: 4-byte items, 0: 8-byte items */
        struct { uint64_t payload; uint8_t id; uint8_t wide; } bip;
        struct { uint8_t ip; } bep;
        struct { uint16_t icnt; uint8_t trbv, ip, icntv, mult; } trig;
        struct { uint64_t tsc; uint8_t acbr, ecbr; } sts; /* tsc: 40 bits of the hardware TSC */
    };
};

/* What the bytes alone do not tell. One per stream, all zero but gen at a PSB. */
struct cofi_packet_context {
    uint8_t gen;   /* enum cofi_gen */
    uint8_t cyc;   /* RTIT: cycle counts follow the packets [RTIT 4.2.15] */
    uint8_t block; /* PT: 0 outside of a block, else 1 (8-byte items) or 2 (4-byte items); the codec
                    * updates it (BBP..BEP) */
    uint8_t lenient; /* PT: reserved bits of packets whose size and kind do not
                      * depend on them are read over */
};

enum { COFI_PACKET_MAX = 24 }; /* no packet of either generation is longer, suffix included */

/* Decode the packet at bytes[0..n). Returns its size (1..COFI_PACKET_MAX) and fills *packet; or
 * COFI_ERR_TRUNCATED: the first n bytes are a strict prefix of a packet (get more),
 * COFI_ERR_BAD_PACKET: reserved header or encoding, or without lenient a reserved bit (resync at a
 * PSB; cofi_packet_why tells more). On an error *packet is indeterminate and *context unchanged;
 * members of the union that the kind does not have are indeterminate always. context->gen must be
 * set. No state but *context; thread safe on distinct contexts. Cost: a table look-up and no branch
 * on the kind for short TNT, TIP*, FUP, PAD, MTC, TSC and CYC of one or two bytes while 9 bytes are
 * there and neither block nor cyc is set. [SDM Trace Packets and Data Types; RTIT 4.2] */
int cofi_packet_decode(struct cofi_packet_context *context, const uint8_t *bytes, size_t n,
                       struct cofi_packet *packet);

/* Encode *packet (its size is not looked at) into out[0..n) and update *context. Returns
 * the size, or COFI_ERR_FULL: n is too small (COFI_PACKET_MAX always suffices),
 * COFI_ERR_RANGE: a field does not fit its bits, the kind is of the other generation, or
 * the packet would be read as another one in this context (BIP outside of a block, some TNT
 * inside of one, a cycle count without cyc). On an error *context is unchanged. ccp_size 0
 * with cyc set, and cyc.bytes 0, mean the shortest. Inverse of cofi_packet_decode. */
int cofi_packet_encode(struct cofi_packet_context *context, const struct cofi_packet *packet,
                       uint8_t *out, size_t n);

/* Why cofi_packet_decode refuses bytes[0..n): the check that fails, with its tag ("reserved IPBytes
 * 5 [SDM IP Compression]"); null when it does not. Static text. The context is not changed. Not for
 * hot loops. */
const char *cofi_packet_why(const struct cofi_packet_context *context, const uint8_t *bytes,
                            size_t n);

/* The name in lower case, the word that the text form uses ("tip.pge", "tnt.8", "fup.buffovf"), and
 * the generation of a kind. "none" and 0 for COFI_PKT_NONE and what is no kind. */
const char *cofi_packet_name(enum cofi_packet_kind kind);
enum cofi_gen cofi_packet_gen(enum cofi_packet_kind kind);

/* The byte that libxdc wants behind a PT trace: no packet begins with it. */
enum { COFI_PT_END_MARK = 0x55 };

/* What a kind of packet is, bits of the table's column. */
enum cofi_packet_trait {
    COFI_TRAIT_PSB_PLUS = 1,     /* PT: allowed between PSB and PSBEND [PTREF 5.11] */
    COFI_TRAIT_TIMING = 2,       /* says when, not where */
    COFI_TRAIT_HAS_IP = 4,       /* carries an address and updates LastIP */
    COFI_TRAIT_CYC_ELIGIBLE = 8, /* PT: a CYC may precede it; RTIT: a cycle count follows it */
    COFI_TRAIT_LEAVES_BLOCK = 16 /* PT: ends a block [PTREF 5.9] */
};
unsigned cofi_packet_traits(enum cofi_packet_kind kind);

/* What a packet is about when nothing before it asks for it [PTREF 9.4]. */
enum cofi_packet_binding {
    COFI_BINDS_STANDALONE, /* nothing in the program, or the place where the stream stands */
    COFI_BINDS_BRANCH,     /* the next instruction that needs such a packet */
    COFI_BINDS_ITS_IP,     /* the address that it carries */
    COFI_BINDS_TARGET,     /* the target of the next transfer, or the instruction that changes it */
    COFI_BINDS_NEXT_IP,    /* the address of the next TIP or TIP.PGE (or FUP) */
    COFI_BINDS_NEXT_FUP,   /* the FUP after it, if its IP bit says so or it always has one */
    COFI_BINDS_NEXT_CFE,   /* the CFE after it */
    COFI_BINDS_PTWRITE     /* the next PTWRITE, or the FUP after it if its IP bit is set */
};
enum cofi_packet_binding cofi_packet_binds(enum cofi_packet_kind kind);

/* Whether the vector of a CFE of this type means something [PTREF 5.8]; of the
 * others, and of types that are none yet, it is 0. */
bool cofi_cfe_has_vector(unsigned type);

/* IP compression, PT [SDM IP Compression] and RTIT [RTIT 4.2.3.1], both directions.
 * last: LastIP, 0 where none. expand returns false when the code carries no address (PT code 0, and
 * what is reserved).
 * RTIT's result is bit 47 extended [RTIT 3.3.6].
 * compress fills packet->ip (kind is the caller's and tells the generation) for the given address
 * with the shortest code that the manual's order allows [PTREF 5.4; RTIT Table 18]; for RTIT
 * last_valid is RTIT_LAST_LIP.CMPRS_LIP_Valid, for PT false forbids the codes that need LastIP (the
 * first IP after an OVF). Neither changes LastIP. */
bool cofi_ip_expand(const struct cofi_packet *packet, uint64_t last, uint64_t *ip);
void cofi_ip_compress(struct cofi_packet *packet, uint64_t ip, uint64_t last, bool last_valid);

/* Text form: one line without newline, e.g. "tip.pge    3: 0000000000401000", in ptdump's words for
 * PT and the same layout for RTIT. It carries all that decode finds, non-minimal lengths included
 * (docs/packets.md). print returns the length that it needs (as snprintf; COFI_PACKET_TEXT_MAX
 * always suffices). parse reads a line back, in any letter case, with or without 0x; what follows
 * two spaces, '#' or ';' after the payload is ignored. It fills *packet (size too) and returns 0 or
 * COFI_ERR_SYNTAX / COFI_ERR_RANGE with *error, whose offset is the column. */
enum { COFI_PACKET_TEXT_MAX = 96 };
struct cofi_error;
int cofi_packet_print(const struct cofi_packet *packet, char *out, size_t n);
int cofi_packet_parse(enum cofi_gen gen, const char *text, struct cofi_packet *packet,
                      struct cofi_error *error);
/* The same as a JSON object: {"kind":"tma","ctc":4660,"fc":427}; 64-bit members are strings of hex.
 * 512 bytes always suffice. Returns the length as snprintf. */
int cofi_packet_print_json(const struct cofi_packet *packet, char *out, size_t n);

#ifdef __cplusplus
}
#endif
#endif
