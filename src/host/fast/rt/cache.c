/* SPDX-License-Identifier: MIT
 * Translated blocks: memory near the guest's code, lookup by guest address and by code address, links. */
#include <sys/mman.h>
#include <sys/syscall.h>

#include "host/fast/rt/cache.h"
#include "host/fast/rt/key.h"

/* All blocks by guest address: a table with open addressing, half full at most, which grows into the
 * next of its places. The first lies in a huge page that is there anyway; those after it are used for
 * more than a page or two, so they share one as far as that goes. */
static struct entry { uint32_t key, block; } *table;
static uint32_t entries, used;
enum { ENTRIES_FIRST = 1 << 13, ENTRIES_MAX = 1 << 21 };
static struct entry *const first_table = (struct entry *)CACHE_HASH_FIRST;
static struct entry *const second_table = (struct entry *)CACHE_HASH;
_Static_assert(ENTRIES_FIRST * sizeof(struct entry) <= CACHE_HASH_FIRST_BYTES, "room for the first table");
_Static_assert((2ul * ENTRIES_MAX - 2ul * ENTRIES_FIRST) * sizeof(struct entry) <= CACHE_HASH_BYTES,
               "room for all others");

static uint64_t *const ibl = (uint64_t *)CACHE_IBL;
static bool ibl_ready[MODES];
/* rt_miss looks here. key: pc + 1. */
static struct second { uint64_t key, code; } *const ibl2 = (struct second *)CACHE_IBL2;
enum {
    IBL_ENTRIES = CACHE_IBL_BYTES / 8,
    IBL2_ENTRIES = CACHE_IBL_BYTES / sizeof(struct second),
    IBL_STRIDE = CACHE_IBL_STRIDE / 8,
    IBL2_STRIDE = CACHE_IBL_STRIDE / sizeof(struct second)
};
_Static_assert(CACHE_IBL == 0x6e200000 && CACHE_IBL2 == 0x6e280000 && CACHE_IBL_STRIDE == 1 << 21, "entry.S");
_Static_assert(IBL2_ENTRIES - 1 == 0x7fff, "entry.S");
_Static_assert(CACHE_IBL + MODES * CACHE_IBL_STRIDE <= CACHE_HASH, "the tables' places");
_Static_assert(!MODE_TRACED && CACHE_SMALL == 0x6e300000 && CACHE_HASH_FIRST == 0x6e320000, "rt.ld");

/* Of a target whose low 16 bits no other one has had, the second table has nothing, either: it is not asked. */
static void forget_ibl(unsigned mode)
{
    for (unsigned i = 0; i < IBL_ENTRIES; i++)
        __atomic_store_n(&ibl[mode * IBL_STRIDE + i], (uint64_t)rt_miss_slow, __ATOMIC_RELAXED);
    for (unsigned i = 0; ibl_ready[mode] && i < IBL2_ENTRIES; i++)
        __atomic_store_n(&ibl2[mode * IBL2_STRIDE + i].key, 0, __ATOMIC_RELAXED);
    ibl_ready[mode] = true;
}

void cache_init(void)
{
    arena_init();
    table = first_table;
    entries = ENTRIES_FIRST;
}

static struct entry *first_of(uint32_t key)
{
    return &table[place_of(key, entries)];
}

static struct entry *after(struct entry *e)
{
    return e + 1 == table + entries ? table : e + 1;
}

static void table_put(uint32_t key, uint32_t block)
{
    struct entry *e = first_of(key);
    while (e->block)
        e = after(e);
    *e = (struct entry){key, block};
    used++;
}

/* Give memory of a table back. */
static void discard(const struct entry *from, uint32_t n)
{
    sys(SYS_madvise, (uint64_t)from, n * sizeof *from, MADV_DONTNEED, 0, 0, 0);
}

/* Whether there may be no room for one more block. */
bool cache_full(void)
{
    return 2 * used >= ENTRIES_MAX;
}

static void table_grow(void)
{
    struct entry *old = table;
    uint32_t n = entries;
    table = old == first_table ? second_table : old + n;
    entries = 2 * n;
    arena_claim((uint64_t)table, (uint64_t)(table + entries));
    used = 0;
    for (uint32_t i = 0; i < n; i++)
        if (old[i].block)
            table_put(old[i].key, old[i].block);
    if (n * sizeof *old >= HUGE) /* a part of a huge page is not given back: cache_flush does that */
        discard(old, n);
}

/* Where the tables have a target. */
static uint64_t *ibl_entry(uint64_t pc, unsigned mode)
{
    return &ibl[mode * IBL_STRIDE + (pc & 0xffff)];
}

static struct second *ibl2_entry(uint64_t pc, unsigned mode)
{
    return &ibl2[mode * IBL2_STRIDE + ((pc ^ pc >> 15) & (IBL2_ENTRIES - 1))];
}

static void put_second(struct second *s, uint64_t key, uint64_t code)
{
    __atomic_store_n(&s->key, 0, __ATOMIC_RELEASE); /* a key with another's code is noticed on arrival */
    __atomic_store_n(&s->code, code, __ATOMIC_RELEASE);
    __atomic_store_n(&s->key, key, __ATOMIC_RELEASE);
}

/* The block at pc is about to be looked for, and made perhaps. */
void cache_prefetch(uint64_t pc, unsigned mode, bool arrived)
{
    __builtin_prefetch(first_of(key_of(pc, mode, arrived)));
    __builtin_prefetch((const void *)pc); /* a prefetch never faults */
    __builtin_prefetch((const void *)(pc + 48)); /* as far as most blocks go, which is the next line often */
    if (arrived)
        __builtin_prefetch(ibl2_entry(pc, mode), 1);
}

struct block *cache_find(uint64_t pc, unsigned mode, bool arrived)
{
    uint32_t key = key_of(pc, mode, arrived);
    for (struct entry *e = first_of(key); e->block; e = after(e)) {
        struct block *b = block_at(e->block);
        if (e->key == key && b->pc == pc && b->mode == mode && b->arrived == arrived)
            return b;
    }
    return NULL;
}

static const uint8_t *start_of(const struct block *b, bool cold)
{
    return cold ? b->code_start + b->cold_start : b->code_start;
}

/* The block whose code holds the address, dead ones included. Lock-free: used by signal handlers. */
struct block *cache_find_code(const uint8_t *code)
{
    const struct arena *a = arena_at((uint64_t)code);
    if (!a)
        return NULL;
    bool cold = code >= a->base + ARENA_HOT;
    size_t low = 0, high = __atomic_load_n(&a->blocks, __ATOMIC_ACQUIRE);
    if (!high || code < start_of(block_at(a->index[0]), cold))
        return NULL;
    while (high - low > 1) {
        size_t mid = (low + high) / 2;
        if (start_of(block_at(a->index[mid]), cold) <= code)
            low = mid;
        else
            high = mid;
    }
    return block_at(a->index[low]);
}

static uint8_t *store_of(const struct exit *e)
{
    const struct block *b = exit_block(e);
    return b->code_start + (e->in_cold ? b->cold_start : 0) + e->store;
}

static uint8_t *stub_of(const struct exit *e)
{
    const struct block *b = exit_block(e);
    return b->code_start + b->cold_start + e->stub;
}

/* The exit whose outcomes the instruction at code logs, or null. */
const struct exit *cache_exit_at(const struct block *b, const uint8_t *code)
{
    const struct exit *e = block_exits(b);
    for (unsigned i = 0; i < b->exits; i++)
        if (e[i].store != NO_STORE && store_of(&e[i]) == code)
            return &e[i];
    return NULL;
}

/* Let indirect transfers find the block. */
void cache_ibl(struct block *b)
{
    if (!b->arrived)
        return;
    put_second(ibl2_entry(b->pc, b->mode), b->pc + 1, (uint64_t)b->code_start);
    __atomic_store_n(ibl_entry(b->pc, b->mode), (uint64_t)b->code_start, __ATOMIC_RELEASE);
}

/* Let the block be found, by who looks for it, and by indirect transfers where these may link to it. */
static void enter(struct block *b, bool link)
{
    if (!ibl_ready[b->mode])
        forget_ibl(b->mode);
    if (2 * used >= entries)
        table_grow();
    table_put(key_of(b->pc, b->mode, b->arrived), address_of(b));
    if (link)
        cache_ibl(b);
}

void cache_add(struct arena *a, struct block *b)
{
    if ((a->blocks + 1) * sizeof *a->index > CACHE_INDEX_BYTES)
        rt_die("block index is full", a->blocks);
    a->index[a->blocks] = address_of(b);
    __atomic_store_n(&a->blocks, a->blocks + 1, __ATOMIC_RELEASE);
    enter(b, false);
}

static void patch(const struct exit *e, const uint8_t *to)
{
    uint8_t *jump = store_of(e) + e->jump;
    int32_t rel = (int32_t)(to - (jump + 5));
    __atomic_store_n((int32_t *)(jump + 1), rel, __ATOMIC_RELEASE);
}

static bool reaches(const uint8_t *from, const uint8_t *to)
{
    int64_t d = to - from;
    return d > -0x7fff0000l && d < 0x7fff0000l;
}

/* Where links lead to. */
static const uint8_t *entry_of(const struct block *b)
{
    return b->code_start + b->entry;
}

void cache_link(struct exit *e, struct block *b)
{
    const uint8_t *code = entry_of(b);
    if (!e->jump || e->to || b->dead || exit_block(e)->dead || !reaches(store_of(e) + e->jump, code))
        return;
    e->to = address_of(b);
    e->next_in = b->incoming;
    b->incoming = address_of(e);
    patch(e, code);
}

/* Let no thread in that arrives at the block, or let them in again: the address that it compares the
 * target with becomes one that no target has, and back. For a thread may read the block's place before
 * it is forgotten, and put that into the table after. */
static void turn_arrival(const struct block *b)
{
    if (b->arrived)
        __atomic_store_n(b->code_start + ARRIVAL_TOP, b->code_start[ARRIVAL_TOP] ^ 0x80, __ATOMIC_RELEASE);
}

/* Nobody enters the block any more; a thread inside leaves by its exits, which go to the runtime. Once:
 * a second time would let threads arrive. Its exits stay in the lists of those that they were linked to,
 * as long as these live: whole programs link to some blocks. */
static void kill_block(struct block *b)
{
    const struct exit *exits = block_exits(b);
    if (b->dead)
        return;
    for (struct exit *e = exit_at(b->incoming); e; e = exit_at(e->next_in)) {
        if (!exit_block(e)->dead)
            patch(e, stub_of(e));
        e->to = 0;
    }
    b->incoming = 0;
    for (unsigned i = 0; i < b->exits; i++)
        if (exits[i].jump)
            patch(&exits[i], stub_of(&exits[i]));
    if (b->arrived && *ibl_entry(b->pc, b->mode) == (uint64_t)b->code_start)
        __atomic_store_n(ibl_entry(b->pc, b->mode), (uint64_t)rt_miss, __ATOMIC_RELEASE);
    if (b->arrived && ibl2_entry(b->pc, b->mode)->key == b->pc + 1) /* its code stays: who has read the
                                                                     * key reads that next */
        __atomic_store_n(&ibl2_entry(b->pc, b->mode)->key, 0, __ATOMIC_RELEASE);
    turn_arrival(b);
    b->dead = true;
}

/* A block that was forgotten is as it was, and found again. */
void cache_wake(struct block *b)
{
    const struct exit *exits = block_exits(b);
    for (unsigned i = 0; i < b->exits; i++)
        if (exits[i].to)
            patch(&exits[i], entry_of(block_at(exits[i].to)));
    b->dead = false;
    turn_arrival(b);
    enter(b, false);
}

/* Whether an entry that begins its search at `first` may lie at `hole`, which comes before `here`. */
static bool may_move(const struct entry *first, const struct entry *hole, const struct entry *here)
{
    return hole <= here ? first <= hole || first > here : first <= hole && first > here;
}

/* Those behind it that are found by way of its place move up. */
static void table_remove(struct entry *hole)
{
    for (struct entry *e = after(hole); e->block; e = after(e))
        if (may_move(first_of(e->key), hole, e)) {
            *hole = *e;
            hole = e;
        }
    hole->block = 0;
    used--;
}

static void unhash(const struct block *b)
{
    struct entry *e = first_of(key_of(b->pc, b->mode, b->arrived));
    while (e->block && e->block != address_of(b))
        e = after(e);
    if (e->block)
        table_remove(e);
}

static void forget(struct block *b)
{
    kill_block(b);
    unhash(b);
}

void cache_forget(struct block *b)
{
    rt.forgotten = rdtsc();
    forget(b);
}

/* Forget every block made from guest bytes in [start, end). */
void cache_invalidate(uint64_t start, uint64_t end)
{
    for (uint32_t i = 0; i < entries; i++)
        while (table[i].block && block_overlaps(block_at(table[i].block), start, end))
            cache_forget(block_at(table[i].block)); /* another entry takes its place, perhaps */
    watch_drop(start, end);
}

/* Who came to `old` by a link comes to b from now on, which begins at the same instruction; or, where b
 * may not be linked to, to the runtime. */
void cache_replace(struct block *old, struct block *b, bool link)
{
    struct exit *in = exit_at(old->incoming);
    forget(old);
    while (link && in) {
        struct exit *next = exit_at(in->next_in);
        cache_link(in, b);
        in = next;
    }
}

/* An exit's link, to a block of the same arena or to nothing, as others have left it. */
static void adopt_link(const struct arena *a, struct exit *e)
{
    struct block *b = block_at(e->to);
    if (heap_has(a->heap, b)) {
        e->next_in = b->incoming;
        b->incoming = address_of(e);
    } else {
        e->to = 0;
        patch(e, stub_of(e));
    }
}

void cache_adopt(struct arena *a, uint64_t since)
{
    enum { AHEAD = 8 };
    bool known = trace_all_know(since);
    for (size_t i = 0; i < a->blocks; i++) {
        struct block *b = block_at(a->index[i]);
        struct exit *exits = block_exits(b);
        const struct block *next = block_at(a->index[i + AHEAD < a->blocks ? i + AHEAD : i]);
        __builtin_prefetch(first_of(key_of(next->pc, next->mode, next->arrived)));
        for (unsigned k = 0; k < b->exits; k++)
            if (exits[k].to)
                adopt_link(a, &exits[k]);
        if (!b->dead)
            enter(b, known);
    }
}

/* Nobody finds a block any more. */
static void forget_all(void)
{
    for (uint32_t i = 0; i < entries; i++)
        if (table[i].block)
            kill_block(block_at(table[i].block));
    discard(first_table, ENTRIES_FIRST);
    if (table != first_table)
        discard(second_table, (uint32_t)(table + entries - second_table));
    table = first_table;
    entries = ENTRIES_FIRST;
    used = 0;
    for (unsigned mode = 0; mode < MODES; mode++)
        if (ibl_ready[mode])
            forget_ibl(mode);
    watch_flush();
}

/* Go on in the next generation, which is empty. The lock is held by a thread that is not inside, and is
 * given up while somebody is inside of the next one: that one may be waiting for it, at a write to
 * watched code. So others may have made blocks meanwhile, or have flushed. */
void cache_flush(void)
{
    uint64_t epoch = rt.epoch;
    do
        forget_all();
    while (!arena_next_generation() && rt.epoch == epoch);
}
