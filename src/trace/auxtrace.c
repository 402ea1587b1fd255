/* SPDX-License-Identifier: MIT
 * AUXTRACE records -> streams in pieces; AUXTRACE_INFO -> how they were made [PTREF 10.3]. */
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/error.h"
#include "trace/perf_data.h"
#include "trace/reader.h"

/* The word at index i of priv[], 0 where the record ends before. */
static uint64_t word(const uint8_t *record, size_t n, size_t i)
{
    return 16 + (i + 1) * 8 <= n ? le64(record + 16 + i * 8) : 0;
}

static void read_filters(struct cofi_recording_info *info, const uint8_t *record, size_t n, size_t at)
{
    uint64_t events = word(record, n, at + COFI_INFO_EVENTS);
    info->ranges_known = events >> 32 & 1;
    info->events = (uint32_t)events;
    info->cr3_match = word(record, n, at + COFI_INFO_CR3_MATCH);
    for (size_t i = 0; i < COFI_INFO_RANGES_MAX; i++) {
        info->range_base[i] = word(record, n, at + COFI_INFO_RANGES + 2 * i);
        info->range_limit[i] = word(record, n, at + COFI_INFO_RANGES + 2 * i + 1);
    }
}

static bool read_cofi_words(struct cofi_recording_info *info, const uint8_t *record, size_t n, size_t at)
{
    if (word(record, n, at + COFI_INFO_MAGIC_WORD) != COFI_INFO_MAGIC)
        return false;
    uint64_t time = word(record, n, at + COFI_INFO_TIME);
    info->config = word(record, n, at + COFI_INFO_CONFIG);
    if (!info->family) {
        info->family = (uint32_t)word(record, n, at + COFI_INFO_FAMILY);
        info->model = (uint32_t)word(record, n, at + COFI_INFO_MODEL);
        info->stepping = (uint32_t)word(record, n, at + COFI_INFO_STEPPING);
    }
    info->time.mtc_freq = time & COFI_MTC_FREQ_MOST;
    info->time.nominal_ratio = (uint8_t)(time >> 8);
    info->time.tsc = time >> 16 & 1;
    info->time.mtc = time >> 17 & 1;
    info->time.cyc = time >> 18 & 1;
    info->time.monotonic = time >> 19 & 1;
    read_filters(info, record, n, at);
    return true;
}

static const struct cofi__event_attr *trace_attr(const struct cofi_recording *recording, uint64_t pmu_type)
{
    const struct cofi__event_attr *attrs = recording->attrs.items;
    for (size_t i = 0; i < recording->attrs.n; i++)
        if (attrs[i].type == pmu_type)
            return &attrs[i];
    return NULL;
}

/* perf's config has no OS and User bits: the event's exclude flags say it. */
static void read_config(struct cofi_recording *recording, uint64_t pmu_type, const uint8_t *record, size_t n)
{
    struct cofi_recording_info *info = &recording->info;
    const struct cofi__event_attr *attr = trace_attr(recording, pmu_type);
    if (!attr)
        return;
    info->config = attr->config & ~(uint64_t)(CTL_PT_OS | CTL_PT_USER);
    if (info->gen == COFI_PT) {
        info->config |= attr->flags & ATTR_EXCLUDE_KERNEL ? 0 : CTL_PT_OS;
        info->config |= attr->flags & ATTR_EXCLUDE_USER ? 0 : CTL_PT_USER;
        if (!(attr->config & 1)) /* before the pt bit, branches were always traced */
            info->config |= CTL_BRANCH_BIT;
    }
    uint64_t mtc_bits = word(record, n, INFO_MTC_FREQ_BITS);
    info->time.tsc = attr->config & word(record, n, INFO_TSC_BIT);
    info->time.mtc = attr->config & word(record, n, INFO_MTC_BIT);
    info->time.cyc = attr->config & word(record, n, INFO_CYC_BIT);
    if (mtc_bits)
        info->time.mtc_freq = (attr->config & mtc_bits) >> __builtin_ctzll(mtc_bits) & COFI_MTC_FREQ_MOST;
}

/* Other traces that perf records [linux: enum auxtrace_type]. */
static const char *other_trace(uint32_t type)
{
    static const char *const names[] = {[2] = "Intel BTS", "Arm CoreSight", "Arm SPE",
                                        "s390 CPU-MF",     "HiSilicon PTT", "VPA DTL"};
    return type < ARRAY_LEN(names) ? names[type] : NULL;
}

void cofi__read_auxtrace_info(struct cofi_recording *recording, const uint8_t *record, size_t n)
{
    struct cofi_recording_info *info = &recording->info;
    if (n < 16)
        return;
    uint32_t type = le32(record + 8);
    if (type != AUXTRACE_TYPE_INTEL_PT && type != AUXTRACE_TYPE_RTIT) {
        recording->other_trace = other_trace(type);
        cofi__warn(recording, "the trace is of perf's type %u, neither Intel PT (1) nor RTIT", type);
        return;
    }
    recording->has_info = true;
    info->gen = type == AUXTRACE_TYPE_RTIT ? COFI_RTIT : COFI_PT;
    if (word(record, n, INFO_CAP_USER_TIME_ZERO)) {
        info->time.conv.shift = (uint16_t)(word(record, n, INFO_TIME_SHIFT) & 63);
        info->time.conv.mult = (uint32_t)word(record, n, INFO_TIME_MULT);
        info->time.conv.zero = word(record, n, INFO_TIME_ZERO);
    }
    info->snapshot = word(record, n, INFO_SNAPSHOT_MODE);
    info->per_cpu = word(record, n, INFO_PER_CPU_MMAPS);
    info->time.tsc_num = (uint32_t)word(record, n, INFO_TSC_CTC_N);
    info->time.tsc_den = (uint32_t)word(record, n, INFO_TSC_CTC_D);
    info->time.nominal_ratio = (uint8_t)word(record, n, INFO_MAX_NONTURBO_RATIO);
    read_config(recording, word(record, n, INFO_PMU_TYPE), record, n);
    size_t at = INFO_WORDS, start = 16 + INFO_WORDS * 8;
    uint64_t length = word(record, n, INFO_FILTER_STR_LEN);
    if (length && start < n && length < n - start) {
        info->filter = cofi__keep_string(&recording->keep, record + start, (size_t)length);
        at += (size_t)(length + 1 + 7) / 8;
    }
    recording->own = read_cofi_words(info, record, n, at + 1);
}

static size_t *bucket_of(struct cofi_recording *recording, uint32_t idx, int32_t tid, int32_t cpu)
{
    uint32_t hash = (idx * 2654435761u) ^ ((uint32_t)tid * 40503u) ^ ((uint32_t)cpu * 65599u);
    return &recording->stream_hash[(hash ^ hash >> 16) % IN_BUCKETS];
}

/* The newest stream of a buffer. */
static struct cofi__in_stream *find(struct cofi_recording *recording, uint32_t idx, int32_t tid, int32_t cpu)
{
    struct cofi__in_stream *streams = recording->streams.items;
    for (size_t i = *bucket_of(recording, idx, tid, cpu); i; i = streams[i - 1].next_hash) {
        struct cofi__in_stream *s = &streams[i - 1];
        if (s->idx == idx && s->public.tid == tid && s->public.cpu == cpu)
            return s;
    }
    return NULL;
}

static struct cofi__in_stream *add(struct cofi_recording *recording, uint32_t idx, int32_t tid, int32_t cpu,
                                   uint64_t reference)
{
    size_t *bucket = bucket_of(recording, idx, tid, cpu);
    struct cofi__in_stream *stream = cofi__vector_push(&recording->streams);
    if (!stream)
        return NULL;
    stream->idx = idx;
    stream->public.pid = -1;
    stream->public.tid = tid;
    stream->public.cpu = cpu;
    stream->public.reference_tsc = reference;
    stream->records = recording->sideband.n;
    stream->pieces = (struct cofi__vector)COFI__VECTOR_OF(struct cofi__piece);
    stream->breaks = (struct cofi__vector)COFI__VECTOR_OF(uint64_t);
    stream->next_hash = *bucket;
    *bucket = recording->streams.n;
    return stream;
}

/* perf pads pieces to 8 bytes with zeros and does not say so, but the next piece's offset tells. */
static void cut_padding(const struct cofi_recording *recording, struct cofi__in_stream *stream, uint64_t offset)
{
    uint64_t over = stream->raw_end - offset;
    struct cofi__piece *last = (struct cofi__piece *)stream->pieces.items + stream->pieces.n - 1;
    if (offset >= stream->raw_end || over > 7 || !stream->pieces.n || over > last->bytes)
        return;
    for (uint64_t i = 1; i <= over; i++)
        if (recording->in.bytes[last->file_offset + last->bytes - i])
            return;
    last->bytes -= over;
    stream->public.bytes -= over;
    stream->raw_end = offset;
}

void cofi__read_auxtrace(struct cofi_recording *recording, const uint8_t *record, uint64_t at, uint64_t bytes)
{
    uint64_t offset = le64(record + 16), reference = le64(record + 24);
    uint32_t idx = le32(record + 32), padding = le32(record + 44);
    int32_t tid = (int32_t)le32(record + 36), cpu = (int32_t)le32(record + 40);
    struct cofi__in_stream *stream = find(recording, idx, tid, cpu);
    if (stream)
        cut_padding(recording, stream, offset);
    bool follows = stream && !recording->info.snapshot && offset == stream->raw_end;
    if (stream && !recording->info.snapshot && !follows)
        cofi__warn(recording, "trace of thread %d, processor %d: piece at %#llx does not follow the one before "
                   "(stream offset %#llx, not %#llx)", tid, cpu, (unsigned long long)at,
                   (unsigned long long)offset, (unsigned long long)stream->raw_end);
    if (!follows)
        stream = add(recording, idx, tid, cpu, reference);
    if (!follows && stream)
        stream->raw_begin = offset;
    struct cofi__piece *piece = stream ? cofi__vector_push(&stream->pieces) : NULL;
    if (!piece) {
        recording->nomem = true;
        return;
    }
    uint64_t declared = le64(record + 8);
    if (padding < 8 && padding <= declared && bytes > declared - padding)
        bytes = declared - padding;
    *piece = (struct cofi__piece){stream->public.bytes, at, bytes, reference, NULL};
    stream->public.bytes += bytes;
    stream->raw_end = offset + bytes;
    stream->public.pieces = stream->pieces.n;
}

void cofi__add_sample(struct cofi_recording *recording, int32_t tid, int32_t cpu, const struct cofi__piece *sample)
{
    struct cofi__in_stream *stream = add(recording, UINT32_MAX, tid, cpu, sample->reference);
    struct cofi__piece *piece = stream ? cofi__vector_push(&stream->pieces) : NULL;
    if (!piece) {
        recording->nomem = true;
        return;
    }
    *piece = *sample;
    piece->stream_offset = 0;
    stream->public.bytes = sample->bytes;
    stream->public.pieces = 1;
    recording->sampled = true;
}

/* Number of the first PSB-aligned place of b where a's end lies too; see drop_overlap. */
static uint64_t overlap(const uint8_t *a, uint64_t a_n, const uint8_t *b, uint64_t b_n)
{
    static const uint8_t psb[16] = {2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82};
    uint64_t last = a_n;
    for (uint64_t i = a_n; i-- > 0;)
        if (a[i] == 2 && a_n - i >= sizeof psb && !memcmp(a + i, psb, sizeof psb)) {
            last = i;
            break;
        }
    uint64_t tail = a_n - last;
    if (tail < 64) /* too little to be sure */
        return 0;
    for (const uint8_t *p = b; (p = memmem(p, (size_t)(b + b_n - p), psb, sizeof psb)); p++)
        if ((uint64_t)(b + b_n - p) >= tail && !memcmp(p, a + last, tail))
            return (uint64_t)(p - b) + tail;
    return 0;
}

/* Snapshots of one circular buffer may show the same bytes twice. Where the end of one (from its last PSB on: with
 * its TSC no other place has these bytes) lies in the next, what follows there is the next piece of the same stream. */
static void join(struct cofi_recording *recording, struct cofi__in_stream *before, struct cofi__in_stream *stream)
{
    const struct cofi__piece *a = &before->shown, *b = stream->pieces.items;
    uint64_t twice = overlap(cofi__piece_bytes(recording, a), a->bytes, cofi__piece_bytes(recording, b), b->bytes);
    struct cofi__piece *piece = twice ? cofi__vector_push(&before->pieces) : NULL;
    recording->nomem |= twice && !piece;
    if (!piece)
        return;
    *piece = (struct cofi__piece){before->public.bytes, b->file_offset + (b->memory ? 0 : twice), b->bytes - twice,
                                  b->reference, b->memory ? b->memory + twice : NULL};
    before->public.bytes += piece->bytes;
    before->public.pieces = before->pieces.n;
    before->shown = *b;
    stream->pieces.n = 0;
}

/* The stream before this one of the same buffer that has not become part of another. Those that have are
 * taken out of the list: of many samples each would pass by all before it. */
static struct cofi__in_stream *stream_before(struct cofi_recording *recording, struct cofi__in_stream *stream)
{
    struct cofi__in_stream *streams = recording->streams.items;
    for (size_t *j = &stream->next_hash; *j;) {
        struct cofi__in_stream *before = &streams[*j - 1];
        if (!before->pieces.n) {
            *j = before->next_hash;
            continue;
        }
        if (before->idx == stream->idx && before->public.tid == stream->public.tid &&
            before->public.cpu == stream->public.cpu)
            return before;
        j = &before->next_hash;
    }
    return NULL;
}

static void join_snapshots(struct cofi_recording *recording)
{
    struct cofi__in_stream *streams = recording->streams.items;
    size_t n = 0;
    for (size_t i = 0; i < recording->streams.n; i++) {
        struct cofi__in_stream *before = stream_before(recording, &streams[i]);
        if (streams[i].pieces.n == 1)
            streams[i].shown = *(struct cofi__piece *)streams[i].pieces.items;
        if (before && streams[i].pieces.n == 1 && recording->info.gen == COFI_PT)
            join(recording, before, &streams[i]);
    }
    for (size_t i = 0; i < recording->streams.n; i++)
        if (streams[i].pieces.n)
            streams[n++] = streams[i];
        else
            free(streams[i].pieces.items);
    recording->streams.n = n;
}

/* AUXTRACE has the thread only: its process from the sideband, which stands in the file's order still. */
static void set_pids(struct cofi_recording *recording)
{
    struct cofi__vector threads;
    struct cofi__in_stream *streams = recording->streams.items;
    if (cofi__list_threads(recording, &threads) < 0) {
        recording->nomem = true;
        return;
    }
    for (size_t i = 0; i < recording->streams.n; i++)
        streams[i].public.pid = cofi__pid_of(&threads, streams[i].public.tid, streams[i].records);
    free(threads.items);
}

/* All buffers of processors may have the number of one thread, which a command's children do not have. */
static uint64_t number_of_buffer(int32_t cpu, int32_t tid)
{
    return cpu >= 0 ? UINT64_C(1) << 32 | (uint32_t)cpu : (uint32_t)tid;
}

/* One buffer's streams follow each other. */
static void list_buffers(struct cofi_recording *recording)
{
    struct cofi__in_stream *streams = recording->streams.items;
    for (size_t i = recording->streams.n; i-- > 0;) {
        uint64_t number = number_of_buffer(streams[i].public.cpu, streams[i].public.tid);
        const uint32_t *next = cofi__row(recording, ROW_OF_BUFFER, number);
        streams[i].next_of_buffer = next ? *next + 1 : 0;
        cofi__put_row(recording, ROW_OF_BUFFER, number, i);
    }
}

/* Where the buffer was full, if that is in this stream. One buffer's records come in its order. */
static void note_break(struct cofi_recording *recording, struct cofi__in_stream *stream,
                       const struct cofi_sideband *aux)
{
    uint64_t at = aux->aux_offset + aux->aux_size - stream->raw_begin, *last = stream->breaks.items;
    if (!at || at > stream->public.bytes || (stream->breaks.n && at <= last[stream->breaks.n - 1]))
        return;
    uint64_t *row = cofi__vector_push(&stream->breaks);
    recording->nomem |= !row;
    if (row)
        *row = at;
}

/* A recorder of RTIT marks the end of a stream so when Buffer_Overflow was set: no packet tells that. */
static void note_last_overflow(struct cofi__in_stream *stream, const struct cofi_sideband *aux)
{
    if (!aux->aux_size && stream->public.bytes == aux->aux_offset)
        stream->public.ends_in_overflow = true;
}

/* looks: how many more there may be, for a file may be made so that its records and streams are all of one buffer. */
static void note_full(struct cofi_recording *recording, uint64_t number, const struct cofi_sideband *aux,
                      uint32_t *looks)
{
    struct cofi__in_stream *streams = recording->streams.items;
    const uint32_t *first = cofi__row(recording, ROW_OF_BUFFER, number);
    for (size_t i = first ? *first + 1 : 0; i && *looks; i = streams[i - 1].next_of_buffer, --*looks)
        if (recording->info.gen == COFI_RTIT)
            note_last_overflow(&streams[i - 1], aux);
        else if (!recording->info.snapshot && !recording->sampled)
            note_break(recording, &streams[i - 1], aux);
}

static void note_full_buffers(struct cofi_recording *recording)
{
    const struct cofi_sideband *rows = recording->sideband.items;
    uint32_t looks = 1 << 24;
    list_buffers(recording);
    for (size_t i = 0; i < recording->sideband.n; i++) {
        if (rows[i].kind != COFI_SB_AUX || !(rows[i].aux_flags & AUX_TRUNCATED))
            continue;
        note_full(recording, number_of_buffer(-1, rows[i].tid), &rows[i], &looks);
        if (rows[i].cpu <= INT32_MAX)
            note_full(recording, number_of_buffer((int32_t)rows[i].cpu, -1), &rows[i], &looks);
    }
    if (!looks)
        cofi__damage(recording, "too many streams of one buffer: where it was full is not known of all");
}

void cofi__finish_streams(struct cofi_recording *recording)
{
    set_pids(recording);
    note_full_buffers(recording);
    if (recording->info.snapshot || recording->sampled)
        join_snapshots(recording);
}
