/* SPDX-License-Identifier: MIT
 * What stands behind -- of a command that shows a recording: it is recorded first. */
#ifndef COFI_CLI_RECORD_FIRST_H
#define COFI_CLI_RECORD_FIRST_H

#include <stdbool.h>

/* Where in the arguments a word is, "--" say; argc: there is none. */
int record_first_at(int argc, char **argv, const char *word);
/* Record as `cofi record ARGUMENTS`, of which the first one is not looked at; once in a process. *path: the
 * recording, in a folder of its own (in $TMPDIR, else /var/tmp) unless -o is among the arguments.
 * EXIT_DONE, or the exit status where there is nothing to show, which was said.
 * status_counts: see record_first_status. */
int record_first(int argc, char **argv, bool status_counts, const char **path);
/* The recording is open, or cannot be opened: the folder goes. */
void record_first_opened(void);
/* The exit status of what was recorded, where that counts, for a command that has shown it and found
 * nothing wrong; else the command's own. */
int record_first_status(int status);
/* What to say behind an error of a file: how a program of this name is recorded first, if it is one; else "". */
const char *record_first_hint(const char *command, const char *path, char *out, unsigned n);

#endif
