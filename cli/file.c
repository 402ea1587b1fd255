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

const char *file_how_to_make(const char *path)
{
    return !strcmp(path, "cofi.data") && access(path, F_OK) ? "; 'cofi record -- COMMAND' makes it" : "";
}

static int refuse(const char *command, const char *path, int error)
{
    fprintf(stderr, "cofi %s: %s: %s%s\n", command, path, strerror(error), file_how_to_make(path));
    return EXIT_ENVIRONMENT;
}

/* What cannot be mapped is read to its end: into memory, or, if it is more, into an unnamed file. */
enum { IN_MEMORY_MOST = 16 << 20 };

/* Up to `most` bytes, fewer only at the end. 0 or errno. */
static int read_some(int fd, uint8_t *bytes, size_t most, size_t *n)
{
    *n = 0;
    while (*n < most) {
        ssize_t got = read(fd, bytes + *n, most - *n);
        if (got < 0 && errno != EINTR)
            return errno;
        if (!got)
            break;
        *n += got > 0 ? (size_t)got : 0;
    }
    return 0;
}

static int write_all(int fd, const uint8_t *bytes, size_t n)
{
    while (n) {
        ssize_t some = write(fd, bytes, n);
        if (some < 0 && errno != EINTR)
            return errno;
        bytes += some > 0 ? some : 0;
        n -= some > 0 ? (size_t)some : 0;
    }
    return 0;
}

static int map(struct file *file, int fd, size_t n)
{
    void *bytes = mmap(0, n, PROT_READ, MAP_PRIVATE, fd, 0);
    if (bytes == MAP_FAILED)
        return errno;
    *file = (struct file){bytes, n, true};
    return 0;
}

const char *file_scratch_place(void)
{
    const char *tmp = getenv("TMPDIR");
    return tmp && *tmp ? tmp : "/var/tmp";
}

static int scratch_file(void)
{
    int fd = open(file_scratch_place(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    return fd >= 0 ? fd : memfd_create("cofi", MFD_CLOEXEC);
}

/* A file of the bytes and of all that follows them. */
static int spool(struct file *file, int fd, uint8_t *bytes, size_t most)
{
    int copy = scratch_file(), error = copy < 0 ? errno : 0;
    size_t n = most, total = 0;
    while (!error && n) {
        error = write_all(copy, bytes, n);
        total += n;
        if (!error)
            error = read_some(fd, bytes, most, &n);
    }
    if (!error)
        error = map(file, copy, total);
    if (copy >= 0)
        close(copy);
    return error;
}

/* Devices like /dev/zero have none. */
static bool has_end(int fd)
{
    struct stat st;
    return fstat(fd, &st) || !S_ISCHR(st.st_mode);
}

static int slurp(struct file *file, int fd)
{
    size_t n = 0;
    uint8_t *bytes = malloc(IN_MEMORY_MOST);
    int error = bytes ? read_some(fd, bytes, IN_MEMORY_MOST, &n) : ENOMEM;
    if (!error && n < IN_MEMORY_MOST) {
        uint8_t *fitting = realloc(bytes, n ? n : 1);
        *file = (struct file){fitting ? fitting : bytes, n, false};
        return 0;
    }
    if (!error)
        error = has_end(fd) ? spool(file, fd, bytes, n) : EFBIG;
    free(bytes);
    return error;
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
        bool regular = S_ISREG(st.st_mode) && st.st_size > 0 && lseek(fd, 0, SEEK_CUR) == 0;
        if (!regular || map(file, fd, (size_t)st.st_size))
            error = slurp(file, fd);
    }
    if (!is_stdin)
        close(fd);
    return error ? refuse(command, path, error) : 0;
}

int file_again(const struct file *file, const char *command)
{
    if (!lseek(0, 0, SEEK_CUR)) /* it was mapped */
        return 0;
    int copy = scratch_file(), error = copy < 0 ? errno : write_all(copy, file->bytes, file->n);
    if (!error && (lseek(copy, 0, SEEK_SET) || dup2(copy, 0)))
        error = errno;
    if (copy >= 0)
        close(copy);
    return error ? refuse(command, "-", error) : 0;
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
