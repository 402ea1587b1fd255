/* SPDX-License-Identifier: MIT
 * Translated code for the next runs of a program, in the memory that all of a recording share, behind the slots. They
 * leave and take it there [rt/share.c]; the collector puts there what earlier recordings have kept [keep.c]. */
#ifndef COFI_HOST_FAST_STORE_H
#define COFI_HOST_FAST_STORE_H

#include "host/fast/shared.h"

enum { COFI__FAST_PROGRAMS = 1024, COFI__FAST_MODULES = 6 };
#define COFI__FAST_STORE_BYTES 0x4000000ul

/* The key of what programs have in common, which is a program in the store: modules that more than one of them has,
 * for those of which nothing is known yet. They have the first places, no program has others of its own there. */
enum { COFI__FAST_COMMON = 1, COFI__FAST_COMMON_MODULES = 4 };
#define COFI__FAST_COMMON_POOL 0x90000ul
#define COFI__FAST_COMMON_ZONES 0x800000ul

/* What a run leaves of a module begins with this. */
struct cofi__fast_copy {
    uint64_t bytes;               /* of all, a multiple of 8 */
    uint64_t sum;                 /* of what follows */
};

struct cofi__fast_module {
    uint64_t key;                 /* 0: none */
    uint64_t copy;                /* the newest copy, from the store's start; 0: none yet */
    uint32_t pool, pool_bytes;    /* where its descriptors begin, from the pool's start … */
    uint32_t zone, zone_bytes;    /* … and go on, from the place of all */
    uint32_t met;                 /* a program of this recording has it */
    uint32_t reserved;
};

/* A program's modules are not known, are being chosen, or have been. */
enum { COFI__FAST_UNKNOWN, COFI__FAST_CHOOSING, COFI__FAST_CHOSEN };

struct cofi__fast_program {
    uint64_t key;                 /* of its path; 0: free */
    uint32_t state;
    uint32_t wanted;              /* there was no place for another module */
    struct cofi__fast_module modules[COFI__FAST_MODULES];
};

struct cofi__fast_store {
    uint64_t used;                /* bytes, 0 before the first copy */
    struct cofi__fast_program programs[COFI__FAST_PROGRAMS];
};

/* Claim a key's place, or find that it has been. */
static inline bool cofi__fast_take_key(uint64_t *place, uint64_t key)
{
    uint64_t free = 0;
    return __atomic_compare_exchange_n(place, &free, key, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST) || free == key;
}

/* The program's place, which it gets if it has none yet; null: there is none. */
static inline struct cofi__fast_program *cofi__fast_find_program(struct cofi__fast_store *store, uint64_t key)
{
    enum { PROBES = 16 };
    for (unsigned i = 0; i < PROBES; i++) {
        struct cofi__fast_program *p = &store->programs[(key + i) % COFI__FAST_PROGRAMS];
        if (cofi__fast_take_key(&p->key, key))
            return p;
    }
    return NULL;
}

/* To choose modules, or some more, is the caller's; cofi__fast_chosen follows. */
static inline bool cofi__fast_choose(struct cofi__fast_program *program)
{
    uint32_t state = __atomic_load_n(&program->state, __ATOMIC_SEQ_CST);
    return state != COFI__FAST_CHOOSING &&
           __atomic_compare_exchange_n(&program->state, &state, COFI__FAST_CHOOSING, false, __ATOMIC_SEQ_CST,
                                       __ATOMIC_SEQ_CST);
}

static inline void cofi__fast_chosen(struct cofi__fast_program *program)
{
    __atomic_store_n(&program->state, COFI__FAST_CHOSEN, __ATOMIC_SEQ_CST);
}

static inline bool cofi__fast_is_chosen(const struct cofi__fast_program *program)
{
    return __atomic_load_n(&program->state, __ATOMIC_SEQ_CST) == COFI__FAST_CHOSEN;
}

/* The module of that key, or null. */
static inline struct cofi__fast_module *cofi__fast_find_module(struct cofi__fast_program *program, uint64_t key)
{
    for (struct cofi__fast_module *m = program->modules; m < program->modules + COFI__FAST_MODULES; m++)
        if (__atomic_load_n(&m->key, __ATOMIC_SEQ_CST) == key)
            return m;
    return NULL;
}

/* Where a module's descriptors begin, or go on. */
struct cofi__fast_span {
    uint64_t start, end;
};

static inline struct cofi__fast_span cofi__fast_pool(const struct cofi__fast_module *m)
{
    return (struct cofi__fast_span){m->pool, (uint64_t)m->pool + m->pool_bytes};
}

static inline struct cofi__fast_span cofi__fast_zone(const struct cofi__fast_module *m)
{
    return (struct cofi__fast_span){m->zone, (uint64_t)m->zone + m->zone_bytes};
}

/* Whether what is made for the one is where the other has it. */
static inline bool cofi__fast_same_places(const struct cofi__fast_module *a, const struct cofi__fast_module *b)
{
    return a->key == b->key && a->zone == b->zone && a->zone_bytes == b->zone_bytes && a->pool == b->pool &&
           a->pool_bytes == b->pool_bytes;
}

/* The first place for so many bytes between from and end that none of the program's modules has; end: there is none. */
static inline uint64_t cofi__fast_find_place(const struct cofi__fast_program *program,
                                             struct cofi__fast_span (*of)(const struct cofi__fast_module *),
                                             uint64_t bytes, uint64_t from, uint64_t end)
{
    const struct cofi__fast_module *m = program->modules;
    uint64_t at = from;
    while (m < program->modules + COFI__FAST_MODULES) {
        struct cofi__fast_span p = of(m++);
        if (at >= p.end || at + bytes <= p.start)
            continue;
        at = p.end;
        m = program->modules;
    }
    return at + bytes <= end ? at : end;
}

/* Its place is told before its key, by which others find it. */
static inline void cofi__fast_add_module(struct cofi__fast_module *place, struct cofi__fast_module m)
{
    uint64_t key = m.key;
    m.key = 0;
    *place = m;
    __atomic_store_n(&place->key, key, __ATOMIC_SEQ_CST);
}

/* Room in the store up to `end`, from its start; 0: there is none. */
static inline uint64_t cofi__fast_allot(struct cofi__fast_store *store, uint64_t end, uint64_t bytes)
{
    uint64_t used = __atomic_load_n(&store->used, __ATOMIC_SEQ_CST), at;
    do {
        at = used ? used : (sizeof *store + 7) / 8 * 8;
        if (at > end || bytes > end - at)
            return 0;
    } while (!__atomic_compare_exchange_n(&store->used, &used, at + bytes, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST));
    return at;
}

/* Of n bytes, a multiple of 8, in four lanes that do not wait for each other. */
static inline uint64_t cofi__fast_sum(const void *bytes, size_t n)
{
    const uint64_t *word = bytes, *end = word + n / sizeof *word;
    uint64_t lane[4] = {1, 2, 3, 4};
    for (; end - word >= 4; word += 4)
        for (unsigned k = 0; k < 4; k++)
            lane[k] = cofi__fast_hash_step(lane[k], word[k]);
    for (unsigned k = 0; word < end; k++)
        lane[k] = cofi__fast_hash_step(lane[k], *word++);
    return cofi__fast_hash(lane, sizeof lane);
}

/* Whether programs of the recording share code at all. */
static inline bool cofi__fast_shares(const struct cofi__fast_control *control)
{
    return control->store_bytes && !control->filters && !control->cache_bytes;
}

/* As programs that do see it. */
static inline struct cofi__fast_store *cofi__fast_store(const struct cofi__fast_control *control)
{
    return (struct cofi__fast_store *)(COFI__FAST_SHARED_BASE + cofi__fast_store_offset(control));
}

#endif
