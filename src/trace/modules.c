/* SPDX-License-Identifier: MIT
 * A kernel module's mapping -> its file, and whom it calls. */
#include "trace/modules.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "image/file.h"
#include "image/image.h"
#include "image/module.h"
#include "trace/reader.h"

/* /lib/modules/…/snd-pcm.ko.xz and [snd_pcm] are snd_pcm. */
void cofi__module_name(const char *path, char *out, size_t n)
{
    const char *slash = strrchr(path, '/'), *from = slash ? slash + 1 : path + (*path == '[');
    size_t length = slash ? strcspn(from, ".") : strcspn(from, "].");
    snprintf(out, n, "%.*s", (int)length, from);
    for (; *out; out++)
        if (*out == '-')
            *out = '_';
}

/* ---- whom modules call ---- */

struct module {
    char name[64];
    struct cofi__module told;
    struct cofi__source *plain; /* its file as it is, for its symbols */
    bool known;                 /* its functions are among the names */
    struct module *next;
};

struct cofi__modules {
    pthread_mutex_t lock; /* holds the names, and `known` */
    struct cofi__kernel_names names;
    bool kernel_known;
    char *kallsyms, *vmlinux; /* the recorded kernel's, or null */
    uint64_t kallsyms_slide, vmlinux_slide;
    struct module *first; /* whole once the recording is open */
    char *dep;            /* modules.dep, or null */
};

static void know_kernel(struct cofi__modules *modules)
{
    if (modules->kernel_known)
        return;
    modules->kernel_known = true;
    if (modules->kallsyms)
        cofi__kernel_names_add_kallsyms(&modules->names, modules->kallsyms, modules->kallsyms_slide);
    if (modules->vmlinux)
        cofi__kernel_names_add_elf(&modules->names, modules->vmlinux, modules->vmlinux_slide);
}

struct exporter {
    struct cofi__kernel_names *names;
    uint64_t addr;
};

static void know_function(void *opaque, const char *name, uint64_t offset)
{
    const struct exporter *exporter = opaque;
    cofi__kernel_names_add(exporter->names, name, exporter->addr + offset);
}

static void know_module(struct cofi__modules *modules, struct module *module)
{
    struct exporter exporter = {&modules->names, module->told.addr};
    if (!module->known && cofi__source_open(module->plain) == 0)
        cofi__module_exports(cofi__source_file(module->plain), know_function, &exporter);
    module->known = true;
}

/* depends: "a,b". */
static void know_depends(struct cofi__modules *modules, const char *depends)
{
    while (*depends) {
        size_t n = strcspn(depends, ",");
        for (struct module *module = modules->first; module; module = module->next)
            if (strlen(module->name) == n && !strncmp(module->name, depends, n))
                know_module(modules, module);
        depends += depends[n] ? n + 1 : n;
    }
}

static bool find(void *opaque, const char *depends, const char *name, uint64_t *addr)
{
    struct cofi__modules *modules = opaque;
    pthread_mutex_lock(&modules->lock);
    know_kernel(modules);
    bool found = cofi__kernel_names_find(&modules->names, name, addr);
    if (!found) {
        know_depends(modules, depends);
        found = cofi__kernel_names_find(&modules->names, name, addr);
    }
    pthread_mutex_unlock(&modules->lock);
    return found;
}

static struct cofi__modules *modules_of(struct cofi__machine *machine)
{
    if (machine->modules)
        return machine->modules;
    struct cofi__modules *modules = calloc(1, sizeof *modules);
    if (modules)
        pthread_mutex_init(&modules->lock, NULL);
    return machine->modules = modules;
}

void cofi__modules_kernel(struct cofi__machine *machine, const char *kallsyms, uint64_t kallsyms_slide,
                          const char *vmlinux, uint64_t vmlinux_slide)
{
    struct cofi__modules *modules = modules_of(machine);
    if (!modules || modules->kallsyms || modules->vmlinux)
        return;
    modules->kallsyms = kallsyms ? strdup(kallsyms) : NULL;
    modules->kallsyms_slide = kallsyms_slide;
    modules->vmlinux = vmlinux ? strdup(vmlinux) : NULL;
    modules->vmlinux_slide = vmlinux_slide;
}

void cofi__modules_free(struct cofi__modules *modules)
{
    if (!modules)
        return;
    for (struct module *next; modules->first; modules->first = next) {
        next = modules->first->next;
        free(modules->first);
    }
    cofi__kernel_names_free(&modules->names);
    pthread_mutex_destroy(&modules->lock);
    free(modules->kallsyms);
    free(modules->vmlinux);
    free(modules->dep);
    free(modules);
}

/* ---- its file ---- */

/* "kernel/fs/xfs/xfs.ko.xz: …" is the line of xfs. Where perf found no file it wrote [xfs]. */
static char *file_of_name(const struct cofi_recording *recording, struct cofi__modules *modules, const char *wanted)
{
    char *folder = NULL, *path = NULL, *below = NULL, name[64];
    if (!recording->osrelease || asprintf(&folder, "/lib/modules/%s/", recording->osrelease) < 0)
        return NULL;
    if (!modules->dep && asprintf(&path, "%smodules.dep", folder) >= 0) {
        below = cofi__below_symfs(recording, path);
        modules->dep = below ? cofi__read_text(below) : NULL;
        free(below);
        free(path);
    }
    path = below = NULL;
    for (const char *line = modules->dep; line && !path; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL) {
        int n = (int)strcspn(line, ":\n");
        if (asprintf(&path, "%s%.*s", line[0] == '/' ? "" : folder, n, line) < 0)
            break;
        cofi__module_name(path, name, sizeof name);
        if (strcmp(name, wanted) != 0) {
            free(path);
            path = NULL;
        }
    }
    below = path ? cofi__below_symfs(recording, path) : NULL;
    free(path);
    free(folder);
    return below;
}

/* What is read in place of the mapping's name; null: nothing. A guest's paths are not this machine's. */
static char *file_of(const struct cofi_recording *recording, const struct cofi__machine *machine,
                     const struct cofi_sideband *map, const char *name)
{
    char *file = NULL;
    if (machine->pid == HOST)
        return map->name[0] == '/' ? cofi__below_symfs(recording, map->name) :
                                     file_of_name(recording, machine->modules, name);
    if (!recording->options.guestmount || map->name[0] != '/' ||
        asprintf(&file, "%s/%d%s", recording->options.guestmount, guest_number(machine->pid), map->name) < 0)
        return NULL;
    return file;
}

bool cofi__map_module(struct cofi_recording *recording, struct cofi__machine *machine, const struct cofi_sideband *map)
{
    struct cofi__modules *modules = modules_of(machine);
    struct module *module = modules ? calloc(1, sizeof *module) : NULL;
    struct cofi__source *source = NULL;
    if (!module)
        return false;
    module->next = modules->first;
    modules->first = module;
    module->told = (struct cofi__module){map->addr, find, modules};
    cofi__module_name(map->name, module->name, sizeof module->name);
    char *file = file_of(recording, machine, map, module->name);
    if (file || map->build_id_size) {
        module->plain = cofi__store_module(recording->store, map->name, file, map->build_id, map->build_id_size, NULL);
        source = cofi__store_module(recording->store, map->name, file, map->build_id, map->build_id_size,
                                    &module->told);
    }
    free(file);
    module->known = !module->plain;
    return source && cofi__image_add(machine->kernel, map->time_ns, map->addr, map->len, source, 0) == 0;
}
