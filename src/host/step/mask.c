/* SPDX-License-Identifier: MIT
 * A task's signals as the kernel has them; SIGTRAP in its mask.
 * A step's SIGTRAP is forced: if the program blocks it, the kernel unblocks it and takes its
 * handler away. So the real mask never has it outside of the kernel; inside, the program's own mask
 * stands. */
#include <stdio.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "host/step/engine.h"

enum { TRAP_BIT = 1 << (SIGTRAP - 1) };

/* Of /proc/TID/status, a bit a signal. */
struct signals {
    unsigned long pending, shared, blocked, caught;
};

static bool signals_of(const struct step_task *task, struct signals *s)
{
    char name[64], line[128];
    int found = 0;
    memset(s, 0, sizeof *s);
    snprintf(name, sizeof name, "/proc/%d/status", (int)task->tid);
    FILE *f = fopen(name, "re");
    if (!f)
        return false;
    while (fgets(line, sizeof line, f))
        found += sscanf(line, "SigPnd: %lx", &s->pending) == 1 || sscanf(line, "ShdPnd: %lx", &s->shared) == 1 ||
                 sscanf(line, "SigBlk: %lx", &s->blocked) == 1 || sscanf(line, "SigCgt: %lx", &s->caught) == 1;
    fclose(f);
    return found == 4;
}

bool cofi__step_catches(const struct step_task *task, int signal)
{
    struct signals s;
    return signals_of(task, &s) && s.caught >> (signal - 1) & 1;
}

static bool get_mask(pid_t tid, uint64_t *mask)
{
    return !ptrace(PTRACE_GETSIGMASK, tid, sizeof *mask, mask);
}

void cofi__step_show_trap_mask(struct step_task *task)
{
    uint64_t mask;
    if (!task->trap_blocked || !get_mask(task->tid, &mask))
        return;
    mask |= TRAP_BIT;
    ptrace(PTRACE_SETSIGMASK, task->tid, sizeof mask, &mask);
    task->trap_blocked = false;
    if (task->trap_held)
        syscall(SYS_tgkill, task->process->pid, task->tid, SIGTRAP); /* pending, as it should be */
}

void cofi__step_hide_trap_mask(struct step_task *task)
{
    uint64_t mask;
    task->mask_waits = false;
    if (!get_mask(task->tid, &mask) || !(mask & TRAP_BIT))
        return;
    mask &= ~(uint64_t)TRAP_BIT;
    ptrace(PTRACE_SETSIGMASK, task->tid, sizeof mask, &mask);
    task->trap_blocked = true;
}

/* Behind a call that waited with another mask (sigsuspend, ppoll) the kernel still lets in what that mask does,
 * and puts the program's back when a handler's frame or nothing has come. PTRACE_GETSIGMASK tells the
 * program's, PTRACE_SETSIGMASK makes the kernel forget that there is one to put back [kernel/ptrace.c]. */
void cofi__step_hide_trap_mask_behind(struct step_task *task)
{
    uint64_t mask;
    struct signals s;
    task->mask_waits = false;
    if (!get_mask(task->tid, &mask) || !(mask & TRAP_BIT))
        return;
    task->mask_waits = signals_of(task, &s) && s.blocked != mask;
    if (!task->mask_waits)
        cofi__step_hide_trap_mask(task);
}

/* Unless a signal is still to come, which the mask of the wait lets in. */
void cofi__step_hide_trap_mask_before_step(struct step_task *task)
{
    struct signals s;
    if (task->mask_waits && !(signals_of(task, &s) && (s.pending | s.shared) & ~s.blocked))
        cofi__step_hide_trap_mask(task);
}
