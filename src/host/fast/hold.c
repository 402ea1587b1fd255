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
#include "host/proc.h"

enum { POLL_US = 100 };

static uint64_t after(unsigned ms)
{
    return cofi__fast_now_ns() + ms * UINT64_C(1000000);
}

/* Whether the stopped thread is about to have the signal of an instruction that faulted. */
static bool is_at_fault(pid_t tid)
{
    const uint64_t forced = cofi__fast_signal_bit(SIGSEGV) | cofi__fast_signal_bit(SIGBUS) |
                            cofi__fast_signal_bit(SIGILL) | cofi__fast_signal_bit(SIGFPE) |
                            cofi__fast_signal_bit(SIGTRAP) | cofi__fast_signal_bit(SIGSYS);
    struct __ptrace_peeksiginfo_args args = {.nr = 1};
    uint64_t blocked = 0;
    siginfo_t info;
    if (ptrace(PTRACE_GETSIGMASK, tid, sizeof blocked, &blocked))
        return false;
    for (; ptrace(PTRACE_PEEKSIGINFO, tid, &args, &info) == 1; args.off++)
        if (info.si_code > 0 && cofi__fast_signal_bit(info.si_signo) & forced & ~blocked)
            return true;
    return false;
}

/* Whether a process is a child of our own: who waits for it is to have its status. */
static bool is_our_child(pid_t tid)
{
    return cofi__proc_number(tid, "PPid:") == getpid() && cofi__proc_number(tid, "Tgid:") == tid;
}

pid_t cofi__fast_take_status(pid_t tid, int *status)
{
    siginfo_t info = {0};
    *status = 0;
    if (waitid(P_PID, (id_t)tid, &info, WEXITED | WSTOPPED | WNOHANG | WNOWAIT | __WALL))
        return -1;
    bool stopped = info.si_code == CLD_TRAPPED || info.si_code == CLD_STOPPED;
    if (!info.si_pid || (!stopped && is_our_child(tid)))
        return info.si_pid;
    return waitpid(tid, status, WNOHANG | __WALL);
}

/* An event of the thread that is there already, if it is a stop of ours; at another one the thread goes
 * on, to its stop if it is to. That is not where it has faulted: the signal comes first, for there would
 * be no fault where the thread goes on otherwise. STOP_NOT: it runs. */
static enum cofi__fast_stop take_event(pid_t tid, bool to_stop)
{
    int status;
    pid_t got = cofi__fast_take_status(tid, &status);
    if ((got == tid && !WIFSTOPPED(status)) || (got < 0 && errno == ECHILD))
        return STOP_GONE;
    if (got == tid && status >> 16 == PTRACE_EVENT_STOP) {
        if (WSTOPSIG(status) != SIGTRAP)
            return STOP_JOB;
        if (!is_at_fault(tid))
            return STOP_OURS;
        ptrace(PTRACE_CONT, tid, 0, 0); /* to its signal, which is an event of its own */
        return STOP_NOT;
    }
    if (got != tid)
        return STOP_NOT;
    ptrace(PTRACE_CONT, tid, 0, (void *)(long)(status >> 16 ? 0 : WSTOPSIG(status)));
    if (to_stop) /* the event has taken the place of the stop that was asked for */
        ptrace(PTRACE_INTERRUPT, tid, 0, 0);
    return STOP_NOT;
}

/* A stop that is there already counts: to ask for another one would keep the thread from coming any further. */
static enum cofi__fast_stop ask_to_stop(pid_t tid)
{
    enum cofi__fast_stop stop = take_event(tid, true);
    if (stop == STOP_NOT)
        ptrace(PTRACE_INTERRUPT, tid, 0, 0);
    return stop;
}

static enum cofi__fast_stop wait_for_stop(pid_t tid, unsigned ms)
{
    enum cofi__fast_stop stop = STOP_NOT;
    for (uint64_t end = after(ms); stop == STOP_NOT && cofi__fast_now_ns() < end;) {
        stop = take_event(tid, true);
        if (stop == STOP_NOT)
            usleep(POLL_US);
    }
    return stop;
}

enum cofi__fast_stop cofi__fast_stop(pid_t tid, unsigned ms)
{
    enum cofi__fast_stop stop = ask_to_stop(tid);
    return stop == STOP_NOT ? wait_for_stop(tid, ms) : stop;
}

enum cofi__fast_stop cofi__fast_stop_again(pid_t tid)
{
    ptrace(PTRACE_INTERRUPT, tid, 0, 0);
    ptrace(PTRACE_CONT, tid, 0, 0);
    return wait_for_stop(tid, HOLD_PATIENCE_MS);
}

void cofi__fast_let_go(pid_t tid)
{
    if (cofi__fast_stop(tid, HOLD_PATIENCE_MS) < STOP_GONE)
        ptrace(PTRACE_DETACH, tid, 0, 0);
}

void cofi__fast_go_on(pid_t tid)
{
    if (ptrace(PTRACE_DETACH, tid, 0, 0))
        cofi__fast_let_go(tid);
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

/* One look at each thread that runs. Returns how many still do. */
static size_t look_at_all(struct cofi__fast_held *h, enum cofi__fast_stop (*look)(pid_t tid))
{
    size_t run = 0;
    for (size_t i = h->n; i-- > 0;) {
        if (h->threads[i].stopped)
            continue;
        enum cofi__fast_stop stop = look(h->threads[i].tid);
        run += stop == STOP_NOT;
        note_stop(h, i, stop);
    }
    return run;
}

static enum cofi__fast_stop look_and_stop(pid_t tid) { return take_event(tid, true); }
static enum cofi__fast_stop look_and_run(pid_t tid) { return take_event(tid, false); }

/* All are asked first: of a thousand that run, each must have its turn to stop. */
size_t cofi__fast_stop_all(struct cofi__fast_held *h, unsigned ms)
{
    size_t run = look_at_all(h, ask_to_stop);
    for (uint64_t end = after(ms); run && cofi__fast_now_ns() < end;) {
        usleep(POLL_US);
        run = look_at_all(h, look_and_stop);
    }
    return run;
}

void cofi__fast_let_run(struct cofi__fast_held *h, unsigned ms)
{
    uint64_t end = after(ms);
    do {
        usleep(POLL_US);
        look_at_all(h, look_and_run);
    } while (cofi__fast_now_ns() < end);
}

/* A file of a thread's, /proc/…/stat. Returns what stands behind the name, which may hold anything: its
 * state and more; "": it cannot be read. */
static const char *read_stat(const char *path, char line[256])
{
    FILE *f = fopen(path, "re");
    size_t n = f ? fread(line, 1, 255, f) : 0;
    if (f)
        fclose(f);
    line[n] = 0;
    const char *behind = strrchr(line, ')');
    return behind && behind[1] ? behind + 2 : "";
}

static char state_of(pid_t tid)
{
    char path[64], line[256];
    snprintf(path, sizeof path, "/proc/%d/stat", tid);
    return *read_stat(path, line);
}

/* Whether a thread of a process is the kernel's own, which never runs the program's code: a worker of
 * io_uring's, vhost's or KVM's. The flags meant other things before Linux 5.12 and 6.4 (the first one: a
 * virtual processor that runs), and any thread may have these names. */
static bool is_kernels(pid_t pid, pid_t tid)
{
    enum { PF_IO_WORKER = 0x10, PF_USER_WORKER = 0x4000 };
    char path[64], line[256];
    unsigned flags = 0;
    snprintf(path, sizeof path, "/proc/%d/task/%d/stat", pid, tid);
    sscanf(read_stat(path, line), "%*c %*d %*d %*d %*d %*d %u", &flags);
    const char *name = strchr(line, '(');
    return name && ((flags & PF_IO_WORKER && !strncmp(name, "(iou-", 5)) ||
                    (flags & PF_USER_WORKER && (!strncmp(name, "(vhost-", 7) || !strncmp(name, "(kvm-nx-", 8))));
}

bool cofi__fast_has_ended(pid_t tid)
{
    char state = state_of(tid);
    return !state || state == 'Z' || state == 'X';
}

bool cofi__fast_is_zombie(pid_t tid)
{
    return state_of(tid) == 'Z';
}

int cofi__fast_seccomp_mode(pid_t tid)
{
    return cofi__proc_number(tid, "Seccomp:");
}

/* 1: the thread is held now, and runs; 0: it has ended, or is none of the program's. */
static int hold(struct cofi__fast_held *h, pid_t tid, struct cofi_error *error)
{
    if (is_kernels(h->pid, tid))
        return 0;
    struct cofi__fast_tracee *grown = realloc(h->threads, (h->n + 1) * sizeof *grown);
    if (!grown)
        return cofi__fail(error, COFI_ERR_NOMEM, COFI_NOWHERE, "out of memory");
    h->threads = grown;
    int e = ptrace(PTRACE_SEIZE, tid, 0, 0) ? errno : 0;
    if (e == EPERM && !cofi__fast_has_ended(tid) && !ptrace(PTRACE_INTERRUPT, tid, 0, 0))
        e = 0; /* we have it already, for its exec */
    if (e == ESRCH || (e && cofi__fast_has_ended(tid)))
        return 0;
    if (e)
        return cofi__fail(error, COFI_ERR_PERMISSION, COFI_NOWHERE, "cannot attach to process %d: %s%s", h->pid,
                          strerror(e), cofi__proc_hint(e));
    h->threads[h->n++] = (struct cofi__fast_tracee){.tid = tid};
    return 1;
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
        status = hold(h, tid, error);
        more += status > 0;
    }
    closedir(dir);
    if (status < 0)
        return status;
    if (more)
        cofi__fast_stop_all(h, ms);
    return more;
}
