/* SPDX-License-Identifier: MIT
 * Recorded mappings and what a view shows there -> a process's program and libraries. See gdb_modules.h. */
#include "gdb_modules.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "cli.h"
#include "elf_members.h"

/* ---- an ELF file's head ---- */

static void read_header(struct gdb_module *module, bool is_32, const uint8_t *header)
{
    uint64_t type = ELF_GET(is_32, header, Phdr, p_type), addr = module->base + ELF_GET(is_32, header, Phdr, p_vaddr);
    if (type == PT_DYNAMIC)
        module->dynamic = addr;
    if (type != PT_LOAD || ELF_GET(is_32, header, Phdr, p_flags) & PF_W || module->constant_n == GDB_CONSTANT_MAX)
        return;
    module->constant[module->constant_n].start = addr;
    module->constant[module->constant_n++].end = addr + ELF_GET(is_32, header, Phdr, p_memsz);
}

/* first: the module's own address of its first byte. False: it is no ELF file that begins there. */
static bool read_head(struct gdb_module *module, const struct cofi_module *of, uint64_t first)
{
    struct cofi_code code;
    if (cofi_module_code(of, first, &code) < 0 || code.start > first || code.end - first < EI_NIDENT)
        return false;
    const uint8_t *bytes = code.bytes + (first - code.start);
    uint64_t n = code.end - first;
    bool is_32 = bytes[EI_CLASS] == ELFCLASS32;
    if (memcmp(bytes, ELFMAG, SELFMAG) || n < ELF_SIZE(is_32, Ehdr))
        return false;
    uint64_t headers = ELF_GET(is_32, bytes, Ehdr, e_phoff);
    module->of = of;
    module->entry = module->base + ELF_GET(is_32, bytes, Ehdr, e_entry);
    module->headers = module->base + first + headers;
    module->headers_n = (unsigned)ELF_GET(is_32, bytes, Ehdr, e_phnum);
    module->header_bytes = (unsigned)ELF_GET(is_32, bytes, Ehdr, e_phentsize);
    for (uint64_t i = 0; i < module->headers_n && headers <= n && n - headers >= ELF_SIZE(is_32, Phdr);
         i++, headers += module->header_bytes)
        read_header(module, is_32, bytes + headers);
    return true;
}

/* ---- modules ---- */

static bool is_code_mapping(const struct cofi_sideband *sb)
{
    return sb->kind == COFI_SB_MMAP && sb->prot & PROT_EXEC && !sb->kernel && !sb->machine;
}

static size_t index_of(const struct gdb_modules *modules, const char *path, uint64_t base)
{
    size_t i = 0;
    while (i < modules->n && (modules->all[i].base != base || strcmp(modules->all[i].path, path)))
        i++;
    return i;
}

/* What is shown at an address is one of them from now on, if it is a file. Returns which; n: none, or an error. */
static int take(struct gdb_modules *modules, struct cofi_view *view, uint64_t addr, size_t *which)
{
    struct gdb_module module = {0};
    struct cofi_module_info info;
    const struct cofi_module *of = cofi_view_module(view, addr, &module.base);
    *which = modules->n;
    if (!of)
        return 0;
    cofi_module_info(of, &info);
    module.path = info.path;
    if (!info.of_file || *info.path != '/')
        return 0;
    *which = index_of(modules, module.path, module.base);
    if (*which < modules->n || !read_head(&module, of, info.start))
        return 0;
    if (!array_grow(&modules->all, modules->n, &modules->room, sizeof *modules->all))
        return COFI_ERR_NOMEM;
    modules->all[modules->n++] = module;
    return 0;
}

/* The sideband from a process's last exec on, *exec; false: it has none, and *parent is who forked it, or -1. */
static bool find_exec(const struct cofi_recording *recording, int32_t pid, size_t *exec, int32_t *parent)
{
    const struct cofi_sideband *sb;
    bool found = false;
    *parent = -1;
    for (size_t i = 0; (sb = cofi_recording_sideband(recording, i)); i++) {
        if (sb->pid != pid)
            continue;
        if (sb->kind == COFI_SB_COMM && sb->exec) {
            found = true;
            *exec = i;
        }
        if (sb->kind == COFI_SB_FORK && sb->ppid != pid && !sb->exec)
            *parent = sb->ppid;
    }
    return found;
}

/* Where a process's program is from: its last exec, or that of whom it was forked from, whose number *pid is then. */
static size_t since_exec(const struct cofi_recording *recording, int32_t *pid)
{
    enum { GENERATIONS = 64 };
    size_t exec = 0;
    int32_t parent;
    for (int i = 0; i < GENERATIONS && !find_exec(recording, *pid, &exec, &parent) && parent >= 0; i++)
        *pid = parent;
    return exec;
}

int gdb_modules_find(struct gdb_modules *modules, const struct cofi_recording *recording, struct cofi_view *view,
                     int32_t pid)
{
    const struct cofi_sideband *sb;
    size_t which, exec = recording ? since_exec(recording, &pid) : 0, program = SIZE_MAX;
    int status = 0;
    for (size_t i = 0; recording && status >= 0 && (sb = cofi_recording_sideband(recording, i)); i++) {
        if (!is_code_mapping(sb))
            continue;
        status = take(modules, view, sb->addr, &which);
        if (program == SIZE_MAX && i >= exec && sb->pid == pid && which < modules->n)
            program = which;
    }
    modules->program = program < modules->n ? program : modules->n;
    return status;
}

static bool is_constant(const struct gdb_module *module, uint64_t addr, uint64_t *end)
{
    for (unsigned i = 0; i < module->constant_n; i++)
        if (addr >= module->constant[i].start && addr < module->constant[i].end) {
            *end = module->constant[i].end;
            return true;
        }
    return false;
}

int gdb_modules_constant(const struct gdb_modules *modules, uint64_t addr, struct cofi_code *code)
{
    uint64_t end;
    for (size_t i = 0; i < modules->n; i++) {
        const struct gdb_module *module = &modules->all[i];
        if (!is_constant(module, addr, &end) || cofi_module_code(module->of, addr - module->base, code) < 0)
            continue;
        code->start += module->base;
        code->end += module->base;
        code->end = code->end < end ? code->end : end;
        return 0;
    }
    return COFI_ERR_NO_CODE;
}

void gdb_modules_fini(struct gdb_modules *modules) { free(modules->all); }
