/* SPDX-License-Identifier: MIT
 * The runtime's own system calls: whether they pass the seccomp filters of a program. */
#ifndef COFI_HOST_FAST_OWN_CALLS_H
#define COFI_HOST_FAST_OWN_CALLS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include <cofi/error.h>

#include "host/fast/bpf.h"

/* Where a call is made, or for what: from where the thread stands; from the runtime's place, as filters know it
 * that were installed under us; to be lent the shared memory; by the kernel, which makes a call again that was
 * stopped. OWN_ELSEWHERE are all that the program makes: they pass as before if no filter looks at where calls are
 * made. OWN_UNFILTERED: from the runtime's place, but only where no filter is that was not installed under us. */
enum cofi__fast_place { OWN_PROGRAM = 1, OWN_RUNTIME = 2, OWN_LENT = 4, OWN_RESTART = 8, OWN_ELSEWHERE = 16,
                        OWN_UNFILTERED = 32 };

struct cofi__fast_own_call {
    const char *name;
    enum cofi__fast_place place;
    bool may_fail;
    const char *words;
    struct cofi__bpf_call call;
};
const struct cofi__fast_own_call *cofi__fast_own_calls(size_t *n);

/* A thread's filters, the oldest first. Zero is none. */
struct cofi__fast_filters {
    struct sock_filter *code; /* of all */
    size_t *ends;             /* where in it each ends */
    size_t n;
};

bool cofi__fast_same_filters(const struct cofi__fast_filters *a, const struct cofi__fast_filters *b);
void cofi__fast_free_filters(struct cofi__fast_filters *f);

/* Whether all calls made in (or for) these places pass. COFI_ERR_UNSUPPORTED: one does not, which *error
 * names; COFI_ERR_NOMEM. */
int cofi__fast_calls_pass(const struct cofi__fast_filters *f, unsigned places, struct cofi_error *error);
/* Read a thread's filters, and see whether they let the calls pass. */
int cofi__fast_filters_let(pid_t tid, unsigned places, struct cofi_error *error);
/* … of one more thread: *last, at first zero, are those of the one before, most often the same, which
 * are not looked at again. */
int cofi__fast_filters_let_too(pid_t tid, unsigned places, struct cofi__fast_filters *last, struct cofi_error *error);

#endif
