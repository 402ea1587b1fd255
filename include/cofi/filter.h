/* SPDX-License-Identifier: MIT
 * Address filters in perf's syntax: text -> ranges in files, and perf.data's form of them. */
#ifndef COFI_FILTER_H
#define COFI_FILTER_H

#include <stddef.h>
#include <stdint.h>

#include <cofi/error.h>

#ifdef __cplusplus
extern "C" {
#endif

enum cofi_filter_action {
    COFI_FILTER_RANGE,     /* "filter": trace inside of the range only */
    COFI_FILTER_START,     /* "start": tracing begins when the address is reached */
    COFI_FILTER_STOP,      /* "stop": … and ends, until a start is reached again */
    COFI_FILTER_TRACESTOP, /* "tracestop": a thread that branches into the range is
                            * not traced any more */
    COFI_FILTER_TRIGGER,   /* not perf's: the address asks for a snapshot */
    COFI_FILTER_ACTIONS
};

enum { COFI_FILTERS_MAX = 16 };

/* One filter. path null: start is an address of the process; else an offset in that
 * file, an absolute path. */
struct cofi_filter {
    enum cofi_filter_action action;
    uint64_t start, size; /* bytes; size 0: the one address */
    char *path;
};

/* All zero at first. Distinct ones may be parsed by several threads. */
struct cofi_filters {
    size_t n;
    struct cofi_filter filter[COFI_FILTERS_MAX];
};

/* Append the filters of a text, several of them parted by commas or spaces:
 *   ACTION START [/ SIZE | / END-SYMBOL] [@ FILE]
 * ACTION is filter, start, stop, tracestop or trigger. START is a symbol (its own size is
 * the range's, unless told), a symbol with " #N" behind it for the N-th of that name in the
 * order of addresses or " #g" (#G, #0) for the global one, a number, or * for all of FILE.
 * A number is an offset in FILE, an address where there is none. A symbol without FILE is
 * of `program`, which may be null, is searched in PATH, and is then a file too. A FILE
 * without a slash is the program if that is its name, else a file here, in the folders that
 * the program was linked to look into, or in the library folders; where program is
 * /proc/PID/exe, first one that the process has mapped. Errors: COFI_ERR_SYNTAX,
 * COFI_ERR_NOT_FOUND (file or symbol; the text says which), COFI_ERR_RANGE (a symbol that
 * is there twice, a range beyond the last address, too many filters), COFI_ERR_NOMEM. */
int cofi_filters_parse(struct cofi_filters *filters, const char *text, const char *program,
                       struct cofi_error *error);

/* Append a range of addresses of a program that is linked to fixed ones, as the place in its
 * file; found as the program of cofi_filters_parse. Errors: COFI_ERR_NOT_FOUND (null, no such
 * program, or it has no fixed addresses, or not these), COFI_ERR_RANGE (too many filters). */
int cofi_filters_add(struct cofi_filters *filters, enum cofi_filter_action action, uint64_t address,
                     uint64_t size, const char *program);

/* As perf.data has them: "filter 0x1139/0x25@/path,…", triggers left out. Returns
 * the length without the final 0, which may be n or more: then the text was cut. */
size_t cofi_filters_text(const struct cofi_filters *filters, char *text, size_t n);

/* Release what parsing has allocated. */
void cofi_filters_fini(struct cofi_filters *filters);

#ifdef __cplusplus
}
#endif
#endif
