/* SPDX-License-Identifier: MIT
 * Coverage -> a sample profile as LLVM's text has it, for compilers: functions with how often their lines ran, what they called, and the same
 * of what was inlined into them. */
#include "present/afdo.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/array.h"
#include "base/error.h"
#include "present/put.h"

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
        nodes[profile->rows[i].place.node].total = sum(nodes[profile->rows[i].place.node].total, profile->rows[i].count);
    for (size_t i = profile->nodes_n; i-- > 1;)
        nodes[nodes[i].place.node].total = sum(nodes[nodes[i].place.node].total, nodes[i].total);
}

static void add_up(struct afdo_profile *profile)
{
    join_rows(profile);
    join_targets(profile);
    find_totals(profile);
}

/* ---- text ---- */

struct writing {
    struct out *out;
    const struct afdo_profile *profile;
    const struct afdo_node **order; /* by what they are inlined into; row 0 is left out */
    size_t order_n;
};

static void put_number(struct out *out, const char *before, uint64_t number)
{
    char text[32];
    snprintf(text, sizeof text, "%s%" PRIu64, before, number);
    put_text(out, text);
}

/* A line begins with its place: as many blanks as it lies deep in others. */
static void put_place(struct out *out, const struct afdo_place *place, unsigned depth)
{
    while (depth--)
        put_text(out, " ");
    put_number(out, "", place->offset);
    if (place->discriminator)
        put_number(out, ".", place->discriminator);
}

static void put_called(const struct writing *writing, const struct afdo_place *place)
{
    const struct afdo_profile *profile = writing->profile;
    struct afdo_node *node = &profile->nodes[place->node];
    for (; node->target < profile->targets_n; node->target++) {
        const struct afdo_target *target = &profile->targets[node->target];
        int order = cofi__afdo_compare(&target->place, place);
        if (order > 0)
            break;
        if (order)
            continue;
        put_text(writing->out, " ");
        put_text(writing->out, target->function);
        put_number(writing->out, ":", target->count);
    }
}

static void put_rows(const struct writing *writing, uint32_t number, unsigned depth)
{
    const struct afdo_profile *profile = writing->profile;
    for (size_t i = profile->nodes[number].row; i < profile->rows_n && profile->rows[i].place.node == number; i++) {
        put_place(writing->out, &profile->rows[i].place, depth);
        put_number(writing->out, ": ", profile->rows[i].count);
        put_called(writing, &profile->rows[i].place);
        put_text(writing->out, "\n");
    }
}

static void put_body(const struct writing *writing, uint32_t number, unsigned depth)
{
    put_rows(writing, number, depth);
    for (size_t i = writing->profile->nodes[number].inner; i < writing->order_n && writing->order[i]->place.node == number; i++) {
        const struct afdo_node *inner = writing->order[i];
        put_place(writing->out, &inner->place, depth);
        put_text(writing->out, ": ");
        put_text(writing->out, inner->function);
        put_number(writing->out, ":", inner->total);
        put_text(writing->out, "\n");
        put_body(writing, (uint32_t)(inner - writing->profile->nodes), depth + 1);
    }
}

static void put_functions(const struct writing *writing)
{
    for (size_t i = 0; i < writing->order_n && !writing->order[i]->place.node; i++) {
        const struct afdo_node *node = writing->order[i];
        put_text(writing->out, node->function);
        put_number(writing->out, ":", node->total);
        put_number(writing->out, ":", node->head);
        put_text(writing->out, "\n");
        put_body(writing, (uint32_t)(node - writing->profile->nodes), 1);
    }
}

/* Where what is of each node begins. */
static void find_firsts(const struct writing *writing)
{
    const struct afdo_profile *profile = writing->profile;
    for (size_t i = profile->rows_n; i-- > 0;)
        profile->nodes[profile->rows[i].place.node].row = i;
    for (size_t i = profile->targets_n; i-- > 0;)
        profile->nodes[profile->targets[i].place.node].target = i;
    for (size_t i = writing->order_n; i-- > 0;)
        profile->nodes[writing->order[i]->place.node].inner = i;
}

static int put_profile(const struct afdo_profile *profile, struct out *out)
{
    struct writing writing = {out, profile, calloc(profile->nodes_n, sizeof *writing.order), profile->nodes_n - 1};
    if (!writing.order)
        return COFI_ERR_NOMEM;
    for (size_t i = 0; i < writing.order_n; i++)
        writing.order[i] = &profile->nodes[i + 1];
    qsort(writing.order, writing.order_n, sizeof *writing.order, by_node);
    find_firsts(&writing);
    put_functions(&writing);
    free(writing.order);
    return out->status;
}

/* ---- all of it ---- */

static int init(struct afdo_profile *profile)
{
    COFI_TRY(cofi__strings_init(&profile->names));
    COFI_TRY(cofi__index_init(&profile->by_place));
    COFI_TRY(cofi__array_grow(&profile->nodes, &profile->nodes_room, 0, sizeof *profile->nodes));
    profile->nodes[profile->nodes_n++] = (struct afdo_node){.function = ""};
    return 0;
}

static void fini(struct afdo_profile *profile)
{
    cofi__strings_fini(&profile->names);
    cofi__index_free(&profile->by_place);
    free(profile->nodes);
    free(profile->rows);
    free(profile->targets);
}

int cofi_coverage_afdo(const struct cofi_coverage *coverage, cofi_put *put, void *opaque)
{
    struct out out = {put, opaque, 0};
    struct afdo_profile profile = {0};
    size_t n;
    const struct cofi_coverage_module *modules = cofi_coverage_modules(coverage, &n);
    int status = init(&profile);
    for (size_t i = 0; i < n && status >= 0; i++)
        status = cofi__afdo_read(&profile, &modules[i]);
    if (status >= 0) {
        add_up(&profile);
        status = put_profile(&profile, &out);
    }
    fini(&profile);
    return status < 0 ? status : 0;
}
