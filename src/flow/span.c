/* SPDX-License-Identifier: MIT
 * Trace bytes met before -> the runs they led through, without reading their packets again. */
#include "flow/lists.h"
#include "flow/walker.h"

#include <string.h>

#include "base/bytes.h"

/* What a stretch of packets does depends on where execution is, the outcomes that are pending, LastIP, the
 * return stack, and the packets. A span rests on outcomes and targets only; what lies between them (timing, padding) is
 * taken out before, by the sieve. Where a place is met for the second time, what follows is written down (the draft);
 * the third time it is used. */

enum { PTR_BITS = 48, TAG_BITS = 16, SPAN_SEEN = 1 };

/* One may begin or end here. */
static bool calm(const struct cofi_flow *flow)
{
    return only_branches(flow) && !flow->idle.runs && !flow->out.spill_n && flow->cur && !flow->cur->dead &&
           flow->n < 32 && (flow->sieved || flow->spans.untimed || flow->spans.bare) && !flow->config.want_time;
}

static uint64_t pending(const struct cofi_flow *flow) { return flow->bits & ((UINT64_C(1) << flow->n) - 1); }

/* How many bytes of outcomes and targets come next, at least up to SPAN_KEY; the last packet may reach beyond. */
static unsigned bytes_ahead(const struct cofi_flow *flow)
{
    const uint8_t *sizes = sizes_of(flow), *p = flow->s.p;
    unsigned n = 0;
    for (unsigned size; n < SPAN_KEY && (size = sizes[p[n]]); n += size) {
    }
    return n;
}

static uint64_t mix(uint64_t x, uint64_t word)
{
    return ((x ^ x >> 32) ^ word) * UINT64_C(0xc2b2ae3d27d4eb4f);
}

/* False: no span may begin here, for less than SPAN_LEAST bytes come. */
static bool key_here(const struct cofi_flow *flow, uint64_t *key)
{
    const uint8_t *p = flow->s.p;
    unsigned n = bytes_ahead(flow), at = 0;
    uint64_t x = mix((uint64_t)(uintptr_t)flow->cur >> 4, pending(flow) << 8 | flow->n);
    if (n < SPAN_LEAST)
        return false;
    for (; at < SPAN_KEY && at + 8 <= n; at += 8)
        x = mix(x, le64(p + at));
    if (at < SPAN_KEY && at < n)
        x = mix(x, le64(p + at) & ((UINT64_C(1) << 8 * (n - at)) - 1));
    *key = x ^ x >> 29;
    return true;
}

/* The slots of a key: SPAN_WAYS, side by side. */
static uint64_t *slots_of(struct cofi_flow *flow, uint64_t key)
{
    struct spans *spans = &flow->spans;
    if (!spans->slots)
        spans->slots = cofi__table_take(&flow->cache.chunks, SPAN_SLOTS * sizeof *spans->slots);
    return spans->slots ? &spans->slots[(key >> 8) % SPAN_SLOTS & ~(SPAN_WAYS - 1u)] : NULL;
}

static uint64_t slot_word(uint64_t key, uint64_t what) { return key >> PTR_BITS << PTR_BITS | what; }

/* ---- using one ---- */

/* At least 8. */
static inline bool same_bytes(const uint8_t *a, const uint8_t *b, unsigned n)
{
    uint64_t differ = le64(a + n - 8) ^ le64(b + n - 8);
    for (unsigned i = 0; i < n - 8; i += 8)
        differ |= le64(a + i) ^ le64(b + i);
    return !differ;
}

static bool guards_hold(const struct cofi_flow *flow, struct span *s)
{
    struct block **guard = span_guards_of(s);
    for (unsigned i = 0; i < s->guards; i++)
        if (ret_site(flow, i) != guard[i])
            return false;
    return true;
}

/* After code changed: is it made of blocks that are still what memory holds? */
static bool is_whole(struct cofi_flow *flow, struct span *s)
{
    if (s->exit->dead)
        return false;
    for (unsigned i = 0; i < s->runs; i++)
        if (!cofi__run_is_whole(flow, run_of_list(span_lists_of(s)[i])))
            return false;
    s->epoch = flow->cache.epoch;
    return true;
}

static inline bool fits(struct cofi_flow *flow, struct span *s)
{
    return s->entry == flow->cur && s->n == flow->n && s->bits == pending(flow) &&
           same_bytes(span_bytes_of(s), flow->s.p, s->bytes) && (!s->tips || !((s->last_ip ^ flow->last_ip) >> 16)) &&
           (!s->guards || guards_hold(flow, s)) && (s->epoch == flow->cache.epoch || is_whole(flow, s));
}

static bool has_room(const struct cofi_flow *flow, const struct span *s)
{
    const struct cofi_flow_batch *batch = flow->out.batch;
    return !batch || batch->blocks_n + s->blocks + RUN_COPY <= batch->blocks_max;
}

static void show(struct cofi_flow *flow, struct span *s)
{
    flow->stats.insns += s->insns;
    flow->stats.blocks += s->blocks;
    if (flow->out.counting) {
        s->count++;
        edge_to(flow, s->first_hash, s->last_hash);
        return;
    }
    if (writes_down(flow)) {
        cofi__write_down(flow, list_word(s, LIST_SPAN));
        note_edges(flow, s->first_hash, s->last_hash);
        return;
    }
    if (flow->out.lists)
        flow->out.lists[flow->out.lists_n++] = list_of_span(s);
    else if (flow->out.batch->blocks)
        lists_copy(flow->out.batch->blocks + flow->out.batch->blocks_n, span_lists_of(s), s->runs);
    flow->out.batch->blocks_n += s->blocks;
}

/* What is compared of the span that followed last time, while this one is gone by. */
static inline void ask_for(const struct span *next)
{
    enum { LINE = 64 };
    for (size_t at = 0; next && at < sizeof *next + SPAN_BYTES; at += LINE)
        __builtin_prefetch((const char *)next + at);
}

static void use(struct cofi_flow *flow, struct span *s)
{
    ask_for(s->next);
    show(flow, s);
    flow->spans.used++;
    flow->spans.met += !s->met;
    s->met = true;
    ret_apply(flow, s->peak, s->guards, span_calls_of(s), s->calls);
    flow->stats.tnt_bits += s->tnt_bits;
    flow->stats.tips += s->tips;
    flow->tips_that_wait += s->tips_that_wait;
    flow->stats.span_bytes += s->bytes;
    flow->bits = s->exit_bits;
    flow->n = s->exit_n;
    if (s->exit_tail)
        flow->tail = s->exit_tail;
    if (s->tips) {
        flow->last_ip = s->exit_last_ip;
        flow->used.offset = source_offset(&flow->s) + s->tip_at;
    }
    flow->s.p += s->bytes;
    flow->cur = s->exit;
    flow->last_run = s->exit_run;
    if (flow->config.gen == COFI_RTIT)
        flow->rtit.last_end = run_end(s->exit_run);
}

/* ---- making one ---- */

static void begin(struct cofi_flow *flow, uint64_t key)
{
    struct span_draft *d = &flow->spans.draft;
    if (cofi__spans_full(flow)) {
        if (flow->cache.keep)
            return;
        cofi__span_forget(flow);
    }
    d->span = (struct span){.entry = flow->cur, .bits = pending(flow), .n = (uint8_t)flow->n,
        .last_ip = flow->last_ip, .exit_last_ip = flow->last_ip, .epoch = flow->cache.epoch};
    d->on = flow->config.gen == COFI_PT || flow->last_ip_valid;
    d->hoped = false;
    d->key = key;
    d->from = flow->s.p;
    d->moves = flow->s.moves;
    d->tnt_bits = flow->stats.tnt_bits;
    d->tips = flow->stats.tips;
    d->tips_that_wait = flow->tips_that_wait;
}

/* A RET takes a CALL off the stack: the draft's own, or one from before, on which it then rests (null: there
 * is none). RTIT: the last one stays. */
static bool pop(struct cofi_flow *flow, struct span_draft *d, struct block *site)
{
    bool pt = flow->config.gen == COFI_PT;
    if (d->span.calls) {
        d->span.calls -= pt;
        return true;
    }
    if (!pt && d->span.guards)
        return true;
    if (d->span.guards == SPAN_GUARDS)
        return false;
    d->guard[d->span.guards++] = site;
    return true;
}

static bool push(struct cofi_flow *flow, struct span_draft *d, struct block *site)
{
    if (flow->config.gen == COFI_RTIT)
        d->span.calls = 0;
    if (d->span.calls == SPAN_CALLS)
        return false;
    d->call[d->span.calls++] = site;
    return true;
}

/* What the run does to the return stack, as in ret_apply and behind it. */
static bool draft_stack(struct cofi_flow *flow, struct span_draft *d, struct run *run)
{
    int depth = d->span.calls - d->span.guards;
    if (depth + run->peak > d->span.peak)
        d->span.peak = (uint8_t)(depth + run->peak);
    for (unsigned i = 0; i < run->guards; i++)
        if (!pop(flow, d, ret_site(flow, i)))
            return false;
    for (unsigned i = 0; i < run->calls; i++)
        if (!push(flow, d, run->list[run->blocks + i]))
            return false;
    return !run->pops || pop(flow, d, ret_site(flow, run->guards));
}

void cofi__span_run(struct cofi_flow *flow, struct run *run)
{
    struct span_draft *d = &flow->spans.draft;
    struct span *s = &d->span;
    d->on = run != flow->build && run->blocks && s->runs < SPAN_RUNS && s->blocks + run->blocks <= SPAN_BLOCKS &&
            draft_stack(flow, d, run);
    if (!d->on)
        return;
    d->run[s->runs++] = run;
    s->blocks += run->blocks;
    s->insns += run->insns;
}

static void remember(struct span *last, struct span *next)
{
    last->before = last->next;
    last->next = next;
    last->again = 0;
}

static struct span *keep(struct cofi_flow *flow, const struct span_draft *d)
{
    const struct span *made = &d->span;
    struct span *s = cofi__span_take(flow, made);
    if (!s)
        return NULL;
    s->exit_run = d->run[made->runs - 1];
    s->first_hash = d->run[0]->first_hash;
    s->last_hash = s->exit_run->last_hash;
    for (unsigned i = 0; i < made->runs; i++)
        span_lists_of(s)[i] = list_of_run(d->run[i]);
    memcpy(span_calls_of(s), d->call, made->calls * sizeof d->call[0]);
    memcpy(span_guards_of(s), d->guard, made->guards * sizeof d->guard[0]);
    memcpy(span_bytes_of(s), d->from, made->bytes);
    return s;
}

/* Put a span where its place was noted, or in the place of another. */
static void insert(struct cofi_flow *flow, uint64_t key, const struct span *s)
{
    uint64_t *slots = slots_of(flow, key);
    unsigned at = flow->spans.turn++ % SPAN_WAYS;
    for (unsigned i = 0; i < SPAN_WAYS; i++)
        if (slots[i] == slot_word(key, SPAN_SEEN))
            at = i;
    slots[at] = slot_word(key, (uint64_t)(uintptr_t)s);
}

/* Nothing but outcomes and targets. */
static bool is_plain(const struct cofi_flow *flow, const uint8_t *p, const uint8_t *until)
{
    const uint8_t *sizes = sizes_of(flow);
    for (; p < until; p += sizes[*p])
        if (!sizes[*p])
            return false;
    return p == until;
}

static bool has_tnt(const struct cofi_flow *flow, const uint8_t *p, const uint8_t *until)
{
    const uint8_t *sizes = sizes_of(flow);
    while (p < until && sizes[*p] > 1)
        p += sizes[*p];
    return p < until;
}

/* Enough was drafted, or what follows is a span or another packet. */
static void end(struct cofi_flow *flow, const uint8_t *until)
{
    struct span_draft *d = &flow->spans.draft;
    struct span *s = &d->span;
    long bytes = until - d->from;
    d->on = false;
    if (bytes < SPAN_LEAST || bytes > SPAN_BYTES || s->epoch != flow->cache.epoch || !s->runs || s->peak > SPAN_PEAK ||
        !is_plain(flow, d->from, until))
        return;
    s->bytes = (uint8_t)bytes;
    s->tip_at = (uint8_t)(flow->used.offset - (source_offset(&flow->s) - (uint64_t)(flow->s.p - d->from)));
    s->exit = flow->cur;
    s->exit_bits = pending(flow);
    s->exit_n = (uint8_t)flow->n;
    s->exit_tail = has_tnt(flow, d->from, until) ? (uint8_t)flow->tail : 0;
    s->tnt_bits = (uint16_t)(flow->stats.tnt_bits - d->tnt_bits);
    s->tips = (uint8_t)(flow->stats.tips - d->tips);
    s->tips_that_wait = (uint8_t)(flow->tips_that_wait - d->tips_that_wait);
    struct span *kept = keep(flow, d);
    if (!kept)
        return;
    if (d->hoped)
        flow->spans.hoped++;
    else
        flow->spans.made++;
    insert(flow, d->key, kept);
    if (flow->spans.last)
        remember(flow->spans.last, kept);
    flow->spans.last = kept;
}

/* ---- where spans begin and end ---- */

/* Places are chosen by what is there, so that a loop's spans meet. */
static bool is_place(struct cofi_flow *flow)
{
    struct spans *spans = &flow->spans;
    uint32_t chosen = (flow->cur->hash >> 4 ^ flow->n) & ((2u << spans->level) - 1);
    if (chosen && ++spans->steps < (unsigned)SPAN_STEPS << spans->level)
        return false;
    spans->steps = 0;
    return true;
}

static bool draft_is_enough(const struct cofi_flow *flow)
{
    const struct span_draft *d = &flow->spans.draft;
    uint64_t units = flow->stats.tnt_bits - d->tnt_bits + flow->stats.tips - d->tips;
    return (units >= SPAN_UNITS && d->span.runs >= SPAN_RUNS_LEAST) || d->span.blocks >= SPAN_BLOCKS_ENOUGH ||
           d->span.runs >= SPAN_RUNS_ENOUGH;
}

static void draft_on(struct cofi_flow *flow)
{
    struct span_draft *d = &flow->spans.draft;
    if (d->moves != flow->s.moves || flow->s.p - d->from > SPAN_BYTES)
        d->on = false;
    else if (draft_is_enough(flow))
        end(flow, flow->s.p);
}

void cofi__span_seam(struct cofi_flow *flow, const uint8_t *until)
{
    struct span_draft *d = &flow->spans.draft;
    if (d->on && d->moves == flow->s.moves && calm(flow))
        end(flow, until);
    d->on = false;
}

void cofi__span_break(struct cofi_flow *flow)
{
    const struct source *s = &flow->s;
    bool packet = flow->has_packet;
    flow->has_packet = false;
    cofi__span_seam(flow, s->end - (s->end_offset - flow->packet_offset));
    flow->has_packet = packet;
    if (!flow->lost) /* gaps follow each other where code is missing, and hardly a span fits between two */
        flow->spans.steps = SPAN_STEPS << SPAN_LEVELS; /* one may begin behind the packet, whose own cost
                                                        * hides that of a look in vain */
}

static uint64_t chances(const struct cofi_flow *flow) { return source_offset(&flow->s) / SPAN_CHANCE; }

static bool credit(const struct cofi_flow *flow)
{
    const struct spans *spans = &flow->spans;
    return spans->made < SPAN_CREDIT + spans->used / 2 + chances(flow);
}

/* Where a trace repeats itself, what follows a span that was found is one to come, met before or not. In
 * most programs hardly any is met again. */
static bool hope(const struct cofi_flow *flow)
{
    const struct spans *spans = &flow->spans;
    return spans->last && spans->hope &&
           spans->hoped < SPAN_HOPES + 2 * spans->met + spans->used / SPAN_HOPE_USES + chances(flow);
}

/* The place was met: the second time a draft begins. One that is new takes the place of one met once, or of
 * any in turn. */
static void note(struct cofi_flow *flow, uint64_t key, uint64_t *slots)
{
    struct spans *spans = &flow->spans;
    unsigned victim = spans->turn++ % SPAN_WAYS;
    for (unsigned i = 0; i < SPAN_WAYS; i++) {
        uint64_t what = slots[i] & (~UINT64_C(0) >> TAG_BITS);
        if (slots[i] == slot_word(key, SPAN_SEEN)) {
            spans->hope = SPAN_HOPE;
            if (!spans->draft.on && credit(flow))
                begin(flow, key);
            return;
        }
        if (what <= SPAN_SEEN)
            victim = i;
    }
    slots[victim] = slot_word(key, SPAN_SEEN);
    if (!spans->draft.on && hope(flow)) {
        spans->hope--;
        begin(flow, key);
        spans->draft.hoped = true;
    }
}

/* Of those that begin with s, which fits. */
static struct span *longest(struct cofi_flow *flow, struct span *s)
{
    while (s->longer && fits(flow, s->longer))
        s = s->longer;
    return s;
}

/* The span under the key that begins here. Null: none, and the place is noted. */
static struct span *look_up(struct cofi_flow *flow, uint64_t key)
{
    uint64_t *slots = slots_of(flow, key);
    for (unsigned i = 0; slots && i < SPAN_WAYS; i++) {
        uint64_t what = slots[i] ^ slot_word(key, 0);
        if (what > SPAN_SEEN && !(what >> PTR_BITS) && fits(flow, (struct span *)(uintptr_t)what))
            return longest(flow, (struct span *)(uintptr_t)what);
    }
    if (slots)
        note(flow, key, slots);
    return NULL;
}

/* Looking in vain costs more than what is found saves: where a third of the places is in vain, fewer are looked
 * at. At first, and after good times, it may be so for long. */
static void pace(struct spans *spans, bool found)
{
    spans->score += found ? 1 : -2;
    if (found && spans->level && spans->score > SPAN_SCORE) {
        spans->level--;
        spans->score = 0;
    }
    if (spans->score > SPAN_GRACE)
        spans->score = SPAN_GRACE;
    if (spans->score < -SPAN_SCORE) {
        spans->level += spans->level < SPAN_LEVELS;
        spans->score = 0;
    }
}

static struct span *next_again(struct cofi_flow *flow, struct span *last)
{
    struct span *s = longest(flow, last->next);
    if (s != last->next)
        remember(last, s);
    else if (last->again < SPAN_AGAIN && ++last->again == SPAN_AGAIN)
        cofi__span_join(flow, last, s);
    return s;
}

/* What followed last time, or the time before. */
static struct span *predicted(struct cofi_flow *flow, struct span *last)
{
    if (!last->next)
        return NULL;
    if (fits(flow, last->next))
        return next_again(flow, last);
    struct span *before = last->before;
    if (!before || !fits(flow, before))
        return NULL;
    remember(last, before);
    return before;
}

static struct span *find(struct cofi_flow *flow, bool place)
{
    struct spans *spans = &flow->spans;
    uint64_t key;
    struct span *next = spans->last ? predicted(flow, spans->last) : NULL;
    if (next) {
        pace(spans, true);
        return next;
    }
    if (spans->draft.on)
        draft_on(flow);
    if (!(place || spans->last) || !key_here(flow, &key))
        return NULL;
    struct span *s = look_up(flow, key);
    pace(spans, s);
    if (s && spans->draft.on)
        end(flow, flow->s.p);
    if (s && spans->last)
        remember(spans->last, s);
    return s;
}

bool cofi__span_go(struct cofi_flow *flow)
{
    const uint8_t *from = flow->s.p;
    struct spans *spans = &flow->spans;
    if (!flow->cur && only_branches(flow)) /* where tracing was enabled: met before, or no span begins here */
        flow->cur = cofi__block_known(flow, flow->ip);
    if (!flow->cur)
        return false;
    bool place = spans->last || is_place(flow);
    if (!(place || spans->draft.on) || !calm(flow))
        return false;
    const uint8_t *sizes = sizes_of(flow);
    /* Where another packet comes nothing is looked for, and what is last stays so: behind it follows
     * what followed before. */
    while (flow->s.end - flow->s.p >= SPAN_AHEAD && sizes[*flow->s.p]) {
        struct span *s = find(flow, place);
        place = true;
        if (s && !has_room(flow, s))
            break;
        spans->last = s;
        if (!s)
            break;
        spans->draft.on = false;
        spans->hope = SPAN_HOPE;
        use(flow, s);
    }
    return flow->s.p != from;
}

/* ---- all of them ---- */

bool cofi__spans_full(const struct cofi_flow *flow)
{
    return flow->cache.spans_arena.bytes > flow->config.cache_bytes / 4;
}

void cofi__span_restart(struct cofi_flow *flow)
{
    struct spans *spans = &flow->spans;
    spans->last = NULL;
    spans->draft.on = false;
    spans->level = 0;
    spans->score = SPAN_GRACE;
}

/* Coverage: what spans were counted for, as visits of their runs and edges between them. */
void cofi__span_count_all(struct cofi_flow *flow)
{
    for (struct span *s = flow->spans.youngest; s; s = s->older) {
        const struct run *before = NULL;
        for (unsigned i = 0; s->count && i < s->runs; i++) {
            struct run *run = run_of_list(span_lists_of(s)[i]);
            run->count += s->count;
            if (before)
                cofi__edge(flow, edge_index(before->last_hash, run->first_hash), s->count);
            before = run;
        }
        s->count = 0;
    }
}

void cofi__span_forget(struct cofi_flow *flow)
{
    if (flow->out.coverage)
        cofi__span_count_all(flow);
    cofi__arena_clear(&flow->cache.chunks, &flow->cache.spans_arena);
    if (flow->spans.slots)
        memset(flow->spans.slots, 0, SPAN_SLOTS * sizeof *flow->spans.slots);
    flow->spans.last = flow->spans.youngest = NULL;
    flow->spans.made = flow->spans.hoped = flow->spans.met = flow->spans.used = 0;
    flow->spans.draft.on = false;
}
