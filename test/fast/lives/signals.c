/* SPDX-License-Identifier: MIT
 * Acts of signals: how they are taken, blocked, sent and waited for. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include "lives.h"

static const int numbers[] = {SIGHUP, SIGINT, SIGUSR1, SIGSEGV, SIGUSR2,  SIGPIPE,   SIGALRM, SIGTERM, SIGCHLD, SIGBUS,
                              SIGURG, SIGFPE, SIGILL,  SIGTRAP, SIGWINCH, SIGVTALRM, 34,      40,      41,      64};
enum { NUMBERS = sizeof numbers / sizeof numbers[0] };
static const int of_faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP};

volatile uint64_t resume_at, resume_stack;
static _Thread_local sigjmp_buf out;
static _Thread_local bool may_jump;
static _Thread_local int nested;
enum { NESTED_MAX = 3, ALTERNATE_BYTES = 1 << 16 };
static __thread char alternate[ALTERNATE_BYTES] __attribute__((aligned(16)));

int some_signal(void)
{
    return numbers[below(NUMBERS)];
}

bool is_of_faults(int signo)
{
    for (size_t i = 0; i < sizeof of_faults / sizeof of_faults[0]; i++)
        if (of_faults[i] == signo)
            return true;
    return false;
}

static int some_other(void)
{
    int signo;
    do
        signo = some_signal();
    while (is_of_faults(signo));
    return signo;
}

sigset_t blocked(void)
{
    sigset_t set;
    pthread_sigmask(SIG_BLOCK, NULL, &set);
    return set;
}

sigset_t some_set(void)
{
    sigset_t set;
    sigemptyset(&set);
    for (unsigned n = below(5); n; n--)
        sigaddset(&set, some_signal());
    return set;
}

const char *names(const sigset_t *set, char text[static 256])
{
    char *p = text;
    *p = 0;
    for (int s = 1; s <= SIGRTMAX; s++)
        if (sigismember(set, s) == 1 && p - text < 240)
            p += sprintf(p, " %d", s);
    return text;
}

static bool on_alternate(const void *here)
{
    return (const char *)here >= alternate && (const char *)here < alternate + ALTERNATE_BYTES;
}

/* What an instruction raised goes on where the act says. */
static bool put_right(const siginfo_t *info, ucontext_t *uc)
{
    if (info->si_code <= 0 || !is_of_faults(info->si_signo))
        return false;
    if (!resume_at)
        _exit(97);
    uc->uc_mcontext.gregs[REG_RIP] = (greg_t)resume_at;
    uc->uc_mcontext.gregs[REG_RSP] = (greg_t)resume_stack;
    resume_at = resume_stack = 0;
    return true;
}

static void tell_info(int signo, const siginfo_t *info, const ucontext_t *uc)
{
    char text[256];
    bool fault = info->si_code > 0 && is_of_faults(signo);
    const greg_t *g = uc->uc_mcontext.gregs;
    tell("  handler of %d, code %d, value %d, %s%s, trap %d, err %d, saved mask%s", signo, info->si_code,
         info->si_code == SI_QUEUE ? info->si_value.sival_int : 0, on_alternate(&fault) ? "alternate" : "stack",
         info->si_code <= 0 && info->si_code != SI_TIMER ? info->si_pid == getpid() ? ", mine" : ", another's" : "", fault ? (int)g[REG_TRAPNO] : 0,
         fault ? (int)g[REG_ERR] : 0, names(&uc->uc_sigmask, text));
    sigset_t set = blocked();
    tell("  blocks%s", names(&set, text));
}

static void take_signal(int signo, siginfo_t *info, void *context)
{
    ucontext_t *uc = context;
    tell_info(signo, info, uc);
    if (put_right(info, uc))
        return;
    if (nested >= NESTED_MAX)
        return;
    nested++;
    switch (below(8)) {
    case 0: raise(some_other()); break;
    case 1: sigaddset(&uc->uc_sigmask, some_other()); break;
    case 2: sigdelset(&uc->uc_sigmask, some_signal()); break;
    case 3: act_fault(); break;
    case 4:
        if (may_jump) {
            nested = 0;
            siglongjmp(out, 1);
        }
        break;
    default: break;
    }
    nested--;
}

static void take_simply(int signo)
{
    tell("  simple handler of %d", signo);
}

static const char *kind(const struct sigaction *a)
{
    return a->sa_handler == SIG_DFL ? "default" : a->sa_handler == SIG_IGN ? "ignored" : a->sa_sigaction == take_signal ? "taken" : "simple";
}

static const int flags[] = {SA_RESTART, SA_NODEFER, SA_ONSTACK, (int)SA_RESETHAND, SA_NOCLDWAIT, SA_NOCLDSTOP};

static struct sigaction some_action(int signo)
{
    struct sigaction a = {.sa_mask = some_set()};
    unsigned how = below(40);
    if (how < (is_of_faults(signo) ? 36u : 30u))
        a.sa_sigaction = take_signal, a.sa_flags = SA_SIGINFO;
    else if (how < 36)
        a.sa_handler = take_simply;
    else
        a.sa_handler = how < 39 ? SIG_IGN : SIG_DFL;
    for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++)
        if (one_in(flags[i] == (int)SA_RESETHAND ? 16 : 4))
            a.sa_flags |= flags[i];
    return a;
}

void begin(void)
{
    for (int i = 0; i < NUMBERS; i++) {
        struct sigaction a = some_action(numbers[i]);
        sigaction(numbers[i], &a, NULL);
    }
}

void act_act(void)
{
    int signo = some_signal();
    struct sigaction a = some_action(signo), old;
    char text[256];
    if (sigaction(signo, &a, &old))
        tell(" error %d", errno);
    else
        tell(" %d %s %x, was %s %x%s", signo, kind(&a), (unsigned)a.sa_flags, kind(&old), (unsigned)old.sa_flags, names(&old.sa_mask, text));
}

void act_mask(void)
{
    sigset_t set = some_set(), old;
    char text[256];
    int how = (int)below(3);
    tell(" how %d%s", how, names(&set, text));
    pthread_sigmask(how, &set, &old);
    tell(" was%s", names(&old, text));
}

void act_send(void)
{
    int signo = some_signal(), r;
    tell(" %d", signo);
    switch (below(3)) {
    case 0: r = raise(signo); break;
    case 1: r = (int)syscall(SYS_tkill, syscall(SYS_gettid), signo); break;
    default: r = is_of_faults(signo) ? raise(signo) : kill(getpid(), signo); break;
    }
    tell(" sent %d", r);
}

void act_queue(void)
{
    int signo = some_other();
    for (unsigned n = 1 + below(4); n; n--)
        tell(" queued %d as %d", sigqueue(getpid(), signo, (union sigval){.sival_int = (int)below(100)}), signo);
}

void act_pending(void)
{
    sigset_t set;
    char text[256];
    sigpending(&set);
    tell(" %s", names(&set, text));
}

void act_alternate(void)
{
    stack_t s = {.ss_sp = alternate, .ss_size = ALTERNATE_BYTES, .ss_flags = one_in(3) ? SS_DISABLE : 0}, old;
    int r = sigaltstack(&s, &old);
    tell(" %d, was %x %zu%s", r, (unsigned)old.ss_flags, old.ss_size, old.ss_sp == alternate ? " mine" : "");
}

static void tell_taken(int signo, const siginfo_t *info)
{
    tell(" took %d, code %d, value %d", signo, signo < 0 ? errno : info->si_code,
         signo >= 0 && info->si_code == SI_QUEUE ? info->si_value.sival_int : 0);
}

void act_take(void)
{
    sigset_t set = some_set();
    siginfo_t info;
    char text[256];
    sigaddset(&set, some_signal());
    tell(" of%s", names(&set, text));
    tell_taken(sigtimedwait(&set, &info, &(struct timespec){0, (long)below(2) * 1000000}), &info);
}

void act_from_descriptor(void)
{
    sigset_t set = some_set();
    struct signalfd_siginfo info = {0};
    for (size_t i = 0; i < sizeof of_faults / sizeof of_faults[0]; i++)
        sigdelset(&set, of_faults[i]); /* docs/limits.md */
    int fd = signalfd(-1, &set, SFD_NONBLOCK);
    long n = read(fd, &info, sizeof info);
    tell(" %ld, %u code %d value %d", n, info.ssi_signo, info.ssi_code, info.ssi_code == SI_QUEUE ? info.ssi_int : 0);
    close(fd);
}

/* Does anything of what is pending come where only these are blocked? */
static bool would_come(const sigset_t *mask)
{
    sigset_t set;
    sigpending(&set);
    for (int s = 1; s <= SIGRTMAX; s++) {
        struct sigaction a;
        if (sigismember(&set, s) == 1 && sigismember(mask, s) != 1 && !sigaction(s, NULL, &a) && a.sa_handler != SIG_IGN &&
            !(a.sa_handler == SIG_DFL && (s == SIGCHLD || s == SIGURG || s == SIGWINCH)))
            return true;
    }
    return false;
}

/* All but one: what is pending of that one alone comes. */
static sigset_t all_but(int signo)
{
    sigset_t set;
    sigfillset(&set);
    sigdelset(&set, signo);
    return set;
}

static void tell_return(int r)
{
    tell(" %d, error %d", r, r < 0 ? errno : 0);
}

void act_suspend(void)
{
    int signo = some_other();
    sigset_t set = all_but(signo);
    if (would_come(&set))
        tell_return(sigsuspend(&set));
}

void act_wait_with(void)
{
    int signo = some_other(), r = 0, queue;
    sigset_t set = all_but(signo);
    struct timespec soon = {0, 100000};
    struct epoll_event e;
    tell(" with %d open", signo);
    switch (below(3)) {
    case 0: r = ppoll(NULL, 0, &soon, &set); break;
    case 1: r = pselect(0, NULL, NULL, NULL, &soon, &set); break;
    default:
        queue = epoll_create1(0);
        r = epoll_pwait(queue, &e, 1, 1, &set);
        close(queue);
    }
    tell_return(r);
}

/* A signal that comes while it is waited for, and only then: blocked before. */
static void let_come(int signo, void (*start)(void))
{
    sigset_t only = all_but(signo), old, one;
    struct sigaction a;
    sigaction(signo, NULL, &a);
    sigpending(&old);
    if (a.sa_handler == SIG_IGN || sigismember(&old, signo))
        return;
    sigemptyset(&one);
    sigaddset(&one, signo);
    pthread_sigmask(SIG_BLOCK, &one, &old);
    start();
    tell_return(sigsuspend(&only));
    pthread_sigmask(SIG_SETMASK, &old, NULL);
}

static void start_timer(void)
{
    timer_t timer;
    struct sigevent e = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR2};
    if (!timer_create(CLOCK_MONOTONIC, &e, &timer))
        timer_settime(timer, 0, &(struct itimerspec){.it_value = {0, 200000}}, NULL);
}

void act_timer(void)
{
    let_come(SIGUSR2, start_timer);
}

static void start_interval(void)
{
    setitimer(ITIMER_REAL, &(struct itimerval){.it_value = {0, 300}}, NULL);
}

void act_interval(void)
{
    let_come(SIGALRM, start_interval);
}

void act_jump_out(void)
{
    if (sigsetjmp(out, one_in(2))) {
        char text[256];
        sigset_t set = blocked();
        may_jump = false;
        tell(" back, blocks%s", names(&set, text));
        return;
    }
    may_jump = true;
    act_send();
    act_fault();
    may_jump = false;
}
