/* SPDX-License-Identifier: MIT
 * Packets with their rules -> bytes in the internal buffer, with LIP compression, cycle counts, PSBs and
 * overflow [RTIT 4.2]. */
#include <string.h>

#include "base/error.h"
#include "unit/rtit/rtit.h"

static const struct rtit_rule psb_by_count = {"Pkt_Cnt reached the bit that Pkt_Mask selects", "[RTIT 3.3.9]"};
static const struct rtit_rule psb_owed = {"TriggerEn rose or Pkt_Cnt was reached when the buffer was full",
                                          "[RTIT 4.2.5]"};
static const struct rtit_rule tnt_forced = {"a partial TNT goes before a FUP, TIP or PIP", "[RTIT 4.2.2]"};
static const struct rtit_rule tnt_full = {"six outcomes are gathered", "[RTIT 4.2.2]"};

void cofi__rtit_overflow(struct rtit *u)
{
    u->overflow = u->attention = true;
    u->overflow_target = UINT64_MAX;
}

void cofi__rtit_clear_compression(struct rtit *u)
{
    u->reg[RTIT_LAST_LIP] = 0;
    u->reg[RTIT_LAST_CALL_NLIP] = 0;
    u->clear_due = false;
}

/* The clearing that a PSB called for takes effect when the packet that called for the PSB has left the
 * internal buffer, at most 4 packets later [RTIT 3.3.9]. */
void cofi__rtit_settle(struct rtit *u)
{
    if (u->clear_due && (u->buffer.drained >= u->clear_at || u->clear_packets == 0))
        cofi__rtit_clear_compression(u);
}

static void explain(struct rtit *u, const struct cofi_packet *packet, uint64_t offset, struct rtit_rule rule)
{
    struct cofi_explain e = {.packet = packet, .offset = offset, .rule = rule.text, .tag = rule.tag};
    u->config.explain(u->config.opaque, &e);
}

void cofi__rtit_explain_none(struct rtit *u, struct rtit_rule rule)
{
    u->told = true;
    if (u->config.explain)
        explain(u, NULL, cofi__buffer_pushed(&u->buffer), rule);
}

/* What [ERR E8] does behind every second PSB, in turn: the packet that is `nth` behind it (0: the next) comes
 * out after so many younger ones, or these overwrite it. The document bounds nth + passed_by: 21 packets. */
static const struct {
    uint8_t nth, passed_by;
    bool lost;
} e8_cases[] = {{0, 1, false}, {0, 1, true}, {3, 5, false}, {0, 20, false}, {10, 2, true}};

static void release_held(struct rtit *u)
{
    if (u->e8_held_size == 0)
        return;
    if (!e8_cases[u->e8_case].lost)
        cofi__buffer_push(&u->buffer, u->e8_held, u->e8_held_size); /* no room: the erratum drops it */
    u->e8_held_size = 0;
    u->e8_armed = false;
}

static void arm_e8(struct rtit *u)
{
    if (!(u->config.errata & COFI_ERRATUM_RTIT_E8) || u->e8_count++ % 2 == 0)
        return;
    release_held(u);
    u->e8_case = (uint8_t)(u->e8_count / 2 - 1) % ARRAY_LEN(e8_cases);
    u->e8_wait = e8_cases[u->e8_case].nth;
    u->e8_armed = true;
}

static bool push_bytes(struct rtit *u, const uint8_t *bytes, size_t n)
{
    if (u->e8_armed && u->e8_held_size == 0 && u->e8_wait-- == 0) {
        memcpy(u->e8_held, bytes, n);
        u->e8_held_size = (uint8_t)n;
        u->e8_wait = e8_cases[u->e8_case].passed_by;
        return true;
    }
    if (!cofi__buffer_push(&u->buffer, bytes, n))
        return false;
    if (u->e8_held_size > 0 && --u->e8_wait == 0)
        release_held(u);
    return true;
}

static void count(struct rtit *u, size_t n)
{
    u->made++;
    if (u->clear_packets > 0)
        u->clear_packets--;
    uint64_t sum = (u->reg[RTIT_PKT_CNT] & PKT_CNT_MASK) + n;
    u->pkt_cnt_carry = sum > PKT_CNT_MASK; /* bit 14 does not exist [RTIT 3.3.9] */
    u->reg[RTIT_PKT_CNT] = (u->reg[RTIT_PKT_CNT] & ~(uint64_t)PKT_CNT_MASK) | (sum & PKT_CNT_MASK);
}

/* n bytes of one packet go into the buffer, or the unit overflows [RTIT 4.2.5]. */
static bool put(struct rtit *u, const uint8_t *bytes, size_t n)
{
    if (!push_bytes(u, bytes, n)) {
        cofi__rtit_overflow(u);
        return false;
    }
    count(u, n);
    return true;
}

bool cofi__rtit_count_direct(struct rtit *u, struct cofi_packet *packet, struct rtit_rule rule)
{
    packet->size = 1;
    count(u, 1);
    if (u->config.explain)
        explain(u, packet, u->buffer.drained, rule);
    u->buffer.drained++;
    return true;
}

void cofi__rtit_check_pkt_cnt(struct rtit *u)
{
    unsigned bit = 11 + (u->reg[RTIT_PKT_CNT] >> 16 & 3);
    bool due = bit == 14 ? u->pkt_cnt_carry : u->reg[RTIT_PKT_CNT] >> bit & 1;
    u->pkt_cnt_carry = false;
    if (!u->trigger_en || u->overflow) /* [RTIT Table 17, RTIT 4.2.5] */
        return;
    if (u->psb_late) { /* [ERR E3] */
        u->psb_late = false;
        cofi__rtit_emit_psb(u, psb_by_count);
    } else if (due && (u->config.errata & COFI_ERRATUM_RTIT_E3)) {
        u->psb_late = true;
        u->reg[RTIT_PKT_CNT] &= ~(uint64_t)PKT_CNT_MASK;
    } else if (due) {
        cofi__rtit_emit_psb(u, psb_by_count);
    }
}

void cofi__rtit_emit_psb(struct rtit *u, struct rtit_rule rule)
{
    struct cofi_packet packet = {.kind = COFI_RTIT_PSB};
    uint8_t bytes[COFI_PACKET_MAX];
    uint64_t cause_end = cofi__buffer_pushed(&u->buffer), count = u->reg[RTIT_PKT_CNT];
    int n = cofi_packet_encode(&u->codec, &packet, bytes, sizeof bytes);
    u->reg[RTIT_PKT_CNT] &= ~(uint64_t)PKT_CNT_MASK;
    if (!put(u, bytes, (size_t)n)) {
        u->reg[RTIT_PKT_CNT] = count;
        u->psb_owed = true;
        return;
    }
    packet.size = (uint8_t)n;
    u->psb_owed = u->psb_late = false;
    u->clear_due = true; /* [RTIT 4.2.1]; takes effect at once when nothing waits in the buffer */
    u->clear_at = cause_end;
    u->clear_packets = 4;
    cofi__rtit_settle(u);
    arm_e8(u);
    if (u->config.explain)
        explain(u, &packet, cause_end, rule);
}

static void add_cycles(struct rtit *u, struct cofi_packet *packet)
{
    uint32_t count = (uint32_t)u->reg[RTIT_CNTP] & CNTP_MASK;
    if ((u->config.errata & COFI_ERRATUM_RTIT_E6) && count > 0)
        count--;
    packet->ccp = count;
    packet->ccp_size = count < 1u << 6 ? 1 : count < 1u << 14 ? 2 : 3; /* [RTIT 4.2.14] */
}

/* Encode and buffer; the caller does what follows a packet that got in. */
bool cofi__rtit_send(struct rtit *u, struct cofi_packet *packet, bool with_cycles, struct rtit_rule rule)
{
    uint8_t bytes[COFI_PACKET_MAX];
    uint64_t offset = cofi__buffer_pushed(&u->buffer);
    if (u->overflow) {
        cofi__rtit_explain_none(u, (struct rtit_rule){"Buffer_Overflow is set: the packet is lost",
                                                      "[RTIT 4.2.5]"});
        return false;
    }
    u->codec.cyc = rtit_has(u, CTL_CYCLE_ACC);
    if (with_cycles && u->codec.cyc)
        add_cycles(u, packet);
    int n = cofi_packet_encode(&u->codec, packet, bytes, sizeof bytes);
    if (n < 0 || !put(u, bytes, (size_t)n)) {
        cofi__rtit_explain_none(u, (struct rtit_rule){"the internal buffer has no room: Buffer_Overflow is set now",
                                                      "[RTIT 4.2.5]"});
        return false;
    }
    packet->size = (uint8_t)n;
    if (packet->ccp_size > 0)
        u->reg[RTIT_CNTP] = 0; /* [RTIT 3.3.4] */
    if (u->config.explain)
        explain(u, packet, offset, rule);
    return true;
}

bool cofi__rtit_emit(struct rtit *u, struct cofi_packet *packet, bool with_cycles, struct rtit_rule rule)
{
    if (!cofi__rtit_send(u, packet, with_cycles, rule))
        return false;
    cofi__rtit_check_pkt_cnt(u);
    return true;
}

static void emit_tnt(struct rtit *u, struct rtit_rule rule)
{
    struct cofi_packet packet = {.kind = COFI_RTIT_TNT};
    packet.tnt.count = (uint8_t)cofi__tnt_count(u->tnt);
    packet.tnt.bits = cofi__tnt_bits(u->tnt);
    /* Only a full TNT carries a cycle count [RTIT 4.2.15]. */
    if (!cofi__rtit_send(u, &packet, packet.tnt.count == TNT_LIMIT, rule))
        return;
    u->tnt = COFI__TNT_EMPTY;
    cofi__rtit_check_pkt_cnt(u);
}

/* A full TNT, without cycle count and explanation: the register's low byte is the packet [RTIT 3.3.13]. */
static void put_tnt(struct rtit *u)
{
    uint8_t byte = (uint8_t)u->tnt;
    if (u->buffer.capacity == 0 && !u->e8_armed && cofi__lines_put(&u->lines, byte)) {
        u->buffer.drained++;
        count(u, 1);
    } else if (!put(u, &byte, 1)) {
        return;
    }
    u->tnt = COFI__TNT_EMPTY;
    cofi__rtit_check_pkt_cnt(u);
}

void cofi__rtit_push_tnt(struct rtit *u, bool taken)
{
    if (u->overflow) /* [RTIT 4.2.5] b */
        return;
    u->tnt = cofi__tnt_push(u->tnt, taken);
    if (!cofi__tnt_full(u->tnt, TNT_LIMIT))
        return;
    if (u->config.explain || rtit_has(u, CTL_CYCLE_ACC)) {
        emit_tnt(u, tnt_full);
        return;
    }
    put_tnt(u);
}

void cofi__rtit_push_run(struct rtit *u, uint64_t bits, unsigned n)
{
    bool slow = u->config.explain || rtit_has(u, CTL_CYCLE_ACC);
    while (n > 0 && !u->overflow) {
        unsigned room = TNT_LIMIT - cofi__tnt_count(u->tnt), k = n < room ? n : room;
        n -= k;
        if (k > 0) /* of 64, none are left to shift by */
            u->tnt = u->tnt << k | (bits >> n & ((UINT64_C(1) << k) - 1));
        if (k < room)
            return;
        if (slow)
            emit_tnt(u, tnt_full);
        else
            put_tnt(u);
    }
}

void cofi__rtit_force_tnt(struct rtit *u)
{
    if (!cofi__tnt_empty(u->tnt) && !u->overflow)
        emit_tnt(u, cofi__tnt_full(u->tnt, TNT_LIMIT) ? tnt_full : tnt_forced);
}

void cofi__rtit_emit_lip(struct rtit *u, enum cofi_packet_kind kind, uint64_t lip, struct rtit_rule rule)
{
    struct cofi_packet packet = {.kind = (uint8_t)kind};
    cofi__rtit_force_tnt(u);
    cofi__rtit_settle(u);
    uint64_t last = u->reg[RTIT_LAST_LIP];
    lip &= LIP_MASK;
    cofi_ip_compress(&packet, lip, (last & UINT32_MAX) << 16, last & LAST_LIP_VALID);
    if (!cofi__rtit_send(u, &packet, true, rule))
        return;
    /* FUP.BuffOvf does not update it [RTIT 4.2.3.1]. */
    if (kind != COFI_RTIT_BUFFOVF)
        u->reg[RTIT_LAST_LIP] = lip >> 16 | LAST_LIP_VALID;
    cofi__rtit_check_pkt_cnt(u);
}

void cofi__rtit_drain(struct rtit *u)
{
    release_held(u);
    cofi__buffer_flush(&u->buffer);
    if (u->psb_owed && u->trigger_en) { /* now there is room */
        cofi__rtit_emit_psb(u, psb_owed);
        cofi__buffer_flush(&u->buffer);
    }
    cofi__rtit_settle(u); /* who reads the registers now, to go on elsewhere, sees it [RTIT 3.3.13] */
    int status = cofi__lines_flush(&u->lines);
    if (status < 0 && u->buffer.status == 0)
        u->buffer.status = status;
}
