/* SPDX-License-Identifier: MIT
 * Where a command writes: standard output, or the FILE of -o in its place. */
#ifndef COFI_CLI_OUTPUT_H
#define COFI_CLI_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>

/* Open FILE, before hours of decoding; what it holds stays until there is something else to write. Null
 * or "-": standard output it is. EXIT_DONE, or EXIT_ENVIRONMENT after saying why not. */
int output_open(const char *command, const char *path);
/* Whether that is this file, which is read. */
bool output_is(const char *path);
/* What is written to standard output from now on goes there, from its beginning on. Returns as output_open. */
int output_begin(const char *command);
/* All is written; the file may say only now that it could not be. 0, or -1 with errno. */
int output_end(void);
/* It could not be written whole: the file is taken away, so that nobody takes it for all. */
void output_fail(void);
/* The command is over: a new file that nothing was to be written to is taken away. */
void output_leave(void);
/* A file of these bytes, or none. Returns as output_open. */
int output_whole(const char *command, const char *path, const void *bytes, size_t n);
/* For messages. */
const char *output_name(void);

#endif
