/* SPDX-License-Identifier: MIT
 * SAMPLE records -> streams of the trace in them (perf record --aux-sample); switches (sched_switch). */
#include <string.h>

#include "base/bytes.h"
#include "trace/perf_data.h"
#include "trace/reader.h"

/* A sample's body, read field by field in the order of perf_event_open's page; once past its end, all is 0. */
struct body {
    const uint8_t *bytes;
    size_t at, n;
    bool cut;
};

static uint64_t word(struct body *body)
{
    if (body->cut || body->n - body->at < 8) {
        body->cut = true;
        return 0;
    }
    body->at += 8;
    return le64(body->bytes + body->at - 8);
}

static void skip(struct body *body, uint64_t bytes)
{
    body->cut |= bytes > body->n - body->at;
    body->at += body->cut ? 0 : (size_t)bytes;
}

static void skip_words(struct body *body, uint64_t n)
{
    if (n > body->n / 8)
        body->cut = true;
    else
        skip(body, 8 * n);
}

static uint64_t has(const struct cofi__event_attr *attr, uint64_t bits)
{
    return (uint64_t)__builtin_popcountll(attr->sample_type & bits);
}

static void skip_read(struct body *body, uint64_t format)
{
    uint64_t times = (format & READ_TIME_ENABLED ? 1 : 0) + (format & READ_TIME_RUNNING ? 1 : 0);
    uint64_t more = (format & READ_ID ? 1 : 0) + (format & READ_LOST ? 1 : 0);
    if (!(format & READ_GROUP)) {
        skip_words(body, 1 + times + more);
        return;
    }
    uint64_t n = word(body);
    skip_words(body, times);
    for (; n && !body->cut; n--)
        skip_words(body, 1 + more);
}

static void skip_registers(struct body *body, uint64_t mask)
{
    if (word(body)) /* the ABI; 0: there are none */
        skip_words(body, (uint64_t)__builtin_popcountll(mask));
}

static void skip_raw(struct body *body)
{
    if (body->cut || body->n - body->at < 4) {
        body->cut = true;
        return;
    }
    uint64_t size = 4 + (uint64_t)le32(body->bytes + body->at);
    skip(body, (size + 7) & ~UINT64_C(7));
}

static void skip_branches(struct body *body, uint64_t type)
{
    uint64_t n = word(body), each = type & BRANCH_COUNTERS ? 4 : 3; /* the counters lie behind all entries */
    skip_words(body, type & BRANCH_HW_INDEX ? 1 : 0);
    for (; n && !body->cut; n--)
        skip_words(body, each);
}

static void skip_stack(struct body *body)
{
    uint64_t size = word(body);
    skip(body, size);
    if (size)
        word(body); /* how much of it is filled */
}

/* A sample's fields that are looked at. */
struct sample {
    uint64_t ids, time, cpu;
    const uint8_t *raw, *trace;
    uint64_t raw_bytes, trace_bytes;
};

/* u32 size, bytes. */
static void read_raw(struct body *body, struct sample *sample)
{
    size_t at = body->at;
    skip_raw(body);
    if (body->cut)
        return;
    sample->raw = body->bytes + at + 4;
    sample->raw_bytes = le32(body->bytes + at);
}

/* All between the fixed head and the trace, which is last. */
static void read_middle(struct body *body, const struct cofi__event_attr *attr, struct sample *sample)
{
    skip_words(body, has(attr, SAMPLE_PERIOD));
    if (attr->sample_type & SAMPLE_READ)
        skip_read(body, attr->read_format);
    if (attr->sample_type & SAMPLE_CALLCHAIN)
        skip_words(body, word(body));
    if (attr->sample_type & SAMPLE_RAW)
        read_raw(body, sample);
    if (attr->sample_type & SAMPLE_BRANCH_STACK)
        skip_branches(body, attr->branch_type);
    if (attr->sample_type & SAMPLE_REGS_USER)
        skip_registers(body, attr->regs_user);
    if (attr->sample_type & SAMPLE_STACK_USER)
        skip_stack(body);
    skip_words(body, has(attr, SAMPLE_WEIGHT | SAMPLE_WEIGHT_STRUCT) + has(attr, SAMPLE_DATA_SRC | SAMPLE_TRANSACTION));
    if (attr->sample_type & SAMPLE_REGS_INTR)
        skip_registers(body, attr->regs_intr);
    skip_words(body, has(attr, SAMPLE_PHYS_ADDR | SAMPLE_CGROUP | SAMPLE_DATA_PAGE_SIZE | SAMPLE_CODE_PAGE_SIZE));
}

static void read_fields(struct body *body, const struct cofi__event_attr *attr, struct sample *sample)
{
    skip_words(body, has(attr, SAMPLE_IDENTIFIER | SAMPLE_IP));
    sample->ids = attr->sample_type & SAMPLE_TID ? word(body) : UINT64_MAX;
    sample->time = attr->sample_type & SAMPLE_TIME ? word(body) : 0;
    skip_words(body, has(attr, SAMPLE_ADDR | SAMPLE_ID | SAMPLE_STREAM_ID));
    sample->cpu = attr->sample_type & SAMPLE_CPU ? word(body) : UINT64_MAX;
    read_middle(body, attr, sample);
    if (!(attr->sample_type & SAMPLE_AUX))
        return;
    sample->trace_bytes = word(body);
    body->cut |= sample->trace_bytes > body->n - body->at;
    sample->trace = body->bytes + body->at;
}

static void add_trace(struct cofi_recording *recording, const struct sample *sample, uint64_t at, bool copied)
{
    const struct cofi_time_conv *conv = &recording->info.time.conv;
    bool of_cpu = recording->info.per_cpu && sample->cpu != UINT64_MAX;
    struct cofi__piece piece = {.file_offset = at, .bytes = sample->trace_bytes,
                                .reference = conv->mult && sample->time ? cofi_time_ticks(conv, sample->time) : 0};
    if (copied) {
        uint8_t *memory = cofi__keep_alloc(&recording->keep, (size_t)sample->trace_bytes);
        recording->nomem |= !memory;
        if (!memory)
            return;
        piece.memory = memcpy(memory, sample->trace, (size_t)sample->trace_bytes);
    } else {
        piece.file_offset = (uint64_t)(sample->trace - recording->in.bytes);
    }
    cofi__add_sample(recording, of_cpu ? -1 : (int32_t)(sample->ids >> 32),
                     of_cpu ? (int32_t)(uint32_t)sample->cpu : -1, &piece);
}

static bool is_looked_at(const struct cofi_recording *recording, const struct cofi__event_attr *attr)
{
    return attr && (attr->sample_type & SAMPLE_AUX || cofi__is_switch(recording, attr));
}

void cofi__read_lost_samples(struct cofi_recording *recording, const uint8_t *record, size_t n)
{
    if (n < PERF_RECORD_HEADER_BYTES + 8 || le16(record + 4) & PERF_MISC_LOST_BY_BPF)
        return;
    if (is_looked_at(recording, cofi__event_of_record(recording, record, n)))
        recording->lost_samples += le64(record + PERF_RECORD_HEADER_BYTES);
}

void cofi__read_sample(struct cofi_recording *recording, const uint8_t *record, size_t n, uint64_t at, bool copied)
{
    struct body body = {record, PERF_RECORD_HEADER_BYTES, n, n < PERF_RECORD_HEADER_BYTES + 8};
    struct sample sample = {0};
    if (body.cut)
        return;
    const struct cofi__event_attr *attr = cofi__event_of_id(recording, le64(record + PERF_RECORD_HEADER_BYTES));
    if (!is_looked_at(recording, attr))
        return;
    read_fields(&body, attr, &sample);
    if (body.cut) {
        cofi__damage(recording, "a sample of %zu bytes at %#llx ends before the trace in it", n,
                     (unsigned long long)at);
        return;
    }
    if (cofi__is_switch(recording, attr) && sample.raw && sample.ids != UINT64_MAX)
        cofi__add_switch(recording,
                         &(struct cofi__switch){(uint32_t)sample.cpu, (int32_t)sample.ids, (int32_t)(sample.ids >> 32),
                                                sample.time},
                         sample.raw, (size_t)sample.raw_bytes);
    if (sample.trace_bytes)
        add_trace(recording, &sample, at, copied);
}
