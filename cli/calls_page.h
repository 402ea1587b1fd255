/* SPDX-License-Identifier: MIT
 * Call trees -> a page of HTML that draws them. */
#ifndef COFI_CLI_CALLS_PAGE_H
#define COFI_CLI_CALLS_PAGE_H

#include <cofi/cofi.h>

#include "writer.h"

/* In this order: the beginning, trees, the end. */
void page_of_calls_begin(struct writer *out);
/* A thread's: nodes, in the order in which they stand below each other, and the tree's instructions. 0
 * or COFI_ERR_NOMEM. */
struct page_tree {
    int32_t tid;
    const char *comm;
    const struct cofi_calls_node *const *nodes;
    size_t n;
    uint64_t insns, gaps;
    bool first; /* no other one stands before it */
};
int page_of_calls_tree(const struct page_tree *tree, struct writer *out);
void page_of_calls_end(struct writer *out);

#endif
