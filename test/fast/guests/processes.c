/* SPDX-License-Identifier: MIT
 * Guests about threads and processes. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "guests.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t total;
static __thread uint64_t mine;

static void *work(void *arg)
{
    uint64_t n = (uint64_t)(uintptr_t)arg, h = n;
    for (int i = 0; i < 200000; i++) {
        h = h * 6364136223846793005u + 1;
        mine += h >> 60;
        if ((i & 1023) == 0) {
            void *p = malloc(h >> 55);
            pthread_mutex_lock(&lock);
            total += h >> 40;
            pthread_mutex_unlock(&lock);
            free(p);
        }
    }
    return (void *)(uintptr_t)mine;
}

int guest_threads(void)
{
    pthread_t t[8];
    uint64_t sum = 0;
    for (uintptr_t i = 0; i < 8; i++)
        pthread_create(&t[i], NULL, work, (void *)i);
    for (int i = 0; i < 8; i++) {
        void *r;
        pthread_join(t[i], &r);
        sum += (uintptr_t)r;
    }
    printf("%llu %llu\n", (unsigned long long)total, (unsigned long long)sum);
    return 0;
}

static void *increment(void *arg)
{
    __atomic_add_fetch((int *)arg, 1, __ATOMIC_SEQ_CST);
    return NULL;
}

int guest_many_threads(void)
{
    int n = 0;
    for (int i = 0; i < 500; i++) {
        pthread_t t[4];
        for (int j = 0; j < 4; j++)
            pthread_create(&t[j], NULL, increment, &n);
        for (int j = 0; j < 4; j++)
            pthread_join(t[j], NULL);
    }
    printf("%d\n", n);
    return 0;
}

static int tree(int depth)
{
    int sum = 1;
    for (int i = 0; depth && i < 2; i++) {
        pid_t p = fork();
        if (!p)
            _exit(tree(depth - 1));
        int status;
        waitpid(p, &status, 0);
        sum += WEXITSTATUS(status);
    }
    return sum;
}

int guest_fork_tree(void)
{
    printf("%d\n", tree(5));
    return 0;
}

/* Processes in PID namespaces, of each the first one, number 1: each makes the next, the innermost a thread and an ordinary child. */
static int namespaces(int depth)
{
    int status = 0, first = getpid() == 1;
    pthread_t thread;
    if (!depth && !pthread_create(&thread, NULL, work, NULL))
        pthread_join(thread, NULL);
    pid_t p = depth ? (pid_t)syscall(SYS_clone, (first ? 0 : CLONE_NEWUSER) | CLONE_NEWPID | SIGCHLD, 0, 0, 0, 0) : fork();
    if (!p)
        _exit(depth ? namespaces(depth - 1) : 1);
    return p < 0 || waitpid(p, &status, 0) < 0 ? 100 : first + 2 * WEXITSTATUS(status);
}

int guest_pid_namespaces(void)
{
    printf("%d\n", namespaces(3));
    return 0;
}

/* … whose processes end at once, as those do that made them: nobody has looked at these before. */
int guest_pid_namespaces_gone(void)
{
    int sum = 0;
    for (int i = 0; i < 300; i++) {
        int status = 0;
        pid_t p = fork();
        if (!p) {
            p = (pid_t)syscall(SYS_clone, CLONE_NEWUSER | CLONE_NEWPID | SIGCHLD, 0, 0, 0, 0);
            if (!p)
                _exit(3);
            _exit(p > 0 && waitpid(p, &status, 0) == p ? WEXITSTATUS(status) : 0);
        }
        waitpid(p, &status, 0);
        sum += WEXITSTATUS(status);
    }
    printf("%d\n", sum);
    return 0;
}

static int three_more(int n)
{
    return n + 3;
}

static int (*copied)(int);

static void *end_all(void *arg)
{
    (void)arg;
    _exit(copied(0));
}

/* … after their first thread, which has run code that it has copied and made another thread, that runs it, too. */
int guest_pid_namespaces_without_first(void)
{
    int sum = 0;
    for (int i = 0; i < 100; i++) {
        int status = 0;
        pthread_t thread;
        pid_t p = (pid_t)syscall(SYS_clone, CLONE_NEWUSER | CLONE_NEWPID | SIGCHLD, 0, 0, 0, 0);
        if (!p) {
            copied = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            memcpy((void *)copied, (void *)three_more, 64);
            if (copied(1) != 4 || pthread_create(&thread, NULL, end_all, NULL))
                _exit(1);
            syscall(SYS_exit, 0);
        }
        waitpid(p, &status, 0);
        sum += WEXITSTATUS(status);
    }
    printf("%d\n", sum);
    return 0;
}

static void *forker(void *arg)
{
    int good = 0;
    for (int i = 0; i < 10; i++) {
        pid_t p = fork();
        if (!p) {
            free(malloc(100));
            _exit(7);
        }
        int status = 0;
        waitpid(p, &status, 0);
        good += WEXITSTATUS(status) == 7;
    }
    __atomic_add_fetch((int *)arg, good, __ATOMIC_SEQ_CST);
    return NULL;
}

int guest_fork_in_threads(void)
{
    pthread_t t[4];
    int n = 0;
    for (int i = 0; i < 4; i++)
        pthread_create(&t[i], NULL, forker, &n);
    for (int i = 0; i < 4; i++)
        pthread_join(t[i], NULL);
    printf("%d\n", n);
    return 0;
}

int guest_spawn(void)
{
    extern char **environ;
    char *good[] = {"sh", "-c", "echo spawned; exit 3", NULL}, *bad[] = {"/no/such/program", NULL};
    pid_t p;
    int status;
    fflush(stdout);
    printf("%d\n", posix_spawnp(&p, good[0], NULL, NULL, good, environ));
    waitpid(p, &status, 0);
    printf("%d\n", WEXITSTATUS(status));
    printf("missing: %s\n", strerror(posix_spawn(&p, bad[0], NULL, NULL, bad, environ)));
    return 0;
}

int guest_exec_fails(void)
{
    char *bad[] = {"/no/such/program", NULL};
    for (int i = 0; i < 3; i++)
        if (execv(bad[0], bad) < 0)
            printf("%s\n", strerror(errno));
    fflush(stdout);
    char *good[] = {"echo", "from echo", NULL};
    execvp(good[0], good);
    return 1;
}

static volatile int execs_done, interruptions;

static void *often_in_the_kernel(void *pauses)
{
    while (!execs_done) {
        interruptions += ppoll(NULL, 0, &(struct timespec){0, 20000}, NULL) < 0;
        for (volatile int i = 0; i < 100 * (int)(intptr_t)pauses; i++)
            ;
    }
    return NULL;
}

/* The others are to halt for an exec, and to go on: of a missing program unnoticed, of one that is none without harm. */
int guest_exec_fails_in_threads(void)
{
    pthread_t threads[6];
    char name[] = "./no-program", *bad[] = {"/no/such/program", NULL};
    char *none[] = {name, NULL};
    int fd = open(name, O_CREAT | O_WRONLY | O_CLOEXEC, 0700), refused = 0;
    if (fd < 0 || write(fd, "\1", 1) != 1 || close(fd))
        return 1;
    for (intptr_t i = 0; i < 6; i++)
        pthread_create(&threads[i], NULL, often_in_the_kernel, (void *)i);
    for (int i = 0; i < 1000; i++)
        refused += execv(bad[0], bad) < 0 && errno == ENOENT;
    for (int i = 0; i < 1000; i++)
        refused += execv(none[0], none) < 0 && errno == ENOEXEC;
    execs_done = 1;
    for (int i = 0; i < 6; i++)
        pthread_join(threads[i], NULL);
    printf("%d refused, %d calls interrupted\n", refused, interruptions);
    return unlink(name);
}

static pid_t spawn(char *const *argv)
{
    extern char **environ;
    pid_t pid = -1;
    posix_spawnp(&pid, argv[0], NULL, NULL, argv, environ);
    return pid;
}

/* A signal for a program that is just starting: it ends it, or stops it until it may go on, whenever it comes. */
int guest_killed_early(void)
{
    enum { ROUNDS = 150, STEP_US = 40 };
    char *argv[] = {"sleep", "10", NULL};
    int killed = 0, stopped = 0, status;
    for (int i = 0; i < ROUNDS; i++) {
        pid_t pid = spawn(argv);
        usleep((useconds_t)(i * STEP_US));
        if (i % 3 == 0) {
            kill(pid, SIGSTOP);
            stopped += waitpid(pid, &status, WUNTRACED) == pid && WIFSTOPPED(status);
            kill(pid, SIGCONT);
        }
        kill(pid, SIGHUP);
        killed += waitpid(pid, &status, 0) == pid && WIFSIGNALED(status) && WTERMSIG(status) == SIGHUP;
    }
    printf("%d killed, %d stopped\n", killed, stopped);
    return 0;
}

/* Programs that are killed before their first instruction, and others once that has been seen: those have numbers of their own. */
int guest_killed_first(void)
{
    enum { ROUNDS = 60, STEP_US = 25, OTHERS = 20, SEEN_S = 4 };
    char *sleeper[] = {"sleep", "10", NULL}, *other[] = {"true", NULL};
    int killed = 0, ended = 0, status;
    pid_t pids[OTHERS];
    for (int i = 0; i < ROUNDS; i++) {
        pid_t pid = spawn(sleeper);
        usleep((useconds_t)(i * STEP_US));
        kill(pid, SIGKILL);
        killed += waitpid(pid, &status, 0) == pid && WIFSIGNALED(status);
    }
    sleep(SEEN_S);
    for (int i = 0; i < OTHERS; i++)
        pids[i] = spawn(other);
    for (int i = 0; i < OTHERS; i++)
        ended += waitpid(pids[i], &status, 0) == pids[i] && status == 0;
    printf("%d killed, %d ended\n", killed, ended);
    return 0;
}

int guest_vfork(void)
{
    volatile int shared = 1;
    pid_t p = vfork();
    if (!p) {
        shared = 2;
        _exit(5);
    }
    int status;
    waitpid(p, &status, 0);
    printf("%d %d\n", shared, WEXITSTATUS(status));
    return 0;
}

/* vfork in vfork's child, and so on: all of them share the memory. */
static int below(volatile int levels)
{
    volatile int n = 0;
    pid_t p = vfork();
    if (!p) {
        n = levels ? below(levels - 1) : 0;
        _exit(0);
    }
    waitpid(p, NULL, 0);
    return n + 1;
}

int guest_vfork_deep(void)
{
    printf("%d processes\n", below(1200));
    return 0;
}

static int is_handled(int signo)
{
    struct sigaction now;
    sigaction(signo, NULL, &now);
    return now.sa_handler != SIG_DFL && now.sa_handler != SIG_IGN;
}

static void on_any(int signo)
{
    (void)signo;
}

/* Its actions are its own, and its child's a copy of them. */
static int with_own_actions(void *seen)
{
    signal(SIGUSR1, SIG_DFL);
    signal(SIGUSR2, on_any);
    pid_t p = fork();
    if (!p) {
        usleep(2000);
        _exit(is_handled(SIGUSR1) * 2 + is_handled(SIGUSR2));
    }
    signal(SIGUSR2, SIG_DFL);
    int status;
    waitpid(p, &status, 0);
    *(int *)seen += WEXITSTATUS(status);
    return 0;
}

static int with_nothing(void *seen)
{
    ++*(int *)seen;
    return 0;
}

/* Children that share the memory without vfork, one after the other. */
int guest_shared_memory(void)
{
    enum { CHILDREN = 1200, STACK = 64 << 10 };
    static uint8_t stack[STACK] __attribute__((aligned(16)));
    int actions = 0, ended = 0;
    signal(SIGUSR1, on_any);
    for (int i = 0; i < CHILDREN; i++)
        waitpid(clone(with_nothing, stack + STACK, CLONE_VM | SIGCHLD, &ended), NULL, 0);
    for (int i = 0; i < 20; i++)
        waitpid(clone(with_own_actions, stack + STACK, CLONE_VM | SIGCHLD, &actions), NULL, 0);
    printf("%d ended, %d, %d %d\n", ended, actions, is_handled(SIGUSR1), is_handled(SIGUSR2));
    return 0;
}

int guest_busy(void)
{
    volatile uint64_t h = 1;
    for (;;)
        h = (h & 3) == 1 ? h * 5 + (uint64_t)tree(0) : h / 2 + 1;
}

static volatile int usr1s;

static void on_usr1(int signo)
{
    (void)signo;
    usr1s++;
}

static uint64_t much_work(void)
{
    volatile uint64_t h = 0;
    for (uint64_t i = 0; i < 20000000; i++)
        h = i % 3 ? h + i : h ^ i;
    return h;
}

static void print_status(const char *what, int status)
{
    printf("%s: %s %d\n", what, WIFSIGNALED(status) ? "signal" : "status", WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
}

/* clone3 with CLONE_CLEAR_SIGHAND: handlers become the default, what is ignored stays so. */
int guest_cleared(void)
{
    uint64_t args[11] = {0x100000000, [4] = SIGCHLD};
    struct sigaction now;
    int status;
    signal(SIGUSR1, on_usr1);
    signal(SIGUSR2, SIG_IGN);
    sigaction(SIGSEGV, &(struct sigaction){.sa_handler = SIG_DFL, .sa_flags = SA_NODEFER}, NULL);
    fflush(stdout);
    if (!syscall(SYS_clone3, args, sizeof args)) {
        sigaction(SIGUSR1, NULL, &now);
        printf("USR1 %s", now.sa_handler == SIG_DFL ? "default" : "other");
        sigaction(SIGUSR2, NULL, &now);
        printf(", USR2 %s, %d\n", now.sa_handler == SIG_IGN ? "ignored" : "other", (int)(much_work() & 1));
        sigaction(SIGSEGV, NULL, &now);
        printf("flags %x\n", now.sa_flags);
        fflush(stdout);
        kill(getpid(), SIGUSR1);
        _exit(1);
    }
    wait(&status);
    print_status("child", status);
    return 0;
}

static int what_was_handed_over(void)
{
    static const int signals[] = {SIGTRAP, SIGSEGV, SIGUSR1, SIGUSR2, SIGILL, SIGFPE};
    sigset_t blocked, pending;
    sigprocmask(SIG_BLOCK, NULL, &blocked);
    sigpending(&pending);
    for (int i = 0; i < 6; i++) {
        struct sigaction a;
        sigaction(signals[i], NULL, &a);
        printf("%d:%s%s%s\n", signals[i], a.sa_handler == SIG_IGN ? " ignored" : "", sigismember(&blocked, signals[i]) ? " blocked" : "",
               sigismember(&pending, signals[i]) ? " pending" : "");
    }
    return 0;
}

/* What is executed ignores what was ignored, faults too, and finds pending what was, faults that are ignored and blocked too. */
int guest_handed_over(void)
{
    sigset_t set;
    if (getenv("HANDED_OVER"))
        return what_was_handed_over();
    setenv("HANDED_OVER", "1", 1);
    signal(SIGSEGV, SIG_IGN);
    signal(SIGUSR2, SIG_IGN);
    signal(SIGILL, SIG_IGN);
    sigemptyset(&set);
    sigaddset(&set, SIGTRAP);
    sigaddset(&set, SIGUSR1);
    sigaddset(&set, SIGUSR2);
    sigaddset(&set, SIGILL);
    sigaddset(&set, SIGFPE);
    sigprocmask(SIG_BLOCK, &set, NULL);
    raise(SIGTRAP);
    raise(SIGUSR1);
    raise(SIGUSR2);
    raise(SIGILL);
    raise(SIGFPE);
    execlp("missing program", "missing", NULL);
    execl("/etc/passwd", "no program", NULL);
    execl("/proc/self/exe", "guests", "handed_over", NULL);
    return 1;
}

static long call_high(uint64_t number, uint64_t a)
{
    long r;
    __asm__ volatile("syscall" : "=a"(r) : "0"(number | 1ul << 40), "D"(a), "S"(0L), "d"(0L) : "rcx", "r11", "memory");
    return r;
}

/* The kernel looks at the low half of a call's number. */
int guest_high_numbers(void)
{
    int status;
    fflush(stdout);
    if (!call_high(SYS_fork, 0)) {
        much_work();
        call_high(SYS_exit_group, 3);
    }
    wait(&status);
    print_status("child", status);
    signal(SIGUSR1, on_usr1);
    raise(SIGUSR1);
    printf("%d signals\n", usr1s);
    fflush(stdout);
    return (int)call_high(SYS_exit_group, 4);
}

/* More children than there is room for at once are killed as soon as they are made; threads end with their process before they begin. */
int guest_killed_unborn(void)
{
    int failed = 0, status;
    for (int i = 0; i < 3000; i++) {
        pid_t pid = fork();
        if (!pid)
            _exit(0);
        failed += pid < 0;
        if (pid > 0)
            kill(pid, SIGKILL);
        waitpid(pid, &status, 0);
    }
    printf("%d failed\n", failed);
    fflush(stdout);
    for (int i = 0; i < 4; i++) {
        pthread_t thread;
        pthread_create(&thread, NULL, often_in_the_kernel, (void *)1);
    }
    _exit(5);
}
