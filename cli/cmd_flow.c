/* SPDX-License-Identifier: MIT
 * cofi flow: a recording -> every instruction that ran, a line each, with events and gaps between. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cofi/cofi.h>

#include "cli.h"
#include "session.h"
#include "walk.h"
#include "writer.h"

struct flow_options {
    struct session_options session;
    enum cofi_lines_format format;
    uint64_t limit;
    bool no_events, no_source;
};

struct flow_run {
    const struct flow_options *options;
    struct session_stream stream;
    struct cofi_flow *flow;
    struct cofi_lines *lines;
    struct writer *out;
    uint64_t left;  /* instructions that --limit still allows */
    uint64_t gaps;
    bool done;
};

static const char usage[] =
    "usage: cofi flow [options] [FILE]\n\n"
    "Print every instruction that ran, thread by thread.\n\n"
    "      --format=text|ip    text (default), or addresses only, 16 hex digits a line\n"
    "      --limit=N           stop after N instructions of each thread\n"
    "      --no-events         instructions only\n"
    "      --no-source         no source lines (faster)\n" SESSION_HELP;

static const struct option long_options[] = {
    SESSION_LONG_OPTIONS,
    {"format", required_argument, 0, 'f'},
    {"limit", required_argument, 0, 'l'},
    {"no-events", no_argument, 0, 'E'},
    {"no-source", no_argument, 0, 'S'},
    {0},
};

static int parse_format(struct flow_options *options, const char *text)
{
    if (!strcmp(text, "ip"))
        options->format = COFI_LINES_IP;
    else if (!strcmp(text, "text"))
        options->format = COFI_LINES_TEXT;
    else {
        complain("flow: no format '%s'; there are text and ip", text);
        return EXIT_USAGE;
    }
    return EXIT_DONE;
}

/* EXIT_DONE, EXIT_USAGE, or -1: --help was printed. */
static int parse(struct flow_options *options, int argc, char **argv)
{
    session_options_init(&options->session, "flow");
    options->limit = UINT64_MAX;
    options->format = COFI_LINES_TEXT;
    for (int letter; (letter = getopt_long(argc, argv, "h", long_options, NULL)) != -1;) {
        int taken = session_option(&options->session, letter, optarg);
        if (taken < 0 || letter == '?')
            return EXIT_USAGE;
        if (letter == 'h') {
            fputs(usage, stdout);
            return -1;
        }
        if (letter == 'f' && parse_format(options, optarg) != EXIT_DONE)
            return EXIT_USAGE;
        if (letter == 'l')
            options->limit = strtoull(optarg, NULL, 0);
        options->no_events |= letter == 'E';
        options->no_source |= letter == 'S';
    }
    if (options->session.json)
        options->format = COFI_LINES_JSON;
    return session_operands(&options->session, argc, argv, optind);
}

static void gap(struct flow_run *run, const struct cofi_flow_event *event)
{
    char place[512], what[1024];
    run->gaps++;
    session_place(&run->stream, event->offset, place, sizeof place);
    session_gap(run->flow, event, what, sizeof what);
    complain("flow: %s: %s", place, what);
}

static void event_json(struct flow_run *run, const struct cofi_flow_event *event)
{
    write_format(run->out, "{\"v\":1,\"tid\":%d,\"event\":\"%s\",\"offset\":%" PRIu64, run->stream.tid,
                 cofi_flow_event_name(event->kind), event->offset);
    if (event->ip != COFI_NO_IP)
        write_format(run->out, ",\"ip\":\"0x%" PRIx64 "\"", event->ip);
    if (event->target != COFI_NO_IP)
        write_format(run->out, ",\"target\":\"0x%" PRIx64 "\"", event->target);
    write_format(run->out, ",\"value\":%" PRIu64 ",\"a\":%u,\"b\":%u,\"c\":%u", event->value, event->a,
                 event->b, event->c);
    if (event->time.known)
        write_format(run->out, ",\"ticks\":%" PRIu64 ",\"ns\":%" PRIu64, event->time.ticks, event->time.ns);
    if (event->kind == COFI_FLOW_GAP)
        write_format(run->out, ",\"cause\":\"%s\",\"end\":%" PRId64, cofi_error_text(event->cause),
                     (int64_t)event->end);
    write_format(run->out, "}\n");
}

static void event_text(struct flow_run *run, const struct cofi_flow_event *event)
{
    write_format(run->out, "[%s", cofi_flow_event_name(event->kind));
    if (event->ip != COFI_NO_IP)
        write_format(run->out, " at %016" PRIx64, event->ip);
    if (event->target != COFI_NO_IP)
        write_format(run->out, " to %016" PRIx64, event->target);
    if (event->kind == COFI_FLOW_MODE)
        write_format(run->out, ": %u-bit", event->a);
    else if (event->value)
        write_format(run->out, ": 0x%" PRIx64, event->value);
    if (event->kind == COFI_FLOW_GAP)
        write_format(run->out, ": %s, bytes 0x%" PRIx64 " to 0x%" PRIx64, cofi_error_text(event->cause),
                     event->offset, event->end);
    if (event->time.known && session_time_conv(run->stream.session)->mult)
        write_format(run->out, "  %" PRIu64 ".%09" PRIu64, event->time.ns / 1000000000,
                     event->time.ns % 1000000000);
    write_format(run->out, "]\n");
}

/* Events that say nothing of the flow: where one may start, and what the clocks did. */
static bool is_quiet(const struct cofi_flow_event *event)
{
    return event->kind == COFI_FLOW_PSB || event->kind == COFI_FLOW_CBR;
}

static void show_event(struct flow_run *run, const struct cofi_flow_event *event)
{
    if (event->kind == COFI_FLOW_GAP)
        gap(run, event);
    if (event->kind == COFI_FLOW_CODE)
        cofi_lines_forget(run->lines);
    if (session_past_end(run->stream.session, event->offset, &event->time))
        run->done = true;
    else if (run->options->session.json)
        event_json(run, event);
    else if (run->options->format == COFI_LINES_TEXT && !run->options->no_events && !is_quiet(event))
        event_text(run, event);
}

static int show_block(struct flow_run *run, struct cofi_view *view, const struct cofi_flow_block *block)
{
    size_t n;
    const uint32_t *ends;
    const char *text = cofi_lines_block(run->lines, view, block, &n, &ends);
    if (!text)
        return COFI_ERR_NOMEM;
    if (block->n >= run->left) {
        n = run->left ? ends[run->left - 1] : 0;
        run->done = true;
    }
    run->left -= block->n < run->left ? block->n : run->left;
    write_bytes(run->out, text, n);
    return 0;
}

static int show_stream(struct flow_run *run)
{
    static struct walk walk;
    struct cofi_flow *flow;
    const struct cofi_flow_block *block;
    const struct cofi_flow_event *event;
    int status = session_flow(&run->stream, false, &flow);
    if (status < 0)
        return status;
    struct cofi_view *view = cofi_flow_view(flow);
    run->flow = flow;
    walk_begin(&walk, flow);
    while (!run->done && (status = walk_next(&walk, &block, &event)) > 0) {
        if (event)
            show_event(run, event);
        else if ((status = show_block(run, view, block)) < 0)
            break;
        if (writer_failed(run->out))
            break;
    }
    walk_end(&walk);
    return status < 0 ? status : 0;
}

static int run_streams(struct session *session, const struct flow_options *options, struct writer *out)
{
    uint64_t gaps = 0;
    int status = 0;
    for (size_t i = 0; i < session_streams(session) && status >= 0 && !writer_failed(out); i++) {
        struct flow_run run = {.options = options, .out = out, .left = options->limit};
        session_stream(session, i, &run.stream);
        status = cofi_lines_open(&run.lines, options->format, run.stream.tid, !options->no_source);
        if (status < 0)
            break;
        if (options->format == COFI_LINES_TEXT && session_streams(session) > 1)
            write_format(out, "== thread %d (%s)\n", run.stream.tid, run.stream.comm);
        status = show_stream(&run);
        cofi_lines_close(run.lines);
        gaps += run.gaps;
    }
    if (status < 0)
        complain("flow: %s", cofi_error_text(status));
    return status < 0 ? EXIT_ENVIRONMENT : gaps ? EXIT_DATA : EXIT_DONE;
}

int cmd_flow(int argc, char **argv)
{
    struct flow_options options = {0};
    struct session *session;
    struct writer out;
    int status = parse(&options, argc, argv);
    if (status != EXIT_DONE)
        return status < 0 ? EXIT_DONE : status;
    status = session_open(&session, &options.session);
    if (status != EXIT_DONE)
        return status;
    writer_begin(&out, stdout);
    status = run_streams(session, &options, &out);
    if (writer_end(&out, "flow") != EXIT_DONE)
        status = EXIT_ENVIRONMENT;
    session_close(session);
    return status;
}
