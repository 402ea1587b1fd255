/* SPDX-License-Identifier: MIT
 * Programs that are executed: seized before, so that they stop at their first instruction, where the runtime is put
 * into them. Only for those whom we hold, and the command, does anybody wait here: a caller may have other children. */
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>
#include <x86intrin.h>

#include "base/array.h"
#include "base/error.h"
#include "host/fast/collect.h"
#include "host/fast/hold.h"
#include "host/fast/limits.h"
#include "host/proc.h"

/* By its path: of what is another file there now, what it has in common with the one before is known, its libraries. */
static uint64_t program_key(int32_t pid)
{
    char link[32], path[PATH_MAX];
    snprintf(link, sizeof link, "/proc/%d/exe", pid);
    ssize_t n = readlink(link, path, sizeof path);
    return n > 0 ? cofi__fast_hash(path, (size_t)n) : 0;
}

/* A program stands at its first instruction: put the runtime into it. begun: its stream is that of the
 * program before. */
static int inject_here(struct cofi__fast_collector *c, int32_t pid, bool begun, struct cofi_error *error)
{
    uint32_t index = 0;
    if (cofi__fast_lacks_room(c->control, pid))
        return cofi__fail(error, COFI_ERR_UNSUPPORTED, COFI_NOWHERE,
                          "process %d is limited to less memory than the runtime needs", pid);
    struct thread *t = cofi__fast_take_slot(c, &index);
    if (!t)
        return cofi__fail(error, COFI_ERR_FULL, COFI_NOWHERE, "more threads than slots");
    t->head.pid = t->head.tid = pid;
    t->head.maker = index;
    t->head.nested = cofi__fast_other_pids(pid);
    uint64_t tsc = __rdtsc();
    struct cofi__fast_memory memory = {c->fd, c->code_fd, c->shared_bytes, c->control->claims};
    int status = cofi__fast_inject(pid, &memory, t, cofi__fast_slot_address(&c->made, index), error);
    if (status < 0) {
        __atomic_store_n(&t->head.state, COFI__FAST_SLOT_FREE, __ATOMIC_RELEASE);
        return status;
    }
    t->program.key = program_key(pid);
    cofi__fast_bring(&c->keeper, t->program.key);
    c->seats[index] = (struct cofi__fast_seat){.pid = pid, .tid = pid, .placed = true, .again = c->result->started,
                                               .encoder.begun = begun};
    cofi__fast_comm(c, pid, pid, tsc, true);
    struct cofi_sideband sb = {.kind = COFI_SB_ITRACE_START, .pid = pid, .tid = pid};
    cofi__fast_sideband(c, &sb, tsc);
    return 0;
}

void cofi__fast_answer(struct thread *t, uint32_t what)
{
    __atomic_store_n(&t->head.answer, what, __ATOMIC_SEQ_CST);
    cofi__fast_wake(&t->head.answer);
}

static void forget(struct cofi__fast_collector *c, pid_t tid)
{
    for (size_t i = 0; i < c->followed_n; i++)
        if (c->followed[i].tid == tid) {
            c->followed[i] = c->followed[--c->followed_n];
            return;
        }
}

/* False: out of memory. */
static bool remember(struct cofi__fast_collector *c, struct cofi__fast_followed who)
{
    forget(c, who.tid);
    if (cofi__array_grow(&c->followed, &c->followed_room, c->followed_n, sizeof who))
        return false;
    c->followed[c->followed_n++] = who;
    return true;
}

/* The thread is about to call execve: attach, so that the new program stops at its start. */
void cofi__fast_follow_exec(struct cofi__fast_collector *c, struct thread *t, int32_t pid, int32_t tid)
{
    bool room = remember(c, (struct cofi__fast_followed){pid, tid});
    bool seized = room && !ptrace(PTRACE_SEIZE, tid, 0, PTRACE_O_TRACEEXEC);
    int e = errno;
    if (!seized)
        forget(c, tid);
    /* a debugger has it, or it is another user's */
    c->result->foreign += !seized && (!room || (e != ESRCH && !cofi__fast_has_ended(tid)));
    cofi__fast_answer(t, seized ? 1 : 2);
}

/* … but it failed: let go of it again, while it waits for that. */
void cofi__fast_exec_failed(struct cofi__fast_collector *c, struct thread *t, int32_t tid)
{
    int stop = ptrace(PTRACE_INTERRUPT, tid, 0, 0) ? -1 : cofi__fast_wait_stop(tid);
    if (stop >= 0 && !ptrace(PTRACE_DETACH, tid, 0, (void *)(long)(stop >> 8 ? 0 : stop)))
        forget(c, tid);
    cofi__fast_answer(t, 1);
}

/* Whether a thread that we hold was killed. */
static bool is_gone(pid_t pid)
{
    unsigned long message;
    return cofi__fast_has_ended(pid) || (ptrace(PTRACE_GETEVENTMSG, pid, 0, &message) && errno == ESRCH);
}

/* A process that we hold stands at a program's first instruction. */
static void on_exec(struct cofi__fast_collector *c, pid_t pid, struct cofi_error *error)
{
    bool begun = cofi__fast_end_process(c, pid);
    bool wanted = pid == c->child || c->made.follow;
    int result = wanted ? inject_here(c, pid, begun, error) : COFI_ERR_UNSUPPORTED;
    c->result->started = true;
    if (result < 0 && is_gone(pid))
        return; /* before its first instruction */
    if (result < 0)
        c->result->foreign++;
    if (result < 0 && pid == c->child && !c->result->tasks) {
        c->status = result; /* not one instruction has run: another host may start over */
        kill(pid, SIGKILL);
    }
}

/* A stop of a thread that we hold. Returns whether we still do: where it was killed its end is to come. */
static bool on_stop(struct cofi__fast_collector *c, pid_t pid, int status, struct cofi_error *error)
{
    int event = status >> 16;
    if (event == PTRACE_EVENT_EXEC) {
        on_exec(c, pid, error);
        return ptrace(PTRACE_DETACH, pid, 0, 0);
    }
    ptrace(PTRACE_CONT, pid, 0, (void *)(long)(event ? 0 : WSTOPSIG(status)));
    return true;
}

static void end_command(struct cofi__fast_collector *c, int status)
{
    c->child_ended = true;
    c->child_ended_ns = cofi__fast_now_ns();
    c->result->wait_status = status;
    cofi__fast_collect(c);
    cofi__fast_end_process(c, c->child);
    if (c->options->started)
        *c->options->started = 0;
}

/* Its end is also that somebody else has waited for it: who the caller must not have, or the kernel, if SIGCHLD was
 * ignored. */
static void reap_children(struct cofi__fast_collector *c, struct cofi_error *error)
{
    pid_t got, whom = c->options->all_children ? -1 : c->child;
    int status;
    if (c->child_ended && whom > 0)
        return;
    while ((got = waitpid(whom, &status, WNOHANG | __WALL)) > 0)
        if (WIFSTOPPED(status))
            on_stop(c, got, status, error);
        else if (got == c->child && !c->child_ended)
            end_command(c, status);
    if (got < 0 && !c->child_ended)
        end_command(c, 0);
}

/* Take what there is to say of one. False: we do not hold it any more. */
static bool look_at(struct cofi__fast_collector *c, pid_t pid, struct cofi_error *error)
{
    int status;
    pid_t got = cofi__fast_take_status(pid, &status);
    return got == pid && WIFSTOPPED(status) ? on_stop(c, pid, status, error) : got == 0;
}

/* By executing something, a thread takes its process's number. Where that takes notes, others come and go here. */
void cofi__fast_reap(struct cofi__fast_collector *c, struct cofi_error *error)
{
    reap_children(c, error);
    for (size_t i = c->followed_n; i-- > 0;) {
        if (i >= c->followed_n)
            continue;
        struct cofi__fast_followed f = c->followed[i];
        bool other = f.pid != f.tid && (f.pid != c->child || c->child_ended); /* else reap_children looks */
        if (!look_at(c, f.tid, error) && !(other && look_at(c, f.pid, error)))
            forget(c, f.tid);
    }
}

static bool is_held(pid_t tid)
{
    return cofi__proc_number(tid, "TracerPid:") == getpid();
}

void cofi__fast_follow_no_more(struct cofi__fast_collector *c)
{
    for (; c->followed_n; c->followed_n--) {
        struct cofi__fast_followed f = c->followed[c->followed_n - 1];
        if (is_held(f.tid))
            cofi__fast_let_go(f.tid);
        if (f.pid != f.tid && is_held(f.pid))
            cofi__fast_let_go(f.pid);
    }
}
