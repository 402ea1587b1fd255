/* SPDX-License-Identifier: MIT
 * All modules' coverage -> a sample profile, added up and in order. */
#include "present/afdo.h"

#include <stdlib.h>

#include "base/array.h"
#include "base/error.h"

static uint64_t sum(uint64_t a, uint64_t b) { return a > UINT64_MAX - b ? UINT64_MAX : a + b; }

/* ---- order ---- */

static int compare(uint64_t x, uint64_t y) { return (x > y) - (x < y); }

int cofi__afdo_compare(const struct afdo_place *a, const struct afdo_place *b)
{
    int order = compare(a->node, b->node);
    order = order ? order : compare(a->offset, b->offset);
    return order ? order : compare(a->discriminator, b->discriminator);
}

static int by_row(const void *a, const void *b)
{
    const struct afdo_row *x = a, *y = b;
    int order = cofi__afdo_compare(&x->place, &y->place);
    return order ? order : compare(x->copy, y->copy);
}

static int by_target(const void *a, const void *b)
{
    const struct afdo_target *x = a, *y = b;
    int order = cofi__afdo_compare(&x->place, &y->place);
    return order ? order : strcmp(x->function, y->function);
}

static int by_called(const void *a, const void *b)
{
    const struct afdo_target *x = a, *y = b;
    int order = cofi__afdo_compare(&x->place, &y->place);
    order = order ? order : compare(y->count, x->count);
    return order ? order : strcmp(x->function, y->function);
}

/* Those by themselves: most first. */
static int by_node(const void *a, const void *b)
{
    const struct afdo_node *x = *(const struct afdo_node *const *)a, *y = *(const struct afdo_node *const *)b;
    int order = cofi__afdo_compare(&x->place, &y->place);
    order = order || x->place.node ? order : compare(y->total, x->total);
    return order ? order : strcmp(x->function, y->function);
}

/* ---- adding up ---- */

/* A place ran as often as the instruction that ran most in a copy, in all copies together. */
static void join_rows(struct afdo_profile *profile)
{
    struct afdo_row *rows = profile->rows;
    size_t kept = 0;
    if (profile->rows_n)
        qsort(rows, profile->rows_n, sizeof *rows, by_row);
    for (size_t i = 0, next; i < profile->rows_n; i = next) {
        uint64_t most = rows[i].count;
        for (next = i + 1; next < profile->rows_n && !by_row(&rows[next], &rows[i]); next++)
            most = rows[next].count > most ? rows[next].count : most;
        bool more = kept && !cofi__afdo_compare(&rows[kept - 1].place, &rows[i].place);
        struct afdo_row row = rows[i];
        row.count = more ? sum(rows[kept - 1].count, most) : most;
        kept += !more;
        rows[kept - 1] = row;
    }
    profile->rows_n = kept;
}

/* Of one place that which was called most first. */
static void join_targets(struct afdo_profile *profile)
{
    struct afdo_target *targets = profile->targets;
    size_t kept = 0;
    if (profile->targets_n)
        qsort(targets, profile->targets_n, sizeof *targets, by_target);
    for (size_t i = 0; i < profile->targets_n; i++)
        if (kept && !by_target(&targets[kept - 1], &targets[i]))
            targets[kept - 1].count = sum(targets[kept - 1].count, targets[i].count);
        else
            targets[kept++] = targets[i];
    profile->targets_n = kept;
    if (kept)
        qsort(targets, kept, sizeof *targets, by_called);
}

/* A node's is the sum of its lines and of what is inlined into it. */
static void find_totals(struct afdo_profile *profile)
{
    struct afdo_node *nodes = profile->nodes;
    for (size_t i = 0; i < profile->rows_n; i++)
        nodes[profile->rows[i].place.node].total = sum(nodes[profile->rows[i].place.node].total,
                                                       profile->rows[i].count);
    for (size_t i = profile->nodes_n; i-- > 1;)
        nodes[nodes[i].place.node].total = sum(nodes[nodes[i].place.node].total, nodes[i].total);
}

static void add_up(struct afdo_profile *profile)
{
    join_rows(profile);
    join_targets(profile);
    find_totals(profile);
}

/* ---- all of it ---- */

static int put_in_order(struct afdo_profile *profile)
{
    profile->inner_n = profile->nodes_n - 1;
    profile->inner = calloc(profile->nodes_n, sizeof *profile->inner);
    if (!profile->inner)
        return COFI_ERR_NOMEM;
    for (size_t i = 0; i < profile->inner_n; i++)
        profile->inner[i] = &profile->nodes[i + 1];
    qsort(profile->inner, profile->inner_n, sizeof *profile->inner, by_node);
    return 0;
}

/* Where what is of each node begins. */
static void find_firsts(const struct afdo_profile *profile)
{
    for (size_t i = profile->rows_n; i-- > 0;)
        profile->nodes[profile->rows[i].place.node].row = i;
    for (size_t i = profile->targets_n; i-- > 0;)
        profile->nodes[profile->targets[i].place.node].target = i;
    for (size_t i = profile->inner_n; i-- > 0;)
        profile->nodes[profile->inner[i]->place.node].inner = i;
}

static int init(struct afdo_profile *profile)
{
    COFI_TRY(cofi__strings_init(&profile->names));
    COFI_TRY(cofi__index_init(&profile->by_place));
    COFI_TRY(cofi__array_grow(&profile->nodes, &profile->nodes_room, 0, sizeof *profile->nodes));
    profile->nodes[profile->nodes_n++] = (struct afdo_node){.function = ""};
    return 0;
}

int cofi__afdo_open(struct afdo_profile *profile, const struct cofi_coverage *coverage)
{
    size_t n;
    const struct cofi_coverage_module *modules = cofi_coverage_modules(coverage, &n);
    COFI_TRY(init(profile));
    for (size_t i = 0; i < n; i++)
        COFI_TRY(cofi__afdo_read(profile, &modules[i]));
    add_up(profile);
    COFI_TRY(put_in_order(profile));
    find_firsts(profile);
    return 0;
}

void cofi__afdo_close(struct afdo_profile *profile)
{
    cofi__strings_fini(&profile->names);
    cofi__index_free(&profile->by_place);
    free(profile->nodes);
    free(profile->rows);
    free(profile->targets);
    free(profile->inner);
}

size_t cofi__afdo_targets(const struct afdo_profile *profile, const struct afdo_place *place, size_t *first)
{
    size_t end;
    *first = profile->nodes[place->node].target;
    for (; *first < profile->targets_n && cofi__afdo_compare(&profile->targets[*first].place, place) < 0; ++*first) {
    }
    for (end = *first; end < profile->targets_n && !cofi__afdo_compare(&profile->targets[end].place, place); end++) {
    }
    profile->nodes[place->node].target = end;
    return end - *first;
}
