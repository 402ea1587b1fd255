/* SPDX-License-Identifier: MIT
 * Hosts: an execution -> what its threads did, told to any number of observers at once. */
#ifndef COFI_HOST_H
#define COFI_HOST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cofi/error.h>
#include <cofi/event.h>
#include <cofi/filter.h>
#include <cofi/packet.h>
#include <cofi/time.h>
#include <cofi/trace.h>

#ifdef __cplusplus
extern "C" {
#endif

/* One traced thread, which to a trace unit is a logical processor of its own. */
struct cofi_task {
    uint32_t index; /* dense, from 0, never used again: key of an observer's own table */
    int32_t pid, tid;
};

/* Who is told. Called from the host's thread only, in the global order of what happened.
 * A callback returns 0, or a negative enum cofi_status that ends the recording (the
 * program goes on untraced). Any may be null. Pointers are valid during the call. */
struct cofi_observer {
    void *opaque;
    /* A thread appears, in the kernel (CPL 0); the clock is as of now. Its first
     * instruction follows a far return to it. (A machine's processor appears
     * anywhere: clock->ip is its next instruction.) */
    int (*begin)(void *opaque, const struct cofi_task *task, const struct cofi_context *context,
                 const struct cofi_event *clock);
    /* What its processor did. Each is preceded by a CLOCK that says when. */
    int (*event)(void *opaque, const struct cofi_task *task, const struct cofi_event *event);
    /* An instruction retired in user mode. software_interrupt: INT n, INT3, INT1 or a trapping
     * INTO, of which PT shows no more than the address where the processor stopped [PTREF 6.3]. */
    int (*insn)(void *opaque, const struct cofi_task *task, uint64_t ip, bool software_interrupt);
    int (*sideband)(void *opaque, const struct cofi_sideband *sideband);
    /* It is gone, or is let go; always told when begin was. */
    int (*end)(void *opaque, const struct cofi_task *task);
};

/* ---- the recorder: an observer that feeds a trace unit per thread and writes a recording ---- */

struct cofi_recorder;

struct cofi_recorder_options {
    size_t size;             /* sizeof(struct cofi_recorder_options) */
    enum cofi_gen gen;
    const char *model;       /* PT: capability preset, null: "all" */
    /* "NAME=VALUE,…", or null: register fields, on top of the defaults.
     * cr3_match=command is the CR3 of the first process. Also what is no register:
     * buffer_bytes, drain_bytes, drain_cycles (struct cofi_unit_config), and, RTIT:
     * errata=e1+e5+…; the recording then says that a Silvermont made it. */
    const char *fields;
    const char *path;        /* perf.data to write; null: none */
    const char *raw;         /* each thread's bytes as they are, in "RAW.TID" ("RAW" for the first;
                              * "RAW.TID.2" and so on where a number is used again); null: none */
    const char *command;     /* the command line that is recorded, or null */
    struct cofi_time_info time; /* the host's clock: conv, tsc_num, tsc_den, nominal_ratio */
    const char *topa;        /* PT: the trace goes through a ToPA table of regions of these
                              * sizes, "4K,16K,8K" (powers of two, 4K to 128M): each full one
                              * is read at its PMI; with ",wrap" they form a circle that keeps
                              * the newest bytes, read when a thread ends. null: no table */
    const struct cofi_filters *filters; /* PT: what to trace, IA32_RTIT_ADDRn following the
                                         * files as they are mapped; filter and tracestop,
                                         * at most 4. Kept by the caller. Or null */
    const char *program;     /* file of the command, to tell perf where addr0_a… lie
                              * in it; or null */
    bool leaps;              /* that clock goes on by many ticks at once
                              * (COFI_CLOCK_REAL): coarser MTC by default */
    bool machine;            /* tasks are a machine's logical processors, numbered by tid:
                              * streams are theirs, and the kernel is traced too, by default.
                              * An address in `begin`'s clock is where they are then */
};

/* Make a recorder. Defaults: user code only; PT: TSC, MTC (frequency 3) and CYC, RET compression
 * on; RTIT: STS and MTC, RET compression on, cycles off. Errors: COFI_ERR_NOT_FOUND and
 * COFI_ERR_RANGE (a field; gen is none, impossible size), COFI_ERR_UNSUPPORTED (a member that only
 * a newer library knows is set), COFI_ERR_SYNTAX, what cofi_writer_open returns, COFI_ERR_NOMEM. */
int cofi_recorder_open(struct cofi_recorder **recorder, const struct cofi_recorder_options *options,
                       struct cofi_error *error);
/* For who tells threads one after the other (of a recording): all sideband of the
 * run before the first of them, in the order of time, so that each thread has the
 * filters where its process maps their files, at any time. The observer takes
 * sideband for the recording only then. COFI_ERR_NOMEM. */
int cofi_recorder_ahead(struct cofi_recorder *recorder, const struct cofi_sideband *sideband);
/* What its units need to be told beyond branches, transfers and state: COFI_WANTS_*
 * of unit.h. For hosts to whom INSN events are dear. */
unsigned cofi_recorder_wants(const struct cofi_recorder *recorder);
/* The observer to hand to a host; owned by the recorder. */
const struct cofi_observer *cofi_recorder_observer(struct cofi_recorder *recorder);

struct cofi_recorder_stats {
    uint64_t bytes;    /* of trace */
    uint32_t streams;
};
/* Complete the files and release all. Returns the first error of the recorder's
 * life; what was written before it stays readable. stats may be null. */
int cofi_recorder_close(struct cofi_recorder *recorder, struct cofi_recorder_stats *stats,
                        struct cofi_error *error);
/* The same where nothing came to be recorded: if no thread has begun, no recording
 * is left, and the file that was there before stays (cofi_writer_discard). */
int cofi_recorder_discard(struct cofi_recorder *recorder, struct cofi_error *error);

/* ---- the truth: an observer that lists every instruction ---- */

struct cofi_truth;

/* Lines "TID ADDR" (decimal, 16 hex digits) in the order in which they ran; software
 * interrupts have a third word, "int". A file that is there already is emptied when
 * the first thread begins; without any, closing leaves it as it was, and none where
 * there was none. Errors: COFI_ERR_IO, COFI_ERR_PERMISSION, COFI_ERR_NOMEM. */
int cofi_truth_open(struct cofi_truth **truth, const char *path, struct cofi_error *error);
const struct cofi_observer *cofi_truth_observer(struct cofi_truth *truth);
int cofi_truth_close(struct cofi_truth *truth, struct cofi_error *error);

/* ---- the step host: ptrace, one instruction at a time, exact ---- */

enum cofi_step_clock {
    COFI_CLOCK_VIRTUAL, /* 1 GHz, one cycle an instruction, in the order of all
                         * threads: deterministic */
    COFI_CLOCK_REAL     /* 1 GHz ticks of CLOCK_MONOTONIC */
};

struct cofi_step_options {
    size_t size;             /* sizeof(struct cofi_step_options) */
    char *const *argv;       /* the command, searched in PATH; null: attach to pid */
    int32_t pid;
    bool no_follow;          /* leave child processes alone; threads are always followed */
    bool verify_all;         /* compare each instruction with memory, also where only
                              * strangers could write */
    enum cofi_step_clock clock;
    uint64_t limit;          /* let the program go after so many instructions; 0: never */
    uint32_t quantum;        /* instructions until another ready thread's turn; 0: 2000 */
    /* How often the user asked to stop (a signal handler counts it up), or null. Attached: 1
     * detaches. Launched: 1 detaches if the command has ended, 2 kills what was launched. */
    const volatile int *stop;
    volatile int32_t *started; /* set to the process when it is recorded, 0 when the
                                * command has ended; or null */
    const struct cofi_observer *const *observers;
    size_t observers_n;
    const volatile int *release; /* counted up by a signal handler when the program
                                  * is to be let go, or null */
    bool all_code;           /* the code that runs is recorded, also that of files
                              * that were there before; a page at a time */
};

struct cofi_step_result {
    bool started;            /* the command was executed, or the process attached to */
    int exec_errno;          /* why not: errno of execvp */
    int wait_status;         /* of the command, as waitpid gives it; 0 while it is left.
                              * Attached: 0, but of a child of the caller that has
                              * ended, which waitpid does not know any more then */
    int32_t left;            /* the command's process if it runs on untraced: see
                              * cofi_step_wait; else 0 */
    uint64_t insns;          /* retired */
    uint32_t tasks, processes;
    uint64_t unexplained;    /* places where a step did what no rule explains; the truth
                              * may lack one instruction there (0 in all tests) */
};

/* The clock that a run's events have. */
void cofi_step_time_info(const struct cofi_step_options *options, struct cofi_time_info *time);
/* Run and step until all that was followed has ended or was let go. Any thread may call it, one
 * run at a time in a process. It has SIGALRM for itself, with a timer of its own, blocks SIGCHLD
 * in the calling thread, and pins that and the program to one processor (all undone on return).
 * It waits for what it records only; nobody else may wait for that: not for any child (waitpid
 * of -1) in another thread. Errors: COFI_ERR_RANGE (no word in argv, neither argv nor pid,
 * impossible size; nothing was started), COFI_ERR_UNSUPPORTED also for a member that only a
 * newer library knows; COFI_ERR_NOT_FOUND (no such process or command), COFI_ERR_PERMISSION,
 * COFI_ERR_SYSTEM (before anything is started, without /proc), COFI_ERR_UNSUPPORTED,
 * COFI_ERR_NOMEM, or what an observer returned; *result is valid in each case. Cost: 18-70 µs
 * an instruction, see docs/performance-step.md. */
int cofi_step_run(const struct cofi_step_options *options, struct cofi_step_result *result,
                  struct cofi_error *error);
/* Wait for a command that was let go, and complete result->wait_status. stop as in
 * the options: 2 kills it. */
void cofi_step_wait(struct cofi_step_result *result, const volatile int *stop);

#ifdef __cplusplus
}
#endif
#endif
