/* SPDX-License-Identifier: MIT
 * What can be told before anything is done: which paths are one file, or cannot be written, which names
 * are no commands, and what the place offers. */
#include "beforehand.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

/* The path with its directory as it is, for a file that does not exist yet. False: there is no such directory. */
static bool real_path(const char *path, char *out, size_t n)
{
    char parent[PATH_MAX], real[PATH_MAX];
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    snprintf(parent, sizeof parent, "%.*s", slash ? (int)(name - path) : 1, slash ? path : ".");
    return realpath(parent, real) && (size_t)snprintf(out, n, "%s/%s", real, name) < n;
}

bool is_same_file(const char *a, const char *b)
{
    char real_a[2 * PATH_MAX], real_b[2 * PATH_MAX];
    struct stat x, y;
    bool has_a = !stat(a, &x), has_b = !stat(b, &y);
    if (has_a && has_b)
        return x.st_dev == y.st_dev && x.st_ino == y.st_ino && !S_ISCHR(x.st_mode);
    return !has_a && !has_b &&
           (!strcmp(a, b) ||
            (real_path(a, real_a, sizeof real_a) && real_path(b, real_b, sizeof real_b) && !strcmp(real_a, real_b)));
}

/* Whether a file can be executed, as far as can be told: 0 or errno. */
static int try_program(const char *path)
{
    struct stat st;
    if (stat(path, &st))
        return errno;
    return !S_ISREG(st.st_mode) ? EACCES : access(path, X_OK) ? errno : 0;
}

int try_command(const char *name)
{
    const char *dir = getenv("PATH");
    int error = ENOENT;
    if (strchr(name, '/') || !dir) /* without PATH there is one of the C library's own */
        return strchr(name, '/') ? try_program(name) : 0;
    for (size_t n; *name; dir += n + 1) {
        char path[2 * PATH_MAX];
        n = strcspn(dir, ":");
        snprintf(path, sizeof path, "%.*s%s%s", (int)n, dir, n ? "/" : "", name);
        int one = try_program(path);
        if (!one || !dir[n])
            return one == EACCES || !one ? one : error;
        error = one == EACCES ? one : error;
    }
    return error;
}

/* Opening its memory asks the kernel what attaching would [ptrace(2), PTRACE_MODE_ATTACH]. */
int try_process(pid_t pid)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/mem", (int)pid);
    int fd = open(path, O_RDWR | O_CLOEXEC), error = errno;
    if (fd >= 0)
        close(fd);
    return fd >= 0 ? 0 : error == ENOENT || error == ESRCH ? ESRCH : error == EACCES || error == EPERM ? EPERM : 0;
}

bool is_terminal(int fd)
{
    const char *term = getenv("TERM");
    return isatty(fd) && term && strcmp(term, "dumb") != 0;
}

unsigned terminal_columns(int fd)
{
    struct winsize size;
    return !ioctl(fd, TIOCGWINSZ, &size) && size.ws_col ? size.ws_col : 80;
}

int try_output(const char *path)
{
    char parent[PATH_MAX];
    const char *slash = strrchr(path, '/');
    struct stat st;
    if (!stat(path, &st))
        return S_ISDIR(st.st_mode) ? EISDIR : S_ISFIFO(st.st_mode) ? ESPIPE : access(path, W_OK) ? errno : 0;
    if (errno != ENOENT)
        return errno;
    if (slash && !slash[1])
        return EISDIR;
    snprintf(parent, sizeof parent, "%.*s", slash ? (int)(slash - path) + 1 : 1, slash ? path : ".");
    return access(parent, W_OK | X_OK) ? errno : 0;
}
