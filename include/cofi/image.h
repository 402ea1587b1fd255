/* SPDX-License-Identifier: MIT
 * Code: which bytes an address space held at an address at a time. */
#ifndef COFI_IMAGE_H
#define COFI_IMAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cofi/error.h>

#ifdef __cplusplus
extern "C" {
#endif

/* One address space over time: a list of mappings, each from a time on. Later ones cover
 * earlier ones, of two of the same time the one that was added last. Built by one
 * thread, then read by any number of views, from any threads; the image must outlive
 * them. Times are nanoseconds of the recording's clock; 0: from the start. All functions
 * that add to an image return 0, or COFI_ERR_NOMEM or COFI_ERR_RANGE (addresses or
 * offsets would wrap around). Who gets an error closes the image: part may have been
 * added. Cost: constant where times come in order, except where it says more. */
struct cofi_image;

/* Errors: COFI_ERR_NOMEM. Inverse: cofi_image_close, which lets go of all bytes and
 * may be given null. */
int cofi_image_open(struct cofi_image **image);
void cofi_image_close(struct cofi_image *image);
/* Start as a copy of what `parent` holds up to and at time_ns (fork). The parent may
 * be closed before the image. Cost: the parent's changes up to then. */
int cofi_image_fork(struct cofi_image *image, const struct cofi_image *parent, uint64_t time_ns);
/* Forget everything from time_ns on (exec). */
int cofi_image_clear(struct cofi_image *image, uint64_t time_ns);
/* From time_ns on, [addr, addr+len) shows the file's bytes from pgoff. The file is
 * read when code of it is first asked for; one that cannot be opened, that changes
 * while it is read, or whose build id is not the one given makes cofi_view_find
 * return COFI_ERR_NO_CODE with the reason in cofi_view_why. path is copied;
 * build_id_size: bytes, 0 (no build id is asked for) to 20, else COFI_ERR_RANGE. */
int cofi_image_map_file(struct cofi_image *image, uint64_t time_ns, uint64_t addr, uint64_t len,
                        const char *path, uint64_t pgoff, const uint8_t *build_id,
                        size_t build_id_size);
/* Same for bytes in memory, which are copied. label names them in output ("[vdso]"),
 * may be null. Where a file is mapped that can be read and holds the same bytes
 * there, it goes on to be shown: it has names for them. */
int cofi_image_map_bytes(struct cofi_image *image, uint64_t time_ns, uint64_t addr,
                         const uint8_t *bytes, size_t len, const char *label);
/* All loadable parts of an ELF file, at base (0: where it says). error may be null.
 * Errors besides: COFI_ERR_NO_CODE (it cannot be read), COFI_ERR_BAD_FORMAT (it is
 * no ELF, or has no loadable part; map it as a file). Reads its head. */
int cofi_image_map_elf(struct cofi_image *image, uint64_t time_ns, const char *path, uint64_t base,
                       struct cofi_error *error);
/* Same, with its lowest part at addr, where it was loaded. COFI_ERR_BAD_FORMAT, too,
 * where the file has no section table in it: then it may be a copy of memory, whose
 * bytes lie where the loader had put them (map it as a file). */
int cofi_image_map_elf_at(struct cofi_image *image, uint64_t time_ns, const char *path,
                          uint64_t addr, struct cofi_error *error);
/* A PE file (Windows' programs, libraries, drivers), its image at addr; no names
 * come of it. COFI_ERR_BAD_FORMAT where it is none, or as large as its image is in
 * memory: then it is a copy of that (map it as a file). */
int cofi_image_map_pe_at(struct cofi_image *image, uint64_t time_ns, const char *path,
                         uint64_t addr, struct cofi_error *error);
/* A page dump as fuzzers make it: addr_path holds the pages' addresses (little-endian u64 each),
 * dump_path the 4 KiB pages in the same order. The dump is read when it is asked for, the addresses
 * at once. Where a page is there several times, the first one counts. An address of 48 bits (bit 47
 * set, none above) is sign-extended. error may be null. Returns how many pages are not mapped:
 * addresses lack their whole page or pages their address (files cut while they were written), or an
 * address is no page's (fuzzers mark by its low bits a page that was not there). Errors besides:
 * COFI_ERR_IO (also of what is no regular file), COFI_ERR_PERMISSION, COFI_ERR_BAD_FORMAT (no
 * addresses of pages). */
int cofi_image_map_pages(struct cofi_image *image, uint64_t time_ns, const char *addr_path,
                         const char *dump_path, struct cofi_error *error);
/* From time_ns on nothing is there (munmap). */
int cofi_image_unmap(struct cofi_image *image, uint64_t time_ns, uint64_t addr, uint64_t len);

/* A view: the image as of a time that only goes forward. One per walker; not thread
 * safe, distinct ones are independent. */
struct cofi_view;

/* As of time 0. Errors: COFI_ERR_NOMEM. Inverse: cofi_view_close, which may be given null. */
int cofi_view_open(struct cofi_view **view, const struct cofi_image *image);
void cofi_view_close(struct cofi_view *view);
/* Go on to time_ns. Calls changed for every range whose bytes changed (so that
 * caches forget only those; null: nobody asks). Returns how many changed, or
 * COFI_ERR_NOMEM: then the view is of no more use. A time before the last one
 * changes nothing. Cost when nothing is due: one comparison. */
int cofi_view_advance(struct cofi_view *view, uint64_t time_ns,
                      void (*changed)(void *opaque, uint64_t addr, uint64_t len), void *opaque);
/* When the next change is due, UINT64_MAX if none is. */
uint64_t cofi_view_next_change(const struct cofi_view *view);
/* When the last one was that the view shows, 0 if none was. Who wants to see an
 * earlier time opens another view. */
uint64_t cofi_view_last_change(const struct cofi_view *view);
/* How often cofi_image_clear (exec) came due in the address space that was shown
 * then, and there was something in it. */
uint64_t cofi_view_cleared(const struct cofi_view *view);
/* When (ns) something is mapped at an address where nothing is now, in the address
 * space that is shown now; UINT64_MAX: not up to until_ns, or a processor shows
 * another process's by then. Cost: looks at each change of that space up to then. */
uint64_t cofi_view_when(const struct cofi_view *view, uint64_t addr, uint64_t until_ns);

/* The contiguous bytes around an address, as of now. Pointers stay valid while the
 * image lives. A large file is read in windows, so `end` may lie before the
 * mapping's end; an instruction cut there is whole in what cofi_view_find gives for
 * its own address (windows overlap by more than an instruction). Only where one
 * mapping ends and another begins must the bytes of two finds be joined. */
struct cofi_code {
    const uint8_t *bytes; /* of [start, end) */
    uint64_t start, end;
    const char *path;     /* file or label, never null */
    uint64_t pgoff;       /* file offset of start; 0 for bytes in memory */
    uint8_t mode;         /* 32 or 64 where the bytes are of an ELF file of that class, else 0 */
    uint64_t base;        /* what to subtract from an address to get the ELF's own; see symbols */
};

/* Fill *code. Errors: COFI_ERR_NO_CODE (nothing mapped, or the file could not be
 * read: cofi_view_why). Cost: a comparison near the address asked for last, else a
 * binary search; the first question about 8 KiB of a file reads them. Of what is
 * read, 16 files at most stay open until their image is closed. */
int cofi_view_find(struct cofi_view *view, uint64_t addr, struct cofi_code *code);
/* Why the last find failed, in words ("/usr/bin/x: build id differs"). Never null;
 * valid until the next find. */
const char *cofi_view_why(const struct cofi_view *view);

/* Symbol and source line of an address in a view. Strings live as long as the image.
 * Any may be null, line 0. Lazy: a file's tables are read at the first question
 * about it, those of its lines at the first one that wants a line; libdw maps them: who
 * truncates such a file (writes over it, not puts another in its place) before the image
 * is closed ends its reader by SIGBUS. Code is not mapped. */
struct cofi_symbol {
    const char *name;     /* as the table has it: cofi_demangle */
    uint64_t offset;      /* from the symbol's start; without a name: the address in its ELF file */
    const char *module;   /* path or label */
    const char *file;
    int line;
};
void cofi_view_symbol(struct cofi_view *view, uint64_t addr, bool want_line,
                      struct cofi_symbol *symbol);
/* Whether memory was out while a file was read that a question of this view was
 * about: names or lines may be missing in what cofi_view_symbol has told of it, and
 * will be, or code where cofi_view_find had COFI_ERR_NO_CODE. */
bool cofi_view_incomplete(const struct cofi_view *view);

/* ---- modules: what a mapping shows, whichever address it lies at ---- */

/* A file, or bytes in memory. Lives as long as the image; may be asked from any
 * thread. Images of one recording have the same module for the same file. */
struct cofi_module;

struct cofi_module_info {
    const char *path;         /* or label; "[jit]" for a JIT's functions. Never null */
    const uint8_t *build_id;  /* the one that was asked for */
    size_t build_id_size;     /* 0: none was */
    bool of_file;             /* the same code has the same address in it wherever it
                               * is mapped: of a file, or of an ELF in memory */
    uint64_t start, end;      /* what its addresses lie between, by its loadable
                               * parts, whole pages; 0, 0: not known */
};

/* What is shown at an address, null: nothing. *base: what to subtract from an address to get the
 * module's own, which is the ELF's, or the offset in a file that is none; 0 for bytes in memory. */
const struct cofi_module *cofi_view_module(struct cofi_view *view, uint64_t addr, uint64_t *base);
void cofi_module_info(const struct cofi_module *module, struct cofi_module_info *info);

/* Addresses are the module's own. */
struct cofi_module_function {
    uint64_t addr, size; /* size 0: not known, reaches to the next one */
    const char *name;    /* null: only that it begins here is known. Lives as long as the image */
};
/* All functions that the module's tables tell, in the order of addresses: symbols of
 * code, and what unwind tables (.eh_frame) have besides. They may lie in each other.
 * each returns 0 to go on. Returns 0, what each returned, or COFI_ERR_NOMEM. */
int cofi_module_functions(const struct cofi_module *module,
                          int (*each)(void *opaque, const struct cofi_module_function *function),
                          void *opaque);

/* Code that was made of one line: [start, end). If that is empty, the line where the
 * function that begins there is declared. */
struct cofi_module_line {
    uint64_t start, end;
    const char *file; /* whole: where it was compiled, without . and ..; valid until each returns */
    int line;
    uint32_t discriminator; /* among the paths through one line, as the compiler numbers
                             * them (of LLVM's the base); 0: the first, or not told */
    uint32_t copies;        /* how many the compiler made of this code, each of which
                             * runs its share (LLVM's duplication factor); 1: not told */
};
/* All code of the module's that has a line, whether it ran or not, unit by unit. As
 * above. Cost: reads all line tables. */
int cofi_module_lines(const struct cofi_module *module,
                      int (*each)(void *opaque, const struct cofi_module_line *line),
                      void *opaque);

/* Code of one function of the source, [start, end), with what was inlined into it:
 * by itself, or inlined into another one. */
struct cofi_module_scope {
    uint64_t start, end;
    uint32_t number, outer; /* from 1 on; one of several ranges has as many rows.
                             * outer: that of the one that it was inlined into, told
                             * before; 0: it is a function by itself */
    const char *function;   /* the linker's name or, where only that is told, the
                             * source's; null: none. Lives as long as the image */
    int declared;           /* on which line; 0: not known */
    uint64_t entry;         /* of a function by itself: where it is entered; else 0 */
    int call_line;          /* of an inlined one: where in `outer`; 0: not known */
    uint32_t call_discriminator;
};
/* All that DWARF tells of them, one that is inlined behind what it was inlined into.
 * As above. Cost: reads all of the DWARF's functions. */
int cofi_module_scopes(const struct cofi_module *module,
                       int (*each)(void *opaque, const struct cofi_module_scope *scope),
                       void *opaque);
/* The module's bytes around one of its own addresses, as in its file (so not for
 * memory of no file): of *code bytes, start, end and mode, as cofi_view_find has
 * them. Valid while the image lives. Errors: COFI_ERR_NO_CODE, COFI_ERR_NOMEM. */
int cofi_module_code(const struct cofi_module *module, uint64_t addr, struct cofi_code *code);

#ifdef __cplusplus
}
#endif
#endif
