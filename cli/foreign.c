/* SPDX-License-Identifier: MIT
 * A file's first bytes -> what it is, where a trace was expected. */
#include "foreign.h"

#include <string.h>

#include <cofi/stream.h>

static const struct {
    const char *bytes, *hint;
} magics[] = {
    {"PERFILE2", "it is a perf.data: give it without --raw, for it tells the code and the time, too"},
    {"\x1f\x8b\x08", "it is compressed by gzip: give what 'gzip -dc' makes of it, by --raw=- from a pipe, for example"},
    {"\x28\xb5\x2f\xfd",
     "it is compressed by zstd: give what 'zstd -dc' makes of it, by --raw=- from a pipe, for example"},
    {"\xfd"
     "7zXZ",
     "it is compressed by xz: give what 'xz -dc' makes of it, by --raw=- from a pipe, for example"},
    {"BZh", "it is compressed by bzip2: give what 'bzip2 -dc' makes of it, by --raw=- from a pipe, for example"},
    {"PK\x03\x04", "it is a zip archive: unpack it"},
    {"\x7f"
     "ELF",
     "it is an ELF file: code, which --image gives, not the trace of what ran"},
};

static bool has_psb(const uint8_t *bytes, size_t n, enum cofi_gen gen)
{
    return cofi_sync_forward(gen, bytes, n, 0) != COFI_NO_PSB;
}

static bool only_zeros(const uint8_t *bytes, size_t n) { return !bytes[0] && !memcmp(bytes, bytes + 1, n - 1); }

bool foreign_zeros(const uint8_t *bytes, size_t n) { return n < COFI_GUESS_BYTES && only_zeros(bytes, n); }

/* Four bytes are no chance, even if there are PSBs behind them. */
static const char *packed_as(const uint8_t *bytes, size_t n, enum cofi_gen gen)
{
    for (size_t i = 0; i < sizeof magics / sizeof magics[0]; i++) {
        size_t length = strlen(magics[i].bytes);
        if (n >= length && !memcmp(bytes, magics[i].bytes, length))
            return length >= 4 || !has_psb(bytes, n, gen) ? magics[i].hint : NULL;
    }
    return NULL;
}

const char *foreign_hint(const uint8_t *bytes, size_t n, enum cofi_gen gen)
{
    const char *hint = n ? packed_as(bytes, n, gen) : NULL;
    if (hint || !n || has_psb(bytes, n, gen))
        return hint;
    if (foreign_zeros(bytes, n))
        return "it is nothing but zeros: no trace in it";
    if (gen == COFI_RTIT && has_psb(bytes, n, COFI_PT))
        return "it has PSBs of PT, none of RTIT: --gen=pt";
    if (gen == COFI_PT && has_psb(bytes, n, COFI_RTIT))
        return "it has no PSB of PT, but some of RTIT: --gen=rtit";
    return NULL;
}
