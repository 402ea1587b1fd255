/* SPDX-License-Identifier: MIT
 * What happened between instructions, as people read it. */
#ifndef COFI_CLI_EVENT_TEXT_H
#define COFI_CLI_EVENT_TEXT_H

#include <cofi/flow.h>

#include "writer.h"

/* "ptwrite at 0000000000401002: 0x12345678": without brackets and time. */
void event_text(struct writer *out, const struct cofi_flow_event *event);

#endif
