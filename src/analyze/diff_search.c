/* SPDX-License-Identifier: MIT
 * Two runs that have parted -> where they are together again: the nearest place that both come to in the function that they parted in, or in
 * one that it returns to. What is called meanwhile is passed over. */
#include <stdlib.h>

#include "analyze/diff.h"
#include "base/array.h"
#include "base/error.h"

enum {
    NEAR = 64,           /* marks of both together among which all pairs are looked at, */
    NEAR_STEPS = 1 << 14, /* if they are not farther */
    NEAR_MORE = 16,      /* how much farther than the nearest pair, and twice, */
    NEAR_MORE_STEPS = 256, /* in steps */
    AHEAD = 16,          /* steps behind a pair that speak for it */
    AHEAD_FAR = 4,       /* which a pair must have that is far, */
    AHEAD_GAP = 32,      /* or behind a gap, where nobody knows the depth */
    MARKS = 1 << 16,     /* of each run at a time */
    SLOTS = 2 * MARKS    /* a power of two */
};

/* A step that may be where they are together again. */
struct mark {
    uint64_t place;
    int64_t above;     /* frames that were left since the parting */
    bool returned;     /* the first with so many */
    uint32_t distance; /* marks before it since the parting */
    ptrdiff_t step;    /* of those that wait; -1: the last that both did */
};

/* The first mark of a place. */
struct slot {
    uint32_t epoch, mark; /* of an older epoch: free */
};

/* A run's marks, in order. */
struct marks {
    struct diff_run *run;
    struct mark *rows;    /* up to MARKS */
    size_t room;
    size_t n, tried, scanned; /* marks; those that were looked for in the other run; steps looked at */
    uint32_t distance;
    bool gap;             /* there is one behind these: no more is known of depths */
    int64_t base, least;  /* depths: at the parting, the least since */
    struct slot *slots;   /* null: not needed so far */
    uint32_t epoch;
};

/* A pair of marks, of both runs. */
struct pair {
    struct mark at[2];
    int ahead; /* steps behind it that are the same */
    bool found;
};

struct diff_search {
    struct cofi_diff *diff;
    struct marks marks[2];
    uint32_t epoch;
    bool anywhere;  /* at any depth: nothing is known of that behind a gap */
    unsigned waits; /* then: the run that has the gap */
    size_t near_steps; /* how far to look */
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
        free(search->marks[i].slots);
    }
    free(search);
}

/* ---- marks ---- */

static void forget_marks(struct diff_search *search, struct marks *marks)
{
    marks->n = marks->tried = marks->scanned = 0;
    marks->epoch = ++search->epoch;
}

static int add_mark(struct marks *marks, const struct mark *mark)
{
    COFI_TRY(cofi__array_grow(&marks->rows, &marks->room, marks->n, sizeof *marks->rows));
    marks->rows[marks->n++] = *mark;
    return 0;
}

static int begin_marks(struct diff_search *search, struct marks *marks, struct diff_run *run)
{
    marks->run = run;
    forget_marks(search, marks);
    marks->gap = false;
    marks->distance = 0;
    marks->base = marks->least = run->has_last ? run->last.depth : 0;
    return search->anywhere ? 0 : add_mark(marks, &(struct mark){run->last.place, 0, false, marks->distance++, -1});
}

static int begin(struct diff_search *search, bool anywhere)
{
    search->anywhere = anywhere;
    search->best = (struct pair){0};
    for (unsigned i = 0; i < 2; i++)
        COFI_TRY(begin_marks(search, &search->marks[i], &search->diff->runs[i]));
    return 0;
}

static int scan(const struct diff_search *search, struct marks *marks)
{
    const struct cofi_diff_step *step = cofi__diff_step(marks->run, marks->scanned);
    ptrdiff_t at = (ptrdiff_t)marks->scanned++;
    marks->gap |= cofi__diff_is_gap(step);
    if (cofi__diff_is_gap(step) || (!search->anywhere && step->depth > marks->least))
        return 0;
    bool returned = step->depth < marks->least;
    marks->least = step->depth;
    int64_t above = search->anywhere ? 0 : marks->base - step->depth;
    return add_mark(marks, &(struct mark){step->place, above, returned && !search->anywhere, marks->distance++, at});
}

/* Look at steps until there is a mark of this number, or so many steps were looked at. 1; 0: there is none; or an error. */
static int find_mark(struct diff_search *search, struct marks *marks, size_t i, size_t steps)
{
    while (marks->n <= i) {
        if (marks->scanned >= steps || marks->n == MARKS || (marks->gap && !search->anywhere))
            return 0;
        int status = cofi__diff_has(search->diff, marks->run, marks->scanned);
        if (status <= 0)
            return status;
        COFI_TRY(scan(search, marks));
    }
    return 1;
}

static bool are_equal(const struct mark *a, const struct mark *b) { return a->place == b->place && a->above == b->above; }

/* How many steps behind two marks are the same, of so many; all, where both runs end. Or an error. */
static int count_ahead(struct diff_search *search, const struct mark *a, const struct mark *b, int most)
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
        if (cofi__diff_step(x, at_x)->place != cofi__diff_step(y, at_y)->place || cofi__diff_is_gap(cofi__diff_step(x, at_x)))
            return i;
    }
    return most;
}

/* ---- near: all pairs, in the order of their distance ---- */

/* What both did last is no place to meet again, but what one of them comes to again is. */
static bool is_behind_last(const struct mark *a, const struct mark *b) { return a->step < 0 || b->step < 0; }

static size_t double_of(ptrdiff_t steps) { return steps < 0 ? 0 : 2 * (size_t)steps; }

static void limit_steps(struct diff_search *search, const struct mark *a, const struct mark *b)
{
    size_t most = NEAR_MORE_STEPS + double_of(a->step > b->step ? a->step : b->step);
    search->near_steps = most < search->near_steps ? most : search->near_steps;
}

/* Take a pair if more speaks for it than for the one found before; where one run goes on behind what it did last, both must go on alike.
 * 0 or an error. */
static int try_near(struct diff_search *search, const struct mark *a, const struct mark *b)
{
    int ahead = count_ahead(search, a, b, AHEAD);
    if (ahead < is_behind_last(a, b))
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
    struct marks *x = &search->marks[0], *y = &search->marks[1];
    int has_a = find_mark(search, x, both, search->near_steps), has_b = find_mark(search, y, both, search->near_steps);
    if (has_a < 0 || has_b < 0)
        return has_a < 0 ? has_a : has_b;
    for (size_t i = both < y->n ? 0 : both - y->n + 1; i <= both && i < x->n; i++)
        if (are_equal(&x->rows[i], &y->rows[both - i]))
            COFI_TRY(try_near(search, &x->rows[i], &y->rows[both - i]));
    return 0;
}

static int find_near(struct diff_search *search)
{
    size_t farthest = NEAR;
    search->near_steps = NEAR_STEPS;
    for (size_t both = 1; both <= farthest && search->best.ahead < AHEAD; both++) {
        COFI_TRY(try_all(search, both));
        if (search->best.found && 2 * both + NEAR_MORE < farthest)
            farthest = 2 * both + NEAR_MORE;
    }
    return 0;
}

/* ---- far: the first mark of each place ---- */

static struct slot *find_slot(struct marks *marks, const struct mark *mark)
{
    uint32_t at = cofi__hash(mark->place, (uint64_t)mark->above);
    for (;; at++) {
        struct slot *slot = &marks->slots[at % SLOTS];
        if (slot->epoch != marks->epoch || are_equal(&marks->rows[slot->mark], mark))
            return slot;
    }
}

/* Whether what is found is no farther than all that comes. */
static bool is_nearest(const struct pair *best, uint32_t distance)
{
    return best->found && best->at[0].distance + best->at[1].distance <= distance;
}

/* Take two marks of one place if enough speaks for them: both runs have just left the same function for it, or go on alike. 0 or an error. */
static int try_far(struct diff_search *search, const struct mark *a, const struct mark *b)
{
    int least = search->anywhere ? AHEAD_GAP : a->returned && b->returned ? 0 : AHEAD_FAR;
    if (is_nearest(&search->best, a->distance + b->distance))
        return 0;
    int ahead = count_ahead(search, a, b, least);
    if (ahead == least)
        search->best = (struct pair){{*a, *b}, ahead, true};
    return ahead < 0 ? ahead : 0;
}

/* Look for a run's newest mark in the other run. */
static int look_up(struct diff_search *search, unsigned of)
{
    struct marks *own = &search->marks[of], *other = &search->marks[!of];
    const struct mark *mark = &own->rows[own->tried];
    struct slot *slot = find_slot(own, mark);
    if (slot->epoch != own->epoch)
        *slot = (struct slot){own->epoch, (uint32_t)own->tried};
    own->tried++;
    slot = find_slot(other, mark);
    if (slot->epoch != other->epoch)
        return 0;
    const struct mark *there = &other->rows[slot->mark];
    return of ? try_far(search, there, mark) : try_far(search, mark, there);
}

/* Whether a run that is looked at as far as there is room goes on: the other one is not in a function that it calls. Who has left more frames
 * waits. */
static bool may_go_on(const struct diff_search *search, unsigned of)
{
    const struct marks *own = &search->marks[of], *other = &search->marks[!of];
    return search->anywhere ? of != search->waits : own->base - own->least <= other->base - other->least;
}

/* A run's next mark, for which its oldest steps are told if they take all room. 1; 0: it ends, or waits; or an error. */
static int next_mark(struct diff_search *search, unsigned of)
{
    struct marks *marks = &search->marks[of];
    for (;;) {
        int has = find_mark(search, marks, marks->tried, COFI_DIFF_STEPS);
        bool full = marks->scanned >= COFI_DIFF_STEPS || marks->n == MARKS;
        if (has || !full || search->best.found || !may_go_on(search, of))
            return has;
        COFI_TRY(cofi__diff_alone(search->diff, marks->run, marks->scanned));
        forget_marks(search, marks);
    }
}

static int open_slots(struct marks *marks)
{
    if (!marks->slots)
        marks->slots = calloc(SLOTS, sizeof *marks->slots);
    return marks->slots ? 0 : COFI_ERR_NOMEM;
}

static int find_far(struct diff_search *search)
{
    for (unsigned i = 0; i < 2; i++)
        COFI_TRY(open_slots(&search->marks[i]));
    for (bool more = true; more;) {
        more = false;
        for (unsigned i = 0; i < 2; i++) {
            int has = is_nearest(&search->best, search->marks[i].distance) ? 0 : next_mark(search, i);
            more |= has > 0;
            if (has > 0)
                has = look_up(search, i);
            COFI_TRY(has);
        }
    }
    return 0;
}

/* ---- what is found ---- */

/* Tell what lies before the pair that was found: it is the first that waits, or was the last. */
static int go_to(struct diff_search *search, bool *joined)
{
    const struct mark *at = search->best.at;
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
        struct marks *marks = &search->marks[i];
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
    COFI_TRY(begin(search, true));
    COFI_TRY(find_far(search));
    return search->best.found ? go_to(search, joined) : end_both(search->diff);
}

static int search_in_frames(struct diff_search *search, bool *joined)
{
    COFI_TRY(begin(search, false));
    COFI_TRY(find_near(search));
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
