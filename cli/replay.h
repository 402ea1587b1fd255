/* SPDX-License-Identifier: MIT
 * A decoded flow -> the events that a processor would have reported -> a PT unit's packets -> the same ones? */
#ifndef COFI_CLI_REPLAY_H
#define COFI_CLI_REPLAY_H

#include <cofi/stream.h>

#include "ranges.h"
#include "session.h"

/* What is counted, so that nothing is searched for from the beginning. */
enum { REPLAY_OUTCOMES, REPLAY_TIPS, REPLAY_OVERFLOWS, REPLAY_PSBS, REPLAY_COUNTED };

/* A packet that is not about time, as it is compared: TNT packets are cut into single outcomes,
 * addresses are expanded, MODE.Exec is a property of the packet behind it, PSB+ and what stands right
 * behind an OVF keep what is neither time nor repetition. */
struct replay_item {
    uint64_t offset, value;
    uint64_t nth[REPLAY_COUNTED]; /* how many of each stand before it */
    uint8_t kind, more;
    uint8_t mode;           /* of TIP, TIP.PGE and PSB+'s FUP: csl | csd << 1 | if << 2 */
    const char *rule, *tag; /* of the unit's own packets */
};

/* replay_list.c: packets as items, the older ones dropped when they have been compared. */
struct replay_list {
    struct replay_item *items;
    size_t n, room;
    uint64_t counts[REPLAY_COUNTED]; /* so far, dropped ones too */
    /* reading */
    struct cofi_packet_context codec;
    uint64_t last_ip;
    uint8_t mode;
    bool in_psb, after_ovf, mode_fresh;
};

void replay_list_start(struct replay_list *list); /* empty, and as before the first packet */
/* Append the packet to the list (or not, if it is about time). 0 or COFI_ERR_NOMEM. */
int replay_add(struct replay_list *list, const struct cofi_packet *packet, uint64_t offset,
               const char *rule, const char *tag);
/* Index of the first item at or behind an offset. */
size_t replay_find(const struct replay_list *list, uint64_t offset);
void replay_drop(struct replay_list *list, size_t n); /* the first n */
void replay_cut(struct replay_list *list, size_t n);  /* all but the first n, as if they had not been there */
/* How many stand before the item with this index, which may be that behind the last one. */
uint64_t replay_counted(const struct replay_list *list, size_t index, unsigned what);
/* The item that has this number among what is counted; null: it is not in the list. */
const struct replay_item *replay_nth(const struct replay_list *list, unsigned what, uint64_t nth);

/* A stream's own packets, read as far as they are asked for. */
struct replay_source {
    struct session_stream stream; /* a copy: read for itself */
    struct cofi_stream reader;
    uint64_t at;            /* of the next piece */
    bool finished;
    uint64_t errata;
    uint64_t odd_cyc;       /* offset of a CYC that may hide an OVF [ERR SKD007], or UINT64_MAX */
    struct replay_list list;
};

void replay_source_start(struct replay_source *source, const struct session_stream *stream, uint64_t errata);
/* Read until an item stands behind the offset, or outcome number nth is there, or all is read. 0 or an error. */
int replay_source_until(struct replay_source *source, uint64_t offset);
int replay_source_outcome(struct replay_source *source, uint64_t nth);
void replay_source_fini(struct replay_source *source);

/* replay_setup.c: what the unit is made for. */
struct replay_setup {
    uint64_t ctl;
    bool ctl_known;             /* else found out, but for RET compression */
    bool unfiltered;            /* it is told that there are no filters, so none are looked for */
    struct ranges ranges;       /* by ctl's ADDRn_CFG */
    uint64_t errata;            /* COFI_ERRATUM_*: differences that they explain are none */
    bool returns_pop;           /* see struct cofi_unit_config */
    bool deferred;              /* TIPs may stand behind younger outcomes [SDM Deferred TIPs] */
    void (*differs)(void *opaque, const struct replay_item *was, const struct replay_item *is);
    void *opaque;               /* told each difference; either item may be null */
};

/* What the recording, then --msr, then --ctl (null: not given), then --range tell. */
void replay_setup_told(struct replay_setup *setup, const struct session_stream *stream,
                       const struct registers *registers, const uint64_t *ctl, const struct ranges *ranges);
/* IA32_RTIT_CTL from the packets of a stream of which nothing tells it. 0 or an error. */
int replay_setup_guess(struct replay_setup *setup, struct session_stream *stream);
/* Filter ranges from where branches left the trace and where they went on in it: as few as tell them apart. 0, an
 * error, or COFI_ERR_RANGE: more than four are needed. */
int replay_setup_ranges(struct replay_setup *setup, struct session_stream *stream);

/* replay_compare.c */
struct replay_place {
    size_t was, is;   /* how far */
    size_t tolerated; /* differences that an erratum explains */
};
/* Go on from *place as far as the lists agree. True: up to the end of both. */
bool replay_match(const struct replay_setup *setup, const struct replay_item *was, size_t was_n,
                  const struct replay_item *is, size_t is_n, struct replay_place *place);

/* replay.c */
struct replay_result {
    size_t compared, equal;   /* packets and outcomes; up to the first difference */
    size_t differences;       /* at most one from PSB to PSB */
    size_t tolerated;         /* that errata explain */
    size_t gaps;              /* stretches that are not known, left out on both sides */
    bool has_was, has_is;     /* the first difference */
    struct replay_item was, is;
    const char *why;          /* what of the flow a unit cannot be told (static), or null */
    bool wants_ranges;        /* it is the ranges of a filter */
};

/* Run a stream's flow through a unit and compare with its packets; partial: the flow ends before they do. 0 or an
 * error. */
int replay_stream(struct session_stream *stream, const struct replay_setup *setup, bool partial,
                  struct replay_result *result);

#endif
