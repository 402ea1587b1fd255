/* SPDX-License-Identifier: MIT
 * A processor and a program for each seed, and their run. */
#include "reference/hw.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

uint64_t hw_ctl(const struct hw_config *c)
{
    uint64_t ctl = 1 | (uint64_t)c->cyc << 1 | (uint64_t)c->os << 2 | (uint64_t)c->user << 3 | (uint64_t)c->power << 4 | (uint64_t)c->ptw_fup << 5 |
        (uint64_t)c->cr3_filter << 7 | (uint64_t)c->mtc << 9 | (uint64_t)c->tsc << 10 | (uint64_t)c->disretc << 11 | (uint64_t)c->ptw << 12 |
        (uint64_t)c->branch << 13 | (uint64_t)c->mtc_freq << 14 | (uint64_t)c->event << 31 | (uint64_t)c->dis_tnt << 55;
    for (unsigned i = 0; i < 4; i++)
        ctl |= (uint64_t)c->range_use[i] << (32 + 4 * i);
    return ctl;
}

/* ---- which processor has which defect ---- */

static bool is_one_of(const struct hw *h, const char *models)
{
    char text[8];
    snprintf(text, sizeof text, " %x ", h->config.model);
    return h->config.family == 6 && strstr(models, text);
}

bool hw_has_bdm70(const struct hw *h) { return is_one_of(h, " 3d 5e 55 97 "); }
bool hw_has_bdm64(const struct hw *h) { return is_one_of(h, " 3d "); }
bool hw_has_skd007(const struct hw *h) { return is_one_of(h, " 5e "); }
bool hw_has_skd010(const struct hw *h) { return is_one_of(h, " 5e "); }
bool hw_has_skd022(const struct hw *h) { return is_one_of(h, " 5e 55 97 "); }
bool hw_has_skl014(const struct hw *h) { return is_one_of(h, " 5e 55 "); }
bool hw_has_skz84(const struct hw *h) { return is_one_of(h, " 55 "); }
bool hw_has_apl11(const struct hw *h) { return is_one_of(h, " 5f 86 97 "); }
bool hw_has_apl12(const struct hw *h) { return is_one_of(h, " 5f "); }

/* ---- choices ---- */

static bool one_in(struct hw *h, unsigned n) { return hw_below(&h->seed, n) == 0; }

/* Or where else: it is what may stop where a range is come to without a branch. */
static uint64_t a_mov_cr3(struct hw *h, const struct hw_segment *s, uint64_t otherwise)
{
    for (unsigned tries = 0; tries < 100; tries++) {
        const struct hw_insn *i = &s->at[s->starts[hw_below(&h->seed, (unsigned)s->starts_n)]];
        if (i->kind == HW_MOV_CR3)
            return i->ip;
    }
    return otherwise;
}

static void what_is_traced(struct hw *h, struct hw_config *c)
{
    unsigned who = hw_below(&h->seed, 4);
    c->user = who != 1;
    c->os = who != 0;
    c->cr3_filter = one_in(h, 5);
    c->disretc = one_in(h, 4);
    c->branch = !one_in(h, 25);
    c->tsc = one_in(h, 2);
    c->mtc = one_in(h, 2);
    c->cyc = one_in(h, 2);
    c->mtc_freq = hw_below(&h->seed, 4);
    if (h->seed >> 33 & 1) /* of its counter TMA's 16 bits do not tell all bits that an MTC has */
        c->mtc_freq += 4 + 3 * (h->seed >> 34 & 1);
    c->power = one_in(h, 2);
    c->ptw = !one_in(h, 4);
    c->ptw_fup = one_in(h, 2);
    c->event = !c->plain && one_in(h, 3);
    c->dis_tnt = c->gaps && !c->plain && one_in(h, 8);
    for (unsigned i = 0; i < 4 && one_in(h, c->plain ? 4 : 2); i++) {
        const struct hw_segment *s = &h->code.segments[hw_below(&h->seed, HW_SEGMENTS)];
        bool stop = one_in(h, 4);
        c->range_use[i] = stop ? 2 : 1;
        c->range_base[i] = s->base + (one_in(h, 2) ? 0 : hw_below(&h->seed, (unsigned)s->size));
        if (stop)
            c->range_base[i] = a_mov_cr3(h, s, c->range_base[i]);
        c->range_limit[i] = c->range_base[i] + (stop ? hw_below(&h->seed, 40) : 100 + hw_below(&h->seed, 2000));
    }
}

/* Which of the liberties it takes. */
static void what_it_is(struct hw *h, struct hw_config *c)
{
    c->defer = !c->dis_tnt && one_in(h, 2);
    c->defer_without_tnt = one_in(h, 2);
    c->tnt_most = one_in(h, 2) ? 6 : 1 + hw_below(&h->seed, 47);
    c->tnt_early = one_in(h, 2) ? 0 : hw_below(&h->seed, 1500);
    if (c->defer) { /* what waits is forced out only where it must be */
        c->tnt_most = c->tnt_most > 6 ? 47 : 6;
        c->tnt_early = 0;
    }
    c->ip_best = one_in(h, 2);
    c->mode_always = one_in(h, 2);
    c->ret_clear = c->plain || one_in(h, 2);
    c->pge_first = one_in(h, 2);
    c->vmx = one_in(h, 2);
}

static void how_often(struct hw *h, struct hw_config *c)
{
    c->interrupt = one_in(h, 4) ? 0 : hw_below(&h->seed, 80);
    c->fault = one_in(h, 4) ? 0 : hw_below(&h->seed, 20);
    c->loss = one_in(h, 2) ? 0 : hw_below(&h->seed, 40);
    c->loss_end = 100 + hw_below(&h->seed, 3000);
    c->psb = 1 + hw_below(&h->seed, 60);
    if (c->loss_end % 8 == 0) { /* a storm: one overflow after the other, PSB+s in and between them */
        c->loss *= 16;
        c->psb *= 8;
    }
    c->filler = one_in(h, 3) ? 0 : hw_below(&h->seed, 1500);
    c->power_event = one_in(h, 2) ? 0 : hw_below(&h->seed, 30);
    c->toggle = one_in(h, 3) ? 1 : hw_below(&h->seed, 12);
    c->abort = one_in(h, 2) ? 0 : hw_below(&h->seed, 400);
    c->block = c->plain || one_in(h, 2) ? 0 : hw_below(&h->seed, 30);
    if (h->code.calm) {
        c->interrupt /= 40;
        c->fault /= 20;
        c->loss /= 20;
        c->psb = c->psb / 20 + 1;
        c->toggle /= 4;
        c->mtc &= one_in(h, 2);
        c->cyc = false; /* where packets are off for long, it would count what the next TSC has counted, too */
    }
}

/* [ERR APL12]'s behind those that leave no gaps. */
static void whose_errata(struct hw *h, struct hw_config *c)
{
    static const uint8_t models[] = {0x3d, 0x3d, 0x5e, 0x5e, 0x55, 0x86, 0x97, 0x5e, 0x5f, 0x5f};
    if (c->plain || !one_in(h, 2))
        return;
    c->family = 6;
    c->model = models[hw_below(&h->seed, c->gaps ? sizeof models : 7)];
    c->cr3_filter &= !hw_has_skd022(h); /* a VM exit at a VM entry that ends the context looks like one that ends tracing */
}

/* Nothing comes before the first PSB+. */
static void begin(struct hw *h)
{
    unsigned loss = h->config.loss, filler = h->config.filler;
    h->config.loss = h->config.filler = 0;
    hw_enable(h);
    h->config.loss = loss;
    h->config.filler = filler;
}

void hw_run(struct hw *h, uint64_t seed, bool gaps)
{
    memset(h, 0, sizeof *h);
    h->seed = seed * UINT64_C(0x9e3779b97f4a7c15) | 1;
    hw_code_make(&h->code, seed);
    h->config.gaps = gaps;
    h->config.plain = one_in(h, 3);
    h->beyond_libipt = !h->config.plain;
    what_is_traced(h, &h->config);
    what_it_is(h, &h->config);
    how_often(h, &h->config);
    whose_errata(h, &h->config);
    h->truth.shown_mode = 64;
    h->truth.disabled_ip = COFI_NO_IP;
    h->wire.tsc = 1000000 + 1000 * (seed % 48); /* soon more than TMA and MTC tell */
    h->mode_sent = 0xff;
    h->cr3 = 0x1000;
    h->vmcs = 0x5000;
    h->iflag = true;
    h->segment = h->code.only32 ? HW_USER32 : hw_below(&h->seed, HW_GUEST);
    h->config.vmx &= !h->code.only32;
    h->ip = h->code.segments[h->segment].base;
    begin(h);
    for (unsigned n = (1000 + hw_below(&h->seed, 4000)) * (h->code.calm ? 4 : 1); n; n--) {
        hw_before(h);
        hw_step(h);
    }
    if (one_in(h, 2))
        hw_flush(h);
    hw_truth_end(h);
}

void hw_free(struct hw *h)
{
    free(h->truth.ran);
    free(h->truth.compressed);
    free(h->truth.apart);
    free(h->truth.places);
    free(h->truth.events);
    free(h->truth.psbs);
    free(h->wire.bytes);
}
