/* SPDX-License-Identifier: MIT
 * Input options -> an open recording (or raw stream with code) -> a flow for each of its streams. */
#include "session.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli.h"
#include "file.h"
#include "foreign.h"
#include "jobs.h"
#include "output.h"
#include "pipe.h"
#include "raw_image.h"
#include "raw_mode.h"
#include "record_first.h"

/* Smaller streams are not worth threads of their own. */
enum { SPLIT_LEAST = 1 << 17 };

struct session {
    struct session_options options;
    struct cofi_recording *recording;
    struct cofi_recording_info info;
    struct file raw;
    struct pipe pipe;  /* raw as it comes, if it is read but once; else closed */
    bool pipe_failed;  /* and it was said */
    uint8_t *unrolled; /* raw's bytes, oldest first, where it was circular */
    struct cofi_image *image; /* of raw */
    bool elf;          /* there is an ELF file in it, whose class tells the mode of its code */
    unsigned tried;    /* the mode of raw's code by trial, 0: not tried yet */
    struct cofi_demangler *names;
    size_t *selected, selected_n;
    bool per_processor; /* one of these is a processor's, not a thread's */
    struct {
        uint64_t start, skip;
        _Atomic bool none; /* no PSB where --from begins, which was said */
    } *starts; /* of the selected ones */
};

/* ---- opening ---- */

static const uint8_t *raw_bytes(const struct session *session)
{
    return session->unrolled ? session->unrolled : session->raw.bytes;
}

enum { PSB_BYTES = 16 };

/* What a raw stream begins with. Of a pipe the first packet alone if that is a PSB: what follows need not have come yet. */
static const uint8_t *beginning(struct session *session, size_t *n)
{
    if (session->pipe.fd < 0) {
        *n = session->raw.n < COFI_GUESS_BYTES ? session->raw.n : COFI_GUESS_BYTES;
        return raw_bytes(session);
    }
    const uint8_t *bytes = pipe_peek(&session->pipe, PSB_BYTES, n);
    return *n && !cofi_sync_forward(session->info.gen, bytes, *n, 0) ? bytes : pipe_peek(&session->pipe, COFI_GUESS_BYTES, n);
}

/* Before all the gaps that come of it. stat counts packets, which needs no code. */
static void warn_of_raw(struct session *session)
{
    const struct session_options *options = &session->options;
    size_t n;
    const uint8_t *bytes = beginning(session, &n);
    const char *hint = n ? foreign_hint(bytes, n, options->gen) : session->pipe.error ? NULL : "no trace in it";
    if (hint)
        complain("%s: %s: %s", options->command, options->raw, hint);
    else if (!options->image_n && strcmp(options->command, "stat"))
        complain("%s: %s: a raw stream tells no code: give it by --image=FILE[@ADDR], or all that ran is missing", options->command,
                 options->raw);
}

static int open_raw(struct session *session, struct cofi_error *error)
{
    const struct session_options *options = &session->options;
    uint64_t oldest;
    bool circular = options->gen == COFI_RTIT && registers_get(&options->registers, RTIT_OFFSET, &oldest);
    bool in_order = options->once && !options->from_offset && !circular;
    if (!(in_order && pipe_open(&session->pipe, options->raw)) &&
        file_open(&session->raw, options->command, options->raw) != EXIT_DONE)
        return COFI_ERR_IO;
    session->info = (struct cofi_recording_info){.size = sizeof session->info, .gen = options->gen};
    session->unrolled = registers_unroll(&options->registers, options->gen, session->raw.bytes, session->raw.n);
    int status = cofi_image_open(&session->image);
    for (size_t i = 0; status >= 0 && i < options->image_n; i++)
        status = raw_image_add(session->image, options->images[i], options->command, &session->elf, error);
    if (status >= 0)
        warn_of_raw(session);
    return status;
}

/* A processor's stream may show any thread. */
static bool is_selected(const struct session *session, size_t i)
{
    if (session->options.tid < 0 || !session->recording)
        return true;
    const struct cofi_recording_stream *stream = cofi_recording_stream(session->recording, i);
    return stream->tid == session->options.tid || (stream->tid < 0 && stream->cpu >= 0);
}

/* Processors in the order of their numbers, threads in that in which they began; in the recording a thread's trace stands where
 * there was enough of it, or it ended. */
static int compare_streams(const void *a, const void *b, void *recording)
{
    size_t i = *(const size_t *)a, k = *(const size_t *)b;
    const struct cofi_recording_stream *x = cofi_recording_stream(recording, i), *y = cofi_recording_stream(recording, k);
    if (x->cpu != y->cpu)
        return x->cpu < y->cpu ? -1 : 1;
    if (x->reference_tsc != y->reference_tsc)
        return x->reference_tsc < y->reference_tsc ? -1 : 1;
    return i < k ? -1 : i > k;
}

static int select_streams(struct session *session)
{
    size_t n = session->recording ? cofi_recording_streams(session->recording) : 1;
    session->selected = calloc(n ? n : 1, sizeof *session->selected);
    session->starts = calloc(n ? n : 1, sizeof *session->starts);
    if (!session->selected || !session->starts)
        return COFI_ERR_NOMEM;
    for (size_t i = 0; i < n; i++)
        if (is_selected(session, i)) {
            session->selected[session->selected_n++] = i;
            session->per_processor |= session->recording && cofi_recording_stream(session->recording, i)->tid < 0;
        }
    if (session->recording)
        qsort_r(session->selected, session->selected_n, sizeof *session->selected, compare_streams, session->recording);
    return 0;
}

static int exit_status(int status)
{
    if (status == COFI_ERR_SYNTAX)
        return EXIT_USAGE;
    return status == COFI_ERR_BAD_FORMAT || status == COFI_ERR_NO_SYNC || status == COFI_ERR_TRUNCATED
               ? EXIT_DATA
               : EXIT_ENVIRONMENT;
}

/* Name the input, unless the text does. */
static void complain_input(const struct session_options *options, const char *text)
{
    char hint[160] = "";
    const char *file = options->raw ? options->raw : options->file;
    size_t n = strlen(file) < 160 ? strlen(file) : 160; /* of a longer one the library says the beginning */
    if (options->records && !options->raw)
        record_first_hint(options->command, file, hint, sizeof hint);
    if (!strncmp(text, file, n) && text[n] == ':')
        complain("%s: %s%s%s", options->command, text, file_how_to_make(file), hint);
    else
        complain("%s: %s: %s%s%s", options->command, file, text, file_how_to_make(file), hint);
}

/* 0, or errno of a place that cannot be read. */
static int try_place(const char *path, bool is_folder)
{
    struct stat st;
    if (stat(path, &st) || access(path, R_OK))
        return errno;
    return S_ISDIR(st.st_mode) == is_folder ? 0 : is_folder ? ENOTDIR : EISDIR;
}

/* Whether the places that are told for the recording's code are there; if not, it is said. */
static bool has_places(const struct session_options *options)
{
    const struct cofi_recording_options *where = &options->where;
    const struct { const char *option, *path; bool is_folder; } places[] = {
        {"symfs", where->symfs, true}, {"guestmount", where->guestmount, true},
        {"kcore", where->kcore, false}, {"vmlinux", where->vmlinux, false}, {"kallsyms", where->kallsyms, false}};
    int error = 0;
    for (size_t i = 0; i < sizeof places / sizeof places[0] && !error; i++)
        if (places[i].path && (error = try_place(places[i].path, places[i].is_folder)))
            complain("%s: --%s=%s: %s", options->command, places[i].option, places[i].path, strerror(error));
    return !error;
}

/* Whether there is nothing to show, which is said: no such thread, or --to is before all that was recorded. */
static bool is_empty(const struct session *session)
{
    const struct session_options *options = &session->options;
    const struct cofi_time_conv *conv = &session->info.time.conv;
    uint64_t first = UINT64_MAX;
    if (options->tid >= 0 && !session->selected_n) {
        complain("%s: no stream of thread %d; 'cofi stat' lists them", options->command, options->tid);
        return true;
    }
    for (size_t i = 0; session->recording && conv->mult && i < session->selected_n; i++) {
        uint64_t reference = cofi_recording_stream(session->recording, session->selected[i])->reference_tsc;
        uint64_t ns = reference ? cofi_time_ns(conv, reference) : 0;
        first = ns < first ? ns : first;
    }
    if (first == UINT64_MAX || options->to_ns >= first)
        return false;
    complain("%s: --to lies before all that was recorded, from %" PRIu64 ".%09" PRIu64 " on", options->command, first / 1000000000,
             first % 1000000000);
    return true;
}

/* What comes before the input is opened: the places of code, the output, and what is to be recorded. */
static int prepare(struct session_options *input)
{
    if (!has_places(input) || (input->writes && output_open(input->command, input->output) != EXIT_DONE))
        return EXIT_ENVIRONMENT;
    int status = input->record_n ? record_first(input->record_n, input->record, &input->file) : EXIT_DONE;
    if (!input->file)
        input->file = "cofi.data";
    return status;
}

static int open_recording(struct session *session, struct cofi_error *error)
{
    const struct session_options *options = &session->options;
    const char *warning;
    int status = cofi_recording_open_with(&session->recording, options->file, &options->where, error);
    if (status < 0)
        return status;
    session->info = *cofi_recording_info(session->recording);
    for (size_t i = 0; (warning = cofi_recording_warning(session->recording, i)); i++)
        complain("%s: %s: %s", options->command, options->file, warning);
    return 0;
}

static int open_input(struct session *session, struct cofi_error *error)
{
    int status = session->options.raw ? open_raw(session, error) : open_recording(session, error);
    record_first_opened();
    if (status >= 0)
        status = select_streams(session);
    return status < 0 ? status : cofi_demangler_open(&session->names, session->options.demangle);
}

/* EXIT_DONE where there is something to show, and a place for it. */
static int begin_output(const struct session *session)
{
    const struct session_options *options = &session->options;
    if (is_empty(session))
        return EXIT_DATA;
    if (output_is(options->raw ? options->raw : options->file)) {
        complain("%s: %s: it cannot be read and written at once", options->command, options->output);
        return EXIT_USAGE;
    }
    return options->writes ? output_begin(options->command) : EXIT_DONE;
}

int session_open(struct session **session, const struct session_options *options)
{
    struct cofi_error error = {0};
    struct session_options input = *options;
    int exit = prepare(&input);
    if (exit != EXIT_DONE)
        return exit;
    struct session *made = calloc(1, sizeof *made);
    int status = made ? 0 : COFI_ERR_NOMEM;
    if (made) {
        made->options = input;
        made->pipe.fd = -1;
        status = open_input(made, &error);
    }
    if (status < 0) {
        if (error.text[0] || status != COFI_ERR_IO) /* what file_open could not do, it has said */
            complain_input(&input, error.text[0] ? error.text : cofi_error_text(status));
        session_close(made);
        return exit_status(status);
    }
    if ((exit = begin_output(made)) != EXIT_DONE) {
        session_close(made);
        return exit;
    }
    if (made->recording && !cofi_recording_streams(made->recording))
        complain("%s: %s: no trace in it", options->command, made->options.file);
    *session = made;
    return EXIT_DONE;
}

void session_close(struct session *session)
{
    if (!session)
        return;
    cofi_recording_close(session->recording);
    cofi_image_close(session->image);
    cofi_demangler_close(session->names);
    file_close(&session->raw);
    pipe_close(&session->pipe);
    free(session->unrolled);
    free(session->selected);
    free(session->starts);
    free(session);
}

int session_status(const struct session *session, int status)
{
    uint64_t missing;
    bool damaged = session->recording && cofi_recording_damaged(session->recording, &missing), shown = !session->selected_n;
    for (size_t i = 0; i < session->selected_n; i++)
        shown |= !session->starts[i].none;
    if (!shown && session->options.from_ns)
        complain("%s: --from lies behind all that was recorded", session->options.command);
    return status == EXIT_DONE && (damaged || !shown) ? EXIT_DATA : status;
}

/* ---- streams ---- */

size_t session_streams(const struct session *session) { return session->selected_n; }
const struct cofi_recording *session_recording(const struct session *session) { return session->recording; }

const struct cofi_image *session_image(const struct session *session, int32_t pid)
{
    return session->recording ? cofi_recording_image(session->recording, pid) : session->image;
}

struct cofi_demangler *session_names(const struct session *session) { return session->names; }

const struct cofi_time_conv *session_time_conv(const struct session *session)
{
    return &session->info.time.conv;
}

void session_stream(struct session *session, size_t i, struct session_stream *stream)
{
    *stream = (struct session_stream){.session = session, .order = i, .index = session->selected[i], .cpu = -1,
                                      .comm = session->options.raw,
                                      .start = session->starts[i].start, .skip = session->starts[i].skip,
                                      .bytes = session->pipe.fd < 0 ? session->raw.n : UINT64_MAX};
    if (!session->recording)
        return;
    const struct cofi_recording_stream *s = cofi_recording_stream(session->recording, stream->index);
    stream->pid = s->pid;
    stream->tid = s->tid;
    stream->cpu = s->cpu;
    stream->bytes = s->bytes;
    const char *comm = cofi_recording_stream_comm(session->recording, stream->index);
    stream->comm = comm ? comm : "?";
    stream->turns = s->tid < 0 && s->cpu >= 0;
    if (stream->turns)
        session_turn(stream, 0);
}

void session_start(struct session *session, size_t i, uint64_t start, uint64_t skip)
{
    session->starts[i].start = start;
    session->starts[i].skip = skip;
}

bool session_per_processor(const struct session *session) { return session->per_processor; }

bool session_turn(struct session_stream *stream, uint64_t time_ns)
{
    const struct cofi_recording *recording = stream->session->recording;
    int32_t pid, tid;
    if (!stream->turns || (tid = cofi_recording_thread(recording, stream->index, time_ns, &pid)) == stream->tid)
        return false;
    const char *comm = cofi_recording_comm(recording, tid, time_ns);
    stream->comm = comm ? comm : tid ? "?" : "idle";
    stream->turn_ns = time_ns;
    stream->tid = tid;
    stream->pid = pid;
    return true;
}

bool session_shows(const struct session_stream *stream)
{
    int32_t tid = stream->session->options.tid;
    return !stream->turns || tid < 0 || tid == stream->tid;
}

int session_each(struct session *session, int (*work)(void *opaque, size_t stream), void *opaque)
{
    return jobs_run(session->selected_n, session->options.threads, work, opaque);
}

struct write_all {
    const struct session *session;
    session_write *write;
    void *opaque;
};

struct write_one {
    const struct write_all *all;
    size_t stream;
};

static int write_one(void *opaque, struct writer *out)
{
    const struct write_one *one = opaque;
    return one->all->write(one->all->opaque, one->stream, out);
}

static int write_stream(void *opaque, size_t i)
{
    const struct write_all *all = opaque;
    return writer_run(all->session->options.command, write_one, &(struct write_one){all, i});
}

int session_write_each(struct session *session, session_write *write, void *opaque)
{
    return session_each(session, write_stream, &(struct write_all){session, write, opaque});
}

const char *session_title(const struct session_stream *stream, char *out, size_t n)
{
    int at = stream->cpu < 0 ? 0 : snprintf(out, n, "processor %d: ", stream->cpu);
    char name[COFI_NAME_BYTES];
    snprintf(out + at, n - (size_t)at, "thread %d (%s)", stream->tid, in_a_line(stream->comm, name, sizeof name));
    return out;
}

void session_processor(const struct session *session, uint32_t *family, uint32_t *model)
{
    *family = session->options.family ? session->options.family : session->info.family;
    *model = session->options.family ? session->options.model : session->info.model;
}

enum cofi_gen session_gen(const struct session *session) { return session->info.gen; }

/* So much of a stream's file is in memory at a time. */
enum { WINDOW = 16 << 20 };

const uint8_t *session_bytes(const struct session_stream *stream, uint64_t offset, size_t *n)
{
    const struct session *session = stream->session;
    const uint8_t *bytes;
    if (session->recording) {
        bytes = cofi_recording_bytes(session->recording, stream->index, offset, n);
    } else {
        *n = offset < session->raw.n ? session->raw.n - (size_t)offset : 0;
        bytes = raw_bytes(session) + (session->raw.n - *n);
    }
    if (*n > WINDOW)
        *n = WINDOW;
    return bytes;
}

void session_unneeded(struct session_stream *stream, uint64_t offset)
{
    struct session *session = stream->session;
    if (session->recording && offset > stream->kept)
        cofi_recording_unneeded(session->recording, stream->index, stream->kept, offset - stream->kept);
    else if (offset > stream->kept)
        file_unneeded(&session->raw, (size_t)stream->kept, (size_t)offset);
    stream->kept = offset;
}

bool session_cyc(const struct session_stream *stream)
{
    struct session *session = stream->session;
    size_t n;
    if (session->info.gen != COFI_RTIT)
        return false;
    uint64_t ctl;
    if (session->recording)
        return session->info.time.cyc;
    if (registers_get(&session->options.registers, RTIT_CTL, &ctl))
        return ctl >> 1 & 1;
    const uint8_t *bytes = session->pipe.fd >= 0 ? pipe_peek(&session->pipe, COFI_GUESS_BYTES, &n) : session_bytes(stream, 0, &n);
    return cofi_stream_guess_cyc(bytes, n, NULL);
}

bool session_synced(const struct session_stream *stream)
{
    struct session *session = stream->session;
    size_t n;
    if (session->recording || session->info.gen != COFI_PT || session->options.from_psb)
        return false;
    const uint8_t *bytes = beginning(session, &n);
    return cofi_stream_guess_synced(bytes, n);
}

/* 0: nothing tells it, or the PSB does with which the bytes begin. */
static unsigned begins_in_mode(struct session *session)
{
    size_t n;
    const uint8_t *bytes = beginning(session, &n);
    return n >= PSB_BYTES && !cofi_sync_forward(COFI_PT, bytes, PSB_BYTES, 0) ? 0 : cofi_stream_guess_mode(bytes, n);
}

/* What neither a packet tells soon nor an ELF file is tried; a pipe of PT, which tells it, is not waited for. */
static unsigned mode_by_trial(struct session *session, const struct cofi_flow_config *config)
{
    size_t n = session->raw.n < RAW_MODE_BYTES ? session->raw.n : RAW_MODE_BYTES;
    bool pipe = session->pipe.fd >= 0, pt = config->gen == COFI_PT;
    if (config->mode || session->elf || !session->options.image_n || (pipe && pt))
        return config->mode;
    const uint8_t *bytes = session->tried ? NULL : pipe ? pipe_peek(&session->pipe, RAW_MODE_BYTES, &n) : raw_bytes(session);
    if (bytes && !(pt && cofi_stream_guess_mode(bytes, n)))
        session->tried = raw_mode_try(config, bytes, n, session->options.command, session->options.raw);
    return session->tried;
}

static const uint8_t *pull(void *opaque, size_t *n)
{
    struct session_stream *stream = opaque;
    const uint8_t *bytes = session_bytes(stream, stream->position, n);
    uint64_t behind = stream->position > WINDOW ? stream->position - WINDOW : 0; /* threads are not so far yet */
    session_unneeded(stream, *n ? behind : stream->position);
    stream->position += *n;
    return bytes;
}

static const uint8_t *pull_pipe(void *opaque, size_t *n)
{
    struct session_stream *stream = opaque;
    struct session *session = stream->session;
    const uint8_t *bytes = pipe_next(&session->pipe, n);
    if (session->pipe.error && !session->pipe_failed)
        complain("%s: %s: %s", session->options.command, session->options.raw, strerror(session->pipe.error));
    session->pipe_failed = session->pipe.error;
    if (stream->tap)
        stream->tap(stream->tap_opaque, bytes, *n);
    return bytes;
}

int session_drain(struct session_stream *stream)
{
    struct session *session = stream->session;
    size_t n = 1;
    if (session->pipe.fd < 0)
        return 0;
    while (n)
        pull_pipe(stream, &n);
    stream->bytes = session->pipe.taken;
    return session->pipe_failed ? COFI_ERR_IO : 0;
}

uint64_t session_psb(const struct session_stream *stream, uint64_t offset, bool forward)
{
    const struct session *session = stream->session;
    if (session->recording)
        return cofi_recording_psb(session->recording, stream->index, offset, forward);
    if (offset >= session->raw.n)
        return UINT64_MAX;
    return forward ? cofi_sync_forward(session->info.gen, raw_bytes(session), session->raw.n, (size_t)offset) :
                     cofi_sync_backward(session->info.gen, raw_bytes(session), session->raw.n, (size_t)offset + 1);
}

static _Atomic bool *none_of(const struct session_stream *stream) { return &stream->session->starts[stream->order].none; }

/* Nothing is shown of a stream: there is no PSB where --from begins. */
static void tell_none(const struct session_stream *stream)
{
    char title[256];
    if (!atomic_exchange(none_of(stream), true))
        complain("%s: %s: no PSB where --from begins: nothing of it is shown", stream->session->options.command,
                 session_title(stream, title, sizeof title));
}

void session_none(const struct session_stream *stream) { *none_of(stream) = true; }

/* --from, or what comes before it; 0: none, or it is a time. */
static uint64_t from_offset(const struct session_stream *stream)
{
    return stream->start ? stream->start : stream->session->options.from_offset;
}

uint64_t session_seek(const struct session_stream *stream, uint64_t from_ns)
{
    const struct session *session = stream->session;
    const struct cofi_time_conv *conv = &session->info.time.conv;
    return from_ns && conv->mult ? cofi_recording_seek(session->recording, stream->index, cofi_time_ticks(conv, from_ns)) : 0;
}

/* Where --from begins in a stream of pieces. */
static uint64_t start_of(const struct session_stream *stream)
{
    uint64_t psb;
    if (from_offset(stream))
        psb = session_psb(stream, from_offset(stream), true);
    else
        psb = session_seek(stream, stream->session->options.from_ns);
    if (psb == UINT64_MAX)
        tell_none(stream);
    return psb == UINT64_MAX ? stream->bytes : psb;
}

/* Where reading begins, so that the time is known at a PSB; RTIT's tells none. */
static uint64_t before_start(const struct session_stream *stream, uint64_t psb)
{
    enum { BACK = 64 << 20 };
    if (stream->session->info.gen != COFI_RTIT || !psb)
        return psb;
    uint64_t before = psb > BACK ? session_psb(stream, psb - BACK, false) : 0;
    return before == UINT64_MAX ? 0 : before;
}

/* The stream's bytes: at once if they lie in one piece of no more than a window, else by pull. */
static void set_bytes(struct session_stream *stream, struct cofi_flow_config *config)
{
    const struct session *session = stream->session;
    if (session->pipe.fd >= 0) {
        config->pull = pull_pipe;
        config->opaque = stream;
        return;
    }
    size_t n = session->raw.n;
    const uint8_t *bytes = session->recording ? cofi_recording_bytes(session->recording, stream->index, 0, &n) :
                                                raw_bytes(session);
    if (n == stream->bytes && n <= WINDOW) {
        config->bytes = bytes;
        config->n = n;
    } else {
        config->pull = pull;
        config->pull_stays = true;
        config->opaque = stream;
        config->start = start_of(stream);
        config->offset = stream->position = before_start(stream, config->start);
    }
}

static int seek(struct session_stream *stream, struct cofi_flow *flow)
{
    const struct session *session = stream->session;
    const struct cofi_time_conv *conv = session_time_conv(session);
    if (from_offset(stream))
        return cofi_flow_seek(flow, from_offset(stream));
    if (session->options.from_ns && conv->mult)
        return cofi_flow_seek_time(flow, cofi_time_ticks(conv, session->options.from_ns));
    return 0;
}

/* In a guest no code of the host is shown. */
static const struct cofi_image *space(void *opaque, uint64_t cr3, uint64_t vmcs, bool non_root)
{
    struct session_stream *stream = opaque;
    (void)cr3;
    (void)vmcs;
    return non_root ? cofi_recording_guest_image(stream->session->recording, stream->index) :
                      cofi_recording_stream_image(stream->session->recording, stream->index);
}

/* What only a recording tells. */
static void describe_recorded(struct session_stream *stream, struct cofi_flow_config *config)
{
    const struct session *session = stream->session;
    const struct cofi_recording_info *info = &session->info;
    const struct cofi_recording_stream *recorded = cofi_recording_stream(session->recording, stream->index);
    config->ctl_known = true;
    config->ctl = info->config;
    config->ranges_known = info->ranges_known;
    config->events = info->events;
    memcpy(config->range_base, info->range_base, sizeof info->range_base);
    memcpy(config->range_limit, info->range_limit, sizeof info->range_limit);
    config->ends_in_overflow = recorded->ends_in_overflow;
    config->reference_tsc = recorded->reference_tsc;
    config->image = cofi_recording_stream_image(session->recording, stream->index);
    config->space = info->gen == COFI_PT ? space : NULL;
    config->opaque = stream;
}

/* What the recording tells of the time besides the trace. Without it decoding goes on by the trace alone. */
static void set_bounds(struct session_stream *stream, struct cofi_flow_config *config)
{
    struct cofi_recording *recording = stream->session->recording;
    int status = cofi_recording_bounds(recording, stream->index, &config->bounds, &config->bounds_n);
    if (status < 0)
        complain("%s: times of switches: %s", stream->session->options.command, cofi_error_text(status));
}

/* --to, as a flow takes it: 0 is none, and nothing that could be shown lies between 0 and 1. */
static uint64_t pause_at(uint64_t to) { return to == UINT64_MAX ? 0 : to ? to : 1; }

/* Everything but where --from begins in a stream that is in memory. */
static void configure(struct session_stream *stream, bool want_time, struct cofi_flow_config *config)
{
    struct session *session = stream->session;
    const struct cofi_recording_info *info = &session->info;
    cofi_flow_config_init(config, info->gen);
    session_processor(session, &config->family, &config->model);
    config->stepping = session->options.family ? session->options.stepping : info->stepping;
    config->time = info->time;
    config->want_time = want_time;
    config->image = session->image;
    config->pause_offset = pause_at(session->options.to_offset);
    config->pause_ns = pause_at(session->options.to_ns);
    if (session->recording) {
        describe_recorded(stream, config);
        set_bounds(stream, config);
    } else {
        config->time.cyc = session_cyc(stream);
        config->synced = session_synced(stream);
        registers_apply(&session->options.registers, config);
        config->mode = session->options.mode ? session->options.mode : config->synced ? begins_in_mode(session) : 0;
        config->mode = mode_by_trial(session, config);
    }
    set_bytes(stream, config);
}

int session_flow(struct session_stream *stream, bool want_time, struct cofi_flow **flow)
{
    const char *command = stream->session->options.command;
    struct cofi_flow_config config;
    configure(stream, want_time, &config);
    int status = cofi_flow_open(flow, &config);
    if (status < 0) {
        complain("%s: %s", command, cofi_error_text(status));
        return status;
    }
    status = seek(stream, *flow);
    if (status == COFI_ERR_UNSUPPORTED)
        return 0; /* pieces: decoded from the start, and shown from --from on */
    if (status == COFI_ERR_NO_SYNC) {
        tell_none(stream);
        return cofi_flow_bytes(*flow, NULL, 0);
    }
    if (status < 0) {
        complain("%s: --from: %s", command, cofi_error_text(status));
        cofi_flow_close(*flow);
    }
    return status;
}

/* A stream in memory begins where --from says. */
static int begin_from(struct session_stream *stream, struct cofi_flow_config *config)
{
    const struct session_options *options = &stream->session->options;
    struct cofi_flow *flow;
    if (config->pull || !(from_offset(stream) || options->from_ns))
        return 0;
    int status = session_flow(stream, false, &flow);
    if (status < 0)
        return status;
    uint64_t from = *none_of(stream) ? config->n : cofi_flow_offset(flow);
    cofi_flow_close(flow);
    config->bytes += from;
    config->n -= (size_t)from;
    config->offset = from;
    return 0;
}

/* What a stream may take of --threads: there are as many streams at a time. */
static unsigned threads_of(const struct session_stream *stream)
{
    const struct session *session = stream->session;
    unsigned streams = session->selected_n < session->options.threads ? (unsigned)session->selected_n : session->options.threads;
    return streams && stream->bytes >= SPLIT_LEAST ? session->options.threads / streams : 1;
}

int session_split(struct session_stream *stream, const struct session_visitor *visitor, cofi_flow_visit visit, void *opaque)
{
    const struct session_options *options = &stream->session->options;
    struct cofi_flow_config config;
    bool whole = options->to_offset == UINT64_MAX && options->to_ns == UINT64_MAX;
    unsigned threads = threads_of(stream);
    if (threads < 2 || !whole)
        return SESSION_WHOLE;
    configure(stream, visitor->time || (visitor->trim && session_by_time(stream->session)), &config);
    config.no_blocks = !visitor->blocks;
    int status = begin_from(stream, &config);
    return status < 0 ? status : cofi_flow_parallel(&config, threads, 0, visit, opaque, NULL);
}

bool session_by_time(const struct session *session)
{
    return session->info.time.conv.mult && (session->options.from_ns || session->options.to_ns != UINT64_MAX);
}

int session_side(const struct session *session, uint64_t ticks)
{
    uint64_t ns = cofi_time_ns(&session->info.time.conv, ticks);
    return ns < session->options.from_ns ? -1 : ns > session->options.to_ns;
}

bool session_past_end(const struct session *session, uint64_t offset, const struct cofi_flow_time *time)
{
    return offset > session->options.to_offset ||
           (time->known && time->ns > session->options.to_ns);
}

void session_place(const struct session_stream *stream, uint64_t offset, char *out, size_t n)
{
    const struct session *session = stream->session;
    if (session->recording) {
        uint64_t at = cofi_recording_file_offset(session->recording, stream->index, offset);
        if (at != UINT64_MAX) {
            snprintf(out, n, "%s+0x%" PRIx64 " (%s %d+0x%" PRIx64 ")", session->options.file, at,
                     stream->turns ? "processor" : "thread", stream->turns ? stream->cpu : stream->tid, offset);
            return;
        }
    }
    snprintf(out, n, "%s+0x%" PRIx64, session->options.raw ? session->options.raw : session->options.file,
             offset);
}

void session_gap(struct cofi_flow *flow, const struct cofi_flow_event *gap, char *out, size_t n)
{
    struct cofi_code code;
    struct cofi_view *view = cofi_flow_view(flow);
    const char *why = "";
    if (gap->cause == COFI_ERR_NO_CODE && gap->ip != COFI_NO_IP && cofi_view_find(view, gap->ip, &code) < 0)
        why = cofi_view_why(view);
    if (!strncmp(why, "nothing is mapped", 17)) /* which the error's text says */
        why = "";
    int length = snprintf(out, n, "%s", cofi_error_text(gap->cause));
    if (gap->ip != COFI_NO_IP)
        length += snprintf(out + length, n - (size_t)length, " at %016" PRIx64, gap->ip);
    if (!*why)
        why = gap->text ? gap->text : "";
    if (*why && (size_t)length < n)
        length += snprintf(out + length, n - (size_t)length, ": %s", why);
    if (gap->end != UINT64_MAX && (size_t)length < n)
        length += snprintf(out + length, n - (size_t)length, "; goes on at +0x%" PRIx64, gap->end);
    if (gap->a == 8 && (size_t)length < n)
        snprintf(out + length, n - (size_t)length, "; so soon behind a PSB this may be [ERR E8]");
}
