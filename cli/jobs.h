/* SPDX-License-Identifier: MIT
 * Numbered jobs, done by several threads, whose output comes out in the order of their numbers. */
#ifndef COFI_CLI_JOBS_H
#define COFI_CLI_JOBS_H

#include <stddef.h>

/* One job. 0, or an exit status that ends it all: what later ones write is dropped, as if they had not begun. */
typedef int jobs_do(void *opaque, size_t i);

/* Do jobs 0 to n - 1. The first exit status by number, 0 if all went well. What jobs write through jobs_write is
 * exactly what they write when they are done one after another (threads 1): those whose turn has not come are
 * kept waiting once JOBS_HELD_MAX bytes are held. */
int jobs_run(size_t n, unsigned threads, jobs_do *work, void *opaque);
enum { JOBS_HELD_MAX = 64 << 20 };

/* Write to standard output (1) or error (2), in turn where a job does it. 0, or an errno. */
int jobs_write(int fd, const char *bytes, size_t n);

/* How many processors this process may use. */
unsigned jobs_processors(void);

#endif
