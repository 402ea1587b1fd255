/* SPDX-License-Identifier: MIT
 * Blocks and events -> the caller's batch, or behind it where it is full. */
#include "flow/walker.h"

#include <stdlib.h>

#include "base/error.h"
#include "flow/lists.h"

uint64_t cofi__ns(const struct cofi_flow *flow, uint64_t ticks)
{
    const struct cofi_time_conv *conv = &flow->config.time.conv;
    return conv->mult ? cofi_time_ns(conv, ticks) : ticks;
}

/* Add to a counter of the map. */
void cofi__edge(struct cofi_flow *flow, uint32_t index, uint64_t count)
{
    struct cofi_flow_coverage *coverage = flow->out.coverage;
    coverage->edges += count;
    if (!coverage->map)
        return;
    uint8_t *at = &coverage->map[index & (coverage->map_size - 1)];
    if (!coverage->saturate)
        *at = (uint8_t)(*at + count);
    else
        *at = count > 255u - *at ? 255 : (uint8_t)(*at + count);
}

static struct spill_item *spill_one(struct cofi_flow *flow)
{
    if (flow->out.spill_n == flow->out.spill_max) {
        size_t max = flow->out.spill_max ? flow->out.spill_max * 2 : 64;
        struct spill_item *spill = realloc(flow->out.spill, max * sizeof *spill);
        if (!spill) {
            flow->status = COFI_ERR_NOMEM;
            return NULL;
        }
        flow->out.spill = spill;
        flow->out.spill_max = max;
    }
    return &flow->out.spill[flow->out.spill_n++];
}

static bool put_block(struct cofi_flow *flow, const struct block *block, struct cofi_flow_stamp stamp)
{
    struct cofi_flow_batch *batch = flow->out.batch;
    if (batch->blocks_n >= batch->blocks_max)
        return false;
    if (batch->times)
        batch->times[batch->blocks_n] = stamp;
    if (writes_down(flow))
        note_edges(flow, block->hash, block->hash);
    if (flow->out.lists)
        flow->out.lists[flow->out.lists_n++] = list_word(block, LIST_BLOCK);
    else if (batch->blocks)
        batch->blocks[batch->blocks_n] = &block->pub;
    batch->blocks_n++;
    return true;
}

/* Transitions that no branch made are no edges. */
static bool breaks_edges(uint8_t kind)
{
    return kind == COFI_FLOW_ENABLED || kind == COFI_FLOW_DISABLED || kind == COFI_FLOW_ASYNC ||
           kind == COFI_FLOW_ASYNC_DISABLED || kind == COFI_FLOW_OVERFLOW || kind == COFI_FLOW_GAP;
}

void cofi__write_down(struct cofi_flow *flow, uint64_t word)
{
    flow->out.lists[flow->out.lists_n++] = word;
    flow->out.batch->blocks_n++;
}

static bool put_event(struct cofi_flow *flow, const struct cofi_flow_event *event)
{
    struct cofi_flow_batch *batch = flow->out.batch;
    if (batch->events_n >= batch->events_max)
        return false;
    batch->events[batch->events_n] = *event;
    batch->events[batch->events_n++].at = batch->blocks_n;
    if (writes_down(flow) && breaks_edges(event->kind)) {
        cofi__write_down(flow, list_word(NULL, LIST_BREAK));
        flow->out.prev_hash = 0;
    }
    return true;
}

struct cofi_flow_stamp cofi__stamp(struct cofi_flow *flow)
{
    uint64_t ticks = cofi__clock_ticks(&flow->clock);
    return (struct cofi_flow_stamp){ticks, flow->clock.interpolated};
}

int cofi__emit_block(struct cofi_flow *flow, struct block *block)
{
    if (!block)
        return flow->status;
    flow->stats.insns += block->pub.n;
    flow->stats.blocks++;
    if (flow->out.counting) {
        block->count++;
        edge_to(flow, block->hash, block->hash);
        return 0;
    }
    struct cofi_flow_stamp stamp = flow->out.batch->times ? cofi__stamp(flow) : (struct cofi_flow_stamp){0};
    if (!flow->out.spill_n && put_block(flow, block, stamp))
        return 0;
    struct spill_item *item = spill_one(flow);
    if (!item)
        return COFI_ERR_NOMEM;
    *item = (struct spill_item){.block = block, .stamp = stamp};
    return 0;
}

struct cofi_flow_event cofi__event(struct cofi_flow *flow, enum cofi_flow_event_kind kind, uint64_t offset)
{
    cofi__sieve_leave(flow);
    struct cofi_flow_event event = {.kind = (uint8_t)kind, .offset = offset, .ip = COFI_NO_IP, .target = COFI_NO_IP};
    event.time.ticks = cofi__clock_ticks(&flow->clock);
    event.time.known = flow->clock.known;
    event.time.interpolated = flow->clock.interpolated;
    if (flow->config.time.conv.mult && event.time.known)
        event.time.ns = cofi__ns(flow, event.time.ticks);
    return event;
}

/* Who looks for an end (a time, a key pressed) is not kept waiting where a trace says little. */
enum { BATCH_BYTES = 1 << 20 };

static bool is_last_in_batch(const struct cofi_flow *flow, const struct cofi_flow_event *event)
{
    const struct cofi_flow_config *c = &flow->config;
    return source_offset(&flow->s) - flow->out.batch_offset > BATCH_BYTES ||
           (c->pause_offset && event->offset > c->pause_offset) ||
           (c->pause_ns && event->time.known && event->time.ns > c->pause_ns);
}

int cofi__emit_event(struct cofi_flow *flow, const struct cofi_flow_event *event)
{
    flow->stats.events++;
    flow->stats.gaps += event->kind == COFI_FLOW_GAP;
    flow->stats.overflows += event->kind == COFI_FLOW_OVERFLOW;
    flow->last_run = NULL;
    flow->spans.draft.on = false;
    if (breaks_edges(event->kind) && !writes_down(flow))
        flow->out.prev_hash = 0;
    if (flow->out.counting)
        return 0;
    flow->out.batch_long = is_last_in_batch(flow, event);
    if (!flow->out.spill_n && put_event(flow, event))
        return 0;
    struct spill_item *item = spill_one(flow);
    if (!item)
        return COFI_ERR_NOMEM;
    *item = (struct spill_item){.event = *event};
    return 0;
}

/* Into a new batch what did not fit into the last. */
void cofi__spill_drain(struct cofi_flow *flow)
{
    while (flow->out.spill_at < flow->out.spill_n) {
        const struct spill_item *item = &flow->out.spill[flow->out.spill_at];
        if (item->block ? !put_block(flow, item->block, item->stamp)
                        : !put_event(flow, &item->event))
            return;
        flow->out.spill_at++;
    }
    flow->out.spill_at = flow->out.spill_n = 0;
}
