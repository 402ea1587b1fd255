/* SPDX-License-Identifier: MIT
 * Steps of two runs -> in step, or parted. See diff_search.c for where they are together again. */
#include <stdlib.h>
#include <string.h>

#include "analyze/diff.h"
#include "base/error.h"
#include "base/sized.h"

static int init(struct cofi_diff *diff)
{
    diff->names_n = 1;
    COFI_TRY(cofi__index_init(&diff->by_name));
    COFI_TRY(cofi__diff_search_open(&diff->search));
    COFI_TRY(cofi__diff_run_init(diff, &diff->runs[0]));
    return cofi__diff_run_init(diff, &diff->runs[1]);
}

int cofi_diff_open(struct cofi_diff **diff, const struct cofi_diff_options *options)
{
    struct cofi_diff_options known;
    COFI_TRY(cofi__sized(&known, sizeof known, options, offsetof(struct cofi_diff_options, names), NULL));
    struct cofi_diff *made = calloc(1, sizeof *made);
    if (!made)
        return COFI_ERR_NOMEM;
    made->options = known;
    int status = init(made);
    if (status < 0) {
        cofi_diff_close(made);
        return status;
    }
    *diff = made;
    return 0;
}

void cofi_diff_close(struct cofi_diff *diff)
{
    if (!diff)
        return;
    for (unsigned i = 0; i < 2; i++)
        cofi__diff_run_fini(&diff->runs[i]);
    for (size_t i = 1; i < diff->names_n; i++)
        free(diff->names[i].text);
    free(diff->names);
    cofi__index_free(&diff->by_name);
    cofi__diff_search_close(diff->search);
    free(diff);
}

/* The first step was done in both, or so much of it. */
static void pass(struct diff_run *run, uint32_t insns, uint32_t bytes)
{
    struct cofi_diff_step *step = &run->steps[run->first];
    run->last = *step;
    run->has_last = true;
    run->insns += insns;
    if (step->insns == insns) {
        run->first++;
        return;
    }
    run->last.insns = insns;
    run->last.bytes = bytes;
    step->place += bytes;
    step->ip += bytes;
    step->insns -= insns;
    step->bytes -= bytes;
}

/* Both runs do the same first: all of it, or as much as one did, which an interrupt ended, say. */
static void pass_both(struct diff_run *a, struct diff_run *b)
{
    const struct cofi_diff_step *x = cofi__diff_step(a, 0), *y = cofi__diff_step(b, 0),
                                less = x->insns < y->insns ? *x : *y;
    pass(a, less.insns, less.bytes);
    pass(b, less.insns, less.bytes);
}

static bool are_same(const struct cofi_diff_step *x, const struct cofi_diff_step *y)
{
    return x->place == y->place && !cofi__diff_is_gap(x) && !cofi__diff_is_gap(y);
}

int cofi__diff_alone(struct cofi_diff *diff, struct diff_run *run, size_t n)
{
    const struct cofi_diff_step *steps = cofi__diff_step(run, 0);
    if (!n)
        return 0;
    for (size_t i = 0; i < n; i++)
        run->insns += steps[i].insns;
    run->has_last &= !cofi__diff_is_gap(&steps[n - 1]);
    COFI_TRY(diff->visitor->alone(diff->visitor->opaque, (unsigned)(run - diff->runs), steps, n));
    run->first += n;
    return 0;
}

/* To where both go on; or to the end of both. */
static int part(struct cofi_diff *diff)
{
    const struct cofi_diff_visitor *visitor = diff->visitor;
    const struct cofi_diff_step *at[2] = {NULL, NULL};
    bool joined = false;
    COFI_TRY(visitor->parted(visitor->opaque));
    COFI_TRY(cofi__diff_search(diff, &joined));
    for (unsigned i = 0; i < 2 && joined; i++)
        at[i] = cofi__diff_step(&diff->runs[i], 0);
    return visitor->joined(visitor->opaque, at);
}

int cofi_diff_run(struct cofi_diff *diff, const struct cofi_diff_visitor *visitor)
{
    struct diff_run *a = &diff->runs[0], *b = &diff->runs[1];
    diff->visitor = visitor;
    for (;;) {
        int has_a = cofi__diff_has(diff, a, 0), has_b = cofi__diff_has(diff, b, 0);
        if (has_a < 0 || has_b < 0)
            return has_a < 0 ? has_a : has_b;
        if (!has_a && !has_b)
            return 0;
        if (has_a && has_b && are_same(cofi__diff_step(a, 0), cofi__diff_step(b, 0)))
            pass_both(a, b);
        else
            COFI_TRY(part(diff));
    }
}

const struct cofi_diff_step *cofi_diff_last(const struct cofi_diff *diff, unsigned run)
{
    return diff->runs[run].has_last ? &diff->runs[run].last : NULL;
}

uint64_t cofi_diff_insns(const struct cofi_diff *diff, unsigned run) { return diff->runs[run].insns; }

const struct cofi_calls_node *cofi_diff_nodes(const struct cofi_diff *diff, unsigned run, size_t *n)
{
    return cofi_calls_nodes(diff->runs[run].calls, n);
}
