/* SPDX-License-Identifier: MIT
 * The traces of test_hardware.c where pages of the code are missing: what is shown did run, in order and where the packets tell it; all else
 * is in gaps; and all that the packets and the code that there is allow to show is shown.
 *
 * COFI_SEED, COFI_COUNT and COFI_SAVE as there. COFI_WHY=1: what was shown of each trace. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/error.h"
#include "hardware.h"

/* ---- which code there is ---- */

enum { SPACES = 2 /* with CR3 HW_APART, and else */ };
static bool present[SPACES][HW_SEGMENTS][HW_BYTES];
static struct cofi_image *images[SPACES];

static void tear_pages(uint64_t *random, bool pages[HW_SEGMENTS][HW_BYTES])
{
    unsigned share = hw_below(random, 4) ? hw_below(random, 31) : 0;
    unsigned size = 16u << hw_below(random, 7), none = hw_below(random, 4) ? 0 : 1 + hw_below(random, 255); /* of whole segments, as where there is no kernel */
    for (unsigned i = 0; i < HW_SEGMENTS; i++)
        for (size_t at = 0; at < HW_BYTES; at += size) {
            bool there = hw_below(random, 100) >= share && !(none >> i & 1);
            for (size_t k = at; k < at + size && k < HW_BYTES; k++)
                pages[i][k] = there && k < hw.code.segments[i].size;
        }
}

static struct cofi_image *image_of_pages(bool pages[HW_SEGMENTS][HW_BYTES])
{
    struct cofi_image *image;
    assert_int_equal(cofi_image_open(&image), 0);
    for (unsigned i = 0; i < HW_SEGMENTS; i++) {
        const struct hw_segment *s = &hw.code.segments[i];
        for (size_t from = 0, to; from < s->size; from = to) {
            for (to = from; to < s->size && pages[i][to] == pages[i][from]; to++) {
            }
            if (pages[i][from])
                assert_int_equal(cofi_image_map_bytes(image, 0, s->base + from, s->bytes + from, to - from, "code"), 0);
        }
    }
    return image;
}

static const struct cofi_image *space(void *opaque, uint64_t cr3, uint64_t vmcs, bool non_root)
{
    (void)opaque, (void)vmcs, (void)non_root;
    return images[cr3 == HW_APART];
}

static bool is_there(const struct hw_insn *insn, bool apart)
{
    for (unsigned i = 0; i < HW_SEGMENTS; i++) {
        size_t at = insn->ip - hw.code.segments[i].base;
        if (at < hw.code.segments[i].size)
            return present[apart][i][at] && present[apart][i][at + insn->length - 1u];
    }
    return false;
}

/* ---- what must be shown ---- */

enum { MAY, MUST, UNITS_DOUBTED = 1024, TIPS_DOUBTED = 64 /* until the processor is believed not to defer TIPs (decision 0619) */ };

static bool takes_packet(const struct hw_insn *i)
{
    return (i->kind >= HW_JCC && i->kind <= HW_FAR_SAME && i->kind != HW_JMP && i->kind != HW_CALL) || i->kind == HW_VMENTRY;
}

struct reader {
    size_t place;   /* the next of truth.places */
    unsigned calls; /* on the stack of returns */
    bool lost;
    bool doubtful;  /* whether anything ran since the overflow */
    unsigned units, tips; /* outcomes and targets that were read (a decoder has read no fewer); of these, targets of indirect JMPs and CALLs */
    size_t from;    /* where what is read last began */
};

/* Packets that tell that execution is at the instruction. */
static void read_places(struct reader *r, size_t at)
{
    const struct hw_truth *t = &hw.truth;
    for (; r->place < t->places_n && t->places[r->place].n <= at; r->place++) {
        const struct hw_told *p = &t->places[r->place];
        if (p->n < at)
            continue;
        if (r->doubtful && p->resumes)
            r->from = at;
        r->doubtful |= p->doubtful;
        r->lost |= p->afresh;
        if (!p->resumes || !r->lost || (p->outcomes && (hw.config.defer || r->units < UNITS_DOUBTED || r->tips < TIPS_DOUBTED)))
            continue;
        r->lost = false;
        r->calls = 0;
        r->from = at;
    }
}

/* False: a RET returns where nobody has seen a CALL. */
static bool follow(struct reader *r, const struct hw_insn *insn, bool compressed)
{
    bool pushes = insn->kind == HW_CALL_IND || (insn->kind == HW_CALL && insn->target != insn->next);
    if (insn->kind == HW_RET && compressed && !r->calls)
        return false;
    r->calls -= insn->kind == HW_RET && r->calls;
    r->calls += pushes && r->calls < 64;
    return true;
}

/* A conditional branch whose TIP.PGD stands in place of its outcome. */
static bool leaves(const struct reader *r, size_t i)
{
    const struct hw_truth *t = &hw.truth;
    const struct hw_told *next = &t->places[r->place];
    return r->place < t->places_n && next->n == i + 1 && (hw.wire.bytes[next->offset] & 31) == HW_PGD;
}

/* A branch whose TIP.PGD, which other packets may stand before, is neither an outcome nor a target. */
static bool ends_tracing(const struct reader *r, size_t i)
{
    const struct hw_truth *t = &hw.truth;
    for (size_t k = r->place; k < t->places_n && t->places[k].n <= i + 1; k++)
        if (t->places[k].n == i + 1 && (hw.wire.bytes[t->places[k].offset] & 31) == HW_PGD)
            return true;
    return false;
}

/* Whether the first packet behind instruction i that is about the flow is a TIP.PGD, or a FUP of an event, each of which is looked for in the code. */
static bool is_looked_for(const struct reader *r, size_t i)
{
    const struct hw_truth *t = &hw.truth;
    for (size_t k = r->place; k < t->places_n; k++) {
        unsigned kind = hw.wire.bytes[t->places[k].offset] & 31;
        if (kind == HW_PGD || kind == HW_FUP)
            return t->places[k].n > i && !t->places[k].resumes;
        if (kind != 0x19) /* TSC */
            return false;
    }
    return false;
}

/* A reader of packets that knows the code that is there and goes on at the first packet that allows it. What it has read since the last branch
 * before a gap need not be shown, but where a packet is looked for. */
static uint8_t *what_must_be_shown(void)
{
    const struct hw_truth *t = &hw.truth;
    struct reader r = {.lost = true};
    uint8_t *must = calloc(t->n + 1, 1);
    for (size_t i = 0; i < t->n; i++) {
        const struct hw_insn *insn = hw_code_find(&hw.code, t->ran[i]);
        read_places(&r, i);
        if (!r.lost && !r.doubtful && !is_there(insn, t->apart[i]) && is_looked_for(&r, i))
            memset(must + r.from, MUST, i - r.from);
        r.lost |= !is_there(insn, t->apart[i]);
        if (r.lost)
            continue;
        bool outcome = (insn->kind == HW_JCC || t->compressed[i]) && !leaves(&r, i);
        bool event = r.doubtful && !outcome; /* the TIP may be one's that came before all this */
        if (takes_packet(insn) && event) {
            r.from = i + 1;
            r.calls = 0;
        } else if (takes_packet(insn)) {
            memset(must + r.from, MUST, i + 1 - r.from);
            r.from = i + 1;
            bool counts = !ends_tracing(&r, i);
            r.units += counts;
            r.tips += counts && (insn->kind == HW_JMP_IND || insn->kind == HW_CALL_IND);
        }
        r.doubtful &= !takes_packet(insn);
        if (takes_packet(insn) && event)
            continue;
        r.lost = !follow(&r, insn, t->compressed[i]);
    }
    return must;
}

/* ---- against the truth ---- */

static size_t place_of(uint64_t offset, const struct said *said)
{
    const struct hw_truth *t = &hw.truth;
    for (size_t lo = 0, hi = t->places_n; lo < hi;) {
        size_t mid = lo + (hi - lo) / 2;
        if (t->places[mid].offset == offset)
            return t->places[mid].n;
        if (t->places[mid].offset < offset)
            lo = mid + 1;
        else
            hi = mid;
    }
    if (offset != UINT64_MAX)
        fail_msg("seed %lu: no packet begins at %#lx, where a gap ends; %s", seed_now, offset, said->gap);
    return t->n;
}

static bool is_doubtful_at(size_t n)
{
    const struct hw_truth *t = &hw.truth;
    for (size_t i = 0; i < t->places_n && t->places[i].n <= n; i++)
        if (t->places[i].n == n && t->places[i].doubtful)
            return true;
    return false;
}

/* Where nothing tells a gap from what an erratum does, as many instructions may be left out behind an event; at: so far. */
static size_t left_out_by_errata(const struct hw_event *e, size_t at)
{
    if (hw.config.dis_tnt) /* a loop may have come back to where the packet has it */
        return SIZE_MAX;
    if ((e->kind == COFI_FLOW_OVERFLOW || e->kind == COFI_FLOW_ENABLED) && is_doubtful_at(at)) /* whose FUP that was is not told any more */
        return SIZE_MAX;
    if (hw_has_bdm64(&hw)) /* no code there, or the wrong target of the branch before an abort */
        return SIZE_MAX;
    return e->kind != COFI_FLOW_ASYNC && hw_has_skd022(&hw); /* no VM entry there, or none that was seen */
}

/* Between gaps, what ran with nothing left out; behind one, what ran behind the packet at which it ends. headless: nothing tells where execution is
 * at first. */
static void assert_ran_from(const struct said *said, size_t first, bool headless, uint8_t *shown)
{
    const struct hw_truth *t = &hw.truth;
    size_t at = first, event = 0;
    uint64_t gap = 0;
    for (size_t i = 0; i <= said->n; i++) {
        for (; event < said->events_n && said->events[event].at == i; event++) {
            const struct hw_event *e = &said->events[event];
            bool is_gap = e->kind == COFI_FLOW_GAP;
            if (!is_gap && e->kind != COFI_FLOW_ASYNC && e->kind != COFI_FLOW_ASYNC_DISABLED && e->kind != COFI_FLOW_ENABLED && e->kind != COFI_FLOW_OVERFLOW)
                continue;
            size_t n = place_of(is_gap ? gap = e->value : e->offset, said);
            if (n < at || (!is_gap && !(headless && !i) && n - at > left_out_by_errata(e, at)))
                fail_msg("seed %lu: the %s to %#lx at %#lx ends at instruction %zu, at %zu; %s", seed_now, is_gap ? "gap" : cofi_flow_event_name(e->kind), is_gap ? gap : e->ip, e->offset, n,
                    at, said->gap);
            at = n;
        }
        if (i == said->n)
            return;
        if (at >= t->n || said->ips[i] != t->ran[at])
            fail_msg("seed %lu: instruction %zu: %#lx behind%s, ran %#lx behind%s; last gap up to %#lx; first %s", seed_now, i, said->ips[i],
                way_to(said->ips, i), at < t->n ? t->ran[at] : 0, way_to(t->ran, at), gap, said->gap);
        shown[at++] = 1;
    }
}

static void assert_ran(const struct said *said, size_t first, uint8_t *shown) { assert_ran_from(said, first, false, shown); }

static void assert_shown(const struct said *said, const uint8_t *must, const uint8_t *shown)
{
    const struct hw_truth *t = &hw.truth;
    if (hw.config.dis_tnt) /* a loop that comes back to where a packet has it is shown once, whichever time that was */
        return;
    for (size_t i = 0; i < t->n; i++)
        if (must[i] == MUST && !shown[i])
            fail_msg("seed %lu: instruction %zu of %zu is not shown: %#lx behind%s; first %s", seed_now, i, t->n, t->ran[i], way_to(t->ran, i),
                said->gap);
}

/* What needs no code to be known. */
static bool is_told(unsigned kind)
{
    static const uint64_t needs_place = 1 << COFI_FLOW_ENABLED | 1 << COFI_FLOW_GAP | 1 << COFI_FLOW_ASYNC | 1 << COFI_FLOW_ASYNC_DISABLED | 1 << COFI_FLOW_DISABLED |
        1 << COFI_FLOW_MODE | 1 << COFI_FLOW_TSX | 1 << COFI_FLOW_CODE;
    return !(needs_place >> kind & 1);
}

static const struct hw_event *next_of(const struct hw_event *events, size_t n, size_t *at, unsigned kind)
{
    while (*at < n && events[*at].kind != kind)
        ++*at;
    return *at < n ? &events[(*at)++] : NULL;
}

static bool same_or_unknown(uint64_t told, uint64_t truth) { return told == truth || told == COFI_NO_IP; }

static bool same_values(const struct hw_event *told, const struct hw_event *truth)
{
    return told->value == truth->value && told->a == truth->a && told->b == truth->b && told->c == truth->c;
}

/* Where nothing has told yet that EventEn is set, a MODE.Exec's FUP behind an OVF passes for where tracing goes on, and what stands before a branch for
 * one that has a place (docs/limits.md). */
static bool may_be_placed_wrongly(const struct hw_event *truth)
{
    return truth->ip == COFI_NO_IP && hw.config.event && !configuration(NULL).ctl_known;
}

static bool same_event(const struct hw_event *told, const struct hw_event *truth)
{
    return same_values(told, truth) && (told->ip == truth->ip || may_be_placed_wrongly(truth)) && same_or_unknown(told->target, truth->target);
}

/* CR3 and VMCS of which an overflow took the TIP are told at once where code is missing, else not at all. */
static bool may_be_more(unsigned kind) { return kind == COFI_FLOW_PAGING || kind == COFI_FLOW_VMCS; }

static void fail_event(const struct hw_event *e, const char *what, const struct said *said)
{
    fail_msg("seed %lu: %s: %s at %#lx: ip %lx target %lx value %lx a%x b%x c%x behind %zu; first %s", seed_now, what,
        cofi_flow_event_name((enum cofi_flow_event_kind)e->kind), e->offset, e->ip, e->target, e->value, e->a, e->b, e->c, e->at, said->gap);
}

/* All of the truth, and those that have an address where it is. */
static void assert_kind(const struct said *said, unsigned kind)
{
    const struct hw_truth *t = &hw.truth;
    const struct hw_event *told, *truth;
    for (size_t i = 0, k = 0; (truth = next_of(t->events, t->events_n, &k, kind));) {
        do
            told = next_of(said->events, said->events_n, &i, kind);
        while (told && may_be_more(kind) && !same_values(told, truth));
        if (!told || !same_values(told, truth))
            fail_event(truth, "not told", said);
    }
    for (size_t i = 0, k = 0; (told = next_of(said->events, said->events_n, &i, kind));) {
        do
            truth = told->ip == COFI_NO_IP ? told : next_of(t->events, t->events_n, &k, kind);
        while (truth && !same_event(told, truth));
        if (!truth)
            fail_event(told, "is not so", said);
    }
}

/* Of each kind all, in order; where the code is missing, without its address. */
static void assert_events(const struct said *said)
{
    for (unsigned kind = 0; kind < COFI_FLOW_EVENT_KINDS; kind++)
        if (is_told(kind))
            assert_kind(said, kind);
}

/* From a few of them to the end, and from each to the next one, as if the trace had nothing else. */
static void from_psbs(struct cofi_flow *flow, struct cofi_flow_config config, uint8_t *shown)
{
    const struct hw_truth *t = &hw.truth;
    if (hw.config.event && !config.ctl_known) /* nothing may have told yet that EventEn is set */
        return;
    for (size_t i = 0; i < t->psbs_n; i += 1 + t->psbs_n / 8) {
        struct said said = {0};
        if (t->psbs[i].doubtful)
            continue;
        assert_int_equal(cofi_flow_seek(flow, t->psbs[i].offset), 0);
        all(flow, config.want_time, &said, NULL);
        assert_ran(&said, t->psbs[i].n, shown);
        forget(&said);
    }
    for (size_t i = 0; i < t->psbs_n; i++) {
        struct said said = {0};
        if (t->psbs[i].doubtful)
            continue;
        size_t from = t->psbs[i].offset, to = i + 1 < t->psbs_n ? t->psbs[i + 1].offset : hw.wire.n;
        config.bytes = hw.wire.bytes + from;
        config.n = to - from;
        config.offset = from;
        struct cofi_flow *piece = flow_of(&config);
        all(piece, config.want_time, &said, NULL);
        assert_ran(&said, t->psbs[i].n, shown);
        cofi_flow_close(piece);
        forget(&said);
    }
}

/* The first PSB behind it stands right behind an OVF that is not seen, so that the FUP that follows passes for an event's. */
static bool is_doubtful_from(size_t offset)
{
    const struct hw_truth *t = &hw.truth;
    size_t psb = 0;
    while (psb < t->psbs_n && t->psbs[psb].offset < offset)
        psb++;
    if (psb == t->psbs_n || !t->psbs[psb].doubtful)
        return false;
    for (size_t i = 0; i < t->places_n; i++) {
        size_t at = t->places[i].offset;
        if (at >= offset && at < t->psbs[psb].offset && hw.wire.bytes[at] == 0x02 && hw.wire.bytes[at + 1] == 0xf3)
            return false;
    }
    return true;
}

/* From some packets on, as where the bytes of a ring are known from there. Which mode they are in is told later. */
static void from_packets(struct cofi_flow_config config, uint64_t random, uint8_t *shown)
{
    const struct hw_truth *t = &hw.truth;
    if (hw.config.event && !config.ctl_known)
        return;
    config.synced = true;
    config.mode = COFI_MODE_LATER;
    for (unsigned i = 0; i < 8 && t->places_n; i++) {
        const struct hw_told *from = &t->places[hw_below(&random, (unsigned)t->places_n)];
        struct said said = {0};
        if ((hw.wire.bytes[from->offset] & 7) == 4 || is_doubtful_from(from->offset)) /* BIP: that a block is open is not told again */
            continue;
        config.bytes = hw.wire.bytes + from->offset;
        config.n = hw.wire.n - from->offset;
        config.offset = from->offset;
        struct cofi_flow *flow = flow_of(&config);
        all(flow, config.want_time, &said, NULL);
        assert_ran_from(&said, from->n, true, shown);
        cofi_flow_close(flow);
        forget(&said);
    }
}

/* Cut anywhere, as where a buffer is full or the tracer was stopped. */
static void up_to_cuts(struct cofi_flow_config config, uint64_t random, uint8_t *shown)
{
    for (unsigned i = 0; i < 8 && hw.wire.n; i++) {
        struct said said = {0};
        config.n = hw_below(&random, (unsigned)hw.wire.n);
        struct cofi_flow *flow = flow_of(&config);
        all(flow, config.want_time, &said, NULL);
        assert_ran(&said, 0, shown);
        cofi_flow_close(flow);
        forget(&said);
    }
}

static void tell(const uint8_t *must, const uint8_t *shown)
{
    size_t n = 0, musts = 0;
    for (size_t i = 0; i < hw.truth.n; i++) {
        n += shown[i];
        musts += must[i] == MUST;
    }
    print_message("seed %lu: %zu ran, %zu shown, of these %zu must; defer %d\n", seed_now, hw.truth.n, n, musts, hw.config.defer);
}

static void judge(uint64_t seed)
{
    struct said said = {0};
    struct log log = {0};
    uint64_t random = seed * 2 + 1;
    seed_now = seed;
    hw_run(&hw, seed, true);
    save();
    tear_pages(&random, present[0]);
    memcpy(present[1], present[0], sizeof *present);
    bool apart = seed % 4 == 2;
    if (apart)
        tear_pages(&random, present[1]);
    for (unsigned i = 0; i < SPACES; i++)
        images[i] = image_of_pages(present[i]);
    struct cofi_flow_config config = configuration(images[0]);
    config.space = apart ? space : NULL;
    struct cofi_flow *flow = flow_of(&config);
    uint8_t *must = what_must_be_shown(), *shown = calloc(hw.truth.n + 1, 1);
    all(flow, config.want_time, &said, &log);
    assert_ran(&said, 0, shown);
    assert_shown(&said, must, shown);
    assert_events(&said);
    if (getenv("COFI_WHY"))
        tell(must, shown);
    assert_same_again(flow, &config, &log);
    from_psbs(flow, config, shown);
    up_to_cuts(config, random, shown);
    from_packets(config, random, shown);
    cofi_flow_close(flow);
    assert_same_in_pieces(config, &log);
    assert_same_by_threads(&config, &log);
    assert_same_coverage(&config, &said);
    assert_same_at_other_times(config, &said);
    assert_true_times(&said);
    for (unsigned i = 0; i < SPACES; i++)
        cofi_image_close(images[i]);
    forget(&said);
    free(must);
    free(shown);
    free(log.words);
    hw_free(&hw);
}

static void what_is_shown_of_code_with_holes_is_what_ran(void **state)
{
    (void)state;
    each_seed(judge);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_shown_of_code_with_holes_is_what_ran),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
