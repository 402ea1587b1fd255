/* SPDX-License-Identifier: MIT
 * See load.h. */
#include "load.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static size_t longest(const struct cofi_recording *recording)
{
    size_t best = 0;
    for (size_t i = 1; i < cofi_recording_streams(recording); i++)
        if (cofi_recording_stream(recording, i)->bytes > cofi_recording_stream(recording, best)->bytes)
            best = i;
    return best;
}

static void copy(struct bench_load *load, size_t stream)
{
    size_t n;
    for (uint64_t at = 0; at < load->n; at += n) {
        const uint8_t *bytes = cofi_recording_bytes(load->recording, stream, at, &n);
        if (!n)
            break;
        memcpy(load->trace + at, bytes, n);
    }
}

void bench_load(struct bench_load *load, const char *path)
{
    struct cofi_error error = {0};
    const char *slash = strrchr(path, '/');
    *load = (struct bench_load){.name = slash ? slash + 1 : path};
    if (cofi_recording_open(&load->recording, path, &error) < 0 || !cofi_recording_streams(load->recording)) {
        fprintf(stderr, "%s: %s\n", path, error.text[0] ? error.text : "no trace in it");
        exit(3);
    }
    size_t index = longest(load->recording);
    const struct cofi_recording_info *info = cofi_recording_info(load->recording);
    const struct cofi_recording_stream *stream = cofi_recording_stream(load->recording, index);
    load->pid = stream->pid;
    load->n = stream->bytes;
    load->trace = malloc(load->n + 1);
    if (!load->trace) {
        fprintf(stderr, "%s: out of memory\n", path);
        exit(3);
    }
    copy(load, index);
    cofi_flow_config_init(&load->config, info->gen);
    load->config.bytes = load->trace;
    load->config.n = load->n;
    load->config.image = cofi_recording_stream_image(load->recording, index);
    load->config.time = info->time;
    load->config.reference_tsc = stream->reference_tsc;
    load->config.ctl_known = true;
    load->config.ctl = info->config;
}

void bench_unload(struct bench_load *load)
{
    free(load->trace);
    cofi_recording_close(load->recording);
}
