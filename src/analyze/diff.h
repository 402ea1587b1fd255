/* SPDX-License-Identifier: MIT
 * The inside of a diff: what ran of two runs and was not compared yet. */
#ifndef COFI_ANALYZE_DIFF_H
#define COFI_ANALYZE_DIFF_H

#include <cofi/diff.h>

#include "analyze/calls.h"
#include "base/index.h"
#include "base/map.h"

/* A module of a run: the number of its name is the same in both. */
struct diff_module {
    uint32_t number; /* row of names */
    bool of_file, by_function;
};

/* A name that places have: of a module; of a function in one that was built anew. */
struct diff_name {
    char *text;
    uint32_t of;  /* function: the module's number; else 0 */
    uint32_t nth; /* module: how many of this name came before */
};

/* The place of an address, as asked for last. */
struct diff_place {
    uint64_t ip, place;
    uint32_t asked; /* in which generation of the run's code; 0: never */
    bool wanted;
    bool unlikely;  /* a part of a function that is kept elsewhere */
};
enum { DIFF_PLACES = 1 << 14 };

struct diff_run {
    struct cofi_diff *diff;
    struct cofi_calls *calls;
    struct cofi_view *view;        /* of what is being shown */
    struct diff_module *modules;
    size_t modules_n, modules_room;
    struct cofi__map by_module;    /* (its handle, 0) -> row of modules */
    struct cofi__map namesakes;    /* (row of names, 0) -> how many modules have that name */
    struct diff_place *places;     /* by hash of ip */
    uint32_t generation;
    struct cofi_diff_step *steps;  /* [first, n) wait to be compared */
    uint32_t *nexts;               /* of each: how far it is to the next step that is not deeper, or is a
                                    * gap; 0: it has not come yet */
    size_t first, n, room, nexts_room;
    uint64_t gone;                 /* steps before steps[0] */
    uint64_t *open;                /* steps, from the first on, whose next one has not come yet: each is
                                    * deeper than the one before */
    size_t open_n, open_room;
    struct cofi_diff_step last;    /* what both did last, if has_last */
    bool has_last, ended;
    bool entered;                  /* a function, since the last step */
    uint64_t insns;                /* compared */
};

struct diff_search;

struct cofi_diff {
    struct cofi_diff_options options;
    const struct cofi_diff_visitor *visitor;
    struct diff_run runs[2];
    struct diff_name *names;       /* row 0 is none */
    size_t names_n, names_room;
    struct cofi__index by_name;
    struct diff_search *search;
};

/* 1: step i of those that wait is there; 0: the run ends before; or an error. */
int cofi__diff_fetch(struct cofi_diff *diff, struct diff_run *run, size_t i);
static inline int cofi__diff_has(struct cofi_diff *diff, struct diff_run *run, size_t i)
{
    return i < run->n - run->first ? 1 : cofi__diff_fetch(diff, run, i);
}

static inline const struct cofi_diff_step *cofi__diff_step(const struct diff_run *run, size_t i)
{
    return &run->steps[run->first + i];
}
/* How far it is from step i to the next one that is not deeper, or is a gap; 0: that has not come yet. */
static inline uint32_t cofi__diff_next(const struct diff_run *run, size_t i) { return run->nexts[run->first + i]; }
static inline bool cofi__diff_is_gap(const struct cofi_diff_step *step) { return !step->insns; }

/* A run of which nothing was shown yet. 0 or COFI_ERR_NOMEM. Inverse: cofi__diff_run_fini, also after an error. */
int cofi__diff_run_init(struct cofi_diff *diff, struct diff_run *run);
void cofi__diff_run_fini(struct diff_run *run);
/* So many steps ran in this run only: they are told, and done with. 0 or an error. */
int cofi__diff_alone(struct cofi_diff *diff, struct diff_run *run, size_t n);

/* The runs have parted at their first steps. Tell what is of one only, up to where both go on: *joined;
 * false: nowhere. 0 or an error. */
int cofi__diff_search(struct cofi_diff *diff, bool *joined);
int cofi__diff_search_open(struct diff_search **search);
void cofi__diff_search_close(struct diff_search *search);

#endif
