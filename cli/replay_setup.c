/* SPDX-License-Identifier: MIT
 * The unit's configuration for a replay: as the input tells it, or as the packets and the flow show it. */
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "replay.h"

/* ---- told ---- */

static void take_ranges(struct replay_setup *setup, const struct ranges *ranges)
{
    if (!ranges->known)
        return;
    setup->ranges = *ranges;
    setup->ctl = (setup->ctl & ~PT_ADDR_CFG) | ranges->cfg;
}

static void take_recording(struct replay_setup *setup, const struct session_stream *stream)
{
    const struct cofi_recording *recording = session_recording(stream->session);
    const struct cofi_recording_info *info = recording ? cofi_recording_info(recording) : NULL;
    if (!info)
        return;
    setup->ctl = info->config & ~PT_ADDR_CFG;
    setup->ctl_known = true;
    struct ranges ranges = ranges_of(recording, stream->tid < 0 ? -1 : stream->pid);
    take_ranges(setup, &ranges);
}

static void take_registers(struct replay_setup *setup, const struct registers *registers)
{
    struct registers copy = *registers;
    struct cofi_flow_config config = {.gen = COFI_PT};
    registers_apply(&copy, &config);
    if (config.ctl_known) {
        setup->ctl = config.ctl;
        setup->ctl_known = true;
    }
    if (!config.ranges_known)
        return;
    setup->ranges.known = true;
    setup->ranges.cfg = config.ctl & PT_ADDR_CFG;
    memcpy(setup->ranges.base, config.range_base, sizeof setup->ranges.base);
    memcpy(setup->ranges.limit, config.range_limit, sizeof setup->ranges.limit);
}

/* Does anything say that there are filters, though not where? */
static bool filtered(const struct replay_setup *setup, const struct session_stream *stream)
{
    const struct cofi_recording *recording = session_recording(stream->session);
    return setup->ctl & PT_ADDR_CFG || (recording && (cofi_recording_info(recording)->filter ||
                                              cofi_recording_info(recording)->config & PT_ADDR_CFG));
}

void replay_setup_told(struct replay_setup *setup, const struct session_stream *stream,
                       const struct registers *registers, const uint64_t *ctl, const struct ranges *ranges)
{
    *setup = (struct replay_setup){0};
    take_recording(setup, stream);
    take_registers(setup, registers);
    if (ctl) {
        setup->ctl = *ctl & PT_ADDR_CFG ? *ctl : *ctl | setup->ranges.cfg;
        setup->ctl_known = true;
    }
    take_ranges(setup, ranges);
    setup->unfiltered = setup->ctl_known && !setup->ranges.known && !filtered(setup, stream);
    if (!setup->ranges.known)
        setup->ctl &= ~PT_ADDR_CFG;
}

/* ---- found out: the control register ---- */

/* What a packet says of PT's control register. */
static uint64_t ctl_of(const struct replay_item *item)
{
    bool ip = item->kind == COFI_PT_TIP || item->kind == COFI_PT_TIP_PGE || item->kind == COFI_PT_FUP;
    bool power = item->kind == COFI_PT_PWRE || item->kind == COFI_PT_PWRX || item->kind == COFI_PT_EXSTOP ||
                 item->kind == COFI_PT_MWAIT;
    if (ip && item->more)
        return item->value >> 63 ? PT_OS : PT_USER;
    if (item->kind == COFI_PT_PTW)
        return PT_PTW_EN | (item->more & 2 ? PT_FUP_ON_PTW : 0);
    if (item->kind == COFI_PT_CFE || item->kind == COFI_PT_EVD)
        return PT_EVENT_EN;
    return item->kind == COFI_PT_PIP ? PT_OS : power ? PT_PWR_EVT_EN : 0;
}

int replay_setup_guess(struct replay_setup *setup, struct session_stream *stream)
{
    struct replay_source source;
    uint64_t ctl = PT_BRANCH_EN, offset = 0;
    replay_source_start(&source, stream, setup->errata);
    int status;
    while ((status = replay_source_until(&source, offset)) == 0 && source.list.n) {
        for (size_t i = 0; i < source.list.n; i++)
            ctl |= ctl_of(&source.list.items[i]);
        offset = source.list.items[source.list.n - 1].offset;
        replay_drop(&source.list, source.list.n);
    }
    replay_source_fini(&source);
    setup->ctl |= ctl & (PT_OS | PT_USER) ? ctl : ctl | PT_USER;
    return status;
}

/* ---- found out: the ranges ---- */

struct point {
    uint64_t ip;
    bool inside;
};

struct points {
    struct point *list;
    size_t n, room, tidy_at;
    struct cofi_flow_block last;
    bool pending; /* last's branch has not gone anywhere yet */
    bool stops;   /* a TraceStop packet came, where tracing had left to stop_ip (or to nowhere: 1) */
    uint64_t left_to, stop_ip;
    int status;
};

static void add_point(struct points *points, uint64_t ip, bool inside)
{
    if (array_grow(&points->list, points->n, &points->room, sizeof *points->list))
        points->list[points->n++] = (struct point){ip, inside};
    else
        points->status = COFI_ERR_NOMEM;
}

static int compare_points(const void *a, const void *b)
{
    const struct point *x = a, *y = b;
    return x->ip != y->ip ? (x->ip > y->ip) - (x->ip < y->ip) : x->inside - y->inside;
}

enum { TIDY_AT = 1 << 20 };

/* Sorted, each once; again when there are twice as many. */
static void tidy(struct points *points)
{
    size_t n = 0;
    if (points->n)
        qsort(points->list, points->n, sizeof *points->list, compare_points);
    for (size_t i = 0; i < points->n; i++)
        if (n == 0 || compare_points(&points->list[n - 1], &points->list[i]) != 0)
            points->list[n++] = points->list[i];
    points->n = n;
    points->tidy_at = n > TIDY_AT / 2 ? 2 * n : TIDY_AT;
}

/* FilterEn follows taken branches only; where code was fallen into tells nothing [SDM Filter Enable (FilterEn)]. */
static int add_block(struct points *points, const struct cofi_flow_block *block)
{
    if (points->pending && block->ip != points->last.end)
        add_point(points, block->ip, true);
    if (points->n >= points->tidy_at)
        tidy(points);
    points->pending = true;
    points->last = *block;
    return points->status;
}

static int blocks(void *opaque, struct cofi_flow *flow, const struct cofi_flow_block *const *blocks, size_t n)
{
    (void)flow;
    int status = 0;
    for (size_t i = 0; i < n && !status; i++)
        status = add_block(opaque, blocks[i]);
    return status;
}

static void take_leave(struct points *points, const struct cofi_flow_event *event)
{
    uint8_t kind = (uint8_t)cofi_event_of_class(points->last.cls);
    bool direct = points->pending && kind >= COFI_EV_JCC && kind <= COFI_EV_CALL;
    uint64_t to = event->target;
    if (to == COFI_NO_IP && event->kind == COFI_FLOW_DISABLED && direct)
        to = points->last.target;
    if (to != COFI_NO_IP)
        add_point(points, to, false);
    points->left_to = to != COFI_NO_IP ? to : 1;
}

static int event(void *opaque, struct cofi_flow *flow, const struct cofi_flow_event *event)
{
    (void)flow;
    struct points *points = opaque;
    bool leaves = event->kind == COFI_FLOW_DISABLED || event->kind == COFI_FLOW_ASYNC_DISABLED;
    bool leads = event->kind == COFI_FLOW_ENABLED || event->kind == COFI_FLOW_ASYNC;
    if (leaves)
        take_leave(points, event);
    bool async = event->kind == COFI_FLOW_ASYNC || event->kind == COFI_FLOW_ASYNC_DISABLED;
    if (async && points->pending && event->ip != points->last.end && event->ip != COFI_NO_IP)
        add_point(points, event->ip, true);
    if (leads && event->target != COFI_NO_IP)
        add_point(points, event->target, true);
    if (event->kind == COFI_FLOW_STOP) {
        points->stops = true;
        points->stop_ip = points->left_to;
    }
    if (leaves || leads || event->kind == COFI_FLOW_OVERFLOW || event->kind == COFI_FLOW_GAP)
        points->pending = false;
    return points->status;
}

/* Runs of points inside that no point outside parts; the last TraceStop's place. */
static int ranges_between(struct ranges *ranges, const struct points *points)
{
    unsigned n = 0;
    bool open = false;
    for (size_t i = 0; i < points->n; i++) {
        const struct point *p = &points->list[i];
        if (i > 0 && p->ip == p[-1].ip) /* inside and outside: not by a range */
            return COFI_ERR_RANGE;
        if (p->inside && !open && n++ == RANGES_MAX)
            return COFI_ERR_RANGE;
        if (p->inside)
            ranges_set(ranges, n - 1, open ? ranges->base[n - 1] : p->ip, p->ip, false);
        open = p->inside;
    }
    if (n == 0) /* nothing passes: no address is inside of this */
        ranges_set(ranges, n++, 1, 0, false);
    if (points->stops && n == RANGES_MAX)
        return COFI_ERR_RANGE;
    if (points->stops)
        ranges_set(ranges, n, points->stop_ip, points->stop_ip, true);
    return 0;
}

int replay_setup_ranges(struct replay_setup *setup, struct session_stream *stream)
{
    struct points points = {.left_to = 1, .tidy_at = TIDY_AT};
    struct ranges ranges = {0};
    int status = session_walk(stream, &(struct session_visitor){blocks, event, NULL, &points});
    if (status == 0)
        status = points.status;
    tidy(&points);
    if (status == 0)
        status = ranges_between(&ranges, &points);
    if (status == 0)
        take_ranges(setup, &ranges);
    free(points.list);
    return status;
}
