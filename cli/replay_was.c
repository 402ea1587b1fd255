/* SPDX-License-Identifier: MIT
 * What was recorded: what a replay asks of it, and comparing it with what the unit made. */
#include "replay_run.h"

enum { SOME = 1 << 16 };

/* ---- what was recorded ---- */

/* Have what was recorded up to an offset, and what follows it. */
static void need(struct replay *r, uint64_t offset)
{
    int status = replay_source_until(r->was, offset);
    r->status = r->status < 0 ? r->status : status;
}

/* The PSB at or before an offset, where it is still known: the flow may tell of it late. */
uint64_t replay_psb_before(const struct replay *r, uint64_t offset)
{
    const struct replay_list *list = &r->was->list;
    uint64_t nth = replay_counted(list, replay_find(list, offset), REPLAY_PSBS);
    const struct replay_item *psb = nth ? replay_nth(list, REPLAY_PSBS, nth - 1) : NULL;
    return psb ? psb->offset : offset;
}

/* What lies before an offset has been compared, or is not; what lies before `keep` is not asked for again. */
void replay_go_on_from(struct replay *r, uint64_t offset, uint64_t keep)
{
    struct replay_list *list = &r->was->list;
    r->from = offset;
    r->differs = false;
    if (offset == UINT64_MAX)
        return;
    need(r, offset);
    replay_drop(list, replay_find(list, keep));
}

/* Is there such a packet at this offset? Then it, else null. */
const struct replay_item *replay_told_by(struct replay *r, uint64_t offset, uint8_t kind)
{
    const struct replay_list *list = &r->was->list;
    need(r, offset);
    size_t i = replay_find(list, offset);
    bool there = offset >= r->from && i < list->n && list->items[i].offset == offset && list->items[i].kind == kind;
    return there ? &list->items[i] : NULL;
}

/* The number of the recorded one that comes next, where the unit has made all before it. */
static uint64_t next_of(const struct replay *r, unsigned what)
{
    const struct replay_list *list = &r->was->list;
    return replay_counted(list, replay_find(list, r->from), what) + r->is.counts[what] -
           replay_counted(&r->is, 0, what);
}

/* The recorded outcome that comes next, if all went well; null: none. */
const struct replay_item *replay_next_outcome(struct replay *r)
{
    uint64_t nth = next_of(r, REPLAY_OUTCOMES) + r->bits;
    int status = replay_source_outcome(r->was, nth);
    r->status = r->status < 0 ? r->status : status;
    return replay_nth(&r->was->list, REPLAY_OUTCOMES, nth);
}

/* The recorded TIP that comes next before an offset; null: none. */
const struct replay_item *replay_next_tip(struct replay *r, uint64_t offset)
{
    need(r, offset);
    const struct replay_item *tip = replay_nth(&r->was->list, REPLAY_TIPS, next_of(r, REPLAY_TIPS));
    return tip && tip->offset < offset ? tip : NULL;
}

/* ---- comparing ---- */

static void note_difference(struct replay *r, const struct replay_item *was, const struct replay_item *is)
{
    struct replay_result *out = r->result;
    if (r->setup->differs)
        r->setup->differs(r->setup->opaque, was, is);
    if (out->differences++)
        return;
    out->has_was = was;
    out->has_is = is;
    if (was)
        out->was = *was;
    if (is)
        out->is = *is;
}

/* Compare up to an offset of the recording with the unit's first n packets. Where the flow ends early (a gap, --to) the
 * recording may hold packets that no flow showed; a gap's offset does not tell which is the first. */
static void compare(struct replay *r, uint64_t until, size_t n, bool early)
{
    struct replay_place place = {0};
    struct replay_result *out = r->result;
    if (!early)
        need(r, until);
    while (early && r->was->list.n < replay_find(&r->was->list, r->from) + n + 1 && !r->was->finished)
        need(r, r->was->list.n ? r->was->list.items[r->was->list.n - 1].offset : 0);
    size_t begin = replay_find(&r->was->list, r->from),
           end = early ? r->was->list.n : replay_find(&r->was->list, until);
    const struct replay_item *was = r->was->list.items + begin;
    end -= begin < end ? begin : end;
    bool all = replay_match(r->setup, was, end, r->is.items, n, &place);
    out->compared += early ? place.was : end;
    out->tolerated += place.tolerated;
    if (!out->differences)
        out->equal += place.was;
    if (!all && !(early && place.is == n))
        note_difference(r, place.was < end ? &was[place.was] : NULL, place.is < n ? &r->is.items[place.is] : NULL);
}

/* The outcomes that wait come out, and no more; then all is compared. */
void replay_compare_rest(struct replay *r, uint64_t until, bool early)
{
    r->closing = true;
    cofi_unit_set_field(r->unit, "trace_en", 0);
    compare(r, until, r->is.n, early);
}

/* A long way without a PSB: what agrees so far is done with. (Deferred TIPs agree up to the next other packet only.) */
void replay_compare_some(struct replay *r)
{
    struct replay_list *list = &r->was->list;
    struct replay_place place = {0};
    if (r->is.n < SOME || r->setup->deferred || r->differs)
        return;
    while (list->n < replay_find(list, r->from) + r->is.n && !r->was->finished && r->status >= 0)
        need(r, list->n ? list->items[list->n - 1].offset : 0);
    size_t begin = replay_find(list, r->from);
    replay_match(r->setup, list->items + begin, list->n - begin, r->is.items, r->is.n, &place);
    r->differs = place.is < r->is.n;
    if (r->differs)
        return;
    r->result->compared += place.was;
    r->result->tolerated += place.tolerated;
    r->result->equal += r->result->differences ? 0 : place.was;
    replay_drop(list, begin + place.was);
    replay_drop(&r->is, place.is);
    r->from = list->n ? list->items[0].offset : r->from;
}

/* What stands before this PSB is done with. */
void replay_compare_to_psb(struct replay *r, uint64_t offset)
{
    uint64_t nth = r->is.counts[REPLAY_PSBS];
    const struct replay_item *psb = nth ? replay_nth(&r->is, REPLAY_PSBS, nth - 1) : NULL;
    if (!psb) /* the unit made none: it is off, or in the middle of something */
        return;
    size_t n = (size_t)(psb - r->is.items);
    compare(r, offset, n, false);
    replay_drop(&r->is, n);
    replay_go_on_from(r, offset, offset);
}

/* ---- what stands around a packet ---- */

/* How many overflows stand in the recording up to an offset that were not told yet. The flow tells them,
 * as one, when it knows where tracing goes on; packets that stand between come first. */
size_t replay_overflows_until(struct replay *r, uint64_t offset)
{
    const struct replay_list *list = &r->was->list;
    need(r, offset);
    uint64_t recorded = replay_counted(list, offset < UINT64_MAX ? replay_find(list, offset + 1) : list->n,
                                       REPLAY_OVERFLOWS);
    uint64_t told = next_of(r, REPLAY_OVERFLOWS);
    return recorded > told ? recorded - told : 0;
}

/* Does a packet of this kind stand behind the item? */
bool replay_is_behind(const struct replay *r, const struct replay_item *item, uint8_t kind)
{
    return item + 1 < r->was->list.items + r->was->list.n && item[1].kind == kind;
}

/* Does a FUP stand before the item that is no other packet's? */
bool replay_is_async(const struct replay *r, const struct replay_item *item)
{
    const struct replay_item *first = r->was->list.items, *fup = item - 1;
    if (item == first || fup->kind != COFI_PT_FUP)
        return false;
    if (fup == first)
        return true;
    bool tsx = fup[-1].kind == COFI_PT_MODE_TSX && fup[-1].value != 2;
    bool ip = (fup[-1].kind == COFI_PT_PTW && fup[-1].more & 2) ||
              ((fup[-1].kind == COFI_PT_EXSTOP || fup[-1].kind == COFI_PT_CFE || fup[-1].kind == COFI_PT_BEP ||
                fup[-1].kind == COFI_PT_TRIG) && fup[-1].more & 1);
    return !tsx && !ip && fup[-1].kind != COFI_PT_OVF && fup[-1].kind != COFI_PT_PSB;
}
