/* SPDX-License-Identifier: MIT
 * Who is it? A thread tells its numbers as it knows them, which are others in a PID namespace of its
 * own. What the kernel is asked for, and the recording, need ours: /proc/PID/status has both (NSpid). */
#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host/fast/collect.h"

enum { NAMESPACES = 33 }; /* the first one, and those that can be in each other below it [pid_namespaces(7)] */

struct status {
    int32_t parent;
    int32_t numbers[NAMESPACES]; /* in ours, and on to its own */
    unsigned count;
    bool zombie;
};

/* "NSpid:", and a number for each namespace from ours on. */
static void take_numbers(const char *line, struct status *s)
{
    for (const char *tab = line; s->count < NAMESPACES && (tab = strchr(tab, '\t')); tab++)
        s->numbers[s->count++] = atoi(tab);
}

/* 0: it is not known. */
static int32_t inner_of(const struct status *s) { return s->count ? s->numbers[s->count - 1] : 0; }

/* path: a directory of /proc that is a process or a thread. */
static bool read_status(const char *path, struct status *s)
{
    char file[64], line[512];
    *s = (struct status){0};
    snprintf(file, sizeof file, "%s/status", path);
    FILE *f = fopen(file, "re");
    while (f && fgets(line, sizeof line, f)) {
        if (!strncmp(line, "State:\tZ", 8))
            s->zombie = true;
        else if (!strncmp(line, "PPid:", 5))
            s->parent = atoi(line + 5);
        else if (!strncmp(line, "NSpid:", 6))
            take_numbers(line, s);
    }
    if (f)
        fclose(f);
    return inner_of(s);
}

/* Whether a process shares our memory. */
static bool is_ours(const struct cofi__fast_collector *c, int32_t pid)
{
    char file[64], line[512], inode[32];
    struct stat st;
    bool found = false;
    if (fstat(c->fd, &st))
        return false;
    snprintf(file, sizeof file, "/proc/%d/maps", pid);
    snprintf(inode, sizeof inode, " %llu ", (unsigned long long)st.st_ino);
    FILE *f = fopen(file, "re");
    while (f && !found && fgets(line, sizeof line, f))
        found = strstr(line, "memfd:cofi") && strstr(line, inode);
    if (f)
        fclose(f);
    return found;
}

static bool is_taken(const struct cofi__fast_collector *c, int32_t pid)
{
    for (uint32_t i = 0; i < cofi__fast_slots(c); i++)
        if (c->seats[i].placed && c->seats[i].pid == pid)
            return true;
    return false;
}

/* Whether a process may be that of a thread: it has its number in its own namespace, and the one that the thread's
 * maker knows it by, once that has said so. Others have the first one, too: each namespace has a process 1, and of two
 * that begin one after the other the first one may be gone by now. */
static bool may_be(const struct thread *t, const struct status *s)
{
    int32_t child = (int32_t)__atomic_load_n(&t->head.child, __ATOMIC_ACQUIRE);
    bool has = !child;
    for (unsigned i = 0; i < s->count; i++)
        has |= s->numbers[i] == child;
    return has && inner_of(s) == t->head.pid;
}

/* The process that has a thread's number in its own namespace: a child of who made it, else one of ours
 * that nobody else is. 0: not found. */
static int32_t find_process(const struct cofi__fast_collector *c, const struct thread *t, int32_t *its_parent)
{
    int32_t parent = c->seats[cofi__fast_maker(c, t)].pid;
    char path[64];
    int32_t found = 0;
    DIR *proc = opendir("/proc");
    for (struct dirent *d; proc && (d = readdir(proc));) {
        struct status s;
        snprintf(path, sizeof path, "/proc/%.20s", d->d_name);
        if (!isdigit((unsigned char)d->d_name[0]) || !read_status(path, &s) || !may_be(t, &s))
            continue;
        int32_t pid = atoi(d->d_name);
        if (is_taken(c, pid) || !((s.zombie && s.parent == parent) || is_ours(c, pid)))
            continue;
        found = pid;
        *its_parent = s.parent;
        if (s.parent == parent)
            break;
    }
    if (proc)
        closedir(proc);
    return found;
}

/* Whether a process's namespace of this kind ("pid": its own; "pid_for_children") is ours, too. */
static bool shares_namespace(int32_t pid, const char *kind)
{
    char path[64], ours[64] = {0}, theirs[64] = {0};
    snprintf(path, sizeof path, "/proc/%d/ns/%s", pid, kind);
    return readlink("/proc/self/ns/pid", ours, sizeof ours - 1) > 0 && readlink(path, theirs, sizeof theirs - 1) > 0 &&
           !strcmp(ours, theirs);
}

/* The threads of a process that we know by our numbers, as pairs (number, 0). One that memory is lacking
 * for is not there. */
static struct cofi__map placed_threads(const struct cofi__fast_collector *c, int32_t pid)
{
    struct cofi__map placed = {0};
    for (uint32_t i = 0; i < cofi__fast_slots(c); i++)
        if (c->seats[i].placed && c->seats[i].pid == pid)
            cofi__map_put(&placed, (uint64_t)c->seats[i].tid, 0, 1);
    return placed;
}

/* The thread of a process that has a number in its own namespace; 0: not found. Of those that are in
 * `placed` or are not. */
static int32_t find_inner(int32_t pid, int32_t inner, const struct cofi__map *placed, bool wanted)
{
    char path[64];
    int32_t found = 0;
    snprintf(path, sizeof path, "/proc/%d/task", pid);
    DIR *tasks = opendir(path);
    for (struct dirent *d; tasks && !found && (d = readdir(tasks));) {
        struct status s;
        int32_t tid = atoi(d->d_name);
        if (tid <= 0 || !cofi__map_get(placed, (uint64_t)tid, 0) == wanted)
            continue;
        snprintf(path, sizeof path, "/proc/%d/task/%d", pid, tid);
        if (read_status(path, &s) && inner_of(&s) == inner)
            found = tid;
    }
    if (tasks)
        closedir(tasks);
    return found;
}

/* Who the thread of a slot is, of a process; 0: it has ended. Those are read first that nobody is known to be:
 * to read all threads of a process that has many, for each one that begins, takes longer than these run. */
static int32_t find_thread(const struct cofi__fast_collector *c, uint32_t index, int32_t pid)
{
    int32_t inner = cofi__fast_slot(c, index)->head.tid;
    if (shares_namespace(pid, "pid"))
        return inner;
    if (cofi__fast_state(c, index) == COFI__FAST_SLOT_ENDED)
        return 0;
    struct cofi__map placed = placed_threads(c, pid);
    int32_t found = find_inner(pid, inner, &placed, false);
    if (!found) /* it has the number of one that we have not seen end */
        found = find_inner(pid, inner, &placed, true);
    cofi__map_free(&placed);
    return found;
}

/* The process of a thread whose maker is in the same one, and is known, though it has ended; 0: not so. */
static int32_t known_process(const struct cofi__fast_collector *c, uint32_t index)
{
    const struct thread *t = cofi__fast_slot(c, index);
    uint32_t of_maker = cofi__fast_maker(c, t);
    const struct cofi__fast_seat *maker = &c->seats[of_maker];
    if (c->seats[index].maker_pid)
        return c->seats[index].maker_pid;
    return maker->placed && cofi__fast_slot(c, of_maker)->head.pid == t->head.pid ? maker->pid : 0;
}

/* Who made the thread of a slot may have begun and not been come to yet, in a slot that is looked at later. */
static void place_maker(struct cofi__fast_collector *c, uint32_t index)
{
    uint32_t maker = cofi__fast_maker(c, cofi__fast_slot(c, index));
    if (maker != index && !c->seats[index].maker_pid && cofi__fast_state(c, maker) >= COFI__FAST_SLOT_LIVE)
        cofi__fast_place(c, maker);
}

void cofi__fast_place(struct cofi__fast_collector *c, uint32_t index)
{
    const struct thread *t = cofi__fast_slot(c, index);
    struct cofi__fast_seat *seat = &c->seats[index];
    if (seat->placed)
        return;
    seat->placed = true; /* nobody's yet: where the program has written over who made whom, each may have
                          * made the other */
    if (t->head.nested)
        place_maker(c, index);
    int32_t pid = t->head.pid, tid = t->head.tid;
    if (t->head.nested) {
        bool thread = pid != tid;
        int32_t known = thread ? known_process(c, index) : 0;
        pid = known ? known : find_process(c, t, &seat->parent);
        tid = !thread ? pid : pid ? find_thread(c, index, pid) : 0;
        if (!tid) /* it has ended; no other may have its number */
            tid = COFI__FAST_NO_NUMBER + (int32_t)c->unknown++;
        if (!pid)
            pid = tid;
    }
    seat->pid = pid;
    seat->tid = tid;
}

bool cofi__fast_other_pids(int32_t pid)
{
    return !shares_namespace(pid, "pid_for_children");
}
