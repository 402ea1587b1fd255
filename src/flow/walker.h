/* SPDX-License-Identifier: MIT
 * The walker's state: bytes, pending packets, position, caches, output. */
#ifndef COFI_FLOW_WALKER_H
#define COFI_FLOW_WALKER_H

#include <string.h>

#include <cofi/flow.h>
#include <cofi/insn.h>

#include "x86/errata.h"
#include "flow/edge.h"
#include "flow/first_byte.h"
#include "flow/memory.h"
#include "flow/run_type.h"
#include "flow/sieve.h"
#include "flow/span.h"
#include "time/clock.h"

/* An address without code, as of an epoch: asked about again and again where pages are missing. */
struct absent {
    uint64_t ip;
    uint32_t epoch;
    uint8_t space, mode; /* 0: none */
};
enum { ABSENT = 512 };

/* ---- packets ---- */

enum pump_result {
    PUMP_PACKET, /* flow->packet holds one that the walker must act on */
    PUMP_FULL,   /* no room for more bits */
    PUMP_TIME,   /* time is about to change, and the bits came before */
    PUMP_END,    /* no more bytes */
    PUMP_BAD,    /* bytes that are no packet */
};

struct source {
    const uint8_t *p, *end;
    const uint8_t *begin;         /* what lies before p in the same memory, for who goes back; not in the sieve */
    uint64_t end_offset;          /* of `end` */
    uint64_t stop;                /* offset of the next of config.breaks: `end` is not behind it; UINT64_MAX: there is none */
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

/* Stand at the first byte, or, if all are there, at the one at `skip`. */
void cofi__source_begin(struct cofi_flow *flow, uint64_t skip);
/* Make at least SOURCE_AHEAD bytes contiguous, if there are up to the next break. */
void cofi__source_more(struct cofi_flow *flow);
/* Go on behind the break that `end` is at. */
void cofi__source_pass(struct cofi_flow *flow);
static inline bool source_ends_at_break(const struct source *s) { return s->end_offset == s->stop; }
static inline size_t source_past(const struct source *s)
{
    size_t past = (size_t)(s->p - s->begin);
    return past < SOURCE_BACK ? past : SOURCE_BACK;
}
static inline uint64_t source_offset(const struct source *s)
{
    return s->end_offset - (uint64_t)(s->end - s->p);
}

/* An address on the return stack. */
struct ret_entry {
    struct block *site; /* the CALL's block: what is behind it is the target */
    uint64_t ip;        /* the target where site is null */
};
enum { RET_DEPTH = 64 };

/* TIPs of which none has waited are believed not to behind so many outcomes and targets, so many of them of indirect JMPs and CALLs, for those of RETs and
 * far transfers never do; one that ends no gap for that it may have waited counts as an outcome in one, and as a part of a target in the other. */
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
    bool dis_retc;         /* known: a RET never takes a bit */
    bool timeless;         /* known: no packet tells a full time */
    bool dis_tnt;          /* known: outcomes are not told */
    bool full;             /* outcomes follow that had no room */
    bool counting;         /* what runs is counted for `coverage` at once; else with `lists` it is written down, for tally.c to count */
    bool sifts;            /* timing may lie between the outcomes, and nobody asks for it there */
    bool sieved;           /* s holds what the sieve made of it */
    sift_wide *sift_wide;  /* … by windows; null: packet by packet */
    struct sieve *sieve;
    struct block *cur;     /* where execution is, or null: see ip */
    uint64_t ip;
    struct run *last_run;
    uint64_t packet_offset, packet_ip;
    uint64_t first_offset; /* where reading began */
    uint64_t used_offset, used_ticks; /* of the last packet that was more than outcomes or time */
    bool packet_has_ip, packet_full_ip;
    struct cofi_packet packet;
    struct cofi_packet_context context;
    uint64_t last_ip;
    bool last_ip_valid;    /* an address against which one may be expanded. PT: asked in an overflow only */
    struct cofi__clock clock;
    struct ret_entry ret[RET_DEPTH];
    unsigned ret_top, ret_n; /* ret[ret_top % RET_DEPTH] is the youngest of ret_n */

    /* output */
    struct cofi_flow_batch *batch;
    uint64_t *lists;       /* in place of the batch's blocks, if not null: see lists.h */
    size_t lists_n;
    struct cofi_flow_coverage *coverage; /* null: nothing is counted */
    uint64_t batch_offset; /* where the batch began */
    bool batch_long;       /* it spans many bytes: enough, though there is room */
    uint32_t prev_hash;    /* of the block before, 0: none (coverage); what is written down begins with HASH_OPEN: nobody knows yet */
    uint32_t first_hash;   /* of the block behind that; 0: none, or not by an edge */
    struct spill_item *spill;
    size_t spill_n, spill_max, spill_at;

    /* position and state between packets */
    struct pend pend;
    uint64_t async_ip, async_offset;
    uint64_t last_end;     /* RTIT: address behind the branch that ran last, 0: not a branch */
    uint64_t idle;         /* runs since the last packet was used */
    struct block *idle_mark;
    bool in_tx;
    bool tip_from_kernel, tip_waits; /* of the branch whose TIP is due */
    uint64_t tips_that_wait; /* those of indirect JMPs and CALLs */
    uint8_t cbr;
    struct cofi_flow_event pgd_event;
    uint64_t tentative_offset; /* of the packet that says so; UINT64_MAX: an event has shown it */
    bool stray;            /* it is a FUP behind an OVF [ERR APL12] */
    bool fup_of_mode;      /* it is one that may be a MODE.Exec's, with EventEn */
    uint64_t overflow_offset, overflow_ticks;
    bool stopped;          /* TraceStop: the outcomes before it may follow (RTIT) */
    bool stop_was_last;    /* a TraceSTOP, and nothing since but PSB and STS */
    bool synced;
    bool headless;         /* neither a PSB nor an address was read yet: decoding began before a PSB (config.synced) */
    bool overflow_before;  /* an OVF stands before the PSB at which decoding begins */
    bool code_missed;      /* code was missing since the last PSB, or the address at it (RTIT) or behind an overflow: CALLs may not be on the stack */
    bool lost_any;         /* any TIP is a safe place, not only one with a full address */
    bool outcomes_before;  /* in a gap: TNT packets stand before what comes, and nothing since that forces out TIPs which wait (decision 0619) */
    bool passed;           /* a TIP was passed over since the last of these */
    uint64_t forced_bits;  /* stats.tnt_bits at the last packet that does */
    bool waited;           /* a TIP came while outcomes were pending, since decoding went on */
    bool trusted;          /* decoding went on at a TIP that could have waited */
    bool asked;            /* it has mattered whether they may */
    uint64_t doubt_units, doubt_parts; /* units_used and tip_parts up to which TIPs may wait */
    uint64_t gap_offset, gap_ip, gap_ticks;
    int16_t gap_cause;
    const char *gap_text;
    bool psb_has_ip;
    uint64_t psb_offset, psb_ip;
    bool ended, started;
    bool keep_cache;       /* blocks that were shown must stay: do not empty the cache */
    bool speculative;      /* on the way to a piece of a stream. PT: take the PSB+'s word that tracing went on; RTIT: any CALL may have
                            * been before */
    bool paused;           /* the PSB+ at or after stop_psb was read */
    uint64_t stop_psb;
    uint64_t disabled_ip;
    uint64_t cr3_ip, cr3_units; /* of the last MOV CR3 that had a packet, and units_used then */
    uint64_t ovf_ip, ovf_units; /* of the last PSB+ that ended an overflow: its own FUP may be still to come; and units_used then */
    bool asleep;           /* a C-state was entered, and no PWRX has come */
    uint64_t sleep_ip, sleep_units; /* of its EXSTOP; and units_used then */
    uint64_t since, since_units; /* instructions that ran since the last FUP, TIP.PGE or counted TRIG, if no outcome or TIP came (units_used then) */
    uint64_t stray_pip_units; /* units_used at the last PIP behind a FUP that may be a stray one: the MOV CR3 may be behind that */
    bool behind_tsx;       /* a MODE.TSX of an overflow was the last packet but for time: an FUP is its own */
    uint8_t events_seen;   /* EVENTS_SURE and more: a CFE, or so many EVDs or MODE.Execs that tell RFLAGS.IF */
    bool ovf_seen;         /* the OVF was; else there may have been one before it */

    /* code */
    unsigned mode;
    bool mode_told;        /* by the configuration or a packet */
    uint32_t space;
    uint64_t cr3, vmcs;
    bool non_root;
    uint8_t pg;            /* RTIT: CR0.PG of the last PIP, + 1; 0: none was seen */
    uint8_t ecbr;          /* RTIT: the effective ratio of the last STS */
    struct cofi_view *view;
    struct cofi_view *views[SPACES_MAX];
    const struct cofi_image *images[SPACES_MAX];
    uint64_t viewed_ns[SPACES_MAX]; /* how far the views have been advanced */
    unsigned spaces;
    uint64_t code_ns, code_offset;
    uint64_t seen_ns;      /* the last exact time: code is seen as of then */
    bool code_changed;     /* a view has gone forward: it cannot go back */
    int code_error;        /* why the last look-up failed */
    struct chunk_pool chunks;
    size_t chunks_seen;    /* chunks.used when it was last looked whether the cache is full */
    struct arena blocks_arena, runs_arena, spans_arena;
    uint64_t *table;       /* address -> block: see block.c */
    bool mortal;           /* there are dead blocks in it */
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
    uint64_t ahead_tips;   /* that were read ahead: tests see by it that they show something */
    uint8_t ahead_wait, ahead_idle; /* steps until that is tried again; how long it was not tried before */
    unsigned run_bits;     /* RUN_BITS or RUN_SHORT */
    unsigned run_made, run_found; /* since it was looked last: made, and found though not predicted */
    uint64_t run_entries[4];
    uint64_t run_mark, run_retry; /* RUN_SHORT: since so many outcomes; for so many */
    uint32_t generation;
    struct spans spans;
    struct run *build;     /* scratch for the run being made */
    struct block **path;   /* scratch for walks */
    size_t path_n, path_max;

    struct cofi_flow_config config;
    uint64_t errata;
    struct cofi_flow_stats stats;
    int packet_error;      /* of PUMP_BAD */
    int status;            /* an error that ends the flow */
};

/* block.c: code by address */
struct block *cofi__block_at(struct cofi_flow *flow, uint64_t ip); /* null: flow->code_error */
void cofi__note_absence(struct cofi_flow *flow, uint64_t ip); /* there is no code; holds in this epoch */
struct block *cofi__block_known(struct cofi_flow *flow, uint64_t ip); /* null: not decoded yet */
struct block *cofi__block_cut(struct cofi_flow *flow, struct block *block, uint32_t n);
void cofi__block_changed(void *flow, uint64_t addr, uint64_t len);
void cofi__cache_free(struct cofi_flow *flow);
void cofi__cache_flush(struct cofi_flow *flow);
/* The same where somebody still looks at what was decoded: it is used no more, and stays until the next flush. */
void cofi__cache_kill(struct cofi_flow *flow);
size_t cofi__cache_bytes(const struct cofi_flow *flow);
bool cofi__cache_full(const struct cofi_flow *flow);
/* The number of an image among those that are viewed; negative: out of memory. */
int cofi__space_of(struct cofi_flow *flow, const struct cofi_image *image);
/* Show the image that CR3, VMCS and NR select, as of the last exact time. Between batches only. 0 or COFI_ERR_NOMEM. */
int cofi__space_set(struct cofi_flow *flow);
/* A caller's configuration as this library knows it. COFI_ERR_RANGE, COFI_ERR_UNSUPPORTED as cofi_flow_open has them. */
int cofi__flow_config_of(struct cofi_flow_config *known, const struct cofi_flow_config *config);
/* What is seen is code of later than that: there has been a wrong time. */
bool cofi__view_is_late(const struct cofi_flow *flow, uint64_t ns);
/* A view of an image, from its start; of a trace that never tells the time, as the image is at its end. */
int cofi__flow_view_open(struct cofi_flow *flow, struct cofi_view **view, const struct cofi_image *image);

/* pt_pump.c, rtit_pump.c: bytes of a packet that is an outcome or a target with an address, by its first one;
 * 0: it is another packet */
extern const uint8_t cofi__pt_sizes[256], cofi__rtit_sizes[256];
/* sift.c: what TNT_OUTCOMES says of a short TNT by its byte; 0: another packet */
extern const uint16_t cofi__pt_outcomes[256];
static inline const uint8_t *sizes_of(const struct cofi_flow *flow)
{
    return flow->config.gen == COFI_PT ? cofi__pt_sizes : cofi__rtit_sizes;
}
/* Nothing but blocks, outcomes and targets is in the air, and nobody asks for the time of each. */
static inline bool only_branches(const struct cofi_flow *flow)
{
    return !(flow->in_the_air[0] | flow->in_the_air[1] | flow->pend.any) && flow->enabled && !flow->context.block && !flow->spans.plain &&
           !(flow->batch && flow->batch->times);
}
/* Behind a CYC; null: longer than time allows, for the codec to judge. */
const uint8_t *cofi__pt_long_cyc(const struct cofi_flow *flow, const uint8_t *p, uint64_t *cycles);

/* run.c */
int cofi__run_bits(struct cofi_flow *flow, bool want_tip);
int cofi__run_due_tip(struct cofi_flow *flow);
/* ahead.c: PT: go by runs that are known, from TIP to TIP. False: nothing was done. */
bool cofi__ahead(struct cofi_flow *flow);
void cofi__run_count_all(struct cofi_flow *flow);
/* A block ran so often, and its conditional branch, if it ends in one, led there; COFI_NO_IP: that is not told. Only coverage is told. */
void cofi__tell_outcome(struct cofi_flow *flow, const struct block *block, uint64_t to, uint64_t count);
/* Are its blocks still what memory holds? Asked only when some block died since the last time. */
bool cofi__run_is_whole(struct cofi_flow *flow, struct run *run);

/* walk.c: between packets */
enum goal_stop {
    STOP_INSN,   /* at an instruction that the goal names; not run */
    STOP_BRANCH, /* at a block whose last instruction the goal names, or that needs a packet */
    STOP_ERROR,
};
struct goal {
    bool by_ip;
    uint64_t ip;
    bool by_count;
    uint64_t count;       /* stop behind so many instructions */
    uint32_t classes;     /* stop at an instruction of one of these classes */
    bool by_target;       /* PGD: stop at a direct branch to `target` */
    uint64_t target;
    bool leaving;         /* stop at a direct branch out of the known filter ranges */
    bool by_end;          /* RTIT: stop at a branch that ends at, or with E1 around, `end` */
    uint64_t end_ip;
};
struct place {
    struct block *block;
    uint32_t insn;        /* STOP_INSN: index; STOP_BRANCH: the last */
    bool named;           /* STOP_BRANCH: the goal names it */
    uint64_t ip;          /* where the block begins, or would: it is null where there is no code, and may be when ip is the goal */
};
/* Go from the current position along direct jumps only, without changing anything. The path is kept
 * for cofi__walk_take. */
enum goal_stop cofi__walk_find(struct cofi_flow *flow, const struct goal *goal, struct place *place);
/* Emit the path found last, then the first n instructions of place->block, and stand behind them. */
int cofi__walk_take(struct cofi_flow *flow, const struct place *place, uint32_t n);
/* How many instructions ran on such ways since a packet has told where execution is; SINCE_UNKNOWN and more: that one is not placed. */
#define SINCE_UNKNOWN (UINT64_C(1) << 32)
uint64_t cofi__since(const struct cofi_flow *flow);
/* Behind STOP_ERROR: a gap begins. Where that is for code that is missing, what lies before it ran. */
int cofi__walk_lose(struct cofi_flow *flow, const struct place *place, const char *text);
bool cofi__in_ranges(const struct cofi_flow *flow, uint64_t ip);
/* It takes more than what needs only a context that is traced to show that tracing is on. */
static inline bool may_be_stray(const struct cofi_flow *flow) { return flow->tentative && flow->stray; }
static inline void place_set(struct cofi_flow *flow, uint64_t ip) { flow->cur = NULL; flow->ip = ip; }

/* emit.c: into the batch */
int cofi__emit_block(struct cofi_flow *flow, struct block *block);
int cofi__emit_event(struct cofi_flow *flow, const struct cofi_flow_event *event);
/* Now. */
struct cofi_flow_stamp cofi__stamp(struct cofi_flow *flow);
struct cofi_flow_event cofi__event(struct cofi_flow *flow, enum cofi_flow_event_kind kind, uint64_t offset);
void cofi__spill_drain(struct cofi_flow *flow);
void cofi__edge(struct cofi_flow *flow, uint32_t index, uint64_t count);
/* A word for tally.c, see lists.h. */
void cofi__write_down(struct cofi_flow *flow, uint64_t word);

/* gap.c: losing the way and finding it again */
int cofi__lose(struct cofi_flow *flow, int cause, bool any_tip, const char *text);
void cofi__doubt_events(struct cofi_flow *flow, int cause);
/* In a gap that began so, what comes may be damage that looks like a packet. */
bool cofi__packets_are_wrong(const struct cofi_flow *flow);
int cofi__lose_again(struct cofi_flow *flow);
int cofi__found(struct cofi_flow *flow);
bool cofi__may_have_waited(struct cofi_flow *flow);
/* Go to the next PSB at or after the current byte. False: there is none, all bytes are used up. */
bool cofi__sync(struct cofi_flow *flow);
/* The same up to the next break only. */
bool cofi__sync_here(struct cofi_flow *flow);
/* Whether the current byte begins a PSB (PT). */
bool cofi__at_psb(struct cofi_flow *flow);
/* As cofi__sync_here, where what stands here is no packet. */
bool cofi__resync(struct cofi_flow *flow);

/* The query layers: read packets up to one that matters; act on it. */
enum pump_result cofi__pt_pump(struct cofi_flow *flow);
enum pump_result cofi__rtit_pump(struct cofi_flow *flow);
int cofi__pt_act(struct cofi_flow *flow);
/* At a break, where all bytes before it were read but those of a packet that it cuts. */
int cofi__pt_break(struct cofi_flow *flow);
int cofi__rtit_act(struct cofi_flow *flow);
int cofi__pend_flush(struct cofi_flow *flow, uint64_t ip);
int cofi__bind_paging(struct cofi_flow *flow);
int cofi__due_at_target(struct cofi_flow *flow, uint64_t ip);
uint64_t cofi__ns(const struct cofi_flow *flow, uint64_t ticks);

static inline enum pump_result pump(struct cofi_flow *flow)
{
    return flow->config.gen == COFI_PT ? cofi__pt_pump(flow) : cofi__rtit_pump(flow);
}

/* ---- the return stack [PTREF 7.1], [RTIT 4.2.3.2] ---- */

static inline void ret_push(struct cofi_flow *flow, struct block *site)
{
    flow->ret[++flow->ret_top % RET_DEPTH].site = site;
    if (flow->config.gen == COFI_RTIT)
        flow->ret_n = 1;
    else if (flow->ret_n < RET_DEPTH)
        flow->ret_n++;
}

/* PT: each RET takes the youngest. RTIT: the last CALL's address stays. */
static inline void ret_pop(struct cofi_flow *flow)
{
    if (flow->config.gen == COFI_RTIT || !flow->ret_n)
        return;
    flow->ret_top--;
    flow->ret_n--;
}

/* Keep the addresses only: the blocks go, or mean something else in another mode or address space. */
static inline void ret_drop_sites(struct cofi_flow *flow)
{
    for (unsigned i = 0; i < RET_DEPTH; i++) {
        if (flow->ret[i].site)
            flow->ret[i].ip = flow->ret[i].site->pub.end;
        flow->ret[i].site = NULL;
    }
}

static inline struct block *ret_site(const struct cofi_flow *flow, unsigned below)
{
    return below < flow->ret_n ? flow->ret[(flow->ret_top - below) % RET_DEPTH].site : NULL;
}

/* What a stretch of code did: the stack grew by up to peak, then lost `pops` and got `calls`. Entries that
 * had no room are gone. */
static inline void ret_apply(struct cofi_flow *flow, unsigned peak, unsigned pops, struct block *const *calls, unsigned n)
{
    if (flow->config.gen == COFI_PT && flow->ret_n + peak > RET_DEPTH)
        flow->ret_n = RET_DEPTH - peak;
    if (flow->config.gen == COFI_PT) {
        pops = pops < flow->ret_n ? pops : flow->ret_n;
        flow->ret_top -= pops;
        flow->ret_n -= pops;
    }
    for (unsigned i = 0; i < n; i++)
        ret_push(flow, calls[i]);
}

static inline void ret_clear(struct cofi_flow *flow) { flow->ret_n = 0; }

/* A CALL that a compressed RET may return behind. PT: not a direct one to the next instruction
 * [PTREF 7.1]; RTIT: every near one (docs/decisions/0215). */
static inline bool block_pushes(const struct cofi_flow *flow, const struct block *b)
{
    return b->pub.cls == COFI_CLASS_CALL_IND ||
           (b->pub.cls == COFI_CLASS_CALL && (b->pub.target != b->pub.end || flow->config.gen == COFI_RTIT));
}

/* The block behind a fall-through or a not-taken branch, and the target of a direct one. */
static inline struct block *block_fall(struct cofi_flow *flow, struct block *b)
{
    if (!b->fall || b->fall->dead)
        b->fall = cofi__block_at(flow, b->pub.end);
    return b->fall;
}
static inline struct block *block_taken(struct cofi_flow *flow, struct block *b)
{
    if (!b->taken || b->taken->dead)
        b->taken = cofi__block_at(flow, b->pub.target);
    return b->taken;
}

/* What runs is written down, to be counted. */
static inline bool writes_down(const struct cofi_flow *flow) { return flow->lists && flow->coverage; }

enum { HASH_OPEN = 2 /* no block's, which are odd */ };

/* Of what is written down only the first and the last edge are of interest now. */
static inline void note_edges(struct cofi_flow *flow, uint32_t first_hash, uint32_t last_hash)
{
    if (flow->prev_hash == HASH_OPEN)
        flow->first_hash = first_hash;
    flow->prev_hash = last_hash;
}

/* An edge to the first block of what comes; its last one is where the next edge begins. */
static inline void edge_to(struct cofi_flow *flow, uint32_t first_hash, uint32_t last_hash)
{
    if (flow->prev_hash)
        cofi__edge(flow, edge_index(flow->prev_hash, first_hash), 1);
    flow->prev_hash = last_hash;
}

/* Counts up with each outcome and target that is used. */
static inline uint64_t units_used(const struct cofi_flow *flow) { return flow->stats.tnt_bits + flow->stats.tips; }

static inline uint64_t tip_parts(const struct cofi_flow *flow) { return flow->tips_that_wait * TIP_PARTS; }

/* For how many more TIPs may wait. */
static inline struct doubt doubt(const struct cofi_flow *flow)
{
    uint64_t units = units_used(flow), parts = tip_parts(flow);
    return (struct doubt){(uint16_t)(flow->doubt_units > units ? flow->doubt_units - units : 0),
        (uint16_t)(flow->doubt_parts > parts ? flow->doubt_parts - parts : 0)};
}
static inline bool in_doubt(const struct cofi_flow *flow)
{
    return flow->doubt_units > units_used(flow) || flow->doubt_parts > tip_parts(flow);
}
static inline void doubt_set(struct cofi_flow *flow, struct doubt left)
{
    flow->doubt_units = units_used(flow) + left.units;
    flow->doubt_parts = tip_parts(flow) + left.parts;
}
static inline void doubt_anew(struct cofi_flow *flow) { doubt_set(flow, (struct doubt){UNITS_DOUBTED, TIPS_DOUBTED * TIP_PARTS}); }

/* Whether the TIP in hand, which could end a gap, may have waited for outcomes that stand before it and belong behind it (decision 0619). */
static inline bool may_have_waited(struct cofi_flow *flow)
{
    if (!flow->outcomes_before)
        return false;
    flow->asked = true;
    return in_doubt(flow) && cofi__may_have_waited(flow);
}

/* TIPs that waited show that others may, unless the way by which they were met turned out to be wrong; so does a wrong way from one
 * that could have. */
static inline void note_waited(struct cofi_flow *flow, bool right)
{
    if (right ? flow->waited : flow->trusted)
        doubt_anew(flow);
    flow->waited = flow->trusted = false;
}

/* The current position, and the block there. */
static inline uint64_t position(const struct cofi_flow *flow) { return flow->cur ? flow->cur->pub.ip : flow->ip; }
static inline struct block *here(struct cofi_flow *flow)
{
    if (flow->cur && !flow->cur->dead)
        return flow->cur;
    flow->ip = position(flow);
    return flow->cur = cofi__block_at(flow, flow->ip);
}

#endif
