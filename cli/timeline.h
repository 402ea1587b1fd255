/* SPDX-License-Identifier: MIT
 * What a thread called, and when -> Chrome's trace events, which Perfetto and other viewers draw. */
#ifndef COFI_CLI_TIMELINE_H
#define COFI_CLI_TIMELINE_H

#include <cofi/cofi.h>

#include "writer.h"

/* A thread's. Times are told by `timeline_time`; what lies between two is put in between by the instructions that ran, and where tracing
 * was off meanwhile at no more than a nanosecond an instruction. */
struct timeline;

struct timeline_options {
    struct writer *out;
    int32_t pid, tid;
    const char *comm;
    uint64_t depth;       /* levels that are drawn */
    uint64_t least_insns; /* calls of fewer instructions are left out */
    bool process;         /* the thread's name is its process's, too */
    bool first;           /* nothing was written yet. Whoever comes last writes "]}" behind it */
};

/* Null: out of memory. The first events are written: the names of process and thread. */
struct timeline *timeline_open(const struct timeline_options *options);
void timeline_close(struct timeline *timeline);

/* In order; insns: how many ran before. Out of memory, nothing more is done, and timeline_end says so. */
void timeline_enter(struct timeline *timeline, const struct cofi_function *function, uint64_t insns);
void timeline_leave(struct timeline *timeline, uint64_t insns);
/* It is `ns` now. */
void timeline_time(struct timeline *timeline, uint64_t ns, uint64_t insns);
/* The thread is not traced from here on, until something is told of it again. name: why; it stays valid. */
void timeline_off(struct timeline *timeline, const char *name, uint64_t insns);
/* Something is missing here. */
void timeline_gap(struct timeline *timeline, const char *text, uint64_t insns);
/* Nothing follows; all is left. 0 or COFI_ERR_NOMEM. */
int timeline_end(struct timeline *timeline, uint64_t insns);

#endif
