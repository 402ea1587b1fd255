/* SPDX-License-Identifier: MIT
 * cofi record: a command or a process -> a recording. */
#include "cli.h"

#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cofi/cofi.h>

#include "again.h"
#include "beforehand.h"
#include "meanwhile.h"
#include "signals.h"
#include "tell.h"

/* As env and timeout have them. */
enum { EXIT_OURS = EXIT_RECORD, EXIT_NOT_EXECUTABLE = 126, EXIT_NO_COMMAND = 127, OUTPUTS_MAX = 16 };

/* One unit with one configuration, and where its trace goes. */
struct output {
    enum cofi_gen gen;
    const char *path, *raw, *fields, *model, *topa;
    char *made_fields; /* ours to release */
    struct cofi_recorder *recorder;
};

struct job {
    struct output outputs[OUTPUTS_MAX];
    size_t outputs_n;
    const char *truth_path;
    struct cofi_truth *truth;
    struct cofi_step_options step;
    struct cofi_fast_options fast;
    struct cofi_filters filters;
    const char *filter_texts[COFI_FILTERS_MAX];
    size_t filter_texts_n;
    const char *triggers[COFI_FILTERS_MAX];
    size_t triggers_n;
    bool progress, unit_given;
    enum { HOST_ANY, HOST_STEP, HOST_FAST } host;
    bool quiet;
    char *const *beside;     /* with -p: record while this command runs */
    struct meanwhile *meanwhile;
    const char *preset;  /* its fields; null: none */
    char fields[4096];   /* preset and --config together */
    char command[4096];
};

static const char usage[] =
    "usage: cofi record [options] [--] COMMAND [ARGUMENT...]\n"
    "       cofi record [options] -p PID [[--] COMMAND [ARGUMENT...]]\n"
    "\n"
    "  -o, --output=FILE    the recording (default cofi.data); a name in .zst: compressed\n"
    "  --unit=pt|rtit       whose packets (default pt)\n"
    "  --config=NAME=VALUE,...\n"
    "                       register fields by the manual's names: dis_retc, mtc_freq, psb_freq, cyc_en, cmprs_ret, ...\n"
    "                       also buffer_bytes, drain_bytes, drain_cycles (the unit's internal buffer), RTIT:\n"
    "                       errata=e1+e5+..., cr3_match=command\n"
    "  --preset=app|all|driver\n"
    "                       RTIT as the reference's examples have it: the command's own process by its CR3, all of\n"
    "                       user and system, a driver (the last two need a host that sees the kernel). --config adds\n"
    "                       to it: addresses as filter_event_id=0,lip0=…,lip2=…\n"
    "  --raw=FILE           also each thread's bytes alone: FILE for the first, FILE.TID for others\n"
    "  --also=UNIT:FILE[:NAME=VALUE,...]\n"
    "                       one more recording of the same run; may be repeated\n"
    "  --truth=FILE         step: list every instruction that ran\n"
    "  --host=fast|step     who runs the program: a translator, near its own speed (default), or ptrace, one\n"
    "                       instruction at a time: for 32-bit programs and options with 'step:'. Asked for, fast\n"
    "                       makes what --unit, --config, --also, --raw and --topa ask for too, at the end, without\n"
    "                       time by cycles\n"
    "  --snapshot=SIZE      fast: keep each thread's newest bytes of log only, e.g. 4M; written at the end, and on SIGUSR2\n"
    "  --filter=FILTER      trace there only, in perf's syntax: 'filter FUNCTION', 'filter FUNCTION @ LIBRARY',\n"
    "                       'filter 0x1139/0x20 @ FILE', 'filter FUNCTION #2', 'filter * @ LIBRARY',\n"
    "                       'start F', 'stop F', 'tracestop F'\n"
    "                       (step, and fast with a unit's configuration: filter and tracestop, four at most)\n"
    "  --topa=SIZE,...[,wrap]\n"
    "                       PT: through a table of regions of these sizes (4K to 128M, powers of two),\n"
    "                       each read when it is full; wrap: a circle that keeps the newest bytes\n"
    "  --trigger=FUNCTION[ @ FILE]\n"
    "                       with --snapshot: also write what there is whenever the function is reached\n"
    "  --max-size=SIZE      fast: end the recording at SIZE of trace; the program goes on\n"
    "  --on-full=stop|wait|drop\n"
    "                       fast: when there is no room for the recording, end it (default), hold the program until there is, or\n"
    "                       lose trace, which the recording tells; with drop the program never waits for the recording\n"
    "  --progress           fast: tell how far the recording is; unasked that is done when attached, on a terminal\n"
    "  --clock=virtual|real\n"
    "                       step: virtual (default): 1 GHz, a cycle an instruction; real: the machine's\n"
    "  --limit=N            step: let the program go after N instructions\n"
    "  --code               the code that runs goes into the recording: it decodes where the files are gone or other ones\n"
    "  --no-follow          leave child processes alone\n"
    "  --verify             step: compare every instruction with memory before it runs\n"
    "  -p, --pid=PID        attach to a running process; Ctrl-C or the COMMAND's end (sleep 5, say; it is not recorded)\n"
    "                       ends the recording, and lets the process run as before\n"
    "  -q, --quiet          no summary\n"
    "  -h, --help           this text\n"
    "\n"
    "The exit status is the command's own; 128+N if signal N ended it; 125 if cofi failed, 126 if the command\n"
    "cannot be run, 127 if there is no such command.\n";

/* ---- options ---- */

static bool parse_gen(const char *text, enum cofi_gen *gen)
{
    *gen = !strcmp(text, "rtit") ? COFI_RTIT : COFI_PT;
    return !strcmp(text, "rtit") || !strcmp(text, "pt");
}

/* A number with K, M or G behind it, perhaps. */
static bool parse_size(const char *text, uint64_t *value)
{
    char *end;
    errno = 0;
    *value = strtoull(text, &end, 0);
    unsigned shift = *end == 'K' || *end == 'k' ? 10 : *end == 'M' || *end == 'm' ? 20 : *end == 'G' ? 30 : 0;
    if (*text < '0' || *text > '9' || errno || end[shift != 0] || *value > UINT64_MAX >> shift)
        return false;
    *value <<= shift;
    return *value != 0;
}

static bool parse_on_full(const char *text, enum cofi_fast_full *on_full)
{
    static const char *const names[] = {[COFI_FAST_END] = "stop", [COFI_FAST_WAIT] = "wait", [COFI_FAST_DROP] = "drop", NULL};
    int number = word_number(names, text);
    *on_full = (enum cofi_fast_full)number;
    return number >= 0;
}

/* "UNIT:FILE[:FIELDS]"; cut up in place. */
static bool parse_also(struct job *job, char *text)
{
    char *path = strchr(text, ':');
    if (!path || job->outputs_n == OUTPUTS_MAX)
        return false;
    *path++ = 0;
    struct output *output = &job->outputs[job->outputs_n++];
    char *fields = strchr(path, ':');
    if (fields)
        *fields++ = 0;
    output->path = path;
    output->fields = fields;
    return *path && parse_gen(text, &output->gen);
}

enum { OPT_UNIT = 256, OPT_CONFIG, OPT_RAW, OPT_ALSO, OPT_TRUTH, OPT_HOST, OPT_CLOCK, OPT_LIMIT,
              OPT_NO_FOLLOW, OPT_VERIFY, OPT_FILTER, OPT_TRIGGER, OPT_ON_FULL, OPT_MAX_SIZE,
              OPT_PROGRESS, OPT_CODE, OPT_TOPA, OPT_SNAPSHOT, OPT_PRESET };

static const struct option long_options[] = {
    {"output", required_argument, NULL, 'o'},
    {"unit", required_argument, NULL, OPT_UNIT},
    {"config", required_argument, NULL, OPT_CONFIG},
    {"preset", required_argument, NULL, OPT_PRESET},
    {"raw", required_argument, NULL, OPT_RAW},
    {"also", required_argument, NULL, OPT_ALSO},
    {"truth", required_argument, NULL, OPT_TRUTH},
    {"host", required_argument, NULL, OPT_HOST},
    {"clock", required_argument, NULL, OPT_CLOCK},
    {"limit", required_argument, NULL, OPT_LIMIT},
    {"snapshot", required_argument, NULL, OPT_SNAPSHOT},
    {"filter", required_argument, NULL, OPT_FILTER},
    {"topa", required_argument, NULL, OPT_TOPA},
    {"trigger", required_argument, NULL, OPT_TRIGGER},
    {"on-full", required_argument, NULL, OPT_ON_FULL},
    {"max-size", required_argument, NULL, OPT_MAX_SIZE},
    {"progress", no_argument, NULL, OPT_PROGRESS},
    {"code", no_argument, NULL, OPT_CODE},
    {"no-follow", no_argument, NULL, OPT_NO_FOLLOW},
    {"verify", no_argument, NULL, OPT_VERIFY},
    {"pid", required_argument, NULL, 'p'},
    {"quiet", no_argument, NULL, 'q'},
    {"help", no_argument, NULL, 'h'},
    {0},
};

/* The three configurations of [RTIT Appendix A]. The last two are refused when the recorder is opened: no host here
 * sees the kernel (docs/decisions/0219). */
static bool take_preset(struct job *job, const char *name)
{
    static const struct { const char *name, *fields; } presets[] = {
        {"app", "os=0,user=1,cr3_en=1,cr3_match=command"}, {"all", "os=1,user=1"}, {"driver", "os=1,user=0"}};
    for (size_t i = 0; i < sizeof presets / sizeof presets[0]; i++)
        if (!strcmp(name, presets[i].name)) {
            job->preset = presets[i].fields;
            return true;
        }
    return false;
}

/* The preset's fields, then those of --config. */
static void apply_preset(struct job *job)
{
    struct output *first = &job->outputs[0];
    if (!job->preset)
        return;
    first->gen = COFI_RTIT;
    snprintf(job->fields, sizeof job->fields, "%s%s%s", job->preset, first->fields ? "," : "",
             first->fields ? first->fields : "");
    first->fields = job->fields;
}

static bool take_option(struct job *job, int option, char *value)
{
    uint64_t number;
    struct output *first = &job->outputs[0];
    switch (option) {
    case 'o': first->path = value; return *value;
    case OPT_UNIT: job->unit_given = true; return parse_gen(value, &first->gen);
    case OPT_CONFIG: first->fields = value; return true;
    case OPT_PRESET: return take_preset(job, value);
    case OPT_RAW: first->raw = value; return *value;
    case OPT_ALSO: return parse_also(job, value);
    case OPT_TRUTH: job->truth_path = value; return *value;
    case OPT_HOST:
        job->host = !strcmp(value, "step") ? HOST_STEP : HOST_FAST;
        return !strcmp(value, "step") || !strcmp(value, "fast");
    case OPT_SNAPSHOT: return parse_size(value, &job->fast.snapshot_bytes);
    case OPT_TOPA: first->topa = value; return *value;
    case OPT_FILTER:
        if (job->filter_texts_n == COFI_FILTERS_MAX)
            return false;
        job->filter_texts[job->filter_texts_n++] = value;
        return true;
    case OPT_TRIGGER:
        if (job->triggers_n == COFI_FILTERS_MAX)
            return false;
        job->triggers[job->triggers_n++] = value;
        return true;
    case OPT_ON_FULL: return parse_on_full(value, &job->fast.on_full);
    case OPT_MAX_SIZE: return parse_size(value, &job->fast.max_bytes);
    case OPT_PROGRESS: job->progress = true; return true;
    case OPT_CLOCK:
        job->step.clock = !strcmp(value, "real") ? COFI_CLOCK_REAL : COFI_CLOCK_VIRTUAL;
        return !strcmp(value, "real") || !strcmp(value, "virtual");
    case OPT_LIMIT: return parse_number(value, UINT64_MAX, &job->step.limit) && job->step.limit;
    case OPT_CODE: job->step.all_code = true; return true;
    case OPT_NO_FOLLOW: job->step.no_follow = true; return true;
    case OPT_VERIFY: job->step.verify_all = true; return true;
    case 'p':
        if (!parse_number(value, INT_MAX, &number) || !number)
            return false;
        job->step.pid = (int32_t)number;
        return true;
    case 'q': job->quiet = true; return true;
    }
    return false;
}

static void join(char *out, size_t n, char *const *argv)
{
    size_t used = 0;
    out[0] = 0;
    for (; *argv && used < n; argv++)
        used += (size_t)snprintf(out + used, n - used, "%s%s", used ? " " : "", *argv);
}

/* Returns an exit status, or -1 to go on. */
static int parse(struct job *job, int argc, char **argv)
{
    for (int option; (option = getopt_long(argc, argv, "+ho:p:q", long_options, NULL)) != -1;) {
        if (option == 'h') {
            fputs(usage, stdout);
            return EXIT_DONE;
        }
        if (option == '?') {
            fputs("'cofi record --help' lists the options\n", stderr);
            return EXIT_OURS;
        }
        if (!take_option(job, option, optarg)) {
            complain("record: bad value '%s' of --%s; 'cofi record --help' lists the options", optarg,
                     option_name(long_options, option));
            return EXIT_OURS;
        }
    }
    if (!argv[optind] && !job->step.pid) {
        complain("record: no COMMAND and no -p PID; 'cofi record --help' tells more");
        return EXIT_OURS;
    }
    if (job->preset && job->unit_given && job->outputs[0].gen == COFI_PT) {
        complain("record: --preset is of RTIT, --unit=pt is not");
        return EXIT_OURS;
    }
    apply_preset(job);
    if (job->step.pid) {
        job->beside = argv[optind] ? argv + optind : NULL;
    } else {
        job->step.argv = argv + optind;
        join(job->command, sizeof job->command, argv + optind);
    }
    return -1;
}

/* ---- before anything is done ---- */

enum { PATHS_MAX = 2 * OUTPUTS_MAX + 1 };

/* Where the run's outputs go; returns how many. */
static size_t output_paths(const struct job *job, const char *paths[PATHS_MAX])
{
    size_t n = 0;
    for (size_t i = 0; i < job->outputs_n; i++) {
        paths[n++] = job->outputs[i].path;
        if (job->outputs[i].raw)
            paths[n++] = job->outputs[i].raw;
    }
    if (job->truth_path)
        paths[n++] = job->truth_path;
    return n;
}

/* Whether two outputs of the run are one file, or one cannot be written; if so, it is said. */
static bool refuse_outputs(const struct job *job)
{
    const char *paths[PATHS_MAX];
    size_t n = output_paths(job, paths);
    for (size_t i = 0; i < n; i++) {
        int error = try_output(paths[i]);
        if (!strcmp(paths[i], "-")) {
            complain("record: outputs are files, and '-' is none ('./-' is): what was written is written again at the end");
            return true;
        }
        if (error) {
            complain("record: %s: %s", paths[i], strerror(error));
            return true;
        }
        for (size_t k = 0; k < i; k++)
            if (is_same_file(paths[k], paths[i])) {
                complain("record: %s is to be two of the run's outputs; each needs a file of its own", paths[i]);
                return true;
            }
    }
    return false;
}

/* -1 to go on, or the exit status after saying that there is no such command or process. */
static int refuse_command(const struct job *job)
{
    int process = job->step.pid ? try_process(job->step.pid) : 0;
    if (process) {
        complain("record: process %d: %s%s", (int)job->step.pid, process == ESRCH ? "no such process" : strerror(process),
                 process == EPERM ? " (another user's, or see /proc/sys/kernel/yama/ptrace_scope)" : "");
        return EXIT_OURS;
    }
    int error = job->step.argv ? try_command(job->step.argv[0]) : 0;
    if (!error)
        return -1;
    complain("record: %s: %s", job->step.argv[0], strerror(error));
    return error == ENOENT ? EXIT_NO_COMMAND : EXIT_NOT_EXECUTABLE;
}

/* ---- the run ---- */

static bool open_outputs(struct job *job, const struct cofi_time_info *time, bool leaps, const struct cofi_observer **observers,
                         size_t *n)
{
    struct cofi_error error = {0};
    for (size_t i = 0; i < job->outputs_n; i++) {
        struct output *o = &job->outputs[i];
        struct cofi_recorder_options options = {.size = sizeof options, .gen = o->gen, .model = o->model,
                                                .fields = o->fields, .path = o->path, .raw = o->raw,
                                                .command = job->command[0] ? job->command : NULL,
                                                .topa = o->topa,
                                                .program = job->step.argv ? job->step.argv[0] : NULL};
        if (i == 0 && job->filters.n)
            options.filters = &job->filters;
        options.time = *time;
        options.leaps = leaps;
        if (cofi_recorder_open(&o->recorder, &options, &error) < 0) {
            complain("record: %s", error.text);
            return false;
        }
        observers[(*n)++] = cofi_recorder_observer(o->recorder);
    }
    if (job->truth_path) {
        if (cofi_truth_open(&job->truth, job->truth_path, &error) < 0) {
            complain("record: %s", error.text);
            return false;
        }
        observers[(*n)++] = cofi_truth_observer(job->truth);
    }
    return true;
}

/* Returns whether all files are complete; *bytes: of the first one's trace. */
static bool close_outputs(struct job *job, uint64_t *bytes)
{
    struct cofi_error error = {0};
    bool good = true;
    for (size_t i = 0; i < job->outputs_n; i++) {
        struct cofi_recorder_stats stats = {0};
        if (cofi_recorder_close(job->outputs[i].recorder, &stats, &error) < 0) {
            complain("record: %s", error.text);
            good = false;
        }
        if (i == 0)
            *bytes = stats.bytes;
    }
    if (cofi_truth_close(job->truth, &error) < 0) {
        complain("record: %s", error.text);
        good = false;
    }
    return good;
}

/* What is to be told that the recording has begun. */
static volatile int32_t *started(const struct job *job)
{
    return !job->step.pid ? &signals_forward_to : job->meanwhile ? &job->meanwhile->go : NULL;
}

static int own_status(const struct job *job, int status)
{
    if (job->step.pid) /* the process's own is not ours to know */
        status = job->meanwhile ? job->meanwhile->status : 0;
    if (WIFSIGNALED(status) && !job->quiet) /* no shell says it now, for we do not end so */
        fprintf(stderr, "cofi record: the command was ended by signal %d (%s)%s\n", WTERMSIG(status), strsignal(WTERMSIG(status)),
                WCOREDUMP(status) ? ", core dumped" : "");
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static int conclude(struct job *job, int status, struct cofi_step_result *result,
                    const struct cofi_error *error)
{
    uint64_t bytes = 0;
    bool good = close_outputs(job, &bytes);
    if (!result->started) {
        complain("record: %s", error->text);
        return !result->exec_errno ? EXIT_OURS : result->exec_errno == ENOENT ? EXIT_NO_COMMAND
                                                                              : EXIT_NOT_EXECUTABLE;
    }
    if (status < 0 && good) {
        complain("record: %s", error->text[0] ? error->text : cofi_error_text(status));
        good = false;
    }
    if (!job->quiet)
        fprintf(stderr, "cofi record: %llu instructions of %u thread%s, %llu bytes of trace in %s\n",
                (unsigned long long)result->insns, result->tasks, result->tasks == 1 ? "" : "s",
                (unsigned long long)bytes, job->outputs[0].path);
    if (result->unexplained)
        complain("record: %llu steps ended where no rule explains; there the list may lack an instruction",
                 (unsigned long long)result->unexplained);
    cofi_step_wait(result, &signals_stop);
    return good ? own_status(job, result->wait_status) : EXIT_OURS;
}

/* ---- the fast host ---- */

/* What a trace unit must make, in words; null: nothing was asked for that. */
static const char *needs_unit(const struct job *job)
{
    const struct output *first = &job->outputs[0];
    if (first->gen == COFI_RTIT)
        return "--unit=rtit";
    if (first->fields)
        return "--config";
    if (first->topa)
        return "--topa";
    if (first->raw)
        return "--raw";
    return job->outputs_n > 1 ? "--also" : NULL;
}

/* Whether a field of "NAME=VALUE,…" asks for packets that tell the time of each instruction. Turned off it does not; RTIT's
 * MTCs say no more than the STS behind them. */
static bool asks_cycles(const struct output *output)
{
    static const char *const names[] = {"cyc_", "mtc_", "cycle_acc", "drain_cycles"};
    for (const char *p = output->fields; p && *p; p += strcspn(p, ","), p += *p == ',') {
        size_t n = strcspn(p, ",="), k = 0;
        while (k < sizeof names / sizeof names[0] && strncmp(p, names[k], strlen(names[k])))
            k++;
        bool off = p[n] == '=' && strtoull(p + n + 1, NULL, 0) == 0;
        if (k < sizeof names / sizeof names[0] && !off && !(output->gen == COFI_RTIT && k == 1))
            return true;
    }
    return false;
}

static const char *needs_cycles(const struct job *job)
{
    for (size_t i = 0; i < job->outputs_n; i++)
        if (asks_cycles(&job->outputs[i]))
            return "time by cycles (cyc_, mtc_, cycle_acc, drain_cycles)";
    return NULL;
}

/* What a unit's packets cannot be made of afterwards, for not all is in it; null: nothing of that. */
static const char *keeps_less(const struct job *job)
{
    return job->triggers_n ? "--trigger" : job->fast.on_full == COFI_FAST_DROP ? "--on-full=drop" : NULL;
}

/* What only stepping can do, in words; null: nothing was asked for that. A unit's packets are made of what the fast host
 * has recorded, if that host is asked for. */
static const char *needs_step(const struct job *job)
{
    if (needs_unit(job) && job->host != HOST_FAST)
        return needs_unit(job);
    if (needs_unit(job) && needs_cycles(job))
        return needs_cycles(job);
    if (job->truth_path)
        return "--truth";
    if (job->step.limit)
        return "--limit";
    return job->step.verify_all ? "--verify" : job->step.clock != COFI_CLOCK_VIRTUAL ? "--clock" : NULL;
}

/* The filters, now that the command is known. */
static bool take_filters(struct job *job)
{
    struct cofi_error error = {0};
    char path[64], exe[PATH_MAX] = "";
    snprintf(path, sizeof path, "/proc/%d/exe", (int)job->step.pid);
    const char *program = job->step.argv ? job->step.argv[0] : readlink(path, exe, sizeof exe - 1) > 0 ? exe : NULL;
    for (size_t i = 0; i < job->filter_texts_n; i++)
        if (cofi_filters_parse(&job->filters, job->filter_texts[i], program, &error) < 0) {
            complain("record: %s", error.text);
            return false;
        }
    for (size_t i = 0; i < job->triggers_n; i++) {
        char text[8192];
        snprintf(text, sizeof text, "trigger %s", job->triggers[i]);
        if (cofi_filters_parse(&job->filters, text, program, &error) < 0) {
            complain("record: %s", error.text);
            return false;
        }
    }
    return true;
}

/* On a terminal one line that is written over; nothing of it stays. A command that is launched has the terminal for itself, unless
 * it is held. */
static void show_progress(void *opaque, const struct cofi_fast_progress *p)
{
    const struct job *job = opaque;
    double seconds = (double)p->ns / 1e9, mb = (double)p->bytes / 1e6;
    bool over = is_terminal(STDERR_FILENO);
    if (!job->progress && !p->waiting && (job->step.argv || job->beside))
        return;
    fprintf(stderr, "%scofi record: %.1f MB, %.1f MB/s, %u thread%s%s%s", over ? "\r\033[K" : "", mb, seconds > 0 ? mb / seconds : 0,
            p->threads, p->threads == 1 ? "" : "s", p->waiting ? ", waiting for room" : "", over ? "\r" : "\n");
}

static void tell_end(const struct job *job, const struct cofi_fast_result *result)
{
    if (result->left && result->ended == COFI_FAST_NOT_ENDED && !job->quiet)
        complain("record: the recording was stopped; %u thread%s went on unrecorded", result->left, result->left == 1 ? "" : "s");
    if (result->translated)
        complain("record: %u thread%s of the program stay%s translated: another user's, held by a debugger, under a seccomp filter, or not to be stopped",
                 result->translated, result->translated == 1 ? "" : "s", result->translated == 1 ? "s" : "");
    if (result->ended == COFI_FAST_MAX_SIZE && !job->quiet)
        complain("record: the recording ends at its --max-size; the program went on unrecorded");
    if (result->ended == COFI_FAST_NO_ROOM)
        complain("record: no room left for %s; it is complete up to there, the program went on unrecorded", job->fast.path);
    if (result->lost_bytes && result->ended == COFI_FAST_NOT_ENDED)
        complain("record: trace was lost for want of room; the recording says where (overflows)");
}

/* What only translation can do, in words; null: nothing was asked for that. */
static const char *fast_only(const struct job *job)
{
    return job->triggers_n ? "--trigger" : job->fast.snapshot_bytes ? "--snapshot" : job->fast.max_bytes ? "--max-size" :
           job->fast.on_full != COFI_FAST_END ? "--on-full" : NULL;
}

/* Whether the fast host, asked for by name, would make what only the step host makes otherwise. */
static bool could_be_told(struct job *job)
{
    bool any = job->host == HOST_ANY && needs_unit(job);
    job->host = any ? HOST_FAST : job->host;
    bool could = any && !needs_step(job) && !keeps_less(job);
    job->host = any ? HOST_ANY : job->host;
    return could;
}

/* Whether the units take what was asked for: said before the command runs, not when it has ended. */
static bool try_outputs(struct job *job)
{
    const struct cofi_observer *observers[OUTPUTS_MAX + 1];
    struct job trial = *job;
    struct cofi_time_info time;
    uint64_t bytes = 0;
    size_t n = 0;
    for (size_t i = 0; i < trial.outputs_n; i++)
        trial.outputs[i].path = trial.outputs[i].raw = NULL;
    cofi_fast_time_info(&time);
    bool good = open_outputs(&trial, &time, true, observers, &n);
    return close_outputs(&trial, &bytes) && good;
}

/* Filters are the first output's. */
static int tell_ahead(const struct job *job, const struct cofi_recording *recording)
{
    const struct cofi_sideband *sb;
    int status = 0;
    for (size_t i = 0; job->filters.n && status >= 0 && (sb = cofi_recording_sideband(recording, i)); i++)
        status = cofi_recorder_ahead(job->outputs[0].recorder, sb);
    return status;
}

/* Time is told where the fast host told it. False: memory is out, which was said. */
static bool leave_cycles_out(struct job *job)
{
    for (size_t i = 0; i < job->outputs_n; i++) {
        struct output *o = &job->outputs[i];
        if (asprintf(&o->made_fields, "%s%s", o->gen == COFI_PT ? "mtc_en=0,cyc_en=0," : "", o->fields ? o->fields : "") < 0) {
            o->made_fields = NULL;
            complain("record: %s", cofi_error_text(COFI_ERR_NOMEM));
            return false;
        }
        o->fields = o->made_fields;
    }
    return true;
}

/* The packets of the units that were asked for, from what the fast host has recorded at `path`. False: it was said why not. */
static bool tell_units(struct job *job, const char *path, uint64_t *bytes)
{
    const struct cofi_observer *observers[OUTPUTS_MAX + 1];
    struct cofi_recording *recording;
    struct cofi_error error = {0};
    size_t n = 0;
    if (cofi_recording_open(&recording, path, &error) < 0) {
        complain("record: %s", error.text);
        return false;
    }
    bool good = leave_cycles_out(job) && open_outputs(job, &cofi_recording_info(recording)->time, true, observers, &n);
    int status = good ? tell_ahead(job, recording) : 0;
    if (good && status >= 0)
        status = again_tell(recording, observers, n, &signals_stop, &error);
    good &= close_outputs(job, bytes); /* a recorder says itself what it failed of */
    if (good && status < 0)
        complain("record: %s", error.text[0] ? error.text : cofi_error_text(status));
    cofi_recording_close(recording);
    for (size_t i = 0; i < job->outputs_n; i++)
        free(job->outputs[i].made_fields);
    return good && status >= 0;
}

/* What the fast host is to do: record to `path`. */
static void describe_fast(struct job *job, const char *path)
{
    struct cofi_fast_options *fast = &job->fast;
    fast->size = sizeof *fast;
    fast->argv = job->step.argv;
    fast->path = path;
    fast->command = job->command[0] ? job->command : NULL;
    fast->pid = job->step.pid;
    if (!job->quiet && (job->progress || is_terminal(STDERR_FILENO)))
        fast->progress = show_progress;
    fast->opaque = job;
    fast->left_behind = job->quiet ? NULL : tell_left;
    fast->traced = job->quiet ? NULL : tell_traced;
    fast->snapshots = &signals_snapshots;
    fast->filters = job->filters.n && !needs_unit(job) ? &job->filters : NULL; /* a unit has ranges of its own */
    fast->no_follow = job->step.no_follow;
    fast->all_code = job->step.all_code;
    fast->stop = &signals_stop;
    fast->release = &signals_release;
    fast->started = started(job);
}

/* Returns an exit status, 0 if all went well. */
static int conclude_fast(struct job *job, int status, struct cofi_fast_result *result, const struct cofi_error *error)
{
    bool units = needs_unit(job);
    if (status < 0) {
        complain("record: %s", error->text[0] ? error->text : cofi_error_text(status));
        if (!result->started)
            return !result->exec_errno ? EXIT_OURS : result->exec_errno == ENOENT ? EXIT_NO_COMMAND : EXIT_NOT_EXECUTABLE;
        return EXIT_OURS;
    }
    tell_end(job, result);
    result->bytes = units ? 0 : result->bytes;
    if (units && !tell_units(job, job->fast.path, &result->bytes)) {
        complain("record: what the fast host recorded is in %s", job->fast.path);
        return EXIT_OURS;
    }
    if (units)
        unlink(job->fast.path);
    if (!job->quiet)
        fprintf(stderr, "cofi record: %llu branches of %u thread%s, %llu bytes of trace in %s\n",
                (unsigned long long)result->branches, result->tasks, result->tasks == 1 ? "" : "s",
                (unsigned long long)result->bytes, job->outputs[0].path);
    if (result->foreign && result->ended != COFI_FAST_NO_ROOM)
        complain("record: %u program%s ran unrecorded (32-bit, or not ours to follow)", result->foreign,
                 result->foreign == 1 ? "" : "s");
    return result->ended == COFI_FAST_NO_ROOM ? EXIT_OURS : 0;
}

/* Record by translation. Returns an exit status, or -1: nothing has run, the step host may. */
static int record_fast(struct job *job)
{
    struct cofi_fast_result result;
    struct cofi_error error = {0};
    char between[4096];
    snprintf(between, sizeof between, "%s.fast", job->outputs[0].path);
    describe_fast(job, needs_unit(job) ? between : job->outputs[0].path);
    int status = cofi_fast_record(&job->fast, &result, &error);
    if (status == COFI_ERR_UNSUPPORTED && job->host == HOST_ANY && !fast_only(job) && !job->filters.n &&
        !result.tasks) {
        complain("record: %s; stepping instead", error.text);
        return -1;
    }
    int code = conclude_fast(job, status, &result, &error);
    cofi_fast_wait(&result, &signals_stop);
    return code ? code : own_status(job, result.wait_status);
}

/* Says what of the options does not go together, if anything. */
static bool refuse_options(struct job *job, const char *step_only)
{
    if (job->host == HOST_FAST && needs_unit(job) && keeps_less(job))
        complain("record: %s keeps less than %s is made of, at the end", keeps_less(job), needs_unit(job));
    else if (step_only && job->host == HOST_FAST)
        complain("record: %s needs --host=step", step_only);
    else if (fast_only(job) && (step_only || job->host == HOST_STEP))
        complain("record: %s needs the fast host%s%s%s", fast_only(job), step_only ? ", which cannot do " : "",
                 step_only ? step_only : "", could_be_told(job) ? " unless asked for by --host=fast" : "");
    else if (job->triggers_n && !job->fast.snapshot_bytes)
        complain("record: --trigger needs --snapshot=SIZE");
    else if (!has_proc())
        complain("record: /proc is not mounted here, where the kernel tells what a process has mapped");
    else
        return refuse_outputs(job);
    return true;
}

static int record_stepped(struct job *job)
{
    const struct cofi_observer *observers[OUTPUTS_MAX + 1];
    struct cofi_step_result result = {0};
    struct cofi_error error = {0};
    struct cofi_time_info time;
    uint64_t bytes;
    size_t n = 0;
    cofi_step_time_info(&job->step, &time);
    if (!open_outputs(job, &time, job->step.clock == COFI_CLOCK_REAL, observers, &n)) {
        close_outputs(job, &bytes);
        return EXIT_OURS;
    }
    signals_catch();
    job->step.size = sizeof job->step;
    job->step.stop = &signals_stop;
    job->step.release = &signals_release;
    job->step.started = started(job);
    job->step.observers = observers;
    job->step.observers_n = n;
    int status = cofi_step_run(&job->step, &result, &error);
    return conclude(job, status, &result, &error);
}

static int record(struct job *job)
{
    const char *step_only = needs_step(job);
    if (refuse_options(job, step_only))
        return EXIT_OURS;
    int status = refuse_command(job);
    if (status >= 0)
        return status;
    if (!take_filters(job))
        return EXIT_OURS;
    if (job->beside && !(job->meanwhile = meanwhile(job->beside))) {
        complain("record: %s: %s", job->beside[0], strerror(errno));
        return EXIT_OURS;
    }
    if (step_only || job->host == HOST_STEP)
        return record_stepped(job);
    if (needs_unit(job) && !try_outputs(job))
        return EXIT_OURS;
    signals_catch();
    status = record_fast(job);
    return status >= 0 ? status : record_stepped(job);
}

int cmd_record(int argc, char **argv)
{
    struct job job = {.outputs = {{.gen = COFI_PT, .path = "cofi.data"}}, .outputs_n = 1};
    int status = parse(&job, argc, argv);
    if (status < 0)
        status = record(&job);
    cofi_filters_fini(&job.filters);
    return status;
}
