/* SPDX-License-Identifier: MIT
 * Where the file lies that an address filter names: of a process what it has mapped, else where the program's libraries are sought. */
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

static char *run_path_in(Elf *elf, Elf_Scn *section)
{
    GElf_Shdr sh;
    GElf_Dyn dyn;
    if (!gelf_getshdr(section, &sh) || sh.sh_type != SHT_DYNAMIC)
        return NULL;
    Elf_Data *data = elf_getdata(section, NULL);
    for (int i = 0; data && gelf_getdyn(data, i, &dyn); i++)
        if (dyn.d_tag == DT_RUNPATH || dyn.d_tag == DT_RPATH) {
            const char *folders = elf_strptr(elf, sh.sh_link, dyn.d_un.d_val);
            return folders ? strdup(folders) : NULL;
        }
    return NULL;
}

/* The folders that a program was linked to look into, as CMake has it done for what it builds; null: none. */
static char *run_path_of(const char *path)
{
    char *folders = NULL;
    struct elf_file file = elf_file_open(path);
    for (Elf_Scn *section = NULL; file.elf && !folders && (section = elf_nextscn(file.elf, section));)
        folders = run_path_in(file.elf, section);
    elf_file_close(&file);
    return folders;
}

static char *library_of(const char *program, const char *name)
{
    char *origin = program ? cofi__filter_program(program) : NULL;
    char *folders = origin ? run_path_of(origin) : NULL;
    if (origin)
        *strrchr(origin, '/') = '\0'; /* it is a whole path */
    char *found = file_in(folders, origin, name);
    free(folders);
    free(origin);
    return found;
}

char *cofi__filter_file(const char *program, const char *name)
{
    static const char folders[] = "/lib/x86_64-linux-gnu:/usr/lib/x86_64-linux-gnu:/lib64:/usr/lib64:/usr/local/lib:/lib:/usr/lib";
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
    return found ? found : file_in(folders, NULL, name);
}
