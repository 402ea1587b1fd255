/* SPDX-License-Identifier: MIT
 * A plain reader of RTIT packets, written from the manual's figures alone; no table, nothing shared with
 * the library. */
#ifndef TEST_REFERENCE_RTIT_PLAIN_H
#define TEST_REFERENCE_RTIT_PLAIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum plain_kind {
    PLAIN_TNT, PLAIN_PGE, PLAIN_PGD, PLAIN_OVF, PLAIN_PCC, PLAIN_TIP, PLAIN_FAR, PLAIN_PSB, PLAIN_STOP,
    PLAIN_PIP, PLAIN_MTC, PLAIN_STS,
};

struct plain_packet {
    enum plain_kind kind;
    size_t size;           /* with its cycle count */
    int cycles;            /* -1: none */
    unsigned outcomes;     /* TNT: how many … */
    uint8_t taken[6];      /* … oldest first */
    uint64_t lip;          /* expanded */
    unsigned lip_bytes;    /* 2, 4 or 6, as sent */
    bool zext, known;      /* known: the upper part did not come from before the first PSB */
    uint64_t cr3;
    unsigned pg, range, ctc, acbr, ecbr;
    uint64_t tsc;
};

struct plain_state {
    bool cycle_acc;
    uint64_t last; /* the last LIP sent */
    bool last_known;
};

/* The size of the packet, 0 at the end of the bytes, -1 for what is no packet. */
int plain_read(struct plain_state *state, const uint8_t *bytes, size_t n, struct plain_packet *packet);
/* "pge 102", "tnt TNT", "far 10e c5": c is the cycle count. */
void plain_text(const struct plain_packet *packet, char *out, size_t n);

#endif
