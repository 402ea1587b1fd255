/* SPDX-License-Identifier: MIT
 * DWARF -> which code is of which function of the source, inlined ones, too. */
#include <dwarf.h>

#include <cofi/image.h>

#include "base/array.h"
#include "image/symbols.h"

/* How deep entries may lie in each other; what lies deeper is left out. */
enum { DEPTH_MAX = 256 };
/* Newer than libdw's list. */
enum { DW_AT_GNU_DISCRIMINATOR = 0x2136 };

struct scope_walk {
    const struct cofi__symbols *symbols;
    uint64_t shift; /* the ELF's own address is the DWARF's and this */
    struct cofi__code_ranges code;
    bool llvm;
    uint32_t number; /* of the last scope */
    Dwarf_Off last;  /* entries follow each other; so no table, however bad, has one looked at twice */
    int (*each)(void *opaque, const struct cofi_module_scope *scope);
    void *opaque;
};

static const char *text_of(Dwarf_Die *die, unsigned name)
{
    Dwarf_Attribute attribute;
    return dwarf_formstring(dwarf_attr_integrate(die, name, &attribute));
}

/* The symbol that begins there, for GCC does not tell the linker's names of static functions; null: none does. */
static const char *symbol_at(const struct cofi__symbols *symbols, uint64_t addr)
{
    size_t n = cofi__array_upper_bound(symbols->functions, symbols->n_functions, sizeof *symbols->functions,
                                       offsetof(struct cofi__function, addr), addr);
    return n && symbols->functions[n - 1].addr == addr ? symbols->functions[n - 1].name : NULL;
}

/* [DWARF 5 2.22]; before there was MIPS's attribute. entry: of a function by itself, else 0. */
static const char *name_of(const struct scope_walk *walk, Dwarf_Die *die, uint64_t entry)
{
    const char *name = text_of(die, DW_AT_linkage_name);
    name = name ? name : text_of(die, DW_AT_MIPS_linkage_name);
    name = name || !entry ? name : symbol_at(walk->symbols, entry);
    return name ? name : text_of(die, DW_AT_name);
}

/* 0: the entry itself does not have it. */
static uint32_t number_at(Dwarf_Die *die, unsigned name)
{
    Dwarf_Attribute attribute;
    Dwarf_Word word;
    return dwarf_formudata(dwarf_attr(die, name, &attribute), &word) || word > INT32_MAX ? 0 : (uint32_t)word;
}

/* Where a function is entered [DWARF 5 2.17, 2.18]: of one in parts (what is rarely executed is often split off)
 * where the first begins. 0: not known. */
static uint64_t entry_of(const struct scope_walk *walk, Dwarf_Die *die)
{
    Dwarf_Addr base, entry, end;
    bool known = !dwarf_entrypc(die, &entry) || dwarf_ranges(die, 0, &base, &entry, &end) > 0;
    return known ? entry + walk->shift : 0;
}

/* Each of its ranges. Returns what each returned. */
static int tell_scope(struct scope_walk *walk, Dwarf_Die *die, uint32_t outer)
{
    Dwarf_Addr base, start, end;
    int declared, status = 0;
    struct cofi_module_scope scope = {.number = ++walk->number, .outer = outer};
    scope.declared = dwarf_decl_line(die, &declared) || declared < 0 ? 0 : declared;
    scope.entry = outer ? 0 : entry_of(walk, die);
    scope.function = name_of(walk, die, scope.entry);
    if (outer) {
        scope.call_line = (int)number_at(die, DW_AT_call_line);
        scope.call_discriminator = cofi__discriminator(number_at(die, DW_AT_GNU_DISCRIMINATOR), walk->llvm).base;
    }
    for (ptrdiff_t at = 0; !status && (at = dwarf_ranges(die, at, &base, &start, &end)) > 0;) {
        scope.start = start + walk->shift;
        scope.end = end + walk->shift;
        if (scope.start < scope.end && cofi__code_holds(&walk->code, scope.start))
            status = walk->each(walk->opaque, &scope);
    }
    return status;
}

static int walk_children(struct scope_walk *walk, Dwarf_Die *die, uint32_t outer, unsigned depth);

/* What has code may have others inside of it; what has none (declarations, what was inlined everywhere)
 * has none there either. */
static int walk_die(struct scope_walk *walk, Dwarf_Die *die, uint32_t outer, unsigned depth)
{
    int tag = dwarf_tag(die), status;
    switch (tag) {
    case DW_TAG_subprogram:
    case DW_TAG_inlined_subroutine:
        if (!dwarf_hasattr(die, DW_AT_low_pc) && !dwarf_hasattr(die, DW_AT_ranges))
            return 0;
        status = tell_scope(walk, die, tag == DW_TAG_inlined_subroutine ? outer : 0);
        return status ? status : walk_children(walk, die, walk->number, depth);
    case DW_TAG_lexical_block:
    case DW_TAG_namespace:
    case DW_TAG_module:
        return walk_children(walk, die, outer, depth);
    default:
        return 0;
    }
}

static int walk_children(struct scope_walk *walk, Dwarf_Die *die, uint32_t outer, unsigned depth)
{
    Dwarf_Die child;
    int status = 0;
    if (depth == DEPTH_MAX || dwarf_child(die, &child))
        return 0;
    do {
        Dwarf_Off offset = dwarf_dieoffset(&child);
        if (offset <= walk->last)
            return 0;
        walk->last = offset;
        status = walk_die(walk, &child, outer, depth + 1);
    } while (!status && dwarf_siblingof(&child, &child) == 0);
    return status;
}

int cofi__scopes_each(struct cofi__symbols *symbols, int (*each)(void *opaque, const struct cofi_module_scope *scope),
                      void *opaque)
{
    Dwarf *dwarf = cofi__lines_dwarf(symbols);
    struct scope_walk walk = {.symbols = symbols, .each = each, .opaque = opaque,
                              .shift = symbols->dwarf_bias - symbols->elf_bias};
    Dwarf_CU *cu = NULL;
    Dwarf_Die die, split;
    int status = 0;
    if (dwarf)
        cofi__code_find(&walk.code, symbols->elf);
    while (dwarf && !status && dwarf_get_units(dwarf, cu, &cu, NULL, NULL, &die, &split) == 0) {
        Dwarf_Die *unit = cofi__lines_unit(&die, &split);
        walk.llvm = cofi__is_llvm(unit);
        walk.last = 0;
        status = walk_children(&walk, unit, 0, 0);
    }
    return status;
}
