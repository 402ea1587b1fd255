/* SPDX-License-Identifier: MIT
 * A folder of kept code is bounded. */
#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/array.h"
#include "host/fast/keep.h"

struct file {
    char *name;
    uint64_t bytes;
    struct timespec used;
};

struct files {
    struct file *file;
    size_t n, room;
    uint64_t bytes;
};

static bool is_ours(const char *name)
{
    size_t n = strlen(name), suffix = strlen(COFI__FAST_KEPT_SUFFIX);
    return n > suffix && !strcmp(name + n - suffix, COFI__FAST_KEPT_SUFFIX);
}

static void add(void *opaque, int dir, const char *name)
{
    struct files *all = opaque;
    struct stat st;
    if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) || !S_ISREG(st.st_mode) ||
        cofi__array_grow(&all->file, &all->room, all->n, sizeof *all->file))
        return;
    struct file f = {strdup(name), (uint64_t)st.st_size, st.st_mtim};
    if (!f.name)
        return;
    all->file[all->n++] = f;
    all->bytes += f.bytes;
}

void cofi__fast_each_file(int dir, void (*each)(void *opaque, int dir, const char *name), void *opaque)
{
    int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    if (!d && fd >= 0)
        close(fd);
    for (struct dirent *e; d && (e = readdir(d));)
        if (is_ours(e->d_name))
            each(opaque, dir, e->d_name);
    if (d)
        closedir(d);
}

static int by_use(const void *a, const void *b)
{
    const struct timespec x = ((const struct file *)a)->used, y = ((const struct file *)b)->used;
    return x.tv_sec != y.tv_sec ? (x.tv_sec > y.tv_sec) - (x.tv_sec < y.tv_sec)
                                : (x.tv_nsec > y.tv_nsec) - (x.tv_nsec < y.tv_nsec);
}

void cofi__fast_sweep(int dir, size_t files, uint64_t bytes)
{
    struct files all = {0};
    cofi__fast_each_file(dir, add, &all);
    if (all.n)
        qsort(all.file, all.n, sizeof *all.file, by_use);
    for (size_t i = 0; i < all.n; i++) {
        if ((all.n - i > files || all.bytes > bytes) && !unlinkat(dir, all.file[i].name, 0))
            all.bytes -= all.file[i].bytes;
        free(all.file[i].name);
    }
    free(all.file);
}
