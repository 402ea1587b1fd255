/* SPDX-License-Identifier: MIT
 * DWARF -> the source line of an address, and the lines of all code. */
#include <dwarf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cofi/image.h>

#include "base/array.h"
#include "image/symbols.h"

static void add_unit(struct cofi__symbols *symbols, uint64_t start, uint64_t end, Dwarf_Off die)
{
    if (start < end && cofi__array_grow(&symbols->units, &symbols->units_room, symbols->n_units, sizeof *symbols->units) == 0)
        symbols->units[symbols->n_units++] = (struct cofi__unit){start, end, die};
}

static int by_start(const void *a, const void *b)
{
    const struct cofi__unit *x = a, *y = b;
    return x->start < y->start ? -1 : x->start > y->start;
}

/* Which unit covers what, from the units themselves: not every compiler writes .debug_aranges. */
static void load(struct cofi__symbols *symbols)
{
    symbols->lines_tried = true;
    symbols->dwarf = dwfl_module_getdwarf(symbols->module, &symbols->dwarf_bias);
    if (!symbols->dwarf)
        return;
    Dwarf_CU *cu = NULL;
    Dwarf_Die die;
    while (dwarf_get_units(symbols->dwarf, cu, &cu, NULL, NULL, &die, NULL) == 0) {
        Dwarf_Addr base, start, end;
        for (ptrdiff_t at = 0; (at = dwarf_ranges(&die, at, &base, &start, &end)) > 0;)
            add_unit(symbols, start, end, dwarf_dieoffset(&die));
    }
    if (symbols->n_units)
        qsort(symbols->units, symbols->n_units, sizeof *symbols->units, by_start);
}

void cofi__lines_find(struct cofi__symbols *symbols, uint64_t vaddr, struct cofi_symbol *symbol)
{
    if (!symbols->lines_tried)
        load(symbols);
    uint64_t addr = vaddr + symbols->elf_bias - symbols->dwarf_bias;
    size_t n = cofi__array_upper_bound(symbols->units, symbols->n_units, sizeof *symbols->units,
                                       offsetof(struct cofi__unit, start), addr);
    Dwarf_Die die;
    int line;
    if (!n || addr >= symbols->units[n - 1].end || !dwarf_offdie(symbols->dwarf, symbols->units[n - 1].die, &die))
        return;
    Dwarf_Line *row = dwarf_getsrc_die(&die, addr);
    if (!row || dwarf_lineno(row, &line))
        return;
    symbol->file = dwarf_linesrc(row, NULL, NULL);
    symbol->line = symbol->file ? line : 0;
}

/* ---- all of them ---- */

enum { RANGES_MAX = 64 };

/* Where an ELF has code. What lies elsewhere in its line tables is of functions that the linker left out. */
struct code_ranges {
    uint64_t start[RANGES_MAX], end[RANGES_MAX];
    size_t n;
};

static void find_code(struct code_ranges *code, Elf *elf)
{
    GElf_Shdr shdr;
    for (Elf_Scn *scn = NULL; (scn = elf_nextscn(elf, scn)) && code->n < RANGES_MAX;) {
        if (!gelf_getshdr(scn, &shdr) || !(shdr.sh_flags & SHF_EXECINSTR) || !shdr.sh_addr || shdr.sh_size > UINT64_MAX - shdr.sh_addr)
            continue;
        code->start[code->n] = shdr.sh_addr;
        code->end[code->n++] = shdr.sh_addr + shdr.sh_size;
    }
}

static bool is_code(const struct code_ranges *code, uint64_t addr)
{
    for (size_t i = 0; i < code->n; i++)
        if (addr >= code->start[i] && addr < code->end[i])
            return true;
    return false;
}

/* A row reaches to the next one; the last of a sequence is only an end. */
static bool row_range(Dwarf_Lines *lines, size_t i, Dwarf_Addr *start, Dwarf_Addr *end)
{
    bool is_end;
    Dwarf_Line *row = dwarf_onesrcline(lines, i), *next = dwarf_onesrcline(lines, i + 1);
    return !dwarf_lineendsequence(row, &is_end) && !is_end && !dwarf_lineaddr(row, start) && !dwarf_lineaddr(next, end) && *start < *end;
}

struct unit_walk {
    const struct cofi__symbols *symbols;
    const struct code_ranges *code;
    int (*each)(void *opaque, const struct cofi_module_line *line);
    void *opaque;
    const char *folder; /* in which the unit was compiled, or null */
    const char *told;   /* the file of the row before, as libdw has it, */
    char *file;         /* and whole; null: out of memory */
    int status;
};

/* Take "." and "x/.." out, so that a file has one name. */
static void tidy(char *path)
{
    char *to = path + (*path == '/'), *from = to;
    while (*from) {
        size_t n = strcspn(from, "/"), slash = from[n] == '/';
        char *last = to > path + 1 ? memrchr(path, '/', (size_t)(to - path) - 1) : NULL;
        last = last ? last + 1 : path + (*path == '/');
        bool up = n == 2 && !strncmp(from, "..", 2), nothing = n == 0 || (n == 1 && *from == '.');
        if (up && to > last && !(to - last == 3 && !strncmp(last, "../", 3))) {
            to = last;
        } else if (!nothing) {
            memmove(to, from, n + slash);
            to += n + slash;
        }
        from += n + slash;
    }
    *to = '\0';
}

/* The row's file, below the unit's folder where it is not absolute. (A folder that is not either, as of distributions' packages, is in the
 * name already.) Null: out of memory. */
static const char *whole_name(struct unit_walk *walk, const char *told)
{
    if (told == walk->told && walk->file)
        return walk->file;
    free(walk->file);
    walk->file = NULL;
    walk->told = told;
    bool below = *told != '/' && walk->folder && *walk->folder == '/';
    if (asprintf(&walk->file, "%s%s%s", below ? walk->folder : "", below ? "/" : "", told) < 0)
        return walk->file = NULL;
    tidy(walk->file);
    return walk->file;
}

static const char *folder_of(Dwarf_Die *die)
{
    Dwarf_Attribute attribute;
    return dwarf_formstring(dwarf_attr(die, DW_AT_comp_dir, &attribute));
}

static int tell(struct unit_walk *walk, Dwarf_Addr start, Dwarf_Addr end, const char *file, int number)
{
    uint64_t shift = walk->symbols->dwarf_bias - walk->symbols->elf_bias; /* the ELF's own address is the DWARF's and this */
    if (!is_code(walk->code, start + shift) || end + shift < start + shift || !file || number <= 0)
        return 0;
    file = whole_name(walk, file);
    if (!file)
        return COFI_ERR_NOMEM;
    return *file ? walk->each(walk->opaque, &(struct cofi_module_line){start + shift, end + shift, file, number}) : 0;
}

/* Where a function is declared. Code begins at its brace. */
static int tell_function(Dwarf_Die *die, void *opaque)
{
    struct unit_walk *walk = opaque;
    Dwarf_Addr start;
    int number;
    if (!dwarf_lowpc(die, &start) && !dwarf_decl_line(die, &number))
        walk->status = tell(walk, start, start, dwarf_decl_file(die), number);
    return walk->status ? DWARF_CB_ABORT : DWARF_CB_OK;
}

/* The functions of a unit may have been split off into a file (.dwo). libdw knows their files only if it was asked for them before. */
static void each_function(struct unit_walk *walk, Dwarf_Die *die, Dwarf_Die *split)
{
    Dwarf_Files *files;
    size_t n;
    bool is_split = dwarf_tag(split) == DW_TAG_compile_unit && !dwarf_getsrcfiles(split, &files, &n);
    dwarf_getfuncs(is_split ? split : die, tell_function, walk, 0);
}

static int each_of_unit(struct unit_walk *walk, Dwarf_Die *die, Dwarf_Die *split)
{
    Dwarf_Lines *lines;
    size_t n;
    int number;
    if (dwarf_getsrclines(die, &lines, &n))
        return 0;
    walk->folder = folder_of(die);
    walk->told = NULL;
    each_function(walk, die, split);
    for (size_t i = 0; i + 1 < n && !walk->status; i++) {
        Dwarf_Addr start, end;
        Dwarf_Line *row = dwarf_onesrcline(lines, i);
        if (row_range(lines, i, &start, &end) && !dwarf_lineno(row, &number))
            walk->status = tell(walk, start, end, dwarf_linesrc(row, NULL, NULL), number);
    }
    return walk->status;
}

int cofi__lines_each(struct cofi__symbols *symbols, int (*each)(void *opaque, const struct cofi_module_line *line), void *opaque)
{
    struct code_ranges code = {0};
    if (!symbols->lines_tried)
        load(symbols);
    if (!symbols->dwarf)
        return 0;
    find_code(&code, symbols->elf);
    struct unit_walk walk = {.symbols = symbols, .code = &code, .each = each, .opaque = opaque};
    Dwarf_CU *cu = NULL;
    Dwarf_Die die, split;
    int status = 0;
    while (!status && dwarf_get_units(symbols->dwarf, cu, &cu, NULL, NULL, &die, &split) == 0)
        if (dwarf_tag(&die) == DW_TAG_compile_unit || dwarf_tag(&die) == DW_TAG_skeleton_unit)
            status = each_of_unit(&walk, &die, &split);
    free(walk.file);
    return status;
}
