/* SPDX-License-Identifier: MIT
 * System calls that the step host must know, by one name for both ABIs. */
#ifndef COFI_HOST_STEP_NUMBERS_H
#define COFI_HOST_STEP_NUMBERS_H

#include <stdbool.h>
#include <stdint.h>

/* name, x86-64 number, i386 number; -1: none [arch/x86/entry/syscalls]. */
#define STEP_CALLS(X)                                                                              \
    X(MMAP, 9, 90) X(MMAP2, -1, 192) X(MPROTECT, 10, 125) X(MUNMAP, 11, 91) X(MREMAP, 25, 163)     \
    X(MADVISE, 28, 219) X(SHMAT, 30, 397) X(SHMDT, 67, 398) X(IPC, -1, 117)                        \
    X(PKEY_MPROTECT, 329, 380) X(REMAP_FILE_PAGES, 216, 257)                                       \
    X(WRITE, 1, 4) X(PWRITE64, 18, 181) X(WRITEV, 20, 146) X(PWRITEV, 296, 334)                    \
    X(PROCESS_VM_WRITEV, 311, 348) X(PTRACE, 101, 26)                                              \
    X(SIGACTION, -1, 67) X(RT_SIGACTION, 13, 174)                                                  \
    X(SIGPROCMASK, -1, 126) X(RT_SIGPROCMASK, 14, 175) X(SIGRETURN, -1, 119) X(RT_SIGRETURN, 15, 173) \
    X(SGETMASK, -1, 68) X(SSETMASK, -1, 69)                                                        \
    X(SCHED_SETAFFINITY, 203, 241) X(SCHED_GETAFFINITY, 204, 242)                                  \
    X(PRCTL, 157, 172) X(RSEQ, 334, 386)

enum step_call {
    STEP_CALL_OTHER,
#define X(name, n64, n32) STEP_CALL_##name,
    STEP_CALLS(X)
#undef X
};

static inline enum step_call step_call_of(uint64_t nr, bool compat)
{
    int64_t n = (int64_t)(nr & ~UINT64_C(0x40000000)); /* without the x32 bit */
#define X(name, n64, n32)                       \
    if (n == (compat ? (n32) : (n64)) && n >= 0) \
        return STEP_CALL_##name;
    STEP_CALLS(X)
#undef X
    return STEP_CALL_OTHER;
}

#endif
