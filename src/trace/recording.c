/* SPDX-License-Identifier: MIT
 * A perf.data -> its streams, sideband and address spaces. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/sized.h"
#include "image/image.h"
#include "trace/perf_data.h"
#include "trace/reader.h"

void cofi__warn(struct cofi_recording *recording, const char *format, ...)
{
    char text[256];
    va_list args;
    if (recording->warnings.n >= WARNINGS_MAX)
        return;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    char *copy = cofi__keep_string(&recording->keep, (const uint8_t *)text, strlen(text));
    char **row = copy ? cofi__vector_push(&recording->warnings) : NULL;
    if (row)
        *row = copy;
}

/* Merge sort, because order among equal times must stay, and qsort does not promise that. */
static bool sort_by_time(struct cofi_sideband *rows, size_t n)
{
    size_t sorted = 1;
    while (sorted < n && rows[sorted - 1].time_ns <= rows[sorted].time_ns)
        sorted++;
    if (sorted >= n)
        return true;
    struct cofi_sideband *from = rows, *to = malloc(n * sizeof *rows), *spare = to;
    if (!to)
        return false;
    for (size_t width = 1; width < n; width *= 2) {
        for (size_t start = 0; start < n; start += 2 * width) {
            size_t middle = n - start < width ? n : start + width, end = n - start < 2 * width ? n : start + 2 * width;
            for (size_t i = start, j = middle, k = start; k < end; k++)
                to[k] = j >= end || (i < middle && from[i].time_ns <= from[j].time_ns) ? from[i++] : from[j++];
        }
        struct cofi_sideband *swap = from;
        from = to;
        to = swap;
    }
    if (from != rows)
        memcpy(rows, from, n * sizeof *rows);
    free(spare);
    return true;
}

static struct cofi_recording *make(void)
{
    struct cofi_recording *recording = calloc(1, sizeof *recording);
    if (!recording)
        return NULL;
    recording->info.size = sizeof recording->info;
    recording->info.gen = COFI_PT;
    recording->warnings = (struct cofi__vector)COFI__VECTOR_OF(char *);
    recording->attrs = (struct cofi__vector)COFI__VECTOR_OF(struct cofi__event_attr);
    recording->guest_ids = (struct cofi__vector)COFI__VECTOR_OF(struct cofi__guest_id);
    recording->vcpus = (struct cofi__vector)COFI__VECTOR_OF(struct cofi__vcpu);
    recording->machines = (struct cofi__vector)COFI__VECTOR_OF(struct cofi__machine *);
    recording->sideband = (struct cofi__vector)COFI__VECTOR_OF(struct cofi_sideband);
    recording->streams = (struct cofi__vector)COFI__VECTOR_OF(struct cofi__in_stream);
    recording->build_ids = (struct cofi__vector)COFI__VECTOR_OF(struct cofi__build_id_row);
    recording->comms = (struct cofi__vector)COFI__VECTOR_OF(struct cofi__comm);
    recording->ksymbols = (struct cofi__vector)COFI__VECTOR_OF(struct cofi__ksymbol);
    recording->bpf = (struct cofi__vector)COFI__VECTOR_OF(struct cofi__bpf);
    recording->processors = (struct cofi__vector)COFI__VECTOR_OF(struct cofi__processor);
    recording->processes = (struct cofi__vector)COFI__VECTOR_OF(struct cofi__process);
    return recording;
}

/* What the recorder itself says is missing. */
static void warn_of_losses(struct cofi_recording *recording)
{
    const struct cofi_sideband *rows = recording->sideband.items;
    uint64_t lost = 0, full = 0, partial = 0, pieces = 0;
    for (size_t i = 0; i < recording->sideband.n; i++) {
        lost += rows[i].kind == COFI_SB_LOST ? rows[i].len : 0;
        if (rows[i].kind != COFI_SB_AUX)
            continue;
        /* Linux before 6.13 says that none came where all of the buffer was lost; of RTIT: see ends_in_overflow */
        full += rows[i].aux_flags & AUX_TRUNCATED && (rows[i].aux_size || recording->info.gen == COFI_PT);
        partial += (rows[i].aux_flags & AUX_PARTIAL) != 0;
        pieces++;
    }
    if (lost)
        cofi__warn(recording, "the recorder lost %llu sideband records: mappings or switches may be missing "
                   "(a larger buffer helps: perf record -m)", (unsigned long long)lost);
    if (recording->lost_samples)
        cofi__warn(recording, "the recorder lost %llu samples, and with them trace or switches "
                   "(a larger buffer helps: perf record -m)", (unsigned long long)recording->lost_samples);
    if (full)
        cofi__warn(recording, "the trace buffer was full %llu times, and tracing stopped there for a while "
                   "(a larger one helps: perf record -m ,64M)", (unsigned long long)full);
    if (partial) /* of Intel PT this is the only reason [linux: pt_config_start] */
        cofi__warn(
            recording,
            "%llu of %llu pieces of the trace have gaps: this processor does not trace while virtual machines (KVM) use it",
            (unsigned long long)partial, (unsigned long long)pieces);
}

/* Whether there was no memory for something: what was read is not what the file has. */
static bool lacks_memory(const struct cofi_recording *r)
{
    const struct cofi__vector *const read[] = {&r->warnings, &r->attrs,      &r->guest_ids, &r->vcpus,     &r->sideband,
                                               &r->streams,  &r->build_ids,  &r->comms,     &r->processes, &r->ksymbols,
                                               &r->bpf,      &r->processors, &r->machines};
    bool lacks = r->nomem || r->keep.failed;
    for (size_t i = 0; i < sizeof read / sizeof *read; i++)
        lacks |= read[i]->failed;
    return lacks;
}

static int no_trace(const struct cofi_recording *recording, uint64_t start, struct cofi_error *error)
{
    if (lacks_memory(recording))
        return cofi__fail(error, COFI_ERR_NOMEM, COFI_NOWHERE, "%s", cofi_error_text(COFI_ERR_NOMEM));
    if (recording->other_trace)
        return cofi__fail(error, COFI_ERR_BAD_FORMAT, start,
                          "a perf.data with a trace of %s, which is neither Intel PT nor RTIT", recording->other_trace);
    return cofi__fail(error, COFI_ERR_BAD_FORMAT, start, "a perf.data without a trace of Intel PT or RTIT: record with "
                      "cofi record, or perf record -e intel_pt//");
}

static int read_all(struct cofi_recording *recording, struct cofi_error *error)
{
    uint64_t start, end;
    bool unclosed;
    COFI_TRY(cofi__read_header(recording, &start, &end, &unclosed, error));
    cofi__read_records(recording, start, end, unclosed);
    for (size_t i = 0; i < recording->in.n_parts; i++) {
        cofi__inflate_close(recording->inflate); /* each file is compressed by itself */
        recording->inflate = NULL;
        cofi__read_records(recording, recording->in.parts[i].start, recording->in.parts[i].end, unclosed);
    }
    if (!recording->has_info && (!recording->streams.n || recording->other_trace))
        return no_trace(recording, start, error);
    cofi__find_codes(recording);
    cofi__finish_streams(recording);
    warn_of_losses(recording);
    bool sorted = sort_by_time(recording->sideband.items, recording->sideband.n);
    int status = sorted && !lacks_memory(recording) ? cofi__build_processes(recording) : COFI_ERR_NOMEM;
    if (status >= 0)
        status = cofi__build_processors(recording);
    if (status >= 0)
        status = cofi__build_guests(recording);
    if (lacks_memory(recording))
        status = COFI_ERR_NOMEM;
    return status < 0 ? cofi__fail(error, status, COFI_NOWHERE, "%s", cofi_error_text(status)) : 0;
}

int cofi_recording_open(struct cofi_recording **recording, const char *path, struct cofi_error *error)
{
    return cofi_recording_open_with(recording, path, NULL, error);
}

int cofi_recording_open_with(struct cofi_recording **recording, const char *path,
                             const struct cofi_recording_options *options, struct cofi_error *error)
{
    struct cofi_recording_options own = {.size = sizeof own};
    if (options)
        COFI_TRY(cofi__sized(&own, sizeof own, options, offsetof(struct cofi_recording_options, symfs), error));
    struct cofi_recording *made = make();
    if (!made)
        return cofi__fail(error, COFI_ERR_NOMEM, COFI_NOWHERE, "out of memory");
    made->options = own;
    made->symfs = own.symfs ? cofi__keep_string(&made->keep, (const uint8_t *)own.symfs, strlen(own.symfs)) : NULL;
    made->nomem = own.symfs && !made->symfs;
    int status = cofi__input_open(&made->in, path, error);
    if (status >= 0 && made->in.damage)
        cofi__damage(made, "compressed data at %#llx of the file: %s: the rest of them is left out",
                     (unsigned long long)made->in.damage_at, made->in.damage);
    if (status >= 0)
        status = read_all(made, error);
    made->options = (struct cofi_recording_options){0};
    if (status < 0) {
        cofi_recording_close(made);
        return status;
    }
    *recording = made;
    return 0;
}

void cofi_recording_close(struct cofi_recording *recording)
{
    if (!recording)
        return;
    struct cofi__in_stream *streams = recording->streams.items;
    for (size_t i = 0; i < recording->streams.n; i++) {
        free(streams[i].pieces.items);
        free(streams[i].bounds.items);
        free(streams[i].breaks.items);
    }
    struct cofi__process *processes = recording->processes.items;
    for (size_t i = 0; i < recording->processes.n; i++)
        cofi_image_close(processes[i].image);
    cofi__processors_free(recording);
    cofi__guests_free(recording);
    for (size_t i = 0; i < recording->machines.n; i++) {
        struct cofi__machine *machine = ((struct cofi__machine **)recording->machines.items)[i];
        cofi_image_close(machine->kernel);
        free(machine->proc_modules);
        cofi__modules_free(machine->modules);
    }
    cofi__store_unref(recording->store);
    free(recording->warnings.items);
    free(recording->attrs.items);
    cofi__map_free(&recording->rows);
    free(recording->guest_ids.items);
    free(recording->machines.items);
    cofi__map_free(&recording->codes);
    free(recording->sideband.items);
    free(recording->streams.items);
    free(recording->build_ids.items);
    free(recording->comms.items);
    free(recording->ksymbols.items);
    free(recording->bpf.items);
    free(recording->processes.items);
    cofi__inflate_close(recording->inflate);
    cofi__keep_free(&recording->keep);
    cofi__input_close(&recording->in);
    free(recording);
}

const struct cofi_recording_info *cofi_recording_info(const struct cofi_recording *recording)
{
    return &recording->info;
}

bool cofi_recording_damaged(const struct cofi_recording *recording, uint64_t *missing_bytes)
{
    if (missing_bytes)
        *missing_bytes = recording->missing;
    return recording->damaged;
}

const char *cofi_recording_warning(const struct cofi_recording *recording, size_t i)
{
    return i < recording->warnings.n ? ((char **)recording->warnings.items)[i] : NULL;
}

size_t cofi_recording_streams(const struct cofi_recording *recording)
{
    return recording->streams.n;
}

const struct cofi_recording_stream *cofi_recording_stream(const struct cofi_recording *recording, size_t i)
{
    const struct cofi__in_stream *streams = recording->streams.items;
    return i < recording->streams.n ? &streams[i].public : NULL;
}

const struct cofi_sideband *cofi_recording_sideband(const struct cofi_recording *recording, size_t i)
{
    const struct cofi_sideband *rows = recording->sideband.items;
    return i < recording->sideband.n ? &rows[i] : NULL;
}
