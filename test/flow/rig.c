/* SPDX-License-Identifier: MIT
 * Code + trace bytes + configuration -> what the flow says, as text. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rig.h"

static size_t hex(const char *text, uint8_t *out)
{
    size_t n = 0;
    for (const char *p = text; *p;) {
        unsigned v;
        int used;
        if (*p == ' ' || *p == '\n') {
            p++;
        } else if (*p == 'R') {
            memset(out + n, 0, 9);
            out[n] = 0xc0;
            n += 9;
            p++;
        } else if (*p == 'P' || *p == 'H') {
            for (int i = 0; i < 8; i++) {
                out[n++] = 2;
                out[n++] = 0x82;
            }
            if (*p++ == 'H')
                n += hex("0223 9901 71001040000000", out + n);
        } else {
            int ok = sscanf(p, "%2x%n", &v, &used);
            assert(ok == 1 && used == 2);
            out[n++] = (uint8_t)v;
            p += 2;
        }
    }
    return n;
}

void rig_code(struct rig *rig, uint64_t time, uint64_t addr, const char *code)
{
    uint8_t bytes[4096];
    size_t n = hex(code, bytes);
    int status = cofi_image_map_bytes(rig->image, time, addr, bytes, n, "code");
    assert(status == 0);
    (void)status;
}

void rig_open(struct rig *rig, enum cofi_gen gen, uint64_t addr, const char *code)
{
    memset(rig, 0, sizeof *rig);
    cofi_flow_config_init(&rig->config, gen);
    int status = cofi_image_open(&rig->image);
    assert(status == 0);
    (void)status;
    if (code)
        rig_code(rig, 0, addr, code);
}

void rig_close(struct rig *rig)
{
    cofi_image_close(rig->image);
    free(rig->piece_copy);
}

void rig_trace(struct rig *rig, const char *text)
{
    rig->n = hex(text, rig->trace);
}

static const uint8_t *pull(void *opaque, size_t *n)
{
    struct rig *rig = opaque;
    size_t left = rig->n - rig->piece_at;
    *n = left < rig->piece ? left : rig->piece;
    free(rig->piece_copy);
    rig->piece_copy = malloc(*n ? *n : 1);
    memcpy(rig->piece_copy, rig->trace + rig->piece_at, *n);
    rig->piece_at += *n;
    return rig->piece_copy;
}

static char *put(struct rig *rig, char *at, const char *format, uint64_t v)
{
    return at + snprintf(at, sizeof rig->text - (size_t)(at - rig->text), format, v);
}

static char *put_event(struct rig *rig, char *at, const struct cofi_flow_event *e)
{
    at += sprintf(at, "[%s", cofi_flow_event_name(e->kind));
    if (rig->offsets)
        at = put(rig, at, "@%lu", e->offset);
    if (e->ip != COFI_NO_IP)
        at = put(rig, at, " %lx", e->ip);
    if (e->target != COFI_NO_IP)
        at = put(rig, at, " >%lx", e->target);
    if (e->a || e->b || e->c)
        at += sprintf(at, " a%x b%x c%x", e->a, e->b, e->c);
    if (e->value)
        at = put(rig, at, " v%lx", e->value);
    if (e->kind == COFI_FLOW_GAP)
        at += sprintf(at, " %s", cofi_error_name(e->cause));
    at += sprintf(at, "] ");
    return at;
}

static char *put_batch(struct rig *rig, char *at, const struct cofi_flow_batch *batch, bool events)
{
    struct cofi_flow_cursor cursor = {0};
    struct cofi_flow_insn insns[7];
    for (size_t e = 0; e <= batch->events_n; e++) {
        size_t until = e < batch->events_n ? batch->events[e].at : batch->blocks_n, n;
        do {
            n = cofi_flow_insns(batch, &cursor, until, insns, 7);
            for (size_t i = 0; i < n; i++)
                at = put(rig, at, "%lx ", insns[i].ip);
        } while (n);
        if (e < batch->events_n && events)
            at = put_event(rig, at, &batch->events[e]);
    }
    return at;
}

static struct cofi_flow *begin(struct rig *rig)
{
    struct cofi_flow *flow;
    rig->config.image = rig->image;
    rig->config.opaque = rig;
    rig->piece_at = 0;
    if (rig->piece) {
        rig->config.pull = pull;
    } else {
        rig->config.bytes = malloc(rig->n ? rig->n : 1);
        memcpy((uint8_t *)rig->config.bytes, rig->trace, rig->n);
        rig->config.n = rig->n;
    }
    int status = cofi_flow_open(&flow, &rig->config);
    assert(status == 0);
    *rig->text = 0;
    return flow;
}

static void end(struct rig *rig, struct cofi_flow *flow)
{
    cofi_flow_close(flow);
    if (!rig->piece)
        free((uint8_t *)rig->config.bytes);
    rig->config.bytes = NULL;
    rig->config.pull = NULL;
}

static const char *run(struct rig *rig, bool events)
{
    static const struct cofi_flow_block *blocks[COFI_FLOW_BATCH_MIN];
    struct cofi_flow_event some[16];
    struct cofi_flow_batch batch = {.blocks = blocks, .blocks_max = COFI_FLOW_BATCH_MIN, .events = some, .events_max = 16};
    struct cofi_flow *flow = begin(rig);
    int status;
    char *at = rig->text;
    while ((status = cofi_flow_next(flow, &batch)) > 0 && at < rig->text + sizeof rig->text - (1 << 18))
        at = put_batch(rig, at, &batch, events);
    assert(status >= 0);
    end(rig, flow);
    if (at > rig->text)
        at[-1] = 0;
    return rig->text;
}

const char *rig_run(struct rig *rig) { return run(rig, true); }

size_t rig_seeks(struct rig *rig, const uint64_t (*times)[2], size_t n)
{
    struct cofi_flow *flow;
    size_t i = 0;
    rig->config.image = rig->image;
    rig->config.bytes = rig->trace;
    rig->config.n = rig->n;
    if (cofi_flow_open(&flow, &rig->config))
        return 0;
    while (i < n && !cofi_flow_seek_time(flow, times[i][0]) && cofi_flow_offset(flow) == times[i][1])
        i++;
    cofi_flow_close(flow);
    return i;
}
const char *rig_insns(struct rig *rig) { return run(rig, false); }

static void put_outcome(void *opaque, const struct cofi_flow_block *block, bool taken, uint64_t count)
{
    struct rig *rig = opaque;
    char *at = rig->text + strlen(rig->text);
    sprintf(at, "%s%lx%c%lu", at > rig->text ? " " : "", block->ip, taken ? '+' : '-', count);
}

const char *rig_outcomes(struct rig *rig)
{
    struct cofi_flow *flow = begin(rig);
    struct cofi_flow_coverage coverage = {.outcome = put_outcome, .opaque = rig};
    int status = cofi_flow_cover(flow, &coverage);
    assert(status == 0);
    end(rig, flow);
    return rig->text;
}
