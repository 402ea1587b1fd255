/* SPDX-License-Identifier: MIT
 * Packets that are no flow: sleep and its end, blocks of items, triggers. */
#include "reference/hw.h"

/* ---- power [PTREF 6.5] ---- */

static bool put_mwait(struct hw *h)
{
    struct hw_event e = hw_event(COFI_FLOW_MWAIT, COFI_NO_IP, COFI_NO_IP);
    e.a = (uint8_t)(0x10 * hw_below(&h->seed, 7));
    e.b = (uint8_t)hw_below(&h->seed, 2);
    const uint8_t bytes[10] = {0x02, 0xc2, e.a, 0, 0, 0, e.b};
    if (!hw_packet(h, true, bytes, 10))
        return false;
    hw_truth_wait(h, e);
    return true;
}

/* It is entered where the EXSTOP that follows has its FUP, and so is what comes before it wakes up [SDM Power Entry (PWRE) Packet]. */
static bool put_pwre(struct hw *h, unsigned state, bool hw, bool asleep)
{
    struct hw_event e = hw_event(COFI_FLOW_PWRE, COFI_NO_IP, COFI_NO_IP);
    e.a = (uint8_t)state;
    e.b = (uint8_t)hw_below(&h->seed, 3);
    e.c = hw;
    if (!hw_packet(h, false, (const uint8_t[]){0x02, 0x22, hw ? 0x80 : 0, (uint8_t)(state << 4 | e.b)}, 4))
        return false;
    e.ip = asleep && hw_traced(h) ? h->ip : COFI_NO_IP;
    if (asleep)
        hw_truth_somewhere(h, e);
    else
        hw_truth_wait(h, e);
    return true;
}

static bool put_exstop(struct hw *h)
{
    struct hw_event e = hw_event(COFI_FLOW_EXSTOP, COFI_NO_IP, COFI_NO_IP);
    if (!hw_short(h, true, 0x02, hw_traced(h) ? 0xe2 : 0x62))
        return false;
    if (!hw_traced(h)) {
        if (h->truth.waiting_n && h->truth.waiting[0].kind == COFI_FLOW_PWRE)
            hw_truth_flush(h, COFI_NO_IP);
        hw_truth_somewhere(h, e);
        return true;
    }
    hw_truth_wait(h, e);
    if (!hw_ip(h, HW_FUP, h->ip))
        return false;
    hw_truth_flush(h, h->ip);
    return true;
}

static void put_pwrx(struct hw *h, unsigned wake)
{
    struct hw_event e = hw_event(COFI_FLOW_PWRX, COFI_NO_IP, COFI_NO_IP);
    e.a = (uint8_t)hw_below(&h->seed, 8);
    e.b = (uint8_t)hw_below(&h->seed, 8);
    e.c = (uint8_t)wake;
    if (hw_packet(h, false, (const uint8_t[]){0x02, 0xa2, (uint8_t)(e.a << 4 | e.b), e.c, 0, 0, 0}, 7))
        hw_truth_somewhere(h, e);
}

static void wake(struct hw *h, unsigned reason)
{
    h->wire.tsc += hw_below(&h->seed, 900);
    hw_tsc(h);
    hw_cbr(h);
    if (h->config.power)
        put_pwrx(h, reason);
}

void hw_sleeps(struct hw *h, bool mwait, unsigned state)
{
    if (!hw_trigger(h))
        return;
    if (h->config.power) {
        if (mwait && hw_traced(h) && hw_below(&h->seed, 4) && !put_mwait(h))
            return;
        if (!put_pwre(h, state, false, false) || !put_exstop(h))
            return;
        if (hw_below(&h->seed, 4) == 0)
            put_pwre(h, state + 1, false, true);
    }
    wake(h, (unsigned[]){0, 1, 4}[hw_below(&h->seed, 3)]);
}

void hw_halts(struct hw *h)
{
    if (!hw_trigger(h))
        return;
    if (h->config.power && (!put_pwre(h, 1, false, false) || !put_exstop(h)))
        return;
    wake(h, 0);
}

void hw_power_event(struct hw *h)
{
    bool duty = hw_below(&h->seed, 2);
    if (!h->config.power) {
        hw_cbr(h);
        return;
    }
    if (duty && !put_pwre(h, 6, true, false))
        return;
    if (!put_exstop(h))
        return;
    hw_tsc(h);
    hw_cbr(h);
    if (duty)
        put_pwrx(h, 8);
}

/* ---- blocks of items, triggers: they bind to nothing or to their own FUP [PTREF 5.9; PTREF 5.10] ---- */

static void end_of_block(struct hw *h)
{
    bool with_ip = hw_traced(h) && hw_below(&h->seed, 2);
    if (!hw_short(h, false, 0x02, with_ip ? 0xb3 : 0x33))
        return;
    struct hw_event e = hw_event(COFI_FLOW_BEP, COFI_NO_IP, COFI_NO_IP);
    if (!with_ip) {
        hw_truth_somewhere(h, e);
        return;
    }
    hw_truth_wait(h, e);
    if (hw_ip(h, HW_FUP, h->ip))
        hw_truth_flush(h, h->ip);
}

static bool item(struct hw *h, unsigned size)
{
    struct hw_event e = hw_event(COFI_FLOW_BIP, COFI_NO_IP, COFI_NO_IP);
    uint8_t bytes[9];
    e.a = (uint8_t)hw_below(&h->seed, 32);
    e.value = hw_random(&h->seed) >> (size == 8 ? 0 : 32);
    bytes[0] = (uint8_t)(e.a << 3 | 4);
    for (unsigned i = 0; i < size; i++)
        bytes[1 + i] = (uint8_t)(e.value >> 8 * i);
    if (!hw_packet(h, false, bytes, 1 + size))
        return false;
    hw_truth_somewhere(h, e);
    return true;
}

void hw_block(struct hw *h)
{
    for (unsigned groups = 1 + hw_below(&h->seed, 3); groups; groups--) {
        struct hw_event e = hw_event(COFI_FLOW_BBP, COFI_NO_IP, COFI_NO_IP);
        e.a = (uint8_t)hw_below(&h->seed, 32);
        e.b = (uint8_t)hw_below(&h->seed, 2);
        if (!hw_packet(h, false, (const uint8_t[]){0x02, 0x63, (uint8_t)(e.b << 7 | e.a)}, 3))
            return;
        hw_truth_somewhere(h, e);
        for (unsigned n = hw_below(&h->seed, 5); n; n--)
            if (!item(h, e.b ? 4 : 8))
                return;
    }
    end_of_block(h);
}

/* Whether who reads the packets can count from one of them to here. */
static bool countable(const struct hw *h)
{
    return hw_packet_en(h) && !h->wire.adrift && !h->config.dis_tnt && !hw_has_apl12(h) && h->anchor != SIZE_MAX;
}

void hw_trigger_packet(struct hw *h)
{
    struct hw_event e = hw_event(COFI_FLOW_TRIG, COFI_NO_IP, COFI_NO_IP);
    bool with_ip = hw_traced(h) && hw_below(&h->seed, 2), placed = !with_ip && countable(h) && hw_below(&h->seed, 4);
    e.a = (uint8_t)hw_below(&h->seed, 256);
    e.b = with_ip || placed || hw_below(&h->seed, 2);
    e.c = (uint8_t)hw_below(&h->seed, 2);
    e.value = placed ? h->truth.n - h->anchor : e.b && !with_ip ? 65535 : 0;
    const uint8_t bytes[5] = {0xd9, (uint8_t)(with_ip << 7 | e.b << 6 | e.c << 5), e.a, (uint8_t)e.value, (uint8_t)(e.value >> 8)};
    if (!hw_packet(h, false, bytes, e.b ? 5 : 3))
        return;
    if (e.b && !with_ip)
        h->anchor = placed ? h->truth.n : SIZE_MAX;
    if (placed) {
        e.ip = h->ip;
        h->truth.known = h->truth.n;
    }
    if (!with_ip) {
        hw_truth_somewhere(h, e);
        return;
    }
    hw_truth_wait(h, e);
    if (hw_ip(h, HW_FUP, h->ip))
        hw_truth_flush(h, h->ip);
}
