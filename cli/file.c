/* SPDX-License-Identifier: MIT
 * A file, or standard input, as bytes in memory. */
#include "file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli.h"

static int refuse(const char *command, const char *path, int error)
{
    fprintf(stderr, "cofi %s: %s: %s\n", command, path, strerror(error));
    return EXIT_ENVIRONMENT;
}

/* Whatever cannot be mapped is read to its end. */
static int slurp(struct file *file, int fd)
{
    uint8_t *bytes = 0;
    size_t n = 0, room = 0;
    for (;;) {
        if (n == room) {
            uint8_t *more = realloc(bytes, room = room ? 2 * room : 1 << 16);
            if (!more) {
                free(bytes);
                return ENOMEM;
            }
            bytes = more;
        }
        ssize_t got = read(fd, bytes + n, room - n);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0) {
            int error = errno;
            free(bytes);
            return error;
        }
        if (!got)
            break;
        n += (size_t)got;
    }
    *file = (struct file){bytes, n, false};
    return 0;
}

int file_open(struct file *file, const char *command, const char *path)
{
    bool is_stdin = !strcmp(path, "-");
    int fd = is_stdin ? 0 : open(path, O_RDONLY | O_CLOEXEC), error = 0;
    if (fd < 0)
        return refuse(command, path, errno);
    struct stat st;
    *file = (struct file){0};
    if (fstat(fd, &st) < 0) {
        error = errno;
    } else if (S_ISDIR(st.st_mode)) {
        error = EISDIR;
    } else {
        void *p = MAP_FAILED;
        if (S_ISREG(st.st_mode) && st.st_size > 0 && !is_stdin)
            p = mmap(0, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (p != MAP_FAILED)
            *file = (struct file){p, (size_t)st.st_size, true};
        else
            error = slurp(file, fd);
    }
    if (!is_stdin)
        close(fd);
    return error ? refuse(command, path, error) : 0;
}

void file_unneeded(const struct file *file, size_t start, size_t end)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), first = (start + page - 1) & ~(page - 1), last = end & ~(page - 1);
    if (file->mapped && first < last)
        madvise((void *)(uintptr_t)(file->bytes + first), last - first, MADV_DONTNEED);
}

void file_close(struct file *file)
{
    if (file->mapped)
        munmap((void *)(uintptr_t)file->bytes, file->n);
    else
        free((void *)(uintptr_t)file->bytes);
}
