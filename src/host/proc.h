/* SPDX-License-Identifier: MIT
 * What the kernel says of a process or a thread. */
#ifndef COFI_HOST_PROC_H
#define COFI_HOST_PROC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/proc.h"

/* The number behind a name ("SigIgn:", 16) that begins a line of /proc/PID/status [proc_pid_status(5)]. */
struct cofi__proc_field {
    const char *name;
    int base;
    uint64_t value;
};

/* How many of n there were; no two have the same name. */
size_t cofi__proc_fields(int32_t pid, struct cofi__proc_field *fields, size_t n);
/* The decimal number behind a name ("Tgid:"); 0: there is none. */
int cofi__proc_number(int32_t pid, const char *name);
/* What to look at where the kernel refuses ptrace with an errno, to stand behind its text; "" of others than EPERM. */
const char *cofi__proc_hint(int error);

#endif
