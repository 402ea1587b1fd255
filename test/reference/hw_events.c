/* SPDX-License-Identifier: MIT
 * What an instruction does, and what comes between two [PTREF 6.2; PTREF 6.4; PTREF 6.5]. */
#include <string.h>

#include "reference/hw.h"

static uint64_t somewhere(struct hw *h, unsigned segment)
{
    const struct hw_segment *s = &h->code.segments[segment];
    return s->base + s->starts[hw_below(&h->seed, (unsigned)s->starts_n)];
}

/* A branch that left the ranges for the address behind a MOV CR3, with no packet in between, would look like that one ending tracing. */
static uint64_t elsewhere(struct hw *h, uint64_t to)
{
    while (h->mov_cr3_was_last && to == h->behind_mov_cr3)
        to = somewhere(h, h->segment);
    return to;
}

static unsigned kernel(struct hw *h)
{
    static const uint8_t kernels[] = {HW_KERNEL, HW_KERNEL, HW_KERNEL, HW_KERNEL_LOW, HW_KERNEL_LOW, HW_KERNEL32, HW_REAL};
    if (h->code.only32)
        return hw_below(&h->seed, 7) ? HW_KERNEL32 : HW_REAL;
    return h->nr ? HW_GUEST : kernels[hw_below(&h->seed, 7)];
}
static unsigned user(struct hw *h) { return h->code.only32 ? HW_USER32 + hw_below(&h->seed, 2) : hw_below(&h->seed, 4); }

/* ---- the stacks ---- */

static void push_frame(struct hw *h, uint64_t back)
{
    if (h->frames_n == 8)
        return;
    h->frames[h->frames_n++] = (struct hw_frame){back, h->cr3, h->segment, h->floor};
    h->floor = h->depth;
}

/* The processor's stack of 64, on which a CALL is where packets are on before and after it; not a direct one to the next instruction
 * [PTREF 7.1]. */
static void remember_call(struct hw *h, const struct hw_insn *i)
{
    if (i->kind == HW_CALL && i->target == i->next)
        return;
    if (h->rets_n == 64) {
        memmove(h->rets, h->rets + 1, 63 * sizeof *h->rets);
        h->rets_n--;
    }
    h->rets[h->rets_n++] = i->next;
}

static void push_call(struct hw *h, const struct hw_insn *i)
{
    if (h->depth == sizeof h->stack / sizeof *h->stack)
        h->depth = h->floor = 0;
    h->stack[h->depth++] = i->next;
}

static void go_near(struct hw *h, int how, uint64_t to)
{
    struct hw_move mv = hw_move(h, to);
    mv.how = how;
    hw_go(h, mv);
}

static void ret(struct hw *h)
{
    const struct hw_segment *s = &h->code.segments[h->segment];
    uint64_t to = h->depth > h->floor && hw_below(&h->seed, 300) ? h->stack[--h->depth] : 0;
    if (to - s->base >= s->size)
        to = somewhere(h, h->segment);
    to = elsewhere(h, to);
    bool compressed = h->rets_n && h->rets[--h->rets_n] == to && !h->config.disretc && !h->config.dis_tnt && hw_packet_en(h);
    if (!compressed && h->config.ret_clear)
        h->rets_n = 0;
    go_near(h, compressed ? HW_COMPRESSED : HW_INDIRECT, to);
}

/* ---- transactions ---- */

static void tsx(struct hw *h, unsigned what)
{
    if (!hw_traced(h) || !h->config.branch || !hw_mode_tsx(h, what))
        return;
    if (!hw_packet_en(h))
        hw_truth_tsx(h, COFI_NO_IP);
    else if (!(what & 2) && hw_ip(h, HW_FUP, h->ip)) {
        hw_truth_found(h, h->ip);
        hw_truth_tsx(h, h->ip);
    }
}

static void abort_at(struct hw *h)
{
    h->in_tx = false;
    h->depth = h->tx_depth;
    tsx(h, 2);
    go_near(h, HW_ABORT, h->fallback);
}

/* The branch before an abort has a wrong target, where there is no code. */
static void go_wrong(struct hw *h, uint64_t to)
{
    struct hw_move mv = hw_move(h, to);
    mv.how = HW_INDIRECT;
    mv.wrong = 0x40000000;
    hw_go(h, mv);
    abort_at(h);
}

/* ---- into kernels and out, guests ---- */

static void go_far(struct hw *h, int how, unsigned segment, uint64_t to, int cfe, unsigned vector)
{
    struct hw_move mv = hw_move(h, to);
    mv.how = how;
    mv.segment = segment;
    mv.cfe = cfe;
    mv.vector = vector;
    mv.iflag = h->code.segments[segment].cpl ? true : hw_below(&h->seed, 2);
    if (h->config.ret_clear)
        h->rets_n = 0;
    hw_go(h, mv);
}

/* ---- enclaves [PTREF 6.4] ---- */

static unsigned of_same_mode(struct hw *h) { return hw_mode(h) == 64 ? hw_below(&h->seed, 2) ? HW_USER : HW_USER_HIGH : h->segment; }

static void across(struct hw *h, enum hw_enclave to)
{
    unsigned segment = of_same_mode(h);
    struct hw_move mv = hw_move(h, somewhere(h, segment));
    mv.how = HW_EVENT;
    mv.segment = segment;
    mv.enclave = to;
    if (h->config.ret_clear)
        h->rets_n = 0;
    hw_go(h, mv);
}

/* AEX: what comes finds the processor outside, at an address that was given for that. */
static void out_of_enclave(struct hw *h)
{
    if (h->enclave)
        across(h, HW_OUTSIDE);
}

/* EENTER, ERESUME, EEXIT, or a leaf that leads nowhere. */
static bool enclu(struct hw *h)
{
    unsigned leaf = hw_below(&h->seed, 4);
    if (leaf == 0)
        return false;
    across(h, h->enclave ? HW_OUTSIDE : leaf == 1 ? HW_PRODUCTION : HW_DEBUG);
    return true;
}

static bool not_in_enclave(unsigned kind)
{
    return kind == HW_FAR_IN || kind == HW_INT || kind == HW_FAR_SAME || kind == HW_CPUID;
}

static void into_kernel(struct hw *h, int how, uint64_t back, int cfe, unsigned vector)
{
    unsigned k = kernel(h);
    push_frame(h, back);
    go_far(h, how, k, somewhere(h, k), cfe, vector);
}

static void out_of_kernel(struct hw *h)
{
    if (!h->frames_n || !hw_below(&h->seed, 20)) {
        unsigned u = user(h);
        go_far(h, HW_FAR, u, somewhere(h, u), 2, 0);
        return;
    }
    struct hw_frame f = h->frames[--h->frames_n];
    h->depth = h->floor > h->depth ? h->depth : h->floor;
    h->floor = f.floor > h->depth ? h->depth : f.floor;
    go_far(h, HW_FAR, f.segment, f.ip, 2, 0);
}

/* A list of MSRs turns tracing off [PTREF 6.4]. */
static void vm_entry_off(struct hw *h, struct hw_move mv)
{
    struct hw_event e = hw_event(COFI_FLOW_DISABLED, mv.from, COFI_NO_IP);
    bool before = hw_packet_en(h);
    if (before && hw_has_skd022(h) && hw_ip(h, HW_FUP, mv.from))
        hw_truth_found(h, mv.from);
    if (before)
        hw_ran(h, mv.from);
    h->trace_en = false;
    hw_go(h, mv);
    h->rets_n = 0;
    if (!before || !hw_no_ip(h, HW_PGD))
        return;
    hw_truth_target(h, COFI_NO_IP);
    hw_truth_add(h, e);
    h->truth.disabled_ip = mv.from;
    h->truth.enabled = false;
}

static void vm_entry(struct hw *h, const struct hw_insn *i)
{
    unsigned segment = hw_below(&h->seed, 2) ? HW_GUEST : user(h);
    struct hw_move mv = hw_move(h, somewhere(h, segment));
    h->host = (struct hw_frame){i->next, h->cr3, h->segment, 0};
    h->frames_n = 0;
    mv.how = HW_FAR;
    mv.segment = segment;
    mv.nr = mv.pip = true;
    mv.cr3 = hw_below(&h->seed, 2) ? 0x1000 : 0x7000;
    mv.cfe = 7;
    if (!h->wire.losing && hw_trigger(h) && hw_below(&h->seed, 6) == 0)
        vm_entry_off(h, mv);
    else
        hw_go(h, mv);
}

static void vm_exit(struct hw *h, int cfe)
{
    out_of_enclave(h);
    struct hw_move mv = hw_move(h, h->host.ip);
    h->frames_n = 0;
    mv.how = HW_EVENT;
    mv.segment = h->host.segment;
    mv.cr3 = h->host.cr3;
    mv.nr = false;
    mv.pip = true;
    mv.cfe = cfe;
    mv.vector = cfe == 9 ? 32 : 0;
    hw_go(h, mv);
}

static void fault(struct hw *h, unsigned vector)
{
    out_of_enclave(h);
    into_kernel(h, HW_EVENT, h->ip, 1, vector);
}

/* INIT of the boot processor, or of another one, which waits for a SIPI [PTREF 6.3]. */
static void init(struct hw *h)
{
    out_of_enclave(h);
    struct hw_move mv = hw_move(h, h->code.segments[HW_REAL].base);
    mv.how = HW_EVENT;
    mv.segment = HW_REAL;
    mv.cr3 = 0;
    mv.iflag = false;
    mv.cfe = 6;
    mv.sipi = hw_below(&h->seed, 2);
    mv.pip = !mv.sipi;
    h->frames_n = h->depth = h->floor = 0;
    hw_go(h, mv);
    if (!mv.sipi && hw_below(&h->seed, 2))
        hw_halts(h);
}

static void far_same(struct hw *h)
{
    unsigned to = h->segment == HW_GUEST ? HW_GUEST : h->code.segments[h->segment].cpl ? user(h) : kernel(h);
    go_far(h, HW_FAR, to, somewhere(h, to), -1, 0);
}

/* ---- instructions that are no branches ---- */

static void runs(struct hw *h)
{
    if (hw_packet_en(h))
        hw_ran(h, h->ip);
}

/* [PTREF 6.2]: MOV CR3 looks where it is, and where it makes the context one that is traced. */
static void mov_cr3(struct hw *h, const struct hw_insn *i)
{
    static const uint64_t values[] = {0x1000, 0x1000, HW_APART, 0x123456000};
    bool before = hw_packet_en(h), trigger = hw_trigger(h), context = h->context_en, filter = h->filter_en;
    runs(h);
    h->cr3 = values[hw_below(&h->seed, 4)];
    hw_context(h, i->next);
    if (context)
        h->filter_en = filter;
    bool stopping = trigger && h->context_en && hw_stops(h, i->ip), after = hw_packet_en(h) && !stopping;
    h->ip = i->next;
    if (trigger && h->context_en && h->config.os && hw_pip(h)) {
        if (before)
            h->truth.known = h->truth.n;
        hw_truth_paging(h, before ? i->ip : COFI_NO_IP);
        h->mov_cr3_was_last = true;
        h->behind_mov_cr3 = i->next;
    }
    struct hw_move mv = {.how = HW_INDIRECT, .from = i->ip, .to = i->next};
    if (before && !after)
        hw_leave(h, &mv);
    else if (!before && after && (h->mode_sent == hw_mode_byte(h) || hw_mode_exec(h)))
        hw_enter(h, i->next);
    if (stopping)
        hw_stop(h);
}

static void ptwrite(struct hw *h, unsigned size)
{
    struct hw_event e = hw_event(COFI_FLOW_PTWRITE, COFI_NO_IP, COFI_NO_IP);
    bool on = hw_packet_en(h), with_ip = h->config.ptw_fup;
    uint8_t bytes[10] = {0x02, (uint8_t)((with_ip ? 0x80 : 0) | (size == 8 ? 0x32 : 0x12))};
    uint64_t ip = h->ip;
    e.a = (uint8_t)size;
    e.value = hw_random(&h->seed) >> (size == 8 ? 0 : 32);
    for (unsigned i = 0; i < size; i++)
        bytes[2 + i] = (uint8_t)(e.value >> 8 * i);
    if (!with_ip)
        runs(h);
    if (hw_traced(h) && h->filter_en && h->config.ptw && hw_packet(h, true, bytes, 2 + size)) {
        if (with_ip) {
            hw_truth_wait(h, e);
            if (hw_ip(h, HW_FUP, ip))
                hw_truth_flush(h, ip);
        } else {
            if (on)
                e.ip = ip;
            h->truth.known = on ? h->truth.n : h->truth.known;
            hw_truth_somewhere(h, e);
        }
    }
    if (with_ip && on)
        hw_ran(h, ip);
}

/* EventEn: RFLAGS.IF changes [PTREF 6.7]. */
static void set_if(struct hw *h, const struct hw_insn *i)
{
    bool iflag = h->code.segments[h->segment].bytes[i->ip - h->code.segments[h->segment].base] == 0xfb;
    bool changes = iflag != h->iflag;
    runs(h);
    h->iflag = iflag;
    h->ip = i->next;
    if (!changes || !h->config.event || !hw_traced(h) || !hw_mode_exec(h) || !hw_ip(h, HW_FUP, i->next))
        return;
    hw_truth_other_fup(h, i->next);
    hw_truth_target(h, i->next);
}

/* ---- between two instructions ---- */

/* Where a processor has [ERR SKD022], what comes there and ends tracing cannot be told from the VM entry. */
static bool looks_like_vm_entry(const struct hw *h)
{
    return hw_has_skd022(h) && hw_code_find(&h->code, h->ip)->kind == HW_VMENTRY;
}

static void toggle(struct hw *h)
{
    if (!hw_trigger(h)) {
        if (hw_chance(h, h->config.toggle * 20))
            hw_enable(h);
    } else if (hw_chance(h, h->config.toggle)) { /* SMI [PTREF 6.3] */
        if (h->in_tx)
            abort_at(h);
        out_of_enclave(h);
        if (hw_trigger(h) && !looks_like_vm_entry(h))
            hw_disable(h, h->ip);
    }
}

static void interrupt(struct hw *h)
{
    if (h->in_tx)
        abort_at(h);
    if (looks_like_vm_entry(h))
        return;
    out_of_enclave(h);
    if (looks_like_vm_entry(h))
        return;
    if (h->nr && hw_below(&h->seed, 2))
        vm_exit(h, hw_below(&h->seed, 2) ? 8 : 9);
    else if (!h->nr && hw_below(&h->seed, 10) == 0)
        init(h);
    else
        into_kernel(h, HW_EVENT, h->ip, 1, 32 + hw_below(&h->seed, 200));
}

void hw_before(struct hw *h)
{
    const struct hw_config *c = &h->config;
    hw_tick(h);
    if (looks_like_vm_entry(h))
        return;
    if (c->plain && !h->wire.losing && hw_chance(h, c->loss))
        hw_loss_begin(h);
    toggle(h);
    bool news = h->truth.shown_mode != hw_mode(h) || hw_below(&h->seed, 2); /* where more is to be told */
    if (h->wire.losing && news && hw_loss_may_end(h) && hw_chance(h, c->loss_end))
        hw_loss_end(h);
    if (hw_trigger(h) && hw_chance(h, c->psb))
        hw_psb(h, HW_PSB_STATE);
    if (hw_trigger(h) && hw_chance(h, c->power_event))
        hw_power_event(h);
    if (hw_trigger(h) && hw_chance(h, c->block))
        (hw_below(&h->seed, 2) ? hw_block : hw_trigger_packet)(h);
    if (h->in_tx && hw_chance(h, c->abort))
        abort_at(h);
    while (hw_chance(h, c->interrupt))
        interrupt(h);
    if (!h->in_tx && !looks_like_vm_entry(h) && hw_chance(h, c->fault))
        fault(h, 14);
}

/* ---- an instruction ---- */

static bool aborts(unsigned kind)
{
    return kind == HW_FAR_IN || kind == HW_INT || kind == HW_FAR_OUT || kind == HW_FAR_SAME || kind == HW_MOV_CR3 || kind >= HW_XABORT;
}

static void plain(struct hw *h, const struct hw_insn *i)
{
    runs(h);
    h->ip = i->next;
}

static void jcc(struct hw *h, const struct hw_insn *i)
{
    if ((i->guard && h->depth > 150) || hw_below(&h->seed, 8) < (i->ip >> 2 & 7)) {
        go_near(h, HW_COND, i->target);
        return;
    }
    plain(h, i);
    if (hw_packet_en(h))
        hw_tnt(h, false);
}

static void near_branch(struct hw *h, const struct hw_insn *i)
{
    uint64_t to = i->target;
    if (i->kind == HW_JMP_IND || i->kind == HW_CALL_IND)
        to = elsewhere(h, somewhere(h, h->segment));
    bool on = hw_packet_en(h);
    if (i->kind == HW_JMP_IND && h->in_tx && hw_has_bdm64(h) && hw_below(&h->seed, 2)) {
        go_wrong(h, to);
        return;
    }
    go_near(h, i->kind == HW_JMP_IND || i->kind == HW_CALL_IND ? HW_INDIRECT : HW_DIRECT, to);
    if (i->kind == HW_JMP || i->kind == HW_JMP_IND)
        return;
    push_call(h, i);
    if (on && hw_packet_en(h))
        remember_call(h, i);
    if (i->target == i->next && hw_below(&h->seed, 2))
        h->depth--; /* the address is popped, as code does that asks where it is */
}

static void vmx(struct hw *h, const struct hw_insn *i)
{
    if (h->nr) {
        vm_exit(h, 8);
    } else if (i->kind == HW_CPUID) {
        plain(h, i);
    } else if (!h->config.vmx) {
        fault(h, 6);
    } else if (i->kind == HW_VMENTRY) {
        vm_entry(h, i);
    } else {
        bool on = hw_packet_en(h);
        plain(h, i);
        h->vmcs = (1 + (uint64_t)hw_below(&h->seed, 5)) << 12;
        if (!hw_traced(h) || !hw_vmcs(h))
            return;
        h->truth.known = on ? h->truth.n : h->truth.known;
        hw_truth_vmcs(h, on ? i->ip : COFI_NO_IP);
    }
}

static void transactional(struct hw *h, const struct hw_insn *i)
{
    if (i->kind == HW_XBEGIN && !h->in_tx) {
        h->in_tx = true;
        h->fallback = i->target;
        h->tx_depth = h->depth;
        tsx(h, 1);
    } else if (i->kind == HW_XEND) {
        if (!h->in_tx) {
            fault(h, 13);
            return;
        }
        h->in_tx = false;
        tsx(h, 0);
    }
    plain(h, i);
}

static void privileged(struct hw *h, const struct hw_insn *i)
{
    if (i->kind == HW_WRMSR && hw_trigger(h) && hw_below(&h->seed, 3) == 0) {
        hw_disable(h, i->ip);
        h->ip = i->next;
        return;
    }
    if (i->kind == HW_MWAIT || i->kind == HW_HLT)
        hw_sleeps(h, i->kind == HW_MWAIT, i->kind == HW_HLT ? 1 : 1 + hw_below(&h->seed, 6));
    plain(h, i);
}

void hw_step(struct hw *h)
{
    const struct hw_insn *i = hw_code_find(&h->code, h->ip);
    if (h->in_tx && aborts(i->kind)) {
        abort_at(h);
        return;
    }
    if (h->enclave && not_in_enclave(i->kind)) {
        fault(h, 6);
        return;
    }
    switch ((enum hw_kind)i->kind) {
    case HW_OTHER: case HW_XABORT:
        plain(h, i);
        break;
    case HW_ENCLU:
        if (!enclu(h))
            plain(h, i);
        break;
    case HW_JCC:
        jcc(h, i);
        break;
    case HW_JMP: case HW_CALL: case HW_JMP_IND: case HW_CALL_IND:
        near_branch(h, i);
        break;
    case HW_RET:
        ret(h);
        break;
    case HW_FAR_IN:
        into_kernel(h, HW_FAR, i->next, 0x0f, 0);
        break;
    case HW_INT:
        into_kernel(h, HW_EVENT, i->next, 0x0e, 0x80);
        break;
    case HW_FAR_OUT:
        out_of_kernel(h);
        break;
    case HW_FAR_SAME:
        far_same(h);
        break;
    case HW_MOV_CR3:
        mov_cr3(h, i);
        break;
    case HW_PTW4: case HW_PTW8:
        ptwrite(h, i->kind == HW_PTW8 ? 8 : 4);
        h->ip = i->next;
        break;
    case HW_XBEGIN: case HW_XEND:
        transactional(h, i);
        break;
    case HW_VMENTRY: case HW_VMPTRLD: case HW_CPUID:
        vmx(h, i);
        break;
    case HW_IF:
        set_if(h, i);
        break;
    case HW_MWAIT: case HW_HLT: case HW_WRMSR:
        privileged(h, i);
        break;
    case HW_FAULT:
        fault(h, 6);
        break;
    }
}
