/* SPDX-License-Identifier: MIT
 * Commands started, children adopted. */
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
#include "host/target.h"

/* Of a child that is not the command yet: nothing of ours is followed, nor threads that fork's handlers began in it. */
static const long before_exec = PTRACE_O_TRACEEXEC | PTRACE_O_EXITKILL;

long cofi__step_trace_options(const struct step_engine *engine, bool launched)
{
    long options = PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACECLONE | PTRACE_O_TRACEEXEC;
    if (!engine->options->no_follow)
        options |= PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK;
    return launched ? options | PTRACE_O_EXITKILL : options;
}

void cofi__step_begin(struct step_engine *engine, struct step_task *task)
{
    task->cpu.task.pid = task->process->pid;
    task->cpu.task.tid = task->tid;
    cofi__feed_begin(&engine->feed, &task->cpu);
    engine->result->tasks++;
}

/* ---- a command ---- */

static void run_child(const struct step_engine *engine, int go, int report)
{
    char byte;
    sigaction(SIGALRM, &engine->alarm, NULL);
    pthread_sigmask(SIG_SETMASK, &engine->mask, NULL);
    if (read(go, &byte, 1) == 1)
        execvp(engine->options->argv[0], engine->options->argv);
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

int cofi__step_refuse(struct step_engine *engine, int code, const char *what, pid_t pid)
{
    int why = errno;
    return cofi__fail(engine->error, code, COFI_NOWHERE, "%s process %d: %s%s", what, (int)pid, strerror(why),
                      cofi__proc_hint(why));
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
    step_ptrace(PTRACE_SETOPTIONS, pid, 0, (void *)cofi__step_trace_options(engine, true));
    process->ppid = getpid();
    struct sigaction trap;
    sigaction(SIGTRAP, NULL, &trap);
    process->trap_ignored = trap.sa_handler == SIG_IGN;
    cofi__step_begin(engine, task);
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
    if (!cofi__open_pipes(go, report))
        return cofi__fail(engine->error, COFI_ERR_SYSTEM, COFI_NOWHERE, "pipe: %s",
                          strerror(errno));
    pid_t pid = fork();
    if (!pid)
        run_child(engine, go[0], report[1]);
    close(go[0]);
    close(report[1]);
    int code = 0;
    if (pid < 0) {
        code =
            cofi__fail(engine->error, COFI_ERR_SYSTEM, COFI_NOWHERE, "fork: %s", strerror(errno));
    } else if (step_ptrace(PTRACE_SEIZE, pid, 0, (void *)before_exec) < 0) {
        code = cofi__step_refuse(engine, COFI_ERR_PERMISSION, "cannot trace", pid);
        kill(pid, SIGKILL);
        waitpid(pid, &status, __WALL);
    } else {
        int error = start(engine, pid, go[1], report[0], &status);
        engine->result->exec_errno = error;
        engine->result->wait_status = error ? status : 0;
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
        while (!child->early && waitpid(child->tid, &status, __WALL) < 0 && errno == EINTR)
            ;
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
    cofi__step_begin(engine, child);
    if (child->early && cofi__step_regs(child)) {
        child->state = STEP_READY;
        cofi__step_rseq_find(child);
        cofi__step_hide_trap_mask(child);
    }
}
