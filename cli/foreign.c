/* SPDX-License-Identifier: MIT
 * A file's first bytes -> what it is, where a trace was expected. */
#include "foreign.h"

#include <stdbool.h>
#include <string.h>

#include <cofi/stream.h>

static const struct {
    const char *bytes, *hint;
} magics[] = {
    {"PERFILE2", "it is a perf.data: give it without --raw, for it tells the code and the time, too"},
    {"\x1f\x8b\x08", "it is compressed by gzip: give what 'gzip -dc' makes of it, by --raw=- from a pipe, for example"},
    {"\x28\xb5\x2f\xfd", "it is compressed by zstd: give what 'zstd -dc' makes of it, by --raw=- from a pipe, for example"},
    {"\xfd" "7zXZ", "it is compressed by xz: give what 'xz -dc' makes of it, by --raw=- from a pipe, for example"},
    {"BZh", "it is compressed by bzip2: give what 'bzip2 -dc' makes of it, by --raw=- from a pipe, for example"},
    {"PK\x03\x04", "it is a zip archive: unpack it"},
    {"\x7f" "ELF", "it is an ELF file: code is given by --image"},
};

static bool has_psb(const uint8_t *bytes, size_t n, enum cofi_gen gen) { return cofi_sync_forward(gen, bytes, n, 0) != COFI_NO_PSB; }

const char *foreign_hint(const uint8_t *bytes, size_t n, enum cofi_gen gen)
{
    bool perf = n >= 8 && !memcmp(bytes, "PERFILE2", 8); /* which may hold PSBs */
    if (!n || (!perf && has_psb(bytes, n, gen)))
        return NULL;
    for (size_t i = 0; i < sizeof magics / sizeof magics[0]; i++)
        if (n >= strlen(magics[i].bytes) && !memcmp(bytes, magics[i].bytes, strlen(magics[i].bytes)))
            return magics[i].hint;
    if (gen == COFI_RTIT && has_psb(bytes, n, COFI_PT))
        return "it has PSBs of PT, none of RTIT: --gen=pt";
    if (gen == COFI_PT && has_psb(bytes, n, COFI_RTIT))
        return "it has no PSB of PT, but some of RTIT: --gen=rtit";
    return NULL;
}
