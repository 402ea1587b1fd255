/* SPDX-License-Identifier: MIT
 * Two spans that follow each other again and again -> one. */
#include "flow/walker.h"

#include <string.h>

struct span *cofi__span_take(struct cofi_flow *flow, const struct span *made)
{
    size_t items = (made->bytes + 7u) / 8 + made->guards + made->calls + made->runs;
    struct span *s = cofi__arena_take(&flow->cache.chunks, &flow->cache.spans_arena,
                                      (sizeof *s + items * sizeof s->list[0] + 63) & ~(size_t)63);
    if (!s)
        return NULL;
    *s = *made;
    s->older = flow->spans.youngest;
    return flow->spans.youngest = s;
}

/* What two of them do to the return stack. b's guards are first the CALLs that a leaves, then those below what
 * a takes off. RTIT: the last CALL stays, and is the only one that counts. [PTREF 7.1], [RTIT 4.2.3.2] */
static void join_stack(const struct cofi_flow *flow, struct span *made, const struct span *a, const struct span *b)
{
    bool pt = flow->config.gen == COFI_PT;
    unsigned met = b->guards < a->calls ? b->guards : a->calls;
    int depth = a->calls - a->guards + b->peak;
    if (!pt) {
        made->guards = a->calls || a->guards ? a->guards : b->guards;
        made->calls = b->calls ? b->calls : a->calls;
    } else {
        made->guards = (uint8_t)(a->guards + b->guards - met);
        made->calls = (uint8_t)(a->calls - met + b->calls);
    }
    made->peak = depth > a->peak ? (uint8_t)depth : a->peak;
}

/* What a leaves is what b rests on. */
static bool goes_on(struct span *a, struct span *b)
{
    bool same = b->entry == a->exit && b->n == a->exit_n && b->bits == a->exit_bits &&
                !(b->tips && a->tips && (b->last_ip ^ a->exit_last_ip) >> 16);
    for (unsigned i = 0; i < b->guards && i < a->calls; i++)
        same &= span_guards_of(b)[i] == span_calls_of(a)[a->calls - 1u - i];
    return same;
}

static bool can_join(const struct cofi_flow *flow, struct span *a, struct span *b)
{
    return goes_on(a, b) && a->bytes + b->bytes <= SPAN_BYTES_LONG && a->runs + b->runs <= SPAN_RUNS_LONG &&
           a->blocks + b->blocks <= SPAN_BLOCKS && a->guards + b->guards <= SPAN_GUARDS &&
           a->calls + b->calls <= SPAN_CALLS && a->calls + b->peak <= SPAN_PEAK && a->epoch == flow->cache.epoch &&
           b->epoch == flow->cache.epoch && flow->cache.spans_arena.bytes < flow->config.cache_bytes / 4;
}

/* What both do, but for what lies behind it. */
static struct span joined(const struct cofi_flow *flow, const struct span *a, const struct span *b)
{
    struct span made = *a;
    made.last_ip = a->tips ? a->last_ip : b->last_ip;
    made.next = b->next;
    made.before = b->before;
    made.longer = NULL;
    made.again = 0;
    made.bytes = (uint8_t)(a->bytes + b->bytes);
    made.runs = (uint8_t)(a->runs + b->runs);
    made.tips = (uint8_t)(a->tips + b->tips);
    made.tips_that_wait = (uint8_t)(a->tips_that_wait + b->tips_that_wait);
    made.blocks = (uint16_t)(a->blocks + b->blocks);
    made.tnt_bits = (uint16_t)(a->tnt_bits + b->tnt_bits);
    made.insns = a->insns + b->insns;
    made.exit_n = b->exit_n;
    made.exit_tail = b->exit_tail ? b->exit_tail : a->exit_tail;
    made.exit = b->exit;
    made.exit_run = b->exit_run;
    made.exit_bits = b->exit_bits;
    made.exit_last_ip = b->tips ? b->exit_last_ip : a->exit_last_ip;
    made.count = 0;
    made.last_hash = b->last_hash;
    made.tip_at = b->tips ? (uint8_t)(a->bytes + b->tip_at) : a->tip_at;
    join_stack(flow, &made, a, b);
    return made;
}

/* The bytes, runs, CALLs and guards. */
static void join_lists(const struct cofi_flow *flow, struct span *s, struct span *a, struct span *b)
{
    unsigned own = s->calls - b->calls, below = s->guards - a->guards;
    memcpy(span_bytes_of(s), span_bytes_of(a), a->bytes);
    memcpy(span_bytes_of(s) + a->bytes, span_bytes_of(b), b->bytes);
    memcpy(span_lists_of(s), span_lists_of(a), a->runs * sizeof(uint64_t));
    memcpy(span_lists_of(s) + a->runs, span_lists_of(b), b->runs * sizeof(uint64_t));
    if (flow->config.gen == COFI_PT || !b->calls)
        memcpy(span_calls_of(s), span_calls_of(a), own * sizeof(struct block *));
    memcpy(span_calls_of(s) + own, span_calls_of(b), b->calls * sizeof(struct block *));
    memcpy(span_guards_of(s), span_guards_of(a), a->guards * sizeof(struct block *));
    memcpy(span_guards_of(s) + a->guards, span_guards_of(b) + (b->guards - below), below * sizeof(struct block *));
}

void cofi__span_join(struct cofi_flow *flow, struct span *a, struct span *b)
{
    if (!can_join(flow, a, b))
        return;
    struct span made = joined(flow, a, b), *s = cofi__span_take(flow, &made);
    if (!s)
        return;
    join_lists(flow, s, a, b);
    flow->spans.made++;
    a->longer = s;
}

