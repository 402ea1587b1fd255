/* SPDX-License-Identifier: MIT
 * Clock, frequency and sleep events -> CNTP, draining, MTC and STS packets [RTIT 4.2.12, RTIT 4.2.13, RTIT B 4.1]. */
#include "unit/rtit/rtit.h"

/* MTC and STS [RTIT Table 17]. */
static bool timing_enabled(const struct rtit *u)
{
    return rtit_has(u, CTL_LESS_PKTS) ? u->packet_en : u->trigger_en;
}

/* The cycle counter runs with T && C, or T && C && F where LESS_PKTS is set: Table 17's last two rows
 * changed about (docs/decisions/0203). */
static void pass_cycles(struct rtit *u, uint64_t cycles)
{
    if (u->trigger_en && u->context_en && (u->filter_en || !rtit_has(u, CTL_LESS_PKTS))) {
        u->reg[RTIT_CNTP] = (u->reg[RTIT_CNTP] + cycles) & CNTP_MASK;
        u->attention |= (u->reg[RTIT_CNTP] & CNTP_MSB) != 0;
    }
    if (cofi__buffer_advance(&u->buffer, cycles))
        cofi__rtit_settle(u);
}

static unsigned mtc_shift(const struct rtit *u) { return 7 + 2 * (u->reg[RTIT_CTL] >> CTL_MTC_RANGE_LSB & 3); }

void cofi__rtit_mtc(struct rtit *u, uint64_t tsc, struct rtit_rule rule)
{
    struct cofi_packet packet = {.kind = COFI_RTIT_MTC};
    packet.mtc.range = u->reg[RTIT_CTL] >> CTL_MTC_RANGE_LSB & 3;
    packet.mtc.ctc = (uint8_t)(tsc >> mtc_shift(u));
    cofi__rtit_emit(u, &packet, true, rule);
}

void cofi__rtit_sts(struct rtit *u, struct rtit_rule rule)
{
    struct cofi_packet packet = {.kind = COFI_RTIT_STS};
    if (!rtit_has(u, CTL_STS_EN) || !timing_enabled(u))
        return;
    packet.sts.tsc = u->tsc & ((UINT64_C(1) << 40) - 1);
    packet.sts.acbr = u->acbr;
    packet.sts.ecbr = u->ecbr;
    cofi__rtit_emit(u, &packet, true, rule);
}

/* Part of a difference: the cycles at the point where `part` of `whole` ticks have passed. */
static uint64_t scale(uint64_t cycles, uint64_t part, uint64_t whole)
{
    return (uint64_t)((unsigned __int128)cycles * part / whole);
}

/* Each change of the watched 8 bits on the way to tsc gives an MTC, at the cycle it falls on
 * [RTIT 4.2.12]. More than 255 changes at once cannot be told apart: an STS instead, where it is on,
 * as after sleep (docs/decisions/0209). */
static uint64_t send_mtcs(struct rtit *u, uint64_t tsc, uint64_t cycles)
{
    static const struct rtit_rule rule = {"the watched bits of the TSC changed", "[RTIT 4.2.12]"};
    unsigned shift = mtc_shift(u);
    uint64_t changes = (tsc >> shift) - (u->tsc >> shift), done = 0, start = u->tsc;
    if (changes > 255) {
        pass_cycles(u, cycles);
        u->tsc = tsc;
        if (rtit_has(u, CTL_STS_EN))
            cofi__rtit_sts(u, (struct rtit_rule){"the clock jumped by more than MTC can tell",
                                                 "[RTIT 4.2.13]"});
        else
            cofi__rtit_mtc(u, tsc, rule);
        return cycles;
    }
    for (uint64_t i = 1; i <= changes; i++) {
        uint64_t at = ((start >> shift) + i) << shift;
        uint64_t now = scale(cycles, at - start, tsc - start);
        pass_cycles(u, now - done);
        done = now;
        cofi__rtit_mtc(u, at, rule);
    }
    return done;
}

/* The clocks now stand at what the event says. */
static void advance(struct rtit *u, const struct cofi_event *event)
{
    uint64_t cycles = event->cycles > u->cycles ? event->cycles - u->cycles : 0, done = 0;
    if (u->clock_set && !u->sleeping) {
        if (event->tsc > u->tsc && rtit_has(u, CTL_MTC_EN) && timing_enabled(u))
            done = send_mtcs(u, event->tsc, cycles);
        pass_cycles(u, cycles - done);
    }
    if (u->clock_set && event->kind == COFI_EV_CLOCK) { /* a clock never goes back */
        u->tsc = event->tsc > u->tsc ? event->tsc : u->tsc;
        u->cycles = event->cycles > u->cycles ? event->cycles : u->cycles;
        return;
    }
    u->clock_set = true;
    u->tsc = event->tsc;
    u->cycles = event->cycles;
}

static uint8_t ratio(uint64_t value) { return value > 63 ? 63 : (uint8_t)value; }

/* C4, C6, S0ix drain before; shallower states only stop draining [RTIT B 4.1]. */
void cofi__rtit_sleep(struct rtit *u, unsigned c_state)
{
    if (c_state >= 4)
        cofi__rtit_drain(u);
    u->sleeping = true;
}

void cofi__rtit_time(struct rtit *u, const struct cofi_event *event)
{
    advance(u, event);
    if (event->kind == COFI_EV_FREQ) {
        u->acbr = ratio(event->value);
        u->ecbr = ratio(event->size);
        cofi__rtit_sts(u, (struct rtit_rule){"frequency or clock modulation changed", "[RTIT 4.2.13]"});
    } else if (event->kind == COFI_EV_SLEEP) {
        cofi__rtit_sleep(u, event->size);
    } else if (event->kind == COFI_EV_WAKE) {
        u->sleeping = false;
        cofi__rtit_sts(u, (struct rtit_rule){"woke from a sleep state", "[RTIT 4.2.13]"});
    }
}
