/* SPDX-License-Identifier: MIT
 * A Linux kernel module's file -> its code as the kernel loads it: laid out and relocated [linux: layout_sections,
 * apply_relocate_add]. Data are left out; no branch needs them. */
#include "image/module.h"

#include <gelf.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/error.h"
#include "image/file.h"
#include "image/symbols.h"
#include "image/unpack.h"

/* More than any module has: what a made file may cost. */
enum { CODE_MOST = 1 << 26 };

/* ---- where its sections go ---- */

struct layout {
    Elf *elf;
    size_t n_sections, names;
    uint64_t *at; /* by section: where it is in the code; NOWHERE: it is data, or gone when the module runs */
    uint64_t size;
};
#define NOWHERE UINT64_MAX

static const char *section_name(const struct layout *layout, const GElf_Shdr *shdr)
{
    const char *name = elf_strptr(layout->elf, layout->names, shdr->sh_name);
    return name ? name : "";
}

/* Code comes first, section by section as the file has them; what only runs while it is loaded goes elsewhere. */
static bool is_code(const struct layout *layout, const GElf_Shdr *shdr)
{
    const uint64_t code = SHF_ALLOC | SHF_EXECINSTR;
    return (shdr->sh_flags & code) == code && shdr->sh_type == SHT_PROGBITS &&
           strncmp(section_name(layout, shdr), ".init", 5) != 0;
}

static bool lay_out(struct layout *layout, Elf *elf)
{
    GElf_Ehdr ehdr;
    *layout = (struct layout){.elf = elf};
    if (!gelf_getehdr(elf, &ehdr) || ehdr.e_type != ET_REL || ehdr.e_machine != EM_X86_64 ||
        elf_getshdrnum(elf, &layout->n_sections) || elf_getshdrstrndx(elf, &layout->names))
        return false;
    layout->at = calloc(layout->n_sections + 1, sizeof *layout->at);
    for (size_t i = 0; layout->at && i < layout->n_sections; i++) {
        GElf_Shdr shdr;
        layout->at[i] = NOWHERE;
        if (!gelf_getshdr(elf_getscn(elf, i), &shdr) || !is_code(layout, &shdr) || shdr.sh_size > CODE_MOST ||
            shdr.sh_addralign > CODE_MOST || (shdr.sh_addralign & (shdr.sh_addralign - 1)))
            continue;
        uint64_t align = shdr.sh_addralign ? shdr.sh_addralign : 1;
        layout->at[i] = (layout->size + align - 1) & ~(align - 1);
        layout->size = layout->at[i] + shdr.sh_size;
    }
    return layout->at && layout->size && layout->size < CODE_MOST;
}

/* Where a symbol is in the code. */
static bool place_of(const struct layout *layout, const GElf_Sym *sym, uint64_t *offset)
{
    if (sym->st_shndx >= layout->n_sections || layout->at[sym->st_shndx] == NOWHERE)
        return false;
    *offset = layout->at[sym->st_shndx] + sym->st_value;
    return true;
}

/* "a,b": what the module says it needs, or "". */
static const char *depends_of(const struct layout *layout)
{
    static const char key[] = "depends=";
    for (Elf_Scn *scn = NULL; (scn = elf_nextscn(layout->elf, scn));) {
        GElf_Shdr shdr;
        Elf_Data *data;
        if (!gelf_getshdr(scn, &shdr) || strcmp(section_name(layout, &shdr), ".modinfo") != 0 ||
            !(data = elf_getdata(scn, NULL)) || !data->d_size || ((char *)data->d_buf)[data->d_size - 1])
            continue;
        const char *at = data->d_buf, *end = at + data->d_size;
        for (; at < end; at += strlen(at) + 1)
            if (!strncmp(at, key, sizeof key - 1))
                return at + sizeof key - 1;
    }
    return "";
}

/* ---- relocation ---- */

struct loader {
    struct layout layout;
    const struct cofi__module *module;
    const char *depends;
    uint8_t *code;
};

static void copy_code(struct loader *loader)
{
    for (size_t i = 0; i < loader->layout.n_sections; i++) {
        Elf_Data *data = loader->layout.at[i] == NOWHERE ? NULL : elf_rawdata(elf_getscn(loader->layout.elf, i), NULL);
        uint64_t room = data ? loader->layout.size - loader->layout.at[i] : 0;
        if (data && data->d_buf)
            memcpy(loader->code + loader->layout.at[i], data->d_buf, data->d_size < room ? data->d_size : room);
    }
}

static bool address_of(const struct loader *loader, const GElf_Sym *sym, const char *name, uint64_t *addr)
{
    if (sym->st_shndx == SHN_UNDEF)
        return loader->module->find(loader->module->opaque, loader->depends, name, addr);
    if (!place_of(&loader->layout, sym, addr))
        return false;
    *addr += loader->module->addr;
    return true;
}

/* Whether the four bytes at an offset are a branch's: CALL, JMP, Jcc. (No ModRM byte in front of a data operand's
 * displacement looks like these.) */
static bool is_branch(const uint8_t *code, uint64_t at)
{
    return (at >= 1 && (code[at - 1] & 0xfe) == 0xe8) ||
           (at >= 2 && code[at - 2] == 0x0f && (code[at - 1] & 0xf0) == 0x80);
}

static bool is_tracer(const char *name) { return !strcmp(name, "__fentry__") || !strcmp(name, "mcount"); }

/* One displacement. A call of the function tracer is a NOP until somebody traces [linux: ftrace_module_init]. A
 * function that is not known is said to be 2 GiB below, where no kernel has code, so that what follows is a gap. */
static void relocate(struct loader *loader, uint64_t at, const GElf_Rela *rela, const GElf_Sym *sym, const char *name)
{
    static const uint8_t nop[5] = {0x0f, 0x1f, 0x44, 0x00, 0x00};
    uint64_t addr;
    uint8_t *field = loader->code + at;
    bool branch = is_branch(loader->code, at);
    if (sym->st_shndx == SHN_UNDEF && is_tracer(name) && at >= 1 && field[-1] == 0xe8)
        memcpy(field - 1, nop, sizeof nop);
    else if (branch && address_of(loader, sym, name, &addr))
        put_le(field, addr + (uint64_t)rela->r_addend - (loader->module->addr + at), 4);
    else if (branch)
        put_le(field, UINT32_C(0x80000000), 4);
}

static void relocate_section(struct loader *loader, const GElf_Shdr *shdr, Elf_Data *data)
{
    GElf_Shdr table;
    Elf_Scn *scn = elf_getscn(loader->layout.elf, shdr->sh_link);
    Elf_Data *symbols = scn && gelf_getshdr(scn, &table) ? elf_getdata(scn, NULL) : NULL;
    uint64_t start = loader->layout.at[shdr->sh_info];
    for (size_t i = 0; symbols && i < data->d_size / sizeof(Elf64_Rela); i++) {
        GElf_Rela rela;
        GElf_Sym sym;
        if (!gelf_getrela(data, (int)i, &rela) || !gelf_getsym(symbols, (int)GELF_R_SYM(rela.r_info), &sym) ||
            (GELF_R_TYPE(rela.r_info) != R_X86_64_PC32 && GELF_R_TYPE(rela.r_info) != R_X86_64_PLT32))
            continue;
        const char *name = elf_strptr(loader->layout.elf, table.sh_link, sym.st_name);
        if (loader->layout.size - start >= 4 && rela.r_offset <= loader->layout.size - start - 4)
            relocate(loader, start + rela.r_offset, &rela, &sym, name ? name : "");
    }
}

static void relocate_all(struct loader *loader)
{
    for (Elf_Scn *scn = NULL; (scn = elf_nextscn(loader->layout.elf, scn));) {
        GElf_Shdr shdr;
        Elf_Data *data;
        if (gelf_getshdr(scn, &shdr) && shdr.sh_type == SHT_RELA && shdr.sh_info < loader->layout.n_sections &&
            loader->layout.at[shdr.sh_info] != NOWHERE && (data = elf_getdata(scn, NULL)))
            relocate_section(loader, &shdr, data);
    }
}

int cofi__module_load(struct cofi__source *source, int fd)
{
    struct cofi__unpacked file;
    struct loader loader = {.module = source->module};
    int status = COFI_ERR_NO_CODE;
    if (!cofi__unpack(&file, fd)) {
        snprintf(source->why, COFI__WHY_BYTES, "%.300s: not an ELF file, or one that cannot be unpacked",
                 cofi__source_file(source));
    } else if (cofi__elf_check_build_id(source, file.elf) < 0) {
        /* it said why */
    } else if (!lay_out(&loader.layout, file.elf) || !(loader.code = calloc(1, loader.layout.size))) {
        snprintf(source->why, COFI__WHY_BYTES, "%.300s: no kernel module of x86-64 with code in it",
                 cofi__source_file(source));
    } else {
        loader.depends = depends_of(&loader.layout);
        copy_code(&loader);
        relocate_all(&loader);
        source->bytes = loader.code;
        source->size = loader.layout.size;
        source->mode = 64;
        status = 0;
    }
    free(loader.layout.at);
    cofi__unpacked_close(&file);
    return status;
}

/* ---- symbols ---- */

/* Every symbol of a module's code. False: no such file, or not a module. */
static bool each_symbol(const char *path,
                        void (*each)(void *opaque, const GElf_Sym *sym, uint64_t offset, const char *name),
                        void *opaque)
{
    struct cofi__unpacked file = {0};
    struct layout layout = {0};
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    bool is_module = fd >= 0 && cofi__unpack(&file, fd) && lay_out(&layout, file.elf);
    for (Elf_Scn *scn = NULL; is_module && (scn = elf_nextscn(file.elf, scn));) {
        GElf_Shdr shdr;
        Elf_Data *data;
        if (!gelf_getshdr(scn, &shdr) || shdr.sh_type != SHT_SYMTAB || !(data = elf_getdata(scn, NULL)))
            continue;
        for (size_t i = 1; i < data->d_size / sizeof(Elf64_Sym); i++) {
            GElf_Sym sym;
            uint64_t offset;
            const char *name = gelf_getsym(data, (int)i, &sym) ? elf_strptr(file.elf, shdr.sh_link, sym.st_name) : NULL;
            if (name && place_of(&layout, &sym, &offset))
                each(opaque, &sym, offset, name);
        }
    }
    free(layout.at);
    cofi__unpacked_close(&file);
    if (fd >= 0)
        close(fd);
    return is_module;
}

static void add_symbol(void *opaque, const GElf_Sym *sym, uint64_t offset, const char *name)
{
    struct cofi__symbols *symbols = opaque;
    const char *kept = GELF_ST_TYPE(sym->st_info) == STT_FUNC ? cofi__symbols_own(symbols, strdup(name)) : NULL;
    if (kept)
        cofi__symbols_add(symbols, offset, sym->st_size, kept, GELF_ST_BIND(sym->st_info) == STB_GLOBAL);
}

void cofi__module_symbols(struct cofi__symbols *symbols, const struct cofi__source *source)
{
    each_symbol(cofi__source_file(source), add_symbol, symbols);
}

struct exports {
    void (*each)(void *opaque, const char *name, uint64_t offset);
    void *opaque;
};

static void export(void *opaque, const GElf_Sym *sym, uint64_t offset, const char *name)
{
    const struct exports *exports = opaque;
    if (GELF_ST_BIND(sym->st_info) != STB_LOCAL)
        exports->each(exports->opaque, name, offset);
}

bool cofi__module_exports(const char *path, void (*each)(void *opaque, const char *name, uint64_t offset), void *opaque)
{
    struct exports exports = {each, opaque};
    return each_symbol(path, export, &exports);
}
