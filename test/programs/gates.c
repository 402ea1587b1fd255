/* SPDX-License-Identifier: MIT
 * The kernel's other doors: INT 80h from 64-bit code, the vsyscall page, the vDSO, instructions
 * that it emulates. */
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile int faults;

static void on_segv(int s, siginfo_t *info, void *context)
{
    (void)s, (void)info;
    ucontext_t *u = context;
    faults++;
    u->uc_mcontext.gregs[REG_RIP] = *(long long *)u->uc_mcontext.gregs[REG_RSP]; /* ret */
    u->uc_mcontext.gregs[REG_RSP] += 8;
}

int main(void)
{
    struct sigaction a = {.sa_sigaction = on_segv, .sa_flags = SA_SIGINFO};
    sigaction(SIGSEGV, &a, NULL);
    int pid;
    __asm__ volatile("int $0x80" : "=a"(pid) : "a"(20) : "r8", "r9", "r10", "r11", "memory");
    struct timeval tv = {0, 0};
    struct timespec ts;
    long (*old_gettimeofday)(struct timeval *, void *) = (void *)0xffffffffff600000;
    long (*old_time)(long *) = (void *)0xffffffffff600400;
    old_gettimeofday(&tv, NULL);
    long now = old_time(NULL);
    clock_gettime(CLOCK_MONOTONIC, &ts);
    unsigned short idt[5] = {0};
    __asm__ volatile("sidt %0\n\tnop" : "=m"(idt));
    unsigned long cr0;
    __asm__ volatile("smsw %0\n\tnop" : "=r"(cr0));
    cpu_set_t set;
    sched_getaffinity(0, sizeof set, &set);
    printf("%d %d %d %d %d %d\n", pid == getpid(), faults || (tv.tv_sec && now - tv.tv_sec < 2),
           (int)(cr0 & 1), idt[4] != 0, CPU_COUNT(&set), (int)sysconf(_SC_NPROCESSORS_ONLN));
    return 0;
}
