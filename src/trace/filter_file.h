/* SPDX-License-Identifier: MIT
 * The FILE of an address filter -> its path. */
#ifndef COFI_TRACE_FILTER_FILE_H
#define COFI_TRACE_FILTER_FILE_H

/* The path of the file that a filter calls so, to be freed; null: none is found. program: as
 * cofi_filters_parse has it. */
char *cofi__filter_file(const char *program, const char *name);
/* Of a program by its name, as execvp finds it. */
char *cofi__filter_program(const char *name);

#endif
