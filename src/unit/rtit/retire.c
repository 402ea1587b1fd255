/* SPDX-License-Identifier: MIT
 * Events -> the packets of Table 19, in its order [RTIT 4.3]. */
#include "base/error.h"
#include "unit/rtit/rtit.h"

/* One instruction or event on its way through the unit. */
struct step {
    const struct cofi_event *event;
    uint64_t nlip;     /* the address of a FUP.PGD */
    uint64_t end;      /* where execution goes on */
    bool taken;        /* by a branch or event, not sequentially */
    bool before;       /* PacketEn at the start */
    bool context_was, filter_was, trigger_was;
};

static struct step begin(const struct rtit *u, const struct cofi_event *event, bool taken)
{
    return (struct step){.event = event, .nlip = event->next, .end = taken ? event->target : event->next,
                         .taken = taken, .before = u->packet_en, .context_was = u->context_en,
                         .filter_was = u->filter_en, .trigger_was = u->trigger_en};
}

static void take_context(struct rtit *u, const struct cofi_event *event)
{
    if (event->context_set)
        u->context = event->after;
    cofi__rtit_update_enables(u);
}

/* PacketEn 0 before and after, and yet a FUP.PGD [ERR E2]. */
static void extra_pgd(struct rtit *u, const struct step *s, bool stopped)
{
    bool rose = (!s->context_was && u->context_en) || (!s->trigger_was && (u->trigger_en || stopped));
    if ((u->config.errata & COFI_ERRATUM_RTIT_E2) && !s->before && !u->packet_en && rose &&
        ((s->filter_was && !u->filter_en) || stopped))
        cofi__rtit_emit_lip(u, COFI_RTIT_PGD, s->nlip, (struct rtit_rule){"spurious", "[ERR E2]"});
}

/* The instruction's own packets are made: PacketEn's edges and the TraceStop action. */
static void finish(struct rtit *u, const struct step *s, bool stop)
{
    bool fell = s->before && !u->packet_en;
    if (stop)
        cofi__rtit_trace_stop(u);
    if (fell && u->trigger_en)
        cofi__rtit_emit_lip(u, COFI_RTIT_PGD, s->nlip,
                            (struct rtit_rule){"PacketEn went from 1 to 0", "[RTIT 4.2.8]"});
    else if (!s->before && u->packet_en)
        cofi__rtit_emit_lip(u, COFI_RTIT_PGE, s->end,
                            (struct rtit_rule){"PacketEn went from 0 to 1", "[RTIT 4.2.7]"});
    extra_pgd(u, s, stop);
    u->ip = s->end;
}

static void end(struct rtit *u, const struct step *s)
{
    finish(u, s, cofi__rtit_compare_ip(u, s->end, s->taken));
}

/* A near indirect branch, with PacketEn set at its start [RTIT 2.2.3]. */
static void indirect(struct rtit *u, uint64_t target)
{
    if (u->overflow)
        u->overflow_target = target;
    cofi__rtit_emit_lip(u, COFI_RTIT_TIP, target, (struct rtit_rule){"near indirect branch", "[RTIT 4.2.3]"});
}

/* A return to where the last traced call came from costs a TNT bit [RTIT 4.2.3.2]. */
static void ret(struct rtit *u, uint64_t target)
{
    cofi__rtit_settle(u);
    if (rtit_has(u, CTL_CMPRS_RET) && !u->overflow &&
        u->reg[RTIT_LAST_CALL_NLIP] == (NLIP_VALID | (target & LIP_MASK)))
        cofi__rtit_push_tnt(u, true);
    else
        indirect(u, target);
}

/* Only calls that start with PacketEn set are remembered [RTIT 4.2.3.2], and none in an overflow
 * [RTIT 4.2.5]; before the call's own packet, so that a PSB which that one causes clears it [RTIT 3.3.9]. */
static void call(struct rtit *u, uint64_t nlip)
{
    if (!rtit_has(u, CTL_CMPRS_RET) || u->overflow)
        return;
    cofi__rtit_settle(u);
    u->reg[RTIT_LAST_CALL_NLIP] = NLIP_VALID | (nlip & LIP_MASK);
}

static void near_branch(struct rtit *u, const struct cofi_event *event)
{
    bool taken = event->kind != COFI_EV_JCC || event->taken;
    struct step s = begin(u, event, taken);
    if (s.before) {
        if (event->kind == COFI_EV_CALL || event->kind == COFI_EV_CALL_IND)
            call(u, event->next);
        if (event->kind == COFI_EV_JCC)
            cofi__rtit_push_tnt(u, event->taken);
        else if (event->kind == COFI_EV_RET)
            ret(u, event->target);
        else if (event->kind == COFI_EV_JMP_IND || event->kind == COFI_EV_CALL_IND)
            indirect(u, event->target);
    }
    end(u, &s);
}

/* What the FUP of a far transfer carries [RTIT Table 1]; a FUP.PGD in its place, too (docs/decisions/0223). */
static uint64_t far_from(const struct rtit *u, const struct cofi_event *event)
{
    if (event->kind != COFI_EV_FAR)
        return event->ip;
    if ((u->config.errata & COFI_ERRATUM_RTIT_E1) && event->size > 3) {
        uint64_t inner = event->ip + (event->size - 3u); /* size: how many prefixes it has */
        return inner < event->next ? inner : event->next - 1;
    }
    return event->next;
}

static int write_msr(struct rtit *u, const struct cofi_event *event);

/* VM entry and VM exit may load RTIT_CTL from an MSR list: with the processor on the root side, before the
 * entry or after the exit [RTIT 4.2.1] (docs/decisions/0216). */
static bool loads_control(const struct cofi_event *event)
{
    bool entry = event->kind == COFI_EV_FAR && event->cause == COFI_FAR_VMENTRY;
    bool exit = event->kind == COFI_EV_EVENT && event->cause == COFI_CAUSE_VMEXIT;
    return (entry || exit) && cofi__rtit_find(event->msr) == RTIT_CTL;
}

static int load_control(struct rtit *u, const struct cofi_event *event)
{
    struct cofi_event write = {.kind = COFI_EV_WRMSR, .msr = event->msr, .value = event->control, .ip = u->ip,
                               .next = u->ip};
    return write_msr(u, &write);
}

/* Far transfers: instructions, interrupts, exceptions, SMI, VM exits: rows 27 to 38 [RTIT Table 19]. */
static void far_transfer(struct rtit *u, const struct cofi_event *event)
{
    static const struct rtit_rule from_rule = {"far transfer", "[RTIT 4.2.9]"},
                                  to_rule = {"target of a far transfer", "[RTIT 4.2.3]"},
                                  pgd_rule = {"FUP.PGD in the place of FUP.FAR", "[RTIT 4.2.9]"};
    struct step s = begin(u, event, true);
    s.nlip = far_from(u, event);
    take_context(u, event);
    bool stop = cofi__rtit_compare_ip(u, s.end, true);
    bool after = u->packet_en;
    if (s.before) {
        bool out = !after && !stop;
        cofi__rtit_emit_lip(u, out ? COFI_RTIT_PGD : COFI_RTIT_FAR, s.nlip, out ? pgd_rule : from_rule);
        /* TIP only where ContextEn stays 1 [RTIT 2.2.6]. */
        if (u->context_en)
            cofi__rtit_emit_lip(u, COFI_RTIT_TIP, s.end, to_rule);
    }
    s.before = s.before && after; /* else its PGD is made, or TraceStop has none */
    if (u->overflow)
        u->overflow_target = s.end;
    finish(u, &s, stop);
}

static int far_with_lists(struct rtit *u, const struct cofi_event *event)
{
    bool loads = loads_control(event);
    if (loads && event->kind == COFI_EV_FAR)
        COFI_TRY(load_control(u, event));
    far_transfer(u, event);
    return loads && event->kind == COFI_EV_EVENT ? load_control(u, event) : 0;
}

/* Paging Information Packet [RTIT 4.2.10]. */
static void paging(struct rtit *u)
{
    struct cofi_packet packet = {.kind = COFI_RTIT_PIP};
    if (!u->trigger_en || !u->context_en || rtit_has(u, CTL_CR3_EN))
        return;
    packet.pip.cr3 = u->context.cr3 & ((UINT64_C(1) << 40) - 1);
    packet.pip.pg = u->context.cr0_pg;
    cofi__rtit_force_tnt(u);
    cofi__rtit_emit(u, &packet, true, (struct rtit_rule){"CR3 was written or CR0.PG changed", "[RTIT 4.2.10]"});
}

static void move_cr(struct rtit *u, const struct cofi_event *event)
{
    struct step s = begin(u, event, false);
    bool pg_was = u->context.cr0_pg;
    take_context(u, event);
    bool stop = cofi__rtit_compare_ip(u, s.end, false);
    if (event->kind == COFI_EV_MOV_CR3 || u->context.cr0_pg != pg_was)
        paging(u);
    if (event->kind == COFI_EV_MOV_CR3 && rtit_has(u, CTL_STS_ON_CR3))
        cofi__rtit_sts(u, (struct rtit_rule){"MOV CR3 with STS_on_CR3", "[RTIT 4.2.10]"});
    finish(u, &s, stop);
}

static void sequential(struct rtit *u, const struct cofi_event *event)
{
    struct step s = begin(u, event, false);
    if (event->context_set)
        take_context(u, event);
    end(u, &s);
}

/* TriggerEn went from 0 to 1 [RTIT 4.2.1]. */
static void trigger_rose(struct rtit *u)
{
    cofi__rtit_emit_psb(u, (struct rtit_rule){"TriggerEn went from 0 to 1", "[RTIT 4.2.1]"});
    if ((u->config.errata & COFI_ERRATUM_RTIT_E7) && rtit_has(u, CTL_MTC_EN))
        cofi__rtit_mtc(u, u->tsc, (struct rtit_rule){"sent at the wrong time", "[ERR E7]"});
}

static int write_msr(struct rtit *u, const struct cofi_event *event)
{
    struct step s = begin(u, event, false);
    int reg = cofi__rtit_find(event->msr);
    uint64_t value;
    if (reg < 0)
        return reg;
    if (!u->unlocked) /* [RTIT 3.3.1] */
        return COFI_ERR_GP;
    COFI_TRY(cofi__rtit_check(u, (enum rtit_reg)reg, event->value, &value)); /* one that faults does nothing */
    if (reg == RTIT_CTL)
        cofi__rtit_drain(u); /* [RTIT 3.3.2] */
    COFI_TRY(cofi__rtit_store(u, (enum rtit_reg)reg, event->value));
    u->attention = true;
    if (!s.trigger_was && u->trigger_en)
        trigger_rose(u);
    if (reg == RTIT_PKT_CNT)
        cofi__rtit_check_pkt_cnt(u);
    end(u, &s);
    if (reg == RTIT_CTL)
        cofi__rtit_drain(u);
    return COFI_OK;
}

int cofi__rtit_wrmsr(struct cofi_unit *unit, uint32_t msr, uint64_t value)
{
    struct rtit *u = rtit_of(unit);
    struct cofi_event event = {.kind = COFI_EV_WRMSR, .msr = msr, .value = value, .ip = u->ip, .next = u->ip};
    u->made = 0;
    COFI_TRY(write_msr(u, &event));
    return cofi__buffer_status(&u->buffer);
}

static int dispatch(struct rtit *u, const struct cofi_event *event)
{
    switch ((enum cofi_event_kind)event->kind) {
    case COFI_EV_JCC:
    case COFI_EV_JMP:
    case COFI_EV_CALL:
    case COFI_EV_JMP_IND:
    case COFI_EV_CALL_IND:
    case COFI_EV_RET:
        near_branch(u, event);
        break;
    case COFI_EV_FAR:
    case COFI_EV_EVENT:
    case COFI_EV_XABORT:
        if (event->kind != COFI_EV_EVENT || event->cause != COFI_CAUSE_SHUTDOWN)
            return far_with_lists(u, event);
        cofi__rtit_sleep(u, 1); /* no transfer, a sleep state [RTIT B 4.1.1] */
        break;
    case COFI_EV_MOV_CR3:
    case COFI_EV_MOV_CR0:
        move_cr(u, event);
        break;
    case COFI_EV_WRMSR:
        if (cofi__rtit_find(event->msr) >= 0)
            return write_msr(u, event);
        sequential(u, event);
        break;
    case COFI_EV_INSN:
    case COFI_EV_STATE:
    case COFI_EV_PTWRITE:
    case COFI_EV_VMPTRLD:
    case COFI_EV_XBEGIN:
    case COFI_EV_XEND:
        sequential(u, event);
        break;
    case COFI_EV_MWAIT:
        sequential(u, event);
        if (event->size > 0 && !event->taken)
            cofi__rtit_sleep(u, event->size);
        break;
    case COFI_EV_CLOCK:
    case COFI_EV_FREQ:
    case COFI_EV_SLEEP:
    case COFI_EV_WAKE:
        cofi__rtit_time(u, event);
        break;
    case COFI_EV_OVERFLOW_HINT:
        cofi__rtit_overflow(u);
        break;
    case COFI_EV_BLOCK: /* PT's alone */
    case COFI_EV_BLOCK_ITEM:
    case COFI_EV_BLOCK_END:
    case COFI_EV_TRIGGER:
    case COFI_EV_PSB_HINT:
    case COFI_EV_BOUNDARY:
    case COFI_EVENT_KINDS:
        break;
    }
    return COFI_OK;
}

static int process(struct rtit *u, const struct cofi_event *event)
{
    bool before = u->packet_en;
    u->made = 0;
    u->told = false;
    if (u->attention && is_instruction(event))
        cofi__rtit_start_instruction(u, event->ip, event->next);
    int status = dispatch(u, event);
    if (u->made == 0 && !u->told && u->config.explain)
        cofi__rtit_explain_silence(u, event, before);
    return status < 0 ? status : cofi__buffer_status(&u->buffer);
}

/* An event whose target is not known yet: the next boundary tells it. An INIT of a processor that then
 * waits for a SIPI goes on where the SIPI says (docs/decisions/0211). */
static bool defers(const struct cofi_event *event)
{
    return event->deferred || (event->kind == COFI_EV_EVENT && event->cause == COFI_CAUSE_INIT_AP);
}

/* A conditional branch while tracing is on and nothing waits: the usual case, without the detours. */
static inline bool usual(const struct rtit *u, const struct cofi_event *event)
{
    return event->kind == COFI_EV_JCC && u->packet_en && !u->attention && !u->deferred && !u->config.explain;
}

static int usual_jcc(struct rtit *u, const struct cofi_event *event)
{
    uint64_t end_ip = event->taken ? event->target : event->next;
    cofi__rtit_push_tnt(u, event->taken);
    if (!u->ip_blind) {
        bool stop = cofi__rtit_compare_ip(u, end_ip, event->taken);
        if (stop || !u->packet_en) {
            struct step s = {.event = event, .nlip = event->next, .end = end_ip, .taken = event->taken, .before = true,
                             .context_was = true, .filter_was = true, .trigger_was = true};
            finish(u, &s, stop);
        }
    }
    u->ip = end_ip;
    return cofi__buffer_status(&u->buffer);
}

int cofi__rtit_event(struct cofi_unit *unit, const struct cofi_event *event)
{
    struct rtit *u = rtit_of(unit);
    int status = COFI_OK;
    if (usual(u, event))
        return usual_jcc(u, event);
    if (u->deferred && event->kind < COFI_EV_CLOCK) {
        bool sipi = event->kind == COFI_EV_EVENT && event->cause == COFI_CAUSE_SIPI;
        u->deferred = false;
        u->pending.target = sipi ? event->target : event->ip;
        if (sipi && event->context_set) {
            u->pending.context_set = true;
            u->pending.after = event->after;
        }
        status = process(u, &u->pending);
        if (sipi || status < 0)
            return status;
    }
    if (event->kind == COFI_EV_BOUNDARY) {
        u->ip = event->ip;
        return status;
    }
    if (defers(event)) {
        u->pending = *event;
        u->deferred = true;
        return COFI_OK;
    }
    return process(u, event);
}
