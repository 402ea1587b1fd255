/* SPDX-License-Identifier: MIT
 * Calls and times as they are told -> marks whose time is known, for who writes them. See decision 0802. */
#include "present/timeline.h"

#include <stdlib.h>

#include "base/array.h"
#include "base/error.h"
#include "base/sized.h"

enum { MARKS_MOST = 1 << 18 /* that wait for a time; then it is estimated */ };

/* ---- when ---- */

/* How time went between two that were told. Instructions share it; where tracing was off meanwhile they have a nanosecond at most,
 * and each time off has as much of the rest. */
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

/* What waits is written: it was `ns` when so many instructions had run. */
static void put_marks(struct cofi_timeline *t, uint64_t ns, uint64_t insns)
{
    struct pace pace = pace_of(t, ns, insns);
    for (; t->known < t->depth; t->known++)
        know(t, &t->calls[t->known].when, pace);
    for (size_t i = 0; i < t->marks_n; i++) {
        know(t, &t->marks[i].when, pace);
        t->writer->mark(t, &t->marks[i]);
        free(t->marks[i].text);
    }
    t->marks_n = t->offs = 0;
    t->ns = ns;
    t->insns = insns;
    t->pace = pace.insn;
}

/* It was not told for long: as fast as before. */
static void estimate(struct cofi_timeline *t, uint64_t insns)
{
    put_marks(t, t->ns + (uint64_t)(t->pace * (double)(insns - t->insns)), insns);
}

static void add_mark(struct cofi_timeline *t, struct mark mark)
{
    if (t->marks_n == MARKS_MOST)
        estimate(t, mark.when.insns);
    if (t->out.status >= 0 && cofi__array_grow(&t->marks, &t->marks_room, t->marks_n, sizeof *t->marks) >= 0) {
        t->marks[t->marks_n++] = mark;
        return;
    }
    timeline_failed(t);
    free(mark.text);
}

/* ---- what happened ---- */

static struct moment at(const struct cofi_timeline *t, uint64_t insns) { return (struct moment){.insns = insns, .offs = t->offs}; }

/* A call is shown when it has run long enough, and all it is in are; each of these has run longer. */
static void show_calls(struct cofi_timeline *t, uint64_t insns)
{
    while (t->shown < t->depth && t->shown < t->options.depth && insns - t->calls[t->shown].when.insns >= t->options.least_insns) {
        const struct call *call = &t->calls[t->shown++];
        add_mark(t, (struct mark){.kind = MARK_ENTER, .when = call->when, .function = call->function});
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
    t->calls[t->depth++] = (struct call){*function, at(t, insns)};
    show_calls(t, insns);
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
    if (t->shown <= t->depth)
        return;
    t->shown = t->depth;
    add_mark(t, (struct mark){.kind = MARK_LEAVE, .when = at(t, insns), .insns = insns - call->when.insns, .runs = t->ending});
}

void cofi_timeline_off(struct cofi_timeline *t, const char *name, uint64_t insns)
{
    if (t->off)
        return;
    show_calls(t, insns);
    t->off = true;
    add_mark(t, (struct mark){.kind = MARK_OFF, .when = at(t, insns), .function.name = name});
}

void cofi_timeline_gap(struct cofi_timeline *t, const char *text, uint64_t insns)
{
    char *copy = strdup(text);
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

static const struct timeline_writer *const writers[] = {[COFI_TIMELINE_CHROME] = &cofi__chrome, [COFI_TIMELINE_SQL] = &cofi__sql};

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
