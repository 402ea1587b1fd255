/* SPDX-License-Identifier: MIT
 * Programs for test_step.c: each does one thing, and its status says how that went. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

static void spin(unsigned n)
{
    for (volatile unsigned i = 0; i < n; i++)
        ;
}

static int fork_two(void)
{
    int sum = 0;
    for (int i = 4; i < 6; i++) {
        int status = 0;
        pid_t pid = fork();
        if (!pid)
            _exit(i);
        waitpid(pid, &status, 0);
        sum += WEXITSTATUS(status);
    }
    return sum;
}

static int wait_for_vfork(unsigned n)
{
    int status = 0;
    pid_t pid = vfork();
    if (!pid) {
        spin(n);
        _exit(7);
    }
    waitpid(pid, &status, 0);
    return WEXITSTATUS(status);
}

static int is_masked(void)
{
    sigset_t mask;
    sigprocmask(SIG_BLOCK, NULL, &mask);
    return sigismember(&mask, SIGCHLD) || sigismember(&mask, SIGALRM);
}

/* ---- waits that let in what the program blocks, which is SIGALRM, SIGWINCH (ignored) and SIGTRAP ---- */

static volatile int handled[NSIG];

static void handle(int signal)
{
    handled[signal]++;
}

static int wait_in(int call, const sigset_t *mask)
{
    struct pollfd none[1];
    fd_set set;
    struct epoll_event event;
    FD_ZERO(&set);
    switch (call) {
    case 0: return sigsuspend(mask);
    case 1: return ppoll(none, 0, NULL, mask);
    case 2: return pselect(0, &set, NULL, NULL, NULL, mask);
    default: return epoll_pwait(epoll_create1(0), &event, 1, -1, mask);
    }
}

static int wait_for(int call, int signal)
{
    int before = handled[signal];
    sigset_t mask;
    sigfillset(&mask);
    sigdelset(&mask, signal);
    sigdelset(&mask, SIGWINCH);
    int result = wait_in(call, &mask);
    return result == -1 && errno == EINTR && handled[signal] == before + 1;
}

static int traps_stay_blocked(void)
{
    sigset_t mask;
    struct sigaction action;
    sigprocmask(SIG_BLOCK, NULL, &mask);
    sigaction(SIGTRAP, NULL, &action);
    return sigismember(&mask, SIGTRAP) && sigismember(&mask, SIGALRM) && action.sa_handler == handle;
}

static int wait_while_traps_are_blocked(void)
{
    int good = 0;
    sigset_t blocked;
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGALRM);
    sigaddset(&blocked, SIGWINCH);
    sigaddset(&blocked, SIGTRAP);
    sigprocmask(SIG_SETMASK, &blocked, NULL);
    signal(SIGALRM, handle);
    signal(SIGTRAP, handle);
    for (int call = 0; call < 4; call++) {
        struct itimerval soon = {.it_value.tv_usec = 20000};
        setitimer(ITIMER_REAL, &soon, NULL);
        if (call < 3) /* epoll_pwait ends by an ignored one, too, if its sender is traced */
            raise(SIGWINCH);
        good += wait_for(call, SIGALRM) && traps_stay_blocked();
        raise(SIGTRAP);
        good += wait_for(call, SIGTRAP) && traps_stay_blocked();
    }
    return good;
}

/* Its first thread ends, the other one becomes a program after a while. */
static void *become_another(void *self)
{
    for (int i = 0; i < 20; i++)
        usleep(50000);
    execl(self, (char *)self, "exit", (char *)NULL);
    return self;
}

static void end_the_first_thread(char *self)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, become_another, self))
        _exit(99);
    pthread_exit(NULL);
}

static int program(const char *word)
{
    if (!strcmp(word, "children"))
        return fork_two();
    if (!strcmp(word, "vfork"))
        return wait_for_vfork(20000);
    while (!strcmp(word, "children-for-ever"))
        wait_for_vfork(200);
    if (!strcmp(word, "mask"))
        return is_masked();
    if (!strcmp(word, "waits"))
        return wait_while_traps_are_blocked();
    if (!strcmp(word, "sleep"))
        return (int)sleep(1000);
    return 5;
}

int main(int argc, char **argv)
{
    if (argc > 1 && !strcmp(argv[1], "headless"))
        end_the_first_thread(argv[0]);
    return argc > 1 ? program(argv[1]) : 99;
}
