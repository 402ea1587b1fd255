/* SPDX-License-Identifier: MIT
 * numbers N: N times a thread, and a process right behind it that has the thread's number, which the kernel else gives again when all
 * others had their turn. Status 77: it takes a privilege that is not there, or a newer kernel. `numbers overtaken`: it does so once
 * while its parent, the recorder, is stopped, where others have ended just before. */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/sched.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static pid_t number;

static void *thread(void *p)
{
    number = (pid_t)syscall(SYS_gettid);
    return p;
}

/* As fork. The kernel gives a thread's number back a moment after who joins it goes on. */
static long fork_as(pid_t pid)
{
    struct clone_args args = {.exit_signal = SIGCHLD, .set_tid = (unsigned long)&pid, .set_tid_size = 1};
    long r;
    do
        r = syscall(SYS_clone3, &args, sizeof args);
    while (r < 0 && errno == EEXIST);
    return r;
}

/* What has the number of the thread that has ended last. */
static int again(void)
{
    int status = 0;
    long child = fork_as(number);
    if (child < 0)
        return 77;
    if (!child)
        _exit(7);
    return child != number || waitpid((pid_t)child, &status, 0) != child || WEXITSTATUS(status) != 7;
}

static pthread_mutex_t others_end = PTHREAD_MUTEX_INITIALIZER, last_ends = PTHREAD_MUTEX_INITIALIZER;

static void *wait_for(void *end)
{
    pthread_mutex_lock(end);
    pthread_mutex_unlock(end);
    return thread(end);
}

/* The others leave places free that lie before that of the last thread, and the recorder looks at places in their order: when it goes on
 * it comes to the process first. The pause lets it see that the others have ended; where it has not, nothing is overtaken. */
static int overtaken(void)
{
    pthread_t others[8], last;
    pthread_mutex_lock(&others_end);
    pthread_mutex_lock(&last_ends);
    for (int i = 0; i < 8; i++)
        pthread_create(&others[i], NULL, wait_for, &others_end);
    pthread_create(&last, NULL, wait_for, &last_ends);
    pthread_mutex_unlock(&others_end);
    for (int i = 0; i < 8; i++)
        pthread_join(others[i], NULL);
    usleep(200000);
    kill(getppid(), SIGSTOP);
    pthread_mutex_unlock(&last_ends);
    pthread_join(last, NULL);
    int result = again();
    kill(getppid(), SIGCONT);
    return result;
}

int main(int argc, char **argv)
{
    pthread_t t;
    int result = 0;
    if (argc > 1 && !strcmp(argv[1], "overtaken"))
        return overtaken();
    for (int i = argc > 1 ? atoi(argv[1]) : 1; i > 0 && !result; i--)
        result = pthread_create(&t, NULL, thread, NULL) || pthread_join(t, NULL) ? 1 : again();
    return result;
}
