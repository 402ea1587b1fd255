/* SPDX-License-Identifier: MIT
 * A recording -> the trace of its longest stream in memory, and what decodes it. */
#ifndef BENCH_LOAD_H
#define BENCH_LOAD_H

#include <cofi/flow.h>
#include <cofi/trace.h>

struct bench_load {
    const char *name; /* of the file, without its folder */
    struct cofi_recording *recording;
    int32_t pid;      /* whose stream it is */
    uint8_t *trace;
    size_t n;
    struct cofi_flow_config config; /* code as the recording has it, time and registers told */
};

/* Ends the program (3) with a message if that cannot be read. */
void bench_load(struct bench_load *load, const char *path);
void bench_unload(struct bench_load *load);

#endif
