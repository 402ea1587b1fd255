/* SPDX-License-Identifier: MIT
 * A decoded flow -> the events that a processor would have reported -> a PT unit's packets. */
#ifndef COFI_CLI_REPLAY_H
#define COFI_CLI_REPLAY_H

#include "session.h"

/* A packet that is not about time, as it is compared: TNT packets are cut into single outcomes,
 * addresses are expanded, PSB+ keeps what is not time. */
struct replay_item {
    uint64_t offset, value;
    uint8_t kind, more;
    const char *rule, *tag; /* of the unit's own packets */
};

struct replay_list {
    struct replay_item *items;
    size_t n, room;
    /* reading */
    struct cofi_packet_context codec;
    uint64_t last_ip;
    bool in_psb; /* between PSB and PSBEND */
};

/* Append the packet to the list (or not, if it is about time). 0 or COFI_ERR_NOMEM. */
int replay_add(struct replay_list *list, const struct cofi_packet *packet, uint64_t offset,
               const char *rule, const char *tag);
/* Run a stream's flow through a unit with this CTL; its packets go to list. 0 or an error; *why
 * says what of the flow a unit cannot be told (static), or null. */
int replay_stream(struct session_stream *stream, uint64_t ctl, struct replay_list *list,
                  const char **why);

#endif
