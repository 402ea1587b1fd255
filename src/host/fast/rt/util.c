/* SPDX-License-Identifier: MIT
 * What a freestanding program lacks: memory functions, a lock, memory, a last word. */
#include <errno.h>
#include <sys/syscall.h>

#include "host/fast/rt/rt.h"

void *memcpy(void *to, const void *from, size_t n)
{
    void *d = to;
    __asm__ volatile("rep movsb" : "+D"(d), "+S"(from), "+c"(n) : : "memory");
    return to;
}

void *memset(void *to, int c, size_t n)
{
    void *d = to;
    __asm__ volatile("rep stosb" : "+D"(d), "+c"(n) : "a"(c) : "memory");
    return to;
}

int memcmp(const void *a, const void *b, size_t n)
{
    const uint8_t *x = a, *y = b;
    for (size_t i = 0; i < n; i++)
        if (x[i] != y[i])
            return x[i] - y[i];
    return 0;
}

static size_t put_hex(char *out, uint64_t v)
{
    for (int i = 0; i < 16; i++)
        out[i] = "0123456789abcdef"[v >> (60 - 4 * i) & 15];
    return 16;
}

/* The program cannot go on exactly: say why and end it, rather than go on wrong. */
void rt_die(const char *why, uint64_t value)
{
    char line[160];
    size_t n = 0;
    const char *head = "cofi record: ";
    while (*head)
        line[n++] = *head++;
    while (*why && n < 120)
        line[n++] = *why++;
    line[n++] = ' ';
    n += put_hex(line + n, value);
    line[n++] = '\n';
    sys(SYS_write, 2, (uint64_t)line, n, 0, 0, 0);
    for (;;)
        sys(SYS_exit_group, 125, 0, 0, 0, 0, 0);
}

/* Of a wait for other threads or processes: yield a while, then 100 µs each. */
void rt_pause(unsigned round)
{
    enum { YIELDS = 200 };
    uint64_t pause[2] = {0, 100000};
    sys(round < YIELDS ? SYS_sched_yield : SYS_nanosleep, (uint64_t)pause, 0, 0, 0, 0, 0);
}

/* One lock for the cache and the maps. A signal handler takes it for a write to watched code only, which
 * is never one of a thread that has it. */
bool rt_try_lock(void)
{
    uint32_t free = 0;
    return __atomic_compare_exchange_n(&rt.lock, &free, 1, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
}

/* Who held it to make a process has been killed by a seccomp filter: the lock is free again. */
static void look_for_dead(void)
{
    struct thread *who = __atomic_load_n(&rt.forking, __ATOMIC_ACQUIRE);
    if (!who || rt.other_pids || sys(SYS_tgkill, (uint64_t)who->pid, (uint64_t)who->tid, 0, 0, 0, 0) != -ESRCH)
        return;
    if (__atomic_compare_exchange_n(&rt.forking, &who, NULL, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
        rt_unlock();
}

void rt_lock(void)
{
    const uint64_t a_while[2] = {0, 100000000};
    if (rt_try_lock())
        return;
    while (__atomic_exchange_n(&rt.lock, 2, __ATOMIC_ACQUIRE)) {
        sys(SYS_futex, (uint64_t)&rt.lock, 128, 2, (uint64_t)a_while, 0, 0);
        look_for_dead();
    }
}

void rt_unlock(void)
{
    if (__atomic_exchange_n(&rt.lock, 0, __ATOMIC_RELEASE) == 2)
        sys(SYS_futex, (uint64_t)&rt.lock, 129, 1, 0, 0, 0);
}
