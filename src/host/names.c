/* SPDX-License-Identifier: MIT
 * Which file is it? What holds the bytes that are mapped. */
#include "host/names.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/file.h"

enum { PAGE = 4096, PAGES_COMPARED = 64 };

/* Whether a file has what a page of the mapping has: 1, 0, or negative: nothing can be read there. */
static int same_page(int fd, const struct cofi__mapped *map, uint64_t page)
{
    uint8_t file[PAGE] = {0}, memory[PAGE];
    struct iovec to = {memory, PAGE}, from = {(void *)(map->start + page * PAGE), PAGE};
    if (process_vm_readv(map->pid, &to, 1, &from, 1, 0) != PAGE)
        return -1;
    ssize_t got = pread(fd, file, PAGE, (off_t)(map->offset + page * PAGE));
    return got > 0 && !memcmp(file, memory, PAGE);
}

/* Pages from all over it; behind the file's end none can be read. */
static bool holds(int fd, const struct cofi__mapped *map)
{
    uint64_t pages = (map->end - map->start) / PAGE, step = pages / PAGES_COMPARED + 1;
    int same = same_page(fd, map, 0);
    if (same <= 0)
        return false;
    for (uint64_t page = step; page < pages && same > 0; page += step)
        same = same_page(fd, map, page);
    return same;
}

/* Whether nothing is mounted over the path that a mount should lead to. Kernels before 5.8 do not say. */
static bool is_in(int fd, uint64_t mount)
{
    struct statx st;
    if (!mount || statx(fd, "", AT_EMPTY_PATH, STATX_MNT_ID, &st) || !(st.stx_mask & STATX_MNT_ID))
        return true;
    return st.stx_mnt_id == mount;
}

static bool is_file_of(const struct cofi__mapped *map, const char *path, uint64_t mount)
{
    int fd = cofi__open_regular(path);
    bool is = fd >= 0 && is_in(fd, mount) && holds(fd, map);
    if (fd >= 0)
        close(fd);
    return is;
}

struct attempt {
    const struct cofi__mapped *map;
    char path[COFI__NAME_BYTES]; /* the file's, once that is found */
    enum cofi__found found;
};

static bool try_path(void *opaque, const char *path, uint64_t mount)
{
    struct attempt *a = opaque;
    bool is = strlen(path) < sizeof a->path && is_file_of(a->map, path, mount);
    if (is)
        strcpy(a->path, path);
    a->found = is ? COFI__FOUND : COFI__NOWHERE;
    return is;
}

/* A name may be one of before the process had its root. below: the name below that root. */
static bool try_names(struct attempt *a, const char *below, const char *name)
{
    return try_path(a, below, 0) || (strcmp(below, name) && try_path(a, name, 0));
}

static bool try_mounts(struct attempt *a, struct cofi__namespaces *namespaces, const char *below, const char *name)
{
    const struct cofi__mounts *theirs = cofi__namespaces_mounts(namespaces, a->map->pid);
    struct cofi__search s = {.theirs = theirs, .ours = &namespaces->ours.mounts, .is_it = try_path, .opaque = a};
    bool found = theirs && (cofi__mounts_search(&s, below) || (strcmp(below, name) && cofi__mounts_search(&s, name)));
    if (found && s.passing)
        a->found = COFI__FOR_NOW;
    return found;
}

enum cofi__found cofi__name_for_us(struct cofi__namespaces *namespaces, const struct cofi__mapped *map,
                                   char name[COFI__NAME_BYTES])
{
    char below[2 * COFI__NAME_BYTES], root[COFI__NAME_BYTES];
    struct attempt a = {.map = map};
    cofi__namespace_root(map->pid, root);
    snprintf(below, sizeof below, "%s%s", root, name);
    bool found = try_names(&a, below, name) || try_mounts(&a, namespaces, below, name);
    if (!found)
        snprintf(below, sizeof below, "/proc/%d/root%s", (int)map->pid, name);
    const char *path = found ? a.path : below;
    if (strlen(path) < COFI__NAME_BYTES)
        strcpy(name, path);
    return a.found;
}
