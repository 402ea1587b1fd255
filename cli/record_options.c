/* SPDX-License-Identifier: MIT
 * cofi record: the command line -> what is asked for. */
#include "record.h"

#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "habits.h"

static const char usage[] =
    "usage: cofi record [options] [--] COMMAND [ARGUMENT...]\n"
    "       cofi record [options] -p PID [[--] COMMAND [ARGUMENT...]]\n"
    "\n"
    "  -o, --output=FILE    the recording (default cofi.data); a name in .zst: compressed\n"
    "  --unit=pt|rtit       whose packets (default pt)\n"
    "  --config=NAME=VALUE,...\n"
    "                       register fields by the manual's names: dis_retc, mtc_freq, psb_freq, cyc_en, cmprs_ret, ...\n"
    "                       ('cofi caps --registers' lists them, with --unit=rtit RTIT's);\n"
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
    "  --no-cache           fast: neither take nor leave translated code in ~/.cache/cofi, where it is kept for the next\n"
    "                       recordings of a program (COFI_CACHE=FOLDER: another place, empty: none; 256M at most)\n"
    "  --verify             step: compare every instruction with memory before it runs\n"
    "  -p, --pid=PID        attach to a running process; Ctrl-C or the COMMAND's end (sleep 5, say; it is not recorded)\n"
    "                       ends the recording, and lets the process run as before\n"
    "  -q, --quiet          no summary\n"
    "  -h, --help           this text\n"
    "\n"
    "The exit status is the command's own; 128+N if signal N ended it; 125 if cofi failed, 126 if the command\n"
    "cannot be run, 127 if there is no such command.\n";

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
    static const char *const names[] =
        {[COFI_FAST_END] = "stop", [COFI_FAST_WAIT] = "wait", [COFI_FAST_DROP] = "drop", NULL};
    int number = word_number(names, text);
    *on_full = (enum cofi_fast_full)number;
    return number >= 0;
}

/* "UNIT:FILE[:FIELDS]"; cut up in place. */
static bool parse_also(struct record_job *job, char *text)
{
    char *path = strchr(text, ':');
    if (!path || job->outputs_n == OUTPUTS_MAX)
        return false;
    *path++ = 0;
    struct record_output *output = &job->outputs[job->outputs_n++];
    char *fields = strchr(path, ':');
    if (fields)
        *fields++ = 0;
    output->path = path;
    output->fields = fields;
    return *path && parse_gen(text, &output->gen);
}

enum { OPT_UNIT = 256, OPT_CONFIG, OPT_RAW, OPT_ALSO, OPT_TRUTH, OPT_HOST, OPT_CLOCK, OPT_LIMIT,
              OPT_NO_FOLLOW, OPT_NO_CACHE, OPT_VERIFY, OPT_FILTER, OPT_TRIGGER, OPT_ON_FULL, OPT_MAX_SIZE,
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
    {"no-cache", no_argument, NULL, OPT_NO_CACHE},
    {"verify", no_argument, NULL, OPT_VERIFY},
    {"pid", required_argument, NULL, 'p'},
    {"quiet", no_argument, NULL, 'q'},
    {"help", no_argument, NULL, 'h'},
    {0},
};

/* The three configurations of [RTIT Appendix A]. The last two are refused when the recorder is opened: no host here
 * sees the kernel (docs/decisions/0219). */
static bool take_preset(struct record_job *job, const char *name)
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
static void apply_preset(struct record_job *job)
{
    struct record_output *first = &job->outputs[0];
    if (!job->preset)
        return;
    first->gen = COFI_RTIT;
    snprintf(job->fields, sizeof job->fields, "%s%s%s", job->preset, first->fields ? "," : "",
             first->fields ? first->fields : "");
    first->fields = job->fields;
}

static bool take_option(struct record_job *job, int option, char *value)
{
    uint64_t number;
    struct record_output *first = &job->outputs[0];
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
    case OPT_NO_CACHE: job->no_cache = true; return true;
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
int record_parse(struct record_job *job, int argc, char **argv)
{
    for (int option; (option = getopt_long(argc, argv, "+ho:p:q", long_options, NULL)) != -1;) {
        if (option == 'h') {
            fputs(usage, stdout);
            return EXIT_DONE;
        }
        if (option == '?') {
            bad_option("record", argv);
            return EXIT_OURS;
        }
        if (!take_option(job, option, optarg)) {
            bad_value("record", option_name(long_options, option), optarg);
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
