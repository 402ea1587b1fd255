/* SPDX-License-Identifier: MIT
 * A page of HTML with what was recorded in it, as JSON: one file that needs nothing else. */
#ifndef COFI_CLI_PAGE_H
#define COFI_CLI_PAGE_H

#include "writer.h"

/* page: what comes behind page.html, with a place for the data. What is written between these is the
 * data, in which strings go by page_string. */
void page_begin(struct writer *out, const char *page);
void page_end(struct writer *out, const char *page);
/* Quoted, or null; of any length, cut where memory is out. */
void page_string(struct writer *out, const char *text);

#endif
