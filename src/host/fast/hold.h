/* SPDX-License-Identifier: MIT
 * All threads of a process, stopped by ptrace. */
#ifndef COFI_HOST_FAST_HOLD_H
#define COFI_HOST_FAST_HOLD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <cofi/error.h>

struct cofi__fast_tracee {
    pid_t tid;
    bool stopped;
    uint32_t slot; /* of the user: where it was found last */
};

struct cofi__fast_held {
    pid_t pid;
    struct cofi__fast_tracee *threads;
    size_t n;
    bool job_stopped; /* SIGSTOP or the like has stopped it, too */
};

/* A signal's bit in a mask. */
static inline uint64_t cofi__fast_signal_bit(int signo) { return UINT64_C(1) << (signo - 1); }

/* As long as a thread may take to stop, or all of a process to come to rest. */
enum { HOLD_PATIENCE_MS = 5000 };

enum cofi__fast_stop { STOP_OURS, STOP_JOB, STOP_GONE, STOP_NOT };

/* A thread that is held and runs -> to a stop by our interrupt (or by job control, which holds it as well);
 * signals that come first reach the program. STOP_NOT: not within `ms` milliseconds, but it will. */
enum cofi__fast_stop cofi__fast_stop(pid_t tid, unsigned ms);
/* A thread that stands at the end of a system call -> to such a stop, from where the kernel restarts one. */
enum cofi__fast_stop cofi__fast_stop_again(pid_t tid);

/* A thread that is held, wherever it is -> it runs by itself; or if it was killed, its end is taken. */
void cofi__fast_let_go(pid_t tid);
/* One that stands at a stop that was taken. */
void cofi__fast_go_on(pid_t tid);

/* What waitpid(tid, status, WNOHANG) has of a thread that is held; but the end of a child of our own stays for who
 * waits for it, and the status is 0 then. */
pid_t cofi__fast_take_status(pid_t tid, int *status);

/* Whether a thread has ended, though it may still be listed: to seize it fails with EPERM then. */
bool cofi__fast_has_ended(pid_t tid);
/* It has ended, and its parent has not asked for it. */
bool cofi__fast_is_zombie(pid_t tid);

/* Hold each thread that is not held yet, and if there are any, stop all; those that do not stop within
 * `ms` milliseconds run on for now. Returns how many were not held: until none, more may begin. Errors,
 * with those held that were: COFI_ERR_NOT_FOUND, COFI_ERR_PERMISSION, COFI_ERR_NOMEM. */
int cofi__fast_hold_more(struct cofi__fast_held *held, unsigned ms, struct cofi_error *error);
/* Stop those that run. Returns how many do not stop within `ms` milliseconds. */
size_t cofi__fast_stop_all(struct cofi__fast_held *held, unsigned ms);
/* Let those that run do so for `ms` milliseconds, with their signals. */
void cofi__fast_let_run(struct cofi__fast_held *held, unsigned ms);

/* Which system calls a thread may make: 0 all, 1 the four of seccomp's strict mode, 2 what its filters let pass. */
int cofi__fast_seccomp_mode(pid_t tid);

#endif
