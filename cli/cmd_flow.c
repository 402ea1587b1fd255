/* SPDX-License-Identifier: MIT
 * cofi flow: a recording -> every instruction that ran, a line each, with events and gaps between. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cofi/cofi.h>

#include "cli.h"
#include "event_text.h"
#include "gaps.h"
#include "last.h"
#include "session.h"
#include "writer.h"

struct flow_options {
    struct session_options session;
    enum cofi_lines_format format;
    uint64_t limit, last; /* last: UINT64_MAX, all of them */
    bool no_events, no_source, by_time, time, format_given;
};

/* One stream's output. */
struct flow_run {
    const struct flow_options *options;
    struct session_stream *stream;
    struct cofi_lines *lines;
    struct writer *out;
    uint64_t left;  /* instructions that --limit still allows */
    uint64_t skip;  /* instructions before those of --last */
    bool title_due; /* when they have been skipped */
    struct gaps gaps;
    struct cofi_flow_stamp now; /* of the blocks, with --time */
};

/* All of it. */
struct flow_job {
    const struct flow_options *options;
    struct session *session;
    struct flow_run *runs; /* one a stream */
    struct flow_run *now;  /* by time: the one that is shown */
    struct writer *out;    /* by time */
    bool titled;
};

static const char usage[] =
    "usage: cofi flow [options] [FILE]    default FILE: cofi.data\n"
    "       cofi flow [options] -- COMMAND...    record that first, as cofi record does\n\n"
    "Print every instruction that ran, thread by thread.\n\n"
    SESSION_OUTPUT_HELP
    "      --by-time           all threads (or processors) in the order of time\n"
    "      --format=text|ip    text (default), or addresses only, 16 hex digits a line\n"
    "      --limit=N           stop after N instructions of each thread (0: at the first)\n"
    "      --last=N            the last N instructions of each thread; of a long trace only its end is decoded\n"
    "      --time              when: in front of each instruction, ~ where cycle counts estimate it\n"
    "      --no-events         instructions only\n"
    "      --no-source         no source lines (faster)\n" SESSION_NAMES_HELP SESSION_THREADS_HELP SESSION_HELP;

static const struct option long_options[] = {
    SESSION_LONG_OPTIONS, SESSION_OUTPUT, SESSION_THREADS, SESSION_NAMES,
    {"format", required_argument, 0, 'f'},
    {"limit", required_argument, 0, 'l'},
    {"last", required_argument, 0, 'L'},
    {"no-events", no_argument, 0, 'E'},
    {"no-source", no_argument, 0, 'S'},
    {"by-time", no_argument, 0, 'B'},
    {"time", no_argument, 0, 'W'},
    {0},
};

static int take(void *opaque, int letter, const char *argument)
{
    struct flow_options *options = opaque;
    switch (letter) {
    case 'f':
        options->format_given = true;
        options->format = strcmp(argument, "ip") ? COFI_LINES_TEXT : COFI_LINES_IP;
        return strcmp(argument, "ip") && strcmp(argument, "text") ? -1 : 0;
    case 'l': return parse_number(argument, UINT64_MAX, &options->limit) ? 0 : -1;
    case 'L': return parse_number(argument, UINT64_MAX, &options->last) ? 0 : -1;
    case 'E': options->no_events = true; break;
    case 'S': options->no_source = true; break;
    case 'B': options->by_time = true; break;
    case 'W': options->time = true; break;
    }
    return 0;
}

static int parse(struct flow_options *options, int argc, char **argv)
{
    const struct session_command command = {.name = "flow", .usage = usage, .options = long_options, .take = take,
                                            .opaque = options, .records = true, .writes = true, .letters = "hi:o:"};
    *options = (struct flow_options){.limit = UINT64_MAX, .last = UINT64_MAX, .format = COFI_LINES_TEXT};
    int status = session_parse(&command, &options->session, argc, argv);
    if (status == EXIT_DONE && options->session.json && options->format_given) {
        complain("flow: --json is a format of its own; it takes no --format");
        return EXIT_USAGE;
    }
    if (status == EXIT_DONE && options->last != UINT64_MAX &&
        (options->session.from_offset || options->session.from_ns)) {
        complain("flow: --last is counted back from the end, or from --to; --from has no part in it");
        return EXIT_USAGE;
    }
    if (options->session.json)
        options->format = COFI_LINES_JSON;
    return status;
}

static void time_json(struct writer *out, const struct cofi_flow_time *time)
{
    write_format(out, ",\"ticks\":%" PRIu64 ",\"ns\":%" PRIu64 "%s", time->ticks, time->ns,
                 time->interpolated ? ",\"interpolated\":true" : "");
}

static void event_json(struct flow_run *run, const struct cofi_flow_event *event)
{
    write_format(run->out, "{\"v\":1,\"tid\":%d,\"event\":\"%s\",\"offset\":%" PRIu64, run->stream->tid,
                 cofi_flow_event_name(event->kind), event->offset);
    if (event->ip != COFI_NO_IP)
        write_format(run->out, ",\"ip\":\"0x%" PRIx64 "\"", event->ip);
    if (event->target != COFI_NO_IP)
        write_format(run->out, ",\"target\":\"0x%" PRIx64 "\"", event->target);
    write_format(run->out, ",\"value\":%" PRIu64 ",\"a\":%u,\"b\":%u,\"c\":%u", event->value, event->a,
                 event->b, event->c);
    if (event->time.known)
        time_json(run->out, &event->time);
    if (event->kind == COFI_FLOW_GAP)
        write_format(run->out, ",\"cause\":\"%s\",\"end\":%" PRId64, cofi_error_text(event->cause),
                     (int64_t)event->end);
    write_format(run->out, "}\n");
}

static void event_line(struct flow_run *run, const struct cofi_flow_event *event)
{
    write_text(run->out, "[");
    event_text(run->out, event);
    if (event->time.known && session_time_conv(run->stream->session)->mult)
        write_format(run->out, "  %s%" PRIu64 ".%09" PRIu64, event->time.interpolated ? "~" : "",
                     event->time.ns / 1000000000, event->time.ns % 1000000000);
    write_text(run->out, "]\n");
}

/* Events that say nothing of the flow: where one may start, and what the clocks did. */
static bool is_quiet(const struct cofi_flow_event *event)
{
    return event->kind == COFI_FLOW_PSB || event->kind == COFI_FLOW_CBR;
}

static void title(struct flow_run *run)
{
    char text[128];
    run->title_due = false;
    cofi_lines_thread(run->lines, run->stream->tid);
    if (run->options->format == COFI_LINES_TEXT)
        write_format(run->out, "== %s\n", session_title(run->stream, text, sizeof text));
}

static int show_event(void *opaque, struct cofi_flow *flow, const struct cofi_flow_event *event)
{
    struct flow_run *run = opaque;
    if (event->kind == COFI_FLOW_CODE)
        cofi_lines_forget(run->lines);
    if (run->skip)
        return 0;
    if (run->title_due)
        title(run);
    gaps_event(&run->gaps, run->stream, flow, event);
    if (run->options->no_events)
        return 0;
    if (run->options->session.json)
        event_json(run, event);
    else if (run->options->format == COFI_LINES_TEXT && !is_quiet(event))
        event_line(run, event);
    return 0;
}

#define OBJECT "{\"v\":1," /* how a line of JSON begins */

/* What --time puts in front of a line, or in place of OBJECT: seconds, and ticks where the recording
 * does not tell how long they are. */
static int time_prefix(const struct flow_run *run, char *out, size_t n)
{
    const struct cofi_time_conv *conv = session_time_conv(run->stream->session);
    uint64_t ticks = run->now.ticks, ns = conv->mult && ticks ? cofi_time_ns(conv, ticks) : 0;
    const char *mark = run->now.interpolated ? "~" : " ";
    if (!ticks)
        return run->options->session.json ? 0 : snprintf(out, n, "%22s ", "-");
    if (run->options->session.json)
        return snprintf(out, n, OBJECT "\"ticks\":%" PRIu64 ",\"ns\":%" PRIu64 ",%s", ticks, ns,
                        run->now.interpolated ? "\"interpolated\":true," : "");
    if (conv->mult)
        return snprintf(out, n, "%s%11" PRIu64 ".%09" PRIu64 " ", mark, ns / 1000000000, ns % 1000000000);
    return snprintf(out, n, "%s%21" PRIu64 " ", mark, ticks);
}

static void write_timed(struct flow_run *run, const char *lines, size_t n)
{
    char prefix[128];
    size_t prefix_n = (size_t)time_prefix(run, prefix, sizeof prefix);
    size_t skip = run->options->session.json && prefix_n ? sizeof OBJECT - 1 : 0;
    for (const char *end = lines + n; lines < end;) {
        const char *next = (const char *)memchr(lines, '\n', (size_t)(end - lines)) + 1;
        write_bytes(run->out, prefix, prefix_n);
        write_bytes(run->out, lines + skip, (size_t)(next - lines) - skip);
        lines = next;
    }
}

static int show_block(struct flow_run *run, struct cofi_flow *flow, const struct cofi_flow_block *block)
{
    size_t n;
    const uint32_t *ends;
    const char *text = cofi_lines_block(run->lines, cofi_flow_view(flow), block, &n, &ends);
    if (!text)
        return COFI_ERR_NOMEM;
    uint32_t first = (uint32_t)run->skip, begin = first ? ends[first - 1] : 0;
    bool last = block->n - first >= run->left;
    if (last)
        n = run->left ? ends[first + run->left - 1] : begin;
    run->left -= last ? run->left : block->n - first;
    run->skip = 0;
    if (run->title_due)
        title(run);
    if (run->options->time)
        write_timed(run, text + begin, n - begin);
    else
        write_bytes(run->out, text + begin, n - begin);
    return last || writer_failed(run->out);
}

/* How many of the blocks lie before those of --last. */
static size_t skipped(struct flow_run *run, const struct cofi_flow_block *const *blocks, size_t n)
{
    size_t i = 0;
    for (; run->skip && i < n && blocks[i]->n <= run->skip; i++)
        run->skip -= blocks[i]->n;
    return i;
}

static int show_blocks(void *opaque, struct cofi_flow *flow, const struct cofi_flow_block *const *blocks, size_t n)
{
    int status = 0;
    for (size_t i = skipped(opaque, blocks, n); i < n && !status; i++)
        status = show_block(opaque, flow, blocks[i]);
    return status;
}

static void note_time(void *opaque, struct cofi_flow_stamp stamp) { ((struct flow_run *)opaque)->now = stamp; }

static int run_begin(struct flow_job *job, struct flow_run *run, struct session_stream *stream, struct writer *out)
{
    *run = (struct flow_run){.options = job->options, .stream = stream, .out = out, .left = job->options->limit,
                             .skip = stream->skip};
    int status = cofi_lines_open(&run->lines, job->options->format, stream->tid, !job->options->no_source);
    if (status >= 0)
        cofi_lines_demangle(run->lines, session_names(stream->session));
    return status;
}

/* ---- stream by stream ---- */

static int show_turn(void *opaque, struct cofi_flow *flow)
{
    struct flow_run *run = opaque;
    (void)flow;
    run->title_due = session_shows(run->stream);
    if (run->title_due && !run->skip)
        title(run);
    return 0;
}

static void show_end(void *opaque, struct cofi_flow *flow)
{
    struct flow_run *run = opaque;
    gaps_end(&run->gaps, flow);
}

static int write_stream(void *opaque, size_t i, struct writer *out)
{
    struct flow_job *job = opaque;
    struct flow_run *run = &job->runs[i];
    struct session_stream stream;
    int status = job->options->last != UINT64_MAX ? last_find(job->session, i, job->options->last) : 0;
    session_stream(job->session, i, &stream);
    if (status >= 0)
        status = run_begin(job, run, &stream, out);
    if (status < 0)
        return status;
    if (session_streams(job->session) > 1 || stream.turns)
        show_turn(run, NULL);
    status = session_walk(&stream,
                          &(struct session_visitor){show_blocks, show_event, show_end, run, .turn = show_turn,
                                                    .time = job->options->time ? note_time : NULL, .trim = true});
    cofi_lines_close(run->lines);
    return status;
}

/* ---- all streams by time ---- */

static int by_time_stream(void *opaque, struct session_stream *stream)
{
    struct flow_job *job = opaque;
    struct flow_run *run = &job->runs[stream->order];
    int status = run->stream ? 0 : run_begin(job, run, stream, job->out);
    if (status < 0 || run == job->now)
        return status;
    job->now = run;
    job->titled = false;
    return 0;
}

/* The title is written when there is something below it. */
static void by_time_title(struct flow_job *job)
{
    if (!job->titled)
        title(job->now);
    job->titled = true;
}

static int by_time_turn(void *opaque, struct cofi_flow *flow)
{
    struct flow_job *job = opaque;
    (void)flow;
    job->titled = false;
    return 0;
}

static int by_time_blocks(void *opaque, struct cofi_flow *flow, const struct cofi_flow_block *const *blocks, size_t n)
{
    struct flow_job *job = opaque;
    size_t skip = skipped(job->now, blocks, n);
    if (skip == n)
        return 0;
    by_time_title(job);
    return show_blocks(job->now, flow, blocks + skip, n - skip);
}

static int by_time_event(void *opaque, struct cofi_flow *flow, const struct cofi_flow_event *event)
{
    struct flow_job *job = opaque;
    if (!is_quiet(event) && !job->options->no_events && !job->now->skip)
        by_time_title(job);
    return show_event(job->now, flow, event);
}

static void by_time_time(void *opaque, struct cofi_flow_stamp stamp)
{
    note_time(((struct flow_job *)opaque)->now, stamp);
}

/* Of thousands of threads, most have ended when others begin. */
static void by_time_end(void *opaque, struct cofi_flow *flow)
{
    struct flow_run *run = ((struct flow_job *)opaque)->now;
    show_end(run, flow);
    cofi_lines_close(run->lines);
    run->lines = NULL;
}

static int write_by_time(void *opaque, struct writer *out)
{
    struct flow_job *job = opaque;
    int status = 0;
    job->out = out;
    for (size_t i = 0; i < session_streams(job->session) && status >= 0 && job->options->last != UINT64_MAX; i++)
        status = last_find(job->session, i, job->options->last);
    if (status >= 0)
        status = session_walk_by_time(job->session,
                                      &(struct session_visitor){by_time_blocks, by_time_event, by_time_end, job,
                                                                by_time_stream, by_time_turn, by_time_time, true});
    for (size_t i = 0; i < session_streams(job->session); i++)
        cofi_lines_close(job->runs[i].lines);
    return status;
}

/* Where --limit ended it, how far was decoded for that says nothing. */
static const struct gaps *gaps_of(struct flow_run *run)
{
    if (run->options && !run->left) {
        run->gaps.insns = run->options->limit;
        run->gaps.bytes = run->gaps.ticks = 0;
    }
    return &run->gaps;
}

static int run_streams(struct session *session, const struct flow_options *options)
{
    struct flow_job job = {.options = options, .session = session};
    struct gaps sum = {0};
    job.runs = calloc(session_streams(session) + 1, sizeof *job.runs);
    if (!job.runs) {
        complain("flow: %s", cofi_error_text(COFI_ERR_NOMEM));
        return EXIT_ENVIRONMENT;
    }
    int status = options->by_time ? writer_run("flow", write_by_time, &job)
                                  : session_write_each(session, write_stream, &job);
    for (size_t i = 0; i < session_streams(session); i++)
        gaps_add(&sum, gaps_of(&job.runs[i]));
    gaps_tell(&sum, "flow");
    free(job.runs);
    return status > 0 ? status : sum.n ? EXIT_DATA : EXIT_DONE;
}

int cmd_flow(int argc, char **argv)
{
    struct flow_options options;
    struct session *session;
    int status = parse(&options, argc, argv);
    if (status != EXIT_DONE)
        return status < 0 ? EXIT_DONE : status;
    options.session.once = options.last == UINT64_MAX;
    status = session_open(&session, &options.session);
    if (status != EXIT_DONE)
        return status;
    status = session_status(session, run_streams(session, &options));
    session_close(session);
    return status;
}
