/* SPDX-License-Identifier: MIT
 * A plain RTIT flow decoder, written from the document alone: packets and a table of instructions -> the
 * addresses that ran. */
#ifndef TEST_REFERENCE_RTIT_FLOW_H
#define TEST_REFERENCE_RTIT_FLOW_H

#include "reference/rtit_plain.h"

enum plain_insn_kind { P_OTHER, P_JCC, P_JMP, P_CALL, P_JMP_IND, P_CALL_IND, P_RET, P_FAR, P_MOV_CR3 };

struct plain_insn {
    enum plain_insn_kind kind;
    uint64_t ip, next, target;
};

/* What the decoder is told, and what it finds. */
struct plain_flow {
    const struct plain_insn *(*find)(void *opaque, uint64_t ip); /* null: no code */
    void *opaque;
    bool ranged;               /* FilterEn follows [base, limit) */
    uint64_t base, limit, base2, limit2; /* or the second; empty: none */
    bool cycle_acc;
    bool e5;                   /* the unit shows [ERR E5]: apply its workaround */
    unsigned like_e5;          /* out: TIPs that [ERR E5]'s workaround drops */
    uint64_t *ran;             /* addresses, UINT64_MAX for an overflow */
    size_t n, room;
    const char *error;         /* null: none */
    size_t error_offset;
};

/* Decode all; false with an error when the packets do not fit the code. */
bool plain_flow_decode(struct plain_flow *flow, const uint8_t *bytes, size_t n);

#endif
