/* SPDX-License-Identifier: MIT
 * A core file: registers and memory of a process at its end. */
#ifndef COFI_CLI_GDB_CORE_H
#define COFI_CLI_GDB_CORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "file.h"

struct gdb_core_thread {
    int32_t tid;
    const uint8_t *registers; /* as ptrace has them, struct user_regs_struct of the core's class */
    const uint8_t *fx;        /* 512 bytes, as FXSAVE has them; null: not there */
};

/* All zero: none, which has nothing of what is asked for. */
struct gdb_core {
    struct file file;
    bool is_32;
    uint64_t headers; /* offset of the program headers */
    size_t headers_n;
    struct gdb_core_thread *threads;
    size_t n, room;
    const uint8_t *auxv;
    size_t auxv_bytes;
};

/* 0, or the exit status after saying what is wrong; who gets one calls gdb_core_close all the same. */
int gdb_core_open(struct gdb_core *core, const char *path);
void gdb_core_close(struct gdb_core *core);

/* Null: it has none of this number. */
const struct gdb_core_thread *gdb_core_thread(const struct gdb_core *core, int32_t tid);
uint64_t gdb_core_pc(const struct gdb_core *core, const struct gdb_core_thread *thread);
/* How many registers gdb counts in its description of such a machine, up to the last one that is known here. */
unsigned gdb_core_registers(bool is_32);
/* How wide one is; *bytes: what it holds, null if that is not known. thread may be null: of none it is. */
size_t gdb_core_register(bool is_32, const struct gdb_core_thread *thread, unsigned number, const uint8_t **bytes);
/* The memory from an address on, *n bytes as they lie. Null: it is not in the core. */
const uint8_t *gdb_core_memory(const struct gdb_core *core, uint64_t addr, size_t *n);

#endif
