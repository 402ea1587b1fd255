/* SPDX-License-Identifier: MIT
 * Block + branch outcomes -> the blocks they lead through, looked up whole. */
#include "flow/walker.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "flow/query.h"

/* What is being made: the run in flow->build and what it still has to use up. */
struct making {
    struct run *run;
    struct block *b;             /* the block that comes next */
    struct block *local[RUN_CALLS]; /* return sites that the run itself put on the stack */
    unsigned calls;
    struct block *guard[RUN_POPS];  /* those that lay there before */
    unsigned guards;
    unsigned k;                  /* outcomes it may use */
    struct block *mark;          /* one gone through since the last outcome, and how many were */
    unsigned idle;
    unsigned sure;               /* blocks up to the last outcome used */
    bool tip;                    /* and a TIP after them */
    uint64_t bits;
    int status;                  /* why it ended before it should, 0 if it did not */
    const char *why;
    uint64_t ip;                 /* where */
};

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
        return stop(m, flow->code_error, "no code where execution goes [PTREF 9.5]");
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
    if (m->guards == RUN_POPS || below >= flow->ret_n)
        return NULL;
    struct block *site = flow->ret[(flow->ret_top - below) % RET_DEPTH].site;
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
    if (m->run->n == m->k && flow->dis_tnt)
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
        return flow->dis_tnt && !flow->dis_retc ? untold(m) : on_tip(flow, m);
    if (flow->dis_retc)
        return stop(m, COFI_ERR_MISMATCH, "an outcome at a RET though DisRETC is set [SDM Indirect Transfer Compression for Returns (RET)]");
    if (!(m->bits >> (m->k - 1 - m->run->n) & 1))
        return stop(m, COFI_ERR_BAD_RETC, "outcome 0 at a RET [SDM Indirect Transfer Compression for Returns (RET)]");
    append(m);
    next_bit(m);
    struct block *site = return_site(flow, m);
    if (!site) {
        m->run->kind = RUN_RET;
        m->run->at_bottom = flow->config.gen == COFI_PT && m->guards < RUN_POPS && m->guards >= flow->ret_n;
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

/* Make the run from entry by k outcomes, and a TIP if tip is set. Ends early at what only execution can
 * tell. flow->build holds it. */
static void make(struct cofi_flow *flow, struct making *m, struct block *entry, uint64_t bits, unsigned k, bool tip)
{
    struct run *run = flow->build;
    memset(run, 0, sizeof *run);
    run->entry = entry;
    run->epoch = flow->epoch;
    *m = (struct making){.run = run, .b = entry, .k = k, .bits = bits, .tip = tip};
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

static uint64_t key_of(const struct block *entry, uint64_t asked)
{
    uint64_t x = ((uint64_t)(uintptr_t)entry >> 4) * UINT64_C(0x9e3779b97f4a7c15);
    x ^= asked * UINT64_C(0xc2b2ae3d27d4eb4f);
    x ^= x >> 32;
    return x * UINT64_C(0xff51afd7ed558ccd) | 1;
}

/* Slots: which one comes first for a key, and what its word looks like. */
enum { TAG_SHIFT = 48 };

static size_t slot_first(const struct cofi_flow *flow, uint64_t key) { return (key >> 8) & (flow->runs_size - 1); }
static uint64_t slot_tag(uint64_t key) { return key >> TAG_SHIFT << TAG_SHIFT; }
static struct run *slot_run(uint64_t word)
{
    return (struct run *)(uintptr_t)(word & ((UINT64_C(1) << TAG_SHIFT) - 1));
}

static uint64_t key_with(uint64_t key, const struct block *site)
{
    key ^= ((uint64_t)(uintptr_t)site >> 4) * UINT64_C(0x9e3779b97f4a7c15);
    key ^= key >> 29;
    return key * UINT64_C(0xff51afd7ed558ccd) | 1;
}

/* Where a key is, or would be. */
static uint64_t *slot_at(struct cofi_flow *flow, uint64_t key)
{
    size_t s = slot_first(flow, key);
    while (flow->runs[s].word && (flow->runs[s].word ^ key) >> TAG_SHIFT)
        s = (s + 1) & (flow->runs_size - 1);
    return &flow->runs[s].word;
}

/* Put a run under a key, in the place of one that was there if it is younger. */
static void insert(struct cofi_flow *flow, uint64_t key, const struct run *run, bool younger)
{
    uint64_t *word = slot_at(flow, key);
    flow->runs_n += !*word;
    if (!*word || younger)
        *word = slot_tag(key) | (uint64_t)(uintptr_t)run;
}

static const struct run stub = {.kind = RUN_STUB};

/* Behind a stub for each of its guards. */
static void insert_run(struct cofi_flow *flow, const struct run *run, bool younger)
{
    uint64_t key = key_of(run->entry, run->asked);
    for (unsigned i = 0; i < run->guards; i++) {
        insert(flow, key, &stub, younger);
        key = key_with(key, run->list[run->blocks + run->calls + i]);
    }
    insert(flow, key, run, younger);
}

/* Slots for one more run. A run that is not found is made again, so what does not lie in them is no error. */
static bool runs_grow(struct cofi_flow *flow)
{
    if ((flow->runs_n + RUN_POPS) * 2 < flow->runs_size)
        return true;
    size_t size = flow->runs_size ? flow->runs_size * 4 : 1 << 14;
    struct run_slot *slots = calloc(size, sizeof *slots);
    if (!slots)
        return false;
    free(flow->runs);
    flow->runs = slots;
    flow->runs_size = size;
    flow->runs_n = 0;
    for (const struct run *run = flow->youngest; run; run = run->older)
        if (!run->entry->dead)
            insert_run(flow, run, false);
    return true;
}

/* Keep a copy of flow->build; null: no memory (not kept). */
static struct run *keep(struct cofi_flow *flow)
{
    const struct run *made = flow->build;
    size_t size = sizeof *made + (made->blocks + made->calls + made->guards) * sizeof made->list[0];
    struct run *run = cofi__arena_take(&flow->chunks, &flow->runs_arena, (size + 63) & ~(size_t)63);
    if (!run)
        return NULL;
    memcpy(run, made, size);
    run->older = flow->youngest;
    flow->youngest = run;
    if (runs_grow(flow))
        insert_run(flow, run, true);
    return run;
}

bool cofi__run_is_whole(struct cofi_flow *flow, struct run *run)
{
    if (run->kind == RUN_NOWHERE) /* there may be code by now */
        return false;
    for (unsigned i = 0; i < run->blocks; i++)
        if (run->list[i]->dead)
            return false;
    if (run->exit && run->exit->dead) {
        if (run->kind == RUN_AT)
            return false;
        run->exit = NULL;
    }
    run->epoch = flow->epoch;
    return true;
}

static inline bool guards_hold(const struct cofi_flow *flow, const struct run *run)
{
    struct block *const *guard = run->list + run->blocks + run->calls;
    for (unsigned i = 0; i < run->guards; i++)
        if (ret_site(flow, i) != guard[i])
            return false;
    return true;
}

static inline bool fits(struct cofi_flow *flow, struct run *run, const struct block *entry, bool tip)
{
    if (run->entry != entry || run->n > flow->n)
        return false;
    if (run->n && (flow->bits >> (flow->n - run->n) ^ run->bits) & ((UINT64_C(1) << run->n) - 1))
        return false;
    if (run->n == flow->n ? run->beyond && !tip : run->by_ret)
        return false;
    if (run->guards && !guards_hold(flow, run))
        return false;
    return run->epoch == flow->epoch || cofi__run_is_whole(flow, run);
}

static struct run *slot_find(const struct cofi_flow *flow, uint64_t key)
{
    for (size_t s = slot_first(flow, key); flow->runs[s].word; s = (s + 1) & (flow->runs_size - 1))
        if (!((flow->runs[s].word ^ key) >> TAG_SHIFT))
            return slot_run(flow->runs[s].word);
    return NULL;
}

static struct run *look_up(struct cofi_flow *flow, uint64_t key, const struct block *entry, bool tip)
{
    if (!flow->runs_size)
        return NULL;
    struct run *run = slot_find(flow, key);
    for (unsigned i = 0; run && run->kind == RUN_STUB; i++) {
        struct block *site = ret_site(flow, i);
        if (!site && i < flow->ret_n)
            return NULL;
        key = key_with(key, site);
        run = slot_find(flow, key);
    }
    return run && fits(flow, run, entry, tip) ? run : NULL;
}

/* What leads where there is no code does so each time. */
static void end_nowhere(struct cofi_flow *flow, struct making *m)
{
    m->run->kind = RUN_NOWHERE;
    m->run->nowhere = m->ip;
    m->status = 0;
    flow->relies_on_absence = true;
}

/* Outcomes that nothing predicts (a loop of a few blocks that decides by data) lead through ever new runs: 2^24 of 24, which are made in
 * vain. Of short ones there are few. */
static void watch_made(struct cofi_flow *flow, const struct block *entry)
{
    uint64_t *seen = flow->run_entries;
    seen[entry->hash >> 6 & 3] |= UINT64_C(1) << (entry->hash & 63);
    if (++flow->run_made < RUN_WATCH)
        return;
    int entries = __builtin_popcountll(seen[0]) + __builtin_popcountll(seen[1]) + __builtin_popcountll(seen[2]) + __builtin_popcountll(seen[3]);
    if (entries <= RUN_ENTRIES && flow->run_found < RUN_WATCH / 8) {
        flow->run_bits = RUN_SHORT;
        flow->run_mark = flow->stats.tnt_bits;
    }
    memset(seen, 0, sizeof flow->run_entries);
    flow->run_made = flow->run_found = 0;
}

/* Another part of the program may be another matter. */
static void watch_found(struct cofi_flow *flow)
{
    flow->run_found++;
    if (flow->run_bits == RUN_BITS || flow->stats.tnt_bits - flow->run_mark < flow->run_retry)
        return;
    flow->run_bits = RUN_BITS;
    flow->run_made = flow->run_found = 0;
    flow->run_retry *= 2;
}

/* Find or make the run that comes next. A made one that ends in an error is not kept: *m tells. */
static struct run *next_run(struct cofi_flow *flow, struct making *m, struct block *cur, bool want_tip)
{
    unsigned k = flow->n < flow->run_bits ? flow->n : flow->run_bits;
    bool tip = want_tip && k == flow->n;
    uint64_t bits = k ? (flow->bits >> (flow->n - k)) & ((UINT64_C(1) << k) - 1) : 0;
    uint32_t asked = (uint32_t)bits | UINT32_C(1) << k | (tip ? ASKED_TIP : 0);
    m->status = 0;
    struct run *run = look_up(flow, key_of(cur, asked), cur, tip);
    if (run)
        watch_found(flow);
    if (!run) {
        flow->stats.run_misses++;
        watch_made(flow, cur);
        make(flow, m, cur, bits, k, tip);
        flow->build->asked = asked;
        if (m->status == COFI_ERR_NO_CODE && flow->config.gen == COFI_PT)
            end_nowhere(flow, m);
        run = m->status || (flow->build->kind == RUN_RET && !flow->build->at_bottom) ? NULL : keep(flow);
    }
    if (flow->last_run)
        flow->last_run->next = run;
    return run ? run : flow->build;
}

/* ---- doing it ---- */

static void fill_times(struct cofi_flow *flow, unsigned n)
{
    struct cofi_flow_stamp *times = flow->batch->times + flow->batch->blocks_n, stamp = cofi__stamp(flow);
    for (unsigned i = 0; i < n; i++)
        times[i] = stamp;
}

static void emit(struct cofi_flow *flow, struct run *run)
{
    const struct cofi_flow_batch *batch = flow->batch;
    bool one_by_one = flow->counting ? run == flow->build /* its counter is not kept */
        : flow->spill_n || batch->blocks_n + run->blocks + RUN_COPY > batch->blocks_max || (flow->lists && run == flow->build);
    if (one_by_one) {
        for (unsigned i = 0; i < run->blocks; i++)
            cofi__emit_block(flow, run->list[i]);
        return;
    }
    flow->stats.insns += run->insns;
    flow->stats.blocks += run->blocks;
    if (flow->counting) {
        run->count++;
        edge_to(flow, run->first_hash, run->last_hash);
        return;
    }
    if (batch->times)
        fill_times(flow, run->blocks);
    if (flow->lists)
        flow->lists[flow->lists_n++] = list_word(run->list, run->blocks);
    else if (batch->blocks)
        run_copy(batch->blocks + batch->blocks_n, run);
    flow->batch->blocks_n += run->blocks;
}

static int return_to(struct cofi_flow *flow)
{
    if (!flow->ret_n) {
        place_set(flow, COFI_NO_IP);
        return cofi__lose(flow, COFI_ERR_BAD_RETC, flow->code_missed || flow->speculative,
                          "a compressed RET without a CALL before it [SDM Indirect Transfer Compression for Returns (RET)]");
    }
    struct block *site = flow->ret[flow->ret_top % RET_DEPTH].site;
    flow->ip = site ? site->pub.end : flow->ret[flow->ret_top % RET_DEPTH].ip;
    flow->cur = site && !site->dead ? block_fall(flow, site) : NULL;
    ret_pop(flow);
    return 0;
}

/* Back from the kernel, which may have run another process meanwhile or mapped code: as where tracing is enabled. */
static int return_to_user(struct cofi_flow *flow, uint64_t ip)
{
    flow->spans.draft.on = false;
    cofi__sieve_leave(flow);
    place_set(flow, ip);
    COFI_TRY(cofi__code_due(flow, flow->packet_offset));
    cofi__code_at_return(flow);
    return 0;
}

/* Where a TIP leads: most RETs go behind the CALL on the return stack (site), most other branches where they went
 * last time. */
static struct block *tip_block(struct cofi_flow *flow, struct run *run, struct block *site, uint64_t ip)
{
    if (site && site->pub.end == ip && !site->dead)
        return block_fall(flow, site);
    if (run && run->exit && run->exit->pub.ip == ip && !run->exit->dead)
        return run->exit;
    struct block *block = cofi__block_at(flow, ip);
    if (run)
        run->exit = block;
    return block;
}

/* The TIP in flow->packet is the target of the branch that ran last. */
static int take_tip(struct cofi_flow *flow, struct run *run, struct block *site)
{
    uint64_t ip = flow->packet_ip;
    bool to_user = (run ? run->from_kernel : flow->tip_from_kernel) && !(ip >> 63) && flow->config.gen == COFI_PT;
    flow->tip_due = false;
    flow->has_packet = false;
    flow->used_offset = flow->packet_offset;
    flow->stats.tips++;
    if (!flow->packet_has_ip) {
        place_set(flow, COFI_NO_IP);
        return cofi__lose(flow, COFI_ERR_MISMATCH, false, "a TIP without an address [SDM IP Compression]");
    }
    if (flow->pend.n || flow->pend.mode || flow->pend.paging || flow->pend.vmcs) {
        flow->spans.draft.on = false;
        place_set(flow, ip);
        COFI_TRY(cofi__due_at_target(flow, ip));
        return to_user ? return_to_user(flow, ip) : 0;
    }
    if (to_user)
        return return_to_user(flow, ip);
    flow->spans.draft.span.exit_last_ip = flow->last_ip;
    flow->ip = ip;
    flow->cur = tip_block(flow, run, site, ip);
    return 0;
}

static bool packet_is_tip(const struct cofi_flow *flow)
{
    return flow->has_packet && (flow->packet.kind == COFI_PT_TIP || flow->packet.kind == COFI_RTIT_TIP);
}

/* It may be deferred until behind outcomes of the last TNT packet [SDM Deferred TIPs]. */
static bool tip_has_come(struct cofi_flow *flow)
{
    if (flow->n)
        cofi__sieve_leave(flow); /* it is not told which packet that is */
    return packet_is_tip(flow) && flow->n <= flow->tail;
}

/* After a run that ends with a branch for a TIP, which may stand behind outcomes that were not read yet. */
static int at_tip(struct cofi_flow *flow, struct run *run, struct block *site)
{
    if (tip_has_come(flow))
        return take_tip(flow, run, site);
    flow->cur = NULL;
    flow->ip = COFI_NO_IP;
    flow->tip_due = true;
    flow->tip_from_kernel = run->from_kernel;
    return 0;
}

static int execute(struct cofi_flow *flow, struct run *run)
{
    if (run->kind == RUN_NOWHERE || run->kind == RUN_RET)
        flow->spans.draft.on = false;
    if (flow->spans.draft.on)
        cofi__span_run(flow, run);
    if (run->blocks)
        emit(flow, run);
    flow->n -= run->n;
    ret_apply(flow, run->peak, run->guards - run->at_bottom, run->list + run->blocks, run->calls);
    if (flow->config.gen == COFI_RTIT)
        flow->last_end = run_end(run);
    if (run->kind == RUN_AT) {
        flow->cur = run->exit;
        return 0;
    }
    if (run->kind == RUN_RET)
        return return_to(flow);
    if (run->kind == RUN_NOWHERE) {
        place_set(flow, run->nowhere);
        return 0;
    }
    struct block *site = run->pops ? ret_site(flow, 0) : NULL;
    if (run->pops)
        ret_pop(flow);
    return at_tip(flow, run, site);
}

/* Blocks are gone through without a packet: is it a loop? Marks a block at each power of two. */
static bool endless(struct cofi_flow *flow, struct block *cur)
{
    if (cur == flow->idle_mark)
        return true;
    if (!(flow->idle & (flow->idle - 1)))
        flow->idle_mark = cur;
    flow->idle++;
    return false;
}

/* The run ends where the code or the trace does not allow to go on. */
static int broken(struct cofi_flow *flow, struct making *m)
{
    struct run *run = flow->build;
    bool no_insn = m->status == COFI_ERR_NO_CODE || m->status == COFI_ERR_BAD_INSN;
    unsigned known = no_insn ? run->blocks : m->sure;
    for (unsigned i = 0; i < known; i++)
        COFI_TRY(cofi__emit_block(flow, run->list[i]));
    flow->n -= run->n;
    flow->stats.tnt_bits += run->n;
    flow->spans.draft.on = false;
    place_set(flow, m->ip);
    if (no_insn && run->n == m->k && !m->tip && known) {
        flow->last_end = run->list[known - 1]->pub.end; /* it may have left the traced region: no code needed */
        return 0;
    }
    return cofi__lose(flow, m->status, no_insn || m->status == COFI_ERR_NO_OUTCOMES, m->why);
}

static int nowhere(struct cofi_flow *flow)
{
    flow->spans.draft.on = false;
    if (cofi__code_comes(flow))
        return 0;
    return cofi__lose(flow, flow->code_error, true, "no code where execution goes [PTREF 9.5]");
}

/* Use up the pending outcomes and, with want_tip, the TIP that follows them. Ends early when the batch
 * is full. */
int cofi__run_bits(struct cofi_flow *flow, bool want_tip)
{
    struct making m;
    while (flow->n || want_tip) {
        if (flow->full && flow->n < RUN_BITS) /* read on: whole runs are met again, parts are not */
            return 0;
        if (flow->batch && flow->batch->blocks_n + RUN_BLOCKS + RUN_COPY > flow->batch->blocks_max)
            return 0;
        struct block *cur = here(flow);
        if (!cur)
            return nowhere(flow);
        struct run *run = flow->last_run ? flow->last_run->next : NULL;
        if (!run || !fits(flow, run, cur, want_tip))
            run = next_run(flow, &m, cur, want_tip);
        if (run == flow->build && m.status)
            return broken(flow, &m);
        flow->last_run = run == flow->build ? NULL : run;
        if (run->n || run->kind == RUN_TIP) {
            flow->idle = 0;
            flow->idle_mark = NULL;
        } else if (endless(flow, cur)) {
            return cofi__lose(flow, COFI_ERR_MISMATCH, false, "an endless loop without a packet [PTREF 9.5]");
        }
        flow->stats.tnt_bits += run->n;
        COFI_TRY(execute(flow, run));
        if (run->kind == RUN_TIP || flow->lost)
            return 0;
    }
    return 0;
}

/* A TIP for the branch at the end of the block before. */
int cofi__run_due_tip(struct cofi_flow *flow)
{
    if (!tip_has_come(flow))
        return cofi__lose(flow, COFI_ERR_MISMATCH, false, "no TIP for an indirect branch [PTREF 9.5]");
    return take_tip(flow, NULL, NULL);
}

/* ---- coverage: what runs were counted for, spread over their blocks and edges ---- */

void cofi__run_count_all(struct cofi_flow *flow)
{
    struct cofi_flow_coverage *coverage = flow->coverage;
    cofi__span_count_all(flow);
    for (struct run *run = flow->youngest; run; run = run->older) {
        if (!run->count)
            continue;
        uint32_t prev = run->list[0]->hash;
        for (unsigned i = 1; i < run->blocks; i++) {
            cofi__edge(flow, edge_index(prev, run->list[i]->hash), run->count);
            prev = run->list[i]->hash;
        }
        for (unsigned i = 0; coverage->block && i < run->blocks; i++)
            run->list[i]->count += run->count;
        run->count = 0;
    }
    for (size_t i = 0; i < flow->all_n; i++) {
        struct block *b = flow->all[i];
        if (b->count && coverage->block)
            coverage->block(coverage->opaque, &b->pub, b->count);
        b->count = 0;
    }
}
