/* SPDX-License-Identifier: MIT
 * Lives: processes that do acts by chance, of signals, faults, threads, programs and code, and tell each. All that is asynchronous is waited
 * for, so a life told natively and recorded is the same, line for line. What docs/limits.md says differs is no act. */
#ifndef COFI_TEST_FAST_LIVES_H
#define COFI_TEST_FAST_LIVES_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

/* What is named more often is done more often. */
#define ACTS(X) \
    X(act) X(act) X(mask) X(mask) X(send) X(send) X(send) X(queue) X(pending) X(alternate) X(suspend) X(take) X(wait_with) X(from_descriptor) X(timer) X(interval) \
    X(fault) X(fault) X(fault) X(jump_out) \
    X(code_map) X(code_write) X(code_write) X(code_run) X(code_run) X(code_run) X(code_rights) X(code_move) X(code_drop) \
    X(child) X(vfork_child) X(spawned) X(thread) X(beside) X(ends) X(executes) X(executes_in_thread) X(leaves_thread)

#define X(name) void act_##name(void);
ACTS(X)
#undef X

/* Chance: the same seed, the same acts. */
unsigned below(unsigned n);
bool one_in(unsigned n);
extern uint64_t chance;

/* One line on descriptor 1, in handlers, too. */
__attribute__((format(printf, 1, 2))) void tell(const char *format, ...);

/* What a life's signals do at first. */
void begin(void);
/* Some acts, as far as this life goes: deeper ones are shorter. */
void live(unsigned acts);
extern unsigned depth;
enum { DEPTH_MAX = 3 };

/* A signal by chance, and whether it is one that instructions raise. */
int some_signal(void);
bool is_of_faults(int signo);
/* What the thread blocks. */
sigset_t blocked(void);
/* A few signals, by chance. */
sigset_t some_set(void);
/* Their numbers, each behind a blank. */
const char *names(const sigset_t *set, char text[static 256]);

/* Where the handler of the next fault goes on, and with which RSP; 0 if none is expected. */
extern volatile uint64_t resume_at, resume_stack;
/* Run f, which sets these. */
void run_resumed(int (*f)(void), int *result);
/* Execute the program again, to go on with so many acts. */
_Noreturn void become(unsigned acts);

#endif
