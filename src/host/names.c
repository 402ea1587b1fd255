/* SPDX-License-Identifier: MIT
 * Which file is it? What holds the bytes that are mapped. */
#include "host/names.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

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

static bool is_file_of(const struct cofi__mapped *map, const char *path)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    bool is = fd >= 0 && !fstat(fd, &st) && S_ISREG(st.st_mode) && holds(fd, map);
    if (fd >= 0)
        close(fd);
    return is;
}

/* Where the root of a process lies, as we see it; "" where it is ours or cannot be told. */
static void root_of(int32_t pid, char root[COFI__NAME_BYTES])
{
    char link[32];
    snprintf(link, sizeof link, "/proc/%d/root", (int)pid);
    ssize_t n = readlink(link, root, COFI__NAME_BYTES - 1);
    root[n > 1 ? n : 0] = 0;
}

bool cofi__name_for_us(const struct cofi__mapped *map, char name[COFI__NAME_BYTES])
{
    char path[2 * COFI__NAME_BYTES], root[COFI__NAME_BYTES];
    root_of(map->pid, root);
    snprintf(path, sizeof path, "%s%s", root, name);
    bool found = is_file_of(map, path) || (root[0] && is_file_of(map, strcpy(path, name)));
    if (!found)
        snprintf(path, sizeof path, "/proc/%d/root%s", (int)map->pid, name);
    if (strlen(path) < COFI__NAME_BYTES)
        strcpy(name, path);
    return found;
}
