/* SPDX-License-Identifier: MIT
 * cofi check: decode all of a recording, say how complete it is, compare with the list of what ran. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cofi/cofi.h>

#include "cli.h"
#include "compare.h"
#include "gaps.h"
#include "ranges.h"
#include "session.h"
#include "truth.h"
#include "writer.h"

struct check_options {
    struct session_options session;
    const char *truth;
    uint64_t max_gaps; /* how many to name */
};

struct check_totals {
    struct cofi_flow_stats stats;
    uint64_t stream_bytes, hidden, ticks, lost_ticks;
    uint64_t missing; /* trace bytes that a damaged file should have */
    size_t streams, different, unfinished;
    bool processors, damaged;
};

static const char usage[] =
    "usage: cofi check [options] [FILE]    default FILE: cofi.data\n"
    "       cofi check [options] -- COMMAND...    record that first, as cofi record does\n\n"
    "Decode everything and say how complete it is. Exit status 0: the file is whole, no gap (and equal to the truth), else 1.\n\n" SESSION_OUTPUT_HELP
    "      --truth=FILE        compare with the list that 'cofi record --truth' wrote\n"
    "      --gaps=N            name at most N gaps of a thread (default 10)\n" SESSION_THREADS_HELP SESSION_HELP;

static const struct option long_options[] = {
    SESSION_LONG_OPTIONS, SESSION_OUTPUT, SESSION_THREADS,
    {"truth", required_argument, 0, 'u'},
    {"gaps", required_argument, 0, 'g'},
    {0},
};

static int take(void *opaque, int letter, const char *argument)
{
    struct check_options *options = opaque;
    if (letter == 'g')
        return parse_number(argument, UINT64_MAX, &options->max_gaps) ? 0 : -1;
    options->truth = argument;
    return *argument ? 0 : -1;
}

static int parse(struct check_options *options, int argc, char **argv)
{
    const struct session_command command = {.name = "check", .usage = usage, .options = long_options, .take = take,
                                            .opaque = options, .records = true, .writes = true, .letters = "hi:o:"};
    *options = (struct check_options){.max_gaps = 10};
    int status = session_parse(&command, &options->session, argc, argv);
    const struct session_options *s = &options->session;
    bool part = s->from_offset || s->from_ns || s->to_offset != UINT64_MAX || s->to_ns != UINT64_MAX || s->pid ||
                s->comm;
    if (status != EXIT_DONE || !options->truth || !part)
        return status;
    complain("check: --truth is of the whole run; --from, --to, --pid and --comm would leave out some of it");
    return EXIT_USAGE;
}

static void name_gap(struct writer *out, const struct session_stream *stream, struct cofi_flow *flow,
                     const struct cofi_flow_event *event)
{
    char place[512], what[1024];
    session_place(stream, event->offset, place, sizeof place);
    session_gap(flow, event, what, sizeof what);
    write_format(out, "  gap at %s", place);
    if (event->end != UINT64_MAX)
        write_format(out, ", %" PRIu64 " bytes", event->end - event->offset);
    else
        write_format(out, ", to the end");
    write_format(out, ": %s\n", what);
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
    uint64_t offset;     /* of the last event */
    uint64_t decoded;    /* up to there */
    bool done;           /* that is its end */
    struct gaps missing; /* of the time */
};

static void print_stream(struct writer *out, const struct session_stream *stream, const struct cofi_flow_stats *stats,
                         const struct comparison *comparison)
{
    char title[128];
    if (stream->turns)
        write_format(out, "processor %d", stream->cpu);
    else
        write_format(out, "%s", session_title(stream, title, sizeof title));
    write_format(out, ": %" PRIu64 " instructions, %" PRIu64 " blocks, %" PRIu64 " bytes, %" PRIu64 " gaps, %" PRIu64
                 " overflows", stats->insns, stats->blocks, stream->bytes, stats->gaps, stats->overflows);
    if (comparison->truth)
        write_format(out, ", %s", comparison->differs ? "DIFFERS from the truth" : "equals the truth");
    if (comparison->hidden && !comparison->differs)
        write_format(out, " but for %" PRIu64 " instructions that overflows hid", comparison->hidden);
    if (comparison->stopped && !comparison->differs)
        write_format(out, ", up to TraceStop: %" PRIu64 " ran after it", comparison->after_stop);
    write_format(out, "\n");
}

static int check_blocks(void *opaque, struct cofi_flow *flow, const struct cofi_flow_block *const *blocks, size_t n)
{
    struct check *check = opaque;
    (void)flow;
    for (size_t i = 0; i < n; i++)
        compare_block(&check->comparison, blocks[i], check->offset);
    return 0;
}

static int check_event(void *opaque, struct cofi_flow *flow, const struct cofi_flow_event *event)
{
    struct check *check = opaque;
    check->offset = event->offset;
    gaps_time(&check->missing, event);
    if (event->kind == COFI_FLOW_STOP)
        compare_stop(&check->comparison);
    if (event->kind == COFI_FLOW_OVERFLOW)
        compare_overflow(&check->comparison, event->offset);
    if (event->kind == COFI_FLOW_GAP && check->gaps++ < check->options->max_gaps &&
        !check->options->session.json)
        name_gap(check->comparison.out, &check->stream, flow, event);
    return 0;
}

static void check_end(void *opaque, struct cofi_flow *flow)
{
    struct check *check = opaque;
    cofi_flow_stats(flow, &check->stats);
    gaps_end(&check->missing, flow);
    check->decoded = cofi_flow_offset(flow);
    compare_end(&check->comparison, check->decoded);
}

/* How much of the trace's bytes, or of the time that it tells, was decoded. */
static const char *decoded(uint64_t lost, uint64_t whole, char out[PERCENT_BYTES])
{
    return percent(whole ? whole - (lost < whole ? lost : whole) : 1, whole ? whole : 1, out);
}

static void print_totals(const struct check_options *options, const struct check_totals *totals)
{
    const struct cofi_flow_stats *s = &totals->stats;
    char share[PERCENT_BYTES];
    bool good = !s->gaps && !totals->different && !totals->damaged && !totals->unfinished;
    if (options->session.json) {
        printf("{\"v\":1,\"threads\":%zu,\"instructions\":%" PRIu64 ",\"blocks\":%" PRIu64 ",\"bytes\":%" PRIu64
               ",\"lost_bytes\":%" PRIu64 ",\"ticks\":%" PRIu64 ",\"lost_ticks\":%" PRIu64 ",\"gaps\":%" PRIu64
               ",\"overflows\":%" PRIu64 ",\"missing_bytes\":%" PRIu64 ",\"compared\":%s,\"hidden\":%" PRIu64
               ",\"different_threads\":%zu,\"unfinished_threads\":%zu,\"good\":%s}\n",
               totals->streams, s->insns, s->blocks, totals->stream_bytes, s->lost_bytes, totals->ticks,
               totals->lost_ticks, s->gaps, s->overflows, totals->missing, options->truth ? "true" : "false",
               totals->hidden, totals->different, totals->unfinished, good ? "true" : "false");
        return;
    }
    printf("%zu %s%s, %" PRIu64 " instructions, %" PRIu64 " trace bytes (%.2f bits an instruction), "
           "%" PRIu64 " gaps, %s of the trace%s",
           totals->streams, totals->processors ? "processor" : "thread", totals->streams == 1 ? "" : "s", s->insns,
           totals->stream_bytes, s->insns ? 8.0 * (double)totals->stream_bytes / (double)s->insns : 0.0, s->gaps,
           decoded(s->lost_bytes + totals->missing, totals->stream_bytes + totals->missing, share),
           totals->damaged && !totals->missing ? " that is there" : "");
    if (totals->ticks)
        printf(" and %s of the time", decoded(totals->lost_ticks, totals->ticks, share));
    printf(" decoded");
    if (options->truth)
        printf("; %s", totals->different ? "DIFFERENT from the truth" : "exact: equal to the truth");
    if (totals->hidden && !totals->different)
        printf(" but for %" PRIu64 " instructions that overflows hid", totals->hidden);
    if (s->overflows && !options->truth)
        printf("; what %" PRIu64 " overflow%s hid is not there", s->overflows, s->overflows == 1 ? "" : "s");
    if (totals->unfinished)
        printf("; %zu %s%s NOT to the end", totals->unfinished, totals->processors ? "processor" : "thread",
               totals->unfinished == 1 ? "" : "s");
    if (totals->damaged)
        printf("; the file is DAMAGED");
    putchar('\n');
}

/* ---- what of the truth the filters let through ---- */

/* RTIT's ranges: the event id of the filter, base and limit [RTIT Table 7]. */
static bool passes_rtit_range(const struct cofi_recording_info *info, uint64_t ip)
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

static void apply_filters(const struct session *session, const struct session_stream *stream,
                          struct truth_thread *thread)
{
    const struct cofi_recording *recording = session_recording(session);
    uint64_t n = 0, optional_n = 0, optional = 0;
    if (!recording)
        return;
    const struct cofi_recording_info *info = cofi_recording_info(recording);
    struct ranges ranges = ranges_of(recording, stream->pid);
    bool process = passes_cr3(session, stream);
    for (uint64_t i = 0; i < thread->n; i++) {
        bool is_optional = optional < thread->optional_n && thread->optional[optional] == i;
        optional += is_optional;
        uint64_t ip = thread->ips[i];
        if (!process || !(info->gen == COFI_PT ? ranges_pass(&ranges, ip) : passes_rtit_range(info, ip)))
            continue;
        if (is_optional)
            thread->optional[optional_n++] = n;
        thread->ips[n++] = ip;
    }
    thread->n = n;
    thread->optional_n = optional_n;
}

static int write_stream(void *opaque, struct writer *out)
{
    struct check *check = opaque;
    check->comparison.out = out;
    bool compared = check->comparison.truth; /* else what ran is only counted, which the flow does */
    int status = session_walk(&check->stream,
                              &(struct session_visitor){compared ? check_blocks : NULL, check_event, check_end, check});
    int drained = session_drain(&check->stream); /* in any case, for the length */
    status = status < 0 ? status : drained;
    check->done = status >= 0;
    if (status >= 0 && !check->options->session.json)
        print_stream(out, &check->stream, &check->stats, &check->comparison);
    return status;
}

/* Whether all is well counts also when nobody reads the lines. */
static int one_stream(void *opaque, size_t i)
{
    struct check *checks = opaque;
    int status = writer_run("check", write_stream, &checks[i]);
    return status > 0 ? status : 0;
}

static void add_check(struct check_totals *totals, const struct check *check)
{
    add_stats(&totals->stats, &check->stats);
    if (!check->done && check->decoded < check->stream.bytes)
        totals->stats.lost_bytes += check->stream.bytes - check->decoded;
    totals->unfinished += !check->done;
    totals->stream_bytes += check->stream.bytes;
    totals->different += check->comparison.differs;
    totals->hidden += check->comparison.hidden;
    totals->ticks += check->missing.ticks;
    totals->lost_ticks += check->missing.lost_ticks;
    totals->processors |= check->stream.turns;
    totals->streams++;
}

static int check_streams(struct session *session, const struct check_options *options, struct truth *truth,
                         struct check_totals *totals)
{
    size_t n = session_streams(session);
    struct check *checks = calloc(n + 1, sizeof *checks);
    if (!checks) {
        complain("check: %s", cofi_error_text(COFI_ERR_NOMEM));
        return EXIT_ENVIRONMENT;
    }
    for (size_t i = 0; i < n; i++) {
        checks[i].options = options;
        session_stream(session, i, &checks[i].stream);
        if (!options->truth)
            continue;
        const struct session_stream *stream = &checks[i].stream;
        struct truth_thread *thread = truth_take(truth, stream->turns ? stream->cpu : stream->tid);
        apply_filters(session, &checks[i].stream, thread);
        checks[i].comparison.truth = thread;
    }
    int status = session_each(session, one_stream, checks);
    for (size_t i = 0; i < n; i++)
        add_check(totals, &checks[i]);
    free(checks);
    return status;
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
    options.session.once = options.session.may_lack_trace = true; /* none where nothing ran, as in one of a
                                                                   * program that was killed: it may be whole */
    if (options.truth && (status = truth_read(&truth, options.truth)) != EXIT_DONE)
        return status;
    if ((status = session_open(&session, &options.session)) != EXIT_DONE) {
        truth_free(&truth);
        return status;
    }
    status = check_streams(session, &options, &truth, &totals);
    if (options.truth)
        missing_threads(&options, &truth, &totals);
    if (session_recording(session))
        totals.damaged = cofi_recording_damaged(session_recording(session), &totals.missing);
    print_totals(&options, &totals);
    status = session_status(session, status ? status : totals.stats.gaps || totals.different ? EXIT_DATA : EXIT_DONE);
    session_close(session);
    truth_free(&truth);
    return status;
}
