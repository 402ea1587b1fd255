/* SPDX-License-Identifier: MIT
 * Coverage by source -> a tracefile as lcov's geninfo writes it, for genhtml and whatever else reads these. */
#include <cofi/present.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "present/put.h"

/* Text up to the line's end; lines are not names' to make. */
static void line(struct out *out, const char *text)
{
    for (size_t n; n = strcspn(text, "\r\n"), text[n]; text += n + 1) {
        put_bytes(out, text, n);
        put_text(out, "?");
    }
    put_text(out, text);
    put_text(out, "\n");
}

static void number(struct out *out, const char *key, uint64_t n)
{
    char text[64];
    snprintf(text, sizeof text, "%s:%" PRIu64, key, n);
    line(out, text);
}

/* "key:n,name" */
static void named(struct out *out, const char *key, uint64_t n, const char *name)
{
    char text[64];
    int length = snprintf(text, sizeof text, "%s:%" PRIu64 ",", key, n);
    put_bytes(out, text, (size_t)length);
    line(out, name);
}

/* What the compiler has cut off a function is no function to people. */
static bool is_piece(const char *name)
{
    const char *cold = strstr(name, ".cold");
    return cold && (!cold[5] || cold[5] == '.');
}

/* ---- what a source's record has ---- */

struct row {
    const char *name;
    uint32_t line;
    uint64_t entered;
};

/* Functions, each name once, and lines, as readers want them. */
struct record {
    const struct cofi_coverage_source *source;
    struct row *functions;
    struct cofi_coverage_line *lines;
    size_t functions_n, lines_n;
};

static int by_name(const void *a, const void *b)
{
    const struct row *x = a, *y = b;
    int names = strcmp(x->name, y->name);
    return names ? names : (x->line > y->line) - (x->line < y->line);
}

static int by_line(const void *a, const void *b)
{
    const struct row *x = a, *y = b;
    return x->line != y->line ? (x->line > y->line) - (x->line < y->line) : strcmp(x->name, y->name);
}

static void list_functions(struct record *record)
{
    const struct cofi_coverage_source *source = record->source;
    for (size_t i = 0; i < source->functions_n; i++) {
        const struct cofi_coverage_function *f = source->functions[i];
        if (!is_piece(f->name) && f->line > 0)
            record->functions[record->functions_n++] = (struct row){f->name, (uint32_t)f->line, f->entered};
    }
}

/* Those of one name, from several modules or versions of a symbol, are one. */
static void join_functions(struct record *record)
{
    struct row *rows = record->functions;
    size_t kept = 0;
    qsort(rows, record->functions_n, sizeof *rows, by_name);
    for (size_t i = 0; i < record->functions_n; i++)
        if (kept && !strcmp(rows[kept - 1].name, rows[i].name))
            rows[kept - 1].entered += rows[i].entered;
        else
            rows[kept++] = rows[i];
    record->functions_n = kept;
    qsort(rows, kept, sizeof *rows, by_line);
}

/* A function that was not entered, but lines of it ran, was inlined: as often as the first of these ran,
 * for all that is known. Its lines are those up to where the next one is declared. */
static void see_inlined(struct record *record)
{
    const struct cofi_coverage_source *source = record->source;
    struct row *rows = record->functions;
    size_t line = 0;
    for (size_t i = 0, next; i < record->functions_n; i = next) {
        uint64_t ran = 0;
        for (next = i + 1; next < record->functions_n && rows[next].line == rows[i].line; next++) {
        }
        uint32_t end = next < record->functions_n ? rows[next].line : UINT32_MAX;
        for (; line < source->lines_n && source->lines[line].line < end; line++)
            if (source->lines[line].line >= rows[i].line && !ran)
                ran = source->lines[line].count;
        for (size_t k = i; k < next; k++)
            rows[k].entered = rows[k].entered ? rows[k].entered : ran;
    }
}

/* How often what is declared on the line of function *at was entered; *at: then behind it. */
static uint64_t entered_on(const struct record *record, size_t *at)
{
    uint32_t here = record->functions[*at].line;
    uint64_t entered = 0;
    for (; *at < record->functions_n && record->functions[*at].line == here; ++*at)
        entered += record->functions[*at].entered;
    return entered;
}

static void add_line(struct record *record, uint32_t line, uint64_t count)
{
    record->lines[record->lines_n++] = (struct cofi_coverage_line){line, count};
}

/* Also those on which functions are declared, though they may have no code; as gcov has it, they ran as
 * often as these were entered. */
static void list_lines(struct record *record)
{
    const struct cofi_coverage_source *source = record->source;
    size_t at = 0;
    for (size_t i = 0; i <= source->lines_n; i++) {
        struct cofi_coverage_line known = i < source->lines_n ? source->lines[i]
                                                              : (struct cofi_coverage_line){UINT32_MAX, 0};
        while (at < record->functions_n && record->functions[at].line < known.line) {
            uint32_t declared = record->functions[at].line;
            add_line(record, declared, entered_on(record, &at));
        }
        uint64_t entered = at < record->functions_n && record->functions[at].line == known.line
                               ? entered_on(record, &at)
                               : 0;
        if (i < source->lines_n)
            add_line(record, known.line, entered > known.count ? entered : known.count);
    }
}

static int make_record(struct record *record, const struct cofi_coverage_source *source)
{
    *record = (struct record){.source = source, .functions = calloc(source->functions_n + 1, sizeof *record->functions),
                              .lines = calloc(source->functions_n + source->lines_n + 1, sizeof *record->lines)};
    if (!record->functions || !record->lines)
        return COFI_ERR_NOMEM;
    list_functions(record);
    join_functions(record);
    see_inlined(record);
    list_lines(record);
    return 0;
}

/* ---- writing it ---- */

static void functions(struct out *out, const struct record *record)
{
    uint64_t hit = 0;
    for (size_t i = 0; i < record->functions_n; i++)
        named(out, "FN", record->functions[i].line, record->functions[i].name);
    for (size_t i = 0; i < record->functions_n; i++) {
        named(out, "FNDA", record->functions[i].entered, record->functions[i].name);
        hit += record->functions[i].entered > 0;
    }
    number(out, "FNF", record->functions_n);
    number(out, "FNH", hit);
}

/* "BRDA:line,block,branch,count": a block is one branch of the line, of which branch 0 is that it was
 * taken, 1 that it was not; "-": it did not run. */
static void outcome(struct out *out, const struct cofi_coverage_branch *branch, size_t block, unsigned which,
                    uint64_t count)
{
    char text[96], times[24] = "-";
    if (branch->taken || branch->not_taken)
        snprintf(times, sizeof times, "%" PRIu64, count);
    snprintf(text, sizeof text, "BRDA:%" PRIu32 ",%zu,%u,%s", branch->line, block, which, times);
    line(out, text);
}

/* Whether a line ran; *at: where the search goes on, for lines are asked for in order. */
static bool ran_at(const struct record *record, uint32_t number, size_t *at)
{
    while (*at < record->lines_n && record->lines[*at].line < number)
        ++*at;
    return *at < record->lines_n && record->lines[*at].line == number && record->lines[*at].count;
}

static size_t outcomes_seen(const struct cofi_coverage_branch *const *branches, size_t n)
{
    size_t seen = 0;
    for (size_t i = 0; i < n; i++)
        seen += (branches[i]->taken > 0) + (branches[i]->not_taken > 0);
    return seen;
}

/* A line may run, and the compiler have found other ways than all branches that it has somewhere; then
 * readers want none. */
static void branches(struct out *out, const struct record *record)
{
    const struct cofi_coverage_source *source = record->source;
    size_t found = 0, hit = 0, at = 0;
    for (size_t i = 0, n; i < source->branches_n; i += n) {
        const struct cofi_coverage_branch *const *of_line = source->branches + i;
        for (n = 1; i + n < source->branches_n && of_line[n]->line == of_line[0]->line; n++) {
        }
        size_t seen = outcomes_seen(of_line, n);
        bool ran = ran_at(record, of_line[0]->line, &at);
        if (ran != (seen > 0))
            continue;
        for (size_t k = 0; k < n; k++) {
            outcome(out, of_line[k], k, 0, of_line[k]->taken);
            outcome(out, of_line[k], k, 1, of_line[k]->not_taken);
        }
        found += 2 * n;
        hit += seen;
    }
    if (!found)
        return;
    number(out, "BRF", found);
    number(out, "BRH", hit);
}

static void lines(struct out *out, const struct record *record)
{
    uint64_t hit = 0;
    for (size_t i = 0; i < record->lines_n; i++) {
        char text[64];
        snprintf(text, sizeof text, "DA:%" PRIu32 ",%" PRIu64, record->lines[i].line, record->lines[i].count);
        line(out, text);
        hit += record->lines[i].count > 0;
    }
    number(out, "LF", record->lines_n);
    number(out, "LH", hit);
}

static void write_record(struct out *out, const struct record *record)
{
    line(out, "TN:");
    put_bytes(out, "SF:", 3);
    line(out, record->source->file);
    functions(out, record);
    branches(out, record);
    lines(out, record);
    line(out, "end_of_record");
}

int cofi_coverage_lcov(const struct cofi_coverage *coverage, cofi_put *put, void *opaque)
{
    struct out out = {put, opaque, 0};
    size_t n;
    const struct cofi_coverage_source *sources = cofi_coverage_sources(coverage, &n);
    for (size_t i = 0; i < n && out.status >= 0; i++) {
        struct record record;
        out.status = make_record(&record, &sources[i]);
        if (out.status >= 0)
            write_record(&out, &record);
        free(record.functions);
        free(record.lines);
    }
    return out.status < 0 ? out.status : 0;
}
