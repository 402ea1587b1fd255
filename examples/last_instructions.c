/* SPDX-License-Identifier: MIT
 * A debugger's backward walk: the last N instructions of a thread, the youngest first. Only the end of the
 * trace is decoded: from a PSB ever farther back until there are enough. Usage: last_instructions RECORDING [N] */
#include "flow_common.h"

#include <inttypes.h>

#include <cofi/insn.h>

enum { BLOCKS = 1024 };

static uint64_t *ring;
static size_t wanted, seen;

/* Where something is missing, COFI_NO_IP stands for it. */
static void keep(const struct cofi_flow_batch *batch)
{
    for (size_t i = 0, e = 0; i <= batch->blocks_n; i++) {
        for (; e < batch->events_n && batch->events[e].at == i; e++)
            if (seen && (batch->events[e].kind == COFI_FLOW_GAP || batch->events[e].kind == COFI_FLOW_OVERFLOW))
                ring[seen++ % wanted] = COFI_NO_IP;
        for (uint32_t k = 0; i < batch->blocks_n && k < batch->blocks[i]->n; k++)
            ring[seen++ % wanted] = batch->blocks[i]->insns[k].ip;
    }
}

static void decode_from(struct cofi_flow *flow, uint64_t offset)
{
    static const struct cofi_flow_block *blocks[BLOCKS];
    static struct cofi_flow_event events[64];
    struct cofi_flow_batch batch = {.blocks = blocks, .blocks_max = BLOCKS, .events = events, .events_max = 64};
    seen = 0;
    if (cofi_flow_seek(flow, offset) < 0)
        return;
    while (cofi_flow_next(flow, &batch) > 0)
        keep(&batch);
}

static void print(struct cofi_view *view, uint64_t ip)
{
    struct cofi_code code;
    struct cofi_symbol symbol;
    char text[128] = "?";
    if (ip == COFI_NO_IP) {
        puts("(a gap)");
        return;
    }
    if (cofi_view_find(view, ip, &code) == 0)
        cofi_insn_print(64, ip, code.bytes + (ip - code.start), code.end - ip, text, sizeof text);
    cofi_view_symbol(view, ip, true, &symbol);
    printf("%016" PRIx64 "  %-40s %s+%#" PRIx64 "\n", ip, text, symbol.name ? symbol.name : "?", symbol.offset);
}

int main(int argc, char **argv)
{
    struct cofi_flow_config config;
    struct cofi_flow *flow;
    if (argc < 2) {
        fprintf(stderr, "usage: last_instructions RECORDING [N]\n");
        return 2;
    }
    wanted = argc > 2 ? strtoul(argv[2], NULL, 0) : 20;
    wanted += !wanted;
    ring = calloc(wanted, sizeof *ring);
    struct cofi_recording *recording = open_recording(argv[1]);
    configure(&config, recording, 0);
    if (!ring || cofi_flow_open(&flow, &config) < 0)
        return 3;
    for (uint64_t back = 4096; seen < wanted; back *= 4) {
        decode_from(flow, back < config.n ? config.n - back : 0);
        if (back >= config.n)
            break;
    }
    for (size_t i = 1; i <= wanted && i <= seen; i++)
        print(cofi_flow_view(flow), ring[(seen - i) % wanted]);
    cofi_flow_close(flow);
    free((void *)config.bytes);
    cofi_recording_close(recording);
    return 0;
}
