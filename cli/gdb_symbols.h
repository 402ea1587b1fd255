/* SPDX-License-Identifier: MIT
 * Names of code that gdb finds in no file: a JIT's, the vDSO's, a kernel's. */
#ifndef COFI_CLI_GDB_SYMBOLS_H
#define COFI_CLI_GDB_SYMBOLS_H

#include <stdio.h>

#include "gdb_history.h"
#include "gdb_modules.h"

/* Write an ELF file of nothing but symbols: the functions that blocks of a history are in, as far as
 * they have names and are in none of the modules. *n: how many. 0, COFI_ERR_NOMEM, or COFI_ERR_IO: it
 * could not be written, errno says why. */
int gdb_symbols_write(FILE *out, const struct gdb_history *history, const struct gdb_modules *modules,
                      struct cofi_view *view, size_t *n);

#endif
