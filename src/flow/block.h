/* SPDX-License-Identifier: MIT
 * A block: code decoded once. */
#ifndef COFI_FLOW_BLOCK_H
#define COFI_FLOW_BLOCK_H

#include <stdbool.h>
#include <stdint.h>

#include <cofi/flow.h>
#include <cofi/insn.h>

struct block {
    struct cofi_flow_block pub; /* first: the caller's pointer is this block's */
    uint32_t hash;              /* of the address, for edges; not 0 */
    uint8_t cut;                /* 0, or: only the first `cut` instructions of a longer block */
    uint8_t space;
    bool dead;                  /* its bytes changed */
    struct block *taken;        /* where a direct branch leads, once known */
    struct block *fall;         /* the block behind this one, once known */
    struct block *near;         /* the next in its list of `starts` */
    uint64_t count;             /* coverage: visits outside of runs */
};

enum { BLOCK_INSNS = 128 /* fits `cut` */, INSNS_BEHIND = 1 /* room for one more behind a block's */ };

/* What a class of instructions ends a block with. */
static inline bool takes_tip(uint8_t cls)
{
    return cls == COFI_CLASS_RET || cls == COFI_CLASS_JMP_IND || cls == COFI_CLASS_CALL_IND ||
           cls == COFI_CLASS_FAR_JMP || cls == COFI_CLASS_FAR_CALL || cls == COFI_CLASS_FAR_RET ||
           cls == COFI_CLASS_VMENTRY;
}
/* Whether a conditional branch was taken that ended a block there. (One that leads behind itself either
 * way passes for taken.) */
static inline bool jcc_taken(uint64_t end, uint64_t target, uint64_t to) { return to != end || target == end; }
static inline bool is_far_class(uint8_t cls)
{
    return cls == COFI_CLASS_FAR_JMP || cls == COFI_CLASS_FAR_CALL || cls == COFI_CLASS_FAR_RET ||
           cls == COFI_CLASS_VMENTRY;
}

#endif
