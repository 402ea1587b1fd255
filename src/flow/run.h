/* SPDX-License-Identifier: MIT
 * Runs, for those who make them, keep them and go by them. */
#ifndef COFI_FLOW_RUN_H
#define COFI_FLOW_RUN_H

#include "flow/walker.h"

/* ---- run_make.c ---- */

/* What is being made: the run in flow->build and what it still has to use up. */
struct making {
    struct run *run;
    struct block *b;             /* the block that comes next */
    unsigned calls, guards;      /* in the lists below */
    unsigned k;                  /* outcomes it may use */
    struct block *mark;          /* one gone through since the last outcome, and how many were */
    unsigned idle;
    unsigned sure;               /* blocks up to the last outcome used */
    bool tip;                    /* and a TIP after them */
    uint64_t bits;
    int status;                  /* why it ended before it should, 0 if it did not */
    const char *why;
    uint64_t ip;                 /* where */
    struct block *local[RUN_CALLS]; /* return sites that the run itself put on the stack */
    struct block *guard[RUN_POPS];  /* those that lay there before */
};

/* Make the run from entry by k outcomes, and a TIP if tip is set. Ends early at what only execution can
 * tell. flow->build holds it. */
void cofi__run_make(struct cofi_flow *flow, struct making *m, struct block *entry, uint64_t bits, unsigned k, bool tip);

/* ---- run_table.c ---- */

/* The outcomes that a run is looked up with. */
static inline uint32_t run_asked(uint64_t bits, unsigned k, bool tip)
{
    return (uint32_t)bits | UINT32_C(1) << k | (tip ? ASKED_TIP : 0);
}

/* By addresses, not blocks: who knows a TIP ahead knows no block yet. */
static inline uint64_t run_key(uint64_t ip, uint32_t space, uint64_t asked)
{
    uint64_t x = (ip + ((uint64_t)space << 48)) * UINT64_C(0x9e3779b97f4a7c15);
    x ^= asked * UINT64_C(0xc2b2ae3d27d4eb4f);
    x ^= x >> 32;
    return x * UINT64_C(0xff51afd7ed558ccd) | 1;
}

/* Slots: which one comes first for a key, and what its word looks like. */
enum { TAG_SHIFT = 48 };

static inline size_t slot_first(const struct cofi_flow *flow, uint64_t key)
{
    return (key >> 8) & (flow->cache.runs_size - 1);
}
static inline struct run *slot_run(uint64_t word)
{
    return (struct run *)(uintptr_t)(word & ((UINT64_C(1) << TAG_SHIFT) - 1));
}

/* The run or stub under a key; null: none. Two keys may look the same: whether it is the right one is
 * for the caller to see. There are slots. */
static inline struct run *slot_find(const struct cofi_flow *flow, uint64_t key)
{
    for (size_t s = slot_first(flow, key); flow->cache.runs[s].word; s = (s + 1) & (flow->cache.runs_size - 1))
        if (!((flow->cache.runs[s].word ^ key) >> TAG_SHIFT))
            return slot_run(flow->cache.runs[s].word);
    return NULL;
}

/* The key behind a stub's: with the CALL that the next RET returns to. */
static inline uint64_t run_key_with(uint64_t key, const struct block *site)
{
    key ^= ((uint64_t)(uintptr_t)site >> 4) * UINT64_C(0x9e3779b97f4a7c15);
    key ^= key >> 29;
    return key * UINT64_C(0xff51afd7ed558ccd) | 1;
}

/* Keep a copy of flow->build; null: no memory (not kept). */
struct run *cofi__run_keep(struct cofi_flow *flow);

/* ---- run.c ---- */

static inline bool run_guards_hold(const struct cofi_flow *flow, const struct run *run)
{
    struct block *const *guard = run->list + run->blocks + run->calls;
    for (unsigned i = 0; i < run->guards; i++)
        if (ret_site(flow, i) != guard[i])
            return false;
    return true;
}

/* Behind what ret_apply does: the CALL behind which the run's last branch, if that is a RET, should go;
 * null: not known, or no RET. */
static inline struct block *run_pop(struct cofi_flow *flow, const struct run *run)
{
    if (!run->pops)
        return NULL;
    struct block *site = ret_site(flow, 0);
    ret_pop(flow);
    return site;
}

/* Show its blocks. */
void cofi__run_show(struct cofi_flow *flow, struct run *run);
/* Where a TIP leads: most RETs go behind the CALL on the return stack (site), most other branches where they went
 * last time. Both may be null. */
struct block *cofi__tip_block(struct cofi_flow *flow, struct run *run, struct block *site, uint64_t ip);

#endif
