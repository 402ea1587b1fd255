/* SPDX-License-Identifier: MIT
 * Two runs of a program -> where they part, what only one of them does there, and
 * where they are together again. */
#ifndef COFI_DIFF_H
#define COFI_DIFF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cofi/analyze.h>
#include <cofi/demangle.h>

#ifdef __cplusplus
extern "C" {
#endif

/* One thread of each of two runs, 0 and 1. One user at a time; distinct ones are
 * independent. Memory: what ran between a parting and where the runs are together
 * again, COFI_DIFF_STEPS of each at most; and a call tree of each. */
struct cofi_diff;
enum { COFI_DIFF_STEPS = 1 << 18 };

/* Part of a block that ran: as much as both runs may have of it. */
struct cofi_diff_step {
    uint64_t place;  /* two steps of the same number, of whichever run, begin at the
                      * same code, wherever it is mapped */
    uint64_t ip;     /* where that is in its run */
    uint32_t node;   /* of the run's call tree: the function, and who called it */
    uint32_t depth;  /* frames, its own among them */
    uint32_t insns, bytes; /* insns 0: a gap of the trace */
};

struct cofi_diff_options {
    size_t size;     /* sizeof(struct cofi_diff_options) */
    struct cofi_demangler *names; /* how functions are called; null: as their table
                                   * has it. Must outlive the diff */
    /* Whether what runs in a module (path or label) and function (as its table has it;
     * null: not known) is compared; else it is as if it had not run. Null: all is. */
    bool (*wanted)(void *opaque, const char *module, const char *function);
    /* Whether the runs had different builds of a file: then its code is the same where it has the
     * same distance from the beginning of a function of the same name. Null: all are the same. */
    bool (*rebuilt)(void *opaque, const char *module);
    void *opaque;
    /* What is compared is which functions were entered, in order, by their names: for
     * builds whose code differs. A step is a call then, of one instruction and no bytes,
     * whose depth is the function's; all that is said of instructions is of calls. Who
     * called, and what the functions did else, is not compared. Names that a compiler
     * gave parts and copies of a function ("f.constprop.0") count as the function's; to
     * go on in its unlikely part ("f.cold") or through a linker's stub is no call. */
    bool calls;
};

/* Whom a diff asks for what ran, and tells what it found. None is null, pointers are valid
 * during the call. Each returns 0 (more: 1) to go on, or an error, which ends it. */
struct cofi_diff_visitor {
    /* Show more of a run, by cofi_diff_blocks and cofi_diff_event. 0: there is no more. */
    int (*more)(void *opaque, unsigned run);
    /* The runs have parted: what they did last together is in cofi_diff_last. */
    int (*parted)(void *opaque);
    /* This ran in one of them only. As often as it takes; first what run 0 did, then
     * run 1, unless it is long. */
    int (*alone)(void *opaque, unsigned run, const struct cofi_diff_step *steps, size_t n);
    /* They go on together there; or null, both of them: a run has ended, or has a gap. */
    int (*joined)(void *opaque, const struct cofi_diff_step *const at[2]);
    void *opaque;
};

/* Errors: COFI_ERR_NOMEM, COFI_ERR_UNSUPPORTED (a member that only a newer library knows is set),
 * COFI_ERR_RANGE (an impossible size). Inverse: cofi_diff_close, which may be given null. */
int cofi_diff_open(struct cofi_diff **diff, const struct cofi_diff_options *options);
void cofi_diff_close(struct cofi_diff *diff);

/* What a flow of a run shows, in order: blocks, and between them the events. Within
 * `more` only. Of blocks, event and view nothing is needed behind the call; the image
 * stays until cofi_diff_close. A run may go on with another flow. 0 or COFI_ERR_NOMEM. */
int cofi_diff_blocks(struct cofi_diff *diff, unsigned run, struct cofi_view *view,
                     const struct cofi_flow_block *const *blocks, size_t n);
int cofi_diff_event(struct cofi_diff *diff, unsigned run, struct cofi_view *view,
                    const struct cofi_flow_event *event);

/* Compare all of it: in step as long as both do the same. Where they part, the nearest place is
 * looked for at which the function that they parted in does the same in both again, or the one
 * that called it; what functions do that these call meanwhile is not looked into. Of several
 * that are near, one behind which they stay together. Once a diff. 0, or the first error. */
int cofi_diff_run(struct cofi_diff *diff, const struct cofi_diff_visitor *visitor);

/* What a run did last of what both did; null: nothing yet, or the trace has a gap
 * there. Valid until they go on. */
const struct cofi_diff_step *cofi_diff_last(const struct cofi_diff *diff, unsigned run);
/* Instructions (or calls) of a run that were compared, so far. */
uint64_t cofi_diff_insns(const struct cofi_diff *diff, unsigned run);
/* How long a function's name is, demangled or not, without what compilers add for
 * parts and copies of it: 4 of "work.part.0.cold". */
size_t cofi_diff_plain_name(const char *name);
/* The call tree of a run, for the names of its nodes; of counts it has self and
 * calls only. Valid until more is shown. */
const struct cofi_calls_node *cofi_diff_nodes(const struct cofi_diff *diff, unsigned run,
                                              size_t *n);

#ifdef __cplusplus
}
#endif
#endif
