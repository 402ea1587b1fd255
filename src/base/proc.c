/* SPDX-License-Identifier: MIT
 * See proc.h. */
#include "base/proc.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

bool cofi__proc_comm(int32_t tid, char *name, size_t room)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/comm", (int)tid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, name, room - 1) : 0;
    if (fd >= 0)
        close(fd);
    if (n > 0)
        name[name[n - 1] == '\n' ? n - 1 : n] = 0;
    return n > 0;
}
