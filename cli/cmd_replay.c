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

struct replay_options {
    struct session_options session;
    uint64_t ctl;
    bool ctl_given, all;
    struct ranges ranges; /* of --range */
    unsigned ranges_n;
};

/* What no register told and was found out. */
struct found_out {
    bool ctl, ranges, deferred, returns_pop;
};

static const char usage[] = "usage: cofi replay [options] [FILE]    default FILE: cofi.data\n\n"
                            "Decode a PT recording, report what ran to a trace unit with the same "
                            "configuration, and compare its packets with the\n"
                            "recording's: all but those about time, TNT by single outcomes; what lies in gaps is "
                            "left out. Exit status 0: all\n"
                            "equal, 1: the first difference is shown.\n\n"
                            "      --all               show every difference (at most one from PSB to PSB)\n"
                            "      --ctl=VALUE         IA32_RTIT_CTL, where nothing tells it (raw "
                            "streams); else it is found out\n"
                            "      --range=FIRST-LAST[,stop]\n"
                            "                          a filter (or TraceStop) range, hexadecimal, inclusive, where "
                            "it does not tell; up to 4\n" SESSION_HELP;

static const struct option long_options[] = {SESSION_LONG_OPTIONS,
                                             {"ctl", required_argument, 0, 'c'},
                                             {"range", required_argument, 0, 'r'},
                                             {"all", no_argument, 0, 'a'},
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
    o->all |= letter == 'a';
    if (letter == 'a')
        return 0;
    o->ctl_given = true;
    return parse_number(argument, UINT64_MAX, &o->ctl) ? 0 : -1;
}

static int parse(struct replay_options *o, int argc, char **argv)
{
    const struct session_command command = {"replay", usage, long_options, take, o, .registers = true};
    return session_parse(&command, &o->session, argc, argv);
}

/* ---- the first difference, or each ---- */

static void print_item(const char *who, const struct replay_item *item)
{
    if (!item) {
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

static void print_difference(void *opaque, const struct replay_item *was, const struct replay_item *is)
{
    (void)opaque;
    print_item("recorded", was);
    print_item("replayed", is);
}

static void print_found_out(const struct replay_setup *setup, const struct found_out *found)
{
    if (found->ctl)
        printf("  found out  IA32_RTIT_CTL = %" PRIx64 "\n", setup->ctl);
    for (unsigned i = 0; found->ranges && i < RANGES_MAX; i++)
        if (pt_addr_cfg(setup->ctl, i))
            printf("  found out  a filter's range around %" PRIx64 " to %" PRIx64 "\n", setup->ranges.base[i],
                   setup->ranges.limit[i]);
    if (found->deferred)
        printf("  found out  deferred TIPs [SDM Deferred TIPs]\n");
    if (found->returns_pop)
        printf("  found out  a return that is not compressed takes one address off the stack\n");
}

static void report_text(const struct session_stream *stream, const struct replay_setup *setup,
                        const struct found_out *found, const struct replay_result *r)
{
    char name[COFI_NAME_BYTES];
    printf("thread %d (%s): ", stream->tid, in_a_line(stream->comm, name, sizeof name));
    if (r->differences)
        printf("differs after %zu of %zu packets and outcomes", r->equal, r->compared);
    else
        printf("%zu packets and outcomes, all equal", r->compared);
    if (r->tolerated)
        printf(", %zu by the processor's errata", r->tolerated);
    if (r->gaps)
        printf(", %zu gap%s left out", r->gaps, r->gaps == 1 ? "" : "s");
    if (r->differences > 1)
        printf("; %zu parts from PSB to PSB differ", r->differences);
    putchar('\n');
    print_found_out(setup, found);
    if (r->differences && !setup->differs)
        print_difference(NULL, r->has_was ? &r->was : NULL, r->has_is ? &r->is : NULL);
}

static int report(const struct replay_options *o, const struct session_stream *stream, const struct replay_setup *setup,
                  const struct found_out *found, const struct replay_result *r)
{
    if (o->session.json)
        printf("{\"v\":1,\"tid\":%d,\"packets\":%zu,\"same\":%s,\"equal\":%zu,\"offset\":%" PRIu64
               ",\"gaps\":%zu,\"differences\":%zu,\"errata\":%zu,\"ctl\":%" PRIu64 "}\n",
               stream->tid, r->compared, r->differences ? "false" : "true", r->equal,
               r->has_was ? r->was.offset : stream->bytes, r->gaps, r->differences, r->tolerated, setup->ctl);
    else
        report_text(stream, setup, found, r);
    if (r->why)
        fprintf(stderr, "cofi replay: thread %d: %s\n", stream->tid, r->why);
    return !r->differences && !r->why ? EXIT_DONE : EXIT_DATA;
}

/* ---- what nothing tells ---- */

enum { DEFERRED = 1, RETURNS_POP = 2, DIS_RETC = 4 };
static const uint64_t ctl_dis_retc = 1 << 11;

static struct replay_setup guessed(const struct replay_setup *setup, unsigned guesses)
{
    struct replay_setup made = *setup;
    made.deferred = guesses & DEFERRED;
    made.returns_pop = guesses & RETURNS_POP;
    if (guesses & DIS_RETC)
        made.ctl |= ctl_dis_retc;
    return made;
}

static bool better(const struct replay_result *a, const struct replay_result *b)
{
    return a->differences != b->differences ? a->differences < b->differences : a->equal > b->equal;
}

/* Deferred TIPs and what becomes of the calls at a return that is not compressed no register tells, and no manual for
 * sure [PTREF 7.2]; RET compression, CTL does if it is known. Each is tried while something differs. */
static int try_guesses(struct session_stream *stream, struct replay_setup *setup, bool partial,
                       struct replay_result *result, struct found_out *found)
{
    static const uint8_t order[] = {DIS_RETC, DEFERRED, RETURNS_POP, DIS_RETC | DEFERRED, DEFERRED | RETURNS_POP,
                                    DIS_RETC | RETURNS_POP, DIS_RETC | DEFERRED | RETURNS_POP};
    unsigned best = 0;
    for (size_t i = 0; i < sizeof order && result->differences; i++) {
        struct replay_setup other = guessed(setup, order[i]);
        struct replay_result tried;
        if (order[i] & DIS_RETC && setup->ctl_known)
            continue;
        int status = replay_stream(stream, &other, partial, &tried);
        if (status < 0)
            return status;
        if (better(&tried, result)) {
            best = order[i];
            *result = tried;
        }
    }
    *setup = guessed(setup, best);
    found->deferred = best & DEFERRED;
    found->returns_pop = best & RETURNS_POP;
    found->ctl |= best & DIS_RETC;
    return 0;
}

/* Once more with the ranges of filters that the flow shows. */
static int try_ranges(struct session_stream *stream, struct replay_setup *setup, bool partial,
                      struct replay_result *result, struct found_out *found)
{
    int status = result->wants_ranges ? replay_setup_ranges(setup, stream) : COFI_ERR_RANGE;
    if (status == COFI_ERR_RANGE)
        return 0;
    found->ranges = true;
    return status < 0 ? status : replay_stream(stream, setup, partial, result);
}

static int replay_as_best(const struct replay_options *o, struct session_stream *stream, struct replay_setup *setup,
                          struct replay_result *result, struct found_out *found)
{
    bool partial = o->session.to_offset != UINT64_MAX || o->session.to_ns != UINT64_MAX;
    int status = 0;
    if (!setup->ctl_known) {
        status = replay_setup_guess(setup, stream);
        found->ctl = true;
    }
    if (status == 0)
        status = replay_stream(stream, setup, partial, result);
    if (status == 0)
        status = try_ranges(stream, setup, partial, result, found);
    if (status == 0 && result->differences)
        status = try_guesses(stream, setup, partial, result, found);
    if (status == 0 && o->all && result->differences) {
        setup->differs = print_difference;
        status = replay_stream(stream, setup, partial, result);
    }
    return status;
}

static int one_stream(const struct replay_options *o, struct session_stream *stream)
{
    struct replay_setup setup;
    struct replay_result result;
    struct found_out found = {0};
    const struct cofi_recording *recording = session_recording(stream->session);
    const struct cofi_recording_info *info = recording ? cofi_recording_info(recording) : NULL;
    replay_setup_told(&setup, stream, &o->session.registers, o->ctl_given ? &o->ctl : NULL, &o->ranges);
    uint32_t family = o->session.family ? o->session.family : info ? info->family : 0;
    setup.errata = cofi_unit_errata(COFI_PT, family, o->session.family ? o->session.model : info ? info->model : 0);
    int status = replay_as_best(o, stream, &setup, &result, &found);
    if (status < 0) {
        complain("replay: thread %d: %s", stream->tid, cofi_error_text(status));
        return EXIT_ENVIRONMENT;
    }
    return report(o, stream, &setup, &found, &result);
}

/* The decoder, too, should know the ranges that --range tells: so as registers that were read back. */
static void tell_decoder(struct replay_options *o)
{
    enum { ANY_CTL = PT_BRANCH_EN | PT_CR3_FILTER | PT_USER | PT_OS };
    struct registers *list = &o->session.registers;
    if (!o->ranges.known || list->n + 1 + 2 * o->ranges_n > REGISTERS_MAX)
        return;
    list->list[list->n++] = (struct register_value){PT_CTL, (o->ctl_given ? o->ctl : ANY_CTL) | o->ranges.cfg};
    for (unsigned i = 0; i < o->ranges_n; i++) {
        list->list[list->n++] = (struct register_value){PT_ADDR0_A + 2 * i, o->ranges.base[i]};
        list->list[list->n++] = (struct register_value){PT_ADDR0_A + 2 * i + 1, o->ranges.limit[i]};
    }
}

int cmd_replay(int argc, char **argv)
{
    struct replay_options o = {0};
    struct session *session;
    int status = parse(&o, argc, argv);
    if (status)
        return status == SESSION_HELPED ? EXIT_DONE : status;
    struct registers told = o.session.registers;
    tell_decoder(&o);
    o.session.from_psb = true; /* the unit begins with one */
    status = session_open(&session, &o.session);
    o.session.registers = told;
    if (status)
        return status;
    if (session_gen(session) != COFI_PT) {
        complain("replay: %s is RTIT; only PT can be replayed", o.session.raw    ? o.session.raw
                                                                : o.session.file ? o.session.file
                                                                                 : "cofi.data");
        session_close(session);
        return EXIT_DATA;
    }
    for (size_t i = 0; i < session_streams(session); i++) {
        struct session_stream stream;
        session_stream(session, i, &stream);
        int one = one_stream(&o, &stream);
        status = one > status ? one : status;
    }
    status = session_status(session, status);
    session_close(session);
    return status;
}
