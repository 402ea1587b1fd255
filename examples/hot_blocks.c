/* SPDX-License-Identifier: MIT
 * A profiler's block counts: how often each block of each thread ran, the hottest first.
 * Usage: hot_blocks RECORDING [N] */
#include "flow_common.h"

#include <inttypes.h>

struct row {
    uint64_t ip, count, insns;
};

static struct row *rows;
static size_t rows_n, rows_max;

/* Called at the end with each block that ran; the same address may come again after its code changed. */
static void add(void *opaque, const struct cofi_flow_block *block, uint64_t count)
{
    (void)opaque;
    if (rows_n == rows_max) {
        rows_max = rows_max ? rows_max * 2 : 1024;
        rows = realloc(rows, rows_max * sizeof *rows);
        if (!rows)
            exit(3);
    }
    rows[rows_n++] = (struct row){block->ip, count, count * block->n};
}

static int by_insns(const void *a, const void *b)
{
    const struct row *x = a, *y = b;
    return (x->insns < y->insns) - (x->insns > y->insns);
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        fprintf(stderr, "usage: hot_blocks RECORDING [N]\n");
        return 2;
    }
    size_t n = argc > 2 ? strtoul(argv[2], NULL, 0) : 20;
    struct cofi_recording *recording = open_recording(argv[1]);
    for (size_t s = 0; s < cofi_recording_streams(recording); s++) {
        struct cofi_flow_config config;
        struct cofi_flow *flow;
        configure(&config, recording, s);
        if (cofi_flow_open(&flow, &config) < 0)
            return 3;
        struct cofi_flow_coverage coverage = {.block = add};
        rows_n = 0;
        if (cofi_flow_cover(flow, &coverage) < 0)
            return 3;
        qsort(rows, rows_n, sizeof *rows, by_insns);
        printf("tid %d: %" PRIu64 " instructions in %zu blocks\n", cofi_recording_stream(recording, s)->tid,
               coverage.insns, rows_n);
        for (size_t i = 0; i < rows_n && i < n; i++) {
            struct cofi_symbol symbol;
            cofi_view_symbol(cofi_flow_view(flow), rows[i].ip, false, &symbol);
            printf("%5.1f %%  %10" PRIu64 " x %016" PRIx64 "  %s+%#" PRIx64 "\n",
                   100.0 * (double)rows[i].insns / (double)coverage.insns, rows[i].count, rows[i].ip,
                   symbol.name ? symbol.name : "?", symbol.offset);
        }
        tell_gaps(flow);
        cofi_flow_close(flow);
        free((void *)config.bytes);
    }
    free(rows);
    cofi_recording_close(recording);
    return 0;
}
