/* SPDX-License-Identifier: MIT
 * PT bytes -> runs, from TIP to TIP, looked up before they are needed.
 *
 * Where a program does not repeat itself for long, no span holds, and each run is somewhere else in
 * memory: to find it waits twice for memory, to use it once more. But what lies between two TIPs tells
 * the run's key without the code: the address that the first one told, and the outcomes. So some TIPs
 * are read at once, and all that they lead to is asked for before the first is gone by. */
#include "flow/run.h"

#include "flow/pt_ip.h"

enum {
    LEGS = 16, LEGS_LEAST = 2, WAIT_MOST = 63,
    LEVEL = 3 /* of spans, from which on most of them are looked for in vain */
};

/* From one target to the next. */
struct leg {
    uint64_t from, to;
    uint64_t bits;
    const uint8_t *tip;   /* the packet at its end */
    uint64_t key;
    struct run *run;
    uint8_t n, tail;      /* outcomes, and how many of them are of the last TNT */
};

static bool may_begin(struct cofi_flow *flow)
{
    if (flow->config.gen != COFI_PT || flow->spans.level < LEVEL || flow->spans.draft.on || !only_branches(flow) ||
        flow->config.want_time)
        return false;
    if (flow->ahead.wait) {
        flow->ahead.wait--;
        return false;
    }
    return flow->cur && !flow->cur->dead && !flow->cur->cut && !flow->out.spill_n && flow->cache.runs_size &&
           flow->n <= RUN_BITS;
}

/* ---- reading ahead ---- */

/* What comes as far as it is outcomes, no more than a run has, and targets. Returns how many legs. */
static unsigned read_legs(const struct cofi_flow *flow, struct leg legs[LEGS])
{
    const uint8_t *p = flow->s.p;
    uint64_t ip = flow->cur->pub.ip, last_ip = flow->last_ip, bits = flow->bits & ((UINT64_C(1) << flow->n) - 1);
    unsigned count = 0, n = flow->n, tail = flow->tail;
    while (flow->s.end - p >= SOURCE_AHEAD && count < LEGS && n <= RUN_BITS) {
        unsigned c = *p, size = cofi__pt_sizes[c], what = cofi__pt_outcomes[c];
        if (what) {
            tail = (uint8_t)what;
            bits = bits << tail | what >> 8;
            n += tail;
            p++;
            continue;
        }
        if (!size)
            break;
        last_ip = pt_ip(last_ip, c >> 5, le64(p + 1));
        uint64_t key = run_key(ip, flow->code.space, run_asked(bits, n, true));
        __builtin_prefetch(&flow->cache.runs[slot_first(flow, key)]);
        legs[count++] = (struct leg){.from = ip, .to = last_ip, .bits = bits, .tip = p, .key = key, .n = (uint8_t)n,
                                     .tail = (uint8_t)tail};
        ip = last_ip;
        bits = n = 0;
        p += size;
    }
    return count;
}

/* The runs of the first legs, up to one that is not known. */
static unsigned find_runs(const struct cofi_flow *flow, struct leg legs[LEGS], unsigned count)
{
    unsigned n = 0;
    for (; n < count; n++) {
        struct run *run = legs[n].run = slot_find(flow, legs[n].key);
        if (!run || run->kind != RUN_TIP)
            break;
        __builtin_prefetch(run);
        __builtin_prefetch(run->list);
    }
    for (unsigned i = 0; i < n; i++)
        __builtin_prefetch(legs[i].run->entry);
    return n;
}

/* ---- going by them ---- */

static bool is_at(const struct cofi_flow *flow, const struct block *b, uint64_t ip)
{
    return b->pub.ip == ip && b->space == flow->code.space && b->pub.mode == flow->code.mode && !b->cut;
}

/* Whether the leg is its run, all of it, and nothing else is due at its end. */
static bool fits(const struct cofi_flow *flow, const struct leg *leg)
{
    const struct run *run = leg->run;
    bool to_user = run->from_kernel && !(leg->to >> 63); /* code may be other code there (decision 0607) */
    return is_at(flow, run->entry, leg->from) && run->n == leg->n && run->bits == leg->bits &&
           run->epoch == flow->cache.epoch && !to_user && (!run->guards || run_guards_hold(flow, run));
}

static bool has_room(const struct cofi_flow *flow)
{
    const struct cofi_flow_batch *batch = flow->out.batch;
    return !batch || batch->blocks_n + RUN_BLOCKS + RUN_COPY <= batch->blocks_max;
}

/* Returns as run_pop does. */
static struct block *go(struct cofi_flow *flow, struct run *run)
{
    cofi__run_show(flow, run);
    ret_apply(flow, run->peak, run->guards, run->list + run->blocks, run->calls);
    flow->stats.tnt_bits += run->n;
    flow->stats.tips++;
    flow->tips_that_wait += run->waits;
    return run_pop(flow, run);
}

/* All is as if the leg's packets had been read one by one. */
static void arrive(struct cofi_flow *flow, const struct leg *leg, struct block *site)
{
    flow->packet.kind = COFI_PT_TIP;
    flow->packet_has_ip = true;
    flow->packet_full_ip = pt_ip_is_full(*leg->tip >> 5);
    flow->last_ip = flow->packet_ip = flow->ip = leg->to;
    flow->packet_offset = flow->used.offset = flow->s.end_offset - (uint64_t)(flow->s.end - leg->tip);
    flow->s.p = leg->tip + cofi__pt_sizes[*leg->tip];
    flow->bits = flow->n = 0;
    flow->tail = leg->tail;
    flow->idle.runs = 0;
    flow->idle.mark = NULL;
    flow->last_run = leg->run;
    flow->cur = cofi__tip_block(flow, leg->run, site, leg->to);
}

/* Where hardly any leg is a run that is known, it is tried less and less often. */
static void pace(struct cofi_flow *flow, unsigned done)
{
    flow->ahead.idle = done >= LEGS_LEAST             ? 0
                       : flow->ahead.idle < WAIT_MOST ? (uint8_t)(2 * flow->ahead.idle + 1)
                                                      : WAIT_MOST;
    flow->ahead.wait = flow->ahead.idle;
    flow->ahead.tips += done;
    flow->lengths.found += done;
    flow->spans.steps += done;
}

bool cofi__ahead(struct cofi_flow *flow)
{
    struct leg legs[LEGS];
    struct block *site = NULL;
    if (!may_begin(flow))
        return false;
    unsigned done = 0, known = find_runs(flow, legs, read_legs(flow, legs));
    for (; done < known && has_room(flow) && fits(flow, &legs[done]); done++)
        site = go(flow, legs[done].run);
    if (done)
        arrive(flow, &legs[done - 1], site);
    pace(flow, done);
    return done;
}
