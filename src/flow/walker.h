/* SPDX-License-Identifier: MIT
 * What the walker's parts offer each other, and what is asked of its state everywhere. */
#ifndef COFI_FLOW_WALKER_H
#define COFI_FLOW_WALKER_H

#include <string.h>

#include "flow/edge.h"
#include "flow/first_byte.h"
#include "flow/run_type.h"
#include "flow/state.h"
#include "x86/errata.h"

/* source.c: bytes */

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

/* block.c: code by address */
struct block *cofi__block_at(struct cofi_flow *flow, uint64_t ip); /* null: flow->code.error */
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
/* A caller's configuration as this library knows it. COFI_ERR_RANGE, COFI_ERR_UNSUPPORTED as
 * cofi_flow_open has them. */
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
    return !(flow->in_the_air[0] | flow->in_the_air[1] | flow->pend.any) && flow->enabled && !flow->context.block &&
           !flow->spans.plain && !(flow->out.batch && flow->out.batch->times);
}
/* Behind a CYC; null: longer than time allows, for the codec to judge. */
const uint8_t *cofi__pt_long_cyc(const struct cofi_flow *flow, const uint8_t *p, uint64_t *cycles);

/* run.c */
int cofi__run_bits(struct cofi_flow *flow, bool want_tip);
int cofi__run_due_tip(struct cofi_flow *flow);
/* ahead.c: PT: go by runs that are known, from TIP to TIP. False: nothing was done. */
bool cofi__ahead(struct cofi_flow *flow);
void cofi__run_count_all(struct cofi_flow *flow);
/* A block ran so often, and its conditional branch, if it ends in one, led there; COFI_NO_IP: that is
 * not told. Only coverage is told. */
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
    uint64_t ip;          /* where the block begins, or would: it is null where there is no code, and may
                           * be when ip is the goal */
};
/* Go from the current position along direct jumps only, without changing anything. The path is kept
 * for cofi__walk_take. */
enum goal_stop cofi__walk_find(struct cofi_flow *flow, const struct goal *goal, struct place *place);
/* Emit the path found last, then the first n instructions of place->block, and stand behind them. */
int cofi__walk_take(struct cofi_flow *flow, const struct place *place, uint32_t n);
/* How many instructions ran on such ways since a packet has told where execution is; SINCE_UNKNOWN and
 * more: that one is not placed. */
#define SINCE_UNKNOWN (UINT64_C(1) << 32)
uint64_t cofi__since(const struct cofi_flow *flow);
/* Behind STOP_ERROR: a gap begins. Where that is for code that is missing, what lies before it ran. */
int cofi__walk_lose(struct cofi_flow *flow, const struct place *place, const char *text);
bool cofi__in_ranges(const struct cofi_flow *flow, uint64_t ip);
/* It takes more than what needs only a context that is traced to show that tracing is on. */
static inline bool may_be_stray(const struct cofi_flow *flow) { return flow->tentative && flow->fup.stray; }
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

enum pump_result {
    PUMP_PACKET, /* flow->packet holds one that the walker must act on */
    PUMP_FULL,   /* no room for more bits */
    PUMP_TIME,   /* time is about to change, and the bits came before */
    PUMP_END,    /* no more bytes */
    PUMP_BAD,    /* bytes that are no packet */
};

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

static inline bool packet_is_tip(const struct cofi_flow *flow)
{
    return flow->has_packet && (flow->packet.kind == COFI_PT_TIP || flow->packet.kind == COFI_RTIT_TIP);
}

/* ---- the return stack [PTREF 7.1], [RTIT 4.2.3.2] ---- */

static inline void ret_push(struct cofi_flow *flow, struct block *site)
{
    flow->rets.entry[++flow->rets.top % RET_DEPTH].site = site;
    if (flow->config.gen == COFI_RTIT)
        flow->rets.n = 1;
    else if (flow->rets.n < RET_DEPTH)
        flow->rets.n++;
}

/* PT: each RET takes the youngest. RTIT: the last CALL's address stays. */
static inline void ret_pop(struct cofi_flow *flow)
{
    if (flow->config.gen == COFI_RTIT || !flow->rets.n)
        return;
    flow->rets.top--;
    flow->rets.n--;
}

/* Keep the addresses only: the blocks go, or mean something else in another mode or address space. */
static inline void ret_drop_sites(struct cofi_flow *flow)
{
    for (unsigned i = 0; i < RET_DEPTH; i++) {
        if (flow->rets.entry[i].site)
            flow->rets.entry[i].ip = flow->rets.entry[i].site->pub.end;
        flow->rets.entry[i].site = NULL;
    }
}

static inline struct block *ret_site(const struct cofi_flow *flow, unsigned below)
{
    return below < flow->rets.n ? flow->rets.entry[(flow->rets.top - below) % RET_DEPTH].site : NULL;
}

/* What a stretch of code did: the stack grew by up to peak, then lost `pops` and got `calls`. Entries that
 * had no room are gone. */
static inline void ret_apply(struct cofi_flow *flow, unsigned peak, unsigned pops, struct block *const *calls,
                             unsigned n)
{
    if (flow->config.gen == COFI_PT && flow->rets.n + peak > RET_DEPTH)
        flow->rets.n = RET_DEPTH - peak;
    if (flow->config.gen == COFI_PT) {
        pops = pops < flow->rets.n ? pops : flow->rets.n;
        flow->rets.top -= pops;
        flow->rets.n -= pops;
    }
    for (unsigned i = 0; i < n; i++)
        ret_push(flow, calls[i]);
}

static inline void ret_clear(struct cofi_flow *flow) { flow->rets.n = 0; }

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
static inline bool writes_down(const struct cofi_flow *flow) { return flow->out.lists && flow->out.coverage; }

enum { HASH_OPEN = 2 /* no block's, which are odd */ };

/* Of what is written down only the first and the last edge are of interest now. */
static inline void note_edges(struct cofi_flow *flow, uint32_t first_hash, uint32_t last_hash)
{
    if (flow->out.prev_hash == HASH_OPEN)
        flow->out.first_hash = first_hash;
    flow->out.prev_hash = last_hash;
}

/* An edge to the first block of what comes; its last one is where the next edge begins. */
static inline void edge_to(struct cofi_flow *flow, uint32_t first_hash, uint32_t last_hash)
{
    if (flow->out.prev_hash)
        cofi__edge(flow, edge_index(flow->out.prev_hash, first_hash), 1);
    flow->out.prev_hash = last_hash;
}

/* Counts up with each outcome and target that is used. */
static inline uint64_t units_used(const struct cofi_flow *flow) { return flow->stats.tnt_bits + flow->stats.tips; }

static inline uint64_t tip_parts(const struct cofi_flow *flow) { return flow->tips_that_wait * TIP_PARTS; }

/* For how many more TIPs may wait. */
static inline struct doubt doubt(const struct cofi_flow *flow)
{
    uint64_t units = units_used(flow), parts = tip_parts(flow);
    return (struct doubt){(uint16_t)(flow->waits.doubt_units > units ? flow->waits.doubt_units - units : 0),
        (uint16_t)(flow->waits.doubt_parts > parts ? flow->waits.doubt_parts - parts : 0)};
}
static inline bool in_doubt(const struct cofi_flow *flow)
{
    return flow->waits.doubt_units > units_used(flow) || flow->waits.doubt_parts > tip_parts(flow);
}
static inline void doubt_set(struct cofi_flow *flow, struct doubt left)
{
    flow->waits.doubt_units = units_used(flow) + left.units;
    flow->waits.doubt_parts = tip_parts(flow) + left.parts;
}
static inline void doubt_anew(struct cofi_flow *flow)
{
    doubt_set(flow, (struct doubt){UNITS_DOUBTED, TIPS_DOUBTED * TIP_PARTS});
}

/* Whether the TIP in hand, which could end a gap, may have waited for outcomes that stand before it and
 * belong behind it (decision 0619). */
static inline bool may_have_waited(struct cofi_flow *flow)
{
    if (!flow->waits.outcomes_before)
        return false;
    flow->waits.asked = true;
    return in_doubt(flow) && cofi__may_have_waited(flow);
}

/* TIPs that waited show that others may, unless the way by which they were met turned out to be wrong;
 * so does a wrong way from one that could have. */
static inline void note_waited(struct cofi_flow *flow, bool right)
{
    if (right ? flow->waits.came : flow->waits.trusted)
        doubt_anew(flow);
    flow->waits.came = flow->waits.trusted = false;
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
