/* SPDX-License-Identifier: MIT
 * Gaps -> the first ones one by one, all of them by reason. */
#include "gaps.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cli.h"

/* Two gaps with the same reason have the same text: no address is in it. */
static void reason_of(struct cofi_flow *flow, const struct cofi_flow_event *gap, char *out, size_t n)
{
    struct cofi_code code;
    struct cofi_view *view = cofi_flow_view(flow);
    const char *why = gap->text ? gap->text : "";
    if (gap->cause == COFI_ERR_NO_CODE && gap->ip != COFI_NO_IP && cofi_view_find(view, gap->ip, &code) < 0)
        why = cofi_view_why(view);
    if (!strncmp(why, "nothing is mapped at 0x", 23))
        why = "nothing is mapped there at that time";
    snprintf(out, n, "%s: %s", cofi_error_text(gap->cause), why);
}

static void count_reason(struct gaps *gaps, const char *text, uint64_t n)
{
    size_t i = 0;
    while (i < GAPS_REASONS - 1 && gaps->reasons[i].n && strcmp(gaps->reasons[i].text, text))
        i++;
    if (!gaps->reasons[i].n)
        snprintf(gaps->reasons[i].text, GAPS_REASON_BYTES, "%.*s", GAPS_REASON_BYTES - 1,
                 i < GAPS_REASONS - 1 ? text : "for other reasons");
    gaps->reasons[i].n += n;
}

void gaps_time(struct gaps *gaps, const struct cofi_flow_event *event)
{
    if (!event->time.known)
        return;
    if (!gaps->first_ticks)
        gaps->first_ticks = event->time.ticks;
    gaps->last_ticks = event->time.ticks;
    bool missing = event->kind == COFI_FLOW_GAP || event->kind == COFI_FLOW_OVERFLOW;
    if (missing && event->since && event->time.ticks > event->since)
        gaps->lost_ticks += event->time.ticks - event->since;
}

void gaps_event(struct gaps *gaps, const struct session_stream *stream, struct cofi_flow *flow,
                const struct cofi_flow_event *event)
{
    char place[512], text[1024];
    gaps_time(gaps, event);
    if (event->kind != COFI_FLOW_GAP)
        return;
    reason_of(flow, event, text, sizeof text);
    count_reason(gaps, text, 1);
    session_place(stream, event->offset, place, sizeof place);
    if (gaps->n++ == GAPS_TOLD)
        complain("flow: %s: here is another gap, and more may follow; the summary counts them", place);
    if (gaps->n > GAPS_TOLD)
        return;
    session_gap(flow, event, text, sizeof text);
    complain("flow: %s: %s", place, text);
}

void gaps_end(struct gaps *gaps, const struct cofi_flow *flow)
{
    struct cofi_flow_stats stats;
    cofi_flow_stats(flow, &stats);
    gaps->insns = stats.insns;
    gaps->overflows = stats.overflows;
    gaps->bytes = stats.bytes;
    gaps->lost_bytes = stats.lost_bytes;
    if (stats.last_ticks > gaps->last_ticks)
        gaps->last_ticks = stats.last_ticks;
    gaps->ticks = gaps->last_ticks - gaps->first_ticks;
}

void gaps_add(struct gaps *sum, const struct gaps *more)
{
    sum->n += more->n;
    sum->insns += more->insns;
    sum->overflows += more->overflows;
    sum->bytes += more->bytes;
    sum->lost_bytes += more->lost_bytes;
    sum->ticks += more->ticks;
    sum->lost_ticks += more->lost_ticks;
    for (size_t i = 0; i < GAPS_REASONS && more->reasons[i].n; i++)
        count_reason(sum, more->reasons[i].text, more->reasons[i].n);
}

void gaps_tell(const struct gaps *sum, const char *command)
{
    char time[64] = "", overflows[64] = "", missing[64] = "", share[PERCENT_BYTES];
    if (!sum->n && !sum->overflows)
        return;
    if (sum->ticks)
        snprintf(time, sizeof time, " and %s of its time", percent(sum->lost_ticks, sum->ticks, share));
    if (sum->overflows)
        snprintf(overflows, sizeof overflows, ", %" PRIu64 " overflow%s", sum->overflows,
                 sum->overflows == 1 ? "" : "s");
    if (sum->bytes)
        snprintf(missing, sizeof missing, "; missing: %s of the trace's bytes",
                 percent(sum->lost_bytes, sum->bytes, share));
    complain("%s: %" PRIu64 " instructions, %" PRIu64 " gap%s%s%s%s", command, sum->insns, sum->n,
             sum->n == 1 ? "" : "s", overflows, missing, time);
    for (size_t i = 0; sum->n > GAPS_TOLD && i < GAPS_REASONS && sum->reasons[i].n; i++)
        complain("%s: %8" PRIu64 " x %s", command, sum->reasons[i].n, sum->reasons[i].text);
}
