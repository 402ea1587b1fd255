/* SPDX-License-Identifier: MIT
 * cofi calls: a recording -> the call tree of each thread, with instruction counts. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cofi/cofi.h>

#include "cli.h"
#include "session.h"
#include "writer.h"

enum { NAME_BYTES = 4096 }; /* what is longer is cut */

struct calls_options {
    struct session_options session;
    uint64_t depth;     /* how deep to print */
    double min_percent; /* leave out what is smaller */
    bool in_order;      /* each call instead of the tree */
    bool no_source, min_given;
};

/* A thread's tree, and what its functions are asked of. */
struct feeder {
    struct cofi_calls *calls;
    struct cofi_view *view;
    uint64_t gaps;
    int32_t tid;
    const char *comm;
    const struct calls_options *options;
    struct writer *out; /* in order: where to */
    bool titled;        /* what it enters now stands below its title */
};

/* The trees of a recording: one a stream, or where streams belong to processors, one a thread. */
struct calls_job {
    const struct calls_options *options;
    struct session *session;
    struct feeder **feeders; /* they stay where they are: trees refer to them */
    size_t n, room;
    struct feeder *now;
    struct writer *out;
    struct session_stream *stream;
};

static const char usage[] =
    "usage: cofi calls [options] [FILE]\n\n"
    "Print the call tree of each thread: instructions in a function and all it called, its share,\n"
    "how often it was called on this path, its name.\n\n"
    "      --in-order          each call instead, as they came, with the source line that it is in\n"
    "      --depth=N           at most N levels (default 64)\n"
    "      --min=PERCENT       leave out what is smaller (default 0)\n"
    "      --no-source         in order: no source lines (faster)\n" SESSION_THREADS_HELP SESSION_HELP;

static const struct option long_options[] = {
    SESSION_LONG_OPTIONS, SESSION_THREADS,
    {"depth", required_argument, 0, 'd'},
    {"min", required_argument, 0, 'm'},
    {"in-order", no_argument, 0, 'O'},
    {"no-source", no_argument, 0, 'S'},
    {0},
};

static int take(void *opaque, int letter, const char *argument)
{
    struct calls_options *options = opaque;
    char *end;
    switch (letter) {
    case 'd': return parse_number(argument, UINT64_MAX, &options->depth) ? 0 : -1;
    case 'O': options->in_order = true; return 0;
    case 'S': options->no_source = true; return 0;
    }
    options->min_given = true;
    options->min_percent = strtod(argument, &end);
    return *end || !(options->min_percent >= 0 && options->min_percent <= 100) || !*argument ? -1 : 0;
}

static int parse(struct calls_options *options, int argc, char **argv)
{
    const struct session_command command = {"calls", usage, long_options, take, options};
    *options = (struct calls_options){.depth = 64};
    int status = session_parse(&command, &options->session, argc, argv);
    if (status == EXIT_DONE && (options->in_order ? options->min_given : options->no_source)) {
        complain("calls: %s", options->in_order ? "--min is of the tree, --in-order shows none" : "--no-source needs --in-order");
        return EXIT_USAGE;
    }
    return status;
}

static void function_at(void *opaque, uint64_t address, struct cofi_function *function)
{
    struct feeder *feeder = opaque;
    struct cofi_symbol symbol;
    cofi_view_symbol(feeder->view, address, false, &symbol);
    function->module = symbol.module;
    if (!symbol.name) {
        function->offset = symbol.offset;
        return;
    }
    function->name = symbol.name;
    function->start = address - symbol.offset;
}

static int feed_blocks(void *opaque, struct cofi_flow *flow, const struct cofi_flow_block *const *blocks, size_t n)
{
    struct feeder *feeder = opaque;
    feeder->view = cofi_flow_view(flow);
    int status = cofi_calls_blocks(feeder->calls, blocks, n);
    return status ? status : writer_failed(feeder->out);
}

static int feed_event(void *opaque, struct cofi_flow *flow, const struct cofi_flow_event *event)
{
    struct feeder *feeder = opaque;
    feeder->view = cofi_flow_view(flow);
    feeder->gaps += event->kind == COFI_FLOW_GAP;
    return cofi_calls_event(feeder->calls, event);
}

/* What is printed of a function: its name, or where it begins. */
static void function_name(const struct cofi_function *function, char out[NAME_BYTES])
{
    cofi_symbol_print(&(struct cofi_symbol){.name = function->name, .module = function->module,
                                            .offset = function->name ? 0 : function->offset}, function->start, out, NAME_BYTES);
}

static void print_node(struct writer *out, const struct calls_options *options, int32_t tid,
                       const struct cofi_calls_node *node, uint64_t whole)
{
    char name[NAME_BYTES], string[6 * NAME_BYTES];
    function_name(&node->function, name);
    if (options->session.json) {
        write_format(out, "{\"v\":1,\"tid\":%d,\"depth\":%u,\"function\":", tid, node->depth - 1);
        write_text(out, cofi_json_string(name, string, sizeof string));
        write_format(out, ",\"address\":\"0x%" PRIx64 "\",\"calls\":%" PRIu64 ",\"recursions\":%" PRIu64 ",\"self\":%" PRIu64
                     ",\"total\":%" PRIu64 "}\n", node->function.start, node->calls, node->recursions, node->self, node->total);
    } else {
        write_format(out, "%12" PRIu64 " %5.1f%% %9" PRIu64 "x  %*s", node->total, percent(node->total, whole), node->calls,
                     (int)(node->depth - 1) * 2, "");
        write_text(out, name);
        write_text(out, node->recursions ? " (recursive)\n" : "\n");
    }
}

static void print_title(struct writer *out, const struct feeder *feeder)
{
    write_format(out, "== thread %d (%s)\n", feeder->tid, feeder->comm);
}

static void entered_json(struct feeder *feeder, const struct cofi_function *function, size_t depth, const struct cofi_symbol *from)
{
    char name[NAME_BYTES], string[6 * NAME_BYTES];
    function_name(function, name);
    write_format(feeder->out, "{\"v\":1,\"tid\":%d,\"depth\":%zu,\"function\":", feeder->tid, depth);
    write_text(feeder->out, cofi_json_string(name, string, sizeof string));
    write_format(feeder->out, ",\"address\":\"0x%" PRIx64 "\",\"file\":", function->start);
    write_text(feeder->out, cofi_json_string(from->file, string, sizeof string));
    write_format(feeder->out, ",\"line\":%d}\n", from->line);
}

static void entered_text(struct feeder *feeder, const struct cofi_function *function, size_t depth, const struct cofi_symbol *from)
{
    char name[NAME_BYTES];
    const char *slash = from->file ? strrchr(from->file, '/') : NULL;
    function_name(function, name);
    if (!feeder->titled)
        print_title(feeder->out, feeder);
    feeder->titled = true;
    write_format(feeder->out, "%*s", (int)depth * 2, "");
    write_text(feeder->out, name);
    if (from->file)
        write_format(feeder->out, "  %s:%d", slash ? slash + 1 : from->file, from->line);
    write_text(feeder->out, "\n");
}

/* In order: a function is entered. */
static int entered(void *opaque, const struct cofi_function *function, size_t depth, uint64_t next)
{
    struct feeder *feeder = opaque;
    const struct calls_options *options = feeder->options;
    struct cofi_symbol from = {0};
    if (depth >= options->depth)
        return 0;
    if (next && !options->no_source)
        cofi_view_symbol(feeder->view, next - 1, true, &from);
    (options->session.json ? entered_json : entered_text)(feeder, function, depth, &from);
    return 0;
}

/* Depth first without recursion: the tree may be as deep as the program's stack. */
static void print_tree(struct writer *out, const struct calls_options *options, int32_t tid,
                       struct cofi_calls *calls)
{
    size_t n;
    cofi_calls_finish(calls);
    const struct cofi_calls_node *nodes = cofi_calls_nodes(calls, &n);
    uint64_t whole = nodes[0].total;
    for (uint32_t i = nodes[0].first_child; i;) {
        const struct cofi_calls_node *node = &nodes[i];
        bool shown = 100.0 * (double)node->total >= options->min_percent * (double)whole;
        if (shown)
            print_node(out, options, tid, node, whole);
        if (shown && node->first_child && node->depth < options->depth) {
            i = node->first_child;
            continue;
        }
        while (i && !nodes[i].next)
            i = nodes[i].parent;
        if (i)
            i = nodes[i].next;
    }
}

static void print_thread(struct writer *out, const struct calls_options *options, struct feeder *feeder)
{
    if (!options->session.json)
        print_title(out, feeder);
    print_tree(out, options, feeder->tid, feeder->calls);
}

/* A new tree, of which out gets what is told before it is whole; null: out of memory. */
static struct feeder *add_feeder(struct calls_job *job, const struct session_stream *stream, struct writer *out)
{
    if (!array_grow(&job->feeders, job->n, &job->room, sizeof *job->feeders))
        return NULL;
    struct feeder *feeder = calloc(1, sizeof *feeder);
    if (!feeder || cofi_calls_open(&feeder->calls, function_at, feeder) < 0) {
        free(feeder);
        return NULL;
    }
    feeder->tid = stream->tid;
    feeder->comm = stream->comm;
    feeder->options = job->options;
    feeder->out = out;
    if (job->options->in_order)
        cofi_calls_watch(feeder->calls, entered, feeder);
    return job->feeders[job->n++] = feeder;
}

static void close_tree(struct feeder *feeder)
{
    cofi_calls_close(feeder->calls);
    feeder->calls = NULL;
}

/* ---- a thread a stream ---- */

static int write_stream(void *opaque, size_t i, struct writer *out)
{
    struct calls_job *job = opaque;
    struct feeder *feeder = job->feeders[i];
    struct session_stream stream;
    session_stream(job->session, i, &stream);
    feeder->out = out;
    int status = session_walk(&stream, &(struct session_visitor){feed_blocks, feed_event, NULL, feeder});
    if (status >= 0 && !job->options->in_order)
        print_thread(out, job->options, feeder);
    close_tree(feeder);
    return status;
}

/* ---- processors: threads move between streams, so all are read in the order of time ---- */

static int select_thread(struct calls_job *job, const struct session_stream *stream)
{
    struct feeder *before = job->now;
    job->now = NULL;
    for (size_t i = 0; i < job->n && !job->now; i++)
        if (job->feeders[i]->tid == stream->tid)
            job->now = job->feeders[i];
    if (!job->now)
        job->now = add_feeder(job, stream, job->out);
    if (job->now && job->now != before)
        job->now->titled = false;
    return job->now ? 0 : COFI_ERR_NOMEM;
}

static int by_stream(void *opaque, struct session_stream *stream)
{
    struct calls_job *job = opaque;
    job->stream = stream;
    return select_thread(job, stream);
}

static int by_turn(void *opaque, struct cofi_flow *flow)
{
    struct calls_job *job = opaque;
    (void)flow;
    return select_thread(job, job->stream);
}

static int by_blocks(void *opaque, struct cofi_flow *flow, const struct cofi_flow_block *const *blocks, size_t n)
{
    return feed_blocks(((struct calls_job *)opaque)->now, flow, blocks, n);
}

static int by_event(void *opaque, struct cofi_flow *flow, const struct cofi_flow_event *event)
{
    return feed_event(((struct calls_job *)opaque)->now, flow, event);
}

static int by_thread(const void *a, const void *b)
{
    const struct feeder *x = *(struct feeder *const *)a, *y = *(struct feeder *const *)b;
    return x->tid < y->tid ? -1 : x->tid > y->tid;
}

static int write_threads(void *opaque, struct writer *out)
{
    struct calls_job *job = opaque;
    job->out = out;
    int status = session_walk_by_time(job->session, &(struct session_visitor){by_blocks, by_event, NULL, job, by_stream,
                                                                             by_turn});
    if (status < 0 || job->options->in_order)
        return status;
    if (job->n)
        qsort(job->feeders, job->n, sizeof *job->feeders, by_thread);
    for (size_t i = 0; i < job->n; i++) {
        size_t nodes;
        cofi_calls_nodes(job->feeders[i]->calls, &nodes);
        if (nodes > 1) /* in some turns nothing was traced */
            print_thread(out, job->options, job->feeders[i]);
    }
    return 0;
}

static int all_streams(struct calls_job *job)
{
    for (size_t i = 0; i < session_streams(job->session); i++) {
        struct session_stream stream;
        session_stream(job->session, i, &stream);
        if (!add_feeder(job, &stream, NULL))
            return EXIT_ENVIRONMENT;
    }
    return session_write_each(job->session, write_stream, job);
}

static int run(struct session *session, const struct calls_options *options, uint64_t *gaps)
{
    struct calls_job job = {.options = options, .session = session};
    int status = session_per_processor(session) ? writer_run("calls", write_threads, &job) : all_streams(&job);
    for (size_t i = 0; i < job.n; i++) {
        *gaps += job.feeders[i]->gaps;
        close_tree(job.feeders[i]);
        free(job.feeders[i]);
    }
    free(job.feeders);
    return status;
}

int cmd_calls(int argc, char **argv)
{
    struct calls_options options;
    struct session *session;
    uint64_t gaps = 0;
    int status = parse(&options, argc, argv);
    if (status != EXIT_DONE)
        return status < 0 ? EXIT_DONE : status;
    options.session.once = true;
    status = session_open(&session, &options.session);
    if (status != EXIT_DONE)
        return status;
    status = run(session, &options, &gaps);
    if (status == EXIT_DONE && gaps)
        complain("calls: %" PRIu64 " gaps: the tree is incomplete; 'cofi check' lists them", gaps);
    status = session_status(session, status > 0 ? status : gaps ? EXIT_DATA : EXIT_DONE);
    session_close(session);
    return status;
}
