/* SPDX-License-Identifier: MIT
 * Files of /proc that the guest writes to. mem: that may be its code, also where its own stores would
 * fault. task/TID/comm: what a thread is called, which others may say, too. */
#include <fcntl.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "host/fast/rt/rt.h"

enum { LONGEST = 64 }; /* a name: /proc/PID/task/TID/mem */

/* Descriptors of the guest's that were opened by such names. One that is another file's by now costs a look-up. */
struct opened {
    uint64_t bits[16];
};

static struct opened memory_files, name_files;

static bool is_one(const struct opened *files, uint64_t fd)
{
    return fd / 64 < ARRAY_LEN(files->bits) && __atomic_load_n(&files->bits[fd / 64], __ATOMIC_RELAXED) >> fd % 64 & 1;
}

static bool ends(const char *name, size_t n, const char *end, size_t bytes)
{
    return n >= bytes && !memcmp(name + n - bytes, end, bytes) && (n == bytes || name[n - bytes - 1] == '/');
}

/* A file of the guest's was opened: open, openat or openat2. */
void proc_file_opened(const struct thread *t, uint64_t fd)
{
    uint64_t path = t->regs[t->sysno == SYS_open ? RDI : RSI];
    char name[LONGEST + 1] = {0};
    size_t n = 0;
    if (fd / 64 >= ARRAY_LEN(memory_files.bits))
        return;
    while (n < LONGEST && !rt_probe(name + n, (const void *)(path + n), 1) && name[n])
        n++;
    struct opened *files = n == LONGEST               ? NULL
                           : ends(name, n, "mem", 3)  ? &memory_files
                           : ends(name, n, "comm", 4) ? &name_files
                                                      : NULL;
    if (files)
        __atomic_fetch_or(&files->bits[fd / 64], 1ul << fd % 64, __ATOMIC_RELAXED);
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

/* Whose name the file is: /proc/PID/task/TID/comm or /proc/PID/comm; 0: it is none. */
static int32_t named_by(uint64_t fd)
{
    char link[] = "/proc/self/fd/\0\0\0\0", name[LONGEST];
    char *digit = link + sizeof "/proc/self/fd/" - 1;
    for (uint64_t unit = fd >= 1000 ? 1000 : fd >= 100 ? 100 : fd >= 10 ? 10 : 1; unit; unit /= 10)
        *digit++ = (char)('0' + fd / unit % 10);
    long n = sys(SYS_readlinkat, (uint32_t)AT_FDCWD, (uint64_t)link, (uint64_t)name, sizeof name, 0, 0);
    int32_t tid = 0;
    if (n <= 11 || n == sizeof name || memcmp(name, "/proc/", 6) || memcmp(name + n - 5, "/comm", 5))
        return 0;
    long i = n - 5;
    while (name[i - 1] != '/')
        i--;
    while (name[i] >= '0' && name[i] <= '9')
        tid = tid * 10 + (name[i++] - '0');
    return tid;
}

static void name_written(struct thread *t, uint64_t n)
{
    uint64_t who[4] = {t->filtered || t->sysno != SYS_write ? 0 : (uint64_t)named_by((uint32_t)t->regs[RDI])};
    if (who[0])
        note_name(t, who, n);
}

static void memory_written(const struct thread *t, uint64_t n)
{
    uint64_t start = place_of(t, n);
    if (!start)
        return;
    pages_release(start, start + n);
    rt_lock();
    maps_changed(start, start + n, CHANGE_BYTES, 0);
    maps_made_executable(start, start + n, 0); /* or is, where that was not known: these bytes are no file's */
    rt_unlock();
}

/* The guest has written n bytes to a file. */
void proc_file_written(struct thread *t, uint64_t n)
{
    uint32_t fd = (uint32_t)t->regs[RDI];
    if (is_one(&memory_files, fd))
        memory_written(t, n);
    if (is_one(&name_files, fd))
        name_written(t, n);
}
