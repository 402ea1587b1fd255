/* SPDX-License-Identifier: MIT
 * What a diff of two threads found -> text, or objects. */
#ifndef COFI_CLI_DIFF_REPORT_H
#define COFI_CLI_DIFF_REPORT_H

#include "diff_feed.h"

struct diff_options {
    struct session_options session;
    const char *files[2];
    const char *module, *function; /* patterns, or null */
    int32_t tids[2];               /* -1: all */
    uint64_t limit;                /* partings that are shown of each thread, */
    uint64_t min_insns;            /* if both runs did so many instructions there, together */
    bool brief, no_source, calls;
};

/* What is counted. */
static inline const char *diff_unit(const struct diff_options *options)
{
    return options->calls ? "calls" : "instructions";
}

/* Instructions that one run did alone, in a function or what it called. */
struct diff_row {
    uint64_t ip, insns;
    uint32_t node, depth;
    bool gap;
};
enum { DIFF_ROWS = 8 };

/* What one run does in a parting. */
struct diff_side {
    uint64_t at, insns;  /* before it, of it */
    uint32_t depth;      /* where it began; 0: not known yet */
    struct diff_row rows[DIFF_ROWS];
    size_t rows_n;
    uint64_t rest;       /* of insns, what the rows do not have */
};

/* Where the runs have parted, once or often. */
struct diff_where {
    uint64_t place;
    size_t next;                   /* of those of the same hash; 0: none */
    uint64_t times, insns[2];
    char *text;
};

enum { DIFF_HASHES = 1 << 12 };

struct diff_report {
    const struct diff_options *options;
    struct writer *out;
    struct cofi_diff *diff;
    struct diff_feed feeds[2];
    struct diff_side sides[2];     /* of the parting that is being told */
    struct cofi_diff_step last[2]; /* before it; insns 0: nothing */
    struct diff_where *wheres;     /* row 0 is none */
    size_t by_hash[DIFF_HASHES];
    size_t wheres_n, wheres_room;
    uint64_t parted, shown, gaps, alone[2];
    bool titled;
};

extern const struct cofi_diff_visitor diff_report_visitor; /* but for its opaque, which is the report */
/* Which threads these are, before the first that is told of them. */
void diff_report_title(struct diff_report *report);
/* All was told. 0 or COFI_ERR_NOMEM. */
int diff_report_end(struct diff_report *report);
void diff_report_free(struct diff_report *report);
/* A thread that only one run has. */
void diff_report_only(struct writer *out, const struct diff_options *options, unsigned run,
                      const struct thread *thread);

#endif
