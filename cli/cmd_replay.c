/* SPDX-License-Identifier: MIT
 * cofi replay: a recording's flow through a trace unit again; do the same packets come out? */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include <cofi/stream.h>

#include "cli.h"
#include "replay.h"
#include "session.h"

enum { DEFAULT_CTL = 0x2008 }; /* branch_en, user */

struct replay_options {
    struct session_options session;
    uint64_t ctl;
    bool ctl_given;
};

static const char usage[] = "usage: cofi replay [options] [FILE]\n\n"
                            "Decode a PT recording, report what ran to a trace unit with the same "
                            "configuration, and compare its packets with the\n"
                            "recording's: all but those about time, TNT by single outcomes. Exit "
                            "status 0: all equal, 1: the first difference is shown.\n\n"
                            "      --ctl=VALUE         IA32_RTIT_CTL, where the recording does not "
                            "tell (raw streams)\n" SESSION_HELP;

static const struct option long_options[] = {
    SESSION_LONG_OPTIONS, {"ctl", required_argument, 0, 'c'}, {0}};

static int take(void *opaque, int letter, const char *argument)
{
    struct replay_options *o = opaque;
    char *end = "";
    if (letter == 'c') {
        o->ctl = strtoull(argument, &end, 0);
        o->ctl_given = true;
    }
    return *end ? -1 : 0;
}

static int parse(struct replay_options *o, int argc, char **argv)
{
    const struct session_command command = {"replay", usage, long_options, take, o};
    return session_parse(&command, &o->session, argc, argv);
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

static void print_item(const char *who, const struct replay_list *list, size_t i)
{
    if (i >= list->n) {
        printf("  %-9s nothing more\n", who);
        return;
    }
    const struct replay_item *item = &list->items[i];
    printf("  %-9s %08" PRIx64 "  %-9s ", who, item->offset,
           item->kind == COFI_PT_TNT ? (item->value ? "taken" : "not taken")
                                     : cofi_packet_name(item->kind));
    if (item->kind != COFI_PT_TNT && (item->value || item->more))
        printf(" %016" PRIx64, item->value);
    if (item->rule)
        printf("  %s %s", item->rule, item->tag);
    printf("\n");
}

/* Index of the first difference, or n of both if there is none. */
static size_t first_difference(const struct replay_list *a, const struct replay_list *b)
{
    size_t i = 0;
    while (i < a->n && i < b->n && a->items[i].kind == b->items[i].kind &&
           a->items[i].value == b->items[i].value && a->items[i].more == b->items[i].more)
        i++;
    return i;
}

static int report(const struct replay_options *o, const struct session_stream *stream,
                  const struct replay_list *was, const struct replay_list *is, const char *why)
{
    size_t i = first_difference(was, is);
    bool same = i == was->n && i == is->n;
    if (o->session.json)
        printf("{\"v\":1,\"tid\":%d,\"packets\":%zu,\"same\":%s,\"equal\":%zu,\"offset\":%" PRIu64
               "}\n",
               stream->tid, was->n, same ? "true" : "false", i,
               i < was->n ? was->items[i].offset : stream->bytes);
    else if (same)
        printf("thread %d (%s): %zu packets and outcomes, all equal\n", stream->tid, stream->comm,
               was->n);
    else
        printf("thread %d (%s): differs after %zu of %zu packets and outcomes\n", stream->tid,
               stream->comm, i, was->n);
    if (!same && !o->session.json) {
        print_item("recorded", was, i);
        print_item("replayed", is, i);
    }
    if (why)
        fprintf(stderr, "cofi replay: thread %d: %s\n", stream->tid, why);
    return same && !why ? EXIT_DONE : EXIT_DATA;
}

static int one_stream(const struct replay_options *o, struct session_stream *stream, uint64_t ctl)
{
    struct replay_list was = {.codec = {.gen = COFI_PT}}, is = {.codec = {.gen = COFI_PT}};
    const char *why = NULL;
    int status = replay_stream(stream, ctl, &is, &why);
    if (status == 0)
        status = read_list(stream, &was);
    int result = EXIT_ENVIRONMENT;
    if (status < 0)
        complain("replay: thread %d: %s", stream->tid, cofi_error_text(status));
    else
        result = report(o, stream, &was, &is, why);
    free(was.items);
    free(is.items);
    return result;
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
    const struct cofi_recording *recording = session_recording(session);
    uint64_t ctl = recording && !o.ctl_given ? cofi_recording_info(recording)->config : o.ctl;
    for (size_t i = 0; i < session_streams(session); i++) {
        struct session_stream stream;
        session_stream(session, i, &stream);
        int one = one_stream(&o, &stream, ctl);
        status = one > status ? one : status;
    }
    session_close(session);
    return status;
}
