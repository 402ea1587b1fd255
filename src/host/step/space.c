/* SPDX-License-Identifier: MIT
 * An address space: executed pages as the observers know them, checked against memory. */
#include "host/step/space.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cofi/trace.h>

#include "base/array.h"
#include "host/names.h"
#include "host/step/code.h"
#include "host/step/maps.h"
#include "host/young.h"

/* ---- memory of a stopped thread ---- */

static size_t through_proc(pid_t tid, uint64_t addr, void *bytes, size_t n, bool write)
{
    char name[64];
    snprintf(name, sizeof name, "/proc/%d/mem", (int)tid);
    int fd = open(name, (write ? O_WRONLY : O_RDONLY) | O_CLOEXEC);
    if (fd < 0)
        return 0;
    ssize_t got = write ? pwrite(fd, bytes, n, (off_t)addr) : pread(fd, bytes, n, (off_t)addr);
    close(fd);
    return got > 0 ? (size_t)got : 0;
}

size_t cofi__step_read(pid_t tid, uint64_t addr, void *bytes, size_t n)
{
    /* Two pieces: a page that is not there must not hide the one before it. */
    size_t first = STEP_PAGE - addr % STEP_PAGE < n ? STEP_PAGE - addr % STEP_PAGE : n;
    struct iovec local = {bytes, n};
    struct iovec remote[2] = {{(void *)(uintptr_t)addr, first},
                              {(void *)(uintptr_t)(addr + first), n - first}};
    ssize_t got = process_vm_readv(tid, &local, 1, remote, n > first ? 2 : 1, 0);
    if (got > 0)
        return (size_t)got;
    size_t some = through_proc(tid, addr, bytes, first, false);
    if (some == first && n > first)
        some += through_proc(tid, addr + first, (uint8_t *)bytes + first, n - first, false);
    return some;
}

size_t cofi__step_write(pid_t tid, uint64_t addr, const void *bytes, size_t n)
{
    struct iovec local = {(void *)(uintptr_t)bytes, n}, remote = {(void *)(uintptr_t)addr, n};
    ssize_t got = process_vm_writev(tid, &local, 1, &remote, 1, 0);
    return got > 0 ? (size_t)got : through_proc(tid, addr, (void *)(uintptr_t)bytes, n, true);
}

/* ---- pages ---- */

static size_t bucket_of(const struct step_space *space, uint64_t addr)
{
    return (size_t)((addr / STEP_PAGE) * UINT64_C(0x9e3779b97f4a7c15) >> 32) &
           (space->buckets_n - 1);
}

static struct step_page *find_page(struct step_space *space, uint64_t addr)
{
    if (space->last && space->last->addr == addr)
        return space->last;
    if (!space->buckets_n)
        return NULL;
    for (struct step_page *p = space->buckets[bucket_of(space, addr)]; p; p = p->next)
        if (p->addr == addr)
            return space->last = p;
    return NULL;
}

static void grow(struct step_space *space)
{
    size_t old_n = space->buckets_n, n = old_n ? 2 * old_n : 64;
    struct step_page **old = space->buckets, **fresh = calloc(n, sizeof *fresh);
    if (!fresh)
        return;
    space->buckets = fresh;
    space->buckets_n = n;
    for (size_t i = 0; i < old_n; i++)
        for (struct step_page *p = old[i], *next; p; p = next) {
            next = p->next;
            size_t b = bucket_of(space, p->addr);
            p->next = fresh[b];
            fresh[b] = p;
        }
    free(old);
}

static struct step_page *add_page(struct step_space *space, uint64_t addr)
{
    if (space->pages_n >= space->buckets_n)
        grow(space);
    struct step_page *page = space->buckets_n ? calloc(1, sizeof *page) : NULL;
    space->no_memory |= !page;
    if (!page)
        return NULL;
    page->addr = addr;
    size_t b = bucket_of(space, addr);
    page->next = space->buckets[b];
    space->buckets[b] = page;
    space->pages_n++;
    return space->last = page;
}

static void free_page(struct step_page *page)
{
    free(page->codes);
    free(page);
}

/* Forget the pages in [start, end). */
static void forget(struct step_space *space, uint64_t start, uint64_t end)
{
    for (size_t b = 0; b < space->buckets_n; b++)
        for (struct step_page **at = &space->buckets[b], *p; (p = *at);) {
            if (p->addr < start || p->addr >= end) {
                at = &p->next;
                continue;
            }
            *at = p->next;
            space->pages_n--;
            free_page(p);
        }
    space->last = NULL;
}

static void undecode(struct step_page *page, size_t from)
{
    memset(page->slots + from, 0, (STEP_PAGE - from) * sizeof page->slots[0]);
    if (!from)
        page->codes_n = 0;
}

struct step_space *cofi__step_space_new(void)
{
    struct step_space *space = calloc(1, sizeof *space);
    if (space)
        space->users = 1;
    return space;
}

void cofi__step_space_drop(struct step_space *space)
{
    if (!space || --space->users)
        return;
    forget(space, 0, UINT64_MAX);
    free(space->buckets);
    cofi__step_maps_free(space->maps, space->maps_n);
    free(space);
}

static bool copy_maps(struct step_space *copy, const struct step_space *space)
{
    copy->maps = calloc(space->maps_n + 1, sizeof *copy->maps);
    if (!copy->maps)
        return false;
    for (; copy->maps_n < space->maps_n; copy->maps_n++) {
        const struct step_mapping *from = &space->maps[copy->maps_n];
        struct step_mapping *to = &copy->maps[copy->maps_n];
        *to = *from;
        if (!(to->path = strdup(from->path)))
            return false;
        to->file = from->file ? strdup(from->file) : NULL;
    }
    return true;
}

struct step_space *cofi__step_space_copy(const struct step_space *space)
{
    struct step_space *copy = cofi__step_space_new();
    if (!copy || !copy_maps(copy, space)) {
        cofi__step_space_drop(copy);
        return NULL;
    }
    /* Pages that equal their file are found out again; those sent as bytes must be known as such.
     */
    for (size_t b = 0; b < space->buckets_n; b++)
        for (const struct step_page *p = space->buckets[b]; p; p = p->next) {
            struct step_page *q = p->coded ? add_page(copy, p->addr) : NULL;
            if (!q)
                continue;
            q->coded = true;
            q->watched = p->watched;
            q->stale = true;
            memcpy(q->bytes, p->bytes, STEP_PAGE);
        }
    return copy;
}

void cofi__step_space_doubt(struct step_space *space, uint64_t start, uint64_t end)
{
    for (size_t b = 0; b < space->buckets_n; b++)
        for (struct step_page *p = space->buckets[b]; p; p = p->next)
            if (p->addr + STEP_PAGE > start && p->addr < end)
                p->stale = true;
}

bool cofi__step_space_overlaps(const struct step_space *space, uint64_t start, uint64_t end)
{
    for (size_t i = 0; i < space->maps_n; i++)
        if (space->maps[i].start < end && start < space->maps[i].end)
            return true;
    return false;
}

static const struct step_mapping *find_map(const struct step_space *space, uint64_t addr)
{
    for (size_t i = 0; i < space->maps_n; i++)
        if (addr >= space->maps[i].start && addr < space->maps[i].end)
            return &space->maps[i];
    return NULL;
}

/* ---- mappings ---- */

/* An old mapping that shows the same bytes at the same addresses as all of m, or null. */
static const struct step_mapping *known(const struct step_space *space, const struct step_mapping *m)
{
    const struct step_mapping *old = find_map(space, m->start);
    bool same = old && old->end >= m->end && old->inode == m->inode && old->major == m->major &&
                old->minor == m->minor && (!m->inode || old->pgoff + (m->start - old->start) == m->pgoff) &&
                !strcmp(old->path, m->path);
    return same ? old : NULL;
}

/* The vDSO lies in no file and is used by everyone: tell it whole. */
static void tell_vdso(struct step_space *space, pid_t tid, const struct step_mapping *m,
                      const struct step_news *news)
{
    size_t len = (size_t)(m->end - m->start);
    uint8_t *bytes = malloc(len);
    space->no_memory |= !bytes;
    if (bytes && cofi__step_read(tid, m->start, bytes, len) == len) {
        news->code(news->opaque, space, m->start, bytes, len, 0, m->path);
        for (size_t i = 0; i < len; i += STEP_PAGE) {
            struct step_page *page = add_page(space, m->start + i);
            if (!page)
                break;
            page->coded = true;
            memcpy(page->bytes, bytes + i, STEP_PAGE);
        }
    }
    free(bytes);
}

/* The same name leads us there, most often. */
static bool leads_there(const struct step_mapping *m, pid_t tid, struct stat *st)
{
    return cofi__namespace_is_ours(tid) && !stat(m->path, st) && S_ISREG(st->st_mode) && st->st_ino == m->inode;
}

/* A file is told by where we find it, one that is not to be looked at by where it must be. */
static void tell_mapping(struct step_space *space, pid_t tid, struct step_mapping *m, const struct step_news *news)
{
    char name[COFI__NAME_BYTES];
    struct step_mapping told = *m;
    struct stat file;
    bool found = cofi__step_maps_is_file(m) && strlen(m->path) < sizeof name;
    /* A look at it asks the program that serves it, which is stopped, perhaps, until we go on. */
    told.served = m->served = found && cofi__namespaces_hide(news->namespaces, tid, (uint64_t)m->major << 32 | m->minor,
                                                             m->path);
    if (m->served) {
        bool ours = cofi__namespace_is_ours(tid);
        snprintf(name, sizeof name, "/proc/%d/root%s", (int)tid, m->path);
        told.path = ours ? m->path : name;
        found = false;
    } else if (found && leads_there(m, tid, &file)) {
        found = !cofi__is_young(&file, &news->began);
    } else if (found) {
        told.path = strcpy(name, m->path);
        found = cofi__name_for_us(news->namespaces, &(struct cofi__mapped){tid, m->start, m->end, m->pgoff}, name) ==
                COFI__FOUND;
    }
    m->file = found ? strdup(told.path) : NULL;
    news->mapping(news->opaque, space, &told);
}

int cofi__step_space_refresh(struct step_space *space, pid_t tid, const struct step_news *news)
{
    struct step_mapping *maps;
    size_t n;
    int status = cofi__step_maps_read(tid, &maps, &n);
    if (status < 0) {
        cofi__step_maps_free(maps, n);
        return status;
    }
    struct step_space old = *space;
    space->maps = maps;
    space->maps_n = n;
    for (size_t i = 0; i < old.maps_n; i++)
        for (uint64_t a = old.maps[i].start; a < old.maps[i].end;) {
            const struct step_mapping *m = find_map(space, a);
            uint64_t end = m && m->end < old.maps[i].end ? m->end : old.maps[i].end;
            if (!m) {
                /* Gone up to the next mapping that is left. */
                for (size_t k = 0; k < n; k++)
                    if (maps[k].start > a && maps[k].start < end)
                        end = maps[k].start;
                forget(space, a, end);
            }
            a = end;
        }
    for (size_t i = 0; i < n; i++) {
        const struct step_mapping *before = known(&old, &maps[i]);
        if (before) {
            maps[i].file = before->file ? strdup(before->file) : NULL;
            cofi__step_space_doubt(space, maps[i].start, maps[i].end);
            continue;
        }
        forget(space, maps[i].start, maps[i].end);
        tell_mapping(space, tid, &maps[i], news);
        if (!strcmp(maps[i].path, "[vdso]"))
            tell_vdso(space, tid, &maps[i], news);
    }
    cofi__step_maps_free(old.maps, old.maps_n);
    return 0;
}

/* ---- code ---- */

/* Does the file behind the mapping hold these bytes at this place? */
static bool file_has(const struct step_mapping *m, uint64_t addr, const uint8_t *bytes)
{
    uint8_t there[STEP_PAGE] = {0};
    if (!m->file)
        return false;
    int fd = open(m->file, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return false;
    ssize_t got = pread(fd, there, sizeof there, (off_t)(m->pgoff + (addr - m->start)));
    close(fd);
    return got > 0 && !memcmp(there, bytes, STEP_PAGE);
}

/* A page as it was read, and the bytes behind it if they can be. */
static void tell_page(struct step_space *space, const struct step_page *page, pid_t tid, const struct step_mapping *m,
                      const struct step_news *news)
{
    uint8_t bytes[STEP_PAGE + COFI_CODE_AHEAD];
    memcpy(bytes, page->bytes, STEP_PAGE);
    size_t ahead = cofi__step_read(tid, page->addr + STEP_PAGE, bytes + STEP_PAGE, COFI_CODE_AHEAD);
    news->code(news->opaque, space, page->addr, bytes, STEP_PAGE, ahead, m->path);
}

/* Read a page afresh; tell it if no file has it or it is not what was told. */
static bool read_page(struct step_space *space, struct step_page *page, bool fresh, pid_t tid,
                      const struct step_mapping *m, const struct step_news *news)
{
    uint8_t bytes[STEP_PAGE];
    if (cofi__step_read(tid, page->addr, bytes, STEP_PAGE) != STEP_PAGE)
        return false;
    page->stale = false;
    page->watched = m->watched;
    if (!fresh && !memcmp(bytes, page->bytes, STEP_PAGE))
        return true;
    bool same = fresh && !m->watched && file_has(m, page->addr, bytes);
    memcpy(page->bytes, bytes, STEP_PAGE);
    undecode(page, 0);
    struct step_page *before = find_page(space, page->addr - STEP_PAGE);
    if (before)
        undecode(before, STEP_PAGE - STEP_INSN_MAX + 1);
    space->last = page;
    if (!same) {
        page->coded = true;
        tell_page(space, page, tid, m, news);
    }
    return true;
}

static struct step_page *get_page(struct step_space *space, pid_t tid, uint64_t addr,
                                  const struct step_news *news)
{
    struct step_page *page = find_page(space, addr);
    if (page && !page->stale)
        return page;
    const struct step_mapping *m = find_map(space, addr);
    if (!m) {
        space->no_memory |= cofi__step_space_refresh(space, tid, news) == -ENOMEM;
        if (!(m = find_map(space, addr)))
            return NULL;
        page = find_page(space, addr);
    }
    bool fresh = !page;
    if (fresh && !(page = add_page(space, addr)))
        return NULL;
    if (read_page(space, page, fresh, tid, m, news))
        return page;
    forget(space, addr, addr + STEP_PAGE);
    return NULL;
}

/* Up to 15 bytes at ip as they were told, the following page's too if it is executable. */
static size_t gather(struct step_space *space, pid_t tid, struct step_page *page, uint64_t ip,
                     const struct step_news *news, uint8_t *bytes)
{
    size_t offset = ip % STEP_PAGE, n = STEP_PAGE - offset;
    if (n > STEP_INSN_MAX)
        n = STEP_INSN_MAX;
    memcpy(bytes, page->bytes + offset, n);
    if (n == STEP_INSN_MAX)
        return n;
    struct cofi_insn insn;
    if (cofi_insn_decode(&insn, page->mode, ip, bytes, n) > 0)
        return n;
    struct step_page *second = get_page(space, tid, page->addr + STEP_PAGE, news);
    if (!second)
        return n;
    memcpy(bytes + n, second->bytes, STEP_INSN_MAX - n);
    return STEP_INSN_MAX;
}

/* Are the instruction's bytes those that were told? If not, the pages are read again. */
static void verify(struct step_space *space, pid_t tid, struct step_page *page, uint64_t ip)
{
    uint8_t live[STEP_INSN_MAX];
    size_t offset = ip % STEP_PAGE, n = STEP_INSN_MAX;
    uint16_t slot = page->slots[offset];
    if (slot)
        n = page->codes[slot - 1].insn.length;
    n = cofi__step_read(tid, ip, live, n);
    size_t here = STEP_PAGE - offset < n ? STEP_PAGE - offset : n;
    if (memcmp(live, page->bytes + offset, here))
        page->stale = true;
    if (n > here) {
        struct step_page *second = find_page(space, page->addr + STEP_PAGE);
        if (second && memcmp(live + here, second->bytes, n - here)) {
            second->stale = true;
            undecode(page, STEP_PAGE - STEP_INSN_MAX + 1);
        }
    }
    space->last = page;
}

static const struct step_code *decode(struct step_space *space, struct step_page *page, uint64_t ip,
                                      const uint8_t *bytes, size_t n)
{
    if (cofi__array_grow(&page->codes, &page->codes_max, page->codes_n, sizeof *page->codes) < 0) {
        space->no_memory = true;
        return NULL;
    }
    struct step_code *code = &page->codes[page->codes_n];
    if (cofi__step_code_decode(code, bytes, n, ip, page->mode) < 0)
        return NULL;
    page->slots[ip % STEP_PAGE] = (uint16_t)++page->codes_n;
    return code;
}

/* May someone change the instruction's bytes unseen? The last ones of a page may go on in the next.
 */
static bool is_watched(struct step_space *space, const struct step_page *page, uint64_t ip)
{
    if (page->watched || ip % STEP_PAGE <= STEP_PAGE - STEP_INSN_MAX)
        return page->watched;
    const struct step_page *second = find_page(space, page->addr + STEP_PAGE);
    return second && second->watched;
}

const struct step_code *cofi__step_space_code(struct step_space *space, pid_t tid, uint64_t ip,
                                              unsigned mode, bool check, const struct step_news *news)
{
    uint64_t addr = ip - ip % STEP_PAGE;
    struct step_page *page = get_page(space, tid, addr, news);
    if (!page)
        return NULL;
    if (check || is_watched(space, page, ip)) {
        verify(space, tid, page, ip);
        if (!(page = get_page(space, tid, addr, news)))
            return NULL;
    }
    if (page->mode != mode || page->codes_n >= STEP_PAGE) {
        undecode(page, 0);
        page->mode = mode;
    }
    uint16_t slot = page->slots[ip % STEP_PAGE];
    if (slot)
        return &page->codes[slot - 1];
    uint8_t bytes[STEP_INSN_MAX];
    size_t n = gather(space, tid, page, ip, news, bytes);
    if (!(page = get_page(space, tid, addr, news))) /* the mappings were read again, perhaps */
        return NULL;
    page->mode = mode;
    return decode(space, page, ip, bytes, n);
}
