/* SPDX-License-Identifier: MIT
 * What cofi coverage prints. */
#ifndef COFI_CLI_COVERAGE_H
#define COFI_CLI_COVERAGE_H

#include <cofi/cofi.h>

#include "writer.h"

enum coverage_by { BY_MODULE, BY_FUNCTION, BY_LINE, BY_BRANCH, BY_INSN };
enum coverage_sort { SORT_EXECUTED, SORT_ENTERED, SORT_SHARE, SORT_NAME, SORT_ADDRESS };

struct coverage_table {
    enum coverage_by by;
    enum coverage_sort sort;
    bool all;  /* what did not run, too */
    bool json;
    bool in_source; /* branches: only those that a line is known of */
    struct cofi_demangler *names; /* as they are shown */
};

/* 0 or COFI_ERR_NOMEM. */
int coverage_print(const struct coverage_table *table, const struct cofi_coverage *coverage, struct writer *out);

#endif
