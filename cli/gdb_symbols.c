/* SPDX-License-Identifier: MIT
 * Addresses that ran and a view that has names for them -> an ELF file with these as symbols [elf(5)].
 * See gdb_symbols.h. */
#include "gdb_symbols.h"

#include <elf.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

/* A function, or as much of it as ran: [start, end). */
struct function {
    uint64_t start, end;
    const char *name;
    uint32_t name_at; /* among the strings */
    uint16_t section;
};

struct functions {
    struct function *all;
    size_t n, room;
};

/* ---- which functions ---- */

static bool is_in_module(const struct gdb_modules *modules, struct cofi_view *view, uint64_t addr)
{
    uint64_t base;
    const struct cofi_module *of = cofi_view_module(view, addr, &base);
    for (size_t i = 0; i < modules->n && of; i++)
        if (modules->all[i].of == of)
            return true;
    return false;
}

static int add(struct functions *functions, const struct gdb_modules *modules, struct cofi_view *view,
               const struct gdb_block *block)
{
    struct cofi_symbol symbol;
    if (!block->n || is_in_module(modules, view, block->first))
        return 0;
    cofi_view_symbol(view, block->first, false, &symbol);
    if (!symbol.name)
        return 0;
    if (!array_grow(&functions->all, functions->n, &functions->room, sizeof *functions->all))
        return COFI_ERR_NOMEM;
    functions->all[functions->n++] = (struct function){.start = block->first - symbol.offset, .end = block->last + 1,
                                                       .name = symbol.name};
    return 0;
}

static int by_first(const void *a, const void *b)
{
    const struct gdb_block *x = a, *y = b;
    if (x->first != y->first)
        return x->first < y->first ? -1 : 1;
    return x->last < y->last ? -1 : x->last > y->last;
}

/* Blocks come again and again: a name is looked up once for each. */
static int add_thread(struct functions *functions, const struct gdb_thread *thread, const struct gdb_modules *modules,
                      struct cofi_view *view)
{
    size_t n = thread->n - thread->from;
    struct gdb_block *blocks = malloc(n * sizeof *blocks);
    int status = 0;
    if (!blocks)
        return COFI_ERR_NOMEM;
    memcpy(blocks, thread->blocks + thread->from, n * sizeof *blocks);
    qsort(blocks, n, sizeof *blocks, by_first);
    for (size_t i = 0; i < n && status >= 0; i++)
        if (!i || by_first(&blocks[i], &blocks[i - 1]))
            status = add(functions, modules, view, &blocks[i]);
    free(blocks);
    return status;
}

static int by_start(const void *a, const void *b)
{
    const struct function *x = a, *y = b;
    return x->start < y->start ? -1 : x->start > y->start;
}

/* Each once, up to the last of its instructions that ran, and none into the next one. */
static void merge(struct functions *functions)
{
    size_t n = 0;
    if (functions->n)
        qsort(functions->all, functions->n, sizeof *functions->all, by_start);
    for (size_t i = 0; i < functions->n; i++) {
        struct function *last = n ? &functions->all[n - 1] : NULL, *now = &functions->all[i];
        if (last && last->start == now->start)
            last->end = last->end > now->end ? last->end : now->end;
        else
            functions->all[n++] = *now;
    }
    functions->n = n;
    for (size_t i = 0; i + 1 < n; i++)
        if (functions->all[i].end > functions->all[i + 1].start)
            functions->all[i].end = functions->all[i + 1].start;
}

/* ---- the file: header, strings, symbols, section headers ---- */

/* gdb has symbols in sections only, and these must not lie over those of other files: functions a page
 * apart are in one. The first sections are none, and the three tables'. */
enum { APART = 4096, NAMES = 1, STRINGS, SYMBOLS, FIRST_CODE, SECTIONS_MOST = 0xff00 };

static const char section_names[] = "\0.shstrtab\0.strtab\0.symtab\0.text";
enum { AT_NAMES = 1, AT_STRINGS = 11, AT_SYMBOLS = 19, AT_TEXT = 27 };

/* Returns how many sections there are; functions beyond what a file can have are left out. */
static size_t place(struct functions *functions)
{
    size_t sections = FIRST_CODE;
    uint32_t name_at = 1;
    for (size_t i = 0; i < functions->n; i++) {
        struct function *f = &functions->all[i];
        bool apart = !i || f->start - functions->all[i - 1].end > APART;
        size_t length = strlen(f->name) + 1;
        if ((apart && sections == SECTIONS_MOST) || length > UINT32_MAX - name_at) {
            functions->n = i;
            break;
        }
        sections += apart;
        f->section = (uint16_t)(sections - 1);
        f->name_at = name_at;
        name_at += (uint32_t)length;
    }
    return sections;
}

static size_t strings_bytes(const struct functions *functions)
{
    const struct function *last = &functions->all[functions->n - 1];
    return last->name_at + strlen(last->name) + 1;
}

/* Names come from anybody's files; gdb gives a terminal what it has. As long as it is. */
static void write_name(FILE *out, const char *name)
{
    for (size_t n = strlen(name); n;) {
        size_t control = control_bytes(name, n), bytes = control ? control : 1;
        for (size_t i = 0; i < bytes; i++)
            fputc(control || *name == '\n' || *name == '\t' ? '?' : *name, out);
        name += bytes;
        n -= bytes;
    }
    fputc(0, out);
}

static void write_section(FILE *out, Elf64_Shdr section) { fwrite(&section, sizeof section, 1, out); }

static void write_code_sections(FILE *out, const struct functions *functions)
{
    for (size_t i = 0, end; i < functions->n; i = end) {
        for (end = i + 1; end < functions->n && functions->all[end].section == functions->all[i].section; end++) {
        }
        uint64_t start = functions->all[i].start;
        write_section(out, (Elf64_Shdr){.sh_name = AT_TEXT, .sh_type = SHT_NOBITS,
                                        .sh_flags = SHF_ALLOC | SHF_EXECINSTR, .sh_addr = start,
                                        .sh_size = functions->all[end - 1].end - start, .sh_addralign = 1});
    }
}

static void write_file(FILE *out, const struct functions *functions, size_t sections)
{
    size_t strings = strings_bytes(functions), symbols = (functions->n + 1) * sizeof(Elf64_Sym);
    const Elf64_Off at_names = sizeof(Elf64_Ehdr), at_strings = at_names + sizeof section_names,
                    at_symbols = (at_strings + strings + 7) & ~UINT64_C(7);
    const Elf64_Ehdr head = {.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
                             .e_type = ET_EXEC,
                             .e_machine = EM_X86_64,
                             .e_version = EV_CURRENT,
                             .e_shoff = at_symbols + symbols,
                             .e_ehsize = sizeof head,
                             .e_shentsize = sizeof(Elf64_Shdr),
                             .e_shnum = (uint16_t)sections,
                             .e_shstrndx = NAMES};
    fwrite(&head, sizeof head, 1, out);
    fwrite(section_names, sizeof section_names, 1, out);
    fputc(0, out);
    for (size_t i = 0; i < functions->n; i++)
        write_name(out, functions->all[i].name);
    for (size_t i = at_strings + strings; i < at_symbols; i++)
        fputc(0, out);
    fwrite(&(Elf64_Sym){.st_name = 0}, sizeof(Elf64_Sym), 1, out);
    for (size_t i = 0; i < functions->n; i++) {
        const struct function *f = &functions->all[i];
        fwrite(&(Elf64_Sym){.st_name = f->name_at,
                            .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC),
                            .st_shndx = f->section,
                            .st_value = f->start,
                            .st_size = f->end - f->start},
               sizeof(Elf64_Sym), 1, out);
    }
    write_section(out, (Elf64_Shdr){.sh_type = SHT_NULL});
    write_section(out, (Elf64_Shdr){.sh_name = AT_NAMES, .sh_type = SHT_STRTAB, .sh_offset = at_names,
                                    .sh_size = sizeof section_names});
    write_section(out, (Elf64_Shdr){.sh_name = AT_STRINGS, .sh_type = SHT_STRTAB, .sh_offset = at_strings,
                                    .sh_size = strings});
    write_section(out, (Elf64_Shdr){.sh_name = AT_SYMBOLS, .sh_type = SHT_SYMTAB, .sh_offset = at_symbols,
                                    .sh_size = symbols, .sh_link = STRINGS, .sh_info = 1,
                                    .sh_entsize = sizeof(Elf64_Sym), .sh_addralign = 8});
    write_code_sections(out, functions);
}

int gdb_symbols_write(FILE *out, const struct gdb_history *history, const struct gdb_modules *modules,
                      struct cofi_view *view, size_t *n)
{
    struct functions functions = {0};
    int status = 0;
    for (size_t i = 0; i < history->n && status >= 0; i++)
        status = add_thread(&functions, &history->threads[i], modules, view);
    merge(&functions);
    size_t sections = place(&functions);
    if (status >= 0 && functions.n)
        write_file(out, &functions, sections);
    *n = functions.n;
    free(functions.all);
    return status < 0 ? status : fflush(out) ? COFI_ERR_IO : 0;
}
