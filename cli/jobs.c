/* SPDX-License-Identifier: MIT
 * Jobs and their bytes -> the same bytes as if done one after another. */
#include "jobs.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"

enum { OUTPUTS = 2 }; /* fd 1 and 2 */

struct held {
    char *bytes;
    size_t n, room;
};

struct job {
    struct held held[OUTPUTS];
    bool done;
    int status;
};

struct jobs {
    pthread_mutex_t lock;
    pthread_cond_t change;
    struct job *list;
    size_t n, next;   /* to be begun */
    size_t turn;      /* whose output goes out now; belongs to that job, or if it is done to who did the last */
    size_t held;      /* bytes */
    int status, error;
    jobs_do *to_do;
    void *opaque;
};

/* The job that this thread does. */
static _Thread_local struct jobs *current;
static _Thread_local size_t mine;

static int write_raw(int fd, const char *bytes, size_t n)
{
    while (n) {
        ssize_t some = write(fd, bytes, n);
        if (some < 0 && errno == EINTR)
            continue;
        if (some < 0)
            return errno;
        bytes += some;
        n -= (size_t)some;
    }
    return 0;
}

/* Names come from programs and recordings, which may be anybody's. */
static int write_terminal(int fd, const char *bytes, size_t n)
{
    char shown[4096];
    size_t held = 0;
    int error = 0;
    for (size_t at = 0; at < n && !error;) {
        size_t control = control_bytes(bytes + at, n - at);
        shown[held++] = control ? '?' : bytes[at];
        at += control ? control : 1;
        if (held == sizeof shown || at == n) {
            error = write_raw(fd, shown, held);
            held = 0;
        }
    }
    return error;
}

static int write_all(int fd, const char *bytes, size_t n)
{
    return isatty(fd) ? write_terminal(fd, bytes, n) : write_raw(fd, bytes, n);
}

/* Write what is held of the job whose turn it is; only its owner does that. */
static int flush(struct jobs *jobs, struct job *job)
{
    int error = 0;
    size_t freed = 0;
    for (int i = 0; i < OUTPUTS; i++) {
        struct held *held = &job->held[i];
        if (held->n && !error && !jobs->status)
            error = write_all(i + 1, held->bytes, held->n);
        freed += held->n;
        free(held->bytes);
        *held = (struct held){0};
    }
    if (!freed)
        return error;
    pthread_mutex_lock(&jobs->lock);
    jobs->held -= freed;
    pthread_mutex_unlock(&jobs->lock);
    return error;
}

static int hold(struct jobs *jobs, struct held *held, const char *bytes, size_t n)
{
    if (held->room - held->n < n) {
        size_t room = 2 * (held->n + n);
        char *larger = realloc(held->bytes, room);
        if (!larger)
            return ENOMEM;
        held->bytes = larger;
        held->room = room;
    }
    memcpy(held->bytes + held->n, bytes, n);
    held->n += n;
    jobs->held += n;
    return 0;
}

int jobs_write(int fd, const char *bytes, size_t n)
{
    struct jobs *jobs = current;
    if (!jobs)
        return write_all(fd, bytes, n);
    pthread_mutex_lock(&jobs->lock);
    while (jobs->turn != mine && jobs->held + n > JOBS_HELD_MAX && !jobs->status)
        pthread_cond_wait(&jobs->change, &jobs->lock);
    bool my_turn = jobs->turn == mine;
    int error = jobs->status ? ECANCELED : jobs->error;
    if (!my_turn && !error)
        error = hold(jobs, &jobs->list[mine].held[fd - 1], bytes, n);
    pthread_mutex_unlock(&jobs->lock);
    if (error == ENOMEM && fd == STDERR_FILENO)
        return write_all(fd, bytes, n); /* out of turn rather than not at all */
    if (!my_turn || error)
        return error;
    error = flush(jobs, &jobs->list[mine]);
    return error ? error : write_all(fd, bytes, n);
}

/* A job is done. If it was its turn, what is done behind it goes out, too. */
static void finish(struct jobs *jobs, size_t i, int status)
{
    pthread_mutex_lock(&jobs->lock);
    jobs->list[i].done = true;
    jobs->list[i].status = status;
    bool my_turn = jobs->turn == i;
    while (my_turn && jobs->turn < jobs->n && jobs->list[jobs->turn].done) {
        struct job *job = &jobs->list[jobs->turn];
        pthread_mutex_unlock(&jobs->lock);
        int error = flush(jobs, job);
        pthread_mutex_lock(&jobs->lock);
        jobs->error = jobs->error ? jobs->error : error;
        jobs->status = jobs->status ? jobs->status : job->status;
        jobs->turn++;
        pthread_cond_broadcast(&jobs->change);
    }
    pthread_mutex_unlock(&jobs->lock);
}

static void *work(void *opaque)
{
    struct jobs *jobs = opaque;
    pthread_mutex_lock(&jobs->lock);
    while (jobs->next < jobs->n && !jobs->status) {
        size_t i = jobs->next++;
        pthread_mutex_unlock(&jobs->lock);
        current = jobs;
        mine = i;
        int status = jobs->to_do(jobs->opaque, i);
        current = NULL;
        finish(jobs, i, status);
        pthread_mutex_lock(&jobs->lock);
    }
    pthread_mutex_unlock(&jobs->lock);
    return NULL;
}

static int serially(size_t n, jobs_do *to_do, void *opaque)
{
    int status = 0;
    for (size_t i = 0; i < n && !status; i++)
        status = to_do(opaque, i);
    return status;
}

int jobs_run(size_t n, unsigned threads, jobs_do *to_do, void *opaque)
{
    struct jobs jobs = {.n = n, .to_do = to_do, .opaque = opaque};
    pthread_t others[64];
    unsigned started = 0;
    if (threads < 2 || n < 2)
        return serially(n, to_do, opaque);
    jobs.list = calloc(n, sizeof *jobs.list);
    if (!jobs.list)
        return serially(n, to_do, opaque);
    pthread_mutex_init(&jobs.lock, NULL);
    pthread_cond_init(&jobs.change, NULL);
    while (started + 1 < threads && started < 64 && started + 1 < n &&
           !pthread_create(&others[started], NULL, work, &jobs))
        started++;
    work(&jobs); /* this thread is one of them */
    while (started)
        pthread_join(others[--started], NULL);
    for (size_t i = 0; i < n; i++)
        for (int k = 0; k < OUTPUTS; k++)
            free(jobs.list[i].held[k].bytes);
    free(jobs.list);
    pthread_cond_destroy(&jobs.change);
    pthread_mutex_destroy(&jobs.lock);
    return jobs.status;
}

unsigned jobs_processors(void)
{
    cpu_set_t set;
    int n = sched_getaffinity(0, sizeof set, &set) ? 1 : CPU_COUNT(&set);
    return n < 1 ? 1 : (unsigned)n;
}
