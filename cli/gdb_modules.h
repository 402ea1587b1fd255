/* SPDX-License-Identifier: MIT
 * The program and the libraries of a process, as GDB asks for them. */
#ifndef COFI_CLI_GDB_MODULES_H
#define COFI_CLI_GDB_MODULES_H

#include <stddef.h>
#include <stdint.h>

#include <cofi/cofi.h>

enum { GDB_CONSTANT_MAX = 8 };

/* An ELF file in memory; addresses are where they lie there. */
struct gdb_module {
    const char *path;
    uint64_t base;    /* what its own addresses are moved by */
    uint64_t entry;
    uint64_t headers; /* of its program headers */
    uint64_t dynamic; /* 0: it has none */
    unsigned headers_n, header_bytes;
    const struct cofi_module *of;
    struct {
        uint64_t start, end;
    } constant[GDB_CONSTANT_MAX]; /* its parts that are not written to */
    unsigned constant_n;
};

struct gdb_modules {
    struct gdb_module *all;
    size_t n, room;
    size_t program; /* which one was executed; n: none is known */
};

/* What the view shows, of those files whose mapping is recorded (null: a raw stream, of none). 0 or
 * COFI_ERR_NOMEM; who gets that calls gdb_modules_fini all the same. */
int gdb_modules_find(struct gdb_modules *modules, const struct cofi_recording *recording, struct cofi_view *view,
                     int32_t pid);
/* A file's bytes around an address in memory, as cofi_view_find has them. Errors: COFI_ERR_NO_CODE: it
 * is in no part that stays as it is. */
int gdb_modules_constant(const struct gdb_modules *modules, uint64_t addr, struct cofi_code *code);
void gdb_modules_fini(struct gdb_modules *modules);

#endif
