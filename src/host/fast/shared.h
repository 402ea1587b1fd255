/* SPDX-License-Identifier: MIT
 * What the collector and the runtime inside of the traced program share: one memory of slots, a slot a thread. */
#ifndef COFI_HOST_FAST_SHARED_H
#define COFI_HOST_FAST_SHARED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

/* Where things lie in the traced program. Both places are free in ordinary programs, and are a program's
 * own under the sanitizers: TSan ends at any mapping elsewhere, and MSan wants all of its shadow free.
 * The second one is below where position-independent programs begin [decision 0726]. */
#define COFI__FAST_RUNTIME_BASE 0x6e000000ul     /* code, tables and descriptors of the runtime, below 2 GB */
#define COFI__FAST_RUNTIME_BYTES 0x0f000000ul
#define COFI__FAST_FIRST_BYTES 0x00a00000ul      /* what of it every program uses, and the kernel writes to */
#define COFI__FAST_RUNTIME_SYSCALL 16            /* from its base: a SYSCALL that no filter concerns
                                                  * which was installed under us, */
#define COFI__FAST_RUNTIME_OWN_END 0x50          /* the first of several up to here */
#define COFI__FAST_SHARED_BASE 0x550000000000ul
#define COFI__FAST_ARENAS_BYTES 0x80000000ul     /* of translated code, at most */

/* The log: records that begin with a byte.
 *    7   6                  0
 *   | 0 | 1 and up to 6       |                         outcomes of conditional branches below a marker bit
 *                                                       (the oldest is highest)
 *   | 1 | outcomes, the same  | target, 6 bytes |       the target of an indirect transfer that followed them
 *   | 1 | 0                   | kind | TSC, 8 bytes | address, 8 bytes |   one of the kinds below
 * A byte of 0 ends it: memory behind the last record is zero. */
enum { COFI__FAST_TIP = 0x80, COFI__FAST_CONTROL = 0x80, COFI__FAST_OUTCOMES_MAX = 6 };
enum {
    COFI__FAST_TSC,     /* time */
    COFI__FAST_PSB,     /* synchronise: the next instruction is at address */
    COFI__FAST_PGD,     /* tracing ends at a far transfer, no address */
    COFI__FAST_PGE,     /* tracing starts at address */
    COFI__FAST_EVENT,   /* an event before the instruction at address: FUP, TIP.PGD */
    COFI__FAST_OVF,     /* records were lost; what comes up to the next PSB or PGE is to be skipped */
    COFI__FAST_LEAVE,   /* a branch out of the filter: address is its target, COFI__FAST_NOWHERE for a conditional */
    COFI__FAST_CODE,    /* the branch before leads to code that is valid from this time on */
    COFI__FAST_STOP,    /* a TraceStop region was entered: nothing follows */
    COFI__FAST_WHATS
};
enum { COFI__FAST_TIP_BYTES = 7, COFI__FAST_CONTROL_BYTES = 18 };
#define COFI__FAST_NOWHERE UINT64_MAX

/* Sideband from the runtime, in the slot's ring; size is a multiple of 8 and includes the header. */
enum cofi__fast_note {
    COFI__FAST_NOTE_MAP,    /* a: start, b: end, c: file offset, d: protection, ELSEWHERE or SERVED, and
                             * the origin above it; name */
    COFI__FAST_NOTE_CODE,   /* a: address; bytes, up to CODE_PIECE, and those ahead of them. b: since when (TSC),
                             * c: start of the mapping, d: its pages, and the origin above them; or all 0 */
    COFI__FAST_NOTE_FORK,   /* a: the child's process, b: its thread */
    COFI__FAST_NOTE_COMM,   /* a: the thread, as its process calls it, 0 the one that tells; name */
    COFI__FAST_NOTE_EXIT,
    COFI__FAST_NOTE_EXEC,   /* thread asks the collector to follow its exec */
    COFI__FAST_NOTE_EXEC_FAILED,
    COFI__FAST_NOTE_LOST,   /* a: from this address on the program runs untraced; name: why */
    COFI__FAST_NOTE_TRIGGER, /* a: address; thread waits until the snapshot is taken */
    COFI__FAST_NOTE_SKIP    /* filler up to the ring's end */
};

/* The collector may find another file by that name, or none: its code is told page by page. Where a file
 * is mapped twice at a place, both have the same origin, in 32 bits. */
enum { COFI__FAST_ELSEWHERE = 0x100, COFI__FAST_ORIGIN_SHIFT = 32 };

/* The file has no disk's number but one of those that the kernel gives out (major 0), from DEVICE_SHIFT
 * on: perhaps a program serves it, which may be one that waits for the collector. So that does not touch
 * it before it knows; its code is told page by page. YOUNG: in any case. */
enum { COFI__FAST_SERVED = 0x200, COFI__FAST_YOUNG = 0x400, COFI__FAST_DEVICE_SHIFT = 12, COFI__FAST_DEVICES = 16 };

enum {
    COFI__FAST_CODE_PIECE = 4096 /* a page */, COFI__FAST_NOTE_MOST = COFI__FAST_CODE_PIECE + 16 /* COFI_CODE_AHEAD */
};

/* What a note about code of such a mapping, which begins at start, has for d. */
static inline uint64_t cofi__fast_mapping(uint64_t origin, uint64_t start, uint64_t end)
{
    return origin << COFI__FAST_ORIGIN_SHIFT | (end - start) >> 12;
}

struct cofi__fast_note_head {
    uint32_t size, kind;
    int32_t pid, tid;
    uint64_t tsc;
    uint64_t a, b, c, d;
    uint32_t bytes, reserved; /* of what follows */
};

/* Where names of files lead: a process with another root, or other mounts, may find other files by them. */
struct cofi__fast_names {
    uint64_t root_device, root_inode, mounts;
};

/* A filter as enum cofi_filter_action has them. file 0: start and end are addresses; else offsets in the
 * file whose path has that hash. */
struct cofi__fast_filter {
    uint64_t file;
    uint64_t start, end;          /* end: behind the last byte; for single addresses start + 1 */
    uint32_t action, reserved;
};
enum { COFI__FAST_FILTERS_MAX = 16 };

static inline uint64_t cofi__fast_hash_step(uint64_t h, uint64_t word)
{
    h = (h ^ word) * 0x9e3779b97f4a7c15u;
    return h ^ h >> 32;
}

/* Of n bytes, never 0. */
static inline uint64_t cofi__fast_hash(const void *bytes, size_t n)
{
    const uint8_t *p = bytes;
    uint64_t h = 0xcbf29ce484222325u, word;
    for (; n >= sizeof word; n -= sizeof word, p += sizeof word) {
        __builtin_memcpy(&word, p, sizeof word);
        h = cofi__fast_hash_step(h, word);
    }
    while (n--)
        h = cofi__fast_hash_step(h, *p++);
    return h ? h : 1;
}

enum { COFI__FAST_SLOTS_MAX = 16384, COFI__FAST_CHUNKS_MAX = 64, COFI__FAST_NOTES_BYTES = 256 << 10 };

enum cofi__fast_slot_state {
    COFI__FAST_SLOT_FREE,
    COFI__FAST_SLOT_TAKEN,   /* being set up */
    COFI__FAST_SLOT_LIVE,
    COFI__FAST_SLOT_ENDED    /* thread has ended; the collector frees it */
};

/* Head of a slot: what both sides touch. The thread's own context lies behind it. */
struct cofi__fast_slot {
    uint32_t state;               /* enum cofi__fast_slot_state */
    int32_t pid, tid;             /* of one that is taken: its maker's; tid is 0 until that has told of
                                   * it, unless an orphan had the slot before */
    uint32_t chunk;               /* index that the thread fills */
    uint64_t full;                /* chunks completed by the thread, ever */
    uint64_t drained;             /* chunks taken by the collector, ever (complete recordings) */
    uint64_t used[COFI__FAST_CHUNKS_MAX]; /* bytes in a completed chunk */
    uint64_t notes_head, notes_tail; /* bytes ever written and read */
    uint32_t drained_word;        /* futex: changes when drained does */
    uint32_t looked;              /* futex: low half of the notes' place behind the last one whose file
                                   * was looked for */
    uint32_t answer;              /* futex: the collector's answer to EXEC, or leaves */
    uint32_t leaves;              /* it asks to be let out of the runtime, for it will be traced by the program */
    uint32_t vfork;               /* shares its parent's memory until exec */
    uint32_t nested;              /* its pid and tid may be those of another PID namespace than the collector's */
    uint32_t thread;              /* taken for a thread of process pid, which ends with that one at the latest */
    uint32_t maker;               /* slot of the thread that made it */
    uint32_t asked_for;           /* a child of it may be: one that is nested, or a vfork's */
    uint32_t asks;                /* the collector's own: the thread waits for a snapshot */
    uint32_t claims;              /* the slot that the thread is taking and has not told about yet, and 1; 0: none */
    uint64_t child;               /* the thread that it is taken for, as its maker numbers it, 0 until
                                   * that has it; above it: how often it was freed */
    uint64_t dirty[COFI__FAST_CHUNKS_MAX]; /* bytes of a chunk that may not be zero, at its start: all
                                            * while a thread fills it */
};

/* First page of the shared memory. Behind it lies cofi__fast_spaces. */
struct cofi__fast_control {
    uint64_t slot_bytes;          /* an odd number of pages */
    uint32_t slots;
    uint32_t chunks;
    uint64_t chunk_bytes;
    uint64_t store_bytes;         /* behind the slots, for translated code [store.h]; 0: there is none */
    uint32_t keep_all;            /* complete recording: wait for the collector, else overwrite the oldest */
    uint32_t follow;              /* forks and execs */
    uint32_t bell;                /* futex: a thread wants the collector */
    uint32_t stopped;             /* the collector takes no more: threads go on untraced */
    uint32_t gone;                /* … and nobody frees slots: there is no collector any more */
    uint32_t drop;                /* keep_all: lose a chunk, and say so, rather than wait */
    uint32_t owner;               /* robust futex: the collector's thread; the kernel sets FUTEX_OWNER_DIED */
    uint32_t trace;               /* 0: translate, record nothing (measurements) */
    uint32_t cold_runs;           /* of a basic block before it is made a superblock; 1: at once */
    uint32_t loops;               /* the processor's LOOP is as fast as a conditional branch */
    uint32_t transactions;        /* the processor has XBEGIN */
    uint32_t xsave;               /* … and XSAVE, which the kernel uses */
    uint32_t claims;              /* the kernel promises no more memory than there is: ours may be written
                                   * as far as it is used only [rt/arena.c] */
    uint32_t slots_used;          /* no slot from here on was ever taken */
    uint32_t slots_full;          /* where to look for a free one first: those below were taken when somebody looked */
    int32_t collector;
    uint64_t cache_bytes;         /* of a half of the code cache; 0: all there is */
    uint32_t flushes;             /* of full caches */
    uint32_t adopted;             /* copies of translated code that were taken */
    uint32_t filters;
    struct cofi__fast_filter filter[COFI__FAST_FILTERS_MAX];
    uint64_t leaving;             /* futex, by its low half: space of the process whose threads are to
                                   * rest, to go on natively; 0: none */
    uint64_t call_end;            /* where the program's system calls return to, in the runtime */
    struct cofi__fast_names names; /* the collector's */
    uint32_t plain[COFI__FAST_DEVICES]; /* such numbers of which it is known that no program serves them; 0: no more */
    struct timespec began;        /* the recording [host/young.h]; 0: all files are young */
    uint32_t limits;              /* a bit a resource (RLIMIT_*): a limit that is in force has been made
                                   * under us, with room for us [limits.h] */
    uint32_t changed;             /* ranges of code that differ from their files, in the process that was attached to */
    struct cofi__fast_range { uint64_t start, end; } changed_range[16];
    uint32_t locks;               /* that process has all of its new memory locked (MCL_FUTURE) */
};

/* A SIGTRAP of this code, with the process in si_addr, asks a thread to come to the runtime. */
enum { COFI__FAST_SI_HALT = -0x636f };

/* Layout of a slot: head and context, notes, stacks, then chunks each with a guard page behind it. */
enum {
    COFI__FAST_SLOT_NOTES = 64 << 10,
    COFI__FAST_SLOT_STACK = COFI__FAST_SLOT_NOTES + COFI__FAST_NOTES_BYTES,
    COFI__FAST_STACK_BYTES = 128 << 10,
    COFI__FAST_SLOT_ALT = COFI__FAST_SLOT_STACK + COFI__FAST_STACK_BYTES,
    COFI__FAST_SLOT_LOG = COFI__FAST_SLOT_ALT + COFI__FAST_STACK_BYTES,
    COFI__FAST_GUARD = 4096
};

/* A slot is to be free: whom it will be taken for is not known, and a maker that is late does not tell. */
static inline void cofi__fast_forget_child(struct cofi__fast_slot *slot)
{
    uint64_t turns = (__atomic_load_n(&slot->child, __ATOMIC_ACQUIRE) >> 32) + 1;
    __atomic_store_n(&slot->child, turns << 32, __ATOMIC_SEQ_CST);
}

static inline uint64_t cofi__fast_slot_address(const struct cofi__fast_control *control, uint32_t index)
{
    return COFI__FAST_SHARED_BASE + (index + 1) * control->slot_bytes;
}

/* Of a slot, or of an address in it, as the program sees them. */
static inline uint32_t cofi__fast_slot_index(const struct cofi__fast_control *control, uint64_t address)
{
    return (uint32_t)((address - cofi__fast_slot_address(control, 0)) / control->slot_bytes);
}

/* The address space of each slot's thread, or of who had it before: to look for a space's threads in
 * their slots takes a page fault a slot, in each process that is forked. */
static inline uint64_t *cofi__fast_spaces(const struct cofi__fast_control *control)
{
    enum { BEHIND = (sizeof *control + 4095) / 4096 * 4096, ROOM = COFI__FAST_SLOT_LOG - BEHIND };
    _Static_assert(ROOM >= COFI__FAST_SLOTS_MAX * sizeof(uint64_t), "the control page has as much room as a slot");
    return (uint64_t *)((uintptr_t)control + BEHIND);
}

/* A slot has become free. */
static inline void cofi__fast_freed(struct cofi__fast_control *control, uint32_t index)
{
    uint32_t full = __atomic_load_n(&control->slots_full, __ATOMIC_RELAXED);
    while (index < full &&
           !__atomic_compare_exchange_n(&control->slots_full, &full, index, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        ;
}

/* Where the store begins [store.h], from the shared memory's start. */
static inline uint64_t cofi__fast_store_offset(const struct cofi__fast_control *control)
{
    return (control->slots + UINT64_C(1)) * control->slot_bytes;
}

static inline uint64_t cofi__fast_shared_bytes(const struct cofi__fast_control *control)
{
    return cofi__fast_store_offset(control) + control->store_bytes;
}

static inline uint64_t cofi__fast_chunk_offset(const struct cofi__fast_control *control, uint32_t chunk)
{
    return COFI__FAST_SLOT_LOG + chunk * (control->chunk_bytes + COFI__FAST_GUARD);
}

#endif
