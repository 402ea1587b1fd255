/* SPDX-License-Identifier: MIT
 * A file, or standard input, as bytes in memory. */
#ifndef COFI_CLI_FILE_H
#define COFI_CLI_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct file {
    const uint8_t *bytes;
    size_t n;
    bool mapped;
};

/* The folder for files that are gone at the end, which may be large: $TMPDIR, else /var/tmp, as
 * recordings that come by a pipe (src/trace/input.c). */
const char *file_scratch_place(void);
/* Bring a file into memory ("-": standard input). What is no regular file is read to its end, more than 16 MiB into
 * an unnamed file (in $TMPDIR, else /var/tmp), so that memory does not grow with it. Returns 0, or the exit status
 * after a complaint that names the command: EXIT_ENVIRONMENT (not there, no permission, a directory, no memory). */
int file_open(struct file *file, const char *command, const char *path);
/* Standard input, which was brought into memory, gives the same bytes to whoever reads it next. Returns
 * as file_open. */
int file_again(const struct file *file, const char *command);
/* Bytes [start, end) are not needed for now: if the file is mapped, the memory that shows them is given back. */
void file_unneeded(const struct file *file, size_t start, size_t end);
void file_close(struct file *file);
/* What to say behind an error of this file: how to make the one that commands read unless told
 * otherwise, if it is not there; else "". */
const char *file_how_to_make(const char *path);

#endif
