/* SPDX-License-Identifier: MIT
 * A perf.data's header, attributes and features -> what the recording says of itself [PTREF 10.1]. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/error.h"
#include "trace/perf_data.h"
#include "trace/reader.h"

void cofi__add_id(struct cofi_recording *recording, uint64_t id, size_t attr)
{
    cofi__put_row(recording, ROW_OF_EVENT, id, attr);
    recording->n_ids++;
}

void cofi__read_attr(struct cofi_recording *recording, const uint8_t *attr, uint64_t n)
{
    struct cofi__event_attr *row = cofi__vector_push(&recording->attrs);
    if (!row || n < ATTR_BYTES_MIN)
        return;
    row->type = le32(attr + ATTR_TYPE);
    row->config = le64(attr + ATTR_CONFIG);
    row->sample_type = le64(attr + ATTR_SAMPLE_TYPE);
    row->flags = le64(attr + ATTR_FLAGS);
    row->read_format = le64(attr + ATTR_READ_FORMAT);
    row->branch_type = n >= ATTR_BRANCH_SAMPLE_TYPE + 8 ? le64(attr + ATTR_BRANCH_SAMPLE_TYPE) : 0;
    row->regs_user = n >= ATTR_SAMPLE_REGS_USER + 8 ? le64(attr + ATTR_SAMPLE_REGS_USER) : 0;
    row->regs_intr = n >= ATTR_SAMPLE_REGS_INTR + 8 ? le64(attr + ATTR_SAMPLE_REGS_INTR) : 0;
}

/* [offset, offset + size) lies in the file. */
static bool inside(const struct cofi_recording *recording, uint64_t offset, uint64_t size)
{
    return offset <= recording->in.n && size <= recording->in.n - offset;
}

static void read_attrs(struct cofi_recording *recording, uint64_t entry, uint64_t offset, uint64_t size)
{
    const uint8_t *bytes = recording->in.bytes;
    if (entry < ATTR_BYTES_MIN + 16 || entry > 4096 || !inside(recording, offset, size)) {
        cofi__damage(recording, "the header's table of events is damaged (at 0x18)");
        return;
    }
    for (; size >= entry; offset += entry, size -= entry) {
        const uint8_t *section = bytes + offset + entry - 16;
        uint64_t ids = le64(section), n = le64(section + 8);
        size_t attr = recording->attrs.n;
        cofi__read_attr(recording, bytes + offset, entry - 16);
        if (!inside(recording, ids, n)) {
            cofi__damage(recording, "ids of event %zu lie beyond the file's end (at %#llx)", attr,
                       (unsigned long long)(offset + entry - 16));
            continue;
        }
        if (recording->n_ids + n / 8 > recording->in.n / 8) { /* made to fill the memory */
            cofi__damage(recording, "ids of events lie over each other (at %#llx)",
                         (unsigned long long)(offset + entry - 16));
            return;
        }
        for (; n >= 8; ids += 8, n -= 8)
            cofi__add_id(recording, le64(bytes + ids), attr);
    }
}

void cofi__read_build_ids(struct cofi_recording *recording, const uint8_t *bytes, uint64_t n)
{
    enum { FIXED = 8 + 4 + 24 };
    while (n >= FIXED) {
        uint16_t misc = le16(bytes + 4), size = le16(bytes + 6);
        if (size < FIXED || size > n)
            return;
        struct cofi__build_id_row *row = cofi__vector_push(&recording->build_ids);
        if (!row)
            return;
        uint16_t mode = misc & PERF_MISC_CPUMODE;
        row->guest = mode == PERF_MISC_GUEST_KERNEL || mode == PERF_MISC_GUEST_USER;
        row->order = recording->build_ids.n;
        row->pid = (int32_t)le32(bytes + 8);
        if (row->guest && row->pid <= 0)
            row->pid = SOME_GUEST;
        row->size = misc & PERF_MISC_BUILD_ID_SIZE && bytes[32] <= 20 ? bytes[32] : 20;
        memcpy(row->id, bytes + 12, 20);
        row->path = cofi__keep_string(&recording->keep, bytes + FIXED, size - FIXED);
        if (!row->path)
            row->path = "";
        bytes += size;
        n -= size;
    }
}

/* A header string: u32 length, bytes. */
static const char *read_string(struct cofi_recording *recording, const uint8_t **bytes, uint64_t *n)
{
    if (*n < 4)
        return NULL;
    uint32_t length = le32(*bytes);
    if (length > *n - 4)
        return NULL;
    const char *text = cofi__keep_string(&recording->keep, *bytes + 4, length);
    *bytes += 4 + length;
    *n -= 4 + (uint64_t)length;
    return text;
}

static void read_cpuid(struct cofi_recording *recording, const uint8_t *bytes, uint64_t n)
{
    struct cofi_recording_info *info = &recording->info;
    char *text = (char *)read_string(recording, &bytes, &n);
    char *comma = text ? strchr(text, ',') : NULL;
    unsigned family, model, stepping;
    if (!comma || sscanf(comma, ",%u,%u,%u", &family, &model, &stepping) != 3)
        return;
    *comma = 0;
    info->vendor = text;
    info->family = family;
    info->model = model;
    info->stepping = stepping;
}

static void read_cmdline(struct cofi_recording *recording, const uint8_t *bytes, uint64_t n)
{
    if (n < 4)
        return;
    uint32_t count = le32(bytes);
    char *joined = cofi__keep_alloc(&recording->keep, n + 1);
    size_t at = 0;
    if (!joined)
        return;
    bytes += 4;
    n -= 4;
    for (uint32_t i = 0; i < count; i++) {
        const char *word = read_string(recording, &bytes, &n);
        if (!word)
            break;
        size_t length = strlen(word);
        if (at)
            joined[at++] = ' ';
        memcpy(joined + at, word, length);
        at += length;
    }
    joined[at] = 0;
    recording->info.command = joined;
}

void cofi__read_feature(struct cofi_recording *recording, unsigned feature, const uint8_t *bytes, uint64_t n)
{
    switch (feature) {
    case FEATURE_TRACING_DATA: cofi__read_tracing_data(recording, bytes, n); break;
    case FEATURE_EVENT_DESC: cofi__read_event_desc(recording, bytes, n); break;
    case FEATURE_BPF_PROG_INFO: cofi__read_bpf(recording, bytes, n); break;
    case FEATURE_BUILD_ID: cofi__read_build_ids(recording, bytes, n); break;
    case FEATURE_CPUID: read_cpuid(recording, bytes, n); break;
    case FEATURE_CMDLINE: read_cmdline(recording, bytes, n); break;
    case FEATURE_OSRELEASE: recording->osrelease = read_string(recording, &bytes, &n); break;
    }
}

/* The table of sections lies behind the data; returns whether the bitmap names any feature. */
static bool read_features(struct cofi_recording *recording, uint64_t table)
{
    const uint8_t *bytes = recording->in.bytes;
    bool any = false;
    for (unsigned feature = 0; feature < FEATURES; feature++) {
        if (!(bytes[72 + feature / 8] >> feature % 8 & 1))
            continue;
        any = true;
        if (!inside(recording, table, 16)) {
            cofi__damage(recording, "the file ends before its feature sections, at %#llx",
                       (unsigned long long)recording->in.n);
            return any;
        }
        uint64_t offset = le64(bytes + table), size = le64(bytes + table + 8);
        if (inside(recording, offset, size))
            cofi__read_feature(recording, feature, bytes + offset, size);
        else
            cofi__damage(recording, "feature %u lies beyond the file's end (at %#llx)", feature,
                       (unsigned long long)table);
        table += 16;
    }
    return any;
}

/* What to say of a file of at least PERF_PIPE_HEADER_BYTES that is none. What zstd compressed was
 * decompressed before. */
static const char *no_perf_data(const uint8_t *bytes)
{
    static const struct {
        uint8_t begin[9], n;
        const char *what;
    } rows[] =
        {{{0x1f, 0x8b, 8}, 3, "compressed by gzip: decompress it first (gzip -dc)"},
         {{0xfd, '7', 'z', 'X', 'Z'}, 5, "compressed by xz: decompress it first (xz -dc)"},
         {{'B', 'Z', 'h'}, 3, "compressed by bzip2: decompress it first (bzip2 -dc)"},
         {{'P', 'K', 3, 4}, 4, "a zip archive: unpack it first"},
         {{0x7f, 'E', 'L', 'F'}, 4, "an ELF file (a program, a library or a core), no recording"},
         {{'2', 'E', 'L', 'I', 'F', 'R', 'E', 'P'},
          8,
          "a perf.data of a big-endian machine, which has neither Intel PT nor RTIT"},
         {{2, 0x82, 2, 0x82},
          4,
          "no perf.data, but raw bytes of a PT trace: give them by --raw, and the code by --image"},
         {{0xc0},
          9,
          "no perf.data, but raw bytes of an RTIT trace: give them by --raw and --gen=rtit, and the code by --image"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (!memcmp(bytes, rows[i].begin, rows[i].n))
            return rows[i].what;
    return "no perf.data: it does not begin with PERFILE2 (for raw trace bytes say --raw)";
}

int cofi__read_header(struct cofi_recording *recording, uint64_t *data_start, uint64_t *data_end,
                      bool *unclosed, struct cofi_error *error)
{
    const uint8_t *bytes = recording->in.bytes;
    uint64_t n = recording->in.n;
    if (n < PERF_PIPE_HEADER_BYTES)
        return cofi__fail(error, COFI_ERR_BAD_FORMAT, n,
                          n ? "too short for a perf.data: %llu bytes"
                          : recording->in.unpacked
                              ? "compressed by zstd, but damaged or cut before anything of it could be decompressed"
                              : "the file is empty",
                          (unsigned long long)n);
    if (le64(bytes) != PERF_MAGIC)
        return cofi__fail(error, COFI_ERR_BAD_FORMAT, 0, "%s", no_perf_data(bytes));
    uint64_t size = le64(bytes + 8);
    *unclosed = false;
    *data_start = size;
    *data_end = n;
    if (size == PERF_PIPE_HEADER_BYTES)
        return 0;
    if (size < PERF_HEADER_BYTES || n < PERF_HEADER_BYTES)
        return cofi__fail(error, COFI_ERR_BAD_FORMAT, 8, "header of %llu bytes in a file of %llu: cut off or damaged",
                          (unsigned long long)size, (unsigned long long)n);
    *data_start = le64(bytes + 40);
    uint64_t data_bytes = le64(bytes + 48);
    read_attrs(recording, le64(bytes + 16), le64(bytes + 24), le64(bytes + 32));
    if (*data_start < PERF_HEADER_BYTES || *data_start > n)
        return cofi__fail(error, COFI_ERR_BAD_FORMAT, 40, "the data section begins at %#llx, the file ends at %#llx",
                          (unsigned long long)*data_start, (unsigned long long)n);
    if (data_bytes > n - *data_start) {
        cofi__damage(recording, "the file ends at %#llx, inside its data section, which should reach to %#llx",
                   (unsigned long long)n, (unsigned long long)(*data_start + data_bytes));
        return 0;
    }
    /* perf sets the bits as it begins, and the size as it ends: up to then data are where the table of
     * sections would be. */
    if (data_bytes && read_features(recording, *data_start + data_bytes)) {
        *data_end = *data_start + data_bytes;
    } else {
        *unclosed = true;
        cofi__warn(recording, "the recorder did not close the file: it is read as far as it goes (to %#llx)",
                   (unsigned long long)n);
    }
    return 0;
}
