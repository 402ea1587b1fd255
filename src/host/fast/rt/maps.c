/* SPDX-License-Identifier: MIT
 * The guest's executable memory: where code may be, and whether it can change. */
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include <cofi/trace.h>

#include "host/fast/rt/cache.h"
#include "host/long_name.h"
#include "host/young.h"

enum { PAGE = 4096, INSN_MAX = 15 };

static struct region old_regions[REGIONS];
static unsigned old_count;

const char *maps_hex(const char *p, uint64_t *v)
{
    *v = 0;
    for (;; p++) {
        unsigned d = *p >= '0' && *p <= '9' ? *p - '0' : *p >= 'a' && *p <= 'f' ? *p - 'a' + 10 : 16;
        if (d == 16)
            return p;
        *v = *v * 16 + d;
    }
}

static const char *decimal(const char *p, uint64_t *v)
{
    for (*v = 0; *p >= '0' && *p <= '9'; p++)
        *v = *v * 10 + (uint64_t)(*p - '0');
    return p;
}

bool maps_is_ours(uint64_t start)
{
    return (start >= COFI__FAST_RUNTIME_BASE && start < COFI__FAST_RUNTIME_BASE + COFI__FAST_RUNTIME_BYTES) ||
           start - COFI__FAST_SHARED_BASE < cofi__fast_shared_bytes(rt.control) || arena_at(start) || arena_is_room(start);
}

/* The first of n regions that ends behind an address. */
static struct region *first_behind(struct region *r, unsigned n, uint64_t address)
{
    while (n) {
        unsigned half = n / 2;
        bool before = r[half].end <= address;
        r += before ? half + 1 : 0;
        n = before ? n - half - 1 : half;
    }
    return r;
}

static const struct region *lookup(uint64_t pc)
{
    const struct region *r = first_behind(rt.regions, rt.region_count, pc);
    return r < rt.regions + rt.region_count && r->start <= pc && !r->closed ? r : NULL;
}

/* The same region when the mappings were read before, or null. */
static const struct region *known(const struct region *r)
{
    const struct region *o = first_behind(old_regions, old_count, r->start);
    bool same = o < old_regions + old_count && o->start == r->start && o->end == r->end && o->file == r->file && o->origin == r->origin;
    return same && !o->gone ? o : NULL;
}

void spans_add(struct spans *r, uint64_t start, uint64_t end)
{
    if (r->n < ARRAY_LEN(r->at)) {
        r->at[r->n++] = (struct span){start, end};
        return;
    }
    struct span *last = &r->at[r->n - 1]; /* too many: one over all the rest */
    last->start = start < last->start ? start : last->start;
    last->end = end > last->end ? end : last->end;
}

bool spans_overlap(const struct spans *r, uint64_t start, uint64_t end)
{
    for (unsigned i = 0; i < r->n; i++)
        if (r->at[i].start < end && start < r->at[i].end)
            return true;
    return false;
}

/* What was made executable since the mappings were read, which was not: what was written there before then is in no file. */
static struct spans made_executable;

/* The guest has made [start, end) executable. Where it was so already, writes have made its region dirty. */
void maps_made_executable(uint64_t start, uint64_t end)
{
    rt.maps_stale = true;
    uint64_t known_to = start;
    for (const struct region *r = lookup(known_to); r && known_to < end; r = lookup(known_to))
        known_to = r->end;
    if (known_to >= end)
        return;
    spans_add(&made_executable, start, end);
}

/* Where names lead now: the guest may have changed its root since. */
static bool names_as_collector;

static bool names_are(const struct cofi__fast_names *names)
{
    struct stat root = {0}, mounts = {0};
    sys(SYS_newfstatat, (uint32_t)AT_FDCWD, (uint64_t)"/", (uint64_t)&root, 0, 0, 0);
    sys(SYS_newfstatat, (uint32_t)AT_FDCWD, (uint64_t)"/proc/self/ns/mnt", (uint64_t)&mounts, 0, 0, 0);
    return root.st_dev == names->root_device && root.st_ino == names->root_inode && mounts.st_ino == names->mounts;
}

enum found {
    NOT_FOUND,
    FOUND_YOUNG, /* its code is told all the same */
    FOUND
};

/* The device's number if a program may serve it, else 0. */
static uint32_t served_by(uint64_t device)
{
    uint32_t major = (uint32_t)(device >> 8 & 0xfff), minor = (uint32_t)((device & 0xff) | (device >> 12 & 0xfff00));
    if (major)
        return 0;
    for (unsigned i = 0; i < COFI__FAST_DEVICES; i++)
        if (__atomic_load_n(&rt.control->plain[i], __ATOMIC_RELAXED) == minor)
            return 0;
    return minor;
}

/* Whether the collector finds a file by the name that its mapping has. */
static enum found find_file(const struct origin *o, uint32_t *served)
{
    static char path[4096];
    struct stat file;
    if (!names_as_collector || o->n >= sizeof path)
        return NOT_FOUND;
    memcpy(path, o->name, o->n);
    path[o->n] = 0;
    if (sys(SYS_newfstatat, (uint32_t)AT_FDCWD, (uint64_t)path, (uint64_t)&file, 0, 0, 0) || !S_ISREG(file.st_mode) || file.st_ino != o->inode)
        return NOT_FOUND;
    *served = served_by(file.st_dev);
    return cofi__is_young(&file, &rt.control->began) ? FOUND_YOUNG : FOUND;
}

/* Whether a page of such a region is told for the first time. */
static bool tell_first(const struct region *r, uint64_t page)
{
    uint8_t *told = (uint8_t *)(uint64_t)r->told + (page - r->start) / PAGE / 8, bit = (uint8_t)(1 << (page - r->start) / PAGE % 8);
    bool first = !(*told & bit);
    *told |= bit;
    return first;
}

/* Of a page that can be read, a piece as it is, and what follows it if that can. */
static void tell_piece(struct thread *t, const struct region *r, const uint64_t v[4])
{
    uint64_t end = v[0] + COFI__FAST_CODE_PIECE, ahead = COFI_CODE_AHEAD;
    uint8_t byte;
    if (end >= r->end || (end % PAGE == 0 && rt_probe(&byte, (const void *)end, 1)))
        ahead = 0;
    note_put(t, COFI__FAST_NOTE_CODE, v, (const void *)v[0], COFI__FAST_CODE_PIECE + ahead);
}

/* As it was since the region is there: what was translated from it before is told by no TSC. */
static void tell_page(struct thread *t, const struct region *r, uint64_t page)
{
    uint64_t since = r->since > rt.space ? r->since : rt.space;
    for (uint64_t a = page; a < page + PAGE; a += COFI__FAST_CODE_PIECE)
        tell_piece(t, r, (uint64_t[4]){a, since, r->start, cofi__fast_mapping(r->origin, r->start, r->end)});
}

void maps_tell(struct thread *t, uint64_t start, uint64_t end)
{
    for (uint64_t page = start & ~(uint64_t)(PAGE - 1); page < end; page += PAGE) {
        const struct region *r = lookup(page);
        if (r && r->told && tell_first(r, page))
            tell_page(t, r, page);
    }
}

static bool was_dirty(const struct region *r)
{
    if (spans_overlap(&made_executable, r->start, r->end))
        return true;
    for (const struct region *o = first_behind(old_regions, old_count, r->start); o < old_regions + old_count && o->start < r->end; o++)
        if (o->dirty && !o->gone)
            return true;
    return false;
}

/* Tell the collector about code that it will need: a file's mapping, or the vDSO's bytes. */
static void announce(struct thread *t, const struct region *r, const struct origin *o, enum found found, uint32_t served)
{
    uint64_t how = found == NOT_FOUND ? COFI__FAST_ELSEWHERE : found == FOUND_YOUNG ? COFI__FAST_YOUNG : 0;
    if (served)
        how |= COFI__FAST_SERVED | (uint64_t)served << COFI__FAST_DEVICE_SHIFT;
    if (found == NOT_FOUND || served)
        how |= (uint64_t)r->origin << COFI__FAST_ORIGIN_SHIFT;
    uint64_t v[4] = {r->start, r->end, o->offset, PROT_READ | PROT_EXEC | how};
    note_put(t, COFI__FAST_NOTE_MAP, v, o->name, o->n);
    if (o->n >= 6 && !memcmp(o->name, "[vdso]", 6))
        for (uint64_t a = r->start; a < r->end; a += COFI__FAST_CODE_PIECE)
            tell_piece(t, r, (uint64_t[4]){a});
}

/* A region goes on where the last one ends: watched pages have cut it. */
static bool goes_on(const struct region *r)
{
    struct region *last = rt.region_count ? &rt.regions[rt.region_count - 1] : NULL;
    if (!r->writable || !last || !last->writable || last->end != r->start || last->file != r->file || last->shared != r->shared)
        return false;
    last->end = r->end;
    return true;
}

static bool met_elsewhere; /* since the mappings were read last */

/* A region that was not there before. */
static void meet(struct thread *t, struct region *r, const struct origin *o)
{
    size_t n = (r->end - r->start) / PAGE / 8 + 1;
    uint32_t served = 0;
    enum found found = r->file ? find_file(o, &served) : FOUND;
    bool tells = found != FOUND || served;
    if (tells && n < rt_kept_left() / 2)
        r->told = (uint32_t)(uint64_t)rt_alloc_kept(n);
    r->dirty |= tells && !r->told; /* told all the same, block by block */
    met_elsewhere |= found == NOT_FOUND;
    announce(t, r, o, found, served);
}

static void add_region(struct thread *t, struct region r, const struct origin *o)
{
    r.origin = (uint32_t)o->inode * 2654435761u + (uint32_t)(o->inode >> 32) + (uint32_t)(o->offset >> 12);
    if (r.file)
        filter_maps_file(&r, o);
    if (goes_on(&r))
        return;
    if (rt.region_count == REGIONS)
        rt_die("too many mappings of code at", r.start);
    bool named = o->n && !r.writable;
    r.nameless = !o->n;
    r.dirty = was_dirty(&r) || !named || r.shared;
    const struct region *before = known(&r);
    if (before)
        r.told = before->told;
    else if (named)
        meet(t, &r, o);
    rt.regions[rt.region_count++] = r;
}

/* The kernel writes a newline in a name as \\012. Returns the name's length. */
static size_t unescape(char *name, const char *end)
{
    char *to = name;
    for (const char *from = name; from < end; to++) {
        bool newline = end - from >= 4 && !memcmp(from, "\\012", 4);
        *to = newline ? '\n' : *from;
        from += newline ? 4 : 1;
    }
    return (size_t)(to - name);
}

static void shorten(struct origin *o)
{
    static char name[COFI__SHORT_NAME_BYTES];
    if (o->n < COFI__PATH_BYTES)
        return;
    o->n = cofi__short_name(o->name, o->n, name);
    o->name = name;
}

/* One line of /proc/self/maps. */
static void take_line(void *context, char *line, const char *end)
{
    struct thread *t = context;
    struct region r = {0};
    struct origin o;
    uint64_t major, minor, to;
    const char *p = maps_hex(line, &r.start);
    p = maps_hex(p + 1, &to);
    const char *flags = p + 1;
    p = maps_hex(p + 6, &o.offset);
    p = maps_hex(p + 1, &major);
    p = maps_hex(p + 1, &minor);
    p = decimal(p + 1, &o.inode);
    while (p < end && *p == ' ')
        p++;
    o.name = p;
    o.n = unescape(line + (p - line), end);
    shorten(&o);
    r.shared = flags[3] == 's';
    r.file = o.n && *p == '/';
    rt.vsyscall |= r.start == 0xffffffffff600000;
    if (flags[2] != 'x' || maps_is_ours(r.start) || r.start >> 63)
        return;
    for (; r.start < to; o.offset += r.end - r.start, r.start = r.end) {
        r.writable = flags[1] == 'w';
        r.end = r.writable || !rt.protected_pages ? to : pages_same_until(r.start, to, &r.writable);
        add_region(t, r, &o);
    }
}

/* Since when all regions are there. */
static void date_regions(void)
{
    for (struct region *r = rt.regions; r < rt.regions + rt.region_count; r++) {
        const struct region *before = known(r);
        r->since = before ? before->since : rdtsc();
    }
}

static int open_maps(void)
{
    return (int)sys(SYS_openat, (uint32_t)AT_FDCWD, (uint64_t)"/proc/self/maps", O_RDONLY | O_CLOEXEC, 0, 0, 0);
}

static void take_lines(int fd, void (*take)(void *context, char *line, const char *end), void *context)
{
    static char buffer[65536];
    size_t have = 0;
    for (;;) {
        long n = sys(SYS_read, (uint64_t)fd, (uint64_t)(buffer + have), sizeof buffer - have, 0, 0, 0);
        if (n <= 0)
            break;
        have += (size_t)n;
        size_t start = 0;
        for (size_t i = 0; i < have; i++)
            if (buffer[i] == '\n') {
                take(context, buffer + start, buffer + i);
                start = i + 1;
            }
        memcpy(buffer, buffer + start, have - start);
        have -= start;
    }
    sys(SYS_close, (uint64_t)fd, 0, 0, 0, 0, 0);
}

int maps_each(void (*take)(void *context, char *line, const char *end), void *context)
{
    int fd = open_maps();
    if (fd >= 0)
        take_lines(fd, take, context);
    return fd < 0 ? fd : 0;
}

/* Returns 0, or how /proc/self/maps cannot be opened. */
static int parse(struct thread *t)
{
    int fd = open_maps();
    if (fd < 0)
        return fd;
    memcpy(old_regions, rt.regions, sizeof(struct region) * rt.region_count);
    old_count = rt.region_count;
    rt.region_count = 0;
    filter_maps_begin();
    met_elsewhere = false;
    uint32_t word = __atomic_load_n(&t->head.drained_word, __ATOMIC_ACQUIRE);
    names_as_collector = names_are(&rt.control->names);
    take_lines(fd, take_line, t);
    filter_maps_end();
    date_regions();
    made_executable.n = 0;
    rt.maps_stale = false;
    rt.maps_tsc = 0;
    if (met_elsewhere)
        collector_look(t, word);
    return 0;
}

static bool guessed;

/* One more region, at r; it is what was there. */
static void make_room(struct region *r)
{
    for (struct region *to = rt.regions + rt.region_count++; to > r; to--)
        *to = to[-1];
}

static void add_page(uint64_t page)
{
    struct region *r = first_behind(rt.regions, rt.region_count, page);
    if (r > rt.regions && r[-1].end == page) {
        r[-1].end += PAGE;
        return;
    }
    if (rt.region_count == REGIONS)
        rt_die("too many mappings of code at", page);
    make_room(r);
    *r = (struct region){.start = page, .end = page + PAGE, .shared = true, .dirty = true, .since = rdtsc()};
}

/* Without /proc, as in some chroots, nobody says where code is: there, where the program comes to, if it can be read. Nobody says whether
 * it may be written, either: so it is compared at each entry. */
static void guess(uint64_t pc)
{
    uint8_t byte;
    uint64_t page = pc & ~(uint64_t)(PAGE - 1);
    for (uint64_t p = page; p <= page + PAGE && !(p >> 47); p += PAGE) /* a block may reach into the next page */
        if (!lookup(p) && !maps_is_ours(p) && !rt_probe(&byte, (const void *)p, 1))
            add_page(p);
}

/* The executable region at pc, or null: the guest faults there. */
const struct region *maps_find(struct thread *t, uint64_t pc)
{
    const struct region *r = rt.maps_stale ? NULL : lookup(pc);
    if (r && (!guessed || r->end - pc >= COMPARED_BYTES))
        return r;
    maps_there(pc); /* a stack grows where it is read, as it does where it is run */
    int error = parse(t);
    guessed = error;
    if (error == -ENOENT && rt.maps_stale) { /* else no descriptor is left, perhaps: what was known is better than nothing */
        rt.region_count = 0;
        rt.maps_stale = false;
        rt.maps_tsc = 0;
    }
    if (error)
        guess(pc);
    return lookup(pc);
}

/* Whether the page can be read. What is mapped need not be there: a file may have become shorter. */
bool maps_there(uint64_t address)
{
    uint64_t word;
    return !rt_probe(&word, (const void *)(address & ~UINT64_C(7)), sizeof word);
}

/* Bytes that can be read as code from pc on, 15 at most. */
size_t maps_readable(uint64_t pc)
{
    size_t n = 0, page = PAGE - pc % PAGE;
    while (n < INSN_MAX) {
        const struct region *r = lookup(pc + n);
        if (!r)
            break;
        n = r->end - pc < INSN_MAX ? r->end - pc : INSN_MAX;
    }
    if (n && !maps_there(pc))
        return 0;
    return n > page && !maps_there(pc + page) ? page : n;
}

/* Whether the guest may write to its code at addr, as far as that is known. */
bool maps_writable(uint64_t addr)
{
    rt_lock();
    const struct region *r = rt.maps_stale ? NULL : lookup(addr);
    bool writable = r && r->writable && !r->gone;
    rt_unlock();
    return writable;
}

/* Code of regions without a name is all watched: a JIT that changes rights for all that it writes does not pay for the rest. */
static void forget_code(uint64_t start, uint64_t end, bool nameless, enum change what)
{
    if (nameless && what == CHANGE_MAPPING)
        watch_drop(start, end);
    else if (nameless)
        watch_forget(start, end);
    else
        cache_invalidate(start, end);
}

/* The guest has changed mappings of [start, end). Code that can still be run and not be written is as it was. */
void maps_changed(uint64_t start, uint64_t end, enum change what)
{
    bool hit = false, nameless = true;
    for (unsigned i = 0; i < rt.region_count; i++) {
        struct region *r = &rt.regions[i];
        if (start < r->end && r->start < end) {
            r->gone |= what == CHANGE_MAPPING && start <= r->start && r->end <= end;
            r->dirty |= what == CHANGE_BYTES;
            nameless &= r->nameless;
            hit = true;
        }
    }
    if (!hit)
        return;
    if (what != CHANGE_TO_CODE)
        forget_code(start, end, nameless, what);
    rt.maps_stale = true;
}

/* What [start, end) holds may be another thing now, without a write or a change of rights; where it is as its file has it, only if
 * `files`. */
void maps_lost(uint64_t start, uint64_t end, bool files)
{
    bool hit = false;
    struct region *r = first_behind(rt.regions, rt.region_count, start);
    for (; r < rt.regions + rt.region_count && r->start < end; r++)
        if (r->dirty || files)
            hit = r->dirty = true;
    if (hit)
        cache_invalidate(start, end);
}

/* Whether all of [start, end) is known, and has no name. */
static bool all_nameless(uint64_t start, uint64_t end)
{
    const struct region *last = rt.regions + rt.region_count, *r = first_behind(rt.regions, rt.region_count, start);
    for (; r < last && r->start <= start && r->nameless && !r->shared && !r->gone; r++) {
        start = r->end;
        if (start >= end)
            return true;
    }
    return false;
}

/* No region lies on both sides of an address. */
static void cut(uint64_t at)
{
    struct region *r = first_behind(rt.regions, rt.region_count, at);
    if (r == rt.regions + rt.region_count || r->start >= at)
        return;
    make_room(r);
    r[0].end = r[1].start = at;
}

static bool is_more_of(const struct region *last, const struct region *r)
{
    return last->nameless && r->nameless && last->end == r->start && last->writable == r->writable && last->closed == r->closed &&
           last->shared == r->shared && last->gone == r->gone;
}

/* Regions without a name that are as those before them become part of these. */
static void join(void)
{
    unsigned n = 0;
    for (unsigned i = 0; i < rt.region_count; i++)
        if (n && is_more_of(&rt.regions[n - 1], &rt.regions[i]))
            rt.regions[n - 1].end = rt.regions[i].end;
        else
            rt.regions[n++] = rt.regions[i];
    rt.region_count = n;
}

static enum change change_of(uint64_t prot)
{
    if (prot & PROT_WRITE)
        return CHANGE_BYTES;
    return prot == (PROT_READ | PROT_EXEC) ? CHANGE_TO_CODE : CHANGE_RIGHTS;
}

/* The guest has given [start, end) these rights. Where that is memory without a name which had code before, and no other thread has
 * changed mappings meanwhile, they need not be read again: JITs do this all the time. */
void maps_rights(uint64_t start, uint64_t end, uint64_t prot, bool alone)
{
    enum change what = change_of(prot);
    if (!alone || rt.maps_stale || prot & ~(uint64_t)(PROT_READ | PROT_WRITE | PROT_EXEC) || rt.region_count + 2 > REGIONS || !all_nameless(start, end)) {
        maps_changed(start, end, what);
        if (prot & PROT_EXEC)
            maps_made_executable(start, end);
        return;
    }
    if (what != CHANGE_TO_CODE)
        watch_forget(start, end);
    cut(start);
    cut(end);
    for (struct region *r = first_behind(rt.regions, rt.region_count, start); r < rt.regions + rt.region_count && r->start < end; r++) {
        r->writable = prot & PROT_WRITE;
        r->closed = !(prot & PROT_EXEC);
    }
    join();
    rt.maps_tsc = 0;
}
