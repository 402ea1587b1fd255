/* SPDX-License-Identifier: MIT
 * A pipe -> its bytes, piece after piece. */
#include "pipe.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

enum { PIECE = 1 << 18 };

/* /dev/zero and its like, which have no end: a file's reader says so. */
static bool is_endless(const struct stat *st)
{
    enum { MEMORY_DEVICES = 1 };
    return S_ISCHR(st->st_mode) && major(st->st_rdev) == MEMORY_DEVICES;
}

bool pipe_open(struct pipe *pipe, const char *path)
{
    struct stat st;
    bool is_stdin = !strcmp(path, "-");
    *pipe = (struct pipe){.fd = -1};
    if (is_stdin ? fstat(0, &st) : stat(path, &st))
        return false;
    if (is_endless(&st) || (!S_ISFIFO(st.st_mode) && !S_ISSOCK(st.st_mode) && !S_ISCHR(st.st_mode)))
        return false;
    pipe->fd = is_stdin ? 0 : open(path, O_RDONLY | O_CLOEXEC);
    return pipe->fd >= 0;
}

void pipe_close(struct pipe *pipe)
{
    if (pipe->fd > 0)
        close(pipe->fd);
    free(pipe->bytes);
    *pipe = (struct pipe){.fd = -1};
}

/* Some bytes more, behind those that are held. */
static void read_on(struct pipe *pipe)
{
    ssize_t got;
    while ((got = read(pipe->fd, pipe->bytes + pipe->held, pipe->room - pipe->held)) < 0 && errno == EINTR) {
    }
    pipe->error = got < 0 ? errno : 0;
    pipe->ended = got <= 0;
    if (got > 0)
        pipe->held += (size_t)got;
}

static bool has_room(struct pipe *pipe, size_t room)
{
    uint8_t *bytes = pipe->room < room ? realloc(pipe->bytes, room) : pipe->bytes;
    if (!bytes) {
        pipe->error = ENOMEM;
        return false;
    }
    pipe->bytes = bytes;
    pipe->room = pipe->room < room ? room : pipe->room;
    return true;
}

const uint8_t *pipe_peek(struct pipe *pipe, size_t most, size_t *n)
{
    while (has_room(pipe, most) && !pipe->ended && pipe->held < most)
        read_on(pipe);
    *n = pipe->held;
    return pipe->bytes;
}

const uint8_t *pipe_next(struct pipe *pipe, size_t *n)
{
    if (has_room(pipe, PIECE) && !pipe->ended && !pipe->held)
        read_on(pipe);
    *n = pipe->held;
    pipe->taken += pipe->held;
    pipe->held = 0;
    return pipe->bytes;
}
