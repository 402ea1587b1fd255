/* SPDX-License-Identifier: MIT
 * Retired instructions -> a text list of their addresses. */
#include <cofi/host.h>

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"

enum { BUFFER_BYTES = 1 << 16, LINE_MAX_BYTES = 40 };

struct cofi_truth {
    struct cofi_observer observer;
    int fd, status, error;
    char *path;
    bool made, begun; /* the file is new; a thread has begun */
    size_t n;
    char buffer[BUFFER_BYTES];
};

static void flush(struct cofi_truth *truth)
{
    int error = truth->status ? 0 : cofi__write_all(truth->fd, truth->buffer, truth->n);
    if (error) {
        truth->status = COFI_ERR_IO;
        truth->error = -error;
    }
    truth->n = 0;
}

static int list(void *opaque, const struct cofi_task *task, uint64_t ip, bool software_interrupt)
{
    struct cofi_truth *truth = opaque;
    if (truth->n > BUFFER_BYTES - LINE_MAX_BYTES)
        flush(truth);
    char digits[12], *p = truth->buffer + truth->n;
    unsigned n = 0, tid = (unsigned)task->tid;
    do
        digits[n++] = (char)('0' + tid % 10);
    while (tid /= 10);
    while (n)
        *p++ = digits[--n];
    *p++ = ' ';
    for (int shift = 60; shift >= 0; shift -= 4)
        *p++ = "0123456789abcdef"[(ip >> shift) & 15];
    if (software_interrupt) {
        memcpy(p, " int", 4);
        p += 4;
    }
    *p++ = '\n';
    truth->n = (size_t)(p - truth->buffer);
    return truth->status;
}

static int begin(void *opaque, const struct cofi_task *task, const struct cofi_context *context,
                 const struct cofi_event *clock)
{
    struct cofi_truth *truth = opaque;
    (void)task, (void)context, (void)clock;
    if (!truth->begun && ftruncate(truth->fd, 0) && errno != EINVAL) { /* no file: nothing to empty */
        truth->status = COFI_ERR_IO;
        truth->error = errno;
    }
    truth->begun = true;
    return truth->status;
}

/* Returns a file descriptor, or -1. */
static int open_list(struct cofi_truth *truth, const char *path)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    truth->made = fd >= 0;
    return fd >= 0 ? fd : open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
}

int cofi_truth_open(struct cofi_truth **out, const char *path, struct cofi_error *error)
{
    struct cofi_truth *truth = calloc(1, sizeof *truth);
    if (!truth)
        return cofi__fail(error, COFI_ERR_NOMEM, COFI_NOWHERE, "%s: out of memory", path);
    truth->observer = (struct cofi_observer){.opaque = truth, .begin = begin, .insn = list};
    truth->path = strdup(path);
    truth->fd = open_list(truth, path);
    if (truth->fd < 0) {
        int code = errno == EACCES || errno == EPERM ? COFI_ERR_PERMISSION : COFI_ERR_IO;
        cofi__fail(error, code, COFI_NOWHERE, "%s: %s", path, strerror(errno));
        free(truth->path);
        free(truth);
        return code;
    }
    *out = truth;
    return 0;
}

const struct cofi_observer *cofi_truth_observer(struct cofi_truth *truth)
{
    return &truth->observer;
}

/* No half list stays, as in cli/output.c: of a link the file is emptied, and a device stays, as does
 * what was put in the file's place. */
static void remove_part(struct cofi_truth *truth)
{
    struct stat file, named;
    if (fstat(truth->fd, &file) || !S_ISREG(file.st_mode))
        return;
    bool plain = truth->path && !lstat(truth->path, &named) && file.st_dev == named.st_dev &&
                 file.st_ino == named.st_ino;
    if ((!plain || unlink(truth->path)) && ftruncate(truth->fd, 0))
        truth->error = errno;
}

int cofi_truth_close(struct cofi_truth *truth, struct cofi_error *error)
{
    if (!truth)
        return 0;
    flush(truth);
    if (truth->status || (truth->made && !truth->begun))
        remove_part(truth);
    if (close(truth->fd) && !truth->status) {
        truth->status = COFI_ERR_IO;
        truth->error = errno;
    }
    int status = truth->status;
    if (status)
        cofi__fail(error, status, COFI_NOWHERE, "%s: %s", truth->path ? truth->path : "the truth file",
                   strerror(truth->error));
    free(truth->path);
    free(truth);
    return status;
}
