/* SPDX-License-Identifier: MIT
 * A source's ELF tables -> the symbol and line at an address. */
#include "image/symbols.h"

#include <cofi/image.h>

#include "image/file.h"

void cofi__symbols_find(struct cofi__source *source, uint64_t vaddr, bool want_line,
                        struct cofi_symbol *symbol)
{
    (void)source, (void)vaddr, (void)want_line, (void)symbol;
}

void cofi__symbols_free(struct cofi__symbols *symbols)
{
    (void)symbols;
}
