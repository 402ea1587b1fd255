/* SPDX-License-Identifier: MIT
 * perf.data files as perf record writes them on a processor with Intel PT, record by record [PTREF 10]. */
#ifndef COFI_TEST_PERFDATA_H
#define COFI_TEST_PERFDATA_H

#include "sample.h"

#include <cofi/flow.h>

#include "base/bytes.h"
#include "trace/perf_data.h"

struct bytes {
    uint8_t p[1 << 17];
    size_t n;
};

static inline void add(struct bytes *out, const void *bytes, size_t n)
{
    assert_true(out->n + n <= sizeof out->p);
    memcpy(out->p + out->n, bytes, n);
    out->n += n;
}

static inline void add_le(struct bytes *out, uint64_t value, size_t n)
{
    uint8_t bytes[8];
    put_le(bytes, value, n);
    add(out, bytes, n);
}

static inline void add_hex(struct bytes *out, const char *hex)
{
    for (unsigned v; *hex; hex += 2) {
        for (; *hex == ' '; hex++) {
        }
        if (*hex == 'P') { /* PSB */
            for (int i = 0; i < 8; i++)
                add(out, "\x02\x82", 2);
            hex--;
            continue;
        }
        assert_int_equal(sscanf(hex, "%2x", &v), 1);
        add_le(out, v, 1);
    }
}

/* The events of `perf record -e intel_pt//`: the trace, switches, the rest; and those of some tests. */
enum { EV_PT, EV_SWITCH, EV_TRACK, EV_GUEST, EV_TRACEPOINT, EVENTS };
enum { FILE_EVENTS = EV_TRACEPOINT }; /* perf wants descriptions of tracepoints in the header: only in pipes here */
enum { ID_BASE = 100, EVENT_ATTR_BYTES = 128, THIS_PMU = 10, SCHED_SWITCH = 316 };
#define EVENT_SAMPLE_TYPE (SAMPLE_IP | SAMPLE_TID | SAMPLE_TIME | SAMPLE_CPU | SAMPLE_IDENTIFIER)
/* What perf makes up from /proc as it begins: no kernel's words are behind these, but as much room. */
enum { SYNTHESIZED = EVENTS };

/* The one that tells mappings has no processor: events need not all have the same words. */
static inline uint64_t sample_type_of(unsigned event)
{
    uint64_t more = event == EV_TRACEPOINT ? SAMPLE_RAW | SAMPLE_PERIOD : 0;
    return (EVENT_SAMPLE_TYPE & ~(uint64_t)(event == EV_TRACK ? SAMPLE_CPU : 0)) | more;
}

static inline void add_event(struct bytes *out, unsigned event)
{
    uint8_t attr[EVENT_ATTR_BYTES] = {0};
    uint64_t type = event == EV_PT ? THIS_PMU : event == EV_TRACEPOINT ? TYPE_TRACEPOINT : TYPE_SOFTWARE;
    uint64_t config = event == EV_PT ? 0x300e601 : event == EV_TRACEPOINT ? SCHED_SWITCH : SOFTWARE_DUMMY;
    uint64_t flags = ATTR_SAMPLE_ID_ALL | ATTR_DISABLED;
    if (event == EV_SWITCH)
        flags |= ATTR_CONTEXT_SWITCH;
    if (event == EV_TRACK || event == EV_GUEST)
        flags |= ATTR_MMAP | ATTR_MMAP2 | ATTR_COMM | ATTR_COMM_EXEC | ATTR_TASK;
    put_le(attr + ATTR_TYPE, type, 4);
    put_le(attr + ATTR_SIZE, EVENT_ATTR_BYTES, 4);
    put_le(attr + ATTR_CONFIG, config, 8);
    put_le(attr + ATTR_SAMPLE_PERIOD, 1, 8);
    put_le(attr + ATTR_SAMPLE_TYPE, sample_type_of(event), 8);
    put_le(attr + ATTR_FLAGS, flags, 8);
    add(out, attr, sizeof attr);
}

/* Whom a record of the kernel is of: its last words. */
struct who {
    int32_t pid, tid;
    uint32_t cpu;
    uint64_t time;
    unsigned event;
};

static inline size_t begin(struct bytes *out, uint32_t type, uint16_t misc)
{
    size_t at = out->n;
    add_le(out, type, 4);
    add_le(out, misc, 2);
    add_le(out, 0, 2);
    return at;
}

static inline void end(struct bytes *out, size_t at, const struct who *who)
{
    while ((out->n - at) % 8)
        add_le(out, 0, 1);
    for (int i = 0; who && who->event == SYNTHESIZED && i < 4; i++)
        add_le(out, 0, 8);
    if (who && who->event != SYNTHESIZED) {
        add_le(out, (uint32_t)who->pid, 4);
        add_le(out, (uint32_t)who->tid, 4);
        add_le(out, who->time, 8);
        if (sample_type_of(who->event) & SAMPLE_CPU)
            add_le(out, who->cpu, 8);
        add_le(out, ID_BASE + who->event, 8);
    }
    put_le(out->p + at + 6, out->n - at, 2);
}

/* A record whose body is so many numbers of 8 bytes. */
static inline void words(struct bytes *out, uint32_t type, uint16_t misc, const struct who *who, const uint64_t *body, size_t n)
{
    size_t at = begin(out, type, misc);
    for (size_t i = 0; i < n; i++)
        add_le(out, body[i], 8);
    end(out, at, who);
}
#define WORDS(out, type, misc, who, ...)                                                            \
    words(out, type, misc, who, (const uint64_t[]){__VA_ARGS__}, sizeof((const uint64_t[]){__VA_ARGS__}) / 8)

static inline void comm(struct bytes *out, const struct who *who, const char *name, bool exec)
{
    size_t at = begin(out, PERF_COMM, exec ? PERF_MISC_COMM_EXEC : 0);
    add_le(out, (uint32_t)who->pid, 4);
    add_le(out, (uint32_t)who->tid, 4);
    add(out, name, strlen(name) + 1);
    end(out, at, who);
}

struct mapping {
    uint64_t addr, len, pgoff;
    const char *name;
    const uint8_t *build_id; /* 20 bytes, or null */
};

static inline void mmap2(struct bytes *out, const struct who *who, uint16_t misc, int32_t pid, const struct mapping *m)
{
    size_t at = begin(out, PERF_MMAP2, misc | (m->build_id ? PERF_MISC_MMAP_BUILD_ID : 0));
    uint8_t id[24] = {20};
    if (m->build_id)
        memcpy(id + 4, m->build_id, 20);
    else
        memset(id, 0, sizeof id);
    add_le(out, (uint32_t)pid, 4);
    add_le(out, (uint32_t)pid, 4);
    add_le(out, m->addr, 8);
    add_le(out, m->len, 8);
    add_le(out, m->pgoff, 8);
    add(out, id, sizeof id);
    add_le(out, 5, 4);
    add_le(out, 2, 4);
    add(out, m->name, strlen(m->name) + 1);
    end(out, at, who);
}

/* Kernel mappings are without the 2. */
static inline void mmap1(struct bytes *out, uint16_t misc, int32_t pid, const struct mapping *m)
{
    size_t at = begin(out, PERF_MMAP, misc);
    add_le(out, (uint32_t)pid, 4);
    add_le(out, 0, 4);
    add_le(out, m->addr, 8);
    add_le(out, m->len, 8);
    add_le(out, m->pgoff, 8);
    add(out, m->name, strlen(m->name) + 1);
    end(out, at, &(struct who){pid, 0, UINT32_MAX, 0, EV_TRACK});
}

static inline void auxtrace_info(struct bytes *out, uint64_t have_switch, uint64_t per_cpu)
{
    static const uint64_t mtc = CTL_MTC_BIT, freq = CTL_MTC_FREQ_BITS;
    WORDS(out, PERF_AUXTRACE_INFO, 0, NULL, AUXTRACE_TYPE_INTEL_PT, THIS_PMU, 10, 1024, 0, 1, CTL_TSC_BIT, CTL_NORETCOMP_BIT,
          have_switch, 0, per_cpu, mtc, freq, 168, 2, CTL_CYC_BIT, 24, 0, 1);
}

static inline void auxtrace(struct bytes *out, uint32_t idx, int32_t tid, int32_t cpu, uint64_t reference, const char *hex)
{
    static struct bytes trace;
    trace.n = 0;
    add_hex(&trace, hex);
    while (trace.n % 8)
        add_le(&trace, 0, 1);
    size_t at = begin(out, PERF_AUXTRACE, 0);
    add_le(out, trace.n, 8);
    add_le(out, 0, 8);
    add_le(out, reference, 8);
    add_le(out, idx, 4);
    add_le(out, (uint32_t)tid, 4);
    add_le(out, (uint32_t)cpu, 4);
    add_le(out, 0, 4);
    end(out, at, NULL);
    add(out, trace.p, trace.n);
}

static inline void put_string(struct bytes *out, const char *text)
{
    size_t n = (strlen(text) + 1 + 63) & ~(size_t)63;
    add_le(out, n, 4);
    add(out, text, strlen(text) + 1);
    for (size_t i = strlen(text) + 1; i < n; i++)
        add_le(out, 0, 1);
}

/* struct bpf_prog_info of a program whose code the kernel did not show, and of one of two functions: nop, ret at bpf_at; nop, nop, ret at
 * bpf_at + 100h. 0: no program. */
static uint64_t bpf_at;

static inline void put_bpf(struct bytes *out)
{
    enum { INFO = 208, DATA = 40 };
    static const uint8_t hidden[INFO + 8];
    uint8_t info[INFO] = {1, [8] = 0xab, 0xcd}, data[DATA] = {0x90, 0xc3, 0x90, 0x90, 0xc3};
    put_le(info + 16, 5, 4);   /* jited_prog_len, jited_prog_insns at 0 of the data */
    memcpy(info + 64, "count", 6);
    put_le(info + 104, 2, 4);  /* nr_jited_ksyms, nr_jited_func_lens, jited_ksyms, jited_func_lens */
    put_le(info + 108, 2, 4);
    put_le(info + 112, 8, 8);
    put_le(info + 120, 24, 8);
    put_le(data + 8, bpf_at, 8);
    put_le(data + 16, bpf_at + 0x100, 8);
    put_le(data + 24, 2, 4);
    put_le(data + 28, 3, 4);
    add_le(out, 2, 4);
    add_le(out, INFO, 4);
    add_le(out, 8, 4);
    add_le(out, 0, 8);
    add(out, hidden, sizeof hidden);
    add_le(out, INFO, 4);
    add_le(out, DATA, 4);
    add_le(out, 0, 8);
    add(out, info, INFO);
    add(out, data, DATA);
}

/* A feature section: CPUID of a Skylake, the kernel's release, the command; 0: none of that number. */
static inline bool feature(struct bytes *out, unsigned number)
{
    switch (number) {
    case FEATURE_OSRELEASE: put_string(out, "6.1.0-test"); return true;
    case FEATURE_CPUID: put_string(out, "GenuineIntel,6,94,3"); return true;
    case FEATURE_BPF_PROG_INFO:
        if (bpf_at)
            put_bpf(out);
        return bpf_at;
    case FEATURE_CMDLINE:
        add_le(out, 2, 4);
        put_string(out, "perf");
        put_string(out, "record");
        return true;
    }
    return false;
}

/* A seekable file of the records. */
static inline void write_file(const char *path, const struct bytes *data)
{
    static struct bytes out;
    uint64_t table, at = PERF_HEADER_BYTES, ids = at + FILE_EVENTS * (EVENT_ATTR_BYTES + 16), start = ids + FILE_EVENTS * 8;
    uint8_t bits[32] = {0};
    out.n = 0;
    add_le(&out, PERF_MAGIC, 8);
    add_le(&out, PERF_HEADER_BYTES, 8);
    add_le(&out, EVENT_ATTR_BYTES + 16, 8);
    add_le(&out, at, 8);
    add_le(&out, FILE_EVENTS * (EVENT_ATTR_BYTES + 16), 8);
    add_le(&out, start, 8);
    add_le(&out, data->n, 8);
    add_le(&out, 0, 8);
    add_le(&out, 0, 8);
    add(&out, bits, sizeof bits);
    for (unsigned i = 0; i < FILE_EVENTS; i++) {
        add_event(&out, i);
        add_le(&out, ids + i * 8, 8);
        add_le(&out, 8, 8);
    }
    for (unsigned i = 0; i < FILE_EVENTS; i++)
        add_le(&out, ID_BASE + i, 8);
    add(&out, data->p, data->n);
    table = out.n;
    static struct bytes spare;
    size_t features = 0;
    for (unsigned i = 0; i < FEATURES; i++) {
        spare.n = 0;
        if (!feature(&spare, i))
            continue;
        out.p[72 + i / 8] |= (uint8_t)(1 << i % 8);
        features++;
    }
    out.n += 16 * features;
    for (unsigned i = 0; i < FEATURES; i++) {
        uint64_t from = out.n;
        if (!feature(&out, i))
            continue;
        put_le(out.p + table, from, 8);
        put_le(out.p + table + 8, out.n - from, 8);
        table += 16;
    }
    write_whole(path, out.p, out.n);
}

/* The same through a pipe: events and features are records. */
static inline void write_pipe(const char *path, const struct bytes *data)
{
    static struct bytes out;
    out.n = 0;
    add_le(&out, PERF_MAGIC, 8);
    add_le(&out, PERF_PIPE_HEADER_BYTES, 8);
    for (unsigned i = 0; i < EVENTS; i++) {
        size_t at = begin(&out, PERF_HEADER_ATTR, 0);
        add_event(&out, i);
        add_le(&out, ID_BASE + i, 8);
        end(&out, at, NULL);
    }
    for (unsigned i = 0; i < FEATURES; i++) {
        size_t at = begin(&out, PERF_HEADER_FEATURE, 0);
        add_le(&out, i, 8);
        if (feature(&out, i))
            end(&out, at, NULL);
        else
            out.n = at;
    }
    add(&out, data->p, data->n);
    write_whole(path, out.p, out.n);
}

/* What a stream says ran: addresses, and events in brackets; gaps with their cause in words. */
static inline const char *flow_text(struct cofi_recording *recording, size_t stream,
                                    const struct cofi_image *(*space)(void *, uint64_t, uint64_t, bool), void *opaque)
{
    static char text[1 << 14];
    static const struct cofi_flow_block *blocks[COFI_FLOW_BATCH_MIN];
    struct cofi_flow_event events[16];
    struct cofi_flow_batch batch = {.blocks = blocks, .blocks_max = COFI_FLOW_BATCH_MIN, .events = events, .events_max = 16};
    const struct cofi_recording_info *info = cofi_recording_info(recording);
    struct cofi_flow_config config;
    struct cofi_flow *flow;
    size_t at = 0;
    cofi_flow_config_init(&config, info->gen);
    config.bytes = cofi_recording_bytes(recording, stream, 0, &config.n);
    config.image = cofi_recording_stream_image(recording, stream);
    config.time = info->time;
    config.family = info->family;
    config.model = info->model;
    config.reference_tsc = cofi_recording_stream(recording, stream)->reference_tsc;
    config.space = space;
    config.opaque = opaque;
    assert_int_equal(cofi_flow_open(&flow, &config), 0);
    text[0] = 0;
    while (cofi_flow_next(flow, &batch) > 0)
        for (size_t b = 0, e = 0; b < batch.blocks_n || e < batch.events_n;) {
            if (e < batch.events_n && events[e].at <= b) {
                const struct cofi_flow_event *event = &events[e++];
                if (event->kind == COFI_FLOW_GAP)
                    at += (size_t)sprintf(text + at, "[gap %lx] ", (unsigned long)event->ip);
                else if (event->kind == COFI_FLOW_OVERFLOW || event->kind == COFI_FLOW_DISABLED)
                    at += (size_t)sprintf(text + at, "[%s] ", cofi_flow_event_name(event->kind));
                continue;
            }
            for (uint32_t i = 0; i < blocks[b]->n; i++)
                at += (size_t)sprintf(text + at, "%lx ", (unsigned long)blocks[b]->insns[i].ip);
            b++;
        }
    cofi_flow_close(flow);
    return text;
}

#endif
