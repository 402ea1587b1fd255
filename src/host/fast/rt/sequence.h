/* SPDX-License-Identifier: MIT
 * Restartable sequences (rseq): as they are known, and as one piece of code that the kernel itself restarts. */
#ifndef COFI_HOST_FAST_RT_SEQUENCE_H
#define COFI_HOST_FAST_RT_SEQUENCE_H

#include "host/fast/rt/rt.h"

enum { SEQUENCE_INSNS = 100, SEQUENCE_BYTES = 512, NO_BRANCH = INT32_MIN };

/* The kernel's struct rseq_cs. */
struct descriptor {
    uint32_t version, flags;
    uint64_t start, bytes, abort;
};

/* Where in struct rseq its address stands, what the thread has asked of the kernel, and the second half
 * of what the kernel tells. */
enum { RSEQ_CS = 8, RSEQ_FLAGS = 16, RSEQ_NODE = 20 };

/* A sequence that runs as a whole. */
struct sequence {
    uint64_t start, end, abort;        /* the guest's */
    uint64_t epoch;                    /* the generation of translated code that the code is of */
    const uint8_t *code, *code_end;
    const uint8_t *restarts;           /* where in it the kernel lets it begin anew */
    uint32_t used;                     /* registers that it names */
    uint8_t count;                     /* of instructions */
    uint8_t branches;
    uint16_t at[SEQUENCE_INSNS + 1];   /* where each begins, from start; where the last one ends */
    int32_t to[SEQUENCE_INSNS];        /* where a branch leads, from start, or NO_BRANCH */
    uint8_t conditional[SEQUENCE_INSNS]; /* the near form's opcode, if it is */
    uint8_t bytes[SEQUENCE_BYTES];     /* the guest's code */
};

/* What can run as a whole at d, or null: an instruction is not to be copied, or there is no memory. The
 * lock is held. */
struct sequence *sequence_make(const struct descriptor *d);
/* Its code is there, and made of what the guest has there now. The lock is held. */
bool sequence_ready(struct sequence *s, const struct region *r, uint32_t signature);
/* The thread goes on in the code of t->sequence.runs, with nothing done so far. */
void sequence_begin(struct thread *t);
/* It has left that: what it did goes to the log, and t->sequence.runs is null. Whether it was not
 * restarted by the kernel, but has made too many rounds. */
bool sequence_left(struct thread *t);
/* The kernel is to look at no descriptor of the thread's. */
void sequence_forget(const struct thread *t);
/* One that was come to `at` is not finished: the thread goes on at its abort handler. */
void sequence_abort(struct thread *t, uint64_t at, uint64_t handler);

static inline bool sequence_restarts(const struct sequence *s, uint64_t rip)
{
    return rip == (uint64_t)s->restarts;
}

#endif
