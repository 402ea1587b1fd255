/* SPDX-License-Identifier: MIT
 * A source's ELF tables -> the symbol and line at an address. */
#include "image/symbols.h"

#include <stdlib.h>
#include <string.h>

#include <cofi/image.h>

#include "base/array.h"
#include "image/file.h"
#include "image/module.h"

void cofi__symbols_add(struct cofi__symbols *symbols, uint64_t addr, uint64_t size, const char *name, uint8_t rank)
{
    if (cofi__array_grow(&symbols->functions, &symbols->functions_room, symbols->n_functions,
                         sizeof *symbols->functions) < 0) {
        symbols->incomplete = true;
        return;
    }
    symbols->functions[symbols->n_functions++] = (struct cofi__function){addr, size, name, rank};
}

const char *cofi__symbols_own(struct cofi__symbols *symbols, char *name)
{
    char **made = name ? realloc(symbols->made, (symbols->n_made + 1) * sizeof *made) : NULL;
    if (!made) {
        symbols->incomplete = true;
        free(name);
        return NULL;
    }
    symbols->made = made;
    return made[symbols->n_made++] = name;
}

/* "memcpy@@GLIBC_2.14" is memcpy to people. */
static const char *without_version(struct cofi__symbols *symbols, const char *name)
{
    const char *at = strchr(name, '@');
    return at && at != name ? cofi__symbols_own(symbols, strndup(name, (size_t)(at - name))) : name;
}

static void add_symbol(struct cofi__symbols *symbols, const GElf_Sym *sym, uint64_t addr, const char *name)
{
    unsigned type = GELF_ST_TYPE(sym->st_info), bind = GELF_ST_BIND(sym->st_info);
    bool function = type == STT_FUNC || type == STT_GNU_IFUNC;
    if (!name || !name[0] || sym->st_shndx == SHN_UNDEF || sym->st_shndx == SHN_ABS)
        return;
    if (!function && type != STT_NOTYPE)
        return;
    /* puts rather than _IO_puts: the name that programs use is often the weak one. */
    uint8_t rank = (uint8_t)((function ? 16 : 0) + (sym->st_size ? 8 : 0) + (name[0] == '_' ? 0 : 4) +
                             (bind == STB_GLOBAL ? 2 : bind == STB_WEAK ? 1 : 0));
    name = without_version(symbols, name);
    if (name)
        cofi__symbols_add(symbols, addr, sym->st_size, name, rank);
}

/* The table that libdwfl finds best: the file's own, a separate debug file's, a compressed one, or .dynsym. */
static void add_module_table(struct cofi__symbols *symbols)
{
    int n = dwfl_module_getsymtab(symbols->module);
    for (int i = 1; i < n; i++) {
        GElf_Sym sym;
        GElf_Addr addr;
        GElf_Word shndx;
        const char *name = dwfl_module_getsym_info(symbols->module, i, &sym, &addr, &shndx, NULL, NULL);
        add_symbol(symbols, &sym, addr - symbols->elf_bias, name);
    }
}

/* All tables of an ELF in memory. */
static void add_elf_tables(struct cofi__symbols *symbols, Elf *elf)
{
    for (Elf_Scn *scn = NULL; (scn = elf_nextscn(elf, scn));) {
        GElf_Shdr shdr;
        Elf_Data *data;
        if (!gelf_getshdr(scn, &shdr) || (shdr.sh_type != SHT_SYMTAB && shdr.sh_type != SHT_DYNSYM) ||
            !shdr.sh_entsize || !(data = elf_getdata(scn, NULL)))
            continue;
        for (size_t i = 1; i < data->d_size / shdr.sh_entsize; i++) {
            GElf_Sym sym;
            if (gelf_getsym(data, (int)i, &sym))
                add_symbol(symbols, &sym, sym.st_value, elf_strptr(elf, shdr.sh_link, sym.st_name));
        }
    }
}

static int by_address(const void *a, const void *b)
{
    const struct cofi__function *x = a, *y = b;
    if (x->addr != y->addr)
        return x->addr < y->addr ? -1 : 1;
    if (x->rank != y->rank)
        return x->rank > y->rank ? -1 : 1;
    return strcmp(x->name, y->name);
}

/* Sort, and keep the best name of each address. */
static void finish(struct cofi__symbols *symbols)
{
    size_t kept = 0;
    if (!symbols->n_functions)
        return;
    qsort(symbols->functions, symbols->n_functions, sizeof *symbols->functions, by_address);
    for (size_t i = 0; i < symbols->n_functions; i++)
        if (!kept || symbols->functions[kept - 1].addr != symbols->functions[i].addr)
            symbols->functions[kept++] = symbols->functions[i];
    symbols->n_functions = kept;
}

static void read_file(struct cofi__symbols *symbols, const struct cofi__source *source)
{
    cofi__symbols_open(symbols, source);
    if (!symbols->elf)
        return;
    add_module_table(symbols);
    cofi__symbols_add_plt(symbols, symbols->elf);
}

static struct cofi__symbols *load(struct cofi__source *source)
{
    struct cofi__symbols *symbols = calloc(1, sizeof *symbols);
    if (!symbols)
        return NULL;
    pthread_mutex_init(&symbols->lock, NULL);
    elf_version(EV_CURRENT);
    if (source->kind == COFI__SOURCE_MODULE) {
        cofi__module_symbols(symbols, source);
    } else if (source->kind == COFI__SOURCE_FILE && source->elf) {
        read_file(symbols, source);
    } else if (source->kind == COFI__SOURCE_BYTES && source->size > 64 && !memcmp(source->bytes, ELFMAG, SELFMAG)) {
        symbols->elf = elf_memory((char *)source->bytes, source->size);
        if (symbols->elf)
            add_elf_tables(symbols, symbols->elf);
    }
    finish(symbols);
    return symbols;
}

struct cofi__symbols *cofi__symbols_get(struct cofi__source *source)
{
    struct cofi__symbols *symbols = atomic_load_explicit(&source->symbols, memory_order_acquire);
    if (symbols)
        return symbols;
    pthread_mutex_lock(&source->lock);
    symbols = atomic_load(&source->symbols);
    if (!symbols) {
        symbols = load(source);
        atomic_store_explicit(&source->symbols, symbols, memory_order_release);
    }
    pthread_mutex_unlock(&source->lock);
    return symbols;
}

static const struct cofi__function *find(const struct cofi__symbols *symbols, uint64_t vaddr)
{
    size_t n = cofi__array_upper_bound(symbols->functions, symbols->n_functions, sizeof *symbols->functions,
                                       offsetof(struct cofi__function, addr), vaddr);
    /* The nearest one that reaches so far; a function may have smaller ones inside. */
    for (size_t i = n; i > 0 && n - i < 16; i--) {
        const struct cofi__function *f = &symbols->functions[i - 1];
        if (f->size ? vaddr - f->addr < f->size : i == n)
            return f;
    }
    return NULL;
}

bool cofi__symbols_find(struct cofi__source *source, uint64_t vaddr, bool want_line, struct cofi_symbol *symbol)
{
    struct cofi__symbols *symbols = cofi__symbols_get(source);
    if (!symbols)
        return false;
    const struct cofi__function *function = find(symbols, vaddr);
    if (function) {
        symbol->name = function->name;
        symbol->offset = vaddr - function->addr;
    }
    if (!want_line || !symbols->module)
        return !symbols->incomplete;
    pthread_mutex_lock(&symbols->lock);
    cofi__lines_find(symbols, vaddr, symbol);
    bool whole = !symbols->incomplete;
    pthread_mutex_unlock(&symbols->lock);
    return whole;
}

void cofi__symbols_free(struct cofi__symbols *symbols)
{
    if (!symbols)
        return;
    for (size_t i = 0; i < symbols->n_made; i++)
        free(symbols->made[i]);
    free(symbols->made);
    free(symbols->functions);
    free(symbols->units);
    free(symbols->frames);
    cofi__packed_close(&symbols->packed);
    if (symbols->dwfl)
        dwfl_end(symbols->dwfl);
    else if (symbols->elf)
        elf_end(symbols->elf);
    free(symbols->debug_folders);
    pthread_mutex_destroy(&symbols->lock);
    free(symbols);
}
