/* SPDX-License-Identifier: MIT
 * See file.h. */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

int cofi__open_regular(const char *path)
{
    struct stat st;
    if (stat(path, &st) || !S_ISREG(st.st_mode))
        return -1;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd >= 0 && (fstat(fd, &st) || !S_ISREG(st.st_mode))) { /* it was another one a moment before */
        close(fd);
        return -1;
    }
    return fd;
}

int cofi__write_all(int fd, const void *bytes, size_t n)
{
    for (const char *at = bytes; n;) {
        ssize_t done = write(fd, at, n);
        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            return done < 0 ? -errno : -ENOSPC;
        at += done;
        n -= (size_t)done;
    }
    return 0;
}
