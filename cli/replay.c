/* SPDX-License-Identifier: MIT
 * See replay.h. */
#include "replay.h"

#include <stdlib.h>

/* CTL's fields by the manual [SDM IA32_RTIT_CTL MSR]. */
static const uint64_t trace_en = 1, time_bits = 1 << 1 | 1 << 9 | 1 << 10, psb_freq_bits = 15 << 24,
                      topa = 1 << 8;
static const uint64_t filter_bits = UINT64_C(0xffff) << 32 | 1 << 7;
enum { MSR_CTL = 0x570 };

struct replay {
    struct cofi_unit *unit;
    struct replay_list *list;
    struct cofi_context context;
    struct cofi_flow_block last; /* its branch waits for what comes next */
    struct cofi_flow_insn branch;
    bool pending, started;
    int status;
    const char *why;
};

/* ---- lists of packets ---- */

static int push(struct replay_list *list, struct replay_item item)
{
    if (list->n == list->room) {
        size_t room = list->room ? 2 * list->room : 4096;
        struct replay_item *items = realloc(list->items, room * sizeof *items);
        if (!items)
            return COFI_ERR_NOMEM;
        list->items = items;
        list->room = room;
    }
    list->items[list->n++] = item;
    return 0;
}

static int push_bits(struct replay_list *list, const struct cofi_packet *packet,
                     struct replay_item item)
{
    item.kind = COFI_PT_TNT;
    for (unsigned i = packet->tnt.count; i-- > 0;) {
        item.value = packet->tnt.bits >> i & 1;
        int status = push(list, item);
        if (status < 0)
            return status;
    }
    return 0;
}

int replay_add(struct replay_list *list, const struct cofi_packet *packet, uint64_t offset,
               const char *rule, const char *tag)
{
    struct replay_item item = {.offset = offset, .kind = packet->kind, .rule = rule, .tag = tag};
    switch ((enum cofi_packet_kind)packet->kind) {
    case COFI_PT_PAD:
    case COFI_PT_TSC:
    case COFI_PT_TMA:
    case COFI_PT_MTC:
    case COFI_PT_CYC:
    case COFI_PT_CBR:
    case COFI_PT_MNT: return 0;
    case COFI_PT_TNT: case COFI_PT_TNT64: return push_bits(list, packet, item);
    case COFI_PT_TIP: case COFI_PT_TIP_PGE: case COFI_PT_TIP_PGD: case COFI_PT_FUP:
        item.more = cofi_ip_expand(packet, list->last_ip, &list->last_ip);
        item.value = item.more ? list->last_ip : 0;
        break;
    case COFI_PT_PSB: list->last_ip = 0; list->in_psb = true; break;
    case COFI_PT_PSBEND: list->in_psb = false; break;
    case COFI_PT_PIP: item.value = packet->pip.cr3; item.more = packet->pip.nr; break;
    case COFI_PT_MODE_EXEC: item.value = packet->mode_exec.csl | packet->mode_exec.csd << 1; break;
    case COFI_PT_MODE_TSX:
        if (list->in_psb && !packet->mode_tsx.intx)
            return 0;
        item.value = packet->mode_tsx.intx | packet->mode_tsx.abort << 1;
        break;
    case COFI_PT_VMCS: item.value = packet->vmcs.base; break;
    case COFI_PT_PTW: item.value = packet->ptw.payload; item.more = packet->ptw.wide; break;
    case COFI_PT_TRACESTOP:
    case COFI_PT_OVF:
    case COFI_PT_EXSTOP:
    case COFI_PT_MWAIT:
    case COFI_PT_PWRE:
    case COFI_PT_PWRX:
    case COFI_PT_CFE:
    case COFI_PT_EVD:
    case COFI_PT_BBP:
    case COFI_PT_BIP:
    case COFI_PT_BEP:
    case COFI_PT_TRIG:
    case COFI_PKT_NONE:
    case COFI_RTIT_TNT:
    case COFI_RTIT_PGE:
    case COFI_RTIT_PGD:
    case COFI_RTIT_BUFFOVF:
    case COFI_RTIT_PCC:
    case COFI_RTIT_TIP:
    case COFI_RTIT_FAR:
    case COFI_RTIT_PSB:
    case COFI_RTIT_TRACESTOP:
    case COFI_RTIT_PIP:
    case COFI_RTIT_MTC:
    case COFI_RTIT_STS:
    case COFI_PKT_KINDS: break;
    }
    return push(list, item);
}

/* ---- the unit ---- */

static void hear(void *opaque, const struct cofi_explain *line)
{
    struct replay *r = opaque;
    if (line->packet && r->status == 0)
        r->status = replay_add(r->list, line->packet, line->offset, line->rule, line->tag);
}

static int drop(void *opaque, const uint8_t *bytes, size_t n)
{
    (void)opaque, (void)bytes, (void)n;
    return 0;
}

static void tell(struct replay *r, struct cofi_event event)
{
    event.vector = COFI_NO_VECTOR;
    event.after = r->context;
    cofi_unit_event(r->unit, &event);
}

/* The branch that ended the last block went to ip. */
static void resolve(struct replay *r, uint64_t ip)
{
    if (!r->pending)
        return;
    r->pending = false;
    struct cofi_event event = {.kind = (uint8_t)cofi_event_of_class(r->last.cls),
                               .ip = r->branch.ip,
                               .next = r->last.end,
                               .target = ip,
                               .cause = r->last.far};
    if (event.kind == COFI_EV_JCC) {
        event.target = r->last.target;
        event.taken = ip == r->last.target;
    }
    if (event.kind >= COFI_EV_JCC && event.kind <= COFI_EV_FAR)
        tell(r, event);
}

static void show_block(struct replay *r, const struct cofi_flow_block *block)
{
    resolve(r, block->ip);
    r->last = *block;
    r->branch = block->insns[block->n - 1];
    r->pending = true;
}

static void set_user(struct replay *r, bool user) { r->context.cpl = user ? 3 : 0; }

/* Packets go off behind the last instruction: it left the traced privilege level. */
static void show_disabled(struct replay *r, const struct cofi_flow_event *flow)
{
    set_user(r, false);
    struct cofi_event event = {.kind = COFI_EV_FAR,
                               .cause = r->pending ? r->branch.far : COFI_FAR_SYSCALL,
                               .ip = flow->ip,
                               .next = r->pending ? r->last.end : flow->ip,
                               .context_set = true};
    if (flow->target != COFI_NO_IP || (r->pending && cofi_event_of_class(r->last.cls) != COFI_EV_FAR))
        r->why = "tracing went off at a near branch or with a target: IP filters, which replay "
                 "does not know";
    r->pending = false;
    tell(r, event);
}

static void show_async(struct replay *r, const struct cofi_flow_event *flow, bool leaves)
{
    resolve(r, flow->ip);
    if (leaves)
        set_user(r, false);
    tell(r, (struct cofi_event){.kind = COFI_EV_EVENT,
                                .cause = COFI_CAUSE_INTR,
                                .ip = flow->ip,
                                .context_set = leaves,
                                .target = leaves ? 0 : flow->target});
}

static void show_psb(struct replay *r, const struct cofi_flow_event *flow)
{
    bool first = !r->started; /* enabling made that one */
    r->started = true;
    if (first)
        return;
    if (flow->ip != COFI_NO_IP)
        resolve(r, flow->ip);
    tell(r, (struct cofi_event){.kind = COFI_EV_PSB_HINT, .ip = flow->ip});
}

static void show_overflow(struct replay *r, const struct cofi_flow_event *flow)
{
    r->pending = false;
    tell(r, (struct cofi_event){.kind = COFI_EV_OVERFLOW_HINT});
    if (flow->target == COFI_NO_IP && r->context.cpl == 3) {
        set_user(r, false);
        tell(r, (struct cofi_event){
                    .kind = COFI_EV_FAR, .cause = COFI_FAR_SYSCALL, .context_set = true});
    }
    tell(r, (struct cofi_event){.kind = COFI_EV_BOUNDARY,
                                .ip = flow->target == COFI_NO_IP ? 0 : flow->target});
}

static void show_event(struct replay *r, const struct cofi_flow_event *flow)
{
    switch ((enum cofi_flow_event_kind)flow->kind) {
    case COFI_FLOW_ENABLED:
        set_user(r, true);
        r->pending = false;
        tell(r, (struct cofi_event){.kind = COFI_EV_FAR,
                                    .cause = COFI_FAR_SYSRET,
                                    .target = flow->target,
                                    .context_set = true});
        break;
    case COFI_FLOW_DISABLED: show_disabled(r, flow); break;
    case COFI_FLOW_ASYNC: show_async(r, flow, false); break;
    case COFI_FLOW_ASYNC_DISABLED: show_async(r, flow, true); break;
    case COFI_FLOW_OVERFLOW: show_overflow(r, flow); break;
    case COFI_FLOW_GAP: r->why = "the recording has a gap: what ran in it is not known"; break;
    case COFI_FLOW_MODE: r->context.mode = flow->a ? flow->a : 64; break;
    case COFI_FLOW_PSB: show_psb(r, flow); break;
    case COFI_FLOW_PTWRITE:
        tell(r,
             (struct cofi_event){
                 .kind = COFI_EV_PTWRITE, .ip = flow->ip, .value = flow->value, .size = flow->a});
        break;
    case COFI_FLOW_TSX:
        tell(r, (struct cofi_event){.kind = flow->b   ? COFI_EV_XABORT
                                            : flow->a ? COFI_EV_XBEGIN
                                                      : COFI_EV_XEND,
                                    .ip = flow->ip,
                                    .target = flow->target});
        r->context.intx = flow->a;
        break;
    case COFI_FLOW_PAGING: case COFI_FLOW_VMCS:
        r->context.cr3 = flow->kind == COFI_FLOW_PAGING ? flow->value : r->context.cr3;
        break;
    case COFI_FLOW_EXSTOP:
    case COFI_FLOW_MWAIT:
    case COFI_FLOW_PWRE:
    case COFI_FLOW_PWRX:
    case COFI_FLOW_CBR:
    case COFI_FLOW_STOP:
    case COFI_FLOW_CFE:
    case COFI_FLOW_EVD:
    case COFI_FLOW_BBP:
    case COFI_FLOW_BIP:
    case COFI_FLOW_BEP:
    case COFI_FLOW_TRIG: case COFI_FLOW_CODE: case COFI_FLOW_EVENT_KINDS: break;
    }
}

static int stop(const struct replay *r) { return r->status < 0 ? r->status : r->why != NULL; }

static int block(void *opaque, struct cofi_flow *flow, const struct cofi_flow_block *block)
{
    (void)flow;
    show_block(opaque, block);
    return stop(opaque);
}

static int event(void *opaque, struct cofi_flow *flow, const struct cofi_flow_event *event)
{
    (void)flow;
    show_event(opaque, event);
    return stop(opaque);
}

int replay_stream(struct session_stream *stream, uint64_t ctl, struct replay_list *list,
                  const char **why)
{
    struct replay r = {.list = list,
                       .context = {.vmcs = UINT64_MAX, .mode = 64, .cr0_pg = true, .iflag = true}};
    struct cofi_unit_config config = {
        .size = sizeof config, .gen = COFI_PT, .sink = {drop, NULL}, .explain = hear, .opaque = &r};
    int status = cofi_unit_open(&r.unit, &config);
    if (status < 0)
        return status;
    if (ctl & filter_bits)
        r.why = "it was made with filters, which replay does not know";
    cofi_unit_context(r.unit, &r.context, 0);
    /* No time; PSBs where the recording has them, so the unit's own period is the longest. */
    status =
        cofi_unit_wrmsr(r.unit, MSR_CTL, (ctl & ~(time_bits | topa)) | psb_freq_bits | trace_en);
    if (status == 0 && !r.why)
        status = session_walk(stream, &(struct session_visitor){block, event, NULL, &r});
    cofi_unit_close(r.unit);
    *why = r.why;
    return status < 0 ? status : r.status;
}
