/* SPDX-License-Identifier: MIT
 * Where a kernel's functions are, as /proc/kallsyms or its file tells. */
#ifndef COFI_TRACE_KERNEL_NAMES_H
#define COFI_TRACE_KERNEL_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A whole text file, to be freed; null: it cannot be read. (Files of /proc tell no size.) */
char *cofi__read_text(const char *path);

/* A line of kallsyms: "ADDRESS TYPE NAME" or "ADDRESS TYPE NAME\t[MODULE]". */
struct cofi__kallsym {
    uint64_t addr;
    const char *name;
    char type; /* 0: the line has none */
    bool of_module;
};
/* The line at *at, which is cut into pieces; false: that was the last. */
bool cofi__kallsyms_next(char **at, struct cofi__kallsym *symbol);
/* Where a symbol is in a file of such lines, 0: it is not there, or addresses are hidden. */
uint64_t cofi__kallsyms_address(const char *path, const char *name);

/* Where a symbol of an ELF is, 0: it has none of that name. */
uint64_t cofi__elf_symbol_address(const char *path, const char *name);

/* All functions by name. Zeroed it is empty. */
struct cofi__kernel_names {
    struct cofi__kernel_name {
        const char *name;
        uint64_t addr;
        uint64_t order; /* of names that are alike the first counts */
    } *rows;
    size_t n, room;
    bool sorted;
    char **texts; /* where names are */
    size_t n_texts;
};
/* Add the functions of a file, `slide` above where it says; kallsyms' modules move on their own. */
void cofi__kernel_names_add_kallsyms(struct cofi__kernel_names *names, const char *path, uint64_t slide);
void cofi__kernel_names_add_elf(struct cofi__kernel_names *names, const char *path, uint64_t slide);
void cofi__kernel_names_add(struct cofi__kernel_names *names, const char *name, uint64_t addr);
bool cofi__kernel_names_find(struct cofi__kernel_names *names, const char *name, uint64_t *addr);
void cofi__kernel_names_free(struct cofi__kernel_names *names);

#endif
