/* SPDX-License-Identifier: MIT
 * Writers: blocks of a flow -> lines of text; coverage -> the files that others read. */
#ifndef COFI_PRESENT_H
#define COFI_PRESENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cofi/analyze.h>
#include <cofi/demangle.h>
#include <cofi/flow.h>
#include <cofi/image.h>

#ifdef __cplusplus
extern "C" {
#endif

/* How an instruction is shown, one line each. */
enum cofi_lines_format {
    COFI_LINES_IP,   /* address only, 16 hex digits */
    COFI_LINES_TEXT, /* address, symbol+offset, source line, disassembly */
    COFI_LINES_JSON  /* an object with "v":1 */
};

/* Lines of blocks, made once a block and then kept (32 MiB at most), so that a block
 * seen again costs a copy. One per flow; not thread safe. */
struct cofi_lines;

/* tid: for JSON. source: whether to look source lines up. Errors: COFI_ERR_NOMEM. */
int cofi_lines_open(struct cofi_lines **lines, enum cofi_lines_format format, int32_t tid,
                    int source);
void cofi_lines_close(struct cofi_lines *lines);

/* The block's lines, *n bytes, each line ending in a newline. Valid until the next
 * call. Null: out of memory. line_ends, if not null, receives where the block's
 * array of n line ends (offsets) is. */
const char *cofi_lines_block(struct cofi_lines *lines, struct cofi_view *view,
                             const struct cofi_flow_block *block, size_t *n,
                             const uint32_t **line_ends);
/* Names are shown as this one makes them (null, and before: as symbols have them).
 * It stays open; what was made stays, too. */
void cofi_lines_demangle(struct cofi_lines *lines, struct cofi_demangler *demangler);
/* What follows is of another thread. */
void cofi_lines_thread(struct cofi_lines *lines, int32_t tid);
/* Code or symbols changed: make all lines anew. */
void cofi_lines_forget(struct cofi_lines *lines);

/* ---- coverage, once it is finished ---- */

/* Takes n bytes of output; negative: an error that ends it, and is returned. */
typedef int cofi_put(void *opaque, const char *bytes, size_t n);
/* lcov's tracefile: a record for each source file with its functions (FN, FNDA), branches (BRDA)
 * and lines (DA), those that did not run, too, so put that lcov 2 finds nothing inconsistent. Of
 * what was opened with `names` and `lines`. 0, COFI_ERR_NOMEM, or what put returned. */
int cofi_coverage_lcov(const struct cofi_coverage *coverage, cofi_put *put, void *opaque);
/* drcov, version 2, as DynamoRIO writes it on Linux: each block that ran, once.
 * Error besides: COFI_ERR_RANGE, more than 65536 modules. */
int cofi_coverage_drcov(const struct cofi_coverage *coverage, cofi_put *put, void *opaque);
/* A module's branches, and what was gone through between them, for LLVM's BOLT:
 * perf2bolt's pre-aggregated profile (-pa). Of what was opened with `names` and
 * `ways`. 0, COFI_ERR_NOMEM, or what put returned. */
int cofi_coverage_bolt(const struct cofi_coverage_module *module, cofi_put *put, void *opaque);
/* How often lines ran, what they called, and the same of what was inlined, by function: a
 * sample profile (AutoFDO) in LLVM's text, of all modules together. Of what was opened
 * with `names`, `lines`, `ways` and `scopes`. 0, COFI_ERR_NOMEM, or what put returned. */
int cofi_coverage_afdo(const struct cofi_coverage *coverage, cofi_put *put, void *opaque);
/* The same in the form that GCC reads (-fauto-profile, version 2, as of GCC 12). */
int cofi_coverage_afdo_gcc(const struct cofi_coverage *coverage, cofi_put *put, void *opaque);

/* ---- calls, as they come ---- */

/* What a thread called, and when. Where no time is told instructions share what lies
 * between two times that are; where tracing was off meanwhile they have a nanosecond
 * each at most. Memory: the calls that have not ended, up to 2^18 events that wait
 * for a time, and for SQL the distinct paths of calls. */
struct cofi_timeline;

enum cofi_timeline_format {
    COFI_TIMELINE_CHROME, /* Chrome's trace events (JSON: B, E, i and M; times in
                           * microseconds, process and thread numbers as given), which
                           * Perfetto and other viewers draw [Chrome's Trace Event Format] */
    COFI_TIMELINE_SQL     /* a script that makes a database of them, for sqlite3: a row a
                           * call, written where it ends, in tables as perf's export-to-sqlite
                           * makes them; times in nanoseconds. See cofi-calls(1) */
};

struct cofi_timeline_options {
    size_t size;          /* sizeof(struct cofi_timeline_options) */
    cofi_put *put;        /* takes the text, all of one thread's in order; those of
                           * several may be mixed event by event */
    void *opaque;
    int32_t pid, tid;
    const char *comm;     /* the thread's name; it stays until cofi_timeline_close */
    uint64_t depth;       /* levels that are drawn */
    uint64_t least_insns; /* calls of fewer instructions are left out */
    bool process;         /* the thread's name is its process's, too */
    bool first;           /* nothing was put yet: a head comes first. Behind the last
                           * thread's its caller puts cofi_timeline_tail */
    enum cofi_timeline_format format;
    uint32_t number;      /* SQL: of the thread, from 1 on, no two have the same */
};

/* What comes behind the last thread's text; "" for a format of a newer library. Static. */
const char *cofi_timeline_tail(enum cofi_timeline_format format);
/* Copies the options; the names of process and thread are put. Errors: COFI_ERR_NOMEM,
 * COFI_ERR_UNSUPPORTED (options or a format of a newer library), COFI_ERR_RANGE (an
 * impossible size). Inverse: cofi_timeline_close, which may be given null. */
int cofi_timeline_open(struct cofi_timeline **timeline,
                       const struct cofi_timeline_options *options);
void cofi_timeline_close(struct cofi_timeline *timeline);
/* In order, as cofi_calls_watch tells of them; insns: how many ran before. What
 * `function` points to stays. Errors are told at the end. */
void cofi_timeline_enter(struct cofi_timeline *timeline, const struct cofi_function *function,
                         uint64_t insns);
void cofi_timeline_leave(struct cofi_timeline *timeline, uint64_t insns);
/* It is `ns` (nanoseconds) now; what lies before a time that was told is passed over. */
void cofi_timeline_time(struct cofi_timeline *timeline, uint64_t ns, uint64_t insns);
/* The thread is not traced from here on, until something is told of it again. name:
 * why, drawn in brackets; it stays valid. */
void cofi_timeline_off(struct cofi_timeline *timeline, const char *name, uint64_t insns);
/* Something is missing here, for this reason. */
void cofi_timeline_gap(struct cofi_timeline *timeline, const char *text, uint64_t insns);
/* Nothing follows; all is left. 0, COFI_ERR_NOMEM (then calls are missing), or put's
 * first error. */
int cofi_timeline_end(struct cofi_timeline *timeline, uint64_t insns);

/* Room for a printed name as JSON has it: six bytes for one. */
enum { COFI_NAME_JSON_BYTES = 6 * COFI_NAME_BYTES };
/* A function as cofi_symbol_print prints a symbol: its name, or where it begins;
 * returns the length as snprintf. */
int cofi_function_print(const struct cofi_function *function, char *out, size_t n);
/* "name+0x12" (or "name", "module+0x…", "0x…") of an address; returns the length as snprintf. */
int cofi_symbol_print(const struct cofi_symbol *symbol, uint64_t address, char *out, size_t n);
/* text as JSON has it, quoted and escaped, into out (cut to fit, at a character's end); "null" for
 * a null pointer. Always UTF-8: each byte that is none becomes U+FFFD. Returns out. n >= 8. */
const char *cofi_json_string(const char *text, char *out, size_t n);

#ifdef __cplusplus
}
#endif
#endif
