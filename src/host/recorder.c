/* SPDX-License-Identifier: MIT
 * What a host tells -> a trace unit per thread -> a recording, raw streams. */
#include <cofi/host.h>
#include <cofi/unit.h>

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "base/map.h"
#include "base/sized.h"
#include "host/changes.h"
#include "host/regions.h"
#include "host/where.h"
#include "packet/full_time.h"

/* The file is made complete every so many events: for a stepping host, every second or two. */
enum {
    MSR_PT_CTL = 0x570, MSR_RTIT_CTL = 0x768, CTL_ADDR0_CFG_LSB = 32, FLUSH_EVENTS = 1 << 17, FLUSH_BYTES = 16 << 20
};

struct field {
    char name[40];
    uint64_t value;
};

/* One thread's. */
struct stream {
    struct cofi_recorder *recorder;
    struct cofi_task task;
    struct cofi_unit *unit;
    uint64_t tsc;      /* of the last event that had one */
    uint64_t reference; /* when the unit gave bytes last: those to come are younger */
    uint64_t bytes;    /* of its trace */
    int raw;           /* file, -1: none */
    size_t place;      /* in where.processes: whose ranges the unit has, if they are known ahead */
    size_t changes;    /* of the recorder's that came before its last return from the kernel */
    struct cofi__regions *regions; /* null: bytes come as they are made */
};

struct cofi_recorder {
    struct cofi_observer observer;
    bool match_command;      /* CR3_MATCH is the first process's CR3 */
    uint64_t cr3;            /* that one, 0: not known yet */
    struct cofi_unit_config unit;
    struct cofi__regions_plan plan; /* n 0: no ToPA */
    struct cofi__where where;
    bool ahead;              /* where has the whole run */
    uint8_t ratio;           /* of the host's clock when a thread begins, 0: not told */
    char *model, *raw;
    struct cofi__map raw_files; /* (a thread's number, 0) -> how many raw files it has */
    struct cofi_time_conv time;
    bool leaps, machine;
    bool timeless;           /* the trace tells no full time: a piece begins behind each change of code */
    struct cofi__changes changes;
    unsigned wants;          /* see cofi_unit_wants */
    struct field *fields;
    size_t fields_n;
    struct cofi_writer *writer;
    struct stream **streams; /* by task.index; null: ended. A unit holds its stream's address. */
    size_t streams_n;
    struct cofi_recorder_stats stats;
    uint64_t flushed;        /* stats.bytes when the file was complete last */
    uint64_t events;         /* since then */
    int status;
    struct cofi_error error;
};

/* ---- fields ---- */

static const struct field pt_defaults[] = {
    {"os", 0},     {"user", 1},     {"branch_en", 1}, {"tsc_en", 1},
    {"mtc_en", 1}, {"mtc_freq", 3}, {"cyc_en", 1},
};
/* Filter event 7 is "always", TraceStop event 6 "never" [RTIT Table 7]. */
static const struct field rtit_defaults[] = {
    {"os", 0}, {"user", 1}, {"dest", 1}, {"sts_en", 1}, {"mtc_en", 1}, {"cmprs_ret", 1},
    {"filter_event_id", 7}, {"tracestop_event_id", 6},
};
/* For clocks that leap: a step takes longer than many periods of those above. */
static const struct field pt_leaps[] = {{"mtc_freq", 12}};
static const struct field rtit_leaps[] = {{"mtc_range", 3}};
static const struct field machine_defaults[] = {{"os", 1}};
static const struct field pt_enables[] = {{"trace_en", 1}};
static const struct field rtit_enables[] = {{"trace_en", 1}, {"trace_active", 1}};
static const struct field pt_disables[] = {{"trace_en", 0}};
static const struct field rtit_disables[] = {{"trace_active", 0}, {"trace_en", 0}};

static int set_fields(struct cofi_unit *unit, const struct field *fields, size_t n,
                      const struct field **bad)
{
    for (size_t i = 0; i < n; i++) {
        *bad = &fields[i];
        COFI_TRY(cofi_unit_set_field(unit, fields[i].name, fields[i].value));
    }
    return 0;
}

static int enable(const struct cofi_recorder *recorder, struct cofi_unit *unit, bool on)
{
    const struct field *bad;
    if (recorder->unit.gen == COFI_PT)
        return set_fields(unit, on ? pt_enables : pt_disables, 1, &bad);
    return set_fields(unit, on ? rtit_enables : rtit_disables, 2, &bad);
}

static int configure(const struct cofi_recorder *recorder, struct cofi_unit *unit,
                     const struct field **bad)
{
    bool pt = recorder->unit.gen == COFI_PT;
    if (pt)
        COFI_TRY(set_fields(unit, pt_defaults, ARRAY_LEN(pt_defaults), bad));
    else
        COFI_TRY(set_fields(unit, rtit_defaults, ARRAY_LEN(rtit_defaults), bad));
    if (recorder->leaps)
        COFI_TRY(set_fields(unit, pt ? pt_leaps : rtit_leaps, 1, bad));
    if (recorder->machine)
        COFI_TRY(set_fields(unit, machine_defaults, 1, bad));
    COFI_TRY(cofi__where_load(&recorder->where, 0, UINT64_MAX, unit));
    return set_fields(unit, recorder->fields, recorder->fields_n, bad);
}

/* "e1+e5": errata of [RTIT Appendix E]. */
static int parse_errata(struct cofi_recorder *recorder, const char *text, size_t n)
{
    for (size_t i = 0; i + 1 < n; i += 3) {
        if (text[i] != 'e' || text[i + 1] < '1' || text[i + 1] > '8' || (i + 2 < n && text[i + 2] != '+'))
            return COFI_ERR_SYNTAX;
        recorder->unit.errata |= COFI_ERRATUM_RTIT_E1 << (text[i + 1] - '1');
    }
    return n % 3 == 2 && recorder->unit.gen == COFI_RTIT ? 1 : COFI_ERR_SYNTAX;
}

/* Settings that are no register's field. 1: it was one; 0: none. */
static int parse_setting(struct cofi_recorder *recorder, const struct field *field, const char *text, size_t n)
{
    const struct { const char *name; uint32_t *at; } numbers[] = {
        {"buffer_bytes", &recorder->unit.buffer_bytes}, {"drain_bytes", &recorder->unit.drain_bytes},
        {"drain_cycles", &recorder->unit.drain_cycles}};
    if (!strcmp(field->name, "errata"))
        return parse_errata(recorder, text, n);
    if (!strcmp(field->name, "cr3_match") && n == 7 && !memcmp(text, "command", n))
        return recorder->match_command = true;
    for (size_t i = 0; i < ARRAY_LEN(numbers); i++)
        if (!strcmp(field->name, numbers[i].name)) {
            char *end;
            unsigned long value = strtoul(text, &end, 0);
            *numbers[i].at = (uint32_t)value;
            return end == text + n && n && value <= 1 << 24 ? 1 : COFI_ERR_SYNTAX;
        }
    return 0;
}

/* "NAME=VALUE,…"; a NAME alone is 1. */
static int parse_fields(struct cofi_recorder *recorder, const char *text, struct cofi_error *error)
{
    for (const char *p = text; p && *p;) {
        size_t n = strcspn(p, ","), name = strcspn(p, "=,");
        struct field field = {.value = 1};
        if (!name || name >= sizeof field.name)
            return cofi__fail(error, COFI_ERR_SYNTAX, (uint64_t)(p - text),
                              "'%.*s' is no NAME=VALUE", (int)n, p);
        memcpy(field.name, p, name);
        size_t value = name + (p[name] == '=');
        int setting = parse_setting(recorder, &field, p + value, n - value);
        if (setting < 0)
            return cofi__fail(error, setting, (uint64_t)(p - text), "'%.*s': bad value", (int)n, p);
        if (setting) {
            p += n + (p[n] == ',');
            continue;
        }
        if (p[name] == '=') {
            char *end;
            errno = 0;
            field.value = strtoull(p + name + 1, &end, 0);
            if (end == p + name + 1 || end != p + n || errno)
                return cofi__fail(error, COFI_ERR_SYNTAX, (uint64_t)(p - text),
                                  "'%.*s': the value is no number", (int)n, p);
        }
        struct field *grown = realloc(recorder->fields, (recorder->fields_n + 1) * sizeof *grown);
        if (!grown)
            return cofi__fail(error, COFI_ERR_NOMEM, COFI_NOWHERE, "out of memory");
        recorder->fields = grown;
        grown[recorder->fields_n++] = field;
        p += n + (p[n] == ',');
    }
    return 0;
}

static int refuse_field(const struct field *bad, int status, enum cofi_gen gen,
                        struct cofi_error *error)
{
    const char *unit = gen == COFI_PT ? "PT" : "RTIT";
    if (status == COFI_ERR_NOT_FOUND)
        return cofi__fail(error, status, COFI_NOWHERE,
                          "the %s unit has no field '%s'; 'cofi caps%s --registers' lists them", unit, bad->name,
                          gen == COFI_PT ? "" : " --unit=rtit");
    return cofi__fail(error, status, COFI_NOWHERE, "the %s unit refuses %s=%llu: %s", unit,
                      bad->name, (unsigned long long)bad->value, cofi_error_text(status));
}

static uint64_t field_of(uint64_t ctl, unsigned lsb, unsigned width)
{
    return ctl >> lsb & ((1u << width) - 1);
}

/* What the recording says of its timing: from the control register as it will be
 * [SDM IA32_RTIT_CTL MSR], [RTIT Table 4]. */
static void describe(const struct cofi_recorder *recorder, uint64_t ctl,
                     struct cofi_recording_info *info)
{
    bool pt = recorder->unit.gen == COFI_PT;
    info->config = ctl;
    info->time.tsc = field_of(ctl, 10, 1);
    info->time.mtc = field_of(ctl, 9, 1);
    info->time.cyc = field_of(ctl, 1, 1);
    info->time.mtc_freq = (uint8_t)(pt ? field_of(ctl, 14, 4) : field_of(ctl, 14, 2));
}

static uint64_t get_field(const struct cofi_unit *unit, const char *name)
{
    uint64_t value = 0;
    cofi_unit_get_field(unit, name, &value);
    return value;
}

/* Addresses are as RTIT_LIPn compares them: 48 bits. */
static uint64_t sign_extend(uint64_t lip) { return lip >> 47 ? lip | UINT64_C(0xffff) << 48 : lip; }

/* The filters [RTIT 2.4.3], for the decoder; and errata come with a processor that has them. */
static void describe_rtit(const struct cofi_recorder *recorder, const struct cofi_unit *unit,
                          struct cofi_recording_info *info)
{
    static const char *const base[] = {"lip0", "lip1"}, *const limit[] = {"lip2", "lip3"};
    info->ranges_known = true;
    info->events = (uint32_t)(get_field(unit, "filter_event_id") | get_field(unit, "tracestop_event_id") << 3);
    info->cr3_match = get_field(unit, "cr3_match") << 5;
    for (size_t i = 0; i < 2; i++) {
        info->range_base[i] = sign_extend(get_field(unit, base[i]));
        info->range_limit[i] = sign_extend(get_field(unit, limit[i]));
    }
    if (recorder->unit.errata) { /* [RTIT 1.2] */
        info->family = 6;
        info->model = 0x37;
        info->stepping = 8;
    }
}

/* The ranges that were given as addresses, for who decodes and replays. */
static void describe_pt(const struct cofi_unit *unit, struct cofi_recording_info *info)
{
    static const char *const base[] = {"addr0_a", "addr1_a", "addr2_a", "addr3_a"};
    static const char *const limit[] = {"addr0_b", "addr1_b", "addr2_b", "addr3_b"};
    info->ranges_known = true;
    info->cr3_match = get_field(unit, "cr3_match") << 5;
    for (size_t i = 0; i < COFI_INFO_RANGES_MAX; i++) {
        info->range_base[i] = get_field(unit, base[i]);
        info->range_limit[i] = get_field(unit, limit[i]);
    }
}

/* Configure a unit as every thread's will be: refuses bad fields before anything runs. */
static int try_config(struct cofi_recorder *recorder, struct cofi_recording_info *info,
                      struct cofi_error *error)
{
    struct cofi_unit *unit;
    const struct field *bad = NULL;
    uint64_t ctl = 0;
    int status = cofi_unit_open(&unit, &recorder->unit);
    if (status < 0)
        return cofi__fail(error, status, COFI_NOWHERE, "the unit cannot be made: %s",
                          cofi_error_text(status));
    status = configure(recorder, unit, &bad);
    if (status < 0)
        refuse_field(bad, status, recorder->unit.gen, error);
    else if ((status = enable(recorder, unit, true)) < 0)
        cofi__fail(error, status, COFI_NOWHERE, "the unit refuses this combination of fields");
    cofi_unit_rdmsr(unit, recorder->unit.gen == COFI_PT ? MSR_PT_CTL : MSR_RTIT_CTL, &ctl);
    recorder->wants = cofi_unit_wants(unit);
    if (recorder->unit.gen == COFI_RTIT)
        describe_rtit(recorder, unit, info);
    else if (!recorder->where.filters)
        describe_pt(unit, info);
    cofi_unit_close(unit);
    if (status >= 0 && (ctl & 4) && !recorder->machine)
        return cofi__fail(error, COFI_ERR_UNSUPPORTED, COFI_NOWHERE,
                          "os=1: this host does not see the kernel, only user code can be traced; what the unit would "
                          "make of both, 'cofi sim' shows");
    describe(recorder, ctl, info);
    recorder->timeless = cofi__tells_no_full_time(recorder->unit.gen, ctl);
    return status;
}

/* ---- streams ---- */

static int keep(struct cofi_recorder *recorder, int status, const char *what)
{
    if (status < 0 && !recorder->status) {
        recorder->status = status;
        cofi__fail(&recorder->error, status, COFI_NOWHERE, "%s: %s", what,
                   status == COFI_ERR_IO ? strerror(errno) : cofi_error_text(status));
    }
    return status;
}

static int write_raw(int fd, const uint8_t *bytes, size_t n)
{
    int error = cofi__write_all(fd, bytes, n);
    if (error)
        errno = -error;
    return error ? COFI_ERR_IO : 0;
}

/* A unit's bytes. A refusal would make it say "overflow"; ours ends the recording instead. */
static int take_bytes(void *opaque, const uint8_t *bytes, size_t n)
{
    struct stream *stream = opaque;
    struct cofi_recorder *recorder = stream->recorder;
    recorder->stats.bytes += n;
    stream->bytes += n;
    if (stream->raw >= 0)
        keep(recorder, write_raw(stream->raw, bytes, n), recorder->raw);
    if (recorder->writer && !recorder->status) {
        int status = cofi_writer_trace(recorder->writer, stream->task.pid, stream->task.tid, bytes,
                                       n, stream->reference);
        keep(recorder, status, "the recording");
    }
    stream->reference = stream->tsc;
    return 0;
}

/* A number that is used again is another thread's. */
static int name_raw(struct cofi_recorder *recorder, const struct cofi_task *task, char path[PATH_MAX])
{
    if (!task->index) {
        snprintf(path, PATH_MAX, "%s", recorder->raw);
        return 0;
    }
    const uint32_t *files = cofi__map_get(&recorder->raw_files, (uint64_t)task->tid, 0);
    uint32_t n = files ? *files + 1 : 1;
    if (n == 1)
        snprintf(path, PATH_MAX, "%s.%d", recorder->raw, (int)task->tid);
    else
        snprintf(path, PATH_MAX, "%s.%d.%u", recorder->raw, (int)task->tid, n);
    return cofi__map_put(&recorder->raw_files, (uint64_t)task->tid, 0, n);
}

static int open_raw(struct cofi_recorder *recorder, struct stream *stream)
{
    char path[PATH_MAX];
    stream->raw = -1;
    if (!recorder->raw)
        return 0;
    COFI_TRY(name_raw(recorder, &stream->task, path));
    stream->raw = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    return stream->raw < 0 ? keep(recorder, COFI_ERR_IO, path) : 0;
}

static struct stream *stream_of(struct cofi_recorder *recorder, const struct cofi_task *task)
{
    return task->index < recorder->streams_n ? recorder->streams[task->index] : NULL;
}

/* Up to when what a process maps counts: to the end of what is known, or what it has before its next exec. */
static uint64_t where_ns(const struct cofi_recorder *recorder, const struct stream *stream)
{
    return recorder->ahead ? cofi_time_ns(&recorder->time, stream->tsc) : UINT64_MAX;
}

static struct stream *add_stream(struct cofi_recorder *recorder, const struct cofi_task *task)
{
    if (task->index >= recorder->streams_n) {
        size_t n = 2 * (size_t)task->index + 16;
        struct stream **grown = realloc(recorder->streams, n * sizeof *grown);
        if (!grown)
            return NULL;
        memset(grown + recorder->streams_n, 0, (n - recorder->streams_n) * sizeof *grown);
        recorder->streams = grown;
        recorder->streams_n = n;
    }
    return recorder->streams[task->index] = calloc(1, sizeof(struct stream));
}

/* Time and ratio, before the first packets tell them. */
static void tell_clock(const struct cofi_recorder *recorder, struct cofi_unit *unit, const struct cofi_event *clock)
{
    struct cofi_event ratio = *clock;
    ratio.kind = COFI_EV_FREQ;
    ratio.value = ratio.size = recorder->ratio;
    cofi_unit_event(unit, clock);
    if (recorder->ratio)
        cofi_unit_event(unit, &ratio);
}

static int load_ranges(const struct cofi_recorder *recorder, struct stream *stream)
{
    uint64_t ns = where_ns(recorder, stream);
    stream->place = cofi__where_find(&recorder->where, stream->task.pid, ns);
    return cofi__where_load(&recorder->where, stream->task.pid, ns, stream->unit);
}

static int begin_stream(struct cofi_recorder *recorder, const struct cofi_task *task,
                        const struct cofi_context *context, const struct cofi_event *clock)
{
    const struct field *bad;
    struct stream *stream = add_stream(recorder, task);
    if (!stream)
        return COFI_ERR_NOMEM;
    *stream = (struct stream){.recorder = recorder, .task = *task, .tsc = clock->tsc,
                               .reference = clock->tsc};
    COFI_TRY(open_raw(recorder, stream));
    struct cofi_unit_config config = recorder->unit;
    config.sink = (struct cofi_sink){take_bytes, stream};
    if (recorder->plan.n && !(stream->regions = cofi__regions_open(&recorder->plan, config.sink)))
        return COFI_ERR_NOMEM;
    if (stream->regions)
        cofi__regions_configure(stream->regions, &config);
    COFI_TRY(keep(recorder, cofi_unit_open(&stream->unit, &config), "the unit"));
    recorder->stats.streams++;
    cofi_unit_context(stream->unit, context, clock->ip);
    COFI_TRY(configure(recorder, stream->unit, &bad));
    COFI_TRY(load_ranges(recorder, stream));
    if (stream->regions)
        COFI_TRY(keep(recorder, cofi__regions_program(stream->regions, stream->unit), "ToPA"));
    if (!recorder->cr3)
        recorder->cr3 = context->cr3;
    if (recorder->match_command)
        COFI_TRY(keep(recorder, cofi_unit_set_field(stream->unit, "cr3_match", recorder->cr3 >> 5), "cr3_match"));
    tell_clock(recorder, stream->unit, clock);
    return enable(recorder, stream->unit, true);
}

static int begin(void *opaque, const struct cofi_task *task, const struct cofi_context *context,
                 const struct cofi_event *clock)
{
    struct cofi_recorder *recorder = opaque;
    keep(recorder, begin_stream(recorder, task, context, clock), "a thread's trace unit");
    return recorder->status;
}

static void drain(struct stream *stream)
{
    cofi_unit_drain(stream->unit);
    if (stream->regions)
        cofi__regions_read(stream->regions);
}

/* If we are killed now, what the file has so far can be read. */
static void flush(struct cofi_recorder *recorder)
{
    recorder->events = 0;
    for (size_t i = 0; i < recorder->streams_n; i++)
        if (recorder->streams[i] && recorder->streams[i]->unit)
            drain(recorder->streams[i]);
    recorder->flushed = recorder->stats.bytes;
    if (recorder->writer && !recorder->status)
        keep(recorder, cofi_writer_flush(recorder->writer), "the recording");
}

/* As the kernel does: off, program, on. */
static int move_ranges(const struct cofi_recorder *recorder, struct stream *stream)
{
    COFI_TRY(enable(recorder, stream->unit, false));
    COFI_TRY(load_ranges(recorder, stream));
    return enable(recorder, stream->unit, true);
}

/* Back from the kernel: from an exec, perhaps. */
static int follow_ranges(const struct cofi_recorder *recorder, struct stream *stream)
{
    size_t place = cofi__where_find(&recorder->where, stream->task.pid, where_ns(recorder, stream));
    return place == stream->place ? 0 : move_ranges(recorder, stream);
}

/* Back from the kernel. If code of the process has changed meanwhile, what comes is a piece of its own:
 * packets do not tell its time, so the recording does. */
static void part_from_before(struct cofi_recorder *recorder, struct stream *stream)
{
    uint64_t ns = cofi_time_ns(&recorder->time, stream->tsc);
    /* a circle is one piece, read at the end */
    if (recorder->plan.wrap || !cofi__changes_until(&recorder->changes, &stream->changes, stream->task.pid, ns))
        return;
    drain(stream);
    if (recorder->writer && !recorder->status)
        keep(recorder, cofi_writer_idle(recorder->writer, stream->task.tid), "the recording");
    stream->reference = stream->tsc;
}

static int event(void *opaque, const struct cofi_task *task, const struct cofi_event *event)
{
    struct cofi_recorder *recorder = opaque;
    struct stream *stream = stream_of(recorder, task);
    if (!stream || !stream->unit)
        return recorder->status;
    if (event->kind == COFI_EV_CLOCK || event->kind == COFI_EV_WAKE)
        stream->tsc = event->tsc;
    if (event->kind == COFI_EV_WAKE && recorder->timeless)
        part_from_before(recorder, stream);
    if (event->kind == COFI_EV_WAKE && recorder->ahead)
        keep(recorder, follow_ranges(recorder, stream), "filters");
    cofi_unit_event(stream->unit, event);
    if (++recorder->events > FLUSH_EVENTS ||
        recorder->stats.bytes - recorder->flushed > FLUSH_BYTES)
        flush(recorder);
    return recorder->status;
}

/* The trace ends with the buffer full: no packet will tell that [RTIT 4.2.5], the sideband does. */
static void mark_overflow(const struct stream *stream)
{
    struct cofi_recorder *recorder = stream->recorder;
    struct cofi_sideband mark = {.kind = COFI_SB_AUX, .cpu = UINT32_MAX, .pid = stream->task.pid,
                                 .tid = stream->task.tid, .aux_offset = stream->bytes, .aux_flags = 1,
                                 .time_ns = cofi_time_ns(&recorder->time, stream->tsc)};
    if (recorder->writer && !recorder->status)
        keep(recorder, cofi_writer_sideband(recorder->writer, &mark), "the recording");
}

static int end(void *opaque, const struct cofi_task *task)
{
    struct cofi_recorder *recorder = opaque;
    struct stream *stream = stream_of(recorder, task);
    if (!stream)
        return recorder->status;
    if (stream->unit) {
        enable(recorder, stream->unit, false);
        drain(stream);
        if (stream->regions)
            keep(recorder, cofi__regions_end(stream->regions), "ToPA");
        if (recorder->unit.gen == COFI_RTIT && get_field(stream->unit, "buffer_overflow"))
            mark_overflow(stream);
        if (recorder->writer && !recorder->status)
            keep(recorder, cofi_writer_end(recorder->writer, task->tid), "the recording");
        cofi_unit_close(stream->unit);
    }
    if (stream->raw >= 0 && close(stream->raw))
        keep(recorder, COFI_ERR_IO, recorder->raw);
    recorder->streams[task->index] = NULL;
    cofi__regions_close(stream->regions);
    free(stream);
    return recorder->status;
}

/* Threads that the host left open. */
static void end_all(struct cofi_recorder *recorder)
{
    for (size_t i = 0; i < recorder->streams_n; i++)
        if (recorder->streams[i])
            end(recorder, &recorder->streams[i]->task);
}

/* A process's filters lie elsewhere now. */
static int move_filters(struct cofi_recorder *recorder, int32_t pid)
{
    for (size_t i = 0; i < recorder->streams_n; i++) {
        struct stream *stream = recorder->streams[i];
        if (!stream || !stream->unit || stream->task.pid != pid)
            continue;
        COFI_TRY(move_ranges(recorder, stream));
    }
    return 0;
}

static int sideband(void *opaque, const struct cofi_sideband *sideband)
{
    struct cofi_recorder *recorder = opaque;
    int moved = recorder->ahead ? 0 : cofi__where_note(&recorder->where, sideband);
    if (moved > 0)
        moved = move_filters(recorder, sideband->pid);
    keep(recorder, moved, "filters");
    if (recorder->timeless)
        keep(recorder, cofi__changes_note(&recorder->changes, sideband), "changes of code");
    if (recorder->writer && !recorder->status)
        keep(recorder, cofi_writer_sideband(recorder->writer, sideband), "the recording");
    return recorder->status;
}

/* ---- life ---- */

static void release(struct cofi_recorder *recorder)
{
    end_all(recorder);
    free(recorder->streams);
    cofi__where_fini(&recorder->where);
    cofi__changes_fini(&recorder->changes);
    free(recorder->fields);
    free(recorder->model);
    free(recorder->raw);
    cofi__map_free(&recorder->raw_files);
    free(recorder);
}

enum { STAGED = 4096, FILTER_TEXT = 4096 * 2 }; /* most that an unbuffered unit writes at once */

static int take_topa(struct cofi_recorder *recorder, const char *text, struct cofi_error *error)
{
    uint32_t burst = recorder->unit.buffer_bytes ? recorder->unit.buffer_bytes : STAGED;
    if (recorder->unit.gen != COFI_PT)
        return cofi__fail(error, COFI_ERR_UNSUPPORTED, COFI_NOWHERE, "ToPA is Intel PT's; RTIT has none");
    int status = cofi__regions_parse(&recorder->plan, text, burst);
    if (status == COFI_ERR_RANGE)
        return cofi__fail(error, status, COFI_NOWHERE,
                          "'%s': beside the largest region there must be room for %u bytes; add regions or 'wrap'",
                          text, burst);
    return status < 0 ? cofi__fail(error, status, COFI_NOWHERE,
                                   "'%s' is no list of region sizes (4K, 8K, ... 128M; at most %d), 'wrap' behind it",
                                   text, COFI__REGIONS_MAX)
                      : 0;
}

static int take_filters(struct cofi_recorder *recorder, const struct cofi_filters *filters, struct cofi_error *error)
{
    if (recorder->unit.gen != COFI_PT)
        return cofi__fail(error, COFI_ERR_UNSUPPORTED, COFI_NOWHERE,
                          "RTIT's ranges are addresses, that do not follow a file: give them as the fields "
                          "filter_event_id=0,lip0=START,lip2=END");
    if (cofi__where_check(filters) < 0)
        return cofi__fail(error, COFI_ERR_UNSUPPORTED, COFI_NOWHERE,
                          "here the filters are PT's address ranges: at most %d, filter and tracestop only",
                          COFI__WHERE_RANGES);
    recorder->where.filters = filters;
    return 0;
}

/* Ranges that were given as addresses, as perf wants them: places in the program's file, where it is linked to fixed
 * addresses. Elsewhere perf cannot know them. */
static void filters_of_ranges(const struct cofi_recording_info *info, const char *program, struct cofi_filters *filters)
{
    for (size_t i = 0; program && i < COFI_INFO_RANGES_MAX; i++) {
        unsigned cfg = (unsigned)(info->config >> (CTL_ADDR0_CFG_LSB + 4 * i) & 15);
        if (cfg && cofi_filters_add(filters, cfg == 1 ? COFI_FILTER_RANGE : COFI_FILTER_TRACESTOP, info->range_base[i],
                                    info->range_limit[i] - info->range_base[i] + 1, program) < 0) {
            cofi_filters_fini(filters);
            return;
        }
    }
}

static int open_writer(struct cofi_recorder *recorder, const struct cofi_recorder_options *options,
                       struct cofi_recording_info *info, struct cofi_error *error)
{
    struct cofi_filters fixed = {0};
    char *text = malloc(FILTER_TEXT);
    if (!text)
        return cofi__fail(error, COFI_ERR_NOMEM, COFI_NOWHERE, "out of memory");
    if (!options->filters && info->gen == COFI_PT)
        filters_of_ranges(info, options->program, &fixed);
    const struct cofi_filters *filters = options->filters ? options->filters : &fixed;
    if (filters->n && cofi_filters_text(filters, text, FILTER_TEXT) < FILTER_TEXT)
        info->filter = text;
    int status = cofi_writer_open(&recorder->writer, options->path, info, error);
    cofi_filters_fini(&fixed);
    free(text);
    return status;
}

static int prepare(struct cofi_recorder *recorder, const struct cofi_recorder_options *options,
                   struct cofi_error *error)
{
    struct cofi_recording_info info = {.size = sizeof info,
                                       .gen = options->gen,
                                       .time = options->time,
                                       .command = options->command};
    COFI_TRY(parse_fields(recorder, options->fields, error));
    if (options->topa)
        COFI_TRY(take_topa(recorder, options->topa, error));
    if (options->filters)
        COFI_TRY(take_filters(recorder, options->filters, error));
    COFI_TRY(try_config(recorder, &info, error));
    info.snapshot = recorder->plan.wrap;
    info.per_cpu = recorder->machine;
    return options->path ? open_writer(recorder, options, &info, error) : 0;
}

int cofi_recorder_open(struct cofi_recorder **out, const struct cofi_recorder_options *given,
                       struct cofi_error *error)
{
    struct cofi_recorder_options all, *options = &all;
    COFI_TRY(cofi__sized(&all, sizeof all, given, offsetof(struct cofi_recorder_options, model), error));
    if (options->gen != COFI_PT && options->gen != COFI_RTIT)
        return cofi__fail(error, COFI_ERR_RANGE, COFI_NOWHERE, "gen is neither PT nor RTIT");
    struct cofi_recorder *recorder = calloc(1, sizeof *recorder);
    if (!recorder)
        return cofi__fail(error, COFI_ERR_NOMEM, COFI_NOWHERE, "out of memory");
    recorder->observer = (struct cofi_observer){.opaque = recorder, .begin = begin, .event = event,
                                                .sideband = sideband, .end = end};
    recorder->model = options->model ? strdup(options->model) : NULL;
    recorder->raw = options->raw ? strdup(options->raw) : NULL;
    recorder->leaps = options->leaps;
    recorder->machine = options->machine;
    recorder->time = options->time.conv;
    recorder->ratio = options->time.nominal_ratio;
    recorder->unit = (struct cofi_unit_config){.size = sizeof recorder->unit, .gen = options->gen,
                                               .model = recorder->model,
                                               .tsc_art_num = options->time.tsc_num,
                                               .tsc_art_den = options->time.tsc_den,
                                               .mtc_burst = 1}; /* the clock leaps between steps */
    int status = prepare(recorder, options, error);
    if (status < 0) {
        release(recorder);
        return status;
    }
    *out = recorder;
    return 0;
}

int cofi_recorder_ahead(struct cofi_recorder *recorder, const struct cofi_sideband *sideband)
{
    recorder->ahead = true;
    int moved = cofi__where_note(&recorder->where, sideband);
    return moved < 0 ? moved : 0;
}

unsigned cofi_recorder_wants(const struct cofi_recorder *recorder) { return recorder->wants; }

const struct cofi_observer *cofi_recorder_observer(struct cofi_recorder *recorder)
{
    return &recorder->observer;
}

static int finish(struct cofi_recorder *recorder, int (*finish_writer)(struct cofi_writer *, struct cofi_error *),
                  struct cofi_recorder_stats *stats, struct cofi_error *error)
{
    if (!recorder)
        return 0;
    end_all(recorder);
    int status = recorder->status;
    if (error)
        *error = recorder->error;
    struct cofi_error closing = {0};
    int closed = finish_writer(recorder->writer, &closing);
    if (closed < 0) { /* the writer knows better what happened */
        status = closed;
        if (error)
            *error = closing;
    }
    if (stats)
        *stats = recorder->stats;
    release(recorder);
    return status;
}

int cofi_recorder_close(struct cofi_recorder *recorder, struct cofi_recorder_stats *stats,
                        struct cofi_error *error)
{
    return finish(recorder, cofi_writer_close, stats, error);
}

int cofi_recorder_discard(struct cofi_recorder *recorder, struct cofi_error *error)
{
    return finish(recorder, cofi_writer_discard, NULL, error);
}
