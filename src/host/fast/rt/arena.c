/* SPDX-License-Identifier: MIT
 * Memory for translated code, near the guest's, and for its descriptors. There are two generations of
 * it: when the one in use is full, all of it is unlinked and the other is used, as soon as no thread is
 * inside of that any more. A thread is inside of a generation from leaving the runtime until coming
 * back; what has been unlinked is left at the next way out. */
#include <sys/mman.h>
#include <sys/syscall.h>

#include "host/fast/rt/cache.h"

enum { ARENAS = 8, GENERATIONS = 2, SMALL = HUGE / 4,
       COUNTS = (CACHE_COUNTS_END - CACHE_COUNTS) / GENERATIONS / sizeof(uint16_t) };

/* One half of all memory. */
static struct generation {
    struct arena arenas[ARENAS];
    unsigned count;
    struct heap heap;
    uint64_t epoch;              /* when it was last in use */
} generations[GENERATIONS], *now = generations;

/* What lives until the process ends. */
static uint8_t *kept = (uint8_t *)CACHE_KEPT;

/* How much of n bytes may be used: tests have a small cache. */
static size_t usable(size_t n)
{
    return rt.control->cache_bytes && rt.control->cache_bytes < n ? rt.control->cache_bytes : n;
}

/* Large programs scatter over these tables: fewer and larger pages. No harm where the kernel has none. */
void arena_use_huge_pages(uint64_t from, uint64_t to)
{
    from = (from + HUGE - 1) & ~(uint64_t)(HUGE - 1);
    sys(SYS_madvise, from, to - from, MADV_HUGEPAGE, 0, 0, 0);
}

/* Where memory begins to be used, from its start on: so that SMALL of it, which is all that a small program
 * needs, lies before the first huge page. A fault for a huge page takes as long as a hundred others. */
static uint8_t *first_use(const uint8_t *start)
{
    return (uint8_t *)((((uintptr_t)start + SMALL + HUGE - 1) & ~(uintptr_t)(HUGE - 1)) - SMALL);
}

/* Where the kernel promises no more memory than there is, all that may be written counts, used or not, for each
 * process: ours is made writable as it is used, where it is known that it will be. */
static void make_writable(uint64_t from, uint64_t to)
{
    from &= ~(uint64_t)(PAGE - 1);
    if (sys(SYS_mprotect, from, to - from, PROT_READ | PROT_WRITE | PROT_EXEC, 0, 0, 0))
        rt_die("no memory (vm.overcommit_memory is 2) at", from);
}

void arena_claim(uint64_t from, uint64_t to)
{
    if (rt.control->claims)
        make_writable(from, to);
}

void arena_claim_first(const struct cofi__fast_control *control)
{
    if (control->claims)
        make_writable(COFI__FAST_RUNTIME_BASE, COFI__FAST_RUNTIME_BASE + COFI__FAST_FIRST_BYTES);
}

/* From `claimed` on, to `upto`, which may lie behind the end where there is no room, and some more. */
static void claim(uint8_t **claimed, const uint8_t *upto, uint8_t *end)
{
    enum { STEP = 1 << 18 };
    if (upto <= *claimed || *claimed == end)
        return;
    uint8_t *to = upto + STEP < end ? (uint8_t *)(((uintptr_t)upto + STEP) & ~(uintptr_t)(PAGE - 1)) : end;
    arena_claim((uint64_t)*claimed, (uint64_t)to);
    *claimed = to;
}

static uint8_t *claimed_first(uint8_t *start, uint8_t *end) { return rt.control->claims ? start : end; }

/* Room for one more block's code. */
static void claim_code(struct arena *a)
{
    enum { MOST = ARENA_MARGIN + 64 };
    claim(&a->hot_claimed, a->hot + MOST, a->base + ARENA_HOT);
    claim(&a->cold_claimed, a->cold + MOST, a->base + ARENA_BYTES);
}

/* Not into a core: all of ours together is larger than most programs, and the log's pages would be made
 * to be written. */
static void keep_out_of_cores(uint64_t from, uint64_t bytes)
{
    sys(SYS_madvise, from, bytes, MADV_DONTDUMP, 0, 0, 0);
}

void arena_init(void)
{
    keep_out_of_cores(COFI__FAST_SHARED_BASE, cofi__fast_shared_bytes(rt.control));
    keep_out_of_cores(COFI__FAST_RUNTIME_BASE, COFI__FAST_RUNTIME_BYTES);
    arena_use_huge_pages(CACHE_IBL, CACHE_INDEX & ~(uint64_t)(HUGE - 1));
    size_t half = (CACHE_DESCRIPTORS_END - CACHE_DESCRIPTORS) / GENERATIONS & ~(size_t)4095;
    for (unsigned i = 0; i < GENERATIONS; i++) {
        struct heap *h = &generations[i].heap;
        uint8_t *start = (uint8_t *)CACHE_DESCRIPTORS + i * half, *bottom = first_use(start);
        heap_begin(h, 1, (uint64_t)bottom, usable((size_t)(start + half - bottom)));
        arena_use_huge_pages((uint64_t)bottom + SMALL, (uint64_t)start + half);
        h->counts = h->next_count = (uint16_t *)CACHE_COUNTS + i * COUNTS;
        h->counts_end = h->counts + COUNTS;
    }
    arena_claim(CACHE_COUNTS, CACHE_KEPT_END);
    rt.epoch = now->epoch = 1;
}

void arena_take_pool(uint64_t used)
{
    heap_begin(&generations[0].heap, 0, CACHE_POOL + used, CACHE_POOL_END - CACHE_POOL - used);
}

void heap_begin(struct heap *h, unsigned piece, uint64_t start, uint64_t bytes)
{
    uint8_t *bottom = (uint8_t *)start;
    h->piece[piece] = (struct piece){bottom, bottom, bottom + bytes, claimed_first(bottom, bottom + bytes)};
}

/* Whether there may be no room for one more block. */
static bool heap_full(struct heap *h)
{
    if (!h->at && h->piece[0].top + ARENA_MARGIN > h->piece[0].end)
        h->at = 1;
    return h->piece[h->at].top + ARENA_MARGIN > h->piece[h->at].end;
}

void *heap_alloc(struct heap *h, size_t n)
{
    struct piece *piece = &h->piece[h->at];
    void *p = piece->top;
    n = (n + 7) & ~(size_t)7;
    if (piece->top + n > piece->end)
        rt_die("descriptor memory is full; bytes", n);
    claim(&piece->claimed, piece->top + n, piece->end);
    piece->top += n;
    return p;
}

void heap_trim(struct heap *h, void *end)
{
    h->piece[h->at].top = (uint8_t *)(((uintptr_t)end + 7) & ~(uintptr_t)7);
}

void *rt_alloc(size_t n) { return heap_alloc(&now->heap, n); }

size_t rt_kept_left(void) { return (size_t)((uint8_t *)CACHE_KEPT_END - kept); }

void *rt_alloc_kept(size_t n)
{
    void *p = kept;
    n = (n + 7) & ~(size_t)7;
    if (kept + n > (uint8_t *)CACHE_KEPT_END)
        rt_die("kept memory is full; bytes", n);
    kept += n;
    return p;
}

#define LOW_END 0x80000000ul /* below, everything reaches everything */

static bool near(uint64_t a, uint64_t b)
{
    uint64_t d = a > b ? a - b : b - a;
    return d < 0x60000000 || (a < LOW_END && b < LOW_END);
}

_Static_assert(COFI__FAST_ARENAS_BYTES == ARENAS * GENERATIONS * ARENA_BYTES, "what limits have room for [limits.h]");

#define ROOM 0x310000000000ul /* far from the guest's memory, near which arenas are to lie */

/* Address space for the arenas to come, where the guest's is limited: what is ours of it does not change then. */
static uint64_t room, room_end;

/* Memory to write and execute; where the guest has all new memory locked, this is not, for that would fill it. It
 * does not count to what the guest may lock either, but for a page: that is unlocked, and what grows is as it was. */
static long map_code(uint64_t want, uint64_t bytes, uint64_t flags)
{
    const uint64_t rights = PROT_READ | PROT_EXEC | (rt.control->claims && !rt.filtered ? 0 : PROT_WRITE);
    flags |= MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    if (!rt.locks)
        return sys(SYS_mmap, want, bytes, rights, flags, (uint64_t)-1, 0);
    long page = sys(SYS_mmap, want, PAGE, PROT_NONE, flags, (uint64_t)-1, 0);
    if (page <= 0)
        return page;
    sys(SYS_munlock, (uint64_t)page, PAGE, 0, 0, 0, 0);
    long got = sys(SYS_mremap, (uint64_t)page, PAGE, bytes, flags & MAP_FIXED_NOREPLACE ? 0 : MREMAP_MAYMOVE, 0, 0);
    if (got > 0)
        sys(SYS_mprotect, (uint64_t)got, bytes, rights, 0, 0, 0);
    else
        sys(SYS_munmap, (uint64_t)page, PAGE, 0, 0, 0, 0);
    return got;
}

/* The lock is held. Where there is none (the kernel has no memory to promise), the guest has more than
 * it has asked for. */
void arena_hold_room(void)
{
    uint64_t bytes = COFI__FAST_ARENAS_BYTES - (generations[0].count + generations[1].count) * ARENA_BYTES;
    if (room_end || !bytes)
        return;
    long got = map_code(ROOM, bytes, 0);
    room = got > 0 ? (uint64_t)got : 0;
    room_end = got > 0 ? room + bytes : 0;
}

/* An arena is about to take its place; or has not. Whether there was any. */
static bool use_room(void)
{
    if (room_end == room)
        return false;
    room_end -= ARENA_BYTES;
    sys(SYS_munmap, room_end, ARENA_BYTES, 0, 0, 0, 0);
    return true;
}

static void give_room_back(void)
{
    if (map_code(room_end, ARENA_BYTES, MAP_FIXED_NOREPLACE) == (long)room_end)
        room_end += ARENA_BYTES;
}

static bool map_arena_at(struct arena *a, uint64_t base)
{
    a->base = (uint8_t *)base;
    return map_code(base, ARENA_BYTES, MAP_FIXED_NOREPLACE) == (long)base;
}

static bool map_arena_below(struct arena *a, uint64_t end)
{
    while (end >= 2 * ARENA_BYTES)
        if (map_arena_at(a, end -= ARENA_BYTES))
            return true;
    return false;
}

/* For code below 2 GB: before the program, if there is room, else below the runtime, as far as can be from the
 * break, which begins up to 1 GB above the program and grows up to what it comes to. Not between the program
 * and the break, though there is often room: later runs, whose break begins elsewhere, are to have shared code
 * at the same place. */
static bool map_low_arena(struct arena *a, uint64_t pc)
{
    return map_arena_below(a, pc & -(uint64_t)ARENA_BYTES) || map_arena_below(a, COFI__FAST_RUNTIME_BASE);
}

/* Reserve an arena so near to pc that RIP-relative operands reach from it. */
static bool map_arena_near(struct arena *a, uint64_t pc)
{
    if (pc < LOW_END && map_low_arena(a, pc))
        return true;
    static const int64_t tries[] = {-0x20000000, -0x28000000, -0x30000000, -0x38000000, -0x18000000, 0x20000000,
                                    0x28000000, 0x30000000, 0x38000000, -0x40000000, 0x40000000, -0x50000000};
    for (unsigned i = 0; i < sizeof tries / sizeof tries[0]; i++) {
        uint64_t want = (pc + (uint64_t)tries[i]) & ~(uint64_t)0x1fffff;
        if (want + ARENA_BYTES > 0x7fffff000000)
            continue;
        if (map_arena_at(a, want))
            return true;
    }
    long got = map_code(0, ARENA_BYTES, 0);
    a->base = (uint8_t *)got;
    return got > 0;
}

static void begin_arena(struct arena *a)
{
    a->hot = a->first_hot;
    a->cold = a->first_cold;
    claim_code(a);
    translate_doors(a);
    __atomic_store_n(&a->blocks, 0, __ATOMIC_RELEASE);
}

void arena_place(struct arena *a, uint64_t first_hot, uint64_t first_cold)
{
    a->first_hot = a->base + first_hot;
    a->first_cold = a->base + first_cold;
    a->hot_claimed = claimed_first(a->first_hot, a->base + ARENA_HOT);
    a->cold_claimed = claimed_first(a->first_cold, a->base + ARENA_BYTES);
    arena_use_huge_pages((uint64_t)a->first_hot + SMALL, (uint64_t)a->base + ARENA_HOT);
    arena_use_huge_pages((uint64_t)a->first_cold + SMALL, (uint64_t)a->base + ARENA_BYTES);
    begin_arena(a);
}

/* At base, or near pc where that is 0. */
static struct arena *add_arena(struct module *m, struct heap *heap, uint64_t base, uint64_t pc)
{
    struct arena *a = &now->arenas[now->count];
    bool used = use_room();
    if (base ? !map_arena_at(a, base) : !map_arena_near(a, pc)) {
        if (used)
            give_room_back();
        return NULL;
    }
    keep_out_of_cores((uint64_t)a->base, ARENA_BYTES);
    unsigned number = (unsigned)(now - generations) * ARENAS + now->count;
    a->index = (uint32_t *)(CACHE_INDEX + number * CACHE_INDEX_BYTES);
    arena_claim((uint64_t)a->index, (uint64_t)a->index + CACHE_INDEX_BYTES);
    a->heap = heap;
    a->module = m;
    if (!base)
        arena_place(a, (uint64_t)(first_use(a->base) - a->base), (uint64_t)(first_use(a->base + ARENA_HOT) - a->base));
    now->count++;
    return a;
}

struct arena *arena_for_module(struct module *m, struct heap *heap, uint64_t base, uint64_t pc)
{
    unsigned own = 0;
    for (unsigned i = 0; i < now->count; i++)
        own += !now->arenas[i].module;
    unsigned left = ARENAS - now->count, reserve = own < 2 ? 2 - own : 0; /* for what is in no module */
    return left > reserve ? add_arena(m, heap, base, pc) : NULL;
}

/* The arena for what lies near pc and is not shared. */
static struct arena *own_arena(uint64_t pc)
{
    struct arena *any = NULL;
    for (unsigned i = 0; i < now->count; i++) {
        struct arena *a = &now->arenas[i];
        if (!a->module && near((uint64_t)a->base, pc))
            return a;
        any = a->module ? any : a;
    }
    if (now->count == ARENAS && any)
        return any;
    struct arena *a = add_arena(NULL, &now->heap, 0, pc);
    if (!a)
        rt_die("no memory for translated code near", pc);
    return a;
}

/* The arena, of any generation, that holds an address. Lock-free: used by signal handlers. */
const struct arena *arena_at(uint64_t address)
{
    for (unsigned g = 0; g < GENERATIONS; g++)
        for (unsigned i = 0; i < generations[g].count; i++) {
            const struct arena *a = &generations[g].arenas[i];
            if (address >= (uint64_t)a->base && address < (uint64_t)a->base + ARENA_BYTES)
                return a;
        }
    return NULL;
}

/* The number-th stretch of memory that arenas lie in, or are to; false: there are no more. Lock-free, too. */
bool arena_number(unsigned number, struct span *arena)
{
    for (unsigned g = 0; g < GENERATIONS; g++) {
        if (number < generations[g].count) {
            arena->start = (uint64_t)generations[g].arenas[number].base;
            arena->end = arena->start + ARENA_BYTES;
            return true;
        }
        number -= generations[g].count;
    }
    *arena = (struct span){room, room_end};
    return number == 0;
}

/* Whether there may be no room between `used` and end, of memory that is used from first on. */
static bool is_full(const uint8_t *first, const uint8_t *used, const uint8_t *end)
{
    return used + ARENA_MARGIN > first + usable((size_t)(end - first));
}

/* Whether there may be no room for one more block. */
static bool has_no_room(const struct arena *a)
{
    struct heap *h = a->heap;
    size_t blocks = a->module ? SHARE_BLOCKS : CACHE_INDEX_BYTES / sizeof *a->index;
    return is_full(a->first_hot, a->hot, a->base + ARENA_HOT) ||
           is_full(a->first_cold, a->cold, a->base + ARENA_BYTES) || heap_full(h) ||
           h->next_count + 2 > h->counts_end || a->blocks + 1 >= blocks;
}

struct arena *arena_for(const struct region *r, uint64_t pc)
{
    struct arena *a = share_arena(r);
    a = a && !has_no_room(a) ? a : own_arena(pc);
    claim_code(a);
    return a;
}

/* What rt_alloc gives lies in our own heap, whose code is in a module's arena, perhaps, all of it. */
bool arena_full(const struct region *r, uint64_t pc)
{
    return cache_full() || heap_full(&now->heap) || has_no_room(arena_for(r, pc));
}

/* No thread is in translated code, nor will be. */
void arena_unmap(void)
{
    for (unsigned g = 0; g < GENERATIONS; g++)
        for (unsigned i = 0; i < generations[g].count; i++)
            sys(SYS_munmap, (uint64_t)generations[g].arenas[i].base, ARENA_BYTES, 0, 0, 0, 0);
    if (room_end > room)
        sys(SYS_munmap, room, room_end - room, 0, 0, 0, 0);
}

static bool is_inside(const struct thread *t, uint64_t epoch)
{
    return __atomic_load_n(&t->inside, __ATOMIC_ACQUIRE) == epoch;
}

static void give_back(void *from, const void *to)
{
    uint64_t bytes = ((uint64_t)to - (uint64_t)from + 4095) & ~(uint64_t)4095;
    sys(SYS_madvise, (uint64_t)from, bytes, MADV_DONTNEED, 0, 0, 0);
}

/* The pool lies in a huge page, which is not to be split. */
static void heap_empty(struct heap *h)
{
    memset(h->piece[0].bottom, 0, (size_t)(h->piece[0].top - h->piece[0].bottom));
    give_back(h->piece[1].bottom, h->piece[1].top);
    give_back(h->counts, h->next_count);
    h->piece[0].top = h->piece[0].bottom;
    h->piece[1].top = h->piece[1].bottom;
    h->at = 0;
    h->next_count = h->counts;
}

static void empty(struct generation *g)
{
    for (unsigned i = 0; i < g->count; i++) {
        struct arena *a = &g->arenas[i];
        give_back(a->first_hot, a->hot);
        give_back(a->first_cold, a->cold);
        give_back(a->index, a->index + a->blocks);
        a->heap = &g->heap;
        a->module = NULL;
        begin_arena(a);
    }
    heap_empty(&g->heap);
}

/* All of the generation in use has been unlinked: use the other one. Threads have had the time in which
 * this one was filled to leave that, so there is rarely anything to wait for; if there is, false, after
 * a moment without the lock. */
bool arena_next_generation(void)
{
    struct generation *next = &generations[now == generations];
    if (next->epoch && threads_any(is_inside, next->epoch)) {
        uint64_t pause[2] = {0, 100000};
        rt_unlock();
        sys(SYS_nanosleep, (uint64_t)pause, 0, 0, 0, 0, 0);
        rt_lock();
        return false;
    }
    empty(next);
    next->epoch = ++rt.epoch;
    now = next;
    __atomic_add_fetch(&rt.control->flushes, 1, __ATOMIC_RELAXED);
    return true;
}
