/* SPDX-License-Identifier: MIT
 * /proc/self/mem: what the guest writes there may be its code, also where its own stores would fault. */
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "host/fast/rt/rt.h"

enum { LONGEST = 64 }; /* a name: /proc/PID/task/TID/mem */

/* Descriptors of the guest's that were opened by such a name. One that is another file's by now costs a look-up. */
static uint64_t memory_files[16];

static bool is_memory_file(uint64_t fd)
{
    return fd / 64 < ARRAY_LEN(memory_files) && __atomic_load_n(&memory_files[fd / 64], __ATOMIC_RELAXED) >> fd % 64 & 1;
}

static bool names_memory(uint64_t path)
{
    char name[LONGEST + 1] = {0};
    size_t n = 0;
    while (n < LONGEST && !rt_probe(name + n, (const void *)(path + n), 1) && name[n])
        n++;
    return n >= 3 && n < LONGEST && !memcmp(name + n - 3, "mem", 3) && (n == 3 || name[n - 4] == '/');
}

/* A file of the guest's was opened: open, openat or openat2. */
void memory_file_opened(const struct thread *t, uint64_t fd)
{
    if (fd / 64 < ARRAY_LEN(memory_files) && names_memory(t->regs[t->sysno == SYS_open ? RDI : RSI]))
        __atomic_fetch_or(&memory_files[fd / 64], 1ul << fd % 64, __ATOMIC_RELAXED);
}

/* Where n bytes were written: at an offset, or before the file's position; 0: not known. */
static uint64_t place_of(const struct thread *t, uint64_t n)
{
    bool positioned = t->sysno == SYS_pwrite64 || t->sysno == SYS_pwritev || t->sysno == SYS_pwritev2;
    if (positioned && t->regs[R10] != ~0ul)
        return t->regs[R10];
    long end = t->filtered ? 0 : sys(SYS_lseek, t->regs[RDI], 0, SEEK_CUR, 0, 0, 0);
    return end > 0 ? (uint64_t)end - n : 0;
}

/* The guest has written n bytes to a file. */
void memory_file_written(const struct thread *t, uint64_t n)
{
    uint64_t start = is_memory_file(t->regs[RDI]) ? place_of(t, n) : 0;
    if (!start)
        return;
    pages_release(start, start + n);
    rt_lock();
    maps_changed(start, start + n, CHANGE_BYTES, 0);
    maps_made_executable(start, start + n, 0); /* or is, where that was not known: these bytes are no file's */
    rt_unlock();
}
