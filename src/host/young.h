/* SPDX-License-Identifier: MIT
 * Files that may go before the recording ends. */
#ifndef COFI_HOST_YOUNG_H
#define COFI_HOST_YOUNG_H

#include <stdbool.h>
#include <sys/stat.h>

/* Made, or made anew, since the recording began, as what a build tries and removes: the code of such a
 * file that runs is recorded, too.
 * began: by CLOCK_REALTIME; 0: all files are young (cofi record --code). Files have its time, or that of its last
 * tick: what is made before the next one is not seen to be young, and what was made before the recording never is. */
static inline bool cofi__is_young(const struct stat *file, const struct timespec *began)
{
    return file->st_ctim.tv_sec > began->tv_sec ||
           (file->st_ctim.tv_sec == began->tv_sec && file->st_ctim.tv_nsec >= began->tv_nsec);
}

#endif
