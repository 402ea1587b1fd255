/* SPDX-License-Identifier: MIT
 * A timeline -> Chrome's trace events [Chrome's Trace Event Format]. */
#include "present/timeline.h"

#include <inttypes.h>
#include <stdio.h>

static void put_head(struct cofi_timeline *t, char phase, uint64_t ns)
{
    char text[128];
    snprintf(text, sizeof text, ",\n{\"ph\":\"%c\",\"pid\":%d,\"tid\":%d,\"ts\":%" PRIu64 ".%03u", phase,
             t->options.pid, t->options.tid, ns / 1000, (unsigned)(ns % 1000));
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
    static const char phases[] =
        {[MARK_ENTER] = 'B', [MARK_LEAVE] = 'E', [MARK_OFF] = 'B', [MARK_ON] = 'E', [MARK_GAP] = 'i'};
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
    snprintf(text, sizeof text, "%s\n{\"ph\":\"M\",\"pid\":%d,\"tid\":%d,\"name\":\"%s\"", t->options.first ? "" : ",",
             t->options.pid, t->options.tid, what);
    put_text(&t->out, text);
    put_string(t, ",\"args\":{\"name\":", t->options.comm);
    put_text(&t->out, "}}");
    t->options.first = false;
}

static void begin(struct cofi_timeline *t)
{
    if (t->options.first)
        put_text(&t->out, "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[");
    if (t->options.process)
        put_name(t, "process_name");
    put_name(t, "thread_name");
}

const struct timeline_writer cofi__chrome = {begin, put_mark, NULL, "\n]}\n"};
