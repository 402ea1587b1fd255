/* SPDX-License-Identifier: MIT
 * Processes attached to; and all that is recorded let go. */
#include <dirent.h>
#include <errno.h>
#include <linux/ptrace.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "host/proc.h"
#include "host/step/engine.h"
#include "host/step/request.h"

typedef bool step_which(const struct step_task *task);
typedef void step_tell(struct step_engine *engine, struct step_task *task, int status);

static bool is_held(const struct step_task *task) { return task->state == STEP_HELD; }
static bool is_left(const struct step_task *task) { return task->state != STEP_GONE; }

static struct step_task *first_of(const struct step_engine *engine, step_which *which)
{
    struct step_task *t = engine->tasks;
    while (t && !which(t))
        t = t->next;
    return t;
}

/* exec gave the thread that called it its leader's number. */
static void drop_vanished(struct step_engine *engine, step_which *which)
{
    for (struct step_task *t = engine->tasks; t; t = t->next)
        if (which(t) && syscall(SYS_tkill, t->tid, 0) < 0 && errno == ESRCH)
            cofi__step_end(engine, t);
}

/* Until there are none such, in the order in which they stop or end. Any other may never come: a leader's end is told
 * after all other threads', and who waits in the kernel for another (vfork, exec) stops when that one went on. */
static void await_each(struct step_engine *engine, step_which *which, step_tell *tell)
{
    int status;
    while (first_of(engine, which)) {
        pid_t tid = cofi__step_wait(engine, &status, true);
        struct step_task *task = tid > 0 ? cofi__step_find(engine, tid) : NULL;
        if (tid > 0 && !task && WIFSTOPPED(status))
            task = cofi__step_add(engine, tid, NULL);
        if (task)
            tell(engine, task, status);
        if (tid < 0)
            break;
        if (!tid)
            drop_vanished(engine, which);
    }
}

/* ---- a process that runs ---- */

/* A leader that has ended stays for as long as others run. */
static bool is_ending(pid_t tid)
{
    char name[64], line[512], state = 'X';
    snprintf(name, sizeof name, "/proc/%d/stat", (int)tid);
    FILE *f = fopen(name, "re");
    if (f && fgets(line, sizeof line, f) && strrchr(line, ')'))
        sscanf(strrchr(line, ')'), ") %c", &state);
    if (f)
        fclose(f);
    return state == 'X' || state == 'Z';
}

/* Seize the threads that are not ours yet. None of their children are followed until all have stopped: what a
 * thread that was seized first begins meanwhile is found as the others are. Returns how many, or -1 with errno. */
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
        if (step_ptrace(PTRACE_SEIZE, tid, 0, (void *)(uintptr_t)PTRACE_O_TRACESYSGOOD) < 0) {
            int why = errno;
            if (is_ending(tid))
                continue;
            closedir(dir);
            errno = why;
            return -1;
        }
        if (!cofi__step_add(engine, tid, process))
            break;
        step_ptrace(PTRACE_INTERRUPT, tid, 0, NULL);
        n++;
    }
    closedir(dir);
    return n;
}

/* The first stop of a thread: any will do, but a signal must not be lost. */
static void first_stop(struct step_engine *engine, struct step_task *task, int status)
{
    if (!WIFSTOPPED(status)) {
        cofi__step_end(engine, task);
        return;
    }
    if (!cofi__step_regs(task)) /* killed in its stop: it will say so */
        return;
    task->state = STEP_READY;
    int signal = WSTOPSIG(status);
    if (status >> 16 == PTRACE_EVENT_STOP && signal != SIGTRAP)
        task->state = STEP_GROUP;
    else if (!(status >> 16) && signal != (SIGTRAP | 0x80))
        task->signal = signal;
}

static int seize_process(struct step_engine *engine, struct step_process *process)
{
    for (int n; (n = seize_threads(engine, process));) {
        if (n < 0)
            return cofi__step_refuse(engine, COFI_ERR_PERMISSION, "cannot attach to", process->pid);
        await_each(engine, is_held, first_stop);
    }
    return 0;
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
    COFI_TRY(seize_process(engine, process));
    struct step_task *leader = NULL;
    for (struct step_task *t = engine->tasks; t; t = t->next) {
        if (t->state == STEP_GONE)
            continue;
        step_ptrace(PTRACE_SETOPTIONS, t->tid, 0, (void *)cofi__step_trace_options(engine, false));
        pin(engine, t);
        cofi__step_begin(engine, t);
        cofi__step_tell_comm(engine, t, false);
        cofi__step_rseq_find(t);
        cofi__step_hide_trap_mask(t);
        if (t->state == STEP_GROUP)
            step_ptrace(PTRACE_LISTEN, t->tid, 0, NULL);
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

/* Did it stop and was let go before its parent told of it? */
static bool was_there(const struct step_engine *engine, pid_t tid)
{
    const struct step_task *t = engine->tasks;
    while (t && t->tid != tid)
        t = t->next;
    return t;
}

/* Any stop will do. Its signal, if it is one's delivery, is delivered by the detaching. */
static void go(struct step_engine *engine, struct step_task *task, int status)
{
    if (!WIFSTOPPED(status)) {
        cofi__step_stopped(engine, task, status);
        return;
    }
    int signal = WSTOPSIG(status), event = status >> 16;
    unsigned long child = 0;
    if (!cofi__step_regs(task))
        return; /* killed in its stop: it will say so */
    if (!event && signal != (SIGTRAP | 0x80) && signal != SIGTRAP)
        task->signal = signal;
    if (event == PTRACE_EVENT_FORK || event == PTRACE_EVENT_VFORK || event == PTRACE_EVENT_CLONE)
        step_ptrace(PTRACE_GETEVENTMSG, task->tid, 0, &child);
    if (child && !was_there(engine, (pid_t)child))
        cofi__step_add(engine, (pid_t)child, NULL);
    detach(engine, task);
}

void cofi__step_let_go(struct step_engine *engine)
{
    engine->letting_go = true;
    for (struct step_task *t = engine->tasks; t; t = t->next)
        if (t->state == STEP_READY || (t->state == STEP_HELD && t->early))
            detach(engine, t);
        else if (is_left(t))
            step_ptrace(PTRACE_INTERRUPT, t->tid, 0, NULL);
    await_each(engine, is_left, go);
}
