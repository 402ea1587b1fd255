/* SPDX-License-Identifier: MIT
 * Numbers as people give them to options. */
#include <errno.h>
#include <stdlib.h>

#include "cli.h"

bool parse_number(const char *text, uint64_t most, uint64_t *value)
{
    char *end;
    errno = 0;
    *value = strtoull(text, &end, 0);
    return *text >= '0' && *text <= '9' && !*end && !errno && *value <= most;
}
