/* SPDX-License-Identifier: MIT
 * Path -> the file's bytes. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

#include "base/error.h"
#include "base/file.h"
#include "trace/reader.h"

enum { IN_MEMORY_MAX = 16 * 1024 * 1024 };
static const uint8_t zstd_magic[4] = {0x28, 0xb5, 0x2f, 0xfd};

/* Where an unnamed file lies. */
static const char *scratch_place(void)
{
    const char *tmp = getenv("TMPDIR");
    return tmp && *tmp ? tmp : "/var/tmp";
}

static int failed(struct cofi_error *error, const char *path, int number)
{
    if (number == ENOSPC || number == EDQUOT) /* nothing else is written */
        return cofi__fail(error, COFI_ERR_IO, COFI_NOWHERE,
                          "%.64s: no room for a copy in %.64s, TMPDIR=FOLDER chooses another place: %s", path,
                          scratch_place(), strerror(number));
    int code = number == EACCES || number == EPERM ? COFI_ERR_PERMISSION :
               number == ENOMEM                    ? COFI_ERR_NOMEM :
                                                     COFI_ERR_IO;
    return cofi__fail(error, code, COFI_NOWHERE, "%.160s: %s", path, strerror(number));
}

static int read_small(struct cofi__input *input, int fd, uint64_t n)
{
    uint8_t *bytes = malloc(n ? n : 1);
    uint64_t got = 0;
    if (!bytes)
        return ENOMEM;
    while (got < n) {
        ssize_t some = pread(fd, bytes + got, n - got, (off_t)got);
        if (some < 0 && errno == EINTR)
            continue;
        if (some < 0) {
            int number = errno;
            free(bytes);
            return number;
        }
        if (!some)
            break;
        got += (uint64_t)some;
    }
    input->bytes = bytes;
    input->n = got;
    return 0;
}

static int map_large(struct cofi__input *input, int fd, uint64_t n)
{
    void *bytes = mmap(NULL, n, PROT_READ, MAP_PRIVATE | MAP_NORESERVE, fd, 0);
    if (bytes == MAP_FAILED)
        return errno;
    input->bytes = bytes;
    input->n = input->mapped_bytes = n;
    input->mapped = true;
    return 0;
}

static int take(struct cofi__input *input, int fd)
{
    struct stat st;
    if (fstat(fd, &st))
        return errno;
    input->mapped = false;
    if (st.st_size <= IN_MEMORY_MAX)
        return read_small(input, fd, (uint64_t)st.st_size);
    return map_large(input, fd, (uint64_t)st.st_size);
}

/* A file of no name to spool into. */
static int scratch_file(void)
{
    int fd = open(scratch_place(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    return fd >= 0 ? fd : memfd_create("cofi", MFD_CLOEXEC);
}

/* The first bytes of what is read, as many as it takes to tell what it is. */
struct head {
    uint8_t bytes[8];
    size_t n;
};

/* What begins otherwise is no recording: what was read of it is enough to say so, and it may have no end. */
static bool may_be_recording(struct head *head, const uint8_t *bytes, size_t n)
{
    size_t take = sizeof head->bytes - head->n;
    take = take < n ? take : n;
    memcpy(head->bytes + head->n, bytes, take);
    head->n += take;
    size_t packed = head->n < sizeof zstd_magic ? head->n : sizeof zstd_magic;
    return !memcmp(head->bytes, "PERFILE2", head->n) || !memcmp(head->bytes, zstd_magic, packed);
}

static int copy_all(int from, int to)
{
    static const size_t chunk = 1 << 16;
    uint8_t *bytes = malloc(chunk);
    struct head head = {0};
    bool more = true;
    int number = bytes ? 0 : ENOMEM;
    while (!number && more) {
        ssize_t n = read(from, bytes, chunk);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            number = n < 0 ? errno : 0;
            break;
        }
        more = may_be_recording(&head, bytes, (size_t)n);
        number = -cofi__write_all(to, bytes, (size_t)n);
    }
    free(bytes);
    return number;
}

static int spool(struct cofi__input *input, int fd)
{
    int copy = scratch_file();
    if (copy < 0)
        return errno;
    int number = copy_all(fd, copy);
    if (!number)
        number = take(input, copy);
    close(copy);
    return number;
}

enum { RATIO_MAX = 20000 };

/* Unpack into an unnamed file. A stream that is cut or damaged gives what precedes; so does one that would
 * fill the disk: no trace is packed RATIO_MAX to 1. A call that fails tells nothing of what it has made, so
 * each gets as much as zstd asks for, a block. */
static int unpack(struct cofi__input *packed, int to)
{
    static const size_t chunk = 1 << 18;
    uint8_t *bytes = malloc(chunk);
    ZSTD_DStream *stream = ZSTD_createDStream();
    ZSTD_inBuffer in = {packed->bytes, 0, 0};
    size_t asked = sizeof zstd_magic;
    uint64_t total = 0;
    int number = bytes && stream ? 0 : ENOMEM;
    for (bool more = true; !number && more;) {
        ZSTD_outBuffer out = {bytes, chunk, 0};
        in.size = asked < packed->n - in.pos ? in.pos + asked : packed->n;
        size_t status = ZSTD_decompressStream(stream, &out, &in);
        asked = status ? status : sizeof zstd_magic; /* 0: a frame has ended */
        total += out.pos;
        number = -cofi__write_all(to, bytes, out.pos);
        if (ZSTD_isError(status))
            packed->damage = ZSTD_getErrorName(status);
        else if (total / RATIO_MAX > packed->n)
            packed->damage = "they would fill the disk";
        more = !packed->damage && (in.pos < packed->n || out.pos == chunk);
    }
    packed->damage_at = in.pos;
    ZSTD_freeDStream(stream);
    free(bytes);
    return number;
}

/* A recording that was written as .zst. */
static int take_compressed(struct cofi__input *input)
{
    if (input->n < sizeof zstd_magic || memcmp(input->bytes, zstd_magic, sizeof zstd_magic))
        return 0;
    struct cofi__input packed = *input;
    int copy = scratch_file();
    if (copy < 0)
        return errno;
    int number = unpack(&packed, copy);
    if (!number) {
        *input = (struct cofi__input){.directory = packed.directory, .unpacked = true,
                                       .damage = packed.damage, .damage_at = packed.damage_at};
        number = take(input, copy);
        packed.directory = NULL;
        if (number)
            *input = packed;
        else
            cofi__input_close(&packed);
    }
    close(copy);
    return number;
}

/* perf record --kcore and --threads make a directory with the file `data` in it. */
static int open_in(struct cofi__input *input, const char *path, int *fd, struct cofi_error *error)
{
    char *inner = NULL;
    if (asprintf(&inner, "%s/data", path) < 0)
        return failed(error, path, ENOMEM);
    close(*fd);
    *fd = open(inner, O_RDONLY | O_CLOEXEC);
    free(inner);
    if (*fd < 0)
        return cofi__fail(error, COFI_ERR_IO, COFI_NOWHERE, "%.160s: is a directory without a perf.data's "
                          "'data' in it", path);
    input->directory = strdup(path);
    return input->directory ? 0 : failed(error, path, ENOMEM);
}

/* ---- perf record --threads ---- */

enum { PARTS_MAX = 4096 };

static int part_open(const struct cofi__input *input, size_t i, struct stat *st)
{
    char path[4200];
    snprintf(path, sizeof path, "%s/data.%zu", input->directory, i);
    int fd = cofi__open_regular(path);
    if (fd >= 0 && fstat(fd, st)) {
        close(fd);
        return -1;
    }
    return fd;
}

static uint64_t pages(uint64_t n)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    return (n + page - 1) & ~(page - 1);
}

/* Map a file at an address that is ours. */
static int map_at(uint8_t *address, int fd, uint64_t n)
{
    return n && mmap(address, n, PROT_READ, MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE, fd, 0) == MAP_FAILED ? errno : 0;
}

/* All files one behind the other in memory: each begins at a page, and what is between them is zeros. */
static int map_parts(struct cofi__input *input, int fd, uint64_t total)
{
    uint8_t *base = mmap(NULL, total, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED)
        return errno;
    int number = map_at(base, fd, input->n);
    for (size_t i = 0; i < input->n_parts && !number; i++) {
        struct stat st;
        int part = part_open(input, i, &st);
        number = part < 0 ? errno
                          : map_at(base + input->parts[i].start, part, input->parts[i].end - input->parts[i].start);
        if (part >= 0)
            close(part);
    }
    if (number) {
        munmap(base, total);
        return number;
    }
    free((void *)input->bytes);
    input->bytes = base;
    input->mapped_bytes = total;
    input->mapped = true;
    return 0;
}

/* The files of the recorder's threads, if there are any. */
static int take_parts(struct cofi__input *input, int fd)
{
    uint64_t end = pages(input->n);
    struct stat st;
    int part;
    while (input->directory && input->n_parts < PARTS_MAX && (part = part_open(input, input->n_parts, &st)) >= 0) {
        close(part);
        void *larger = realloc(input->parts, (input->n_parts + 1) * sizeof *input->parts);
        if (!larger)
            return ENOMEM;
        input->parts = larger;
        input->parts[input->n_parts++] = (struct cofi__part){end, end + (uint64_t)st.st_size};
        end += pages((uint64_t)st.st_size);
    }
    if (!input->n_parts)
        return 0;
    if (input->mapped) {
        munmap((void *)input->bytes, input->mapped_bytes);
        input->bytes = NULL;
        input->mapped = false;
    }
    return map_parts(input, fd, end);
}

int cofi__input_open(struct cofi__input *input, const char *path, struct cofi_error *error)
{
    struct stat st;
    bool standard = !strcmp(path, "-");
    int fd = standard ? dup(0) : open(path, O_RDONLY | O_CLOEXEC), number = 0;
    if (fd < 0)
        return failed(error, path, errno);
    if (fstat(fd, &st))
        number = errno;
    if (!number && S_ISDIR(st.st_mode)) {
        int status = open_in(input, path, &fd, error);
        if (status < 0) {
            if (fd >= 0)
                close(fd);
            return status;
        }
        if (fstat(fd, &st))
            number = errno;
    }
    if (!number)
        number = S_ISREG(st.st_mode) ? take(input, fd) : spool(input, fd);
    if (!number)
        number = take_parts(input, fd);
    close(fd);
    if (!number)
        number = take_compressed(input);
    return number ? failed(error, path, number) : 0;
}

void cofi__input_close(struct cofi__input *input)
{
    if (input->mapped)
        munmap((void *)input->bytes, input->mapped_bytes);
    else
        free((void *)input->bytes);
    free(input->directory);
    free(input->parts);
}

void cofi__input_unneeded(const struct cofi__input *input, uint64_t start, uint64_t end)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), first = pages(start), last = end & ~(page - 1);
    if (input->mapped && first < last)
        madvise((void *)(uintptr_t)(input->bytes + first), last - first, MADV_DONTNEED);
}
