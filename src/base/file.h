/* SPDX-License-Identifier: MIT
 * Files that somebody else has named. */
#ifndef COFI_BASE_FILE_H
#define COFI_BASE_FILE_H

#include <string.h>

/* Open a regular file for reading. What is something else is not even opened, for that could wait, or act. -1: it cannot be. */
int cofi__open_regular(const char *path);

/* What stands behind a path's last slash. */
static inline const char *cofi__file_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

#endif
