/* SPDX-License-Identifier: MIT
 * Tasks and processes: found, added, ended. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "host/proc.h"
#include "host/step/engine.h"

struct step_task *cofi__step_find(struct step_engine *engine, pid_t tid)
{
    for (struct step_task *t = engine->tasks; t; t = t->next)
        if (t->tid == tid && t->state != STEP_GONE)
            return t;
    return NULL;
}

struct step_process *cofi__step_find_process(struct step_engine *engine, pid_t pid)
{
    for (struct step_process *p = engine->processes; p; p = p->next)
        if (p->pid == pid && p->users)
            return p;
    return NULL;
}

struct step_process *cofi__step_add_process(struct step_engine *engine, pid_t pid,
                                            struct step_space *space)
{
    struct step_process *process = space ? calloc(1, sizeof *process) : NULL;
    if (!process) {
        engine->feed.status = COFI_ERR_NOMEM;
        cofi__step_space_drop(space);
        return NULL;
    }
    process->pid = pid;
    process->space = space;
    process->next = engine->processes;
    engine->processes = process;
    engine->result->processes++;
    return process;
}

struct step_task *cofi__step_add(struct step_engine *engine, pid_t tid, struct step_process *process)
{
    struct step_task *task = calloc(1, sizeof *task);
    if (!task) {
        engine->feed.status = COFI_ERR_NOMEM;
        return NULL;
    }
    task->tid = tid;
    task->state = STEP_HELD;
    task->process = process;
    task->mode = 64;
    task->affinity = engine->affinity;
    if (process)
        process->users++;
    /* At the end, so that turns go round in order of age. */
    struct step_task **at = &engine->tasks;
    while (*at)
        at = &(*at)->next;
    *at = task;
    return task;
}

void cofi__step_end(struct step_engine *engine, struct step_task *task)
{
    if (task->state == STEP_GONE)
        return;
    if (task->cpu.begun) {
        if (!task->cpu.in_kernel)
            cofi__feed_interrupt(&engine->feed, &task->cpu, COFI_CAUSE_INTR,
                                 COFI__VECTOR_RESCHEDULE, 0);
        cofi__feed_end(&engine->feed, &task->cpu);
        if (!engine->letting_go)
            cofi__step_tell_exit(engine, task);
    }
    task->state = STEP_GONE;
    if (task->process)
        task->process->users--;
}

static void free_process(struct step_process *process)
{
    cofi__step_space_drop(process->space);
    free(process);
}

void cofi__step_sweep(struct step_engine *engine)
{
    for (struct step_task **at = &engine->tasks, *t; (t = *at);) {
        if (t->state != STEP_GONE) {
            at = &t->next;
            continue;
        }
        *at = t->next;
        if (engine->turn == t)
            engine->turn = NULL;
        if (engine->telling == t)
            engine->telling = NULL;
        free(t);
    }
    for (struct step_process **at = &engine->processes, *p; (p = *at);) {
        if (p->users) {
            at = &p->next;
            continue;
        }
        *at = p->next;
        free_process(p);
    }
}

void cofi__step_free(struct step_engine *engine)
{
    for (struct step_task *t = engine->tasks; t; t = t->next)
        cofi__step_end(engine, t);
    cofi__step_sweep(engine);
}

pid_t cofi__step_tgid(pid_t tid, pid_t *ppid)
{
    if (ppid)
        *ppid = cofi__proc_number(tid, "PPid:");
    return cofi__proc_number(tid, "Tgid:");
}
