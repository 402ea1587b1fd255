/* SPDX-License-Identifier: MIT
 * A fuzzer's coverage loop: traces of one program, one for each input -> which inputs reach new edges.
 * Usage: fuzz_coverage RECORDING... (each of the same program at the same addresses) */
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

int main(int argc, char **argv)
{
    static uint8_t seen[MAP], map[MAP];
    struct cofi_flow *flow = NULL;
    struct cofi_recording *first = NULL;
    for (int i = 1; i < argc; i++) {
        struct cofi_recording *recording = open_recording(argv[i]);
        struct cofi_flow_config config;
        configure(&config, recording, 0);
        /* The first run's code serves all: it is decoded once. */
        if (!flow && cofi_flow_open(&flow, &config) < 0)
            return 3;
        if (i > 1 && cofi_flow_bytes(flow, config.bytes, config.n) < 0)
            return 3;
        memset(map, 0, sizeof map);
        struct cofi_flow_coverage coverage = {.map = map, .map_size = MAP, .saturate = true};
        if (cofi_flow_cover(flow, &coverage) < 0)
            return 3;
        printf("%s: %lu instructions, %lu edges, %u new\n", argv[i], (unsigned long)coverage.insns,
               (unsigned long)coverage.edges, news(seen, map));
        tell_gaps(flow);
        free((void *)config.bytes);
        if (first)
            cofi_recording_close(recording);
        else
            first = recording;
    }
    cofi_flow_close(flow);
    cofi_recording_close(first);
    return argc > 1 ? 0 : (fprintf(stderr, "usage: fuzz_coverage RECORDING...\n"), 2);
}
