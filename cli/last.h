/* SPDX-License-Identifier: MIT
 * Where a stream's last instructions begin. */
#ifndef COFI_CLI_LAST_H
#define COFI_CLI_LAST_H

#include "session.h"

/* Let a stream be decoded from where its last n instructions (those before --to) can be told, and skip
 * what is more. What that takes: the end of the trace is decoded twice, from a PSB ever farther back
 * until there are enough. 0 or an error, said. */
int last_find(struct session *session, size_t i, uint64_t n);

#endif
