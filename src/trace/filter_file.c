/* SPDX-License-Identifier: MIT
 * Where the file lies that an address filter names: of a process what it has mapped, else where the
 * program's libraries are sought. */
#include "trace/filter_file.h"

#include <gelf.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/proc.h"
#include "image/elf_file.h"
#include "trace/loader_cache.h"

static char *file_at(const char *folder, const char *name)
{
    char path[PATH_MAX];
    struct stat st;
    snprintf(path, sizeof path, "%s%s%s", folder, *folder ? "/" : "", name);
    return !stat(path, &st) && S_ISREG(st.st_mode) ? realpath(path, NULL) : NULL;
}

/* Bytes of what stands for the program's folder [ld.so(8)]; origin: that folder, or null: nothing stands for it. */
static size_t sign_of(const char *origin, const char *folder)
{
    return !origin ? 0 : !strncmp(folder, "$ORIGIN", 7) ? 7 : !strncmp(folder, "${ORIGIN}", 9) ? 9 : 0;
}

/* In one of the folders, which colons part. */
static char *file_in(const char *folders, const char *origin, const char *name)
{
    char folder[PATH_MAX];
    for (const char *f = folders; f && *f;) {
        size_t n = strcspn(f, ":"), sign = sign_of(origin, f);
        snprintf(folder, sizeof folder, "%s%.*s", sign ? origin : "", (int)(n - sign), f + sign);
        char *found = file_at(folder, name);
        if (found)
            return found;
        f += n + (f[n] == ':');
    }
    return NULL;
}

char *cofi__filter_program(const char *name)
{
    return strchr(name, '/') ? file_at("", name) : file_in(getenv("PATH"), NULL, name);
}

/* ---- of a process ---- */

static bool is_comm(int pid, const char *name)
{
    char comm[64];
    return cofi__proc_comm(pid, comm, sizeof comm) && !strcmp(comm, name);
}

/* What a process has mapped by that name; or its program, if it is called so, as one behind a link is. */
static char *file_of(int pid, const char *name)
{
    char path[64], line[PATH_MAX + 128], *found = NULL;
    snprintf(path, sizeof path, "/proc/%d/maps", pid);
    FILE *maps = fopen(path, "re");
    while (maps && !found && fgets(line, sizeof line, maps)) {
        char *file = strchr(line, '/');
        line[strcspn(line, "\n")] = '\0';
        if (file && !strcmp(strrchr(file, '/') + 1, name))
            found = file_at("", file);
    }
    if (maps)
        fclose(maps);
    snprintf(path, sizeof path, "/proc/%d/exe", pid);
    return found || !is_comm(pid, name) ? found : file_at("", path);
}

/* ---- of a program ---- */

enum { NEEDED_MAX = 256 };

/* Who would be loaded for a program: itself, then what those before were linked to. */
struct loaded {
    char *paths[NEEDED_MAX]; /* whole ones */
    size_t n;
};

/* The folders that what was linked is to look into [ld.so(8)], and what it needs; folders: null where
 * there are none. */
struct linked {
    const char *folders;
    const char *needed[NEEDED_MAX];
    size_t needed_n;
};

static void read_linked(Elf *elf, Elf_Scn *section, struct linked *linked)
{
    GElf_Shdr sh;
    GElf_Dyn dyn;
    if (!gelf_getshdr(section, &sh) || sh.sh_type != SHT_DYNAMIC)
        return;
    Elf_Data *data = elf_getdata(section, NULL);
    for (int i = 0; data && gelf_getdyn(data, i, &dyn); i++) {
        const char *text = elf_strptr(elf, sh.sh_link, dyn.d_un.d_val);
        if (text && (dyn.d_tag == DT_RUNPATH || (dyn.d_tag == DT_RPATH && !linked->folders)))
            linked->folders = text;
        if (text && dyn.d_tag == DT_NEEDED && linked->needed_n < NEEDED_MAX)
            linked->needed[linked->needed_n++] = text;
    }
}

/* Where the loader's configuration has it [ldconfig(8)]. */
static char *cached(const char *name)
{
    char *path = cofi__loader_cache_find("/etc/ld.so.cache", name), *found = path ? file_at("", path) : NULL;
    free(path);
    return found;
}

/* As the loader seeks a library that something was linked to [ld.so(8)]. */
static char *sought(const struct linked *linked, const char *origin, const char *name)
{
    static const char usual[] =
        "/lib/x86_64-linux-gnu:/usr/lib/x86_64-linux-gnu:/lib64:/usr/lib64:/usr/local/lib:/lib:/usr/lib";
    char *found = strchr(name, '/') ? file_at("", name) : file_in(getenv("LD_LIBRARY_PATH"), NULL, name);
    found = found ? found : file_in(linked->folders, origin, name);
    found = found ? found : cached(name);
    return found ? found : file_in(usual, NULL, name);
}

static void add(struct loaded *loaded, char *path)
{
    for (size_t i = 0; path && i < loaded->n; i++)
        if (!strcmp(loaded->paths[i], path)) {
            free(path);
            return;
        }
    if (path && loaded->n < NEEDED_MAX)
        loaded->paths[loaded->n++] = path;
    else
        free(path);
}

/* In the folders of one that is loaded; what it needs is loaded, too. */
static char *library_beside(struct loaded *loaded, size_t i, const char *name)
{
    struct linked linked = {0};
    struct elf_file file = elf_file_open(loaded->paths[i]);
    for (Elf_Scn *section = NULL; file.elf && (section = elf_nextscn(file.elf, section));)
        read_linked(file.elf, section, &linked);
    char *origin = strdup(loaded->paths[i]);
    if (origin)
        *strrchr(origin, '/') = '\0';
    char *found = file_in(linked.folders, origin, name);
    for (size_t k = 0; !found && k < linked.needed_n; k++)
        add(loaded, sought(&linked, origin, linked.needed[k]));
    free(origin);
    elf_file_close(&file);
    return found;
}

/* In the folders that the program was linked to look into, as CMake has it done for what it builds, or a
 * library of its. */
static char *library_of(const char *program, const char *name)
{
    struct loaded loaded = {0};
    char *found = NULL;
    add(&loaded, program ? cofi__filter_program(program) : NULL);
    for (size_t i = 0; !found && i < loaded.n; i++)
        found = library_beside(&loaded, i, name);
    for (size_t i = 0; i < loaded.n; i++)
        free(loaded.paths[i]);
    return found;
}

char *cofi__filter_file(const char *program, const char *name)
{
    static const struct linked nothing;
    if (strchr(name, '/'))
        return file_at("", name);
    const char *slash = program ? strrchr(program, '/') : NULL;
    int pid;
    char *found = program && sscanf(program, "/proc/%d/exe", &pid) == 1 ? file_of(pid, name) : NULL;
    if (!found && program && !strcmp(slash ? slash + 1 : program, name))
        return cofi__filter_program(program);
    found = found ? found : file_at("", name);
    found = found ? found : file_in(getenv("LD_LIBRARY_PATH"), NULL, name);
    found = found ? found : library_of(program, name);
    return found ? found : sought(&nothing, NULL, name);
}
