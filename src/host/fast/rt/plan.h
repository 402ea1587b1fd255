/* SPDX-License-Identifier: MIT
 * Guest code -> a plan: the instructions of one superblock, decoded, with what to do for each. */
#ifndef COFI_HOST_FAST_RT_PLAN_H
#define COFI_HOST_FAST_RT_PLAN_H

#include "host/fast/rt/block.h"
#include "x86/fast.h"

enum {
    PLAN_INSNS = 64, PLAN_BRANCHES = 8, PLAN_CALLS = 8, PLAN_SPAN = 2048, PLAN_EXITS = 2 * PLAN_BRANCHES + 4,
    PLAN_REACH = 1 << 30
};

_Static_assert(COMPARED_BYTES >= 15 * PLAN_INSNS && WATCHED_BYTES >= PLAN_SPAN + 15 * PLAN_INSNS, "all of a block");

enum action {
    DO_COPY,      /* as it is, but for R11 and RIP */
    DO_JCC,       /* conditional, the plan goes on at the next instruction */
    DO_JCC_TAKEN, /* conditional, the plan goes on at the target */
    DO_JCC_LAST,  /* conditional, both ways leave */
    DO_JMP,       /* direct, the plan goes on at the target */
    DO_CALL,
    DO_JMP_IND,
    DO_CALL_IND,
    DO_RET,
    DO_RET_HERE,  /* of a call in the plan: goes on at target, if that is where it returns to */
    DO_SYSCALL,
    DO_STEP,      /* run it in place, under the trap flag */
    DO_LEAVE      /* no instruction: go on at pc in another block */
};

struct item {
    uint64_t pc, target;
    const uint8_t *bytes;
    uint8_t action;
    uint8_t kind;    /* DO_LEAVE: enum exit_kind */
    bool likely;     /* DO_JCC_LAST: the taken way is the usual one */
    bool plain;      /* DO_COPY: copied without a change; of x there is the length only */
    uint8_t touches; /* … RCX and RDX, cofi__fast_touches */
    uint32_t used;   /* registers that the instruction names, cofi__fast_registers */
    struct cofi__fast x;
};

struct plan {
    struct item item[PLAN_INSNS + 1];
    unsigned count;
    unsigned mode;
    bool compared;   /* its code is compared at each entry: in one piece */
    bool cold;       /* one basic block, for code that may run once only */
    uint64_t low, high;
    uint64_t page;     /* one that can be read */
    uint64_t returns[PLAN_CALLS]; /* return addresses of calls followed, youngest last */
    unsigned depth;
    unsigned rounds;   /* how often it has come back to its first instruction */
    unsigned branches; /* conditional ones */
    bool calls;        /* one is in it */
};

/* Plan the superblock, or only the basic block, at pc, which lies in region r, for threads in a mode. */
void plan_make(struct plan *plan, const struct region *r, uint64_t pc, unsigned mode, bool cold);
bool plan_cut(uint64_t pc);
/* What to do for an instruction: DO_JCC, whose plan is not known, for any conditional branch. */
enum action plan_action(const struct cofi__fast *x);
/* Whether a conditional branch has a near form: not LOOPcc and JRCXZ. */
bool plan_is_invertible(const struct cofi__fast *x);

#endif
