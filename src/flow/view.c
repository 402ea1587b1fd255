/* SPDX-License-Identifier: MIT
 * Batches -> instructions, branches; a whole stream -> coverage. */
#include "flow/walker.h"

#include <string.h>

#include "base/error.h"
#include "flow/query.h"

/* Copies go by INSN_COPY, so short blocks cost no loop: what is too much is written over, and a block's
 * list has room behind it. */
size_t cofi_flow_insns(const struct cofi_flow_batch *batch, struct cofi_flow_cursor *cursor,
                       size_t until, struct cofi_flow_insn *out, size_t max)
{
    size_t n = 0, at = cursor->block, from = cursor->insn;
    for (; at < until; at++, from = 0) {
        const struct cofi_flow_block *b = batch->blocks[at];
        const struct cofi_flow_insn *in = b->insns + from;
        size_t left = b->n - from;
        if (left + INSN_COPY > max - n) {
            size_t take = left < max - n ? left : max - n;
            memcpy(out + n, in, take * sizeof *out);
            n += take;
            if (take < left || n == max) {
                *cursor = take < left ? (struct cofi_flow_cursor){at, from + take}
                                      : (struct cofi_flow_cursor){at + 1, 0};
                return n;
            }
            continue;
        }
        for (size_t i = 0; i < left; i += INSN_COPY)
            memcpy(out + n + i, in + i, INSN_COPY * sizeof *out);
        n += left;
    }
    *cursor = (struct cofi_flow_cursor){at, 0};
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
            branch.taken = branch.to != b->end || b->target == b->end;
        out[n++] = branch;
    }
    *cursor = (struct cofi_flow_cursor){at, 0};
    return n;
}

uint64_t cofi_flow_edge(uint64_t from_block_ip, uint64_t to_block_ip)
{
    return edge_index(edge_hash(from_block_ip), edge_hash(to_block_ip));
}

int cofi_flow_cover(struct cofi_flow *flow, struct cofi_flow_coverage *coverage)
{
    uint64_t insns = flow->stats.insns;
    flow->coverage = coverage;
    flow->counting = true;
    int status = cofi__flow_cover(flow);
    cofi__run_count_all(flow);
    coverage->insns += flow->stats.insns - insns;
    flow->counting = false;
    flow->coverage = NULL;
    return status;
}
