/* SPDX-License-Identifier: MIT
 * Sideband -> threads, and who made them. */
#include "threads.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

static void name_last(struct thread *thread, const struct cofi_recording *recording)
{
    const char *comm = recording ? cofi_recording_comm(recording, thread->tid, UINT64_MAX) : NULL;
    thread->comm = comm ? comm : "?";
}

/* The thread that has a number now, or NO_THREAD. */
static size_t find(const struct threads *threads, int32_t tid)
{
    for (size_t i = threads->n; i-- > 0;)
        if (threads->rows[i].tid == tid)
            return i;
    return NO_THREAD;
}

static int add(struct threads *threads, const struct cofi_recording *recording, const struct thread *thread)
{
    if (!array_grow(&threads->rows, threads->n, &threads->room, sizeof *threads->rows))
        return COFI_ERR_NOMEM;
    struct thread *row = &threads->rows[threads->n++];
    *row = *thread;
    name_last(row, recording);
    return 0;
}

/* What a record says of who is there. */
static int note(struct threads *threads, const struct cofi_recording *recording, const struct cofi_sideband *sb)
{
    if (sb->machine || (sb->kind != COFI_SB_FORK && sb->kind != COFI_SB_COMM && sb->kind != COFI_SB_ITRACE_START))
        return 0;
    size_t known = find(threads, sb->tid);
    bool is_new = known == NO_THREAD || (sb->kind == COFI_SB_FORK && threads->rows[known].since != sb->time_ns);
    size_t maker = sb->kind == COFI_SB_FORK ? find(threads, sb->ptid) : NO_THREAD;
    if (!is_new)
        return 0;
    return add(threads, recording, &(struct thread){.pid = sb->pid, .tid = sb->tid, .maker = maker,
                                                    .since = sb->kind == COFI_SB_FORK ? sb->time_ns : 0});
}

/* A stream is of the thread that had its number when it began. */
static size_t thread_of(const struct threads *threads, const struct session_stream *stream)
{
    const struct cofi_recording *recording = session_recording(stream->session);
    const struct cofi_time_conv *conv = session_time_conv(stream->session);
    uint64_t tsc = recording ? cofi_recording_stream(recording, stream->index)->reference_tsc : 0;
    uint64_t began = conv->mult && tsc ? cofi_time_ns(conv, tsc) : UINT64_MAX;
    size_t found = NO_THREAD;
    for (size_t i = threads->n; i-- > 0;)
        if (threads->rows[i].tid == stream->tid) {
            found = i;
            if (threads->rows[i].since <= began)
                break;
        }
    return found;
}

static int add_stream(struct threads *threads, struct session *session, size_t i)
{
    struct session_stream stream;
    session_stream(session, i, &stream);
    if (stream.turns)
        return 0;
    size_t row = thread_of(threads, &stream);
    if (row == NO_THREAD) {
        row = threads->n;
        if (add(threads, session_recording(session), &(struct thread){.pid = stream.pid, .tid = stream.tid, .maker = NO_THREAD}) < 0)
            return COFI_ERR_NOMEM;
    }
    struct thread *thread = &threads->rows[row];
    if (!array_grow(&thread->streams, thread->streams_n, &thread->streams_room, sizeof *thread->streams))
        return COFI_ERR_NOMEM;
    thread->streams[thread->streams_n++] = i;
    return 0;
}

/* Of the threads that the same one made, which were called the same in the end, the how manieth. */
static unsigned ordinal(const struct threads *threads, size_t of)
{
    const struct thread *thread = &threads->rows[of];
    unsigned n = 1;
    for (size_t i = 0; i < of; i++)
        n += threads->rows[i].maker == thread->maker && !strcmp(threads->rows[i].comm, thread->comm);
    return n;
}

static int name(struct threads *threads, size_t i)
{
    struct thread *thread = &threads->rows[i];
    const char *maker = thread->maker == NO_THREAD ? "" : threads->rows[thread->maker].name;
    const char *slash = *maker ? "/" : "";
    unsigned nth = ordinal(threads, i);
    int n = nth == 1 ? asprintf(&thread->name, "%s%s%s", maker, slash, thread->comm) :
                       asprintf(&thread->name, "%s%s%s.%u", maker, slash, thread->comm, nth);
    if (n < 0)
        thread->name = NULL;
    return n < 0 ? COFI_ERR_NOMEM : 0;
}

int threads_find(struct threads *threads, struct session *session)
{
    const struct cofi_recording *recording = session_recording(session);
    const struct cofi_sideband *sb;
    int status = 0;
    for (size_t i = 0; recording && status >= 0 && (sb = cofi_recording_sideband(recording, i)); i++)
        status = note(threads, recording, sb);
    for (size_t i = 0; status >= 0 && i < session_streams(session); i++)
        status = add_stream(threads, session, i);
    for (size_t i = 0; status >= 0 && i < threads->n; i++)
        status = name(threads, i);
    return status;
}

void threads_free(struct threads *threads)
{
    for (size_t i = 0; i < threads->n; i++) {
        free(threads->rows[i].name);
        free(threads->rows[i].streams);
    }
    free(threads->rows);
}

size_t threads_named(const struct threads *threads, const char *name, size_t *from)
{
    for (size_t i = 0; i < threads->n; i++) {
        size_t row = (*from + i) % threads->n;
        if (strcmp(threads->rows[row].name, name))
            continue;
        *from = row + 1;
        return row;
    }
    return NO_THREAD;
}
