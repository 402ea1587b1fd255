/* SPDX-License-Identifier: MIT
 * One replay while it runs: replay.c tells the unit what the flow shows, replay_was.c knows what was recorded. */
#ifndef COFI_CLI_REPLAY_RUN_H
#define COFI_CLI_REPLAY_RUN_H

#include "replay.h"

enum { REPLAY_RETURNS = 64 };

struct replay {
    const struct replay_setup *setup;
    struct replay_source *was;
    struct replay_result *result;
    struct cofi_unit *unit;
    struct replay_list is;
    struct cofi_context context;
    uint64_t from;               /* offset where what is not compared yet begins */
    size_t bits;                 /* outcomes told that are in no packet yet */
    uint8_t telling;             /* kind of event, COFI_EVENT_KINDS: none */
    bool started, silent, closing;
    bool differs;                /* from there on: it waits for the PSB */
    bool pending;                /* last's branch waits for what comes next */
    struct cofi_flow_block last;
    struct cofi_flow_insn branch;
    bool holding;                /* a transfer waits for the state behind it */
    struct cofi_event held;
    uint64_t held_until;         /* offset of the packet that ended it, if that came with it */
    bool early;                  /* a PSB+ has said that tracing is on, and nothing has run since */
    bool aborting;               /* the asynchronous event that follows ends a transaction */
    bool paging;                 /* a PIP came since the last transfer */
    uint64_t returns[REPLAY_RETURNS]; /* what near calls left, for returns that leave the trace [PTREF 7.1] */
    size_t returns_n;
    struct cofi_flow_event cfe, mwait, pwre; /* what an event that follows needs; kind set if there */
    uint64_t evd[3];
    int status;
};

/* replay_was.c; what each does stands there */
uint64_t replay_psb_before(const struct replay *r, uint64_t offset);
void replay_go_on_from(struct replay *r, uint64_t offset, uint64_t keep);
const struct replay_item *replay_told_by(struct replay *r, uint64_t offset, uint8_t kind);
const struct replay_item *replay_next_outcome(struct replay *r);
const struct replay_item *replay_next_tip(struct replay *r, uint64_t offset);
size_t replay_overflows_until(struct replay *r, uint64_t offset);
bool replay_is_behind(const struct replay *r, const struct replay_item *item, uint8_t kind);
bool replay_is_async(const struct replay *r, const struct replay_item *item);
void replay_compare_rest(struct replay *r, uint64_t until, bool early);
void replay_compare_some(struct replay *r);
void replay_compare_to_psb(struct replay *r, uint64_t offset);

#endif
