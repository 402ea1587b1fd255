/* SPDX-License-Identifier: MIT
 * A PE file (Windows' programs, libraries and drivers) -> mappings of its sections, as its loader lays them out
 * [Microsoft: PE Format]. */
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cofi/image.h>

#include "base/bytes.h"
#include "base/error.h"

enum {
    DOS_BYTES = 64, DOS_PE_AT = 0x3c,
    HEAD_BYTES = 24 + 64, HEAD_MACHINE = 4, HEAD_SECTIONS = 6, HEAD_OPTIONAL_BYTES = 20, HEAD_OPTIONAL = 24,
    OPTIONAL_IMAGE_BYTES = 56, OPTIONAL_HEADERS_BYTES = 60, /* in PE32 and PE32+ */
    SECTION_BYTES = 40, SECTION_SIZE = 8, SECTION_ADDR = 12, SECTION_FILE_BYTES = 16, SECTION_FILE_AT = 20,
    MACHINE_I386 = 0x14c, MACHINE_AMD64 = 0x8664, PE_PAGE = 4096
};

struct pe {
    int fd;
    uint64_t file_bytes, sections_at;
    uint32_t image_bytes, headers_bytes;
    uint16_t sections;
};

static bool read_at(int fd, uint64_t at, uint8_t *bytes, size_t n)
{
    return pread(fd, bytes, n, (off_t)at) == (ssize_t)n;
}

static bool read_head(struct pe *pe)
{
    uint8_t dos[DOS_BYTES], head[HEAD_BYTES];
    struct stat st;
    if (fstat(pe->fd, &st) || !read_at(pe->fd, 0, dos, sizeof dos) || memcmp(dos, "MZ", 2) != 0)
        return false;
    uint64_t at = le32(dos + DOS_PE_AT);
    if (!read_at(pe->fd, at, head, sizeof head) || memcmp(head, "PE\0\0", 4) != 0)
        return false;
    uint16_t machine = le16(head + HEAD_MACHINE);
    pe->file_bytes = (uint64_t)st.st_size;
    pe->sections = le16(head + HEAD_SECTIONS);
    pe->sections_at = at + HEAD_OPTIONAL + le16(head + HEAD_OPTIONAL_BYTES);
    pe->image_bytes = le32(head + HEAD_OPTIONAL + OPTIONAL_IMAGE_BYTES);
    pe->headers_bytes = le32(head + HEAD_OPTIONAL + OPTIONAL_HEADERS_BYTES);
    return machine == MACHINE_AMD64 || machine == MACHINE_I386;
}

/* What is in the file of a section is there up to the end of its last page. */
static int map_section(struct cofi_image *image, uint64_t time_ns, const struct pe *pe, const char *path, uint64_t addr,
                       const uint8_t *section)
{
    uint64_t size = le32(section + SECTION_SIZE), bytes = le32(section + SECTION_FILE_BYTES),
             at = le32(section + SECTION_FILE_AT);
    uint64_t room = (size + PE_PAGE - 1) & ~(uint64_t)(PE_PAGE - 1);
    if (at >= pe->file_bytes)
        return 0;
    bytes = room && room < bytes ? room : bytes;
    bytes = bytes < pe->file_bytes - at ? bytes : pe->file_bytes - at;
    return bytes ? cofi_image_map_file(image, time_ns, addr + le32(section + SECTION_ADDR), bytes, path, at, NULL, 0)
                 : 0;
}

static int map_all(struct cofi_image *image, uint64_t time_ns, const struct pe *pe, const char *path, uint64_t addr)
{
    uint8_t section[SECTION_BYTES];
    uint64_t headers = pe->headers_bytes < pe->file_bytes ? pe->headers_bytes : pe->file_bytes;
    if (headers)
        COFI_TRY(cofi_image_map_file(image, time_ns, addr, headers, path, 0, NULL, 0));
    for (size_t i = 0; i < pe->sections; i++) {
        if (!read_at(pe->fd, pe->sections_at + i * SECTION_BYTES, section, sizeof section))
            return COFI_ERR_BAD_FORMAT;
        COFI_TRY(map_section(image, time_ns, pe, path, addr, section));
    }
    return 0;
}

int cofi_image_map_pe_at(struct cofi_image *image, uint64_t time_ns, const char *path, uint64_t addr,
                         struct cofi_error *error)
{
    struct pe pe = {.fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
    int status = COFI_ERR_BAD_FORMAT;
    if (pe.fd >= 0 && read_head(&pe) && pe.file_bytes != pe.image_bytes)
        status = map_all(image, time_ns, &pe, path, addr);
    if (pe.fd >= 0)
        close(pe.fd);
    return status < 0 ? cofi__fail(error, status, COFI_NOWHERE, "%s: not a whole PE file", path) : 0;
}
