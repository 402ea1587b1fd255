/* SPDX-License-Identifier: MIT
 * What a JIT tells perf of its code: a jitdump (names, bytes, since when) or /tmp/perf-PID.map (names
 * only) -> the image. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/file.h"
#include "base/map.h"
#include "image/image.h"
#include "trace/reader.h"

enum { FILE_MAX = 1 << 30 };

/* Of this user or root, as perf asks: what others wrote is not believed. */
static bool is_trusted(int fd, struct stat *st)
{
    return !fstat(fd, st) && (st->st_uid == geteuid() || !st->st_uid) && st->st_size < FILE_MAX;
}

/* The whole file if it is one to be read; null else. */
static uint8_t *read_file(const char *path, size_t *n)
{
    int fd = cofi__open_regular(path);
    struct stat st;
    uint8_t *bytes = NULL;
    if (fd < 0)
        return NULL;
    if (is_trusted(fd, &st))
        bytes = malloc((size_t)st.st_size + 1);
    *n = 0;
    for (ssize_t some = 1; bytes && some > 0 && *n < (size_t)st.st_size; *n += some > 0 ? (size_t)some : 0)
        some = read(fd, bytes + *n, (size_t)st.st_size - *n);
    close(fd);
    if (bytes)
        bytes[*n] = 0;
    return bytes;
}

/* Where the recorded machine's files are. */
static uint8_t *read_below(const struct cofi_recording *recording, const char *path, size_t *n)
{
    char *below = path[0] == '/' ? cofi__below_symfs(recording, path) : strdup(path);
    uint8_t *bytes = below ? read_file(below, n) : NULL;
    free(below);
    return bytes;
}

/* ---- jitdump [linux: jitdump-specification] ---- */

enum { JIT_LOAD = 0, JIT_MOVE = 1, JIT_KINDS = 16 /* five, and room for more */ };
enum {
    JIT_HEADER = 40, JIT_HEADER_SIZE = 8, JIT_HEADER_PID = 20, JIT_HEADER_TIME = 24, JIT_HEADER_FLAGS = 32,
    JIT_ARCH_TIMESTAMP = 1
};
enum { JIT_PREFIX = 16, JIT_LOAD_FIXED = 56, JIT_MOVE_FIXED = 64 };

struct dump {
    struct cofi_recording *recording;
    struct cofi_image *image;
    const uint8_t *bytes;
    size_t n;
    bool tsc;
    uint64_t ahead; /* the recording's clock is by so much ahead of the dump's */
    bool names_only; /* the recorder told the code itself, as it ran */
    struct cofi__map loads; /* (index, 0) -> where the newest LOAD of it is */
};

static uint64_t time_of(const struct dump *dump, const uint8_t *record)
{
    const struct cofi_time_conv *conv = &dump->recording->info.time.conv;
    uint64_t time = le64(record + 8);
    return dump->tsc && conv->mult ? cofi_time_ns(conv, time) : time + dump->ahead;
}

/* Since when a name holds; 0 if that is told by another clock than the recording's. */
static uint64_t named_since(const struct dump *dump, uint64_t time)
{
    return dump->tsc || dump->recording->info.time.monotonic ? time : 0;
}

/* Where the code begins in a LOAD, behind the name; 0: it does not hold both. */
static size_t code_in(const uint8_t *record, size_t n)
{
    if (n <= JIT_LOAD_FIXED)
        return 0;
    size_t at = JIT_LOAD_FIXED + strnlen((const char *)record + JIT_LOAD_FIXED, n - JIT_LOAD_FIXED) + 1;
    return at <= n && le64(record + 40) <= n - at ? at : 0;
}

/* 0: no whole record is there. */
static size_t size_at(const struct dump *dump, size_t at)
{
    const uint8_t *record = dump->bytes + at;
    size_t left = dump->n - at, size = left >= JIT_PREFIX ? le32(record + 4) : 0;
    if (size < JIT_PREFIX || size > left || le32(record) >= JIT_KINDS)
        return 0;
    return le32(record) != JIT_LOAD || code_in(record, size) ? size : 0;
}

static bool is_load(const struct dump *dump, size_t at)
{
    return size_at(dump, at) && le32(dump->bytes + at) == JIT_LOAD;
}

/* One that is surely one: of the dump's process, and with nothing behind the code. */
static bool is_sure_load(const struct dump *dump, size_t at)
{
    const uint8_t *record = dump->bytes + at;
    return is_load(dump, at) && le32(record + JIT_PREFIX) == le32(dump->bytes + JIT_HEADER_PID) &&
           code_in(record, le32(record + 4)) + le64(record + 40) == le32(record + 4);
}

/* Where no record is, a LOAD is next. (A child of Python closes the dump that it has from its parent, and so
 * writes what that has not written yet; the parent writes it again, and it may begin inside a record.) */
static size_t next_record(const struct dump *dump, size_t at)
{
    size_t size = size_at(dump, at);
    if (size)
        return at + size;
    do
        at++;
    while (at < dump->n && !is_sure_load(dump, at));
    return at;
}

/* pid, tid, vma, address, size, index; the name; the code. */
static int load(const struct dump *dump, const uint8_t *record, size_t n, uint64_t addr, uint64_t time)
{
    uint64_t size = le64(record + 40);
    if (dump->names_only)
        return cofi__image_name(dump->image, named_since(dump, time), addr, size,
                                (const char *)record + JIT_LOAD_FIXED);
    return cofi__image_named_bytes(dump->image, time, addr, record + code_in(record, n), (size_t)size,
                                   (const char *)record + JIT_LOAD_FIXED);
}

/* A LOAD is kept in mind for MOVEs. */
static int load_first(struct dump *dump, size_t at, size_t size)
{
    const uint8_t *record = dump->bytes + at;
    COFI_TRY(cofi__map_put(&dump->loads, le64(record + 48), 0, (uint32_t)at));
    return load(dump, record, size, le64(record + 32), time_of(dump, record));
}

/* pid, tid, vma, old address, new address, size, index. */
static int move(const struct dump *dump, const uint8_t *record)
{
    const uint32_t *at = cofi__map_get(&dump->loads, le64(record + 56), 0);
    const uint8_t *from = at ? dump->bytes + *at : NULL;
    return from ? load(dump, from, le32(from + 4), le64(record + 40), time_of(dump, record)) : 0;
}

static int read_dump(struct dump *dump, const char *path)
{
    int status = 0;
    for (size_t at = le32(dump->bytes + JIT_HEADER_SIZE); status != COFI_ERR_NOMEM && at < dump->n;
         at = next_record(dump, at)) {
        const uint8_t *record = dump->bytes + at;
        size_t size = size_at(dump, at);
        status = 0;
        if (!size)
            cofi__warn(dump->recording, "%.160s: no whole record at %#zx", path, at);
        else if (le32(record) == JIT_LOAD)
            status = load_first(dump, at, size);
        else if (le32(record) == JIT_MOVE && size >= JIT_MOVE_FIXED)
            status = move(dump, record);
        if (status == COFI_ERR_RANGE)
            cofi__warn(dump->recording, "%.160s: the code of the record at %#zx lies nowhere", path, at);
    }
    return status == COFI_ERR_NOMEM ? status : 0;
}

bool cofi__is_jitdump(const char *path)
{
    const char *slash = strrchr(path, '/');
    int pid, end = 0;
    return slash && sscanf(slash, "/jit-%d.dump%n", &pid, &end) == 1 && end && !slash[end];
}

/* A dump's times are CLOCK_MONOTONIC's, perf's usual ones with Intel PT are not. A JIT maps its dump as
 * it writes the time into the head, and the recording has when it was mapped, unless it was before. */
static uint64_t clock_ahead(const struct dump *dump, uint64_t mapped_ns)
{
    uint64_t begun = le64(dump->bytes + JIT_HEADER_TIME);
    return dump->tsc || dump->names_only || !begun || !mapped_ns ? 0 : mapped_ns - begun;
}

int cofi__map_jitdump(struct cofi_recording *recording, struct cofi_image *image, const char *path, uint64_t mapped_ns)
{
    struct dump dump = {.recording = recording, .image = image, .names_only = recording->tells_code};
    uint8_t *bytes = read_below(recording, path, &dump.n);
    int status = 0;
    if (bytes && dump.n >= JIT_HEADER && le32(bytes) == COFI__JIT_MAGIC &&
        le32(bytes + JIT_HEADER_SIZE) >= JIT_HEADER) {
        dump.bytes = bytes;
        dump.tsc = le64(bytes + JIT_HEADER_FLAGS) & JIT_ARCH_TIMESTAMP;
        dump.ahead = clock_ahead(&dump, mapped_ns);
        status = read_dump(&dump, path);
    } else {
        cofi__warn(recording, "%.160s: not there or no jitdump: the JIT's %s missing", path,
                   dump.names_only ? "names are" : "code is");
    }
    cofi__map_free(&dump.loads);
    free(bytes);
    return status;
}

/* ---- /tmp/perf-PID.map: a line "START SIZE NAME" each, hexadecimal ---- */

static void perf_map_path(int32_t pid, char path[COFI__PERF_MAP_PATH])
{
    snprintf(path, COFI__PERF_MAP_PATH, "/tmp/perf-%d.map", pid);
}

int cofi__perf_map_open(const struct cofi_recording *recording, int32_t pid, char path[COFI__PERF_MAP_PATH],
                        char **found)
{
    struct stat st;
    perf_map_path(pid, path);
    *found = cofi__below_symfs(recording, path);
    int fd = *found ? cofi__open_regular(*found) : -1;
    if (fd < 0 || is_trusted(fd, &st))
        return fd;
    close(fd);
    return -1;
}

int cofi__name_jit_code(const struct cofi_recording *recording, struct cofi_image *image, int32_t pid)
{
    char path[COFI__PERF_MAP_PATH];
    size_t n;
    perf_map_path(pid, path);
    char *text = (char *)read_below(recording, path, &n), *next;
    int status = 0;
    for (char *line = text; line && *line && status >= 0; line = next) {
        next = strchr(line, '\n');
        if (next)
            *next++ = 0;
        char *end;
        uint64_t addr = strtoull(line, &end, 16), size = *end == ' ' ? strtoull(end + 1, &end, 16) : 0;
        if (size && *end == ' ' && end[1])
            status = cofi__image_name(image, 0, addr, size, end + 1);
    }
    free(text);
    cofi__image_names_done(image);
    return status;
}
