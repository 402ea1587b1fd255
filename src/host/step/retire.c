/* SPDX-License-Identifier: MIT
 * A step that ended -> what retired. */
#include <string.h>
#include <sys/ptrace.h>

#include "host/step/code.h"
#include "host/step/engine.h"

enum { EFLAGS_TF = 0x100 };

void cofi__step_in_user(struct step_engine *engine, struct step_task *task, uint64_t ip)
{
    if (task->cpu.in_kernel)
        cofi__feed_return(&engine->feed, &task->cpu, ip, task->from_mode);
}

/* PUSHF stored our trap flag with the program's flags: take it out. */
static void clean_pushed_flags(struct step_task *task)
{
    uint16_t flags;
    uint64_t sp = task->regs.rsp;
    if (cofi__step_read(task->tid, sp, &flags, 2) != 2 || !(flags & EFLAGS_TF))
        return;
    flags &= (uint16_t)~EFLAGS_TF;
    cofi__step_write(task->tid, sp, &flags, 2);
}

/* Behind MOV SS the trap comes one instruction late: that one has run, too, or faulted, or entered the
 * kernel. It is the one that the stop is about then. */
void cofi__step_past_mov_ss(struct step_engine *engine, struct step_task *task, bool trapped)
{
    if (task->resume != STEP_BY_STEP || !task->code.insn.length || !task->code.load_ss || task->regs.rip == task->ip)
        return;
    uint64_t second = cofi__derive_next(&task->code.insn, task->ip, task->from_mode);
    if (trapped && task->regs.rip == second)
        return;
    cofi__step_in_user(engine, task, task->ip);
    cofi__feed_retire(&engine->feed, &task->cpu, &task->code.insn, task->ip, second, task->from_mode, false);
    cofi__step_fetch(engine, task, second);
    if (task->code.insn.length && task->code.insn.cls == COFI_CLASS_JCC)
        task->taken = task->regs.rip == task->code.insn.target;
}

/* The step led where the instruction could not lead: the kernel emulated or aborted it (UMIP, a
 * restartable sequence) and the instruction at `second` ran instead. */
static bool explain(struct step_engine *engine, struct step_task *task, uint64_t second,
                    uint16_t vector)
{
    engine->telling = task;
    const struct step_code *code =
        cofi__step_space_code(task->process->space, task->tid, second, task->mode, true, &engine->news);
    if (!code || !cofi__derive_plausible(&code->insn, second, task->regs.rip, task->mode))
        return false;
    struct step_code copy = *code;
    if (!task->cpu.in_kernel)
        cofi__feed_interrupt(&engine->feed, &task->cpu,
                             vector == COFI__VECTOR_GP ? COFI_CAUSE_FAULT : COFI_CAUSE_INTR, vector,
                             0);
    cofi__step_in_user(engine, task, second);
    cofi__feed_retire(&engine->feed, &task->cpu, &copy.insn, second, task->regs.rip, task->mode,
                      false);
    return true;
}

static void retire_odd(struct step_engine *engine, struct step_task *task)
{
    uint64_t next = cofi__derive_next(&task->code.insn, task->ip, task->mode);
    if (explain(engine, task, next, COFI__VECTOR_GP))
        return;
    cofi__step_rseq_look(task);
    if (task->cs_ptr && explain(engine, task, task->cs_abort, COFI__VECTOR_RESCHEDULE))
        return;
    engine->result->unexplained++;
    if (!task->cpu.in_kernel)
        cofi__feed_interrupt(&engine->feed, &task->cpu, COFI_CAUSE_INTR, COFI__VECTOR_RESCHEDULE,
                             0);
}

/* The step trap came: the instruction at task->ip retired (or a part of a REP). */
void cofi__step_retired(struct step_engine *engine, struct step_task *task)
{
    if (!task->code.insn.length) {
        engine->result->unexplained++;
        return;
    }
    if (task->code.string && task->regs.rip == task->ip)
        return;
    unsigned mode = task->from_mode;
    if (!cofi__derive_plausible(&task->code.insn, task->ip, task->regs.rip, mode)) {
        retire_odd(engine, task);
        return;
    }
    if (task->code.insn.cls == COFI_CLASS_PTWRITE && cofi__step_ptwrite(engine, task))
        return;
    cofi__step_in_user(engine, task, task->ip);
    cofi__feed_retire(&engine->feed, &task->cpu, &task->code.insn, task->ip, task->regs.rip,
                      task->mode, task->taken);
    if (task->code.pushf && !task->user_tf)
        clean_pushed_flags(task);
    if (task->code.store)
        cofi__step_rseq_look(task);
}

/* The instruction at task->ip entered the kernel as it is made for. */
void cofi__step_entered(struct step_engine *engine, struct step_task *task)
{
    if (!task->code.insn.length)
        return;
    cofi__step_in_user(engine, task, task->ip);
    cofi__feed_call_kernel(&engine->feed, &task->cpu, &task->code.insn, task->ip,
                           task->code.insn.far == COFI_FAR_INT ? task->code.vector
                                                               : COFI_NO_VECTOR);
}
