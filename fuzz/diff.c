/* SPDX-License-Identifier: MIT
 * Any two traces over one code, compared: it ends, in bounds, and every instruction of both is told once: as of both, or as of one alone. */
#include <cofi/diff.h>

#include "base/bytes.h"
#include "fuzz.h"

enum { HEAD = 4, CODE = 256, BASE = 0x401000, BATCHES = 256 };

struct run {
    struct cofi_flow *flow;
    uint64_t insns, alone;
    unsigned batches;
};

struct fuzz {
    struct cofi_diff *diff;
    struct run runs[2];
    bool parted;
};

static int more(void *opaque, unsigned of)
{
    static const struct cofi_flow_block *blocks[COFI_FLOW_BATCH_MIN];
    static struct cofi_flow_event events[16];
    struct cofi_flow_batch batch = {.blocks = blocks, .blocks_max = COFI_FLOW_BATCH_MIN, .events = events, .events_max = 16};
    struct fuzz *fuzz = opaque;
    struct run *run = &fuzz->runs[of];
    if (run->batches++ == BATCHES || cofi_flow_next(run->flow, &batch) <= 0)
        return 0;
    for (size_t i = 0, event = 0; i < batch.blocks_n || event < batch.events_n;) {
        if (event < batch.events_n && events[event].at <= i) {
            MUST(!cofi_diff_event(fuzz->diff, of, cofi_flow_view(run->flow), &events[event++]));
        } else {
            run->insns += blocks[i]->n;
            MUST(!cofi_diff_blocks(fuzz->diff, of, cofi_flow_view(run->flow), &blocks[i++], 1));
        }
    }
    return 1;
}

static int parted(void *opaque)
{
    struct fuzz *fuzz = opaque;
    MUST(!fuzz->parted);
    fuzz->parted = true;
    return 0;
}

static int alone(void *opaque, unsigned of, const struct cofi_diff_step *steps, size_t n)
{
    struct fuzz *fuzz = opaque;
    MUST(fuzz->parted && n);
    for (size_t i = 0; i < n; i++)
        fuzz->runs[of].alone += steps[i].insns;
    return 0;
}

static int joined(void *opaque, const struct cofi_diff_step *const at[2])
{
    struct fuzz *fuzz = opaque;
    MUST(fuzz->parted && !at[0] == !at[1]);
    fuzz->parted = false;
    return 0;
}

static void open_flow(struct run *run, const struct cofi_image *image, const uint8_t *head, const uint8_t *bytes, size_t n)
{
    struct cofi_flow_config config;
    cofi_flow_config_init(&config, head[0] & 1 ? COFI_RTIT : COFI_PT);
    config.mode = head[0] & 2 ? 32 : 64;
    config.image = image;
    config.bytes = bytes;
    config.n = n;
    MUST(!cofi_flow_open(&run->flow, &config));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz fuzz = {0};
    struct cofi_image *image;
    const struct cofi_diff_options options = {.size = sizeof options};
    const struct cofi_diff_visitor visitor = {more, parted, alone, joined, &fuzz};
    if (size < HEAD + CODE)
        return 0;
    size_t n = size - HEAD - CODE, first = n ? le16(data + 2) % (n + 1) : 0;
    MUST(!cofi_image_open(&image));
    MUST(!cofi_image_map_bytes(image, 0, BASE, data + HEAD, CODE, NULL));
    MUST(!cofi_diff_open(&fuzz.diff, &options));
    open_flow(&fuzz.runs[0], image, data, data + HEAD + CODE, first);
    open_flow(&fuzz.runs[1], image, data, data + HEAD + CODE + first, n - first);
    MUST(!cofi_diff_run(fuzz.diff, &visitor) && !fuzz.parted);
    for (unsigned i = 0; i < 2; i++)
        MUST(cofi_diff_insns(fuzz.diff, i) == fuzz.runs[i].insns);
    MUST(fuzz.runs[0].insns - fuzz.runs[0].alone == fuzz.runs[1].insns - fuzz.runs[1].alone);
    for (unsigned i = 0; i < 2; i++)
        cofi_flow_close(fuzz.runs[i].flow);
    cofi_diff_close(fuzz.diff);
    cofi_image_close(image);
    return 0;
}
