/* SPDX-License-Identifier: MIT
 * A recording's stream -> a flow's configuration: shared by the examples. */
#ifndef EXAMPLES_FLOW_COMMON_H
#define EXAMPLES_FLOW_COMMON_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cofi/flow.h>
#include <cofi/trace.h>

static struct cofi_recording *open_recording(const char *path)
{
    struct cofi_recording *recording;
    struct cofi_error error;
    if (cofi_recording_open(&recording, path, &error) < 0) {
        fprintf(stderr, "%s: %s\n", path, error.text);
        exit(1);
    }
    return recording;
}

/* The stream's bytes in one piece (to be freed), and what the recording tells of how they were made. Of a machine with guests the
 * flow's `space` is needed, too (cofi_recording_guest_image). */
static void configure(struct cofi_flow_config *config, struct cofi_recording *recording, size_t stream)
{
    const struct cofi_recording_info *info = cofi_recording_info(recording);
    const struct cofi_recording_stream *s = cofi_recording_stream(recording, stream);
    uint8_t *bytes = s ? malloc(s->bytes + 1) : NULL;
    cofi_flow_config_init(config, info->gen);
    if (!bytes || cofi_recording_bounds(recording, stream, &config->bounds, &config->bounds_n) < 0) {
        fprintf(stderr, "%s\n", s ? "out of memory" : "no such stream in the recording");
        exit(s ? 3 : 1);
    }
    size_t n;
    for (uint64_t at = 0; at < s->bytes; at += n) {
        const uint8_t *piece = cofi_recording_bytes(recording, stream, at, &n);
        if (!n)
            break;
        memcpy(bytes + at, piece, n);
    }
    config->bytes = bytes;
    config->n = s->bytes;
    config->image = cofi_recording_stream_image(recording, stream);
    config->time = info->time;
    config->reference_tsc = s->reference_tsc;
    config->breaks = cofi_recording_breaks(recording, stream, &config->breaks_n);
    config->ends_in_overflow = s->ends_in_overflow;
    config->family = info->family;
    config->model = info->model;
    config->stepping = info->stepping;
    config->ctl = info->config;
    config->ctl_known = true;
    config->ranges_known = info->ranges_known;
    memcpy(config->range_base, info->range_base, sizeof info->range_base);
    memcpy(config->range_limit, info->range_limit, sizeof info->range_limit);
    config->events = info->events;
}

/* What could not be decoded is missing in whatever was counted, so say so. */
static inline void tell_gaps(const struct cofi_flow *flow)
{
    struct cofi_flow_stats stats;
    cofi_flow_stats(flow, &stats);
    if (stats.gaps || stats.overflows)
        fprintf(stderr, "incomplete: %lu gaps, %lu overflows ('cofi check' tells why)\n", (unsigned long)stats.gaps,
                (unsigned long)stats.overflows);
}

/* What configure and open_recording made for one flow. */
static inline void close_flow(struct cofi_flow *flow, const struct cofi_flow_config *config, struct cofi_recording *recording)
{
    tell_gaps(flow);
    cofi_flow_close(flow);
    free((void *)config->bytes);
    cofi_recording_close(recording);
}

#endif
