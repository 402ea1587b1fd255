/* SPDX-License-Identifier: MIT
 * A Linux kernel module's file -> its code as the kernel loads it. */
#ifndef COFI_IMAGE_MODULE_H
#define COFI_IMAGE_MODULE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cofi__source;
struct cofi__store;
struct cofi__symbols;

/* What a module's file does not tell. It outlives the source; the function may be called by any thread. */
struct cofi__module {
    uint64_t addr; /* where its code was loaded */
    /* A function that the module calls and does not have; depends: the modules that it is told to be in, "a,b", never
     * null. False: it is not known. */
    bool (*find)(void *opaque, const char *depends, const char *name, uint64_t *addr);
    void *opaque;
};

/* A source that is the module's code from its address on; file: what is read in place of path, or null. The file may be
 * compressed (gz, bz2, xz, zst). Null: out of memory. */
struct cofi__source *cofi__store_module(struct cofi__store *store, const char *path, const char *file,
                                        const uint8_t *build_id, size_t build_id_size,
                                        const struct cofi__module *module);

/* Opening: an open file -> source->bytes. 0, or COFI_ERR_NO_CODE with source->why. */
int cofi__module_load(struct cofi__source *source, int fd);
/* Its functions, by offset in its code. */
void cofi__module_symbols(struct cofi__symbols *symbols, const struct cofi__source *source);
/* Every function that other modules may call, by offset in its code. False: no such file, or not a module. */
bool cofi__module_exports(const char *path, void (*each)(void *opaque, const char *name, uint64_t offset),
                          void *opaque);

#endif
