/* SPDX-License-Identifier: MIT
 * What stands before each seccomp filter that a program installs under the runtime: the runtime's own calls pass. */
#ifndef COFI_HOST_FAST_PREFIX_H
#define COFI_HOST_FAST_PREFIX_H

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>

#include "host/fast/shared.h"

#define COFI__FAST_LOAD_PLACE(half) \
    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, instruction_pointer) + 4 * (half))
#define COFI__FAST_JUMP(test, value, yes, no) BPF_JUMP(BPF_JMP | (test) | BPF_K, (value), (yes), (no))

/* Calls from between OWN_BEGIN and OWN_END pass; the accumulator is 0 again behind it. */
#define COFI__FAST_PREFIX                                                                                       \
    {                                                                                                           \
        COFI__FAST_LOAD_PLACE(1),                                                                               \
        COFI__FAST_JUMP(BPF_JEQ, 0, 0, 4),                                                                      \
        COFI__FAST_LOAD_PLACE(0),                                                                               \
        COFI__FAST_JUMP(BPF_JGE, COFI__FAST_RUNTIME_BASE + COFI__FAST_RUNTIME_SYSCALL, 0, 2),                   \
        COFI__FAST_JUMP(BPF_JGT, COFI__FAST_RUNTIME_BASE + COFI__FAST_RUNTIME_OWN_END, 1, 0),                   \
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),                                                           \
        BPF_STMT(BPF_LD | BPF_IMM, 0),                                                                          \
    }

#endif
