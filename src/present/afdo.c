/* SPDX-License-Identifier: MIT
 * A sample profile -> LLVM's text of it. */
#include "present/afdo.h"

#include <inttypes.h>
#include <stdio.h>

#include "present/put.h"

struct writing {
    struct out *out;
    const struct afdo_profile *profile;
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
    size_t first, n = cofi__afdo_targets(writing->profile, place, &first);
    for (const struct afdo_target *target = &writing->profile->targets[first]; n--; target++) {
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
    for (size_t i = writing->profile->nodes[number].inner;
         i < writing->profile->inner_n && writing->profile->inner[i]->place.node == number; i++) {
        const struct afdo_node *inner = writing->profile->inner[i];
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
    for (size_t i = 0; i < writing->profile->inner_n && !writing->profile->inner[i]->place.node; i++) {
        const struct afdo_node *node = writing->profile->inner[i];
        put_text(writing->out, node->function);
        put_number(writing->out, ":", node->total);
        put_number(writing->out, ":", node->head);
        put_text(writing->out, "\n");
        put_body(writing, (uint32_t)(node - writing->profile->nodes), 1);
    }
}

int cofi_coverage_afdo(const struct cofi_coverage *coverage, cofi_put *put, void *opaque)
{
    struct out out = {put, opaque, 0};
    struct afdo_profile profile = {0};
    int status = cofi__afdo_open(&profile, coverage);
    if (status >= 0)
        put_functions(&(struct writing){&out, &profile});
    cofi__afdo_close(&profile);
    status = status < 0 ? status : out.status;
    return status < 0 ? status : 0;
}
