/* SPDX-License-Identifier: MIT
 * Translated blocks: memory near the guest's code, lookup by guest address and by code address, links. */
#include <sys/mman.h>
#include <sys/syscall.h>

#include "host/fast/rt/cache.h"

enum { BUCKETS = 1 << 17 };

/* Heads of chains, whose addresses fit 32 bits. */
static uint32_t *const buckets = (uint32_t *)CACHE_HASH;
static uint64_t *const ibl = (uint64_t *)CACHE_IBL;
static bool ibl_ready[MODES];
/* rt_miss looks here. key: pc + 1. */
static struct second { uint64_t key, code; } *const ibl2 = (struct second *)CACHE_IBL2;
enum { IBL_ENTRIES = CACHE_IBL_BYTES / 8, IBL2_ENTRIES = CACHE_IBL_BYTES / sizeof(struct second) };
_Static_assert(CACHE_IBL == 0x70200000 && CACHE_IBL2 == 0x70500000 && CACHE_IBL_BYTES == 1 << 19, "entry.S");
_Static_assert(IBL2_ENTRIES - 1 == 0x7fff, "entry.S");
/* Blocks made from pages that are watched for writes, youngest first. */
static struct block *watched_blocks;

static void forget_ibl(unsigned mode)
{
    for (unsigned i = 0; i < IBL_ENTRIES; i++)
        __atomic_store_n(&ibl[mode * IBL_ENTRIES + i], (uint64_t)rt_miss, __ATOMIC_RELAXED);
    for (unsigned i = 0; ibl_ready[mode] && i < IBL2_ENTRIES; i++)
        __atomic_store_n(&ibl2[mode * IBL2_ENTRIES + i].key, 0, __ATOMIC_RELAXED);
    ibl_ready[mode] = true;
}

void cache_init(void)
{
    arena_init();
}

/* Where the tables have a block. */
static uint64_t *ibl_entry(const struct block *b)
{
    return &ibl[b->mode * IBL_ENTRIES + (b->pc & 0xffff)];
}

static struct second *ibl2_entry(const struct block *b)
{
    return &ibl2[b->mode * IBL2_ENTRIES + ((b->pc ^ b->pc >> 15) & (IBL2_ENTRIES - 1))];
}

static void put_second(struct second *s, uint64_t key, uint64_t code)
{
    __atomic_store_n(&s->key, 0, __ATOMIC_RELEASE); /* a key with another's code is noticed on arrival */
    __atomic_store_n(&s->code, code, __ATOMIC_RELEASE);
    __atomic_store_n(&s->key, key, __ATOMIC_RELEASE);
}

static unsigned bucket(uint64_t pc)
{
    return (unsigned)(pc ^ pc >> 17) & (BUCKETS - 1); /* neighbours lie together */
}

static struct block *chain_of(uint64_t pc)
{
    return (struct block *)(uintptr_t)buckets[bucket(pc)];
}

/* The block at pc is about to be looked for. */
void cache_prefetch(uint64_t pc)
{
    __builtin_prefetch(&buckets[bucket(pc)]);
}

struct block *cache_find(uint64_t pc, unsigned mode, bool arrived)
{
    for (struct block *b = chain_of(pc); b; b = b->next)
        if (b->pc == pc && b->mode == mode && b->arrived == arrived)
            return b;
    return NULL;
}

static const uint8_t *start_of(const struct block *b, bool cold)
{
    return cold ? b->cold_start : b->code_start;
}

/* The block whose code holds the address, dead ones included. Lock-free: used by signal handlers. */
struct block *cache_find_code(const uint8_t *code)
{
    const struct arena *a = arena_at((uint64_t)code);
    if (!a)
        return NULL;
    bool cold = code >= a->base + ARENA_HOT;
    size_t low = 0, high = __atomic_load_n(&a->blocks, __ATOMIC_ACQUIRE);
    if (!high || code < start_of(a->index[0], cold))
        return NULL;
    while (high - low > 1) {
        size_t mid = (low + high) / 2;
        if (start_of(a->index[mid], cold) <= code)
            low = mid;
        else
            high = mid;
    }
    return a->index[low];
}

/* The exit whose outcomes the instruction at code logs, or null. */
struct exit *cache_exit_at(const struct block *b, const uint8_t *code)
{
    for (unsigned i = 0; i < b->exits; i++)
        if (b->exit[i].store == code)
            return &b->exit[i];
    return NULL;
}

void cache_add(struct arena *a, struct block *b)
{
    if (!ibl_ready[b->mode])
        forget_ibl(b->mode);
    if ((a->blocks + 1) * sizeof(struct block *) > CACHE_INDEX_BYTES)
        rt_die("block index is full", a->blocks);
    a->index[a->blocks] = b;
    __atomic_store_n(&a->blocks, a->blocks + 1, __ATOMIC_RELEASE);
    b->next = chain_of(b->pc);
    buckets[bucket(b->pc)] = (uint32_t)(uintptr_t)b;
}

static void patch(uint8_t *jump, const uint8_t *to)
{
    int32_t rel = (int32_t)(to - (jump + 5));
    __atomic_store_n((int32_t *)(jump + 1), rel, __ATOMIC_RELEASE);
}

static bool reaches(const uint8_t *from, const uint8_t *to)
{
    int64_t d = to - from;
    return d > -0x7fff0000l && d < 0x7fff0000l;
}

void cache_link(struct exit *e, struct block *b)
{
    if (!e->jump || e->to || b->dead || !reaches(e->jump, b->code))
        return;
    e->to = b;
    e->next_in = b->incoming;
    b->incoming = e;
    patch(e->jump, b->code);
}

/* Let indirect transfers find the block. */
void cache_ibl(struct block *b)
{
    if (!b->arrived)
        return;
    put_second(ibl2_entry(b), b->pc + 1, (uint64_t)b->code_start);
    __atomic_store_n(ibl_entry(b), (uint64_t)b->code_start, __ATOMIC_RELEASE);
}

static void unlink_out(struct block *b)
{
    for (unsigned i = 0; i < b->exits; i++) {
        struct block *to = b->exit[i].to;
        if (!to)
            continue;
        struct exit **e = &to->incoming;
        while (*e && *e != &b->exit[i])
            e = &(*e)->next_in;
        if (*e)
            *e = b->exit[i].next_in;
        b->exit[i].to = NULL;
    }
}

/* Nobody enters the block any more; a thread inside leaves by its exits, which go to the runtime. */
static void kill_block(struct block *b)
{
    for (struct exit *e = b->incoming; e; e = e->next_in) {
        patch(e->jump, e->stub);
        e->to = NULL;
    }
    b->incoming = NULL;
    unlink_out(b);
    for (unsigned i = 0; i < b->exits; i++)
        if (b->exit[i].jump)
            patch(b->exit[i].jump, b->exit[i].stub);
    if (b->arrived && *ibl_entry(b) == (uint64_t)b->code_start)
        __atomic_store_n(ibl_entry(b), (uint64_t)rt_miss, __ATOMIC_RELEASE);
    if (b->arrived && ibl2_entry(b)->key == b->pc + 1)
        put_second(ibl2_entry(b), 0, 0);
    b->dead = true;
}

static void unhash(struct block *b)
{
    uint32_t *head = &buckets[bucket(b->pc)];
    struct block *p = chain_of(b->pc);
    if (p == b) {
        *head = (uint32_t)(uintptr_t)b->next;
        return;
    }
    while (p && p->next != b)
        p = p->next;
    if (p)
        p->next = b->next;
}

/* Forget every block made from guest bytes in [start, end). */
void cache_invalidate(uint64_t start, uint64_t end)
{
    for (unsigned i = 0; i < BUCKETS; i++) {
        struct block *next;
        for (struct block *b = (struct block *)(uintptr_t)buckets[i]; b; b = next) {
            next = b->next;
            if (b->low < end && start < b->high) {
                kill_block(b);
                unhash(b);
            }
        }
    }
}

void cache_watch(struct block *b)
{
    b->next_watched = watched_blocks;
    watched_blocks = b;
}

/* cache_invalidate for a watched page: only such blocks can lie there. */
void cache_invalidate_watched(uint64_t start, uint64_t end)
{
    for (struct block **p = &watched_blocks; *p;) {
        struct block *b = *p;
        if (!b->dead && b->low < end && start < b->high) {
            kill_block(b);
            unhash(b);
        }
        if (b->dead)
            *p = b->next_watched;
        else
            p = &b->next_watched;
    }
}

/* Who came to `old` by a link comes to b from now on, which is of the same instructions. */
void cache_replace(struct block *old, struct block *b)
{
    struct exit *in = old->incoming;
    kill_block(old);
    unhash(old);
    while (in) {
        struct exit *next = in->next_in;
        cache_link(in, b);
        in = next;
    }
}

/* Nobody finds a block any more. */
static void forget_all(void)
{
    for (unsigned i = 0; i < BUCKETS; i++) {
        for (struct block *b = (struct block *)(uintptr_t)buckets[i]; b; b = b->next)
            kill_block(b);
        buckets[i] = 0;
    }
    for (unsigned mode = 0; mode < MODES; mode++)
        if (ibl_ready[mode])
            forget_ibl(mode);
    watched_blocks = NULL;
}

/* Go on in the next generation, which is empty. The lock is held by a thread that is not inside, and is given up while somebody is
 * inside of the next one: that one may be waiting for it, at a write to watched code. So others may have made blocks
 * meanwhile, or have flushed. */
void cache_flush(void)
{
    uint64_t epoch = rt.epoch;
    do
        forget_all();
    while (!arena_next_generation() && rt.epoch == epoch);
}
