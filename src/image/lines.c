/* SPDX-License-Identifier: MIT
 * DWARF -> the source line of an address. */
#include <stdlib.h>

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
