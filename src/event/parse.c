/* SPDX-License-Identifier: MIT
 * A line of text -> an event. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "event/text.h"

/* A word of the line: letters up to a blank or '='. */
struct word {
    const char *text;
    size_t n;
};

static struct word next_word(const char **t)
{
    *t += strspn(*t, " \t");
    struct word word = {*t, strcspn(*t, " \t=")};
    *t += word.n;
    return word;
}

static bool is(struct word word, const char *text)
{
    return strlen(text) == word.n && !strncmp(word.text, text, word.n);
}

static int find(struct word word, const char *const *words, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (is(word, words[i]))
            return (int)i;
    return COFI_ERR_NOT_FOUND;
}

static int number(const char *start, const char **t, enum cofi__key_base base, uint64_t max, uint64_t *value,
                  struct cofi_error *error)
{
    char *end;
    size_t at = (size_t)(*t - start);
    errno = 0;
    if (**t == '-' || **t == '+')
        return cofi__fail(error, COFI_ERR_SYNTAX, at, "a number without sign is needed");
    *value = strtoull(*t, &end, base == COFI__HEX ? 16 : 10);
    if (end == *t || (*end != 0 && *end != ' ' && *end != '\t'))
        return cofi__fail(error, COFI_ERR_SYNTAX, at, "not a %s number",
                          base == COFI__HEX ? "hexadecimal" : "decimal");
    if (errno == ERANGE || *value > max)
        return cofi__fail(error, COFI_ERR_RANGE, at, "the number is larger than %llx", (unsigned long long)max);
    *t = end;
    return COFI_OK;
}

/* key=value, *t at the '='. */
static int parse_key(const char *start, struct word word, const char **t, struct cofi_event *event,
                     struct cofi_error *error)
{
    uint64_t value;
    ++*t;
#define X(key, member, base, max)                                          \
    if (is(word, key)) {                                                   \
        COFI_TRY(number(start, t, base, max, &value, error));              \
        event->member = (__typeof__(event->member))value;                  \
        return COFI_OK;                                                    \
    }
    COFI_EVENT_KEYS(X)
    X("vector", vector, COFI__DEC, UINT16_MAX)
    X("cause", cause, COFI__DEC, UINT8_MAX)
    X("ratio", value, COFI__DEC, UINT8_MAX) /* FREQ */
    X("effective", size, COFI__DEC, UINT8_MAX)
#undef X
#define X(key, member, base, max)                                          \
    if (is(word, key)) {                                                   \
        COFI_TRY(number(start, t, base, max, &value, error));              \
        event->after.member = (__typeof__(event->after.member))value;      \
        event->context_set = true;                                         \
        return COFI_OK;                                                    \
    }
    COFI_CONTEXT_KEYS(X)
#undef X
    return cofi__fail(error, COFI_ERR_SYNTAX, (uint64_t)(word.text - start), "no key '%.*s'", (int)word.n, word.text);
}

static int parse_head(const char *start, const char **t, struct cofi_event *event, struct cofi_error *error)
{
    struct word word = next_word(t);
    int kind = find(word, cofi__event_kinds, COFI_EVENT_KINDS);
    if (kind < 0)
        return cofi__fail(error, COFI_ERR_SYNTAX, (uint64_t)(word.text - start), "no event '%.*s'", (int)word.n,
                          word.text);
    event->kind = (uint8_t)kind;
    size_t n;
    const char *const *words = cofi__event_causes(event->kind, &n);
    if (!words)
        return COFI_OK;
    word = next_word(t);
    int cause = find(word, words, n);
    if (cause < 0)
        return cofi__fail(error, COFI_ERR_SYNTAX, (uint64_t)(word.text - start), "no cause '%.*s' of '%s'", (int)word.n,
                          word.text, cofi__event_kinds[kind]);
    event->cause = (uint8_t)cause;
    return COFI_OK;
}

int cofi_event_parse(const char *text, const struct cofi_context *before, struct cofi_event *event,
                     struct cofi_error *error)
{
    static const struct cofi_context none = {.vmcs = UINT64_MAX};
    const char *t = text;
    *event = (struct cofi_event){.vector = COFI_NO_VECTOR, .after = before ? *before : none};
    COFI_TRY(parse_head(text, &t, event, error));
    for (t += strspn(t, " \t"); *t; t += strspn(t, " \t")) {
        struct word word = next_word(&t);
        if (*t == '=')
            COFI_TRY(parse_key(text, word, &t, event, error));
        else if (is(word, "taken"))
            event->taken = true;
        else if (is(word, "deferred"))
            event->deferred = true;
        else if (is(word, ":"))
            event->context_set = true;
        else
            return cofi__fail(error, COFI_ERR_SYNTAX, (uint64_t)(word.text - text), "no word '%.*s' in an event",
                              (int)word.n, word.text);
    }
    return COFI_OK;
}
