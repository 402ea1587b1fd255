/* SPDX-License-Identifier: MIT
 * A signal storm: timers, nested handlers, an alternate stack, restarted and interrupted calls,
 * faults that are mended. */
#define _GNU_SOURCE
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static volatile int alarms, nested, mended, jumped, chlds;
static char *page;
static sigjmp_buf back;

static void on_alarm(int s)
{
    (void)s;
    alarms++;
    if (alarms % 3 == 0)
        raise(SIGUSR1);
}

static void on_usr1(int s) { nested += s == SIGUSR1; }
static void on_chld(int s) { chlds += s == SIGCHLD; }

static void on_segv(int s, siginfo_t *info, void *context)
{
    (void)s, (void)context;
    if ((char *)info->si_addr >= page && (char *)info->si_addr < page + 8192) {
        mended++;
        mprotect(page + 4096, 4096, PROT_READ | PROT_WRITE);
        return;
    }
    jumped++;
    siglongjmp(back, 1);
}

static void on_ill(int s, siginfo_t *info, void *context)
{
    (void)s, (void)info;
    ((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP] += 2; /* over ud2 */
    mended++;
}

static void handle(int s, void (*f)(int), int flags)
{
    struct sigaction a = {.sa_handler = f, .sa_flags = flags};
    sigaction(s, &a, NULL);
}

int main(void)
{
    static char stack[65536];
    stack_t alt = {.ss_sp = stack, .ss_size = sizeof stack};
    sigaltstack(&alt, NULL);
    handle(SIGALRM, on_alarm, SA_RESTART);
    handle(SIGUSR1, on_usr1, SA_ONSTACK);
    handle(SIGCHLD, on_chld, SA_RESTART);
    struct sigaction a = {.sa_sigaction = on_segv, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    sigaction(SIGSEGV, &a, NULL);
    a.sa_sigaction = on_ill;
    sigaction(SIGILL, &a, NULL);
    __asm__ volatile("ud2");

    /* A rep that faults in the middle, is mended and goes on. */
    page = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    mprotect(page + 4096, 4096, PROT_NONE);
    char *to = page + 4000;
    unsigned long n = 200;
    __asm__ volatile("rep stosb" : "+D"(to), "+c"(n) : "a"(7) : "memory");
    if (!sigsetjmp(back, 1))
        *(volatile char *)16 = 1;

    struct itimerval fast = {{0, 3000}, {0, 3000}}, off = {{0, 0}, {0, 0}};
    setitimer(ITIMER_REAL, &fast, NULL);
    unsigned h = 0;
    for (int i = 0; i < 20000 || alarms < 20; i++)
        h = h * 31 + (unsigned)i;
    /* SA_RESTART: read comes back with the byte, not with EINTR. */
    int p[2];
    if (pipe(p))
        return 1;
    if (!fork()) {
        setitimer(ITIMER_REAL, &off, NULL);
        struct timespec t = {0, 30000000};
        nanosleep(&t, NULL);
        _exit(write(p[1], "x", 1) != 1);
    }
    char c;
    int got = (int)read(p[0], &c, 1);
    /* nanosleep is interrupted by a handler: EINTR. */
    struct timespec t = {1, 0};
    int slept = nanosleep(&t, NULL), why = slept ? errno : 0;
    setitimer(ITIMER_REAL, &off, NULL);
    int status;
    while (wait(&status) < 0 && errno == EINTR)
        ;
    /* Blocked, then pending, then both at once. */
    sigset_t two, old;
    sigemptyset(&two);
    sigaddset(&two, SIGUSR1);
    sigaddset(&two, SIGALRM);
    sigprocmask(SIG_BLOCK, &two, &old);
    int before = nested;
    alarms = 0;
    kill(getpid(), SIGUSR1);
    kill(getpid(), SIGALRM);
    sigprocmask(SIG_SETMASK, &old, NULL);
    printf("%d %d %d %d %d %d %d %d\n", mended, jumped, got, slept, why == EINTR, nested - before,
           alarms, chlds);
    return nested > 5 ? 0 : 2;
}
