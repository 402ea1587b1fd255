/* SPDX-License-Identifier: MIT
 * What a host is asked to record -> whether there is any such thing. */
#include "host/target.h"

#include "base/error.h"

int cofi__target_check(char *const *argv, int32_t pid, struct cofi_error *error)
{
    if (argv && !argv[0])
        return cofi__fail(error, COFI_ERR_RANGE, COFI_NOWHERE, "argv has no command: its first string is null");
    if (!argv && !pid)
        return cofi__fail(error, COFI_ERR_RANGE, COFI_NOWHERE, "nothing to record: argv is null and pid 0");
    return 0;
}
