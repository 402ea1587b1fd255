/* SPDX-License-Identifier: MIT
 * A struct of another version -> this one's. */
#include "base/sized.h"

#include <string.h>

enum { MOST = 1 << 16 }; /* no struct becomes so large: what says more was never set */

int cofi__sized(void *known, size_t size, const void *given, size_t least, struct cofi_error *error)
{
    const unsigned char *bytes = given;
    size_t n;
    memcpy(&n, given, sizeof n);
    if (n < least || n > MOST || n % sizeof n) /* a struct is aligned as its first member, so that this would cut one */
        return cofi__fail(error, COFI_ERR_RANGE, COFI_NOWHERE,
                          "the member 'size' is %zu; it must be the sizeof of its struct", n);
    for (size_t i = size; i < n; i++)
        if (bytes[i])
            return cofi__fail(error, COFI_ERR_UNSUPPORTED, COFI_NOWHERE,
                              "a member that only a newer library knows is set");
    memset(known, 0, size);
    memcpy(known, given, n < size ? n : size);
    memcpy(known, &size, sizeof size);
    return 0;
}
