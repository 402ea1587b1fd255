/* SPDX-License-Identifier: MIT
 * Opening a flow, and its loop: read packets, use up outcomes, act on what remains. */
#include "flow/walker.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/error.h"
#include "base/sized.h"
#include "flow/query.h"
#include "packet/full_time.h"

const char *cofi_flow_event_name(enum cofi_flow_event_kind kind)
{
    switch (kind) {
#define X(name, text) case COFI_FLOW_##name: return text;
    COFI_FLOW_EVENTS(X)
#undef X
    case COFI_FLOW_EVENT_KINDS: break;
    }
    return "?";
}

void cofi_flow_config_init(struct cofi_flow_config *config, enum cofi_gen gen)
{
    *config = (struct cofi_flow_config){.size = sizeof *config, .gen = gen, .mode = 64};
}

enum { CACHE_USUAL = 48 << 20 };
/* With that many bytes of trace, and so large a cache, some MB of it will be used, or more. */
enum { LONG_TRACE = 1 << 15, LARGE_CACHE = 8 << 20 };

static void begin(struct cofi_flow *flow, uint64_t skip)
{
    const struct cofi_flow_config *c = &flow->config;
    cofi__source_begin(flow, skip);
    cofi__clock_init(&flow->clock, c->gen, &c->time, c->reference_tsc);
    flow->clock.cyc_off_by_one = flow->clock.skip_mtc = flow->errata & ERR_RTIT;
    flow->context = (struct cofi_packet_context){.gen = (uint8_t)c->gen, .lenient = c->gen == COFI_PT,
        .cyc = c->gen == COFI_RTIT && (c->ctl_known ? c->ctl >> 1 & 1 : c->time.cyc)};
    flow->code.mode_told = c->mode > COFI_MODE_LATER;
    flow->code.mode = flow->code.mode_told ? c->mode : 64;
    flow->disabled_ip = COFI_NO_IP;
    flow->fup.pip_units = UINT64_MAX;
    flow->ovf.events_seen = 0;
    flow->fup.of_mode = flow->sleep.on = false;
    flow->psb.ip = flow->packet_ip = flow->ip = flow->mov_cr3.ip = flow->ovf.psb.ip = COFI_NO_IP;
    flow->used.offset = flow->first_offset = c->offset + skip;
    flow->used.ticks = 0;
    flow->sifts = !c->want_time && !flow->context.cyc && !flow->spans.untimed;
    cofi__sieve_restart(flow);
    cofi__span_restart(flow);
    doubt_anew(flow);
    flow->stop_psb = UINT64_MAX;
    flow->paused = flow->speculative = false;
}

static bool is_at_end(const struct cofi_flow *flow)
{
    return flow->config.code_at_end || (flow->known.timeless && !flow->config.bounds_n);
}

bool cofi__view_is_late(const struct cofi_flow *flow, uint64_t ns)
{
    return !is_at_end(flow) && cofi_view_last_change(flow->code.view) > ns;
}

int cofi__flow_view_open(struct cofi_flow *flow, struct cofi_view **view, const struct cofi_image *image)
{
    COFI_TRY(cofi_view_open(view, image));
    if (!is_at_end(flow))
        return 0;
    int status = cofi_view_advance(*view, UINT64_MAX, NULL, NULL);
    if (status < 0)
        cofi_view_close(*view);
    return status < 0 ? status : 0;
}

static bool ascend(const uint64_t *offsets, size_t n)
{
    for (size_t i = 1; i < n; i++)
        if (offsets[i] < offsets[i - 1])
            return false;
    return true;
}

int cofi__flow_config_of(struct cofi_flow_config *known, const struct cofi_flow_config *config)
{
    COFI_TRY(cofi__sized(known, sizeof *known, config, offsetof(struct cofi_flow_config, family), NULL));
    unsigned mode = known->mode > COFI_MODE_LATER ? known->mode : 64;
    if (!known->image || (mode != 16 && mode != 32 && mode != 64) ||
        (known->gen != COFI_PT && known->gen != COFI_RTIT) || known->time.mtc_freq > COFI_MTC_FREQ_MOST ||
        known->offset > INT64_MAX || known->tail_n > COFI_PACKET_MAX || !ascend(known->breaks, known->breaks_n))
        return COFI_ERR_RANGE;
    if (!known->cache_bytes)
        known->cache_bytes = CACHE_USUAL;
    return 0;
}

int cofi_flow_open(struct cofi_flow **out, const struct cofi_flow_config *given)
{
    struct cofi_flow_config known, *config = &known;
    COFI_TRY(cofi__flow_config_of(&known, given));
    struct cofi_flow *flow = calloc(1, sizeof *flow);
    if (!flow)
        return COFI_ERR_NOMEM;
    flow->config = *config;
    flow->cache.chunks.huge = config->n >= LONG_TRACE && config->cache_bytes >= LARGE_CACHE;
    flow->lengths.bits = RUN_BITS;
    flow->lengths.retry = RUN_RETRY;
    flow->errata = cofi__cpu_errata(config->gen, config->family, config->model);
    flow->sift_wide = flow->errata & ERR_SKD007 ? NULL : sift_widest();
    flow->known.timeless = config->ctl_known && cofi__tells_no_full_time(config->gen, config->ctl);
    flow->known.dis_retc = config->ctl_known &&
                           (config->gen == COFI_PT ? config->ctl >> 11 & 1 : !(config->ctl >> 11 & 1));
    flow->known.dis_tnt = config->ctl_known && config->gen == COFI_PT && config->ctl >> 55 & 1;
    /* MTCEn, CYCEn, in both generations */
    flow->spans.untimed = config->ctl_known && !(config->ctl & (1 << 9 | 1 << 1));
    flow->build = malloc(sizeof *flow->build + (RUN_BLOCKS + RUN_CALLS + RUN_POPS + RUN_COPY) * sizeof(struct block *));
    int status = flow->build ? cofi__flow_view_open(flow, &flow->code.view, config->image) : COFI_ERR_NOMEM;
    if (status < 0) {
        free(flow->build);
        free(flow);
        return status;
    }
    flow->code.views[0] = flow->code.view;
    flow->code.images[0] = config->image;
    flow->code.spaces = flow->cache.id_step = 1;
    begin(flow, 0);
    *out = flow;
    return 0;
}

void cofi_flow_close(struct cofi_flow *flow)
{
    if (!flow)
        return;
    cofi__cache_free(flow);
    for (unsigned i = 0; i < flow->code.spaces; i++)
        cofi_view_close(flow->code.views[i]);
    free(flow->build);
    free(flow->path.blocks);
    free(flow->out.spill);
    free(flow->sieve);
    free(flow);
}

/* ---- code that changes ---- */

/* The last bound that holds from an offset on, or null. */
static const struct cofi_time_bound *bound_at(const struct cofi_flow *flow, uint64_t offset)
{
    const struct cofi_time_bound *rows = flow->config.bounds;
    size_t n = cofi__array_upper_bound(rows, flow->config.bounds_n, sizeof *rows,
                                       offsetof(struct cofi_time_bound, offset), offset);
    return n ? &rows[n - 1] : NULL;
}

static uint64_t until_ns(const struct cofi_flow *flow, const struct cofi_time_bound *bound)
{
    return bound->most == UINT64_MAX ? UINT64_MAX : cofi__ns(flow, bound->most);
}

/* Where packets tell no time, it is as late as what follows the byte is known to be; of code that comes
 * while that is all that is known (cofi__code_comes), as late as that. */
static bool time_by_bound(const struct cofi_flow *flow, const struct cofi_time_bound *bound, uint64_t *ns)
{
    if (!bound)
        return false;
    *ns = cofi__ns(flow, bound->least);
    if (flow->code.seen_ns > *ns && flow->code.seen_ns < until_ns(flow, bound))
        *ns = flow->code.seen_ns;
    return true;
}

bool cofi__code_time(struct cofi_flow *flow, uint64_t offset, uint64_t *ns)
{
    const struct cofi_time_bound *bound = bound_at(flow, offset);
    if (flow->known.timeless)
        return time_by_bound(flow, bound, ns);
    if (bound)
        cofi__clock_at_least(&flow->clock, bound->least);
    *ns = cofi__ns(flow, cofi__clock_ticks(&flow->clock));
    return flow->clock.known;
}

/* The packet in hand tells the time exactly, and execution stands where it belongs. If code changed up to
 * then, the batch ends here, so that all of it was seen with the same code. */
int cofi__code_due(struct cofi_flow *flow, uint64_t offset)
{
    uint64_t ns;
    if (!cofi__code_time(flow, offset, &ns))
        return 0;
    flow->code.seen_ns = ns;
    if (cofi_view_next_change(flow->code.view) > ns && !cofi__view_is_late(flow, ns))
        return 0;
    flow->code_due = true;
    flow->code.due_ns = ns;
    flow->code.due_offset = offset;
    return 0;
}

/* A time that was too late has been believed: a view only goes forward, so there is a new one. */
static int view_again(struct cofi_flow *flow)
{
    struct cofi_view *view;
    COFI_TRY(cofi__flow_view_open(flow, &view, flow->code.images[flow->code.space]));
    cofi_view_close(flow->code.view);
    flow->code.view = flow->code.views[flow->code.space] = view;
    if (flow->cache.keep)
        cofi__cache_kill(flow);
    else
        cofi__cache_flush(flow);
    return 1;
}

bool cofi__code_comes(struct cofi_flow *flow)
{
    const struct cofi_time_bound *bound = bound_at(flow, flow->used.offset);
    if (!(bound || flow->time_hidden) || !(flow->clock.known || flow->known.timeless) ||
        flow->code.error != COFI_ERR_NO_CODE)
        return false;
    uint64_t until = bound ? until_ns(flow, bound) : UINT64_MAX;
    uint64_t ns = cofi_view_when(flow->code.view, position(flow), until);
    if (ns == UINT64_MAX)
        return false;
    if (flow->config.time.conv.mult)
        cofi__clock_at_least(&flow->clock, cofi_time_ticks(&flow->config.time.conv, ns));
    flow->code.seen_ns = flow->code.due_ns = ns;
    flow->code_due = true;
    flow->code.due_offset = flow->used.offset;
    return true;
}

/* Back in user code, or found again, a packet that needs no code (a FUP) may be next. */
void cofi__code_at_return(struct cofi_flow *flow)
{
    bool there = flow->enabled && !flow->lost && !flow->async && !flow->tip_due && position(flow) != COFI_NO_IP;
    if ((flow->config.bounds_n || flow->time_hidden) && !flow->code_due && there && !here(flow))
        cofi__code_comes(flow);
}

static int code_change(struct cofi_flow *flow)
{
    flow->code_due = false;
    uint64_t cleared = cofi_view_cleared(flow->code.view);
    int again = cofi__view_is_late(flow, flow->code.due_ns) ? view_again(flow) : 0;
    COFI_TRY(again);
    flow->code.viewed_ns[flow->code.space] = flow->code.due_ns;
    int changed = cofi_view_advance(flow->code.view, flow->code.due_ns, cofi__block_changed, flow);
    flow->code.changed = true;
    cofi__code_at_return(flow);
    if (changed < 0 || changed + again == 0)
        return changed;
    struct cofi_flow_event event = cofi__event(flow, COFI_FLOW_CODE, flow->code.due_offset);
    event.value = (uint64_t)(changed + again);
    event.a = !again && cofi_view_cleared(flow->code.view) != cleared;
    return cofi__emit_event(flow, &event);
}

/* ---- the loop ---- */

enum { STEP_ON, STEP_FULL, STEP_END };

/* The next packet is the target of a branch, and not of an event whose FUP came before. */
static bool tip_is_branch(const struct cofi_flow *flow)
{
    return packet_is_tip(flow) && flow->enabled && !flow->async && !flow->far && !flow->lost && !flow->overflow &&
           !flow->in_psb && !flow->just_overflowed;
}

/* Outcomes while tracing is off. RTIT: those that a TraceStop left behind [RTIT 4.2.11]. */
static int bits_while_off(struct cofi_flow *flow)
{
    if (flow->rtit.stopped && flow->config.gen == COFI_RTIT) {
        flow->enabled = true;
        int status = cofi__run_bits(flow, false);
        flow->enabled = false;
        return status;
    }
    if (flow->headless)
        return cofi__lose(flow, COFI_ERR_NO_SYNC, false, cofi__no_address_yet);
    bool unknown = flow->unknown;
    flow->unknown = false;
    return cofi__lose(flow, unknown ? COFI_ERR_NO_SYNC : COFI_ERR_MISMATCH, true,
                      "branch outcomes while tracing is off [SDM Taken/Not-taken (TNT) Packet]");
}

static int use_bits(struct cofi_flow *flow)
{
    if (flow->in_psb) {
        flow->in_psb = false;
        return cofi__lose(flow, COFI_ERR_BAD_PACKET, false, "branch outcomes inside PSB+ [PTREF 5.11]");
    }
    flow->just_overflowed = false;
    COFI_TRY(cofi__settle(flow));
    if (flow->pend.n)
        COFI_TRY(cofi__let_pwre_go(flow));
    if (flow->overflow && flow->config.gen == COFI_PT) /* outcomes after OVF without an address [ERR SKD010] */
        return cofi__outcomes_after_overflow(flow);
    if (flow->overflow)
        return cofi__lose(flow, COFI_ERR_MISMATCH, true, "branch outcomes after OVF before any address [PTREF 9.6]");
    if (flow->async)
        COFI_TRY(cofi__take_overflows_fup(flow));
    if (flow->space_due) /* where they lead is seen in the new one */
        return STEP_ON;
    if (flow->async || flow->far)
        return cofi__lose(flow, COFI_ERR_MISMATCH, true, "branch outcomes where an event's TIP is due [PTREF 9.4]");
    if (!flow->enabled)
        return bits_while_off(flow);
    return cofi__run_bits(flow, tip_is_branch(flow));
}

/* Fuzzers that decode in place (libxdc) mark the end of a trace by a byte that no packet begins with. */
static bool is_end_mark(const struct cofi_flow *flow)
{
    const struct source *s = &flow->s;
    return flow->config.gen == COFI_PT && s->eof && s->end - s->p == 1 && !source_ends_at_break(s) &&
           *s->p == COFI_PT_END_MARK;
}

static int bad_packet(struct cofi_flow *flow)
{
    bool cut = flow->packet_error == COFI_ERR_TRUNCATED;
    if (cut && source_ends_at_break(&flow->s))
        return cofi__pt_break(flow);
    if (is_end_mark(flow)) {
        flow->s.p++;
        return STEP_ON;
    }
    flow->in_psb = false;
    flow->used.offset = flow->packet_offset = source_offset(&flow->s);
    if (flow->lost) { /* the way is lost already: now the packets are, too */
        flow->gap.any_tip = false;
    }
    COFI_TRY(cofi__lose(flow, cut ? COFI_ERR_TRUNCATED : COFI_ERR_BAD_PACKET, false,
                        cut ? "the bytes end inside a packet"
                            : "reserved header or encoding [SDM Trace Packets And Data Types]"));
    flow->enabled = false;
    cofi__resync(flow);
    if (source_offset(&flow->s) < flow->gap.offset)
        flow->gap.offset = source_offset(&flow->s);
    return STEP_ON;
}

static int finish(struct cofi_flow *flow)
{
    if (flow->ended)
        return STEP_END;
    flow->ended = true;
    flow->used.offset = flow->packet_offset = source_offset(&flow->s);
    COFI_TRY(cofi__rtit_release(flow));
    COFI_TRY(cofi__settle(flow));
    COFI_TRY(cofi__pend_flush(flow, COFI_NO_IP));
    if (cofi__fup_is_doubtful(flow))
        COFI_TRY(cofi__show_without_place(flow));
    if (flow->overflow) {
        struct cofi_flow_event event = cofi__event(flow, COFI_FLOW_OVERFLOW, flow->ovf.offset);
        event.since = flow->ovf.ticks;
        flow->overflow = false;
        COFI_TRY(cofi__emit_event(flow, &event));
    }
    if (flow->config.ends_in_overflow) {
        struct cofi_flow_event event = cofi__event(flow, COFI_FLOW_OVERFLOW, flow->packet_offset);
        event.since = flow->clock.exact;
        COFI_TRY(cofi__emit_event(flow, &event));
    }
    COFI_TRY(cofi__found(flow));
    return STEP_END;
}

/* Before the first PSB nothing can be read [PTREF 9.1]. */
static int start(struct cofi_flow *flow)
{
    uint64_t from = source_offset(&flow->s);
    flow->used.offset = flow->packet_offset = from;
    if (flow->config.synced && flow->config.gen == COFI_PT && !cofi__at_psb(flow)) {
        flow->started = flow->headless = true;
        flow->waits.outcomes_before = true; /* before the first byte, for all that is known */
        flow->tail = TNT_SHORT;
        return STEP_ON;
    }
    bool hit = cofi__sync_here(flow), read_on = hit || source_ends_at_break(&flow->s);
    if (hit && flow->config.start > source_offset(&flow->s)) {
        COFI_TRY(cofi__flow_catch_up(flow, flow->config.start));
        from = flow->first_offset = flow->used.offset = flow->packet_offset = source_offset(&flow->s);
    }
    uint64_t at = source_offset(&flow->s);
    flow->started = true;
    if (at == from)
        return STEP_ON;
    COFI_TRY(cofi__lose(
        flow, COFI_ERR_NO_SYNC, false,
        read_on
            ? "bytes before the first PSB [PTREF 9.1]"
            : "up to the end; if this is the rest of a trace, decode it together with what was before [PTREF 9.1]"));
    if (!hit)
        return STEP_ON;
    flow->packet_offset = at;
    flow->ended = false;
    COFI_TRY(cofi__found(flow));
    return STEP_ON;
}

static int act(struct cofi_flow *flow)
{
    if (tip_is_branch(flow)) {
        COFI_TRY(cofi__settle(flow));
        if (flow->pend.n)
            COFI_TRY(cofi__let_pwre_go(flow));
        return cofi__run_bits(flow, true);
    }
    cofi__span_break(flow);
    flow->used.offset = flow->packet_offset;
    flow->used.ticks = flow->clock.now;
    return flow->config.gen == COFI_PT ? cofi__pt_act(flow) : cofi__rtit_act(flow);
}

static int step(struct cofi_flow *flow)
{
    if (!flow->sieved)
        cofi__sieve_enter(flow);
    if (cofi__span_go(flow) || cofi__ahead(flow))
        return STEP_ON;
    unsigned n = flow->n;
    enum pump_result got = flow->has_packet ? PUMP_PACKET : pump(flow);
    flow->full = got == PUMP_FULL && flow->n > n; /* no progress: a long TNT needs all the room */
    if (flow->tip_due && got != PUMP_END)
        return cofi__run_due_tip(flow);
    if (flow->n && flow->lost) {
        flow->n = 0;
        flow->waits.outcomes_before = true;
        flow->waits.passed = false;
    }
    if (flow->n)
        return use_bits(flow);
    if (flow->has_packet)
        return act(flow);
    if (got == PUMP_END)
        return source_ends_at_break(&flow->s) ? cofi__pt_break(flow) : finish(flow);
    return got == PUMP_BAD ? bad_packet(flow) : STEP_ON;
}

/* No room for what a step may add, or code changed since the batch began. */
static bool batch_done(const struct cofi_flow *flow)
{
    const struct cofi_flow_batch *b = flow->out.batch;
    return flow->out.spill_n || flow->out.batch_long || b->blocks_n + RUN_BLOCKS + RUN_COPY > b->blocks_max ||
           b->events_n + 8 > b->events_max;
}

static int prepare(struct cofi_flow *flow)
{
    if (!flow->out.spill_n && !flow->cache.keep && cofi__cache_full(flow))
        cofi__cache_flush(flow);
    flow->cache.chunks_seen = flow->cache.chunks.used;
    if (flow->space_due && !flow->out.spill_n)
        COFI_TRY(cofi__space_set(flow));
    if (flow->code_due && !flow->out.spill_n)
        COFI_TRY(code_change(flow));
    return flow->started ? 0 : start(flow);
}

/* Since it was looked at: asked at every step. */
static bool cache_grew(const struct cofi_flow *flow) { return flow->cache.chunks.used != flow->cache.chunks_seen; }

int cofi_flow_next(struct cofi_flow *flow, struct cofi_flow_batch *batch)
{
    batch->blocks_n = batch->events_n = 0;
    flow->out.batch = batch;
    flow->out.batch_long = false;
    if (batch->times)
        cofi__sieve_leave(flow);
    flow->out.batch_offset = flow->sieved ? cofi__sieve_begin(flow) : source_offset(&flow->s);
    cofi__spill_drain(flow);
    int status = flow->status < 0 ? flow->status : prepare(flow);
    while (status >= 0 && !batch_done(flow) && !flow->code_due && !flow->space_due && !flow->paused &&
           status != STEP_END) {
        if (!flow->cache.keep && cache_grew(flow) && cofi__cache_full(flow) && (batch->blocks_n || batch->events_n))
            break;
        status = step(flow);
        if (flow->status < 0)
            status = flow->status;
    }
    flow->out.batch = NULL;
    if (status < 0)
        return flow->status = status;
    return batch->blocks_n || batch->events_n || !flow->ended || flow->out.spill_n || flow->code_due || flow->space_due;
}

/* ---- coverage ---- */

int cofi__flow_cover(struct cofi_flow *flow)
{
    int status = flow->status < 0 ? flow->status : prepare(flow);
    while (status >= 0 && status != STEP_END && !flow->paused) {
        if (flow->code_due || flow->space_due || cache_grew(flow))
            status = prepare(flow);
        if (status >= 0)
            status = step(flow);
        if (flow->status < 0)
            status = flow->status;
    }
    return status < 0 ? flow->status = status : 0;
}

/* ---- asking, and starting afresh ---- */

uint64_t cofi_flow_offset(const struct cofi_flow *flow)
{
    return flow->sieved ? cofi__sieve_offset(flow) : source_offset(&flow->s);
}


struct cofi_view *cofi_flow_view(struct cofi_flow *flow) { return flow->code.view; }
uint32_t cofi_flow_generation(const struct cofi_flow *flow) { return flow->cache.generation; }

void cofi_flow_stats(const struct cofi_flow *flow, struct cofi_flow_stats *stats)
{
    *stats = flow->stats;
    stats->bytes = cofi_flow_offset(flow) - flow->first_offset;
    stats->last_ticks = flow->clock.now;
    stats->cache_bytes = cofi__cache_bytes(flow);
    stats->runs = flow->cache.runs_n;
}

void cofi__flow_restart(struct cofi_flow *flow, uint64_t skip)
{
    memset(&flow->pend, 0, sizeof flow->pend);
    flow->bits = 0;
    flow->n = 0;
    flow->enabled = flow->has_packet = flow->lost = flow->async = flow->far = flow->tip_due = false;
    flow->overflow = flow->rtit.stopped = flow->rtit.stop_was_last = flow->synced = flow->headless = flow->ovf.before =
        flow->in_psb = flow->ended = flow->tentative = false;
    flow->unknown = flow->pgd_held = flow->just_overflowed = flow->time_hidden = flow->started = flow->in_tx = false;
    flow->cur = NULL;
    flow->last_run = NULL;
    flow->rtit.last_end = 0;
    flow->waits.outcomes_before = flow->waits.passed = flow->waits.came = flow->waits.trusted = false;
    flow->waits.forced_bits = flow->stats.tnt_bits;
    flow->code.cr3 = flow->code.vmcs = flow->last_ip = flow->code.seen_ns = 0;
    if (flow->code.space)
        ret_drop_sites(flow);
    flow->code.space = 0;
    flow->code.view = flow->code.views[0];
    flow->space_due = false;
    flow->code.non_root = flow->code.missed = flow->last_ip_valid = false;
    flow->cbr = flow->rtit.pg = flow->rtit.ecbr = 0;
    flow->out.prev_hash = 0;
    flow->idle.runs = 0;
    flow->idle.mark = NULL;
    flow->out.spill_n = flow->out.spill_at = 0;
    ret_clear(flow);
    begin(flow, skip);
}

int cofi__flow_rewind_code(struct cofi_flow *flow)
{
    if (!flow->code.changed)
        return 0;
    struct cofi_view *view;
    COFI_TRY(cofi__flow_view_open(flow, &view, flow->config.image));
    for (unsigned i = 0; i < flow->code.spaces; i++)
        cofi_view_close(flow->code.views[i]);
    flow->code.views[0] = flow->code.view = view;
    flow->code.spaces = 1;
    flow->code.space = 0;
    flow->code.viewed_ns[0] = 0;
    flow->code.changed = flow->code_due = false;
    if (flow->cache.keep)
        cofi__cache_kill(flow);
    else
        cofi__cache_flush(flow);
    return 0;
}

int cofi_flow_bytes(struct cofi_flow *flow, const uint8_t *bytes, size_t n)
{
    if (flow->config.pull)
        return COFI_ERR_UNSUPPORTED;
    COFI_TRY(cofi__flow_rewind_code(flow));
    flow->config.bytes = bytes;
    flow->config.n = n;
    cofi__flow_restart(flow, 0);
    return 0;
}

int cofi__flow_afresh_at(struct cofi_flow *flow, uint64_t offset)
{
    if (flow->config.pull)
        flow->config.offset = offset;
    int level = flow->spans.level, score = flow->spans.score; /* the same stream: what pays is known */
    cofi__flow_restart(flow, offset - flow->config.offset);
    flow->spans.level = level;
    flow->spans.score = score;
    return 0;
}

int cofi__flow_go_on_at(struct cofi_flow *flow, uint64_t offset)
{
    COFI_TRY(cofi__flow_afresh_at(flow, offset));
    flow->started = flow->speculative = true;
    return 0;
}
