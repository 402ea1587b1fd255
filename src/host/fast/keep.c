/* SPDX-License-Identifier: MIT
 * Store <-> files. What a file says is believed if its sums are right, what the store says if it lies in it. A file is
 * never changed: a new one takes its place. Whatever goes wrong, there is less code, and nobody need be told. */
#include "host/fast/keep.h"

#include <cpuid.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/file.h"
#include "host/fast/inject.h"

enum { FILES_MOST = 1024, NAME_BYTES = 64 };
static const uint64_t BYTES_MOST = 256 << 20, MAGIC = 0x65646f632d696663; /* "cfi-code" */

/* A file's head. The copies that lie behind it have theirs in `copy`, from the file's start. */
struct head {
    uint64_t magic, machine, program;
    struct cofi__fast_module modules[COFI__FAST_MODULES];
    uint64_t sum; /* of all before */
};

static uint64_t sum_of(const struct head *h)
{
    return cofi__fast_sum(h, offsetof(struct head, sum));
}

/* ---- what the code depends on ---- */

/* The translator, what it is told, and the processor. */
static uint64_t machine_key(const struct cofi__fast_control *made)
{
    uint32_t v[16] = {made->loops, made->transactions, made->xsave, made->cold_runs, made->trace}, skip;
    __get_cpuid(1, &v[5], &skip, &v[6], &v[7]);
    __get_cpuid_count(7, 0, &v[8], &v[9], &v[10], &v[11]);
    v[6] &= ~(uint32_t)bit_OSXSAVE; /* xsave says it */
    const uint64_t runtime = cofi__fast_hash(cofi__fast_blob, (size_t)(cofi__fast_blob_end - cofi__fast_blob));
    memcpy(&v[12], &runtime, sizeof runtime);
    return cofi__fast_hash(v, sizeof v);
}

static void name_file(const struct cofi__fast_keeper *k, uint64_t program, char name[NAME_BYTES])
{
    snprintf(name, NAME_BYTES, "%016llx-%016llx" COFI__FAST_KEPT_SUFFIX, (unsigned long long)k->machine,
             (unsigned long long)program);
}

/* ---- the folder ---- */

static bool is_ours(const char *path)
{
    struct stat st;
    return !lstat(path, &st) && st.st_uid == geteuid();
}

/* A folder, and so many of those above it, as far as they are missing. Not in other users', who could not use them. */
static void make(const char *path, unsigned above_too)
{
    char copy[PATH_MAX];
    snprintf(copy, sizeof copy, "%s", path);
    const char *above = dirname(copy);
    if (above_too && access(above, F_OK))
        make(above, above_too - 1);
    if (is_ours(above))
        mkdir(path, 0700);
}

/* Who may write there tells us what to run; and who made a link to it, where we write. */
static int open_folder(const char *path)
{
    struct stat st;
    make(path, 1);
    int dir = is_ours(path) ? open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    if (dir >= 0 && !fstat(dir, &st) && st.st_uid == geteuid() && !(st.st_mode & (S_IWGRP | S_IWOTH)))
        return dir;
    if (dir >= 0)
        close(dir);
    return -1;
}

/* ---- from a file ---- */

/* n bytes that lie behind a file's head, to a place in the store. By the kernel, which takes half as long where these
 * pages were not used before. */
static bool copy_in(const struct cofi__fast_keeper *k, uint64_t to, int fd, uint64_t n)
{
    off_t at = sizeof(struct head);
    if (lseek(k->shared, (off_t)(k->offset + to), SEEK_SET) < 0)
        return false;
    for (ssize_t got; n; n -= (uint64_t)got)
        if ((got = sendfile(k->shared, fd, &at, n)) <= 0)
            return false;
    return true;
}

/* How long the copy is that lies there, whole, within n bytes; 0: there is none. */
static uint64_t copy_bytes(const uint8_t *bytes, uint64_t n, uint64_t at)
{
    const struct cofi__fast_copy *copy = (const struct cofi__fast_copy *)(bytes + at);
    if (at % 8 || at > n || n - at < sizeof *copy)
        return 0;
    uint64_t length = __atomic_load_n(&copy->bytes, __ATOMIC_RELAXED);
    bool whole = length % 8 == 0 && length >= sizeof *copy && length <= n - at;
    return whole && copy->sum == cofi__fast_sum(copy + 1, length - sizeof *copy) ? length : 0;
}

/* Its copies, and where they lie in the store then. */
static bool read_copies(struct cofi__fast_keeper *k, int fd, uint64_t n, struct cofi__fast_module *modules)
{
    uint64_t at = n % 8 ? 0 : cofi__fast_allot(k->store, k->bytes, n);
    uint8_t *to = (uint8_t *)k->store + at;
    if (!at || at % 8 || !copy_in(k, at, fd, n))
        return false;
    for (struct cofi__fast_module *m = modules; m < modules + COFI__FAST_MODULES; m++) {
        if (m->copy && (m->copy < sizeof(struct head) || !copy_bytes(to, n, m->copy - sizeof(struct head))))
            return false;
        m->copy += m->copy ? at - sizeof(struct head) : 0;
    }
    return true;
}

static bool has_place(const struct cofi__fast_keeper *k, uint64_t n)
{
    uint64_t used = __atomic_load_n(&k->store->used, __ATOMIC_RELAXED);
    return used + sizeof *k->store <= k->bytes && n <= k->bytes - used - sizeof *k->store;
}

static bool read_head(const struct cofi__fast_keeper *k, int fd, struct head *h)
{
    return read(fd, h, sizeof *h) == sizeof *h && h->magic == MAGIC && h->machine == k->machine && h->sum == sum_of(h);
}

/* The program's modules, from its file. */
static bool read_file(struct cofi__fast_keeper *k, int fd, uint64_t program, struct cofi__fast_known *known,
                      struct cofi__fast_module *modules)
{
    struct head h;
    struct stat st;
    if (fstat(fd, &st) || !S_ISREG(st.st_mode) || st.st_uid != geteuid() || !read_head(k, fd, &h) ||
        h.program != program)
        return false;
    memcpy(modules, h.modules, sizeof h.modules);
    uint64_t n = (uint64_t)st.st_size - sizeof h;
    known->stays = !has_place(k, n);
    return !known->stays && (!n || read_copies(k, fd, n, modules));
}

/* The copy that programs have in common of a module, where it has the same place there; 0: none. */
static uint64_t common_copy(const struct cofi__fast_keeper *k, const struct cofi__fast_module *m)
{
    struct cofi__fast_program *common = cofi__fast_find_program(k->store, COFI__FAST_COMMON);
    const struct cofi__fast_module *c = common && m->key ? cofi__fast_find_module(common, m->key) : NULL;
    return c && cofi__fast_same_places(c, m) ? c->copy : 0;
}

static void bring(struct cofi__fast_keeper *k, int fd, struct cofi__fast_program *p, uint64_t program)
{
    struct cofi__fast_known *known = &k->known[p - k->store->programs];
    struct cofi__fast_module modules[COFI__FAST_MODULES];
    if (!read_file(k, fd, program, known, modules) || !cofi__fast_choose(p))
        return;
    for (unsigned i = 0; i < COFI__FAST_MODULES; i++)
        modules[i].copy = modules[i].copy ? modules[i].copy : common_copy(k, &modules[i]);
    memcpy(p->modules, modules, sizeof modules);
    cofi__fast_chosen(p);
    known->modules = cofi__fast_sum(modules, sizeof modules);
    futimens(fd, NULL); /* it is used */
}

static int open_file(const struct cofi__fast_keeper *k, const char *name)
{
    return k->dir < 0 ? -1 : openat(k->dir, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
}

static void bring_program(struct cofi__fast_keeper *k, uint64_t program)
{
    char name[NAME_BYTES];
    struct cofi__fast_program *p = cofi__fast_find_program(k->store, program);
    if (!p || cofi__fast_is_chosen(p))
        return;
    k->known[p - k->store->programs].met = true;
    name_file(k, program, name);
    int fd = open_file(k, name);
    if (fd < 0)
        return;
    bring(k, fd, p, program);
    close(fd);
}

/* What other recordings know. */
static void see_file(void *opaque, int dir, const char *name)
{
    struct cofi__fast_keeper *k = opaque;
    struct head h;
    (void)dir;
    int fd = open_file(k, name);
    if (fd < 0)
        return;
    if (read_head(k, fd, &h) && h.program != COFI__FAST_COMMON)
        cofi__fast_see(k, h.program, h.modules);
    close(fd);
}

void cofi__fast_bring(struct cofi__fast_keeper *k, uint64_t program)
{
    if (!k->known || !program)
        return;
    cofi__fast_see_new(k);
    bring_program(k, COFI__FAST_COMMON);
    bring_program(k, program);
}

void cofi__fast_keeper_open(struct cofi__fast_keeper *k, const char *path, const struct cofi__fast_control *made,
                            uint8_t *shared, int fd)
{
    k->known = cofi__fast_shares(made) ? calloc(COFI__FAST_PROGRAMS, sizeof *k->known) : NULL;
    if (!k->known)
        return;
    k->shared = fd;
    k->offset = cofi__fast_store_offset(made);
    k->store = (struct cofi__fast_store *)(shared + k->offset);
    k->bytes = made->store_bytes;
    k->dir = path ? open_folder(path) : -1;
    k->machine = k->dir < 0 ? 0 : machine_key(made);
}

void cofi__fast_keeper_close(struct cofi__fast_keeper *k)
{
    if (k->dir >= 0)
        close(k->dir);
    free(k->known);
    cofi__map_free(&k->seen);
    *k = (struct cofi__fast_keeper){.dir = -1};
}

/* ---- to a file ---- */

struct piece {
    const void *bytes;
    uint64_t n;
};

/* What the store has of the modules, one copy behind the other, but for what is common. Returns how many bytes. */
static uint64_t lay_out(const struct cofi__fast_keeper *k, struct head *h, struct piece *pieces)
{
    const uint8_t *store = (const uint8_t *)k->store;
    uint64_t end = sizeof *h;
    for (unsigned i = 0; i < COFI__FAST_MODULES; i++) {
        uint64_t at = h->modules[i].copy;
        bool own = at && (h->program == COFI__FAST_COMMON || at != common_copy(k, &h->modules[i]));
        uint64_t n = own ? copy_bytes(store, k->bytes, at) : 0;
        pieces[i] = (struct piece){store + at, n};
        h->modules[i].copy = n ? end : 0;
        end += n;
    }
    return end;
}

/* Whether there is room for n bytes more, and enough for others. */
static bool has_room(const struct cofi__fast_keeper *k, uint64_t n)
{
    enum { PART = 16 };
    struct statvfs fs;
    struct rlimit limit;
    return n <= BYTES_MOST / 2 && !fstatvfs(k->dir, &fs) && n < (uint64_t)fs.f_bavail * fs.f_frsize / PART &&
           !getrlimit(RLIMIT_FSIZE, &limit) && n < limit.rlim_cur;
}

static bool write_pieces(int fd, const struct head *h, const struct piece *pieces)
{
    bool good = !cofi__write_all(fd, h, sizeof *h);
    for (unsigned i = 0; good && i < COFI__FAST_MODULES; i++)
        good = !cofi__write_all(fd, pieces[i].bytes, pieces[i].n);
    return good;
}

static void write_file(const struct cofi__fast_keeper *k, struct head *h)
{
    struct piece pieces[COFI__FAST_MODULES];
    char name[NAME_BYTES], young[NAME_BYTES + 16];
    uint64_t n = lay_out(k, h, pieces);
    h->sum = sum_of(h);
    if (!has_room(k, n))
        return;
    name_file(k, h->program, name);
    snprintf(young, sizeof young, "%d-%s", getpid(), name);
    int fd = openat(k->dir, young, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return;
    bool good = write_pieces(fd, h, pieces);
    good = !close(fd) && good;
    if (!good || renameat(k->dir, young, k->dir, name))
        unlinkat(k->dir, young, 0);
}

/* The modules, but for what only this recording has to know. Where one had no place, those that nobody has met make
 * room for it. Returns whether there are any. */
static bool take_modules(const struct cofi__fast_program *p, struct cofi__fast_module *modules)
{
    bool any = false;
    for (unsigned i = 0; i < COFI__FAST_MODULES; i++) {
        struct cofi__fast_module m = p->modules[i];
        if (p->wanted && !m.met)
            m = (struct cofi__fast_module){0};
        m.met = 0;
        any |= m.key != 0;
        modules[i] = m;
    }
    return any;
}

/* Returns whether there is a new file, or was to be. */
static bool keep(const struct cofi__fast_keeper *k, const struct cofi__fast_known *known)
{
    const struct cofi__fast_program *p = &k->store->programs[known - k->known];
    struct head h = {.magic = MAGIC, .machine = k->machine};
    if (known->stays || !cofi__fast_is_chosen(p) || !take_modules(p, h.modules) ||
        cofi__fast_sum(h.modules, sizeof h.modules) == known->modules)
        return false;
    h.program = p->key;
    write_file(k, &h);
    return true;
}

/* Whether a program has no file yet. */
static bool has_new(const struct cofi__fast_keeper *k)
{
    for (unsigned i = 0; i < COFI__FAST_PROGRAMS; i++)
        if (k->known[i].seen && !k->known[i].modules)
            return true;
    return false;
}

void cofi__fast_keep(struct cofi__fast_keeper *k)
{
    bool any = false;
    if (k->dir < 0)
        return;
    cofi__fast_see_new(k);
    if (has_new(k))
        cofi__fast_each_file(k->dir, see_file, k);
    for (unsigned i = 0; i < COFI__FAST_PROGRAMS; i++)
        any |= k->known[i].met && keep(k, &k->known[i]);
    if (any)
        cofi__fast_sweep(k->dir, FILES_MOST, BYTES_MOST);
}
