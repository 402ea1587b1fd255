/* SPDX-License-Identifier: MIT
 * kallsyms, or a vmlinux's symbols -> where each function is. */
#include "trace/kernel_names.h"

#include <gelf.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "image/elf_file.h"

char *cofi__read_text(const char *path)
{
    FILE *file = fopen(path, "re");
    char *text = NULL;
    size_t room = 0;
    ssize_t n = file ? getdelim(&text, &room, 0, file) : -1;
    if (file)
        fclose(file);
    if (n >= 0)
        return text;
    free(text);
    return NULL;
}

/* ---- kallsyms ---- */

bool cofi__kallsyms_next(char **at, struct cofi__kallsym *symbol)
{
    char *line = *at, *end;
    if (!*line)
        return false;
    char *next = strchr(line, '\n');
    *at = next ? next + 1 : line + strlen(line);
    if (next)
        *next = 0;
    symbol->addr = strtoull(line, &end, 16);
    symbol->type = end[0] == ' ' && end[1] ? end[1] : 0;
    symbol->name = symbol->type && end[2] == ' ' ? end + 3 : "";
    end = strchr(symbol->name, '\t');
    symbol->of_module = end;
    if (end)
        *end = 0;
    return true;
}

uint64_t cofi__kallsyms_address(const char *path, const char *name)
{
    char *text = cofi__read_text(path), *at = text;
    uint64_t addr = 0;
    for (struct cofi__kallsym symbol; text && !addr && cofi__kallsyms_next(&at, &symbol);)
        if (!strcmp(symbol.name, name))
            addr = symbol.addr;
    free(text);
    return addr;
}

/* ---- an ELF's symbols ---- */

/* Call each for every symbol that has a place, until it says that this was enough. */
static void each_symbol(const char *path, bool (*each)(void *opaque, const GElf_Sym *sym, const char *name),
                        void *opaque)
{
    struct elf_file file = elf_file_open(path);
    Elf *elf = file.elf;
    bool enough = false;
    for (Elf_Scn *scn = NULL; elf && !enough && (scn = elf_nextscn(elf, scn));) {
        GElf_Shdr shdr;
        Elf_Data *data;
        if (!gelf_getshdr(scn, &shdr) || shdr.sh_type != SHT_SYMTAB || !shdr.sh_entsize ||
            !(data = elf_getdata(scn, NULL)))
            continue;
        for (size_t i = 0; i < shdr.sh_size / shdr.sh_entsize && !enough; i++) {
            GElf_Sym sym;
            const char *name = gelf_getsym(data, (int)i, &sym) ? elf_strptr(elf, shdr.sh_link, sym.st_name) : NULL;
            enough = name && sym.st_shndx != SHN_UNDEF && each(opaque, &sym, name);
        }
    }
    elf_file_close(&file);
}

struct wanted {
    const char *name;
    uint64_t addr;
};

static bool take_address(void *opaque, const GElf_Sym *sym, const char *name)
{
    struct wanted *wanted = opaque;
    if (!strcmp(name, wanted->name))
        wanted->addr = sym->st_value;
    return wanted->addr;
}

uint64_t cofi__elf_symbol_address(const char *path, const char *name)
{
    struct wanted wanted = {name, 0};
    each_symbol(path, take_address, &wanted);
    return wanted.addr;
}

/* ---- the table ---- */

/* Keep a text that rows point into. */
static char *keep(struct cofi__kernel_names *names, char *text)
{
    char **grown = text ? realloc(names->texts, (names->n_texts + 1) * sizeof *grown) : NULL;
    if (!grown) {
        free(text);
        return NULL;
    }
    names->texts = grown;
    return grown[names->n_texts++] = text;
}

static void push(struct cofi__kernel_names *names, const char *name, uint64_t addr)
{
    if (cofi__array_grow(&names->rows, &names->room, names->n, sizeof *names->rows) < 0)
        return;
    names->rows[names->n] = (struct cofi__kernel_name){name, addr, names->n};
    names->n++;
    names->sorted = false;
}

void cofi__kernel_names_add(struct cofi__kernel_names *names, const char *name, uint64_t addr)
{
    char *kept = keep(names, strdup(name));
    if (kept)
        push(names, kept, addr);
}

/* Only what is global can be called from elsewhere. */
void cofi__kernel_names_add_kallsyms(struct cofi__kernel_names *names, const char *path, uint64_t slide)
{
    char *at = keep(names, cofi__read_text(path));
    for (struct cofi__kallsym symbol; at && cofi__kallsyms_next(&at, &symbol);)
        if (symbol.addr && symbol.type && strchr("TWw", symbol.type) && (!slide || !symbol.of_module))
            push(names, symbol.name, symbol.addr + slide);
}

struct elf_names {
    struct cofi__kernel_names *names;
    uint64_t slide;
};

static bool take_name(void *opaque, const GElf_Sym *sym, const char *name)
{
    struct elf_names *into = opaque;
    unsigned type = GELF_ST_TYPE(sym->st_info);
    if ((type == STT_FUNC || type == STT_NOTYPE) && GELF_ST_BIND(sym->st_info) != STB_LOCAL && sym->st_shndx != SHN_ABS)
        cofi__kernel_names_add(into->names, name, sym->st_value + into->slide);
    return false;
}

void cofi__kernel_names_add_elf(struct cofi__kernel_names *names, const char *path, uint64_t slide)
{
    struct elf_names into = {names, slide};
    each_symbol(path, take_name, &into);
}

static int by_name(const void *a, const void *b)
{
    const struct cofi__kernel_name *x = a, *y = b;
    int order = strcmp(x->name, y->name);
    return order ? order : x->order < y->order ? -1 : x->order > y->order;
}

bool cofi__kernel_names_find(struct cofi__kernel_names *names, const char *name, uint64_t *addr)
{
    if (!names->sorted && names->n)
        qsort(names->rows, names->n, sizeof *names->rows, by_name);
    names->sorted = true;
    size_t low = 0, high = names->n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (strcmp(names->rows[middle].name, name) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == names->n || strcmp(names->rows[low].name, name) != 0)
        return false;
    *addr = names->rows[low].addr;
    return true;
}

void cofi__kernel_names_free(struct cofi__kernel_names *names)
{
    for (size_t i = 0; i < names->n_texts; i++)
        free(names->texts[i]);
    free(names->texts);
    free(names->rows);
}
