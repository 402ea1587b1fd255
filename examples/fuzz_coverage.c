/* SPDX-License-Identifier: MIT
 * A fuzzer's coverage loop: traces of one program, one for each input -> which inputs reach new edges.
 * Usage: fuzz_coverage RECORDING... (each of the same program at the same addresses: setarch -R cofi
 * record -- PROGRAM INPUT) */
#include "flow_common.h"

enum { MAP = 1 << 16 };

/* AFL's rule: a count falls into one of eight classes, and a class not seen before is news. */
static uint8_t class_of(uint8_t count)
{
    static const uint8_t low[8] = {0, 1, 2, 4, 8, 8, 8, 8};
    return count < 8 ? low[count] : count < 16 ? 16 : count < 32 ? 32 : count < 128 ? 64 : 128;
}

static unsigned news(uint8_t *seen, const uint8_t *map)
{
    unsigned n = 0;
    for (unsigned i = 0; i < MAP; i++) {
        uint8_t class = class_of(map[i]);
        n += class && !(seen[i] & class);
        seen[i] |= class;
    }
    return n;
}

struct run {
    struct cofi_flow *flow; /* the first run's code serves all: it is decoded once */
    struct cofi_flow_coverage coverage;
};

/* A thread's edges, added to the map. */
static void cover(struct run *run, struct cofi_recording *recording, size_t stream)
{
    struct cofi_flow_config config;
    configure(&config, recording, stream);
    config.code_at_end = true; /* libraries that come at a time would make each run begin without them,
                                * and decode all anew */
    int status = run->flow ? cofi_flow_bytes(run->flow, config.bytes, config.n) : cofi_flow_open(&run->flow, &config);
    if (status < 0 || cofi_flow_cover(run->flow, &run->coverage) < 0)
        exit(3);
    tell_gaps(run->flow);
    free((void *)config.bytes);
}

int main(int argc, char **argv)
{
    static uint8_t seen[MAP], map[MAP];
    struct run run = {.coverage = {.map = map, .map_size = MAP, .saturate = true}};
    struct cofi_recording *first = NULL;
    for (int i = 1; i < argc; i++) {
        struct cofi_recording *recording = open_recording(argv[i]);
        memset(map, 0, sizeof map);
        run.coverage.insns = run.coverage.edges = 0;
        for (size_t k = 0; k < cofi_recording_streams(recording); k++)
            cover(&run, recording, k);
        printf("%s: %lu instructions, %lu edges, %u new\n", argv[i], (unsigned long)run.coverage.insns,
               (unsigned long)run.coverage.edges, news(seen, map));
        if (first)
            cofi_recording_close(recording);
        else
            first = recording;
    }
    cofi_flow_close(run.flow);
    cofi_recording_close(first);
    return argc > 1 ? 0 : (fprintf(stderr, "usage: fuzz_coverage RECORDING...\n"), 2);
}
