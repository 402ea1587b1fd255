/* SPDX-License-Identifier: MIT
 * Guests about signals that are hard to deliver: many at once, without room for a frame, of which nothing is wanted any more. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include "guests.h"

static volatile sig_atomic_t got[65];

static void note(int signo)
{
    got[signo]++;
}

static void handle(int signo)
{
    struct sigaction a = {.sa_handler = note};
    sigaction(signo, &a, NULL);
}

static void block(int signo)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, signo);
    sigprocmask(SIG_BLOCK, &set, NULL);
}

static const int numbers[] = {SIGILL, SIGTRAP, SIGBUS, SIGFPE, SIGSEGV, SIGUSR1, SIGUSR2};
enum { NUMBERS = sizeof numbers / sizeof numbers[0] };

/* What a stopped process is sent comes all at once when it goes on. */
int guest_sent_together(void)
{
    int ready[2], status;
    char byte;
    if (pipe(ready))
        return 1;
    pid_t child = fork();
    if (!child) {
        for (int i = 0; i < NUMBERS; i++)
            handle(numbers[i]);
        if (write(ready[1], "", 1) != 1)
            _exit(1);
        while (!got[SIGUSR2])
            ;
        for (int i = 0; i < NUMBERS; i++)
            printf("%d ", (int)got[numbers[i]]);
        printf("\n");
        fflush(stdout);
        _exit(0);
    }
    if (read(ready[0], &byte, 1) != 1)
        return 2;
    kill(child, SIGSTOP);
    waitpid(child, &status, WUNTRACED);
    for (int i = 0; i < NUMBERS; i++)
        kill(child, numbers[i]);
    kill(child, SIGCONT);
    waitpid(child, &status, 0);
    printf("%x\n", status);
    return 0;
}

#define WITHOUT_STACK(code) __asm__ volatile("mov %%rsp, %%rbx\n mov $16, %%esp\n" code "\n mov %%rbx, %%rsp" : : : "rax", "rbx", "rcx", "rdx", "rsi", "rdi", "r11", "memory")

static void be_sent(void)
{
    WITHOUT_STACK("mov $39, %%eax\n syscall\n mov %%eax, %%edi\n mov $10, %%esi\n mov $62, %%eax\n syscall");
}

static void divide(void)
{
    WITHOUT_STACK("xor %%ecx, %%ecx\n xor %%edx, %%edx\n div %%ecx");
}

/* The kernel takes no handler without a restorer. */
static void be_sent_what_does_not_return(void)
{
    struct { void (*handler)(int); uint64_t flags, restorer, mask; } a = {note, 0, 0, 0};
    syscall(SYS_rt_sigaction, SIGUSR1, &a, NULL, 8);
    raise(SIGUSR1);
}

/* … while a wait has SIGSEGV blocked. */
static void be_sent_at_wait(void)
{
    sigset_t fault;
    sigemptyset(&fault);
    sigaddset(&fault, SIGSEGV);
    block(SIGUSR1);
    be_sent_what_does_not_return();
    ppoll(NULL, 0, NULL, &fault);
}

/* A frame that has no room is SIGSEGV, which ends a process that blocks it, even where what follows does not fault. */
int guest_no_room(void)
{
    static void (*const ways[])(void) = {be_sent, divide, be_sent_what_does_not_return, be_sent_at_wait};
    for (int i = 0; i < 8; i++) {
        int status;
        pid_t child = fork();
        if (!child) {
            handle(SIGSEGV);
            handle(SIGUSR1);
            handle(SIGFPE);
            if (i & 1)
                block(SIGSEGV);
            ways[i / 2]();
            _exit(3 + (int)got[SIGSEGV]);
        }
        waitpid(child, &status, 0);
        printf("%d: %x\n", i, status & 0xff7f);
        fflush(stdout);
    }
    return 0;
}

/* A pending signal that is ignored is gone, though a handler comes later. */
int guest_ignored_pending(void)
{
    for (int i = 0; i < NUMBERS; i++) {
        sigset_t pending, all;
        handle(numbers[i]);
        block(numbers[i]);
        raise(numbers[i]);
        signal(numbers[i], SIG_IGN);
        sigpending(&pending);
        handle(numbers[i]);
        sigfillset(&all);
        sigprocmask(SIG_UNBLOCK, &all, NULL);
        printf("%d: pending %d, got %d\n", numbers[i], sigismember(&pending, numbers[i]), (int)got[numbers[i]]);
    }
    return 0;
}

static void show_mask(int signo)
{
    sigset_t now;
    sigprocmask(SIG_BLOCK, NULL, &now);
    for (int i = 1; i <= 64; i++)
        if (sigismember(&now, i) == 0)
            printf("handler of %d: %d is not blocked\n", signo, i);
    fflush(stdout);
}

/* A wait with a mask of all but the signal that comes then, which has an action or ends the process, though others wait that have handlers. */
int guest_waited_with_one_open(void)
{
    static const int ends[] = {SIGALRM, SIGQUIT, SIGBUS, SIGUSR2, SIGTRAP};
    for (int i = 0; i < 10; i++) {
        int status;
        pid_t child = fork();
        if (!child) {
            sigset_t all, wait;
            handle(SIGCHLD);
            handle(SIGSEGV);
            signal(ends[i / 2], i % 2 ? show_mask : SIG_DFL);
            sigfillset(&all);
            sigprocmask(SIG_SETMASK, &all, NULL);
            raise(SIGCHLD);
            raise(SIGSEGV);
            raise(ends[i / 2]);
            wait = all;
            sigdelset(&wait, ends[i / 2]);
            sigsuspend(&wait);
            _exit(3 + got[SIGCHLD] + 2 * got[SIGSEGV]);
        }
        waitpid(child, &status, 0);
        printf("%d: %x\n", i, status & 0xff7f);
        fflush(stdout);
    }
    return 0;
}

static void say(int signo)
{
    printf("%d ", signo);
}

static void let_all_in(int signo, siginfo_t *info, void *context)
{
    (void)signo, (void)info;
    sigemptyset(&((ucontext_t *)context)->uc_sigmask);
}

/* Those of faults and others, pending together, in the kernel's order: by a change of the mask, a wait, and a handler's return. */
int guest_let_in_together(void)
{
    static const int together[] = {SIGUSR1, SIGSEGV, SIGTRAP, SIGHUP, SIGUSR2, SIGILL};
    sigset_t all, none;
    sigemptyset(&none);
    sigfillset(&all);
    sigdelset(&all, SIGALRM);
    sigaction(SIGALRM, &(struct sigaction){.sa_sigaction = let_all_in, .sa_flags = SA_SIGINFO}, NULL);
    for (int way = 0; way < 3; way++)
        for (unsigned n = 1; n < 1u << 6; n++) {
            sigprocmask(SIG_SETMASK, &all, NULL);
            for (unsigned i = 0; i < 6; i++) {
                signal(together[i], say);
                if (n >> i & 1)
                    raise(together[i]);
            }
            if (way == 0)
                sigprocmask(SIG_SETMASK, &none, NULL);
            else if (way == 1)
                sigsuspend(&none);
            else
                raise(SIGALRM);
            printf("\n");
        }
    return 0;
}

/* Timed waits right behind an exec that fails. */
int guest_waited_behind_exec(void)
{
    struct timespec time = {0, 3000000};
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    for (int i = 0; i < 50; i++) {
        execl("/none/such", "such", (char *)NULL);
        int signo = sigtimedwait(&set, NULL, &time);
        printf("%d: %s\n", signo, strerror(errno));
    }
    return 0;
}

/* A wait that lets a pending signal in, and whose descriptor is ready or is not: what is ready comes first, and the signal waits on. */
int guest_waited_while_ready(void)
{
    int ends[2];
    struct timespec none = {0, 0};
    if (pipe(ends))
        return 1;
    handle(SIGSEGV);
    handle(SIGUSR1);
    for (int i = 0; i < 4; i++) {
        int signo = i & 1 ? SIGUSR1 : SIGSEGV, ready, behind;
        struct pollfd p = {ends[0], POLLIN, 0};
        sigset_t open, pending;
        sigemptyset(&open);
        block(signo);
        raise(signo);
        if (i & 2 && write(ends[1], "", 1) != 1)
            return 2;
        ready = ppoll(&p, 1, &none, &open);
        behind = (int)got[signo];
        sigpending(&pending);
        printf("%d: ppoll %d, handled %d, pending %d\n", i, ready, behind, sigismember(&pending, signo));
        sigprocmask(SIG_SETMASK, &open, NULL);
        printf("handled %d\n", (int)got[signo]);
    }
    return 0;
}

/* sigtimedwait with what the kernel refuses takes no signal. */
int guest_waited_in_vain(void)
{
    static const struct timespec bad[] = {{0, -1}, {0, 1000000000}, {-1, 0}};
    const struct timespec *limits[] = {&bad[0], &bad[1], &bad[2], (void *)8, &(struct timespec){0, 0}};
    sigset_t set, pending;
    handle(SIGSEGV);
    block(SIGSEGV);
    raise(SIGSEGV);
    sigprocmask(SIG_BLOCK, NULL, &set);
    for (int i = 0; i < 5; i++) {
        long r = syscall(SYS_rt_sigtimedwait, &set, NULL, limits[i], 8);
        sigpending(&pending);
        printf("%ld %s, pending %d\n", r, r < 0 ? strerror(errno) : "", sigismember(&pending, SIGSEGV));
    }
    return 0;
}

/* A signal that is pending for the process and for the thread is both. */
int guest_sent_twice(void)
{
    static const struct timespec none = {0, 0};
    sigset_t open;
    sigemptyset(&open);
    handle(SIGBUS);
    for (int i = 0; i < 2; i++) {
        block(SIGBUS);
        kill(getpid(), SIGBUS);
        raise(SIGBUS);
        int r = i ? ppoll(NULL, 0, &none, &open) : sigprocmask(SIG_SETMASK, &open, NULL);
        printf("%d, handled %d\n", r, (int)got[SIGBUS]);
        sigprocmask(SIG_SETMASK, &open, NULL);
        printf("handled %d\n", (int)got[SIGBUS]);
    }
    return 0;
}

static char alternate[3][1 << 16];
static const stack_t *put_into_frame;

static void show(const char *what, int r, const stack_t *s)
{
    int which = -1;
    for (int i = 0; i < 3; i++)
        which = s->ss_sp == alternate[i] ? i : which;
    printf("%s: %d %s, stack %d, flags %x, %zu bytes\n", what, r, r ? strerror(errno) : "", s->ss_sp ? which : -2, (unsigned)s->ss_flags, s->ss_size);
}

static void show_frame(int signo, siginfo_t *info, void *context)
{
    stack_t now, *framed = &((ucontext_t *)context)->uc_stack;
    (void)signo, (void)info;
    show("frame", 0, framed);
    show("now", sigaltstack(NULL, &now), &now);
    if (put_into_frame)
        *framed = *put_into_frame;
}

static void frame_of(const stack_t *put)
{
    stack_t now;
    put_into_frame = put;
    raise(SIGUSR1);
    show("behind", sigaltstack(NULL, &now), &now);
}

static void *frame_in_thread(void *arg)
{
    frame_of(arg);
    return NULL;
}

/* Alternate stacks as the call takes them, as frames show them, and as what returns by a frame sets them. */
int guest_alternates(void)
{
    enum { AUTODISARM = 1 << 31, SIZE = sizeof alternate[0] };
    static const stack_t sets[] = {{alternate[0], 0, SIZE}, {alternate[1], SS_ONSTACK, SIZE}, {alternate[2], AUTODISARM, SIZE}, {alternate[0], 5, SIZE},
        {alternate[0], 0, 2047}, {alternate[1], AUTODISARM | SS_ONSTACK, SIZE}, {alternate[1], SS_DISABLE, SIZE}, {NULL, 0, 0}, {alternate[1], AUTODISARM | SS_DISABLE, SIZE}};
    enum { SETS = sizeof sets / sizeof sets[0] };
    struct sigaction a = {.sa_sigaction = show_frame, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    stack_t old;
    pthread_t t;
    sigaction(SIGUSR1, &a, NULL);
    if (!pthread_create(&t, NULL, frame_in_thread, NULL))
        pthread_join(t, NULL);
    for (int i = 0; i < SETS; i++) {
        old = (stack_t){0};
        show("set", sigaltstack(&sets[i], &old), &old);
        frame_of(NULL);
    }
    a.sa_flags = SA_SIGINFO;
    sigaction(SIGUSR1, &a, NULL);
    for (int i = 0; i < SETS; i++)
        frame_of(&sets[i]);
    return 0;
}

static void place_frame(int signo, siginfo_t *info, void *context)
{
    (void)signo, (void)info;
    printf("frame on page %td\n", ((char *)context - alternate[1]) / 4096);
    fflush(stdout);
}

static void be_sent_at(char *sp)
{
    long pid = getpid(), tid = syscall(SYS_gettid), r = SYS_tgkill, signo = SIGUSR1;
    __asm__ volatile("mov %%rsp, %%rbx\n mov %4, %%rsp\n syscall\n mov %%rbx, %%rsp"
                     : "+a"(r) : "D"(pid), "S"(tid), "d"(signo), "r"(sp) : "rbx", "rcx", "r11", "memory");
}

/* Who has left about a red zone of the alternate stack, or is as near above it. */
int guest_alternate_edges(void)
{
    static const int places[] = {1, 64, 127, 128, 129, 192, -192, -129, -128, -127, -64, -1, 0};
    struct sigaction a = {.sa_sigaction = place_frame, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    stack_t s = {alternate[1], 0, sizeof alternate[1]};
    sigaction(SIGUSR1, &a, NULL);
    for (unsigned i = 0; i < sizeof places / sizeof places[0]; i++) {
        int status;
        fflush(stdout);
        if (!fork()) {
            sigaltstack(&s, NULL);
            be_sent_at(places[i] > 0 ? alternate[1] + places[i] : alternate[2] - places[i]);
            _exit(0);
        }
        wait(&status);
        printf("%d: %x\n", places[i], status & 0xff7f);
    }
    return 0;
}

static void wait_to_be_stopped(void)
{
    struct epoll_event event;
    sigset_t blocked;
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGHUP);
    sigaddset(&blocked, SIGCONT);
    signal(SIGHUP, say);
    signal(SIGCONT, say);
    int all = epoll_create1(0);
    int r = epoll_pwait(all, &event, 1, -1, &blocked);
    printf("%d %s\n", r, strerror(errno));
    fflush(stdout);
    _exit(0);
}

/* Until the child is in that call, or ten seconds. */
static void wait_for_call(pid_t child, long nr)
{
    char path[32];
    long now = -1;
    snprintf(path, sizeof path, "/proc/%d/syscall", child);
    for (int i = 0; i < 10000 && now != nr; i++) {
        FILE *f = fopen(path, "r");
        if (!f || fscanf(f, "%ld", &now) != 1)
            now = -1;
        if (f)
            fclose(f);
        usleep(1000);
    }
}

/* A stop ends epoll_pwait, and with it the mask of that. What it kept away comes then, all at once. */
int guest_stopped_at_wait(void)
{
    int status;
    pid_t child = fork();
    if (!child)
        wait_to_be_stopped();
    wait_for_call(child, SYS_epoll_pwait);
    kill(child, SIGHUP);
    kill(child, SIGSTOP);
    waitpid(child, &status, WUNTRACED);
    kill(child, SIGCONT);
    waitpid(child, &status, 0);
    printf("%x\n", status);
    return 0;
}

/* Signals of faults that are sent to the process, where the first thread blocks them: whoever does not, or waits for them, gets them. */
static pthread_t first_thread;
static sem_t may_go, has_gone;

static void tell_thread(int signo)
{
    printf("%d in the %s thread\n", signo, pthread_equal(pthread_self(), first_thread) ? "first" : "other");
    sem_post(&has_gone);
}

static void tell_pending(const char *who)
{
    sigset_t pending;
    sigpending(&pending);
    printf("%s: %d %d\n", who, sigismember(&pending, SIGSEGV), sigismember(&pending, SIGBUS));
}

static void *let_in(void *set)
{
    siginfo_t info = {0};
    pthread_sigmask(SIG_UNBLOCK, set, NULL);
    sem_post(&has_gone); /* 1: does not block */
    sem_wait(&may_go);
    pthread_sigmask(SIG_BLOCK, set, NULL);
    sem_post(&has_gone); /* 2: all block */
    sem_wait(&may_go);
    tell_pending("the other thread");
    pthread_sigmask(SIG_UNBLOCK, set, NULL);
    pthread_sigmask(SIG_BLOCK, set, NULL);
    tell_pending("the other thread");
    sem_post(&has_gone); /* 3: waits */
    int signo = sigwaitinfo(set, &info);
    printf("%d, code %d errno %d, of us: %d\n", signo, info.si_code, info.si_errno, info.si_pid == getpid());
    return NULL;
}

static void wait_twice(void)
{
    for (int i = 0; i < 2; i++)
        while (sem_wait(&has_gone))
            ;
}

int guest_sent_to_process(void)
{
    sigset_t set;
    pthread_t t;
    first_thread = pthread_self();
    sigemptyset(&set);
    sigaddset(&set, SIGSEGV);
    sigaddset(&set, SIGBUS);
    signal(SIGSEGV, tell_thread);
    signal(SIGBUS, tell_thread);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    if (sem_init(&may_go, 0, 0) || sem_init(&has_gone, 0, 0) || pthread_create(&t, NULL, let_in, &set))
        return 1;
    while (sem_wait(&has_gone))
        ;
    kill(getpid(), SIGSEGV);
    sem_wait(&has_gone);
    sem_post(&may_go);
    sem_wait(&has_gone);
    kill(getpid(), SIGBUS);
    tell_pending("the first thread");
    fflush(stdout);
    if (!fork()) {
        tell_pending("a child");
        fflush(stdout);
        _exit(0);
    }
    wait(NULL);
    sem_post(&may_go);
    wait_twice();
    usleep(100000);
    kill(getpid(), SIGSEGV);
    pthread_join(t, NULL);
    sigqueue(getpid(), SIGBUS, (union sigval){.sival_int = 1});
    tell_pending("the first thread");
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
    tell_pending("the first thread");
    return 0;
}

static void *take_bus(void *set)
{
    pthread_sigmask(SIG_UNBLOCK, set, NULL);
    sem_post(&may_go);
    sem_wait(&has_gone);
    return NULL;
}

/* A timer's is for the process, too, as the kernel has it. */
int guest_timed_for_process(void)
{
    struct sigevent e = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGBUS};
    struct itimerspec soon = {.it_value = {0, 1000000}};
    struct timespec last = {time(NULL) + 20, 0};
    sigset_t set;
    timer_t timer;
    pthread_t t;
    first_thread = pthread_self();
    signal(SIGBUS, tell_thread);
    sigemptyset(&set);
    sigaddset(&set, SIGBUS);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    if (sem_init(&may_go, 0, 0) || sem_init(&has_gone, 0, 0) || pthread_create(&t, NULL, take_bus, &set))
        return 1;
    sem_wait(&may_go);
    timer_create(CLOCK_MONOTONIC, &e, &timer);
    timer_settime(timer, 0, &soon, NULL);
    pthread_clockjoin_np(t, NULL, CLOCK_REALTIME, &last);
    return 0;
}

static void *suspend(void *mask)
{
    sem_post(&may_go);
    sigsuspend(mask);
    return NULL;
}

/* Sent to the process while another thread waits with a mask that lets it in. */
int guest_sent_to_suspended(void)
{
    struct timespec last = {time(NULL) + 20, 0};
    sigset_t open;
    pthread_t t;
    first_thread = pthread_self();
    signal(SIGFPE, tell_thread);
    sigprocmask(SIG_BLOCK, NULL, &open);
    block(SIGFPE);
    if (sem_init(&may_go, 0, 0) || sem_init(&has_gone, 0, 0) || pthread_create(&t, NULL, suspend, &open))
        return 1;
    sem_wait(&may_go);
    usleep(200000);
    kill(getpid(), SIGFPE);
    printf("joined %d\n", pthread_clockjoin_np(t, NULL, CLOCK_REALTIME, &last));
    return 0;
}

static void *end_all(void *unused)
{
    kill(getpid(), SIGTERM);
    _exit(3);
    return unused;
}

/* Who ends its process by a signal that another thread gets comes to nothing behind it. */
int guest_ended_by_thread(void)
{
    for (int i = 0; i < 20; i++) {
        int status;
        pthread_t t;
        if (!fork() && !pthread_create(&t, NULL, end_all, NULL))
            for (;;)
                pause();
        wait(&status);
        printf("%x\n", status);
        fflush(stdout);
    }
    return 0;
}

/* Where no signal may be queued, kill's of real-time signals are sent all the same, and end programs. */
int guest_unqueued(void)
{
    struct rlimit limit;
    int status;
    getrlimit(RLIMIT_SIGPENDING, &limit);
    limit.rlim_cur = 0;
    if (!fork()) {
        setrlimit(RLIMIT_SIGPENDING, &limit);
        handle(SIGRTMIN + 1);
        int r = kill(getpid(), SIGRTMIN + 1);
        printf("%d, handled %d\n", r, (int)got[SIGRTMIN + 1]);
        fflush(stdout);
        kill(getpid(), SIGRTMIN);
        _exit(3);
    }
    wait(&status);
    printf("%x\n", status);
    return 0;
}

#define FAULT(name, code) static void fault_##name(void) { __asm__ volatile(code : : : "rax", "rcx", "rdx", "cc", "memory"); }
FAULT(int4, "int $4")
FAULT(int3, "int3")
FAULT(int1, ".byte 0xf1")
FAULT(int129, "int $0x81")
FAULT(hlt, "hlt")
FAULT(ud2, "ud2")
FAULT(div, "xor %%ecx, %%ecx\n div %%ecx")
FAULT(null, "xor %%eax, %%eax\n movb $1, 8(%%rax)")
FAULT(nowhere, "mov $0x80000000, %%eax\n shl $32, %%rax\n jmp *%%rax")
FAULT(kernel, "mov $0xffff8000, %%eax\n shl $32, %%rax\n jmp *%%rax")

static const struct fault {
    const char *name;
    int signo;
    void (*run)(void);
} faults[] = {{"INT 4", SIGSEGV, fault_int4}, {"INT3", SIGTRAP, fault_int3}, {"INT1", SIGTRAP, fault_int1}, {"INT 129", SIGSEGV, fault_int129},
    {"HLT", SIGSEGV, fault_hlt}, {"UD2", SIGILL, fault_ud2}, {"DIV", SIGFPE, fault_div}, {"a null pointer", SIGSEGV, fault_null},
    {"a jump nowhere", SIGSEGV, fault_nowhere}, {"a jump into the kernel", SIGSEGV, fault_kernel}};

static sigjmp_buf behind;

static void show_fault(int signo, siginfo_t *info, void *context)
{
    const greg_t *g = ((ucontext_t *)context)->uc_mcontext.gregs;
    printf("signal %d code %d, vector %lld, error %llx, TF and RF %llx; ", signo, info->si_code, g[REG_TRAPNO], g[REG_ERR], g[REG_EFL] & 0x10100);
    siglongjmp(behind, 1);
}

static void tell_fault(const struct fault *f)
{
    struct sigaction a = {.sa_sigaction = show_fault, .sa_flags = SA_SIGINFO};
    sigaction(f->signo, &a, NULL);
    if (!sigsetjmp(behind, 1))
        f->run();
}

static void end_by(const struct fault *f, int how)
{
    int status;
    fflush(stdout);
    pid_t child = fork();
    if (!child) {
        if (how < 2)
            signal(f->signo, how ? SIG_IGN : SIG_DFL);
        else
            block(f->signo);
        f->run();
        _exit(1);
    }
    waitpid(child, &status, 0);
    printf("%x ", status & 0xff7f);
}

/* What a fault tells its handler; and how it ends who has none, ignores its signal or blocks it. */
int guest_faults_shown(void)
{
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
        tell_fault(&faults[i]);
        for (int how = 0; how < 3; how++)
            end_by(&faults[i], how);
        printf("%s\n", faults[i].name);
    }
    return 0;
}
