/* SPDX-License-Identifier: MIT
 * cofi calls: a recording -> the call tree of each thread, with instruction counts. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cofi/cofi.h>

#include "calls_page.h"
#include "calls_print.h"
#include "cli.h"
#include "session.h"
#include "threads.h"
#include "writer.h"

enum calls_format { CALLS_TREE, CALLS_LIST, CALLS_FOLDED, CALLS_HTML, CALLS_CHROME, CALLS_SQL };
static const char *const format_names[] = {[CALLS_TREE] = "tree",
                                           [CALLS_LIST] = "list",
                                           [CALLS_FOLDED] = "folded",
                                           [CALLS_HTML] = "html",
                                           [CALLS_CHROME] = "chrome",
                                           [CALLS_SQL] = "sql",
                                           NULL};

struct calls_options {
    struct session_options session;
    enum calls_format format;
    uint64_t depth;     /* how deep to print */
    uint64_t min_insns; /* leave out what is smaller */
    double min_percent;
    bool no_source;
};

/* A thread's tree, list or timeline, and what its functions are asked of. */
struct feeder {
    const struct calls_options *options;
    struct writer *out;
    struct cofi_calls *calls;
    struct cofi_timeline *timeline; /* null: not asked for */
    bool titled;               /* of a list: what comes now stands below its title */
    struct cofi_view *view;
    const struct cofi_time_conv *conv;
    struct cofi_demangler *names;
    uint64_t gaps, insns;
    int32_t pid, tid;
    size_t thread;             /* where streams belong to processors: its row */
    uint32_t number;           /* from 1 on, in the order in which threads came */
    const char *comm;
    bool first;               /* of its process */
    struct feeder *next_tid, *next_pid; /* of the same bucket */
};

enum { BUCKETS = 4096 };

/* The trees of a recording: one a stream, or where streams belong to processors, one a thread. */
struct calls_job {
    const struct calls_options *options;
    struct session *session;
    struct feeder **feeders; /* they stay where they are: trees refer to them */
    size_t n, room;
    struct feeder *by_tid[BUCKETS], *by_pid[BUCKETS]; /* by_pid: the first ones of processes */
    struct feeder *now;
    struct session_stream *stream;
    struct threads threads;
    struct feeder **running; /* by stream, the recording's: who ran last */
    struct writer *out;      /* of all, where streams belong to processors */
};

static const char usage[] =
    "usage: cofi calls [options] [FILE]    default FILE: cofi.data\n"
    "       cofi calls [options] -- COMMAND...    record that first, as cofi record does\n\n"
    "Print the call tree of each thread: instructions in a function and all it called, its share,\n"
    "how often it was called on this path, its name.\n\n" SESSION_OUTPUT_HELP
    "      --format=tree       the tree (default)\n"
    "      --format=list       each call as it came, with the source line that it is in\n"
    "      --format=folded     a line a path, for flame graphs\n"
    "      --format=html       a page with the trees as flame graphs, to look around in with a browser\n"
    "      --format=chrome     a timeline, for ui.perfetto.dev and other viewers of Chrome's trace events\n"
    "      --format=sql        a database of all calls and when they were, as perf's export has them: | sqlite3 calls.db\n"
    "      --depth=N           at most N levels (default 64)\n"
    "      --min=PERCENT       of a tree's whole: leave out what is smaller (default 0)\n"
    "      --min-insns=N       leave out what has fewer instructions, but from a list (default 0)\n"
    "      --no-source         in a list: no source lines (faster)\n" SESSION_NAMES_HELP SESSION_THREADS_HELP
        SESSION_HELP;

static const struct option long_options[] = {
    SESSION_LONG_OPTIONS, SESSION_OUTPUT, SESSION_THREADS, SESSION_NAMES,
    {"format", required_argument, 0, 'f'},
    {"depth", required_argument, 0, 'd'},
    {"min", required_argument, 0, 'm'},
    {"min-insns", required_argument, 0, 'k'},
    {"no-source", no_argument, 0, 'S'},
    {0},
};

static int take_format(const char *argument, enum calls_format *format)
{
    int number = word_number(format_names, argument);
    *format = (enum calls_format)number;
    return number < 0 ? -1 : 0;
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
    case 'k': return parse_number(argument, UINT64_MAX, &options->min_insns) ? 0 : -1;
    case 'S': options->no_source = true; return 0;
    default: return take_percent(argument, &options->min_percent);
    }
}

static bool is_timeline(const struct calls_options *options)
{
    return options->format == CALLS_CHROME || options->format == CALLS_SQL;
}

/* Null, or what an option is not for. */
static const char *misused(const struct calls_options *options)
{
    bool tree = options->format == CALLS_TREE, list = options->format == CALLS_LIST;
    if (options->session.json && !tree && !list)
        return "--json is of trees and lists";
    if (options->min_percent > 0 && (list || is_timeline(options)))
        return "--min is of a tree's whole, which is not known while it is shown";
    if (options->min_insns && list)
        return "--min-insns is of calls that have returned, a list shows them as they begin";
    return options->no_source && !list ? "--no-source is of lists" : NULL;
}

static int parse(struct calls_options *options, int argc, char **argv)
{
    const struct session_command command = {.name = "calls", .usage = usage, .options = long_options, .take = take,
                                            .opaque = options, .records = true, .writes = true, .letters = "hi:o:"};
    *options = (struct calls_options){.depth = 64};
    int status = session_parse(&command, &options->session, argc, argv);
    const char *wrong = status == EXIT_DONE ? misused(options) : NULL;
    if (!wrong)
        return status;
    complain("calls: --format=%s: %s", format_names[options->format], wrong);
    return EXIT_USAGE;
}

/* ---- what ran ---- */

static void function_at(void *opaque, uint64_t address, struct cofi_function *function)
{
    struct feeder *feeder = opaque;
    cofi_view_function(feeder->view, feeder->names, address, function);
}

/* A tree that lacks names for want of memory is none. */
static int named(const struct feeder *feeder, int status)
{
    return status >= 0 && cofi_view_incomplete(feeder->view) ? COFI_ERR_NOMEM : status;
}

static int feed_blocks(void *opaque, struct cofi_flow *flow, const struct cofi_flow_block *const *blocks, size_t n)
{
    struct feeder *feeder = opaque;
    feeder->view = cofi_flow_view(flow);
    for (size_t i = 0; feeder->timeline && i < n; i++)
        feeder->insns += blocks[i]->n;
    int status = named(feeder, cofi_calls_blocks(feeder->calls, blocks, n));
    return status ? status : writer_failed(feeder->out);
}

static void feed_time(void *opaque, struct cofi_flow_stamp stamp)
{
    struct feeder *feeder = opaque;
    uint64_t ns = feeder->conv->mult ? cofi_time_ns(feeder->conv, stamp.ticks) : stamp.ticks;
    cofi_timeline_time(feeder->timeline, ns, feeder->insns);
}

static void draw_gap(struct feeder *feeder, struct cofi_flow *flow, const struct cofi_flow_event *event)
{
    char text[1024] = "overflow";
    if (event->kind == COFI_FLOW_GAP)
        session_gap(flow, event, text, sizeof text);
    cofi_timeline_gap(feeder->timeline, text, feeder->insns);
}

static void draw_event(struct feeder *feeder, struct cofi_flow *flow, const struct cofi_flow_event *event)
{
    if (event->kind == COFI_FLOW_DISABLED || event->kind == COFI_FLOW_ASYNC_DISABLED)
        cofi_timeline_off(feeder->timeline, "untraced", feeder->insns);
    else if (event->kind == COFI_FLOW_GAP || event->kind == COFI_FLOW_OVERFLOW)
        draw_gap(feeder, flow, event);
}

static int feed_event(void *opaque, struct cofi_flow *flow, const struct cofi_flow_event *event)
{
    struct feeder *feeder = opaque;
    feeder->view = cofi_flow_view(flow);
    feeder->gaps += event->kind == COFI_FLOW_GAP;
    /* before what returns there is left */
    if (feeder->timeline && event->kind == COFI_FLOW_ENABLED && event->time.known)
        feed_time(feeder, (struct cofi_flow_stamp){event->time.ticks, event->time.interpolated});
    int status = named(feeder, cofi_calls_event(feeder->calls, event));
    if (feeder->timeline)
        draw_event(feeder, flow, event);
    return status;
}

/* ---- trees ---- */

static void print(const struct feeder *feeder, const struct cofi_calls_node *nodes, const struct cofi_calls_node *node)
{
    const struct calls_options *options = feeder->options;
    if (options->format == CALLS_FOLDED) /* with what it called, where that is not shown */
        print_path(feeder->out, feeder->comm, nodes, node, node->depth < options->depth ? node->self : node->total);
    else if (options->session.json)
        print_node_json(feeder->out, feeder->tid, node);
    else
        print_node(feeder->out, node, nodes[0].total);
}

static bool is_shown(const struct calls_options *options, const struct cofi_calls_node *node, uint64_t whole)
{
    return 100.0 * (double)node->total >= options->min_percent * (double)whole && node->total >= options->min_insns;
}

/* Depth first without recursion: the tree may be as deep as the program's stack. 0: behind the last one. */
static uint32_t next_node(const struct cofi_calls_node *nodes, uint32_t i, bool below)
{
    if (below && nodes[i].first_child)
        return nodes[i].first_child;
    while (i && !nodes[i].next)
        i = nodes[i].parent;
    return i ? nodes[i].next : 0;
}

/* The nodes that are shown, each before those below it. out: room for all of the tree's, or null, to
 * print them. Returns how many. */
static size_t shown_nodes(const struct feeder *feeder, const struct cofi_calls_node **out)
{
    const struct calls_options *options = feeder->options;
    size_t n, shown = 0;
    const struct cofi_calls_node *nodes = cofi_calls_nodes(feeder->calls, &n);
    bool below;
    for (uint32_t i = nodes[0].first_child; i; i = next_node(nodes, i, below && nodes[i].depth < options->depth)) {
        below = is_shown(options, &nodes[i], nodes[0].total);
        if (below && out)
            out[shown] = &nodes[i];
        else if (below)
            print(feeder, nodes, &nodes[i]);
        shown += below;
    }
    return shown;
}

/* first: no other tree stands before it. */
static int write_page(const struct feeder *feeder, bool first)
{
    size_t n;
    const struct cofi_calls_node *nodes = cofi_calls_nodes(feeder->calls, &n), **list = calloc(n, sizeof *list);
    if (!list)
        return COFI_ERR_NOMEM;
    struct page_tree tree = {.tid = feeder->tid,
                             .comm = feeder->comm,
                             .nodes = list,
                             .insns = nodes[0].total,
                             .gaps = feeder->gaps,
                             .first = first};
    tree.n = shown_nodes(feeder, list);
    int status = page_of_calls_tree(&tree, feeder->out);
    free(list);
    return status;
}

static void print_title(const struct feeder *feeder)
{
    char name[COFI_NAME_BYTES];
    if (!feeder->options->session.json)
        write_format(feeder->out, "== thread %d (%s)\n", feeder->tid, in_a_line(feeder->comm, name, sizeof name));
}

/* ---- lists ---- */

static int list_call(void *opaque, const struct cofi_function *function, size_t depth, uint64_t next, uint64_t insns)
{
    struct feeder *feeder = opaque;
    struct cofi_symbol from = {0};
    (void)insns;
    if (depth >= feeder->options->depth)
        return 0;
    if (next && !feeder->options->no_source)
        cofi_view_symbol(feeder->view, next - 1, true, &from);
    if (!feeder->titled)
        print_title(feeder);
    feeder->titled = true;
    if (feeder->options->session.json)
        print_call_json(feeder->out, feeder->tid, function, depth, &from);
    else
        print_call(feeder->out, function, depth, &from);
    return 0;
}

/* ---- timelines ---- */

static int draw_enter(void *opaque, const struct cofi_function *function, size_t depth, uint64_t next, uint64_t insns)
{
    (void)depth;
    (void)next;
    cofi_timeline_enter(opaque, function, insns);
    return 0;
}

static void draw_leave(void *opaque, uint64_t insns) { cofi_timeline_leave(opaque, insns); }

static enum cofi_timeline_format timeline_format(const struct calls_options *options)
{
    return options->format == CALLS_SQL ? COFI_TIMELINE_SQL : COFI_TIMELINE_CHROME;
}

static int begin_timeline(const struct calls_job *job, struct feeder *feeder)
{
    const struct cofi_timeline_options of = {
        .size = sizeof of,
        .put = write_put,
        .opaque = feeder->out,
        .pid = feeder->pid,
        .tid = feeder->tid,
        .comm = feeder->comm,
        .depth = job->options->depth,
        .least_insns = job->options->min_insns,
        .process = feeder->tid == feeder->pid || feeder->first, /* it names that */
        .first = feeder == job->feeders[0],
        .format = timeline_format(job->options),
        .number = feeder->number,
    };
    int status = cofi_timeline_open(&feeder->timeline, &of);
    if (status < 0)
        return status;
    cofi_calls_watch(feeder->calls, &(struct cofi_calls_watcher){draw_enter, draw_leave, feeder->timeline});
    return 0;
}

/* Behind the last thread. */
static void end_output(const struct calls_options *options, struct writer *out)
{
    if (is_timeline(options))
        write_text(out, cofi_timeline_tail(timeline_format(options)));
    if (options->format == CALLS_HTML)
        page_of_calls_end(out);
}

/* ---- a thread's ---- */

static int begin(const struct calls_job *job, struct feeder *feeder, struct writer *out)
{
    int status = cofi_calls_open(&feeder->calls, function_at, feeder);
    if (status < 0)
        return status;
    feeder->out = out;
    if (job->options->format == CALLS_LIST)
        cofi_calls_watch(feeder->calls, &(struct cofi_calls_watcher){list_call, NULL, feeder});
    if (job->options->format == CALLS_HTML && feeder == job->feeders[0])
        page_of_calls_begin(out);
    return is_timeline(job->options) ? begin_timeline(job, feeder) : 0;
}

/* All is known of it. first: of no other one before. */
static int finish(struct feeder *feeder, bool first)
{
    if (feeder->timeline)
        return cofi_timeline_end(feeder->timeline, feeder->insns);
    if (feeder->options->format == CALLS_LIST)
        return 0;
    cofi_calls_finish(feeder->calls);
    if (feeder->options->format == CALLS_HTML)
        return write_page(feeder, first);
    if (feeder->options->format == CALLS_TREE)
        print_title(feeder);
    shown_nodes(feeder, NULL);
    return 0;
}

/* Into the tables; there may be as many threads as a machine ever ran. */
static void enlist(struct calls_job *job, struct feeder *feeder)
{
    struct feeder **of_tid = &job->by_tid[(uint32_t)feeder->tid % BUCKETS],
                  **of_pid = &job->by_pid[(uint32_t)feeder->pid % BUCKETS], *other = *of_pid;
    feeder->next_tid = *of_tid;
    *of_tid = feeder;
    while (other && other->pid != feeder->pid)
        other = other->next_pid;
    feeder->first = !other;
    if (other)
        return;
    feeder->next_pid = *of_pid;
    *of_pid = feeder;
}

/* A thread, whose tree is to begin; null: out of memory. */
static struct feeder *add_feeder(struct calls_job *job, const struct session_stream *stream)
{
    if (!array_grow(&job->feeders, job->n, &job->room, sizeof *job->feeders))
        return NULL;
    struct feeder *feeder = calloc(1, sizeof *feeder);
    if (!feeder)
        return NULL;
    feeder->options = job->options;
    feeder->pid = stream->pid;
    feeder->tid = stream->tid;
    feeder->comm = stream->comm;
    feeder->conv = session_time_conv(job->session);
    feeder->names = session_names(job->session);
    enlist(job, feeder);
    job->feeders[job->n++] = feeder;
    feeder->number = (uint32_t)job->n;
    return feeder;
}

static void close_feeder(struct feeder *feeder)
{
    cofi_calls_close(feeder->calls);
    cofi_timeline_close(feeder->timeline);
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
    int status = begin(job, feeder, out);
    if (status >= 0)
        status = session_walk(&stream,
                              &(struct session_visitor){feed_blocks, feed_event, NULL, feeder,
                                                        .time = feeder->timeline ? feed_time : NULL, .trim = true});
    if (status >= 0)
        status = finish(feeder, i == 0);
    close_feeder(feeder);
    return status;
}

static int write_end(void *opaque, struct writer *out)
{
    end_output(((struct calls_job *)opaque)->options, out);
    return 0;
}

/* ---- processors: threads move between streams, so all are read in the order of time ---- */

/* Threads may have had one number, one after the other. */
static struct feeder *feeder_of(struct calls_job *job, const struct session_stream *stream)
{
    struct feeder *feeder = job->by_tid[(uint32_t)stream->tid % BUCKETS];
    size_t thread = threads_at(&job->threads, stream->tid, stream->turn_ns);
    while (feeder && (feeder->tid != stream->tid || feeder->thread != thread))
        feeder = feeder->next_tid;
    if (feeder)
        return feeder;
    feeder = add_feeder(job, stream);
    if (feeder)
        feeder->thread = thread;
    return feeder && begin(job, feeder, job->out) >= 0 ? feeder : NULL;
}

static int select_thread(struct calls_job *job, const struct session_stream *stream)
{
    struct feeder *before = job->now;
    job->now = job->running[stream->index] = feeder_of(job, stream);
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
    struct feeder *before = job->running[job->stream->index];
    (void)flow;
    int status = select_thread(job, job->stream);
    if (status >= 0 && before && before != job->now && before->timeline)
        cofi_timeline_off(before->timeline, "not running", before->insns);
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
    if (x->tid != y->tid)
        return x->tid < y->tid ? -1 : 1;
    return x->number < y->number ? -1 : x->number > y->number;
}

static int write_threads(void *opaque, struct writer *out)
{
    struct calls_job *job = opaque;
    job->out = out;
    int status = threads_find(&job->threads, job->session);
    if (status >= 0)
        status = session_walk_by_time(job->session,
                                      &(struct session_visitor){by_blocks, by_event, NULL, job, by_stream, by_turn,
                                                                is_timeline(job->options) ? by_time : NULL, true});
    if (status < 0)
        return status;
    if (job->n)
        qsort(job->feeders, job->n, sizeof *job->feeders, by_thread);
    bool first = true;
    for (size_t i = 0; i < job->n && status >= 0; i++) {
        size_t nodes;
        cofi_calls_nodes(job->feeders[i]->calls, &nodes);
        if (nodes <= 1 && !job->feeders[i]->timeline) /* in some turns nothing was traced */
            continue;
        status = finish(job->feeders[i], first);
        first = false;
    }
    if (status >= 0)
        end_output(job->options, out);
    return status;
}

static int all_streams(struct calls_job *job)
{
    for (size_t i = 0; i < session_streams(job->session); i++) {
        struct session_stream stream;
        session_stream(job->session, i, &stream);
        if (!add_feeder(job, &stream)) {
            complain("calls: %s", cofi_error_text(COFI_ERR_NOMEM));
            return EXIT_ENVIRONMENT;
        }
    }
    int status = session_write_each(job->session, write_stream, job);
    return status == EXIT_DONE ? writer_run("calls", write_end, job) : status; /* what looks whole is so */
}

static int run(struct session *session, const struct calls_options *options, uint64_t *gaps)
{
    const struct cofi_recording *recording = session_recording(session);
    size_t streams = recording ? cofi_recording_streams(recording) + 1 : 1;
    struct calls_job job = {.options = options, .session = session, .running = calloc(streams, sizeof *job.running)};
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
    threads_free(&job.threads);
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
