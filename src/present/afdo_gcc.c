/* SPDX-License-Identifier: MIT
 * A sample profile -> the file that GCC reads it from: numbers of 32 bits, counts of 64, low half first. */
#include "present/afdo.h"

#include <stdlib.h>

#include "base/error.h"
#include "present/put.h"

/* Lengths behind tags are not looked at, and are 0. */
enum {
    MAGIC = 0x67636461, VERSION = 2, NAMES = 0xaa000000u, FUNCTIONS = 0xac000000u, MODULES = 0xae000000u,
    POINTER_CALL = 7
};

struct writing {
    struct out *out;
    const struct afdo_profile *profile;
    const char **names; /* in order, each once; the first is empty: GCC stops with an internal error
                         * where it looks up number 0 */
    size_t names_n;
};

static void put_32(struct out *out, uint64_t number)
{
    const char bytes[] = {(char)number, (char)(number >> 8), (char)(number >> 16), (char)(number >> 24)};
    put_bytes(out, bytes, sizeof bytes);
}

static void put_64(struct out *out, uint64_t number)
{
    put_32(out, number);
    put_32(out, number >> 32);
}

/* ---- names ---- */

static int by_name(const void *a, const void *b) { return strcmp(*(const char *const *)a, *(const char *const *)b); }

static int list_names(struct writing *writing)
{
    const struct afdo_profile *profile = writing->profile;
    size_t n = 0;
    writing->names = calloc(1 + profile->nodes_n + profile->targets_n, sizeof *writing->names);
    if (!writing->names)
        return COFI_ERR_NOMEM;
    writing->names[n++] = "";
    for (size_t i = 1; i < profile->nodes_n; i++)
        writing->names[n++] = profile->nodes[i].function;
    for (size_t i = 0; i < profile->targets_n; i++)
        writing->names[n++] = profile->targets[i].function;
    qsort(writing->names, n, sizeof *writing->names, by_name);
    for (size_t i = 0; i < n; i++)
        if (!i || writing->names[i] != writing->names[writing->names_n - 1])
            writing->names[writing->names_n++] = writing->names[i];
    return 0;
}

static uint64_t number_of(const struct writing *writing, const char *name)
{
    const char **found = bsearch(&name, writing->names, writing->names_n, sizeof *writing->names, by_name);
    return (uint64_t)(found - writing->names);
}

/* Since GCC 12 with their length in bytes, the 0 at the end included. */
static void put_names(const struct writing *writing)
{
    put_32(writing->out, NAMES);
    put_32(writing->out, 0);
    put_32(writing->out, writing->names_n);
    for (size_t i = 0; i < writing->names_n; i++) {
        put_32(writing->out, strlen(writing->names[i]) + 1);
        put_bytes(writing->out, writing->names[i], strlen(writing->names[i]) + 1);
    }
}

/* ---- functions ---- */

static void put_place(struct out *out, const struct afdo_place *place)
{
    put_32(out, place->offset << 16 | (place->discriminator & 0xffff));
}

static void put_row(const struct writing *writing, const struct afdo_row *row)
{
    size_t first, n = cofi__afdo_targets(writing->profile, &row->place, &first);
    put_place(writing->out, &row->place);
    put_32(writing->out, n);
    put_64(writing->out, row->count);
    for (const struct afdo_target *target = &writing->profile->targets[first]; n--; target++) {
        put_32(writing->out, POINTER_CALL);
        put_64(writing->out, number_of(writing, target->function));
        put_64(writing->out, target->count);
    }
}

/* How many places and inlined functions a node has come before them. */
static void put_node(const struct writing *writing, const struct afdo_node *node)
{
    const struct afdo_profile *profile = writing->profile;
    size_t number = (size_t)(node - profile->nodes), rows = node->row, inner = node->inner;
    while (rows < profile->rows_n && profile->rows[rows].place.node == number)
        rows++;
    while (inner < profile->inner_n && profile->inner[inner]->place.node == number)
        inner++;
    put_32(writing->out, number_of(writing, node->function));
    put_32(writing->out, rows - node->row);
    put_32(writing->out, inner - node->inner);
    for (size_t i = node->row; i < rows; i++)
        put_row(writing, &profile->rows[i]);
    for (size_t i = node->inner; i < inner; i++) {
        put_place(writing->out, &profile->inner[i]->place);
        put_node(writing, profile->inner[i]);
    }
}

static void put_functions(const struct writing *writing)
{
    const struct afdo_profile *profile = writing->profile;
    size_t n = 0;
    while (n < profile->inner_n && !profile->inner[n]->place.node)
        n++;
    put_32(writing->out, FUNCTIONS);
    put_32(writing->out, 0);
    put_32(writing->out, n);
    for (size_t i = 0; i < n; i++) {
        put_64(writing->out, profile->inner[i]->head);
        put_node(writing, profile->inner[i]);
    }
}

static int put_all(struct writing *writing)
{
    static const uint32_t head[] = {MAGIC, VERSION, 0}, tail[] = {MODULES, 0, 0};
    COFI_TRY(list_names(writing));
    for (size_t i = 0; i < 3; i++)
        put_32(writing->out, head[i]);
    put_names(writing);
    put_functions(writing);
    for (size_t i = 0; i < 3; i++)
        put_32(writing->out, tail[i]);
    return writing->out->status;
}

int cofi_coverage_afdo_gcc(const struct cofi_coverage *coverage, cofi_put *put, void *opaque)
{
    struct out out = {put, opaque, 0};
    struct afdo_profile profile = {0};
    struct writing writing = {.out = &out, .profile = &profile};
    int status = cofi__afdo_open(&profile, coverage);
    if (status >= 0)
        status = put_all(&writing);
    free(writing.names);
    cofi__afdo_close(&profile);
    return status < 0 ? status : 0;
}
