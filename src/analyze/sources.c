/* SPDX-License-Identifier: MIT
 * Modules in the order of what they executed; lines, functions and branches of all modules -> by source file. */
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
    COFI_TRY(cofi__array_grow(&coverage->source_rows, &coverage->source_rows_room, coverage->source_rows_n,
                              sizeof *coverage->source_rows));
    coverage->source_rows[coverage->source_rows_n++] = (struct source_row){file, count, line};
    return 0;
}

void cofi__coverage_sources_free(struct cofi_coverage *coverage)
{
    free(coverage->source_rows);
    free(coverage->sources);
    free(coverage->source_lines);
    free(coverage->source_functions);
    free(coverage->source_branches);
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
            coverage->sources[coverage->sources_n++] = (struct cofi_coverage_source){
                .file = rows[i].file, .lines = &coverage->source_lines[n]};
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

static void count_rows(const struct cofi_coverage *coverage, size_t *functions, size_t *branches)
{
    *functions = *branches = 0;
    for (size_t i = 1; i < coverage->modules_n; i++) {
        *functions += coverage->modules[i].pub.functions_n;
        *branches += coverage->modules[i].pub.branches_n;
    }
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

/* ---- branches ---- */

static int compare_counts(uint64_t x, uint64_t y) { return (x > y) - (x < y); }

/* What files share a line of is told apart by address; of modules that are alike nothing tells which
 * came first, so the counts do. */
static int by_branch(const void *a, const void *b)
{
    const struct cofi_coverage_branch *x = *(const struct cofi_coverage_branch *const *)a,
                                      *y = *(const struct cofi_coverage_branch *const *)b;
    if (x->file != y->file)
        return strcmp(x->file, y->file);
    if (x->line != y->line)
        return x->line < y->line ? -1 : 1;
    if (x->addr != y->addr)
        return x->addr < y->addr ? -1 : 1;
    return x->taken != y->taken ? compare_counts(x->taken, y->taken) : compare_counts(x->not_taken, y->not_taken);
}

static size_t list_branches(struct cofi_coverage *coverage)
{
    size_t n = 0;
    for (size_t i = 1; i < coverage->modules_n; i++) {
        const struct cofi_coverage_module *module = &coverage->modules[i].pub;
        for (size_t k = 0; k < module->branches_n; k++)
            if (module->branches[k].file)
                coverage->source_branches[n++] = &module->branches[k];
    }
    qsort(coverage->source_branches, n, sizeof *coverage->source_branches, by_branch);
    return n;
}

/* ---- all of a file ---- */

static const char *function_file(const struct cofi_coverage *coverage, size_t i)
{
    return coverage->source_functions[i]->file;
}
static const char *branch_file(const struct cofi_coverage *coverage, size_t i)
{
    return coverage->source_branches[i]->file;
}

/* How many of a list's n rows are of a file; *at: from where on, first and then the first of them. Rows
 * and files come in the same order. */
static size_t rows_of(const struct cofi_coverage *coverage, const char *file, size_t n, size_t *at,
                      const char *(*file_of)(const struct cofi_coverage *coverage, size_t i))
{
    while (*at < n && strcmp(file_of(coverage, *at), file) < 0)
        ++*at;
    size_t end = *at;
    while (end < n && file_of(coverage, end) == file)
        end++;
    return end - *at;
}

static void share_out(struct cofi_coverage *coverage, size_t functions_n, size_t branches_n)
{
    size_t function = 0, branch = 0;
    for (size_t i = 0; i < coverage->sources_n; i++) {
        struct cofi_coverage_source *source = &coverage->sources[i];
        source->functions_n = rows_of(coverage, source->file, functions_n, &function, function_file);
        source->functions = coverage->source_functions + function;
        source->branches_n = rows_of(coverage, source->file, branches_n, &branch, branch_file);
        source->branches = coverage->source_branches + branch;
    }
}

static int make_sources(struct cofi_coverage *coverage)
{
    size_t rows = coverage->source_rows_n, functions, branches;
    count_rows(coverage, &functions, &branches);
    coverage->sources = calloc(rows + 1, sizeof *coverage->sources);
    coverage->source_lines = calloc(rows + 1, sizeof *coverage->source_lines);
    coverage->source_functions = calloc(functions + 1, sizeof *coverage->source_functions);
    coverage->source_branches = calloc(branches + 1, sizeof *coverage->source_branches);
    if (!coverage->sources || !coverage->source_lines || !coverage->source_functions || !coverage->source_branches)
        return COFI_ERR_NOMEM;
    if (rows)
        qsort(coverage->source_rows, rows, sizeof *coverage->source_rows, by_line);
    sum_lines(coverage);
    share_out(coverage, list_functions(coverage), list_branches(coverage));
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
    if (x->size != y->size)
        return x->size - y->size;
    return x->function != y->function ? (x->function < y->function ? -1 : 1) : x->n - y->n;
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

static int finish(struct cofi_coverage *coverage)
{
    COFI_TRY(cofi__coverage_order(coverage));
    cofi__target_sort(coverage);
    COFI_TRY(cover_modules(coverage));
    COFI_TRY(make_sources(coverage));
    struct cofi_coverage_module *results = calloc(coverage->modules_n, sizeof *results);
    if (!results)
        return COFI_ERR_NOMEM;
    for (size_t i = 1; i < coverage->modules_n; i++)
        /* something ran, if not what was asked for */
        if (coverage->modules[i].pub.insns_n || coverage->modules[i].pub.functions_n)
            results[coverage->results_n++] = coverage->modules[i].pub;
    qsort(results, coverage->results_n, sizeof *results, by_executed);
    coverage->results = results;
    return 0;
}

int cofi_coverage_finish(struct cofi_coverage *coverage)
{
    cofi__coverage_settle(coverage);
    if (coverage->status >= 0 && !coverage->results)
        coverage->status = finish(coverage);
    return coverage->status;
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
