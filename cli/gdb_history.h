/* SPDX-License-Identifier: MIT
 * What the threads of one process ran at last, as GDB's branch trace has it. */
#ifndef COFI_CLI_GDB_HISTORY_H
#define COFI_CLI_GDB_HISTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gdb_core.h"
#include "session.h"

/* Instructions that ran one behind another. A gap: last < first; first is where it is, as far as that is known. */
struct gdb_block {
    uint64_t first, last; /* addresses of the first and last instruction */
    uint32_t n;
};

struct gdb_thread {
    int32_t tid;
    char name[32];
    struct gdb_block *blocks; /* [from, n), oldest first */
    size_t from, n, room;
    uint64_t insns;           /* in these */
    unsigned mode;            /* 32 or 64, of the last one; 0: none */
    size_t gaps;              /* among these */
    uint64_t next;            /* what it would have run next, where something else came (a signal, a
                               * fault); 0: not known */
    uint64_t behind;          /* what lies behind the last instruction that ran */
    uint64_t pc;              /* where it is in the end */
    const struct gdb_core_thread *state; /* its registers there; null: not known */
};

struct gdb_history {
    struct session *session;
    int32_t pid;
    uint64_t last;            /* how many instructions of a thread are kept, at least 1 */
    struct gdb_thread *threads;
    size_t n, room;
    size_t shown;             /* the one that gdb begins with: the first, or with a core file the first that this has */
    uint64_t end_ns;          /* the latest time that was told */
};

/* Decode what is asked for of the process's threads. All but session, pid and last is zero. 0 or an
 * error; who gets one calls gdb_history_fini all the same. */
int gdb_history_read(struct gdb_history *history);
/* Threads that a core file shows where their traces end have its registers from now on. *n: how many
 * these are. Errors: COFI_ERR_NOMEM. */
int gdb_history_join(struct gdb_history *history, const struct gdb_core *core, size_t *n);
void gdb_history_fini(struct gdb_history *history);

#endif
