/* SPDX-License-Identifier: MIT
 * ptrace(2) with the kernel's own header, which the C library's contradicts. */
#ifndef COFI_HOST_STEP_REQUEST_H
#define COFI_HOST_STEP_REQUEST_H

#include <stdint.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

/* Returns what the kernel does, or -1 with errno. */
static inline long step_ptrace(long request, pid_t tid, uintptr_t addr, const void *data)
{
    return syscall(SYS_ptrace, request, (long)tid, addr, data);
}

#endif
