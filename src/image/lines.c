/* SPDX-License-Identifier: MIT
 * DWARF -> the source line of an address, and the lines of all code. */
#include <dwarf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cofi/image.h>

#include "base/array.h"
#include "image/symbols.h"

static void add_unit(struct cofi__symbols *symbols, uint64_t start, uint64_t end, Dwarf_Off die)
{
    if (start >= end)
        return;
    if (cofi__array_grow(&symbols->units, &symbols->units_room, symbols->n_units, sizeof *symbols->units) < 0)
        symbols->incomplete = true;
    else
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
    errno = 0;
    symbols->dwarf = cofi__symbols_dwarf(symbols, &symbols->dwarf_bias);
    symbols->incomplete |= !symbols->dwarf && errno == ENOMEM;
    if (!symbols->dwarf)
        return;
    Dwarf_CU *cu = NULL;
    Dwarf_Die die;
    int got;
    while ((got = dwarf_get_units(symbols->dwarf, cu, &cu, NULL, NULL, &die, NULL)) == 0) {
        Dwarf_Addr base, start, end;
        for (ptrdiff_t at = 0; (at = dwarf_ranges(&die, at, &base, &start, &end)) > 0;)
            add_unit(symbols, start, end, dwarf_dieoffset(&die));
        errno = 0;
    }
    symbols->incomplete |= got < 0 && errno == ENOMEM;
    if (symbols->n_units)
        qsort(symbols->units, symbols->n_units, sizeof *symbols->units, by_start);
}

Dwarf *cofi__lines_dwarf(struct cofi__symbols *symbols)
{
    if (!symbols->lines_tried)
        load(symbols);
    return symbols->dwarf;
}

void cofi__lines_find(struct cofi__symbols *symbols, uint64_t vaddr, struct cofi_symbol *symbol)
{
    cofi__lines_dwarf(symbols);
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

void cofi__code_find(struct cofi__code_ranges *code, Elf *elf)
{
    code->n = 0;
    GElf_Shdr shdr;
    for (Elf_Scn *scn = NULL; (scn = elf_nextscn(elf, scn)) && code->n < COFI__CODE_RANGES;) {
        if (!gelf_getshdr(scn, &shdr) || !(shdr.sh_flags & SHF_EXECINSTR) || !shdr.sh_addr ||
            shdr.sh_size > UINT64_MAX - shdr.sh_addr)
            continue;
        code->start[code->n] = shdr.sh_addr;
        code->end[code->n++] = shdr.sh_addr + shdr.sh_size;
    }
}

bool cofi__code_holds(const struct cofi__code_ranges *code, uint64_t addr)
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
    return !dwarf_lineendsequence(row, &is_end) && !is_end && !dwarf_lineaddr(row, start) &&
           !dwarf_lineaddr(next, end) && *start < *end;
}

struct unit_walk {
    const struct cofi__symbols *symbols;
    const struct cofi__code_ranges *code;
    int (*each)(void *opaque, const struct cofi_module_line *line);
    void *opaque;
    const char *folder; /* in which the unit was compiled, or null */
    const char *told;   /* the file of the row before, as libdw has it, */
    char *file;         /* and whole; null: out of memory */
    bool llvm;          /* the unit is LLVM's */
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

/* The row's file, below the unit's folder where it is not absolute. (A folder that is not either, as of
 * distributions' packages, is in the name already.) Null: out of memory. */
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

static int tell(struct unit_walk *walk, Dwarf_Addr start, Dwarf_Addr end, const char *file, int number,
                uint32_t discriminator)
{
    uint64_t shift = walk->symbols->dwarf_bias - walk->symbols->elf_bias; /* the ELF's own address is the
                                                                           * DWARF's and this */
    if (!cofi__code_holds(walk->code, start + shift) || end + shift < start + shift || !file || number <= 0)
        return 0;
    file = whole_name(walk, file);
    if (!file)
        return COFI_ERR_NOMEM;
    struct cofi__discriminator means = cofi__discriminator(discriminator, walk->llvm);
    return *file ? walk->each(walk->opaque, &(struct cofi_module_line){start + shift, end + shift, file, number,
                                                                       means.base, means.copies})
                 : 0;
}

/* Where a function is declared. Code begins at its brace. */
static int tell_function(Dwarf_Die *die, void *opaque)
{
    struct unit_walk *walk = opaque;
    Dwarf_Addr start;
    int number;
    if (!dwarf_lowpc(die, &start) && !dwarf_decl_line(die, &number))
        walk->status = tell(walk, start, start, dwarf_decl_file(die), number, 0);
    return walk->status ? DWARF_CB_ABORT : DWARF_CB_OK;
}

/* libdw knows the files of what was split off (.dwo) only if it was asked for them before. */
Dwarf_Die *cofi__lines_unit(Dwarf_Die *die, Dwarf_Die *split)
{
    Dwarf_Files *files;
    size_t n;
    return dwarf_tag(split) == DW_TAG_compile_unit && !dwarf_getsrcfiles(split, &files, &n) ? split : die;
}

static int each_of_unit(struct unit_walk *walk, Dwarf_Die *die, Dwarf_Die *split)
{
    Dwarf_Lines *lines;
    size_t n;
    int number;
    errno = 0;
    if (dwarf_getsrclines(die, &lines, &n))
        return errno == ENOMEM ? COFI_ERR_NOMEM : 0;
    walk->folder = folder_of(die);
    walk->told = NULL;
    walk->llvm = cofi__is_llvm(cofi__lines_unit(die, split));
    dwarf_getfuncs(cofi__lines_unit(die, split), tell_function, walk, 0);
    for (size_t i = 0; i + 1 < n && !walk->status; i++) {
        Dwarf_Addr start, end;
        unsigned discriminator;
        Dwarf_Line *row = dwarf_onesrcline(lines, i);
        if (row_range(lines, i, &start, &end) && !dwarf_lineno(row, &number) &&
            !dwarf_linediscriminator(row, &discriminator))
            walk->status = tell(walk, start, end, dwarf_linesrc(row, NULL, NULL), number, discriminator);
    }
    return walk->status;
}

int cofi__lines_each(struct cofi__symbols *symbols, int (*each)(void *opaque, const struct cofi_module_line *line),
                     void *opaque)
{
    struct cofi__code_ranges code;
    if (!cofi__lines_dwarf(symbols) || symbols->incomplete)
        return symbols->incomplete ? COFI_ERR_NOMEM : 0;
    cofi__code_find(&code, symbols->elf);
    struct unit_walk walk = {.symbols = symbols, .code = &code, .each = each, .opaque = opaque};
    Dwarf_CU *cu = NULL;
    Dwarf_Die die, split;
    int status = 0, got = 0;
    errno = 0;
    while (!status && (got = dwarf_get_units(symbols->dwarf, cu, &cu, NULL, NULL, &die, &split)) == 0) {
        if (dwarf_tag(&die) == DW_TAG_compile_unit || dwarf_tag(&die) == DW_TAG_skeleton_unit)
            status = each_of_unit(&walk, &die, &split);
        errno = 0;
    }
    free(walk.file);
    return got < 0 && errno == ENOMEM ? COFI_ERR_NOMEM : status;
}
