/* SPDX-License-Identifier: MIT
 * A stream's bytes -> a line of text (or a JSON object) a packet, as ptdump prints them. */
#include "dump.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <cofi/error.h>
#include <cofi/stream.h>
#include <cofi/trace.h>

#include "file.h"
#include "line.h"

/* Name and payload; what is tracked stands behind. */
enum { COLUMN_TRACKED = 37, COLUMN_TRACKED_RTIT = 45, COLUMN_BYTES = 66 };

/* What dumping a stream carries along. */
struct dump {
    const struct dump_options *options;
    const struct dump_source *source;
    enum cofi_gen gen;
    uint64_t last_ip, next_offset, end;
    struct cofi_clock *clock;  /* null: no time is asked for */
    struct cofi_flow_time now; /* behind the packet, */
    uint64_t shown;            /* and what was shown last: ticks */
    bool bad;
    bool odd_since_bbp; /* PT: for asm .bytes ends a block: BIPs behind it are no lines of text */
    struct line line;
};

/* ---- one packet ---- */

static const char *event_word(const struct cofi_packet *packet)
{
    static const char *const cfe[] = {
        0,        "intr",        "iret",     "smi", "rsm",   "sipi",  "init",   "vmentry",
        "vmexit", "vmexit-intr", "shutdown", 0,     "uintr", "uiret", "swintr", "syscall"};
    static const char *const evd[] = {"cr2", "vmxq", "vmxr"};
    if (packet->kind == COFI_PT_CFE)
        return packet->cfe.type < sizeof cfe / sizeof *cfe ? cfe[packet->cfe.type] : 0;
    return packet->evd.type < sizeof evd / sizeof *evd ? evd[packet->evd.type] : 0;
}

/* LastIP; whether the packet has an address. */
static bool track(struct dump *d, const struct cofi_packet *packet)
{
    enum cofi_packet_kind kind = (enum cofi_packet_kind)packet->kind;
    /* Not at RTIT's PSB: what is compressed after it refers to the last address sent [RTIT 3.3.9]. */
    if (kind == COFI_PT_PSB || kind == COFI_PT_OVF || kind == COFI_RTIT_BUFFOVF)
        d->last_ip = 0;
    return cofi_packet_traits(kind) & COFI_TRAIT_HAS_IP &&
           cofi_ip_expand(packet, d->last_ip, &d->last_ip);
}

/* The column that a packet's address or other state has behind its payload. */
static void print_tracked(struct dump *d, const struct cofi_packet *packet, size_t column,
                          bool has_ip)
{
    enum cofi_packet_kind kind = (enum cofi_packet_kind)packet->kind;
    const char *name = 0;
    uint64_t value = 0;
    if (cofi_packet_traits(kind) & COFI_TRAIT_HAS_IP && d->options->lastip)
        name = "ip   ", value = d->last_ip;
    else if (kind == COFI_PT_PIP || kind == COFI_RTIT_PIP)
        name = "cr3  ", value = packet->pip.cr3;
    else if (kind == COFI_PT_VMCS)
        name = "vmcs ", value = packet->vmcs.base;
    else if ((kind == COFI_PT_CFE || kind == COFI_PT_EVD) && event_word(packet))
        name = "type ";
    if (!name)
        return;
    line_column(&d->line, column);
    line_str(&d->line, name);
    if (*name == 't')
        line_str(&d->line, event_word(packet));
    else if (*name == 'i' && !has_ip)
        line_str(&d->line, "<suppressed>");
    else
        line_hex(&d->line, value, 16);
}

/* Nanoseconds are what a recording's clock has, ticks what ptdump shows. */
static void print_seconds(struct line *line, uint64_t ns)
{
    char text[32];
    snprintf(text, sizeof text, "%" PRIu64 ".%09" PRIu64, ns / 1000000000, ns % 1000000000);
    line_str(line, text);
}

static void print_since(struct dump *d)
{
    const struct cofi_time_conv *conv = &d->source->time.conv;
    line_str(&d->line, d->now.interpolated ? "~+" : "+");
    if (conv->mult)
        print_seconds(&d->line, d->now.ns - cofi_time_ns(conv, d->shown));
    else
        line_hex(&d->line, d->now.ticks - d->shown, 0);
}

/* When it is, behind packets that tell so, and those whose cycle counts do. */
static void print_time(struct dump *d, const struct cofi_packet *packet, size_t column)
{
    bool tells = cofi_packet_traits((enum cofi_packet_kind)packet->kind) & COFI_TRAIT_TIMING;
    if (!d->now.known || (!tells && d->now.ticks == d->shown))
        return;
    bool seconds = d->source->time.conv.mult, delta = d->options->time_delta && d->shown;
    line_column(&d->line, column);
    line_str(&d->line, seconds ? "time " : "tsc  ");
    if (delta)
        print_since(d);
    else if (d->now.interpolated)
        line_str(&d->line, "~");
    if (!delta && seconds)
        print_seconds(&d->line, d->now.ns);
    else if (!delta)
        line_hex(&d->line, d->now.ticks, 16);
    d->shown = d->now.ticks;
}

static bool hidden(const struct dump_options *o, const struct cofi_packet *packet)
{
    unsigned traits = cofi_packet_traits((enum cofi_packet_kind)packet->kind);
    return o->quiet || (o->no_pad && packet->kind == COFI_PT_PAD) ||
           (o->no_timing && traits & COFI_TRAIT_TIMING && !(traits & COFI_TRAIT_HAS_IP)) ||
           (o->no_cyc && packet->kind == COFI_PT_CYC);
}

static void print_offset(struct dump *d, uint64_t offset)
{
    if (d->options->no_offset)
        return;
    line_hex(&d->line, offset, 16);
    line_put(&d->line, "  ", 2);
}

static void print_text(struct dump *d, const struct cofi_stream_item *item, bool has_ip)
{
    bool rtit = cofi_packet_gen((enum cofi_packet_kind)item->packet.kind) == COFI_RTIT;
    print_offset(d, item->offset);
    size_t begin = d->line.n;
    int n = cofi_packet_print(&item->packet, d->line.text + begin, COFI_PACKET_TEXT_MAX);
    d->line.n += (size_t)n;
    print_tracked(d, &item->packet, begin + (rtit ? COLUMN_TRACKED_RTIT : COLUMN_TRACKED), has_ip);
    print_time(d, &item->packet, begin + (rtit ? COLUMN_TRACKED_RTIT : COLUMN_TRACKED));
    if (d->options->bytes) {
        line_column(&d->line, begin + COLUMN_BYTES);
        line_put(&d->line, "; ", 2);
        line_bytes(&d->line, item->bytes, (size_t)item->size, " ");
    }
    line_end(&d->line);
}

static void print_json_head(struct dump *d, const struct cofi_stream_item *item)
{
    line_str(&d->line, "{\"v\":1,");
    if (d->source->tid >= 0) {
        line_str(&d->line, "\"tid\":");
        line_dec(&d->line, (uint64_t)d->source->tid);
        line_str(&d->line, ",");
    }
    line_str(&d->line, "\"offset\":");
    line_dec(&d->line, item->offset);
    line_str(&d->line, ",\"size\":");
    line_dec(&d->line, item->size);
}

static void print_json_time(struct dump *d)
{
    line_str(&d->line, ",\"ticks\":");
    line_dec(&d->line, d->now.ticks);
    line_str(&d->line, ",\"ns\":");
    line_dec(&d->line, d->now.ns);
    line_str(&d->line, d->now.interpolated ? ",\"interpolated\":true" : "");
}

/* why: the check that the packet fails, null if none. */
static void print_json(struct dump *d, const struct cofi_stream_item *item, bool has_ip, const char *why)
{
    char fields[512];
    cofi_packet_print_json(&item->packet, fields, sizeof fields);
    print_json_head(d, item);
    line_str(&d->line, ",\"bytes\":\"");
    line_bytes(&d->line, item->bytes, (size_t)item->size, "");
    line_str(&d->line, "\",\"packet\":");
    line_str(&d->line, fields);
    if (has_ip) {
        line_str(&d->line, ",\"ip\":\"");
        line_hex(&d->line, d->last_ip, 16);
        line_str(&d->line, "\"");
    }
    if (d->now.known)
        print_json_time(d);
    if (why) {
        line_str(&d->line, ",\"error\":\"");
        line_str(&d->line, why);
        line_str(&d->line, "\"");
    }
    line_str(&d->line, "}");
    line_end(&d->line);
}

/* ---- what is no packet ---- */

/* The source's bytes at an offset; *n: how many follow without a break. */
static const uint8_t *bytes_at(const struct dump_source *source, uint64_t offset, size_t *n)
{
    if (!source->file)
        return cofi_recording_bytes(source->recording, source->stream, offset, n);
    *n = offset < source->n ? (size_t)(source->n - offset) : 0;
    return source->file->bytes + offset;
}

/* So that memory does not grow with what was read. */
static void unneeded(const struct dump_source *source, uint64_t offset, uint64_t n)
{
    if (source->file)
        file_unneeded(source->file, (size_t)offset, (size_t)(offset + n));
    else
        cofi_recording_unneeded(source->recording, source->stream, offset, n);
}

/* The bytes that were skipped, so that the text still has every byte of the stream. */
static void print_skipped(struct dump *d, const struct cofi_stream_item *item)
{
    enum { PER_LINE = 32 };
    for (uint64_t i = 0; i < item->size;) {
        size_t n, left = item->size - i < PER_LINE ? (size_t)(item->size - i) : PER_LINE;
        const uint8_t *bytes = bytes_at(d->source, item->offset + i, &n);
        if (!n)
            break;
        n = n < left ? n : left;
        print_offset(d, item->offset + i);
        line_str(&d->line, ".bytes     ");
        line_bytes(&d->line, bytes, n, " ");
        line_end(&d->line);
        i += n;
    }
}

static void print_break(struct dump *d, const struct cofi_stream_item *item)
{
    print_offset(d, item->offset + item->size);
    line_str(&d->line, "# ");
    line_str(&d->line, item->why);
    line_end(&d->line);
}

static uint64_t file_offset(const struct dump *d, uint64_t offset)
{
    const struct dump_source *s = d->source;
    return s->file ? offset : cofi_recording_file_offset(s->recording, s->stream, offset);
}

/* A stream cut from a circular buffer begins anywhere: that is no damage, while a PSB follows. */
static void complain_skipped(struct dump *d, const struct cofi_stream_item *item)
{
    bool cut = item->status == COFI_ERR_NO_SYNC && item->offset + item->size < d->end;
    bool told = item->status == COFI_ERR_FULL; /* of all such places together, and in the text */
    const char *what = item->why ? item->why : cofi_error_text(item->status);
    FILE *talk = d->options->talk;
    d->bad |= !cut;
    if (!talk || told)
        return;
    fprintf(talk, "cofi dump: %s+0x%" PRIx64 ": ", d->options->path, file_offset(d, item->offset));
    if (cut)
        fprintf(talk, "%" PRIu64 " bytes before the first PSB skipped\n", item->size);
    else if (item->status == COFI_ERR_NO_SYNC)
        fprintf(talk, "%s; %" PRIu64 " bytes skipped (--no-sync reads from the first one on)\n", what, item->size);
    else if (item->size)
        fprintf(talk, "%s; %" PRIu64 " bytes skipped\n", what, item->size);
    else
        fprintf(talk, "%s\n", what);
}

static void skipped(struct dump *d, const struct cofi_stream_item *item)
{
    fflush(d->line.out);
    complain_skipped(d, item);
    if (d->options->json && !d->options->quiet) {
        print_json_head(d, item);
        line_str(&d->line, ",\"error\":\"");
        line_str(&d->line, item->why ? item->why : cofi_error_text(item->status));
        line_str(&d->line, "\"}");
        line_end(&d->line);
    } else if (!d->options->quiet) {
        print_skipped(d, item);
        if (item->status == COFI_ERR_FULL)
            print_break(d, item);
    }
}

/* Behind the last packet a trace may have a byte more, which is none (COFI_PT_END_MARK). */
static void end_mark(struct dump *d)
{
    struct cofi_stream_item rest = {.offset = d->next_offset, .size = d->end - d->next_offset};
    if (rest.size == 1 && !d->options->json && !d->options->quiet)
        print_skipped(d, &rest);
}

/* ---- a packet with reserved bits that are not 0, or an erratum's ---- */

/* Read again as the manual has it: size and kind do not depend on reserved bits (decision 0101). Packets of one code
 * byte, which are nearly all, have none but MODE and TRIG. */
static const char *reserved_bits(const struct cofi_stream_item *item)
{
    struct cofi_packet_context strict = {.gen = COFI_PT};
    struct cofi_packet packet;
    size_t n = (size_t)item->size;
    bool may = item->bytes[0] == 0x02 || item->bytes[0] == 0x99 || item->bytes[0] == 0xd9;
    if (!may || item->packet.kind == COFI_PT_BIP || cofi_packet_decode(&strict, item->bytes, n, &packet) > 0)
        return NULL;
    return cofi_packet_why(&strict, item->bytes, n);
}

/* Text has its bytes, so that it is whole, and as a comment what they say. */
static void print_odd_text(struct dump *d, const struct cofi_stream_item *item)
{
    print_offset(d, item->offset);
    size_t begin = d->line.n;
    line_str(&d->line, ".bytes     ");
    line_bytes(&d->line, item->bytes, (size_t)item->size, " ");
    line_column(&d->line, begin + COLUMN_TRACKED);
    line_str(&d->line, "; ");
    int n = cofi_packet_print(&item->packet, d->line.text + d->line.n, COFI_PACKET_TEXT_MAX);
    d->line.n += (size_t)n;
    line_end(&d->line);
}

static void odd(struct dump *d, const struct cofi_stream_item *item, const char *why)
{
    d->bad = true;
    fflush(d->line.out);
    if (d->options->talk)
        fprintf(d->options->talk, "cofi dump: %s+0x%" PRIx64 ": %s; read over\n", d->options->path,
                file_offset(d, item->offset), why);
    if (hidden(d->options, &item->packet))
        return;
    if (d->options->json)
        print_json(d, item, false, why);
    else
        print_odd_text(d, item);
}

static void tell_clock(struct dump *d, const struct cofi_stream_item *item)
{
    if (!d->clock)
        return;
    if (item->status)
        cofi_clock_lost(d->clock);
    else
        cofi_clock_packet(d->clock, &item->packet);
    d->now = cofi_clock_now(d->clock);
}

static void one_item(struct dump *d, const struct cofi_stream_item *item)
{
    tell_clock(d, item);
    if (item->status) {
        skipped(d, item);
        d->next_offset = item->offset + item->size;
        return;
    }
    const char *why = item->why || d->gen != COFI_PT ? item->why : reserved_bits(item);
    if (why || (d->gen == COFI_PT && item->packet.kind == COFI_PT_BBP))
        d->odd_since_bbp = why;
    if (why) {
        d->next_offset = item->offset + item->size;
        odd(d, item, why);
        return;
    }
    bool has_ip = track(d, &item->packet);
    if (item->offset < d->next_offset && !d->options->json && !d->options->quiet) {
        /* The packet before swallowed the beginning of this PSB. */
        print_offset(d, item->offset);
        line_str(&d->line, ".back      ");
        line_dec(&d->line, d->next_offset - item->offset);
        line_end(&d->line);
    }
    d->next_offset = item->offset + item->size;
    if (hidden(d->options, &item->packet))
        return;
    if (d->options->json)
        print_json(d, item, has_ip, NULL);
    else if (d->odd_since_bbp && item->packet.kind == COFI_PT_BIP)
        print_odd_text(d, item);
    else
        print_text(d, item, has_ip);
}

/* ---- a stream ---- */

enum { WINDOW = 16 << 20 };

/* RTIT streams do not say whether they have cycle counts. */
static bool find_cyc(const struct dump_options *o, const struct dump_source *source, uint64_t from,
                     int cyc)
{
    uint64_t bad[2];
    size_t n;
    if (o->cyc >= 0 || cyc >= 0)
        return o->cyc >= 0 ? o->cyc : cyc;
    const uint8_t *bytes = bytes_at(source, from, &n);
    bool found = cofi_stream_guess_cyc(bytes, n, bad);
    if (o->talk)
        fprintf(o->talk,
                "cofi dump: %s: read %s cycle counts (bytes that are no packet without: %" PRIu64
                ", with: %" PRIu64 "); --cyc=0 or --cyc=1 decides otherwise\n",
                o->path, found ? "with" : "without", bad[0], bad[1]);
    return found;
}

static bool open_clock(struct dump *d)
{
    const struct dump_source *s = d->source;
    struct cofi_clock_config config = {.size = sizeof config, .gen = d->gen, .time = s->time,
                                       .reference_tsc = s->reference_tsc, .family = s->family, .model = s->model};
    int status = d->options->time || d->options->time_delta ? cofi_clock_open(&d->clock, &config) : 0;
    if (status < 0 && d->options->talk)
        fprintf(d->options->talk, "cofi dump: %s: %s\n", d->options->path, cofi_error_text(status));
    return status >= 0;
}

bool dump_stream(const struct dump_options *o, const struct dump_source *source, enum cofi_gen gen,
                 int cyc, FILE *out)
{
    struct cofi_stream stream;
    struct cofi_stream_item item;
    uint64_t to = o->to < source->n ? o->to : source->n, from = o->from < to ? o->from : to,
             fed = from, shown = from;
    struct dump d = {
        .options = o, .source = source, .gen = gen, .next_offset = from, .end = to, .line.out = out};
    cofi_stream_init(&stream, gen, from, o->no_sync);
    stream.context.lenient = gen == COFI_PT;
    stream.family = source->family;
    stream.model = source->model;
    if (!source->file)
        stream.breaks = cofi_recording_breaks(source->recording, source->stream, &stream.breaks_n);
    stream.context.cyc = gen == COFI_RTIT && find_cyc(o, source, from, cyc);
    if (!open_clock(&d))
        return false;
    if (!o->json && !o->quiet && gen == COFI_RTIT)
        fputs(".gen       rtit\n", out);
    for (;;) {
        while (cofi_stream_next(&stream, &item))
            one_item(&d, &item);
        size_t n = 0;
        const uint8_t *bytes = fed < to ? bytes_at(source, fed, &n) : 0;
        if (stream.final) {
            end_mark(&d);
            cofi_clock_close(d.clock);
            return !d.bad;
        }
        n = n < to - fed ? n : (size_t)(to - fed);
        n = n < WINDOW ? n : WINDOW;
        unneeded(source, shown, fed - shown);
        shown = fed;
        cofi_stream_feed(&stream, bytes, n);
        fed += n;
        if (!n || fed == to)
            cofi_stream_finish(&stream);
    }
}
