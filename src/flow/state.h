/* SPDX-License-Identifier: MIT
 * The walker's state, part by part: bytes, pending packets, position, caches, output. */
#ifndef COFI_FLOW_STATE_H
#define COFI_FLOW_STATE_H

#include <cofi/flow.h>
#include <cofi/insn.h>

#include "flow/memory.h"
#include "flow/sieve.h"
#include "flow/span.h"
#include "time/clock.h"

struct source {
    const uint8_t *p, *end;
    const uint8_t *begin;         /* what lies before p in the same memory, for who goes back; not in the sieve */
    uint64_t end_offset;          /* of `end` */
    uint64_t stop;                /* offset of the next of config.breaks: `end` is not behind it;
                                   * UINT64_MAX: there is none */
    size_t hidden;                /* bytes that follow `end` there */
    const uint8_t *piece;         /* what of the current piece is not in `stitch` */
    const uint8_t *piece_end;
    size_t seam;                  /* where in `stitch` the current piece's bytes begin */
    size_t seam_from;             /* how many of them there are */
    bool stitched, eof;
    uint32_t moves;               /* how often p went to other memory */
    uint8_t stitch[256];
};
enum { SOURCE_AHEAD = 32 }; /* bytes that are contiguous unless the stream ends */
enum { SOURCE_BACK = 15 };  /* and behind, as many as a PSB has but one, unless it began */

/* An address on the return stack. */
struct ret_entry {
    struct block *site; /* the CALL's block: what is behind it is the target */
    uint64_t ip;        /* the target where site is null */
};
enum { RET_DEPTH = 64 };

/* TIPs of which none has waited are believed not to behind so many outcomes and targets, so many of them
 * of indirect JMPs and CALLs, for those of RETs and far transfers never do; one that ends no gap for
 * that it may have waited counts as an outcome in one, and as a part of a target in the other. */
enum { UNITS_DOUBTED = 1024, TIPS_DOUBTED = 64, TIP_PARTS = 16 };

enum { TNT_SHORT = 6 /* outcomes */ };

/* What is left of these: outcomes and targets, parts of targets. */
struct doubt {
    uint16_t units, parts;
};
enum { EVENTS_SURE = 2 /* the bit in one may be damage */, EVENTS_FIRM = 3 /* a PSB came before packets were wrong */ };
enum { PEND_MAX = 8, SPACES_MAX = 64 };

/* What is due to an address or a TIP that comes later. */
struct pend {
    struct cofi_flow_event list[PEND_MAX];
    union {
        struct {
            uint8_t n;
            bool fup; /* the next FUP tells where */
            bool mode, paging, vmcs, tsx;
        };
        uint64_t any; /* 0: nothing is due */
    };
    uint8_t mode_bits; /* 16, 32, 64 */
    uint8_t iflag, nr, intx, abort;
    uint64_t cr3, vmcs_base;
    uint64_t mode_offset, paging_offset, vmcs_offset, tsx_offset;
};

struct spill_item {
    const struct block *block; /* null: the event */
    struct cofi_flow_stamp stamp;
    struct cofi_flow_event event;
};

/* An address that a packet told, and how much of the trace had been used up by then: later it may not be
 * what is meant. */
struct told {
    uint64_t ip;
    uint64_t units; /* units_used then */
};

struct ret_stack {
    struct ret_entry entry[RET_DEPTH];
    unsigned top, n; /* entry[top % RET_DEPTH] is the youngest of n */
};

/* Where what ran goes [emit.c]. */
struct shown {
    struct cofi_flow_batch *batch;
    uint64_t *lists;       /* in place of the batch's blocks, if not null: see lists.h */
    size_t lists_n;
    struct cofi_flow_coverage *coverage; /* null: nothing is counted */
    bool counting;         /* what runs is counted for `coverage` at once; else with `lists` it is
                            * written down, for tally.c to count */
    uint64_t batch_offset; /* where the batch began */
    bool batch_long;       /* it spans many bytes: enough, though there is room */
    uint32_t prev_hash;    /* of the block before, 0: none (coverage); what is written down begins with
                            * HASH_OPEN: nobody knows yet */
    uint32_t first_hash;   /* of the block behind that; 0: none, or not by an edge */
    struct spill_item *spill;
    size_t spill_n, spill_max, spill_at;
};

/* The branch whose TIP is due. */
struct due_tip {
    bool from_kernel, waits;
};

/* Blocks that are gone through without a packet. */
struct idling {
    uint64_t runs;         /* since the last packet was used */
    struct block *mark;
};

/* Where decoding broke off, or would have [gap.c]. */
struct gap {
    uint64_t offset, ip, ticks;
    int16_t cause;
    const char *text;
    bool any_tip;          /* any TIP is a safe place, not only one with a full address */
};

/* Which TIPs may have waited for outcomes (decision 0619). */
struct waiting {
    bool outcomes_before;  /* in a gap: TNT packets stand before what comes, and nothing since that
                            * forces out TIPs which wait */
    bool passed;           /* a TIP was passed over since the last of these */
    uint64_t forced_bits;  /* stats.tnt_bits at the last packet that does */
    bool came;             /* a TIP came while outcomes were pending, since decoding went on */
    bool trusted;          /* decoding went on at a TIP that could have waited */
    bool asked;            /* it has mattered whether they may */
    uint64_t doubt_units, doubt_parts; /* units_used and tip_parts up to which TIPs may wait */
};

/* A FUP that may not be what it looks like. */
struct doubtful_fup {
    uint64_t offset;       /* of the packet that says that tracing is enabled; UINT64_MAX: an event has shown it */
    bool stray;            /* it is a FUP behind an OVF [ERR APL12] */
    bool of_mode;          /* it is one that may be a MODE.Exec's, with EventEn */
    uint64_t pip_units;    /* units_used at the last PIP behind a FUP that may be a stray one: the MOV
                            * CR3 may be behind that */
};

/* The overflow that was last, or is [pt_overflow.c]. */
struct overflow {
    uint64_t offset, ticks;
    bool before;           /* an OVF stands before the PSB at which decoding begins */
    struct told psb;       /* the last PSB+ that ended one: its own FUP may be still to come */
    bool behind_tsx;       /* a MODE.TSX of one was the last packet but for time: an FUP is its own */
    uint8_t events_seen;   /* EVENTS_SURE and more: a CFE, or so many EVDs or MODE.Execs that tell RFLAGS.IF */
    bool seen;             /* the OVF was; else there may have been one before it */
};

/* What the last PSB+ told. */
struct psb_plus {
    bool has_ip;
    uint64_t offset, ip;
};

/* A C-state [pt_power.c]. */
struct sleep {
    bool on;               /* one was entered, and no PWRX has come */
    struct told exstop;
};

/* Instructions that ran since the last FUP, TIP.PGE or counted TRIG, if no outcome or TIP came (units_used then). */
struct icount {
    uint64_t insns, units;
};

/* Of RTIT's packets alone. */
struct rtit_state {
    uint64_t last_end;     /* address behind the branch that ran last, 0: not a branch */
    bool stopped;          /* TraceStop: the outcomes before it may follow */
    bool stop_was_last;    /* a TraceSTOP, and nothing since but PSB and STS */
    uint8_t pg;            /* CR0.PG of the last PIP, + 1; 0: none was seen */
    uint8_t ecbr;          /* the effective ratio of the last STS */
    struct cofi_flow_event pgd_event;
};

/* Whose code is seen, and as of when. */
struct code {
    unsigned mode;
    bool mode_told;        /* by the configuration or a packet */
    uint32_t space;
    uint64_t cr3, vmcs;
    bool non_root;
    struct cofi_view *view;
    struct cofi_view *views[SPACES_MAX];
    const struct cofi_image *images[SPACES_MAX];
    uint64_t viewed_ns[SPACES_MAX]; /* how far the views have been advanced */
    unsigned spaces;
    uint64_t due_ns, due_offset; /* code_due: as of then, and why */
    uint64_t seen_ns;      /* the last exact time: code is seen as of then */
    bool changed;          /* a view has gone forward: it cannot go back */
    int error;             /* why the last look-up failed */
    bool missed;           /* code was missing since the last PSB, or the address at it (RTIT) or behind
                            * an overflow: CALLs may not be on the stack */
};

/* An address without code, as of an epoch: asked about again and again where pages are missing. */
struct absent {
    uint64_t ip;
    uint32_t epoch;
    uint8_t space, mode; /* 0: none */
};
enum { ABSENT = 512 };

/* What was decoded [block.c, run_table.c]. */
struct cache {
    struct chunk_pool chunks;
    size_t chunks_seen;    /* chunks.used when it was last looked whether the cache is full */
    struct arena blocks_arena, runs_arena, spans_arena;
    uint64_t *table;       /* address -> block: see block.c */
    bool mortal;           /* there are dead blocks in it */
    bool keep;             /* blocks that were shown must stay: do not empty it */
    size_t table_size, table_n, starts_n;
    struct block **starts; /* starts_n lists, by size and place: where a change looks for the blocks it kills */
    struct block **all;    /* in the order of their ids */
    size_t all_n, all_max;
    uint32_t id_first, id_step; /* flows of one stream give no id twice */
    uint32_t epoch;
    bool relies_on_absence; /* some run or `absent` does: any change of code begins a new epoch */
    struct absent absent[ABSENT];
    struct run_slot *runs;
    size_t runs_size, runs_n;
    struct run *youngest;
    uint32_t generation;
};

/* How many outcomes a run has [run.c]. */
struct run_lengths {
    unsigned bits;         /* RUN_BITS or RUN_SHORT */
    unsigned made, found;  /* since it was looked last: made, and found though not predicted */
    uint64_t entries[4];
    uint64_t mark, retry;  /* RUN_SHORT: since so many outcomes; for so many */
};

/* Targets read ahead [ahead.c]. */
struct reading_ahead {
    uint64_t tips;         /* that were read: tests see by it that they show something */
    uint8_t wait, idle;    /* steps until it is tried again; how long it was not tried before */
};

/* Scratch for walks [walk.c]. */
struct path {
    struct block **blocks;
    size_t n, max;
};

/* What is known of the trace beforehand. */
struct known {
    bool dis_retc;         /* a RET never takes a bit */
    bool timeless;         /* no packet tells a full time */
    bool dis_tnt;          /* outcomes are not told */
};

struct cofi_flow {
    /* hot */
    struct source s;
    uint64_t bits;         /* pending outcomes, youngest at bit 0 */
    unsigned n;
    unsigned tail;         /* how many of them are of the last TNT packet */
    union {
        struct {
            bool has_packet;
            bool async;           /* a FUP was walked to: its TIP comes */
            bool far;             /* RTIT: a FUP.FAR of a far instruction: its TIP comes */
            bool just_overflowed; /* RTIT: [ERR E5] */
            bool time_hidden;     /* an overflow may have hidden a full time; none was told since */
            bool tip_due;         /* the block before ended with a branch whose TIP is not read yet */
            bool unknown;         /* RTIT: no address since the first PSB */
            bool pgd_held;        /* RTIT: FUP.PGD was shown not yet: a TIP may tell where to */
            bool tentative;       /* enabled by a PSB+ or a FUP that may be wrong [ERR BDM70], [ERR APL12] */
            bool overflow;        /* OVF: where it goes on comes */
            bool lost;            /* in a gap */
            bool in_psb;
            bool code_due;
            bool space_due;       /* CR3, VMCS or NR changed: another image may be seen */
        };
        uint64_t in_the_air[2];   /* 0: none of these */
    };
    bool enabled;
    struct known known;
    bool full;             /* outcomes follow that had no room */
    bool sifts;            /* timing may lie between the outcomes, and nobody asks for it there */
    bool sieved;           /* s holds what the sieve made of it */
    sift_wide *sift_wide;  /* … by windows; null: packet by packet */
    struct sieve *sieve;
    struct block *cur;     /* where execution is, or null: see ip */
    uint64_t ip;
    struct run *last_run;
    uint64_t packet_offset, packet_ip;
    uint64_t first_offset; /* where reading began */
    struct {
        uint64_t offset, ticks;
    } used;                /* the last packet that was more than outcomes or time */
    bool packet_has_ip, packet_full_ip;
    struct cofi_packet packet;
    struct cofi_packet_context context;
    int packet_error;      /* of PUMP_BAD */
    uint64_t last_ip;
    bool last_ip_valid;    /* an address against which one may be expanded. PT: asked in an overflow only */
    struct cofi__clock clock;
    struct ret_stack rets;
    struct shown out;

    /* between packets */
    struct pend pend;
    uint64_t async_ip, async_offset;
    struct due_tip due;
    uint64_t tips_that_wait; /* those of indirect JMPs and CALLs */
    struct idling idle;
    bool in_tx;
    uint8_t cbr;
    uint64_t disabled_ip;
    struct doubtful_fup fup;
    struct overflow ovf;
    struct psb_plus psb;
    struct gap gap;
    struct waiting waits;
    struct told mov_cr3;   /* the last one that had a packet */
    struct sleep sleep;
    struct icount since;
    struct rtit_state rtit;

    /* beginning and end */
    bool synced;
    bool headless;         /* neither a PSB nor an address was read yet: decoding began before a PSB (config.synced) */
    bool ended, started;
    bool speculative;      /* on the way to a piece of a stream. PT: take the PSB+'s word that tracing
                            * went on; RTIT: any CALL may have been before */
    bool paused;           /* the PSB+ at or after stop_psb was read */
    uint64_t stop_psb;
    int status;            /* an error that ends the flow */

    /* code, and what was made of it */
    struct code code;
    struct cache cache;
    struct reading_ahead ahead;
    struct run_lengths lengths;
    struct spans spans;
    struct run *build;     /* scratch for the run being made */
    struct path path;

    struct cofi_flow_config config;
    uint64_t errata;
    struct cofi_flow_stats stats;
};

#endif
