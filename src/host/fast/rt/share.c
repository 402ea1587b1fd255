/* SPDX-License-Identifier: MIT
 * Translated code that runs of a program hand on to the next ones, within a recording: it lies in the memory that
 * they share. The first run to end says of which files most was translated. In those that begin from then on the
 * code of these goes, file by file, to arenas and descriptors of its own. The descriptors' place is the same in all
 * runs, that of the code is as far from the file's. Who ends leaves a copy. Who begins takes it, if the code that it
 * was made of is there, byte by byte, and puts the guest's addresses in it right; it goes on as if it had translated
 * all that itself. Of files that several programs have, the first run of another one has that, too. A program with
 * filters, attached to, or with restartable sequences neither gives nor takes. */
#include <sys/mman.h>
#include <sys/syscall.h>

#include "host/fast/rt/cache.h"
#include "host/fast/rt/plan.h"
#include "host/fast/store.h"

enum { MODULES = 32, LEAST_BLOCKS = 64, ZONE_LEAST = 1 << 20, ZONE_MOST = 16 << 20,
       ADDRESSES = 3 << 16, PAGES = 1 << 15, PAGES_OF_CODE = 1 << 16 };
#define MINUS 0x80000000u /* in the list of addresses, of those times -1; the rest is the place in the arena */

/* A page of code, from the region's start, as it was when the first block was made of it. */
struct page {
    uint64_t sum;
    uint32_t number, reserved;
};

/* What there is beside the addresses of a module's blocks, in the place for an arena's index. */
struct beside {
    uint32_t blocks[SHARE_BLOCKS];
    uint32_t addresses[ADDRESSES]; /* in code: where they are */
    struct page pages[PAGES];
    uint8_t has[PAGES_OF_CODE / 8]; /* which pages are there, a bit each */
};
_Static_assert(sizeof(struct beside) <= CACHE_INDEX_BYTES, "the index's place");

enum part {
    PART_INDEX, PART_ADDRESSES, PART_PAGES, PART_HAS, PART_POOL, PART_ZONE, PART_COUNTS, PART_HOT, PART_COLD, PARTS
};

/* What a run leaves of a module; behind it lie the parts, each at a multiple of 8. */
struct copy {
    struct cofi__fast_copy head;
    struct cofi__fast_module module; /* whose it is, and where its descriptors lie */
    uint64_t start;             /* of the region */
    uint64_t base;              /* of the arena */
    uint64_t first_hot, first_cold; /* from there */
    uint64_t blocks;
    uint64_t fixed;
    uint64_t bytes[PARTS];
};

/* A file's code in this process. */
struct module {
    uint64_t start, end;  /* of the region */
    uint32_t origin;
    uint32_t blocks;      /* made of it in this process */
    uint32_t addresses, pages;
    bool chosen;          /* for later runs */
    bool fixed;           /* not all addresses are known: the code is good where it is only */
    struct arena *arena;  /* null: it is not shared */
    struct heap heap;
    struct cofi__fast_module *shared;
    const struct copy *stale; /* the copy that there was, of other code; or null */
};

static struct cofi__fast_program *program; /* null: it has none */
static struct cofi__fast_program *common; /* what all have in common; null: nothing, when it began */
static bool shares; /* its modules were chosen then */
static struct module modules[MODULES];
static unsigned count;

uint64_t share_begin(uint64_t key)
{
    struct cofi__fast_store *store = cofi__fast_store(rt.control);
    if (!key || !cofi__fast_shares(rt.control))
        return 0;
    program = cofi__fast_find_program(store, key);
    common = program ? cofi__fast_find_program(store, COFI__FAST_COMMON) : NULL;
    common = common && cofi__fast_is_chosen(common) ? common : NULL;
    shares = program && cofi__fast_is_chosen(program);
    return shares ? CACHE_POOL_END - CACHE_POOL : common ? COFI__FAST_COMMON_POOL : 0;
}

/* Whether the region's code may be shared: it is a file's, as it is there. */
static bool is_fit(const struct region *r)
{
    return r->file && !r->dirty && !r->writable && !r->shared && (r->end - r->start) / PAGE <= PAGES_OF_CODE;
}

static bool shows(const struct region *r, const struct module *m)
{
    return m->start == r->start && m->end == r->end && m->origin == r->origin;
}

static struct module *find(const struct region *r)
{
    static struct module *last = modules; /* mostly the same */
    if (count && shows(r, last))
        return last;
    for (struct module *m = modules; m < modules + count; m++)
        if (shows(r, m))
            return last = m;
    return NULL;
}

struct arena *share_arena(const struct region *r)
{
    const struct module *m = rt.epoch == 1 && is_fit(r) ? find(r) : NULL;
    return m && m->pages + 2 * (PLAN_INSNS + 1) <= PAGES ? m->arena : NULL;
}

static uint64_t module_key(uint64_t origin, uint64_t bytes)
{
    const uint64_t v[] = {origin, bytes};
    return cofi__fast_hash(v, sizeof v);
}

static bool overlap(struct cofi__fast_span a, struct cofi__fast_span b) { return a.start < b.end && b.start < a.end; }

static bool exclude(const struct cofi__fast_module *a, const struct cofi__fast_module *b)
{
    return overlap(cofi__fast_zone(a), cofi__fast_zone(b)) || overlap(cofi__fast_pool(a), cofi__fast_pool(b));
}

/* Whether a module's places are any: what is shared somebody may have written over. */
static bool is_sound(const struct cofi__fast_module *s)
{
    return s->zone_bytes >= ZONE_LEAST && cofi__fast_zone(s).end <= CACHE_MODULES_BYTES &&
           cofi__fast_pool(s).end <= CACHE_POOL_END - CACHE_POOL;
}

/* Whether this process has something in its place: a file may lie at several addresses, or at another one than
 * before. */
static bool is_taken(const struct cofi__fast_module *s)
{
    for (const struct module *m = modules; m < modules + count; m++)
        if (m->shared && exclude(m->shared, s))
            return true;
    return false;
}

/* Whether a module that is common can have its place in the program, too. */
static bool has_place(const struct cofi__fast_module *c)
{
    for (const struct cofi__fast_module *s = program->modules; s < program->modules + COFI__FAST_MODULES; s++)
        if (s->key && exclude(s, c))
            return false;
    return true;
}

static bool is_common(const struct cofi__fast_module *s)
{
    return common && s >= common->modules && s < common->modules + COFI__FAST_MODULES;
}

/* What runs of the program have in common of a module, or else programs; null: nothing. */
static struct cofi__fast_module *find_shared(const struct region *r)
{
    uint64_t key = module_key(r->origin, r->end - r->start);
    struct cofi__fast_module *own = shares ? cofi__fast_find_module(program, key) : NULL,
                             *all = common ? cofi__fast_find_module(common, key) : NULL;
    if (own)
        own->met = 1;
    if (all)
        all->met = 1;
    struct cofi__fast_module *s = own ? own : all;
    return s && is_sound(s) && !is_taken(s) ? s : NULL;
}

static void begin_heap(struct heap *h, const struct cofi__fast_module *s)
{
    uint8_t *zone = (uint8_t *)CACHE_MODULES + s->zone;
    uint64_t bottom = (uint64_t)zone + s->zone_bytes / 32, end = (uint64_t)zone + s->zone_bytes;
    h->counts = h->next_count = (uint16_t *)zone;
    h->counts_end = (uint16_t *)bottom;
    heap_begin(h, 0, CACHE_POOL + s->pool, s->pool_bytes);
    heap_begin(h, 1, bottom, end - bottom);
    h->at = 0;
    if (s->zone_bytes >= HUGE)
        arena_use_huge_pages(bottom, end);
}

static struct beside *beside(const struct arena *a)
{
    return (struct beside *)a->index;
}

static uint64_t sum(const void *page)
{
    return cofi__fast_sum(page, PAGE);
}

/* Behind a file's end there is none. */
static void add_page(struct module *m, uint64_t address)
{
    struct beside *to = beside(m->arena);
    uint64_t number = (address - m->start) / PAGE;
    if (to->has[number / 8] >> number % 8 & 1 || !maps_there(m->start + number * PAGE))
        return;
    to->has[number / 8] |= (uint8_t)(1 << number % 8);
    to->pages[m->pages++] = (struct page){sum((const void *)(m->start + number * PAGE)), (uint32_t)number, 0};
}

void share_made(struct arena *a, const struct region *r, const struct plan *plan)
{
    struct module *m = program && is_fit(r) ? find(r) : NULL;
    if (m)
        m->blocks++;
    if (!a->module)
        return;
    for (const struct item *it = plan->item; it < plan->item + plan->count; it++) {
        uint64_t last = it->pc + (it->action == DO_STEP ? 15 : it->x.length) - 1;
        if (it->action == DO_LEAVE)
            continue;
        add_page(a->module, it->pc);
        add_page(a->module, last < r->end ? last : r->end - 1);
    }
}

void share_address(struct arena *a, const uint8_t *p, uint64_t address, bool minus)
{
    struct module *m = a->module;
    m->fixed |= m->addresses == ADDRESSES || !(address >> 32);
    if (!m->fixed)
        beside(a)->addresses[m->addresses++] = (uint32_t)(p - a->base) | (minus ? MINUS : 0);
}

/* ---- what is left ---- */

/* Where a part lies, of what there is or is to be. */
static void *place_of(const struct module *m, enum part part)
{
    const struct arena *a = m->arena;
    switch (part) {
    case PART_INDEX: return a->index;
    case PART_ADDRESSES: return beside(a)->addresses;
    case PART_PAGES: return beside(a)->pages;
    case PART_HAS: return beside(a)->has;
    case PART_POOL: return m->heap.piece[0].bottom;
    case PART_ZONE: return m->heap.piece[1].bottom;
    case PART_COUNTS: return m->heap.counts;
    case PART_HOT: return a->first_hot;
    case PART_COLD: return a->first_cold;
    case PARTS: break;
    }
    return NULL;
}

static uint64_t piece_bytes(const struct piece *p) { return (uint64_t)(p->top - p->bottom); }

static struct copy describe(const struct module *m)
{
    const struct arena *a = m->arena;
    uint64_t base = (uint64_t)a->base;
    return (struct copy){{0},
                         *m->shared,
                         m->start,
                         base,
                         (uint64_t)a->first_hot - base,
                         (uint64_t)a->first_cold - base,
                         a->blocks,
                         m->fixed,
                         {[PART_INDEX] = a->blocks * sizeof *a->index,
                          [PART_ADDRESSES] = m->addresses * sizeof(uint32_t),
                          [PART_PAGES] = m->pages * sizeof(struct page),
                          [PART_HAS] = (m->end - m->start) / PAGE / 8 + 1,
                          [PART_POOL] = piece_bytes(&m->heap.piece[0]),
                          [PART_ZONE] = piece_bytes(&m->heap.piece[1]),
                          [PART_COUNTS] = (uint64_t)(m->heap.next_count - m->heap.counts) * sizeof *m->heap.counts,
                          [PART_HOT] = (uint64_t)(a->hot - a->first_hot),
                          [PART_COLD] = (uint64_t)(a->cold - a->first_cold)}};
}

static uint64_t round8(uint64_t n)
{
    return (n + 7) & ~(uint64_t)7;
}

static const struct copy *copy_of(const struct cofi__fast_module *s)
{
    uint64_t at = __atomic_load_n(&s->copy, __ATOMIC_SEQ_CST);
    return at ? (const struct copy *)((uint8_t *)cofi__fast_store(rt.control) + at) : NULL;
}

/* Whether what there is of a module is worth a copy, beside the one that there is. All have to take a common one, so it
 * is a small one, and does not grow: a program has its own, as soon as it is known. */
static bool is_more(const struct module *m)
{
    enum { COMMON_MOST = 4096 };
    const struct copy *c = copy_of(m->shared);
    size_t blocks = m->arena->blocks;
    if (blocks < LEAST_BLOCKS || (is_common(m->shared) && blocks > COMMON_MOST))
        return false;
    return !c || c == m->stale || (!is_common(m->shared) && blocks > c->blocks + c->blocks / 2);
}

static void leave_copy(const struct module *m)
{
    struct cofi__fast_store *store = cofi__fast_store(rt.control);
    struct copy c = describe(m);
    c.head.bytes = sizeof c;
    for (unsigned i = 0; i < PARTS; i++)
        c.head.bytes += round8(c.bytes[i]);
    /* What a copy takes the place of is not given back, for somebody may be reading it. */
    uint64_t room = rt.control->store_bytes,
             at = cofi__fast_allot(store, m->shared->copy ? room / 2 : room, c.head.bytes);
    if (!at)
        return;
    uint8_t *start = (uint8_t *)store + at, *to = start + sizeof c;
    memcpy(start, &c, sizeof c);
    for (unsigned i = 0; i < PARTS; to += round8(c.bytes[i]), i++)
        memcpy(to, place_of(m, i), c.bytes[i]);
    struct cofi__fast_copy *head = (struct cofi__fast_copy *)start;
    head->sum = cofi__fast_sum(head + 1, head->bytes - sizeof *head);
    __atomic_store_n(&m->shared->copy, at, __ATOMIC_SEQ_CST);
}

static void leave_copies(void)
{
    for (const struct module *m = modules; m < modules + count; m++)
        if (m->arena && is_more(m))
            leave_copy(m);
}

/* Blocks that there are of it; of what is common, with those that were taken over. */
static uint64_t weight(const struct module *m)
{
    return m->arena && is_common(m->shared) ? m->arena->blocks : m->blocks;
}

/* The module with most blocks of those that the program does not share yet; null: there is none that is worth it. */
static struct module *find_largest(void)
{
    struct module *largest = NULL;
    for (struct module *m = modules; m < modules + count; m++)
        if (!m->chosen && (!m->shared || is_common(m->shared)) && weight(m) >= LEAST_BLOCKS &&
            (!largest || weight(m) > weight(largest)))
            largest = m;
    return largest;
}

static uint64_t zone_bytes(uint64_t code)
{
    return code < ZONE_LEAST ? ZONE_LEAST : code > ZONE_MOST ? ZONE_MOST : (code + HUGE - 1) & ~(uint64_t)(HUGE - 1);
}

/* What its descriptors took and half as much again. */
static uint64_t pool_bytes(uint32_t blocks)
{
    enum { A_BLOCK = 128 };
    return ((uint64_t)blocks * A_BLOCK * 3 / 2 + ARENA_MARGIN) & ~(uint64_t)(PAGE - 1);
}

static uint64_t find_pool(uint64_t bytes)
{
    return cofi__fast_find_place(program, cofi__fast_pool, bytes, COFI__FAST_COMMON_POOL, CACHE_POOL_END - CACHE_POOL);
}

static uint64_t find_zone(uint64_t bytes)
{
    return cofi__fast_find_place(program, cofi__fast_zone, bytes, COFI__FAST_COMMON_ZONES, CACHE_MODULES_BYTES);
}

/* With places of its own for descriptors. zone_bytes 0: there is none. */
static struct cofi__fast_module describe_module(const struct module *m, uint64_t key)
{
    const uint64_t zone = zone_bytes(m->end - m->start), pool = pool_bytes(m->blocks), zone_at = find_zone(zone),
                   pool_at = find_pool(pool);
    struct cofi__fast_module s = {.key = key};
    if (zone_at < CACHE_MODULES_BYTES)
        s.zone = (uint32_t)zone_at, s.zone_bytes = (uint32_t)zone;
    if (pool_at < CACHE_POOL_END - CACHE_POOL)
        s.pool = (uint32_t)pool_at, s.pool_bytes = (uint32_t)pool;
    return s;
}

/* The module is shared from now on: one that is common where that is, and with the copy that there is of it. Not
 * where a file lay at several places, and has been, or where there is no place. */
static void choose_module(const struct module *m)
{
    const uint64_t key = module_key(m->origin, m->end - m->start);
    const struct cofi__fast_module *all = common ? cofi__fast_find_module(common, key) : NULL;
    if (cofi__fast_find_module(program, key))
        return;
    struct cofi__fast_module *place = cofi__fast_find_module(program, 0),
                             s = all && has_place(all) ? *all : describe_module(m, key);
    if (!place || !s.zone_bytes) {
        program->wanted = 1;
        return;
    }
    s.met = 1;
    cofi__fast_add_module(place, s);
}

/* Which modules are shared by those who begin from now on, beside those that are. */
static void choose(void)
{
    struct module *m = find_largest();
    if (!m || program->wanted || !cofi__fast_choose(program))
        return;
    for (; m; m = find_largest()) {
        choose_module(m);
        m->chosen = true;
    }
    cofi__fast_chosen(program);
}

/* A child that shares its parent's memory is not the program's end. */
void share_leave(const struct thread *t)
{
    if (!program || t->head.vfork || rt.epoch != 1 || rt.has_sections || rt.stops_tsc || !rt_try_lock())
        return;
    leave_copies();
    choose();
    rt_unlock();
}

/* ---- and taken ---- */

/* A copy and where its parts lie. */
struct found {
    const struct copy *copy;
    const uint8_t *parts[PARTS];
};

static struct found look_at(const struct copy *c)
{
    struct found f = {.copy = c};
    const uint8_t *p = (const uint8_t *)(c + 1);
    for (unsigned i = 0; i < PARTS; p += round8(c->bytes[i]), i++)
        f.parts[i] = p;
    return f;
}

/* Whether the code that a copy was made of is what lies in the region. Pages behind a file's end cannot be read. */
static bool is_same(const struct region *r, const struct found *f)
{
    const struct page *page = (const struct page *)f->parts[PART_PAGES],
                      *end = page + f->copy->bytes[PART_PAGES] / sizeof *page;
    uint8_t byte;
    for (; page < end; page++) {
        const uint8_t *p = (const uint8_t *)r->start + (uint64_t)page->number * PAGE;
        if (rt_probe(&byte, p, 1) || sum(p) != page->sum)
            return false;
    }
    return true;
}

/* What names guest addresses, in code and descriptors, is as many bytes off as the region lies elsewhere. */
static void relocate(const struct module *m, const struct region *r, uint64_t delta)
{
    const struct arena *a = m->arena;
    for (uint32_t i = 0; delta && i < m->addresses; i++) {
        uint32_t at = beside(a)->addresses[i];
        uint8_t *p = a->base + (at & ~MINUS);
        uint64_t v;
        __builtin_memcpy(&v, p, sizeof v);
        v += at & MINUS ? -delta : delta;
        __builtin_memcpy(p, &v, sizeof v);
    }
    for (size_t i = 0; i < a->blocks; i++) {
        struct block *b = block_at(a->index[i]);
        b->pc += delta;
        b->code_start += delta;
        b->since = r->since;
        b->incoming = 0;
    }
}

/* All pages at once; where the kernel cannot, each when it is come to. */
static void populate(const void *start, uint64_t bytes)
{
    uint64_t from = (uint64_t)start & ~(uint64_t)(PAGE - 1),
             to = ((uint64_t)start + bytes + PAGE - 1) & ~(uint64_t)(PAGE - 1);
    if (to - from > 4 * PAGE)
        sys(SYS_madvise, from, to - from, MADV_POPULATE_WRITE, 0, 0, 0);
}

/* Take a copy: false where its code lies elsewhere than now, or there is no place for it where it belongs. */
static bool adopt(struct module *m, const struct region *r, const struct found *f)
{
    const struct copy *c = f->copy;
    uint64_t delta = r->start - c->start;
    if (c->fixed && delta)
        return false;
    struct arena *a = arena_for_module(m, &m->heap, c->base + delta, r->start);
    if (!a)
        return false;
    arena_place(a, c->first_hot, c->first_cold);
    m->arena = a;
    m->addresses = (uint32_t)(c->bytes[PART_ADDRESSES] / sizeof(uint32_t));
    m->pages = (uint32_t)(c->bytes[PART_PAGES] / sizeof(struct page));
    m->fixed = c->fixed;
    for (unsigned i = 0; i < PARTS; i++) {
        populate(place_of(m, i), c->bytes[i]);
        memcpy(place_of(m, i), f->parts[i], c->bytes[i]);
    }
    m->heap.piece[0].top += c->bytes[PART_POOL];
    m->heap.piece[1].top += c->bytes[PART_ZONE];
    m->heap.at = c->bytes[PART_ZONE] != 0;
    m->heap.next_count = m->heap.counts + c->bytes[PART_COUNTS] / sizeof *m->heap.counts;
    a->hot = a->first_hot + c->bytes[PART_HOT];
    a->cold = a->first_cold + c->bytes[PART_COLD];
    __atomic_store_n(&a->blocks, c->blocks, __ATOMIC_RELEASE);
    relocate(m, r, delta);
    cache_adopt(a, r->since);
    __atomic_add_fetch(&rt.control->adopted, 1, __ATOMIC_RELAXED);
    return true;
}

static void tell_pages(struct thread *t, const struct module *m, const struct region *r)
{
    for (uint32_t i = 0; r->told && i < m->pages; i++) {
        uint64_t page = r->start + (uint64_t)beside(m->arena)->pages[i].number * PAGE;
        maps_tell(t, page, page + 1);
    }
}

/* The module's code goes to an arena of its own. Whether there is a copy in it. */
static bool begin_module(struct thread *t, struct module *m, const struct region *r)
{
    begin_heap(&m->heap, m->shared);
    const struct copy *c = copy_of(m->shared);
    if (c) {
        struct found f = look_at(c);
        if (cofi__fast_same_places(m->shared, &c->module) && is_same(r, &f)) {
            bool adopted = adopt(m, r, &f);
            if (adopted)
                tell_pages(t, m, r);
            return adopted;
        }
        m->stale = c;
    }
    m->fixed = r->start >> 32 == 0; /* where addresses have 32 bits in code, no list has them */
    m->arena = arena_for_module(m, &m->heap, 0, r->start);
    return false;
}

bool share_meet(struct thread *t, const struct region *r)
{
    if (!program || rt.epoch != 1 || rt.stops_tsc || count == MODULES || !is_fit(r) || find(r))
        return false;
    struct cofi__fast_module *s = find_shared(r);
    struct module *m = &modules[count++];
    *m = (struct module){.start = r->start, .end = r->end, .origin = r->origin, .shared = s};
    return s && begin_module(t, m, r);
}
