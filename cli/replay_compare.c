/* SPDX-License-Identifier: MIT
 * Recorded and replayed packets -> how far they agree, but for what an erratum of the processor explains. */
#include "replay.h"

static bool same(const struct replay_item *a, const struct replay_item *b)
{
    return a->kind == b->kind && a->value == b->value && a->more == b->more && a->mode == b->mode;
}

/* Two lists, and where we are in them. */
struct match {
    uint64_t errata;
    const struct replay_item *was, *is;
    size_t was_n, is_n;
    struct replay_place *place;
};

static const struct replay_item *was_at(const struct match *m, size_t ahead)
{
    return m->place->was + ahead < m->was_n ? &m->was[m->place->was + ahead] : NULL;
}

static bool is_kind(const struct replay_item *item, enum cofi_packet_kind kind) { return item && item->kind == kind; }

static bool step(struct match *m, unsigned was, unsigned is)
{
    m->place->was += was;
    m->place->is += is;
    m->place->tolerated++;
    return true;
}

/* Packets that are wrong, missing or too many behind an OVF [ERR SKD010, APL11, APL12]. */
static bool tolerate_overflow(struct match *m, const struct replay_item *w, const struct replay_item *i)
{
    if (m->place->was == 0 || !is_kind(w - 1, COFI_PT_OVF))
        return false;
    if (m->errata & COFI_ERRATUM_SKD010 && is_kind(w, COFI_PT_TIP) && is_kind(i, COFI_PT_FUP) && w->value == i->value)
        return step(m, 1, 1);
    if (m->errata & COFI_ERRATUM_APL11 && is_kind(w, COFI_PT_TIP_PGD) && !w->more)
        return step(m, 1, 0);
    return m->errata & COFI_ERRATUM_APL12 && is_kind(w, COFI_PT_FUP) && step(m, 1, 0);
}

/* Does an erratum explain the difference here? Steps over it. */
static bool tolerate(struct match *m)
{
    const struct replay_item *w = was_at(m, 0), *next = was_at(m, 1);
    const struct replay_item *i = m->place->is < m->is_n ? &m->is[m->place->is] : NULL;
    if (!w || !m->errata)
        return false;
    if (tolerate_overflow(m, w, i))
        return true;
    if (m->errata & COFI_ERRATUM_SKL014 && is_kind(w, COFI_PT_TIP_PGD) && !w->more && is_kind(i, COFI_PT_TIP_PGD))
        return step(m, 1, 1);
    if (m->errata & COFI_ERRATUM_SKD022 && is_kind(w, COFI_PT_FUP) && is_kind(next, COFI_PT_TIP_PGD) &&
        is_kind(i, COFI_PT_TIP_PGD))
        return step(m, 1, 0);
    return m->errata & COFI_ERRATUM_BDM64 && is_kind(w, COFI_PT_TIP) && is_kind(i, COFI_PT_TIP) &&
           is_kind(next, COFI_PT_MODE_TSX) && next->value == 2 && step(m, 1, 1);
}

/* ---- deferred TIPs ---- */

static bool in_run(const struct replay_item *item) { return item->kind == COFI_PT_TNT || item->kind == COFI_PT_TIP; }

static size_t run_end(const struct replay_item *items, size_t n, size_t at)
{
    while (at < n && in_run(&items[at]))
        at++;
    return at;
}

static size_t next_of(const struct replay_item *items, size_t end, size_t at, uint8_t kind)
{
    while (at < end && items[at].kind != kind)
        at++;
    return at;
}

/* Outcomes and TIPs up to the next other packet: each kind in its own order. */
static bool match_run(struct match *m)
{
    size_t was_end = run_end(m->was, m->was_n, m->place->was), is_end = run_end(m->is, m->is_n, m->place->is);
    static const uint8_t kinds[2] = {COFI_PT_TNT, COFI_PT_TIP};
    size_t left = was_end; /* recorded and not replayed */
    for (unsigned k = 0; k < 2; k++) {
        size_t w = next_of(m->was, was_end, m->place->was, kinds[k]),
               i = next_of(m->is, is_end, m->place->is, kinds[k]);
        while (w < was_end && i < is_end && same(&m->was[w], &m->is[i])) {
            w = next_of(m->was, was_end, w + 1, kinds[k]);
            i = next_of(m->is, is_end, i + 1, kinds[k]);
        }
        left = w < left ? w : left;
        if (i < is_end) {
            m->place->was = w;
            m->place->is = i;
            return false;
        }
    }
    m->place->was = left;
    m->place->is = is_end;
    return left == was_end;
}

bool replay_match(const struct replay_setup *setup, const struct replay_item *was, size_t was_n,
                  const struct replay_item *is, size_t is_n, struct replay_place *place)
{
    struct match m = {setup->errata, was, is, was_n, is_n, place};
    for (;;) {
        while (place->was < was_n && place->is < is_n && same(&was[place->was], &is[place->is])) {
            place->was++;
            place->is++;
        }
        if (place->was == was_n && place->is == is_n)
            return true;
        bool run = setup->deferred && place->was < was_n && place->is < is_n && in_run(&was[place->was]) &&
                   in_run(&is[place->is]);
        if (!tolerate(&m) && !(run && match_run(&m)))
            return false;
    }
}
