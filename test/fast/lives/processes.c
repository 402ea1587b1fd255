/* SPDX-License-Identifier: MIT
 * Acts of processes and threads. One thread of a life does acts at a time; the
 * others wait with all signals blocked. */
#include <errno.h>
#include <pthread.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lives.h"

extern char **environ;

static void wait_for(pid_t child)
{
    int status = 0;
    pid_t r;
    do
        r = waitpid(child, &status, 0);
    while (r < 0 && errno == EINTR);
    tell(" ended: %s %x", r == child ? "told" : "not told", status);
}

void act_child(void)
{
    unsigned acts = 1 + below(8);
    if (depth >= DEPTH_MAX)
        return;
    pid_t child = fork();
    if (!child) {
        depth++;
        live(acts);
        exit((int)below(100));
    }
    wait_for(child);
}

void act_vfork_child(void)
{
    bool executes = one_in(2);
    pid_t child = vfork();
    if (!child) {
        if (executes)
            execl("/bin/true", "true", (char *)NULL);
        _exit(3);
    }
    wait_for(child);
}

void act_spawned(void)
{
    posix_spawnattr_t attributes;
    sigset_t set = some_set(), back = some_set();
    char state[32], *args[] = {"lives", "-go-on", state, "3", "3", NULL};
    pid_t child;
    snprintf(state, sizeof state, "%llx", (unsigned long long)chance);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setsigmask(&attributes, &set);
    posix_spawnattr_setsigdefault(&attributes, &back);
    posix_spawnattr_setflags(&attributes, (short)(below(2) * POSIX_SPAWN_SETSIGMASK + below(2) * POSIX_SPAWN_SETSIGDEF));
    if (depth < DEPTH_MAX && !posix_spawn(&child, "/proc/self/exe", NULL, &attributes, args, environ))
        wait_for(child);
    posix_spawnattr_destroy(&attributes);
}

struct thread {
    sigset_t mask;
    unsigned acts;
    enum { ACTS, EXECUTES, LEAVES } how;
};

static void *live_in_thread(void *arg)
{
    struct thread *t = arg;
    pthread_sigmask(SIG_SETMASK, &t->mask, NULL);
    depth++;
    live(t->acts);
    if (t->how == EXECUTES)
        become(4);
    if (t->how == LEAVES)
        exit(5);
    depth--;
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, NULL);
    return NULL;
}

static void in_thread(int how)
{
    struct thread t = {.acts = below(6), .how = how};
    pthread_t thread;
    sigset_t all;
    if (depth >= DEPTH_MAX)
        return;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &t.mask);
    if (!pthread_create(&thread, NULL, live_in_thread, &t))
        pthread_join(thread, NULL);
    pthread_sigmask(SIG_SETMASK, &t.mask, NULL);
    tell(" thread ended");
}

void act_thread(void)
{
    in_thread(ACTS);
}

void act_executes_in_thread(void)
{
    if (one_in(4))
        in_thread(EXECUTES);
}

void act_leaves_thread(void)
{
    if (one_in(8))
        in_thread(LEAVES);
}

void act_ends(void)
{
    if (one_in(8))
        exit((int)below(100));
}

void act_executes(void)
{
    if (one_in(3))
        become(below(6));
}

/* What is sent to the process, of which this thread blocks all, another one
 * takes. */
static void *take_beside(void *arg)
{
    siginfo_t info;
    int signo = sigwaitinfo(arg, &info);
    tell("  beside took %d, code %d", signo, info.si_code);
    return NULL;
}

void act_beside(void)
{
    sigset_t all, old, one;
    pthread_t thread;
    int signo = some_signal();
    sigfillset(&all);
    sigemptyset(&one);
    sigaddset(&one, signo);
    struct sigaction a;
    sigaction(signo, NULL, &a);
    if (is_of_faults(signo) || a.sa_handler == SIG_IGN || a.sa_handler == SIG_DFL)
        return;
    pthread_sigmask(SIG_SETMASK, &all, &old);
    if (!pthread_create(&thread, NULL, take_beside, &one)) {
        kill(getpid(), signo);
        pthread_join(thread, NULL);
    }
    pthread_sigmask(SIG_SETMASK, &old, NULL);
}
