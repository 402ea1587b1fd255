/* SPDX-License-Identifier: MIT
 * A pipe that is read once, from its beginning to its end, and not held. */
#ifndef COFI_CLI_PIPE_H
#define COFI_CLI_PIPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct pipe {
    int fd;         /* -1: none is open */
    int error;      /* errno of the read that failed, which ends it; else 0 */
    bool ended;
    uint8_t *bytes; /* the piece handed out last, or what is held for the next one */
    size_t room, held;
    uint64_t taken; /* handed out so far */
};

/* Open a path ("-": standard input) if it is a pipe or something like one. False: it is a file, or cannot be opened. */
bool pipe_open(struct pipe *pipe, const char *path);
void pipe_close(struct pipe *pipe);
/* The next bytes, as soon as there are any, valid until the next call; *n 0: the end, or an error. */
const uint8_t *pipe_next(struct pipe *pipe, size_t *n);
/* The bytes that come next, up to so many; fewer only before the end. They stay what comes next. */
const uint8_t *pipe_peek(struct pipe *pipe, size_t most, size_t *n);

#endif
