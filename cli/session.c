/* SPDX-License-Identifier: MIT
 * An open session -> its streams, and what is done for each of them. */
#include "session_inside.h"

#include <stdio.h>

#include "cli.h"
#include "jobs.h"

/* Whether anything was shown; if not, it was said, or is now. */
static bool was_shown(const struct session *session)
{
    const struct session_options *options = &session->options;
    bool shown = !session->selected_n;
    for (size_t i = 0; i < session->selected_n; i++)
        shown |= !session->starts[i].none;
    if (!shown && options->from_ns)
        complain("%s: --from lies behind all that was recorded", options->command);
    bool nobody = shown && session->per_processor && session_is_choosy(options) && !session->chose;
    if (nobody)
        complain("%s: no such thread is known to have run on any processor", options->command);
    return shown && !nobody;
}

int session_status(const struct session *session, int status)
{
    uint64_t missing;
    bool damaged = session->recording && cofi_recording_damaged(session->recording, &missing),
         shown = was_shown(session);
    return status == EXIT_DONE && (damaged || !shown) ? EXIT_DATA : status;
}

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
    bool shows = !stream->turns || session_chooses(&stream->session->options, stream->pid, stream->tid, stream->comm);
    if (shows && !stream->session->chose) /* read first: all threads ask */
        stream->session->chose = true;
    return shows;
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
