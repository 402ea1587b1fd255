/* SPDX-License-Identifier: MIT
 * See timeline.h. */
#include "timeline.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "calls_print.h"
#include "cli.h"

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

struct timeline {
    struct timeline_options options;
    struct call *calls;    /* that have not been left, the outermost first */
    size_t depth, room;
    size_t shown;          /* of them, whose ENTER is a mark or written */
    size_t known;          /* of them, whose time is */
    struct mark *marks;
    size_t marks_n, marks_room, offs;
    bool off, timed;
    int status;
    double pace;           /* the last one's, ns an instruction */
    uint64_t ns, insns;    /* the last time that was told, and how much had run */
};

/* ---- writing ---- */

static void write_head(const struct timeline *t, char phase, uint64_t ns)
{
    write_format(t->options.out, ",\n{\"ph\":\"%c\",\"pid\":%d,\"tid\":%d,\"ts\":%" PRIu64 ".%03u", phase, t->options.pid, t->options.tid,
                 ns / 1000, (unsigned)(ns % 1000));
}

static void write_string(const struct timeline *t, const char *key, const char *text)
{
    char string[FUNCTION_JSON];
    write_format(t->options.out, "\"%s\":", key);
    write_text(t->options.out, cofi_json_string(text, string, sizeof string));
}

static void write_function(const struct timeline *t, const struct cofi_function *function)
{
    char name[FUNCTION_BYTES];
    print_function(function, name);
    write_text(t->options.out, ",");
    write_string(t, "name", name);
    if (!function->module)
        return;
    write_text(t->options.out, ",");
    write_string(t, "cat", function->module);
}

static void write_mark(const struct timeline *t, const struct mark *mark)
{
    uint64_t ns = mark->when.ns;
    switch (mark->kind) {
    case MARK_ENTER:
        write_head(t, 'B', ns);
        write_function(t, &mark->function);
        write_text(t->options.out, "}");
        break;
    case MARK_LEAVE:
        write_head(t, 'E', ns);
        write_format(t->options.out, ",\"args\":{\"insns\":%" PRIu64 "}}", mark->insns);
        break;
    case MARK_OFF:
        write_head(t, 'B', ns);
        write_format(t->options.out, ",\"name\":\"[%s]\"}", mark->function.name);
        break;
    case MARK_ON:
        write_head(t, 'E', ns);
        write_text(t->options.out, "}");
        break;
    case MARK_GAP:
        write_head(t, 'i', ns);
        write_text(t->options.out, ",\"s\":\"t\",");
        write_string(t, "name", mark->text);
        write_text(t->options.out, "}");
        break;
    }
}

/* The separator stands before each event but the first. */
static void write_name(struct timeline *t, const char *what)
{
    write_format(t->options.out, "%s\n{\"ph\":\"M\",\"pid\":%d,\"tid\":%d,\"name\":\"%s\",\"args\":{", t->options.first ? "" : ",",
                 t->options.pid, t->options.tid, what);
    write_string(t, "name", t->options.comm);
    write_text(t->options.out, "}}");
    t->options.first = false;
}

/* ---- when ---- */

/* How time went between two that were told. Instructions share it; where tracing was off meanwhile they have a nanosecond at most,
 * and each time off has as much of the rest. */
struct pace {
    double insn, off; /* ns each */
};

static struct pace pace_of(const struct timeline *t, uint64_t ns, uint64_t insns)
{
    double passed = (double)(ns - t->ns), ran = (double)(insns - t->insns);
    struct pace pace = {.insn = ran > 0 && (!t->offs || passed < ran) ? passed / ran : 1};
    if (t->offs)
        pace.off = (passed - pace.insn * ran) / (double)t->offs;
    return pace;
}

static void know(const struct timeline *t, struct moment *when, struct pace pace)
{
    if (!when->known)
        when->ns = t->ns + (uint64_t)(pace.insn * (double)(when->insns - t->insns) + pace.off * (double)when->offs);
    when->known = true;
}

/* Write what waits: it was `ns` when so many instructions had run. */
static void write_marks(struct timeline *t, uint64_t ns, uint64_t insns)
{
    struct pace pace = pace_of(t, ns, insns);
    for (; t->known < t->depth; t->known++)
        know(t, &t->calls[t->known].when, pace);
    for (size_t i = 0; i < t->marks_n; i++) {
        know(t, &t->marks[i].when, pace);
        write_mark(t, &t->marks[i]);
        free(t->marks[i].text);
    }
    t->marks_n = t->offs = 0;
    t->ns = ns;
    t->insns = insns;
    t->pace = pace.insn;
}

/* It was not told for long: as fast as before. */
static void estimate(struct timeline *t, uint64_t insns)
{
    write_marks(t, t->ns + (uint64_t)(t->pace * (double)(insns - t->insns)), insns);
}

static void add_mark(struct timeline *t, struct mark mark)
{
    if (t->marks_n == MARKS_MOST)
        estimate(t, mark.when.insns);
    if (!t->status && array_grow(&t->marks, t->marks_n, &t->marks_room, sizeof *t->marks)) {
        t->marks[t->marks_n++] = mark;
        return;
    }
    t->status = COFI_ERR_NOMEM;
    free(mark.text);
}

/* ---- what happened ---- */

static struct moment at(const struct timeline *t, uint64_t insns) { return (struct moment){.insns = insns, .offs = t->offs}; }

/* A call is shown when it has run long enough, and all it is in are; each of these has run longer. */
static void show_calls(struct timeline *t, uint64_t insns)
{
    while (t->shown < t->depth && t->shown < t->options.depth && insns - t->calls[t->shown].when.insns >= t->options.least_insns) {
        const struct call *call = &t->calls[t->shown++];
        add_mark(t, (struct mark){.kind = MARK_ENTER, .when = call->when, .function = call->function});
    }
}

static void on(struct timeline *t, uint64_t insns)
{
    if (!t->off)
        return;
    t->off = false;
    t->offs++;
    add_mark(t, (struct mark){.kind = MARK_ON, .when = at(t, insns)});
}

void timeline_time(struct timeline *t, uint64_t ns, uint64_t insns)
{
    on(t, insns);
    if (!t->timed) /* what was before it lies before it */
        t->ns = ns > insns ? ns - insns : 0;
    t->timed = true;
    if (ns > t->ns)
        write_marks(t, ns, insns);
}

void timeline_enter(struct timeline *t, const struct cofi_function *function, uint64_t insns)
{
    on(t, insns);
    if (!array_grow(&t->calls, t->depth, &t->room, sizeof *t->calls)) {
        t->status = COFI_ERR_NOMEM;
        return;
    }
    t->calls[t->depth++] = (struct call){*function, at(t, insns)};
    show_calls(t, insns);
}

void timeline_leave(struct timeline *t, uint64_t insns)
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

void timeline_off(struct timeline *t, const char *name, uint64_t insns)
{
    if (t->off)
        return;
    show_calls(t, insns);
    t->off = true;
    add_mark(t, (struct mark){.kind = MARK_OFF, .when = at(t, insns), .function.name = name});
}

void timeline_gap(struct timeline *t, const char *text, uint64_t insns)
{
    char *copy = strdup(text);
    if (copy)
        add_mark(t, (struct mark){.kind = MARK_GAP, .when = at(t, insns), .text = copy});
    else
        t->status = COFI_ERR_NOMEM;
}

int timeline_end(struct timeline *t, uint64_t insns)
{
    on(t, insns);
    while (t->depth)
        timeline_leave(t, insns);
    estimate(t, insns);
    return t->status;
}

struct timeline *timeline_open(const struct timeline_options *options)
{
    struct timeline *t = calloc(1, sizeof *t);
    if (!t)
        return NULL;
    t->options = *options;
    t->pace = 1;
    if (options->first)
        write_format(options->out, "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[");
    if (options->process)
        write_name(t, "process_name");
    write_name(t, "thread_name");
    return t;
}

void timeline_close(struct timeline *t)
{
    if (!t)
        return;
    for (size_t i = 0; i < t->marks_n; i++)
        free(t->marks[i].text);
    free(t->marks);
    free(t->calls);
    free(t);
}
