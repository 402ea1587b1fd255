/* SPDX-License-Identifier: MIT
 * What cofi coverage prints. */
#ifndef COFI_CLI_COVERAGE_H
#define COFI_CLI_COVERAGE_H

#include <stdio.h>
#include <time.h>

#include <cofi/cofi.h>

#include "writer.h"

enum coverage_by { BY_MODULE, BY_FUNCTION, BY_SOURCE, BY_LINE, BY_BRANCH, BY_TARGET, BY_INSN };
enum coverage_sort { SORT_EXECUTED, SORT_ENTERED, SORT_SHARE, SORT_NAME, SORT_ADDRESS };

struct coverage_table {
    enum coverage_by by;
    enum coverage_sort sort;
    bool all;  /* what did not run, too */
    bool json;
    bool in_source; /* branches and targets: only of those that a line is known of */
    bool some;      /* source: only what is around code that was asked for */
    const char *symfs; /* source: the files may be below it; null: not */
    time_t recorded;   /* source: files should not be newer; 0: nobody knows */
    struct cofi_demangler *names; /* as they are shown */
    uint64_t gaps, overflows;     /* a page: what is missing */
};

/* One line on a source file, if it is to be shown: something of it ran, or all are. */
bool coverage_print_source_title(const struct coverage_table *table, const struct cofi_coverage_source *source,
                                 struct writer *out);
/* BY_SOURCE: the files, with counts beside their lines. */
void coverage_print_source(const struct coverage_table *table, const struct cofi_coverage *coverage,
                           struct writer *out);
/* A source file as it is written, below --symfs, or here. Null: it is not there. What could not be shown
 * as it should is noted. */
struct source_trouble {
    size_t missing, newer;
    const char *first_missing, *first_newer;
};
FILE *coverage_open_source(const struct coverage_table *table, const char *path, struct source_trouble *trouble);
void coverage_tell_trouble(const struct source_trouble *trouble);

/* Names as they are shown. A module's memory is told apart by whose it is; what has no name by where it begins. */
void coverage_module_title(const struct cofi_coverage_module *module, char *out, size_t n);
void coverage_function_name(const struct coverage_table *table, const struct cofi_coverage_module *module,
                            const struct cofi_coverage_function *function, char *out, size_t n);

/* A page of HTML: files of which something ran, and all functions of the modules. 0 or COFI_ERR_NOMEM. */
int coverage_page(const struct coverage_table *table, const struct cofi_coverage *coverage, struct writer *out);
/* What coverage_print would have nothing of, though something ran; null: it has something. */
const char *coverage_lacks(const struct coverage_table *table, const struct cofi_coverage *coverage);
/* 0 or COFI_ERR_NOMEM. */
int coverage_print(const struct coverage_table *table, const struct cofi_coverage *coverage, struct writer *out);

#endif
