/* SPDX-License-Identifier: MIT
 * Files that somebody else has named. */
#include "base/file.h"

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
