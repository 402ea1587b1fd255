/* SPDX-License-Identifier: MIT
 * The runtime into a program that stands at its first instruction, or runs, and out of it. */
#ifndef COFI_HOST_FAST_INJECT_H
#define COFI_HOST_FAST_INJECT_H

#include <sys/types.h>
#include <sys/user.h>

#include <cofi/error.h>

#include "host/fast/rt/rt.h"

/* What programs open: the memory that all share, and a file of the runtime, which they cannot write
 * (negative: there is none). */
struct cofi__fast_memory {
    int fd, code;
    size_t bytes; /* of fd */
    bool claims;  /* the runtime claims what it writes [rt/arena.c] */
};

/* The runtime [embed.sh]. */
extern const uint8_t cofi__fast_blob[], cofi__fast_blob_end[];
/* A file for `code`; negative: none could be made, or nobody may execute it. */
int cofi__fast_code_file(void);

/* The program `pid` is stopped by ptrace in its exec. Map the runtime and let it start in `slot` when the
 * program goes on. COFI_ERR_UNSUPPORTED: a 32-bit program, or its memory has no room; the program is
 * unharmed then and can go on by itself. Signals that come meanwhile come to it afterwards. */
int cofi__fast_inject(pid_t pid, const struct cofi__fast_memory *memory, struct thread *slot, uint64_t slot_address,
                      struct cofi_error *error);

/* A thread of a program that runs is stopped by ptrace, and so are all others: map the runtime. The thread
 * stands as before then. *locks: new memory of the program is locked. COFI_ERR_UNSUPPORTED: as above. */
int cofi__fast_inject_running(pid_t tid, const struct cofi__fast_memory *memory, uint32_t *locks,
                              struct cofi_error *error);
/* The registers to come to the runtime's first instruction with. */
void cofi__fast_enter(struct user_regs_struct *regs, uint64_t slot_address);
/* … and let such a thread start in `slot` when it goes on. COFI_ERR_SYSTEM: it is gone. */
int cofi__fast_inject_thread(pid_t tid, enum attached as, struct thread *slot, uint64_t slot_address);
/* What a stop by ptrace has done to the system call that the thread was in: nothing; the kernel makes it
 * again; it has ended with EINTR, and can be made again. */
enum cofi__fast_call { CALL_NONE, CALL_RESTARTS, CALL_ENDED };
enum cofi__fast_call cofi__fast_call_of(const struct user_regs_struct *regs);
/* Whether it is to be made again from its beginning: the kernel would not, or in a way that filters do
 * not let pass (or may not). */
bool cofi__fast_is_to_call_anew(pid_t tid, const struct user_regs_struct *regs);
/* The registers for that. */
void cofi__fast_call_anew(struct user_regs_struct *regs);
/* … or let it go on as it was: a call that our stop has ended, with EINTR or by a filter, is made again. */
void cofi__fast_leave_thread(pid_t tid);
/* No thread of the process will be in the runtime again: take it away, by this one, which is stopped by
 * ptrace where the program's own code is. COFI_ERR_SYSTEM: that could not be done, and the memory stays. */
int cofi__fast_unmap(pid_t tid, size_t bytes);
/* Whether a thread that is stopped by ptrace is in 64-bit code. */
bool cofi__fast_is_64bit(pid_t tid);

/* Wait for a stop of a thread that we trace: returns its signal, with the event above the low 8 bits. Negative: it has
 * ended, which waitpid still has to say. */
int cofi__fast_wait_stop(pid_t pid);

#endif
