/* SPDX-License-Identifier: MIT
 * The places that the XDG base directory specification gives. */
#include "cache.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The specification has relative paths ignored. */
static const char *absolute(const char *name)
{
    const char *value = getenv(name);
    return value && *value == '/' ? value : NULL;
}

char *cache_folder(void)
{
    const char *own = getenv("COFI_CACHE"), *caches = absolute("XDG_CACHE_HOME"), *home = absolute("HOME");
    char *path = NULL;
    if (own)
        return *own ? strdup(own) : NULL;
    if (!caches && !home)
        return NULL;
    return asprintf(&path, "%s%s/cofi", caches ? caches : home, caches ? "" : "/.cache") < 0 ? NULL : path;
}
