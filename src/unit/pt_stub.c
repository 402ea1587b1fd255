/* SPDX-License-Identifier: MIT
 * The PT unit until it is there: it refuses to open. */
#include "unit/unit.h"

static int open(struct cofi_unit **unit, const struct cofi_unit_config *config)
{
    (void)unit, (void)config;
    return COFI_ERR_UNSUPPORTED;
}

const struct cofi__unit_ops cofi__pt_ops = {.open = open};
