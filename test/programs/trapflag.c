/* SPDX-License-Identifier: MIT
 * The trap flag read and set, SIGTRAP blocked, ignored, raised, and INT3: all as without a tracer.
 */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static volatile int traps;

static void on_trap(int s) { traps += s == SIGTRAP; }

static unsigned long flags(void)
{
    unsigned long f;
    __asm__ volatile("pushfq\n\tpop %0" : "=r"(f));
    return f;
}

static void *nothing(void *arg) { return arg; }

int main(void)
{
    struct sigaction a = {.sa_handler = on_trap}, old;
    sigset_t set, was;
    sigaction(SIGTRAP, &a, NULL);
    printf("tf %d\n", (flags() & 0x100) != 0);
    unsigned long r11;
    long pid;
    __asm__ volatile("syscall\n\tmov %%r11, %1"
                     : "=a"(pid), "=r"(r11)
                     : "a"(39)
                     : "rcx", "r11", "memory");
    printf("r11 %d\n", (r11 & 0x100) != 0);

    /* Step through four instructions and the popf that ends it. */
    __asm__ volatile("pushfq\n\torq $0x100, (%%rsp)\n\tpopfq\n\tnop\n\tnop\n\tnop\n\tpushfq\n\t"
                     "andq $~0x100, (%%rsp)\n\tpopfq\n\tnop" ::: "memory", "cc");
    printf("steps %d\n", traps);
    traps = 0;
    __asm__ volatile("int3\n\tint3\n\tnop");
    printf("int3 %d\n", traps);

    /* Blocked while hundreds of instructions run; the handler must survive it, the mask be seen. */
    sigfillset(&set);
    sigprocmask(SIG_BLOCK, &set, &was);
    sigprocmask(SIG_BLOCK, NULL, &set);
    pthread_t t;
    pthread_create(&t, NULL, nothing, NULL);
    pthread_join(t, NULL);
    traps = 0;
    kill(getpid(), SIGTRAP);
    int early = traps;
    sigset_t pending;
    sigpending(&pending);
    int waits = sigismember(&pending, SIGTRAP);
    sigprocmask(SIG_SETMASK, &was, NULL);
    sigaction(SIGTRAP, NULL, &old);
    printf("blocked %d early %d pending %d late %d handler %d\n", sigismember(&set, SIGTRAP), early,
           waits, traps, old.sa_handler == on_trap);
    a.sa_handler = SIG_IGN;
    sigaction(SIGTRAP, &a, NULL);
    kill(getpid(), SIGTRAP);
    sigaction(SIGTRAP, NULL, &old);
    printf("ignored %d\n", old.sa_handler == SIG_IGN);
    a.sa_handler = SIG_DFL;
    sigaction(SIGTRAP, &a, NULL);
    fflush(stdout);
    raise(SIGTRAP); /* ends it: 128 + 5 */
    return 0;
}
