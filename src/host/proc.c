/* SPDX-License-Identifier: MIT
 * What the kernel says of a process or a thread. */
#include "host/proc.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int cofi__proc_number(int32_t pid, const char *name)
{
    char path[64], line[256];
    int number = 0;
    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    FILE *f = fopen(path, "re");
    while (f && !number && fgets(line, sizeof line, f))
        if (!strncmp(line, name, strlen(name)))
            number = atoi(line + strlen(name));
    if (f)
        fclose(f);
    return number;
}

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

const char *cofi__proc_hint(int error)
{
    return error == EPERM ? " (another debugger, /proc/sys/kernel/yama/ptrace_scope, or a container without CAP_SYS_PTRACE)" : "";
}
