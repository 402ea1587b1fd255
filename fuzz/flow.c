/* SPDX-License-Identifier: MIT
 * Any trace bytes over any code, both generations, errata, filters, pieces, threads: it ends, no crash, and
 * coverage counts what the blocks say. The code is the input's head. */
#include <cofi/flow.h>
#include <cofi/insn.h>

#include "base/bytes.h"
#include "fuzz.h"

enum { HEAD = 24, CODE = 256, BASE = 0x401000 };

struct feed {
    const uint8_t *bytes;
    size_t n, at, piece;
};

static const uint8_t *pull(void *opaque, size_t *n)
{
    struct feed *feed = opaque;
    *n = feed->n - feed->at < feed->piece ? feed->n - feed->at : feed->piece;
    feed->at += *n;
    return feed->bytes + feed->at - *n;
}

/* Two address spaces: the one that the flow was opened with, and another one in guests and for odd CR3s. */
static struct cofi_image *host, *guest;
static const struct cofi_image *space(void *opaque, uint64_t cr3, uint64_t vmcs, bool non_root)
{
    (void)opaque;
    return non_root || (cr3 ^ vmcs) >> 5 & 1 ? guest : host;
}

static void configure(struct cofi_flow_config *c, const uint8_t *head)
{
    static const uint8_t models[] = {0, 0x3d, 0x5e, 0x55, 0x8f, 0x97, 0x5c, 0x4c};
    cofi_flow_config_init(c, head[0] & 1 ? COFI_RTIT : COFI_PT);
    c->mode = head[0] & 2 ? 32 : head[0] & 4 ? 16 : 64;
    c->family = 6;
    c->model = models[head[1] & 7];
    c->ctl_known = head[0] & 8;
    c->ctl = le64(head + 8);
    c->ranges_known = head[0] & 16;
    c->range_base[0] = BASE + head[2];
    c->range_limit[0] = BASE + head[3];
    c->events = head[4];
    c->time.tsc_num = head[5];
    c->time.tsc_den = head[6];
    c->time.mtc_freq = head[7] & 15;
    c->time.nominal_ratio = head[6];
    c->want_time = head[0] & 32;
    c->cache_bytes = head[0] & 64 ? 700000 : 0;
    c->space = head[1] & 8 ? space : NULL;
    c->synced = head[1] & 16;
    static uint64_t breaks[2];
    breaks[0] = 1 + le16(head + 16) % 1024;
    breaks[1] = breaks[0] + 1 + head[18];
    c->breaks = breaks;
    c->breaks_n = head[1] & 32 ? 2 : 0;
    c->start = head[19] & 1 ? head[20] : 0;
    c->ends_in_overflow = head[19] & 2;
    c->tail = head + 20;
    c->tail_n = head[19] >> 2 & 3;
}

static uint64_t decode(const struct cofi_flow_config *config)
{
    static const struct cofi_flow_block *blocks[COFI_FLOW_BATCH_MIN];
    static struct cofi_flow_event events[16];
    static struct cofi_flow_stamp times[COFI_FLOW_BATCH_MIN];
    struct cofi_flow_batch batch = {.blocks = blocks, .blocks_max = COFI_FLOW_BATCH_MIN, .times = times,
        .events = events, .events_max = 16};
    struct cofi_flow *flow;
    uint64_t insns = 0;
    if (cofi_flow_open(&flow, config) < 0)
        return 0;
    while (cofi_flow_next(flow, &batch) > 0)
        for (size_t i = 0; i < batch.blocks_n; i++)
            insns += batch.blocks[i]->n;
    cofi_flow_close(flow);
    return insns;
}

/* What comes again is decoded as it was the first time. */
static void again(const struct cofi_flow_config *config, uint64_t insns)
{
    static const struct cofi_flow_block *blocks[1024];
    static struct cofi_flow_event events[64];
    struct cofi_flow_batch batch = {.blocks = blocks, .blocks_max = 1024, .events = events, .events_max = 64};
    struct cofi_flow *flow;
    if (cofi_flow_open(&flow, config) < 0)
        return;
    for (int pass = 0; pass < 4; pass++) {
        uint64_t n = 0;
        MUST(cofi_flow_bytes(flow, config->bytes, config->n) == 0);
        while (cofi_flow_next(flow, &batch) > 0)
            for (size_t i = 0; i < batch.blocks_n; i++)
                n += batch.blocks[i]->n;
        MUST(n == insns);
    }
    cofi_flow_close(flow);
}

static int count(void *opaque, struct cofi_flow *flow, const struct cofi_flow_batch *batch)
{
    (void)flow;
    for (size_t i = 0; i < batch->blocks_n; i++)
        *(uint64_t *)opaque += batch->blocks[i]->n;
    return 0;
}

static uint64_t jccs, outcomes;

static void count_jccs(void *opaque, const struct cofi_flow_block *block, uint64_t n)
{
    (void)opaque;
    jccs += block->cls == COFI_CLASS_JCC ? n : 0;
}

static void count_outcomes(void *opaque, const struct cofi_flow_block *block, bool taken, uint64_t n)
{
    (void)opaque;
    (void)taken;
    MUST(block->cls == COFI_CLASS_JCC);
    outcomes += n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct cofi_flow_config config;
    struct cofi_image *image;
    struct cofi_flow *flow;
    if (n < HEAD + CODE || cofi_image_open(&image) < 0)
        return 0;
    MUST(cofi_image_open(&guest) == 0);
    host = image;
    cofi_image_map_bytes(guest, 0, BASE, data + HEAD + CODE / 2, CODE / 2, "guest");
    cofi_image_map_bytes(guest, data[5], BASE + 16, data + HEAD, CODE / 2, "guest, later");
    cofi_image_map_bytes(image, 0, BASE, data + HEAD, CODE / 2, "code");
    cofi_image_map_bytes(image, data[4], BASE + CODE / 2, data + HEAD + CODE / 2, CODE / 2, "later");
    configure(&config, data);
    config.image = image;
    config.bytes = data + HEAD + CODE;
    config.n = n - HEAD - CODE;
    uint64_t insns = decode(&config), many = 0;
    struct cofi_flow_coverage coverage = {.block = count_jccs, .outcome = count_outcomes};
    if (cofi_flow_open(&flow, &config) == 0) {
        jccs = outcomes = 0;
        MUST(cofi_flow_cover(flow, &coverage) < 0 || (coverage.insns == insns && outcomes <= jccs));
        cofi_flow_close(flow);
    }
    if (!config.tail_n) /* it comes once, at the end of the first pass */
        again(&config, insns);
    MUST(!(data[0] & 128) || cofi_flow_parallel(&config, 2, 1, count, &many, NULL) < 0 || many == insns);
    struct feed feed = {config.bytes, config.n, 0, 1 + data[5] % 40u};
    config.opaque = &feed;
    config.pull = pull;
    MUST(decode(&config) == insns);
    cofi_image_close(image);
    cofi_image_close(guest);
    return 0;
}
