/* SPDX-License-Identifier: MIT
 * A 32-bit program: INT 80h, the vDSO's own way, signals of both frames, threads of the old kind of
 * TLS. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static volatile int seen;
static void on_usr(int s) { seen += s; }
static void *thread(void *arg) { return arg; }

int main(void)
{
    int pid, flags;
    __asm__ volatile("int $0x80" : "=a"(pid) : "a"(20) : "memory");
    __asm__ volatile("pushf\n\tpop %0" : "=r"(flags));
    signal(SIGUSR1, on_usr);
    raise(SIGUSR1);
    struct sigaction a = {.sa_handler = on_usr, .sa_flags = SA_SIGINFO};
    sigaction(SIGUSR2, &a, NULL);
    raise(SIGUSR2);
    pthread_t t;
    pthread_create(&t, NULL, thread, NULL);
    pthread_join(t, NULL);
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    printf("%d %d %d\n", pid == getpid(), seen, flags & 0x100);
    return 0;
}
