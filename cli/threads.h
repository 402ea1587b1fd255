/* SPDX-License-Identifier: MIT
 * The threads of a recording, by names that those of another run of the same program have, too. */
#ifndef COFI_CLI_THREADS_H
#define COFI_CLI_THREADS_H

#include "session.h"

struct thread {
    int32_t pid, tid;
    const char *comm;  /* the last one; never null */
    char *name;        /* who made it, and what it is: "make/cc.2": the second one of make's children
                        * that were cc in the end */
    size_t maker;      /* row, or NO_THREAD: the recording begins with it */
    size_t older;      /* row of one that came before, of a number of the same hash; or NO_THREAD */
    uint64_t since;    /* ns: when it was made, 0 if it was there before */
    uint64_t until, over; /* ns: when it ended; when the next one of its number was made; UINT64_MAX:
                           * that is not told */
    size_t *streams;   /* of session_streams; of one that is in processors' streams there are none */
    size_t streams_n, streams_room;
};
#define NO_THREAD SIZE_MAX

enum { THREADS_HASHES = 1 << 14 };

struct threads {
    struct thread *rows; /* in the order in which they were made, or came to be known */
    size_t n, room;
    size_t *by_hash;     /* of the number: the youngest row */
    size_t *by_name;     /* rows, in the order of their names */
};

/* Of a raw stream there is one. 0 or COFI_ERR_NOMEM; inverse, also after an error: threads_free. */
int threads_find(struct threads *threads, struct session *session);
void threads_free(struct threads *threads);
/* Row of the thread that had a number at a time, or if there was none yet, that had it first; or NO_THREAD. */
size_t threads_at(const struct threads *threads, int32_t tid, uint64_t ns);
/* Row of the thread with a name, or NO_THREAD. Cost: a binary search. */
size_t threads_named(const struct threads *threads, const char *name);

#endif
