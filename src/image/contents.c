/* SPDX-License-Identifier: MIT
 * A module -> what is known of all of it: where it lies, its functions, its lines, its code. */
#include <string.h>

#include <cofi/image.h>

#include "base/error.h"
#include "image/file.h"
#include "image/symbols.h"

enum { PAGE = 4096 };

/* A module is a source, for who sees the public headers only. */
static struct cofi__source *source_of(const struct cofi_module *module)
{
    return (struct cofi__source *)(uintptr_t)module;
}

static bool holds_elf(const struct cofi__source *source)
{
    return source->kind == COFI__SOURCE_BYTES && source->size > SELFMAG && !memcmp(source->bytes, ELFMAG, SELFMAG);
}

/* Of loadable parts, or of an ELF in memory, which is loaded as it lies. */
static void find_range(const struct cofi__source *source, struct cofi_module_info *info)
{
    if (holds_elf(source) || source->kind == COFI__SOURCE_MODULE)
        info->end = source->size;
    for (size_t i = 0; i < source->n_loads; i++) {
        const struct cofi__load *load = &source->loads[i];
        uint64_t end = load->vaddr + load->filesz;
        if (!info->end || load->vaddr < info->start)
            info->start = load->vaddr;
        if (end > info->end)
            info->end = end;
    }
    info->start &= ~(uint64_t)(PAGE - 1);
    info->end = (info->end + (PAGE - 1)) & ~(uint64_t)(PAGE - 1);
}

void cofi_module_info(const struct cofi_module *module, struct cofi_module_info *info)
{
    const struct cofi__source *source = source_of(module);
    bool memory = source->kind == COFI__SOURCE_BYTES || source->is_dump;
    *info = (struct cofi_module_info){.path = source->is_function ? "[jit]" : source->path,
                                      .build_id = source->build_id, .build_id_size = source->build_id_size,
                                      .of_file = !memory || holds_elf(source)};
    if (info->of_file && source->state >= 0)
        find_range(source, info);
}

static int tell(const struct cofi__function *function,
                int (*each)(void *opaque, const struct cofi_module_function *function), void *opaque)
{
    return each(opaque, &(struct cofi_module_function){function->addr, function->size, function->name});
}

/* Labels in data, such as _end, are no functions. */
static bool can_run(const struct cofi__source *source, uint64_t addr)
{
    for (size_t i = 0; i < source->n_loads; i++)
        if (source->loads[i].executable && addr - source->loads[i].vaddr < source->loads[i].filesz)
            return true;
    return !source->n_loads;
}

/* Two lists, as one. */
static int each_function(const struct cofi__source *source, const struct cofi__symbols *symbols,
                         int (*each)(void *opaque, const struct cofi_module_function *function), void *opaque)
{
    size_t i = 0, k = 0;
    int status = 0;
    while (!status && (i < symbols->n_functions || k < symbols->n_frames)) {
        bool frame = i == symbols->n_functions ||
                     (k < symbols->n_frames && symbols->frames[k].addr < symbols->functions[i].addr);
        const struct cofi__function *function = frame ? &symbols->frames[k++] : &symbols->functions[i++];
        if (can_run(source, function->addr))
            status = tell(function, each, opaque);
    }
    return status;
}

int cofi_module_functions(const struct cofi_module *module,
                          int (*each)(void *opaque, const struct cofi_module_function *function), void *opaque)
{
    struct cofi__source *source = source_of(module);
    cofi__source_open(source);
    struct cofi__symbols *symbols = cofi__symbols_get(source);
    if (!symbols)
        return COFI_ERR_NOMEM;
    pthread_mutex_lock(&symbols->lock);
    int status = symbols->frames_tried || source->kind != COFI__SOURCE_FILE ? 0 : cofi__frames_load(symbols);
    pthread_mutex_unlock(&symbols->lock);
    if (symbols->incomplete)
        status = COFI_ERR_NOMEM;
    return status < 0 ? status : each_function(source, symbols, each, opaque);
}

/* The tables of a module whose DWARF is asked for, locked; null: there are none, for this reason (0: it has none). */
static struct cofi__symbols *lock_dwarf(const struct cofi_module *module, int *status)
{
    struct cofi__source *source = source_of(module);
    cofi__source_open(source);
    struct cofi__symbols *symbols = cofi__symbols_get(source);
    *status = symbols ? 0 : COFI_ERR_NOMEM;
    if (!symbols || !symbols->module)
        return NULL;
    pthread_mutex_lock(&symbols->lock);
    return symbols;
}

int cofi_module_lines(const struct cofi_module *module, int (*each)(void *opaque, const struct cofi_module_line *line),
                      void *opaque)
{
    int status;
    struct cofi__symbols *symbols = lock_dwarf(module, &status);
    if (!symbols)
        return status;
    status = cofi__lines_each(symbols, each, opaque);
    pthread_mutex_unlock(&symbols->lock);
    return status;
}

int cofi_module_scopes(const struct cofi_module *module,
                       int (*each)(void *opaque, const struct cofi_module_scope *scope), void *opaque)
{
    int status;
    struct cofi__symbols *symbols = lock_dwarf(module, &status);
    if (!symbols)
        return status;
    status = cofi__scopes_each(symbols, each, opaque);
    pthread_mutex_unlock(&symbols->lock);
    return status;
}

/* The part that holds an address of the module's own, as it lies in the file; false: none does. */
static bool find_part(const struct cofi__source *source, uint64_t addr, struct cofi__load *part)
{
    *part = (struct cofi__load){
        .filesz = source->size}; /* a kernel module, or a file that is no ELF: addresses are offsets */
    for (size_t i = 0; i < source->n_loads; i++) {
        *part = source->loads[i];
        if (addr - part->vaddr < part->filesz)
            return true;
    }
    return !source->n_loads && addr < source->size;
}

int cofi_module_code(const struct cofi_module *module, uint64_t addr, struct cofi_code *code)
{
    struct cofi__source *source = source_of(module);
    struct cofi__load part;
    uint64_t start, end;
    char why[COFI__WHY_BYTES];
    COFI_TRY(cofi__source_open(source));
    if (source->kind == COFI__SOURCE_BYTES || source->is_dump || !find_part(source, addr, &part))
        return COFI_ERR_NO_CODE;
    *code = (struct cofi_code){.mode = source->mode};
    COFI_TRY(cofi__source_read(source, part.offset + (addr - part.vaddr), &code->bytes, &start, &end, why, sizeof why));
    code->start = start > part.offset ? part.vaddr + (start - part.offset) : part.vaddr;
    code->bytes += start > part.offset ? 0 : part.offset - start;
    code->end = end - part.offset < part.filesz ? part.vaddr + (end - part.offset) : part.vaddr + part.filesz;
    return 0;
}
