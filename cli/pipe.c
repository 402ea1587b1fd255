/* SPDX-License-Identifier: MIT
 * A pipe -> its bytes, piece after piece. */
#include "pipe.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PIECE = 1 << 18 };

bool pipe_open(struct pipe *pipe, const char *path)
{
    struct stat st;
    bool is_stdin = !strcmp(path, "-");
    *pipe = (struct pipe){.fd = -1};
    if (is_stdin ? fstat(0, &st) : stat(path, &st))
        return false;
    if (!S_ISFIFO(st.st_mode) && !S_ISSOCK(st.st_mode) && !S_ISCHR(st.st_mode))
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

const uint8_t *pipe_next(struct pipe *pipe, size_t *n)
{
    ssize_t got;
    *n = 0;
    if (!pipe->bytes && !(pipe->bytes = malloc(PIECE)))
        pipe->error = ENOMEM;
    if (pipe->error)
        return NULL;
    while ((got = read(pipe->fd, pipe->bytes, PIECE)) < 0 && errno == EINTR) {
    }
    pipe->error = got < 0 ? errno : 0;
    *n = got < 0 ? 0 : (size_t)got;
    return pipe->bytes;
}
