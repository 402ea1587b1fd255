/* SPDX-License-Identifier: MIT
 * A bisecting tool's question: where do two runs part, and where do they go on together? Compares the
 * first streams of two recordings. Usage: compare_runs RECORDING RECORDING */
#include "flow_common.h"

#include <cofi/diff.h>
#include <cofi/present.h>

enum { BLOCKS = 1024, EVENTS = 64 };

static struct cofi_diff *diff;
static struct cofi_flow *flows[2];
static unsigned long alone[2], parted;

/* A batch of a run: its blocks, and each event where it happened. */
static int more(void *opaque, unsigned run)
{
    const struct cofi_flow_block *blocks[BLOCKS];
    struct cofi_flow_event events[EVENTS];
    struct cofi_flow_batch batch = {.blocks = blocks, .blocks_max = BLOCKS, .events = events, .events_max = EVENTS};
    struct cofi_view *view = cofi_flow_view(flows[run]);
    int status = cofi_flow_next(flows[run], &batch);
    for (size_t i = 0, at = 0, until; status > 0 && i <= batch.events_n; i++, at = until) {
        until = i < batch.events_n ? events[i].at : batch.blocks_n;
        if (cofi_diff_blocks(diff, run, view, blocks + at, until - at) < 0 ||
            (i < batch.events_n && cofi_diff_event(diff, run, view, &events[i]) < 0))
            status = COFI_ERR_NOMEM;
    }
    return (void)opaque, status;
}

static void print(const char *before, uint64_t address)
{
    struct cofi_symbol symbol;
    char text[256];
    cofi_view_symbol(cofi_flow_view(flows[0]), address, false, &symbol);
    cofi_symbol_print(&symbol, address, text, sizeof text);
    printf("%s %s\n", before, text);
}

static int on_parted(void *opaque)
{
    const struct cofi_diff_step *last = cofi_diff_last(diff, 0);
    if (last)
        print("apart behind", last->ip + last->bytes - 1);
    return (void)opaque, parted++, 0;
}

static int on_alone(void *opaque, unsigned run, const struct cofi_diff_step *steps, size_t n)
{
    while (n--)
        alone[run] += steps[n].insns;
    return (void)opaque, 0;
}

static int on_joined(void *opaque, const struct cofi_diff_step *const at[2])
{
    if (at[0])
        print("together at", at[0]->ip);
    return (void)opaque, 0;
}

int main(int argc, char **argv)
{
    struct cofi_recording *recordings[2];
    struct cofi_flow_config configs[2];
    if (argc != 3 || cofi_diff_open(&diff, &(struct cofi_diff_options){.size = sizeof(struct cofi_diff_options)}) < 0)
        return fputs("usage: compare_runs RECORDING RECORDING\n", stderr), 2;
    for (int run = 0; run < 2; run++) {
        configure(&configs[run], recordings[run] = open_recording(argv[run + 1]), 0);
        if (cofi_flow_open(&flows[run], &configs[run]) < 0)
            return 3;
    }
    int status = cofi_diff_run(diff, &(struct cofi_diff_visitor){more, on_parted, on_alone, on_joined, NULL});
    printf("parted %lu times, %lu and %lu instructions alone\n", parted, alone[0], alone[1]);
    cofi_diff_close(diff);
    for (int run = 0; run < 2; run++)
        close_flow(flows[run], &configs[run], recordings[run]);
    return status < 0 ? 3 : parted ? 1 : 0;
}
