/* SPDX-License-Identifier: MIT
 * A recording's mappings -> the files that decoding needs beside it, each once, open. */
#include <gelf.h>
#include <elfutils/libdwelf.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/file.h"
#include "base/map.h"
#include "image/image.h"
#include "trace/reader.h"

struct listing {
    const struct cofi_recording *recording;
    int (*take)(void *opaque, const struct cofi_recording_file *file);
    void *opaque;
    struct cofi__map seen; /* sources */
};

static bool has_code(Elf *elf)
{
    GElf_Phdr phdr;
    size_t n;
    if (!elf || elf_kind(elf) != ELF_K_ELF || elf_getphdrnum(elf, &n))
        return false;
    for (size_t i = 0; i < n && gelf_getphdr(elf, (int)i, &phdr); i++)
        if (phdr.p_type == PT_LOAD && phdr.p_flags & PF_X)
            return true;
    return false;
}

/* Why an open file is not the one that the recording had; null: it is. (What was opened may be another
 * one than the source looked at.) */
static const char *refusal(struct cofi__source *source, int fd)
{
    elf_version(EV_CURRENT);
    Elf *elf = elf_begin(fd, ELF_C_READ, NULL);
    const char *why = has_code(elf) ? NULL : "not an ELF file with code";
    pthread_mutex_lock(&source->lock);
    if (!why && cofi__elf_check_build_id(source, elf) < 0)
        why = source->why;
    pthread_mutex_unlock(&source->lock);
    if (elf)
        elf_end(elf);
    return why;
}

static int hand_over(const struct listing *listing, const char *path, const char *found, int fd, const char *why)
{
    struct cofi_recording_file file = {path, why ? NULL : found, why ? -1 : fd, why};
    return listing->take(listing->opaque, &file);
}

/* /usr/lib/debug/.build-id/XX/YYYY….debug by the program's build id, which its debug file has, too:
 * every decoder looks there first. Without a build id: where it was found. */
static void place_of_debug(int program, const char *found, char *path, size_t n)
{
    const void *id;
    Elf *elf = elf_begin(program, ELF_C_READ, NULL);
    ssize_t bytes = elf ? dwelf_elf_gnu_build_id(elf, &id) : 0;
    int at = snprintf(path, n, "%s", found);
    if (bytes > 1 && bytes <= 64)
        at = snprintf(path, n, "/usr/lib/debug/.build-id/%02x/", *(const uint8_t *)id);
    for (ssize_t i = 1; i < bytes && bytes <= 64; i++)
        at += snprintf(path + at, n - (size_t)at, "%02x%s", ((const uint8_t *)id)[i], i + 1 < bytes ? "" : ".debug");
    if (elf)
        elf_end(elf);
}

static int list_debug(const struct listing *listing, const struct cofi__source *source, int program)
{
    char path[4096], *found = cofi__source_debug_file(source);
    int fd = found ? cofi__open_regular(found) : -1, status = 0;
    if (fd >= 0) {
        place_of_debug(program, found, path, sizeof path);
        status = hand_over(listing, path, found, fd, NULL);
        close(fd);
    }
    free(found);
    return status;
}

/* Whether the recording has the pages of a mapping that ran, as of a file that was made while it was
 * recorded. What a program changed in its own code is told in smaller pieces. */
static bool has_pages(const struct cofi_recording *recording, const struct cofi_sideband *map)
{
    enum { LEAST = 2048 };
    const struct cofi_sideband *end = (const struct cofi_sideband *)recording->sideband.items + recording->sideband.n;
    for (const struct cofi_sideband *sb = map + 1; sb < end; sb++) {
        if (sb->pid != map->pid || sb->machine != map->machine)
            continue;
        if (sb->kind == COFI_SB_CODE && sb->len >= LEAST && sb->addr - map->addr < map->len)
            return true;
        if (sb->kind == COFI_SB_FORK || (sb->kind == COFI_SB_COMM && sb->exec))
            break;
    }
    return false;
}

static int list_source(const struct listing *listing, struct cofi__source *source, const struct cofi_sideband *map)
{
    const char *why = cofi__source_open(source) < 0 ? source->why : NULL, *found = cofi__source_file(source);
    int fd = why ? -1 : cofi__open_regular(found);
    if (why && cofi__names_no_file(source->path))
        return 0;
    if (!why)
        why = fd < 0 ? "cannot be opened any more" : refusal(source, fd);
    int status = why && has_pages(listing->recording, map) ? 0 : hand_over(listing, source->path, found, fd, why);
    if (!status && !why)
        status = list_debug(listing, source, fd);
    if (fd >= 0)
        close(fd);
    return status;
}

static int list_jitdump(const struct listing *listing, const char *path)
{
    uint8_t head[4];
    char *found = cofi__below_symfs(listing->recording, path);
    if (!found)
        return COFI_ERR_NOMEM;
    int fd = cofi__open_regular(found);
    bool good = fd >= 0 && pread(fd, head, sizeof head, 0) == sizeof head && le32(head) == COFI__JIT_MAGIC;
    int status = hand_over(listing, path, found, fd, good ? NULL : "not there, or no jitdump");
    if (fd >= 0)
        close(fd);
    free(found);
    return status;
}

static int list_perf_map(const struct listing *listing, const struct cofi__process *process)
{
    char path[COFI__PERF_MAP_PATH], *found;
    if (process->machine != HOST || process->pid <= 0)
        return 0;
    int fd = cofi__perf_map_open(listing->recording, process->pid, path, &found), status = found ? 0 : COFI_ERR_NOMEM;
    if (fd >= 0) {
        status = hand_over(listing, path, found, fd, NULL);
        close(fd);
    }
    free(found);
    return status;
}

/* The source of a mapping: the one that its images show. */
static struct cofi__source *source_of(const struct cofi_recording *recording, const struct cofi_sideband *map)
{
    char *file = recording->symfs ? cofi__below_symfs(recording, map->name) : NULL;
    if (recording->symfs && !file)
        return NULL;
    struct cofi__source *source = cofi__store_file(recording->store, map->name, file, map->build_id,
                                                   map->build_id_size);
    free(file);
    return source;
}

static int list_once(struct listing *listing, const struct cofi_sideband *map)
{
    struct cofi__source *source = source_of(listing->recording, map);
    if (!source)
        return COFI_ERR_NOMEM;
    if (cofi__map_get(&listing->seen, (uintptr_t)source, 0))
        return 0;
    COFI_TRY(cofi__map_put(&listing->seen, (uintptr_t)source, 0, 1));
    return cofi__is_jitdump(map->name) ? list_jitdump(listing, map->name) : list_source(listing, source, map);
}

static bool maps_code(const struct cofi_sideband *sb)
{
    return sb->kind == COFI_SB_MMAP && sb->machine == HOST && !sb->kernel && sb->pid != -1 && sb->prot & PROT_EXEC &&
           sb->name && sb->name[0] == '/';
}

int cofi_recording_files(const struct cofi_recording *recording,
                         int (*take)(void *opaque, const struct cofi_recording_file *file), void *opaque)
{
    struct listing listing = {.recording = recording, .take = take, .opaque = opaque};
    const struct cofi_sideband *sideband = recording->sideband.items;
    int status = 0;
    for (size_t i = 0; i < recording->sideband.n && !status; i++)
        if (maps_code(&sideband[i]))
            status = list_once(&listing, &sideband[i]);
    const struct cofi__process *processes = recording->processes.items;
    for (size_t i = 0; i < recording->processes.n && !status; i++)
        status = list_perf_map(&listing, &processes[i]);
    cofi__map_free(&listing.seen);
    return status;
}
