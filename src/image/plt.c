/* SPDX-License-Identifier: MIT
 * An ELF's PLT stubs -> names like "puts@plt": a stub jumps through a GOT slot, a relocation names it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/bytes.h"
#include "image/symbols.h"

struct slot {
    uint64_t addr;
    const char *name;
};

struct slots {
    struct slot *rows;
    size_t n, room;
    bool incomplete; /* as the symbols are then */
};

static void add_slot(struct slots *slots, uint64_t addr, const char *name)
{
    if (cofi__array_grow(&slots->rows, &slots->room, slots->n, sizeof *slots->rows) < 0) {
        slots->incomplete = true;
        return;
    }
    slots->rows[slots->n++] = (struct slot){addr, name};
}

static const char *symbol_name(Elf *elf, size_t table, size_t index)
{
    GElf_Shdr shdr;
    GElf_Sym sym;
    Elf_Scn *scn = elf_getscn(elf, table);
    Elf_Data *data = scn ? elf_getdata(scn, NULL) : NULL;
    if (!data || !gelf_getshdr(scn, &shdr) || !gelf_getsym(data, (int)index, &sym))
        return NULL;
    const char *name = elf_strptr(elf, shdr.sh_link, sym.st_name);
    return name && name[0] ? name : NULL;
}

static void read_relocations(Elf *elf, Elf_Scn *scn, const GElf_Shdr *shdr, struct slots *slots)
{
    Elf_Data *data = elf_getdata(scn, NULL);
    if (!data || !shdr->sh_entsize)
        return;
    for (size_t i = 0; i < data->d_size / shdr->sh_entsize; i++) {
        GElf_Rela rela = {0};
        GElf_Rel rel;
        if (shdr->sh_type == SHT_RELA) {
            if (!gelf_getrela(data, (int)i, &rela))
                continue;
        } else {
            if (!gelf_getrel(data, (int)i, &rel))
                continue;
            rela.r_offset = rel.r_offset;
            rela.r_info = rel.r_info;
        }
        const char *name = symbol_name(elf, shdr->sh_link, GELF_R_SYM(rela.r_info));
        if (name)
            add_slot(slots, rela.r_offset, name);
    }
}

static int by_slot(const void *a, const void *b)
{
    const struct slot *x = a, *y = b;
    return x->addr < y->addr ? -1 : x->addr > y->addr;
}

static void name_stub(struct cofi__symbols *symbols, uint64_t addr, uint64_t size, const char *name)
{
    char *text = NULL;
    if (asprintf(&text, "%s@plt", name) < 0)
        text = NULL;
    const char *own = cofi__symbols_own(symbols, text);
    if (own)
        cofi__symbols_add(symbols, addr, size, own, 20);
}

/* jmp *disp32(%rip); in 32-bit code jmp *abs32 or jmp *disp32(%ebx), ebx being the GOT's address. */
static bool jump_slot(const uint8_t *p, uint64_t next, bool is64, uint64_t got, uint64_t *slot)
{
    uint32_t disp = le32(p + 2);
    if (p[0] == 0xff && p[1] == 0x25) {
        *slot = is64 ? next + (uint64_t)(int64_t)(int32_t)disp : disp;
        return true;
    }
    if (!is64 && p[0] == 0xff && p[1] == 0xa3) {
        *slot = (uint32_t)(got + disp);
        return true;
    }
    return false;
}

/* A section of stubs. */
struct stubs {
    const uint8_t *bytes;
    uint64_t addr, n, size; /* size: of each, 16 or (.plt.got without endbr) 8 */
    bool is64;
    uint64_t got;
};

/* The name of the slot that a stub, at an offset, jumps through somewhere in its first bytes; null:
 * none, or it has no name. */
static const char *name_of(const struct stubs *stubs, const struct slots *slots, uint64_t stub)
{
    for (uint64_t i = stub; i < stub + stubs->size && i + 6 <= stubs->n; i++) {
        struct slot key = {0}, *found = NULL;
        if (!jump_slot(stubs->bytes + i, stubs->addr + i + 6, stubs->is64, stubs->got, &key.addr))
            continue;
        if (slots->n)
            found = bsearch(&key, slots->rows, slots->n, sizeof key, by_slot);
        return found ? found->name : NULL;
    }
    return NULL;
}

/* What of .plt no slot names is one function: the first stub, which calls the dynamic linker, and with
 * IBT those that lead there. */
static void read_stubs(struct cofi__symbols *symbols, const struct stubs *stubs, const struct slots *slots, bool is_plt)
{
    uint64_t unnamed = 0;
    for (uint64_t stub = 0; stub + 6 <= stubs->n; stub += stubs->size) {
        const char *name = name_of(stubs, slots, stub);
        unnamed = name ? 0 : unnamed + stubs->size;
        bool last = is_plt && unnamed &&
                    (stub + stubs->size + 6 > stubs->n || name_of(stubs, slots, stub + stubs->size));
        if (name)
            name_stub(symbols, stubs->addr + stub, stubs->size, name);
        else if (last)
            cofi__symbols_add(symbols, stubs->addr + stub + stubs->size - unnamed, unnamed, ".plt", 20);
    }
}

static void read_section(struct cofi__symbols *symbols, Elf *elf, Elf_Scn *scn, const GElf_Shdr *shdr, const char *name,
                         uint64_t got, const struct slots *slots)
{
    Elf_Data *data = elf_getdata(scn, NULL);
    if (!data || !data->d_buf)
        return;
    const struct stubs stubs = {data->d_buf, shdr->sh_addr, data->d_size, shdr->sh_entsize == 8 ? 8 : 16,
                                gelf_getclass(elf) == ELFCLASS64, got};
    read_stubs(symbols, &stubs, slots, !strcmp(name, ".plt"));
}

void cofi__symbols_add_plt(struct cofi__symbols *symbols, Elf *elf)
{
    struct slots slots = {0};
    size_t names;
    uint64_t got = 0;
    if (elf_getshdrstrndx(elf, &names))
        return;
    for (Elf_Scn *scn = NULL; (scn = elf_nextscn(elf, scn));) {
        GElf_Shdr shdr;
        if (!gelf_getshdr(scn, &shdr))
            continue;
        const char *name = elf_strptr(elf, names, shdr.sh_name);
        if ((shdr.sh_type == SHT_RELA || shdr.sh_type == SHT_REL) && shdr.sh_flags & SHF_ALLOC)
            read_relocations(elf, scn, &shdr, &slots);
        if (name && (!strcmp(name, ".got.plt") || (!got && !strcmp(name, ".got"))))
            got = shdr.sh_addr;
    }
    if (slots.n)
        qsort(slots.rows, slots.n, sizeof *slots.rows, by_slot);
    for (Elf_Scn *scn = NULL; (scn = elf_nextscn(elf, scn));) {
        GElf_Shdr shdr;
        const char *name = gelf_getshdr(scn, &shdr) ? elf_strptr(elf, names, shdr.sh_name) : NULL;
        if (name && !strncmp(name, ".plt", 4) && shdr.sh_type == SHT_PROGBITS)
            read_section(symbols, elf, scn, &shdr, name, got, &slots);
    }
    symbols->incomplete |= slots.incomplete;
    free(slots.rows);
}
