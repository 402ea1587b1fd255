/* SPDX-License-Identifier: MIT
 * Batches -> instructions, branches; a whole stream -> coverage. */
#include "flow/walker.h"

#include <string.h>

#include "base/error.h"
#include "flow/query.h"

/* Two instructions at a time: registers are as wide. */
typedef uint8_t insn_pair __attribute__((vector_size(2 * sizeof(struct cofi_flow_insn)), aligned(1), may_alias));

/* Whole blocks while there is room. An odd number is copied as the next even one: what is too much is
 * written over, and behind a block's list there is memory to read (INSNS_BEHIND). More at a time is
 * slower: a block has five instructions. Returns how many; *at: the block behind. */
static inline __attribute__((always_inline)) size_t whole_blocks(const struct cofi_flow_batch *batch, size_t *at,
                                                                 size_t until, struct cofi_flow_insn *out, size_t max)
{
    const struct cofi_flow_block *const *block = batch->blocks + *at, *const *end = batch->blocks + until;
    struct cofi_flow_insn *to = out, *stop = out + (max > INSNS_BEHIND ? max - INSNS_BEHIND : 0);
    for (; block < end; block++) {
        const insn_pair *in = (const insn_pair *)(*block)->insns;
        insn_pair *pair = (insn_pair *)to;
        uint32_t n = (*block)->n;
        if (n > (size_t)(stop - to))
            break;
        pair[0] = in[0];
        for (uint32_t i = 1; 2 * i < n; i++)
            pair[i] = in[i];
        to += n;
    }
    *at = (size_t)(block - batch->blocks);
    return (size_t)(to - out);
}

/* The same for the registers that all processors have, and for those of 32 bytes. */
typedef size_t copy_blocks(const struct cofi_flow_batch *, size_t *, size_t, struct cofi_flow_insn *, size_t);

static size_t by_usual(const struct cofi_flow_batch *batch, size_t *at, size_t until, struct cofi_flow_insn *out,
                       size_t max)
{
    return whole_blocks(batch, at, until, out, max);
}

#ifdef __x86_64__
__attribute__((target("avx2"))) static size_t by_avx2(const struct cofi_flow_batch *batch, size_t *at, size_t until,
                                                      struct cofi_flow_insn *out, size_t max)
{
    return whole_blocks(batch, at, until, out, max);
}

static copy_blocks *copier(void) { return __builtin_cpu_supports("avx2") ? by_avx2 : by_usual; }
#else
static copy_blocks *copier(void) { return by_usual; }
#endif

size_t cofi_flow_insns(const struct cofi_flow_batch *batch, struct cofi_flow_cursor *cursor,
                       size_t until, struct cofi_flow_insn *out, size_t max)
{
    copy_blocks *copy = copier();
    size_t n = 0, at = cursor->block, from = cursor->insn;
    while (at < until && n < max) {
        const struct cofi_flow_block *b = batch->blocks[at];
        size_t left = b->n - from, take = left < max - n ? left : max - n;
        memcpy(out + n, b->insns + from, take * sizeof *out);
        n += take;
        from = take < left ? from + take : 0;
        at += take == left;
        if (!from)
            n += copy(batch, &at, until, out + n, max - n);
    }
    *cursor = (struct cofi_flow_cursor){at, from};
    return n;
}

size_t cofi_flow_branches(const struct cofi_flow_batch *batch, struct cofi_flow_cursor *cursor,
                          size_t until, struct cofi_flow_branch *out, size_t max)
{
    size_t n = 0, at = cursor->block;
    for (; at < until && n < max; at++) {
        const struct cofi_flow_block *b = batch->blocks[at];
        if (b->cls == COFI_CLASS_OTHER)
            continue;
        struct cofi_flow_branch branch = {.from = b->insns[b->n - 1].ip, .cls = b->cls, .taken = true};
        bool direct = b->cls == COFI_CLASS_JMP || b->cls == COFI_CLASS_CALL;
        branch.to = direct ? b->target : at + 1 < until ? batch->blocks[at + 1]->ip : COFI_NO_IP;
        if (b->cls == COFI_CLASS_JCC)
            branch.taken = jcc_taken(b->end, b->target, branch.to);
        out[n++] = branch;
    }
    *cursor = (struct cofi_flow_cursor){at, 0};
    return n;
}

uint64_t cofi_flow_edge(uint64_t from_block_ip, uint64_t to_block_ip)
{
    return edge_index(edge_hash(from_block_ip), edge_hash(to_block_ip));
}

int cofi__coverage_check(const struct cofi_flow_coverage *coverage)
{
    bool wrong = coverage->map && (!coverage->map_size || coverage->map_size & (coverage->map_size - 1));
    return wrong ? COFI_ERR_RANGE : 0;
}

int cofi_flow_cover(struct cofi_flow *flow, struct cofi_flow_coverage *coverage)
{
    uint64_t insns = flow->stats.insns;
    COFI_TRY(cofi__coverage_check(coverage));
    flow->out.coverage = coverage;
    coverage->flow = flow;
    flow->out.counting = true;
    int status = cofi__flow_cover(flow);
    cofi__run_count_all(flow);
    coverage->insns += flow->stats.insns - insns;
    flow->out.counting = false;
    flow->out.coverage = NULL;
    return status;
}
