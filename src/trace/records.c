/* SPDX-License-Identifier: MIT
 * The data section -> its records, damaged places left out. */
#include <string.h>

#include "base/bytes.h"
#include "base/error.h"
#include "trace/perf_data.h"
#include "trace/reader.h"

/* How much of the file is in memory while its records are read. */
enum { READ_AT_ONCE = 16 << 20 };

/* No tool writes records of a larger type number (perf 6.16 ends at 85). */
enum { PERF_TYPE_LIMIT = 128 };

/* How many bytes lie behind a record and are not in its size. */
static uint64_t payload_bytes(const uint8_t *record, size_t size)
{
    uint32_t type = le32(record);
    if (type == PERF_AUXTRACE && size >= AUXTRACE_BYTES)
        return le64(record + 8);
    if (type == PERF_HEADER_TRACING_DATA && size >= 12)
        return ((uint64_t)le32(record + 8) + 7) & ~UINT64_C(7);
    return 0;
}

static bool plausible(const uint8_t *record, uint64_t left)
{
    if (left < PERF_RECORD_HEADER_BYTES)
        return false;
    uint32_t type = le32(record);
    uint16_t size = le16(record + 6);
    return type && type < PERF_TYPE_LIMIT && size >= PERF_RECORD_HEADER_BYTES && size <= left;
}

/* Records begin at `at` if three in a row look right, or all up to the end. */
static bool looks_like_records(const uint8_t *bytes, uint64_t at, uint64_t end)
{
    for (int i = 0; i < 3 && at < end; i++) {
        uint64_t size = plausible(bytes + at, end - at) ? le16(bytes + at + 6) : 0;
        if (!size || (size % 8 && le32(bytes + at) != PERF_COMPRESSED))
            return false;
        uint64_t more = payload_bytes(bytes + at, (size_t)size);
        if (more > end - at - size)
            return false;
        at += size + more;
    }
    return true;
}

/* Whether there are COMPRESSED records, which may have any size: behind them others begin anywhere. */
static bool has_compressed(const struct cofi_recording *recording)
{
    const struct cofi__input *in = &recording->in;
    bool in_header = in->n >= PERF_HEADER_BYTES && le64(in->bytes + 8) >= PERF_HEADER_BYTES &&
                     in->bytes[72 + FEATURE_COMPRESSED / 8] >> FEATURE_COMPRESSED % 8 & 1;
    return in_header || recording->inflate;
}

static uint64_t resync(const struct cofi_recording *recording, uint64_t at, uint64_t end)
{
    const uint8_t *bytes = recording->in.bytes;
    uint64_t step = has_compressed(recording) ? 1 : 8;
    for (at += step; at + PERF_RECORD_HEADER_BYTES <= end; at += step)
        if (looks_like_records(bytes, at, end))
            return at;
    return end;
}

void cofi__read_record(struct cofi_recording *recording, const uint8_t *record, size_t n, uint64_t at, bool copied)
{
    struct cofi_sideband sideband;
    uint32_t type = le32(record);
    if (type == PERF_SAMPLE) {
        cofi__read_sample(recording, record, n, at, copied);
        return;
    }
    if (type == PERF_LOST_SAMPLES) {
        cofi__read_lost_samples(recording, record, n);
        return;
    }
    if (type == PERF_KSYMBOL) {
        cofi__read_ksymbol(recording, record, n);
        return;
    }
    if (type < PERF_USER) {
        if (!cofi__read_sideband(recording, record, n, at, copied, &sideband))
            return;
        struct cofi_sideband *row = cofi__vector_push(&recording->sideband);
        if (row)
            *row = sideband;
        return;
    }
    switch (type) {
    case PERF_AUXTRACE_INFO: cofi__read_auxtrace_info(recording, record, n); break;
    case PERF_ID_INDEX: cofi__read_id_index(recording, record, n); break;
    case PERF_HEADER_BUILD_ID: cofi__read_build_ids(recording, record, n); break;
    case PERF_COMPRESSED:
        if (!copied)
            cofi__read_compressed(recording, record + 8, n - 8, at);
        break;
    case PERF_COMPRESSED2:
        if (!copied && n >= 16 && le64(record + 8) <= n - 16)
            cofi__read_compressed(recording, record + 16, (size_t)le64(record + 8), at);
        break;
    case PERF_HEADER_FEATURE:
        if (!copied && n >= 16 && le64(record + 8) < FEATURES) /* code of BPF programs stays where it is; perf
                                                                * compresses what the kernel wrote only */
            cofi__read_feature(recording, (unsigned)le64(record + 8), record + 16, n - 16);
        break;
    case PERF_HEADER_ATTR:
        if (n >= 8 + ATTR_BYTES_MIN && le32(record + 8 + ATTR_SIZE) >= ATTR_BYTES_MIN &&
            le32(record + 8 + ATTR_SIZE) <= n - 8) {
            size_t size = le32(record + 8 + ATTR_SIZE), attr = recording->attrs.n;
            cofi__read_attr(recording, record + 8, size);
            for (size_t i = 8 + size; i + 8 <= n; i += 8)
                cofi__add_id(recording, le64(record + i), attr);
        }
        break;
    }
}

/* Read an AUXTRACE with what follows it. Returns how many bytes that is. */
static uint64_t read_trace(struct cofi_recording *recording, uint64_t at, uint64_t size, uint64_t end, bool unclosed)
{
    const uint8_t *record = recording->in.bytes + at;
    uint64_t bytes = payload_bytes(record, (size_t)size), left = end - at - size;
    if (size < AUXTRACE_BYTES) {
        cofi__damage(recording, "AUXTRACE record of %llu bytes at %#llx: 48 are needed", (unsigned long long)size,
                   (unsigned long long)at);
        return 0;
    }
    if (bytes > left) {
        cofi__warn(recording, "the trace piece at %#llx is %llu bytes, %llu are in the file", (unsigned long long)at,
                   (unsigned long long)bytes, (unsigned long long)left);
        recording->damaged |= !unclosed;
        recording->missing += bytes - left;
        bytes = left;
    }
    cofi__read_auxtrace(recording, record, at + size, bytes);
    return bytes;
}

void cofi__read_records(struct cofi_recording *recording, uint64_t start, uint64_t end, bool unclosed)
{
    const uint8_t *bytes = recording->in.bytes;
    uint64_t at = start, kept = start;
    while (at < end && !recording->nomem) {
        if (at - kept > READ_AT_ONCE) {
            cofi__input_unneeded(&recording->in, kept, at);
            kept = at;
        }
        if (!plausible(bytes + at, end - at)) {
            uint64_t next = resync(recording, at, end);
            bool tail = end - at < PERF_RECORD_HEADER_BYTES || le16(bytes + at + 6) > end - at;
            if (next == end && unclosed) /* what a later write left unfinished */
                return;
            cofi__damage(recording,
                         tail && next == end ? "the file ends inside a record that begins at %#llx (%llu bytes left)"
                                             : "no record at %#llx: %llu bytes left out",
                         (unsigned long long)at, (unsigned long long)(next - at));
            at = next;
            continue;
        }
        uint64_t size = le16(bytes + at + 6);
        uint32_t type = le32(bytes + at);
        if (type == PERF_AUXTRACE) {
            size += read_trace(recording, at, size, end, unclosed);
        } else {
            cofi__read_record(recording, bytes + at, (size_t)size, at, false);
            uint64_t more = payload_bytes(bytes + at, (size_t)size), left = end - at - size;
            more = more < left ? more : left;
            if (type == PERF_HEADER_TRACING_DATA)
                cofi__read_tracing_data(recording, bytes + at + size, more);
            size += more;
        }
        at += size;
    }
    cofi__input_unneeded(&recording->in, kept, end);
}
