/* SPDX-License-Identifier: MIT
 * See replay.h. The flow is cut where it has gaps; each stretch between goes through a unit of its own. */
#include "replay_run.h"

#include <stdlib.h>

/* Not replayed: time, where bytes go, and CR3 filtering, which is replayed as a context that is not traced. */
static const uint64_t left_out = PT_CYC_EN | PT_MTC_EN | PT_TSC_EN | PT_TOPA | PT_FABRIC_EN | PT_CR3_FILTER;

/* ---- the unit ---- */

static void hear(void *opaque, const struct cofi_explain *line)
{
    struct replay *r = opaque;
    bool bits = line->packet && (line->packet->kind == COFI_PT_TNT || line->packet->kind == COFI_PT_TNT64);
    if (!line->packet) /* of a branch that runs with packets on: an outcome that waits */
        r->bits += r->telling == COFI_EV_JCC || r->telling == COFI_EV_RET;
    if (!line->packet || r->status < 0 || (r->closing && !bits))
        return;
    size_t n = r->is.n;
    if (bits)
        r->bits = 0;
    r->status = replay_add(&r->is, line->packet, line->offset, line->rule, line->tag);
    if (r->silent) /* LastIP and mode go on from there */
        replay_cut(&r->is, n);
}

static int drop(void *opaque, const uint8_t *bytes, size_t n)
{
    (void)opaque, (void)bytes, (void)n;
    return 0;
}

static void tell(struct replay *r, struct cofi_event event)
{
    event.after = r->context;
    r->telling = event.kind;
    cofi_unit_event(r->unit, &event);
    r->telling = COFI_EVENT_KINDS;
}

static int open_unit(struct replay *r)
{
    struct cofi_unit_config config = {.size = sizeof config, .gen = COFI_PT, .sink = {drop, NULL}, .explain = hear,
                                      .opaque = r, .returns_pop = r->setup->returns_pop};
    const struct ranges *ranges = &r->setup->ranges;
    /* No time; PSBs where the recording has them, so the unit's own period is the longest. */
    uint64_t ctl = (r->setup->ctl & ~left_out) | PT_PSB_FREQ | PT_TRACE_EN;
    int status = cofi_unit_open(&r->unit, &config);
    if (status < 0)
        return status;
    uint8_t mode = r->context.mode ? r->context.mode : 64; /* the flow tells changes, behind a gap too */
    r->context = (struct cofi_context){.vmcs = UINT64_MAX, .mode = mode, .cr0_pg = true, .enclave = true};
    cofi_unit_context(r->unit, &r->context, 0);
    for (unsigned i = 0; status == 0 && ranges->known && i < RANGES_MAX; i++) {
        status = cofi_unit_wrmsr(r->unit, PT_ADDR0_A + 2 * i, ranges->base[i]);
        if (status == 0)
            status = cofi_unit_wrmsr(r->unit, PT_ADDR0_A + 2 * i + 1, ranges->limit[i]);
    }
    r->silent = true; /* what enabling makes is not the stream's */
    if (status == 0)
        status = cofi_unit_wrmsr(r->unit, PT_CTL, ctl);
    r->silent = false;
    return status;
}

static int start(struct replay *r, uint64_t from, uint64_t keep)
{
    replay_go_on_from(r, from, keep);
    r->started = r->pending = r->holding = r->paging = r->aborting = r->closing = false;
    r->returns_n = r->bits = 0;
    r->cfe.kind = r->mwait.kind = r->pwre.kind = COFI_FLOW_EVENT_KINDS;
    replay_list_start(&r->is);
    return open_unit(r);
}

/* Is this the processor's privilege at ip, as far as the configuration lets us guess? */
static uint8_t cpl_at(const struct replay *r, uint64_t ip)
{
    bool kernel = ip >> 63;
    if (!(r->setup->ctl & PT_OS))
        return 3;
    return r->setup->ctl & PT_USER && !kernel ? 3 : 0;
}

static void set_traced(struct replay *r, bool traced, uint64_t ip)
{
    r->context.enclave = !traced; /* stands for all that clears ContextEn */
    if (traced)
        r->context.cpl = cpl_at(r, ip);
}

static bool filters(const struct replay *r) { return r->setup->ranges.known && r->setup->ctl & PT_ADDR_CFG; }

/* An address that no filter and no TraceStop has. */
static uint64_t outside(const struct replay *r)
{
    uint64_t ip = 0;
    for (unsigned i = 0; i < RANGES_MAX * RANGES_MAX; i++)
        if (pt_addr_cfg(r->setup->ctl, i % RANGES_MAX) && ip >= r->setup->ranges.base[i % RANGES_MAX] &&
            ip <= r->setup->ranges.limit[i % RANGES_MAX])
            ip = r->setup->ranges.limit[i % RANGES_MAX] + 1;
    return ip;
}

/* Has what was told left packets on? */
static bool is_on(const struct replay *r)
{
    uint64_t status = 0;
    cofi_unit_rdmsr(r->unit, PT_STATUS, &status);
    return (status & 7) == 7;
}

static void want_ranges(struct replay *r)
{
    if (r->setup->unfiltered)
        return;
    r->result->why =
        "packets went off where the context is traced: filters whose ranges the input does not tell; --range does";
    r->result->wants_ranges = true;
}

/* While packets are off a packet shows whether the context is traced, and what runs is outside of the filters. */
static void set_off(struct replay *r, bool traced)
{
    uint64_t to = outside(r);
    if (is_on(r) || r->context.enclave == !traced)
        return;
    if (traced && !filters(r)) { /* nobody knows */
        want_ranges(r);
        return;
    }
    set_traced(r, traced, to);
    r->silent = true;
    tell(r, (struct cofi_event){.kind = COFI_EV_FAR, .cause = COFI_FAR_JMP, .target = to, .context_set = true,
                                .vector = COFI_NO_VECTOR});
    r->silent = false;
}

/* ---- transfers: told when the state behind them is known ---- */

static void note_branch(struct replay *r, const struct cofi_event *event)
{
    if ((event->kind == COFI_EV_CALL && event->target != event->next) || event->kind == COFI_EV_CALL_IND)
        r->returns[r->returns_n++ % REPLAY_RETURNS] = event->next;
    else if (event->kind == COFI_EV_RET && r->returns_n)
        r->returns_n--;
}

/* A PIP that is due although CR3 stays: the unit must see another one before. */
static void force_paging(struct replay *r, uint64_t ip)
{
    struct cofi_context before = r->context;
    before.cr3 = ~r->context.cr3;
    before.vmx = r->context.vmx == 2 ? 1 : 2; /* a VM entry's goes by that
                                               * [SDM VMX-Specific Packets and VMCS Controls] */
    before.enclave = false;
    cofi_unit_context(r->unit, &before, ip);
}

static void let_go(struct replay *r)
{
    if (!r->holding)
        return;
    r->holding = false;
    bool far = r->held.kind == COFI_EV_FAR || r->held.kind == COFI_EV_EVENT;
    if (far)
        r->held.context_set = true;
    if (far && r->paging)
        force_paging(r, r->held.ip);
    r->paging = false;
    tell(r, r->held);
}

static void hold(struct replay *r, struct cofi_event event, uint64_t until)
{
    let_go(r);
    r->held = event;
    r->held_until = until;
    r->holding = true;
}

/* An event's cause and data, as event trace has told them [PTREF 5.8]. */
static void add_cause(struct replay *r, struct cofi_event *event)
{
    static const struct { uint8_t type, kind, cause; } rows[] = {
        {0x01, COFI_EV_EVENT, COFI_CAUSE_FAULT}, {0x03, COFI_EV_EVENT, COFI_CAUSE_SMI},
        {0x06, COFI_EV_EVENT, COFI_CAUSE_INIT_BSP}, {0x08, COFI_EV_EVENT, COFI_CAUSE_VMEXIT},
        {0x09, COFI_EV_EVENT, COFI_CAUSE_VMEXIT}, {0x0c, COFI_EV_EVENT, COFI_CAUSE_UINTR},
        {0x0e, COFI_EV_FAR, COFI_FAR_INT}};
    if (r->cfe.kind != COFI_FLOW_CFE)
        return;
    r->cfe.kind = COFI_FLOW_EVENT_KINDS;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (rows[i].type == r->cfe.a) {
            event->kind = rows[i].kind;
            event->cause = rows[i].cause;
            event->value = rows[i].type == 0x01 ? r->evd[0] : r->evd[1];
            event->value2 = r->evd[2];
            if (r->cfe.a != 0x08 && r->cfe.a != 0x03 && r->cfe.a != 0x06)
                event->vector = r->cfe.b;
        }
}

/* A branch to its own next address leaves no other trace than its outcome. */
static bool outcome(struct replay *r)
{
    const struct replay_item *item = replay_next_outcome(r);
    return !item || item->value;
}

/* What the last instruction is to a unit. A block may end at MOV CR3, which is no branch. */
static uint8_t last_kind(const struct replay *r)
{
    return (uint8_t)cofi_event_of_class(r->last.cls == COFI_CLASS_OTHER ? r->branch.cls : r->last.cls);
}

/* The event of the branch that ended the last block and went to ip. */
static struct cofi_event branch_event(struct replay *r, uint64_t ip)
{
    struct cofi_event event = {.kind = last_kind(r), .ip = r->branch.ip,
                               .next = r->last.end, .target = ip, .cause = r->last.far, .vector = COFI_NO_VECTOR};
    if (event.kind == COFI_EV_JCC) {
        event.target = r->last.target;
        event.taken = event.target == event.next ? outcome(r) : ip == event.target;
    }
    return event;
}

static void resolve(struct replay *r, uint64_t ip)
{
    let_go(r);
    if (!r->pending)
        return;
    r->pending = false;
    struct cofi_event event = branch_event(r, ip);
    if (event.kind == COFI_EV_MOV_CR3 || event.kind == COFI_EV_VMPTRLD) {
        event.context_set = true;
        r->paging = false;
        tell(r, event);
    } else if (event.kind == COFI_EV_FAR) {
        set_traced(r, true, ip);
        hold(r, event, UINT64_MAX);
    } else if (event.kind >= COFI_EV_JCC && event.kind <= COFI_EV_RET) {
        note_branch(r, &event);
        tell(r, event);
    }
}

/* The last branch, if its packet stands before an offset: what comes there is younger. */
static void resolve_before(struct replay *r, uint64_t offset)
{
    if (!r->pending)
        return;
    uint8_t kind = last_kind(r);
    bool bit = kind == COFI_EV_JCC || kind == COFI_EV_RET;
    const struct replay_item *item = bit ? replay_next_outcome(r) : NULL;
    if (!item || item->offset >= offset)
        item = kind == COFI_EV_JCC ? NULL : replay_next_tip(r, offset);
    if (!item)
        return;
    if (kind == COFI_EV_FAR) {
        resolve(r, item->value);
        let_go(r);
        return;
    }
    struct cofi_event event = branch_event(r, item->value);
    if (event.kind == COFI_EV_JCC)
        event.taken = item->value;
    else if (event.kind == COFI_EV_RET && item->kind == COFI_PT_TNT && r->returns_n)
        event.target = r->returns[(r->returns_n - 1) % REPLAY_RETURNS];
    if (event.kind < COFI_EV_JCC || event.kind > COFI_EV_RET)
        return;
    r->pending = false;
    note_branch(r, &event);
    tell(r, event);
}

/* A stretch that begins in the middle: on at that address, silently. */
static void begin_at(struct replay *r, uint64_t ip)
{
    r->started = true;
    if (ip == COFI_NO_IP)
        return;
    set_traced(r, true, ip);
    r->silent = true;
    tell(r, (struct cofi_event){.kind = COFI_EV_FAR, .cause = COFI_FAR_JMP, .target = ip, .context_set = true,
                                .vector = COFI_NO_VECTOR});
    r->silent = false;
}

static void show_block(struct replay *r, const struct cofi_flow_block *block)
{
    replay_compare_some(r);
    if (!r->started) {
        r->context.mode = block->mode;
        begin_at(r, block->ip);
    }
    resolve(r, block->ip);
    let_go(r);
    r->early = false;
    r->last = *block;
    r->branch = block->insns[block->n - 1];
    r->pending = true;
}

/* Which instruction leads into the trace: event trace may tell; a far jump has no event of its own. */
static uint8_t far_of_cfe(struct replay *r)
{
    static const uint8_t fars[16] = {[2] = COFI_FAR_IRET, [4] = COFI_FAR_RSM, [7] = COFI_FAR_VMENTRY,
                                     [0xd] = COFI_FAR_UIRET, [0xf] = COFI_FAR_SYSCALL};
    bool known = r->cfe.kind == COFI_FLOW_CFE;
    r->cfe.kind = COFI_FLOW_EVENT_KINDS;
    return known ? fars[r->cfe.a & 15] : COFI_FAR_JMP;
}

/* The PSB+ at enabling has a FUP although TIP.PGE follows: it was not on yet [ERR BDM70]. */
static void take_back(struct replay *r)
{
    set_traced(r, false, 0);
    r->silent = true;
    tell(r, (struct cofi_event){.kind = COFI_EV_FAR, .cause = COFI_FAR_JMP, .context_set = true,
                                .vector = COFI_NO_VECTOR});
    r->silent = r->early = false;
}

/* Into the traced context, or, with filters, from outside of them: by what, the packets do not tell. */
static void show_enabled(struct replay *r, const struct cofi_flow_event *flow)
{
    let_go(r);
    if (!replay_told_by(r, flow->offset, COFI_PT_TIP_PGE)) { /* by a PSB+, the packet that ended a gap,
                                                              * or a FUP [ERR APL12] */
        if (!r->started || replay_told_by(r, flow->offset, COFI_PT_FUP))
            begin_at(r, flow->target);
        return;
    }
    r->started = true;
    if (r->early)
        take_back(r);
    r->pending = false;
    r->returns_n = 0;
    set_traced(r, true, flow->target);
    hold(r, (struct cofi_event){.kind = COFI_EV_FAR, .cause = far_of_cfe(r),
                                .target = flow->target, .vector = COFI_NO_VECTOR}, flow->offset);
}

/* A near branch left the filter: to the address in TIP.PGD, or where the code or the calls before say. */
static void show_left(struct replay *r, const struct cofi_flow_event *flow)
{
    struct cofi_event event = branch_event(r, flow->target);
    if (event.kind == COFI_EV_JCC) {
        event.taken = true;
    } else if (flow->target == COFI_NO_IP) {
        event.target = event.kind == COFI_EV_RET && r->returns_n ? r->returns[(r->returns_n - 1) % REPLAY_RETURNS]
                                                                 : r->last.target;
    }
    r->pending = false;
    r->returns_n = 0;
    if (filters(r)) {
        hold(r, event, flow->offset);
        return;
    }
    want_ranges(r);
}

/* Packets go off behind the last instruction. */
static void show_disabled(struct replay *r, const struct cofi_flow_event *flow)
{
    let_go(r);
    if (!r->started) { /* of what was not seen */
        r->started = true;
        replay_go_on_from(r, flow->offset + 1, flow->offset + 1);
        return;
    }
    bool near = r->pending && last_kind(r) >= COFI_EV_JCC && last_kind(r) <= COFI_EV_RET;
    if (near) {
        show_left(r, flow);
        return;
    }
    struct cofi_event event = {.kind = COFI_EV_FAR, .cause = r->pending ? r->branch.far : COFI_FAR_JMP,
                               .ip = flow->ip, .next = r->pending ? r->last.end : flow->ip,
                               .target = flow->target == COFI_NO_IP ? 0 : flow->target, .vector = COFI_NO_VECTOR};
    if (r->pending && last_kind(r) == COFI_EV_MOV_CR3)
        event.kind = COFI_EV_MOV_CR3;
    r->pending = false;
    r->returns_n = 0;
    set_traced(r, flow->target != COFI_NO_IP, flow->target);
    event.context_set = true;
    hold(r, event, flow->offset);
}

static void show_async(struct replay *r, const struct cofi_flow_event *flow, bool leaves)
{
    if (!r->started)
        begin_at(r, flow->ip);
    resolve(r, flow->ip);
    let_go(r);
    bool traced = flow->target != COFI_NO_IP;
    struct cofi_event event = {.kind = COFI_EV_EVENT, .cause = COFI_CAUSE_INTR, .ip = flow->ip, .next = flow->ip,
                               .target = traced ? flow->target : 0, .vector = COFI_NO_VECTOR};
    add_cause(r, &event);
    if (r->aborting)
        event.kind = COFI_EV_XABORT;
    r->context.intx &= !r->aborting;
    r->aborting = false;
    set_traced(r, traced, flow->target);
    r->returns_n = leaves ? 0 : r->returns_n;
    hold(r, event, leaves ? flow->offset : UINT64_MAX);
}

static void show_psb(struct replay *r, const struct cofi_flow_event *flow)
{
    r->early = flow->ip != COFI_NO_IP && (!r->started || r->context.enclave);
    if (!r->started) {
        begin_at(r, flow->ip);
        replay_go_on_from(r, flow->offset, flow->offset);
    } else if (flow->ip != COFI_NO_IP)
        resolve(r, flow->ip);
    let_go(r);
    if (r->early)
        begin_at(r, flow->ip);
    tell(r, (struct cofi_event){.kind = COFI_EV_PSB_HINT, .ip = flow->ip == COFI_NO_IP ? 0 : flow->ip});
    r->returns_n = 0;
    replay_compare_to_psb(r, flow->offset);
}

/* Packets are lost from here to ip, or (none) tracing is off when they no longer are. */
static void overflow_to(struct replay *r, uint64_t ip)
{
    bool on = ip != COFI_NO_IP;
    r->started = true;
    r->pending = false;
    r->returns_n = 0;
    set_traced(r, on, ip);
    r->closing = true; /* what moves the enables is lost; the outcomes before it are not */
    tell(r, (struct cofi_event){.kind = COFI_EV_FAR, .cause = COFI_FAR_JMP, .target = on ? ip : 0,
                                .context_set = true, .vector = COFI_NO_VECTOR});
    r->closing = false;
    tell(r, (struct cofi_event){.kind = COFI_EV_OVERFLOW_HINT});
    tell(r, (struct cofi_event){.kind = COFI_EV_BOUNDARY, .ip = on ? ip : 0});
    r->bits = 0;
}

static void show_overflow(struct replay *r, const struct cofi_flow_event *flow)
{
    size_t n = r->started ? replay_overflows_until(r, flow->offset) : 1;
    let_go(r);
    resolve_before(r, flow->offset); /* but nothing of what ran behind it */
    for (; n > 1; n--)
        overflow_to(r, COFI_NO_IP);
    if (n || flow->target != COFI_NO_IP)
        overflow_to(r, flow->target);
}

/* ---- power, transactions, the rest ---- */

/* As hosts number it: packets have MWAIT's encoding, where C1 is 0. */
static uint8_t c_state(uint64_t encoded) { return (uint8_t)(encoded + 1); }

/* PWRE waits for its EXSTOP. */
static void show_pwre(struct replay *r, uint64_t ip)
{
    bool mwait = r->mwait.kind == COFI_FLOW_MWAIT;
    struct cofi_event event = {.kind = mwait ? COFI_EV_MWAIT : COFI_EV_SLEEP, .ip = ip, .next = ip,
                               .size = c_state(r->pwre.a), .cause = r->pwre.c, .vector = COFI_NO_VECTOR};
    if (mwait)
        event.value = r->mwait.a | (uint64_t)r->mwait.b << 32;
    r->mwait.kind = r->pwre.kind = COFI_FLOW_EVENT_KINDS;
    tell(r, event);
}

static void show_exstop(struct replay *r, const struct cofi_flow_event *flow)
{
    let_go(r);
    resolve_before(r, flow->offset);
    set_off(r, flow->ip != COFI_NO_IP);
    if (r->pwre.kind == COFI_FLOW_PWRE) {
        show_pwre(r, flow->ip == COFI_NO_IP ? 0 : flow->ip);
        return;
    }
    if (flow->ip != COFI_NO_IP)
        tell(r, (struct cofi_event){.kind = COFI_EV_BOUNDARY, .ip = flow->ip});
    tell(r, (struct cofi_event){.kind = COFI_EV_FREQ, .ip = flow->ip, .vector = COFI_NO_VECTOR});
}

/* What is held is over before this offset, if a packet has ended it. */
static void let_go_before(struct replay *r, uint64_t offset)
{
    if (r->holding && offset > r->held_until)
        let_go(r);
}

/* An abort is an asynchronous transfer that turns out to be one by what follows. */
static void show_tsx(struct replay *r, const struct cofi_flow_event *flow)
{
    if (flow->b && r->holding && r->held.kind == COFI_EV_EVENT) {
        r->held.kind = COFI_EV_XABORT;
        r->held.cause = 0;
        r->context.intx = false;
        let_go(r);
        return;
    }
    let_go_before(r, flow->offset);
    const struct replay_item *item = replay_told_by(r, flow->offset, COFI_PT_MODE_TSX);
    if (flow->b && flow->ip == COFI_NO_IP && item && replay_is_behind(r, item, COFI_PT_FUP)) {
        r->aborting = true; /* its event follows */
        return;
    }
    if (flow->ip != COFI_NO_IP)
        resolve(r, flow->ip);
    let_go(r);
    if (!flow->b && !item) { /* repeated by a PSB+ or behind an OVF */
        r->context.intx = flow->a;
        cofi_unit_context(r->unit, &r->context, 0);
        return;
    }
    if (!r->pending)
        set_off(r, true);
    r->context.intx = !flow->a; /* an overflow may have hidden that it was not so */
    cofi_unit_context(r->unit, &r->context, 0);
    r->context.intx = flow->a;
    tell(r, (struct cofi_event){.kind = flow->b ? COFI_EV_XABORT : flow->a ? COFI_EV_XBEGIN : COFI_EV_XEND,
                                .ip = flow->ip, .target = flow->target, .context_set = true,
                                .vector = COFI_NO_VECTOR});
}

/* Does the PIP at this offset belong to the transfer that is held or pending: is its TIP the next packet? One in a PSB+
 * is not listed; one of a stretch without code may be told early. */
static bool pip_of_transfer(struct replay *r, uint64_t offset)
{
    const struct replay_item *pip = replay_told_by(r, offset, COFI_PT_PIP);
    if (!pip)
        return false;
    const struct replay_item *first = r->was->list.items, *next = pip + 1, *end = first + r->was->list.n;
    /* of an event that is told later */
    if (replay_is_async(r, pip) && !(r->holding && r->held.kind == COFI_EV_EVENT)) {
        resolve(r, pip[-1].value);
        let_go(r);
        return true;
    }
    if (!r->holding && !r->pending) /* of what leads into the trace */
        return next < end && next->kind == COFI_PT_TIP_PGE;
    if (!r->holding)
        return last_kind(r) >= COFI_EV_FAR;
    if (r->held.kind == COFI_EV_EVENT)
        return pip > first && pip[-1].kind == COFI_PT_FUP;
    if (next < end && next->kind == COFI_PT_VMCS)
        next++;
    return next < end && (next->value == r->held.target || next->kind == COFI_PT_TIP_PGD);
}

/* CR3 belongs to the transfer before it, to a MOV CR3 that ran last, or to what leads into the trace. */
static void show_paging(struct replay *r, const struct cofi_flow_event *flow)
{
    bool transfer = r->started && pip_of_transfer(r, flow->offset);
    bool off = r->started && !transfer && !r->holding && !r->pending && replay_told_by(r, flow->offset, COFI_PT_PIP);
    if (off)
        set_off(r, true);
    r->context.cr3 = flow->value;
    r->context.pae = flow->value & 0xfe0; /* bits that only PAE paging tells */
    r->context.vmx = flow->a ? 2 : r->context.vmx == 2 ? 1 : r->context.vmx;
    r->paging |= transfer;
    if (off)
        tell(r, (struct cofi_event){.kind = COFI_EV_MOV_CR3, .ip = outside(r), .next = outside(r), .context_set = true,
                                    .vector = COFI_NO_VECTOR});
    else if (!transfer) /* the unit has it so already */
        cofi_unit_context(r->unit, &r->context, 0);
    else if (r->pending && last_kind(r) == COFI_EV_MOV_CR3)
        resolve(r, r->last.end);
}

/* State that belongs to the transfer before it, or to the instruction that ran last. */
static void show_state(struct replay *r, const struct cofi_flow_event *flow)
{
    let_go_before(r, flow->offset);
    if (flow->kind == COFI_FLOW_PAGING) {
        show_paging(r, flow);
    } else if (flow->kind == COFI_FLOW_VMCS) {
        bool off = r->started && !r->holding && !r->pending && replay_told_by(r, flow->offset, COFI_PT_VMCS);
        if (off)
            set_off(r, true);
        r->context.vmcs = flow->value;
        if (r->pending && last_kind(r) == COFI_EV_VMPTRLD)
            resolve(r, r->last.end);
        else if (off)
            tell(r, (struct cofi_event){.kind = COFI_EV_VMPTRLD,
                                        .ip = outside(r),
                                        .next = outside(r),
                                        .context_set = true,
                                        .vector = COFI_NO_VECTOR});
    } else {
        r->context.mode = flow->a ? flow->a : r->context.mode;
        if (flow->c)
            r->context.iflag = flow->b;
    }
}

static void show_data(struct replay *r, const struct cofi_flow_event *flow)
{
    static const uint8_t kinds[COFI_FLOW_EVENT_KINDS] = {
        [COFI_FLOW_PTWRITE] = COFI_EV_PTWRITE, [COFI_FLOW_BBP] = COFI_EV_BLOCK, [COFI_FLOW_BIP] = COFI_EV_BLOCK_ITEM,
        [COFI_FLOW_BEP] = COFI_EV_BLOCK_END, [COFI_FLOW_TRIG] = COFI_EV_TRIGGER, [COFI_FLOW_PWRX] = COFI_EV_WAKE};
    bool value_in_a = flow->kind == COFI_FLOW_BBP || flow->kind == COFI_FLOW_TRIG;
    struct cofi_event event = {.kind = kinds[flow->kind], .ip = flow->ip, .vector = COFI_NO_VECTOR,
                               .value = value_in_a ? flow->a : flow->value, .size = flow->a};
    if (flow->kind == COFI_FLOW_BBP)
        event.size = flow->b ? 4 : 8;
    if (flow->kind == COFI_FLOW_BEP)
        event.taken = flow->ip != COFI_NO_IP;
    if (flow->kind == COFI_FLOW_TRIG) {
        /* has it an address of its own? */
        const struct replay_item *item = replay_told_by(r, flow->offset, COFI_PT_TRIG);
        event.taken = flow->b && !(item && item->more & 1);
        event.size = flow->c;
        event.value2 = flow->value;
    }
    if (flow->kind == COFI_FLOW_PWRX) {
        event.size = c_state(flow->a);
        event.value = c_state(flow->b);
        event.cause = flow->c;
    }
    let_go(r);
    resolve_before(r, flow->offset);
    tell(r, event);
}

/* ---- stretches ---- */

/* Mostly the unit's own, by the ranges; into one from outside of the filters only the packet tells. */
static void show_stop(struct replay *r)
{
    let_go(r);
    if (!r->setup->ranges.known) {
        want_ranges(r);
        return;
    }
    for (unsigned i = 0; i < RANGES_MAX && (!r->is.n || r->is.items[r->is.n - 1].kind != COFI_PT_TRACESTOP); i++) {
        uint64_t base = r->setup->ranges.base[i];
        if (pt_addr_cfg(r->setup->ctl, i) != PT_ADDR_STOP)
            continue;
        set_off(r, true);
        tell(r, (struct cofi_event){.kind = COFI_EV_JMP, .ip = outside(r), .next = outside(r), .target = base});
    }
}

static void show_gap(struct replay *r, const struct cofi_flow_event *flow)
{
    let_go(r);
    if (r->started)
        replay_compare_rest(r, flow->offset, true);
    r->result->gaps++;
    cofi_unit_close(r->unit);
    r->unit = NULL;
    /* The packet there tells where execution is, a FUP that of an event, which is shown; a PSB+ begins
     * anew, and its PSB may stand before. */
    bool shown = flow->end == UINT64_MAX || replay_told_by(r, flow->end, COFI_PT_FUP);
    uint64_t from = flow->end + !shown;
    r->status = r->status < 0 ? r->status : start(r, from, replay_psb_before(r, flow->offset));
}

/* Does a kind stand in the trace where it is told? */
static bool has_packet(uint8_t kind)
{
    return kind == COFI_FLOW_PAGING || kind == COFI_FLOW_VMCS || kind == COFI_FLOW_TSX || kind == COFI_FLOW_PTWRITE ||
           kind == COFI_FLOW_EXSTOP || kind == COFI_FLOW_MWAIT || kind == COFI_FLOW_PWRE || kind == COFI_FLOW_PWRX;
}

static void show_event(struct replay *r, const struct cofi_flow_event *flow)
{
    if (r->started && has_packet(flow->kind) && replay_overflows_until(r, flow->offset))
        show_overflow(r, &(struct cofi_flow_event){.offset = flow->offset, .ip = COFI_NO_IP, .target = COFI_NO_IP});
    switch ((enum cofi_flow_event_kind)flow->kind) {
    case COFI_FLOW_ENABLED: show_enabled(r, flow); break;
    case COFI_FLOW_DISABLED: show_disabled(r, flow); break;
    case COFI_FLOW_ASYNC: show_async(r, flow, false); break;
    case COFI_FLOW_ASYNC_DISABLED: show_async(r, flow, true); break;
    case COFI_FLOW_OVERFLOW: show_overflow(r, flow); break;
    case COFI_FLOW_GAP: show_gap(r, flow); break;
    case COFI_FLOW_PSB: show_psb(r, flow); break;
    case COFI_FLOW_TSX: show_tsx(r, flow); break;
    case COFI_FLOW_PAGING:
    case COFI_FLOW_VMCS:
    case COFI_FLOW_MODE: show_state(r, flow); break;
    case COFI_FLOW_MWAIT: let_go(r); r->mwait = *flow; break;
    case COFI_FLOW_PWRE: let_go(r); r->pwre = *flow; break;
    case COFI_FLOW_EXSTOP: show_exstop(r, flow); break;
    case COFI_FLOW_CFE: r->cfe = *flow; break;
    case COFI_FLOW_EVD: r->evd[flow->a % 3] = flow->value; break;
    case COFI_FLOW_PTWRITE:
    case COFI_FLOW_PWRX:
    case COFI_FLOW_BBP:
    case COFI_FLOW_BIP:
    case COFI_FLOW_BEP:
    case COFI_FLOW_TRIG: show_data(r, flow); break;
    case COFI_FLOW_STOP: show_stop(r); break;
    case COFI_FLOW_CBR:
    case COFI_FLOW_CODE:
    case COFI_FLOW_EVENT_KINDS: break;
    }
}

static int stop(const struct replay *r) { return r->status < 0 ? r->status : r->result->why != NULL; }

static int blocks(void *opaque, struct cofi_flow *flow, const struct cofi_flow_block *const *blocks, size_t n)
{
    (void)flow;
    for (size_t i = 0; i < n && !stop(opaque); i++)
        show_block(opaque, blocks[i]);
    return stop(opaque);
}

static int event(void *opaque, struct cofi_flow *flow, const struct cofi_flow_event *event)
{
    (void)flow;
    show_event(opaque, event);
    return stop(opaque);
}

int replay_stream(struct session_stream *stream, const struct replay_setup *setup, bool partial,
                  struct replay_result *result)
{
    struct replay_source was;
    struct replay r = {.setup = setup, .was = &was, .result = result};
    *result = (struct replay_result){0};
    replay_source_start(&was, stream, setup->errata);
    int status = start(&r, 0, 0);
    if (status == 0)
        status = session_walk(stream, &(struct session_visitor){blocks, event, NULL, &r});
    if (status >= 0 && r.unit && r.started && r.status >= 0) {
        let_go(&r);
        if (!partial) /* the last branch of a stream that was cut: nothing is shown behind it */
            resolve_before(&r, UINT64_MAX);
        replay_compare_rest(&r, UINT64_MAX, partial || result->why != NULL);
    }
    cofi_unit_close(r.unit);
    free(r.is.items);
    replay_source_fini(&was);
    return status < 0 ? status : r.status;
}
