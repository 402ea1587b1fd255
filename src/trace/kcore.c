/* SPDX-License-Identifier: MIT
 * A directory with kcore, kallsyms and modules, as perf keeps them and /proc shows them -> a kernel's image. */
#include <gelf.h>

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/error.h"
#include "image/image.h"
#include "trace/reader.h"

static char *join(const char *directory, const char *name)
{
    char *path = NULL;
    return directory && asprintf(&path, "%s/%s", directory, name) >= 0 ? path : NULL;
}

/* ---- names ---- */

struct name {
    uint64_t addr;
    const char *text;
};

static int by_address(const void *a, const void *b)
{
    const struct name *x = a, *y = b;
    return x->addr < y->addr ? -1 : x->addr > y->addr;
}

/* Each function ends where the next one begins, or nearly so. */
void cofi__name_kernel(struct cofi_recording *recording, struct cofi__machine *machine, const char *kallsyms,
                       uint64_t slide)
{
    enum { LONGEST = 1 << 20 };
    struct cofi__vector names = COFI__VECTOR_OF(struct name);
    char *text = cofi__read_text(kallsyms), *at = text;
    for (struct cofi__kallsym symbol; text && cofi__kallsyms_next(&at, &symbol);) {
        bool function = symbol.addr && symbol.type && (!slide || !symbol.of_module) && strchr("tTwW", symbol.type);
        struct name *row = function ? cofi__vector_push(&names) : NULL;
        if (row)
            *row = (struct name){symbol.addr + slide, symbol.name};
        recording->nomem |= function && !row;
    }
    struct name *rows = names.items;
    if (names.n)
        qsort(rows, names.n, sizeof *rows, by_address);
    for (size_t i = 0; i < names.n; i++) {
        uint64_t size = i + 1 < names.n ? rows[i + 1].addr - rows[i].addr : LONGEST;
        if (size &&
            cofi__image_name(machine->kernel, 0, rows[i].addr, size < LONGEST ? size : LONGEST, rows[i].text) < 0)
            recording->nomem = true;
    }
    free(names.items);
    free(text);
}

/* ---- modules: "NAME SIZE USES BY STATE ADDRESS" a line ---- */

bool cofi__kcore_has_module(const struct cofi__machine *machine, const struct cofi_sideband *map)
{
    char name[256];
    cofi__module_name(map->name, name, sizeof name);
    size_t length = strlen(name);
    for (const char *line = machine->proc_modules; line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL) {
        const char *addr = !strncmp(line, name, length) && line[length] == ' ' ? strstr(line, " 0x") : NULL;
        const char *end = strchr(line, '\n');
        if (addr && (!end || addr < end))
            return strtoull(addr + 1, NULL, 16) == map->addr;
    }
    return !machine->proc_modules;
}

/* ---- places ---- */

/* Take the kernel from a directory; map: where the recording says that it was, to be proven; null: the directory is
 * part of the recording. */
static bool take(struct cofi_recording *recording, struct cofi__machine *machine, const char *directory,
                 const struct cofi_sideband *map)
{
    char *kcore = join(directory, "kcore"), *kallsyms = join(directory, "kallsyms"),
         *modules = join(directory, "modules");
    bool taken = kcore && kallsyms && modules && !access(kcore, R_OK) &&
                 (!map ||
                  (map->pgoff && cofi__kallsyms_address(kallsyms, cofi__reference_symbol(map)) == map->pgoff)) &&
                 cofi_image_map_elf(machine->kernel, 0, kcore, 0, NULL) == 0;
    if (taken) {
        cofi__name_kernel(recording, machine, kallsyms, 0);
        cofi__modules_kernel(machine, kallsyms, 0, NULL, 0);
    }
    if (taken && map)
        machine->proc_modules = cofi__read_text(modules);
    free(kcore);
    free(kallsyms);
    free(modules);
    return taken;
}

/* --kcore=FILE: what lies beside it is taken, too. */
static bool take_told(struct cofi_recording *recording, struct cofi__machine *machine)
{
    const char *path = machine->pid == HOST ? recording->options.kcore : NULL;
    char *kallsyms;
    if (!path || cofi_image_map_elf(machine->kernel, 0, path, 0, NULL) < 0)
        return false;
    const char *slash = strrchr(path, '/');
    if (asprintf(&kallsyms, "%.*skallsyms", slash ? (int)(slash + 1 - path) : 0, path) >= 0) {
        cofi__name_kernel(recording, machine, kallsyms, 0);
        free(kallsyms);
    }
    return true;
}

/* perf record --kcore; a guest's is named after its hypervisor (perf inject --guest-data). */
static bool take_recorded(struct cofi_recording *recording, struct cofi__machine *machine)
{
    char *path = NULL;
    if (!recording->in.directory)
        return false;
    int n = machine->pid == HOST ? asprintf(&path, "%s/kcore_dir", recording->in.directory) :
                                   asprintf(&path, "%s/kcore_dir__%d", recording->in.directory, machine->pid);
    bool taken = n >= 0 && take(recording, machine, path, NULL);
    free(n >= 0 ? path : NULL);
    return taken;
}

static void hex_of(const struct cofi_sideband *map, char hex[41])
{
    hex[0] = 0;
    for (size_t i = 0; i < map->build_id_size && i < 20; i++)
        sprintf(hex + 2 * i, "%02x", map->build_id[i]);
}

/* perf buildid-cache --kcore: ~/.debug/[kernel.kcore]/BUILDID/TIME/ */
static bool take_cached(struct cofi_recording *recording, struct cofi__machine *machine,
                        const struct cofi_sideband *map)
{
    char hex[41], *path = NULL;
    const char *home = getenv("HOME");
    hex_of(map, hex);
    if (!home || !hex[0] || asprintf(&path, "%s/.debug/[kernel.kcore]/%s", home, hex) < 0)
        return false;
    DIR *directory = opendir(path);
    bool taken = false;
    for (struct dirent *entry; directory && !taken && (entry = readdir(directory));) {
        char *one = entry->d_name[0] == '.' ? NULL : join(path, entry->d_name);
        taken = one && take(recording, machine, one, map);
        free(one);
    }
    if (directory)
        closedir(directory);
    free(path);
    return taken;
}

/* Below --guestmount is a guest's root, and so its /proc. */
static bool take_mounted(struct cofi_recording *recording, struct cofi__machine *machine,
                         const struct cofi_sideband *map)
{
    char *path = NULL;
    const char *guestmount = machine->pid != HOST ? recording->options.guestmount : NULL;
    if (!guestmount || asprintf(&path, "%s/%d/proc", guestmount, guest_number(machine->pid)) < 0)
        return false;
    bool taken = take(recording, machine, path, map);
    free(path);
    return taken;
}

/* The build id among notes: name size, description size, type (3), "GNU", the id. */
static bool notes_have(const uint8_t *notes, size_t n, const struct cofi_sideband *map)
{
    enum { HEAD = 12, BUILD_ID = 3 };
    for (size_t at = 0; n - at >= HEAD;) {
        size_t name = (le32(notes + at) + (size_t)3) & ~(size_t)3,
               text = (le32(notes + at + 4) + (size_t)3) & ~(size_t)3;
        if (name > n || text > n || name + text > n - at - HEAD)
            return false;
        if (le32(notes + at + 8) == BUILD_ID && name == 4 && !memcmp(notes + at + HEAD, "GNU", 4))
            return text >= map->build_id_size && !memcmp(notes + at + HEAD + name, map->build_id, map->build_id_size);
        at += HEAD + name + text;
    }
    return false;
}

/* The kernel that runs here, if it is the recorded one and has not moved. */
static bool take_running(struct cofi_recording *recording, struct cofi__machine *machine,
                         const struct cofi_sideband *map)
{
    uint8_t notes[4096];
    char *path = cofi__below_symfs(recording, "/sys/kernel/notes"), *proc = cofi__below_symfs(recording, "/proc");
    FILE *file = path ? fopen(path, "re") : NULL;
    size_t n = file ? fread(notes, 1, sizeof notes, file) : 0;
    if (file)
        fclose(file);
    bool taken = proc && map->build_id_size && notes_have(notes, n, map) && take(recording, machine, proc, map);
    free(path);
    free(proc);
    return taken;
}

bool cofi__map_kcore(struct cofi_recording *recording, struct cofi__machine *machine, const struct cofi_sideband *map)
{
    if (take_told(recording, machine) || take_recorded(recording, machine))
        return true;
    if (map->name[0] != '[' || !map->pgoff || (machine->pid == HOST && recording->options.vmlinux))
        return false;
    return take_mounted(recording, machine, map) || take_cached(recording, machine, map) ||
           (machine->pid == HOST && take_running(recording, machine, map));
}
