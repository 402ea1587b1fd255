/* SPDX-License-Identifier: MIT
 * A process's threads -> stopped by ptrace where they are. */
#include "host/fast/hold.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "host/fast/collect.h"

enum { PATIENCE_MS = 5000, POLL_US = 100 };

/* An event of the thread that is there already, if it is a stop of ours; else the thread runs on, interrupted if it is to stop. STOP_NOT:
 * no event. */
static enum cofi__fast_stop take_event(pid_t tid, bool interrupt)
{
    int status;
    pid_t got = waitpid(tid, &status, WNOHANG | __WALL);
    if ((got == tid && !WIFSTOPPED(status)) || (got < 0 && errno == ECHILD))
        return STOP_GONE;
    if (got == tid && status >> 16 == PTRACE_EVENT_STOP)
        return WSTOPSIG(status) == SIGTRAP ? STOP_OURS : STOP_JOB;
    if (got == tid)
        ptrace(PTRACE_CONT, tid, 0, (void *)(long)(status >> 16 ? 0 : WSTOPSIG(status)));
    if (got == tid || interrupt)
        ptrace(PTRACE_INTERRUPT, tid, 0, 0);
    return STOP_NOT;
}

static enum cofi__fast_stop wait_for_stop(pid_t tid, unsigned ms)
{
    enum cofi__fast_stop stop = STOP_NOT;
    for (uint64_t end = cofi__fast_now_ns() + ms * UINT64_C(1000000); cofi__fast_now_ns() < end;) {
        stop = take_event(tid, false);
        if (stop != STOP_NOT)
            break;
        usleep(POLL_US);
    }
    return stop;
}

/* A stop that is there already counts: an interrupt behind it would be another one, which lets the thread come no further. */
enum cofi__fast_stop cofi__fast_stop(pid_t tid, unsigned ms)
{
    enum cofi__fast_stop stop = take_event(tid, true);
    return stop == STOP_NOT ? wait_for_stop(tid, ms) : stop;
}

enum cofi__fast_stop cofi__fast_stop_again(pid_t tid)
{
    ptrace(PTRACE_INTERRUPT, tid, 0, 0);
    ptrace(PTRACE_CONT, tid, 0, 0);
    return wait_for_stop(tid, PATIENCE_MS);
}

static bool holds(const struct cofi__fast_held *h, pid_t tid)
{
    for (size_t i = 0; i < h->n; i++)
        if (h->threads[i].tid == tid)
            return true;
    return false;
}

static void forget(struct cofi__fast_held *h, size_t index)
{
    h->n--;
    memmove(&h->threads[index], &h->threads[index + 1], (h->n - index) * sizeof *h->threads);
}

static void note_stop(struct cofi__fast_held *h, size_t index, enum cofi__fast_stop stop)
{
    h->threads[index].stopped = stop < STOP_GONE;
    h->job_stopped |= stop == STOP_JOB;
    if (stop == STOP_GONE)
        forget(h, index);
}

size_t cofi__fast_stop_all(struct cofi__fast_held *h, unsigned ms)
{
    size_t run = 0;
    for (size_t i = h->n; i-- > 0;) {
        if (h->threads[i].stopped)
            continue;
        enum cofi__fast_stop stop = cofi__fast_stop(h->threads[i].tid, ms);
        run += stop == STOP_NOT;
        note_stop(h, i, stop);
    }
    return run;
}

/* Whether a thread has ended and is only still listed. */
static bool has_ended(pid_t tid)
{
    char path[64], state = 0;
    snprintf(path, sizeof path, "/proc/%d/stat", tid);
    FILE *f = fopen(path, "re");
    bool read = f && fscanf(f, "%*d (%*[^)]) %c", &state) == 1;
    if (f)
        fclose(f);
    return !read || state == 'Z' || state == 'X';
}

/* 1: the thread is held now; 0: it has ended. */
static int hold(struct cofi__fast_held *h, pid_t tid, unsigned ms, struct cofi_error *error)
{
    struct cofi__fast_tracee *grown = realloc(h->threads, (h->n + 1) * sizeof *grown);
    if (!grown)
        return cofi__fail(error, COFI_ERR_NOMEM, COFI_NOWHERE, "out of memory");
    h->threads = grown;
    int e = ptrace(PTRACE_SEIZE, tid, 0, 0) ? errno : 0;
    if (e == EPERM && !ptrace(PTRACE_INTERRUPT, tid, 0, 0)) /* we have it already, for its exec */
        e = 0;
    if (e == ESRCH || (e && has_ended(tid)))
        return 0;
    if (e)
        return cofi__fail(error, COFI_ERR_PERMISSION, COFI_NOWHERE, "cannot attach to process %d: %s", h->pid, strerror(e));
    h->threads[h->n++] = (struct cofi__fast_tracee){.tid = tid};
    enum cofi__fast_stop stop = cofi__fast_stop(tid, ms);
    note_stop(h, h->n - 1, stop);
    return stop != STOP_GONE;
}

int cofi__fast_hold_more(struct cofi__fast_held *h, unsigned ms, struct cofi_error *error)
{
    char path[64];
    int more = 0, status = 0;
    snprintf(path, sizeof path, "/proc/%d/task", h->pid);
    DIR *dir = opendir(path);
    if (!dir)
        return cofi__fail(error, COFI_ERR_NOT_FOUND, COFI_NOWHERE, "process %d: no such process", h->pid);
    for (struct dirent *e; status >= 0 && (e = readdir(dir));) {
        pid_t tid = atoi(e->d_name);
        if (tid <= 0 || holds(h, tid))
            continue;
        status = hold(h, tid, ms, error);
        more += status > 0;
    }
    closedir(dir);
    return status < 0 ? status : more;
}
