/* SPDX-License-Identifier: MIT
 * A 32-bit program: INT 80h, the vDSO's own way, signals of both frames, threads of the old kind of
 * TLS, what follows MOV SS and POP SS (of which a step does not see the end). */
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

static void behind_ss(void)
{
    signal(SIGTRAP, on_usr);
    __asm__ volatile("mov %%ss, %%edx\n xor %%eax, %%eax\n mov %%edx, %%ss\n jz 1f\n nop\n"
                     "1: push %%ss\n pop %%ss\n jnz 1b\n mov $1, %%ecx\n mov %%edx, %%ss\n loop 1b\n"
                     "mov %%edx, %%ss\n call 2f\n jmp 3f\n 2: mov %%edx, %%ss\n ret\n"
                     "3: mov $20, %%eax\n mov %%edx, %%ss\n int $0x80\n mov %%edx, %%ss\n pushf\n pop %%eax\n mov %%edx, %%ss\n int3\n nop"
                     : : : "eax", "ecx", "edx", "cc", "memory");
}

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
    behind_ss();
    pthread_t t;
    pthread_create(&t, NULL, thread, NULL);
    pthread_join(t, NULL);
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    printf("%d %d %d\n", pid == getpid(), seen, flags & 0x100);
    return 0;
}
