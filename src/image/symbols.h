/* SPDX-License-Identifier: MIT
 * Symbols and source lines of one source. */
#ifndef COFI_IMAGE_SYMBOLS_H
#define COFI_IMAGE_SYMBOLS_H

#include <stdbool.h>
#include <stdint.h>

struct cofi__source;
struct cofi__symbols;
struct cofi_symbol;

/* Fill name, offset, file and line of the ELF's own address vaddr. Thread safe. */
void cofi__symbols_find(struct cofi__source *source, uint64_t vaddr, bool want_line,
                        struct cofi_symbol *symbol);
void cofi__symbols_free(struct cofi__symbols *symbols);

#endif
