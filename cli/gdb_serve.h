/* SPDX-License-Identifier: MIT
 * A recorded process, to GDB's remote protocol: threads at their last instruction, with their branch traces. */
#ifndef COFI_CLI_GDB_SERVE_H
#define COFI_CLI_GDB_SERVE_H

#include "gdb_history.h"
#include "gdb_modules.h"

struct gdb_target {
    const struct gdb_history *history; /* of one thread at least */
    const struct gdb_modules *modules;
    struct cofi_view *view;            /* the code as it was at the end */
    const struct gdb_core *core;       /* memory there; all zero: none is known */
};

/* Answer until the other side takes its leave or is gone. */
void gdb_serve(const struct gdb_target *target, int in, int out);

#endif
