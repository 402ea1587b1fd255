/* SPDX-License-Identifier: MIT
 * What the kernel says of a process or a thread. */
#ifndef COFI_HOST_PROC_H
#define COFI_HOST_PROC_H

#include <stdint.h>

/* The decimal number behind a name ("Tgid:") that begins a line of /proc/PID/status [proc_pid_status(5)]; 0: there is none. */
int cofi__proc_number(int32_t pid, const char *name);

#endif
