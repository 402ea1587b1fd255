/* SPDX-License-Identifier: MIT
 * cofi replay: a recording's flow through a trace unit again; do the same packets come out? */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cofi/stream.h>

#include "cli.h"
#include "ranges.h"
#include "replay.h"
#include "session.h"

enum { DEFAULT_CTL = 0x2008 }; /* branch_en, user */

struct replay_options {
    struct session_options session;
    uint64_t ctl;
    bool ctl_given;
    struct ranges ranges; /* of --range */
    unsigned ranges_n;
};

static const char usage[] = "usage: cofi replay [options] [FILE]\n\n"
                            "Decode a PT recording, report what ran to a trace unit with the same "
                            "configuration, and compare its packets with the\n"
                            "recording's: all but those about time, TNT by single outcomes; what lies in gaps is "
                            "left out. Exit status 0: all\n"
                            "equal, 1: the first difference is shown.\n\n"
                            "      --ctl=VALUE         IA32_RTIT_CTL, where the recording does not "
                            "tell (raw streams)\n"
                            "      --range=FIRST-LAST[,stop]\n"
                            "                          a filter (or TraceStop) range, hexadecimal, inclusive, where "
                            "it does not tell; up to 4\n" SESSION_HELP;

static const struct option long_options[] = {SESSION_LONG_OPTIONS,
                                             {"ctl", required_argument, 0, 'c'},
                                             {"range", required_argument, 0, 'r'},
                                             {0}};

static int take_range(struct replay_options *o, const char *text)
{
    char *end;
    uint64_t base = strtoull(text, &end, 16);
    if (end == text || *end != '-' || o->ranges_n == RANGES_MAX)
        return -1;
    uint64_t limit = strtoull(end + 1, &end, 16);
    if (limit < base || (*end && strcmp(end, ",stop") != 0))
        return -1;
    ranges_set(&o->ranges, o->ranges_n++, base, limit, *end != 0);
    return 0;
}

static int take(void *opaque, int letter, const char *argument)
{
    struct replay_options *o = opaque;
    if (letter == 'r')
        return take_range(o, argument);
    o->ctl_given = true;
    return parse_number(argument, UINT64_MAX, &o->ctl) ? 0 : -1;
}

static int parse(struct replay_options *o, int argc, char **argv)
{
    const struct session_command command = {"replay", usage, long_options, take, o};
    return session_parse(&command, &o->session, argc, argv);
}

/* ---- the configuration ---- */

static struct replay_setup setup_of(const struct replay_options *o, const struct session_stream *stream)
{
    static const uint64_t cfg = UINT64_C(0xffff) << 32;
    const struct cofi_recording *recording = session_recording(stream->session);
    const struct cofi_recording_info *info = recording ? cofi_recording_info(recording) : NULL;
    struct replay_setup setup = {.ctl = (info && !o->ctl_given ? info->config : o->ctl) & ~cfg};
    struct ranges ranges = o->ranges;
    if (!o->ranges_n && info)
        ranges = ranges_of(recording, stream->tid < 0 ? -1 : stream->pid);
    if (ranges.known) {
        setup.ctl |= ranges.cfg;
        setup.ranges_known = true;
        memcpy(setup.base, ranges.base, sizeof setup.base);
        memcpy(setup.limit, ranges.limit, sizeof setup.limit);
    }
    return setup;
}

/* The recording's own packets. */
static int read_list(struct session_stream *stream, struct replay_list *list)
{
    struct cofi_stream reader;
    struct cofi_stream_item item;
    const uint8_t *bytes;
    size_t n;
    int status = 0;
    cofi_stream_init(&reader, COFI_PT, 0, false);
    for (uint64_t at = 0; status == 0 && (bytes = session_bytes(stream, at, &n)) && n; at += n) {
        cofi_stream_feed(&reader, bytes, n);
        while (status == 0 && cofi_stream_next(&reader, &item))
            if (item.status >= 0)
                status = replay_add(list, &item.packet, item.offset, NULL, NULL);
    }
    cofi_stream_finish(&reader);
    while (status == 0 && cofi_stream_next(&reader, &item))
        if (item.status >= 0)
            status = replay_add(list, &item.packet, item.offset, NULL, NULL);
    return status;
}

static void print_item(const char *who, bool there, const struct replay_item *item)
{
    if (!there) {
        printf("  %-9s nothing more\n", who);
        return;
    }
    printf("  %-9s %08" PRIx64 "  %-9s ", who, item->offset,
           item->kind == COFI_PT_TNT ? (item->value ? "taken" : "not taken")
                                     : cofi_packet_name(item->kind));
    if (item->kind != COFI_PT_TNT && (item->value || item->more))
        printf(" %016" PRIx64, item->value);
    if (item->rule)
        printf("  %s %s", item->rule, item->tag);
    printf("\n");
}

static void report_text(const struct session_stream *stream, const struct replay_result *r)
{
    printf("thread %d (%s): ", stream->tid, stream->comm);
    if (r->differs)
        printf("differs after %zu of %zu packets and outcomes", r->equal, r->compared);
    else
        printf("%zu packets and outcomes, all equal", r->compared);
    if (r->gaps)
        printf(", %zu gap%s left out", r->gaps, r->gaps == 1 ? "" : "s");
    putchar('\n');
    if (r->differs) {
        print_item("recorded", r->has_was, &r->was);
        print_item("replayed", r->has_is, &r->is);
    }
}

static int report(const struct replay_options *o, const struct session_stream *stream, const struct replay_result *r)
{
    if (o->session.json)
        printf("{\"v\":1,\"tid\":%d,\"packets\":%zu,\"same\":%s,\"equal\":%zu,\"offset\":%" PRIu64
               ",\"gaps\":%zu}\n",
               stream->tid, r->compared, r->differs ? "false" : "true", r->equal,
               r->has_was ? r->was.offset : stream->bytes, r->gaps);
    else
        report_text(stream, r);
    if (r->why)
        fprintf(stderr, "cofi replay: thread %d: %s\n", stream->tid, r->why);
    return !r->differs && !r->why ? EXIT_DONE : EXIT_DATA;
}

/* What a processor does with its calls when a return is not compressed no manual tells for sure [PTREF 7.2]: as our
 * unit does, and if that differs, as the manual's words have it; what is longer equal counts. */
static int replay_both(const struct replay_options *o, struct session_stream *stream, const struct replay_list *was,
                       struct replay_result *result)
{
    struct replay_setup setup = setup_of(o, stream);
    struct replay_result other;
    bool partial = o->session.to_offset != UINT64_MAX || o->session.to_ns != UINT64_MAX;
    int status = replay_stream(stream, &setup, was, partial, result);
    if (status < 0 || !result->differs)
        return status;
    setup.returns_pop = true;
    status = replay_stream(stream, &setup, was, partial, &other);
    if (status >= 0 && (!other.differs || other.equal > result->equal))
        *result = other;
    return status;
}

static int one_stream(const struct replay_options *o, struct session_stream *stream)
{
    struct replay_list was = {0};
    struct replay_result result;
    replay_list_start(&was);
    int status = read_list(stream, &was), exit = EXIT_ENVIRONMENT;
    if (status == 0)
        status = replay_both(o, stream, &was, &result);
    if (status < 0)
        complain("replay: thread %d: %s", stream->tid, cofi_error_text(status));
    else
        exit = report(o, stream, &result);
    free(was.items);
    return exit;
}

int cmd_replay(int argc, char **argv)
{
    struct replay_options o = {.ctl = DEFAULT_CTL};
    struct session *session;
    int status = parse(&o, argc, argv);
    if (status)
        return status == SESSION_HELPED ? EXIT_DONE : status;
    status = session_open(&session, &o.session);
    if (status)
        return status;
    if (session_gen(session) != COFI_PT) {
        complain("replay: RTIT recordings cannot be replayed yet");
        session_close(session);
        return EXIT_USAGE;
    }
    for (size_t i = 0; i < session_streams(session); i++) {
        struct session_stream stream;
        session_stream(session, i, &stream);
        int one = one_stream(&o, &stream);
        status = one > status ? one : status;
    }
    session_close(session);
    return status;
}
