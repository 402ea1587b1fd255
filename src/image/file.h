/* SPDX-License-Identifier: MIT
 * What code is read from: files by windows, and copied bytes; shared by images, safe from any thread. */
#ifndef COFI_IMAGE_FILE_H
#define COFI_IMAGE_FILE_H

#include <libelf.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cofi_image;
struct cofi__module;
struct cofi__symbols;

/* A file is read, not mapped, so that one that shrinks is an error and not a signal: in windows of
 * COFI__WINDOW bytes, each with COFI__OVERLAP more behind it, so that an instruction that starts in a
 * window lies whole in it. A window is read at most once and stays where it is. They are small, for code
 * lies scattered; so a file stays open, if not more than COFI__FILES_OPEN do already. */
enum { COFI__WINDOW = 1 << 13, COFI__OVERLAP = 64, COFI__WHY_BYTES = 400, COFI__FILES_OPEN = 16 };

enum cofi__source_kind { COFI__SOURCE_FILE, COFI__SOURCE_BYTES, COFI__SOURCE_MODULE };

/* One loadable part of an ELF: file offset -> the ELF's own address. */
struct cofi__load {
    uint64_t offset, filesz, vaddr;
    bool executable;
};

enum { COFI__BUILD_ID_MAX = 20 };

/* A source: a file, a kernel module's file (both opened at the first question) or bytes. */
struct cofi__source {
    enum cofi__source_kind kind;
    struct cofi__store *store; /* not BYTES: where windows are kept */
    char *path; /* or label; never null */
    char *asked_file; /* not BYTES: what is read in place of path (below --symfs), or null */
    char *file;       /* not BYTES: what is read in place of both (perf's cache), or null */
    const struct cofi__module *module; /* MODULE: what its file does not tell */
    const uint8_t *bytes; /* BYTES; MODULE once opened */
    bool borrowed;        /* bytes belong to someone who outlives the store */
    bool is_function;     /* BYTES: path is its name */
    bool is_dump;         /* FILE: of pages, whose own addresses are those that they are mapped at */
    uint64_t size;        /* bytes, or of the file once opened */
    uint64_t since_ns;    /* BYTES that a recording tells: when they were there first */
    uint8_t build_id[COFI__BUILD_ID_MAX]; /* wanted */
    uint8_t build_id_size;

    pthread_mutex_t lock; /* holds what follows, but for windows' entries once set */
    _Atomic int state;    /* 0: not tried, 1: open, < 0: enum cofi_status */
    char *why;            /* not BYTES: with state < 0, and the last reason a window could not be read */
    uint64_t dev, ino, mtime_ns;
    bool is_open;       /* fd is the file's */
    int fd;
    _Atomic(uint8_t *) *windows; /* in the store's memory */
    struct cofi__load *loads;
    size_t n_loads;
    bool elf, elf_exec; /* elf_exec: ET_EXEC, its addresses are absolute */
    uint8_t mode;       /* an ELF's class: 32 or 64; 0: not known */
    _Atomic(struct cofi__symbols *) symbols;
    struct cofi__source *next;
};

/* All sources of a group of images. Counted: each image holds one count. */
struct cofi__store;

struct cofi__store *cofi__store_open(void);
struct cofi__store *cofi__store_ref(struct cofi__store *store);
void cofi__store_unref(struct cofi__store *store);
/* The source for a file, the same for the same path, file and build id; null: out of memory. file: what is read in
 * place of path, or null. */
struct cofi__source *cofi__store_file(struct cofi__store *store, const char *path, const char *file,
                                      const uint8_t *build_id, size_t build_id_size);
/* A source that holds a copy of the bytes, or borrows them; null: out of memory. */
struct cofi__source *cofi__store_bytes(struct cofi__store *store, const uint8_t *bytes, size_t n,
                                       const char *label, bool borrow);

/* The file that is read for it. */
const char *cofi__source_file(const struct cofi__source *source);
/* Open a file source if it is not open yet. 0, or COFI_ERR_NO_CODE or COFI_ERR_NOMEM
 * with source->why. */
int cofi__source_open(struct cofi__source *source);
/* The bytes around an offset: *bytes is what lies at *start, up to *end (offsets). Errors:
 * COFI_ERR_NO_CODE, COFI_ERR_NOMEM; the reason in why[size]. */
int cofi__source_read(struct cofi__source *source, uint64_t offset, const uint8_t **bytes,
                      uint64_t *start, uint64_t *end, char *why, size_t size);
/* The ELF's own address of a file offset; the offset itself where the source is no ELF. */
uint64_t cofi__source_vaddr(struct cofi__source *source, uint64_t offset);

/* Whether a mapping of this name shows memory, which some have from a JIT. */
bool cofi__names_memory(const char *path);
/* Whether a mapping of this name shows memory of no file, or of one that was deleted before. */
bool cofi__names_no_file(const char *path);
/* debug.c: the separate file that an open ELF's debug information is read from, to be freed; null: there is none. */
char *cofi__source_debug_file(const struct cofi__source *source);

/* Whether an ELF (or null) has the wanted build id. 0, or COFI_ERR_NO_CODE with source->why. */
int cofi__elf_check_build_id(struct cofi__source *source, Elf *elf);
/* The ELF part of opening: build id and loadable parts of an open file. Returns 0, or
 * COFI_ERR_NO_CODE with source->why when the build id is not the wanted one, or COFI_ERR_NOMEM. */
int cofi__elf_inspect(struct cofi__source *source, int fd);

#endif
