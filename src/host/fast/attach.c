/* SPDX-License-Identifier: MIT
 * A process that runs -> all of its threads in the runtime: stopped by ptrace where they are, set off there, let go. */
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

enum { PATIENCE_MS = 5000 };

struct held {
    pid_t pid;
    pid_t *tids;
    size_t n;
};

static bool holds(const struct held *h, pid_t tid)
{
    for (size_t i = 0; i < h->n; i++)
        if (h->tids[i] == tid)
            return true;
    return false;
}

static int refuse(const struct held *h, int status, const char *why, struct cofi_error *error)
{
    return cofi__fail(error, status, COFI_NOWHERE, "process %d: %s", h->pid, why);
}

/* To a stop by our interrupt; signals that come first reach the program. 1: the thread has ended. */
static int stop_thread(const struct held *h, pid_t tid, struct cofi_error *error)
{
    int status;
    ptrace(PTRACE_INTERRUPT, tid, 0, 0);
    for (unsigned ms = 0; ms < PATIENCE_MS; ms++) {
        pid_t got = waitpid(tid, &status, WNOHANG | __WALL);
        if (got == tid && !WIFSTOPPED(status))
            return 1;
        if (got != tid) {
            usleep(1000);
            continue;
        }
        if (status >> 16 == PTRACE_EVENT_STOP && WSTOPSIG(status) == SIGTRAP)
            return 0;
        if (status >> 16 == PTRACE_EVENT_STOP)
            return refuse(h, COFI_ERR_UNSUPPORTED, "it is stopped (SIGSTOP); let it go on first (SIGCONT)", error);
        ptrace(PTRACE_CONT, tid, 0, (void *)(long)(status >> 16 ? 0 : WSTOPSIG(status)));
        ptrace(PTRACE_INTERRUPT, tid, 0, 0);
    }
    return refuse(h, COFI_ERR_UNSUPPORTED, "a thread cannot be stopped: it waits in the kernel, for a child of vfork perhaps", error);
}

static int hold(struct held *h, pid_t tid, struct cofi_error *error)
{
    pid_t *grown = realloc(h->tids, (h->n + 1) * sizeof *grown);
    if (!grown)
        return cofi__fail(error, COFI_ERR_NOMEM, COFI_NOWHERE, "out of memory");
    h->tids = grown;
    if (ptrace(PTRACE_SEIZE, tid, 0, 0)) {
        if (errno == ESRCH && tid != h->pid)
            return 0;
        return cofi__fail(error, errno == ESRCH ? COFI_ERR_NOT_FOUND : COFI_ERR_PERMISSION, COFI_NOWHERE, "cannot attach to process %d: %s",
                          h->pid, strerror(errno));
    }
    h->tids[h->n++] = tid;
    int status = stop_thread(h, tid, error);
    if (status == 1) {
        h->n--;
        return tid == h->pid ? refuse(h, COFI_ERR_NOT_FOUND, "it has ended", error) : 0;
    }
    if (status < 0)
        return status;
    return cofi__fast_is_64bit(tid) ? 0 : refuse(h, COFI_ERR_UNSUPPORTED, "it runs 32-bit code", error);
}

/* One visit to each thread that is not held yet. Returns how many there were. */
static int hold_more(struct held *h, struct cofi_error *error)
{
    char path[64];
    int more = 0, status = 0;
    snprintf(path, sizeof path, "/proc/%d/task", h->pid);
    DIR *dir = opendir(path);
    if (!dir)
        return refuse(h, COFI_ERR_NOT_FOUND, "no such process", error);
    for (struct dirent *e; status >= 0 && (e = readdir(dir));) {
        pid_t tid = atoi(e->d_name);
        if (tid <= 0 || holds(h, tid))
            continue;
        status = hold(h, tid, error);
        more++;
    }
    closedir(dir);
    return status < 0 ? status : more;
}

static void let_go(struct held *h, bool attached)
{
    for (size_t i = 0; i < h->n; i++)
        if (attached)
            ptrace(PTRACE_DETACH, h->tids[i], 0, 0);
        else
            cofi__fast_leave_thread(h->tids[i]);
    free(h->tids);
}

static bool has_seccomp(pid_t pid)
{
    char path[64], line[256];
    int mode = 0;
    bool found = false;
    snprintf(path, sizeof path, "/proc/%d/status", pid);
    FILE *f = fopen(path, "re");
    while (f && fgets(line, sizeof line, f))
        found |= sscanf(line, "Seccomp: %d", &mode) == 1 && mode;
    if (f)
        fclose(f);
    return found;
}

static void add_changed(struct cofi__fast_control *k, uint64_t start, uint64_t end)
{
    struct cofi__fast_range *last = &k->changed_range[sizeof k->changed_range / sizeof k->changed_range[0] - 1];
    if (&k->changed_range[k->changed] <= last)
        k->changed_range[k->changed++] = (struct cofi__fast_range){start, end};
    else
        last->end = end; /* smaps is in the order of addresses */
}

/* Code of files that the process has written to: its own pages, which the recording must have. */
static void find_changed(pid_t pid, struct cofi__fast_control *k)
{
    char path[64], line[4400], flags[5];
    unsigned long start = 0, end = 0, s, e, kb;
    bool code = false;
    snprintf(path, sizeof path, "/proc/%d/smaps", pid);
    FILE *f = fopen(path, "re");
    while (f && fgets(line, sizeof line, f)) {
        if (sscanf(line, "%lx-%lx %4s", &s, &e, flags) == 3) {
            start = s, end = e;
            code = flags[2] == 'x';
        } else if (code && (sscanf(line, "Anonymous: %lu", &kb) == 1 || sscanf(line, "Swap: %lu", &kb) == 1) && kb) {
            add_changed(k, start, end);
        }
    }
    if (f)
        fclose(f);
}

static int set_off(struct cofi__fast_collector *c, pid_t pid, pid_t tid, bool first, uint64_t tsc, struct cofi_error *error)
{
    uint32_t index = 0;
    struct thread *t = cofi__fast_take_slot(c, &index);
    if (!t)
        return cofi__fail(error, COFI_ERR_FULL, COFI_NOWHERE, "more threads than slots");
    t->head.pid = pid;
    t->head.tid = tid;
    t->head.maker = index;
    t->head.nested = cofi__fast_other_pids(pid);
    int status = cofi__fast_inject_thread(tid, first ? ATTACHED_FIRST : ATTACHED_JOINS, t, cofi__fast_slot_address(c->control, index));
    if (status < 0)
        return cofi__fail(error, status, COFI_NOWHERE, "process %d was killed", pid);
    c->seats[index] = (struct cofi__fast_seat){.pid = pid, .tid = tid, .placed = true};
    struct cofi_sideband sb = {.kind = COFI_SB_FORK, .pid = pid, .tid = tid, .ppid = pid, .ptid = pid};
    if (!first)
        cofi__fast_sideband(c, &sb, tsc);
    cofi__fast_comm(c, pid, tid, tsc, first);
    sb = (struct cofi_sideband){.kind = COFI_SB_ITRACE_START, .pid = pid, .tid = tid};
    cofi__fast_sideband(c, &sb, tsc);
    return 0;
}

int cofi__fast_attach(struct cofi__fast_collector *c, struct cofi_error *error)
{
    struct held h = {.pid = c->options->pid};
    uint64_t tsc = __builtin_ia32_rdtsc();
    int status;
    do
        status = hold_more(&h, error);
    while (status > 0);
    if (status >= 0 && has_seccomp(h.pid))
        status = refuse(&h, COFI_ERR_UNSUPPORTED, "it has a seccomp filter, which the runtime's system calls may not pass", error);
    if (status >= 0 && h.n > c->control->slots)
        status = cofi__fail(error, COFI_ERR_FULL, COFI_NOWHERE, "more threads than slots");
    if (status >= 0) {
        find_changed(h.pid, c->control);
        status = cofi__fast_inject_running(h.tids[0], c->fd, c->shared_bytes, error);
    }
    for (size_t i = 0; i < h.n && status >= 0; i++)
        status = set_off(c, h.pid, h.tids[i], i == 0, tsc, error);
    let_go(&h, status >= 0);
    return status;
}
