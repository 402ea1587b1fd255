/* SPDX-License-Identifier: MIT
 * The collector's state: the shared memory, an encoder a slot, the recording. */
#ifndef COFI_HOST_FAST_COLLECT_H
#define COFI_HOST_FAST_COLLECT_H

#include <cofi/fast.h>

#include "base/map.h"
#include "host/fast/encode.h"
#include "host/fast/inject.h"
#include "host/fast/keep.h"
#include "host/fast/shared.h"
#include "host/namespaces.h"

/* From here on, numbers are ours, for threads whose own nobody can tell any more: above all that the kernel gives. */
enum { COFI__FAST_NO_NUMBER = 0x40000000 };

/* What the collector knows of a slot that is in use. */
struct cofi__fast_seat {
    struct cofi__fast_encoder encoder;
    int32_t pid, tid;  /* as the collector's namespace has them, once placed */
    int32_t maker_pid, maker_tid; /* who made it, once that one's slot has been freed; 0: it has not */
    int32_t parent;    /* of a process in another namespace: its parent's process as of then */
    bool placed;
    bool known;        /* its begin is in the recording */
    bool again;        /* a thread that was there before, with another program */
    bool stays;        /* in the runtime, when the recording is over */
    bool alien;        /* not to be recorded (--no-follow) */
    bool traced;       /* by a debugger, which was told */
    time_t lost_at;    /* seconds: who was to begin here was seen to be gone; 0: not so */
    uint64_t told_tsc; /* the last one in packets that were written */
    uint64_t taken_chunks, taken_bytes; /* flight recorder: what snapshots have: chunks ever, bytes of the next one */
};

/* A thread that executes another program, held until it has, and its process. */
struct cofi__fast_followed {
    int32_t pid, tid;
};

struct cofi__fast_collector {
    const struct cofi_fast_options *options;
    struct cofi_fast_result *result;
    struct cofi_writer *writer;
    struct cofi_time_info time;
    int fd;                      /* of the shared memory */
    int code_fd;                 /* of a file with the runtime's code */
    uint8_t *shared;
    size_t shared_bytes;
    struct cofi__fast_control *control;
    struct cofi__fast_control made; /* as it was made, with the slots seen to be used: what is shared the
                                     * program may write over */
    struct cofi__fast_keeper keeper;
    struct cofi__fast_seat *seats;
    uint32_t unknown;            /* threads that had ended before they could be placed */
    struct cofi__fast_memo *memo; /* of all encoders */
    struct cofi__map files;      /* mappings of files that we find by other names than the program:
                                  * start, origin and pages */
    struct cofi__namespaces namespaces; /* of mounts */
    int32_t child;               /* the command's process */
    bool child_ended;
    struct cofi__fast_followed *followed;
    size_t followed_n, followed_room;
    int status;                  /* first error of the writer */
    bool ended;                  /* the recording takes no more trace */
    bool triggered;              /* a thread waits for a snapshot */
    int snapshots_seen;          /* requests served */
    uint64_t progress_ns;        /* when it was told last */
    uint64_t tracers_ns;         /* when debuggers were looked for last */
    uint64_t begin_ns;
    uint64_t child_ended_ns, stop_ns; /* when these were seen */
    bool left_told;
    bool zombies_too;             /* threads that have ended, but that their parents have not asked for,
                                   * are looked for */
};

/* Memory for programs to share, and ours. */
int cofi__fast_collector_open(struct cofi__fast_collector *c, struct cofi_error *error);
/* The recording's file; `time` is known. */
int cofi__fast_collector_begin(struct cofi__fast_collector *c, struct cofi_error *error);
void cofi__fast_collector_close(struct cofi__fast_collector *c);
/* Take what the threads have written since the last time. Returns whether there was anything. */
bool cofi__fast_collect(struct cofi__fast_collector *c);
/* The recording ends here: take what all threads, which go on, have written. Returns how many they are. */
unsigned cofi__fast_leave(struct cofi__fast_collector *c);
/* Take what is left of a process's slots, however it ended, and free them. Returns whether packets of
 * its first thread are in the recording, to which those of a program that it executes belong. */
bool cofi__fast_end_process(struct cofi__fast_collector *c, int32_t pid);
/* How many slots were ever taken. */
uint32_t cofi__fast_slots(const struct cofi__fast_collector *c);
/* enum cofi__fast_slot_state. A thread that we know goes on until it says that it has ended or is seen
 * to be gone, whatever the program has written there. */
uint32_t cofi__fast_state(const struct cofi__fast_collector *c, uint32_t index);
/* A free slot, which is not that any more, or null. */
struct thread *cofi__fast_take_slot(struct cofi__fast_collector *c, uint32_t *index);
/* The slot is free, and nothing is known of who had it. */
void cofi__fast_vacate(struct cofi__fast_collector *c, uint32_t index);
/* The slot of the thread that made this one. */
uint32_t cofi__fast_maker(const struct cofi__fast_collector *c, const struct thread *t);
/* Slots in use. */
unsigned cofi__fast_busy(const struct cofi__fast_collector *c);
struct thread *cofi__fast_slot(const struct cofi__fast_collector *c, uint32_t index);
void cofi__fast_sideband(struct cofi__fast_collector *c, struct cofi_sideband *sb, uint64_t tsc);
void cofi__fast_comm(struct cofi__fast_collector *c, int32_t pid, int32_t tid, uint64_t tsc, bool exec);

/* A thread is seen for the first time: its begin goes into the recording, behind all of whoever had its
 * number before. */
void cofi__fast_begin_slot(struct cofi__fast_collector *c, uint32_t index);
/* Take what is left, and vacate it. Returns whether packets of the thread are in its stream. */
bool cofi__fast_free_slot(struct cofi__fast_collector *c, uint32_t index);

/* notes.c: take what the thread of a slot has told. Returns whether there was anything. */
bool cofi__fast_take_notes(struct cofi__fast_collector *c, uint32_t index);

/* reap.c: free slots of processes that are gone without a word. */
void cofi__fast_reap_lost(struct cofi__fast_collector *c);

/* pids.c */

/* Find out who the thread of a slot is. Its slot's pid and tid are its own. */
void cofi__fast_place(struct cofi__fast_collector *c, uint32_t index);
/* Whether the children that a process will have are in another PID namespace than we are. */
bool cofi__fast_other_pids(int32_t pid);

/* follow.c */

/* A thread is about to execute a program, or has failed to. */
void cofi__fast_follow_exec(struct cofi__fast_collector *c, struct thread *t, int32_t pid, int32_t tid);
void cofi__fast_exec_failed(struct cofi__fast_collector *c, struct thread *t, int32_t tid);
/* Who waits for one: 1: go on. */
void cofi__fast_answer(struct thread *t, uint32_t what);
/* Take what the kernel has to say of the command and of threads that are held. */
void cofi__fast_reap(struct cofi__fast_collector *c, struct cofi_error *error);
/* Those who have not executed theirs yet do so by themselves. */
void cofi__fast_follow_no_more(struct cofi__fast_collector *c);

/* attach.c: put the runtime into all threads of the process options->pid. Errors leave it as it was:
 * COFI_ERR_NOT_FOUND, COFI_ERR_PERMISSION, COFI_ERR_UNSUPPORTED, COFI_ERR_SYSTEM, COFI_ERR_FULL, COFI_ERR_NOMEM. */
int cofi__fast_attach(struct cofi__fast_collector *c, struct cofi_error *error);

/* detach.c: all that runs in the runtime goes on natively; no trace is taken any more. Returns how many threads stay
 * in it: those of processes that are not ours to stop, or cannot be, or may not make the calls that it takes. */
unsigned cofi__fast_detach(struct cofi__fast_collector *c);
/* detach.c: so do the processes that have asked for it, if they can. Waits for each, HOLD_PATIENCE_MS at most. */
void cofi__fast_let_out(struct cofi__fast_collector *c);

/* tracers.c: tell of debuggers that have attached to what is recorded, if it is wanted and time. */
void cofi__fast_watch_tracers(struct cofi__fast_collector *c);

/* snapshot.c */

/* Take what a thread's ring holds and no snapshot before has; live: the thread may be writing. */
void cofi__fast_take_ring(struct cofi__fast_collector *c, uint32_t index, bool live);
/* In a complete recording: what a thread that may be writing has written. */
void cofi__fast_take_live(struct cofi__fast_collector *c, uint32_t index);
/* Of all threads that are alive; the recording is complete as of now. */
void cofi__fast_snapshot(struct cofi__fast_collector *c);

/* room.c */

/* How much of so many bytes of log is to be taken at once. */
size_t cofi__fast_piece(const struct cofi__fast_collector *c, size_t bytes);
/* Before n bytes of trace are written: is there room? Waits for it, or ends the recording, as options say. */
bool cofi__fast_has_room(struct cofi__fast_collector *c, size_t n);
/* CLOCK_MONOTONIC. */
uint64_t cofi__fast_now_ns(void);
/* Tell the progress, if it is wanted and time. */
void cofi__fast_progress(struct cofi__fast_collector *c);

/* collect.c, for these */
/* Returns how much of it there was, all if it was lost. */
size_t cofi__fast_take_log(struct cofi__fast_collector *c, struct cofi__fast_seat *seat, const uint8_t *log,
                           size_t bytes);
void cofi__fast_write_out(struct cofi__fast_collector *c, struct cofi__fast_seat *seat);
void cofi__fast_keep_error(struct cofi__fast_collector *c, int status);
/* Who waits for a word of the shared memory. */
void cofi__fast_wake(uint32_t *word);

#endif
