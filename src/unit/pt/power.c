/* SPDX-License-Identifier: MIT
 * Sleeping, waking, changing speed -> power event packets and fresh time [SDM Power Event Tracing].
 * Hosts number C-states from C1 on, docs/decisions/0303. */
#include "unit/pt/pt.h"

static bool power(const struct cofi__pt *pt)
{
    return pt->trigger_en && cofi__pt_ctl(pt) & PT_BIT(CTL_PWR_EVT_EN);
}

/* As MWAIT has it in its hints: 0 is C1, 15 C0 [SDM Power Exit (PWRX) Packet]. */
static uint8_t mwait_encoding(uint8_t state) { return (state - 1) & 15; }

/* EXSTOP, with the address and its FUP where the context is traced. */
static void exstop(struct cofi__pt *pt, uint64_t ip)
{
    struct cofi_packet packet = {.kind = COFI_PT_EXSTOP};
    packet.exstop.ip = pt->context_en;
    cofi__pt_emit(pt, &packet, PT_RULE_EXSTOP);
    if (pt->context_en)
        cofi__pt_emit_ip(pt, COFI_PT_FUP, ip, PT_RULE_EXSTOP);
}

void cofi__pt_stop_clock(struct cofi__pt *pt, uint64_t ip, uint8_t state, uint8_t sub, bool hw)
{
    struct cofi_packet packet = {.kind = COFI_PT_PWRE};
    packet.pwre.state = mwait_encoding(state);
    packet.pwre.sub = sub & 15;
    packet.pwre.hw = hw;
    cofi__pt_emit(pt, &packet, PT_RULE_PWRE);
    exstop(pt, ip);
}

static void pwrx(struct cofi__pt *pt, uint8_t last, uint8_t deepest, uint8_t wake)
{
    struct cofi_packet packet = {.kind = COFI_PT_PWRX};
    packet.pwrx.last = mwait_encoding(last);
    packet.pwrx.deepest = mwait_encoding(deepest);
    packet.pwrx.wake = wake & 15;
    cofi__pt_emit(pt, &packet, PT_RULE_PWRX);
}

static void fresh_time(struct cofi__pt *pt, enum cofi__pt_rule rule)
{
    cofi__pt_tsc_tma(pt, rule);
    cofi__pt_cbr(pt, rule);
}

static void fall_asleep(struct cofi__pt *pt, uint8_t state)
{
    if (!pt->sleeping)
        pt->sleep_cycles = pt->cycles;
    pt->sleeping = state;
}

/* MWAIT packet, PWRE, EXSTOP share one FUP. With an event pending it wakes at once, and MWAIT is
 * not told [SDM PwrEvtEn and PTWEn Packet Generation under Different Enable Conditions]. */
void cofi__pt_mwait(struct cofi__pt *pt, const struct cofi_event *event)
{
    struct cofi_packet packet = {.kind = COFI_PT_MWAIT};
    packet.mwait.hints = (uint8_t)event->value;
    packet.mwait.ext = event->value >> 32 & 3;
    if (event->size == 0)
        return;
    if (power(pt)) {
        if (pt->context_en && !event->taken)
            cofi__pt_emit(pt, &packet, PT_RULE_MWAIT);
        cofi__pt_stop_clock(pt, event->ip, event->size, event->value & 15, false);
    }
    if (!event->taken) {
        fall_asleep(pt, event->size);
    } else if (pt->trigger_en) {
        fresh_time(pt, PT_RULE_WAKE);
        if (power(pt))
            pwrx(pt, event->size, event->size, 0);
    }
}

/* HLT, shutdown, or the hardware's own decision. A deeper state while asleep: one more PWRE only.
 */
void cofi__pt_sleep(struct cofi__pt *pt, const struct cofi_event *event)
{
    struct cofi_packet deeper = {.kind = COFI_PT_PWRE};
    deeper.pwre.state = mwait_encoding(event->size);
    deeper.pwre.hw = event->cause != 0;
    cofi__pt_clock_set(pt, event->tsc, event->cycles);
    if (power(pt) && pt->sleeping)
        cofi__pt_emit(pt, &deeper, PT_RULE_PWRE);
    else if (power(pt))
        cofi__pt_stop_clock(pt, event->ip, event->size, 0, event->cause != 0);
    fall_asleep(pt, event->size);
}

/* The cycle counter did not count in between [SDM Cycle Counter]. */
void cofi__pt_wake(struct cofi__pt *pt, const struct cofi_event *event)
{
    uint8_t deepest = event->value ? (uint8_t)event->value : event->size;
    pt->cyc_base += event->cycles - (pt->sleeping ? pt->sleep_cycles : event->cycles);
    pt->sleeping = 0;
    pt->tsc = event->tsc;
    pt->cycles = event->cycles;
    if (!pt->trigger_en)
        return;
    cofi__pt_clock_reschedule(pt);
    fresh_time(pt, PT_RULE_WAKE);
    if (power(pt))
        pwrx(pt, event->size, deepest, event->cause);
}

/* Another core clock ratio, in C0 [SDM Core:Bus Ratio (CBR) Packet]. */
void cofi__pt_freq(struct cofi__pt *pt, const struct cofi_event *event)
{
    cofi__pt_clock_set(pt, event->tsc, event->cycles);
    pt->ratio = (uint8_t)event->value;
    if (!pt->trigger_en || pt->sleeping)
        return;
    if (power(pt))
        exstop(pt, pt->ip);
    fresh_time(pt, PT_RULE_FREQ);
}
