/* SPDX-License-Identifier: MIT
 * The fast host: run a command as translated code that writes its own trace. */
#ifndef COFI_FAST_H
#define COFI_FAST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cofi/error.h>
#include <cofi/filter.h>
#include <cofi/time.h>
#include <cofi/trace.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What happens where the program is faster than the recording, or the recording has
 * no room left. */
enum cofi_fast_full {
    COFI_FAST_END,  /* the program waits for the recording; without room the
                     * recording ends and the program goes on */
    COFI_FAST_WAIT, /* the program waits, for room also */
    COFI_FAST_DROP  /* the program never waits: what is lost becomes OVF */
};

/* Why a recording ended before the program. */
enum cofi_fast_end {
    COFI_FAST_NOT_ENDED,
    COFI_FAST_MAX_SIZE, /* max_bytes */
    COFI_FAST_NO_ROOM   /* the file system, or the limit of a file's size (SIGXFSZ, which ends who
                         * does not handle it, is the caller's) */
};

/* How far a recording is. */
struct cofi_fast_progress {
    uint64_t bytes;    /* of trace */
    uint64_t ns;       /* since it began */
    uint32_t threads;  /* alive */
    bool waiting;      /* for room */
};

struct cofi_fast_options {
    size_t size;             /* sizeof(struct cofi_fast_options) */
    char *const *argv;       /* the command, searched in PATH; null: attach to pid */
    const char *path;        /* the recording to write; null: none (measurements) */
    const char *command;     /* the command line as text, or null */
    uint64_t snapshot_bytes; /* keep the newest so many bytes of log a thread, write
                              * them at the end; 0: keep all */
    uint64_t psb_bytes;      /* a PSB+ at the next target when so many bytes of trace
                              * lie behind the last, 2 KiB to 64 MiB; 0: 64 KiB */
    const struct cofi_filters *filters; /* where to trace; null: everywhere */
    bool no_follow;          /* record the command's process only; others run on unrecorded */
    bool no_trace;           /* translate, record nothing (measurements) */
    uint64_t cache_bytes;    /* limit of a half of the code cache (tests), 256 KiB or
                              * more; 0: 64 MiB near each module */
    uint32_t cold_runs;      /* of a basic block before a superblock takes its place; 1:
                              * superblocks at once (tests); 0: 1000; more than 65535: that */
    enum cofi_fast_full on_full;
    uint64_t max_bytes;      /* the recording ends when it has so many of trace (attached:
                              * and we return); 0: as many as there is room for */
    /* How often a snapshot was asked for (a signal handler counts it up), or null.
     * With snapshot_bytes only. */
    const volatile int *snapshots;
    /* Called about twice a second by the recording thread, or null. */
    void (*progress)(void *opaque, const struct cofi_fast_progress *progress);
    void *opaque;
    /* How often the user asked to stop (a signal handler counts it up), or null: 2 ends the
     * command. Once the command has ended, 1 ends the recording, a second later at the
     * earliest: what the command left behind goes on unrecorded. Attached: 1 ends it. */
    const volatile int *stop;
    /* Called when the command has ended and so many of its descendants' threads have
     * gone on for a second, or null. */
    void (*left_behind)(void *opaque, unsigned threads);
    volatile int32_t *started; /* set to the process when it is recorded, 0 when the
                                * command has ended; or null */
    int32_t pid;             /* with argv null: the process to attach to, with all its threads */
    /* Counted up by a signal handler when the recording is to end, and all that is
     * recorded to go on natively; or null. */
    const volatile int *release;
    /* Called when a recorded process is seen, half a second later at most, to be
     * traced by one that is not recorded, a debugger; or null.
     * name: the tracer's, empty if it cannot be read. */
    void (*traced)(void *opaque, int32_t pid, int32_t tracer, const char *name);
    bool all_code;           /* the code that runs is recorded, also that of files
                              * that were there before; a page at a time */
    bool all_children;       /* the caller has no children of its own, so it waits for
                              * any: as process 1 it is the parent of all orphans */
    bool claims;             /* memory becomes writable as it is used, as it does by itself
                              * where vm.overcommit_memory is 2 (tests) */
    const char *kept_code;   /* folder in which translated code is kept for later recordings,
                              * 256 MiB at most; made, and the one above it, in one of the
                              * user's. Another user's, or one that others may write to, is
                              * not used, nor any with filters or where it fails. Null: none */
};

struct cofi_fast_result {
    bool started;            /* the command was executed, or the process attached to */
    int exec_errno;          /* why not: errno of execvp */
    int wait_status;         /* of the command, as waitpid gives it; attached: 0 */
    uint64_t log_bytes;      /* written by translated code */
    uint64_t bytes;          /* of trace */
    uint64_t branches;       /* conditional outcomes and indirect targets in it */
    uint32_t tasks, processes;
    uint32_t foreign;        /* programs that ran unrecorded: 32-bit, or not ours to follow */
    uint32_t flushes;        /* how often a program's code cache was full and was emptied */
    enum cofi_fast_end ended; /* before the program */
    uint32_t snapshots;      /* taken while it ran */
    uint64_t lost_bytes;     /* of log, at most, for want of room */
    bool damaged;            /* a thread's log had to be cut short */
    uint32_t left;           /* threads that went on unrecorded when the user stopped
                              * the recording */
    int32_t running;         /* the command's process if it goes on: see cofi_fast_wait; else 0 */
    uint32_t translated;     /* of them those that did so as translated code, for
                              * they could not be taken out of it */
    uint32_t adopted;        /* how often a program took over the code that an
                              * earlier run of it had translated of a file */
    uint32_t let_out;        /* children that went on unrecorded, and natively, from
                              * where they had themselves traced (PTRACE_TRACEME) */
};

/* Whether this machine can: COFI_OK, or COFI_ERR_UNSUPPORTED with the reason. */
int cofi_fast_probe(struct cofi_error *error);

/* The clock of a fast recording: TSC ticks and how they become nanoseconds. Asks
 * perf, else takes 0.3 ms. */
void cofi_fast_time_info(struct cofi_time_info *time);

/* Run the command (or attach to a process), record it and what it starts, until all of it has
 * ended or the user stops it. One recording at a time in a process: it handles SIGCHLD meanwhile,
 * and calls the handler that it found. The calling thread does the recording; it becomes the
 * parent of the command and reaps it. It waits for what it records only (unless all_children);
 * nobody else may wait for that: not for any child (waitpid of -1) in that handler or another
 * thread. A process that was attached to stays as it was where that fails. Where the recording
 * ends first, what is left of the program goes on natively. Errors: COFI_ERR_RANGE (no word in
 * argv, neither argv nor pid, impossible size: nothing was started; COFI_ERR_UNSUPPORTED also for
 * a member that only a newer library knows), COFI_ERR_NOT_FOUND (no such command, see exec_errno),
 * COFI_ERR_UNSUPPORTED (the machine, or a 32-bit program: nothing has run, use the step host),
 * COFI_ERR_PERMISSION, COFI_ERR_SYSTEM (nothing was started, without /proc), COFI_ERR_NOMEM, or
 * what the writer returned; *result is valid in each case. */
int cofi_fast_record(const struct cofi_fast_options *options, struct cofi_fast_result *result,
                     struct cofi_error *error);
/* Wait for a command that was let go, in the thread that recorded it, and complete
 * result->wait_status. stop as in the options: 2 kills it. */
void cofi_fast_wait(struct cofi_fast_result *result, const volatile int *stop);

#ifdef __cplusplus
}
#endif
#endif
