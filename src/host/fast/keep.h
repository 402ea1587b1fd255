/* SPDX-License-Identifier: MIT
 * Translated code that is kept in a folder from one recording to the next: a file a program, of what its runs have
 * left in the store. */
#ifndef COFI_HOST_FAST_KEEP_H
#define COFI_HOST_FAST_KEEP_H

#include "base/map.h"
#include "host/fast/store.h"

/* What is known of a program. */
struct cofi__fast_known {
    bool met;                       /* it has run */
    bool seen;                      /* its modules are known */
    bool stays;                     /* there is a file, but it had no place in the store */
    uint64_t modules;               /* sum of those that its file has; 0: there is none */
};

struct cofi__fast_keeper {
    int dir;                        /* negative: nothing is kept in files */
    uint64_t machine;               /* what the code depends on beside the program */
    struct cofi__fast_store *store; /* programs may write over it */
    int shared;                     /* the file of the memory that it lies in … */
    uint64_t offset, bytes;         /* … and where */
    struct cofi__fast_known *known; /* a program, as the store has them */
    struct cofi__map seen;          /* modules' keys: programs' */
};

/* Keep code in the folder `path`, which is made, as is the one above it, if it is missing in one of the user's. What is
 * another user's, or others may write to, is not used: nothing is kept then. made: the control page as it
 * was; shared, fd: the memory that it begins, and its file. */
void cofi__fast_keeper_open(struct cofi__fast_keeper *k, const char *path, const struct cofi__fast_control *made,
                            uint8_t *shared, int fd);
/* A program is about to run: what earlier recordings have kept of it goes into the store. */
void cofi__fast_bring(struct cofi__fast_keeper *k, uint64_t program);
/* The recording is over: keep what its programs have left. */
void cofi__fast_keep(struct cofi__fast_keeper *k);
void cofi__fast_keeper_close(struct cofi__fast_keeper *k);

/* common.c: a program has these modules: what another one has too is common from now on. */
void cofi__fast_see(struct cofi__fast_keeper *k, uint64_t program, const struct cofi__fast_module *modules);
/* The same for programs of which modules have been chosen since the last time. */
void cofi__fast_see_new(struct cofi__fast_keeper *k);

/* sweep.c: each of the folder's files whose name ends in COFI__FAST_KEPT_SUFFIX. */
void cofi__fast_each_file(int dir, void (*each)(void *opaque, int dir, const char *name), void *opaque);
/* Take away the files that were not used for the longest time, until there are no more than so many and
 * they take no more than so many bytes. Others than ours, whose names end in COFI__FAST_KEPT_SUFFIX, stay. */
void cofi__fast_sweep(int dir, size_t files, uint64_t bytes);
#define COFI__FAST_KEPT_SUFFIX ".cofi-code"

#endif
