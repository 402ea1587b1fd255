/* SPDX-License-Identifier: MIT
 * What can be told before anything is done. */
#ifndef COFI_CLI_BEFOREHAND_H
#define COFI_CLI_BEFOREHAND_H

#include <stdbool.h>
#include <sys/types.h>

/* Whether two paths, of which neither needs to exist yet, are one file. Devices, which take more than
 * one output, are not. */
bool is_same_file(const char *a, const char *b);
/* Whether execvp would find a program: 0 or errno. What is none must not cost the recording that is there. */
int try_command(const char *name);
/* Whether a process is there and this user may trace it, as far as can be told without doing so: 0, ESRCH or EPERM. */
int try_process(pid_t pid);

/* Whether a file can be written, as far as can be told without doing so: 0 or errno; a pipe: ESPIPE. */
int try_output(const char *path);

/* Whether a line on it can be written over: of TERM=dumb it cannot. */
bool is_terminal(int fd);
/* How wide it is now; 80 where it does not tell. */
unsigned terminal_columns(int fd);

#endif
