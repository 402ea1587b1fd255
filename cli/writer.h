/* SPDX-License-Identifier: MIT
 * Buffered output that notices when nobody takes it any more. */
#ifndef COFI_CLI_WRITER_H
#define COFI_CLI_WRITER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

enum { WRITER_BYTES = 1 << 18 };

struct writer {
    int fd;
    int error; /* errno of the first failed write */
    size_t n;
    char buffer[WRITER_BYTES];
};

void writer_begin(struct writer *writer, FILE *file);
void write_bytes(struct writer *writer, const char *bytes, size_t n);
void write_text(struct writer *writer, const char *text);
/* A cofi_put; opaque: the writer. Returns 0: who writes looks at writer_failed. */
int write_put(void *opaque, const char *bytes, size_t n);
/* 2047 bytes at most, what is longer is cut: names, which may be, go by write_text. */
void write_format(struct writer *writer, const char *format, ...) __attribute__((format(printf, 2, 3)));
bool writer_failed(const struct writer *writer);
/* Write what is left. EXIT_DONE, or EXIT_ENVIRONMENT after saying why (a closed pipe is no failure). */
int writer_end(struct writer *writer, const char *command);
/* All of it: work writes to standard output by a writer, and returns 0 or an error, which is said.
 * EXIT_DONE, -1 (nobody takes the output any more), or EXIT_ENVIRONMENT. */
int writer_run(const char *command, int (*work)(void *opaque, struct writer *out), void *opaque);

#endif
