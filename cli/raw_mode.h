/* SPDX-License-Identifier: MIT
 * The mode of a raw stream's code, where no packet and no file tells it. */
#ifndef COFI_CLI_RAW_MODE_H
#define COFI_CLI_RAW_MODE_H

#include <cofi/flow.h>

enum { RAW_MODE_BYTES = 1 << 18 /* so many tell it, or nothing does */ };

/* What decodes the stream, its first bytes -> 32 where these do not decode as 64-bit code, and do as
 * 32-bit code; else 64. Says so in the words of a command and a stream, and where they decode as both. */
unsigned raw_mode_try(const struct cofi_flow_config *config, const uint8_t *bytes, size_t n, const char *command,
                      const char *name);

#endif
