/* SPDX-License-Identifier: MIT
 * Files that somebody else has named. */
#ifndef COFI_BASE_FILE_H
#define COFI_BASE_FILE_H

/* Open a regular file for reading. What is something else is not even opened, for that could wait, or act. -1: it cannot be. */
int cofi__open_regular(const char *path);

#endif
