/* SPDX-License-Identifier: MIT
 * Two runs that have parted -> where they are together again: the nearest place that both come to in the
 * function that they parted in, or in one that it returns to. What is called meanwhile is passed over. */
#include <stdlib.h>

#include "analyze/diff_marks.h"
#include "base/array.h"
#include "base/error.h"

enum {
    NEAR = 64,           /* marks of both together among which all pairs are looked at, */
    NEAR_STEPS = 1 << 14, /* if they are not farther */
    NEAR_MORE = 16,      /* how much farther than the nearest pair, and twice, */
    NEAR_MORE_STEPS = 256, /* in steps */
    AHEAD = 16,          /* steps behind a pair that speak for it */
    AHEAD_FAR = 4,       /* which a pair must have that is far, */
    AHEAD_CALLS = 8,     /* or, of calls, at any depth, */
    AHEAD_GAP = 32,      /* or behind a gap, where nobody knows the depth */
    SLOTS = 2 * DIFF_MARKS /* a power of two */
};

/* The first mark of a place. */
struct slot {
    uint32_t epoch, mark; /* of an older epoch: free */
};

/* What a run's marks are looked up in. */
struct table {
    struct slot *slots; /* null: not needed so far */
    uint32_t epoch;
    size_t tried;       /* marks that were looked for in the other run */
    int32_t above;      /* of the last of these */
};

/* A pair of marks, of both runs. */
struct pair {
    struct diff_mark at[2];
    int ahead; /* steps behind it that are the same */
    bool found;
};

struct diff_search {
    struct cofi_diff *diff;
    struct diff_marks marks[2];
    struct table tables[2];
    uint32_t epoch;
    enum diff_depths depths;
    unsigned waits; /* PAST_GAPS: the run that has the gap */
    size_t near_steps; /* how far to look */
    int near_ahead;    /* steps that a pair must have behind it */
    struct pair best;
};

int cofi__diff_search_open(struct diff_search **search)
{
    *search = calloc(1, sizeof **search);
    return *search ? 0 : COFI_ERR_NOMEM;
}

void cofi__diff_search_close(struct diff_search *search)
{
    for (unsigned i = 0; search && i < 2; i++) {
        free(search->marks[i].rows);
        free(search->tables[i].slots);
    }
    free(search);
}

static void forget_marks(struct diff_search *search, unsigned of)
{
    cofi__diff_marks_forget(&search->marks[of]);
    search->tables[of].tried = 0;
    search->tables[of].epoch = ++search->epoch;
}

static int begin(struct diff_search *search, enum diff_depths depths)
{
    search->depths = depths;
    search->best = (struct pair){0};
    for (unsigned i = 0; i < 2; i++) {
        forget_marks(search, i);
        search->tables[i].above = 0;
        COFI_TRY(cofi__diff_marks_begin(&search->marks[i], &search->diff->runs[i], depths));
    }
    return 0;
}

/* How many steps behind two marks are the same, of so many; all, where both runs end. Or an error. */
static int count_ahead(struct diff_search *search, const struct diff_mark *a, const struct diff_mark *b, int most)
{
    struct cofi_diff *diff = search->diff;
    struct diff_run *x = &diff->runs[0], *y = &diff->runs[1];
    for (int i = 0; i < most; i++) {
        size_t at_x = (size_t)(a->step + 1 + i), at_y = (size_t)(b->step + 1 + i);
        int has_x = cofi__diff_has(diff, x, at_x), has_y = cofi__diff_has(diff, y, at_y);
        if (has_x < 0 || has_y < 0)
            return has_x < 0 ? has_x : has_y;
        if (!has_x || !has_y)
            return has_x == has_y ? most : i;
        if (cofi__diff_step(x, at_x)->place != cofi__diff_step(y, at_y)->place ||
            cofi__diff_is_gap(cofi__diff_step(x, at_x)))
            return i;
    }
    return most;
}

/* ---- near: all pairs, in the order of their distance ---- */

/* What both did last is no place to meet again, but what one of them comes to again is. */
static bool is_behind_last(const struct diff_mark *a, const struct diff_mark *b) { return a->step < 0 || b->step < 0; }

static size_t double_of(ptrdiff_t steps) { return steps < 0 ? 0 : 2 * (size_t)steps; }

static void limit_steps(struct diff_search *search, const struct diff_mark *a, const struct diff_mark *b)
{
    size_t most = NEAR_MORE_STEPS + double_of(a->step > b->step ? a->step : b->step);
    search->near_steps = most < search->near_steps ? most : search->near_steps;
}

/* Take a pair if more speaks for it than for the one found before; where one run goes on behind what it
 * did last, both must go on alike. 0 or an error. */
static int try_near(struct diff_search *search, const struct diff_mark *a, const struct diff_mark *b)
{
    int ahead = count_ahead(search, a, b, AHEAD);
    if (ahead < (is_behind_last(a, b) ? 1 : search->near_ahead))
        return ahead < 0 ? ahead : 0;
    if (!search->best.found)
        limit_steps(search, a, b);
    if (!search->best.found || ahead > search->best.ahead)
        search->best = (struct pair){{*a, *b}, ahead, true};
    return 0;
}

/* All pairs of this distance. */
static int try_all(struct diff_search *search, size_t both)
{
    struct diff_marks *x = &search->marks[0], *y = &search->marks[1];
    int has_a = cofi__diff_marks_find(search->diff, x, both, search->near_steps);
    int has_b = cofi__diff_marks_find(search->diff, y, both, search->near_steps);
    if (has_a < 0 || has_b < 0)
        return has_a < 0 ? has_a : has_b;
    for (size_t i = both < y->n ? 0 : both - y->n + 1; i <= both && i < x->n; i++)
        if (cofi__diff_same_mark(&x->rows[i], &y->rows[both - i]))
            COFI_TRY(try_near(search, &x->rows[i], &y->rows[both - i]));
    return 0;
}

static int find_near(struct diff_search *search, enum diff_depths depths, int least)
{
    size_t farthest = NEAR;
    COFI_TRY(begin(search, depths));
    search->near_ahead = least;
    search->near_steps = NEAR_STEPS;
    for (size_t both = 1; both <= farthest && search->best.ahead < AHEAD; both++) {
        COFI_TRY(try_all(search, both));
        if (search->best.found && 2 * both + NEAR_MORE < farthest)
            farthest = 2 * both + NEAR_MORE;
    }
    return 0;
}

/* Builds differ in who makes a call: what is called may have become part of its caller. So what speaks
 * for a pair is first what comes behind it; then that it is in the same frames; then anything. */
static int find_near_call(struct diff_search *search)
{
    COFI_TRY(find_near(search, ANY_DEPTH, AHEAD_FAR));
    if (!search->best.found)
        COFI_TRY(find_near(search, IN_FRAMES, 0));
    if (!search->best.found)
        COFI_TRY(find_near(search, ANY_DEPTH, 1));
    return search->best.found ? 0 : begin(search, ANY_DEPTH);
}

/* ---- far: the first mark of each place ---- */

static struct slot *find_slot(struct diff_search *search, unsigned of, const struct diff_mark *mark)
{
    const struct table *table = &search->tables[of];
    uint32_t at = cofi__hash(mark->place, (uint64_t)mark->above);
    for (;; at++) {
        struct slot *slot = &table->slots[at % SLOTS];
        if (slot->epoch != table->epoch || cofi__diff_same_mark(&search->marks[of].rows[slot->mark], mark))
            return slot;
    }
}

/* Whether what is found is no farther than all that comes. */
static bool is_nearest(const struct pair *best, uint32_t distance)
{
    return best->found && best->at[0].distance + best->at[1].distance <= distance;
}

/* Take two marks of one place if enough speaks for them: both runs have just left the same function for
 * it, or go on alike. 0 or an error. */
static int try_far(struct diff_search *search, const struct diff_mark *a, const struct diff_mark *b)
{
    int least = search->depths == PAST_GAPS   ? AHEAD_GAP
                : search->depths == ANY_DEPTH ? AHEAD_CALLS
                : a->returned && b->returned  ? 0
                                              : AHEAD_FAR;
    if (is_nearest(&search->best, a->distance + b->distance))
        return 0;
    int ahead = count_ahead(search, a, b, least);
    if (ahead == least)
        search->best = (struct pair){{*a, *b}, ahead, true};
    return ahead < 0 ? ahead : 0;
}

/* A call is looked for with those behind it: most functions are called from everywhere. */
static int add_ahead(struct diff_search *search, unsigned of, struct diff_mark *mark)
{
    struct diff_run *run = &search->diff->runs[of];
    for (int i = 1; i <= AHEAD_CALLS; i++) {
        size_t at = (size_t)(mark->step + i);
        int has = cofi__diff_has(search->diff, run, at);
        COFI_TRY(has);
        mark->place = (mark->place ^ mark->place >> 29) * UINT64_C(0xbf58476d1ce4e5b9) +
                      (has ? cofi__diff_step(run, at)->place : 0);
    }
    return 0;
}

/* Look for a run's newest mark in the other run. */
static int look_up(struct diff_search *search, unsigned of)
{
    struct table *own = &search->tables[of], *other = &search->tables[!of];
    struct diff_mark *mark = &search->marks[of].rows[own->tried];
    if (search->depths == ANY_DEPTH)
        COFI_TRY(add_ahead(search, of, mark));
    struct slot *slot = find_slot(search, of, mark);
    if (slot->epoch != own->epoch)
        *slot = (struct slot){own->epoch, (uint32_t)own->tried};
    own->tried++;
    own->above = mark->step < 0 ? 0 : mark->above;
    slot = find_slot(search, !of, mark);
    if (slot->epoch != other->epoch)
        return 0;
    const struct diff_mark *there = &search->marks[!of].rows[slot->mark];
    return of ? try_far(search, there, mark) : try_far(search, mark, there);
}

/* Whether a run that is looked at as far as there is room goes on: the other one is not in a function
 * that it calls. Who has left more frames waits. */
static bool may_go_on(const struct diff_search *search, unsigned of)
{
    const struct diff_marks *own = &search->marks[of], *other = &search->marks[!of];
    return search->depths == PAST_GAPS ? of != search->waits : own->base - own->least <= other->base - other->least;
}

/* A run's next mark, for which its oldest steps are told if they take all room. 1; 0: it ends, or waits;
 * or an error. */
static int next_mark(struct diff_search *search, unsigned of)
{
    struct diff_marks *marks = &search->marks[of];
    for (;;) {
        int has = cofi__diff_marks_find(search->diff, marks, search->tables[of].tried, COFI_DIFF_STEPS);
        bool full = marks->scanned >= COFI_DIFF_STEPS || marks->n == DIFF_MARKS;
        if (has || !full || search->best.found || !may_go_on(search, of))
            return has;
        COFI_TRY(cofi__diff_alone(search->diff, marks->run, marks->scanned));
        forget_marks(search, of);
    }
}

static int open_slots(struct table *table)
{
    if (!table->slots)
        table->slots = calloc(SLOTS, sizeof *table->slots);
    return table->slots ? 0 : COFI_ERR_NOMEM;
}

/* Look a run's next mark up. 1; 0: it has none, or none that matters; or an error. */
static int go_far(struct diff_search *search, unsigned of)
{
    int has = is_nearest(&search->best, search->marks[of].distance) ? 0 : next_mark(search, of);
    if (has > 0)
        COFI_TRY(look_up(search, of));
    return has;
}

/* Marks of one run can be the same as those of the other only where both have left as many frames: who
 * has left fewer goes on. */
static int find_far(struct diff_search *search)
{
    for (unsigned i = 0; i < 2; i++)
        COFI_TRY(open_slots(&search->tables[i]));
    for (int has[2] = {1, 1}; has[0] || has[1];)
        for (unsigned i = 0; i < 2; i++) {
            if (search->depths == IN_FRAMES && has[!i] && search->tables[i].above > search->tables[!i].above)
                continue;
            has[i] = go_far(search, i);
            COFI_TRY(has[i]);
        }
    return 0;
}

/* ---- what is found ---- */

/* Tell what lies before the pair that was found: it is the first that waits, or was the last. */
static int go_to(struct diff_search *search, bool *joined)
{
    const struct diff_mark *at = search->best.at;
    ptrdiff_t with = at[0].step < 0 || at[1].step < 0;
    struct cofi_diff *diff = search->diff;
    COFI_TRY(cofi__diff_alone(diff, &diff->runs[0], (size_t)(at[0].step + with)));
    COFI_TRY(cofi__diff_alone(diff, &diff->runs[1], (size_t)(at[1].step + with)));
    int has_a = cofi__diff_has(diff, &diff->runs[0], 0), has_b = cofi__diff_has(diff, &diff->runs[1], 0);
    *joined = has_a > 0 && has_b > 0;
    return has_a < 0 ? has_a : has_b < 0 ? has_b : 0;
}

/* Tell all that is left of both. */
static int end_both(struct cofi_diff *diff)
{
    for (unsigned i = 0; i < 2; i++) {
        struct diff_run *run = &diff->runs[i];
        int has;
        while ((has = cofi__diff_has(diff, run, 0)) > 0)
            COFI_TRY(cofi__diff_alone(diff, run, run->n - run->first));
        COFI_TRY(has);
    }
    return 0;
}

/* Tell what lies before the gaps of both, of a run that has one. True: one has. */
static int go_to_gaps(struct diff_search *search)
{
    int gaps = 0;
    for (unsigned i = 0; i < 2; i++) {
        struct diff_marks *marks = &search->marks[i];
        if (marks->gap)
            COFI_TRY(cofi__diff_alone(search->diff, marks->run, marks->scanned - 1));
        gaps |= marks->gap;
    }
    return gaps;
}

/* The gaps that a run stands before are of it only. Returns whether there was one, or an error. */
static int pass_gaps(struct cofi_diff *diff, struct diff_run *run)
{
    int has, passed = 0;
    while ((has = cofi__diff_has(diff, run, 0)) > 0 && cofi__diff_is_gap(cofi__diff_step(run, 0))) {
        COFI_TRY(cofi__diff_alone(diff, run, 1));
        passed = 1;
    }
    return has < 0 ? has : passed;
}

static int search_anywhere(struct diff_search *search, bool *joined)
{
    COFI_TRY(begin(search, PAST_GAPS));
    COFI_TRY(find_far(search));
    return search->best.found ? go_to(search, joined) : end_both(search->diff);
}

static int search_in_frames(struct diff_search *search, bool *joined)
{
    COFI_TRY(search->diff->options.calls ? find_near_call(search) : find_near(search, IN_FRAMES, 0));
    if (!search->best.found)
        COFI_TRY(find_far(search));
    if (search->best.found)
        return go_to(search, joined);
    int gaps = go_to_gaps(search);
    return gaps ? (gaps < 0 ? gaps : 0) : end_both(search->diff);
}

int cofi__diff_search(struct cofi_diff *diff, bool *joined)
{
    struct diff_search *search = diff->search;
    search->diff = diff;
    int gap_a = pass_gaps(diff, &diff->runs[0]), gap_b = pass_gaps(diff, &diff->runs[1]);
    if (gap_a < 0 || gap_b < 0)
        return gap_a < 0 ? gap_a : gap_b;
    search->waits = !gap_a;
    bool known = diff->runs[0].has_last && diff->runs[1].has_last;
    return known ? search_in_frames(search, joined) : search_anywhere(search, joined);
}
