/* SPDX-License-Identifier: MIT
 * The PT unit behind the frame: open, reset, events in the order in which they count. */
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/error.h"
#include "unit/pt/pt.h"

enum {
    BUFFER_LEAST = 256,
    CYC_LIMIT = 1 << 19
}; /* an operation or PSB+ must fit when the buffer is empty */

static void forget(struct cofi__pt *pt)
{
    cofi__pt_trigger_off(pt);
    pt->mtc_tsc = UINT64_MAX;
    pt->context_en = pt->filter_en = false;
    pt->stage_count = pt->op_start = pt->buffer.fill = pt->said_n = 0;
    pt->psb_bytes = 0;
    pt->sleeping = 0;
    pt->attention &= (uint8_t)~PT_DO_PENDING;
}

/* [SDM Warm Reset]: with IP filtering the registers survive, but for TraceEn. INIT touches nothing.
 */
static void reset(struct cofi_unit *unit, enum cofi_reset kind)
{
    struct cofi__pt *pt = cofi__pt_of(unit);
    switch (kind) {
    case COFI_RESET_INIT: return;
    case COFI_RESET_WARM:
        forget(pt);
        if (cofi__pt_ctl(pt) & PT_BIT(CTL_TRACE_EN))
            cofi__pt_output_store(pt);
        if (cofi__pt_caps_has(pt->caps, PT_NEED_IP_FILTER))
            pt->msr[PT_MSR_CTL] &= ~PT_BIT(CTL_TRACE_EN);
        else
            cofi__pt_registers_clear(pt);
        break;
    case COFI_RESET_COLD:
        forget(pt);
        cofi__pt_registers_clear(pt);
        break;
    }
}

/* The capabilities that the host asks for, or null: there are none such. */
static const struct cofi__pt_caps *find_caps(const struct cofi_unit_config *config, struct cofi__pt_caps *own)
{
    if (!config->cpu)
        return cofi__pt_caps_find(config->model);
    return cofi__pt_caps_of_cpu(config->cpu, own) ? own : NULL;
}

static void settle(struct cofi__pt *pt, const struct cofi_unit_config *config,
                   const struct cofi__pt_caps *caps)
{
    pt->unit.ops = &cofi__pt_ops;
    pt->config = *config;
    pt->caps = caps;
    pt->tsc_offset = config->tsc_offset;
    pt->codec.gen = COFI_PT;
    pt->tnt_max = config->long_tnt ? 47 : 6;
    pt->art_num = config->tsc_art_num ? config->tsc_art_num : caps->art_num;
    pt->art_den = config->tsc_art_den ? config->tsc_art_den : caps->art_den ? caps->art_den : 1;
    pt->cyc_limit = config->cyc_limit ? config->cyc_limit : CYC_LIMIT;
    pt->ratio = caps->ratio;
    pt->context = (struct cofi_context){.vmcs = UINT64_MAX, .mode = 64};
    pt->out = (struct cofi__pt_output){.sink = config->sink, .memory = config->memory,
                                       .maxphyaddr = caps->maxphyaddr,
                                       .multi = cofi__pt_caps_has(caps, PT_NEED_TOPA_MULTI)};
    pt->attention = config->clock ? PT_DO_CLOCK : 0;
}

static int open(struct cofi_unit **unit, const struct cofi_unit_config *config)
{
    struct cofi__pt_caps own;
    const struct cofi__pt_caps *caps = find_caps(config, &own);
    if (!caps || (config->buffer_bytes && config->buffer_bytes < BUFFER_LEAST))
        return COFI_ERR_RANGE;
    struct cofi__pt *pt = calloc(1, sizeof *pt + config->buffer_bytes);
    if (!pt)
        return COFI_ERR_NOMEM;
    if (caps == &own) {
        pt->own_caps = own;
        caps = &pt->own_caps;
    }
    settle(pt, config, caps);
    cofi__buffer_init(&pt->buffer, (uint8_t *)(pt + 1), config->buffer_bytes, config->drain_bytes,
                      config->drain_cycles, (struct cofi__drain){cofi__pt_leave, pt});
    *unit = &pt->unit;
    reset(*unit, COFI_RESET_COLD);
    return 0;
}

static void close(struct cofi_unit *unit) { free(cofi__pt_of(unit)); }

int cofi__pt_refused(struct cofi__pt *pt, int status)
{
    bool lost = pt->lost;
    pt->lost = false;
    return status == 0 && lost ? COFI_ERR_FULL : status;
}

static int wrmsr(struct cofi_unit *unit, uint32_t msr, uint64_t value)
{
    struct cofi__pt *pt = cofi__pt_of(unit);
    return cofi__pt_refused(pt, cofi__pt_wrmsr_at(pt, msr, value, pt->ip, pt->ip));
}

static int cpuid(const struct cofi_unit *unit, uint32_t leaf, uint32_t subleaf, uint32_t regs[4])
{
    const struct cofi__pt *pt = (const struct cofi__pt *)unit;
    return cofi__pt_caps_cpuid(pt->caps, leaf, subleaf, regs);
}

/* As a far transfer that nobody sees: enables follow at the next one or at TraceEn. */
static void context(struct cofi_unit *unit, const struct cofi_context *context, uint64_t ip)
{
    struct cofi__pt *pt = cofi__pt_of(unit);
    pt->context = *context;
    pt->ip = ip;
}

/* Does this event tell the address of the next instruction, and so complete a deferred transfer? */
static bool tells_ip(enum cofi_event_kind kind)
{
    switch (kind) {
    case COFI_EV_CLOCK:
    case COFI_EV_FREQ:
    case COFI_EV_SLEEP:
    case COFI_EV_WAKE:
    case COFI_EV_OVERFLOW_HINT:
    case COFI_EV_BLOCK:
    case COFI_EV_BLOCK_ITEM:
    case COFI_EV_BLOCK_END:
    case COFI_EV_TRIGGER:
    case COFI_EV_PSB_HINT:
    case COFI_EVENT_KINDS: return false;
    case COFI_EV_INSN:
    case COFI_EV_JCC:
    case COFI_EV_JMP:
    case COFI_EV_CALL:
    case COFI_EV_JMP_IND:
    case COFI_EV_CALL_IND:
    case COFI_EV_RET:
    case COFI_EV_FAR:
    case COFI_EV_MOV_CR3:
    case COFI_EV_MOV_CR0:
    case COFI_EV_STATE:
    case COFI_EV_WRMSR:
    case COFI_EV_PTWRITE:
    case COFI_EV_VMPTRLD:
    case COFI_EV_XBEGIN:
    case COFI_EV_XEND:
    case COFI_EV_XABORT:
    case COFI_EV_MWAIT:
    case COFI_EV_EVENT:
    case COFI_EV_BOUNDARY: return true;
    }
    return false;
}

static void transfer(struct cofi__pt *pt, const struct cofi_event *event)
{
    if (event->kind == COFI_EV_FAR)
        cofi__pt_far(pt, event);
    else
        cofi__pt_interrupt(pt, event);
    pt->ip = event->target;
}

/* The target of a transfer is not known yet. It is not needed where the context leaves the trace;
 * else nothing is made before the next address comes. */
static void transfer_or_wait(struct cofi__pt *pt, const struct cofi_event *event)
{
    const struct cofi_context *after = event->context_set ? &event->after : &pt->context;
    if (event->deferred && pt->trigger_en && cofi__pt_context_value(pt, after) && !event->msr) {
        pt->pending = *event;
        pt->attention |= PT_DO_PENDING;
        pt->event_made = true;
    } else {
        transfer(pt, event);
    }
}

static void complete(struct cofi__pt *pt, uint64_t target)
{
    struct cofi_event event = pt->pending;
    pt->attention &= (uint8_t)~PT_DO_PENDING;
    event.deferred = false;
    event.target = target;
    transfer(pt, &event);
    cofi__pt_commit(pt);
}

/* What is due before the event: a deferred target, the time, the way out of an overflow, a PSB+. The last two
 * need the address of the next instruction only where packets are on. */
static void attend(struct cofi__pt *pt, const struct cofi_event *event)
{
    bool known = tells_ip(event->kind);
    uint64_t ip = known ? event->ip : pt->ip;
    if (pt->attention & PT_DO_PENDING && known)
        complete(pt, event->ip);
    if (pt->attention & PT_DO_CLOCK)
        cofi__pt_clock_ask(pt);
    if (pt->attention & PT_DO_PENDING || (!known && pt->packet_en) || !pt->trigger_en)
        return;
    if (pt->attention & PT_DO_RESUME && cofi__buffer_empty(&pt->buffer))
        cofi__pt_resume(pt, ip, true);
    if (pt->attention & PT_DO_PSB && !pt->overflow && !pt->compound && !pt->block_open)
        cofi__pt_psb(pt, false, ip, PT_RULE_PSB);
}

/* Events that change the processor's state without any rule of their own. */
static void context_only(struct cofi__pt *pt, const struct cofi_event *event)
{
    if (event->context_set)
        cofi__pt_state(pt, event);
}

static void remember(struct cofi__pt *pt)
{
    pt->event_context = pt->context;
    pt->overflow_packets = pt->packet_en;
    pt->overflow_mode = pt->mode_sent;
}

static int dispatch(struct cofi__pt *pt, const struct cofi_event *event)
{
    switch ((enum cofi_event_kind)event->kind) {
    case COFI_EV_JCC: cofi__pt_jcc(pt, event); break;
    case COFI_EV_JMP: cofi__pt_direct(pt, event, false); break;
    case COFI_EV_CALL: cofi__pt_direct(pt, event, true); break;
    case COFI_EV_JMP_IND: cofi__pt_indirect(pt, event, false); break;
    case COFI_EV_CALL_IND: cofi__pt_indirect(pt, event, true); break;
    case COFI_EV_RET: cofi__pt_return(pt, event); break;
    case COFI_EV_FAR:
    case COFI_EV_EVENT:
        if (event->msr && !cofi__pt_ctl_legal(pt, event->control))
            return COFI_ERR_GP;
        transfer_or_wait(pt, event);
        break;
    case COFI_EV_MOV_CR3: cofi__pt_mov_cr3(pt, event); break;
    case COFI_EV_INSN:
    case COFI_EV_MOV_CR0:
    case COFI_EV_STATE: context_only(pt, event); break;
    case COFI_EV_WRMSR: {
        int status = cofi__pt_wrmsr_at(pt, event->msr, event->value, event->ip, event->next);
        return status == COFI_ERR_NOT_FOUND ? 0 : status;
    }
    case COFI_EV_PTWRITE: cofi__pt_ptwrite(pt, event); break;
    case COFI_EV_VMPTRLD: cofi__pt_vmptrld(pt, event); break;
    case COFI_EV_XBEGIN:
    case COFI_EV_XEND:
    case COFI_EV_XABORT: cofi__pt_tsx(pt, event); break;
    case COFI_EV_MWAIT: cofi__pt_mwait(pt, event); break;
    case COFI_EV_BOUNDARY: break;
    case COFI_EV_CLOCK: cofi__pt_clock_set(pt, event->tsc, event->cycles); break;
    case COFI_EV_FREQ: cofi__pt_freq(pt, event); break;
    case COFI_EV_SLEEP: cofi__pt_sleep(pt, event); break;
    case COFI_EV_WAKE: cofi__pt_wake(pt, event); break;
    case COFI_EV_OVERFLOW_HINT:
        if (pt->trigger_en && !pt->overflow) {
            remember(pt);
            cofi__pt_flush_tnt(pt);
            cofi__pt_commit(pt);
            cofi__pt_overflow(pt);
        }
        break;
    case COFI_EV_BLOCK:
    case COFI_EV_BLOCK_ITEM:
    case COFI_EV_BLOCK_END: cofi__pt_block(pt, event); break;
    case COFI_EV_TRIGGER: cofi__pt_trigger(pt, event); break;
    case COFI_EV_PSB_HINT: /* extra ones at will [PTREF 5.11], under the same conditions */
        if (pt->trigger_en && !pt->overflow && !pt->compound && !pt->block_open &&
            !(pt->attention & PT_DO_PENDING))
            cofi__pt_psb(pt, false, event->ip, PT_RULE_PSB);
        break;
    case COFI_EVENT_KINDS: break;
    }
    return 0;
}

/* Where execution goes on. */
static void move_ip(struct cofi__pt *pt, const struct cofi_event *event)
{
    switch ((enum cofi_event_kind)event->kind) {
    case COFI_EV_JCC: pt->ip = event->taken ? event->target : event->next; break;
    case COFI_EV_JMP:
    case COFI_EV_CALL:
    case COFI_EV_JMP_IND:
    case COFI_EV_CALL_IND:
    case COFI_EV_RET:
    case COFI_EV_XABORT: pt->ip = event->target; break;
    case COFI_EV_INSN:
    case COFI_EV_MOV_CR3:
    case COFI_EV_MOV_CR0:
    case COFI_EV_STATE:
    case COFI_EV_WRMSR:
    case COFI_EV_PTWRITE:
    case COFI_EV_VMPTRLD:
    case COFI_EV_XBEGIN:
    case COFI_EV_XEND:
    case COFI_EV_MWAIT: pt->ip = event->next; break;
    case COFI_EV_BOUNDARY: pt->ip = event->ip; break;
    case COFI_EV_FAR:
    case COFI_EV_EVENT: /* transfer() did */
    case COFI_EV_CLOCK:
    case COFI_EV_FREQ:
    case COFI_EV_SLEEP:
    case COFI_EV_WAKE:
    case COFI_EV_OVERFLOW_HINT:
    case COFI_EV_BLOCK:
    case COFI_EV_BLOCK_ITEM:
    case COFI_EV_BLOCK_END:
    case COFI_EV_TRIGGER:
    case COFI_EV_PSB_HINT:
    case COFI_EVENT_KINDS: break;
    }
}

/* The first enable that is off, or that this kind makes nothing. */
static void explain_none(struct cofi__pt *pt)
{
    enum cofi__pt_rule rule = PT_RULE_NONE_KIND;
    if (!pt->trigger_en)
        rule = PT_RULE_NONE_TRIGGER;
    else if (pt->overflow)
        rule = PT_RULE_NONE_OVERFLOW;
    else if (!pt->context_en)
        rule = PT_RULE_NONE_CONTEXT;
    else if (!pt->filter_en)
        rule = PT_RULE_NONE_FILTER;
    else if (!(cofi__pt_ctl(pt) & PT_BIT(CTL_BRANCH_EN)))
        rule = PT_RULE_NONE_BRANCH;
    cofi__pt_explain_none(pt, rule);
}

/* A conditional branch with nothing due that keeps FilterEn: most of what happens. */
static bool quick_jcc(struct cofi__pt *pt, const struct cofi_event *event)
{
    if (event->kind != COFI_EV_JCC || pt->attention || !pt->packet_en || pt->buffer.capacity)
        return false;
    if (event->taken && pt->filter_count + pt->stop_count > 0 &&
        !cofi__pt_passes(pt, event->target))
        return false;
    cofi__pt_bit(pt, event->taken);
    cofi__pt_commit(pt);
    pt->ip = event->taken ? event->target : event->next;
    return true;
}

static int event(struct cofi_unit *unit, const struct cofi_event *event)
{
    struct cofi__pt *pt = cofi__pt_of(unit);
    if (quick_jcc(pt, event))
        return cofi__pt_refused(pt, 0);
    if (pt->attention)
        attend(pt, event);
    if (pt->buffer.capacity && !pt->overflow) { /* what decoders know, should this one be lost */
        remember(pt);
    }
    pt->event_made = false;
    int status = dispatch(pt, event);
    cofi__pt_commit(pt);
    move_ip(pt, event);
    if (!pt->event_made && pt->config.explain)
        explain_none(pt);
    return cofi__pt_refused(pt, status);
}

/* The narrow door: outcomes that already bind, as many at a time as the packet takes. */
static int tnt(struct cofi_unit *unit, uint64_t outcomes, unsigned n)
{
    struct cofi__pt *pt = cofi__pt_of(unit);
    while (n > 0) {
        unsigned room = pt->tnt_max - pt->tnt_count, part = n < room ? n : room;
        n -= part;
        cofi__pt_bits(pt, outcomes >> n, part);
    }
    cofi__pt_commit(pt);
    return cofi__pt_refused(pt, 0);
}

/* A due PSB+ goes behind the TIP, whose target is the address it needs. */
static int tip(struct cofi_unit *unit, uint64_t target)
{
    struct cofi__pt *pt = cofi__pt_of(unit);
    if (pt->packet_en)
        cofi__pt_tip(pt, target, PT_RULE_TIP);
    cofi__pt_commit(pt);
    pt->ip = target;
    if (pt->attention & (PT_DO_PSB | PT_DO_RESUME)) {
        struct cofi_event boundary = {.kind = COFI_EV_BOUNDARY, .ip = target};
        attend(pt, &boundary);
    }
    return cofi__pt_refused(pt, 0);
}

static void tsc(struct cofi_unit *unit, uint64_t multiplier, uint64_t offset)
{
    struct cofi__pt *pt = cofi__pt_of(unit);
    pt->tsc_multiplier = multiplier;
    pt->tsc_offset = offset;
}

static void drain(struct cofi_unit *unit)
{
    cofi__pt_drain_all(cofi__pt_of(unit));
}

static uint64_t bytes(const struct cofi_unit *unit)
{
    return ((const struct cofi__pt *)unit)->bytes;
}

static int capability(const struct cofi_unit *unit, unsigned i, const char **name)
{
    return cofi__pt_caps_name(((const struct cofi__pt *)unit)->caps, i, name);
}

const char *cofi_unit_model(unsigned i, const char **text, uint32_t *cpu)
{
    const struct cofi__pt_caps *caps = cofi__pt_caps_at(i);
    if (!caps)
        return NULL;
    if (text)
        *text = caps->text;
    if (cpu)
        *cpu = (uint32_t)caps->family << 16 | caps->model;
    return caps->name;
}

const struct cofi__unit_ops cofi__pt_ops = {
    .open = open,
    .close = close,
    .reset = reset,
    .rdmsr = cofi__pt_rdmsr,
    .wrmsr = wrmsr,
    .cpuid = cpuid,
    .set_field = cofi__pt_set_field,
    .get_field = cofi__pt_get_field,
    .context = context,
    .event = event,
    .tnt = tnt,
    .tip = tip,
    .drain = drain,
    .bytes = bytes,
    .xsaves = cofi__pt_xsaves,
    .xrstors = cofi__pt_xrstors,
    .capability = capability,
    .field = cofi__pt_field,
    .tsc = tsc,
};
