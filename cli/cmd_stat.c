/* SPDX-License-Identifier: MIT
 * cofi stat: a recording -> sizes, packet counts, bits an instruction, time span, gaps. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cofi/cofi.h>

#include "cli.h"
#include "session.h"
#include "writer.h"

struct stat_options {
    struct session_options session;
    bool no_flow;
};

struct kind_count {
    uint64_t packets, bytes;
};

/* Bytes from the start of the last PSB on, and of the last packet. */
struct psb_count {
    uint64_t bytes, last_size;
};

struct stream_stat {
    uint64_t bytes, skipped; /* of the stream; that are no packet */
    struct kind_count kinds[COFI_PKT_KINDS];
    struct cofi_flow_stats flow;
    uint64_t first_ns, last_ns;
    bool timed;
    struct psb_count since_psb;
    uint64_t late_psbs;
};

static const char usage[] =
    "usage: cofi stat [options] [FILE]    default FILE: cofi.data\n"
    "       cofi stat [options] -- COMMAND...    record that first, as cofi record does\n\n"
    "Print what a recording holds: for each thread sizes, packets of each kind, bits an instruction, time, gaps.\n\n"
    SESSION_OUTPUT_HELP
    "      --no-flow           packets only; do not decode the instructions\n" SESSION_THREADS_HELP SESSION_HELP;

static const struct option long_options[] = {
    SESSION_LONG_OPTIONS, SESSION_OUTPUT, SESSION_THREADS,
    {"no-flow", no_argument, 0, 'n'},
    {0},
};

static int take(void *opaque, int letter, const char *argument)
{
    (void)argument;
    ((struct stat_options *)opaque)->no_flow |= letter == 'n';
    return 0;
}

static int parse(struct stat_options *options, int argc, char **argv)
{
    const struct session_command command = {.name = "stat", .usage = usage, .options = long_options, .take = take,
                                            .opaque = options, .records = true, .writes = true, .letters = "hi:o:"};
    *options = (struct stat_options){0};
    return session_parse(&command, &options->session, argc, argv);
}

/* ---- counting ---- */

enum { RTIT_PACKET_MAX = 10 }; /* 6 bytes of address, 3 of cycle count */

/* [ERR E3]: Pkt_Cnt had reached the bit of some Pkt_Mask before the last packet already, and the PSB came behind
 * that one. A PSB for another reason is rarely so near to such a bit. */
static bool is_late_psb(const struct psb_count *count)
{
    for (unsigned bit = 14; bit >= 11; bit--) {
        uint64_t over = count->bytes - (UINT64_C(1) << bit);
        if (count->bytes >> bit)
            return over >= count->last_size && over < 2 * RTIT_PACKET_MAX;
    }
    return false;
}

static void count_psb(struct stream_stat *stat, const struct cofi_stream_item *item)
{
    struct psb_count *count = &stat->since_psb;
    if (item->packet.kind == COFI_RTIT_PSB) {
        stat->late_psbs += is_late_psb(count);
        count->bytes = 0;
    }
    count->bytes += item->size;
    count->last_size = item->size;
}

/* The packets of a stream, piece after piece. */
struct packet_count {
    struct cofi_stream reader;
    struct stream_stat *stat;
};

static void count_begin(struct packet_count *count, const struct session_stream *stream, struct stream_stat *stat)
{
    enum cofi_gen gen = session_gen(stream->session);
    cofi_stream_init(&count->reader, gen, 0, session_synced(stream));
    count->reader.context.cyc = session_cyc(stream);
    count->reader.context.lenient = gen == COFI_PT; /* as the flow reads them */
    session_processor(stream->session, &count->reader.family, &count->reader.model);
    count->stat = stat;
    session_breaks(stream, &count->reader.breaks, &count->reader.breaks_n);
}

static void count_items(struct packet_count *count)
{
    struct stream_stat *stat = count->stat;
    struct cofi_stream_item item;
    while (cofi_stream_next(&count->reader, &item)) {
        if (item.status < 0) {
            stat->skipped += item.size;
            continue;
        }
        stat->kinds[item.packet.kind].packets++;
        stat->kinds[item.packet.kind].bytes += item.size;
        count_psb(stat, &item);
    }
}

static void count_piece(void *opaque, const uint8_t *bytes, size_t n)
{
    struct packet_count *count = opaque;
    cofi_stream_feed(&count->reader, bytes, n);
    count_items(count);
}

static void count_end(struct packet_count *count)
{
    cofi_stream_finish(&count->reader);
    count_items(count);
}

static void count_pieces(struct packet_count *count, struct session_stream *stream)
{
    const uint8_t *bytes;
    size_t n;
    for (uint64_t at = 0; (bytes = session_bytes(stream, at, &n)) && n; at += n) {
        session_unneeded(stream, at);
        count_piece(count, bytes, n);
    }
    stream->kept = 0;
}

static int count_event(void *opaque, struct cofi_flow *flow, const struct cofi_flow_event *event)
{
    struct stream_stat *stat = opaque;
    (void)flow;
    if (!event->time.known || !event->time.ns) /* no clock, or none that gives nanoseconds */
        return 0;
    if (!stat->timed)
        stat->first_ns = event->time.ns;
    stat->last_ns = event->time.ns;
    stat->timed = true;
    return 0;
}

static void flow_end(void *opaque, struct cofi_flow *flow)
{
    cofi_flow_stats(flow, &((struct stream_stat *)opaque)->flow);
}

static int count_flow(struct session_stream *stream, struct stream_stat *stat)
{
    /* which counts blocks */
    return session_walk(stream, &(struct session_visitor){.event = count_event, .end = flow_end, .opaque = stat});
}

/* A pipe's packets are counted while the flow reads them, and behind its end. */
static int count_stream(struct session_stream *stream, struct stream_stat *stat, bool with_flow)
{
    struct packet_count packets;
    bool piped = stream->bytes == UINT64_MAX;
    count_begin(&packets, stream, stat);
    stream->tap = count_piece;
    stream->tap_opaque = &packets;
    if (!piped)
        count_pieces(&packets, stream);
    int status = with_flow ? count_flow(stream, stat) : 0;
    if (status >= 0)
        status = session_drain(stream);
    count_end(&packets);
    stat->bytes = stream->bytes;
    return status;
}

static void add(struct stream_stat *sum, const struct stream_stat *more)
{
    sum->bytes += more->bytes;
    sum->skipped += more->skipped;
    sum->late_psbs += more->late_psbs;
    for (size_t i = 0; i < COFI_PKT_KINDS; i++) {
        sum->kinds[i].packets += more->kinds[i].packets;
        sum->kinds[i].bytes += more->kinds[i].bytes;
    }
    sum->flow.bytes += more->flow.bytes; /* what was decoded: all, or from --from to --to */
    sum->flow.insns += more->flow.insns;
    sum->flow.blocks += more->flow.blocks;
    sum->flow.gaps += more->flow.gaps;
    sum->flow.overflows += more->flow.overflows;
    sum->flow.tnt_bits += more->flow.tnt_bits;
    sum->flow.tips += more->flow.tips;
    sum->flow.lost_bytes += more->flow.lost_bytes;
}

/* ---- printing ---- */

static double ratio(uint64_t a, uint64_t b) { return b ? (double)a / (double)b : 0; }

static void print_summary(struct writer *out, const struct stat_options *options, const char *what,
                          const struct stream_stat *stat)
{
    write_format(out, "%s: %" PRIu64 " bytes", what, stat->bytes);
    if (!options->no_flow) {
        uint64_t decisions = stat->flow.tnt_bits + stat->flow.tips;
        write_format(out, ", %" PRIu64 " instructions in %" PRIu64 " blocks, %.3f bits an instruction, %.2f bits a "
               "branch decision, %" PRIu64 " gaps, %" PRIu64 " overflows", stat->flow.insns, stat->flow.blocks,
               8 * ratio(stat->flow.bytes, stat->flow.insns), 8 * ratio(stat->flow.bytes, decisions), stat->flow.gaps,
               stat->flow.overflows);
    }
    if (stat->timed)
        write_format(out, ", %.9f to %.9f s", (double)stat->first_ns / 1e9, (double)stat->last_ns / 1e9);
    if (stat->skipped)
        write_format(out, ", %" PRIu64 " bytes are no packets", stat->skipped);
    if (stat->late_psbs)
        write_format(out, ", %" PRIu64 " PSBs one packet late [ERR E3]", stat->late_psbs);
    write_format(out, "\n");
}

static void print_kinds(struct writer *out, const struct stream_stat *stat)
{
    write_format(out, "  %-10s %12s %12s %7s\n", "packet", "count", "bytes", "share");
    char share[PERCENT_BYTES];
    for (size_t i = 0; i < COFI_PKT_KINDS; i++)
        if (stat->kinds[i].packets)
            write_format(out, "  %-10s %12" PRIu64 " %12" PRIu64 " %7s\n", cofi_packet_name((enum cofi_packet_kind)i),
                   stat->kinds[i].packets, stat->kinds[i].bytes, percent(stat->kinds[i].bytes, stat->bytes, share));
}

static void print_json(struct writer *out, const struct session_stream *stream, const struct stream_stat *stat)
{
    write_format(out,
                 "{\"v\":1,\"tid\":%d,\"pid\":%d,\"bytes\":%" PRIu64 ",\"skipped\":%" PRIu64
                 ",\"instructions\":%" PRIu64 ",\"blocks\":%" PRIu64 ",\"tnt_bits\":%" PRIu64 ",\"tips\":%" PRIu64
                 ",\"gaps\":%" PRIu64 ",\"overflows\":%" PRIu64 ",\"lost_bytes\":%" PRIu64 ",\"late_psbs\":%" PRIu64
                 ",\"first_ns\":%" PRIu64 ",\"last_ns\":%" PRIu64 ",\"packets\":{",
                 stream->tid, stream->pid, stat->bytes, stat->skipped, stat->flow.insns, stat->flow.blocks,
                 stat->flow.tnt_bits, stat->flow.tips, stat->flow.gaps, stat->flow.overflows, stat->flow.lost_bytes,
                 stat->late_psbs, stat->first_ns, stat->last_ns);
    const char *comma = "";
    for (size_t i = 0; i < COFI_PKT_KINDS; i++) {
        if (!stat->kinds[i].packets)
            continue;
        write_format(out, "%s\"%s\":{\"count\":%" PRIu64 ",\"bytes\":%" PRIu64 "}", comma,
               cofi_packet_name((enum cofi_packet_kind)i), stat->kinds[i].packets, stat->kinds[i].bytes);
        comma = ",";
    }
    write_format(out, "}}\n");
}

static void print_recording(const struct session *session)
{
    const struct cofi_recording *recording = session_recording(session);
    if (!recording)
        return;
    const struct cofi_recording_info *info = cofi_recording_info(recording);
    char command[8192];
    printf("%s, %s register %#" PRIx64, info->gen == COFI_PT ? "Intel PT" : "RTIT",
           info->gen == COFI_PT ? "IA32_RTIT_CTL" : "RTIT_CTL", info->config);
    if (info->family)
        printf(", processor %u/%u/%u", info->family, info->model, info->stepping);
    if (info->command)
        printf(", recorded: %s", in_a_line(info->command, command, sizeof command));
    if (info->snapshot)
        printf(", snapshot: only the newest bytes were kept");
    putchar('\n');
}

struct stat_job {
    struct session *session;
    const struct stat_options *options;
    struct stream_stat *stats; /* one a stream */
};

static void print_stream(const struct stat_options *options, const struct session_stream *stream,
                         const struct stream_stat *stat, struct writer *out)
{
    char what[128];
    if (options->session.json) {
        print_json(out, stream, stat);
        return;
    }
    if (stream->turns)
        snprintf(what, sizeof what, "processor %d", stream->cpu);
    else
        session_title(stream, what, sizeof what);
    print_summary(out, options, what, stat);
    print_kinds(out, stat);
}

static int write_stream(void *opaque, size_t i, struct writer *out)
{
    struct stat_job *job = opaque;
    struct stream_stat *stat = &job->stats[i];
    struct session_stream stream;
    session_stream(job->session, i, &stream);
    int status = count_stream(&stream, stat, !job->options->no_flow);
    if (status >= 0)
        print_stream(job->options, &stream, stat, out);
    return status;
}

static int stat_streams(struct session *session, const struct stat_options *options, struct stream_stat *all)
{
    size_t n = session_streams(session);
    struct stat_job job = {session, options, calloc(n + 1, sizeof *job.stats)};
    if (!job.stats) {
        complain("stat: %s", cofi_error_text(COFI_ERR_NOMEM));
        return EXIT_ENVIRONMENT;
    }
    fflush(stdout);
    int status = session_write_each(session, write_stream, &job);
    for (size_t i = 0; i < n; i++)
        add(all, &job.stats[i]);
    free(job.stats);
    return status;
}

struct stat_all {
    const struct stat_options *options;
    const struct stream_stat *sum;
};

static int write_all(void *opaque, struct writer *out)
{
    const struct stat_all *all = opaque;
    print_summary(out, all->options, "all", all->sum);
    return 0;
}

int cmd_stat(int argc, char **argv)
{
    static struct stream_stat all;
    struct stat_options options;
    struct session *session;
    int status = parse(&options, argc, argv);
    if (status != EXIT_DONE)
        return status < 0 ? EXIT_DONE : status;
    options.session.once = true;
    status = session_open(&session, &options.session);
    if (status != EXIT_DONE)
        return status;
    if (!options.session.json)
        print_recording(session);
    status = stat_streams(session, &options, &all);
    if (!status && !options.session.json && session_streams(session) > 1)
        status = writer_run("stat", write_all, &(struct stat_all){&options, &all});
    status = session_status(session, status > 0 ? status : all.skipped || all.flow.gaps ? EXIT_DATA : EXIT_DONE);
    session_close(session);
    return status;
}
