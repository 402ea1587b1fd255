/* SPDX-License-Identifier: MIT
 * A stream -> its bytes, and a flow over them as the options want it. */
#include "session_inside.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "cli.h"
#include "raw_mode.h"

/* Smaller streams are not worth threads of their own. */
enum { SPLIT_LEAST = 1 << 17 };

/* So much of a stream's file is in memory at a time. */
enum { WINDOW = 16 << 20 };

const uint8_t *session_bytes(const struct session_stream *stream, uint64_t offset, size_t *n)
{
    const struct session *session = stream->session;
    const uint8_t *bytes;
    if (session->recording) {
        bytes = cofi_recording_bytes(session->recording, stream->index, offset, n);
    } else {
        *n = offset < session->raw.n ? session->raw.n - (size_t)offset : 0;
        bytes = session_raw_bytes(session) + (session->raw.n - *n);
    }
    if (*n > WINDOW)
        *n = WINDOW;
    return bytes;
}

const uint8_t *session_raw(const struct session *session, size_t *n)
{
    *n = session->raw.n;
    return session_raw_bytes(session);
}

void session_unneeded(struct session_stream *stream, uint64_t offset)
{
    struct session *session = stream->session;
    if (session->recording && offset > stream->kept)
        cofi_recording_unneeded(session->recording, stream->index, stream->kept, offset - stream->kept);
    else if (offset > stream->kept)
        file_unneeded(&session->raw, (size_t)stream->kept, (size_t)offset);
    stream->kept = offset;
}

bool session_cyc(const struct session_stream *stream)
{
    struct session *session = stream->session;
    size_t n;
    if (session->info.gen != COFI_RTIT)
        return false;
    uint64_t ctl;
    if (session->recording)
        return session->info.time.cyc;
    if (registers_get(&session->options.registers, RTIT_CTL, &ctl))
        return ctl >> 1 & 1;
    const uint8_t *bytes = session->pipe.fd >= 0 ? pipe_peek(&session->pipe, COFI_GUESS_BYTES, &n)
                                                 : session_bytes(stream, 0, &n);
    return cofi_stream_guess_cyc(bytes, n, NULL);
}

bool session_synced(const struct session_stream *stream)
{
    struct session *session = stream->session;
    size_t n;
    if (session->recording || session->info.gen != COFI_PT || session->options.from_psb)
        return false;
    const uint8_t *bytes = session_beginning(session, &n);
    return cofi_stream_guess_synced(bytes, n);
}

/* 0: nothing tells it, or the PSB does with which the bytes begin. */
static unsigned begins_in_mode(struct session *session)
{
    size_t n;
    const uint8_t *bytes = session_beginning(session, &n);
    return n >= PSB_BYTES && !cofi_sync_forward(COFI_PT, bytes, PSB_BYTES, 0) ? 0 : cofi_stream_guess_mode(bytes, n);
}

/* What neither a packet tells soon nor an ELF file is tried; a pipe of PT, which tells it, is not waited for. */
static unsigned mode_by_trial(struct session *session, const struct cofi_flow_config *config)
{
    size_t n = session->raw.n < RAW_MODE_BYTES ? session->raw.n : RAW_MODE_BYTES;
    bool pipe = session->pipe.fd >= 0, pt = config->gen == COFI_PT;
    if (config->mode || session->elf || !session->options.image_n || (pipe && pt))
        return config->mode;
    const uint8_t *bytes = session->tried ? NULL
                           : pipe         ? pipe_peek(&session->pipe, RAW_MODE_BYTES, &n)
                                          : session_raw_bytes(session);
    if (bytes && !(pt && cofi_stream_guess_mode(bytes, n)))
        session->tried = raw_mode_try(config, bytes, n, session->options.command, session->options.raw);
    return session->tried;
}

static const uint8_t *pull(void *opaque, size_t *n)
{
    struct session_stream *stream = opaque;
    const uint8_t *bytes = session_bytes(stream, stream->position, n);
    uint64_t behind = stream->position > WINDOW ? stream->position - WINDOW : 0; /* threads are not so far yet */
    session_unneeded(stream, *n ? behind : stream->position);
    stream->position += *n;
    return bytes;
}

static const uint8_t *pull_pipe(void *opaque, size_t *n)
{
    struct session_stream *stream = opaque;
    struct session *session = stream->session;
    const uint8_t *bytes = pipe_next(&session->pipe, n);
    if (session->pipe.error && !session->pipe_failed)
        complain("%s: %s: %s", session->options.command, session->options.raw, strerror(session->pipe.error));
    session->pipe_failed = session->pipe.error;
    if (stream->tap)
        stream->tap(stream->tap_opaque, bytes, *n);
    return bytes;
}

int session_ended(const struct session_stream *stream) { return stream->session->pipe_failed ? COFI_ERR_IO : 0; }

int session_drain(struct session_stream *stream)
{
    struct session *session = stream->session;
    size_t n = 1;
    if (session->pipe.fd < 0)
        return 0;
    while (n)
        pull_pipe(stream, &n);
    stream->bytes = session->pipe.taken;
    return session_ended(stream);
}

uint64_t session_psb(const struct session_stream *stream, uint64_t offset, bool forward)
{
    const struct session *session = stream->session;
    if (session->recording)
        return cofi_recording_psb(session->recording, stream->index, offset, forward);
    if (offset >= session->raw.n)
        return UINT64_MAX;
    return forward
               ? cofi_sync_forward(session->info.gen, session_raw_bytes(session), session->raw.n, (size_t)offset)
               : cofi_sync_backward(session->info.gen, session_raw_bytes(session), session->raw.n, (size_t)offset + 1);
}

static _Atomic bool *none_of(const struct session_stream *stream)
{
    return &stream->session->starts[stream->order].none;
}

/* Nothing is shown of a stream: there is no PSB where --from begins. */
static void tell_none(const struct session_stream *stream)
{
    char title[256];
    if (!atomic_exchange(none_of(stream), true))
        complain("%s: %s: no PSB where --from begins: nothing of it is shown", stream->session->options.command,
                 session_title(stream, title, sizeof title));
}

void session_none(const struct session_stream *stream) { *none_of(stream) = true; }

/* --from, or what comes before it; 0: none, or it is a time. */
static uint64_t from_offset(const struct session_stream *stream)
{
    return stream->start ? stream->start : stream->session->options.from_offset;
}

uint64_t session_seek(const struct session_stream *stream, uint64_t from_ns)
{
    const struct session *session = stream->session;
    const struct cofi_time_conv *conv = &session->info.time.conv;
    return from_ns && conv->mult
               ? cofi_recording_seek(session->recording, stream->index, cofi_time_ticks(conv, from_ns))
               : 0;
}

/* Where --from begins in a stream of pieces. */
static uint64_t start_of(const struct session_stream *stream)
{
    uint64_t psb;
    if (from_offset(stream))
        psb = session_psb(stream, from_offset(stream), true);
    else
        psb = session_seek(stream, stream->session->options.from_ns);
    if (psb == UINT64_MAX)
        tell_none(stream);
    return psb == UINT64_MAX ? stream->bytes : psb;
}

/* Where reading begins, so that the time is known at a PSB; RTIT's tells none. */
static uint64_t before_start(const struct session_stream *stream, uint64_t psb)
{
    enum { BACK = 64 << 20 };
    if (stream->session->info.gen != COFI_RTIT || !psb)
        return psb;
    uint64_t before = psb > BACK ? session_psb(stream, psb - BACK, false) : 0;
    return before == UINT64_MAX ? 0 : before;
}

/* The stream's bytes: at once if they lie in one piece of no more than a window, else by pull. */
static void set_bytes(struct session_stream *stream, struct cofi_flow_config *config)
{
    const struct session *session = stream->session;
    if (session->pipe.fd >= 0) {
        config->pull = pull_pipe;
        config->opaque = stream;
        return;
    }
    size_t n = session->raw.n;
    const uint8_t *bytes = session->recording ? cofi_recording_bytes(session->recording, stream->index, 0, &n) :
                                                session_raw_bytes(session);
    if (n == stream->bytes && n <= WINDOW) {
        config->bytes = bytes;
        config->n = n;
    } else {
        config->pull = pull;
        config->n = stream->bytes;
        config->pull_stays = true;
        config->opaque = stream;
        config->start = start_of(stream);
        config->offset = stream->position = before_start(stream, config->start);
    }
}

static int seek(struct session_stream *stream, struct cofi_flow *flow)
{
    const struct session *session = stream->session;
    const struct cofi_time_conv *conv = session_time_conv(session);
    if (from_offset(stream))
        return cofi_flow_seek(flow, from_offset(stream));
    uint64_t ticks = conv->mult && session->options.from_ns ? cofi_time_ticks(conv, session->options.from_ns) : 0;
    return ticks ? cofi_flow_seek_time(flow, ticks - 1) : 0; /* what runs up to a PSB is shown when its time is known */
}

/* In a guest no code of the host is shown. */
static const struct cofi_image *space(void *opaque, uint64_t cr3, uint64_t vmcs, bool non_root)
{
    struct session_stream *stream = opaque;
    (void)cr3;
    (void)vmcs;
    return non_root ? cofi_recording_guest_image(stream->session->recording, stream->index) :
                      cofi_recording_stream_image(stream->session->recording, stream->index);
}

/* What only a recording tells. */
static void describe_recorded(struct session_stream *stream, struct cofi_flow_config *config)
{
    const struct session *session = stream->session;
    const struct cofi_recording_info *info = &session->info;
    const struct cofi_recording_stream *recorded = cofi_recording_stream(session->recording, stream->index);
    config->ctl_known = true;
    config->ctl = info->config;
    config->ranges_known = info->ranges_known;
    config->events = info->events;
    memcpy(config->range_base, info->range_base, sizeof info->range_base);
    memcpy(config->range_limit, info->range_limit, sizeof info->range_limit);
    config->ends_in_overflow = recorded->ends_in_overflow;
    config->reference_tsc = recorded->reference_tsc;
    session_breaks(stream, &config->breaks, &config->breaks_n);
    config->image = cofi_recording_stream_image(session->recording, stream->index);
    config->space = info->gen == COFI_PT ? space : NULL;
    config->opaque = stream;
}

/* What the recording tells of the time besides the trace. Without it decoding goes on by the trace alone. */
static void set_bounds(struct session_stream *stream, struct cofi_flow_config *config)
{
    struct cofi_recording *recording = stream->session->recording;
    int status = cofi_recording_bounds(recording, stream->index, &config->bounds, &config->bounds_n);
    if (status < 0)
        complain("%s: times of switches: %s", stream->session->options.command, cofi_error_text(status));
}

/* --to, as a flow takes it: 0 is none, and nothing that could be shown lies between 0 and 1. */
static uint64_t pause_at(uint64_t to) { return to == UINT64_MAX ? 0 : to ? to : 1; }

/* Everything but where --from begins in a stream that is in memory. */
static void configure(struct session_stream *stream, bool want_time, struct cofi_flow_config *config)
{
    struct session *session = stream->session;
    const struct cofi_recording_info *info = &session->info;
    cofi_flow_config_init(config, info->gen);
    session_processor(session, &config->family, &config->model);
    config->stepping = session->options.family ? session->options.stepping : info->stepping;
    config->time = info->time;
    config->want_time = want_time;
    config->image = session->image;
    config->pause_offset = pause_at(session->options.to_offset);
    config->pause_ns = pause_at(session->options.to_ns);
    if (session->recording) {
        describe_recorded(stream, config);
        set_bounds(stream, config);
    } else {
        config->time.cyc = session_cyc(stream);
        config->synced = session_synced(stream);
        registers_apply(&session->options.registers, config);
        config->mode = session->options.mode ? session->options.mode : config->synced ? begins_in_mode(session) : 0;
        config->mode = mode_by_trial(session, config);
    }
    set_bytes(stream, config);
}

int session_flow(struct session_stream *stream, bool want_time, struct cofi_flow **flow)
{
    const char *command = stream->session->options.command;
    struct cofi_flow_config config;
    configure(stream, want_time, &config);
    int status = cofi_flow_open(flow, &config);
    if (status < 0) {
        complain("%s: %s", command, cofi_error_text(status));
        return status;
    }
    status = seek(stream, *flow);
    if (status == COFI_ERR_UNSUPPORTED)
        return 0; /* pieces: decoded from the start, and shown from --from on */
    if (status == COFI_ERR_NO_SYNC) {
        tell_none(stream);
        return cofi_flow_bytes(*flow, NULL, 0);
    }
    if (status < 0) {
        complain("%s: --from: %s", command, cofi_error_text(status));
        cofi_flow_close(*flow);
    }
    return status;
}

/* A stream in memory begins where --from says. */
static int begin_from(struct session_stream *stream, struct cofi_flow_config *config)
{
    const struct session_options *options = &stream->session->options;
    struct cofi_flow *flow;
    if (config->pull || !(from_offset(stream) || options->from_ns))
        return 0;
    int status = session_flow(stream, false, &flow);
    if (status < 0)
        return status;
    uint64_t from = *none_of(stream) ? config->n : cofi_flow_offset(flow);
    cofi_flow_close(flow);
    config->bytes += from;
    config->n -= (size_t)from;
    config->offset = from;
    return 0;
}

/* What a stream may take of --threads: there are as many streams at a time. */
static unsigned threads_of(const struct session_stream *stream)
{
    const struct session *session = stream->session;
    unsigned streams = session->selected_n < session->options.threads ? (unsigned)session->selected_n
                                                                      : session->options.threads;
    return streams && stream->bytes >= SPLIT_LEAST ? session->options.threads / streams : 1;
}

int session_split(struct session_stream *stream, const struct session_visitor *visitor, cofi_flow_visit visit,
                  void *opaque)
{
    const struct session_options *options = &stream->session->options;
    struct cofi_flow_config config;
    bool whole = options->to_offset == UINT64_MAX && options->to_ns == UINT64_MAX;
    unsigned threads = threads_of(stream);
    if (threads < 2 || !whole)
        return SESSION_WHOLE;
    configure(stream, visitor->time || (visitor->trim && session_by_time(stream->session)), &config);
    config.no_blocks = !visitor->blocks;
    int status = begin_from(stream, &config);
    return status < 0 ? status : cofi_flow_parallel(&config, threads, 0, visit, opaque, NULL);
}

static int cover_alone(struct session_stream *stream, struct cofi_coverage *coverage, struct cofi_flow_stats *stats)
{
    struct cofi_flow *flow;
    int status = session_flow(stream, false, &flow);
    if (status < 0)
        return status;
    status = cofi_coverage_flow(coverage, flow);
    cofi_flow_stats(flow, stats);
    cofi_flow_close(flow);
    return status;
}

int session_cover(struct session_stream *stream, struct cofi_coverage *coverage, struct cofi_flow_stats *stats)
{
    struct cofi_flow_config config;
    unsigned threads = threads_of(stream);
    if (threads < 2)
        return cover_alone(stream, coverage, stats);
    configure(stream, false, &config);
    int status = begin_from(stream, &config);
    if (status < 0)
        return status;
    status = cofi_coverage_parallel(coverage, &config, threads, stats);
    if (status < 0 && status != COFI_ERR_NOMEM) /* which is said by who counts */
        complain("%s: %s", stream->session->options.command, cofi_error_text(status));
    return status;
}

bool session_by_time(const struct session *session)
{
    return session->info.time.conv.mult && (session->options.from_ns || session->options.to_ns != UINT64_MAX);
}

int session_side(const struct session *session, uint64_t ticks)
{
    uint64_t ns = cofi_time_ns(&session->info.time.conv, ticks);
    return ns < session->options.from_ns ? -1 : ns > session->options.to_ns;
}

bool session_past_end(const struct session *session, uint64_t offset, const struct cofi_flow_time *time)
{
    return offset > session->options.to_offset ||
           (time->known && time->ns > session->options.to_ns);
}

void session_place(const struct session_stream *stream, uint64_t offset, char *out, size_t n)
{
    const struct session *session = stream->session;
    if (session->recording) {
        uint64_t at = cofi_recording_file_offset(session->recording, stream->index, offset);
        if (at != UINT64_MAX) {
            snprintf(out, n, "%s+0x%" PRIx64 " (%s %d+0x%" PRIx64 ")", session->options.file, at,
                     stream->turns ? "processor" : "thread", stream->turns ? stream->cpu : stream->tid, offset);
            return;
        }
    }
    snprintf(out, n, "%s+0x%" PRIx64, session->options.raw ? session->options.raw : session->options.file,
             offset);
}

void session_gap(struct cofi_flow *flow, const struct cofi_flow_event *gap, char *out, size_t n)
{
    struct cofi_code code;
    struct cofi_view *view = cofi_flow_view(flow);
    const char *why = "";
    if (gap->cause == COFI_ERR_NO_CODE && gap->ip != COFI_NO_IP && cofi_view_find(view, gap->ip, &code) < 0)
        why = cofi_view_why(view);
    if (!strncmp(why, "nothing is mapped", 17)) /* which the error's text says */
        why = "";
    int length = snprintf(out, n, "%s", cofi_error_text(gap->cause));
    if (gap->ip != COFI_NO_IP)
        length += snprintf(out + length, n - (size_t)length, " at %016" PRIx64, gap->ip);
    if (!*why)
        why = gap->text ? gap->text : "";
    if (*why && (size_t)length < n)
        length += snprintf(out + length, n - (size_t)length, ": %s", why);
    if (gap->end != UINT64_MAX && (size_t)length < n)
        length += snprintf(out + length, n - (size_t)length, "; goes on at +0x%" PRIx64, gap->end);
    if (gap->a == 8 && (size_t)length < n)
        snprintf(out + length, n - (size_t)length, "; so soon behind a PSB this may be [ERR E8]");
}
