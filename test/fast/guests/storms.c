/* SPDX-License-Identifier: MIT
 * Guests that do one thing very often. COFI_STORM multiplies how often: 100 by hand, 1 otherwise. Nothing may be lost,
 * nothing may hang. */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "guests.h"

static int times(int n)
{
    const char *factor = getenv("COFI_STORM");
    return factor ? n * atoi(factor) : n;
}

static volatile int received, other;
static volatile uint64_t sum;

static void receive(int signo, siginfo_t *info, void *context)
{
    (void)signo, (void)context;
    received++;
    sum += (uint64_t)info->si_value.sival_int;
}

static int handled[2];

static void acknowledge(int signo)
{
    (void)signo;
    received += write(handled[1], "", 1) == 1;
}

static void count_it(int signo)
{
    (void)signo;
    received++;
}

/* Each signal is sent when the last one has been handled: none may get lost, wherever it comes. */
int guest_storm_signals(void)
{
    int n = times(1000);
    struct sigaction a = {.sa_handler = acknowledge};
    sigaction(SIGUSR1, &a, NULL);
    if (pipe(handled))
        return 1;
    pid_t parent = getpid(), child = fork();
    if (!child) {
        char byte;
        for (int i = 0; i < n; i++)
            if (kill(parent, SIGUSR1) || read(handled[0], &byte, 1) != 1)
                _exit(1);
        _exit(0);
    }
    uint64_t h = 1;
    while (received < n)
        for (int i = 0; i < 50; i++)
            h = h & 4 ? h * 3 + 1 : (h >> 1) + (uint64_t)getppid() % 1;
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    printf("%d of %d, %x\n", received, n, status);
    return 0;
}

/* Queued ones with their values, while the receiver maps, computes and waits. */
int guest_storm_queue(void)
{
    int n = times(1000);
    struct sigaction a = {.sa_sigaction = receive, .sa_flags = SA_SIGINFO | SA_RESTART};
    sigaction(SIGRTMIN + 3, &a, NULL);
    pid_t parent = getpid(), child = fork();
    if (!child) {
        for (int i = 1; i <= n;)
            if (!sigqueue(parent, SIGRTMIN + 3, (union sigval){.sival_int = i}))
                i++;
            else
                sched_yield();
        _exit(0);
    }
    while (received < n) {
        void *p = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        memset(p, 1, 8192);
        munmap(p, 8192);
        usleep(10);
    }
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    printf("%d %d %x\n", received == n, sum == (uint64_t)n * ((uint64_t)n + 1) / 2, status);
    return 0;
}

static void *one(void *arg)
{
    __atomic_add_fetch((int *)arg, 1, __ATOMIC_SEQ_CST);
    return NULL;
}

int guest_storm_threads(void)
{
    int n = times(100), ended = 0;
    for (int i = 0; i < n; i += 4) {
        pthread_t t[4];
        for (int j = 0; j < 4; j++)
            if (pthread_create(&t[j], NULL, one, &ended))
                return 1;
        for (int j = 0; j < 4; j++)
            pthread_join(t[j], NULL);
    }
    printf("%d of %d\n", ended, n);
    return 0;
}

int guest_storm_forks(void)
{
    int n = times(10), good = 0;
    for (int i = 0; i < n; i++) {
        pid_t p = fork();
        if (!p)
            _exit(i & 127);
        int status = 0;
        waitpid(p, &status, 0);
        good += WEXITSTATUS(status) == (i & 127);
    }
    printf("%d of %d\n", good, n);
    return 0;
}

static volatile int loading;

static void *load(void *arg)
{
    const char *name = arg;
    double x = 0;
    for (int i = 0; i < loading; i++) {
        void *m = dlopen(name, RTLD_NOW);
        double (*f)(double) = m ? (double (*)(double))dlsym(m, "cbrt") : NULL;
        if (f)
            x += f(i);
        if (m)
            dlclose(m);
    }
    double *r = malloc(sizeof x);
    *r = x;
    return r;
}

/* Libraries come and go at the same addresses, while two threads run in them. */
int guest_storm_dlopen(void)
{
    pthread_t t[2];
    double x = 0;
    loading = times(10);
    for (int i = 0; i < 2; i++)
        pthread_create(&t[i], NULL, load, "libm.so.6");
    for (int i = 0; i < 2; i++) {
        void *r;
        pthread_join(t[i], &r);
        x += *(double *)r;
    }
    printf("%.9f\n", x);
    return 0;
}

static uint8_t *code;

static int run(int slot)
{
    int (*f)(void);
    uint8_t *p = code + slot * 64;
    memcpy(&f, &p, sizeof f);
    return f();
}

static void write_code(int slot, int32_t v)
{
    uint8_t *p = code + slot * 64;
    memcpy(p + 1, &v, 4);
    p[5] = 0xc3;
    p[0] = 0xb8;
}

static void *rewrite(void *arg)
{
    int first = (int)(intptr_t)arg, n = times(1000) / 2;
    uint64_t h = 0;
    for (int i = 0; i < n; i++) {
        write_code(first + (i & 7), i);
        h = h * 31 + (uint64_t)run(first + (i & 7));
    }
    return (void *)(uintptr_t)h;
}

/* Two threads rewrite their own functions, which lie in the same page. */
int guest_storm_jit(void)
{
    pthread_t t[2];
    code = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (intptr_t i = 0; i < 2; i++)
        pthread_create(&t[i], NULL, rewrite, (void *)(i * 8));
    for (int i = 0; i < 2; i++) {
        void *r;
        pthread_join(t[i], &r);
        printf("%llx\n", (unsigned long long)(uintptr_t)r);
    }
    return 0;
}

/* Signals that come while code is mapped over code: what ran before runs no more. */
int guest_storm_mappings(void)
{
    enum { PAGE = 4096 };
    int fd = memfd_create("code", 0), n = times(5000), old = 0;
    code = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    write_code(0, 0);
    write_code(PAGE / 64, 1);
    if (write(fd, code, 2 * PAGE) != 2 * PAGE)
        return 1;
    struct sigaction a = {.sa_handler = count_it, .sa_flags = SA_RESTART};
    sigaction(SIGALRM, &a, NULL);
    setitimer(ITIMER_REAL, &(struct itimerval){{0, 50}, {0, 50}}, NULL);
    for (int i = 0; i < n; i++) {
        if (mmap(code, PAGE, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_FIXED, fd, (i & 1) * PAGE) != code)
            return 2;
        old += run(0) != (i & 1);
    }
    setitimer(ITIMER_REAL, &(struct itimerval){0}, NULL);
    printf("%d times old code, signals %d\n", old, received > 0);
    return 0;
}

/* Whether the thread has SIGUSR1 pending for itself alone. */
static int has_own_pending(void)
{
    char line[100];
    unsigned long long set = 0;
    sigset_t pending;
    sigpending(&pending);
    if (!sigismember(&pending, SIGUSR1))
        return 0;
    FILE *f = fopen("/proc/thread-self/status", "r");
    while (f && fgets(line, sizeof line, f) && sscanf(line, "SigPnd: %llx", &set) != 1)
        ;
    if (f)
        fclose(f);
    return set >> (SIGUSR1 - 1) & 1;
}

/* A signal of the process is handled, or it waits for any thread: one that has just blocked it has not taken it for itself. */
int guest_storm_blocks(void)
{
    int n = times(2000), kept = 0;
    struct sigaction a = {.sa_handler = count_it};
    sigset_t usr1;
    sigemptyset(&usr1);
    sigaddset(&usr1, SIGUSR1);
    sigaction(SIGUSR1, &a, NULL);
    pid_t parent = getpid(), child = fork();
    while (!child && !kill(parent, SIGUSR1))
        usleep(30);
    while (received < n) {
        sigprocmask(SIG_UNBLOCK, &usr1, NULL);
        for (int i = 0; i < 20; i++)
            sum += 1;
        sigprocmask(SIG_BLOCK, &usr1, NULL);
        kept += has_own_pending();
    }
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    printf("%d kept\n", kept);
    return 0;
}

/* So does one that comes while a handler returns to where it is blocked. */
int guest_storm_returns(void)
{
    int n = times(4000), kept = 0;
    struct sigaction a = {.sa_handler = count_it};
    sigset_t both, none;
    sigemptyset(&none);
    sigemptyset(&both);
    sigaddset(&both, SIGUSR1);
    sigaddset(&both, SIGUSR2);
    sigprocmask(SIG_BLOCK, &both, NULL);
    sigaction(SIGUSR1, &a, NULL);
    sigaction(SIGUSR2, &a, NULL);
    pid_t parent = getpid(), child = fork();
    while (!child && !kill(parent, SIGUSR1))
        usleep(rand() % 50);
    for (int i = 0; i < n; i++) {
        raise(SIGUSR2);
        sigsuspend(&none);
        kept += has_own_pending();
    }
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    printf("%d kept\n", kept);
    return 0;
}

static void *spin(void *arg)
{
    volatile uint64_t h = (uint64_t)(uintptr_t)arg;
    for (;;) {
        h = h & 1 ? h * 3 + 1 : h >> 1;
        other = 1;
    }
    return NULL;
}

/* Threads that compute, wait and sleep end when one of them ends the program, here not the first one. */
static void *end_all(void *arg)
{
    (void)arg;
    while (!other)
        sched_yield();
    exit(7);
}

int guest_exit_group(void)
{
    pthread_t t;
    for (uintptr_t i = 0; i < 3; i++)
        pthread_create(&t, NULL, spin, (void *)(i + 27));
    pthread_create(&t, NULL, end_all, NULL);
    for (;;)
        pause();
}

static void *exec_it(void *arg)
{
    (void)arg;
    while (!other)
        sched_yield();
    execlp("echo", "echo", "from another thread", (char *)NULL);
    return NULL;
}

/* exec from a thread that is not the first, while others run. */
int guest_exec_in_thread(void)
{
    pthread_t t;
    pthread_create(&t, NULL, spin, (void *)9);
    pthread_create(&t, NULL, exec_it, NULL);
    for (;;)
        pause();
}

static volatile int depth, deepest;

static void nest(int signo)
{
    if (++depth > deepest)
        deepest = depth;
    if (signo >= SIGRTMIN && signo < SIGRTMIN + 8)
        raise(signo + 1);
    depth--;
}

/* A handler is interrupted by the next signal, and that one again; then SA_NODEFER and one-shot handlers. */
int guest_nested(void)
{
    struct sigaction a = {.sa_handler = nest};
    for (int i = SIGRTMIN; i <= SIGRTMIN + 8; i++)
        sigaction(i, &a, NULL);
    raise(SIGRTMIN);
    printf("%d\n", deepest);
    a.sa_flags = (int)SA_RESETHAND;
    sigaction(SIGUSR1, &a, NULL);
    struct sigaction now;
    raise(SIGUSR1);
    sigaction(SIGUSR1, NULL, &now);
    printf("%d\n", now.sa_handler == SIG_DFL);
    return 0;
}

/* Signals that are waited for instead of handled, those of faults among them. */
int guest_waited(void)
{
    sigset_t set;
    siginfo_t info;
    struct timespec none = {0, 0};
    static const int numbers[] = {SIGUSR1, SIGSEGV, SIGILL, SIGTRAP, SIGBUS, SIGFPE};
    sigfillset(&set);
    sigprocmask(SIG_SETMASK, &set, NULL);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        sigset_t pending;
        raise(numbers[i]);
        sigpending(&pending);
        printf("%d pending %d, ", numbers[i], sigismember(&pending, numbers[i]));
        sigemptyset(&set);
        sigaddset(&set, numbers[i]);
        int got = sigtimedwait(&set, &info, &none);
        printf("got %d code %d\n", got, got > 0 ? info.si_code : 0);
    }
    sigfillset(&set);
    int fd = signalfd(-1, &set, SFD_NONBLOCK);
    struct signalfd_siginfo read_info = {0};
    kill(getpid(), SIGUSR1);
    kill(getpid(), SIGUSR2);
    for (int i = 0; i < 3; i++) {
        ssize_t n = read(fd, &read_info, sizeof read_info);
        printf("%zd %u\n", n, n > 0 ? read_info.ssi_signo : 0);
    }
    struct sigaction a = {.sa_sigaction = receive, .sa_flags = SA_SIGINFO};
    sigaction(SIGSEGV, &a, NULL);
    raise(SIGSEGV);
    printf("%d\n", received);
    sigemptyset(&set);
    sigprocmask(SIG_SETMASK, &set, NULL);
    printf("%d\n", received);
    return 0;
}

static sem_t semaphore;

static void *post(void *arg)
{
    for (int i = 0; i < 200; i++) {
        usleep(200);
        sem_post(arg);
    }
    return NULL;
}

/* Waits that signals interrupt: on semaphores, conditions and sleeps; what they wait for comes all the same. */
int guest_interrupted(void)
{
    struct sigaction a = {.sa_sigaction = receive, .sa_flags = SA_SIGINFO};
    struct itimerval often = {{0, 700}, {0, 700}}, never = {{0, 0}, {0, 0}};
    pthread_t t;
    int got = 0, early = 0;
    sem_init(&semaphore, 0, 0);
    sigset_t alarm;
    sigemptyset(&alarm);
    sigaddset(&alarm, SIGALRM);
    sigaction(SIGALRM, &a, NULL);
    pthread_sigmask(SIG_BLOCK, &alarm, NULL);
    pthread_create(&t, NULL, post, &semaphore);
    pthread_sigmask(SIG_UNBLOCK, &alarm, NULL);
    setitimer(ITIMER_REAL, &often, NULL);
    while (got < 200)
        if (!sem_wait(&semaphore))
            got++;
        else if (errno != EINTR)
            return 1;
    pthread_join(t, NULL);
    for (int i = 0; i < 5; i++) {
        struct timespec left = {0, 5000000}, before, after;
        clock_gettime(CLOCK_MONOTONIC, &before);
        while (nanosleep(&left, &left) && errno == EINTR)
            ;
        clock_gettime(CLOCK_MONOTONIC, &after);
        early += (after.tv_sec - before.tv_sec) * 1000000000 + after.tv_nsec - before.tv_nsec < 5000000;
    }
    setitimer(ITIMER_REAL, &never, NULL);
    printf("%d %d %d\n", got, early, received > 0);
    return 0;
}
