/* SPDX-License-Identifier: MIT
 * A compressed file -> the ELF in it. libdw unpacks all but zstd, which Debian's does not. */
#include "image/unpack.h"

#include <elfutils/libdwelf.h>
#include <zstd.h>

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bytes.h"

/* More than any module or kernel has: what a made file may cost. */
enum { MOST = 1 << 28 };

/* All of [packed, packed + n). Null: it is damaged or too large. */
static uint8_t *inflate(const uint8_t *packed, size_t n, size_t *size)
{
    enum { STEP = 1 << 20 };
    ZSTD_DStream *stream = ZSTD_createDStream();
    ZSTD_inBuffer in = {packed, n, 0};
    ZSTD_outBuffer out = {NULL, 0, 0};
    size_t more = 1;
    while (stream && more && !ZSTD_isError(more) && out.pos < MOST && (in.pos < in.size || out.pos == out.size)) {
        if (out.pos == out.size) {
            uint8_t *grown = realloc(out.dst, out.size + out.size / 2 + STEP);
            if (!grown)
                break;
            out.dst = grown;
            out.size += out.size / 2 + STEP;
        }
        more = ZSTD_decompressStream(stream, &out, &in);
    }
    ZSTD_freeDStream(stream);
    *size = out.pos;
    if (!more)
        return out.dst;
    free(out.dst);
    return NULL;
}

static uint8_t *read_all(int fd, size_t *n)
{
    struct stat st;
    bool fits = !fstat(fd, &st) && st.st_size > 0 && st.st_size < MOST;
    uint8_t *bytes = fits ? malloc((size_t)st.st_size) : NULL;
    ssize_t got = 1;
    *n = 0;
    for (; bytes && got > 0 && *n < (size_t)st.st_size; *n += (size_t)(got > 0 ? got : 0))
        got = pread(fd, bytes + *n, (size_t)st.st_size - *n, (off_t)*n);
    return bytes;
}

static bool is_zstd(const uint8_t *bytes, size_t n) { return n >= 4 && le32(bytes) == ZSTD_MAGICNUMBER; }

/* Where the compressed kernel is in a boot image, 0: it is none [linux: Documentation/arch/x86/boot.rst]. */
static size_t payload_of(const uint8_t *bytes, size_t n)
{
    enum { SETUP_SECTORS = 0x1f1, MAGIC = 0x202, PAYLOAD_OFFSET = 0x248, HEADER_BYTES = 0x250, SECTOR = 512 };
    if (n < HEADER_BYTES || le32(bytes + MAGIC) != 0x53726448) /* HdrS */
        return 0;
    size_t sectors = bytes[SETUP_SECTORS] ? bytes[SETUP_SECTORS] : 4;
    size_t at = (sectors + 1) * SECTOR + le32(bytes + PAYLOAD_OFFSET);
    return at < n ? at : 0;
}

bool cofi__unpack(struct cofi__unpacked *unpacked, int fd)
{
    size_t n, size;
    uint8_t *packed = read_all(fd, &n);
    size_t at = packed ? payload_of(packed, n) : 0;
    bool zstd = packed && is_zstd(packed + at, n - at);
    *unpacked = (struct cofi__unpacked){0};
    elf_version(EV_CURRENT);
    if (zstd && (unpacked->bytes = inflate(packed + at, n - at, &size)))
        unpacked->elf = elf_memory((char *)unpacked->bytes, size);
    free(packed);
    if (!zstd)
        unpacked->elf = dwelf_elf_begin(fd);
    return unpacked->elf && elf_kind(unpacked->elf) == ELF_K_ELF;
}

void cofi__unpacked_close(struct cofi__unpacked *unpacked)
{
    if (unpacked->elf)
        elf_end(unpacked->elf);
    free(unpacked->bytes);
}
