/* SPDX-License-Identifier: MIT
 * cofi dump: a recording or a raw stream -> its packets as text. */
#include <getopt.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cofi/demangle.h>
#include <cofi/stream.h>
#include <cofi/trace.h>

#include "cli.h"
#include "dump.h"
#include "file.h"
#include "foreign.h"
#include "habits.h"

static void usage(FILE *out)
{
    fputs("usage: cofi dump [options] [FILE[:FROM[-TO]]]    default FILE: cofi.data\n"
          "Print the packets of a recording (perf.data) or of a raw stream, one a line.\n\n"
          "  -i, --input=FILE   FILE, perf's way\n"
          "  --raw FILE      FILE is trace bytes and nothing else\n"
          "  --gen=pt|rtit   generation of a raw stream; otherwise its PSBs tell\n"
          "  --cyc[=0|1]     RTIT: cycle counts follow the packets (or do not); otherwise found out\n"
          "  --cpu=F/M[/S]   family/model/stepping it was traced on, where that is not told\n"
          "  --tid=N         the stream of this thread only\n"
          "  --pid=N         those of this process only\n"
          "  --comm=PATTERN  those of threads whose name matches (shell pattern)\n"
          "  --from=OFFSET --to=OFFSET   bytes of the stream\n"
          "  --no-sync       the first byte begins a packet; do not look for a PSB\n"
          "  --no-pad --no-timing --no-cyc   leave out PAD, all timing packets, CYC\n"
          "  --no-offset     no offsets\n"
          "  --bytes         each packet's bytes behind it\n"
          "  --lastip        each address as it expands\n"
          "  --time          behind what tells it: when, ~ where cycle counts estimate it\n"
          "  --time-delta    the same since the time before\n"
          "  --quiet         print nothing, only complain\n"
          "  --json          one object a line\n"
          "  -h, --help      this text\n\n"
          "'cofi asm' turns the text back into the same bytes.\n", out);
}

static bool has_psb(const struct file *file, enum cofi_gen gen)
{
    enum { WINDOW = 16 << 20, PSB_MOST = 16 };
    bool found = false;
    for (size_t at = 0; at < file->n && !found; at += WINDOW) {
        size_t n = file->n - at < WINDOW + PSB_MOST ? file->n - at : WINDOW + PSB_MOST;
        found = cofi_sync_forward(gen, file->bytes + at, n, 0) != COFI_NO_PSB;
        file_unneeded(file, at, at + n);
    }
    return found;
}

static enum cofi_gen find_gen(const struct dump_options *o, const struct file *file)
{
    if (o->gen)
        return (enum cofi_gen)o->gen;
    return !has_psb(file, COFI_PT) && has_psb(file, COFI_RTIT) ? COFI_RTIT : COFI_PT;
}

static bool is_choosy(const struct dump_options *o) { return o->tid >= 0 || o->pid || o->comm; }

/* A processor's stream is nobody's. */
static bool is_chosen(const struct dump_options *o, const struct cofi_recording_stream *s, const char *comm)
{
    if (is_choosy(o) && s->tid < 0)
        return false;
    return (o->tid < 0 || s->tid == o->tid) && (!o->pid || s->pid == o->pid) &&
           matches_pattern(o->comm, comm ? comm : "?");
}

/* No option without effect: if there is one, it is said. raw: null: a recording. */
static bool fits(const struct dump_options *o, enum cofi_gen gen, const struct file *raw)
{
    if (raw && o->from >= raw->n)
        fprintf(stderr, "cofi dump: %s: ends at 0x%zx, before --from\n", o->path, raw->n);
    else if (raw && is_choosy(o))
        fprintf(stderr, "cofi dump: %s: --%s needs a recording; this is a raw stream\n", o->path,
                o->tid >= 0 ? "tid"
                : o->pid    ? "pid"
                            : "comm");
    else if (gen == COFI_PT && o->cyc >= 0)
        fprintf(stderr, "cofi dump: %s: --cyc is of RTIT; this is PT\n", o->path);
    else if (gen == COFI_RTIT && o->family)
        fprintf(stderr, "cofi dump: %s: --cpu is of PT; this is RTIT\n", o->path);
    else
        return true;
    return false;
}

static bool dump_raw(const struct dump_options *o, const struct file *file)
{
    enum cofi_gen gen = find_gen(o, file);
    const char *hint = foreign_hint(file->bytes, file->n < COFI_GUESS_BYTES ? file->n : COFI_GUESS_BYTES, gen);
    if (hint)
        complain("dump: %s: %s", o->path, hint);
    struct dump_source source = {.file = file, .n = file->n, .tid = -1, .family = o->family, .model = o->model};
    return fits(o, gen, file) && dump_stream(o, &source, gen, -1, stdout);
}

/* Nothing was shown. */
static void complain_none(const struct dump_options *o)
{
    const char *hint = o->from ? " has bytes from there on" : "; 'cofi stat' lists them";
    if (o->tid >= 0 && !o->pid && !o->comm)
        fprintf(stderr, "cofi dump: %s: no stream of thread %ld%s\n", o->path, o->tid, hint);
    else if (is_choosy(o))
        fprintf(stderr, "cofi dump: %s: no stream of a thread of such a process, number and name%s\n", o->path, hint);
    else
        fprintf(stderr, "cofi dump: %s: no trace in it%s\n", o->path, o->from ? " from there on" : "");
}

/* All streams, or those that are chosen. */
static bool dump_recording(const struct dump_options *o, struct cofi_recording *recording)
{
    enum { RTIT_CTL_CYCLE_ACC = 1 << 1 };
    const struct cofi_recording_info *info = cofi_recording_info(recording);
    enum cofi_gen gen = o->gen ? (enum cofi_gen)o->gen : info->gen;
    int cyc = info->config ? info->config & RTIT_CTL_CYCLE_ACC ? 1 : 0 : -1;
    bool good = true, any = false;
    if (!fits(o, gen, NULL))
        return false;
    for (size_t i = 0; cofi_recording_warning(recording, i); i++, good = false)
        fprintf(stderr, "cofi dump: %s: %s\n", o->path, cofi_recording_warning(recording, i));
    for (size_t i = 0; i < cofi_recording_streams(recording); i++) {
        const struct cofi_recording_stream *s = cofi_recording_stream(recording, i);
        struct dump_source source = {.recording = recording, .stream = i, .n = s->bytes,
                                     .tid = s->tid, .time = info->time, .reference_tsc = s->reference_tsc,
                                     .family = o->family ? o->family : info->family,
                                     .model = o->family ? o->model : info->model};
        const char *comm = cofi_recording_stream_comm(recording, i);
        if (!is_chosen(o, s, comm) || (o->from && o->from >= s->bytes))
            continue;
        char name[COFI_NAME_BYTES];
        any = true;
        if (!o->json && !o->quiet && s->tid >= 0)
            printf("# stream %zu: pid %d, tid %d%s%s\n", i, s->pid, s->tid, comm ? ", " : "",
                   comm ? in_a_line(comm, name, sizeof name) : "");
        else if (!o->json && !o->quiet)
            printf("# stream %zu: cpu %d\n", i, s->cpu);
        good &= dump_stream(o, &source, gen, cyc, stdout);
    }
    if (!any)
        complain_none(o);
    return good && any;
}

static bool open_and_dump(const struct dump_options *o)
{
    struct cofi_recording *recording;
    struct cofi_error error;
    if (cofi_recording_open(&recording, o->path, &error) < 0) {
        fprintf(stderr, "cofi dump: %s: %s; --raw reads it as it lies\n", o->path, error.text);
        return false;
    }
    bool good = dump_recording(o, recording);
    cofi_recording_close(recording);
    return good;
}

/* A folder of perf's, the recording is the file `data` in it. */
static bool is_recording_folder(const struct dump_options *o)
{
    char data[PATH_MAX];
    struct stat st;
    return !o->raw && !stat(o->path, &st) && S_ISDIR(st.st_mode) &&
           (size_t)snprintf(data, sizeof data, "%s/data", o->path) < sizeof data && !access(data, F_OK);
}

/* A perf.data, packed or not. */
static bool is_recording(const struct file *file)
{
    static const char magic[] = "PERFILE2", packed[] = "\x28\xb5\x2f\xfd";
    return (file->n >= strlen(magic) && !memcmp(file->bytes, magic, strlen(magic))) ||
           (file->n >= strlen(packed) && !memcmp(file->bytes, packed, strlen(packed)));
}

static int dump_file(const struct dump_options *o)
{
    struct file file;
    bool good = false;
    if (is_recording_folder(o))
        return open_and_dump(o) ? EXIT_DONE : EXIT_DATA;
    int status = file_open(&file, "dump", o->path);
    if (status)
        return status;
    if (!file.n)
        fprintf(stderr, "cofi dump: %s: the file is empty\n", o->path);
    else if (o->raw || !is_recording(&file))
        good = dump_raw(o, &file);
    else if (strcmp(o->path, "-") || !(status = file_again(&file, "dump")))
        good = open_and_dump(o);
    file_close(&file);
    return status ? status : good ? EXIT_DONE : EXIT_DATA;
}

/* ---- the command line ---- */

/* FILE:FROM[-TO], ptdump's way, if there is no file of the whole name. */
static void split_path(struct dump_options *o, char *path)
{
    char *colon = strrchr(path, ':'), *dash;
    FILE *whole = fopen(path, "r");
    o->path = path;
    o->named++;
    if (whole)
        fclose(whole);
    if (whole || !colon)
        return;
    if ((dash = strchr(colon, '-')))
        *dash = 0;
    if (parse_number(colon + 1, UINT64_MAX, &o->from) && (!dash || parse_number(dash + 1, UINT64_MAX, &o->to)))
        *colon = 0;
    else if (dash)
        *dash = '-';
}

enum { OPT_RAW = 256, OPT_GEN, OPT_CYC, OPT_CPU, OPT_TID, OPT_PID, OPT_COMM, OPT_FROM, OPT_TO, OPT_NO_SYNC, OPT_NO_PAD,
       OPT_NO_TIMING, OPT_NO_CYC, OPT_NO_OFFSET, OPT_BYTES, OPT_LASTIP, OPT_TIME, OPT_TIME_DELTA, OPT_QUIET, OPT_JSON };

static const struct option long_options[] = {
    {"input", required_argument, 0, 'i'},
    {"raw", required_argument, 0, OPT_RAW},      {"gen", required_argument, 0, OPT_GEN},
    {"cyc", optional_argument, 0, OPT_CYC},      {"tid", required_argument, 0, OPT_TID},
    {"cpu", required_argument, 0, OPT_CPU},
    {"pid", required_argument, 0, OPT_PID},      {"comm", required_argument, 0, OPT_COMM},
    {"from", required_argument, 0, OPT_FROM},    {"to", required_argument, 0, OPT_TO},
    {"no-sync", no_argument, 0, OPT_NO_SYNC},    {"no-pad", no_argument, 0, OPT_NO_PAD},
    {"no-timing", no_argument, 0, OPT_NO_TIMING}, {"no-cyc", no_argument, 0, OPT_NO_CYC},
    {"no-offset", no_argument, 0, OPT_NO_OFFSET}, {"bytes", no_argument, 0, OPT_BYTES},
    {"lastip", no_argument, 0, OPT_LASTIP},      {"time", no_argument, 0, OPT_TIME},
    {"time-delta", no_argument, 0, OPT_TIME_DELTA},
    {"quiet", no_argument, 0, OPT_QUIET},
    {"json", no_argument, 0, OPT_JSON},          {"help", no_argument, 0, 'h'},
    {0},
};

/* One option; false: its value makes no sense. */
static bool set_option(struct dump_options *o, int option, char *value)
{
    uint64_t tid, pid;
    uint32_t stepping;
    switch (option) {
    case 'i': split_path(o, value); return true;
    case OPT_RAW: o->raw = true; split_path(o, value); return true;
    case OPT_GEN:
        o->gen = !strcmp(value, "pt") ? COFI_PT : !strcmp(value, "rtit") ? COFI_RTIT : 0;
        return o->gen;
    case OPT_CYC:
        o->cyc = !value || !strcmp(value, "1") ? 1 : !strcmp(value, "0") ? 0 : -1;
        return o->cyc >= 0;
    case OPT_CPU: return parse_cpu(value, &o->family, &o->model, &stepping);
    case OPT_TID: o->tid = parse_number(value, INT32_MAX, &tid) ? (long)tid : -1; return o->tid >= 0;
    case OPT_PID: o->pid = parse_number(value, INT32_MAX, &pid) ? (int32_t)pid : 0; return o->pid;
    case OPT_COMM: o->comm = value; return true;
    case OPT_FROM: return parse_number(value, UINT64_MAX, &o->from);
    case OPT_TO: return parse_number(value, UINT64_MAX, &o->to);
    case OPT_NO_SYNC: return o->no_sync = true;
    case OPT_NO_PAD: return o->no_pad = true;
    case OPT_NO_TIMING: return o->no_timing = true;
    case OPT_NO_CYC: return o->no_cyc = true;
    case OPT_NO_OFFSET: return o->no_offset = true;
    case OPT_BYTES: return o->bytes = true;
    case OPT_LASTIP: return o->lastip = true;
    case OPT_TIME: return o->time = true;
    case OPT_TIME_DELTA: return o->time_delta = true;
    case OPT_QUIET: return o->quiet = true;
    case OPT_JSON: return o->json = true;
    }
    return false;
}

int cmd_dump(int argc, char **argv)
{
    struct dump_options o = {.path = "cofi.data", .cyc = -1, .tid = -1, .to = UINT64_MAX,
                             .talk = stderr};
    static char out[1 << 16];
    for (int option; (option = getopt_long(argc, argv, "hi:", long_options, 0)) != -1;) {
        if (option == 'h') {
            usage(stdout);
            return EXIT_DONE;
        }
        if (option == '?')
            return bad_option("dump", argv);
        if (!set_option(&o, option, optarg))
            return bad_value("dump", option_name(long_options, option), optarg);
    }
    if (argc - optind + o.named > 1) {
        fprintf(stderr, "cofi dump: one file at a time; 'cofi dump --help' tells more\n");
        return EXIT_USAGE;
    }
    if (argc > optind)
        split_path(&o, argv[optind]);
    if (o.from > o.to) {
        fprintf(stderr, "cofi dump: --from lies behind --to\n");
        return EXIT_USAGE;
    }
    setvbuf(stdout, out, _IOFBF, sizeof out);
    int status = dump_file(&o);
    if (fflush(stdout) || ferror(stdout)) {
        perror("cofi dump: standard output");
        return EXIT_ENVIRONMENT;
    }
    return status;
}
