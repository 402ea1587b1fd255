/* SPDX-License-Identifier: MIT
 * Which modules programs have in common [decision 0747]. */
#include "host/fast/keep.h"

/* A module of two programs or more: what the next one that nothing is known of leaves of it, all others may take. */
static void share(struct cofi__fast_keeper *k, const struct cofi__fast_module *m)
{
    struct cofi__fast_program *common = cofi__fast_find_program(k->store, COFI__FAST_COMMON);
    if (!common || cofi__fast_find_module(common, m->key) || !m->zone_bytes || m->zone_bytes > COFI__FAST_COMMON_ZONES)
        return;
    struct cofi__fast_module *place = cofi__fast_find_module(common, 0), added = {.key = m->key, .met = 1};
    uint64_t zone = cofi__fast_find_place(common, cofi__fast_zone, m->zone_bytes, 0, COFI__FAST_COMMON_ZONES),
             pool = cofi__fast_find_place(common, cofi__fast_pool, m->pool_bytes, 0, COFI__FAST_COMMON_POOL);
    if (!place || place - common->modules >= COFI__FAST_COMMON_MODULES || zone == COFI__FAST_COMMON_ZONES) {
        common->wanted = 1;
        return;
    }
    added.zone = (uint32_t)zone, added.zone_bytes = m->zone_bytes;
    if (pool < COFI__FAST_COMMON_POOL)
        added.pool = (uint32_t)pool, added.pool_bytes = m->pool_bytes;
    cofi__fast_add_module(place, added);
    cofi__fast_chosen(common);
}

/* A program has this module. */
static void see(struct cofi__fast_keeper *k, uint64_t program, const struct cofi__fast_module *m)
{
    const uint32_t *who = cofi__map_get(&k->seen, m->key, 0);
    if (!who)
        cofi__map_put(&k->seen, m->key, 0, (uint32_t)program);
    else if (*who != (uint32_t)program)
        share(k, m);
}

void cofi__fast_see(struct cofi__fast_keeper *k, uint64_t program, const struct cofi__fast_module *modules)
{
    for (unsigned i = 0; i < COFI__FAST_MODULES; i++)
        if (modules[i].key)
            see(k, program, &modules[i]);
}

void cofi__fast_see_new(struct cofi__fast_keeper *k)
{
    for (unsigned i = 0; i < COFI__FAST_PROGRAMS; i++) {
        const struct cofi__fast_program *p = &k->store->programs[i];
        if (!k->known[i].met || k->known[i].seen || !cofi__fast_is_chosen(p) || p->key == COFI__FAST_COMMON)
            continue;
        k->known[i].seen = true;
        cofi__fast_see(k, p->key, p->modules);
    }
}
