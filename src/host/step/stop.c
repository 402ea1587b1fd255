/* SPDX-License-Identifier: MIT
 * What waitpid says of a task -> what it did, and its new state. */
#include <errno.h>
#include <linux/audit.h>
#include <linux/ptrace.h>
#include <signal.h>
#include <string.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host/step/engine.h"
#include "host/step/request.h"

enum { CS_USER64 = 0x33 };

bool cofi__step_regs(struct step_task *task)
{
    if (step_ptrace(PTRACE_GETREGS, task->tid, 0, &task->regs) < 0)
        return false;
    task->mode = task->regs.cs == CS_USER64 ? 64 : 32;
    return true;
}

static int siginfo_of(const struct step_task *task, siginfo_t *info)
{
    memset(info, 0, sizeof *info);
    return step_ptrace(PTRACE_GETSIGINFO, task->tid, 0, info) < 0 ? 0 : info->si_code;
}

/* Signals that an instruction raises itself. */
static bool is_synchronous(int signal, int code)
{
    switch (signal) {
    case SIGSEGV: case SIGBUS: case SIGFPE: case SIGILL: case SIGTRAP: case SIGSYS: return code > 0;
    }
    return false;
}

static uint16_t vector_of(int signal, int code)
{
    switch (signal) {
    case SIGSEGV: return code == SI_KERNEL ? COFI__VECTOR_GP : COFI__VECTOR_PF;
    case SIGBUS: return code == BUS_ADRALN ? COFI__VECTOR_AC : COFI__VECTOR_PF;
    case SIGFPE: return code == FPE_INTDIV ? COFI__VECTOR_DE : COFI__VECTOR_MF;
    case SIGILL: return COFI__VECTOR_UD;
    case SIGTRAP: return COFI__VECTOR_DB;
    }
    return COFI__VECTOR_RESCHEDULE;
}

/* SIGTRAP from someone, while the program ignores or blocks it: it must not come through. */
static bool hold_trap(struct step_task *task, const siginfo_t *info)
{
    if (task->process->trap_ignored)
        return true;
    if (task->trap_blocked) {
        if (!task->trap_held)
            task->trap_info = *info;
        return task->trap_held = true;
    }
    if (task->trap_held)
        step_ptrace(PTRACE_SETSIGINFO, task->tid, 0, &task->trap_info);
    return task->trap_held = false;
}

/* A signal is about to be delivered: how did the thread get into the kernel? */
static void signal_stop(struct step_engine *engine, struct step_task *task, int signal)
{
    siginfo_t info;
    int code = siginfo_of(task, &info);
    bool synchronous = is_synchronous(signal, code);
    bool ran = task->code.insn.length && !task->restarting && task->regs.rip != task->ip &&
               (task->resume == STEP_BY_STEP || task->resume == STEP_TO_ENTRY);
    task->in_syscall = false;
    if (signal == SIGILL && synchronous && cofi__step_ptwrite_for(engine, task))
        return;
    if (signal == SIGTRAP && !synchronous && hold_trap(task, &info))
        return;
    task->signal = signal;
    if (task->cpu.in_kernel && !(synchronous && task->resume != STEP_TO_EXIT))
        return;
    if (ran) { /* INT3, INTO, a system call that was dispatched to user mode */
        cofi__step_entered(engine, task);
        return;
    }
    if (task->cpu.in_kernel && (task->restarting || signal == SIGSYS))
        return;
    task->from_mode = task->mode;
    cofi__step_in_user(engine, task, task->regs.rip);
    cofi__feed_interrupt(&engine->feed, &task->cpu,
                         synchronous ? COFI_CAUSE_FAULT : COFI_CAUSE_INTR, vector_of(signal, code),
                         synchronous ? (uint64_t)(uintptr_t)info.si_addr : 0);
}

/* SIGTRAP: a step's, a handler's frame that stands, a vsyscall's return, or the program's own. */
static void trap_stop(struct step_engine *engine, struct step_task *task)
{
    siginfo_t info;
    bool plain = task->resume == STEP_BY_STEP && task->regs.rip != task->ip && !task->user_tf &&
                 task->code.insn.length && task->code.insn.cls != COFI_CLASS_FAR_CALL;
    int code = plain ? TRAP_TRACE : siginfo_of(task, &info);
    if (code == TRAP_TRACE && task->owed && task->regs.rip == task->ip) {
        task->owed = false;
    } else if (code == SIGTRAP) {
        cofi__step_hide_trap_mask(task);
    /* behind a MOV SS */
    } else if ((code == TRAP_TRACE || code == TRAP_BRKPT) && task->code.insn.length && task->code.syscall) {
        cofi__step_entered(engine, task);
    } else if (code == TRAP_TRACE) {
        cofi__step_retired(engine, task);
        if (task->user_tf) {
            if (!task->cpu.in_kernel)
                cofi__feed_interrupt(&engine->feed, &task->cpu, COFI_CAUSE_TRAP, COFI__VECTOR_DB,
                                     0);
            task->signal = SIGTRAP;
        }
        cofi__step_forget_tf(task);
    } else {
        signal_stop(engine, task, SIGTRAP);
    }
}

static void syscall_stop(struct step_engine *engine, struct step_task *task)
{
    struct ptrace_syscall_info info;
    if (step_ptrace(PTRACE_GET_SYSCALL_INFO, task->tid, sizeof info, &info) < 0)
        return;
    if (info.op != PTRACE_SYSCALL_INFO_ENTRY) {
        task->in_syscall = false;
        cofi__step_kernel_exit(engine, task);
        return;
    }
    task->in_syscall = true;
    task->nr = info.entry.nr;
    task->compat = info.arch == AUDIT_ARCH_I386;
    for (int i = 0; i < 6; i++)
        task->args[i] = info.entry.args[i];
    cofi__step_entered(engine, task);
    cofi__step_kernel_entry(engine, task);
}

static void born(struct step_engine *engine, struct step_task *parent)
{
    unsigned long tid = 0;
    step_ptrace(PTRACE_GETEVENTMSG, parent->tid, 0, &tid);
    struct step_task *child = cofi__step_find(engine, (pid_t)tid);
    if (!child && !(child = cofi__step_add(engine, (pid_t)tid, NULL)))
        return;
    cofi__step_adopt(engine, child, parent);
}

/* The address space is new, and only the thread that called exec is left, under the process's own
 * id. */
static void execed(struct step_engine *engine, struct step_task *task)
{
    unsigned long tid = 0;
    step_ptrace(PTRACE_GETEVENTMSG, task->tid, 0, &tid);
    struct step_task *caller = (pid_t)tid == task->tid ? NULL : cofi__step_find(engine, (pid_t)tid);
    if (caller) {
        memcpy(&task->affinity, &caller->affinity, sizeof task->affinity);
        cofi__step_end(engine, caller);
    }
    if (!task->cpu.in_kernel)
        cofi__feed_interrupt(&engine->feed, &task->cpu, COFI_CAUSE_INTR, COFI__VECTOR_RESCHEDULE,
                             0);
    task->in_syscall = true;
    task->nr = UINT64_MAX; /* its exit changes nothing that is not read here */
    task->rseq = task->cs_ptr = 0;
    task->trap_blocked = false;
    struct step_space *fresh = cofi__step_space_new();
    if (fresh) {
        cofi__step_space_drop(task->process->space);
        task->process->space = fresh;
    }
    cofi__step_tell_comm(engine, task, true);
    cofi__step_refresh(engine, task);
}

/* Such a stop goes before a step trap that is pending: the instruction ran. */
static void overtaken(struct step_engine *engine, struct step_task *task)
{
    if (task->resume != STEP_BY_STEP || !task->code.insn.length || task->regs.rip == task->ip ||
        !task->cpu.begun || task->owed)
        return;
    cofi__step_retired(engine, task);
    task->owed = true;
}

static void event_stop(struct step_engine *engine, struct step_task *task, int event, int signal)
{
    switch (event) {
    case PTRACE_EVENT_FORK:
    case PTRACE_EVENT_VFORK:
    case PTRACE_EVENT_CLONE: born(engine, task); break;
    case PTRACE_EVENT_EXEC: execed(engine, task); break;
    case PTRACE_EVENT_STOP:
        overtaken(engine, task);
        if (signal ==
            SIGTRAP) { /* a new thread's first stop, a group-stop's end, what we asked for */
            if (task->resume == STEP_BY_SIGNAL)
                cofi__step_hide_trap_mask(task);
            break;
        }
        if (!task->cpu.in_kernel)
            cofi__feed_interrupt(&engine->feed, &task->cpu, COFI_CAUSE_INTR,
                                 COFI__VECTOR_RESCHEDULE, 0);
        task->state = STEP_GROUP;
        step_ptrace(PTRACE_LISTEN, task->tid, 0, NULL);
        break;
    }
}

/* exec gave the thread its leader's number, which is nobody's here: that one had ended before the
 * process was attached to. */
static void takes_number(struct step_engine *engine, struct step_task *task)
{
    unsigned long tid = 0;
    step_ptrace(PTRACE_GETEVENTMSG, task->tid, 0, &tid);
    struct step_task *caller = cofi__step_find(engine, (pid_t)tid);
    if (!caller || caller == task)
        return;
    task->process = caller->process;
    task->process->users++;
    cofi__step_begin(engine, task);
}

static void gone(struct step_engine *engine, struct step_task *task, int status)
{
    if (task->tid == engine->root) {
        engine->result->wait_status = status;
        engine->root_ended = true;
        if (engine->options->started)
            *engine->options->started = 0;
    } else if (task->tid == engine->options->pid && task->process->ppid == getpid()) {
        engine->result->wait_status = status; /* told once, to who traces it and to its parent */
    }
    cofi__step_end(engine, task);
}

/* Nobody asked to follow another process; of one made with CLONE_PTRACE its parent will not tell. */
static void let_go(struct step_task *task)
{
    step_ptrace(PTRACE_DETACH, task->tid, 0, NULL);
    task->state = STEP_GONE;
}

void cofi__step_stopped(struct step_engine *engine, struct step_task *task, int status)
{
    if (!WIFSTOPPED(status)) {
        gone(engine, task, status);
        return;
    }
    int signal = WSTOPSIG(status), event = status >> 16;
    if (!task->process && event == PTRACE_EVENT_EXEC)
        takes_number(engine, task);
    if (!task->process) { /* the parent has not told of it */
        task->early = true;
        if (engine->options->no_follow && !cofi__step_find_process(engine, cofi__step_tgid(task->tid, NULL)))
            let_go(task);
        return;
    }
    if (!cofi__step_regs(task)) {
        task->state = STEP_RUNNING; /* killed in its stop */
        return;
    }
    bool first = task->state == STEP_HELD;
    task->state = STEP_READY;
    if (first) {
        cofi__step_rseq_find(task);
        cofi__step_hide_trap_mask(task);
    }
    cofi__step_past_mov_ss(engine, task, signal == SIGTRAP);
    if (event)
        event_stop(engine, task, event, signal);
    else if (signal == (SIGTRAP | 0x80))
        syscall_stop(engine, task);
    else if (signal == SIGTRAP)
        trap_stop(engine, task);
    else
        signal_stop(engine, task, signal);
}
