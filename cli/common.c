/* SPDX-License-Identifier: MIT
 * What the commands share: numbers and words as people give them, arrays that grow. See cli.h. */
#include <ctype.h>
#include <errno.h>
#include <fnmatch.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

int see_help(const char *command)
{
    fprintf(stderr, "'cofi %s --help' lists the options\n", command);
    return EXIT_USAGE;
}

int bad_value(const char *command, const char *option, const char *value)
{
    complain("%s: bad value '%s' of --%s; 'cofi %s --help' tells what is possible", command, value, option, command);
    return EXIT_USAGE;
}

bool parse_number(const char *text, uint64_t most, uint64_t *value)
{
    char *end;
    errno = 0;
    *value = strtoull(text, &end, 0);
    return *text >= '0' && *text <= '9' && !*end && !errno && *value <= most;
}

bool parse_hex(const char *text, uint64_t *address)
{
    char *end;
    errno = 0;
    *address = strtoull(text, &end, 16);
    return isxdigit((unsigned char)*text) && !*end && !errno;
}

const char *in_a_line(const char *text, char *out, size_t n)
{
    size_t length = strlen(text), written = 0;
    for (size_t at = 0; at < length && written + 1 < n; written++) {
        size_t control = text[at] == '\n' || text[at] == '\t' ? 1 : control_bytes(text + at, length - at);
        out[written] = control ? '?' : text[at];
        at += control ? control : 1;
    }
    out[written] = 0;
    return out;
}

const char *file_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

bool matches_pattern(const char *pattern, const char *name)
{
    return !pattern || (name && (!fnmatch(pattern, name, 0) || !fnmatch(pattern, file_name(name), 0)));
}

bool matches_module(const char *pattern, const char *name)
{
    char longer[4096];
    if (matches_pattern(pattern, name))
        return true;
    bool fits = (size_t)snprintf(longer, sizeof longer, "%s.*", pattern) < sizeof longer;
    return fits && strstr(pattern, ".so") && matches_pattern(longer, name);
}

int word_number(const char *const *words, const char *text)
{
    for (int i = 0; words[i]; i++)
        if (!strcmp(words[i], text))
            return i;
    return -1;
}

const char *option_name(const struct option *options, int value)
{
    while (options->name && options->val != value)
        options++;
    return options->name ? options->name : "?";
}

bool array_grow(void *array, size_t n, size_t *room, size_t size)
{
    void *rows;
    if (n < *room)
        return true;
    size_t larger = *room ? 2 * *room : 64;
    memcpy(&rows, array, sizeof rows);
    rows = realloc(rows, larger * size);
    if (!rows)
        return false;
    memcpy(array, &rows, sizeof rows);
    *room = larger;
    return true;
}

const char *percent(uint64_t part, uint64_t whole, char out[PERCENT_BYTES])
{
    part = part < whole ? part : whole;
    double share = whole ? 100.0 * (double)part / (double)whole : 0.0;
    if (part && share < 0.1)
        return "<0.1%";
    if (part < whole && share > 99.9)
        return ">99.9%";
    snprintf(out, PERCENT_BYTES, "%.1f%%", share);
    return out;
}
