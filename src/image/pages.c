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
    int64_t addresses = addr.st_size / 8, pages = dump.st_size / PAGE, n = addresses < pages ? addresses : pages;
    int64_t begun = (addr.st_size + 7) / 8, pages_begun = (dump.st_size + PAGE - 1) / PAGE;
    *odd = (begun > pages_begun ? begun : pages_begun) - n;
    return n;
}

/* Text, say, or addresses in another byte order have none. */
static bool any_is_a_page(const uint8_t *addresses, int64_t n)
{
    for (int64_t i = 0; i < n && i < CHUNK / 8; i++)
        if (!(le64(addresses + i * 8) % PAGE))
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

static int map_pages(struct cofi_image *image, uint64_t time_ns, int fd, struct cofi__source *dump, int64_t n)
{
    uint8_t chunk[CHUNK];
    struct run run = {0};
    for (int64_t i = 0; i < n; i++) {
        size_t in_chunk = (size_t)(i * 8 % CHUNK);
        if (!in_chunk && pread(fd, chunk, sizeof chunk, i * 8) < 8)
            return COFI_ERR_IO;
        if (!i && !any_is_a_page(chunk, n))
            return COFI_ERR_BAD_FORMAT;
        uint64_t addr = le64(chunk + in_chunk);
        if (run.len && addr == run.addr + run.len) {
            run.len += PAGE;
            continue;
        }
        COFI_TRY(end_run(image, time_ns, dump, &run));
        run = (struct run){addr, PAGE, (uint64_t)i * PAGE};
    }
    return end_run(image, time_ns, dump, &run);
}

static int map_dump(struct cofi_image *image, uint64_t time_ns, int fd, const char *dump_path, int64_t n)
{
    struct cofi__source *dump = cofi__store_file(image->stores[0], dump_path, NULL, NULL, 0);
    if (!dump)
        return COFI_ERR_NOMEM;
    dump->is_dump = true;
    return map_pages(image, time_ns, fd, dump, n);
}

int cofi_image_map_pages(struct cofi_image *image, uint64_t time_ns, const char *addr_path,
                         const char *dump_path, struct cofi_error *error)
{
    int fd = open(addr_path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return cofi__fail(error, errno == EACCES ? COFI_ERR_PERMISSION : COFI_ERR_IO, COFI_NOWHERE,
                          "%s: %s", addr_path, strerror(errno));
    int64_t odd, n = count_pages(fd, addr_path, dump_path, &odd, error);
    int status = n < 0 ? (int)n : map_dump(image, time_ns, fd, dump_path, n);
    close(fd);
    if (status >= 0)
        return odd < INT_MAX ? (int)odd : INT_MAX;
    if (status == COFI_ERR_BAD_FORMAT)
        return cofi__fail(error, status, COFI_NOWHERE, "%s: no addresses of pages: 8 bytes each, little-endian, multiples of 4096", addr_path);
    if (n >= 0)
        return cofi__fail(error, status, COFI_NOWHERE, "%s: %s", addr_path, cofi_error_text(status));
    return status;
}
