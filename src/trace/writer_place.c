/* SPDX-License-Identifier: MIT
 * Where a recording's file lies: beside an older one, until there is something to take its place with. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "trace/writer.h"

/* A file next to the one that is to be replaced. Where none can be made, or nothing is to be replaced: -1. */
static int create_beside(struct cofi_writer *writer, const char *path)
{
    struct stat st;
    if (stat(path, &st) || !S_ISREG(st.st_mode))
        return -1;
    writer->place = realpath(path, NULL);
    if (!writer->place || asprintf(&writer->beside, "%s.......", writer->place) < 0)
        writer->beside = NULL;
    if (writer->beside) /* mkostemp's pattern */
        memset(strchr(writer->beside, 0) - 6, 'X', 6);
    int fd = writer->beside ? mkostemp(writer->beside, O_CLOEXEC) : -1;
    if (fd < 0) {
        free(writer->beside);
        writer->beside = NULL;
    }
    return fd;
}

int cofi__writer_create(struct cofi_writer *writer, const char *path)
{
    writer->fd = create_beside(writer, path);
    if (writer->fd >= 0)
        return 0;
    writer->fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    writer->made = writer->fd >= 0;
    if (writer->fd < 0)
        writer->fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (writer->fd < 0)
        return -errno;
    free(writer->place);
    writer->place = realpath(path, NULL);
    if (!writer->place)
        writer->place = strdup(path);
    return writer->place ? 0 : -ENOMEM;
}

/* What is written so far goes into the file that is there. Returns 0 or -errno. */
static int copy_over(struct cofi_writer *writer)
{
    uint8_t bytes[4096];
    uint64_t done = 0;
    int fd = open(writer->place, O_RDWR | O_TRUNC | O_CLOEXEC);
    for (ssize_t n; fd >= 0 && (n = pread(writer->fd, bytes, sizeof bytes, (off_t)done)); done += (uint64_t)n) {
        int error = n < 0 ? -errno : cofi__write_all(fd, bytes, (size_t)n);
        if (error) {
            close(fd);
            return error;
        }
    }
    if (fd < 0 || dup3(fd, writer->fd, O_CLOEXEC) < 0)
        return -errno;
    close(fd);
    unlink(writer->beside);
    return 0;
}

/* Nothing can be renamed to a file that is mounted, or that is another user's in a folder for all. */
int cofi__writer_settle(struct cofi_writer *writer)
{
    writer->made = false;
    if (!writer->beside)
        return 0;
    int error = rename(writer->beside, writer->place) ? copy_over(writer) : 0;
    if (error)
        unlink(writer->beside);
    free(writer->beside);
    writer->beside = NULL;
    return error ? cofi__writer_failed(writer, writer_code(-error), writer->end, "%.120s: %s", writer->place,
                                       strerror(-error))
                 : 0;
}

void cofi__writer_withdraw(struct cofi_writer *writer)
{
    if (writer->beside || writer->made)
        unlink(writer->beside ? writer->beside : writer->place);
}
