/* SPDX-License-Identifier: MIT
 * The dynamic loader's cache, as glibc 2.2 and later lay it out [glibc dl-cache.h]: a head, entries of
 * 24 bytes, and behind them their strings. */
#include "trace/loader_cache.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/file.h"

static const char magic[] = "glibc-ld.so.cache1.1";
enum { MAGIC_BYTES = sizeof magic - 1, HEAD_BYTES = 48, ENTRY_BYTES = 24, CACHE_MAX = 64 << 20 };
enum { FLAGS = 0, KEY = 4, VALUE = 8, HWCAP = 16 }; /* of an entry; strings count from the file's start */
enum { X86_64_LIBC6 = 0x303 };

/* A zero behind the file's bytes ends its last string. */
static uint8_t *read_cache(const char *path, size_t *n)
{
    struct stat st;
    uint8_t *bytes = NULL;
    int fd = cofi__open_regular(path);
    if (fd >= 0 && !fstat(fd, &st) && st.st_size <= CACHE_MAX)
        bytes = calloc(1, (size_t)st.st_size + 1);
    ssize_t got = bytes ? pread(fd, bytes, (size_t)st.st_size, 0) : 0;
    if (fd >= 0)
        close(fd);
    *n = got > 0 ? (size_t)got : 0;
    return bytes;
}

/* What an entry says at `at`; null: it leads out of the file. */
static const char *string_at(const uint8_t *bytes, size_t n, const uint8_t *at)
{
    uint32_t offset = le32(at);
    return offset < n ? (const char *)bytes + offset : NULL;
}

/* Those for some processors only (hwcap) lie beside one for all. */
static bool is_entry_of(const uint8_t *bytes, size_t n, const uint8_t *entry, const char *name)
{
    const char *key = string_at(bytes, n, entry + KEY);
    return le32(entry + FLAGS) == X86_64_LIBC6 && !le64(entry + HWCAP) && key && !strcmp(key, name);
}

char *cofi__loader_cache_find(const char *cache, const char *name)
{
    size_t n;
    uint8_t *bytes = read_cache(cache, &n);
    char *found = NULL;
    uint32_t entries = n >= HEAD_BYTES && !memcmp(bytes, magic, MAGIC_BYTES) ? le32(bytes + MAGIC_BYTES) : 0;
    for (uint32_t i = 0; !found && i < entries && (i + UINT64_C(1)) * ENTRY_BYTES <= n - HEAD_BYTES; i++) {
        const uint8_t *entry = bytes + HEAD_BYTES + (size_t)i * ENTRY_BYTES;
        const char *path = is_entry_of(bytes, n, entry, name) ? string_at(bytes, n, entry + VALUE) : NULL;
        found = path ? strdup(path) : NULL;
    }
    free(bytes);
    return found;
}
