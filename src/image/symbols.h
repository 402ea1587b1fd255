/* SPDX-License-Identifier: MIT
 * Symbols and source lines of one source. */
#ifndef COFI_IMAGE_SYMBOLS_H
#define COFI_IMAGE_SYMBOLS_H

#include <elfutils/libdwfl.h>
#include <gelf.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cofi__source;
struct cofi_symbol;

/* A function; addresses are the ELF's own. size 0: reaches to the next one. */
struct cofi__function {
    uint64_t addr, size;
    const char *name;
    uint8_t rank; /* among names of one address the highest is shown */
};

/* What a compile unit covers. */
struct cofi__unit {
    uint64_t start, end; /* as the DWARF has them */
    Dwarf_Off die;
};

/* DWARF that zstd packed, as it was. */
struct cofi__packed {
    uint8_t *bytes; /* the file's, and behind them what was unpacked */
    Elf *elf;       /* reads these */
    Dwarf *dwarf;
};

struct cofi__symbols {
    Dwfl *dwfl; /* null for bytes */
    Dwfl_Callbacks callbacks; /* its own */
    char *debug_folders;      /* where separate debug files are; null: where libdwfl looks by itself */
    Dwfl_Module *module;
    Elf *elf;
    GElf_Addr elf_bias;
    struct cofi__function *functions; /* by address */
    size_t n_functions, functions_room;
    atomic_bool incomplete; /* there was no memory for some of them, or for their lines */
    char **made; /* names that no table holds ("puts@plt") */
    size_t n_made;
    pthread_mutex_t lock; /* libdw's caches, and what follows */
    bool lines_tried, frames_tried;
    Dwarf *dwarf; /* libdwfl's, or packed's */
    struct cofi__packed packed;
    GElf_Addr dwarf_bias;
    struct cofi__unit *units; /* by start */
    size_t n_units, units_room;
    struct cofi__function *frames; /* functions that no symbol names, by address */
    size_t n_frames, frames_room;
};

struct cofi_module_line;
struct cofi_module_scope;

/* Fill name, offset, file and line of the ELF's own address vaddr. Thread safe. False: memory was out,
 * some may be missing. */
bool cofi__symbols_find(struct cofi__source *source, uint64_t vaddr, bool want_line, struct cofi_symbol *symbol);
void cofi__symbols_free(struct cofi__symbols *symbols);

/* While a table is built. */
void cofi__symbols_add(struct cofi__symbols *symbols, uint64_t addr, uint64_t size, const char *name, uint8_t rank);
/* Take a name from malloc over; null stays null. Null: out of memory (the name is freed). */
const char *cofi__symbols_own(struct cofi__symbols *symbols, char *name);
/* plt.c: names for the stubs that jump through the GOT. */
void cofi__symbols_add_plt(struct cofi__symbols *symbols, Elf *elf);
/* debug.c: a file in libdwfl: dwfl, module, elf, as far as they could be opened. */
void cofi__symbols_open(struct cofi__symbols *symbols, const struct cofi__source *source);
/* debug.c: the DWARF, and what to add to its addresses; null: there is none. */
Dwarf *cofi__symbols_dwarf(struct cofi__symbols *symbols, GElf_Addr *bias);
/* packed.c: the DWARF of a file of which zstd packed sections; null: it did not, or they are damaged. To
 * be closed whatever it says. */
Dwarf *cofi__packed_open(struct cofi__packed *made, const char *path);
void cofi__packed_close(struct cofi__packed *made);
/* lines.c; symbols->lock is held. */
void cofi__lines_find(struct cofi__symbols *symbols, uint64_t vaddr, struct cofi_symbol *symbol);
int cofi__lines_each(struct cofi__symbols *symbols, int (*each)(void *opaque, const struct cofi_module_line *line),
                     void *opaque);
/* Where an ELF has code. What lies elsewhere in its DWARF is of functions that the linker left out. */
enum { COFI__CODE_RANGES = 64 };
struct cofi__code_ranges {
    uint64_t start[COFI__CODE_RANGES], end[COFI__CODE_RANGES];
    size_t n;
};
void cofi__code_find(struct cofi__code_ranges *code, Elf *elf);
bool cofi__code_holds(const struct cofi__code_ranges *code, uint64_t addr);
/* The DWARF, read at the first question; null: there is none. */
Dwarf *cofi__lines_dwarf(struct cofi__symbols *symbols);
/* Where a unit's functions are: in itself, or in a file that they were split off into (as
 * dwarf_get_units tells both). */
Dwarf_Die *cofi__lines_unit(Dwarf_Die *die, Dwarf_Die *split);
/* scopes.c; symbols->lock is held. */
int cofi__scopes_each(struct cofi__symbols *symbols, int (*each)(void *opaque, const struct cofi_module_scope *scope),
                      void *opaque);
/* discriminators.c: what a compiler's number means; llvm: the unit is LLVM's. */
struct cofi__discriminator {
    uint32_t base, copies;
};
bool cofi__is_llvm(Dwarf_Die *unit);
struct cofi__discriminator cofi__discriminator(uint32_t told, bool llvm);
/* frames.c: what the unwind table tells of an ELF file; symbols->lock is held. */
int cofi__frames_load(struct cofi__symbols *symbols);
/* The tables of a source, read at the first question; null: out of memory. */
struct cofi__symbols *cofi__symbols_get(struct cofi__source *source);

#endif
