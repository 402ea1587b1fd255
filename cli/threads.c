/* SPDX-License-Identifier: MIT
 * Sideband -> threads, and who made them. */
#include "threads.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

/* Before another one has its number. */
static void name_last(struct thread *thread, const struct cofi_recording *recording)
{
    uint64_t last_ns = thread->over - (thread->over != UINT64_MAX);
    const char *comm = recording ? cofi_recording_comm(recording, thread->tid, last_ns) : NULL;
    thread->comm = comm ? comm : "?";
}

static size_t *list_of(const struct threads *threads, int32_t tid)
{
    return &threads->by_hash[(uint32_t)tid % THREADS_HASHES];
}

/* The youngest thread that has a number, from a row of its list on; or NO_THREAD. */
static size_t find_from(const struct threads *threads, size_t row, int32_t tid)
{
    while (row != NO_THREAD && threads->rows[row].tid != tid)
        row = threads->rows[row].older;
    return row;
}

static size_t find(const struct threads *threads, int32_t tid)
{
    return find_from(threads, *list_of(threads, tid), tid);
}

static int add(struct threads *threads, const struct cofi_recording *recording, const struct thread *thread)
{
    if (!array_grow(&threads->rows, threads->n, &threads->room, sizeof *threads->rows))
        return COFI_ERR_NOMEM;
    struct thread *row = &threads->rows[threads->n];
    *row = *thread;
    row->until = row->over = UINT64_MAX;
    row->older = *list_of(threads, row->tid);
    size_t before = find_from(threads, row->older, row->tid);
    if (before != NO_THREAD) {
        threads->rows[before].over = row->since;
        name_last(&threads->rows[before], recording);
    }
    *list_of(threads, row->tid) = threads->n++;
    name_last(row, recording);
    return 0;
}

/* What a record says of who is there. */
static int note(struct threads *threads, const struct cofi_recording *recording, const struct cofi_sideband *sb)
{
    bool ends = sb->kind == COFI_SB_EXIT;
    if (sb->machine ||
        (!ends && sb->kind != COFI_SB_FORK && sb->kind != COFI_SB_COMM && sb->kind != COFI_SB_ITRACE_START))
        return 0;
    size_t known = find(threads, sb->tid);
    if (ends && known != NO_THREAD)
        threads->rows[known].until = sb->time_ns;
    if (ends)
        return 0;
    bool is_new = known == NO_THREAD || (sb->kind == COFI_SB_FORK && threads->rows[known].since != sb->time_ns);
    size_t maker = sb->kind == COFI_SB_FORK ? find(threads, sb->ptid) : NO_THREAD;
    if (!is_new)
        return 0;
    return add(threads, recording, &(struct thread){.pid = sb->pid, .tid = sb->tid, .maker = maker,
                                                    .since = sb->kind == COFI_SB_FORK ? sb->time_ns : 0});
}

size_t threads_at(const struct threads *threads, int32_t tid, uint64_t ns)
{
    size_t row = find(threads, tid), first = row;
    while (row != NO_THREAD && threads->rows[row].since > ns) {
        first = row;
        row = find_from(threads, threads->rows[row].older, tid);
    }
    return row == NO_THREAD ? first : row;
}

/* A stream is of the thread that had its number when it began. */
static size_t thread_of(const struct threads *threads, const struct session_stream *stream)
{
    const struct cofi_recording *recording = session_recording(stream->session);
    const struct cofi_time_conv *conv = session_time_conv(stream->session);
    uint64_t tsc = recording ? cofi_recording_stream(recording, stream->index)->reference_tsc : 0;
    return threads_at(threads, stream->tid, conv->mult && tsc ? cofi_time_ns(conv, tsc) : UINT64_MAX);
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
        if (add(threads, session_recording(session), &(struct thread){.pid = stream.pid, .tid = stream.tid,
                                                                      .maker = NO_THREAD}) < 0)
            return COFI_ERR_NOMEM;
    }
    struct thread *thread = &threads->rows[row];
    if (!array_grow(&thread->streams, thread->streams_n, &thread->streams_room, sizeof *thread->streams))
        return COFI_ERR_NOMEM;
    thread->streams[thread->streams_n++] = i;
    return 0;
}

/* By who made them, what they were called, and their order. */
static int by_kind(const void *a, const void *b, void *opaque)
{
    const struct threads *threads = opaque;
    size_t i = *(const size_t *)a, k = *(const size_t *)b;
    const struct thread *x = &threads->rows[i], *y = &threads->rows[k];
    int order = x->maker != y->maker ? (x->maker < y->maker ? -1 : 1) : strcmp(x->comm, y->comm);
    return order ? order : i < k ? -1 : i > k;
}

static int by_name(const void *a, const void *b, void *opaque)
{
    const struct threads *threads = opaque;
    return strcmp(threads->rows[*(const size_t *)a].name, threads->rows[*(const size_t *)b].name);
}

/* What a name begins with: the maker's, or if that is long, a number made of it. */
static void begin_name(const struct threads *threads, const struct thread *thread, char *out, size_t n)
{
    enum { LONG = 512 };
    const char *maker = thread->maker == NO_THREAD ? "" : threads->rows[thread->maker].name;
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    size_t length = strlen(maker);
    for (const char *c = maker; *c; c++)
        hash = (hash ^ (uint8_t)*c) * UINT64_C(0x100000001b3);
    if (length > LONG)
        snprintf(out, n, "...%016" PRIx64 "/", hash);
    else
        snprintf(out, n, "%s%s", maker, length ? "/" : "");
}

static int name(const struct threads *threads, size_t row, uint32_t nth)
{
    char begin[1024];
    struct thread *thread = &threads->rows[row];
    begin_name(threads, thread, begin, sizeof begin);
    int n = nth == 1 ? asprintf(&thread->name, "%s%s", begin, thread->comm)
                     : asprintf(&thread->name, "%s%s.%" PRIu32, begin, thread->comm, nth);
    if (n < 0)
        thread->name = NULL;
    return n < 0 ? COFI_ERR_NOMEM : 0;
}

/* How manieth each one is, of those of its kind; order: rows by kind. */
static void count_kinds(const struct threads *threads, const size_t *order, uint32_t *nth)
{
    for (size_t i = 0; i < threads->n; i++) {
        const struct thread *x = &threads->rows[order[i]], *y = i ? &threads->rows[order[i - 1]] : NULL;
        nth[order[i]] = y && y->maker == x->maker && !strcmp(y->comm, x->comm) ? nth[order[i - 1]] + 1 : 1;
    }
}

/* Makers come before those they make. */
static int name_all(struct threads *threads)
{
    uint32_t *nth = calloc(threads->n + 1, sizeof *nth);
    int status = 0;
    threads->by_name = calloc(threads->n + 1, sizeof *threads->by_name);
    if (!nth || !threads->by_name)
        status = COFI_ERR_NOMEM;
    for (size_t i = 0; status >= 0 && i < threads->n; i++)
        threads->by_name[i] = i;
    if (status >= 0) {
        qsort_r(threads->by_name, threads->n, sizeof *threads->by_name, by_kind, threads);
        count_kinds(threads, threads->by_name, nth);
    }
    for (size_t i = 0; status >= 0 && i < threads->n; i++)
        status = name(threads, i, nth[i]);
    if (status >= 0)
        qsort_r(threads->by_name, threads->n, sizeof *threads->by_name, by_name, threads);
    free(nth);
    return status;
}

int threads_find(struct threads *threads, struct session *session)
{
    const struct cofi_recording *recording = session_recording(session);
    const struct cofi_sideband *sb;
    int status = 0;
    threads->by_hash = malloc(THREADS_HASHES * sizeof *threads->by_hash);
    if (!threads->by_hash)
        return COFI_ERR_NOMEM;
    for (size_t i = 0; i < THREADS_HASHES; i++)
        threads->by_hash[i] = NO_THREAD;
    for (size_t i = 0; recording && status >= 0 && (sb = cofi_recording_sideband(recording, i)); i++)
        status = note(threads, recording, sb);
    for (size_t i = 0; status >= 0 && i < session_streams(session); i++)
        status = add_stream(threads, session, i);
    return status < 0 ? status : name_all(threads);
}

void threads_free(struct threads *threads)
{
    for (size_t i = 0; i < threads->n; i++) {
        free(threads->rows[i].name);
        free(threads->rows[i].streams);
    }
    free(threads->rows);
    free(threads->by_hash);
    free(threads->by_name);
}

size_t threads_named(const struct threads *threads, const char *name)
{
    size_t low = 0, high = threads->n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = strcmp(threads->rows[threads->by_name[middle]].name, name);
        if (!order)
            return threads->by_name[middle];
        low = order < 0 ? middle + 1 : low;
        high = order < 0 ? high : middle;
    }
    return NO_THREAD;
}
