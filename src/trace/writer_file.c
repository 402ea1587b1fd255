/* SPDX-License-Identifier: MIT
 * Records -> the file, so that its header is true at every moment. */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <linux/magic.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/error.h"
#include "trace/perf_data.h"
#include "trace/writer.h"

int cofi__writer_failed(struct cofi_writer *writer, int code, uint64_t offset, const char *format, ...)
{
    if (offset < writer->bad)
        writer->bad = offset;
    if (writer->status < 0)
        return writer->status;
    writer->status = writer->error.code = code;
    writer->error.offset = offset;
    va_list args;
    va_start(args, format);
    vsnprintf(writer->error.text, sizeof writer->error.text, format, args);
    va_end(args);
    return code;
}

/* What is reserved at a time, and how much must be free then, for the last of a disk is better asked for
 * at each write. */
#define AHEAD (UINT64_C(16) << 20)
#define FREE_FOR_AHEAD (UINT64_C(1) << 30)

/* Before n bytes are written at an offset: let there be blocks for them and some more. ext4 reserves a page
 * at a time otherwise, which is a quarter of what a write costs. Small recordings stay as they are. */
static void reserve_blocks(struct cofi_writer *writer, uint64_t offset, uint64_t n)
{
    struct statfs fs;
    uint64_t from = writer->reserved > offset ? writer->reserved : offset, end = offset + n + AHEAD;
    if (offset + n <= writer->reserved || offset < AHEAD)
        return;
    bool wanted = !fstatfs(writer->fd, &fs) && fs.f_type == EXT4_SUPER_MAGIC &&
                  fs.f_bavail * (uint64_t)fs.f_bsize > FREE_FOR_AHEAD;
    if (wanted && fallocate(writer->fd, FALLOC_FL_KEEP_SIZE, (off_t)from, (off_t)(end - from)))
        end = UINT64_MAX; /* not to be had [quota]: not missed either */
    writer->reserved = end;
}

/* What was reserved and not used. */
static void give_back(struct cofi_writer *writer)
{
    struct stat st;
    if (writer->reserved && !fstat(writer->fd, &st) && ftruncate(writer->fd, st.st_size))
        return; /* it stays the file's */
    writer->reserved = 0;
}

/* Write all parts at an offset; the parts are changed. */
static int pwrite_all(int fd, struct iovec *parts, int n, uint64_t offset)
{
    while (n) {
        ssize_t done = pwritev(fd, parts, n, (off_t)offset);
        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0)
            return -errno;
        if (!done)
            return -ENOSPC;
        offset += (uint64_t)done;
        for (; n && (size_t)done >= parts->iov_len; parts++, n--)
            done -= (ssize_t)parts->iov_len;
        if (n) {
            parts->iov_base = (uint8_t *)parts->iov_base + done;
            parts->iov_len -= (size_t)done;
        }
    }
    return 0;
}

static int write_failed(struct cofi_writer *writer, int error, uint64_t offset)
{
    return cofi__writer_failed(writer, writer_code(error), offset,
                               "%.120s: %s; what was recorded before stays readable", writer->path,
                               strerror(error));
}

int cofi__writer_header(struct cofi_writer *writer, uint64_t data_end, const uint8_t features[32])
{
    uint8_t header[PERF_HEADER_BYTES] = {0};
    const uint64_t attr_entry = ATTR_BYTES + 16, attrs = PERF_HEADER_BYTES + 16;
    put_le(header, PERF_MAGIC, 8);
    put_le(header + 8, PERF_HEADER_BYTES, 8);
    put_le(header + 16, attr_entry, 8);
    put_le(header + 24, attrs, 8);
    put_le(header + 32, 2 * attr_entry, 8);
    put_le(header + 40, writer->data_start, 8);
    put_le(header + 48, data_end - writer->data_start, 8);
    if (features)
        memcpy(header + 72, features, 32);
    struct iovec part = {header, sizeof header};
    int error = writer->deflate ? cofi__deflate_patch(writer->deflate, header, sizeof header) :
                                  pwrite_all(writer->fd, &part, 1, 0);
    return error ? write_failed(writer, -error, 0) : 0;
}

/* Locked: forget the feature sections, because records are to come where they are. */
static int reopen(struct cofi_writer *writer)
{
    if (!writer->features)
        return 0;
    writer->features = false;
    return cofi__writer_header(writer, writer->end, NULL);
}

int cofi__writer_drain(struct cofi_writer *writer)
{
    if (writer->sideband.failed)
        return cofi__writer_failed(writer, COFI_ERR_NOMEM, writer->end, "%.120s: out of memory", writer->path);
    if (writer->status < 0)
        return writer->status;
    if (!writer->sideband.n)
        return 0;
    COFI_TRY(reopen(writer));
    struct iovec part = {writer->sideband.bytes, writer->sideband.n};
    int error = writer->deflate ? cofi__deflate_write(writer->deflate, &part, 1) :
                                  pwrite_all(writer->fd, &part, 1, writer->end);
    if (error)
        return write_failed(writer, -error, writer->end);
    writer->end += writer->sideband.n;
    writer->sideband.n = 0;
    return 0;
}

/* The place is taken under the lock, the bytes are written outside of it, so that threads write in
 * parallel; the header follows whenever nothing is under way. */
int cofi__writer_put(struct cofi_writer *writer, const struct iovec *parts, int n)
{
    struct iovec copy[4];
    uint64_t total = 0;
    COFI_TRY(cofi__writer_drain(writer));
    COFI_TRY(reopen(writer));
    for (int i = 0; i < n; i++) {
        copy[i] = parts[i];
        total += parts[i].iov_len;
    }
    uint64_t offset = writer->end;
    writer->end += total;
    if (writer->deflate) {
        int number = cofi__deflate_write(writer->deflate, copy, n);
        return number ? write_failed(writer, -number, offset) : 0;
    }
    reserve_blocks(writer, offset, total);
    writer->in_flight++;
    pthread_mutex_unlock(&writer->lock);
    int error = pwrite_all(writer->fd, copy, n, offset);
    pthread_mutex_lock(&writer->lock);
    if (error)
        write_failed(writer, -error, offset);
    if (--writer->in_flight == 0) {
        if (writer->status >= 0)
            cofi__writer_header(writer, writer->end, NULL);
        pthread_cond_broadcast(&writer->idle);
    }
    return writer->status;
}

static int put_features(struct cofi_writer *writer)
{
    int status = cofi__writer_features(writer);
    return status < 0 ? cofi__writer_failed(writer, status, writer->end,
                                            "%.120s: no %s for the header's tables; the records are complete",
                                            writer->path, status == COFI_ERR_NOMEM ? "memory" : "space")
                      : 0;
}

/* What is compressed cannot be written over, so the features come at the end only. */
static int complete_compressed(struct cofi_writer *writer, bool last)
{
    if (writer->status < 0)
        return writer->status;
    int status = last ? cofi__writer_features(writer) : 0;
    int error = cofi__deflate_flush(writer->deflate, last);
    if (error || status < 0)
        return write_failed(writer, error ? -error : status == COFI_ERR_NOMEM ? ENOMEM : EIO, writer->end);
    return last ? 0 : cofi__writer_header(writer, writer->end, NULL);
}

int cofi__writer_complete(struct cofi_writer *writer, bool last)
{
    if (writer->deflate)
        return complete_compressed(writer, last);
    while (writer->in_flight)
        pthread_cond_wait(&writer->idle, &writer->lock);
    int status = writer->status;
    if (status >= 0)
        status = cofi__writer_header(writer, writer->end, NULL);
    if (status >= 0)
        status = put_features(writer);
    if (status < 0 && writer->bad < writer->end && writer->bad >= writer->data_start) {
        /* Keep what lies before the first byte that could not be written. */
        writer->end = writer->bad;
        cofi__writer_header(writer, writer->end, NULL);
        if (ftruncate(writer->fd, (off_t)writer->end))
            writer->features = false;
    }
    if (last)
        give_back(writer);
    return status;
}
