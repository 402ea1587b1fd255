/* SPDX-License-Identifier: MIT
 * Descriptors: what the runtime keeps of a block of translated code. There are many of them and they are
 * looked at rarely, so they are small: addresses of other descriptors take 32 bits, as all of the
 * runtime's window does, and places in code are distances. */
#ifndef COFI_HOST_FAST_RT_BLOCK_H
#define COFI_HOST_FAST_RT_BLOCK_H

#include "host/fast/rt/rt.h"

/* Why translated code leaves to the runtime. */
enum exit_kind {
    EXIT_DIRECT,
    EXIT_SYSCALL,
    EXIT_STEP,
    EXIT_NEXT,            /* these three change the mode, perhaps: from the instruction before */
    EXIT_JCC,             /* by a conditional branch, whose outcome is not logged yet */
    EXIT_BRANCH,          /* by a direct jump or call */
    EXIT_STALE,           /* the guest's code here is not what the block was made of */
    EXIT_HOT,             /* none of a block's exits: a cold block has run often enough to be made a superblock */
    EXIT_HOT_ARRIVED,     /* … one for arrivals */
    EXIT_SECTION          /* … a restartable sequence that ran as a whole */
};
enum { EXIT_ID_BLOCK = 1 }; /* the thread's exit_id is a block's address and this: EXIT_HOT or EXIT_HOT_ARRIVED of it */

/* An exit of a block to a known address; a block's lie behind it. */
struct exit {
    uint32_t pc_low;      /* where the guest goes on, from the block's pc: 40 bits */
    int32_t pc_high : 8;
    uint32_t index : 5;   /* of the block's exits */
    uint32_t kind : 4;    /* enum exit_kind */
    uint32_t outcomes : 7; /* as they go to the log */
    uint32_t in_cold : 1; /* store and jump lie in the block's cold code */
    uint32_t jump : 4;    /* the E9 to patch, from the instruction at `store`; 0: not linkable */
    uint32_t to;          /* the block that it is linked to, or 0; of a dead block's: was, and that lives */
    uint32_t next_in;     /* list of that block's incoming exits */
    uint16_t store;       /* the instruction that logs the exit's outcomes, from the first byte of code;
                           * NO_STORE: none */
    uint16_t stub;        /* what the jump leads to when not linked, in the block's cold code */
};
enum { NO_STORE = 0xffff };
_Static_assert(sizeof(struct exit) == 20, "a compact exit");

/* One guest instruction in a block's code. */
struct point {
    int32_t pc;           /* from the block's pc */
    uint16_t offset;      /* of its first byte of code, from the block's first */
    uint16_t fix;         /* enum fix: what to restore */
    uint8_t bits;         /* outcomes that are not yet in the log, below a marker bit */
};

enum fix {
    FIX_NONE,
    FIX_R11 = 1,      /* the stand-in holds R11, s_reg the stand-in's own value */
    FIX_RIP = 2,      /* s_rip holds the own value of the stand-in for RIP */
    FIX_RCX = 4,      /* s_rcx holds RCX */
    FIX_DONE = 8,     /* an indirect transfer that lacks its record only: RCX holds the target */
    FIX_RDX = 16,     /* s_rdx holds RDX */
    FIX_R11_SHIFT = 5, /* three bits: index in stand_ins */
    FIX_RIP_SHIFT = 8, /* two: in rip_stand_ins */
    FIX_STAND_IN = 1 << 10 /* s_reg the stand-in's own value; R11 is in the thread's memory */
};

/* An arrived block's code begins with mov rdx, its address times -1, to which the target is added: where
 * the top byte of that is. */
enum { ARRIVAL_TOP = 9 };

/* What the translator keeps of a block of code; behind it lie its exits, then its points (points.c). */
struct block {
    uint64_t pc;
    uint64_t since;       /* TSC: the recording has its code from then on */
    uint8_t *code_start;  /* first byte of code */
    uint32_t cold_start;  /* of its rarely executed code, from there */
    uint32_t incoming;    /* exits that are linked to it: the first one */
    uint32_t below, above; /* guest bytes lie in [pc - below, pc + above) (a superblock's may be several ranges) */
    uint32_t runs_left;   /* of a cold one, until it is made a superblock: where they are counted */
    uint16_t points;      /* bytes of them */
    uint8_t exits;
    uint8_t entry;        /* from code_start: behind the arrival's code; where others jump to, unless it
                           * is for arrivals */
    uint8_t mode;         /* enum mode */
    bool dead : 1;
    bool arrived : 1;     /* for indirect transfers: entered at code_start, or at entry with RCX and RDX
                           * in s_rcx and s_rdx */
    bool cold : 1;        /* one basic block, which counts its runs */
    bool untold : 1;      /* what was told last of its code's place was another one */
    bool trigger : 1;     /* coming here asks for a snapshot: entered by the runtime only */
};
_Static_assert(sizeof(struct block) == 56, "a compact block");

static inline struct exit *block_exits(const struct block *b)
{
    return (struct exit *)(uintptr_t)(b + 1);
}

static inline uint64_t block_low(const struct block *b)
{
    return b->pc - b->below;
}

static inline uint64_t block_high(const struct block *b)
{
    return b->pc + b->above;
}

static inline bool block_overlaps(const struct block *b, uint64_t start, uint64_t end)
{
    return block_low(b) < end && start < block_high(b);
}

/* What a 32-bit address in a descriptor names; null: nothing. */
static inline struct block *block_at(uint32_t address)
{
    return (struct block *)(uintptr_t)address;
}

static inline struct exit *exit_at(uint32_t address)
{
    return (struct exit *)(uintptr_t)address;
}

static inline uint16_t *block_runs_left(const struct block *b)
{
    return (uint16_t *)(uintptr_t)b->runs_left;
}

static inline uint32_t address_of(const void *descriptor)
{
    return (uint32_t)(uintptr_t)descriptor;
}

static inline struct block *exit_block(const struct exit *e)
{
    return (struct block *)(uintptr_t)(e - e->index) - 1;
}

static inline uint64_t exit_pc(const struct exit *e)
{
    return exit_block(e)->pc + ((uint64_t)(int64_t)e->pc_high << 32 | e->pc_low);
}

/* points.c */
enum { POINT_BYTES_MAX = 12 };
size_t points_pack(uint8_t *to, const struct point *points, unsigned n);
bool point_find(const struct block *b, const uint8_t *code, struct point *found);
bool point_is_check(const struct block *b, const uint8_t *code);

#endif
