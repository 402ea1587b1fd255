/* SPDX-License-Identifier: MIT
 * Translated blocks: memory near the guest's code, lookup by guest address and by code address, links. */
#include <sys/mman.h>
#include <sys/syscall.h>

#include "host/fast/rt/cache.h"

enum { BUCKETS = 1 << 17 };

static struct block **const buckets = (struct block **)CACHE_HASH;
static uint64_t *const ibl = (uint64_t *)CACHE_IBL;
/* Blocks made from pages that are watched for writes, youngest first. */
static struct block *watched_blocks;

static void forget_ibl(void)
{
    for (unsigned i = 0; i < MODES * CACHE_IBL_BYTES / 8; i++)
        __atomic_store_n(&ibl[i], (uint64_t)rt_miss, __ATOMIC_RELAXED);
}

void cache_init(void)
{
    arena_init();
    forget_ibl();
}

/* Where the table has a block. */
static uint64_t *ibl_entry(const struct block *b)
{
    return &ibl[b->mode * CACHE_IBL_BYTES / 8 + (b->pc & 0xffff)];
}

static unsigned bucket(uint64_t pc)
{
    return (unsigned)((pc * 0x9e3779b97f4a7c15ul) >> 47);
}

struct block *cache_find(uint64_t pc, unsigned mode, bool arrived)
{
    for (struct block *b = buckets[bucket(pc)]; b; b = b->next)
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
    if ((a->blocks + 1) * sizeof(struct block *) > CACHE_INDEX_BYTES)
        rt_die("block index is full", a->blocks);
    a->index[a->blocks] = b;
    __atomic_store_n(&a->blocks, a->blocks + 1, __ATOMIC_RELEASE);
    struct block **head = &buckets[bucket(b->pc)];
    b->next = *head;
    *head = b;
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
    if (b->arrived)
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
    b->dead = true;
}

/* Forget every block made from guest bytes in [start, end). */
void cache_invalidate(uint64_t start, uint64_t end)
{
    for (unsigned i = 0; i < BUCKETS; i++)
        for (struct block **b = &buckets[i]; *b;) {
            if ((*b)->low < end && start < (*b)->high) {
                kill_block(*b);
                *b = (*b)->next;
            } else {
                b = &(*b)->next;
            }
        }
}

void cache_watch(struct block *b)
{
    b->next_watched = watched_blocks;
    watched_blocks = b;
}

static void unhash(struct block *b)
{
    struct block **p = &buckets[bucket(b->pc)];
    while (*p && *p != b)
        p = &(*p)->next;
    if (*p)
        *p = b->next;
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

/* Nobody finds a block any more: the next generation is empty. The lock is held by a thread that is not inside. */
void cache_flush(void)
{
    for (unsigned i = 0; i < BUCKETS; i++) {
        for (struct block *b = buckets[i]; b; b = b->next)
            kill_block(b);
        buckets[i] = NULL;
    }
    forget_ibl();
    watched_blocks = NULL;
    arena_next_generation();
}
