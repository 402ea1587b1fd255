/* SPDX-License-Identifier: MIT
 * The start of an instruction -> what waits for it: the end of an overflow, PCC, pending TraceStop. */
#include "unit/rtit/rtit.h"

static const uint8_t stop_byte = 0xc1; /* [RTIT Figure 10] */

/* The TraceSTOP packet; with Dest clear its byte has a place of its own in memory [RTIT Table 4]. It is
 * the last of the trace: whether it reaches Pkt_Cnt's limit is not looked at (docs/decisions/0221).
 * False when the buffer had no room. */
static bool emit_stop(struct rtit *u, struct rtit_rule rule)
{
    struct cofi_packet packet = {.kind = COFI_RTIT_TRACESTOP};
    if (rtit_has(u, CTL_DEST) || !u->lines.memory.write)
        return cofi__rtit_send(u, &packet, false, rule);
    if (u->buffer.capacity > 0 && u->buffer.fill == u->buffer.capacity) {
        cofi__rtit_overflow(u);
        return false;
    }
    cofi__buffer_flush(&u->buffer);
    int status = cofi__lines_write_c0(&u->lines, stop_byte);
    if (status < 0 && u->buffer.status == 0)
        u->buffer.status = status;
    return cofi__rtit_count_direct(u, &packet, rule);
}

void cofi__rtit_trace_stop(struct rtit *u)
{
    /* Held until FUP.BuffOvf is out [RTIT 4.2.5]. */
    if (u->overflow || !emit_stop(u, (struct rtit_rule){"the IP matched TraceStop_Event_ID", "[RTIT 4.2.11]"})) {
        u->stop_pending = u->attention = true;
        cofi__rtit_explain_none(u, (struct rtit_rule){"TraceStop is held pending during the overflow",
                                                      "[RTIT 4.2.5]"});
        return;
    }
    u->stop_pending = false;
    u->reg[RTIT_CTL] &= ~(uint64_t)CTL_TRACE_ACTIVE;
    u->filter_en = false; /* [RTIT 4.2.11] */
    cofi__rtit_update_enables(u);
    cofi__rtit_drain(u);
}

/* [ERR E4]: the packet comes before FUP.BuffOvf, and tracing goes on. */
static void stop_without_effect(struct rtit *u)
{
    u->overflow = u->stop_pending = false;
    emit_stop(u, (struct rtit_rule){"TraceStop during overflow, no effect", "[ERR E4]"});
}

/* The overflow clears naturally at ip, where the next instruction starts. */
static void clear_overflow(struct rtit *u, uint64_t ip)
{
    uint64_t target = u->overflow_target;
    if (u->stop_pending && (u->config.errata & COFI_ERRATUM_RTIT_E4))
        stop_without_effect(u);
    u->overflow = false;
    cofi__rtit_clear_compression(u);
    cofi__rtit_emit_lip(u, COFI_RTIT_BUFFOVF, ip,
                        (struct rtit_rule){"the buffer is empty, an instruction starts with TriggerEn and "
                                           "ContextEn", "[RTIT 4.2.5]"});
    if ((u->config.errata & COFI_ERRATUM_RTIT_E5) && target == ip)
        cofi__rtit_emit_lip(u, COFI_RTIT_TIP, ip,
                            (struct rtit_rule){"the branch before came too early", "[ERR E5]"});
}

static bool pcc_due(const struct rtit *u)
{
    return (u->reg[RTIT_CNTP] & CNTP_MSB) && rtit_has(u, CTL_CYCLE_ACC) && u->trigger_en && u->context_en &&
           (u->filter_en || !rtit_has(u, CTL_LESS_PKTS));
}

void cofi__rtit_start_instruction(struct rtit *u, uint64_t ip, uint64_t next)
{
    bool empty = cofi__buffer_empty(&u->buffer);
    if (u->psb_owed && u->trigger_en && empty)
        cofi__rtit_emit_psb(u, (struct rtit_rule){"TriggerEn rose or Pkt_Cnt was reached when the buffer was "
                                                  "full", "[RTIT 4.2.5]"});
    if (u->overflow && empty && u->trigger_en && u->context_en)
        clear_overflow(u, ip);
    if (!u->overflow && u->stop_pending && u->trigger_en)
        cofi__rtit_trace_stop(u);
    if (!u->overflow && u->packet_en && cofi__tnt_full(u->tnt, TNT_LIMIT))
        cofi__rtit_force_tnt(u);
    if (!u->overflow && pcc_due(u)) /* its address may never be executed: docs/decisions/0206 */
        cofi__rtit_emit_lip(u, COFI_RTIT_PCC, next,
                            (struct rtit_rule){"the cycle counter is half full", "[RTIT 4.2.6]"});
    u->attention = u->overflow || u->psb_owed || u->stop_pending || cofi__tnt_full(u->tnt, TNT_LIMIT) ||
                   (u->reg[RTIT_CNTP] & CNTP_MSB);
}
