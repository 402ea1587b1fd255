/* SPDX-License-Identifier: MIT
 * The enables, and the packets of all that moves execution [PTREF 6.2; PTREF 6.3; PTREF 6.4]. */
#include "reference/hw.h"

bool hw_trigger(const struct hw *h) { return h->trace_en && !h->stopped; }
bool hw_traced(const struct hw *h) { return hw_trigger(h) && h->context_en; }
bool hw_packet_en(const struct hw *h) { return hw_trigger(h) && h->context_en && h->filter_en && h->config.branch; }
unsigned hw_mode(const struct hw *h) { return h->code.segments[h->segment].mode; }

static bool in_range(const struct hw_config *c, unsigned use, uint64_t ip, bool none)
{
    bool any = false, inside = false;
    for (unsigned i = 0; i < 4; i++) {
        any |= c->range_use[i] == use;
        inside |= c->range_use[i] == use && ip >= c->range_base[i] && ip <= c->range_limit[i];
    }
    return any ? inside : none;
}

bool hw_stops(const struct hw *h, uint64_t ip) { return in_range(&h->config, 2, ip, false); }

/* [SDM Context Enable (ContextEn)]; FilterEn follows where execution goes, in contexts that are traced. */
void hw_context(struct hw *h, uint64_t ip)
{
    bool user = h->code.segments[h->segment].cpl > 0;
    h->context_en = (user ? h->config.user : h->config.os) && !(h->config.cr3_filter && h->cr3 != 0x1000) && h->enclave != HW_PRODUCTION;
    if (hw_trigger(h) && h->context_en)
        h->filter_en = in_range(&h->config, 1, ip, true);
}

struct hw_move hw_move(const struct hw *h, uint64_t to)
{
    return (struct hw_move){.from = h->ip, .to = to, .segment = h->segment, .cr3 = h->cr3, .nr = h->nr, .iflag = h->iflag,
        .enclave = h->enclave, .cfe = -1};
}

/* ---- Event Trace [PTREF 6.7] ---- */

static bool put_evd(struct hw *h, unsigned type)
{
    uint8_t bytes[11] = {0x02, 0x53, (uint8_t)type};
    struct hw_event e = hw_event(COFI_FLOW_EVD, COFI_NO_IP, COFI_NO_IP);
    e.a = (uint8_t)type;
    e.value = hw_random(&h->seed) | 1;
    for (unsigned i = 0; i < 8; i++)
        bytes[3 + i] = (uint8_t)(e.value >> 8 * i);
    if (!hw_packet(h, false, bytes, 11))
        return false;
    hw_truth_wait(h, e);
    return true;
}

/* With an address of its own where nothing else tells it, or where it is a transfer's. */
static void put_cfe(struct hw *h, const struct hw_move *mv, bool packets)
{
    struct hw_event e = hw_event(COFI_FLOW_CFE, COFI_NO_IP, COFI_NO_IP);
    e.a = (uint8_t)mv->cfe;
    e.b = (uint8_t)mv->vector;
    e.c = mv->cfe != 5 && (mv->how == HW_FAR || !packets) && hw_below(&h->seed, 2);
    if (!hw_packet(h, false, (const uint8_t[]){0x02, 0x13, (uint8_t)(e.c << 7 | e.a), e.b}, 4))
        return;
    hw_truth_wait(h, e);
    if (e.c && hw_ip(h, HW_FUP, mv->from))
        hw_truth_flush(h, mv->from);
    else if (!e.c && !packets)
        hw_truth_flush(h, COFI_NO_IP);
}

static void event_trace(struct hw *h, const struct hw_move *mv, bool packets)
{
    if (!h->config.event || mv->cfe < 0 || !hw_trigger(h) || !h->context_en)
        return;
    if (mv->cfe == 1 && mv->vector == 14 && !put_evd(h, 0))
        return;
    if (mv->cfe == 8 && !(put_evd(h, 1) && put_evd(h, 2)))
        return;
    put_cfe(h, mv, packets);
}

/* ---- arriving, leaving, entering ---- */

static void arrive(struct hw *h, const struct hw_move *mv)
{
    if (mv->how == HW_DIRECT)
        return;
    if (mv->how == HW_COND || mv->how == HW_COMPRESSED) {
        if (!h->wire.losing && !h->wire.adrift)
            h->truth.compressed[h->truth.n - 1] = mv->how == HW_COMPRESSED;
        hw_tnt(h, true);
        return;
    }
    bool ret = hw_code_find(&h->code, mv->from)->kind == HW_RET;
    if (!hw_tip(h, mv->to ^ mv->wrong, mv->how == HW_INDIRECT && !ret) || mv->how == HW_INDIRECT)
        return;
    if (mv->how >= HW_EVENT) {
        hw_truth_flush(h, mv->from);
        hw_truth_add(h, hw_event(COFI_FLOW_ASYNC, mv->from, mv->to));
    }
    hw_truth_target(h, mv->to);
}

/* A conditional branch's TIP.PGD has no address, and one out of context has none. */
void hw_leave(struct hw *h, const struct hw_move *mv)
{
    bool told = h->context_en && mv->how != HW_COND && mv->how != HW_COMPRESSED, async = mv->how >= HW_EVENT;
    if (mv->how == HW_DIRECT && hw_has_skl014(h))
        told &= hw_below(&h->seed, 2);
    h->rets_n = 0;
    h->beyond_libipt |= mv->how == HW_COND || mv->how == HW_COMPRESSED; /* it does not always find that branch */
    if (!(told ? hw_ip(h, HW_PGD, mv->to) : hw_no_ip(h, HW_PGD)))
        return;
    if (async)
        hw_truth_flush(h, mv->from);
    hw_truth_target(h, COFI_NO_IP);
    hw_truth_add(h, hw_event(async ? COFI_FLOW_ASYNC_DISABLED : COFI_FLOW_DISABLED, mv->from, told ? mv->to : COFI_NO_IP));
    h->truth.disabled_ip = mv->from;
    h->truth.enabled = false;
}

void hw_enter(struct hw *h, uint64_t to)
{
    h->rets_n = 0;
    if (!hw_ip(h, HW_PGE, to))
        return;
    hw_truth_overflow(h, COFI_NO_IP);
    hw_truth_target(h, to);
    hw_truth_add(h, hw_event(COFI_FLOW_ENABLED, h->truth.disabled_ip, to));
    h->truth.enabled = true;
}

/* [SDM Filtering by IP]: a TraceStop range is reached. */
void hw_stop(struct hw *h)
{
    if (h->wire.losing)
        hw_overflow_alone(h);
    if (hw_short(h, false, 0x02, 0x83))
        hw_truth_somewhere(h, hw_event(COFI_FLOW_STOP, h->truth.disabled_ip, COFI_NO_IP));
    h->stopped = true;
    h->filter_en = false;
    h->rets_n = 0;
}

unsigned hw_mode_byte(const struct hw *h)
{
    unsigned mode = hw_mode(h);
    return (mode == 64 ? 1 : mode == 32 ? 2 : 0) | (h->config.event && h->iflag ? 4 : 0);
}

/* What changes at the target; PIP and MODE.Exec in any order. */
static void changes(struct hw *h, bool before, bool pip, bool mode)
{
    bool mode_first = hw_below(&h->seed, 4) == 0;
    if (mode && mode_first && !hw_mode_exec(h))
        return;
    if (pip && !hw_pip(h))
        return;
    if (pip && !before)
        hw_truth_paging(h, COFI_NO_IP);
    if (mode && !mode_first)
        hw_mode_exec(h);
}

static bool mode_is_due(const struct hw *h, const struct hw_move *mv, bool before, bool after)
{
    if (!after || (before && mv->how < HW_FAR))
        return false;
    return h->mode_sent != hw_mode_byte(h) || h->config.mode_always;
}

/* The rest of INIT, and the wait for a SIPI: with packets on, a FUP has come and a TIP* comes only then [PTREF 6.3; PTREF 6.5]. */
static void await_sipi(struct hw *h, const struct hw_move *mv, bool trigger, bool before)
{
    bool filter = h->filter_en;
    h->segment = mv->segment;
    h->cr3 = mv->cr3;
    hw_context(h, h->ip);
    h->filter_en = filter;
    if (before && trigger && h->config.os && h->context_en)
        hw_pip(h);
    if (hw_below(&h->seed, 2))
        hw_halts(h);
    for (unsigned n = hw_below(&h->seed, 4); n; n--)
        hw_tick(h);
    struct hw_move sipi = {.how = HW_EVENT, .cfe = 5, .vector = (unsigned)(mv->to >> 12 & 0xff)};
    event_trace(h, &sipi, before);
}

void hw_go(struct hw *h, struct hw_move mv)
{
    bool trigger = hw_trigger(h), before = hw_packet_en(h);
    event_trace(h, &mv, before);
    if (before && mv.how < HW_EVENT)
        hw_ran(h, mv.from);
    if (before && mv.how >= HW_EVENT && hw_ip(h, HW_FUP, mv.from))
        hw_truth_found(h, mv.from);
    if (mv.sipi)
        await_sipi(h, &mv, trigger, before);
    h->ip = mv.to;
    h->segment = mv.segment;
    h->cr3 = mv.cr3;
    h->nr = mv.nr;
    h->iflag = mv.iflag;
    h->enclave = mv.enclave;
    hw_context(h, mv.to);
    bool stopping = trigger && h->context_en && hw_stops(h, mv.to), after = hw_packet_en(h) && !stopping;
    changes(h, before, mv.pip && trigger && h->config.os && h->context_en, mode_is_due(h, &mv, before, after));
    if (before && after)
        arrive(h, &mv);
    else if (before)
        hw_leave(h, &mv);
    else if (after)
        hw_enter(h, mv.to);
    if (stopping)
        hw_stop(h);
}
