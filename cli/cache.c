/* SPDX-License-Identifier: MIT
 * The places that the XDG base directory specification gives. */
#include "cache.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* "A/B", whose first part is made if it is missing. */
static char *below(char *folder, const char *name)
{
    char *path = NULL;
    if (folder) {
        mkdir(folder, 0700);
        path = asprintf(&path, "%s/%s", folder, name) < 0 ? NULL : path;
    }
    free(folder);
    return path;
}

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
    if (caches)
        return below(strdup(caches), "cofi");
    if (!home || asprintf(&path, "%s/.cache", home) < 0)
        return NULL;
    return below(path, "cofi");
}
