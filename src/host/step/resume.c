/* SPDX-License-Identifier: MIT
 * A stopped task -> resumed in the one way that loses nothing. */
#include <sys/ptrace.h>

#include "base/error.h"
#include "host/step/code.h"
#include "host/step/engine.h"
#include "host/transactions.h"

enum { EFLAGS_TF = 0x100, SYSCALL_BYTES = 2 };
#define VSYSCALL_PAGE UINT64_C(0xffffffffff600000)

/* What a system call returns inside of the kernel when it is to be restarted [linux/errno.h]. */
static bool is_restart(int64_t result)
{
    return result == -512 || result == -513 || result == -514 || result == -516;
}

/* With no handler to run first, the kernel will go back to the system call instruction. */
static bool wants_restart(const struct step_task *task)
{
    if (!task->cpu.in_kernel || (int64_t)task->regs.orig_rax == -1)
        return false;
    return is_restart((int64_t)task->regs.rax) ||
           (task->mode == 32 && is_restart((int32_t)task->regs.rax));
}

void cofi__step_fetch(struct step_engine *engine, struct step_task *task, uint64_t ip)
{
    task->ip = ip;
    task->from_mode = task->mode;
    task->code.insn.length = 0;
    engine->telling = task;
    const struct step_code *code = cofi__step_space_code(task->process->space, task->tid, ip, task->mode,
                                                         engine->options->verify_all, &engine->news);
    if (task->process->space->no_memory && !engine->feed.status)
        engine->feed.status = COFI_ERR_NOMEM;
    if (!code)
        return;
    task->code = *code;
    const struct cofi_insn *insn = &task->code.insn;
    task->taken = insn->cls == COFI_CLASS_JCC &&
                  insn->target == cofi__derive_next(insn, ip, task->mode) &&
                  cofi__step_code_taken(&task->code, &task->regs, task->mode);
}

/* A task that cannot be resumed has been killed: waitpid will tell. */
static void go(struct step_task *task, enum __ptrace_request how, enum step_resume resume)
{
    task->resume = resume;
    uintptr_t signal = (uintptr_t)task->signal;
    task->signal = 0;
    task->state = STEP_RUNNING;
    ptrace(how, task->tid, NULL, (void *)signal);
}

/* After a step over POPF or IRET the kernel's next step would take its own TF for the program's
 * (arch/x86/kernel/step.c: TIF_SINGLESTEP is set, TIF_FORCED_TF is not). An interrupted
 * continuation, which runs nothing, clears both. Returns whether one was started. */
bool cofi__step_forget_tf(struct step_task *task)
{
    if (!task->code.sets_tf || (task->regs.eflags & EFLAGS_TF) || task->signal)
        return false;
    ptrace(PTRACE_INTERRUPT, task->tid, NULL, NULL);
    go(task, PTRACE_CONT, STEP_TO_FORGET);
    return true;
}

/* An instruction fetch from the vsyscall page faults, and the kernel does what the call would have
 * done and returns to the caller: the step ends one instruction later. */
static bool resume_vsyscall(struct step_engine *engine, struct step_task *task)
{
    uint64_t from = task->regs.rip, back = 0;
    if ((from & ~UINT64_C(0xfff)) != VSYSCALL_PAGE || task->mode != 64 ||
        cofi__step_read(task->tid, task->regs.rsp, &back, 8) != 8)
        return false;
    task->from_mode = task->mode;
    cofi__step_in_user(engine, task, from);
    cofi__feed_interrupt(&engine->feed, &task->cpu, COFI_CAUSE_FAULT, COFI__VECTOR_PF, from);
    cofi__step_fetch(engine, task, back);
    go(task, PTRACE_SINGLESTEP, STEP_PAST_VSYSCALL);
    return true;
}

/* An XBEGIN does not run: its fallback is stepped. */
static void past_xbegin(struct step_engine *engine, struct step_task *task)
{
    cofi__step_in_user(engine, task, task->ip);
    cofi__feed_interrupt(&engine->feed, &task->cpu, COFI_CAUSE_INTR, COFI__VECTOR_RESCHEDULE, 0);
    task->regs.rax = 0;
    task->regs.rip = task->code.insn.target;
    ptrace(PTRACE_SETREGS, task->tid, NULL, &task->regs);
    cofi__step_fetch(engine, task, task->regs.rip);
}

static bool check_segment(struct step_engine *engine, const struct step_task *task)
{
    /* An LDT selector: 16-bit or based code, whose addresses are not linear. */
    if (!(task->regs.cs & 4))
        return true;
    engine->feed.status =
        cofi__fail(engine->error, COFI_ERR_UNSUPPORTED, COFI_NOWHERE,
                   "thread %d runs in a segment of its own (CS %llx): not supported by --host=step",
                   (int)task->tid, (unsigned long long)task->regs.cs);
    return false;
}

void cofi__step_resume(struct step_engine *engine, struct step_task *task)
{
    if (task->in_syscall) {
        go(task, PTRACE_SYSCALL, STEP_TO_EXIT);
        return;
    }
    bool caught = task->signal && cofi__step_catches(task, task->signal);
    task->restarting = false;
    task->user_tf = task->regs.eflags & EFLAGS_TF;
    if (caught) {
        cofi__step_show_trap_mask(task);
        cofi__step_rseq_restore(task);
        /* As cofi__step_forget_tf; the stop comes when the frame stands. */
        bool forget = task->code.sets_tf;
        cofi__step_fetch(engine, task, task->regs.rip);
        if (forget)
            ptrace(PTRACE_INTERRUPT, task->tid, NULL, NULL);
        go(task, forget ? PTRACE_CONT : PTRACE_SINGLESTEP, STEP_BY_SIGNAL);
    } else if (wants_restart(task)) {
        task->restarting = true;
        cofi__step_fetch(engine, task, task->regs.rip - SYSCALL_BYTES);
        go(task, PTRACE_SYSCALL, STEP_TO_ENTRY);
    } else if (check_segment(engine, task)) {
        cofi__step_hide_trap_mask_before_step(task);
        if (resume_vsyscall(engine, task))
            return;
        cofi__step_fetch(engine, task, task->regs.rip);
        if (task->code.insn.length && task->code.xbegin && cofi__has_transactions())
            past_xbegin(engine, task);
        cofi__step_rseq_before(task);
        if (task->code.insn.length && task->code.syscall)
            go(task, PTRACE_SYSCALL, STEP_TO_ENTRY);
        else {
            cofi__step_rep_ahead(task);
            go(task, PTRACE_SINGLESTEP, STEP_BY_STEP);
        }
    }
}
