/* SPDX-License-Identifier: MIT
 * An event -> a line of text. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/error.h"
#include "event/text.h"

const char *const cofi__event_kinds[COFI_EVENT_KINDS] = {
#define X(name, text) text,
    COFI_EVENTS(X)
#undef X
};

static const char *const fars[] = {
#define X(name, text) text,
    COFI_FARS(X)
#undef X
};

static const char *const causes[] = {
#define X(name, text) text,
    COFI_CAUSES(X)
#undef X
};

const char *const *cofi__event_causes(unsigned kind, size_t *n)
{
    *n = kind == COFI_EV_FAR ? ARRAY_LEN(fars) : kind == COFI_EV_EVENT ? ARRAY_LEN(causes) : 0;
    return kind == COFI_EV_FAR ? fars : kind == COFI_EV_EVENT ? causes : NULL;
}

struct line {
    char *out;
    size_t size, n;
};

static __attribute__((format(printf, 2, 3))) void add(struct line *line, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    size_t room = line->n < line->size ? line->size - line->n : 0;
    int n = vsnprintf(room ? line->out + line->n : NULL, room, format, args);
    va_end(args);
    line->n += n > 0 ? (size_t)n : 0;
}

static void add_key(struct line *line, const char *key, uint64_t value, enum cofi__key_base base)
{
    if (base == COFI__HEX)
        add(line, " %s=%" PRIx64, key, value);
    else
        add(line, " %s=%" PRIu64, key, value);
}

static void add_context(struct line *line, const struct cofi_context *after, const struct cofi_context *before)
{
    add(line, " :");
#define X(key, member, base, max)                    \
    if (after->member != before->member)             \
        add_key(line, key, (uint64_t)after->member, base);
    COFI_CONTEXT_KEYS(X)
#undef X
}

static void add_cause(struct line *line, const struct cofi_event *event)
{
    size_t n;
    const char *const *words = cofi__event_causes(event->kind, &n);
    if (words)
        add(line, " %s", event->cause < n ? words[event->cause] : "?");
    else if (event->cause != 0)
        add(line, " cause=%u", event->cause);
}

int cofi_event_print(const struct cofi_event *event, const struct cofi_context *before, char *out, size_t n)
{
    static const struct cofi_context none = {.vmcs = UINT64_MAX};
    struct line line = {out, n, 0};
    if (n > 0)
        out[0] = 0;
    add(&line, "%s", event->kind < COFI_EVENT_KINDS ? cofi__event_kinds[event->kind] : "?");
    add_cause(&line, event);
    bool ratios = event->kind == COFI_EV_FREQ && event->value <= UINT8_MAX;
    if (ratios)
        add(&line, " ratio=%u effective=%u", (unsigned)event->value, event->size);
    struct cofi_event rest = *event;
    if (ratios)
        rest.value = rest.size = 0;
#define X(key, member, base, max) \
    if (rest.member != 0)         \
        add_key(&line, key, rest.member, base);
    COFI_EVENT_KEYS(X)
#undef X
    if (event->vector != COFI_NO_VECTOR)
        add(&line, " vector=%u", event->vector);
    if (event->taken)
        add(&line, " taken");
    if (event->deferred)
        add(&line, " deferred");
    if (event->context_set)
        add_context(&line, &event->after, before ? before : &none);
    return (int)line.n;
}
