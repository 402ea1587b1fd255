/* SPDX-License-Identifier: MIT
 * /proc/PID/mountinfo -> mounts, read as seldom as can be: a namespace can have thousands, and whoever
 * is recorded can make them. */
#include "host/namespaces.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "host/proc.h"

enum { TEXT_BYTES = 4 << 20, PIECE_BYTES = 64 << 10, GENERATIONS = 64, SHARE = 8 };

static uint64_t clock_ns(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* ---- processes ---- */

void cofi__namespace_root(int32_t pid, char root[COFI__NAME_BYTES])
{
    char link[32];
    snprintf(link, sizeof link, "/proc/%d/root", (int)pid);
    ssize_t n = readlink(link, root, COFI__NAME_BYTES - 1);
    root[n > 1 ? n : 0] = 0;
}

/* 0: it cannot be told. */
static uint64_t inode_of(int32_t pid)
{
    char link[32];
    struct stat st;
    snprintf(link, sizeof link, "/proc/%d/ns/mnt", (int)pid);
    return stat(link, &st) ? 0 : st.st_ino;
}

bool cofi__namespace_is_ours(int32_t pid)
{
    uint64_t inode = inode_of(pid);
    return inode && inode == inode_of(getpid());
}

static int32_t parent_of(int32_t pid) { return cofi__proc_number(pid, "PPid:"); }

/* A process in a root of its own is shown what is mounted below that, only: who made it may see all.
 * root: the one's that is returned. */
static int32_t who_sees_most(int32_t pid, uint64_t inode, char root[COFI__NAME_BYTES])
{
    char seen[COFI__NAME_BYTES];
    int32_t at = root[0] ? parent_of(pid) : 0;
    for (unsigned i = 0; at > 0 && i < GENERATIONS && inode_of(at) == inode; i++, at = parent_of(at)) {
        cofi__namespace_root(at, seen);
        if (seen[0])
            continue;
        root[0] = 0;
        return at;
    }
    return pid;
}

/* ---- texts ---- */

/* All of it, or as much as we care to; null: it cannot be read. */
static char *read_text(int32_t pid, size_t *bytes)
{
    char path[40], *text = NULL;
    ssize_t n = 0;
    snprintf(path, sizeof path, "/proc/%d/mountinfo", (int)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    *bytes = 0;
    do {
        char *more = realloc(text, *bytes + PIECE_BYTES);
        if (!more || (text = more, n = fd >= 0 ? read(fd, text + *bytes, PIECE_BYTES) : 0) < 0)
            break;
        *bytes += (size_t)n;
    } while (n && *bytes < TEXT_BYTES);
    if (fd >= 0)
        close(fd);
    if (!*bytes)
        free(text);
    return *bytes ? text : NULL;
}

/* What cannot be read stays what it was. */
static void read_mounts(struct cofi__namespace *space, int32_t pid, const char *root)
{
    struct cofi__mounts fresh;
    size_t bytes;
    uint64_t begin = clock_ns(CLOCK_THREAD_CPUTIME_ID);
    char *text = read_text(pid, &bytes);
    if (text && !cofi__mounts_parse(&fresh, text, bytes, root)) {
        cofi__mounts_free(&space->mounts);
        space->mounts = fresh;
    }
    free(text);
    space->cost_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID) - begin;
    space->read_ns = clock_ns(CLOCK_MONOTONIC);
}

/* ---- what is known ---- */

/* All mounts of a namespace do for each root in it, others for their own. */
static struct cofi__namespace *find(struct cofi__namespaces *all, uint64_t inode, const char *root)
{
    for (struct cofi__namespace *s = all->other; s < all->other + COFI__NAMESPACES; s++)
        if (inode && s->inode == inode && (!s->mounts.root[0] || !strcmp(s->mounts.root, root)))
            return s;
    return NULL;
}

static struct cofi__namespace *least_used(struct cofi__namespaces *all)
{
    struct cofi__namespace *least = all->other;
    for (struct cofi__namespace *s = least; s < all->other + COFI__NAMESPACES; s++)
        least = s->used < least->used ? s : least;
    return least;
}

/* Mounts come and go. Reading them again at once each time would let their number decide what that costs. */
static bool is_old(const struct cofi__namespace *space)
{
    return clock_ns(CLOCK_MONOTONIC) - space->read_ns >= SHARE * space->cost_ns;
}

static void read_ours(struct cofi__namespace *ours)
{
    ours->inode = inode_of(getpid());
    read_mounts(ours, getpid(), "");
}

static void read_other(struct cofi__namespace *space, int32_t pid, uint64_t inode, const char *root)
{
    char above[COFI__NAME_BYTES];
    pid = who_sees_most(pid, inode, strcpy(above, root));
    space->inode = inode;
    read_mounts(space, pid, above);
}

static struct cofi__namespace *forget_one(struct cofi__namespaces *all)
{
    struct cofi__namespace *space = least_used(all);
    cofi__mounts_free(&space->mounts);
    *space = (struct cofi__namespace){0};
    return space;
}

const struct cofi__mounts *cofi__namespaces_mounts(struct cofi__namespaces *all, int32_t pid)
{
    char root[COFI__NAME_BYTES];
    uint64_t inode = inode_of(pid);
    if (!inode)
        return NULL;
    if (is_old(&all->ours))
        read_ours(&all->ours);
    if (inode == all->ours.inode)
        return &all->ours.mounts;
    cofi__namespace_root(pid, root);
    struct cofi__namespace *space = find(all, inode, root);
    if (!space)
        space = forget_one(all);
    if (is_old(space))
        read_other(space, pid, inode, root);
    space->used = ++all->turns;
    return &space->mounts;
}

bool cofi__namespaces_serve(struct cofi__namespaces *all, uint64_t device, const char *path)
{
    const struct cofi__mounts *ours = cofi__namespaces_mounts(all, getpid());
    const struct cofi__mount *m = ours ? cofi__mounts_of(ours, device, path) : NULL;
    if (!m || m->device != device) { /* it may have been mounted since */
        read_ours(&all->ours);
        m = cofi__mounts_of(&all->ours.mounts, device, path);
    }
    return m && m->served;
}

bool cofi__namespaces_hide(struct cofi__namespaces *all, int32_t pid, uint64_t device, const char *path)
{
    char below[2 * COFI__NAME_BYTES], root[COFI__NAME_BYTES];
    if (cofi__namespace_is_ours(pid))
        return cofi__namespaces_serve(all, device, path);
    cofi__namespace_root(pid, root);
    snprintf(below, sizeof below, "%s%s", root, path);
    const struct cofi__mounts *theirs = cofi__namespaces_mounts(all, pid);
    const struct cofi__mount *m = theirs ? cofi__mounts_of(theirs, device, below) : NULL;
    return m && m->served && !m->layered;
}

void cofi__namespaces_free(struct cofi__namespaces *all)
{
    cofi__mounts_free(&all->ours.mounts);
    for (struct cofi__namespace *s = all->other; s < all->other + COFI__NAMESPACES; s++)
        cofi__mounts_free(&s->mounts);
    *all = (struct cofi__namespaces){0};
}
