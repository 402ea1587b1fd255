/* SPDX-License-Identifier: MIT
 * A folder of copies: each file lies in it below the path that it had. */
#ifndef COFI_CLI_ARCHIVE_H
#define COFI_CLI_ARCHIVE_H

#include <stdint.h>

struct archive {
    const char *path;
    int fd;          /* -1: not opened yet */
    unsigned files;  /* put, or there before */
    uint64_t bytes;  /* theirs */
};

enum archive_result {
    ARCHIVE_DONE,    /* a file with these bytes is there (perhaps it was) */
    ARCHIVE_REFUSED, /* it must not, or cannot, be there: *why says it */
    ARCHIVE_FAILED   /* the folder cannot be written to: errno says why */
};

/* Copy what fd shows to its path below the folder, which is made if it is not there; with its mode
 * (never setuid; its owner may read it) and time. No link is followed there, nothing overwritten, and no
 * part of a file left: signals_stop ends it with EINTR. */
enum archive_result archive_put(struct archive *archive, const char *path, int fd, const char **why);
void archive_close(struct archive *archive);

#endif
