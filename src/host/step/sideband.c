/* SPDX-License-Identifier: MIT
 * What the units' decoder must know beside the trace: names, mappings, code, births and deaths. */
#include <errno.h>
#include <string.h>
#include <time.h>

#include "base/error.h"
#include "host/proc.h"
#include "host/step/engine.h"

static int32_t teller(const struct step_engine *engine, pid_t pid)
{
    const struct step_task *t = engine->telling;
    return t && t->process && t->process->pid == pid ? t->tid : pid;
}

/* A thread in user mode cannot get new code: its fetch faults, and the kernel looks after it. */
static void fault_in(struct step_engine *engine)
{
    struct step_task *t = engine->telling;
    if (t && t->cpu.begun && !t->cpu.in_kernel)
        cofi__feed_interrupt(&engine->feed, &t->cpu, COFI_CAUSE_FAULT, COFI__VECTOR_PF, t->cpu.ip);
}

/* One record for each process that has this address space (vfork children share their parent's). */
static void tell_users(struct step_engine *engine, struct step_space *space,
                       struct cofi_sideband *sideband)
{
    fault_in(engine);
    for (struct step_process *p = engine->processes; p; p = p->next)
        if (p->space == space && p->users) {
            sideband->pid = p->pid;
            sideband->tid = teller(engine, p->pid);
            cofi__feed_sideband(&engine->feed, sideband);
        }
}

static void tell_mapping(void *opaque, struct step_space *space, const struct step_mapping *m)
{
    struct cofi_sideband sideband = {.kind = COFI_SB_MMAP,
                                     .addr = m->start,
                                     .len = m->end - m->start,
                                     .pgoff = m->pgoff,
                                     .prot = m->prot,
                                     .flags = m->flags,
                                     .build_id_size = m->served ? COFI_NO_BUILD_ID : 0,
                                     .name = m->path[0] ? m->path : "//anon"};
    if (!strcmp(m->path, "[vsyscall]"))
        return;
    tell_users(opaque, space, &sideband);
}

static void tell_code(void *opaque, struct step_space *space, uint64_t addr, const uint8_t *bytes,
                      size_t len, size_t ahead, const char *label)
{
    struct cofi_sideband sideband = {.kind = COFI_SB_CODE, .addr = addr, .len = len, .bytes = bytes, .ahead = ahead,
                                     .name = label[0] ? label : NULL};
    tell_users(opaque, space, &sideband);
}

void cofi__step_news_init(struct step_engine *engine)
{
    engine->news = (struct step_news){.opaque = engine, .code = tell_code, .mapping = tell_mapping,
                                      .namespaces = &engine->namespaces};
    if (!engine->options->all_code)
        clock_gettime(CLOCK_REALTIME, &engine->news.began);
}

void cofi__step_tell_comm(struct step_engine *engine, struct step_task *task, bool exec)
{
    char comm[32];
    if (!cofi__proc_comm(task->tid, comm, sizeof comm))
        return;
    comm[strcspn(comm, "\n")] = 0;
    struct cofi_sideband sideband = {.kind = COFI_SB_COMM, .exec = exec, .pid = task->process->pid,
                                     .tid = task->tid, .name = comm};
    cofi__feed_sideband(&engine->feed, &sideband);
}

void cofi__step_tell_fork(struct step_engine *engine, const struct step_task *child,
                          const struct step_task *parent)
{
    struct cofi_sideband sideband = {.kind = COFI_SB_FORK,
                                     .pid = child->process->pid,
                                     .tid = child->tid,
                                     .ppid = parent->process->pid,
                                     .ptid = parent->tid};
    cofi__feed_sideband(&engine->feed, &sideband);
}

void cofi__step_tell_exit(struct step_engine *engine, const struct step_task *task)
{
    struct cofi_sideband sideband = {.kind = COFI_SB_EXIT,
                                     .pid = task->process->pid,
                                     .tid = task->tid,
                                     .ppid = task->process->ppid,
                                     .ptid = task->process->ppid};
    cofi__feed_sideband(&engine->feed, &sideband);
}

void cofi__step_refresh(struct step_engine *engine, struct step_task *task)
{
    engine->telling = task;
    if (cofi__step_space_refresh(task->process->space, task->tid, &engine->news) == -ENOMEM)
        engine->feed.status = COFI_ERR_NOMEM;
}
