/* SPDX-License-Identifier: MIT
 * cofi coverage: recordings -> which functions, lines, branches and blocks ran, and how often: as a
 * table, or as a file that others read. */
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cofi/cofi.h>

#include "cli.h"
#include "coverage.h"
#include "output.h"
#include "session.h"
#include "writer.h"

enum format {
    FORMAT_TEXT, FORMAT_HTML, FORMAT_LCOV, FORMAT_DRCOV, FORMAT_AFL, FORMAT_BOLT, FORMAT_AFDO, FORMAT_AFDO_GCC
};

struct coverage_options {
    struct session_options session;
    struct coverage_table table;
    enum format format;
    const char *module, *function, *source; /* patterns; null: all */
    struct cofi_demangler *simple, *full;   /* names as a pattern may have them */
    bool no_source;
    bool by_given, sort_given;
};

static const char usage[] =
    "usage: cofi coverage [options] [FILE...]    default FILE: cofi.data\n"
    "       cofi coverage [options] -- COMMAND...    record that first, as cofi record does\n\n"
    "Print which functions ran, and how often: for each module its functions with the instructions they executed,\n"
    "how often they were entered, how much of their code and of their source lines ran, and how many of the two outcomes\n"
    "of each conditional branch there were. Several recordings add up.\n\n"
    "      --format=F          text (default); html: a page of files and functions, to look around in with a browser;\n"
    "                          lcov: a tracefile for genhtml; drcov: blocks, for Lighthouse and others;\n"
    "                          afl: a map of 64 KiB of transitions between blocks; bolt: a profile for perf2bolt -pa;\n"
    "                          afdo: a sample profile (AutoFDO) for clang -fprofile-sample-use; afdo-gcc: for gcc -fauto-profile\n" SESSION_OUTPUT_HELP
    "      --by=WHAT           text: one row for each module, function (default), line, branch or insn; target: where\n"
    "                          indirect branches led; source: the files as they are written, with counts beside their lines\n"
    "      --sort=KEY          functions by executed (default), entered, share, name or address\n"
    "      --all               functions, lines and branches that did not run, too\n"
    "      --module=PATTERN    only modules whose path or file name matches (shell pattern)\n"
    "      --function=PATTERN  only functions whose name matches\n"
    "      --source=PATTERN    only source files whose path or file name matches\n"
    "      --no-source         do not look lines up\n" SESSION_NAMES_HELP SESSION_THREADS_HELP SESSION_HELP;

static const struct option long_options[] = {
    SESSION_LONG_OPTIONS, SESSION_THREADS, SESSION_NAMES,
    {"format", required_argument, 0, 'f'}, SESSION_OUTPUT,
    {"by", required_argument, 0, 'b'}, {"sort", required_argument, 0, 's'},
    {"all", no_argument, 0, 'a'}, {"module", required_argument, 0, 'm'},
    {"function", required_argument, 0, 'n'}, {"source", required_argument, 0, 'S'},
    {"no-source", no_argument, 0, 'L'},
    {0},
};

/* ---- options ---- */

static int take(void *opaque, int letter, const char *argument)
{
    static const char *const formats[] = {"text", "html", "lcov", "drcov", "afl", "bolt", "afdo", "afdo-gcc", NULL},
                             *const rows[] = {"module", "function", "source", "line", "branch", "target", "insn", NULL},
                             *const keys[] = {"executed", "entered", "share", "name", "address", NULL};
    struct coverage_options *options = opaque;
    int choice = 0;
    switch (letter) {
    case 'f': choice = word_number(formats, argument); options->format = (enum format)choice; break;
    case 'b':
        choice = word_number(rows, argument);
        options->table.by = (enum coverage_by)choice;
        options->by_given = true;
        break;
    case 's':
        choice = word_number(keys, argument);
        options->table.sort = (enum coverage_sort)choice;
        options->sort_given = true;
        break;
    case 'm': options->module = argument; break;
    case 'n': options->function = argument; break;
    case 'S': options->source = argument; break;
    case 'a': options->table.all = true; break;
    case 'L': options->no_source = true; break;
    default: break;
    }
    return choice < 0 ? -1 : 0;
}

static bool is_sample(enum format format) { return format == FORMAT_AFDO || format == FORMAT_AFDO_GCC; }

static bool shows_lines(const struct coverage_options *options)
{
    if (options->format == FORMAT_HTML)
        return !options->no_source;
    if (options->format != FORMAT_TEXT)
        return options->format == FORMAT_LCOV;
    return options->table.by == BY_LINE || options->table.by == BY_SOURCE;
}

/* What would have no effect. */
static const char *useless(const struct coverage_options *options)
{
    bool text = options->format == FORMAT_TEXT, lines = shows_lines(options);
    if (options->session.json && !text)
        return "--json is a form of text; leave out --format or --json";
    if (options->session.json && options->table.by == BY_SOURCE)
        return "--by=source is for people; --by=line and --by=branch have the same as JSON";
    if (!text && (options->by_given || options->sort_given || options->table.all))
        return "--by, --sort and --all are of text; the other formats have rows of their own";
    if (options->table.all && options->table.by == BY_TARGET)
        return "--all has no effect: what an indirect branch did not lead to is not known";
    if (options->sort_given && options->table.by != BY_FUNCTION)
        return "--sort is of functions (--by=function)";
    if (is_sample(options->format) && (options->source || options->no_source))
        return "a sample profile is of all lines of functions; --module and --function choose which";
    if (options->no_source && (lines || options->source))
        return "--no-source leaves nothing to show of lines";
    if (options->source && (!lines && !(text && options->table.by != BY_INSN)))
        return "--source is of lines, which this shows none of";
    if (options->function && options->format == FORMAT_AFL)
        return "--function has no effect on a map; --module has";
    if (options->session.given['D'] && !text && options->format != FORMAT_HTML)
        return "--demangle is of text and pages; names in lcov's files are the linker's, and genhtml has --demangle-cpp";
    if (options->no_source && !text && options->format != FORMAT_HTML)
        return "--no-source is of text and pages; this format has no lines";
    return NULL;
}

/* When the oldest recording was written; 0: nobody knows. */
static time_t recorded_at(const struct session_options *options)
{
    time_t oldest = 0;
    struct stat status;
    size_t n = options->raw ? 0 : options->files_n ? options->files_n : 1;
    for (size_t i = 0; i < n; i++)
        if (!stat(options->files_n ? options->files[i] : "cofi.data", &status) && (!oldest || status.st_mtime < oldest))
            oldest = status.st_mtime;
    return oldest;
}

static int parse(struct coverage_options *options, int argc, char **argv)
{
    const struct session_command command = {.name = "coverage", .usage = usage, .options = long_options, .take = take,
                                            .opaque = options, .many = true, .records = true, .letters = "hi:o:"};
    *options = (struct coverage_options){.table = {.by = BY_FUNCTION}};
    int status = session_parse(&command, &options->session, argc, argv);
    if (status != EXIT_DONE)
        return status;
    const char *wrong = useless(options);
    bool binary = options->format == FORMAT_DRCOV || options->format == FORMAT_AFDO_GCC ||
                  options->format == FORMAT_AFL;
    if (!wrong && binary && !options->session.output && isatty(STDOUT_FILENO))
        wrong = "this format is no text for a terminal; -o FILE, or send standard output elsewhere";
    if (wrong)
        complain("coverage: %s", wrong);
    options->table.json = options->session.json;
    options->table.in_source = options->source != NULL;
    options->table.some = options->function != NULL;
    options->table.symfs = options->session.where.symfs;
    options->table.recorded = recorded_at(&options->session);
    return wrong ? EXIT_USAGE : EXIT_DONE;
}

/* ---- counting ---- */

struct job {
    const struct coverage_options *options;
    struct cofi_coverage_options wants;
    struct cofi_coverage *all;
    uint64_t gaps, overflows;
    bool any; /* recording that could be counted: without one nothing is written */
    /* of the recording that is open */
    struct session *session;
    pthread_mutex_t lock;
    struct cofi_coverage **counted; /* one a stream, from when it was counted until it is added, which
                                     * goes in their order */
    size_t added;
};

/* One stream. */
struct counter {
    struct cofi_coverage *coverage;
    struct session_stream *stream;
    struct cofi_flow_stats stats;
};

static bool wanted(void *opaque, enum cofi_coverage_kind kind, const char *name)
{
    const struct coverage_options *options = opaque;
    switch (kind) {
    case COFI_COVERAGE_MODULE: return matches_module(options->module, name);
    case COFI_COVERAGE_FUNCTION:
        return matches_pattern(options->function, name) ||
               matches_pattern(options->function, cofi_demangle(options->simple, name)) ||
               matches_pattern(options->function, cofi_demangle(options->full, name));
    case COFI_COVERAGE_SOURCE: return matches_pattern(options->source, name);
    }
    return true;
}

static int count_blocks(void *opaque, struct cofi_flow *flow, const struct cofi_flow_block *const *blocks, size_t n)
{
    struct counter *counter = opaque;
    return cofi_coverage_blocks(counter->coverage, cofi_flow_view(flow), blocks, n);
}

static int count_event(void *opaque, struct cofi_flow *flow, const struct cofi_flow_event *event)
{
    struct counter *counter = opaque;
    (void)flow;
    cofi_coverage_event(counter->coverage, event);
    counter->stats.gaps += event->kind == COFI_FLOW_GAP; /* those of what was asked for: decoding may
                                                          * begin before, amid RTIT by a gap */
    counter->stats.overflows += event->kind == COFI_FLOW_OVERFLOW;
    return 0;
}

static int take_turn(void *opaque, struct cofi_flow *flow)
{
    struct counter *counter = opaque;
    (void)flow;
    cofi_coverage_process(counter->coverage, counter->stream->pid);
    return 0;
}

/* At once, which costs least, or block by block where it matters which is which: for a map or targets,
 * up to --to, or of one thread of a processor. */
static int count_flow(const struct job *job, struct counter *counter)
{
    const struct session_options *options = &job->options->session;
    struct session_stream *stream = counter->stream;
    bool one_by_one = job->wants.edges || job->wants.targets || job->wants.ways;
    if (one_by_one || stream->turns || options->to_offset != UINT64_MAX || options->to_ns != UINT64_MAX ||
        options->from_ns)
        return session_walk(stream, &(struct session_visitor){.blocks = count_blocks, .event = count_event,
                                                              .turn = take_turn, .opaque = counter, .trim = true});
    return session_cover(stream, counter->coverage, &counter->stats);
}

static int count_stream(const struct job *job, struct session_stream *stream, struct counter *counter)
{
    *counter = (struct counter){.stream = stream};
    int status = cofi_coverage_open(&counter->coverage, &job->wants);
    if (status < 0)
        return status;
    cofi_coverage_process(counter->coverage, session_recording(job->session) ? stream->pid : -1);
    status = count_flow(job, counter);
    return status < 0 ? status : session_drain(stream);
}

/* In the order of the streams, so that the result does not depend on which was counted first. */
static int add_in_order(struct job *job, size_t i, const struct counter *counter)
{
    int status = 0;
    pthread_mutex_lock(&job->lock);
    job->gaps += counter->stats.gaps;
    job->overflows += counter->stats.overflows;
    job->counted[i] = counter->coverage;
    while (status >= 0 && job->added < session_streams(job->session) && job->counted[job->added]) {
        struct cofi_coverage **next = &job->counted[job->added++];
        status = cofi_coverage_add(job->all, *next);
        cofi_coverage_close(*next);
        *next = NULL;
    }
    pthread_mutex_unlock(&job->lock);
    return status;
}

static int do_stream(void *opaque, size_t i)
{
    struct job *job = opaque;
    struct session_stream stream;
    struct counter counter;
    session_stream(job->session, i, &stream);
    int status = count_stream(job, &stream, &counter);
    if (status >= 0)
        status = add_in_order(job, i, &counter);
    else
        cofi_coverage_close(counter.coverage);
    if (status == COFI_ERR_NOMEM)
        complain("coverage: %s", cofi_error_text(status));
    return status < 0 ? EXIT_ENVIRONMENT : EXIT_DONE;
}

static int count_session(struct job *job)
{
    size_t n = session_streams(job->session);
    job->added = 0;
    job->counted = calloc(n + 1, sizeof(struct cofi_coverage *));
    int status = job->counted ? session_each(job->session, do_stream, job) : EXIT_DONE;
    for (size_t i = 0; i < n && job->counted; i++)
        cofi_coverage_close(job->counted[i]);
    free(job->counted);
    if (!job->counted || (status == EXIT_DONE && cofi_coverage_learn(job->all) < 0)) {
        complain("coverage: %s", cofi_error_text(COFI_ERR_NOMEM));
        status = EXIT_ENVIRONMENT;
    }
    return status;
}

/* A recording, and on to the next: but one is open at a time. */
static int count_file(struct job *job, const char *file)
{
    struct session_options options = job->options->session;
    options.file = file;
    options.once = true;
    int status = session_open(&job->session, &options);
    if (status != EXIT_DONE)
        return status;
    job->any = true;
    status = count_session(job);
    status = session_status(job->session, status);
    session_close(job->session);
    return status;
}

/* The worst of all; a damaged one does not keep others from being counted. */
static int count_all(struct job *job)
{
    const struct session_options *options = &job->options->session;
    size_t n = options->raw || !options->files_n ? 1 : options->files_n;
    int status = EXIT_DONE;
    for (size_t i = 0; i < n; i++) {
        int one = count_file(job, options->files_n ? options->files[i] : NULL);
        if (one != EXIT_DONE && one != EXIT_DATA)
            return one;
        if (one == EXIT_DATA)
            status = one;
    }
    return status;
}

/* ---- writing ---- */

/* The file that a profile for BOLT is of, which takes addresses of one; null: there are more, or none. */
static const struct cofi_coverage_module *only_file(const struct job *job)
{
    size_t n, files = 0, last = 0;
    const struct cofi_coverage_module *modules = cofi_coverage_modules(job->all, &n);
    for (size_t i = 0; i < n; i++) {
        files += modules[i].of_file;
        last = modules[i].of_file ? i : last;
    }
    return files == 1 ? &modules[last] : NULL;
}

static bool is_file(const struct cofi_coverage_module *module) { return module->of_file; }
static bool is_placed(const struct cofi_coverage_module *module) { return module->placed > 0; }

/* Says which modules there are to choose from. Returns how many. */
static size_t list_modules(const struct job *job, bool (*has)(const struct cofi_coverage_module *module),
                           const char *text)
{
    enum { SHOWN = 8 };
    size_t n, found = 0;
    const struct cofi_coverage_module *modules = cofi_coverage_modules(job->all, &n);
    for (size_t i = 0; i < n; i++) {
        if (!has(&modules[i]))
            continue;
        if (!found)
            complain("coverage: %s; choose with --module one of those that ran, here with most first:", text);
        if (found++ < SHOWN)
            complain("coverage:   %s", modules[i].path);
    }
    return found;
}

static void ask_for_one_file(const struct job *job)
{
    size_t modules;
    cofi_coverage_modules(job->all, &modules);
    if (!list_modules(job, is_file, "a profile for BOLT is of one file"))
        complain("coverage: a profile for BOLT is of a file, and no file's code ran%s",
                 modules ? "" : " of what was asked for");
}

/* How much of what ran a sample profile has. */
static void sum_placed(const struct job *job, uint64_t *placed, uint64_t *executed)
{
    size_t n;
    const struct cofi_coverage_module *modules = cofi_coverage_modules(job->all, &n);
    *placed = *executed = 0;
    for (size_t i = 0; i < n; i++) {
        *placed += modules[i].placed;
        *executed += modules[i].executed;
    }
}

/* The module that ran most of what a sample profile does not have. */
static const struct cofi_coverage_module *most_unplaced(const struct job *job)
{
    size_t n, at = 0;
    const struct cofi_coverage_module *modules = cofi_coverage_modules(job->all, &n);
    for (size_t i = 0; i < n; i++)
        if (modules[i].executed - modules[i].placed > modules[at].executed - modules[at].placed)
            at = i;
    return &modules[at];
}

/* A sample profile of more than was asked for would pass what libraries ran for the program's. */
static bool must_choose(const struct job *job)
{
    size_t n, placed = 0;
    const struct cofi_coverage_module *modules = cofi_coverage_modules(job->all, &n);
    for (size_t i = 0; i < n; i++)
        placed += is_placed(&modules[i]);
    return !job->options->module && placed > 1;
}

/* It is of functions that debug information tells of. False: there are none. Lines without functions are
 * those of files whose rest was split off, or was not made. */
static bool judge_placed(const struct job *job)
{
    uint64_t placed, executed;
    sum_placed(job, &placed, &executed);
    if (!executed || placed == executed)
        return true;
    const struct cofi_coverage_module *most = most_unplaced(job);
    char share[PERCENT_BYTES];
    if (placed)
        complain("coverage: the profile has %s of %" PRIu64
                 " instructions; the others ran in functions without debug information, most in %s",
                 percent(placed, executed, share), executed, most->path);
    else if (most->lines)
        complain(
            "coverage: no function that ran has debug information that tells where it is declared, though there are lines of it, most ran in %s: its "
            ".dwo files are not there or cannot be read (.dwp, zstd), or -fdebug-info-for-profiling is missing (clang -gline-tables-only)",
            most->path);
    else
        complain(
            "coverage: no function that ran has debug information that tells where it is declared, most ran in %s: compile with -g, or with "
            "-gline-tables-only -fdebug-info-for-profiling (clang), do not strip",
            most->path);
    return placed > 0;
}

static int write_page(const struct job *job, struct writer *out)
{
    struct coverage_table table = job->options->table;
    table.gaps = job->gaps;
    table.overflows = job->overflows;
    return coverage_page(&table, job->all, out);
}

static int write_all(const struct job *job, struct writer *out)
{
    const struct coverage_options *options = job->options;
    switch (options->format) {
    case FORMAT_TEXT: return coverage_print(&options->table, job->all, out);
    case FORMAT_HTML: return write_page(job, out);
    case FORMAT_LCOV: return cofi_coverage_lcov(job->all, write_put, out);
    case FORMAT_DRCOV: return cofi_coverage_drcov(job->all, write_put, out);
    case FORMAT_BOLT: return cofi_coverage_bolt(only_file(job), write_put, out);
    case FORMAT_AFDO: return cofi_coverage_afdo(job->all, write_put, out);
    case FORMAT_AFDO_GCC: return cofi_coverage_afdo_gcc(job->all, write_put, out);
    case FORMAT_AFL: return write_put(out, (const char *)cofi_coverage_map(job->all), COFI_COVERAGE_MAP);
    }
    return 0;
}

static int write_result(const struct job *job)
{
    struct writer *out = malloc(sizeof *out);
    int status = out ? 0 : COFI_ERR_NOMEM, written = EXIT_DONE;
    if (status >= 0 && output_begin("coverage") != EXIT_DONE)
        status = COFI_ERR_IO; /* which was said */
    if (status >= 0) {
        writer_begin(out, stdout);
        status = write_all(job, out);
        written = writer_end(out, "coverage");
    }
    free(out);
    if (status < 0 && status != COFI_ERR_IO)
        complain("coverage: %s", cofi_error_text(status));
    return status < 0 ? EXIT_ENVIRONMENT : written;
}

/* What is not in the result is said. */
static int judge(const struct job *job, int status)
{
    const struct coverage_options *options = job->options;
    bool filtered = options->module || options->function || options->source;
    size_t sources, modules;
    cofi_coverage_sources(job->all, &sources);
    cofi_coverage_modules(job->all, &modules);
    bool lines = shows_lines(options) && options->format != FORMAT_HTML; /* a page has functions, too */
    if (job->gaps)
        complain("coverage: %" PRIu64 " gaps: what ran there is missing; 'cofi check' lists them", job->gaps);
    if (job->overflows)
        complain("coverage: %" PRIu64 " overflows: what ran while packets were lost is missing", job->overflows);
    bool nothing = filtered && !modules && options->format != FORMAT_AFL;
    const char *lacks = options->format == FORMAT_TEXT && modules ? coverage_lacks(&options->table, job->all) : NULL;
    if (lacks)
        complain("coverage: no %s ran in what was asked for", lacks);
    if (nothing)
        complain("coverage: nothing that ran is of what was asked for; %s",
                 options->function
                     ? "'cofi coverage' lists functions, and one that was inlined is a part of those it is in"
                 : options->source ? "'cofi coverage --by=line' lists source files"
                                   : "'cofi coverage --by=module' lists modules");
    else if (lines && !sources)
        complain("coverage: no lines: no module that ran has a line table, or none that was asked for");
    return status == EXIT_DONE && (job->gaps || nothing || lacks || (lines && !sources)) ? EXIT_DATA : status;
}

static int count_and_write(struct job *job)
{
    int status = count_all(job);
    if (!job->any || (status != EXIT_DONE && status != EXIT_DATA))
        return status;
    if (cofi_coverage_finish(job->all) < 0) {
        complain("coverage: %s", cofi_error_text(COFI_ERR_NOMEM));
        return EXIT_ENVIRONMENT;
    }
    if (job->options->format == FORMAT_BOLT && !only_file(job)) {
        ask_for_one_file(job);
        return EXIT_DATA;
    }
    if (is_sample(job->options->format) && must_choose(job)) {
        list_modules(job, is_placed, "several files with debug information ran");
        return EXIT_DATA;
    }
    status = judge(job, status);
    if (is_sample(job->options->format) && !judge_placed(job))
        return EXIT_DATA;
    int written = write_result(job);
    return written != EXIT_DONE ? written : status;
}

static int open_names(struct coverage_options *options)
{
    enum cofi_demangle how = options->session.demangle;
    int status = cofi_demangler_open(&options->simple, COFI_DEMANGLE_SIMPLE);
    if (status >= 0)
        status = cofi_demangler_open(&options->full, COFI_DEMANGLE_FULL);
    options->table.names = how == COFI_DEMANGLE_NO ? NULL : how == COFI_DEMANGLE_FULL ? options->full : options->simple;
    return status;
}

static int run(struct coverage_options *options)
{
    enum format format = options->format;
    bool tables = format == FORMAT_TEXT && options->table.by != BY_INSN;
    bool lines = format == FORMAT_LCOV || is_sample(format) ||
                 ((tables || format == FORMAT_HTML) && !options->no_source);
    struct job job = {.options = options,
                      .lock = PTHREAD_MUTEX_INITIALIZER,
                      .wants = {.size = sizeof job.wants,
                                .names = format != FORMAT_AFL && (format != FORMAT_DRCOV || options->function),
                                .lines = lines, .sourced = options->source, .edges = format == FORMAT_AFL,
                                .wanted = wanted, .opaque = options, .ways = format == FORMAT_BOLT || is_sample(format),
                                .scopes = is_sample(format),
                                .targets = format == FORMAT_TEXT && options->table.by == BY_TARGET}};
    int status = open_names(options);
    if (status >= 0)
        status = cofi_coverage_open(&job.all, &job.wants);
    if (status >= 0) {
        status = count_and_write(&job);
    } else {
        complain("coverage: %s", cofi_error_text(status));
        status = EXIT_ENVIRONMENT;
    }
    cofi_coverage_close(job.all);
    cofi_demangler_close(options->simple);
    cofi_demangler_close(options->full);
    pthread_mutex_destroy(&job.lock);
    return status;
}

int cmd_coverage(int argc, char **argv)
{
    struct coverage_options options;
    int status = parse(&options, argc, argv);
    if (status != EXIT_DONE)
        return status < 0 ? EXIT_DONE : status;
    status = output_open("coverage", options.session.output);
    return status == EXIT_DONE ? run(&options) : status;
}
