/* SPDX-License-Identifier: MIT
 * A call tree's nodes, and calls as they come, as lines. */
#ifndef COFI_CLI_CALLS_PRINT_H
#define COFI_CLI_CALLS_PRINT_H

#include <cofi/cofi.h>

#include "writer.h"

/* A node of a thread's tree, which has `whole` instructions. */
void print_node(struct writer *out, const struct cofi_calls_node *node, uint64_t whole);
void print_node_json(struct writer *out, int32_t tid, const struct cofi_calls_node *node);
/* A path's functions, the outermost first, and how much ran in the last one; nothing, if nothing did. */
void print_path(struct writer *out, const char *comm, const struct cofi_calls_node *nodes,
                const struct cofi_calls_node *node, uint64_t insns);

/* A call; from: the line that it is in, if it has a file. */
void print_call(struct writer *out, const struct cofi_function *function, size_t depth, const struct cofi_symbol *from);
void print_call_json(struct writer *out, int32_t tid, const struct cofi_function *function, size_t depth,
                     const struct cofi_symbol *from);

#endif
