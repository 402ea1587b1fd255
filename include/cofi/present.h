/* SPDX-License-Identifier: MIT
 * Writers: blocks of a flow -> lines of text; coverage -> the files that others read. */
#ifndef COFI_PRESENT_H
#define COFI_PRESENT_H

#include <stddef.h>
#include <stdint.h>

#include <cofi/analyze.h>
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

/* Lines of blocks, made once a block and then kept (32 MiB at most), so that a block seen again costs a
 * copy. One per flow; not thread safe. */
struct cofi_lines;

/* tid: for JSON. source: whether to look source lines up. Errors: COFI_ERR_NOMEM. */
int cofi_lines_open(struct cofi_lines **lines, enum cofi_lines_format format, int32_t tid, int source);
void cofi_lines_close(struct cofi_lines *lines);

/* The block's lines, *n bytes, each line ending in a newline. Valid until the next call. Null: out of
 * memory. line_ends, if not null, receives where the block's array of n line ends (offsets) is. */
const char *cofi_lines_block(struct cofi_lines *lines, struct cofi_view *view,
                             const struct cofi_flow_block *block, size_t *n,
                             const uint32_t **line_ends);
/* What follows is of another thread. */
void cofi_lines_thread(struct cofi_lines *lines, int32_t tid);
/* Code or symbols changed: make all lines anew. */
void cofi_lines_forget(struct cofi_lines *lines);

/* ---- coverage, once it is finished ---- */

/* Takes n bytes of output; negative: an error that ends it, and is returned. */
typedef int cofi_put(void *opaque, const char *bytes, size_t n);
/* lcov's tracefile: a record for each source file with its functions (FN, FNDA) and lines (DA), those that did not run, too. Of what
 * was opened with `names` and `lines`. */
int cofi_coverage_lcov(const struct cofi_coverage *coverage, cofi_put *put, void *opaque);
/* drcov, version 2, as DynamoRIO writes it on Linux: each block that ran, once. Error besides: COFI_ERR_RANGE, more than 65536 modules. */
int cofi_coverage_drcov(const struct cofi_coverage *coverage, cofi_put *put, void *opaque);

/* "name+0x12" (or "name", "module+0x…", "0x…") of an address; returns the length as snprintf. */
int cofi_symbol_print(const struct cofi_symbol *symbol, uint64_t address, char *out, size_t n);
/* text as JSON has it, quoted and escaped, into out (cut to fit, at a character's end); "null" for a null pointer. Always UTF-8:
 * each byte that is none becomes U+FFFD. Returns out. n >= 8. */
const char *cofi_json_string(const char *text, char *out, size_t n);

#ifdef __cplusplus
}
#endif
#endif
