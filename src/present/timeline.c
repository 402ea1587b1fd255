/* SPDX-License-Identifier: MIT
 * Calls and times as they are told -> marks whose time is known, for who writes them. See decision 0802. */
#include "present/timeline.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/error.h"
#include "base/sized.h"

enum {
    MARKS_MOST =
        1 << 18 /* that wait for a time, or for a call before them; then it is estimated, and the call is shown */
};

/* ---- when ---- */

/* How time went between two that were told. Instructions share it; where tracing was off meanwhile they
 * have a nanosecond at most, and each time off has as much of the rest. */
struct pace {
    double insn, off; /* ns each */
};

static struct pace pace_of(const struct cofi_timeline *t, uint64_t ns, uint64_t insns)
{
    double passed = (double)(ns - t->ns), ran = (double)(insns - t->insns);
    struct pace pace = {.insn = ran > 0 && (!t->offs || passed < ran) ? passed / ran : 1};
    if (t->offs)
        pace.off = (passed - pace.insn * ran) / (double)t->offs;
    return pace;
}

static void know(const struct cofi_timeline *t, struct moment *when, struct pace pace)
{
    if (!when->known)
        when->ns = t->ns + (uint64_t)(pace.insn * (double)(when->insns - t->insns) + pace.off * (double)when->offs);
    when->known = true;
}

/* Up to a call of which is not known whether it is shown. */
static void write_marks(struct cofi_timeline *t)
{
    size_t n = 0;
    for (; n < t->marks_n && !t->marks[n].open; n++) {
        if (!t->marks[n].left_out)
            t->writer->mark(t, &t->marks[n]);
        free(t->marks[n].text);
    }
    t->marks_n -= n;
    if (n && t->marks_n)
        memmove(t->marks, t->marks + n, t->marks_n * sizeof *t->marks);
    t->marks_put += n;
}

/* What waits for a time is written: it was `ns` when so many instructions had run. */
static void put_marks(struct cofi_timeline *t, uint64_t ns, uint64_t insns)
{
    struct pace pace = pace_of(t, ns, insns);
    for (; t->known < t->depth; t->known++)
        know(t, &t->calls[t->known].when, pace);
    for (; t->marks_known < t->marks_n; t->marks_known++)
        know(t, &t->marks[t->marks_known].when, pace);
    write_marks(t);
    t->marks_known = t->marks_n;
    t->offs = 0;
    t->ns = ns;
    t->insns = insns;
    t->pace = pace.insn;
}

/* It was not told for long: as fast as before. */
static void estimate(struct cofi_timeline *t, uint64_t insns)
{
    put_marks(t, t->ns + (uint64_t)(t->pace * (double)(insns - t->insns)), insns);
}

static struct mark *enter_of(const struct cofi_timeline *t, const struct call *call)
{
    return &t->marks[call->mark - t->marks_put];
}

/* No more waits: what may be too short is shown. */
static void make_room(struct cofi_timeline *t, uint64_t insns)
{
    for (; t->shown < t->placed; t->shown++)
        enter_of(t, &t->calls[t->shown])->open = false;
    estimate(t, insns);
}

static void add_mark(struct cofi_timeline *t, struct mark mark)
{
    if (t->marks_n == MARKS_MOST)
        make_room(t, mark.when.insns);
    if (t->out.status >= 0 && cofi__array_grow(&t->marks, &t->marks_room, t->marks_n, sizeof *t->marks) >= 0) {
        t->marks[t->marks_n++] = mark;
        return;
    }
    timeline_failed(t);
    free(mark.text);
}

/* ---- what happened ---- */

static struct moment at(const struct cofi_timeline *t, uint64_t insns) { return (struct moment){
    .insns = insns, .offs = t->offs}; }

/* The next call's ENTER, until it has run long enough. */
static void place_call(struct cofi_timeline *t)
{
    struct call *call = &t->calls[t->placed];
    add_mark(t, (struct mark){.kind = MARK_ENTER, .when = call->when, .function = call->function, .open = true});
    call->mark = t->marks_put + t->marks_n - 1;
    t->placed += t->out.status >= 0;
}

/* What follows lies in all calls. */
static void place_calls(struct cofi_timeline *t)
{
    while (t->out.status >= 0 && t->placed < t->depth && t->placed < t->options.depth)
        place_call(t);
}

/* A call is shown when it has run long enough, and all it is in are; each of these has run longer. */
static void show_calls(struct cofi_timeline *t, uint64_t insns)
{
    while (t->out.status >= 0 && t->shown < t->depth && t->shown < t->options.depth &&
           insns - t->calls[t->shown].when.insns >= t->options.least_insns) {
        if (t->placed == t->shown)
            place_call(t);
        if (t->placed > t->shown)
            enter_of(t, &t->calls[t->shown++])->open = false;
    }
}

static void on(struct cofi_timeline *t, uint64_t insns)
{
    if (!t->off)
        return;
    t->off = false;
    t->offs++;
    add_mark(t, (struct mark){.kind = MARK_ON, .when = at(t, insns)});
}

void cofi_timeline_time(struct cofi_timeline *t, uint64_t ns, uint64_t insns)
{
    on(t, insns);
    if (!t->timed) /* what was before it lies before it */
        t->ns = ns > insns ? ns - insns : 0;
    t->timed = true;
    if (ns > t->ns)
        put_marks(t, ns, insns);
}

void cofi_timeline_enter(struct cofi_timeline *t, const struct cofi_function *function, uint64_t insns)
{
    on(t, insns);
    if (cofi__array_grow(&t->calls, &t->room, t->depth, sizeof *t->calls) < 0) {
        timeline_failed(t);
        return;
    }
    t->calls[t->depth++] = (struct call){.function = *function, .when = at(t, insns)};
    show_calls(t, insns);
}

static void leave_out(struct cofi_timeline *t, const struct call *call)
{
    struct mark *enter = enter_of(t, call);
    enter->open = false;
    enter->left_out = true;
}

void cofi_timeline_leave(struct cofi_timeline *t, uint64_t insns)
{
    on(t, insns);
    show_calls(t, insns);
    if (!t->depth) /* memory was out when it was entered */
        return;
    const struct call *call = &t->calls[--t->depth];
    if (t->known > t->depth)
        t->known = t->depth;
    bool shown = t->shown > t->depth;
    if (t->placed > t->depth) {
        if (!shown)
            leave_out(t, call);
        t->placed = t->depth;
    }
    if (!shown)
        return;
    t->shown = t->depth;
    add_mark(t, (struct mark){.kind = MARK_LEAVE, .when = at(t, insns), .insns = insns - call->when.insns,
                              .runs = t->ending});
}

void cofi_timeline_off(struct cofi_timeline *t, const char *name, uint64_t insns)
{
    if (t->off)
        return;
    show_calls(t, insns);
    place_calls(t);
    t->off = true;
    add_mark(t, (struct mark){.kind = MARK_OFF, .when = at(t, insns), .function.name = name});
}

void cofi_timeline_gap(struct cofi_timeline *t, const char *text, uint64_t insns)
{
    char *copy = strdup(text);
    place_calls(t);
    if (copy)
        add_mark(t, (struct mark){.kind = MARK_GAP, .when = at(t, insns), .text = copy});
    else
        timeline_failed(t);
}

int cofi_timeline_end(struct cofi_timeline *t, uint64_t insns)
{
    on(t, insns);
    t->ending = true;
    while (t->depth)
        cofi_timeline_leave(t, insns);
    estimate(t, insns);
    return t->out.status < 0 ? t->out.status : 0;
}

static const struct timeline_writer *const writers[] =
    {[COFI_TIMELINE_CHROME] = &cofi__chrome, [COFI_TIMELINE_SQL] = &cofi__sql};

const char *cofi_timeline_tail(enum cofi_timeline_format format)
{
    return (unsigned)format < ARRAY_LEN(writers) ? writers[format]->tail : "";
}

int cofi_timeline_open(struct cofi_timeline **timeline, const struct cofi_timeline_options *options)
{
    struct cofi_timeline_options known;
    COFI_TRY(cofi__sized(&known, sizeof known, options, offsetof(struct cofi_timeline_options, process), NULL));
    if ((unsigned)known.format >= ARRAY_LEN(writers))
        return COFI_ERR_UNSUPPORTED;
    struct cofi_timeline *t = calloc(1, sizeof *t);
    if (!t)
        return COFI_ERR_NOMEM;
    t->options = known;
    t->out = (struct out){known.put, known.opaque, 0};
    t->pace = 1;
    t->writer = writers[known.format];
    t->writer->begin(t);
    *timeline = t;
    return 0;
}

void cofi_timeline_close(struct cofi_timeline *t)
{
    if (!t)
        return;
    for (size_t i = 0; i < t->marks_n; i++)
        free(t->marks[i].text);
    if (t->writer->close)
        t->writer->close(t);
    free(t->marks);
    free(t->calls);
    free(t);
}
