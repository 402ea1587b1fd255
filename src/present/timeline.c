/* SPDX-License-Identifier: MIT
 * Calls and times as they are told -> Chrome's trace events [Chrome's Trace Event Format]. See decision 0802. */
#include <cofi/present.h>

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/array.h"
#include "base/error.h"
#include "base/sized.h"
#include "present/put.h"

enum { MARKS_MOST = 1 << 18 /* that wait for a time; then it is estimated */ };

enum mark_kind { MARK_ENTER, MARK_LEAVE, MARK_OFF, MARK_ON, MARK_GAP };

/* A moment: what it is called, when the next time is told. */
struct moment {
    uint64_t insns;
    size_t offs;           /* since the last time was told */
    bool known;
    uint64_t ns;
};

/* Something that happened. */
struct mark {
    enum mark_kind kind;
    struct moment when;
    uint64_t insns;        /* LEAVE: since its ENTER */
    struct cofi_function function; /* ENTER; OFF: its name */
    char *text;            /* GAP */
};

struct call {
    struct cofi_function function;
    struct moment when;
};

struct cofi_timeline {
    struct cofi_timeline_options options;
    struct out out;        /* its status is that of all */
    struct call *calls;    /* that have not been left, the outermost first */
    size_t depth, room;
    size_t shown;          /* of them, whose ENTER is a mark or written */
    size_t known;          /* of them, whose time is */
    struct mark *marks;
    size_t marks_n, marks_room, offs;
    bool off, timed;
    double pace;           /* the last one's, ns an instruction */
    uint64_t ns, insns;    /* the last time that was told, and how much had run */
};

/* ---- writing ---- */

static void put_head(struct cofi_timeline *t, char phase, uint64_t ns)
{
    char text[128];
    snprintf(text, sizeof text, ",\n{\"ph\":\"%c\",\"pid\":%d,\"tid\":%d,\"ts\":%" PRIu64 ".%03u", phase, t->options.pid, t->options.tid,
             ns / 1000, (unsigned)(ns % 1000));
    put_text(&t->out, text);
}

/* before: what stands before the string. */
static void put_string(struct cofi_timeline *t, const char *before, const char *text)
{
    char string[COFI_NAME_JSON_BYTES];
    put_text(&t->out, before);
    put_text(&t->out, cofi_json_string(text, string, sizeof string));
}

static void put_function(struct cofi_timeline *t, const struct cofi_function *function)
{
    char name[COFI_NAME_BYTES];
    cofi_function_print(function, name, sizeof name);
    put_string(t, ",\"name\":", name);
    if (function->module)
        put_string(t, ",\"cat\":", function->module);
}

static void put_mark(struct cofi_timeline *t, const struct mark *mark)
{
    static const char phases[] = {[MARK_ENTER] = 'B', [MARK_LEAVE] = 'E', [MARK_OFF] = 'B', [MARK_ON] = 'E', [MARK_GAP] = 'i'};
    char text[128] = "";
    put_head(t, phases[mark->kind], mark->when.ns);
    switch (mark->kind) {
    case MARK_ENTER: put_function(t, &mark->function); break;
    case MARK_LEAVE: snprintf(text, sizeof text, ",\"args\":{\"insns\":%" PRIu64 "}", mark->insns); break;
    case MARK_OFF: snprintf(text, sizeof text, ",\"name\":\"[%.64s]\"", mark->function.name); break;
    case MARK_ON: break;
    case MARK_GAP: put_string(t, ",\"s\":\"t\",\"name\":", mark->text); break;
    }
    put_text(&t->out, text);
    put_text(&t->out, "}");
}

/* The separator stands before each event but the first. */
static void put_name(struct cofi_timeline *t, const char *what)
{
    char text[128];
    snprintf(text, sizeof text, "%s\n{\"ph\":\"M\",\"pid\":%d,\"tid\":%d,\"name\":\"%s\"", t->options.first ? "" : ",", t->options.pid,
             t->options.tid, what);
    put_text(&t->out, text);
    put_string(t, ",\"args\":{\"name\":", t->options.comm);
    put_text(&t->out, "}}");
    t->options.first = false;
}

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

/* Write what waits: it was `ns` when so many instructions had run. */
static void put_marks(struct cofi_timeline *t, uint64_t ns, uint64_t insns)
{
    struct pace pace = pace_of(t, ns, insns);
    for (; t->known < t->depth; t->known++)
        know(t, &t->calls[t->known].when, pace);
    for (size_t i = 0; i < t->marks_n; i++) {
        know(t, &t->marks[i].when, pace);
        put_mark(t, &t->marks[i]);
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

/* Out of memory, if nothing else was wrong before. */
static void failed(struct cofi_timeline *t)
{
    if (t->out.status >= 0)
        t->out.status = COFI_ERR_NOMEM;
}

static void add_mark(struct cofi_timeline *t, struct mark mark)
{
    if (t->marks_n == MARKS_MOST)
        estimate(t, mark.when.insns);
    if (t->out.status >= 0 && cofi__array_grow(&t->marks, &t->marks_room, t->marks_n, sizeof *t->marks) >= 0) {
        t->marks[t->marks_n++] = mark;
        return;
    }
    failed(t);
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
        failed(t);
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
    add_mark(t, (struct mark){.kind = MARK_LEAVE, .when = at(t, insns), .insns = insns - call->when.insns});
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
        failed(t);
}

int cofi_timeline_end(struct cofi_timeline *t, uint64_t insns)
{
    on(t, insns);
    while (t->depth)
        cofi_timeline_leave(t, insns);
    estimate(t, insns);
    return t->out.status < 0 ? t->out.status : 0;
}

int cofi_timeline_open(struct cofi_timeline **timeline, const struct cofi_timeline_options *options)
{
    struct cofi_timeline_options known;
    COFI_TRY(cofi__sized(&known, sizeof known, options, offsetof(struct cofi_timeline_options, process), NULL));
    struct cofi_timeline *t = calloc(1, sizeof *t);
    if (!t)
        return COFI_ERR_NOMEM;
    t->options = known;
    t->out = (struct out){known.put, known.opaque, 0};
    t->pace = 1;
    if (known.first)
        put_text(&t->out, "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[");
    if (known.process)
        put_name(t, "process_name");
    put_name(t, "thread_name");
    *timeline = t;
    return 0;
}

void cofi_timeline_close(struct cofi_timeline *t)
{
    if (!t)
        return;
    for (size_t i = 0; i < t->marks_n; i++)
        free(t->marks[i].text);
    free(t->marks);
    free(t->calls);
    free(t);
}
