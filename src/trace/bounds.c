/* SPDX-License-Identifier: MIT
 * A stream of kernel and user whose packets seldom tell the time, or one whose packets never do ->
 * between which times lies what follows its bytes. */
#include <stdlib.h>

#include <cofi/stream.h>

#include "base/array.h"
#include "base/error.h"
#include "packet/full_time.h"
#include "trace/bounds.h"
#include "trace/perf_data.h"

struct reading {
    struct cofi_recording *recording;
    struct cofi__spaces spaces;
    struct cofi_clock *clock;
    struct cofi__interval now, next; /* next: what a PSB+ begins, whose end tells if its time is a guest's */
    uint64_t key, kept_key; /* now; of the last interval that was kept */
    bool in_psb, has_next, failed;
};

/* MTCs that come this often tell the time of a switch well enough. */
enum { OFTEN_NS = 5000 };

static bool time_is_rare(const struct cofi_recording_info *info)
{
    const struct cofi_time_info *t = &info->time;
    if (info->gen != COFI_PT || !(info->config & CTL_PT_OS) || !t->tsc || t->cyc || !t->conv.mult)
        return false;
    uint64_t period = t->tsc_den ? ((uint64_t)t->tsc_num << t->mtc_freq) / t->tsc_den : 0;
    return !t->mtc || !period || cofi_time_ns(&t->conv, period) - cofi_time_ns(&t->conv, 0) > OFTEN_NS;
}

/* By the kernel's layout of them, where page tables are isolated those of the user's half lie behind the
 * kernel's, and its PCIDs have bit 11 [linux: PTI_USER_PGTABLE_BIT, X86_CR3_PTI_PCID_USER_BIT]. */
static uint64_t key_of(uint64_t cr3)
{
    const uint64_t pcid = 0xfff, user_pcid = 1 << 11, user_table = 1 << 12;
    return cr3 & ~(pcid | (cr3 & user_pcid ? user_table : 0));
}

/* Whether code changed in (from, to]. */
static bool has_news(const struct cofi_recording *recording, uint64_t from_ns, uint64_t to_ns)
{
    const struct cofi_sideband *rows = recording->sideband.items;
    size_t i = cofi__array_upper_bound(rows, recording->sideband.n, sizeof *rows,
                                       offsetof(struct cofi_sideband, time_ns), from_ns);
    for (; i < recording->sideband.n && rows[i].time_ns <= to_ns; i++)
        if (rows[i].kind == COFI_SB_MMAP || rows[i].kind == COFI_SB_CODE)
            return true;
    return false;
}

/* The interval at hand ends where another begins. */
static void close_interval(struct reading *r, uint64_t to, size_t changes)
{
    const struct cofi_time_conv *conv = &r->recording->info.time.conv;
    struct cofi__interval *now = &r->now;
    now->to = to;
    now->to_ns = to == UINT64_MAX ? to : cofi_time_ns(conv, to);
    now->n = changes - now->first;
    bool tells = now->n || now->key != r->kept_key || has_news(r->recording, now->from_ns, now->to_ns);
    if (!now->from || !tells)
        return;
    r->kept_key = now->key;
    struct cofi__interval *row = cofi__vector_push(&r->spaces.intervals);
    if (row)
        *row = *now;
    r->failed |= !row;
}

/* If the time is another one by now, the next interval begins. */
static void begin_next(struct reading *r)
{
    uint64_t ticks = cofi_clock_now(r->clock).ticks;
    bool begins = r->has_next && ticks != r->now.from;
    r->has_next = false;
    if (!begins)
        return;
    close_interval(r, ticks, r->next.first);
    r->now = r->next;
    r->now.from = ticks;
    r->now.from_ns = cofi_time_ns(&r->recording->info.time.conv, ticks);
}

static void take_time(struct reading *r, const struct cofi_stream_item *item)
{
    if (!r->has_next)
        r->next = (struct cofi__interval){.offset = item->offset, .first = r->spaces.changes.n, .key = r->key};
    r->has_next = true;
    if (!r->in_psb)
        begin_next(r);
}

/* PSB+ tells the space that is there; one that nothing told of before is no change. */
static void take_pip(struct reading *r, const struct cofi_stream_item *item)
{
    struct cofi__interval *at = r->has_next ? &r->next : &r->now;
    uint64_t key = key_of(item->packet.pip.cr3);
    if (item->packet.pip.nr || key == r->key)
        return;
    bool told = r->in_psb && r->key == COFI__NO_KEY && r->spaces.changes.n == at->first;
    r->key = key;
    if (told) {
        at->key = key;
        return;
    }
    struct cofi__cr3_change *row = cofi__vector_push(&r->spaces.changes);
    if (row)
        *row = (struct cofi__cr3_change){item->offset, key};
    r->failed |= !row;
}

/* Bytes that are no packets, and those that an OVF tells of, end a PSB+, too; PIPs may be among them. */
static void lose_packets(struct reading *r)
{
    r->in_psb = false;
    begin_next(r);
    r->key = COFI__NO_KEY;
}

static void take(struct reading *r, const struct cofi_stream_item *item)
{
    if (item->status)
        cofi_clock_lost(r->clock);
    else
        cofi_clock_packet(r->clock, &item->packet);
    if (item->status || item->packet.kind == COFI_PT_OVF) {
        lose_packets(r);
        return;
    }
    if (item->packet.kind == COFI_PT_PSB || item->packet.kind == COFI_PT_PSBEND)
        r->in_psb = item->packet.kind == COFI_PT_PSB;
    if (item->packet.kind == COFI_PT_PSBEND)
        begin_next(r);
    if (item->packet.kind == COFI_PT_PIP)
        take_pip(r, item);
    if (item->packet.kind == COFI_PT_TSC || item->packet.kind == COFI_PT_TMA || item->packet.kind == COFI_PT_MTC)
        take_time(r, item);
}

static int read_stream(struct reading *r, size_t stream)
{
    struct cofi_stream packets;
    struct cofi_stream_item item;
    const uint8_t *bytes;
    size_t n = 1;
    cofi_stream_init(&packets, COFI_PT, 0, false);
    packets.context.lenient = true;
    packets.family = r->recording->info.family;
    packets.model = r->recording->info.model;
    packets.breaks = cofi_recording_breaks(r->recording, stream, &packets.breaks_n);
    for (uint64_t at = 0; n; at += n) {
        bytes = cofi_recording_bytes(r->recording, stream, at, &n);
        cofi_stream_feed(&packets, bytes, n);
        if (!n)
            cofi_stream_finish(&packets);
        while (cofi_stream_next(&packets, &item))
            take(r, &item);
        cofi_recording_unneeded(r->recording, stream, at, n);
    }
    begin_next(r);
    close_interval(r, UINT64_MAX, r->spaces.changes.n);
    return r->failed ? COFI_ERR_NOMEM : 0;
}

/* ---- what pieces tell ---- */

/* Recorders of a thread whose packets never tell the time begin a piece where its code has changed. */
static bool pieces_tell(const struct cofi_recording *recording, const struct cofi_recording_stream *s)
{
    const struct cofi_recording_info *info = &recording->info;
    return recording->own && !info->snapshot && !info->per_cpu && s->cpu < 0 && info->time.conv.mult &&
           cofi__tells_no_full_time(info->gen, info->config);
}

static int bounds_of_pieces(const struct cofi_recording *recording, const struct cofi__in_stream *stream,
                            struct cofi__vector *bounds)
{
    const struct cofi__piece *pieces = stream->pieces.items;
    const struct cofi_time_conv *conv = &recording->info.time.conv;
    uint64_t told_ns = 0;
    for (size_t i = 0; i < stream->pieces.n; i++) {
        uint64_t ns = cofi_time_ns(conv, pieces[i].reference);
        if (!pieces[i].bytes || (bounds->n && !has_news(recording, told_ns, ns)))
            continue;
        struct cofi_time_bound *bound = cofi__vector_push(bounds);
        if (!bound)
            return COFI_ERR_NOMEM;
        *bound = (struct cofi_time_bound){pieces[i].stream_offset, pieces[i].reference, UINT64_MAX};
        if (bounds->n > 1)
            bound[-1].most = pieces[i].reference;
        told_ns = ns;
    }
    return 0;
}

static int make_bounds(struct cofi_recording *recording, size_t stream, struct cofi__vector *bounds)
{
    const struct cofi_recording_stream *s = cofi_recording_stream(recording, stream);
    struct reading r = {.recording = recording, .key = COFI__NO_KEY, .kept_key = COFI__NO_KEY,
                        .spaces = {COFI__VECTOR_OF(struct cofi__interval), COFI__VECTOR_OF(struct cofi__cr3_change)}};
    const struct cofi_clock_config clock = {.size = sizeof clock, .gen = COFI_PT, .time = recording->info.time,
                                            .reference_tsc = s->reference_tsc, .family = recording->info.family,
                                            .model = recording->info.model};
    COFI_TRY(cofi_clock_open(&r.clock, &clock));
    int status = read_stream(&r, stream);
    cofi_clock_close(r.clock);
    if (status >= 0)
        status = cofi__align_spaces(recording, s->tid < 0 ? s->cpu : -1, &r.spaces, bounds);
    free(r.spaces.intervals.items);
    free(r.spaces.changes.items);
    return status;
}

int cofi_recording_bounds(struct cofi_recording *recording, size_t stream, const struct cofi_time_bound **bounds,
                          size_t *n)
{
    *bounds = NULL;
    *n = 0;
    if (stream >= recording->streams.n)
        return 0;
    struct cofi__in_stream *s = (struct cofi__in_stream *)recording->streams.items + stream;
    bool by_pieces = pieces_tell(recording, &s->public);
    if (!by_pieces && !time_is_rare(&recording->info))
        return 0;
    if (!s->bounded) {
        s->bounds = (struct cofi__vector)COFI__VECTOR_OF(struct cofi_time_bound);
        COFI_TRY(by_pieces ? bounds_of_pieces(recording, s, &s->bounds) : make_bounds(recording, stream, &s->bounds));
        s->bounded = true;
    }
    *bounds = s->bounds.items;
    *n = s->bounds.n;
    return 0;
}
