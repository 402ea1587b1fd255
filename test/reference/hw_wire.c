/* SPDX-License-Identifier: MIT
 * Packets to bytes, by the figures: outcomes are collected, TIPs wait for them, addresses are compressed, timing and padding come in between,
 * and where an internal buffer is full all is lost. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "reference/hw.h"

bool hw_chance(struct hw *h, unsigned in_4096) { return in_4096 && hw_below(&h->seed, 4096) < in_4096; }

static void put(struct hw_wire *w, const uint8_t *bytes, unsigned n)
{
    if (!n)
        return;
    if (w->n + n > w->max) {
        w->bytes = realloc(w->bytes, w->max = (w->n + n) * 2);
        assert(w->bytes);
    }
    memcpy(w->bytes + w->n, bytes, n);
    w->n += n;
}

static void put_number(struct hw_wire *w, uint64_t v, unsigned n)
{
    uint8_t bytes[8];
    for (unsigned i = 0; i < n; i++)
        bytes[i] = (uint8_t)(v >> 8 * i);
    put(w, bytes, n);
}

/* ---- what needs no place: cycles, time, padding ---- */

/* [SDM Cycle Count Packet (CYC) Packet] */
static void put_cyc(struct hw *h)
{
    struct hw_wire *w = &h->wire;
    uint64_t count = w->cycles - w->cyc_sent;
    if (hw_has_skd007(h) && count >> 5 == 1)
        count += 32; /* its second byte with a CYC of f3 behind it looks like one that an OVF wrote over */
    uint8_t byte = (uint8_t)((count & 31) << 3 | (count > 31 ? 4 : 0) | 3);
    put(w, &byte, 1);
    for (count >>= 5; count; count >>= 7) {
        byte = (uint8_t)((count & 127) << 1 | (count > 127));
        put(w, &byte, 1);
    }
    w->cyc_sent = w->cycles;
}

static bool cyc_due(struct hw *h) { return h->config.cyc && h->wire.cycles > h->wire.cyc_sent && hw_below(&h->seed, 4); }

static void put_tsc(struct hw *h)
{
    struct hw_wire *w = &h->wire;
    w->outcomes = false;
    uint64_t art = w->tsc / 4; /* four ticks of the TSC are one of the crystal */
    put_number(w, 0x19, 1);
    put_number(w, w->tsc, 7);
    w->told_ticks = w->tsc;
    if (!h->config.mtc)
        return;
    bool wrong = hw_has_skz84(h) && h->nr && hw_below(&h->seed, 2); /* reserved bits are set, and there is a byte too many */
    const uint8_t tma[] = {0x02, 0x73, (uint8_t)art, (uint8_t)(art >> 8), wrong, (uint8_t)(w->tsc % 4), 0, 0};
    put(w, tma, wrong ? 8 : 7);
    w->mtc_sent = art >> h->config.mtc_freq;
}

static void put_padding(struct hw *h)
{
    static const uint8_t mnt[11] = {0x02, 0xc3, 0x88, 1, 2, 0x82, 2, 0x82, 2, 0x82, 8}, pads[7];
    if (h->config.plain || hw_below(&h->seed, 4)) {
        put(&h->wire, pads, 1 + hw_below(&h->seed, 7));
        return;
    }
    put(&h->wire, mnt, sizeof mnt);
}

/* Its event is that of another ratio. */
static void put_cbr(struct hw *h)
{
    struct hw_event e = hw_event(COFI_FLOW_CBR, COFI_NO_IP, COFI_NO_IP);
    e.a = (uint8_t)(h->truth.shown_cbr && hw_below(&h->seed, 2) ? h->truth.shown_cbr : 20 + hw_below(&h->seed, 8));
    h->wire.outcomes = false;
    put(&h->wire, (const uint8_t[]){0x02, 0x03, e.a, 0}, 4);
    if (e.a != h->truth.shown_cbr)
        hw_truth_somewhere(h, e);
    h->truth.shown_cbr = e.a;
}

/* Anything may stand before a packet that has no place of its own [PTREF 6.8]. */
static void between(struct hw *h)
{
    unsigned what = hw_below(&h->seed, 6);
    if (what == 0 && h->config.cyc && !h->wire.in_psb)
        put_cyc(h);
    else if (what == 1 && h->config.tsc && !h->wire.in_psb)
        put_tsc(h);
    else if (what == 2 && !h->wire.in_psb && !h->config.plain) /* libipt takes none between a PIP and its TIP */
        put_cbr(h);
    else
        put_padding(h);
}

/* ---- outcomes and the TIPs that wait for them ---- */

static void put_tnt(struct hw *h)
{
    struct hw_wire *w = &h->wire;
    unsigned n = w->bits_n;
    if (n > 6 || (h->config.tnt_most > 6 && hw_below(&h->seed, 4) == 0)) {
        put_number(w, 0xa302, 2);
        put_number(w, UINT64_C(1) << n | w->bits, 6);
    } else {
        put_number(w, UINT64_C(2) << n | w->bits << 1, 1);
    }
    w->bits = w->bits_n = 0;
    w->adrift_on = true;
    w->outcomes = true; /* MTC and CYC leave it so, for they need not be seen */
}

/* Any of the forms that give this address [SDM IP Compression]. */
static unsigned ip_code(struct hw *h, uint64_t ip)
{
    const uint64_t last = h->wire.last_ip;
    const bool right[7] = {[1] = ip >> 16 == last >> 16, [2] = ip >> 32 == last >> 32, [3] = (uint64_t)((int64_t)(ip << 16) >> 16) == ip,
        [4] = ip >> 48 == last >> 48, [6] = true};
    for (unsigned i = 1;; i = i % 6 + 1) {
        bool whole = i == 3 || i == 6;
        if (right[i] && (!h->wire.whole_ip || whole) && (h->config.ip_best || hw_below(&h->seed, 3)))
            return i;
    }
}

static void put_ip(struct hw *h, enum hw_ip_kind kind, uint64_t ip, size_t ran)
{
    static const uint8_t sizes[7] = {0, 2, 4, 6, 6, 0, 8};
    unsigned code = ip_code(h, ip);
    h->wire.outcomes &= kind == HW_TIP;
    hw_truth_place(h, ran, kind == HW_TIP || kind == HW_PGE || (kind == HW_FUP && hw_packet_en(h) && !h->wire.in_psb));
    put_number(&h->wire, code << 5 | (unsigned)kind, 1);
    put_number(&h->wire, ip, sizes[code]);
    h->wire.last_ip = ip;
    h->wire.whole_ip = false;
}

/* Either all of it is written or nothing. */
bool hw_flush(struct hw *h)
{
    struct hw_wire *w = &h->wire;
    if (w->losing)
        return false;
    if (w->bits_n) {
        put_tnt(h);
        h->truth.known = w->bits_mark;
    }
    for (unsigned i = 0; i < w->tips_n; i++) {
        if (hw_chance(h, h->config.filler))
            put_padding(h);
        put_ip(h, HW_TIP, w->tips[i].ip, w->tips[i].mark);
    }
    if (w->tips_n && h->truth.known < w->tips[w->tips_n - 1].mark)
        h->truth.known = w->tips[w->tips_n - 1].mark;
    w->tips_n = 0;
    return true;
}

void hw_loss_begin(struct hw *h)
{
    struct hw_wire *w = &h->wire;
    if (hw_below(&h->seed, 2))
        hw_flush(h);
    w->bits = w->bits_n = w->tips_n = 0;
    w->losing = true;
    h->beyond_libipt |= hw_packet_en(h); /* it goes on to the next branch before it believes that */
    hw_truth_cut(h);
}

/* libipt shows the way to a FUP only when the TIP comes: between the packets of an operation nothing is lost where it judges. */
static bool lost(struct hw *h)
{
    unsigned chance = h->config.loss * (h->truth.mode ? 8 : 1); /* it matters more */
    if (!h->wire.losing && !h->config.plain && hw_chance(h, chance))
        hw_loss_begin(h);
    return h->wire.losing;
}

/* eligible: a CYC may stand before it. */
bool hw_packet(struct hw *h, bool eligible, const uint8_t *bytes, unsigned n)
{
    if (lost(h))
        return false;
    hw_flush(h);
    while (hw_chance(h, h->config.filler))
        between(h);
    if (eligible && cyc_due(h))
        put_cyc(h);
    if (n) {
        h->wire.outcomes &= bytes[0] == 0x59;
        hw_truth_place(h, h->truth.n, false);
    }
    put(&h->wire, bytes, n);
    return true;
}

bool hw_short(struct hw *h, bool eligible, unsigned a, unsigned b)
{
    return hw_packet(h, eligible, (const uint8_t[]){(uint8_t)a, (uint8_t)b}, 2);
}

/* [SDM Taken/Not-taken (TNT) Packet] */
bool hw_tnt(struct hw *h, bool taken)
{
    struct hw_wire *w = &h->wire;
    if (h->config.dis_tnt)
        return false;
    h->mov_cr3_was_last = false;
    if (lost(h))
        return false;
    if (!w->bits_n && !w->tips_n && cyc_due(h))
        put_cyc(h);
    w->bits = w->bits << 1 | taken;
    w->bits_n++;
    w->bits_mark = h->anchor = h->truth.n;
    if (w->bits_n < h->config.tnt_most && !hw_chance(h, h->config.tnt_early))
        return true;
    return hw_flush(h);
}

/* [SDM Deferred TIPs] */
bool hw_tip(struct hw *h, uint64_t ip, bool may_defer)
{
    struct hw_wire *w = &h->wire;
    bool defers = may_defer && h->config.defer && (w->bits_n || w->tips_n || h->config.defer_without_tnt);
    if (!defers)
        return hw_ip(h, HW_TIP, ip);
    if (lost(h))
        return false;
    w->tips[w->tips_n++] = (struct hw_deferred){ip, h->truth.n};
    h->anchor = h->truth.n;
    return w->tips_n < 16 || hw_flush(h);
}

/* ---- other packets ---- */

bool hw_ip(struct hw *h, enum hw_ip_kind kind, uint64_t ip)
{
    h->beyond_libipt |= kind == HW_PGD && h->mov_cr3_was_last; /* docs/decisions/0305 */
    h->mov_cr3_was_last = false;
    if (!hw_packet(h, kind != HW_FUP, NULL, 0))
        return false;
    put_ip(h, kind, ip, h->truth.n);
    h->anchor = h->truth.n;
    if (kind != HW_FUP)
        hw_truth_found(h, kind == HW_PGD ? COFI_NO_IP : ip);
    if (!h->wire.in_psb)
        h->truth.known = h->truth.n;
    return true;
}

bool hw_no_ip(struct hw *h, enum hw_ip_kind kind)
{
    if (!hw_packet(h, kind != HW_FUP, (const uint8_t[]){(uint8_t)kind}, 1))
        return false;
    hw_truth_found(h, COFI_NO_IP);
    h->truth.known = h->truth.n;
    h->beyond_libipt |= h->mov_cr3_was_last; /* docs/decisions/0305 */
    return true;
}

bool hw_tsc(struct hw *h)
{
    if (!h->config.tsc || !hw_packet(h, false, NULL, 0))
        return false;
    put_tsc(h);
    return true;
}

bool hw_cbr(struct hw *h)
{
    if (!hw_packet(h, false, NULL, 0))
        return false;
    put_cbr(h);
    return true;
}

/* [SDM Paging Information (PIP) Packet] */
bool hw_pip(struct hw *h)
{
    uint64_t payload = h->cr3 >> 5 << 1 | h->nr;
    uint8_t bytes[8] = {0x02, 0x43};
    for (unsigned i = 0; i < 6; i++)
        bytes[2 + i] = (uint8_t)(payload >> 8 * i);
    if (!hw_packet(h, true, bytes, 8))
        return false;
    h->truth.paging = true;
    h->truth.paging_cr3 = h->cr3;
    h->truth.paging_nr = h->nr;
    return true;
}

bool hw_vmcs(struct hw *h)
{
    uint8_t bytes[7] = {0x02, 0xc8};
    for (unsigned i = 0; i < 5; i++)
        bytes[2 + i] = (uint8_t)(h->vmcs >> (12 + 8 * i));
    if (!hw_packet(h, true, bytes, 7))
        return false;
    h->truth.vmcs = true;
    h->truth.vmcs_base = h->vmcs;
    return true;
}

/* what: 1 in a transaction, 2 aborted [SDM MODE Packets] */
bool hw_mode_tsx(struct hw *h, unsigned what)
{
    if (!hw_short(h, true, 0x99, 0x20 | what))
        return false;
    h->truth.tsx = true;
    h->truth.tsx_in = what & 1;
    h->truth.tsx_abort = what & 2;
    return true;
}

bool hw_mode_exec(struct hw *h)
{
    unsigned byte = hw_mode_byte(h);
    if (!hw_short(h, true, 0x99, byte))
        return false;
    h->mode_sent = byte;
    h->mode_in_doubt = false;
    h->truth.mode = true;
    h->truth.mode_bits = hw_mode(h);
    h->truth.mode_if = byte & 4;
    return true;
}

/* All bytes of it but the first are overwritten. */
void hw_cut_cyc(struct hw *h, bool erratum)
{
    size_t start = h->wire.n;
    if (!h->config.cyc || h->wire.cycles == h->wire.cyc_sent)
        return;
    put_cyc(h);
    if (erratum)
        h->wire.n = start + 1;
}

/* An instruction's time. Some MTCs may be dropped, but not 256 [SDM Mini Time Counter (MTC) Packet]. */
void hw_tick(struct hw *h)
{
    struct hw_wire *w = &h->wire;
    unsigned cycles = hw_below(&h->seed, 50) ? hw_below(&h->seed, 5) : 700;
    w->cycles += cycles;
    w->tsc += cycles;
    if (!hw_trigger(h))
        w->cyc_sent = w->cycles;
    uint64_t now = w->tsc / 4 >> h->config.mtc_freq, due = now - w->mtc_sent;
    if (!h->config.mtc || !due || !hw_trigger(h) || (due < 150 && hw_below(&h->seed, 3)))
        return;
    if (!hw_short(h, true, 0x59, now & 0xff))
        return;
    w->mtc_sent = now;
    uint64_t ticks = (now << h->config.mtc_freq) * 4; /* a TSC may have come in between */
    w->told_ticks = w->told_ticks && w->told_ticks < ticks ? ticks : w->told_ticks;
}
