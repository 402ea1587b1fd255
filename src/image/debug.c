/* SPDX-License-Identifier: MIT
 * A source's file -> what libdwfl shows of it, and which file beside it holds its debug information. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "image/file.h"
#include "image/symbols.h"

static const Dwfl_Callbacks standard = {
    .find_elf = dwfl_build_id_find_elf,
    .find_debuginfo = dwfl_standard_find_debuginfo,
    .section_address = dwfl_offline_section_address,
};

/* What the file's path was put behind (--symfs), as an absolute path; null: nothing. */
static char *root_of(const struct cofi__source *source, char root[PATH_MAX])
{
    char below[PATH_MAX];
    const char *file = source->asked_file;
    size_t n = file ? strlen(file) : 0, path = strlen(source->path);
    if (n <= path || n - path >= sizeof below || strcmp(file + n - path, source->path) != 0)
        return NULL;
    snprintf(below, sizeof below, "%.*s", (int)(n - path), file);
    return realpath(below, root);
}

/* The recorded machine's debug files are below the same root as its programs. libdwfl parts the folders
 * by colons, and looks for build ids in absolute ones only. */
static char *debug_folders(const struct cofi__source *source)
{
    char root[PATH_MAX], *folders;
    if (!root_of(source, root) || strchr(root, ':'))
        return NULL;
    return asprintf(&folders, ":.debug:%s/usr/lib/debug:/usr/lib/debug", root) < 0 ? NULL : folders;
}

void cofi__symbols_open(struct cofi__symbols *symbols, const struct cofi__source *source)
{
    const char *file = cofi__source_file(source);
    symbols->callbacks = standard;
    symbols->debug_folders = debug_folders(source);
    if (symbols->debug_folders)
        symbols->callbacks.debuginfo_path = &symbols->debug_folders;
    errno = 0; /* libdwfl's own numbers of errors have no names */
    symbols->dwfl = dwfl_begin(&symbols->callbacks);
    if (!symbols->dwfl) {
        symbols->incomplete = true;
        return;
    }
    dwfl_report_begin(symbols->dwfl);
    symbols->module = dwfl_report_offline(symbols->dwfl, file, file, -1);
    dwfl_report_end(symbols->dwfl, NULL, NULL);
    if (symbols->module)
        symbols->elf = dwfl_module_getelf(symbols->module, &symbols->elf_bias);
    symbols->incomplete |= !symbols->elf && errno == ENOMEM;
}

Dwarf *cofi__symbols_dwarf(struct cofi__symbols *symbols, GElf_Addr *bias)
{
    const char *main = NULL, *debug = NULL;
    Dwarf *dwarf = dwfl_module_getdwarf(symbols->module, bias);
    if (dwarf || !symbols->elf)
        return dwarf;
    dwfl_module_info(symbols->module, NULL, NULL, NULL, NULL, NULL, &main, &debug);
    const char *file = debug ? debug : main;
    *bias = symbols->elf_bias;
    return file ? cofi__packed_open(&symbols->packed, file) : NULL;
}

char *cofi__source_debug_file(const struct cofi__source *source)
{
    struct cofi__symbols symbols = {0};
    const char *main = NULL, *debug = NULL;
    Dwarf_Addr bias;
    elf_version(EV_CURRENT);
    cofi__symbols_open(&symbols, source);
    if (symbols.elf && cofi__symbols_dwarf(&symbols, &bias))
        dwfl_module_info(symbols.module, NULL, NULL, NULL, NULL, NULL, &main, &debug);
    char *file = debug && (!main || strcmp(main, debug) != 0) ? strdup(debug) : NULL;
    cofi__packed_close(&symbols.packed);
    if (symbols.dwfl)
        dwfl_end(symbols.dwfl);
    free(symbols.debug_folders);
    return file;
}
