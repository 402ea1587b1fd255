/* SPDX-License-Identifier: MIT
 * What the kernel says of a process or a thread. */
#include "host/proc.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static size_t take_line(const char *line, struct cofi__proc_field *fields, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        size_t name = strlen(fields[i].name);
        if (strncmp(line, fields[i].name, name) != 0)
            continue;
        fields[i].value = strtoull(line + name, NULL, fields[i].base);
        return 1;
    }
    return 0;
}

size_t cofi__proc_fields(int32_t pid, struct cofi__proc_field *fields, size_t n)
{
    char path[64], line[256];
    size_t found = 0;
    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    FILE *f = fopen(path, "re");
    while (f && found < n && fgets(line, sizeof line, f))
        found += take_line(line, fields, n);
    if (f)
        fclose(f);
    return found;
}

int cofi__proc_number(int32_t pid, const char *name)
{
    struct cofi__proc_field field = {name, 10, 0};
    cofi__proc_fields(pid, &field, 1);
    return (int)field.value;
}

const char *cofi__proc_hint(int error)
{
    return error == EPERM
               ? " (another debugger, /proc/sys/kernel/yama/ptrace_scope, or a container without CAP_SYS_PTRACE)"
               : "";
}
