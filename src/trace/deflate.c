/* SPDX-License-Identifier: MIT
 * Bytes in order -> a zstd stream in a file. */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>
#include <zstd.h>

#include "base/bytes.h"
#include "base/file.h"
#include "trace/writer.h"

/* Level 1: traces are made faster than the higher ones compress. */
enum { LEVEL = 1, OUT_BYTES = 1 << 18 };

struct cofi__deflate {
    int fd;
    ZSTD_CCtx *context;
    uint8_t bytes[OUT_BYTES];
};

/* Magic, descriptor (one segment, content size of 2 bytes less 256), size; one last raw block [RFC 8878]. */
enum { RAW_FRAME_BYTES = 4 + 1 + 2 + 3, RAW_MIN = 256 };

static int write_raw_frame(int fd, const uint8_t *bytes, size_t n)
{
    uint8_t head[RAW_FRAME_BYTES] = {0x28, 0xb5, 0x2f, 0xfd, 0x60};
    put_le(head + 5, n - RAW_MIN, 2);
    put_le(head + 7, (uint64_t)n << 3 | 1, 3);
    int error = cofi__write_all(fd, head, sizeof head);
    return error ? error : cofi__write_all(fd, bytes, n);
}

int cofi__deflate_open(struct cofi__deflate **deflate, int fd, const uint8_t *bytes, size_t n)
{
    struct cofi__deflate *made = malloc(sizeof *made);
    if (!made)
        return -ENOMEM;
    made->fd = fd;
    made->context = ZSTD_createCCtx();
    int error = made->context ? write_raw_frame(fd, bytes, n) : -ENOMEM;
    if (error) {
        cofi__deflate_close(made);
        return error;
    }
    ZSTD_CCtx_setParameter(made->context, ZSTD_c_compressionLevel, LEVEL);
    ZSTD_CCtx_setParameter(made->context, ZSTD_c_checksumFlag, 1);
    /* One thread beside the writers, where the library has threads; else it says no and does without. */
    ZSTD_CCtx_setParameter(made->context, ZSTD_c_nbWorkers, 1);
    *deflate = made;
    return 0;
}

int cofi__deflate_patch(struct cofi__deflate *deflate, const uint8_t *bytes, size_t n)
{
    ssize_t done = pwrite(deflate->fd, bytes, n, RAW_FRAME_BYTES);
    return done == (ssize_t)n ? 0 : done < 0 ? -errno : -ENOSPC;
}

void cofi__deflate_close(struct cofi__deflate *deflate)
{
    if (!deflate)
        return;
    ZSTD_freeCCtx(deflate->context);
    free(deflate);
}

static int compress(struct cofi__deflate *deflate, ZSTD_inBuffer *in, ZSTD_EndDirective how)
{
    for (;;) {
        ZSTD_outBuffer out = {deflate->bytes, OUT_BYTES, 0};
        size_t left = ZSTD_compressStream2(deflate->context, &out, in, how);
        if (ZSTD_isError(left))
            return -ENOMEM;
        int error = cofi__write_all(deflate->fd, deflate->bytes, out.pos);
        if (error)
            return error;
        if (how == ZSTD_e_continue ? in->pos == in->size : !left)
            return 0;
    }
}

int cofi__deflate_write(struct cofi__deflate *deflate, const struct iovec *parts, int n)
{
    for (int i = 0; i < n; i++) {
        ZSTD_inBuffer in = {parts[i].iov_base, parts[i].iov_len, 0};
        int error = compress(deflate, &in, ZSTD_e_continue);
        if (error)
            return error;
    }
    return 0;
}

int cofi__deflate_flush(struct cofi__deflate *deflate, bool last)
{
    ZSTD_inBuffer none = {0};
    return compress(deflate, &none, last ? ZSTD_e_end : ZSTD_e_flush);
}
