/* SPDX-License-Identifier: MIT
 * Packets -> bytes: the TNT buffer before them, their CYC, LastIP compression, PSB+. */
#include <assert.h>

#include "base/bytes.h"
#include "unit/pt/pt.h"

struct rule_text {
    const char *tag, *text;
};

static const struct rule_text rules[] = {
#define RULE(NAME, tag_, text_) {tag_, text_},
#include "unit/pt/rules.def"
};

static void explain(const struct cofi__pt *pt, const struct pt_said *said)
{
    struct cofi_explain line = {
        .packet = said->packet.kind != COFI_PKT_NONE ? &said->packet : NULL,
        .offset = pt->bytes + (said->at - pt->op_start),
        .rule = rules[said->rule].text,
        .tag = rules[said->rule].tag,
    };
    pt->config.explain(pt->config.opaque, &line);
}

void cofi__pt_explain(struct cofi__pt *pt, uint32_t end)
{
    unsigned n = pt->said_n, lost = 0;
    pt->said_n = 0;
    for (unsigned i = 0; i < n; i++)
        if (pt->said[i].at < end)
            explain(pt, &pt->said[i]);
        else
            lost++;
    if (lost)
        cofi__pt_explain_none(pt, PT_RULE_NONE_OVERFLOW);
}

static void say(struct cofi__pt *pt, const struct cofi_packet *packet, int size, enum cofi__pt_rule rule)
{
    if (pt->said_n == PT_SAID)
        cofi__pt_explain(pt, UINT32_MAX);
    struct pt_said *said = &pt->said[pt->said_n++];
    *said = (struct pt_said){.packet = *packet, .rule = (uint8_t)rule, .at = pt->stage_count};
    said->packet.size = (uint8_t)size;
}

void cofi__pt_explain_none(struct cofi__pt *pt, enum cofi__pt_rule rule)
{
    if (!pt->config.explain)
        return;
    say(pt, &(struct cofi_packet){.kind = COFI_PKT_NONE}, 0, rule);
    if (pt->said_n == 1) /* else behind the packets of the operation */
        cofi__pt_explain(pt, UINT32_MAX);
}

/* Into the stage, which always has room for an operation. */
static void put(struct cofi__pt *pt, const struct cofi_packet *packet, enum cofi__pt_rule rule)
{
    int n = cofi_packet_encode(&pt->codec, packet, pt->stage + pt->stage_count, PT_STAGE_BYTES - pt->stage_count);
    assert(n > 0); /* every field fits and the stage has room: anything else is a bug of this unit */
    if (pt->config.explain)
        say(pt, packet, n, rule);
    pt->stage_count += (uint32_t)n;
    pt->block_open &= pt->codec.block != 0; /* most packets end a block [PTREF 5.9] */
    pt->event_made = true;
}

void cofi__pt_emit_cyc(struct cofi__pt *pt, uint64_t count, enum cofi__pt_rule rule)
{
    struct cofi_packet packet = {.kind = COFI_PT_CYC};
    packet.cyc.count = count;
    put(pt, &packet, rule);
}

/* Compress against LastIP and move it. After an overflow, and where another trace may lie between,
 * only codes that need no reference [PTREF 5.4]. */
static void set_ip(struct cofi__pt *pt, struct cofi_packet *packet, uint64_t address)
{
    if (pt->ip_full) {
        bool fits = sext(address, 47) == address;
        packet->ip.code = fits ? 3 : 6;
        packet->ip.payload = fits ? bits(address, 0, 48) : address;
    } else {
        cofi_ip_compress(packet, address, pt->last_ip, true);
    }
    pt->last_ip = address;
    pt->ip_full = false;
}

static void put_ip(struct cofi__pt *pt, enum cofi_packet_kind kind, uint64_t address,
                   enum cofi__pt_rule rule)
{
    struct cofi_packet packet = {.kind = kind};
    set_ip(pt, &packet, address);
    put(pt, &packet, rule);
}

/* The bits collected so far as one packet, then the TIPs held back behind them [SDM Deferred TIPs].
 */
static void flush(struct cofi__pt *pt, enum cofi__pt_rule rule)
{
    struct cofi_packet packet = {.kind = pt->tnt_count > 6 ? COFI_PT_TNT64 : COFI_PT_TNT};
    packet.tnt.bits =
        bits(pt->tnt, 0, pt->tnt_count); /* older ones may be of a trace that stopped */
    packet.tnt.count = pt->tnt_count;
    if (pt->block_open) { /* in a block, TNT would be read as an item [PTREF 5.9] */
        pt->block_open = false;
        put(pt, &(struct cofi_packet){.kind = COFI_PT_BEP}, PT_RULE_BLOCK);
    }
    if (pt->tnt_count > 0)
        put(pt, &packet, rule);
    pt->tnt_count = 0;
    for (unsigned i = 0; i < pt->deferred_count; i++)
        put_ip(pt, COFI_PT_TIP, pt->deferred[i], PT_RULE_TIP);
    pt->deferred_count = 0;
}

/* [ERR BDM64]: the last TIP of a transaction waits for what comes next; before an abort it is
 * wrong. */
static void release(struct cofi__pt *pt)
{
    if (pt->tip_held) {
        pt->tip_held = false;
        put_ip(pt, COFI_PT_TIP, pt->held_ip, PT_RULE_TIP);
    }
}

void cofi__pt_flush_tnt(struct cofi__pt *pt)
{
    release(pt);
    if (pt->tnt_count + pt->deferred_count > 0 && !pt->overflow) {
        bool first = pt->stage_count == pt->op_start;
        flush(pt, PT_RULE_TNT_FORCED);
        if (first)
            pt->op_tnt_end = pt->stage_count;
    }
}

/* What goes before any packet but TNT: earlier bits, then the time [PTREF 6.8]. */
static bool prepare(struct cofi__pt *pt, enum cofi_packet_kind kind)
{
    if (pt->overflow || !pt->trigger_en)
        return false;
    cofi__pt_flush_tnt(pt);
    if (pt->eligible[kind])
        cofi__pt_cyc(pt);
    return true;
}

void cofi__pt_emit(struct cofi__pt *pt, const struct cofi_packet *packet, enum cofi__pt_rule rule)
{
    if (prepare(pt, packet->kind))
        put(pt, packet, rule);
}

void cofi__pt_emit_kind(struct cofi__pt *pt, enum cofi_packet_kind kind, enum cofi__pt_rule rule)
{
    cofi__pt_emit(pt, &(struct cofi_packet){.kind = kind}, rule);
}

void cofi__pt_emit_ip(struct cofi__pt *pt, enum cofi_packet_kind kind, uint64_t ip,
                      enum cofi__pt_rule rule)
{
    if (prepare(pt, kind))
        put_ip(pt, kind, cofi__pt_address(pt, ip), rule);
}

/* IPBytes 0: out of context; LastIP stays [SDM IP Compression]. */
void cofi__pt_emit_no_ip(struct cofi__pt *pt, enum cofi_packet_kind kind, enum cofi__pt_rule rule)
{
    cofi__pt_emit_kind(pt, kind, rule);
}

/* [SDM Paging Information (PIP) Packet]: the address part of CR3, which only PAE paging has in bits 11:5 (PCIDs
 * are none). NR is hidden with VMX itself, but not the one of a VM entry. */
void cofi__pt_emit_pip(struct cofi__pt *pt, bool entry, enum cofi__pt_rule rule)
{
    struct cofi_packet packet = {.kind = COFI_PT_PIP};
    bool guest = pt->context.vmx == 2;
    packet.pip.cr3 = pt->context.cr3 & (pt->context.pae ? UINT64_C(0x000fffffffffffe0) : UINT64_C(0x000ffffffffff000));
    packet.pip.nr = guest && (entry || !(pt->context.conceal & COFI_CONCEAL_VMX));
    cofi__pt_emit(pt, &packet, rule);
}

void cofi__pt_emit_vmcs(struct cofi__pt *pt, enum cofi__pt_rule rule)
{
    struct cofi_packet packet = {.kind = COFI_PT_VMCS};
    packet.vmcs.base = pt->context.vmcs & UINT64_C(0x000ffffffffff000);
    cofi__pt_emit(pt, &packet, rule);
}

/* MODE.Exec as of now, and its second byte. IF only under event trace [PTREF 5.3]. */
uint8_t cofi__pt_mode_byte(const struct cofi__pt *pt, struct cofi_packet *packet)
{
    *packet = (struct cofi_packet){.kind = COFI_PT_MODE_EXEC};
    packet->mode_exec.csl = pt->context.mode == 64;
    packet->mode_exec.csd = pt->context.mode == 32;
    packet->mode_exec.iflag = pt->context.iflag && cofi__pt_ctl(pt) & PT_BIT(CTL_EVENT_EN);
    return (uint8_t)(packet->mode_exec.iflag << 2 | packet->mode_exec.csd << 1 |
                     packet->mode_exec.csl);
}

/* MODE.Exec if the mode is not the one last sent, or always. */
void cofi__pt_emit_mode(struct cofi__pt *pt, bool always, enum cofi__pt_rule rule)
{
    struct cofi_packet packet;
    uint8_t mode = cofi__pt_mode_byte(pt, &packet);
    if (!always && mode == pt->mode_sent)
        return;
    cofi__pt_emit(pt, &packet, rule);
    pt->mode_sent = mode;
}

void cofi__pt_emit_tsx(struct cofi__pt *pt, bool intx, bool abort, enum cofi__pt_rule rule)
{
    struct cofi_packet packet = {.kind = COFI_PT_MODE_TSX};
    packet.mode_tsx.intx = intx && !abort; /* both is no state */
    packet.mode_tsx.abort = abort;
    cofi__pt_emit(pt, &packet, rule);
}

/* A near indirect branch's target: at once, or held back while the TNT buffer fills [SDM Deferred
 * TIPs]. Not with CYC packets, whose time would be another branch's. */
void cofi__pt_tip(struct cofi__pt *pt, uint64_t target, enum cofi__pt_rule rule)
{
    if (pt->config.errata & COFI_ERRATUM_BDM64 && pt->context.intx && !pt->overflow) {
        cofi__pt_flush_tnt(pt);
        pt->tip_held = true;
        pt->held_ip = cofi__pt_address(pt, target);
        return;
    }
    bool hold = pt->config.deferred_tips && rule == PT_RULE_TIP && pt->tnt_count > 0 &&
                !pt->eligible[COFI_PT_TIP] && !pt->overflow;
    if (!hold) {
        cofi__pt_emit_ip(pt, COFI_PT_TIP, target, rule);
        return;
    }
    pt->deferred[pt->deferred_count++] = cofi__pt_address(pt, target);
    pt->event_made = true;
    if (pt->deferred_count == PT_DEFERRED)
        flush(pt, PT_RULE_TNT_FORCED);
}

/* n outcomes, the oldest highest, no more than the packet has room for [SDM Taken/Not-taken (TNT)
 * Packet]: the first of a packet gives its time [SDM Cycle Packet Semantics]. */
void cofi__pt_bits(struct cofi__pt *pt, uint64_t outcomes, unsigned n)
{
    if (pt->overflow || !pt->take_tnt || !pt->packet_en)
        return;
    if (pt->tnt_count == 0) {
        release(pt);
        if (pt->eligible[COFI_PT_TNT])
            cofi__pt_cyc(pt);
    }
    pt->tnt = pt->tnt << n | bits(outcomes, 0, n);
    pt->tnt_count = (uint8_t)(pt->tnt_count + n);
    pt->event_made = true;
    if (pt->tnt_count == pt->tnt_max) {
        flush(pt, PT_RULE_TNT_FULL);
        if (pt->stage_count > PT_STAGE_BYTES - PT_OP_BYTES)
            cofi__pt_commit(pt);
    } else {
        cofi__pt_explain_none(pt, PT_RULE_TNT_BIT);
    }
}

void cofi__pt_bit(struct cofi__pt *pt, bool taken) { cofi__pt_bits(pt, taken, 1); }

/* [SDM Packets in PSB+]: which packets, under which enables. While tracing is being enabled there
 * is neither MODE.Exec nor FUP, TIP.PGE follows [PTREF 6.1]. */
void cofi__pt_psb(struct cofi__pt *pt, bool enabling, uint64_t ip, enum cofi__pt_rule rule)
{
    bool branch_en = cofi__pt_ctl(pt) & PT_BIT(CTL_BRANCH_EN);
    bool flow = enabling ? pt->config.errata & COFI_ERRATUM_BDM70 && pt->context_en &&
                               pt->filter_en && branch_en
                         : pt->packet_en;
    cofi__pt_flush_tnt(pt);
    cofi__pt_commit(pt);
    cofi__pt_erratum_before_psb(pt);
    pt->psb_bytes = 0;
    pt->attention &= (uint8_t)~PT_DO_PSB;
    cofi__pt_emit_kind(pt, COFI_PT_PSB, rule);
    pt->last_ip = 0;
    pt->ip_full = false;
    cofi__pt_ret_clear(pt);
    cofi__pt_tsc_tma(pt, PT_RULE_PSB_PLUS);
    if (pt->context_en && cofi__pt_ctl(pt) & PT_BIT(CTL_OS))
        cofi__pt_emit_pip(pt, false, PT_RULE_PSB_PLUS);
    if (pt->context_en && (pt->context.vmx == 1 ||
                           (pt->context.vmx == 2 && !(pt->context.conceal & COFI_CONCEAL_VMX))))
        cofi__pt_emit_vmcs(pt, PT_RULE_PSB_PLUS);
    cofi__pt_cbr(pt, PT_RULE_PSB_PLUS);
    if (pt->context_en && branch_en)
        cofi__pt_emit_tsx(pt, pt->context.intx, false, PT_RULE_PSB_PLUS);
    if (flow) {
        cofi__pt_emit_mode(pt, true, PT_RULE_PSB_PLUS);
        cofi__pt_emit_ip(pt, COFI_PT_FUP, ip, PT_RULE_PSB_PLUS);
    } else {
        pt->mode_sent = PT_MODE_NONE;
    }
    cofi__pt_emit_kind(pt, COFI_PT_PSBEND, PT_RULE_PSB_PLUS);
    cofi__pt_commit(pt);
}
