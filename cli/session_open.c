/* SPDX-License-Identifier: MIT
 * Input options -> an open recording, or a raw stream with code. */
#include "session_inside.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bundle.h"
#include "cli.h"
#include "foreign.h"
#include "output.h"
#include "raw_image.h"
#include "record_first.h"

const uint8_t *session_beginning(struct session *session, size_t *n)
{
    if (session->pipe.fd < 0) {
        *n = session->raw.n < COFI_GUESS_BYTES ? session->raw.n : COFI_GUESS_BYTES;
        return session_raw_bytes(session);
    }
    const uint8_t *bytes = pipe_peek(&session->pipe, PSB_BYTES, n);
    return *n && !cofi_sync_forward(session->info.gen, bytes, *n, 0) ? bytes
                                                                     : pipe_peek(&session->pipe, COFI_GUESS_BYTES, n);
}

/* Before all the gaps that come of it. stat counts packets, which needs no code. */
static void warn_of_raw(struct session *session)
{
    const struct session_options *options = &session->options;
    size_t n;
    const uint8_t *bytes = session_beginning(session, &n);
    const char *hint = foreign_hint(bytes, n, options->gen);
    if (hint)
        complain("%s: %s: %s", options->command, options->raw, hint);
    else if (n && !options->image_n && strcmp(options->command, "stat"))
        complain("%s: %s: a raw stream tells no code: give it by --image=FILE[@ADDR], or all that ran is missing",
                 options->command, options->raw);
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

bool session_chooses(const struct session_options *options, int32_t pid, int32_t tid, const char *comm)
{
    return (options->tid < 0 || options->tid == tid) && (!options->pid || options->pid == pid) &&
           matches_pattern(options->comm, comm);
}

bool session_is_choosy(const struct session_options *options)
{
    return options->tid >= 0 || options->pid || options->comm;
}

/* A processor's stream may show any thread. */
static bool is_selected(const struct session *session, size_t i)
{
    if (!session->recording)
        return true;
    const struct cofi_recording_stream *stream = cofi_recording_stream(session->recording, i);
    return (stream->tid < 0 && stream->cpu >= 0) || session_chooses(&session->options, stream->pid, stream->tid,
                                                                    cofi_recording_stream_comm(session->recording, i));
}

/* Processors in the order of their numbers, threads in that in which they began; in the recording a
 * thread's trace stands where there was enough of it, or it ended. */
static int compare_streams(const void *a, const void *b, void *recording)
{
    size_t i = *(const size_t *)a, k = *(const size_t *)b;
    const struct cofi_recording_stream *x = cofi_recording_stream(recording, i),
                                       *y = cofi_recording_stream(recording, k);
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

/* What to do with an input that is no recording. */
static const char *how_to_make(const char *file)
{
    char description[4096];
    snprintf(description, sizeof description, "%s/trace.json", file);
    return bundle_is(file) || bundle_is(description)
               ? "; a trace that LLDB saved: 'cofi import' makes a recording of it"
               : file_how_to_make(file);
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
        complain("%s: %s%s%s", options->command, text, how_to_make(file), hint);
    else
        complain("%s: %s: %s%s%s", options->command, file, text, how_to_make(file), hint);
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

/* Whether the input holds no trace: no stream, no byte, or nothing but zeros, which was said. What could
 * not be read is another matter. */
static bool lacks_trace(struct session *session)
{
    size_t n = 0;
    const uint8_t *bytes = session->recording ? NULL : session_beginning(session, &n);
    if (n)
        return foreign_zeros(bytes, n);
    bool lacks = session->recording ? !cofi_recording_streams(session->recording) : !session->pipe.error;
    if (lacks)
        complain("%s: %s: no trace in it", session->options.command,
                 session->options.raw ? session->options.raw : session->options.file);
    return lacks;
}

/* Whether nothing of it is to be shown, which is said: no such thread, or --to is before all that was recorded. */
static bool chooses_none(const struct session *session)
{
    const struct session_options *options = &session->options;
    const struct cofi_time_conv *conv = &session->info.time.conv;
    uint64_t first = UINT64_MAX;
    if (session_is_choosy(options) && !session->selected_n) {
        if (options->tid >= 0 && !options->pid && !options->comm)
            complain("%s: no stream of thread %d; 'cofi stat' lists them", options->command, options->tid);
        else
            complain("%s: no thread is of such a process, number and name; 'cofi stat' lists them", options->command);
        return true;
    }
    for (size_t i = 0; session->recording && conv->mult && i < session->selected_n; i++) {
        uint64_t reference = cofi_recording_stream(session->recording, session->selected[i])->reference_tsc;
        uint64_t ns = reference ? cofi_time_ns(conv, reference) : 0;
        first = ns < first ? ns : first;
    }
    if (first == UINT64_MAX || options->to_ns >= first)
        return false;
    complain("%s: --to lies before all that was recorded, from %" PRIu64 ".%09" PRIu64 " on", options->command,
             first / 1000000000, first % 1000000000);
    return true;
}

/* What comes before the input is opened: the places of code, the output, and what is to be recorded. */
static int prepare(struct session_options *input)
{
    if (!has_places(input) || (input->writes && output_open(input->command, input->output) != EXIT_DONE))
        return EXIT_ENVIRONMENT;
    int status = input->record_n ? record_first(input->record_n, input->record, input->records, &input->file)
                                 : EXIT_DONE;
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
static int begin_output(struct session *session)
{
    const struct session_options *options = &session->options;
    if ((lacks_trace(session) && !(session->recording && options->may_lack_trace)) || chooses_none(session))
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
