/* A program to attach to: threads that work, wait in system calls, stand in a handler. What it prints is the same in each run, unless a
 * wait ends too early, too late or with another error. usage: running SECONDS */
#include <errno.h>
#include <fenv.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile int end, in_handler, leave_handler;
static volatile unsigned long rounds[2], alarms;
static int futex_word, pipe_fd[2], seconds;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void *work(void *p)
{
    while (!end) {
        unsigned x = 27;
        double d = 1;
        for (int i = 0; i < 1000; i++) {
            x = x & 1 ? x * 3 + 1 : x / 2 + (unsigned)i;
            d = d * 1.0000001 + 1e-9;
        }
        if (x != 12713 || d < 1.000101005 || d > 1.000101006)
            exit(printf("wrong: %u %.17g\n", x, d));
        if (++rounds[(long)p] % 2 == 0)
            usleep(5000);
    }
    return p;
}

/* Its code was written when the program ran already: no file has it. */
static void *changed(void *p)
{
    int (*volatile f)(void) = (int (*)(void))p;
    long sum = 0, n = 0;
    while (!end && ++n) {
        sum += f();
        if (n % 1000 == 0)
            usleep(5000);
    }
    printf("changed %d\n", sum == 42 * n);
    return p;
}

static void *wait_read(void *p)
{
    char c = 0;
    long n = read(pipe_fd[0], &c, 1);
    printf("read %ld %c\n", n, c);
    return p;
}

static void *wait_futex(void *p)
{
    printf("futex %ld\n", syscall(SYS_futex, &futex_word, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0));
    return p;
}

static void *wait_epoll(void *p)
{
    struct epoll_event e;
    int r = epoll_wait(epoll_create1(0), &e, 1, seconds * 1000);
    printf("epoll %d %d\n", r, r < 0 ? errno : 0);
    return p;
}

static void *wait_poll(void *p)
{
    struct pollfd f = {pipe_fd[0], 0, 0};
    int r = poll(&f, 1, seconds * 1000);
    printf("poll %d %d\n", r, r < 0 ? errno : 0);
    return p;
}

static void *wait_sleep(void *p)
{
    struct timespec t = {seconds, 0};
    double from = now();
    int r = nanosleep(&t, &t);
    double took = now() - from;
    printf("sleep %d %s\n", r, took >= seconds && took < seconds + 1 ? "its time" : "another time");
    return p;
}

/* The signal is blocked but for the wait: it ends that. */
static void *wait_suspend(void *p)
{
    sigset_t mask;
    sigfillset(&mask);
    sigdelset(&mask, SIGUSR2);
    int r = sigsuspend(&mask);
    printf("sigsuspend %d %d\n", r, errno == EINTR);
    return p;
}

static void handler(int signo)
{
    in_handler = signo;
    for (unsigned n = 1; !leave_handler; n++)
        if (n % 65536 == 0)
            usleep(5000);
}

static void on_alarm(int signo) { alarms += signo == SIGALRM; }
static void on_usr2(int signo) { (void)signo; }

static void *stand_in_handler(void *p)
{
    char stack[65536];
    sigset_t before, after;
    double d = (long)p + 0.5;
    sigaltstack(&(stack_t){.ss_sp = stack, .ss_size = sizeof stack}, NULL);
    pthread_sigmask(SIG_SETMASK, NULL, &before);
    raise(SIGUSR1);
    pthread_sigmask(SIG_SETMASK, NULL, &after);
    stack_t s;
    sigaltstack(NULL, &s);
    printf("handled %d %.1f %d %d\n", in_handler == SIGUSR1, d, !memcmp(&before, &after, 8), s.ss_sp == stack && !s.ss_flags);
    return p;
}

/* A fault's signal that is blocked when it is sent waits until it is asked for. */
static void *keep_pending(void *p)
{
    sigset_t set;
    siginfo_t info;
    sigemptyset(&set);
    sigaddset(&set, SIGSEGV);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    pthread_kill(pthread_self(), SIGSEGV);
    while (!end)
        usleep(10000);
    int signo = sigtimedwait(&set, &info, &(struct timespec){0});
    printf("pending %d %d\n", signo == SIGSEGV, info.si_code == SI_USER && info.si_pid == getpid());
    return p;
}

/* GS, the rounding of both units. */
static void *keep_registers(void *p)
{
    static unsigned long word = 0x123456789;
    unsigned long seen = 0;
    syscall(SYS_arch_prctl, 0x1001 /* ARCH_SET_GS */, &word);
    fesetround(FE_UPWARD);
    while (!end)
        usleep(10000);
    __asm__ volatile("mov %%gs:0, %0" : "=r"(seen));
    printf("registers %d %d\n", seen == word, fegetround() == FE_UPWARD);
    return p;
}

/* Code that is written anew before each run. */
static void *rewrite(void *p)
{
    unsigned char body[] = {0xb8, 0, 0, 0, 0, 0xc3}; /* mov eax, n; ret */
    unsigned char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    long good = 0, n = 0;
    while (!end) {
        memcpy(body + 1, &(int){(int)++n}, 4);
        memcpy(page, body, sizeof body);
        good += ((int (*)(void))(unsigned long)page)() == (int)n;
        usleep(n % 3 ? 0 : 3000);
    }
    printf("rewritten %d\n", good == n && n > 10);
    return p;
}

static volatile int traps;
static void on_trap(int signo) { traps += signo == SIGTRAP; }

static int replaced(void) { return 1; }

/* A function of the file gets another body. */
static void *change(void)
{
    const unsigned char body[] = {0xb8, 42, 0, 0, 0, 0xc3}; /* mov eax, 42; ret */
    void *page = (void *)((unsigned long)replaced & ~4095ul);
    if (mprotect(page, 8192, PROT_READ | PROT_WRITE | PROT_EXEC))
        return NULL;
    memcpy((void *)replaced, body, sizeof body);
    return mprotect(page, 8192, PROT_READ | PROT_EXEC) ? NULL : (void *)replaced;
}

int main(int argc, char **argv)
{
    void *(*const run[])(void *) = {work, work, changed, wait_read, wait_futex, wait_epoll, wait_poll, wait_sleep, stand_in_handler, keep_pending,
                                       keep_registers, rewrite, wait_suspend};
    enum { N = sizeof run / sizeof run[0] };
    pthread_t t[N];
    seconds = argc > 1 ? atoi(argv[1]) : 3;
    setvbuf(stdout, NULL, _IOLBF, 0);
    sigaction(SIGUSR1, &(struct sigaction){.sa_handler = handler, .sa_flags = SA_ONSTACK}, NULL);
    sigaction(SIGALRM, &(struct sigaction){.sa_handler = on_alarm, .sa_flags = SA_RESTART}, NULL);
    sigaction(SIGUSR2, &(struct sigaction){.sa_handler = on_usr2}, NULL);
    sigaction(SIGTRAP, &(struct sigaction){.sa_handler = on_trap}, NULL);
    if (pipe(pipe_fd))
        return 1;
    sigset_t usr2;
    sigemptyset(&usr2);
    sigaddset(&usr2, SIGUSR2);
    sigaddset(&usr2, SIGALRM);
    void *body = change();
    pthread_sigmask(SIG_BLOCK, &usr2, NULL); /* threads that wait get no signal: main alone has the alarms */
    for (long i = 0; i < N; i++)
        pthread_create(&t[i], NULL, run[i], run[i] == changed ? body : (void *)i);
    sigdelset(&usr2, SIGUSR2);
    pthread_sigmask(SIG_UNBLOCK, &usr2, NULL);
    setitimer(ITIMER_REAL, &(struct itimerval){{0, 1000}, {0, 1000}}, NULL);
    for (double from = now(); now() < from + seconds + 1;)
        for (volatile int i = 0; i < 1000; i++)
            if (i % 100 == 0)
                usleep(1000);
    setitimer(ITIMER_REAL, &(struct itimerval){{0, 0}, {0, 0}}, NULL);
    leave_handler = futex_word = 1;
    syscall(SYS_futex, &futex_word, FUTEX_WAKE_PRIVATE, 10, NULL, NULL, 0);
    pthread_kill(t[N - 1], SIGUSR2);
    if (write(pipe_fd[1], "x", 1) != 1)
        return 2;
    end = 1;
    for (int i = 0; i < N; i++)
        pthread_join(t[i], NULL);
    if (system("echo child; exit 5") >> 8 != 5)
        return 4;
    raise(SIGTRAP);
    printf("end %d %d %d\n", rounds[0] > 10 && rounds[1] > 10, alarms > 100, traps);
    return 3;
}
