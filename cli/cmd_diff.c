/* SPDX-License-Identifier: MIT
 * cofi diff: two recordings of a program -> where their threads part. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "diff_report.h"
#include "jobs.h"

static const char usage[] =
    "usage: cofi diff [options] FILE FILE\n\n"
    "Compare two runs of a program, instruction by instruction: where they part (-: only the first one did that,\n"
    "+: only the second), and where they are together again. Exit status: 0 if they did the same, 1 if not.\n\n"
    "  -i, --input=FILE        a FILE, perf's way; twice\n"
    "  -q, --brief             say only whether they differ\n"
    "      --limit=N           show N partings of each thread (default 10); of more, the places are added up\n"
    "      --min-insns=N       show partings only in which both together did so many instructions (--calls: calls; default 0)\n"
    "      --module=PATTERN    compare only modules whose path or file name matches (shell pattern)\n"
    "      --function=PATTERN  compare only functions whose name matches\n"
    "      --calls             compare which functions were called, in order, not what they did; and tell of which\n"
    "                          more ran, or less: for builds whose code differs\n"
    "      --tid=TID[,TID]     only this thread of the first, with that of the second; without one, threads are compared\n"
    "                          that were made by the same one and are called the same, in their order\n"
    "      --no-source         do not look lines up\n"
    "      --json              one object a line\n" SESSION_NAMES_HELP
    "      --threads=N         compare N threads at once (default: as many as processors)\n"
    "      --symfs=DIR         the recorded machine's files are below DIR\n"
    "      --kcore=FILE        the kernel's code: as it was in memory\n"
    "      --vmlinux=FILE      or its file\n"
    "      --kallsyms=FILE     the names of its functions (kallsyms, System.map)\n"
    "      --cpu=F/M[/S]       family/model/stepping it was traced on, where that is not told\n"
    "      --raw               the files are raw streams\n"
    "      --gen=pt|rtit       what the raw streams are (default pt)\n"
    "      --image=FILE[@ADDR] code for both: an ELF or PE file (loaded at ADDR), raw code at ADDR, or X.addr (page dump)\n"
    "      --mode=16|32|64     of their code, until a packet tells (default: found out, or of the ELF file)\n"
    "      --msr=N=HEX,...     their trace units' registers as read back: 768=2f09,772=1f40,77d=5\n"
    "  -h, --help              this text\n";

static const struct option long_options[] = {
    SESSION_INPUT,
    {"brief", no_argument, 0, 'q'},
    {"limit", required_argument, 0, 'l'},
    {"min-insns", required_argument, 0, 'k'},
    {"module", required_argument, 0, 'm'},
    {"function", required_argument, 0, 'f'},
    {"calls", no_argument, 0, 'c'},
    {"tid", required_argument, 0, 'p'},
    {"no-source", no_argument, 0, 'S'},
    {"json", no_argument, 0, 'j'},
    {"symfs", required_argument, 0, 'Y'},
    {"kcore", required_argument, 0, 'K'},
    {"vmlinux", required_argument, 0, 'V'},
    {"kallsyms", required_argument, 0, 'Q'},
    {"cpu", required_argument, 0, 'C'},
    {"raw", no_argument, 0, 'R'},
    {"gen", required_argument, 0, 'G'},
    {"image", required_argument, 0, 'I'},
    {"msr", required_argument, 0, 'M'},
    {"mode", required_argument, 0, 'O'},
    {"help", no_argument, 0, 'h'},
    SESSION_NAMES,
    SESSION_THREADS,
    {0},
};

/* A file that code was mapped from, by its name. */
struct built_file {
    const char *name;
    const uint8_t *build_id;
    size_t build_id_size;
    bool rebuilt; /* the other recording has another build of it */
};

/* A thread of both, or of one: NO_THREAD in the other. */
struct pair {
    size_t rows[2];
};

/* What came of a pair. */
struct found {
    uint64_t both;
    bool differ, gaps;
};

struct diff_job {
    const struct diff_options *options;
    struct session *sessions[2];
    struct threads threads[2];
    struct pair *pairs;
    size_t pairs_n, pairs_room;
    struct built_file *files; /* of the first recording */
    size_t files_n, files_room;
    struct found *found; /* by pair */
};

/* ---- arguments ---- */

static int take_tids(const char *text, int32_t tids[2])
{
    char first[32];
    uint64_t a, b;
    const char *comma = strchr(text, ',');
    snprintf(first, sizeof first, "%.*s", comma ? (int)(comma - text) : 31, text);
    if (!parse_number(first, INT32_MAX, &a) || !parse_number(comma ? comma + 1 : first, INT32_MAX, &b))
        return -1;
    tids[0] = (int32_t)a;
    tids[1] = (int32_t)b;
    return 0;
}

static int take(void *opaque, int letter, const char *argument)
{
    struct diff_options *options = opaque;
    switch (letter) {
    case 'q': options->brief = true; return 0;
    case 'l': return parse_number(argument, UINT64_MAX, &options->limit) ? 0 : -1;
    case 'k': return parse_number(argument, UINT64_MAX, &options->min_insns) ? 0 : -1;
    case 'c': options->calls = true; return 0;
    case 'm': options->module = argument; return 0;
    case 'f': options->function = argument; return 0;
    case 'p': return take_tids(argument, options->tids);
    default: options->no_source |= letter == 'S'; return 0;
    }
}

static int parse(struct diff_options *options, int argc, char **argv)
{
    const struct session_command command = {"diff",  usage,        long_options,      take,
                                            options, .many = true, .raw_files = true, .letters = "hi:q"};
    *options = (struct diff_options){.limit = 10, .tids = {-1, -1}};
    int status = session_parse(&command, &options->session, argc, argv);
    if (status != EXIT_DONE)
        return status;
    if (options->session.files_n != 2) {
        complain("diff: two recordings are compared; 'cofi diff --help' lists the options");
        return EXIT_USAGE;
    }
    if (!strcmp(options->session.files[0], "-") && !strcmp(options->session.files[1], "-")) {
        complain("diff: standard input is one recording, not both");
        return EXIT_USAGE;
    }
    if (options->brief && options->session.json) {
        complain("diff: --json tells what differs, --brief does not");
        return EXIT_USAGE;
    }
    for (unsigned i = 0; i < 2; i++)
        options->files[i] = options->session.files[i];
    options->session.once = true;
    return EXIT_DONE;
}

/* ---- files that were built anew between the runs ---- */

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct built_file *)a)->name, ((const struct built_file *)b)->name);
}

static struct built_file *find_file(const struct diff_job *job, const char *path)
{
    const struct built_file key = {.name = file_name(path)};
    return job->files_n ? bsearch(&key, job->files, job->files_n, sizeof key, by_name) : NULL;
}

static bool has_build(const struct cofi_sideband *sb)
{
    return sb->kind == COFI_SB_MMAP && sb->name && sb->build_id_size;
}

/* What the first recording had, once each: of several of one name, any. */
static int note_files(struct diff_job *job)
{
    const struct cofi_recording *recording = session_recording(job->sessions[0]);
    const struct cofi_sideband *sb;
    for (size_t i = 0; (sb = cofi_recording_sideband(recording, i)); i++) {
        if (!has_build(sb))
            continue;
        if (!array_grow(&job->files, job->files_n, &job->files_room, sizeof *job->files))
            return COFI_ERR_NOMEM;
        job->files[job->files_n++] = (struct built_file){file_name(sb->name), sb->build_id, sb->build_id_size, false};
    }
    size_t all = job->files_n, n = 0;
    if (all)
        qsort(job->files, all, sizeof *job->files, by_name);
    for (size_t i = 0; i < all; i++)
        if (!n || by_name(&job->files[n - 1], &job->files[i]))
            job->files[n++] = job->files[i];
    job->files_n = n;
    return 0;
}

static void compare_builds(struct diff_job *job)
{
    const struct cofi_recording *recording = session_recording(job->sessions[1]);
    const struct cofi_sideband *sb;
    for (size_t i = 0; (sb = cofi_recording_sideband(recording, i)); i++) {
        struct built_file *known = has_build(sb) ? find_file(job, sb->name) : NULL;
        if (known)
            known->rebuilt |= known->build_id_size != sb->build_id_size ||
                              memcmp(known->build_id, sb->build_id, known->build_id_size);
    }
}

/* Raw streams tell nothing of files. */
static int find_builds(struct diff_job *job)
{
    if (!session_recording(job->sessions[0]))
        return 0;
    int status = note_files(job);
    if (status >= 0)
        compare_builds(job);
    return status;
}

static bool rebuilt(void *opaque, const char *module)
{
    const struct built_file *file = find_file(opaque, module);
    return file && file->rebuilt;
}

/* ---- what is compared ---- */

static bool wanted(void *opaque, const char *module, const char *function)
{
    const struct diff_job *job = opaque;
    const struct diff_options *options = job->options;
    const char *shown = cofi_demangle(session_names(job->sessions[0]), function);
    return matches_module(options->module, module) &&
           (matches_pattern(options->function, function) || matches_pattern(options->function, shown));
}

static bool is_wanted(const struct diff_job *job, unsigned run, size_t row)
{
    int32_t tid = job->options->tids[run];
    const struct thread *thread = &job->threads[run].rows[row];
    return (tid < 0 || tid == thread->tid) && (thread->streams_n || session_per_processor(job->sessions[run]));
}

static int add_pair(struct diff_job *job, size_t a, size_t b)
{
    if (!array_grow(&job->pairs, job->pairs_n, &job->pairs_room, sizeof *job->pairs))
        return COFI_ERR_NOMEM;
    job->pairs[job->pairs_n++] = (struct pair){{a, b}};
    return 0;
}

/* The first wanted thread that has a trace, of those that --tid selects. */
static size_t first_wanted(const struct diff_job *job, unsigned run)
{
    size_t i = 0;
    while (i < job->threads[run].n && !is_wanted(job, run, i))
        i++;
    return i < job->threads[run].n ? i : NO_THREAD;
}

static int pair_selected(struct diff_job *job)
{
    size_t rows[2] = {first_wanted(job, 0), first_wanted(job, 1)};
    for (unsigned run = 0; run < 2; run++)
        if (rows[run] == NO_THREAD) {
            complain("diff: %s: no stream of thread %d; 'cofi stat' lists them", job->options->files[run],
                     job->options->tids[run]);
            return COFI_ERR_NOT_FOUND;
        }
    return add_pair(job, rows[0], rows[1]);
}

static int pair_by_name(struct diff_job *job)
{
    const struct threads *a = &job->threads[0], *b = &job->threads[1];
    for (size_t i = 0; i < a->n; i++) {
        size_t row = threads_named(b, a->rows[i].name);
        bool there = row != NO_THREAD && is_wanted(job, 1, row);
        if (is_wanted(job, 0, i) && add_pair(job, i, there ? row : NO_THREAD) < 0)
            return COFI_ERR_NOMEM;
    }
    for (size_t i = 0; i < b->n; i++) {
        size_t row = threads_named(a, b->rows[i].name);
        bool there = row != NO_THREAD && is_wanted(job, 0, row);
        if (is_wanted(job, 1, i) && !there && add_pair(job, NO_THREAD, i) < 0)
            return COFI_ERR_NOMEM;
    }
    return 0;
}

/* ---- a pair ---- */

struct pair_job {
    struct diff_job *job;
    size_t pair;
};

static void begin_feed(struct diff_report *report, struct diff_job *job, unsigned run, size_t row)
{
    report->feeds[run] = (struct diff_feed){.diff = report->diff, .run = run, .session = job->sessions[run],
                                            .thread = &job->threads[run].rows[row]};
}

static int compare_threads(struct diff_job *job, size_t pair, struct writer *out)
{
    struct diff_report report = {.options = job->options, .out = out};
    const struct cofi_diff_options options = {.size = sizeof options,
                                              .names = session_names(job->sessions[0]),
                                              .rebuilt = rebuilt,
                                              .opaque = job,
                                              .calls = job->options->calls,
                                              .wanted = job->options->module || job->options->function ? wanted : NULL};
    struct cofi_diff_visitor visitor = diff_report_visitor;
    visitor.opaque = &report;
    int status = cofi_diff_open(&report.diff, &options);
    if (status < 0)
        return status;
    for (unsigned run = 0; run < 2; run++)
        begin_feed(&report, job, run, job->pairs[pair].rows[run]);
    status = cofi_diff_run(report.diff, &visitor);
    if (status == COFI_ERR_IO && writer_failed(out))
        status = 0;
    if (status >= 0)
        status = diff_report_end(&report);
    job->found[pair] = (struct found){cofi_diff_insns(report.diff, 0) - report.alone[0], report.parted, report.gaps};
    for (unsigned run = 0; run < 2; run++)
        diff_feed_end(&report.feeds[run]);
    cofi_diff_close(report.diff);
    diff_report_free(&report);
    return status < 0 ? status : 0;
}

static int write_pair(void *opaque, struct writer *out)
{
    const struct pair_job *one = opaque;
    struct diff_job *job = one->job;
    const struct pair *pair = &job->pairs[one->pair];
    if (pair->rows[0] != NO_THREAD && pair->rows[1] != NO_THREAD)
        return compare_threads(job, one->pair, out);
    unsigned run = pair->rows[0] == NO_THREAD;
    job->found[one->pair].differ = !session_per_processor(job->sessions[run]); /* else nobody knows whether it ran */
    if (job->found[one->pair].differ)
        diff_report_only(out, job->options, run, &job->threads[run].rows[pair->rows[run]]);
    return 0;
}

static int run_pair(void *opaque, size_t i)
{
    return writer_run("diff", write_pair, &(struct pair_job){opaque, i});
}

static int find_pairs(struct diff_job *job)
{
    int status = find_builds(job);
    for (unsigned run = 0; run < 2 && status >= 0; run++)
        status = threads_find(&job->threads[run], job->sessions[run]);
    if (status >= 0)
        status = job->options->tids[0] >= 0 ? pair_selected(job) : pair_by_name(job);
    if (status < 0)
        return status;
    job->found = calloc(job->pairs_n + 1, sizeof *job->found);
    return job->found ? 0 : COFI_ERR_NOMEM;
}

static void end_job(struct diff_job *job)
{
    for (unsigned run = 0; run < 2; run++) {
        threads_free(&job->threads[run]);
        session_close(job->sessions[run]);
    }
    free(job->pairs);
    free(job->files);
    free(job->found);
}

static int open_both(struct diff_job *job)
{
    int status = EXIT_DONE;
    for (unsigned run = 0; run < 2 && status == EXIT_DONE; run++) {
        struct session_options options = job->options->session;
        options.file = options.raw ? NULL : job->options->files[run];
        options.raw = options.raw ? job->options->files[run] : NULL;
        status = session_open(&job->sessions[run], &options);
    }
    return status;
}

/* Who did the same is not shown one by one. */
static void print_same(const struct diff_job *job)
{
    uint64_t threads = 0, insns = 0;
    for (size_t i = 0; i < job->pairs_n; i++)
        if (job->found[i].both && !job->found[i].differ) {
            threads++;
            insns += job->found[i].both;
        }
    if (threads)
        printf("%" PRIu64 " thread%s did the same (%" PRIu64 " %s)\n", threads, threads == 1 ? "" : "s", insns,
               diff_unit(job->options));
}

/* Why they have nothing in common, as far as that can be told. */
static void explain(const struct diff_job *job, bool paired, bool gaps)
{
    bool has[2] = {false, false};
    for (size_t i = 0; i < job->pairs_n; i++)
        for (unsigned run = 0; run < 2; run++)
            has[run] |= job->pairs[i].rows[run] != NO_THREAD;
    if (!paired && has[0] && has[1])
        complain(
            "diff: no thread of one is called as one of the other: record both programs under one name, or choose threads by --tid=TID,TID");
    if (paired && !gaps)
        complain("diff: nothing that one ran is in the other: code is the same in files of one name, "
                 "and of builds that differ in functions of one name");
}

/* What all pairs come to. */
static int sum_up(const struct diff_job *job, int status)
{
    const struct diff_options *options = job->options;
    bool differ = false, gaps = false, any = false, paired = false;
    for (size_t i = 0; i < job->pairs_n; i++) {
        paired |= job->pairs[i].rows[0] != NO_THREAD && job->pairs[i].rows[1] != NO_THREAD;
        differ |= job->found[i].differ;
        gaps |= job->found[i].gaps;
        any |= job->found[i].both;
    }
    if (status == EXIT_DONE && !any && !differ) {
        complain("diff: nothing of what is to be compared ran");
        return EXIT_DATA;
    }
    if (status == EXIT_DONE && differ && options->brief)
        printf("%s and %s differ\n", options->files[0], options->files[1]);
    if (status == EXIT_DONE && !options->brief && !options->session.json)
        print_same(job);
    if (status == EXIT_DONE && differ && !any)
        explain(job, paired, gaps);
    if (status == EXIT_DONE && gaps)
        complain("diff: the traces have gaps, across which nothing is compared; 'cofi check' lists them");
    for (unsigned run = 0; run < 2; run++)
        status = session_status(job->sessions[run], status);
    return status == EXIT_DONE && differ ? EXIT_DATA : status;
}

int cmd_diff(int argc, char **argv)
{
    struct diff_options options;
    int status = parse(&options, argc, argv);
    if (status != EXIT_DONE)
        return status < 0 ? EXIT_DONE : status;
    struct diff_job job = {.options = &options};
    status = open_both(&job);
    if (status == EXIT_DONE) {
        int found = find_pairs(&job);
        if (found == COFI_ERR_NOMEM)
            complain("diff: %s", cofi_error_text(found));
        status = found < 0 ? (found == COFI_ERR_NOMEM ? EXIT_ENVIRONMENT : EXIT_DATA) :
                             jobs_run(job.pairs_n, options.session.threads, run_pair, &job);
        if (found >= 0)
            status = sum_up(&job, status > 0 ? status : EXIT_DONE);
    }
    end_job(&job);
    return status;
}
