/* SPDX-License-Identifier: MIT
 * Around a system call: what it changed for us, and what stepping must not let the program see. */
#include <linux/prctl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "host/step/engine.h"
#include "host/step/numbers.h"

/* ---- SIGTRAP ignored: stepping makes it default, so we remember and answer for it ---- */

static void watch_sigaction(struct step_task *task, bool compat)
{
    uint64_t handler = 0, ignore = (uintptr_t)SIG_IGN;
    size_t size = compat ? 4 : 8;
    bool was_ignored = task->process->trap_ignored;
    if (task->args[0] != SIGTRAP)
        return;
    if (task->args[2] && was_ignored)
        cofi__step_write(task->tid, task->args[2], &ignore, size);
    /* Where old and new action share memory, the new one is gone; then the kernel knows. */
    if (task->args[1] && task->args[1] != task->args[2] &&
        cofi__step_read(task->tid, task->args[1], &handler, size) == size)
        task->process->trap_ignored = handler == ignore;
}

/* ---- affinity: the program is pinned, but believes what it set ---- */

static struct step_task *affine_task(struct step_engine *engine, struct step_task *task)
{
    pid_t tid = (pid_t)task->args[0];
    return tid ? cofi__step_find(engine, tid) : task;
}

static void watch_setaffinity(struct step_engine *engine, struct step_task *task)
{
    struct step_task *other = affine_task(engine, task);
    if (!other || engine->cpu < 0 ||
        sched_getaffinity(other->tid, sizeof other->affinity, &other->affinity))
        return;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(engine->cpu, &one);
    if (CPU_ISSET(engine->cpu, &other->affinity))
        sched_setaffinity(other->tid, sizeof one, &one);
}

static void watch_getaffinity(struct step_engine *engine, struct step_task *task, int64_t written)
{
    struct step_task *other = affine_task(engine, task);
    if (!other || engine->cpu < 0 || (size_t)written > sizeof other->affinity)
        return;
    cofi__step_write(task->tid, task->args[2], &other->affinity, (size_t)written);
}

/* ---- mappings ---- */

static void remapped(struct step_engine *engine, struct step_task *task, uint64_t start,
                     uint64_t len, bool executable)
{
    struct step_space *space = task->process->space;
    if (!executable && !cofi__step_space_overlaps(space, start, start + len))
        return;
    cofi__step_refresh(engine, task);
    cofi__step_space_doubt(space, start, start + len);
}

/* A thread may name another of its process: /proc/PID/task/TID/comm, or /proc/PID/comm. */
static void named(struct step_engine *engine, const char *file)
{
    const char *end = strrchr(file, '/');
    while (end > file && end[-1] != '/')
        end--;
    struct step_task *other = cofi__step_find(engine, (pid_t)strtol(end, NULL, 10));
    if (other)
        cofi__step_tell_comm(engine, other, false);
}

/* A write through /proc/PID/mem changes code behind everyone's back. */
static void watch_write(struct step_engine *engine, struct step_task *task)
{
    char name[64], target[64] = "";
    snprintf(name, sizeof name, "/proc/%d/fd/%d", (int)task->tid, (int)task->args[0]);
    ssize_t n = readlink(name, target, sizeof target - 1);
    if (n < 10 || memcmp(target, "/proc/", 6))
        return;
    if (!strcmp(target + n - 5, "/comm"))
        named(engine, target);
    if (strcmp(target + n - 4, "/mem"))
        return;
    for (struct step_process *p = engine->processes; p; p = p->next)
        cofi__step_space_doubt(p->space, 0, UINT64_MAX);
}

static void doubt_all(struct step_engine *engine)
{
    for (struct step_process *p = engine->processes; p; p = p->next)
        cofi__step_space_doubt(p->space, 0, UINT64_MAX);
}

/* ---- entry and exit ---- */

void cofi__step_kernel_entry(struct step_engine *engine, struct step_task *task)
{
    (void)engine;
    cofi__step_show_trap_mask(task);
}

static void finished(struct step_engine *engine, struct step_task *task, int64_t result)
{
    const uint64_t *a = task->args;
    switch (step_call_of(task->nr, task->compat)) {
    case STEP_CALL_OTHER: break;
    case STEP_CALL_MMAP: /* i386: an old call whose arguments lie in memory */
    case STEP_CALL_MMAP2:
        remapped(engine, task, (uint64_t)result, a[1], task->compat || (a[2] & PROT_EXEC));
        break;
    case STEP_CALL_MPROTECT:
    case STEP_CALL_PKEY_MPROTECT: remapped(engine, task, a[0], a[1], a[2] & PROT_EXEC); break;
    case STEP_CALL_MUNMAP:
    case STEP_CALL_MADVISE: remapped(engine, task, a[0], a[1], false); break;
    case STEP_CALL_MREMAP: remapped(engine, task, a[0], a[1] > a[2] ? a[1] : a[2], false); break;
    case STEP_CALL_SHMAT:
    case STEP_CALL_SHMDT:
    case STEP_CALL_IPC:
    case STEP_CALL_REMAP_FILE_PAGES: cofi__step_refresh(engine, task); break;
    case STEP_CALL_WRITE:
    case STEP_CALL_PWRITE64:
    case STEP_CALL_WRITEV:
    case STEP_CALL_PWRITEV: watch_write(engine, task); break;
    case STEP_CALL_PROCESS_VM_WRITEV:
    case STEP_CALL_PTRACE: doubt_all(engine); break;
    case STEP_CALL_SIGACTION:
    case STEP_CALL_RT_SIGACTION: watch_sigaction(task, task->compat); break;
    case STEP_CALL_SIGPROCMASK:
    case STEP_CALL_RT_SIGPROCMASK:
    case STEP_CALL_SIGRETURN:
    case STEP_CALL_RT_SIGRETURN:
    case STEP_CALL_SGETMASK:
    case STEP_CALL_SSETMASK: break; /* every exit looks at the mask */
    case STEP_CALL_SCHED_SETAFFINITY: watch_setaffinity(engine, task); break;
    case STEP_CALL_SCHED_GETAFFINITY: watch_getaffinity(engine, task, result); break;
    case STEP_CALL_PRCTL:
        if (a[0] == PR_SET_NAME)
            cofi__step_tell_comm(engine, task, false);
        break;
    case STEP_CALL_RSEQ: cofi__step_rseq_find(task); break;
    }
}

void cofi__step_kernel_exit(struct step_engine *engine, struct step_task *task)
{
    int64_t result = task->compat ? (int32_t)task->regs.rax : (int64_t)task->regs.rax;
    if (result > -4096 && result < 0)
        result = -1;
    if (result >= 0 || task->compat)
        finished(engine, task, result);
    cofi__step_hide_trap_mask_behind(task);
}
