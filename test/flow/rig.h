/* SPDX-License-Identifier: MIT
 * Code + trace bytes + configuration -> what the flow says, as text. */
#ifndef COFI_TEST_FLOW_RIG_H
#define COFI_TEST_FLOW_RIG_H

#include <cofi/flow.h>
#include <cofi/image.h>

struct rig {
    struct cofi_image *image;
    struct cofi_flow_config config;
    uint8_t trace[1 << 16];
    size_t n;
    size_t piece;        /* 0: one buffer; else pieces of so many bytes */
    size_t piece_at;
    uint8_t *piece_copy; /* the current piece, allocated, so that a read past it is found */
    bool offsets;        /* rig_run: with where each event is told, kind@offset */
    char text[1 << 20];
};

/* Code and trace as hex digits with spaces; in a trace, P is PSB and H is PSB PSBEND MODE.Exec(64)
 * TIP.PGE(401000) [PTREF 12]; R is RTIT's PSB. */
void rig_open(struct rig *rig, enum cofi_gen gen, uint64_t addr, const char *code);
void rig_close(struct rig *rig);
void rig_code(struct rig *rig, uint64_t time, uint64_t addr, const char *code);
void rig_trace(struct rig *rig, const char *hex);
/* Decode all: instruction addresses separated by blanks, events in brackets:
 * [kind ip>target a b c value]; what is none is left out. */
const char *rig_run(struct rig *rig);
/* Only the addresses. */
const char *rig_insns(struct rig *rig);
/* How many times, in ticks, from the first one on cofi_flow_seek_time goes to the offset beside it. */
size_t rig_seeks(struct rig *rig, const uint64_t (*times)[2], size_t n);
/* What cofi_flow_cover tells of conditional branches, in its order: address of the block, + taken or - not, how often. */
const char *rig_outcomes(struct rig *rig);

#endif
