/* SPDX-License-Identifier: MIT
 * A decoded flow -> the events that a processor would have reported -> a PT unit's packets -> the same ones? */
#ifndef COFI_CLI_REPLAY_H
#define COFI_CLI_REPLAY_H

#include "session.h"

/* A packet that is not about time, as it is compared: TNT packets are cut into single outcomes, addresses are
 * expanded, MODE.Exec is a property of the packet behind it, PSB+ keeps what is neither time nor repetition. */
struct replay_item {
    uint64_t offset, value;
    uint8_t kind, more;
    uint8_t mode;           /* of TIP, TIP.PGE and PSB+'s FUP: csl | csd << 1 | if << 2 */
    const char *rule, *tag; /* of the unit's own packets */
};

struct replay_list {
    struct replay_item *items;
    size_t n, room;
    /* reading */
    struct cofi_packet_context codec;
    uint64_t last_ip;
    uint8_t mode;
    bool in_psb, mode_fresh;
};

void replay_list_start(struct replay_list *list); /* empty, and as before the first packet */
/* Append the packet to the list (or not, if it is about time). 0 or COFI_ERR_NOMEM. */
int replay_add(struct replay_list *list, const struct cofi_packet *packet, uint64_t offset,
               const char *rule, const char *tag);
/* Index of the first item at or behind an offset. */
size_t replay_find(const struct replay_list *list, uint64_t offset);

/* What the unit is made for. */
struct replay_setup {
    uint64_t ctl;
    bool ranges_known;
    uint64_t base[4], limit[4]; /* IA32_RTIT_ADDRn_A and _B, by ctl's ADDRn_CFG */
    uint64_t errata;
    bool returns_pop;           /* see struct cofi_unit_config */
};

struct replay_result {
    size_t compared, equal;   /* packets and outcomes; up to the first difference */
    size_t gaps;              /* stretches that are not known, left out on both sides */
    bool differs, has_was, has_is;
    struct replay_item was, is;
    const char *why;          /* what of the flow a unit cannot be told (static), or null */
};

/* Run a stream's flow through a unit and compare with its packets; partial: the flow ends before they do. 0 or an
 * error. */
int replay_stream(struct session_stream *stream, const struct replay_setup *setup,
                  const struct replay_list *was, bool partial, struct replay_result *result);

#endif
