/* SPDX-License-Identifier: MIT
 * A timeline between what is told of it and what it is written as. */
#ifndef COFI_PRESENT_TIMELINE_H
#define COFI_PRESENT_TIMELINE_H

#include <cofi/present.h>

#include "present/put.h"

enum mark_kind { MARK_ENTER, MARK_LEAVE, MARK_OFF, MARK_ON, MARK_GAP };

/* A moment: what it is called, when the next time is told. */
struct moment {
    uint64_t insns;
    size_t offs;           /* since the last time was told */
    bool known;
    uint64_t ns;
};

/* Something that happened. Those that are shown nest: each LEAVE is of the last ENTER that has none yet,
 * each ON of the OFF before. */
struct mark {
    enum mark_kind kind;
    struct moment when;
    bool open, left_out;   /* ENTER: of a call that may be too short to be shown; of one that was */
    uint64_t insns;        /* LEAVE: since its ENTER */
    bool runs;             /* LEAVE: nobody left it, the timeline ends */
    struct cofi_function function; /* ENTER; OFF: its name */
    char *text;            /* GAP */
};

struct call {
    struct cofi_function function;
    struct moment when;
    uint64_t mark;         /* its ENTER's number, if it has one */
};

/* How a format is written. Errors go to t->out.status. */
struct timeline_writer {
    void (*begin)(struct cofi_timeline *t);
    void (*mark)(struct cofi_timeline *t, const struct mark *mark); /* in order, its time known */
    void (*close)(struct cofi_timeline *t);                         /* may be null */
    const char *tail;                                               /* behind the last thread */
};
extern const struct timeline_writer cofi__chrome, cofi__sql;

struct cofi_timeline {
    struct cofi_timeline_options options;
    const struct timeline_writer *writer;
    void *state;           /* the writer's */
    struct out out;        /* its status is that of all */
    struct call *calls;    /* that have not been left, the outermost first */
    size_t depth, room;
    size_t shown;          /* of them, that are long enough */
    size_t placed;         /* of them, whose ENTER is a mark or written: all that are shown, and where
                            * something stands behind it */
    size_t known;          /* of them, whose time is */
    struct mark *marks;
    size_t marks_n, marks_room, offs;
    size_t marks_known;    /* of them, whose time is */
    uint64_t marks_put;    /* how many there were before: written, or left out */
    bool off, timed, ending;
    double pace;           /* the last one's, ns an instruction */
    uint64_t ns, insns;    /* the last time that was told, and how much had run */
};

/* Out of memory, if nothing else was wrong before. */
static inline void timeline_failed(struct cofi_timeline *t)
{
    if (t->out.status >= 0)
        t->out.status = COFI_ERR_NOMEM;
}

#endif
