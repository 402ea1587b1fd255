/* SPDX-License-Identifier: MIT
 * A page dump (X.addr: page addresses, X.dump: the pages) -> mappings. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cofi/image.h>

#include "base/bytes.h"
#include "base/error.h"
#include "image/image.h"

enum { PAGE = 4096, CHUNK = 4096 };

/* Both files' sizes -> how many pages they both have; *odd: how many only one has, in part even. */
static int64_t count_pages(int fd, const char *addr_path, const char *dump_path, int64_t *odd, struct cofi_error *error)
{
    struct stat addr, dump;
    if (fstat(fd, &addr))
        return cofi__fail(error, COFI_ERR_IO, COFI_NOWHERE, "%s: %s", addr_path, strerror(errno));
    if (stat(dump_path, &dump))
        return cofi__fail(error, COFI_ERR_IO, COFI_NOWHERE, "%s: %s", dump_path, strerror(errno));
    if (!S_ISREG(addr.st_mode) || !S_ISREG(dump.st_mode)) /* their sizes tell nothing */
        return cofi__fail(error, COFI_ERR_IO, COFI_NOWHERE, "%s: not a regular file",
                          S_ISREG(addr.st_mode) ? dump_path : addr_path);
    int64_t addresses = addr.st_size / 8, pages = dump.st_size / PAGE, n = addresses < pages ? addresses : pages;
    int64_t begun = (addr.st_size + 7) / 8, pages_begun = (dump.st_size + PAGE - 1) / PAGE;
    *odd = (begun > pages_begun ? begun : pages_begun) - n;
    return n;
}

/* As PT tells it: where it was stored in 48 bits, its sign is missing. */
static uint64_t page_address(const uint8_t *bytes)
{
    uint64_t address = le64(bytes);
    return address >> 47 == 1 ? address | UINT64_C(0xffff) << 48 : address;
}

/* A page that was asked for and was not there has an address with some of the low bits set; its bytes are anything. */
static bool is_there(uint64_t address) { return address % PAGE == 0; }

/* Text, say, or addresses in another byte order have none. */
static bool any_is_a_page(const uint8_t *addresses, int64_t n)
{
    for (int64_t i = 0; i < n && i < CHUNK / 8; i++)
        if (is_there(page_address(addresses + i * 8)))
            return true;
    return false;
}

/* A run of pages that follow each other in both files. */
struct run {
    uint64_t addr, len, pgoff;
};

static int end_run(struct cofi_image *image, uint64_t time_ns, struct cofi__source *dump, const struct run *run)
{
    return run->len ? cofi__image_add(image, time_ns, run->addr, run->len, dump, run->pgoff) : 0;
}

/* From the last one to the first, which holds where a page is there twice: what is added later hides
 * what was before. */
static int map_pages(struct cofi_image *image, uint64_t time_ns, int fd, struct cofi__source *dump, int64_t n,
                     int64_t *odd)
{
    uint8_t chunk[CHUNK];
    struct run run = {0};
    int64_t from = n; /* of the chunk */
    for (int64_t i = n; i-- > 0;) {
        if (i < from) {
            from = i - i % (CHUNK / 8);
            if (pread(fd, chunk, sizeof chunk, from * 8) < (i - from + 1) * 8)
                return COFI_ERR_IO;
        }
        uint64_t addr = page_address(chunk + (i - from) * 8);
        bool goes_on = run.len && addr + PAGE == run.addr;
        if (!goes_on)
            COFI_TRY(end_run(image, time_ns, dump, &run));
        *odd += !is_there(addr);
        run = is_there(addr) ? (struct run){addr, goes_on ? run.len + PAGE : PAGE, (uint64_t)i * PAGE}
                             : (struct run){0};
    }
    return end_run(image, time_ns, dump, &run);
}

static int map_dump(struct cofi_image *image, uint64_t time_ns, int fd, const char *dump_path, int64_t n, int64_t *odd)
{
    uint8_t first[CHUNK] = {0};
    if (n && pread(fd, first, sizeof first, 0) < 8)
        return COFI_ERR_IO;
    if (n && !any_is_a_page(first, n))
        return COFI_ERR_BAD_FORMAT;
    struct cofi__source *dump = cofi__store_file(image->stores[0], dump_path, NULL, NULL, 0);
    if (!dump)
        return COFI_ERR_NOMEM;
    dump->is_dump = true;
    return map_pages(image, time_ns, fd, dump, n, odd);
}

int cofi_image_map_pages(struct cofi_image *image, uint64_t time_ns, const char *addr_path,
                         const char *dump_path, struct cofi_error *error)
{
    int fd = open(addr_path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return cofi__fail(error, errno == EACCES ? COFI_ERR_PERMISSION : COFI_ERR_IO, COFI_NOWHERE,
                          "%s: %s", addr_path, strerror(errno));
    int64_t odd, n = count_pages(fd, addr_path, dump_path, &odd, error);
    int status = n < 0 ? (int)n : map_dump(image, time_ns, fd, dump_path, n, &odd);
    close(fd);
    if (status >= 0)
        return odd < INT_MAX ? (int)odd : INT_MAX;
    if (status == COFI_ERR_BAD_FORMAT)
        return cofi__fail(error, status, COFI_NOWHERE,
                          "%s: no addresses of pages: 8 bytes each, little-endian, multiples of 4096", addr_path);
    if (n >= 0)
        return cofi__fail(error, status, COFI_NOWHERE, "%s: %s", addr_path, cofi_error_text(status));
    return status;
}
