/* SPDX-License-Identifier: MIT
 * Guests that make two things happen at once which seldom do. */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "guests.h"

static volatile bool over;
static volatile int came;

static void come(int signo)
{
    (void)signo;
    came++;
}

/* long wait(void *buffer, volatile int *came, long rounds): rounds left when it had come. It logs little. */
extern const uint8_t wait_begin[], wait_end[];
__asm__(".pushsection .rodata\n"
        "wait_begin:\n mov %rdi, %r8\n 1: mov %r8, %rdi\n mov $16384, %ecx\n rep stosb\n dec %rdx\n je 2f\n cmpl $0, (%rsi)\n je 1b\n"
        "2: mov %rdx, %rax\n ret\n"
        "wait_end:\n .popsection");

/* A function at a place where none has run. */
static long (*wait_anew(void))(void *, volatile int *, long)
{
    long (*wait)(void *, volatile int *, long);
    uint8_t *code = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memcpy(code, wait_begin, (size_t)(wait_end - wait_begin));
    memcpy(&wait, &code, sizeof wait);
    return wait;
}

static void *run_anew(void *arg)
{
    volatile int now = 1;
    while (!over) {
        long (*wait)(void *, volatile int *, long) = wait_anew();
        wait(arg, &now, 2);
        munmap((void *)(uintptr_t)wait, 4096);
    }
    return NULL;
}

/* A signal that comes while a thread waits to translate what it comes to, for others do, is not late. */
int guest_at_new_code(void)
{
    enum { THREADS = 4, TIMES = 1500, ROUNDS = 20000 };
    static uint8_t buffer[THREADS + 1][16384];
    pthread_t t[THREADS];
    timer_t timer;
    int late = 0;
    sigset_t alarm;
    sigemptyset(&alarm);
    sigaddset(&alarm, SIGALRM);
    sigprocmask(SIG_BLOCK, &alarm, NULL);
    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&t[i], NULL, run_anew, buffer[i]))
            return 1;
    sigprocmask(SIG_UNBLOCK, &alarm, NULL);
    if (signal(SIGALRM, come) == SIG_ERR || timer_create(CLOCK_MONOTONIC, NULL, &timer))
        return 1;
    for (int i = 0; i < TIMES; i++) {
        long (*wait)(void *, volatile int *, long) = wait_anew();
        struct itimerspec soon = {.it_value.tv_nsec = 1 + i * 997 % 300000};
        came = 0;
        timer_settime(timer, 0, &soon, NULL);
        late += !wait(buffer[THREADS], &came, ROUNDS);
        munmap((void *)(uintptr_t)wait, 4096);
    }
    over = true;
    for (int i = 0; i < THREADS; i++)
        pthread_join(t[i], NULL);
    printf("%d late\n", late);
    return 0;
}

static volatile int taken;

static void *take_signals(void *arg)
{
    sigset_t all;
    struct signalfd_siginfo info;
    const struct timespec moment = {.tv_nsec = 1000};
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, NULL);
    int fd = signalfd(-1, &all, SFD_NONBLOCK);
    for (int n = 0; !over; n++) {
        for (volatile int i = 0; i < n * 7 % 500; i++)
            ;
        bool got = arg ? read(fd, &info, sizeof info) > 0 : sigtimedwait(&all, NULL, &moment) > 0;
        __atomic_add_fetch(&taken, got, __ATOMIC_SEQ_CST);
    }
    return arg;
}

/* It runs in place, under the trap flag. */
static void return_far(void)
{
    __asm__ volatile("lea -128(%%rsp), %%rsp\n mov %%cs, %%ecx\n lea 1f(%%rip), %%rax\n push %%rcx\n push %%rax\n lretq\n 1: lea 128(%%rsp), %%rsp"
                     : : : "rax", "rcx", "memory");
}

static void *step(void *arg)
{
    while (!over)
        return_far();
    return arg;
}

/* A file of that name (a template), which no exec can execute; false: it cannot be. */
static bool no_program(char *name)
{
    int fd = mkstemp(name);
    return fd >= 0 && write(fd, "\177ELF", 4) == 4 && !fchmod(fd, 0700) && !close(fd);
}

static int exec_nothing(unsigned times)
{
    char name[] = "noneXXXXXX";
    int failed = 0;
    if (!no_program(name))
        return 1;
    while (times--)
        failed += execl(name, name, (char *)NULL);
    unlink(name);
    return failed;
}

static volatile int rounds;

static void *spin(void *arg)
{
    for (;;)
        rounds++;
    return arg;
}

/* No signal of the process may be pending: an exec that fails stops its threads, and they go on. */
int guest_none_pending(void)
{
    char name[] = "noneXXXXXX";
    pthread_t t;
    if (!no_program(name) || setrlimit(RLIMIT_SIGPENDING, &(struct rlimit){0, 0}) || signal(SIGTRAP, come) == SIG_ERR)
        return 1;
    for (int i = 0; i < 40; i++)
        pthread_create(&t, NULL, spin, NULL);
    for (int i = 0; i < 5; i++) {
        for (int before = rounds; rounds - before < 1000;)
            ;
        int r = execl(name, name, (char *)NULL);
        printf("%d %s\n", r, strerror(errno));
    }
    unlink(name);
    printf("%d traps\n", came);
    return 0;
}

static void *trap_it(void *thread)
{
    while (!over) {
        pthread_kill(*(pthread_t *)thread, SIGTRAP);
        for (volatile int i = 0; i < 300; i++)
            ;
    }
    return NULL;
}

/* Signals of the number that the kernel traps steps with. */
int guest_sent_at_steps(void)
{
    pthread_t t, self = pthread_self();
    signal(SIGTRAP, SIG_IGN);
    if (pthread_create(&t, NULL, trap_it, &self))
        return 1;
    for (int i = 0; i < 8000; i++)
        return_far();
    over = true;
    pthread_join(t, NULL);
    return 0;
}

static void *exec_fails(void *name)
{
    while (!over)
        execl(name, name, (char *)NULL);
    return NULL;
}

/* Who is asked to halt where a breakpoint traps has the trap, too. */
int guest_halted_at_breakpoints(void)
{
    enum { TIMES = 3000 };
    char name[] = "noneXXXXXX";
    pthread_t t;
    if (!no_program(name) || signal(SIGTRAP, come) == SIG_ERR || pthread_create(&t, NULL, exec_fails, name))
        return 1;
    for (int i = 0; i < TIMES; i++) {
        __asm__ volatile("int3");
        return_far();
    }
    over = true;
    pthread_join(t, NULL);
    unlink(name);
    printf("%d of %d\n", came, TIMES);
    return 0;
}

/* Threads halt for an exec, and go on when it has failed, though all that they run traps: a trap that is pending when they are asked is
 * what comes. */
int guest_halted_at_steps(void)
{
    enum { THREADS = 4 };
    pthread_t t[THREADS];
    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&t[i], NULL, step, NULL))
            return 1;
    printf("%d\n", exec_nothing(60));
    over = true;
    for (int i = 0; i < THREADS; i++)
        pthread_join(t[i], NULL);
    return 0;
}

/* … and nobody who waits for any signal takes what asks for a halt. */
int guest_halted_at_waits(void)
{
    enum { THREADS = 4 };
    pthread_t t[THREADS];
    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&t[i], NULL, take_signals, i & 1 ? t : NULL))
            return 1;
    int failed = exec_nothing(2000);
    over = true;
    for (int i = 0; i < THREADS; i++)
        pthread_join(t[i], NULL);
    printf("%d, %d taken\n", failed, taken);
    return 0;
}

enum { QUEUED = 5000, AT_ONCE = 32 };
static volatile int last, astray;
static pthread_t main_thread;

static void follow(int signo, siginfo_t *info, void *context)
{
    (void)signo, (void)context;
    astray += info->si_value.sival_int != last + 1;
    last = info->si_value.sival_int;
    came++;
}

static void pass(int signo)
{
    (void)signo;
}

static void *queue(void *arg)
{
    for (int i = 1; i <= QUEUED;) {
        union sigval value = {.sival_int = i};
        if (i - came <= AT_ONCE && !pthread_sigqueue(main_thread, SIGRTMIN + 3, value))
            i++;
        else
            sched_yield();
    }
    return arg;
}

/* Queued signals of a number keep their order, though they come where a handler of another one returns. */
int guest_in_order(void)
{
    pthread_t t;
    sigset_t all, before;
    struct sigaction a = {.sa_sigaction = follow, .sa_flags = SA_SIGINFO | SA_RESTART};
    main_thread = pthread_self();
    signal(SIGUSR1, pass);
    sigaction(SIGRTMIN + 3, &a, NULL);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    if (pthread_create(&t, NULL, queue, NULL))
        return 1;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    while (came < QUEUED)
        raise(SIGUSR1);
    pthread_join(t, NULL);
    printf("%d of %d astray\n", astray, came);
    return 0;
}
