/* SPDX-License-Identifier: MIT
 * Restartable sequences: a ptrace stop inside one would make the kernel abort it at every step, for
 * ever. While a task steps through one, the kernel's pointer to it is hidden; the task keeps its
 * turn, so that no other thread of the process comes between; a signal handler makes it abort, as
 * it would natively. */
#include <sys/ptrace.h>

#include "host/step/engine.h"

/* struct rseq { u32 cpu_id_start, cpu_id; u64 rseq_cs; … },
 * struct rseq_cs { u32 version, flags; u64 start_ip, post_commit_offset, abort_ip; } [rseq(2)]. */
enum { RSEQ_CS_OFFSET = 8 };
struct rseq_cs {
    uint32_t version, flags;
    uint64_t start, length, abort;
};
/* linux/ptrace.h, since 5.13; named here because its C library header does not have it. */
enum { GET_RSEQ_CONFIGURATION = 0x420f };
struct rseq_configuration {
    uint64_t pointer;
    uint32_t size, signature, flags, pad;
};

void cofi__step_rseq_find(struct step_task *task)
{
    struct rseq_configuration c = {0};
    long n = ptrace((enum __ptrace_request)GET_RSEQ_CONFIGURATION, task->tid, sizeof c, &c);
    task->rseq = n > 0 ? c.pointer : 0;
    task->cs_ptr = 0;
    task->cs_hidden = false;
}

bool cofi__step_rseq_inside(const struct step_task *task)
{
    return task->cs_ptr && task->regs.rip >= task->cs_start && task->regs.rip < task->cs_end;
}

void cofi__step_rseq_look(struct step_task *task)
{
    uint64_t pointer = 0;
    struct rseq_cs cs;
    if (!task->rseq || cofi__step_read(task->tid, task->rseq + RSEQ_CS_OFFSET, &pointer, 8) != 8 ||
        !pointer || cofi__step_read(task->tid, pointer, &cs, sizeof cs) != sizeof cs)
        return;
    task->cs_ptr = pointer;
    task->cs_start = cs.start;
    task->cs_end = cs.start + cs.length;
    task->cs_abort = cs.abort;
    task->cs_hidden = false;
}

void cofi__step_rseq_before(struct step_task *task)
{
    if (!task->cs_ptr)
        return;
    bool inside = cofi__step_rseq_inside(task);
    uint64_t none = 0;
    if (inside && !task->cs_hidden)
        task->cs_hidden = cofi__step_write(task->tid, task->rseq + RSEQ_CS_OFFSET, &none, 8) == 8;
    else if (!inside && task->cs_hidden)
        task->cs_ptr = 0; /* left: the kernel would clear it as well */
}

void cofi__step_rseq_restore(struct step_task *task)
{
    if (task->cs_hidden && cofi__step_rseq_inside(task))
        cofi__step_write(task->tid, task->rseq + RSEQ_CS_OFFSET, &task->cs_ptr, 8);
    task->cs_ptr = 0;
    task->cs_hidden = false;
}
