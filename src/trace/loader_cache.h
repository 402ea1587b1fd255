/* SPDX-License-Identifier: MIT
 * The dynamic loader's cache (/etc/ld.so.cache): a library's name -> where it lies. */
#ifndef COFI_TRACE_LOADER_CACHE_H
#define COFI_TRACE_LOADER_CACHE_H

/* The path of the 64-bit library of that name in a cache as ldconfig(8) writes it, to be freed; null: it
 * is not there, or that is no cache. */
char *cofi__loader_cache_find(const char *cache, const char *name);

#endif
