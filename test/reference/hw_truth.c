/* SPDX-License-Identifier: MIT
 * What ran and what happened, as far as the packets that were written tell. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "reference/hw.h"

void hw_ran(struct hw *h, uint64_t ip)
{
    struct hw_truth *t = &h->truth;
    if (h->wire.losing || h->wire.adrift)
        return;
    if (t->n == t->max) {
        t->ran = realloc(t->ran, (t->max = t->max ? t->max * 2 : 4096) * sizeof *t->ran);
        t->compressed = realloc(t->compressed, t->max * sizeof *t->compressed);
        t->apart = realloc(t->apart, t->max * sizeof *t->apart);
        assert(t->ran && t->compressed && t->apart);
    }
    t->compressed[t->n] = false;
    t->apart[t->n] = t->shown_cr3 == HW_APART;
    t->ran[t->n++] = ip;
}

void hw_truth_place(struct hw *h, size_t n, bool resumes)
{
    struct hw_truth *t = &h->truth;
    if (t->places_n == t->places_max) {
        t->places = realloc(t->places, (t->places_max = t->places_max ? t->places_max * 2 : 1024) * sizeof *t->places);
        assert(t->places);
    }
    t->places[t->places_n++] = (struct hw_told){.offset = h->wire.n, .n = n, .ticks = h->wire.told_ticks, .resumes = resumes, .outcomes = h->wire.outcomes};
}

static void add(struct hw_truth *t, struct hw_event e)
{
    if (t->events_n == t->events_max) {
        t->events = realloc(t->events, (t->events_max = t->events_max ? t->events_max * 2 : 1024) * sizeof *t->events);
        assert(t->events);
    }
    t->events[t->events_n++] = e;
}

/* Here, which packets have told. */
void hw_truth_add(struct hw *h, struct hw_event e)
{
    h->truth.known = h->truth.n;
    e.lo = e.at = h->truth.n;
    add(&h->truth, e);
}

void hw_truth_somewhere(struct hw *h, struct hw_event e)
{
    e.lo = h->truth.known;
    e.at = h->truth.n;
    add(&h->truth, e);
}

void hw_truth_wait(struct hw *h, struct hw_event e)
{
    assert(h->truth.waiting_n < 16);
    h->truth.waiting[h->truth.waiting_n++] = e;
}

/* A FUP that is not the overflow's own: packets are off behind that, unless its own may be missing [ERR SKD010]. */
void hw_truth_other_fup(struct hw *h, uint64_t ip)
{
    if (h->wire.adrift_on)
        hw_truth_found(h, ip);
    if (!hw_has_skd010(h))
        hw_truth_overflow(h, COFI_NO_IP);
}

/* RSM and SIPI have no address [PTREF 5.8]. */
static bool is_nowhere(const struct hw_event *e) { return e->kind == COFI_FLOW_CFE && (e->a == 4 || e->a == 5); }

/* ip: COFI_NO_IP if no address was told */
void hw_truth_flush(struct hw *h, uint64_t ip)
{
    struct hw_truth *t = &h->truth;
    if (ip != COFI_NO_IP)
        hw_truth_other_fup(h, ip);
    for (unsigned i = 0; i < t->waiting_n; i++) {
        struct hw_event e = t->waiting[i];
        if (e.ip == COFI_NO_IP && !is_nowhere(&e))
            e.ip = ip;
        hw_truth_somewhere(h, e);
    }
    t->waiting_n = 0;
}

struct hw_event hw_event(unsigned kind, uint64_t ip, uint64_t target)
{
    return (struct hw_event){.kind = (uint8_t)kind, .ip = ip, .target = target};
}

void hw_truth_paging(struct hw *h, uint64_t ip)
{
    struct hw_truth *t = &h->truth;
    struct hw_event e = hw_event(COFI_FLOW_PAGING, ip, COFI_NO_IP);
    t->paging = false;
    e.value = t->shown_cr3 = t->paging_cr3;
    e.a = t->shown_nr = t->paging_nr;
    hw_truth_somewhere(h, e);
}

void hw_truth_vmcs(struct hw *h, uint64_t ip)
{
    struct hw_event e = hw_event(COFI_FLOW_VMCS, ip, COFI_NO_IP);
    h->truth.vmcs = false;
    e.value = h->truth.shown_vmcs = h->truth.vmcs_base;
    hw_truth_somewhere(h, e);
}

/* Shown where it is another one, or where it tells RFLAGS.IF, too. */
void hw_truth_mode(struct hw *h, uint64_t ip)
{
    struct hw_truth *t = &h->truth;
    struct hw_event e = hw_event(COFI_FLOW_MODE, ip, COFI_NO_IP);
    t->mode = false;
    if (t->mode_bits == t->shown_mode && !h->config.event)
        return;
    e.a = (uint8_t)(t->shown_mode = t->mode_bits);
    e.b = t->mode_if;
    e.c = h->config.event;
    hw_truth_somewhere(h, e);
}

void hw_truth_tsx(struct hw *h, uint64_t ip)
{
    struct hw_truth *t = &h->truth;
    struct hw_event e = hw_event(COFI_FLOW_TSX, ip, COFI_NO_IP);
    t->tsx = false;
    e.a = t->shown_tsx = t->tsx_in;
    e.b = t->tsx_abort;
    hw_truth_somewhere(h, e);
}

void hw_truth_target(struct hw *h, uint64_t ip)
{
    struct hw_truth *t = &h->truth;
    if (t->waiting_n)
        hw_truth_flush(h, COFI_NO_IP);
    if (t->paging)
        hw_truth_paging(h, ip);
    if (t->vmcs)
        hw_truth_vmcs(h, ip);
    if (t->mode)
        hw_truth_mode(h, ip);
    if (t->tsx)
        hw_truth_tsx(h, ip);
}

/* Packets are lost from here on: what ran behind the last one that was written is not told. */
void hw_truth_cut(struct hw *h)
{
    struct hw_truth *t = &h->truth;
    t->n = t->known;
    for (size_t i = t->events_n; i-- && t->events[i].at > t->n;)
        t->events[i].at = t->n;
    for (size_t i = t->psbs_n; i-- && t->psbs[i].n > t->n;)
        t->psbs[i].n = t->n;
    for (size_t i = t->places_n; i-- && t->places[i].n > t->n;)
        t->places[i].n = t->n;
}

/* Where an overflow led to; it is told when that is. */
void hw_truth_overflow(struct hw *h, uint64_t ip)
{
    struct hw_event e = hw_event(COFI_FLOW_OVERFLOW, COFI_NO_IP, COFI_NO_IP);
    if (!h->truth.overflow)
        return;
    h->truth.overflow = false;
    e.target = ip;
    hw_truth_add(h, e);
}

void hw_truth_found(struct hw *h, uint64_t ip)
{
    if (!h->wire.adrift || h->wire.losing)
        return;
    h->wire.adrift = false;
    h->truth.places[h->truth.places_n - 1].afresh = true;
    hw_truth_overflow(h, ip);
    h->truth.enabled = ip != COFI_NO_IP;
    if (h->truth.paging) /* from before the overflow, or off any instruction's */
        hw_truth_paging(h, ip);
    if (h->truth.vmcs)
        hw_truth_vmcs(h, ip);
}

void hw_truth_end(struct hw *h)
{
    hw_truth_cut(h);
    hw_truth_flush(h, COFI_NO_IP);
    hw_truth_overflow(h, COFI_NO_IP);
}
