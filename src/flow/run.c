/* SPDX-License-Identifier: MIT
 * Block + branch outcomes -> the blocks they lead through, looked up whole. */
#include "flow/run.h"

#include <string.h>

#include "base/error.h"
#include "flow/lists.h"
#include "flow/query.h"

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
    run->epoch = flow->cache.epoch;
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
    if (run->guards && !run_guards_hold(flow, run))
        return false;
    return run->epoch == flow->cache.epoch || cofi__run_is_whole(flow, run);
}

static struct run *look_up(struct cofi_flow *flow, uint64_t key, const struct block *entry, bool tip)
{
    if (!flow->cache.runs_size)
        return NULL;
    struct run *run = slot_find(flow, key);
    for (unsigned i = 0; run && run->kind == RUN_STUB; i++) {
        struct block *site = ret_site(flow, i);
        if (!site && i < flow->rets.n)
            return NULL;
        key = run_key_with(key, site);
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
    flow->cache.relies_on_absence = true;
}

/* Outcomes that nothing predicts (a loop of a few blocks that decides by data) lead through ever new
 * runs: 2^24 of 24, which are made in vain. Of short ones there are few. */
static void watch_made(struct cofi_flow *flow, const struct block *entry)
{
    uint64_t *seen = flow->lengths.entries;
    seen[entry->hash >> 6 & 3] |= UINT64_C(1) << (entry->hash & 63);
    if (++flow->lengths.made < RUN_WATCH)
        return;
    int entries = __builtin_popcountll(seen[0]) + __builtin_popcountll(seen[1]) + __builtin_popcountll(seen[2]) +
                  __builtin_popcountll(seen[3]);
    if (entries <= RUN_ENTRIES && flow->lengths.found < RUN_WATCH / 8) {
        flow->lengths.bits = RUN_SHORT;
        flow->lengths.mark = flow->stats.tnt_bits;
    }
    memset(seen, 0, sizeof flow->lengths.entries);
    flow->lengths.made = flow->lengths.found = 0;
}

/* Another part of the program may be another matter. */
static void watch_found(struct cofi_flow *flow)
{
    flow->lengths.found++;
    if (flow->lengths.bits == RUN_BITS || flow->stats.tnt_bits - flow->lengths.mark < flow->lengths.retry)
        return;
    flow->lengths.bits = RUN_BITS;
    flow->lengths.made = flow->lengths.found = 0;
    flow->lengths.retry *= 2;
}

/* Find or make the run that comes next. A made one that ends in an error is not kept: *m tells. */
static struct run *next_run(struct cofi_flow *flow, struct making *m, struct block *cur, bool want_tip)
{
    unsigned k = flow->n < flow->lengths.bits ? flow->n : flow->lengths.bits;
    bool tip = want_tip && k == flow->n;
    uint64_t bits = k ? (flow->bits >> (flow->n - k)) & ((UINT64_C(1) << k) - 1) : 0;
    uint32_t asked = run_asked(bits, k, tip);
    m->status = 0;
    struct run *run = look_up(flow, run_key(cur->pub.ip, cur->space, asked), cur, tip);
    if (run)
        watch_found(flow);
    if (!run) {
        flow->stats.run_misses++;
        watch_made(flow, cur);
        cofi__run_make(flow, m, cur, bits, k, tip);
        flow->build->asked = asked;
        if (m->status == COFI_ERR_NO_CODE && flow->config.gen == COFI_PT)
            end_nowhere(flow, m);
        run = m->status || (flow->build->kind == RUN_RET && !flow->build->at_bottom) ? NULL : cofi__run_keep(flow);
    }
    if (flow->last_run)
        flow->last_run->next = run;
    return run ? run : flow->build;
}

/* ---- outcomes, for coverage ---- */

void cofi__tell_outcome(struct cofi_flow *flow, const struct block *block, uint64_t to, uint64_t count)
{
    const struct cofi_flow_coverage *coverage = flow->out.coverage;
    const struct cofi_flow_block *b = &block->pub;
    if (!coverage || !coverage->outcome || b->cls != COFI_CLASS_JCC || to == COFI_NO_IP)
        return;
    bool taken = jcc_taken(b->end, b->target, to);
    if (flow->out.counting)
        coverage->outcome(coverage->opaque, b, taken, count);
    else if (flow->out.lists)
        cofi__write_down(flow, list_word(block, taken ? LIST_TAKEN : LIST_NOT_TAKEN));
}

/* Of the branches in a list of blocks that ran so often; next: where the last one led. */
static void tell_outcomes(struct cofi_flow *flow, struct block *const *list, unsigned n, uint64_t next, uint64_t count)
{
    if (!flow->out.coverage || !flow->out.coverage->outcome)
        return;
    for (unsigned i = 0; i < n; i++)
        cofi__tell_outcome(flow, list[i], i + 1 < n ? list[i + 1]->pub.ip : next, count);
}

/* Where a run leads by its last outcome. */
static uint64_t run_next(const struct run *run)
{
    return run->kind == RUN_AT ? run->exit->pub.ip : run->kind == RUN_NOWHERE ? run->nowhere : COFI_NO_IP;
}

/* ---- doing it ---- */

static void fill_times(struct cofi_flow *flow, unsigned n)
{
    struct cofi_flow_stamp *times = flow->out.batch->times + flow->out.batch->blocks_n, stamp = cofi__stamp(flow);
    for (unsigned i = 0; i < n; i++)
        times[i] = stamp;
}

void cofi__run_show(struct cofi_flow *flow, struct run *run)
{
    const struct cofi_flow_batch *batch = flow->out.batch;
    bool one_by_one = flow->out.counting
                          ? run == flow->build /* its counter is not kept */
                          : flow->out.spill_n || batch->blocks_n + run->blocks + RUN_COPY > batch->blocks_max ||
                                (flow->out.lists && run == flow->build);
    if (one_by_one) {
        for (unsigned i = 0; i < run->blocks; i++)
            cofi__emit_block(flow, run->list[i]);
        tell_outcomes(flow, run->list, run->blocks, run_next(run), 1);
        return;
    }
    flow->stats.insns += run->insns;
    flow->stats.blocks += run->blocks;
    if (flow->out.counting) {
        run->count++;
        edge_to(flow, run->first_hash, run->last_hash);
        return;
    }
    if (writes_down(flow)) {
        cofi__write_down(flow, list_of_run(run));
        note_edges(flow, run->first_hash, run->last_hash);
        return;
    }
    if (batch->times)
        fill_times(flow, run->blocks);
    if (flow->out.lists)
        flow->out.lists[flow->out.lists_n++] = list_of_run(run);
    else if (batch->blocks)
        list_copy(batch->blocks + batch->blocks_n, list_of_run(run));
    flow->out.batch->blocks_n += run->blocks;
}

static int return_to(struct cofi_flow *flow)
{
    if (!flow->rets.n) {
        place_set(flow, COFI_NO_IP);
        return cofi__lose(
            flow, COFI_ERR_BAD_RETC, flow->code.missed || flow->speculative,
            "a compressed RET without a CALL before it [SDM Indirect Transfer Compression for Returns (RET)]");
    }
    struct block *site = flow->rets.entry[flow->rets.top % RET_DEPTH].site;
    flow->ip = site ? site->pub.end : flow->rets.entry[flow->rets.top % RET_DEPTH].ip;
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

struct block *cofi__tip_block(struct cofi_flow *flow, struct run *run, struct block *site, uint64_t ip)
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
    bool to_user = (run ? run->from_kernel : flow->due.from_kernel) && !(ip >> 63) && flow->config.gen == COFI_PT;
    flow->tip_due = false;
    flow->has_packet = false;
    flow->used.offset = flow->packet_offset;
    flow->stats.tips++;
    flow->tips_that_wait += run ? run->waits : flow->due.waits;
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
    flow->cur = cofi__tip_block(flow, run, site, ip);
    return 0;
}

/* It may be deferred until behind outcomes of the last TNT packet [SDM Deferred TIPs]; RTIT's never are. */
static bool tip_has_come(struct cofi_flow *flow)
{
    if (!flow->n)
        return packet_is_tip(flow);
    cofi__sieve_leave(flow); /* it is not told which packet that is */
    flow->spans.draft.on = false; /* each one counts */
    bool waited = flow->config.gen == COFI_PT && packet_is_tip(flow) && flow->n <= flow->tail;
    flow->waits.came |= waited;
    return waited;
}

/* After a run that ends with a branch for a TIP, which may stand behind outcomes that were not read yet. */
static int at_tip(struct cofi_flow *flow, struct run *run, struct block *site)
{
    if (tip_has_come(flow))
        return take_tip(flow, run, site);
    flow->cur = NULL;
    flow->ip = COFI_NO_IP;
    flow->tip_due = true;
    flow->due.from_kernel = run->from_kernel;
    flow->due.waits = run->waits;
    return 0;
}

static int execute(struct cofi_flow *flow, struct run *run)
{
    if (run->kind == RUN_NOWHERE || run->kind == RUN_RET)
        flow->spans.draft.on = false;
    if (flow->spans.draft.on)
        cofi__span_run(flow, run);
    if (run->blocks)
        cofi__run_show(flow, run);
    flow->n -= run->n;
    ret_apply(flow, run->peak, run->guards - run->at_bottom, run->list + run->blocks, run->calls);
    if (flow->config.gen == COFI_RTIT)
        flow->rtit.last_end = run_end(run);
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
    return at_tip(flow, run, run_pop(flow, run));
}

/* Blocks are gone through without a packet: is it a loop? Marks a block at each power of two. */
static bool endless(struct cofi_flow *flow, struct block *cur)
{
    if (cur == flow->idle.mark)
        return true;
    if (!(flow->idle.runs & (flow->idle.runs - 1)))
        flow->idle.mark = cur;
    flow->idle.runs++;
    return false;
}

/* Where the first blocks of a run that broke off led. */
static uint64_t next_known(const struct making *m, unsigned known)
{
    if (known < m->run->blocks)
        return m->run->list[known]->pub.ip;
    return m->status == COFI_ERR_NO_OUTCOMES ? COFI_NO_IP : m->ip;
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
    tell_outcomes(flow, run->list, known, next_known(m, known), 1);
    if (no_insn && run->n == m->k && !m->tip && known) {
        flow->rtit.last_end = run->list[known - 1]->pub.end; /* it may have left the traced region: no code needed */
        return 0;
    }
    return cofi__lose(flow, m->status, no_insn || m->status == COFI_ERR_NO_OUTCOMES, m->why);
}

static int nowhere(struct cofi_flow *flow)
{
    flow->spans.draft.on = false;
    if (cofi__code_comes(flow))
        return 0;
    return cofi__lose(flow, flow->code.error, true, "no code where execution goes [PTREF 9.5]");
}

/* Use up the pending outcomes and, with want_tip, the TIP that follows them. Ends early when the batch
 * is full. */
int cofi__run_bits(struct cofi_flow *flow, bool want_tip)
{
    struct making m;
    while (flow->n || want_tip) {
        if (flow->full && flow->n < RUN_BITS) /* read on: whole runs are met again, parts are not */
            return 0;
        if (flow->out.batch && flow->out.batch->blocks_n + RUN_BLOCKS + RUN_COPY > flow->out.batch->blocks_max)
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
            flow->idle.runs = 0;
            flow->idle.mark = NULL;
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
    struct cofi_flow_coverage *coverage = flow->out.coverage;
    bool counting = flow->out.counting;
    flow->out.counting = true;
    cofi__span_count_all(flow);
    for (struct run *run = flow->cache.youngest; run; run = run->older) {
        if (!run->count)
            continue;
        uint32_t prev = run->list[0]->hash;
        for (unsigned i = 1; i < run->blocks; i++) {
            cofi__edge(flow, edge_index(prev, run->list[i]->hash), run->count);
            prev = run->list[i]->hash;
        }
        for (unsigned i = 0; coverage->block && i < run->blocks; i++)
            run->list[i]->count += run->count;
        tell_outcomes(flow, run->list, run->blocks, run_next(run), run->count);
        run->count = 0;
    }
    for (size_t i = 0; i < flow->cache.all_n; i++) {
        struct block *b = flow->cache.all[i];
        if (b->count && coverage->block)
            coverage->block(coverage->opaque, &b->pub, b->count);
        b->count = 0;
    }
    flow->out.counting = counting;
}
