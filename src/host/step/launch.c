/* SPDX-License-Identifier: MIT
 * Commands started, processes attached to, children adopted, all let go. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/ptrace.h>
#include <linux/sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "host/proc.h"
#include "host/step/engine.h"
#include "host/step/request.h"

/* Of a child that is not the command yet: nothing of ours is followed, nor threads that fork's handlers began in it. */
static const long before_exec = PTRACE_O_TRACEEXEC | PTRACE_O_EXITKILL;

static long trace_options(const struct step_engine *engine, bool launched)
{
    long options = PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACECLONE | PTRACE_O_TRACEEXEC;
    if (!engine->options->no_follow)
        options |= PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK;
    return launched ? options | PTRACE_O_EXITKILL : options;
}

static void pin(struct step_engine *engine, struct step_task *task)
{
    if (engine->cpu < 0 || sched_getaffinity(task->tid, sizeof task->affinity, &task->affinity))
        return;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(engine->cpu, &one);
    if (CPU_ISSET(engine->cpu, &task->affinity))
        sched_setaffinity(task->tid, sizeof one, &one);
}

static void begin(struct step_engine *engine, struct step_task *task)
{
    task->cpu.task.pid = task->process->pid;
    task->cpu.task.tid = task->tid;
    cofi__feed_begin(&engine->feed, &task->cpu);
    engine->result->tasks++;
}

/* ---- a command ---- */

static void run_child(char *const *argv, int go, int report, const struct sigaction *alarm)
{
    char byte;
    sigaction(SIGALRM, alarm, NULL);
    if (read(go, &byte, 1) == 1)
        execvp(argv[0], argv);
    int error = errno;
    if (write(report, &error, sizeof error) < 0)
        _exit(126);
    _exit(error == ENOENT ? 127 : 126);
}

/* Until its exec: true, or it ended: false. */
static bool await_exec(pid_t pid, int *status)
{
    for (;;) {
        pid_t got = waitpid(pid, status, __WALL);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0 || !WIFSTOPPED(*status))
            return false;
        if (*status >> 16 == PTRACE_EVENT_EXEC)
            return true;
        int signal = *status >> 16 ? 0 : WSTOPSIG(*status);
        step_ptrace(PTRACE_CONT, pid, 0, (void *)(uintptr_t)signal);
    }
}

static int refuse(struct step_engine *engine, int code, const char *what, pid_t pid)
{
    int why = errno;
    return cofi__fail(engine->error, code, COFI_NOWHERE, "%s process %d: %s%s", what, (int)pid, strerror(why), cofi__proc_hint(why));
}

/* Let the child exec; returns an errno if it could not. */
static int start(struct step_engine *engine, pid_t pid, int go, int report, int *status)
{
    int error = 0;
    engine->root = pid;
    if (write(go, "g", 1) != 1)
        return EIO;
    if (await_exec(pid, status))
        return 0;
    if (read(report, &error, sizeof error) != sizeof error)
        error = ECANCELED;
    return error;
}

static int first_stop(struct step_engine *engine, pid_t pid)
{
    struct step_process *process = cofi__step_add_process(engine, pid, cofi__step_space_new());
    struct step_task *task = process ? cofi__step_add(engine, pid, process) : NULL;
    if (!task || !cofi__step_regs(task))
        return COFI_ERR_NOMEM;
    step_ptrace(PTRACE_SETOPTIONS, pid, 0, (void *)trace_options(engine, true));
    process->ppid = getpid();
    struct sigaction trap;
    sigaction(SIGTRAP, NULL, &trap);
    process->trap_ignored = trap.sa_handler == SIG_IGN;
    begin(engine, task);
    cofi__step_tell_comm(engine, task, true);
    cofi__step_refresh(engine, task);
    task->in_syscall = true;
    task->nr = UINT64_MAX;
    task->state = STEP_READY;
    engine->result->started = true;
    if (engine->options->started)
        *engine->options->started = pid;
    return 0;
}

/* The child waits on a pipe until it is seized. */
int cofi__step_launch(struct step_engine *engine)
{
    int go[2], report[2], status = 0;
    if (pipe2(go, O_CLOEXEC) || pipe2(report, O_CLOEXEC))
        return cofi__fail(engine->error, COFI_ERR_SYSTEM, COFI_NOWHERE, "pipe: %s",
                          strerror(errno));
    pid_t pid = fork();
    if (!pid)
        run_child(engine->options->argv, go[0], report[1], &engine->alarm);
    close(go[0]);
    close(report[1]);
    int code = 0;
    if (pid < 0) {
        code =
            cofi__fail(engine->error, COFI_ERR_SYSTEM, COFI_NOWHERE, "fork: %s", strerror(errno));
    } else if (step_ptrace(PTRACE_SEIZE, pid, 0, (void *)before_exec) < 0) {
        code = refuse(engine, COFI_ERR_PERMISSION, "cannot trace", pid);
        kill(pid, SIGKILL);
        waitpid(pid, &status, __WALL);
    } else {
        int error = start(engine, pid, go[1], report[0], &status);
        engine->result->exec_errno = error;
        engine->result->wait_status = status;
        if (error)
            code = cofi__fail(engine->error, COFI_ERR_NOT_FOUND, COFI_NOWHERE, "%s: %s",
                              engine->options->argv[0], strerror(error));
        else
            code = first_stop(engine, pid);
    }
    close(go[1]);
    close(report[0]);
    return code;
}

/* ---- a process that runs ---- */

/* Seize the threads that are not ours yet. Returns how many, or -1 with errno. */
static int seize_threads(struct step_engine *engine, struct step_process *process)
{
    char name[64];
    int n = 0;
    snprintf(name, sizeof name, "/proc/%d/task", (int)process->pid);
    DIR *dir = opendir(name);
    if (!dir)
        return -1;
    for (struct dirent *entry; (entry = readdir(dir));) {
        pid_t tid = (pid_t)atoi(entry->d_name);
        if (tid <= 0 || cofi__step_find(engine, tid))
            continue;
        if (step_ptrace(PTRACE_SEIZE, tid, 0, (void *)trace_options(engine, false)) < 0) {
            if (errno == ESRCH && tid != process->pid)
                continue;
            closedir(dir);
            return -1;
        }
        struct step_task *task = cofi__step_add(engine, tid, process);
        if (!task)
            break;
        step_ptrace(PTRACE_INTERRUPT, tid, 0, NULL);
        n++;
    }
    closedir(dir);
    return n;
}

/* The first stop of a thread: any will do, but a signal must not be lost. */
static void await_stop(struct step_engine *engine, struct step_task *task)
{
    int status;
    pid_t got;
    do
        got = waitpid(task->tid, &status, __WALL);
    while (got < 0 && errno == EINTR);
    if (got < 0 || !WIFSTOPPED(status) || !cofi__step_regs(task)) {
        cofi__step_end(engine, task);
        return;
    }
    task->state = STEP_READY;
    int signal = WSTOPSIG(status);
    if (status >> 16 == PTRACE_EVENT_STOP && signal != SIGTRAP) {
        task->state = STEP_GROUP;
        step_ptrace(PTRACE_LISTEN, task->tid, 0, NULL);
    } else if (!(status >> 16) && signal != (SIGTRAP | 0x80)) {
        task->signal = signal;
    }
}

int cofi__step_attach(struct step_engine *engine)
{
    pid_t pid = engine->options->pid, ppid = 0;
    if (cofi__step_tgid(pid, &ppid) != pid)
        return cofi__fail(engine->error, COFI_ERR_NOT_FOUND, COFI_NOWHERE, "no process %d",
                          (int)pid);
    struct step_process *process = cofi__step_add_process(engine, pid, cofi__step_space_new());
    if (!process)
        return COFI_ERR_NOMEM;
    process->ppid = ppid;
    for (int n; (n = seize_threads(engine, process));)
        if (n < 0)
            return refuse(engine, COFI_ERR_PERMISSION, "cannot attach to", pid);
    struct step_task *leader = NULL;
    for (struct step_task *t = engine->tasks; t; t = t->next) {
        await_stop(engine, t);
        if (t->state == STEP_GONE)
            continue;
        pin(engine, t);
        begin(engine, t);
        cofi__step_tell_comm(engine, t, false);
        cofi__step_rseq_find(t);
        cofi__step_hide_trap_mask(t);
        if (t->tid == pid || !leader)
            leader = t;
    }
    if (!leader)
        return cofi__fail(engine->error, COFI_ERR_NOT_FOUND, COFI_NOWHERE, "process %d has ended",
                          (int)pid);
    cofi__step_refresh(engine, leader);
    engine->result->started = true;
    if (engine->options->started)
        *engine->options->started = pid;
    return 0;
}

/* ---- a child ---- */

/* Does the child of the system call that the parent is in share its memory? */
static bool shares_memory(const struct step_task *parent)
{
    enum { CLONE64 = 56, CLONE32 = 120, CLONE3 = 435, VFORK64 = 58, VFORK32 = 190 };
    uint64_t nr = parent->nr & 0xffff, flags = 0;
    if (nr == CLONE3)
        cofi__step_read(parent->tid, parent->args[0], &flags, 8);
    else if (nr == (parent->compat ? CLONE32 : CLONE64))
        flags = parent->args[0];
    else if (nr == (parent->compat ? VFORK32 : VFORK64))
        flags = CLONE_VM;
    return flags & CLONE_VM;
}

static struct step_process *child_process(struct step_engine *engine, pid_t pid,
                                          struct step_task *parent)
{
    struct step_space *space = parent->process->space;
    if (shares_memory(parent))
        space->users++;
    else
        space = cofi__step_space_copy(space);
    struct step_process *process = cofi__step_add_process(engine, pid, space);
    if (!process)
        return NULL;
    process->ppid = parent->process->pid;
    process->trap_ignored = parent->process->trap_ignored;
    return process;
}

void cofi__step_adopt(struct step_engine *engine, struct step_task *child, struct step_task *parent)
{
    pid_t pid = cofi__step_tgid(child->tid, NULL);
    if (pid && pid != parent->process->pid && engine->options->no_follow) {
        /* clone() with an exit signal of its own: nobody asked to follow it. */
        int status;
        if (!child->early)
            waitpid(child->tid, &status, __WALL);
        step_ptrace(PTRACE_DETACH, child->tid, 0, NULL);
        child->state = STEP_GONE;
        return;
    }
    struct step_process *process = pid == parent->process->pid || !pid ? parent->process
                                 : child_process(engine, pid, parent);
    if (!process)
        return;
    child->process = process;
    process->users++;
    memcpy(&child->affinity, &parent->affinity, sizeof child->affinity);
    child->cpu.task = (struct cofi_task){.pid = process->pid, .tid = child->tid};
    cofi__step_tell_fork(engine, child, parent);
    begin(engine, child);
    if (child->early && cofi__step_regs(child)) {
        child->state = STEP_READY;
        cofi__step_rseq_find(child);
        cofi__step_hide_trap_mask(child);
    }
}

/* ---- letting go ---- */

/* A step trap still to come would kill the program when we are gone. */
static void take_owed(struct step_task *task)
{
    int status;
    if (!task->owed)
        return;
    step_ptrace(PTRACE_SINGLESTEP, task->tid, 0, NULL);
    while (waitpid(task->tid, &status, __WALL) < 0 && errno == EINTR)
        ;
    task->owed = false;
}

static void detach(struct step_engine *engine, struct step_task *task)
{
    take_owed(task);
    cofi__step_rseq_restore(task);
    cofi__step_show_trap_mask(task);
    if (engine->cpu >= 0)
        sched_setaffinity(task->tid, sizeof task->affinity, &task->affinity);
    cofi__step_end(engine, task);
    step_ptrace(PTRACE_DETACH, task->tid, 0, (void *)(uintptr_t)task->signal);
}

/* Any stop will do. Its signal, if it is one's delivery, is delivered by the detaching. */
static bool stop_for_detach(struct step_task *task)
{
    int status;
    pid_t got;
    step_ptrace(PTRACE_INTERRUPT, task->tid, 0, NULL);
    do
        got = waitpid(task->tid, &status, __WALL);
    while (got < 0 && errno == EINTR);
    if (got < 0 || !WIFSTOPPED(status) || !cofi__step_regs(task))
        return false;
    if (!(status >> 16) && WSTOPSIG(status) != (SIGTRAP | 0x80) && WSTOPSIG(status) != SIGTRAP)
        task->signal = WSTOPSIG(status);
    return true;
}

void cofi__step_let_go(struct step_engine *engine)
{
    engine->letting_go = true;
    for (struct step_task *t = engine->tasks; t; t = t->next) {
        if (t->state == STEP_GONE)
            continue;
        bool stopped = t->state == STEP_READY || (t->state == STEP_HELD && t->early);
        if (stopped || stop_for_detach(t))
            detach(engine, t);
        else
            cofi__step_end(engine, t);
    }
}
