/* SPDX-License-Identifier: MIT
 * Coverage -> a page of HTML: files with their lines, functions. The page itself is coverage_page.html. */
#include "coverage.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "coverage_page.html.h"
#include "page.h"

/* ---- files ---- */

/* As it is written, an array of lines. */
static void write_source(struct writer *out, FILE *file)
{
    char *line = NULL;
    size_t room = 0;
    ssize_t n;
    write_text(out, ",\"text\":[");
    for (bool first = true; (n = getline(&line, &room, file)) > 0; first = false) {
        line[strcspn(line, "\r\n")] = '\0';
        write_text(out, first ? "\n" : ",\n");
        page_string(out, line);
    }
    write_text(out, "]");
    free(line);
}

static void write_file(const struct coverage_table *table, const struct cofi_coverage_source *source,
                       struct source_trouble *trouble, struct writer *out)
{
    write_text(out, "\n{\"file\":");
    page_string(out, source->file);
    write_text(out, ",\"lines\":[");
    for (size_t i = 0; i < source->lines_n; i++)
        write_format(out, "%s[%" PRIu32 ",%" PRIu64 "]", i ? "," : "", source->lines[i].line, source->lines[i].count);
    write_text(out, "],\"branches\":[");
    for (size_t i = 0; i < source->branches_n; i++)
        write_format(out, "%s[%" PRIu32 ",%" PRIu64 ",%" PRIu64 "]", i ? "," : "", source->branches[i]->line,
                     source->branches[i]->taken, source->branches[i]->not_taken);
    write_text(out, "]");
    FILE *file = coverage_open_source(table, source->file, trouble);
    if (file) {
        write_source(out, file);
        fclose(file);
    } else {
        write_text(out, ",\"text\":null");
    }
    write_text(out, "}");
}

static bool ran(const struct cofi_coverage_source *source)
{
    for (size_t i = 0; i < source->lines_n; i++)
        if (source->lines[i].count)
            return true;
    return false;
}

/* Those of which something ran. numbers: of each of all, its number in the page, or -1. */
static void write_files(const struct coverage_table *table, const struct cofi_coverage_source *sources, size_t n,
                        int32_t *numbers, struct writer *out)
{
    struct source_trouble trouble = {0};
    int32_t written = 0;
    write_text(out, ",\"files\":[");
    for (size_t i = 0; i < n; i++) {
        numbers[i] = ran(&sources[i]) ? written++ : -1;
        if (numbers[i] < 0)
            continue;
        write_text(out, numbers[i] ? "," : "");
        write_file(table, &sources[i], &trouble, out);
    }
    write_text(out, "]");
    coverage_tell_trouble(&trouble);
}

/* ---- functions ---- */

static int compare_files(const void *name, const void *source)
{
    return strcmp(name, ((const struct cofi_coverage_source *)source)->file);
}

static void write_function(const struct coverage_table *table, const struct cofi_coverage_module *module, size_t number,
                           const struct cofi_coverage_function *f, int32_t file, struct writer *out)
{
    char name[COFI_NAME_BYTES];
    coverage_function_name(table, module, f, name, sizeof name);
    write_format(out, "\n{\"module\":%zu,\"name\":", number);
    page_string(out, name);
    write_format(out,
                 ",\"executed\":%" PRIu64 ",\"entered\":%" PRIu64 ",\"bytes\":%" PRIu64 ",\"size\":%" PRIu64
                 ",\"lines\":%" PRIu32 ",\"lines_ran\":%" PRIu32 ",\"outcomes\":%" PRIu32 ",\"seen\":%" PRIu32
                 ",\"file\":%d,\"line\":%d}",
                 f->executed, f->entered, f->bytes, f->size, f->lines, f->lines_ran, f->outcomes, f->outcomes_seen,
                 file, f->line);
}

/* sources are in the order of their names. */
static int32_t file_number(const struct cofi_coverage_source *sources, size_t n, const int32_t *numbers,
                           const char *name)
{
    const struct cofi_coverage_source *source = name ? bsearch(name, sources, n, sizeof *sources, compare_files) : NULL;
    return source ? numbers[source - sources] : -1;
}

static void write_modules(const struct cofi_coverage_module *modules, size_t n, struct writer *out)
{
    char title[COFI_NAME_BYTES];
    for (size_t i = 0; i < n; i++) {
        coverage_module_title(&modules[i], title, sizeof title);
        write_text(out, i ? "," : "");
        page_string(out, title);
    }
    write_text(out, "]");
}

int coverage_page(const struct coverage_table *table, const struct cofi_coverage *coverage, struct writer *out)
{
    size_t modules_n, sources_n, written = 0;
    const struct cofi_coverage_module *modules = cofi_coverage_modules(coverage, &modules_n);
    const struct cofi_coverage_source *sources = cofi_coverage_sources(coverage, &sources_n);
    int32_t *numbers = calloc(sources_n + 1, sizeof *numbers);
    if (!numbers)
        return COFI_ERR_NOMEM;
    page_begin(out, coverage_page_html);
    write_format(out, "{\"v\":1,\"gaps\":%" PRIu64 ",\"overflows\":%" PRIu64 ",\"modules\":[", table->gaps,
                 table->overflows);
    write_modules(modules, modules_n, out);
    write_files(table, sources, sources_n, numbers, out);
    write_text(out, ",\"functions\":[");
    for (size_t i = 0; i < modules_n; i++)
        for (size_t k = 0; k < modules[i].functions_n; k++) {
            const struct cofi_coverage_function *f = &modules[i].functions[k];
            write_text(out, written++ ? "," : "");
            write_function(table, &modules[i], i, f, file_number(sources, sources_n, numbers, f->file), out);
        }
    write_text(out, "]}\n");
    page_end(out, coverage_page_html);
    free(numbers);
    return 0;
}
