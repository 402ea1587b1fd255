/* SPDX-License-Identifier: MIT
 * Turns: which task runs next, for how long; from the first stop to the last. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

#include "base/error.h"
#include "base/sized.h"
#include "host/step/engine.h"
#include "host/target.h"

enum {
    QUANTUM = 2000,     /* instructions */
    POLL_EVERY = 64,    /* steps between looks at tasks that are in the kernel */
    RSEQ_PATIENCE = 10000
};

/* ---- waiting ---- */

/* A step ends at once, unless the instruction waits for a page (userfaultfd, a network file). */
static void await_step(struct step_engine *engine, struct step_task *task)
{
    int status;
    for (int patience = 2; task->state == STEP_RUNNING && patience;) {
        pid_t got = waitpid(task->tid, &status, __WALL);
        if (got == task->tid)
            cofi__step_stopped(engine, task, status);
        else if (got < 0 && errno == EINTR)
            patience--;
        else
            return; /* its process called exec in another thread: it has no status of its own */
    }
}

/* What the tasks in the kernel have to say. Returns false when there is nothing (more) to wait for.
 */
static bool listen(struct step_engine *engine, bool block)
{
    int status;
    pid_t tid = cofi__step_wait(engine, &status, block);
    if (tid <= 0)
        return !tid && block;
    struct step_task *task = cofi__step_find(engine, tid);
    if (!task) {
        if (!WIFSTOPPED(status) || !(task = cofi__step_add(engine, tid, NULL)))
            return true;
    }
    cofi__step_stopped(engine, task, status);
    return true;
}

/* ---- turns ---- */

static struct step_task *next_ready(struct step_engine *engine)
{
    struct step_task *start = engine->turn ? engine->turn->next : engine->tasks;
    for (struct step_task *t = start; t; t = t->next)
        if (t->state == STEP_READY)
            return t;
    for (struct step_task *t = engine->tasks; t && t != start; t = t->next)
        if (t->state == STEP_READY)
            return t;
    return NULL;
}

static bool in_kernel_somewhere(const struct step_engine *engine)
{
    for (const struct step_task *t = engine->tasks; t; t = t->next)
        if (t->state == STEP_RUNNING || t->state == STEP_HELD)
            return true;
    return false;
}

static bool is_over(const struct step_engine *engine)
{
    const struct cofi_step_options *o = engine->options;
    return engine->feed.status || (o->limit && engine->feed.insns >= o->limit) ||
           (o->release && *o->release && engine->result->started) ||
           (o->stop && *o->stop && (!engine->root || engine->root_ended || *o->stop > 1));
}

/* Run one task until its quantum ends, it waits in the kernel, or it yields. */
static void take_turn(struct step_engine *engine, struct step_task *task)
{
    unsigned quantum = engine->options->quantum ? engine->options->quantum : QUANTUM;
    engine->turn = task;
    for (unsigned n = 0; task->state == STEP_READY && !is_over(engine); n++) {
        if (n >= quantum && (!cofi__step_rseq_inside(task) || n >= quantum + RSEQ_PATIENCE))
            break;
        cofi__step_resume(engine, task);
        if (task->state == STEP_RUNNING && task->resume == STEP_TO_EXIT) {
            int status;
            sched_yield(); /* most system calls are done when we get the processor back */
            if (waitpid(task->tid, &status, __WALL | WNOHANG) != task->tid)
                break;
            cofi__step_stopped(engine, task, status);
        } else {
            await_step(engine, task);
            if (task->code.pause && task->resume == STEP_BY_STEP)
                break;
        }
        if (++engine->ticks >= POLL_EVERY) {
            engine->ticks = 0;
            if (in_kernel_somewhere(engine))
                while (listen(engine, false) && engine->turn == task)
                    ;
        }
    }
}

static bool anyone_left(const struct step_engine *engine)
{
    for (const struct step_task *t = engine->tasks; t; t = t->next)
        if (t->state != STEP_GONE)
            return true;
    return false;
}

/* Children whose parent was killed before it told of them: nobody's, they go on alone. Returns
 * whether anything else is left to wait for. */
static bool release_orphans(struct step_engine *engine)
{
    bool others = false;
    for (const struct step_task *t = engine->tasks; t; t = t->next)
        others |= t->state == STEP_RUNNING || t->state == STEP_GROUP;
    for (struct step_task *t = engine->tasks; t && !others; t = t->next)
        if (t->state == STEP_HELD && !t->process) {
            ptrace(PTRACE_DETACH, t->tid, NULL, NULL);
            t->state = STEP_GONE;
        }
    return others || anyone_left(engine);
}

static void loop(struct step_engine *engine)
{
    while (!is_over(engine)) {
        cofi__step_sweep(engine);
        while (in_kernel_somewhere(engine) && listen(engine, false))
            ;
        struct step_task *task = next_ready(engine);
        if (task)
            take_turn(engine, task);
        else if (!release_orphans(engine) || !listen(engine, true))
            break;
    }
}

/* ---- the end ---- */

static void kill_all(struct step_engine *engine)
{
    for (struct step_process *p = engine->processes; p; p = p->next)
        if (p->users)
            kill(p->pid, SIGKILL);
    while (anyone_left(engine) && listen(engine, true))
        ;
}

void cofi_step_wait(struct cofi_step_result *result, const volatile int *stop)
{
    int status;
    while (result->left) {
        pid_t got = waitpid(result->left, &status, 0);
        if (got < 0 && errno == EINTR) {
            if (stop && *stop > 1)
                kill(result->left, SIGKILL);
            continue;
        }
        if (got == result->left)
            result->wait_status = status;
        result->left = 0;
    }
}

static void finish(struct step_engine *engine)
{
    const volatile int *stop = engine->options->stop;
    if (engine->root && !engine->root_ended && stop && *stop > 1 && !engine->feed.status)
        kill_all(engine);
    cofi__step_let_go(engine);
    cofi__step_free(engine);
    cofi__namespaces_free(&engine->namespaces);
}

void cofi_step_time_info(const struct cofi_step_options *options, struct cofi_time_info *time)
{
    cofi__feed_time_info(options->clock == COFI_CLOCK_REAL, time);
}

/* One processor for us and the program: a step costs a quarter of what it does across two. */
static void pin_self(struct step_engine *engine)
{
    cpu_set_t one;
    engine->cpu = -1;
    if (sched_getaffinity(0, sizeof engine->affinity, &engine->affinity))
        return;
    int cpu = sched_getcpu();
    CPU_ZERO(&one);
    if (cpu < 0 || cpu >= CPU_SETSIZE)
        return;
    CPU_SET(cpu, &one);
    if (!sched_setaffinity(0, sizeof one, &one))
        engine->cpu = cpu;
}

static int run(struct step_engine *engine)
{
    const struct cofi_step_options *options = engine->options;
    struct cofi_step_result *result = engine->result;
    cofi__feed_init(&engine->feed, options->observers, options->observers_n,
                    options->clock == COFI_CLOCK_REAL);
    cofi__step_news_init(engine);
    pin_self(engine);
    cofi__step_watch(engine);
    int status = options->argv ? cofi__step_launch(engine) : cofi__step_attach(engine);
    if (!status)
        loop(engine);
    finish(engine);
    cofi__step_unwatch(engine);
    if (engine->cpu >= 0)
        sched_setaffinity(0, sizeof engine->affinity, &engine->affinity);
    if (!status)
        status = engine->feed.status;
    result->insns = engine->feed.insns;
    /* The observers' files can be completed while it runs on. */
    result->left = engine->root && !engine->root_ended && result->started ? engine->root : 0;
    return status;
}

int cofi_step_run(const struct cofi_step_options *given, struct cofi_step_result *result,
                  struct cofi_error *error)
{
    struct cofi_step_options all, *options = &all;
    *result = (struct cofi_step_result){0};
    if (error)
        *error = (struct cofi_error){0};
    COFI_TRY(cofi__sized(&all, sizeof all, given, offsetof(struct cofi_step_options, no_follow), error));
    COFI_TRY(cofi__target_check(options->argv, options->pid, error));
    struct step_engine *engine = calloc(1, sizeof *engine); /* tens of KiB: not for a thread's stack */
    if (!engine)
        return cofi__name_error(error, COFI_ERR_NOMEM);
    engine->options = options;
    engine->result = result;
    engine->error = error;
    int status = run(engine);
    free(engine);
    return cofi__name_error(error, status); /* an observer's, or no memory */
}
