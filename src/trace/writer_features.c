/* SPDX-License-Identifier: MIT
 * What is known of machine and recording -> perf's attributes and feature sections [PTREF 10.1]. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cofi/cofi.h>

#include "base/bytes.h"
#include "base/error.h"
#include "trace/perf_data.h"
#include "trace/writer.h"

void cofi__writer_attr(uint8_t *attr, const struct cofi_recording_info *info, bool sideband)
{
    uint64_t flags = ATTR_SAMPLE_ID_ALL | ATTR_EXCLUDE_HV;
    memset(attr, 0, ATTR_BYTES);
    put_le(attr + ATTR_SIZE, ATTR_BYTES, 4);
    put_le(attr + ATTR_SAMPLE_PERIOD, 1, 8);
    put_le(attr + ATTR_SAMPLE_TYPE,
           SAMPLE_IP | SAMPLE_TID | SAMPLE_TIME | SAMPLE_CPU | SAMPLE_IDENTIFIER, 8);
    if (sideband) {
        put_le(attr + ATTR_TYPE, TYPE_SOFTWARE, 4);
        put_le(attr + ATTR_CONFIG, SOFTWARE_DUMMY, 8);
        flags |= ATTR_EXCLUDE_KERNEL | ATTR_MMAP | ATTR_MMAP2 | ATTR_COMM | ATTR_COMM_EXEC | ATTR_TASK |
                 ATTR_CONTEXT_SWITCH;
    } else {
        bool pt = info->gen == COFI_PT;
        put_le(attr + ATTR_TYPE, PMU_TYPE, 4);
        put_le(attr + ATTR_CONFIG, pt ? info->config & PERF_PT_CONFIG_BITS : info->config, 8);
        if (pt && !(info->config & CTL_PT_OS))
            flags |= ATTR_EXCLUDE_KERNEL;
        if (pt && !(info->config & CTL_PT_USER) && info->config & CTL_PT_OS)
            flags |= ATTR_EXCLUDE_USER;
    }
    if (info->time.monotonic) {
        flags |= ATTR_USE_CLOCKID;
        put_le(attr + ATTR_CLOCKID, CLOCK_MONOTONIC, 4);
    }
    put_le(attr + ATTR_FLAGS, flags, 8);
}

/* A string as perf's header has it: u32 length of what follows, padded with zeros to 64. */
static void put_string(struct cofi__buffer *out, const char *text)
{
    size_t n = strlen(text) + 1, padded = (n + 63) & ~(size_t)63;
    cofi__buffer_put_le(out, padded, 4);
    cofi__buffer_put(out, text, n);
    cofi__buffer_zero(out, padded - n);
}

static void put_build_ids(struct cofi__buffer *out, struct cofi_writer *writer)
{
    for (size_t i = 0; i < BUILD_ID_BUCKETS; i++)
        for (const struct cofi__build_id *e = writer->build_ids[i]; e; e = e->next) {
            size_t n = strlen(e->path) + 1, padded = (n + 63) & ~(size_t)63;
            if (!e->size)
                continue;
            cofi__buffer_put_le(out, PERF_HEADER_BUILD_ID, 4);
            cofi__buffer_put_le(out, PERF_MISC_USER | PERF_MISC_BUILD_ID_SIZE, 2);
            cofi__buffer_put_le(out, 8 + 4 + 24 + padded, 2);
            cofi__buffer_put_le(out, UINT32_MAX, 4);
            cofi__buffer_put(out, e->id, 20);
            cofi__buffer_put_le(out, e->size, 4);
            cofi__buffer_put(out, e->path, n);
            cofi__buffer_zero(out, padded - n);
        }
}

/* The processor's name as the system tells it, or an empty string. */
static void read_cpudesc(char *out, size_t size)
{
    char line[512];
    out[0] = 0;
    FILE *file = fopen("/proc/cpuinfo", "re");
    if (!file)
        return;
    while (fgets(line, sizeof line, file)) {
        char *colon = strchr(line, ':');
        if (strncmp(line, "model name", 10) || !colon || colon[1] != ' ')
            continue;
        colon[strcspn(colon, "\n")] = 0;
        snprintf(out, size, "%s", colon + 2);
        break;
    }
    fclose(file);
}

static void put_event_desc(struct cofi__buffer *out, const struct cofi_recording_info *info)
{
    uint8_t attr[ATTR_BYTES];
    cofi__buffer_put_le(out, 2, 4);
    cofi__buffer_put_le(out, ATTR_BYTES, 4);
    for (int sideband = 0; sideband < 2; sideband++) {
        cofi__writer_attr(attr, info, sideband);
        cofi__buffer_put(out, attr, sizeof attr);
        cofi__buffer_put_le(out, 1, 4);
        put_string(out, sideband ? "dummy:u" : info->gen == COFI_PT ? "intel_pt//u" : "rtit//u");
        cofi__buffer_put_le(out, sideband ? ID_SIDEBAND : ID_TRACE, 8);
    }
}

static void put_cpuid(struct cofi__buffer *out, const struct cofi_writer *writer)
{
    char text[96];
    if (!writer->info.family || !writer->vendor)
        return;
    snprintf(text, sizeof text, "%s,%u,%u,%u", writer->vendor, writer->info.family, writer->info.model,
             writer->info.stepping);
    put_string(out, text);
}

/* Append the body of one feature; nothing appended: the feature is not written. */
static void put_feature(struct cofi__buffer *out, struct cofi_writer *writer, int feature)
{
    struct utsname name;
    char text[256];
    switch (feature) {
    case FEATURE_BUILD_ID: put_build_ids(out, writer); break;
    case FEATURE_HOSTNAME: if (!uname(&name)) put_string(out, name.nodename); break;
    case FEATURE_OSRELEASE: if (!uname(&name)) put_string(out, name.release); break;
    case FEATURE_VERSION: put_string(out, "cofi " COFI_VERSION); break;
    case FEATURE_ARCH: put_string(out, "x86_64"); break;
    case FEATURE_NRCPUS:
        cofi__buffer_put_le(out, (uint64_t)sysconf(_SC_NPROCESSORS_CONF), 4);
        cofi__buffer_put_le(out, (uint64_t)sysconf(_SC_NPROCESSORS_ONLN), 4);
        break;
    case FEATURE_CPUDESC:
        read_cpudesc(text, sizeof text);
        put_string(out, text);
        break;
    case FEATURE_CPUID: put_cpuid(out, writer); break;
    case FEATURE_TOTAL_MEM:
        cofi__buffer_put_le(out, (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE) / 1024, 8);
        break;
    case FEATURE_CMDLINE:
        if (writer->command) {
            cofi__buffer_put_le(out, 1, 4);
            put_string(out, writer->command);
        }
        break;
    case FEATURE_EVENT_DESC: put_event_desc(out, &writer->info); break;
    case FEATURE_PMU_MAPPINGS:
        cofi__buffer_put_le(out, 1, 4);
        cofi__buffer_put_le(out, PMU_TYPE, 4);
        put_string(out, writer->info.gen == COFI_PT ? "intel_pt" : "rtit");
        break;
    case FEATURE_AUXTRACE:
        cofi__buffer_put_le(out, writer->index.n / 16, 8);
        cofi__buffer_put(out, writer->index.bytes, writer->index.n);
        break;
    case FEATURE_SAMPLE_TIME:
        cofi__buffer_put_le(out, writer->first_ns, 8);
        cofi__buffer_put_le(out, writer->last_ns, 8);
        break;
    }
}

int cofi__writer_features(struct cofi_writer *writer)
{
    struct cofi__buffer table = {0}, body = {0}, all = {0};
    uint8_t bitmap[32] = {0};
    size_t starts[FEATURES + 1] = {0}, count = 0;
    for (int feature = 0; feature < FEATURES; feature++) {
        size_t before = body.n;
        put_feature(&body, writer, feature);
        if (body.n == before)
            continue;
        bitmap[feature / 8] |= (uint8_t)(1u << (feature % 8));
        starts[count++] = before;
    }
    starts[count] = body.n;
    for (size_t i = 0; i < count; i++) {
        cofi__buffer_put_le(&table, writer->end + count * 16 + starts[i], 8);
        cofi__buffer_put_le(&table, starts[i + 1] - starts[i], 8);
    }
    cofi__buffer_put(&all, table.bytes, table.n);
    cofi__buffer_put(&all, body.bytes, body.n);
    int status = table.failed || body.failed || all.failed ? COFI_ERR_NOMEM : 0;
    struct iovec part = {all.bytes, all.n};
    if (!status && writer->deflate && cofi__deflate_write(writer->deflate, &part, 1))
        status = COFI_ERR_IO;
    if (!status && !writer->deflate && pwrite(writer->fd, all.bytes, all.n, (off_t)writer->end) != (ssize_t)all.n)
        status = COFI_ERR_IO;
    if (!status)
        status = cofi__writer_header(writer, writer->end, bitmap);
    writer->features = !status;
    cofi__buffer_fini(&table);
    cofi__buffer_fini(&body);
    cofi__buffer_fini(&all);
    return status;
}
