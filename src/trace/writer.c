/* SPDX-License-Identifier: MIT
 * Sideband and trace bytes of any thread -> one perf.data file. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/sized.h"
#include "trace/perf_data.h"
#include "trace/writer.h"

enum {
    FIRST_ROOM = 4096,
    PIECE = 256 * 1024,            /* a stream's buffer at most, so a usual AUXTRACE record's size */
    BUFFERED_MAX = 64 * 1024 * 1024, /* of all streams */
    SIDEBAND_MAX = 64 * 1024
};

#define COMPRESSED_SUFFIX ".zst"

static char *copy_string(const char *text)
{
    return text ? strdup(text) : NULL;
}

static bool names_compressed(const char *path)
{
    size_t n = strlen(path), suffix = strlen(COMPRESSED_SUFFIX);
    return n > suffix && !strcmp(path + n - suffix, COMPRESSED_SUFFIX);
}

static int write_prologue(struct cofi_writer *writer)
{
    bool compressed = names_compressed(writer->path);
    int error = 0;
    uint8_t head[PERF_HEADER_BYTES + 16 + 2 * (ATTR_BYTES + 16)] = {0};
    uint8_t *entry = head + PERF_HEADER_BYTES + 16;
    put_le(head + PERF_HEADER_BYTES, ID_TRACE, 8);
    put_le(head + PERF_HEADER_BYTES + 8, ID_SIDEBAND, 8);
    for (unsigned i = 0; i < 2; i++, entry += ATTR_BYTES + 16) {
        cofi__writer_attr(entry, &writer->info, i == 1);
        put_le(entry + ATTR_BYTES, PERF_HEADER_BYTES + i * 8, 8);
        put_le(entry + ATTR_BYTES + 8, 8, 8);
    }
    if (compressed) {
        error = -cofi__deflate_open(&writer->deflate, writer->fd, head, sizeof head);
        writer->path[strlen(writer->path) - strlen(COMPRESSED_SUFFIX)] = 0; /* its name once it is unpacked */
    } else if (pwrite(writer->fd, head, sizeof head, 0) != (ssize_t)sizeof head) {
        error = errno;
    }
    if (error)
        return cofi__writer_failed(writer, writer_code(error), 0, "%.120s: %s", writer->path, strerror(error));
    writer->data_start = writer->end = sizeof head;
    COFI_TRY(cofi__writer_prologue(writer));
    COFI_TRY(cofi__writer_drain(writer));
    return cofi__writer_header(writer, writer->end, NULL);
}

static void release(struct cofi_writer *writer)
{
    struct cofi__out_stream *stream = atomic_load(&writer->streams);
    while (stream) {
        struct cofi__out_stream *next = stream->next;
        pthread_mutex_destroy(&stream->lock);
        free(stream->bytes);
        free(stream);
        stream = next;
    }
    cofi__deflate_close(writer->deflate);
    if (writer->fd >= 0)
        close(writer->fd);
    cofi__writer_build_ids_free(writer);
    cofi__buffer_fini(&writer->sideband);
    cofi__buffer_fini(&writer->index);
    free(writer->known);
    pthread_mutex_destroy(&writer->lock);
    pthread_cond_destroy(&writer->idle);
    free(writer->filter);
    free(writer->command);
    free(writer->vendor);
    free(writer->path);
    free(writer->place);
    free(writer->beside);
    free(writer);
}

int cofi_writer_open(struct cofi_writer **writer, const char *path,
                     const struct cofi_recording_info *given, struct cofi_error *error)
{
    struct cofi_recording_info all, *info = &all;
    COFI_TRY(cofi__sized(&all, sizeof all, given, offsetof(struct cofi_recording_info, config), error));
    if (info->gen != COFI_PT && info->gen != COFI_RTIT)
        return cofi__fail(error, COFI_ERR_RANGE, COFI_NOWHERE, "gen is neither PT nor RTIT");
    struct cofi_writer *made = calloc(1, sizeof *made);
    if (!made)
        return cofi__fail(error, COFI_ERR_NOMEM, COFI_NOWHERE, "out of memory");
    made->info = *info;
    made->filter = copy_string(info->filter);
    made->command = copy_string(info->command);
    made->vendor = copy_string(info->vendor);
    bool copied = !info->filter == !made->filter && !info->command == !made->command && !info->vendor == !made->vendor;
    made->bad = made->first_ns = UINT64_MAX;
    made->fd = -1;
    pthread_mutex_init(&made->lock, NULL);
    pthread_cond_init(&made->idle, NULL);
    int why = -cofi__writer_create(made, path);
    if (made->fd < 0) {
        int code = why == EACCES || why == EPERM || why == EROFS ? COFI_ERR_PERMISSION : writer_code(why);
        code = cofi__fail(error, code, COFI_NOWHERE, "%.160s: %s; choose another file with -o", path, strerror(why));
        release(made);
        return code;
    }
    made->path = copy_string(made->place);
    int status = !made->path || !copied ? COFI_ERR_NOMEM : write_prologue(made);
    if (status < 0) {
        cofi__writer_withdraw(made);
        if (error)
            *error = made->error;
        if (error && !error->code)
            cofi__fail(error, status, COFI_NOWHERE, "%.160s: %s", path, cofi_error_text(status));
        release(made);
        return status;
    }
    *writer = made;
    return 0;
}

static struct cofi__out_stream **bucket_of(struct cofi_writer *writer, int32_t tid)
{
    return &writer->hash[(uint32_t)tid % OUT_BUCKETS];
}

/* The stream of a thread, or null. Locked. */
static struct cofi__out_stream *find_stream(struct cofi_writer *writer, int32_t tid)
{
    struct cofi__out_stream *stream = *bucket_of(writer, tid);
    while (stream && stream->tid != tid)
        stream = stream->next_hash;
    return stream;
}

/* … which is made if it is not there. Locked. */
static struct cofi__out_stream *need_stream(struct cofi_writer *writer, int32_t pid, int32_t tid)
{
    struct cofi__out_stream **bucket = bucket_of(writer, tid), *stream = find_stream(writer, tid);
    if (stream)
        return stream;
    stream = calloc(1, sizeof *stream);
    if (!stream)
        return NULL;
    pthread_mutex_init(&stream->lock, NULL);
    stream->pid = pid;
    stream->tid = tid;
    stream->idx = writer->n_streams++;
    stream->next_hash = *bucket;
    *bucket = stream;
    stream->next = atomic_load(&writer->streams);
    atomic_store(&writer->streams, stream);
    return stream;
}

/* Tell of a piece as the kernel does: an AUX record with its place in the stream. Locked. */
static void put_aux(struct cofi_writer *writer, const struct cofi__out_stream *stream, uint64_t n)
{
    const struct cofi_time_conv *conv = &writer->info.time.conv;
    struct cofi_sideband aux = {
        .kind = COFI_SB_AUX,
        .cpu = writer->info.per_cpu ? (uint32_t)stream->tid : UINT32_MAX,
        .pid = stream->pid,
        .tid = stream->tid,
        .time_ns = conv->mult ? cofi_time_ns(conv, stream->reference) : 0,
        .aux_offset = stream->offset,
        .aux_size = n,
    };
    cofi__writer_record(writer, &aux);
}

/* Write two runs of bytes (a multiple of 8 in all, `padding` of them zeros at the end) as the stream's next
 * piece. The stream is locked. */
static int put_piece(struct cofi_writer *writer, struct cofi__out_stream *stream, struct iovec first,
                     struct iovec second, unsigned padding)
{
    uint8_t header[AUXTRACE_BYTES] = {0};
    uint64_t n = first.iov_len + second.iov_len;
    /* perf needs a reference that is not 0 [PTREF 10.4]. */
    uint64_t reference = stream->reference ? stream->reference : 1;
    put_le(header, PERF_AUXTRACE, 4);
    put_le(header + 6, AUXTRACE_BYTES, 2);
    put_le(header + 8, n, 8);
    put_le(header + 16, stream->offset, 8);
    put_le(header + 24, reference, 8);
    put_le(header + 32, stream->idx, 4);
    put_le(header + 36, writer->info.per_cpu ? UINT32_MAX : (uint32_t)stream->tid, 4);
    put_le(header + 40, writer->info.per_cpu ? (uint32_t)stream->tid : UINT32_MAX, 4);
    put_le(header + 44, padding, 4);
    struct iovec parts[3] = {{header, sizeof header}, first, second};
    pthread_mutex_lock(&writer->lock);
    put_aux(writer, stream, n - padding);
    int status = cofi__writer_drain(writer);
    if (status >= 0) {
        cofi__buffer_put_le(&writer->index, writer->end, 8);
        cofi__buffer_put_le(&writer->index, AUXTRACE_BYTES, 8);
        status = cofi__writer_put(writer, parts, 3);
    }
    pthread_mutex_unlock(&writer->lock);
    stream->offset += n - padding;
    return status;
}

/* Write parts as a piece, padded to 8 bytes with zeros: PAD packets, because pieces begin and end between
 * packets. */
static int put_padded(struct cofi_writer *writer, struct cofi__out_stream *stream, const void *bytes, size_t n)
{
    static const uint8_t zeros[8];
    unsigned padding = -(unsigned)n & 7;
    return put_piece(writer, stream, (struct iovec){(void *)bytes, n}, (struct iovec){(void *)zeros, padding}, padding);
}

static int drain_stream(struct cofi_writer *writer, struct cofi__out_stream *stream)
{
    if (!stream->n)
        return 0;
    int status = put_padded(writer, stream, stream->bytes, stream->n);
    stream->n = 0;
    return status;
}

/* Let the buffer have room for n bytes in all, if that is within bounds. */
static int grow(struct cofi_writer *writer, struct cofi__out_stream *stream, size_t n)
{
    size_t room = stream->room < FIRST_ROOM ? FIRST_ROOM : stream->room;
    while (room < n)
        room *= 2;
    if (stream->room >= n)
        return 0;
    uint8_t *bytes = realloc(stream->bytes, room);
    if (!bytes)
        return COFI_ERR_NOMEM;
    atomic_fetch_add(&writer->buffered, room - stream->room);
    stream->bytes = bytes;
    stream->room = room;
    return 0;
}

/* As they are, without a copy. */
static int put_unbuffered(struct cofi_writer *writer, struct cofi__out_stream *stream, const uint8_t *bytes, size_t n,
                          uint64_t reference_tsc)
{
    COFI_TRY(drain_stream(writer, stream));
    stream->reference = reference_tsc;
    return put_padded(writer, stream, bytes, n);
}

static int append(struct cofi_writer *writer, struct cofi__out_stream *stream, const uint8_t *bytes, size_t n,
                  uint64_t reference_tsc)
{
    size_t most = atomic_load(&writer->buffered) > BUFFERED_MAX ? stream->room : PIECE;
    if (stream->n + n > most)
        COFI_TRY(drain_stream(writer, stream));
    if (!stream->n)
        stream->reference = reference_tsc;
    if (n >= PIECE || grow(writer, stream, stream->n + n) < 0)
        return put_unbuffered(writer, stream, bytes, n, reference_tsc);
    if (n)
        memcpy(stream->bytes + stream->n, bytes, n);
    stream->n += n;
    return 0;
}

int cofi_writer_trace(struct cofi_writer *writer, int32_t pid, int32_t tid, const uint8_t *bytes, size_t n,
                      uint64_t reference_tsc)
{
    pthread_mutex_lock(&writer->lock);
    cofi__writer_settle(writer);
    int status = writer->status;
    struct cofi__out_stream *stream = need_stream(writer, pid, tid);
    if (!stream)
        status = cofi__writer_failed(writer, COFI_ERR_NOMEM, writer->end, "%.120s: out of memory", writer->path);
    pthread_mutex_unlock(&writer->lock);
    if (status < 0)
        return status;
    pthread_mutex_lock(&stream->lock);
    status = append(writer, stream, bytes, n, reference_tsc);
    pthread_mutex_unlock(&stream->lock);
    return status;
}

/* Give its buffer back. */
static int shrink(struct cofi_writer *writer, struct cofi__out_stream *stream)
{
    pthread_mutex_lock(&stream->lock);
    int status = drain_stream(writer, stream);
    atomic_fetch_sub(&writer->buffered, stream->room);
    free(stream->bytes);
    stream->bytes = NULL;
    stream->room = 0;
    pthread_mutex_unlock(&stream->lock);
    return status;
}

/* What comes by the thread's number is another stream. */
static int retire(struct cofi_writer *writer, struct cofi__out_stream *stream)
{
    int status = shrink(writer, stream);
    pthread_mutex_lock(&writer->lock);
    struct cofi__out_stream **link = bucket_of(writer, stream->tid);
    while (*link && *link != stream)
        link = &(*link)->next_hash;
    if (*link)
        *link = stream->next_hash;
    pthread_mutex_unlock(&writer->lock);
    return status;
}

/* To a thread's stream, if it has one. */
static int apply(struct cofi_writer *writer, int32_t tid, int (*what)(struct cofi_writer *, struct cofi__out_stream *))
{
    pthread_mutex_lock(&writer->lock);
    int status = writer->status;
    struct cofi__out_stream *stream = find_stream(writer, tid);
    pthread_mutex_unlock(&writer->lock);
    return stream && status >= 0 ? what(writer, stream) : status;
}

int cofi_writer_idle(struct cofi_writer *writer, int32_t tid) { return apply(writer, tid, shrink); }

int cofi_writer_end(struct cofi_writer *writer, int32_t tid) { return apply(writer, tid, retire); }

/* What would be read back as damage, or not at all. */
static bool is_record(const struct cofi_sideband *sb)
{
    bool has_bytes = sb->kind == COFI_SB_CODE || sb->kind == COFI_SB_TEXT_POKE;
    bool has_id = sb->kind == COFI_SB_MMAP && sb->build_id_size != COFI_NO_BUILD_ID;
    return sb->kind <= COFI_SB_TEXT_POKE && (!has_id || sb->build_id_size <= sizeof sb->build_id) &&
           (!has_bytes || (sb->len <= UINT64_MAX - sb->addr && (sb->bytes || !sb->len)));
}

int cofi_writer_sideband(struct cofi_writer *writer, const struct cofi_sideband *sideband)
{
    if (!is_record(sideband))
        return COFI_ERR_RANGE;
    pthread_mutex_lock(&writer->lock);
    if (sideband->kind == COFI_SB_ITRACE_START)
        cofi__writer_settle(writer);
    int status = writer->status;
    struct cofi__out_stream *stream = NULL;
    if (status >= 0 && (sideband->kind == COFI_SB_EXIT || sideband->kind == COFI_SB_FORK))
        stream = find_stream(writer, sideband->tid);
    if (status >= 0 && sideband->time_ns) {
        if (sideband->time_ns < writer->first_ns)
            writer->first_ns = sideband->time_ns;
        if (sideband->time_ns > writer->last_ns)
            writer->last_ns = sideband->time_ns;
    }
    if (status >= 0)
        status = cofi__writer_record(writer, sideband);
    if (status >= 0 && writer->sideband.n > SIDEBAND_MAX)
        status = cofi__writer_drain(writer);
    pthread_mutex_unlock(&writer->lock);
    if (stream && status >= 0)
        status = sideband->kind == COFI_SB_EXIT ? shrink(writer, stream) : retire(writer, stream);
    return status;
}

/* The end of a round: perf may deliver what came before the last one. Said only where time went on by a
 * second since, because sideband of several threads may come a little out of order. Locked. */
static void put_round(struct cofi_writer *writer)
{
    static const uint8_t round[8] = {PERF_FINISHED_ROUND, 0, 0, 0, 0, 0, 8, 0};
    if (writer->last_ns - writer->round_ns < 1000000000u && writer->round_ns)
        return;
    cofi__buffer_put(&writer->sideband, round, sizeof round);
    writer->round_ns = writer->last_ns;
}

static int flush(struct cofi_writer *writer, bool last)
{
    struct cofi__out_stream *stream = atomic_load(&writer->streams);
    for (; stream; stream = stream->next) {
        pthread_mutex_lock(&stream->lock);
        drain_stream(writer, stream);
        pthread_mutex_unlock(&stream->lock);
    }
    pthread_mutex_lock(&writer->lock);
    cofi__writer_settle(writer);
    put_round(writer);
    cofi__writer_drain(writer);
    int status = cofi__writer_complete(writer, last);
    pthread_mutex_unlock(&writer->lock);
    return status;
}

int cofi_writer_flush(struct cofi_writer *writer)
{
    return flush(writer, false);
}

int cofi_writer_close(struct cofi_writer *writer, struct cofi_error *error)
{
    if (!writer)
        return 0;
    int status = flush(writer, true);
    if (error)
        *error = writer->error;
    release(writer);
    return status;
}

int cofi_writer_discard(struct cofi_writer *writer, struct cofi_error *error)
{
    if (!writer || (!writer->made && !writer->beside))
        return cofi_writer_close(writer, error);
    cofi__writer_withdraw(writer);
    release(writer);
    return 0;
}
