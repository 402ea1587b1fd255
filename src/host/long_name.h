/* SPDX-License-Identifier: MIT
 * The path of a mapped file that is longer than paths may be [path_resolution(7)] -> one that leads nowhere,
 * with the end of its name. Such a file is one that nobody finds: its code is told page by page. */
#ifndef COFI_HOST_LONG_NAME_H
#define COFI_HOST_LONG_NAME_H

#include <stddef.h>

enum { COFI__PATH_BYTES = 4096, COFI__SHORT_NAME_BYTES = 512 };

/* Of n bytes. Returns how many out has, without the 0 behind them. */
static inline size_t cofi__short_name(const char *path, size_t n, char out[COFI__SHORT_NAME_BYTES])
{
    static const char far[] = "/.../";
    const size_t begin = sizeof far - 1;
    size_t last = 0;
    while (last < n && last + 1 < COFI__SHORT_NAME_BYTES - begin && path[n - 1 - last] != '/')
        last++;
    __builtin_memcpy(out, far, begin);
    __builtin_memcpy(out + begin, path + n - last, last); /* out may be where a path begins that is that long */
    out[begin + last] = 0;
    return begin + last;
}

#endif
