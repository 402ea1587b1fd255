/* SPDX-License-Identifier: MIT
 * A process that runs -> all of its threads in the runtime: stopped by ptrace where they are, set off there, let go. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/uio.h>

#include "base/error.h"
#include "host/fast/collect.h"
#include "host/fast/hold.h"
#include "host/fast/limits.h"
#include "host/fast/own_calls.h"

static int refuse(const struct cofi__fast_held *h, int status, const char *why, struct cofi_error *error)
{
    return cofi__fail(error, status, COFI_NOWHERE, "process %d: %s", h->pid, why);
}

static void let_go(struct cofi__fast_held *h, bool attached)
{
    for (size_t i = 0; i < h->n; i++)
        if (attached)
            cofi__fast_go_on(h->threads[i].tid);
        else
            cofi__fast_leave_thread(h->threads[i].tid);
    free(h->threads);
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

static int set_off(struct cofi__fast_collector *c, pid_t pid, pid_t tid, bool first, uint64_t tsc,
                   struct cofi_error *error)
{
    uint32_t index = 0;
    struct thread *t = cofi__fast_take_slot(c, &index);
    if (!t)
        return cofi__fail(error, COFI_ERR_FULL, COFI_NOWHERE, "more threads than slots");
    t->head.pid = pid;
    t->head.tid = tid;
    t->head.maker = index;
    t->head.nested = cofi__fast_other_pids(pid);
    int status = cofi__fast_inject_thread(tid, first ? ATTACHED_FIRST : ATTACHED_JOINS, t,
                                          cofi__fast_slot_address(c->control, index));
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

/* Whether the thread's system calls raise SIGSYS, but from some place (Linux 6.4 and later tell). */
static bool is_dispatched(pid_t tid)
{
    enum { GET_DISPATCH = 0x4211 };
    struct { uint64_t mode, selector, offset, bytes; } dispatch = {0};
    return !ptrace((enum __ptrace_request)GET_DISPATCH, tid, (void *)sizeof dispatch, &dispatch) && dispatch.mode;
}

/* Translated code does not follow it, so no RET would fit it once the program is native again. */
static bool has_shadow_stack(pid_t tid)
{
    enum { NT_X86_SHSTK_ = 0x204 }; /* NT_X86_SHSTK, in newer headers than Debian 12's; no such set of
                                     * registers: ENODEV */
    uint64_t ssp;
    struct iovec v = {&ssp, sizeof ssp};
    return !ptrace(PTRACE_GETREGSET, tid, (void *)NT_X86_SHSTK_, &v);
}

/* Each thread has filters of its own. */
static int look_at_filters(const struct cofi__fast_held *h, struct cofi_error *error)
{
    struct cofi__fast_filters last = {0};
    struct cofi_error why;
    int status = 0;
    for (size_t i = 0; i < h->n && status >= 0; i++)
        status = cofi__fast_filters_let_too(h->threads[i].tid, OWN_PROGRAM | OWN_RUNTIME | OWN_ELSEWHERE, &last, &why);
    cofi__fast_free_filters(&last);
    return status < 0 ? refuse(h, status == COFI_ERR_NOMEM ? status : COFI_ERR_UNSUPPORTED, why.text, error) : 0;
}

static uint64_t count_mappings(pid_t pid)
{
    char path[64];
    uint64_t n = 0;
    snprintf(path, sizeof path, "/proc/%d/maps", (int)pid);
    FILE *f = fopen(path, "re");
    for (int byte; f && (byte = getc_unlocked(f)) != EOF;)
        n += byte == '\n';
    if (f)
        fclose(f);
    return n;
}

/* vm.max_map_count; where it is not told, none. */
static uint64_t most_mappings(void)
{
    unsigned long long most = UINT64_MAX;
    FILE *f = fopen("/proc/sys/vm/max_map_count", "re");
    if (f && fscanf(f, "%llu", &most) != 1)
        most = UINT64_MAX;
    if (f)
        fclose(f);
    return most;
}

/* Whether the kernel lets a process have the mappings that the runtime makes: two a chunk of each
 * thread's log, and some for all. */
static bool has_mappings_left(const struct cofi__fast_collector *c, const struct cofi__fast_held *h)
{
    const uint64_t for_all = 100;
    return count_mappings(h->pid) + for_all + h->n * 2 * (uint64_t)c->made.chunks <= most_mappings();
}

/* What cannot be put into the runtime, all of it stopped. */
static int look_at(const struct cofi__fast_held *h, const struct cofi__fast_collector *c, struct cofi_error *error)
{
    if (!h->n)
        return refuse(h, COFI_ERR_NOT_FOUND, "it has ended", error);
    if (h->job_stopped)
        return refuse(h, COFI_ERR_UNSUPPORTED, "it is stopped (SIGSTOP); let it go on first (SIGCONT)", error);
    for (size_t i = 0; i < h->n; i++)
        if (!h->threads[i].stopped)
            return refuse(h, COFI_ERR_SYSTEM,
                          "a thread cannot be stopped: it waits in the kernel, for a child of vfork perhaps", error);
        else if (!cofi__fast_is_64bit(h->threads[i].tid))
            return refuse(h, COFI_ERR_UNSUPPORTED, "it runs 32-bit code", error);
        else if (is_dispatched(h->threads[i].tid))
            return refuse(h, COFI_ERR_UNSUPPORTED,
                          "its system calls are dispatched to itself, and the runtime's would be", error);
        else if (has_shadow_stack(h->threads[i].tid))
            return refuse(h, COFI_ERR_UNSUPPORTED, "it has a shadow stack", error);
    if (cofi__fast_lacks_room(c->control, h->pid))
        return refuse(h, COFI_ERR_UNSUPPORTED, "it is limited to less memory than the runtime needs", error);
    if (!has_mappings_left(c, h))
        return refuse(h, COFI_ERR_UNSUPPORTED,
                      "it has nearly as many mappings as it may (vm.max_map_count), and the runtime needs some", error);
    if (h->n > c->made.slots)
        return cofi__fail(error, COFI_ERR_FULL, COFI_NOWHERE, "more threads than slots");
    return look_at_filters(h, error);
}

int cofi__fast_attach(struct cofi__fast_collector *c, struct cofi_error *error)
{
    struct cofi__fast_memory memory = {c->fd, -1, c->shared_bytes, c->control->claims};
    struct cofi__fast_held h = {.pid = c->options->pid};
    uint64_t tsc = __builtin_ia32_rdtsc();
    int status;
    do
        status = cofi__fast_hold_more(&h, HOLD_PATIENCE_MS, error);
    while (status > 0);
    if (status >= 0)
        status = look_at(&h, c, error);
    if (status >= 0) {
        find_changed(h.pid, c->control);
        status = cofi__fast_inject_running(h.threads[0].tid, &memory, &c->control->locks, error);
    }
    for (size_t i = 0; i < h.n && status >= 0; i++)
        status = set_off(c, h.pid, h.threads[i].tid, i == 0, tsc, error);
    let_go(&h, status >= 0);
    return status;
}
