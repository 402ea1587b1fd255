/* SPDX-License-Identifier: MIT
 * Blocks whose code may change: found by their place when it has, and used again when it is what it was. */
#include "host/fast/rt/cache.h"

/* Whose code was written, or was no code for a while, sleeps: nobody finds it. Who writes to code writes to a few
 * bytes of a page, of whose blocks most are as they were. What is looked at of many stands here, beside each other. */
struct watch {
    uint32_t block;
    uint32_t next;        /* one that begins in the same KB, or has the same place in the table; 0: none */
    uint64_t low, sum;    /* of the bytes that it was made of: where they are, and what */
    uint32_t pc;          /* its low half */
    uint16_t bytes;
    bool compared;        /* with them at each entry */
    uint8_t slept;        /* how often its code was forgotten, or was another one, since it ran last */
};
_Static_assert(sizeof(struct watch) == 32 && WATCHED_BYTES <= UINT16_MAX, "a compact watch");
enum { SLEEPS_MAX = 4 };

/* By the KB in which they begin. */
enum { PLACE_SHIFT = 10, PLACES = 8192 };
static struct place { uint32_t first, sleeping; } places[PLACES];

static struct place *place_of(uint64_t pc)
{
    return &places[(pc >> PLACE_SHIFT) % PLACES];
}

static struct watch *watch_at(uint32_t address)
{
    return (struct watch *)(uintptr_t)address;
}

/* Of n bytes, or 0: they cannot be read. */
static uint64_t sum_of(uint64_t low, size_t n)
{
    static uint8_t now[WATCHED_BYTES];
    return n > sizeof now || rt_probe(now, (const void *)low, n) ? 0 : cofi__fast_hash(now, n);
}

/* The block's code may change; it compares it with these bytes, if there are any, at its entry. */
void watch_add(struct block *b, const uint8_t *compared)
{
    struct watch *w = rt_alloc(sizeof *w);
    struct place *place = place_of(b->pc);
    uint64_t low = block_low(b);
    size_t n = block_high(b) - low;
    uint64_t sum = compared ? cofi__fast_hash(compared, n) : sum_of(low, n);
    *w = (struct watch){address_of(b), place->first, low, sum, (uint32_t)b->pc, (uint16_t)n, compared, 0};
    place->first = address_of(w);
}

/* Why blocks are forgotten. */
enum reason {
    DROPPED,  /* what they are made of is not only bytes */
    WRITTEN,  /* their bytes, or may be */
    COMPARED  /* these have noticed */
};

static bool is_meant(const struct watch *w, enum reason why)
{
    return why != COMPARED || (w->compared && sum_of(w->low, w->bytes) != w->sum);
}

static void forget(struct watch *w, enum reason why)
{
    struct block *b = block_at(w->block);
    if (!b->dead)
        cache_forget(b);
    w->slept = why == DROPPED || w->compared || !w->sum ? SLEEPS_MAX : w->slept + 1;
}

static bool overlaps(const struct watch *w, uint64_t start, uint64_t end)
{
    return w->low < end && start < w->low + w->bytes;
}

/* Forget those of one place whose bytes overlap [start, end). */
static void forget_at(struct place *place, uint64_t start, uint64_t end, enum reason why)
{
    uint32_t *to = &place->first;
    place->sleeping = 0;
    while (*to) {
        struct watch *w = watch_at(*to);
        if (overlaps(w, start, end) && is_meant(w, why))
            forget(w, why);
        place->sleeping += w->slept != 0;
        if (w->slept >= SLEEPS_MAX)
            *to = w->next;
        else
            to = &w->next;
    }
}

/* Where blocks may begin whose bytes overlap [start, end): the first place, and how many follow, itself included. */
static uint64_t places_near(uint64_t start, uint64_t end, uint64_t *n)
{
    uint64_t low = start < WATCHED_BYTES ? 0 : start - WATCHED_BYTES,
             high = end > -1ul - WATCHED_BYTES ? -1ul : end + WATCHED_BYTES;
    *n = (high >> PLACE_SHIFT) - (low >> PLACE_SHIFT) + 1;
    if (*n > PLACES)
        *n = PLACES;
    return low;
}

static void forget_range(uint64_t start, uint64_t end, enum reason why)
{
    uint64_t n, low = places_near(start, end, &n);
    for (uint64_t i = 0; i < n; i++)
        forget_at(place_of(low + (i << PLACE_SHIFT)), start, end, why);
}

static void untell_at(const struct place *place, uint64_t start, uint64_t end)
{
    for (struct watch *w = watch_at(place->first); w; w = watch_at(w->next))
        if (w->slept && overlaps(w, start, end))
            block_at(w->block)->untold = true;
}

/* The code of the block is told: that of those which sleep there is not what was told last. */
void watch_told(struct block *b)
{
    uint64_t start = block_low(b), end = block_high(b), n, low = places_near(start, end, &n);
    for (uint64_t i = 0; i < n; i++)
        if (place_of(low + (i << PLACE_SHIFT))->sleeping)
            untell_at(place_of(low + (i << PLACE_SHIFT)), start, end);
    b->untold = false;
}

/* [start, end) may have been written, where all blocks are watched. */
void watch_forget(uint64_t start, uint64_t end)
{
    forget_range(start, end, WRITTEN);
}

/* The code of a block that is compared is about to be told. Others of the same bytes as they were before
 * would run again, untold, if the program put those back. */
void watch_forget_changed(const struct block *b)
{
    forget_range(block_low(b), block_high(b), COMPARED);
}

/* A block that is not watched yet was made of code that has changed meanwhile, and others of that, perhaps. */
void watch_forget_new(struct block *b)
{
    cache_forget(b);
    watch_forget(block_low(b), block_high(b));
}

/* None that sleeps wakes again. */
void watch_drop(uint64_t start, uint64_t end)
{
    forget_range(start, end, DROPPED);
}

void watch_flush(void)
{
    for (unsigned i = 0; i < PLACES; i++)
        places[i] = (struct place){0};
}

/* Whether it sleeps and could be what is asked for, in region r. */
static bool is_like(const struct watch *w, const struct region *r, uint64_t pc, unsigned mode, bool arrived, bool cold)
{
    const struct block *b = block_at(w->block);
    return w->slept && w->slept < SLEEPS_MAX && w->low >= r->start && w->low + w->bytes <= r->end && b->pc == pc &&
           b->mode == mode && b->arrived == arrived && (cold || !b->cold);
}

/* Whether its code is as it was, and writes to it are noticed. */
static bool is_same(const struct watch *w, const struct region *r)
{
    while (pages_protect(r, w->low, w->low + w->bytes)) /* which may give up other pages */
        if (pages_compared(r, w->low))
            return false;
    return w->slept < SLEEPS_MAX && sum_of(w->low, w->bytes) == w->sum;
}

static struct block *wake(struct watch *w)
{
    struct block *b = block_at(w->block);
    place_of(b->pc)->sleeping--;
    w->slept = 0;
    cache_wake(b);
    return b;
}

/* A sleeping block at pc, in region r, whose code is what it was: as if it had been made now. Null: there is none. */
struct block *watch_wake(const struct region *r, uint64_t pc, unsigned mode, bool arrived, bool cold)
{
    for (struct watch *w = watch_at(place_of(pc)->first); w; w = watch_at(w->next)) {
        if (w->pc != (uint32_t)pc || !is_like(w, r, pc, mode, arrived, cold))
            continue;
        if (is_same(w, r))
            return wake(w);
        w->slept++;
    }
    return NULL;
}
