/* SPDX-License-Identifier: MIT
 * Block + branch outcomes -> a run: the blocks that they lead through. */
#include "flow/run.h"

#include <stddef.h>
#include <string.h>

#include "flow/query.h"

static bool next_bit(struct making *m)
{
    bool bit = m->bits >> (m->k - 1 - m->run->n) & 1;
    m->run->n++;
    m->sure = m->run->blocks;
    m->mark = NULL;
    m->idle = 0;
    return bit;
}

static bool stop(struct making *m, int status, const char *why)
{
    m->status = status;
    m->why = why;
    m->ip = m->b ? m->b->pub.ip : m->ip;
    return false;
}

/* Go on at `to`, which lies at ip; null: no code there. False ends the run. */
static bool go(struct cofi_flow *flow, struct making *m, struct block *to, uint64_t ip)
{
    m->b = to;
    m->ip = ip;
    if (!to)
        return stop(m, flow->code.error, "no code where execution goes [PTREF 9.5]");
    if (to == m->mark)
        return stop(m, COFI_ERR_MISMATCH, "an endless loop without a packet [PTREF 9.5]");
    if (!(m->idle & (m->idle - 1)))
        m->mark = to;
    m->idle++;
    if (m->run->blocks >= RUN_BLOCKS || (m->run->n == m->k && !m->tip)) {
        m->run->kind = RUN_AT;
        m->run->exit = to;
        return false;
    }
    return true;
}

static void append(struct making *m)
{
    m->run->list[m->run->blocks++] = m->b;
    m->run->insns += m->b->pub.n;
}

static void push_local(struct cofi_flow *flow, struct making *m)
{
    if (!block_pushes(flow, m->b))
        return;
    if (flow->config.gen == COFI_RTIT)
        m->calls = 0;
    m->local[m->calls++] = m->b;
    if (m->calls > m->guards + m->run->peak)
        m->run->peak = (uint8_t)(m->calls - m->guards);
}

/* The CALL that the next RET returns to: the run's own, or one that was on the stack before, which then
 * becomes a condition of the run. Null: only execution can tell. */
static struct block *return_site(struct cofi_flow *flow, struct making *m)
{
    bool pt = flow->config.gen == COFI_PT;
    if (m->calls)
        return m->local[pt ? --m->calls : 0];
    unsigned below = pt ? m->guards : 0;
    if (!pt && m->guards)
        return m->guard[0];
    if (m->guards == RUN_POPS || below >= flow->rets.n)
        return NULL;
    struct block *site = flow->rets.entry[(flow->rets.top - below) % RET_DEPTH].site;
    if (!site || site->dead)
        return NULL;
    return m->guard[m->guards++] = site;
}

/* DisTNT: the branch ran, as the TIP that is next shows, and where it led is not told. */
static bool untold(struct making *m)
{
    const struct cofi_flow_block *b = &m->b->pub;
    append(m);
    m->sure = m->run->blocks;
    stop(m, COFI_ERR_NO_OUTCOMES, cofi__outcomes_untold);
    m->ip = b->insns[b->n - 1].ip;
    return false;
}

static bool on_jcc(struct cofi_flow *flow, struct making *m)
{
    if (m->run->n == m->k && flow->known.dis_tnt)
        return untold(m);
    if (m->run->n == m->k)
        return stop(m, COFI_ERR_MISMATCH, "a TIP where a conditional branch needs an outcome [PTREF 9.5]");
    struct block *b = m->b;
    append(m);
    return next_bit(m) ? go(flow, m, block_taken(flow, b), b->pub.target)
                       : go(flow, m, block_fall(flow, b), b->pub.end);
}

/* A direct jump or call, or a block that just goes on. A call that fills the local stack ends the run. */
static bool on_direct(struct cofi_flow *flow, struct making *m)
{
    struct block *b = m->b;
    append(m);
    if (b->pub.cls == COFI_CLASS_OTHER)
        return go(flow, m, block_fall(flow, b), b->pub.end);
    push_local(flow, m);
    if (!go(flow, m, block_taken(flow, b), b->pub.target))
        return false;
    if (m->calls < RUN_CALLS)
        return true;
    m->run->kind = RUN_AT;
    m->run->exit = m->b;
    return false;
}

static bool on_tip(struct cofi_flow *flow, struct making *m)
{
    struct run *run = m->run;
    run->by_ret = m->b->pub.cls == COFI_CLASS_RET;
    run->waits = m->b->pub.cls == COFI_CLASS_JMP_IND || m->b->pub.cls == COFI_CLASS_CALL_IND;
    run->from_kernel = m->b->pub.ip >> 63;
    bool pt_ret = run->by_ret && flow->config.gen == COFI_PT;
    append(m);
    if (m->b->pub.cls == COFI_CLASS_CALL_IND) {
        if (m->calls == RUN_CALLS)
            return stop(m, COFI_ERR_MISMATCH, "calls nest without end");
        push_local(flow, m);
    }
    if (pt_ret && m->calls)
        m->calls--;
    else if (pt_ret)
        run->pops = true;
    run->kind = RUN_TIP;
    return false;
}

/* [PTREF 7.3]: with outcomes pending a RET is compressed, and its outcome must be 1. */
static bool on_ret(struct cofi_flow *flow, struct making *m)
{
    if (m->run->n == m->k)
        return flow->known.dis_tnt && !flow->known.dis_retc ? untold(m) : on_tip(flow, m);
    if (flow->known.dis_retc)
        return stop(m, COFI_ERR_MISMATCH,
                    "an outcome at a RET though DisRETC is set [SDM Indirect Transfer Compression for Returns (RET)]");
    if (!(m->bits >> (m->k - 1 - m->run->n) & 1))
        return stop(m, COFI_ERR_BAD_RETC, "outcome 0 at a RET [SDM Indirect Transfer Compression for Returns (RET)]");
    append(m);
    next_bit(m);
    struct block *site = return_site(flow, m);
    if (!site) {
        m->run->kind = RUN_RET;
        m->run->at_bottom = flow->config.gen == COFI_PT && m->guards < RUN_POPS && m->guards >= flow->rets.n;
        if (m->run->at_bottom)
            m->guard[m->guards++] = NULL;
        return false;
    }
    return go(flow, m, block_fall(flow, site), site->pub.end);
}

static bool one_block(struct cofi_flow *flow, struct making *m)
{
    uint8_t cls = m->b->pub.cls;
    if (cls == COFI_CLASS_JCC)
        return on_jcc(flow, m);
    if (cls == COFI_CLASS_RET)
        return on_ret(flow, m);
    if (takes_tip(cls))
        return on_tip(flow, m);
    return on_direct(flow, m);
}

void cofi__run_make(struct cofi_flow *flow, struct making *m, struct block *entry, uint64_t bits, unsigned k, bool tip)
{
    struct run *run = flow->build;
    memset(run, 0, sizeof *run);
    run->entry = entry;
    run->epoch = flow->cache.epoch;
    memset(m, 0, offsetof(struct making, local));
    m->run = run;
    m->b = entry;
    m->k = k;
    m->bits = bits;
    m->tip = tip;
    while (one_block(flow, m)) {
    }
    run->bits = run->n ? (uint32_t)(bits >> (k - run->n)) : 0;
    run->calls = (uint8_t)m->calls;
    run->guards = (uint8_t)m->guards;
    for (unsigned i = 0; i < m->calls; i++)
        run->list[run->blocks + i] = m->local[i];
    for (unsigned i = 0; i < m->guards; i++)
        run->list[run->blocks + m->calls + i] = m->guard[i];
    run->beyond = run->blocks > m->sure;
    const struct block *last = run->blocks ? run->list[run->blocks - 1] : NULL;
    run->ends_in_branch = last && last->pub.cls != COFI_CLASS_OTHER;
    run->first_hash = last ? run->list[0]->hash : 0;
    run->last_hash = last ? last->hash : 0;
}
