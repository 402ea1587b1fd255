/* SPDX-License-Identifier: MIT
 * A program to attach to that has seccomp filters; what it prints is the same in each run. usage: locked KIND SECONDS [WORDS]
 * exact: the filter lets pass what the program does and the runtime's own calls, with their arguments, and kills for all else; but for
 * the one of the runtime's that is called WORDS. The other kinds stand in `kinds`. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "exact_filter.h"

static double end;
static volatile int over, alarms;
static unsigned char *written;
static const char *words;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void nap(void) { clock_nanosleep(CLOCK_MONOTONIC, 0, &(struct timespec){0, 10000000}, NULL); }

/* printf makes other calls, too. */
static void say(const char *text)
{
    if (write(1, text, strlen(text)) < 0)
        _exit(9);
}

static void fail(const char *what)
{
    printf("%s: %s\n", what, strerror(errno));
    exit(9);
}

static void install(const struct sock_filter *code, size_t n, unsigned flags)
{
    struct sock_fprog program = {(unsigned short)n, (struct sock_filter *)(uintptr_t)code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program))
        fail("no filter");
}

static void install_exact(const struct cofi__bpf_call *without, uint32_t action, unsigned flags)
{
    static const uint32_t others[] = {SYS_write, SYS_clone, SYS_wait4, SYS_clock_nanosleep, SYS_clock_gettime, SYS_set_robust_list,
                                      334 /* rseq */, SYS_exit, SYS_seccomp};
    static struct exact_filter f;
    exact_filter(&f, without, others, sizeof others / sizeof *others, action);
    install(f.code, f.n, flags);
}

static const struct cofi__bpf_call *find_call(void)
{
    size_t n;
    const struct cofi__fast_own_call *own = cofi__fast_own_calls(&n);
    for (size_t i = 0; words && i < n; i++)
        if (!strcmp(own[i].words, words))
            return &own[i].call;
    return NULL;
}

static void on_alarm(int signo) { alarms += signo == SIGALRM; }

/* Code that is written again and again: mov $value, %eax; ret. */
static void *write_code(void *p)
{
    for (int value = 0; !over; value++) {
        const unsigned char code[6] = {0xb8, (unsigned char)value, (unsigned char)(value >> 8), 0, 0, 0xc3};
        memcpy(written, code, sizeof code);
        if (((int (*)(void))written)() != (value & 0xffff))
            exit(printf("wrong\n"));
        nap();
    }
    return p;
}

static void *raise_signals(void *p)
{
    while (!over) {
        raise(SIGUSR1);
        nap();
    }
    return p;
}

/* The threads are there before the filter, which all of them have. */
static void exact(void)
{
    pthread_t t;
    written = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    signal(SIGALRM, on_alarm);
    signal(SIGUSR1, on_alarm);
    setitimer(ITIMER_REAL, &(struct itimerval){{0, 30000}, {0, 30000}}, NULL);
    pthread_create(&t, NULL, write_code, NULL);
    pthread_create(&t, NULL, raise_signals, NULL);
    install_exact(find_call(), SECCOMP_RET_KILL_PROCESS, SECCOMP_FILTER_FLAG_TSYNC);
    long n = 0, good = 0;
    for (; now() < end; n++) {
        int status = 0, child = fork();
        if (!child)
            _exit(7);
        good += waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 7;
        nap();
    }
    over = 1;
    say(n == good ? "all" : "not all");
    say(alarms > 0 ? ", alarms\n" : ", no alarms\n");
    _exit(3);
}

static void run_until_end(void)
{
    while (now() < end)
        nap();
    say("done\n");
}

static void second(void)
{
    const struct sock_filter all = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    install(&all, 1, 0);
    install_exact(find_call(), SECCOMP_RET_ERRNO | EACCES, 0);
    run_until_end();
}

static void *lock_thread(void *p)
{
    install_exact(find_call(), SECCOMP_RET_ERRNO | EACCES, 0);
    while (!over)
        nap();
    return p;
}

static void thread(void)
{
    pthread_t t;
    pthread_create(&t, NULL, lock_thread, NULL);
    run_until_end();
    over = 1;
    _exit(0);
}

static void place(void)
{
    const struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, instruction_pointer) + 4),
        BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, 0, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
    };
    install(code, 4, 0);
    run_until_end();
}

/* seccomp's first mode: it reads its standard input to the end. */
static void strict(void)
{
    char c;
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT))
        fail("no strict mode");
    while (read(0, &c, 1) > 0)
        ;
    say("done\n");
    syscall(SYS_exit, 0);
}

static volatile long trapped_nr, trapped_code, at_call;

static void on_trap(int signo, siginfo_t *info, void *context)
{
    greg_t *g = ((ucontext_t *)context)->uc_mcontext.gregs;
    trapped_nr = signo == SIGSYS ? info->si_syscall : 0;
    trapped_code = info->si_code;
    at_call = (uintptr_t)info->si_call_addr == (uintptr_t)g[REG_RIP] && *(const uint16_t *)(g[REG_RIP] - 2) == 0x050f && g[REG_RAX] == trapped_nr;
    g[REG_RAX] = 4711;
}

/* What a filter makes of the program's calls: each answer there is, but death. */
static long ask(void)
{
    errno = 0;
    long sum = syscall(SYS_getppid) == 4711 && trapped_nr == SYS_getppid && trapped_code == 1 && at_call;
    sum += 2 * (syscall(SYS_getpgrp) == -1 && errno == ENOSYS);
    sum += 4 * (syscall(SYS_getsid, 0) == -1 && errno == 77);
    return sum + 8 * (syscall(SYS_fork) == 4711);
}

static void *ask_in_thread(void *p)
{
    *(long *)p = ask();
    return NULL;
}

/* … in it, a thread and a child. */
static void answers(void)
{
    const struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_fork, 1, 0), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getppid, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getpgrp, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRACE),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getsid, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | 77),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sigaction a = {.sa_sigaction = on_trap, .sa_flags = SA_SIGINFO};
    sigaction(SIGSYS, &a, NULL);
    install(code, sizeof code / sizeof *code, 0);
    long all = 15;
    for (; now() < end; nap()) {
        long in_thread = 0;
        int status = 0;
        pthread_t t;
        all &= ask();
        pthread_create(&t, NULL, ask_in_thread, &in_thread);
        pthread_join(t, NULL);
        pid_t child = fork();
        if (!child)
            _exit((int)ask());
        waitpid(child, &status, 0);
        all &= in_thread & WEXITSTATUS(status);
    }
    printf("%ld\n", all);
}

/* What it executes has the filter, too. */
static void executes(void)
{
    const struct sock_filter all = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    install(&all, 1, 0);
    long n = 0, good = 0;
    for (; now() < end; n++, nap()) {
        int status = 0, child = fork();
        if (!child)
            execl("/proc/self/exe", "locked", "place", "0", (char *)NULL);
        good += waitpid(child, &status, 0) == child && !status;
    }
    printf("%s\n", n == good ? "all" : "not all");
}

/* Half of the time without a filter, then with one that lets the program's calls pass only: TSYNC, as there is a second thread. */
static void later(void)
{
    static const uint32_t own[] = {SYS_write, SYS_clock_nanosleep, SYS_clock_gettime, SYS_exit_group};
    struct sock_filter code[16] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr))};
    size_t n = 1;
    pthread_t t;
    double middle = (now() + end) / 2;
    written = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    pthread_create(&t, NULL, write_code, NULL);
    while (now() < middle)
        nap();
    for (size_t i = 0; i < sizeof own / sizeof *own; i++) {
        code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, own[i], 0, 1);
        code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    }
    code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
    install(code, n, SECCOMP_FILTER_FLAG_TSYNC);
    run_until_end();
    _exit(0);
}

/* One long wait; a filter that lets nothing of what goes on with it pass. */
static void waits(void)
{
    const struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_restart_syscall, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    install(code, 4, 0);
    double left = end - now();
    struct timespec t = {(time_t)left, (long)((left - (double)(time_t)left) * 1e9)};
    printf("%d\n", clock_nanosleep(CLOCK_MONOTONIC, 0, &t, NULL));
}

static const struct kind {
    const char *name;
    void (*run)(void);
} kinds[] = {{"exact", exact}, {"second", second}, {"thread", thread}, {"place", place}, {"strict", strict}, {"answers", answers},
             {"executes", executes}, {"later", later}, {"waits", waits}};

int main(int argc, char **argv)
{
    if (argc < 3)
        return 2;
    end = now() + atof(argv[2]);
    words = argv[3];
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (!strcmp(kinds[i].name, argv[1])) {
            if (strcmp(argv[2], "0"))
                kinds[i].run();
            return 0;
        }
    return 2;
}
