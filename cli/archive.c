/* SPDX-License-Identifier: MIT
 * An open file -> a copy of it below a folder, whole or not at all. */
#include "archive.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "signals.h"

enum { PIECE = 1 << 16 };

/* ---- bytes ---- */

/* The next part of a file that is no hole, from *start on. False: there is none. */
static bool next_data(int fd, off_t size, off_t *start, off_t *end)
{
    off_t data = lseek(fd, *start, SEEK_DATA);
    if (data < 0 && errno != ENXIO) /* not known here: all is data */
        data = *start;
    if (data < 0 || data >= size)
        return false;
    *start = data;
    *end = lseek(fd, data, SEEK_HOLE);
    if (*end <= data || *end > size)
        *end = size;
    return true;
}

static ssize_t read_at(int fd, char *bytes, off_t start, off_t end)
{
    size_t most = end - start < PIECE ? (size_t)(end - start) : PIECE;
    ssize_t got;
    while ((got = pread(fd, bytes, most, start)) < 0 && errno == EINTR && !signals_stop) {
    }
    return got;
}

static bool write_at(int fd, const char *bytes, size_t n, off_t at)
{
    while (n) {
        ssize_t put = pwrite(fd, bytes, n, at);
        if (put < 0 && (errno != EINTR || signals_stop))
            return false;
        bytes += put < 0 ? 0 : put;
        at += put < 0 ? 0 : put;
        n -= put < 0 ? 0 : (size_t)put;
    }
    return true;
}

/* Do something for all bytes of a file that are in no hole. False: it failed, or the file has become
 * shorter (errno ESTALE). */
static bool each_piece(int fd, off_t size, bool (*piece)(int other, const char *bytes, size_t n, off_t at), int other)
{
    char bytes[PIECE];
    for (off_t start = 0, end; next_data(fd, size, &start, &end);)
        for (ssize_t got; start < end; start += got) {
            got = read_at(fd, bytes, start, end);
            errno = got == 0 ? ESTALE : signals_stop ? EINTR : errno;
            if (got <= 0 || signals_stop || !piece(other, bytes, (size_t)got, start))
                return false;
        }
    return true;
}

static bool is_same(int fd, const char *bytes, size_t n, off_t at)
{
    char others[PIECE];
    for (ssize_t got; n; bytes += got, at += got, n -= (size_t)got) {
        got = read_at(fd, others, at, at + (off_t)n);
        errno = 0;
        if (got <= 0 || memcmp(bytes, others, (size_t)got) != 0)
            return false;
    }
    return true;
}

/* Whether two files hold the same; holes are zeros. */
static bool same_bytes(int a, int b, off_t size)
{
    return each_piece(a, size, is_same, b) && each_piece(b, size, is_same, a);
}

/* ---- the place ---- */

/* A path as a kernel tells one: absolute, and nothing in it leads up. */
static bool is_plain(const char *path)
{
    bool plain = *path == '/';
    while (plain && *path) {
        path += strspn(path, "/");
        size_t n = strcspn(path, "/");
        plain = n && n <= NAME_MAX && !(n == 1 && !strncmp(path, ".", n)) && !(n == 2 && !strncmp(path, "..", n));
        path += n;
    }
    return plain;
}

/* The folder of a path's last name, made where it is missing; *name: that name. -1: errno. */
static int open_place(int root, const char *path, const char **name)
{
    char part[NAME_MAX + 1];
    int folder = fcntl(root, F_DUPFD_CLOEXEC, 3);
    for (;;) {
        path += strspn(path, "/");
        size_t n = strcspn(path, "/");
        *name = path;
        if (folder < 0 || !path[n])
            return folder;
        snprintf(part, sizeof part, "%.*s", (int)n, path);
        bool made = !mkdirat(folder, part, 0777) || errno == EEXIST;
        int inner = made ? openat(folder, part, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC) : -1, error = errno;
        close(folder);
        errno = error;
        folder = inner;
        path += n;
    }
}

static bool open_root(struct archive *archive)
{
    if (archive->fd < 0 && (!mkdir(archive->path, 0777) || errno == EEXIST))
        archive->fd = open(archive->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return archive->fd >= 0;
}

/* ---- the file ---- */

/* The copy gets its length (a hole may end it), mode and time. A program may be one that its owner
 * cannot read: the copy is to be. */
static bool finish(int from, int to, const struct stat *st)
{
    struct stat now;
    const struct timespec times[2] = {st->st_atim, st->st_mtim};
    if (fstat(from, &now))
        return false;
    errno = ESTALE;
    if (now.st_size != st->st_size || now.st_mtim.tv_sec != st->st_mtim.tv_sec ||
        now.st_mtim.tv_nsec != st->st_mtim.tv_nsec)
        return false;
    return !ftruncate(to, st->st_size) && !fchmod(to, (st->st_mode & 0777) | 0400) && !futimens(to, times);
}

/* Not over what is there. Some file systems have no such way. */
static bool rename_new(int folder, const char *from, const char *to)
{
    struct stat st;
    if (!renameat2(folder, from, folder, to, RENAME_NOREPLACE))
        return true;
    if (errno != EINVAL && errno != ENOSYS)
        return false;
    if (!fstatat(folder, to, &st, AT_SYMLINK_NOFOLLOW)) {
        errno = EEXIST;
        return false;
    }
    return !renameat(folder, from, folder, to);
}

static bool write_new(int folder, const char *name, int from, const struct stat *st)
{
    char temporary[64];
    snprintf(temporary, sizeof temporary, ".cofi-archive-%d", (int)getpid());
    unlinkat(folder, temporary, 0); /* of one that had this number, and was killed */
    int to = openat(folder, temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (to < 0)
        return false;
    bool good = each_piece(from, st->st_size, write_at, to) && finish(from, to, st);
    int error = errno;
    if (close(to) && good) {
        error = errno;
        good = false;
    }
    if (good && rename_new(folder, temporary, name))
        return true;
    error = good ? errno : error;
    unlinkat(folder, temporary, 0);
    errno = error;
    return false;
}

/* Something of this name is there. */
static enum archive_result compare(int folder, const char *name, int from, off_t size, const char **why)
{
    struct stat st;
    bool same = false;
    if (!fstatat(folder, name, &st, AT_SYMLINK_NOFOLLOW) && S_ISREG(st.st_mode) && st.st_size == size) {
        int fd = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
        same = fd >= 0 && same_bytes(from, fd, size);
        if (fd >= 0)
            close(fd);
    }
    errno = EINTR;
    if (!same && signals_stop)
        return ARCHIVE_FAILED;
    *why = "another file of this name is there already";
    return same ? ARCHIVE_DONE : ARCHIVE_REFUSED;
}

static enum archive_result put_in(int folder, const char *name, int from, const struct stat *st, const char **why)
{
    struct stat old;
    bool is_new = fstatat(folder, name, &old, AT_SYMLINK_NOFOLLOW) && errno == ENOENT;
    if (!is_new)
        return compare(folder, name, from, st->st_size, why);
    if (write_new(folder, name, from, st))
        return ARCHIVE_DONE;
    if (errno == EEXIST) /* another archive of the same folder was faster */
        return compare(folder, name, from, st->st_size, why);
    *why = "changed while it was copied";
    return errno == ESTALE ? ARCHIVE_REFUSED : ARCHIVE_FAILED;
}

enum archive_result archive_put(struct archive *archive, const char *path, int fd, const char **why)
{
    struct stat st;
    const char *name;
    *why = "its path has .. in it, or the like";
    if (!is_plain(path))
        return ARCHIVE_REFUSED;
    if (fstat(fd, &st) || !open_root(archive))
        return ARCHIVE_FAILED;
    int folder = open_place(archive->fd, path, &name);
    *why = "no folder, or a link, is in its way";
    if (folder < 0)
        return errno == ENOTDIR || errno == ELOOP ? ARCHIVE_REFUSED : ARCHIVE_FAILED;
    enum archive_result result = put_in(folder, name, fd, &st, why);
    int error = errno;
    close(folder);
    errno = error;
    archive->files += result == ARCHIVE_DONE;
    archive->bytes += result == ARCHIVE_DONE ? (uint64_t)st.st_size : 0;
    return result;
}

void archive_close(struct archive *archive)
{
    if (archive->fd >= 0)
        close(archive->fd);
    archive->fd = -1;
}
