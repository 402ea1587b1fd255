/* SPDX-License-Identifier: MIT
 * cofi check: decode all of a recording, say how complete it is, compare with the list of what ran. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cofi/cofi.h>

#include "cli.h"
#include "compare.h"
#include "session.h"
#include "truth.h"

struct check_options {
    struct session_options session;
    const char *truth;
    unsigned max_gaps; /* how many to name */
};

struct check_totals {
    struct cofi_flow_stats stats;
    uint64_t stream_bytes, hidden;
    size_t streams, different;
};

static const char usage[] =
    "usage: cofi check [options] [FILE]\n\n"
    "Decode everything and say how complete it is. Exit status 0: no gap (and equal to the truth), else 1.\n\n"
    "      --truth=FILE        compare with the list that 'cofi record --truth' wrote\n"
    "      --gaps=N            name at most N gaps of a thread (default 10)\n" SESSION_HELP;

static const struct option long_options[] = {
    SESSION_LONG_OPTIONS,
    {"truth", required_argument, 0, 'u'},
    {"gaps", required_argument, 0, 'g'},
    {0},
};

static int take(void *opaque, int letter, const char *argument)
{
    struct check_options *options = opaque;
    char *end = "";
    if (letter == 'u')
        options->truth = argument;
    if (letter == 'g')
        options->max_gaps = (unsigned)strtoul(argument, &end, 0);
    return *end ? -1 : 0;
}

static int parse(struct check_options *options, int argc, char **argv)
{
    const struct session_command command = {"check", usage, long_options, take, options};
    *options = (struct check_options){.max_gaps = 10};
    return session_parse(&command, &options->session, argc, argv);
}

static void name_gap(const struct session_stream *stream, struct cofi_flow *flow,
                     const struct cofi_flow_event *event)
{
    char place[512], what[1024];
    session_place(stream, event->offset, place, sizeof place);
    session_gap(flow, event, what, sizeof what);
    printf("  gap at %s", place);
    if (event->end != UINT64_MAX)
        printf(", %" PRIu64 " bytes", event->end - event->offset);
    else
        printf(", to the end");
    printf(": %s\n", what);
}

static void add_stats(struct cofi_flow_stats *sum, const struct cofi_flow_stats *more)
{
    sum->insns += more->insns;
    sum->blocks += more->blocks;
    sum->gaps += more->gaps;
    sum->overflows += more->overflows;
    sum->bytes += more->bytes;
    sum->lost_bytes += more->lost_bytes;
}

/* One stream's check. */
struct check {
    struct session_stream stream;
    const struct check_options *options;
    struct comparison comparison;
    struct cofi_flow_stats stats;
    uint64_t gaps;
};

static void print_stream(const struct session_stream *stream, const struct cofi_flow_stats *stats,
                         const struct comparison *comparison)
{
    printf("thread %d (%s): %" PRIu64 " instructions, %" PRIu64 " blocks, %" PRIu64 " bytes, %" PRIu64
           " gaps, %" PRIu64 " overflows", stream->tid, stream->comm, stats->insns, stats->blocks,
           stream->bytes, stats->gaps, stats->overflows);
    if (comparison->truth)
        printf(", %s", comparison->differs ? "DIFFERS from the truth" : "equals the truth");
    if (comparison->hidden && !comparison->differs)
        printf(" but for %" PRIu64 " instructions that overflows hid", comparison->hidden);
    putchar('\n');
}

static int check_block(void *opaque, struct cofi_flow *flow, const struct cofi_flow_block *block)
{
    struct check *check = opaque;
    compare_block(&check->comparison, block, cofi_flow_offset(flow));
    return 0;
}

static int check_event(void *opaque, struct cofi_flow *flow, const struct cofi_flow_event *event)
{
    struct check *check = opaque;
    if (event->kind == COFI_FLOW_OVERFLOW)
        compare_overflow(&check->comparison, event->offset);
    if (event->kind == COFI_FLOW_GAP && check->gaps++ < check->options->max_gaps &&
        !check->options->session.json)
        name_gap(&check->stream, flow, event);
    return 0;
}

static void check_end(void *opaque, struct cofi_flow *flow)
{
    struct check *check = opaque;
    cofi_flow_stats(flow, &check->stats);
    compare_end(&check->comparison, cofi_flow_offset(flow));
}

static void print_totals(const struct check_options *options, const struct check_totals *totals)
{
    const struct cofi_flow_stats *s = &totals->stats;
    double complete = totals->stream_bytes
                          ? 100.0 * (double)(totals->stream_bytes - s->lost_bytes) / (double)totals->stream_bytes
                          : 100.0;
    bool good = !s->gaps && !totals->different;
    if (options->session.json) {
        printf("{\"v\":1,\"threads\":%zu,\"instructions\":%" PRIu64 ",\"blocks\":%" PRIu64 ",\"bytes\":%" PRIu64
               ",\"lost_bytes\":%" PRIu64 ",\"gaps\":%" PRIu64 ",\"overflows\":%" PRIu64
               ",\"compared\":%s,\"hidden\":%" PRIu64 ",\"different_threads\":%zu,\"good\":%s}\n", totals->streams, s->insns, s->blocks,
               totals->stream_bytes, s->lost_bytes, s->gaps, s->overflows, options->truth ? "true" : "false",
               totals->hidden, totals->different, good ? "true" : "false");
        return;
    }
    printf("%zu threads, %" PRIu64 " instructions, %" PRIu64 " trace bytes (%.2f bits an instruction), "
           "%" PRIu64 " gaps, %.4g %% of the trace decoded", totals->streams, s->insns, totals->stream_bytes,
           s->insns ? 8.0 * (double)totals->stream_bytes / (double)s->insns : 0.0, s->gaps, complete);
    if (options->truth)
        printf("; %s", totals->different ? "DIFFERENT from the truth" : "exact: equal to the truth");
    if (totals->hidden && !totals->different)
        printf(" but for %" PRIu64 " instructions that overflows hid", totals->hidden);
    putchar('\n');
}

/* ---- what of the truth the filters let through ---- */

/* RTIT's ranges: the event id of the filter, base and limit [RTIT Table 7]. */
static bool passes_range(const struct cofi_recording_info *info, uint64_t ip)
{
    unsigned id = info->events & 7;
    for (unsigned i = 0; i < 2; i++)
        if ((id == i || id == 2) && ip >= info->range_base[i] && ip < info->range_limit[i])
            return true;
    return id == 7 || !info->ranges_known;
}

/* The process whose tracing began first. */
static int32_t first_process(const struct cofi_recording *recording)
{
    const struct cofi_sideband *row;
    for (size_t i = 0; (row = cofi_recording_sideband(recording, i)); i++)
        if (row->kind == COFI_SB_ITRACE_START)
            return row->pid;
    return -1;
}

/* By CR3: a process's is its id << 12; cr3_match=command, whose value no recording holds, is the first one's. */
static bool passes_cr3(const struct session *session, const struct session_stream *stream)
{
    const struct cofi_recording *recording = session_recording(session);
    const struct cofi_recording_info *info = cofi_recording_info(recording);
    if (info->gen != COFI_RTIT || !(info->config >> 7 & 1))
        return true;
    if (info->cr3_match)
        return info->cr3_match == (uint64_t)stream->pid << 12;
    return stream->pid == first_process(recording);
}

static void apply_filters(const struct session *session, const struct session_stream *stream, struct truth_thread *thread)
{
    const struct cofi_recording *recording = session_recording(session);
    uint64_t n = 0, optional_n = 0, optional = 0;
    if (!recording)
        return;
    bool process = passes_cr3(session, stream);
    for (uint64_t i = 0; i < thread->n; i++) {
        bool is_optional = optional < thread->optional_n && thread->optional[optional] == i;
        optional += is_optional;
        if (!process || !passes_range(cofi_recording_info(recording), thread->ips[i]))
            continue;
        if (is_optional)
            thread->optional[optional_n++] = n;
        thread->ips[n++] = thread->ips[i];
    }
    thread->n = n;
    thread->optional_n = optional_n;
}

static int check_streams(struct session *session, const struct check_options *options, struct truth *truth,
                         struct check_totals *totals)
{
    for (size_t i = 0; i < session_streams(session); i++) {
        struct check check = {.options = options};
        session_stream(session, i, &check.stream);
        if (options->truth) {
            struct truth_thread *thread = truth_take(truth, check.stream.tid);
            apply_filters(session, &check.stream, thread);
            check.comparison.truth = thread;
        }
        int status = session_walk(&check.stream, &(struct session_visitor){check_block, check_event,
                                                                           check_end, &check});
        if (status < 0)
            return status;
        if (!options->session.json)
            print_stream(&check.stream, &check.stats, &check.comparison);
        add_stats(&totals->stats, &check.stats);
        totals->stream_bytes += check.stream.bytes;
        totals->different += check.comparison.differs;
        totals->hidden += check.comparison.hidden;
        totals->streams++;
    }
    return 0;
}

/* Threads that ran and of which the recording has no stream. */
static void missing_threads(const struct check_options *options, const struct truth *truth,
                            struct check_totals *totals)
{
    for (size_t i = 0; i < truth->n; i++) {
        const struct truth_thread *thread = &truth->threads[i];
        if (thread->taken || !thread->n || (options->session.tid >= 0 && thread->tid != options->session.tid))
            continue;
        if (!options->session.json)
            printf("thread %d: ran %" PRIu64 " instructions, not in the recording\n", thread->tid, thread->n);
        totals->different++;
    }
}

int cmd_check(int argc, char **argv)
{
    struct check_options options;
    struct session *session;
    struct truth truth = {0};
    struct check_totals totals = {0};
    int status = parse(&options, argc, argv);
    if (status != EXIT_DONE)
        return status < 0 ? EXIT_DONE : status;
    if (options.truth && (status = truth_read(&truth, options.truth)) != EXIT_DONE)
        return status;
    if ((status = session_open(&session, &options.session)) != EXIT_DONE) {
        truth_free(&truth);
        return status;
    }
    status = check_streams(session, &options, &truth, &totals);
    if (status < 0)
        complain("check: %s", cofi_error_text(status));
    if (options.truth)
        missing_threads(&options, &truth, &totals);
    print_totals(&options, &totals);
    session_close(session);
    truth_free(&truth);
    return status < 0 ? EXIT_ENVIRONMENT : totals.stats.gaps || totals.different ? EXIT_DATA : EXIT_DONE;
}
