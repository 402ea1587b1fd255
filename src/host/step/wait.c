/* SPDX-License-Identifier: MIT
 * Waiting for the threads that are recorded, and for nobody else's children. */
#include <errno.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "host/proc.h"
#include "host/step/engine.h"

enum { ALARM_MS = 100, POLL_MS = 1 };

/* The C library has no name for it before 2.38. */
#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif

/* ---- what interrupts waits ---- */

static void on_alarm(int signal) { (void)signal; }

/* Waits are interrupted now and then, to look at what the user wants and at steps that hang. A handler
 * of SIGCHLD, which might wait for whatever has ended, has to stay away. */
void cofi__step_watch(struct step_engine *engine)
{
    struct sigaction action = {.sa_handler = on_alarm};
    struct sigevent to_us = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGALRM,
                             .sigev_notify_thread_id = gettid()};
    struct itimerspec every = {{0, ALARM_MS * 1000000}, {0, ALARM_MS * 1000000}};
    sigset_t mask;
    sigaction(SIGALRM, &action, &engine->alarm);
    pthread_sigmask(SIG_BLOCK, NULL, &engine->mask);
    mask = engine->mask;
    sigdelset(&mask, SIGALRM);
    sigaddset(&mask, SIGCHLD);
    pthread_sigmask(SIG_SETMASK, &mask, NULL);
    engine->ticking = !timer_create(CLOCK_MONOTONIC, &to_us, &engine->timer) &&
                      !timer_settime(engine->timer, 0, &every, NULL);
}

void cofi__step_unwatch(struct step_engine *engine)
{
    if (engine->ticking)
        timer_delete(engine->timer);
    sigaction(SIGALRM, &engine->alarm, NULL);
    pthread_sigmask(SIG_SETMASK, &engine->mask, NULL);
}

/* ---- waits ---- */

/* A child of ours that is not recorded is the business of who began it. A thread that its parent has not
 * told of yet is traced, so its process is known or its parent is another. */
static bool is_recorded(struct step_engine *engine, pid_t tid)
{
    pid_t parent;
    return cofi__step_find(engine, tid) || cofi__step_find_process(engine, cofi__step_tgid(tid, &parent)) ||
           parent != getpid();
}

/* Where a child that is not recorded has ended and stands before the others. */
static pid_t ask_each(const struct step_engine *engine, int *status, bool block)
{
    struct timespec pause = {0, POLL_MS * 1000000};
    for (const struct step_task *t = engine->tasks; t; t = t->next) {
        bool speaks = t->state == STEP_RUNNING || t->state == STEP_HELD || t->state == STEP_GROUP;
        if (speaks && waitpid(t->tid, status, __WALL | WNOHANG) == t->tid)
            return t->tid;
    }
    if (block)
        nanosleep(&pause, NULL);
    return 0;
}

pid_t cofi__step_wait(struct step_engine *engine, int *status, bool block)
{
    siginfo_t info = {0};
    if (waitid(P_ALL, 0, &info, WEXITED | WNOWAIT | __WALL | __WNOTHREAD | (block ? 0 : WNOHANG)) < 0)
        return errno == EINTR ? 0 : -1;
    if (!info.si_pid)
        return 0;
    if (!is_recorded(engine, info.si_pid))
        return ask_each(engine, status, block);
    return waitpid(info.si_pid, status, __WALL | WNOHANG) == info.si_pid ? info.si_pid : 0;
}
