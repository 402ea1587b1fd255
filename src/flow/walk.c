/* SPDX-License-Identifier: MIT
 * From the position to an address, or to the next branch that a packet decides: no packet is used. */
#include "flow/walker.h"

#include <stdlib.h>

#include "base/error.h"
#include "flow/query.h"

static bool path_add(struct cofi_flow *flow, struct block *b)
{
    if (flow->path.n == flow->path.max) {
        size_t max = flow->path.max ? flow->path.max * 2 : 256;
        struct block **path = realloc(flow->path.blocks, max * sizeof(struct block *));
        if (!path) {
            flow->status = COFI_ERR_NOMEM;
            return false;
        }
        flow->path.blocks = path;
        flow->path.max = max;
    }
    flow->path.blocks[flow->path.n++] = b;
    return true;
}

/* Index of the first instruction of the block that the goal names; n if none. */
static uint32_t goal_insn(const struct goal *goal, const struct block *b, uint64_t ran)
{
    if (goal->by_count)
        return goal->count - ran < b->pub.n ? (uint32_t)(goal->count - ran) : b->pub.n;
    if (!goal->classes && (!goal->by_ip || (goal->ip - b->pub.ip >= b->pub.end - b->pub.ip)))
        return b->pub.n;
    for (uint32_t i = 0; i < b->pub.n; i++) {
        if (goal->by_ip && b->pub.insns[i].ip == goal->ip)
            return i;
        if (goal->classes >> b->pub.insns[i].cls & 1)
            return i;
    }
    return b->pub.n;
}

/* FUP.FAR and FUP.PGD of an instruction carry the address behind it; with many prefixes, one inside of it
 * [RTIT Table 1], [ERR E1]. */
static bool goal_end(const struct cofi_flow *flow, const struct goal *goal, const struct block *b)
{
    uint64_t last = b->pub.insns[b->pub.n - 1].ip;
    if (is_far_class(b->pub.cls))
        return goal->end_ip > last && goal->end_ip <= b->pub.end;
    if (b->pub.cls == COFI_CLASS_JMP || b->pub.cls == COFI_CLASS_CALL)
        return goal->leaving && goal->end_ip == b->pub.end && !cofi__in_ranges(flow, b->pub.target);
    return false;
}

static bool goal_branch(const struct cofi_flow *flow, const struct goal *goal, const struct block *b)
{
    uint8_t cls = b->pub.cls;
    if (goal->by_end)
        return goal_end(flow, goal, b);
    if (cls == COFI_CLASS_JMP || cls == COFI_CLASS_CALL) {
        if (goal->by_target && b->pub.target == goal->target)
            return true;
        return goal->leaving && flow->config.ranges_known && !cofi__in_ranges(flow, b->pub.target);
    }
    return false;
}

/* In a range that filters, or there is none, and in none that stops [SDM Filtering by IP], [PTREF 3.3]. */
static bool in_pt_ranges(const struct cofi_flow_config *c, uint64_t ip)
{
    enum { FILTER = 1, STOP = 2 };
    bool filtered = false, inside = false;
    for (unsigned i = 0; i < 4; i++) {
        unsigned use = c->ctl >> (32 + 4 * i) & 15;
        bool here = ip >= c->range_base[i] && ip <= c->range_limit[i];
        if (use == STOP && here)
            return false;
        filtered |= use == FILTER;
        inside |= use == FILTER && here;
    }
    return inside || !filtered;
}

/* Where it is traced, as far as the ranges are known [SDM Filtering by IP], [RTIT 3.3.5]. */
bool cofi__in_ranges(const struct cofi_flow *flow, uint64_t ip)
{
    const struct cofi_flow_config *c = &flow->config;
    if (!c->ranges_known)
        return false;
    if (c->gen == COFI_RTIT) {
        unsigned id = c->events & 7;
        for (unsigned i = 0; i < 2; i++)
            if ((id == i || id == 2) && ip >= c->range_base[i] && ip < c->range_limit[i])
                return true;
        return id == 7;
    }
    return in_pt_ranges(c, ip);
}

static struct block *onward(struct cofi_flow *flow, struct block *b)
{
    if (b->pub.cls == COFI_CLASS_OTHER)
        return block_fall(flow, b);
    return block_taken(flow, b);
}

/* The goal is where a block begins: there may be no code behind what was traced. */
static bool goal_begin(const struct goal *goal, uint64_t ip, uint64_t ran)
{
    return (goal->by_ip && goal->ip == ip) || (goal->by_count && goal->count == ran);
}

static bool is_direct(uint8_t cls)
{
    return cls == COFI_CLASS_OTHER || cls == COFI_CLASS_JMP || cls == COFI_CLASS_CALL;
}

enum goal_stop cofi__walk_find(struct cofi_flow *flow, const struct goal *goal, struct place *place)
{
    struct block *b = here(flow), *mark = NULL;
    uint64_t next = position(flow), ran = 0;
    flow->path.n = 0;
    for (size_t steps = 1; b || goal_begin(goal, next, ran); steps++) {
        *place = (struct place){.ip = next};
        if (goal_begin(goal, next, ran))
            return STOP_INSN;
        uint32_t i = goal_insn(goal, b, ran);
        *place = (struct place){b, i, goal_branch(flow, goal, b), next};
        if (i < b->pub.n)
            return STOP_INSN;
        if (place->named || !is_direct(b->pub.cls)) {
            place->insn = b->pub.n - 1;
            return STOP_BRANCH;
        }
        if (b == mark)
            break; /* an endless loop [PTREF 9.5] */
        if (!(steps & (steps - 1)))
            mark = b;
        if (!path_add(flow, b))
            break;
        ran += b->pub.n;
        next = b->pub.cls == COFI_CLASS_OTHER ? b->pub.end : b->pub.target;
        b = onward(flow, b);
    }
    *place = (struct place){.ip = next};
    if (b)
        flow->code.error = COFI_ERR_MISMATCH;
    return STOP_ERROR;
}

static void push_if_call(struct cofi_flow *flow, struct block *b)
{
    if (block_pushes(flow, b))
        ret_push(flow, b);
}

uint64_t cofi__since(const struct cofi_flow *flow)
{
    return flow->since.units == units_used(flow) ? flow->since.insns : 0;
}

static void count_since(struct cofi_flow *flow, uint64_t insns)
{
    flow->since.insns = cofi__since(flow) + insns;
    flow->since.units = units_used(flow);
}

int cofi__walk_take(struct cofi_flow *flow, const struct place *place, uint32_t n)
{
    uint64_t insns = n;
    if (flow->path.n || n)
        COFI_TRY(cofi__settle(flow)); /* what ran shows that tracing was on, before it */
    for (size_t i = 0; i < flow->path.n; i++) {
        COFI_TRY(cofi__emit_block(flow, flow->path.blocks[i]));
        push_if_call(flow, flow->path.blocks[i]);
        insns += flow->path.blocks[i]->pub.n;
    }
    count_since(flow, insns);
    struct block *b = place->block;
    flow->path.n = 0;
    flow->last_run = NULL;
    if (!n) {
        place_set(flow, place->ip);
        return 0;
    }
    COFI_TRY(cofi__emit_block(flow, cofi__block_cut(flow, b, n)));
    flow->rtit.last_end = 0;
    if (n < b->pub.n) {
        place_set(flow, b->pub.insns[n].ip);
        return 0;
    }
    push_if_call(flow, b);
    flow->rtit.last_end = b->pub.cls == COFI_CLASS_OTHER ? 0 : b->pub.end;
    place_set(flow, is_direct(b->pub.cls) && b->pub.cls != COFI_CLASS_OTHER ? b->pub.target : b->pub.end);
    return 0;
}

int cofi__walk_lose(struct cofi_flow *flow, const struct place *place, const char *text)
{
    int cause = flow->code.error;
    if (cause == COFI_ERR_NO_CODE)
        COFI_TRY(cofi__walk_take(flow, place, 0));
    return cofi__lose(flow, cause, true, text);
}
