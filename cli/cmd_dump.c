/* SPDX-License-Identifier: MIT
 * cofi dump: a stream's bytes -> a line of text a packet, as ptdump prints them. */
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cofi/error.h>
#include <cofi/stream.h>

#include "cli.h"
#include "file.h"

/* Name and payload; what is tracked stands behind. */
enum { COLUMN_TRACKED = 37, COLUMN_TRACKED_RTIT = 45 };

struct options {
    const char *path;
    bool raw, json, no_pad, no_timing, no_cyc, no_offset, bytes, lastip, no_sync, quiet;
    int gen, cyc; /* 0 and -1: find out */
    long tid;     /* -1: all */
    uint64_t from, to;
};

/* What dumping a stream carries along. */
struct dump {
    const struct options *options;
    uint64_t file_base;   /* of the stream's offset 0, for messages */
    long tid;             /* -1: no recording */
    uint64_t last_ip, next_offset, end;
    bool bad;
};

static void usage(FILE *out)
{
    fputs("usage: cofi dump [options] [FILE[:FROM[-TO]]]    default FILE: cofi.data\n"
          "Print the packets of a recording (perf.data) or of a raw stream, one a line.\n\n"
          "  --raw FILE      FILE is trace bytes and nothing else\n"
          "  --gen=pt|rtit   generation of a raw stream; otherwise its PSBs tell\n"
          "  --cyc[=0|1]     RTIT: cycle counts follow the packets (or do not); otherwise found out\n"
          "  --tid=N         the stream of this thread only\n"
          "  --from=OFFSET --to=OFFSET   bytes of the stream\n"
          "  --no-sync       the first byte begins a packet; do not look for a PSB\n"
          "  --no-pad --no-timing --no-cyc   leave out PAD, all timing packets, CYC\n"
          "  --no-offset     no offsets\n"
          "  --bytes         each packet's bytes behind it\n"
          "  --lastip        each address as it expands\n"
          "  --quiet         print nothing, only complain\n"
          "  --json          one object a line\n\n"
          "'cofi asm' turns the text back into the same bytes.\n", out);
}

/* ---- one packet ---- */

static const char *event_word(const struct cofi_packet *packet)
{
    static const char *const cfe[] = {0, "intr", "iret", "smi", "rsm", "sipi", "init", "vmentry", "vmexit",
                                      "vmexit-intr", "shutdown", 0, "uintr", "uiret", "swintr", "syscall"};
    static const char *const evd[] = {"cr2", "vmxq", "vmxr"};
    if (packet->kind == COFI_PT_CFE)
        return packet->cfe.type < sizeof cfe / sizeof *cfe ? cfe[packet->cfe.type] : 0;
    return packet->evd.type < sizeof evd / sizeof *evd ? evd[packet->evd.type] : 0;
}

/* LastIP, and the column that a packet's address (or other state) has behind its payload. */
static bool track(struct dump *d, const struct cofi_packet *packet, char *out, size_t n)
{
    enum cofi_packet_kind kind = (enum cofi_packet_kind)packet->kind;
    uint64_t ip;
    *out = 0;
    if (kind == COFI_PT_PSB || kind == COFI_RTIT_PSB || kind == COFI_PT_OVF || kind == COFI_RTIT_BUFFOVF)
        d->last_ip = 0;
    if (cofi_packet_traits(kind) & COFI_TRAIT_HAS_IP) {
        bool has = cofi_ip_expand(packet, d->last_ip, &ip);
        if (has)
            d->last_ip = ip;
        if (d->options->lastip)
            snprintf(out, n, has ? "ip   %016" PRIx64 : "ip   <suppressed>", ip);
        return has;
    }
    if (kind == COFI_PT_PIP || kind == COFI_RTIT_PIP)
        snprintf(out, n, "cr3  %016" PRIx64, packet->pip.cr3);
    else if (kind == COFI_PT_VMCS)
        snprintf(out, n, "vmcs %016" PRIx64, packet->vmcs.base);
    else if ((kind == COFI_PT_CFE || kind == COFI_PT_EVD) && event_word(packet))
        snprintf(out, n, "type %s", event_word(packet));
    return false;
}

static bool hidden(const struct options *o, const struct cofi_packet *packet)
{
    unsigned traits = cofi_packet_traits((enum cofi_packet_kind)packet->kind);
    return o->quiet || (o->no_pad && packet->kind == COFI_PT_PAD) ||
           (o->no_timing && traits & COFI_TRAIT_TIMING && !(traits & COFI_TRAIT_HAS_IP)) ||
           (o->no_cyc && packet->kind == COFI_PT_CYC);
}

static void print_hex(const uint8_t *bytes, size_t n, const char *between)
{
    for (size_t i = 0; i < n; i++)
        printf("%s%02x", i ? between : "", bytes[i]);
}

static void print_offset(const struct dump *d, uint64_t offset)
{
    if (!d->options->no_offset)
        printf("%016" PRIx64 "  ", offset);
}

static void print_text(struct dump *d, const struct cofi_stream_item *item, const char *tracked)
{
    char text[COFI_PACKET_TEXT_MAX];
    int n = cofi_packet_print(&item->packet, text, sizeof text);
    print_offset(d, item->offset);
    fputs(text, stdout);
    if (*tracked) {
        bool rtit = cofi_packet_gen((enum cofi_packet_kind)item->packet.kind) == COFI_RTIT;
        int column = rtit ? COLUMN_TRACKED_RTIT : COLUMN_TRACKED, gap = n < column - 2 ? column - n : 2;
        printf("%*s%s", gap, "", tracked);
        n += gap + (int)strlen(tracked);
    }
    if (d->options->bytes) {
        printf("%*s; ", n < 64 ? 66 - n : 2, "");
        print_hex(item->bytes, (size_t)item->size, " ");
    }
    putchar('\n');
}

static void print_json(struct dump *d, const struct cofi_stream_item *item, bool has_ip)
{
    char fields[512];
    printf("{\"v\":1,");
    if (d->tid >= 0)
        printf("\"tid\":%ld,", d->tid);
    cofi_packet_print_json(&item->packet, fields, sizeof fields);
    printf("\"offset\":%" PRIu64 ",\"size\":%" PRIu64 ",\"bytes\":\"", item->offset, item->size);
    print_hex(item->bytes, (size_t)item->size, "");
    printf("\",\"packet\":%s", fields);
    if (has_ip)
        printf(",\"ip\":\"%016" PRIx64 "\"", d->last_ip);
    puts("}");
}

/* ---- what is no packet ---- */

/* The bytes that were skipped, so that the text still has every byte of the stream. */
static void print_skipped(struct dump *d, const struct cofi_stream_item *item, const uint8_t *bytes)
{
    enum { PER_LINE = 32 };
    for (uint64_t i = 0; i < item->size; i += PER_LINE) {
        size_t n = item->size - i < PER_LINE ? (size_t)(item->size - i) : PER_LINE;
        print_offset(d, item->offset + i);
        printf(".bytes     ");
        print_hex(bytes + i, n, " ");
        putchar('\n');
    }
}

/* A stream cut from a circular buffer begins anywhere: that is no damage, while a PSB follows. */
static void complain_skipped(struct dump *d, const struct cofi_stream_item *item)
{
    bool cut = item->status == COFI_ERR_NO_SYNC && item->offset + item->size < d->end;
    fprintf(stderr, "cofi dump: %s+0x%" PRIx64 ": ", d->options->path, d->file_base + item->offset);
    if (cut) {
        fprintf(stderr, "%" PRIu64 " bytes before the first PSB skipped\n", item->size);
        return;
    }
    d->bad = true;
    fputs(item->why ? item->why : cofi_error_text(item->status), stderr);
    if (item->size)
        fprintf(stderr, "; %" PRIu64 " bytes skipped", item->size);
    fputc('\n', stderr);
}

static void skipped(struct dump *d, const struct cofi_stream_item *item, const uint8_t *stream)
{
    fflush(stdout);
    complain_skipped(d, item);
    if (d->options->json && !d->options->quiet)
        printf("{\"v\":1,\"offset\":%" PRIu64 ",\"size\":%" PRIu64 ",\"error\":\"%s\"}\n", item->offset,
               item->size, item->why ? item->why : cofi_error_text(item->status));
    else if (!d->options->quiet)
        print_skipped(d, item, stream + item->offset);
}

static void one_item(struct dump *d, const struct cofi_stream_item *item, const uint8_t *stream)
{
    char tracked[48];
    if (item->status) {
        skipped(d, item, stream);
        d->next_offset = item->offset + item->size;
        return;
    }
    bool has_ip = track(d, &item->packet, tracked, sizeof tracked);
    if (item->offset < d->next_offset && !d->options->json && !d->options->quiet) {
        /* The packet before swallowed the beginning of this PSB. */
        print_offset(d, item->offset);
        printf(".back      %" PRIu64 "\n", d->next_offset - item->offset);
    }
    d->next_offset = item->offset + item->size;
    if (hidden(d->options, &item->packet))
        return;
    if (d->options->json)
        print_json(d, item, has_ip);
    else
        print_text(d, item, tracked);
}

/* ---- a stream ---- */

/* RTIT streams do not say whether they have cycle counts. */
static bool find_cyc(const struct options *o, const uint8_t *bytes, size_t n)
{
    uint64_t bad[2];
    if (o->cyc >= 0)
        return o->cyc;
    bool cyc = cofi_stream_guess_cyc(bytes, n, bad);
    fprintf(stderr, "cofi dump: %s: read %s cycle counts (bad packets without: %" PRIu64 ", with: %" PRIu64
            "); --cyc=0 or --cyc=1 decides otherwise\n", o->path, cyc ? "with" : "without", bad[0], bad[1]);
    return cyc;
}

static void dump_stream(struct dump *d, enum cofi_gen gen, const uint8_t *bytes, size_t n)
{
    const struct options *o = d->options;
    struct cofi_stream stream;
    struct cofi_stream_item item;
    uint64_t to = o->to < n ? o->to : n, from = o->from < to ? o->from : to;
    cofi_stream_init(&stream, gen, from, o->no_sync);
    stream.context.cyc = gen == COFI_RTIT && find_cyc(o, bytes + from, (size_t)(to - from));
    cofi_stream_feed(&stream, bytes + from, (size_t)(to - from));
    cofi_stream_finish(&stream);
    d->next_offset = from;
    d->end = to;
    if (gen == COFI_RTIT && !o->json && !o->quiet)
        puts(".gen       rtit");
    while (cofi_stream_next(&stream, &item))
        one_item(d, &item, bytes);
}

static enum cofi_gen find_gen(const struct options *o, const uint8_t *bytes, size_t n)
{
    if (o->gen)
        return (enum cofi_gen)o->gen;
    size_t pt = cofi_sync_forward(COFI_PT, bytes, n, 0);
    return pt == COFI_NO_PSB && cofi_sync_forward(COFI_RTIT, bytes, n, 0) != COFI_NO_PSB ? COFI_RTIT : COFI_PT;
}

static int dump_raw(const struct options *o)
{
    struct file file;
    int status = file_open(&file, "dump", o->path);
    if (status)
        return status;
    struct dump d = {.options = o, .tid = -1};
    if (!file.n) {
        fprintf(stderr, "cofi dump: %s: the file is empty\n", o->path);
        d.bad = true;
    } else {
        dump_stream(&d, find_gen(o, file.bytes, file.n), file.bytes, file.n);
    }
    file_close(&file);
    return d.bad ? EXIT_DATA : EXIT_DONE;
}

/* ---- the command line ---- */

static bool number(const char *text, uint64_t *value)
{
    char *end;
    *value = strtoull(text, &end, 0);
    return end != text && !*end;
}

/* FILE:FROM[-TO], ptdump's way, if there is no file of the whole name. */
static void split_path(struct options *o, char *path)
{
    char *colon = strrchr(path, ':'), *dash;
    FILE *whole = fopen(path, "r");
    o->path = path;
    if (whole)
        fclose(whole);
    if (whole || !colon)
        return;
    if ((dash = strchr(colon, '-')))
        *dash = 0;
    if (number(colon + 1, &o->from) && (!dash || number(dash + 1, &o->to)))
        *colon = 0;
    else if (dash)
        *dash = '-';
}

enum { OPT_RAW = 256, OPT_GEN, OPT_CYC, OPT_TID, OPT_FROM, OPT_TO, OPT_NO_SYNC, OPT_NO_PAD, OPT_NO_TIMING,
       OPT_NO_CYC, OPT_NO_OFFSET, OPT_BYTES, OPT_LASTIP, OPT_QUIET, OPT_JSON, OPT_HELP };

static const struct option long_options[] = {
    {"raw", required_argument, 0, OPT_RAW},      {"gen", required_argument, 0, OPT_GEN},
    {"cyc", optional_argument, 0, OPT_CYC},      {"tid", required_argument, 0, OPT_TID},
    {"from", required_argument, 0, OPT_FROM},    {"to", required_argument, 0, OPT_TO},
    {"no-sync", no_argument, 0, OPT_NO_SYNC},    {"no-pad", no_argument, 0, OPT_NO_PAD},
    {"no-timing", no_argument, 0, OPT_NO_TIMING}, {"no-cyc", no_argument, 0, OPT_NO_CYC},
    {"no-offset", no_argument, 0, OPT_NO_OFFSET}, {"bytes", no_argument, 0, OPT_BYTES},
    {"lastip", no_argument, 0, OPT_LASTIP},      {"quiet", no_argument, 0, OPT_QUIET},
    {"json", no_argument, 0, OPT_JSON},          {"help", no_argument, 0, OPT_HELP},
    {0},
};

/* One option; false: its value makes no sense. */
static bool set_option(struct options *o, int option, char *value)
{
    uint64_t tid;
    switch (option) {
    case OPT_RAW: o->raw = true; split_path(o, value); return true;
    case OPT_GEN:
        o->gen = !strcmp(value, "pt") ? COFI_PT : !strcmp(value, "rtit") ? COFI_RTIT : 0;
        return o->gen;
    case OPT_CYC:
        o->cyc = !value || !strcmp(value, "1") ? 1 : !strcmp(value, "0") ? 0 : -1;
        return o->cyc >= 0;
    case OPT_TID: o->tid = number(value, &tid) ? (long)tid : -1; return o->tid >= 0;
    case OPT_FROM: return number(value, &o->from);
    case OPT_TO: return number(value, &o->to);
    case OPT_NO_SYNC: return o->no_sync = true;
    case OPT_NO_PAD: return o->no_pad = true;
    case OPT_NO_TIMING: return o->no_timing = true;
    case OPT_NO_CYC: return o->no_cyc = true;
    case OPT_NO_OFFSET: return o->no_offset = true;
    case OPT_BYTES: return o->bytes = true;
    case OPT_LASTIP: return o->lastip = true;
    case OPT_QUIET: return o->quiet = true;
    case OPT_JSON: return o->json = true;
    }
    return false;
}

int cmd_dump(int argc, char **argv)
{
    struct options o = {.path = "cofi.data", .cyc = -1, .tid = -1, .to = UINT64_MAX};
    static char out[1 << 16];
    for (int option; (option = getopt_long(argc, argv, "", long_options, 0)) != -1;) {
        if (option == OPT_HELP) {
            usage(stdout);
            return EXIT_DONE;
        }
        if (option == '?' || !set_option(&o, option, optarg)) {
            if (option != '?')
                fprintf(stderr, "cofi dump: bad value '%s'; 'cofi dump --help' tells more\n", optarg);
            return EXIT_USAGE;
        }
    }
    if (argc - optind > (o.raw ? 0 : 1)) {
        fprintf(stderr, "cofi dump: one file at a time; 'cofi dump --help' tells more\n");
        return EXIT_USAGE;
    }
    if (argc > optind)
        split_path(&o, argv[optind]);
    setvbuf(stdout, out, _IOFBF, sizeof out);
    int status = dump_raw(&o);
    if (fflush(stdout) || ferror(stdout)) {
        perror("cofi dump: standard output");
        return EXIT_ENVIRONMENT;
    }
    return status;
}
