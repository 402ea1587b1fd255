/* SPDX-License-Identifier: MIT
 * The trace bytes of the real recording, where it is: $COFI_DATA, or ../shared/data beside the
 * checkout. */
#ifndef COFI_TEST_REAL_DATA_H
#define COFI_TEST_REAL_DATA_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct real_data {
    uint8_t *file;
    size_t streams;
    struct {
        uint8_t *bytes;
        size_t n;
    } stream[8];
};

/* Its path in *path. False: it is not there. */
static inline bool real_data_path(char path[1024])
{
    const char *dir = getenv("COFI_DATA") ? getenv("COFI_DATA") : COFI_SOURCE "/../shared/data";
    snprintf(path, 1024, "%s/perf.data.intel_pt-4.14", dir);
    FILE *in = fopen(path, "rb");
    if (in)
        fclose(in);
    return in != NULL;
}

/* PERF_RECORD_AUXTRACE by hand [PTREF 10.2]: the trace follows the record. False, and a word of
 * why: not there. */
static inline bool real_data_open(struct real_data *data)
{
    enum { AUXTRACE = 71 };
    char path[1024];
    FILE *in = real_data_path(path) ? fopen(path, "rb") : NULL;
    *data = (struct real_data){0};
    if (!in) {
        fprintf(stderr, "no real data: set COFI_DATA to the folder of perf.data.intel_pt-4.14\n");
        return false;
    }
    fseek(in, 0, SEEK_END);
    size_t n = (size_t)ftell(in);
    rewind(in);
    data->file = malloc(n);
    n = fread(data->file, 1, n, in);
    fclose(in);
    uint64_t at, size;
    memcpy(&at, data->file + 40, 8);
    memcpy(&size, data->file + 48, 8);
    for (uint64_t end = at + size; at + 8 <= end && end <= n;) {
        uint32_t type;
        uint16_t record;
        uint64_t trace = 0;
        memcpy(&type, data->file + at, 4);
        memcpy(&record, data->file + at + 6, 2);
        if (type == AUXTRACE && data->streams < 8) {
            memcpy(&trace, data->file + at + 8, 8);
            data->stream[data->streams].bytes = data->file + at + record;
            data->stream[data->streams++].n = trace;
        }
        at += record + trace;
    }
    return true;
}

static inline void real_data_close(struct real_data *data) { free(data->file); }

#endif
