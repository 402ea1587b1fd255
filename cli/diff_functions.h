/* SPDX-License-Identifier: MIT
 * What ran of each function in two runs -> those of which it was not as much. */
#ifndef COFI_CLI_DIFF_FUNCTIONS_H
#define COFI_CLI_DIFF_FUNCTIONS_H

#include "diff_report.h"

/* A table, or objects: functions whose calls or instructions differ, those of which the instructions
 * differ most first. 0 or COFI_ERR_NOMEM. */
int diff_functions_write(struct diff_report *report);

#endif
