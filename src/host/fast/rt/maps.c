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

_Static_assert((int)PAGE == (int)COFI__FAST_CODE_PIECE && (int)COFI__FAST_NOTE_MOST == (int)PAGE + (int)COFI_CODE_AHEAD,
               "a page, and what follows, in a note");

static struct region old_regions[REGIONS];
static unsigned old_count;

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

static const struct region *met_at(uint64_t pc)
{
    const struct region *r = first_behind(rt.regions, rt.region_count, pc);
    return r < rt.regions + rt.region_count && r->start <= pc && !r->closed ? r : NULL;
}

static const struct region *lookup(uint64_t pc)
{
    const struct region *r = met_at(pc);
    return r && !r->stale ? r : NULL;
}

/* Where mappings have changed since they were read, and when the last change there began; 0: not known.
 * If there are more, all is stale. */
static struct stale { uint64_t start, end, since; } stale[64];
static unsigned stale_count;

static bool is_stale(uint64_t start, uint64_t end)
{
    for (unsigned i = 0; i < stale_count; i++)
        if (stale[i].start < end && start < stale[i].end)
            return true;
    return false;
}

/* When the mapping of [start, end), which was not there before, came; 0: not known. */
static uint64_t came(uint64_t start, uint64_t end)
{
    uint64_t since = 0;
    for (unsigned i = 0; i < stale_count; i++)
        if (stale[i].start < end && start < stale[i].end && stale[i].since > since)
            since = stale[i].since;
    return since;
}

static void add_stale(uint64_t start, uint64_t end, uint64_t since)
{
    for (unsigned i = 0; i < stale_count; i++)
        if (stale[i].start == start && stale[i].end == end) {
            stale[i].since = since;
            return;
        }
    if (stale_count < ARRAY_LEN(stale)) {
        stale[stale_count++] = (struct stale){start, end, since};
        return;
    }
    stale[0] = (struct stale){0, ~0ul, stale[0].since};
    stale_count = 1;
}

/* Who comes to [start, end), or near it, has the mappings there read again. */
void maps_stale(uint64_t start, uint64_t end, uint64_t since)
{
    add_stale(start, end, since);
    struct region *r = first_behind(rt.regions, rt.region_count, start);
    for (; r < rt.regions + rt.region_count && r->start < end; r++)
        r->stale = true;
}

/* In the child of a fork: it has all mappings since it is there, and decoders look for none before. */
void maps_forked(uint64_t now)
{
    for (unsigned i = 0; i < stale_count; i++)
        stale[i].since = stale[i].since ? now : 0;
}

/* The same region when the mappings were read before, or null. */
static const struct region *known(const struct region *r)
{
    const struct region *o = first_behind(old_regions, old_count, r->start);
    bool same = o < old_regions + old_count && o->start == r->start && o->end == r->end && o->file == r->file &&
                o->origin == r->origin;
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

/* What was made executable since the mappings were read, which was not: what was written there before
 * then is in no file. */
static struct spans made_executable;

/* The guest has made [start, end) executable. Where it was so already, writes have made its region dirty. */
void maps_made_executable(uint64_t start, uint64_t end, uint64_t since)
{
    maps_stale(start, end, since);
    uint64_t known_to = start;
    for (const struct region *r = met_at(known_to); r && known_to < end; r = met_at(known_to))
        known_to = r->end;
    if (known_to >= end)
        return;
    spans_add(&made_executable, start, end);
}

/* Where names lead now: the guest may have changed its root since. */
static bool names_as_collector, names_known;

static void look_where_names_lead(void)
{
    const struct cofi__fast_names *names = &rt.control->names;
    struct stat root = {0}, mounts = {0};
    sys(SYS_newfstatat, (uint32_t)AT_FDCWD, (uint64_t)"/", (uint64_t)&root, 0, 0, 0);
    sys(SYS_newfstatat, (uint32_t)AT_FDCWD, (uint64_t)"/proc/self/ns/mnt", (uint64_t)&mounts, 0, 0, 0);
    names_as_collector = root.st_dev == names->root_device && root.st_ino == names->root_inode &&
                         mounts.st_ino == names->mounts;
    names_known = true;
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
    if (!names_known)
        look_where_names_lead();
    if (!names_as_collector || o->n >= sizeof path)
        return NOT_FOUND;
    memcpy(path, o->name, o->n);
    path[o->n] = 0;
    if (sys(SYS_newfstatat, (uint32_t)AT_FDCWD, (uint64_t)path, (uint64_t)&file, 0, 0, 0) || !S_ISREG(file.st_mode) ||
        file.st_ino != o->inode)
        return NOT_FOUND;
    *served = served_by(file.st_dev);
    return cofi__is_young(&file, &rt.control->began) ? FOUND_YOUNG : FOUND;
}

/* Whether a page of such a region is told for the first time. */
static bool tell_first(const struct region *r, uint64_t page)
{
    uint8_t *told = (uint8_t *)(uint64_t)r->told + (page - r->start) / PAGE / 8,
            bit = (uint8_t)(1 << (page - r->start) / PAGE % 8);
    bool first = !(*told & bit);
    *told |= bit;
    return first;
}

/* One that can be read, as it is, and what follows it if that can. */
static void tell_page(struct thread *t, const struct region *r, const uint64_t v[4])
{
    uint64_t end = v[0] + PAGE, ahead = COFI_CODE_AHEAD;
    uint8_t byte;
    if (end >= r->end || rt_probe(&byte, (const void *)end, 1))
        ahead = 0;
    note_put(t, COFI__FAST_NOTE_CODE, v, (const void *)v[0], PAGE + ahead);
}

/* As it was since the region is there: what was translated from it before is told by no TSC. */
static void tell_since(struct thread *t, const struct region *r, uint64_t page)
{
    uint64_t since = r->since > rt.space ? r->since : rt.space;
    tell_page(t, r, (uint64_t[4]){page, since, r->start, cofi__fast_mapping(r->origin, r->start, r->end)});
}

void maps_tell(struct thread *t, uint64_t start, uint64_t end)
{
    for (uint64_t page = start & ~(uint64_t)(PAGE - 1); page < end; page += PAGE) {
        const struct region *r = lookup(page);
        if (r && r->told && tell_first(r, page))
            tell_since(t, r, page);
    }
}

static bool was_dirty(const struct region *r)
{
    if (spans_overlap(&made_executable, r->start, r->end))
        return true;
    for (const struct region *o = first_behind(old_regions, old_count, r->start);
         o < old_regions + old_count && o->start < r->end; o++)
        if (o->dirty && !o->gone)
            return true;
    return false;
}

/* Tell the collector about code that it will need: a file's mapping, or the vDSO's bytes. */
static void announce(struct thread *t, const struct region *r, const struct origin *o, enum found found,
                     uint32_t served)
{
    uint64_t how = found == NOT_FOUND ? COFI__FAST_ELSEWHERE : found == FOUND_YOUNG ? COFI__FAST_YOUNG : 0;
    if (served)
        how |= COFI__FAST_SERVED | (uint64_t)served << COFI__FAST_DEVICE_SHIFT;
    if (found == NOT_FOUND || served)
        how |= (uint64_t)r->origin << COFI__FAST_ORIGIN_SHIFT;
    uint64_t v[4] = {r->start, r->end, o->offset, PROT_READ | PROT_EXEC | how};
    note_put(t, COFI__FAST_NOTE_MAP, v, o->name, o->n);
    if (o->n >= 6 && !memcmp(o->name, "[vdso]", 6))
        for (uint64_t page = r->start; page < r->end; page += PAGE)
            tell_page(t, r, (uint64_t[4]){page});
}

/* A region goes on where the last one ends: watched pages have cut it. */
static bool goes_on(const struct region *r)
{
    struct region *last = rt.region_count ? &rt.regions[rt.region_count - 1] : NULL;
    if (!r->writable || !last || !last->writable || last->end != r->start || last->file != r->file ||
        last->shared != r->shared)
        return false;
    last->end = r->end;
    return true;
}

static bool met_elsewhere;      /* since the mappings were read last */
static uint32_t elsewhere_told; /* low half of the notes' place then */

/* Whether there was code that is not forgotten. */
static bool was_code(uint64_t start, uint64_t end)
{
    const struct region *o = first_behind(old_regions, old_count, start);
    while (o < old_regions + old_count && o->start < end && o->gone)
        o++;
    return o < old_regions + old_count && o->start < end;
}

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
    /* Of a mapping that was cut, or whose rights have changed. What was told of its code ends where this one is
     * told, so it is told again when it is come to; and until now, not until the call, for it may have run since. */
    bool again = (tells || r->dirty) && was_code(r->start, r->end);
    if (again)
        cache_invalidate(r->start, r->end);
    rt.maps_tsc = again ? 0 : came(r->start, r->end);
    announce(t, r, o, found, served);
    rt.maps_tsc = 0;
    if (found != NOT_FOUND)
        return;
    met_elsewhere = true;
    elsewhere_told = (uint32_t)t->head.notes_head;
}

static void push_region(const struct region *r)
{
    if (rt.region_count == REGIONS)
        rt_die("too many mappings of code at", r->start);
    rt.regions[rt.region_count++] = *r;
}

static void add_region(struct thread *t, struct region r, const struct origin *o)
{
    r.origin = (uint32_t)o->inode * 2654435761u + (uint32_t)(o->inode >> 32) + (uint32_t)(o->offset >> 12);
    r.page = (uint32_t)(o->offset / PAGE);
    r.filter = r.file ? filter_of(o) : 0;
    if (goes_on(&r))
        return;
    bool named = o->n && !r.writable;
    r.nameless = !o->n;
    r.dirty = was_dirty(&r) || !named || r.shared;
    const struct region *before = known(&r);
    if (before)
        r.told = before->told;
    else if (named)
        meet(t, &r, o);
    push_region(&r);
}

static void shorten(struct origin *o)
{
    static char name[COFI__SHORT_NAME_BYTES];
    if (o->n < COFI__PATH_BYTES)
        return;
    o->n = cofi__short_name(o->name, o->n, name);
    o->name = name;
}

/* Code may be there. */
static void take_mapping(struct thread *t, struct mapping *m)
{
    struct origin *o = &m->origin;
    shorten(o);
    struct region r = {.start = m->start, .shared = m->shared, .file = o->n && *o->name == '/'};
    if (ours_at(m->start) || m->start >> 63)
        return;
    for (; r.start < m->end; o->offset += r.end - r.start, r.start = r.end) {
        bool writable = m->writable;
        r.end = writable || !rt.protected_pages ? m->end : pages_same_until(r.start, m->end, &writable);
        r.writable = writable;
        add_region(t, r, o);
    }
}

/* A line of all mappings. */
static void take_line(void *context, char *line, const char *end)
{
    struct mapping m;
    mapping_parse(&m, line, end);
    rt.vsyscall |= m.start == 0xffffffffff600000;
    if (m.executable)
        take_mapping(context, &m);
}

/* Since when all regions are there. */
static void date_regions(void)
{
    for (struct region *r = rt.regions; r < rt.regions + rt.region_count; r++) {
        const struct region *before = r->since ? r : known(r);
        r->since = before ? before->since : rdtsc();
    }
}

/* Of the regions that were known, how many are behind us in the new table, or gone; and how far that goes. */
struct reader {
    struct thread *t;
    int fd;
    unsigned from;
    uint64_t done;
};

static void keep_until(struct reader *rd, uint64_t address)
{
    for (; rd->from < old_count && old_regions[rd->from].end <= address; rd->from++)
        push_region(&old_regions[rd->from]);
}

/* Regions that reach over an address leave the table. Returns where the first of them began, or the address. */
static uint64_t take_back(uint64_t at)
{
    while (rt.region_count && rt.regions[rt.region_count - 1].end > at) {
        const struct region *last = &rt.regions[--rt.region_count];
        at = last->start < at ? last->start : at;
    }
    return at;
}

/* Find the first mapping of a span: where it began before the span, so does what is read. */
static bool query_first(const struct reader *rd, uint64_t start, struct mapping *q)
{
    for (; mapping_query(rd->fd, start, q); start = take_back(q->start))
        if (q->start >= start)
            return true;
    return false;
}

/* What is mapped in [start, end), and whatever lies partly in there. False: the kernel does not tell. */
static bool read_span(struct reader *rd, uint64_t start, uint64_t end)
{
    struct mapping q;
    start = start > rd->done ? start : rd->done;
    if (start >= end)
        return true;
    keep_until(rd, start);
    if (rd->from < old_count && old_regions[rd->from].start < start)
        start = old_regions[rd->from].start;
    if (!query_first(rd, start, &q))
        return false;
    for (;;) {
        for (; rd->from < old_count && old_regions[rd->from].start < end; rd->from++)
            end = old_regions[rd->from].end > end ? old_regions[rd->from].end : end;
        if (q.start >= end)
            break;
        end = q.end > end ? q.end : end;
        take_mapping(rd->t, &q);
        if (!mapping_query(rd->fd, q.end, &q))
            return false;
    }
    rd->done = end;
    return true;
}

/* The stale span that begins first from an address on. */
static const struct stale *next_stale(const struct stale *last)
{
    const struct stale *next = NULL;
    for (const struct stale *s = stale; s < stale + stale_count; s++) {
        bool behind = !last || s->start > last->start || (s->start == last->start && s > last);
        if (behind && (!next || s->start < next->start))
            next = s;
    }
    return next;
}

/* Code of regions without a name is all watched: a JIT that changes rights for all that it writes does
 * not pay for the rest. */
static void forget_code(uint64_t start, uint64_t end, bool nameless, enum change what)
{
    if (nameless && what == CHANGE_MAPPING)
        watch_drop(start, end);
    else if (nameless)
        watch_forget(start, end);
    else
        cache_invalidate(start, end);
}

/* What no region holds any more, or one of another kind, has no code: another thread whose call has
 * changed that, and which has not said so yet, will not find what there was. */
static void forget_unmapped(void)
{
    const struct region *r = rt.regions, *last = r + rt.region_count, *o = old_regions;
    for (uint64_t at = 0, to; o < old_regions + old_count; o += to == o->end, at = to) {
        at = at > o->start ? at : o->start;
        while (r < last && r->end <= at)
            r++;
        bool is_region = r < last && r->start <= at;
        to = is_region ? r->end : r < last ? r->start : o->end;
        to = to < o->end ? to : o->end;
        if (!o->gone && !(is_region && r->nameless == o->nameless))
            forget_code(at, to, o->nameless, CHANGE_MAPPING);
    }
}

static void begin_reading(void)
{
    memcpy(old_regions, rt.regions, sizeof(struct region) * rt.region_count);
    old_count = rt.region_count;
    rt.region_count = 0;
    met_elsewhere = false;
    names_known = false;
}

static void end_reading(struct thread *t)
{
    date_regions();
    forget_unmapped();
    filter_maps_read();
    made_executable.n = 0;
    stale_count = 0;
    rt.maps_stale = false;
    if (met_elsewhere)
        collector_look(t, elsewhere_told);
}

/* Read what is stale only. False: the kernel does not tell, or nobody may ask it: all is as it was. */
static bool read_stale(struct thread *t, int fd)
{
    struct reader rd = {.t = t, .fd = fd};
    if (rt.maps_stale || !stale_count || t->filtered)
        return false;
    begin_reading();
    for (const struct stale *s = next_stale(NULL); s; s = next_stale(s))
        if (!read_span(&rd, s->start, s->end)) {
            memcpy(rt.regions, old_regions, sizeof(struct region) * old_count);
            rt.region_count = old_count;
            return false;
        }
    keep_until(&rd, ~0ul);
    end_reading(t);
    return true;
}

/* The mappings where they are stale, and all, if pc is in none of them. Returns 0, or how
 * /proc/self/maps cannot be opened. */
static int parse(struct thread *t, uint64_t pc)
{
    int fd = mappings_open();
    if (fd < 0)
        return fd;
    if (read_stale(t, fd) && lookup(pc)) {
        sys(SYS_close, (uint64_t)fd, 0, 0, 0, 0, 0);
        return 0;
    }
    begin_reading();
    mappings_read(fd, take_line, t);
    end_reading(t);
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

/* Without /proc, as in some chroots, nobody says where code is: there, where the program comes to, if it
 * can be read. Nobody says whether it may be written, either: so it is compared at each entry. */
static void guess(uint64_t pc)
{
    uint8_t byte;
    uint64_t page = pc & ~(uint64_t)(PAGE - 1);
    for (uint64_t p = page; p <= page + PAGE && !(p >> 47); p += PAGE) /* a block may reach into the next page */
        if (!lookup(p) && !ours_at(p) && !rt_probe(&byte, (const void *)p, 1))
            add_page(p);
}

/* The region at pc, if nothing has changed there since it was read, nor in what its last instruction may end in. */
static const struct region *fresh(uint64_t pc)
{
    const struct region *r = rt.maps_stale ? NULL : lookup(pc), *next = r ? met_at(r->end) : NULL;
    bool changed = r && ((next && next->stale) || is_stale(r->end, r->end + 1));
    return changed ? NULL : r;
}

/* The mappings cannot be read. Without /proc, what was known is worth nothing; if no descriptor is left,
 * perhaps, it is better than nothing. */
static void stay_stale(int error)
{
    if (error == -ENOENT && (rt.maps_stale || stale_count)) {
        rt.region_count = 0;
        rt.maps_stale = false;
        stale_count = 0;
        return;
    }
    rt.maps_stale |= stale_count != 0;
    for (struct region *r = rt.regions; r < rt.regions + rt.region_count; r++)
        r->stale = false;
}

/* The executable region at pc, or null: the guest faults there. */
const struct region *maps_find(struct thread *t, uint64_t pc)
{
    const struct region *r = fresh(pc);
    if (r && (!guessed || r->end - pc >= COMPARED_BYTES))
        return r;
    maps_there(pc); /* a stack grows where it is read, as it does where it is run */
    int error = parse(t, pc);
    guessed = error;
    if (error) {
        stay_stale(error);
        guess(pc);
    }
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

/* Whether code at an address may be written to, there or where else its memory is mapped. The lock is held. */
bool maps_writes_at(uint64_t address)
{
    const struct region *r = lookup(address);
    return r && (r->writable || r->shared);
}

/* Where instructions that begin in a region end at most, as far as they can. What is no code is not
 * read: a stack might grow. */
uint64_t maps_end_of_code(const struct region *r)
{
    return lookup(r->end) ? r->end + INSN_MAX - 1 : r->end;
}

/* The guest has changed mappings of [start, end). Code that can still be run and not be written is as it was. */
void maps_changed(uint64_t start, uint64_t end, enum change what, uint64_t since)
{
    bool hit = false, nameless = true;
    for (unsigned i = 0; i < rt.region_count; i++) {
        struct region *r = &rt.regions[i];
        nameless &= r->nameless || r->end != start; /* the last instruction before it may end in it */
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
    maps_stale(start, end, since);
}

/* What [start, end) holds may be another thing now, without a write or a change of rights; where it is
 * as its file has it, only if `files`. */
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
    for (; r < last && r->start <= start && r->nameless && !r->shared && !r->stale; r++) {
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
    return last->nameless && r->nameless && last->end == r->start && last->writable == r->writable &&
           last->closed == r->closed && last->shared == r->shared && last->gone == r->gone && last->stale == r->stale;
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

/* The guest has given [start, end) these rights. Where that is memory without a name which had code before, and
 * no other thread has changed mappings meanwhile, they need not be read again: JITs do this all the time. */
void maps_rights(uint64_t start, uint64_t end, uint64_t prot, bool alone, uint64_t since)
{
    enum change what = change_of(prot);
    if (!alone || rt.maps_stale || prot & ~(uint64_t)(PROT_READ | PROT_WRITE | PROT_EXEC) ||
        rt.region_count + 2 > REGIONS || !all_nameless(start, end)) {
        maps_changed(start, end, what, since);
        if (prot & PROT_EXEC)
            maps_made_executable(start, end, since);
        return;
    }
    if (what != CHANGE_TO_CODE)
        watch_forget(start, end);
    cut(start);
    cut(end);
    for (struct region *r = first_behind(rt.regions, rt.region_count, start);
         r < rt.regions + rt.region_count && r->start < end; r++) {
        r->writable = prot & PROT_WRITE;
        r->closed = !(prot & PROT_EXEC);
    }
    join();
}
