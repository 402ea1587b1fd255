/* SPDX-License-Identifier: MIT
 * Steps since a parting -> marks. What functions do that are called meanwhile is passed over, in one go:
 * a step knows where its frame goes on. */
#include "analyze/diff_marks.h"

#include "base/array.h"
#include "base/error.h"

void cofi__diff_marks_forget(struct diff_marks *marks) { marks->n = marks->scanned = 0; }

static int add_mark(struct diff_marks *marks, const struct diff_mark *mark)
{
    COFI_TRY(cofi__array_grow(&marks->rows, &marks->room, marks->n, sizeof *marks->rows));
    marks->rows[marks->n++] = *mark;
    return 0;
}

int cofi__diff_marks_begin(struct diff_marks *marks, struct diff_run *run, enum diff_depths depths)
{
    marks->run = run;
    marks->gap = false;
    marks->depths = depths;
    marks->distance = 0;
    marks->base = marks->least = run->has_last ? run->last.depth + run->diff->options.calls : 0;
    cofi__diff_marks_forget(marks);
    if (depths != IN_FRAMES)
        return 0;
    return add_mark(marks, &(struct diff_mark){.place = run->last.place,
                                               .above = run->diff->options.calls,
                                               .distance = marks->distance++,
                                               .step = -1});
}

/* A mark, or a gap. */
static bool is_of_interest(const struct diff_marks *marks, const struct cofi_diff_step *step)
{
    return cofi__diff_is_gap(step) || marks->depths != IN_FRAMES || step->depth <= marks->least;
}

/* The step that is next to be looked at is a mark, or a gap. 1 or COFI_ERR_NOMEM. */
static int take_step(struct diff_marks *marks)
{
    const struct cofi_diff_step *step = cofi__diff_step(marks->run, marks->scanned);
    int32_t at = (int32_t)marks->scanned++;
    if (cofi__diff_is_gap(step)) {
        marks->gap = true;
        return 1;
    }
    bool returned = step->depth < marks->least;
    marks->least = returned ? step->depth : marks->least;
    bool in_frames = marks->depths == IN_FRAMES;
    int32_t above = in_frames ? (int32_t)(marks->base - step->depth) : 0;
    COFI_TRY(add_mark(marks, &(struct diff_mark){.place = step->place, .above = above,
                                                 .returned = returned && in_frames, .distance = marks->distance++,
                                                 .step = at}));
    return 1;
}

/* What comes next is deeper: go to where the frame of the step before it goes on, or one that it returns
 * to. 1; 0: that lies behind so many steps; or an error. */
static int pass_over(struct cofi_diff *diff, struct diff_marks *marks, size_t steps)
{
    struct diff_run *run = marks->run;
    uint32_t next;
    size_t from = marks->scanned;
    if (from && cofi__diff_step(run, from - 1)->depth <= marks->least &&
        !cofi__diff_is_gap(cofi__diff_step(run, from - 1)))
        from--;
    while (!(next = cofi__diff_next(run, from)) && run->n - run->first < steps) {
        int has = cofi__diff_has(diff, run, run->n - run->first);
        if (has < 0)
            return has;
        if (!has) { /* it ends there */
            marks->scanned = run->n - run->first;
            return 0;
        }
    }
    if (next)
        marks->scanned = from + next;
    else if (steps >= COFI_DIFF_STEPS) /* there is no more room: all of these are passed over */
        marks->scanned = steps;
    return next > 0;
}

int cofi__diff_marks_find(struct cofi_diff *diff, struct diff_marks *marks, size_t i, size_t steps)
{
    while (marks->n <= i) {
        if (marks->scanned >= steps || marks->n == DIFF_MARKS || (marks->gap && marks->depths != PAST_GAPS))
            return 0;
        int status = cofi__diff_has(diff, marks->run, marks->scanned);
        if (status <= 0)
            return status;
        const struct cofi_diff_step *step = cofi__diff_step(marks->run, marks->scanned);
        status = is_of_interest(marks, step) ? take_step(marks) : pass_over(diff, marks, steps);
        if (status <= 0)
            return status;
    }
    return 1;
}
