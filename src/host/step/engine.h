/* SPDX-License-Identifier: MIT
 * The step host's state: processes, tasks, and how each was resumed last. */
#ifndef COFI_HOST_STEP_ENGINE_H
#define COFI_HOST_STEP_ENGINE_H

#include <sched.h>
#include <signal.h>
#include <sys/types.h>
#include <sys/user.h>
#include <time.h>

#include "host/feed.h"
#include "host/namespaces.h"
#include "host/step/space.h"

struct step_process {
    struct step_process *next;
    pid_t pid, ppid;
    unsigned users;           /* tasks */
    struct step_space *space;
    bool trap_ignored;        /* SIGTRAP is SIG_IGN to the program, which stepping makes SIG_DFL */
};

enum step_state {
    STEP_HELD,     /* a new child that its parent's event has not told of yet */
    STEP_READY,    /* in a ptrace stop, may be resumed */
    STEP_RUNNING,  /* resumed into the kernel, for as long as it takes; or dying */
    STEP_GROUP,    /* group-stop: SIGCONT will wake it */
    STEP_GONE
};

/* How a task was resumed: says what the next stop can mean. */
enum step_resume {
    STEP_BY_STEP,     /* one instruction, or none if a stop comes first */
    STEP_BY_SIGNAL,   /* with a signal: a handler's frame is built, then a stop */
    STEP_TO_ENTRY,    /* a system call instruction at task->ip: stops at its entry */
    STEP_TO_EXIT,     /* from a system call's entry to its exit */
    STEP_PAST_VSYSCALL, /* one instruction behind a vsyscall, at task->ip */
    STEP_TO_FORGET    /* nowhere: see cofi__step_forget_tf */
};

struct step_task {
    struct step_task *next;
    struct cofi__cpu cpu;
    struct step_process *process;
    pid_t tid;
    enum step_state state;
    enum step_resume resume;
    bool early;                   /* its first stop came before the parent told of it */
    bool wanted;                  /* the parent told of it before its first stop came */
    struct user_regs_struct regs; /* at the last stop */
    uint64_t ip;                  /* the instruction that the resume is to run */
    struct step_code code;        /* that instruction; length 0: none there */
    unsigned mode;                /* of CS at the last stop: 64 or 32 */
    unsigned from_mode;           /* the same when it was resumed */
    bool owed;                    /* a step trap that was overtaken by another stop is still to come */
    bool restarting;              /* ip is a system call that the kernel is to restart */
    bool user_tf;                 /* the program itself had TF set before the step */
    bool taken;                   /* for a Jcc to its own successor */
    int signal;                   /* to deliver at the next resume */
    bool in_syscall;
    uint64_t nr, args[6];         /* of the system call */
    bool compat;                  /* it is an i386 one */
    bool trap_blocked;            /* the program blocks SIGTRAP, which stepping must not see blocked */
    bool mask_waits;              /* that it does is to be hidden, but the kernel has the mask of a wait
                                   * (sigsuspend) to put away first */
    bool trap_held;               /* one was sent meanwhile: trap_info; it is sent again when that may be seen */
    siginfo_t trap_info;
    uint64_t rseq;                /* address of its struct rseq, 0: none */
    uint64_t cs_ptr, cs_start, cs_end, cs_abort; /* its critical section, cs_ptr 0: none */
    bool cs_hidden;               /* struct rseq says 0 where the program wrote cs_ptr */
    cpu_set_t affinity;           /* what the program believes */
};

struct step_engine {
    const struct cofi_step_options *options;
    struct cofi_step_result *result;
    struct cofi_error *error;
    struct cofi__feed feed;
    struct step_task *tasks;
    struct step_process *processes;
    struct step_task *turn;      /* who runs now */
    struct step_news news;
    struct cofi__namespaces namespaces;
    struct step_task *telling;   /* on whose behalf news come */
    pid_t root;                  /* the command, 0 when attached */
    bool root_ended, letting_go;
    int cpu;                     /* pinned to, -1: not */
    cpu_set_t affinity;          /* the recorder's own, before */
    struct sigaction alarm;      /* SIGALRM and the signal mask as the caller had them */
    sigset_t mask;
    timer_t timer;
    bool ticking;                /* there is that timer */
    unsigned ticks;              /* since tasks in the kernel were asked after */
};

/* tasks.c */
struct step_task *cofi__step_find(struct step_engine *engine, pid_t tid);
struct step_process *cofi__step_find_process(struct step_engine *engine, pid_t pid);
struct step_task *cofi__step_add(struct step_engine *engine, pid_t tid, struct step_process *process);
struct step_process *cofi__step_add_process(struct step_engine *engine, pid_t pid, struct step_space *space);
/* It ended: told, unlinked from its process. The struct stays until cofi__step_sweep. */
void cofi__step_end(struct step_engine *engine, struct step_task *task);
void cofi__step_sweep(struct step_engine *engine);
void cofi__step_free(struct step_engine *engine);
pid_t cofi__step_tgid(pid_t tid, pid_t *ppid);

/* wait.c: the calling thread's signals, as waiting needs them, and as they were. */
void cofi__step_watch(struct step_engine *engine);
void cofi__step_unwatch(struct step_engine *engine);
/* Which recorded thread stopped or ended, and how. Not of interest yet or interrupted: 0. There is none
 * to wait for: negative. */
pid_t cofi__step_wait(struct step_engine *engine, int *status, bool block);

/* sideband.c */
void cofi__step_news_init(struct step_engine *engine);
void cofi__step_tell_comm(struct step_engine *engine, struct step_task *task, bool exec);
void cofi__step_tell_fork(struct step_engine *engine, const struct step_task *child,
                          const struct step_task *parent);
void cofi__step_tell_exit(struct step_engine *engine, const struct step_task *task);
void cofi__step_refresh(struct step_engine *engine, struct step_task *task);

/* launch.c */
int cofi__step_launch(struct step_engine *engine);
void cofi__step_adopt(struct step_engine *engine, struct step_task *child, struct step_task *parent);
long cofi__step_trace_options(const struct step_engine *engine, bool launched);
void cofi__step_begin(struct step_engine *engine, struct step_task *task);
int cofi__step_refuse(struct step_engine *engine, int code, const char *what, pid_t pid);

/* attach.c */
int cofi__step_attach(struct step_engine *engine);
void cofi__step_let_go(struct step_engine *engine);

/* resume.c */
void cofi__step_resume(struct step_engine *engine, struct step_task *task);
void cofi__step_fetch(struct step_engine *engine, struct step_task *task, uint64_t ip);
bool cofi__step_forget_tf(struct step_task *task);

/* rep.c: the task is about to step over the instruction at task->ip; if that is a long REP MOVS or STOS,
 * do most of it */
void cofi__step_rep_ahead(struct step_task *task);

/* stop.c */
/* What waitpid said of it. */
void cofi__step_stopped(struct step_engine *engine, struct step_task *task, int status);
bool cofi__step_regs(struct step_task *task);

/* retire.c */
void cofi__step_retired(struct step_engine *engine, struct step_task *task);
void cofi__step_past_mov_ss(struct step_engine *engine, struct step_task *task, bool trapped);
void cofi__step_entered(struct step_engine *engine, struct step_task *task);
/* The task's next user instruction is at ip, in user mode from now on. */
void cofi__step_in_user(struct step_engine *engine, struct step_task *task, uint64_t ip);

/* ptwrite.c: tell the PTWRITE at task->ip, false if its operand cannot be read; and run it for a processor
 * that has none (SIGILL), false if it is none. */
bool cofi__step_ptwrite(struct step_engine *engine, struct step_task *task);
bool cofi__step_ptwrite_for(struct step_engine *engine, struct step_task *task);

/* syscall.c: around a system call; affinity as the program must see it */
void cofi__step_kernel_entry(struct step_engine *engine, struct step_task *task);
void cofi__step_kernel_exit(struct step_engine *engine, struct step_task *task);

/* mask.c: whether the program has a handler for a signal; SIGTRAP in the signal mask, as the program must see it */
bool cofi__step_catches(const struct step_task *task, int signal);
void cofi__step_show_trap_mask(struct step_task *task);
void cofi__step_hide_trap_mask(struct step_task *task);
void cofi__step_hide_trap_mask_behind(struct step_task *task); /* a system call */
void cofi__step_hide_trap_mask_before_step(struct step_task *task);

/* rseq.c */
void cofi__step_rseq_find(struct step_task *task);
void cofi__step_rseq_look(struct step_task *task);
void cofi__step_rseq_before(struct step_task *task);
void cofi__step_rseq_restore(struct step_task *task);
bool cofi__step_rseq_inside(const struct step_task *task);

#endif
