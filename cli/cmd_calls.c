/* SPDX-License-Identifier: MIT
 * cofi calls: a recording -> the call tree of each thread, with instruction counts. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cofi/cofi.h>

#include "cli.h"
#include "session.h"
#include "timeline.h"
#include "writer.h"

enum calls_format { CALLS_TREE, CALLS_FOLDED, CALLS_CHROME };

struct calls_options {
    struct session_options session;
    enum calls_format format;
    uint64_t depth;     /* how deep to print */
    uint64_t min_insns; /* leave out what is smaller */
    double min_percent;
};

/* A thread's tree or timeline, and what its functions are asked of. */
struct feeder {
    struct cofi_calls *calls;
    struct timeline *timeline; /* null: not asked for */
    struct cofi_view *view;
    const struct cofi_time_conv *conv;
    uint64_t gaps, insns;
    int32_t pid, tid;
    const char *comm;
};

/* The trees of a recording: one a stream, or where streams belong to processors, one a thread. */
struct calls_job {
    const struct calls_options *options;
    struct session *session;
    struct feeder **feeders; /* they stay where they are: trees refer to them */
    size_t n, room;
    struct feeder *now;
    struct session_stream *stream;
    struct feeder **running; /* by processor */
    struct writer *out;      /* by processor */
};

static const char usage[] =
    "usage: cofi calls [options] [FILE]\n\n"
    "Print the call tree of each thread: instructions in a function and all it called, its share,\n"
    "how often it was called on this path, its name.\n\n"
    "      --format=FORMAT     tree (default); folded: a line a path, for flame graphs; chrome: every call\n"
    "                          and when, for timeline viewers (ui.perfetto.dev, chrome://tracing)\n"
    "      --depth=N           at most N levels (default 64)\n"
    "      --min=PERCENT       leave out what is smaller (default 0)\n"
    "      --min-insns=N       leave out what has fewer instructions (default 0)\n" SESSION_THREADS_HELP SESSION_HELP;

static const struct option long_options[] = {
    SESSION_LONG_OPTIONS, SESSION_THREADS,
    {"format", required_argument, 0, 'f'},
    {"depth", required_argument, 0, 'd'},
    {"min", required_argument, 0, 'm'},
    {"min-insns", required_argument, 0, 'i'},
    {0},
};

static int take_format(const char *argument, enum calls_format *format)
{
    static const char *const names[] = {[CALLS_TREE] = "tree", [CALLS_FOLDED] = "folded", [CALLS_CHROME] = "chrome"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(argument, names[i])) {
            *format = (enum calls_format)i;
            return 0;
        }
    return -1;
}

static int take_percent(const char *argument, double *percent)
{
    char *end;
    *percent = strtod(argument, &end);
    return *end || !(*percent >= 0 && *percent <= 100) || !*argument ? -1 : 0;
}

static int take(void *opaque, int letter, const char *argument)
{
    struct calls_options *options = opaque;
    switch (letter) {
    case 'f': return take_format(argument, &options->format);
    case 'd': return parse_number(argument, UINT64_MAX, &options->depth) ? 0 : -1;
    case 'i': return parse_number(argument, UINT64_MAX, &options->min_insns) ? 0 : -1;
    default: return take_percent(argument, &options->min_percent);
    }
}

static int parse(struct calls_options *options, int argc, char **argv)
{
    const struct session_command command = {"calls", usage, long_options, take, options};
    *options = (struct calls_options){.depth = 64};
    int status = session_parse(&command, &options->session, argc, argv);
    if (status != EXIT_DONE)
        return status;
    if (options->session.json && options->format != CALLS_TREE) {
        complain("calls: --json is a form of the tree, not of --format=%s", options->format == CALLS_FOLDED ? "folded" : "chrome");
        return EXIT_USAGE;
    }
    if (options->format == CALLS_CHROME && options->min_percent > 0) {
        complain("calls: --min=PERCENT is of the tree's whole; a timeline takes --min-insns=N");
        return EXIT_USAGE;
    }
    return EXIT_DONE;
}

/* ---- what ran ---- */

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
    for (size_t i = 0; feeder->timeline && i < n; i++)
        feeder->insns += blocks[i]->n;
    return cofi_calls_blocks(feeder->calls, blocks, n);
}

static void feed_time(void *opaque, struct cofi_flow_stamp stamp)
{
    struct feeder *feeder = opaque;
    uint64_t ns = feeder->conv->mult ? cofi_time_ns(feeder->conv, stamp.ticks) : stamp.ticks;
    timeline_time(feeder->timeline, ns, feeder->insns);
}

static void draw_gap(struct feeder *feeder, struct cofi_flow *flow, const struct cofi_flow_event *event)
{
    char text[1024] = "overflow";
    if (event->kind == COFI_FLOW_GAP)
        session_gap(flow, event, text, sizeof text);
    timeline_gap(feeder->timeline, text, feeder->insns);
}

static void draw_event(struct feeder *feeder, struct cofi_flow *flow, const struct cofi_flow_event *event)
{
    if (event->kind == COFI_FLOW_DISABLED || event->kind == COFI_FLOW_ASYNC_DISABLED)
        timeline_off(feeder->timeline, "untraced", feeder->insns);
    else if (event->kind == COFI_FLOW_GAP || event->kind == COFI_FLOW_OVERFLOW)
        draw_gap(feeder, flow, event);
}

static int feed_event(void *opaque, struct cofi_flow *flow, const struct cofi_flow_event *event)
{
    struct feeder *feeder = opaque;
    feeder->view = cofi_flow_view(flow);
    feeder->gaps += event->kind == COFI_FLOW_GAP;
    if (feeder->timeline && event->kind == COFI_FLOW_ENABLED && event->time.known) /* before what returns there is left */
        feed_time(feeder, (struct cofi_flow_stamp){event->time.ticks, event->time.interpolated});
    int status = cofi_calls_event(feeder->calls, event);
    if (feeder->timeline)
        draw_event(feeder, flow, event);
    return status;
}

/* ---- trees ---- */

static void name_of(const struct cofi_calls_node *node, char *out, size_t n)
{
    const struct cofi_function *function = &node->function;
    cofi_symbol_print(&(struct cofi_symbol){.name = function->name, .module = function->module, .offset = function->name ? 0 : function->offset},
                      function->start, out, n);
}

static void print_node(struct writer *out, const struct calls_options *options, int32_t tid,
                       const struct cofi_calls_node *node, uint64_t whole)
{
    double percent = whole ? 100.0 * (double)node->total / (double)whole : 0;
    char name[256], string[1024];
    name_of(node, name, sizeof name);
    if (options->session.json)
        write_format(out, "{\"v\":1,\"tid\":%d,\"depth\":%u,\"function\":%s,\"address\":\"0x%" PRIx64
                     "\",\"calls\":%" PRIu64 ",\"recursions\":%" PRIu64 ",\"self\":%" PRIu64 ",\"total\":%"
                     PRIu64 "}\n", tid, node->depth - 1, cofi_json_string(name, string, sizeof string), node->function.start, node->calls,
                     node->recursions, node->self, node->total);
    else
        write_format(out, "%12" PRIu64 " %5.1f%% %9" PRIu64 "x  %*s%s%s\n", node->total, percent,
                     node->calls, (int)(node->depth - 1) * 2, "", name, node->recursions ? " (recursive)" : "");
}

/* A path's functions, the outermost first, and what ran in the last one: in all it called, too, where these are not shown. */
static void print_path(struct writer *out, const struct calls_options *options, const char *comm, const struct cofi_calls_node *nodes,
                       const struct cofi_calls_node *node)
{
    uint64_t insns = node->depth < options->depth ? node->self : node->total;
    char name[256];
    if (!insns)
        return;
    write_format(out, "%s", comm);
    for (unsigned depth = 1; depth <= node->depth; depth++) {
        const struct cofi_calls_node *at = node;
        while (at->depth > depth)
            at = &nodes[at->parent];
        name_of(at, name, sizeof name);
        for (char *c = name; (c = strchr(c, ';')); c++)
            *c = ':';
        write_format(out, ";%s", name);
    }
    write_format(out, " %" PRIu64 "\n", insns);
}

static void print(struct writer *out, const struct calls_options *options, const struct feeder *feeder, const struct cofi_calls_node *nodes,
                  const struct cofi_calls_node *node)
{
    if (options->format == CALLS_FOLDED)
        print_path(out, options, feeder->comm, nodes, node);
    else
        print_node(out, options, feeder->tid, node, nodes[0].total);
}

/* Depth first without recursion: the tree may be as deep as the program's stack. */
static void print_tree(struct writer *out, const struct calls_options *options, const struct feeder *feeder)
{
    size_t n;
    const struct cofi_calls_node *nodes = cofi_calls_nodes(feeder->calls, &n);
    uint64_t whole = nodes[0].total;
    for (uint32_t i = nodes[0].first_child; i;) {
        const struct cofi_calls_node *node = &nodes[i];
        bool shown = 100.0 * (double)node->total >= options->min_percent * (double)whole && node->total >= options->min_insns;
        if (shown)
            print(out, options, feeder, nodes, node);
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

/* All is known of a thread. */
static int finish_thread(struct writer *out, const struct calls_options *options, struct feeder *feeder)
{
    cofi_calls_finish(feeder->calls);
    if (feeder->timeline)
        return timeline_end(feeder->timeline, feeder->insns);
    if (!options->session.json && options->format == CALLS_TREE)
        write_format(out, "== thread %d (%s)\n", feeder->tid, feeder->comm);
    print_tree(out, options, feeder);
    return 0;
}

/* ---- timelines ---- */

static void enter(void *opaque, const struct cofi_function *function, uint64_t insns) { timeline_enter(opaque, function, insns); }
static void leave(void *opaque, uint64_t insns) { timeline_leave(opaque, insns); }

static int begin_timeline(struct writer *out, const struct calls_options *options, struct feeder *feeder, bool first)
{
    if (options->format != CALLS_CHROME)
        return 0;
    const struct timeline_options of = {out, feeder->pid, feeder->tid, feeder->comm, options->depth, options->min_insns, first};
    if (!(feeder->timeline = timeline_open(&of)))
        return COFI_ERR_NOMEM;
    cofi_calls_watch(feeder->calls, &(struct cofi_calls_watcher){enter, leave, feeder->timeline});
    return 0;
}

static void end_timelines(struct writer *out, const struct calls_options *options)
{
    if (options->format == CALLS_CHROME)
        write_format(out, "\n]}\n");
}

/* ---- threads ---- */

/* A new tree; null: out of memory. */
static struct feeder *add_feeder(struct calls_job *job, const struct session_stream *stream)
{
    if (!array_grow(&job->feeders, job->n, &job->room, sizeof *job->feeders))
        return NULL;
    struct feeder *feeder = calloc(1, sizeof *feeder);
    if (!feeder || cofi_calls_open(&feeder->calls, function_at, feeder) < 0) {
        free(feeder);
        return NULL;
    }
    feeder->pid = stream->pid;
    feeder->tid = stream->tid;
    feeder->comm = stream->comm;
    feeder->conv = session_time_conv(job->session);
    return job->feeders[job->n++] = feeder;
}

static void close_feeder(struct feeder *feeder)
{
    cofi_calls_close(feeder->calls);
    timeline_close(feeder->timeline);
    feeder->calls = NULL;
    feeder->timeline = NULL;
}

/* ---- a thread a stream ---- */

static int write_stream(void *opaque, size_t i, struct writer *out)
{
    struct calls_job *job = opaque;
    struct feeder *feeder = job->feeders[i];
    struct session_stream stream;
    session_stream(job->session, i, &stream);
    int status = begin_timeline(out, job->options, feeder, !i);
    if (status >= 0)
        status = session_walk(&stream, &(struct session_visitor){feed_blocks, feed_event, NULL, feeder,
                                                                 .time = feeder->timeline ? feed_time : NULL});
    if (status >= 0)
        status = finish_thread(out, job->options, feeder);
    if (i + 1 == job->n)
        end_timelines(out, job->options);
    close_feeder(feeder);
    return status;
}

/* ---- processors: threads move between streams, so all are read in the order of time ---- */

static struct feeder *feeder_of(struct calls_job *job, const struct session_stream *stream)
{
    for (size_t i = 0; i < job->n; i++)
        if (job->feeders[i]->tid == stream->tid)
            return job->feeders[i];
    struct feeder *feeder = add_feeder(job, stream);
    return feeder && begin_timeline(job->out, job->options, feeder, job->n == 1) >= 0 ? feeder : NULL;
}

static int select_thread(struct calls_job *job, const struct session_stream *stream)
{
    job->now = job->running[stream->index] = feeder_of(job, stream);
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
    struct feeder *before = job->running[job->stream->index];
    (void)flow;
    int status = select_thread(job, job->stream);
    if (status >= 0 && before && before != job->now && before->timeline)
        timeline_off(before->timeline, "not running", before->insns);
    return status;
}

static void by_time(void *opaque, struct cofi_flow_stamp stamp) { feed_time(((struct calls_job *)opaque)->now, stamp); }

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
    int status = session_walk_by_time(job->session, &(struct session_visitor){by_blocks, by_event, NULL, job, by_stream, by_turn,
                                                                             job->options->format == CALLS_CHROME ? by_time : NULL});
    if (status < 0)
        return status;
    if (job->n)
        qsort(job->feeders, job->n, sizeof *job->feeders, by_thread);
    for (size_t i = 0; i < job->n && status >= 0; i++) {
        size_t nodes;
        cofi_calls_nodes(job->feeders[i]->calls, &nodes);
        if (nodes > 1) /* in some turns nothing was traced */
            status = finish_thread(out, job->options, job->feeders[i]);
    }
    end_timelines(out, job->options);
    return status;
}

static int all_streams(struct calls_job *job)
{
    for (size_t i = 0; i < session_streams(job->session); i++) {
        struct session_stream stream;
        session_stream(job->session, i, &stream);
        if (!add_feeder(job, &stream))
            return EXIT_ENVIRONMENT;
    }
    return session_write_each(job->session, write_stream, job);
}

static int run(struct session *session, const struct calls_options *options, uint64_t *gaps)
{
    struct calls_job job = {.options = options, .session = session, .running = calloc(session_streams(session) + 1, sizeof *job.running)};
    if (!job.running) {
        complain("calls: %s", cofi_error_text(COFI_ERR_NOMEM));
        return EXIT_ENVIRONMENT;
    }
    int status = session_per_processor(session) ? writer_run("calls", write_threads, &job) : all_streams(&job);
    for (size_t i = 0; i < job.n; i++) {
        *gaps += job.feeders[i]->gaps;
        close_feeder(job.feeders[i]);
        free(job.feeders[i]);
    }
    free(job.running);
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
