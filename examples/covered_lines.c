/* SPDX-License-Identifier: MIT
 * A test runner's report: several runs of a program -> the share of each function that any of them ran,
 * and lcov's tracefile. Usage: covered_lines MODULE RECORDING... >out.info */
#include "flow_common.h"

#include <cofi/analyze.h>
#include <cofi/present.h>

static bool wanted(void *opaque, enum cofi_coverage_kind kind, const char *name)
{
    const char *slash = name ? strrchr(name, '/') : NULL;
    return kind != COFI_COVERAGE_MODULE || !strcmp(slash ? slash + 1 : name, opaque);
}

static int put(void *opaque, const char *bytes, size_t n) { return fwrite(bytes, 1, n, opaque) == n ? 0 : COFI_ERR_IO; }

static void check(int status)
{
    if (status >= 0)
        return;
    fprintf(stderr, "%s\n", cofi_error_text(status));
    exit(3);
}

static void count(struct cofi_coverage *coverage, const char *path)
{
    struct cofi_recording *recording = open_recording(path);
    for (size_t s = 0; s < cofi_recording_streams(recording); s++) {
        struct cofi_flow_config config;
        struct cofi_flow *flow;
        configure(&config, recording, s);
        check(cofi_flow_open(&flow, &config));
        cofi_coverage_process(coverage, cofi_recording_stream(recording, s)->pid);
        check(cofi_coverage_flow(coverage, flow));
        tell_gaps(flow);
        cofi_flow_close(flow);
        free((void *)config.bytes);
    }
    check(cofi_coverage_learn(coverage)); /* while the recording's files are at hand */
    cofi_recording_close(recording);
}

int main(int argc, char **argv)
{
    struct cofi_coverage *coverage;
    size_t n;
    if (argc < 3) {
        fprintf(stderr, "usage: covered_lines MODULE RECORDING...\n");
        return 2;
    }
    check(cofi_coverage_open(&coverage, &(struct cofi_coverage_options){.size = sizeof(struct cofi_coverage_options),
                                                                        .names = true, .lines = true, .wanted = wanted,
                                                                        .opaque = argv[1]}));
    for (int i = 2; i < argc; i++)
        count(coverage, argv[i]);
    check(cofi_coverage_finish(coverage));
    const struct cofi_coverage_module *modules = cofi_coverage_modules(coverage, &n);
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < modules[i].functions_n; k++) {
            const struct cofi_coverage_function *f = &modules[i].functions[k];
            if (f->name && f->size)
                fprintf(stderr, "%5.1f %% %8lu x %s\n", 100.0 * (double)f->bytes / (double)f->size,
                        (unsigned long)f->entered, f->name);
        }
    check(cofi_coverage_lcov(coverage, put, stdout));
    cofi_coverage_close(coverage);
    return 0;
}
