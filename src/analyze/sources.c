/* SPDX-License-Identifier: MIT
 * Modules in the order of what they executed; lines and functions of all modules -> by source file. */
#include <stdlib.h>
#include <string.h>

#include "analyze/coverage.h"

#include "base/array.h"
#include "base/error.h"

struct source_row {
    const char *file;
    uint64_t count;
    uint32_t line;
};

int cofi__coverage_line(struct cofi_coverage *coverage, const char *file, uint32_t line, uint64_t count)
{
    COFI_TRY(cofi__array_grow(&coverage->source_rows, &coverage->source_rows_room, coverage->source_rows_n, sizeof *coverage->source_rows));
    coverage->source_rows[coverage->source_rows_n++] = (struct source_row){file, count, line};
    return 0;
}

void cofi__coverage_sources_free(struct cofi_coverage *coverage)
{
    free(coverage->source_rows);
    free(coverage->sources);
    free(coverage->source_lines);
    free(coverage->source_functions);
}

/* ---- lines ---- */

static int by_line(const void *a, const void *b)
{
    const struct source_row *x = a, *y = b;
    if (x->file != y->file)
        return strcmp(x->file, y->file);
    return (x->line > y->line) - (x->line < y->line);
}

/* Each line once, under its file. */
static void sum_lines(struct cofi_coverage *coverage)
{
    const struct source_row *rows = coverage->source_rows;
    size_t n = 0;
    for (size_t i = 0; i < coverage->source_rows_n; i++) {
        bool same_file = i && rows[i].file == rows[i - 1].file;
        if (same_file && rows[i].line == rows[i - 1].line) {
            coverage->source_lines[n - 1].count += rows[i].count;
            continue;
        }
        if (!same_file)
            coverage->sources[coverage->sources_n++] = (struct cofi_coverage_source){.file = rows[i].file, .lines = &coverage->source_lines[n]};
        coverage->source_lines[n++] = (struct cofi_coverage_line){rows[i].line, rows[i].count};
        coverage->sources[coverage->sources_n - 1].lines_n++;
    }
}

/* ---- functions ---- */

static int by_file(const void *a, const void *b)
{
    const struct cofi_coverage_function *x = *(const struct cofi_coverage_function *const *)a,
                                        *y = *(const struct cofi_coverage_function *const *)b;
    if (x->file != y->file)
        return strcmp(x->file, y->file);
    if (x->line != y->line)
        return x->line < y->line ? -1 : 1;
    int names = strcmp(x->name, y->name);
    return names ? names : (x->addr > y->addr) - (x->addr < y->addr);
}

static size_t count_functions(const struct cofi_coverage *coverage)
{
    size_t n = 0;
    for (size_t i = 1; i < coverage->modules_n; i++)
        n += coverage->modules[i].pub.functions_n;
    return n;
}

/* Those that have a name and begin in a file. */
static size_t list_functions(struct cofi_coverage *coverage)
{
    size_t n = 0;
    for (size_t i = 1; i < coverage->modules_n; i++) {
        const struct cofi_coverage_module *module = &coverage->modules[i].pub;
        for (size_t k = 0; k < module->functions_n; k++)
            if (module->functions[k].name && module->functions[k].file)
                coverage->source_functions[n++] = &module->functions[k];
    }
    qsort(coverage->source_functions, n, sizeof *coverage->source_functions, by_file);
    return n;
}

/* Both lists are by file. */
static void share_functions(struct cofi_coverage *coverage, size_t n)
{
    size_t at = 0;
    for (size_t i = 0; i < coverage->sources_n; i++) {
        struct cofi_coverage_source *source = &coverage->sources[i];
        while (at < n && strcmp(coverage->source_functions[at]->file, source->file) < 0)
            at++;
        source->functions = coverage->source_functions + at;
        while (at < n && coverage->source_functions[at]->file == source->file) {
            source->functions_n++;
            at++;
        }
    }
}

static int make_sources(struct cofi_coverage *coverage)
{
    size_t rows = coverage->source_rows_n, functions = count_functions(coverage);
    coverage->sources = calloc(rows + 1, sizeof *coverage->sources);
    coverage->source_lines = calloc(rows + 1, sizeof *coverage->source_lines);
    coverage->source_functions = calloc(functions + 1, sizeof *coverage->source_functions);
    if (!coverage->sources || !coverage->source_lines || !coverage->source_functions)
        return COFI_ERR_NOMEM;
    if (rows)
        qsort(coverage->source_rows, rows, sizeof *coverage->source_rows, by_line);
    sum_lines(coverage);
    share_functions(coverage, list_functions(coverage));
    return 0;
}

/* ---- modules ---- */

static int by_place(const void *a, const void *b)
{
    const struct place_count *x = *(const struct place_count *const *)a, *y = *(const struct place_count *const *)b;
    if (x->module != y->module)
        return x->module < y->module ? -1 : 1;
    if (x->addr != y->addr)
        return x->addr < y->addr ? -1 : 1;
    return x->size - y->size;
}

static int cover_modules(struct cofi_coverage *coverage)
{
    size_t n = 0;
    const struct place_count **places = calloc(coverage->places_n, sizeof *places);
    if (!places)
        return COFI_ERR_NOMEM;
    for (size_t i = 1; i < coverage->places_n; i++)
        if (coverage->places[i].count)
            places[n++] = &coverage->places[i];
    qsort(places, n, sizeof *places, by_place);
    int status = 0;
    for (size_t i = 0, next; i < n && status >= 0; i = next) {
        uint32_t module = places[i]->module;
        for (next = i + 1; next < n && places[next]->module == module; next++) {
        }
        status = cofi__covered(coverage, &coverage->modules[module], places + i, next - i);
    }
    free(places);
    return status;
}

static int by_executed(const void *a, const void *b)
{
    const struct cofi_coverage_module *x = a, *y = b;
    if (x->executed != y->executed)
        return x->executed > y->executed ? -1 : 1;
    int paths = strcmp(x->path, y->path);
    return paths ? paths : (x->pid > y->pid) - (x->pid < y->pid);
}

int cofi_coverage_finish(struct cofi_coverage *coverage)
{
    cofi__coverage_settle(coverage);
    COFI_TRY(cover_modules(coverage));
    COFI_TRY(make_sources(coverage));
    struct cofi_coverage_module *results = calloc(coverage->modules_n, sizeof *results);
    if (!results)
        return COFI_ERR_NOMEM;
    for (size_t i = 1; i < coverage->modules_n; i++)
        if (coverage->modules[i].pub.insns_n || coverage->modules[i].pub.functions_n) /* something ran, if not what was asked for */
            results[coverage->results_n++] = coverage->modules[i].pub;
    qsort(results, coverage->results_n, sizeof *results, by_executed);
    coverage->results = results;
    return 0;
}

const struct cofi_coverage_module *cofi_coverage_modules(const struct cofi_coverage *coverage, size_t *n)
{
    *n = coverage->results_n;
    return coverage->results;
}

const struct cofi_coverage_source *cofi_coverage_sources(const struct cofi_coverage *coverage, size_t *n)
{
    *n = coverage->sources_n;
    return coverage->sources;
}
