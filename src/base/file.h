/* SPDX-License-Identifier: MIT
 * Files that somebody else has named; bytes that are written whole. */
#ifndef COFI_BASE_FILE_H
#define COFI_BASE_FILE_H

#include <stddef.h>
#include <string.h>

/* Open a regular file for reading. What is something else is not even opened, for that could wait, or
 * act. -1: it cannot be. */
int cofi__open_regular(const char *path);

/* All n bytes, in as many pieces as it takes. 0 or -errno; it does not say how many were written. */
int cofi__write_all(int fd, const void *bytes, size_t n);

/* What stands behind a path's last slash. */
static inline const char *cofi__file_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

#endif
