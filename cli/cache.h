/* SPDX-License-Identifier: MIT
 * Where the user's cache is. */
#ifndef COFI_CLI_CACHE_H
#define COFI_CLI_CACHE_H

/* $COFI_CACHE (empty: none is wanted), else cofi in $XDG_CACHE_HOME, else in ~/.cache. For the caller
 * to free; null: there is none. */
char *cache_folder(void);

#endif
