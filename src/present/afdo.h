/* SPDX-License-Identifier: MIT
 * A sample profile that is being put together. */
#ifndef COFI_PRESENT_AFDO_H
#define COFI_PRESENT_AFDO_H

#include <cofi/present.h>

#include "base/index.h"
#include "base/strings.h"

/* A line, or a path through it, of a node. */
struct afdo_place {
    uint32_t node, offset, discriminator; /* offset: lines from where the function is declared on */
};

/* A function, or one that is inlined at a place of another node; all copies of it, in all modules, are
 * one. Row 0 is around all. */
struct afdo_node {
    struct afdo_place place; /* where it is inlined; all 0: it is a function by itself */
    const char *function;
    uint64_t total, head;
    size_t row, target, inner; /* the first of profile.rows, .targets, .inner */
};

/* What one copy of a function ran of a place. */
struct afdo_row {
    struct afdo_place place;
    uint32_t copy;
    uint64_t count;
};

/* A function that was called from there. */
struct afdo_target {
    struct afdo_place place;
    const char *function;
    uint64_t count;
};

struct afdo_profile {
    struct afdo_node *nodes; /* outer ones before inner ones */
    size_t nodes_n, nodes_room;
    struct cofi__index by_place;
    struct cofi__strings names;
    struct afdo_row *rows;
    size_t rows_n, rows_room;
    struct afdo_target *targets;
    size_t targets_n, targets_room;
    const struct afdo_node **inner; /* all but row 0, by what they are inlined into */
    size_t inner_n;
    uint32_t copies; /* of the modules that were read */
};

int cofi__afdo_compare(const struct afdo_place *a, const struct afdo_place *b);

/* afdo_tree.c: of a profile that is all zero. 0 or COFI_ERR_NOMEM. Inverse: cofi__afdo_close, also after an error. */
int cofi__afdo_open(struct afdo_profile *profile, const struct cofi_coverage *coverage);
void cofi__afdo_close(struct afdo_profile *profile);
/* How many functions were called from a place, and which is the first of them. Asked for a node's places
 * in their order, once. */
size_t cofi__afdo_targets(const struct afdo_profile *profile, const struct afdo_place *place, size_t *first);
/* afdo_read.c: add a module's. 0 or COFI_ERR_NOMEM. */
int cofi__afdo_read(struct afdo_profile *profile, const struct cofi_coverage_module *module);

#endif
