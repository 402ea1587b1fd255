/* SPDX-License-Identifier: MIT
 * Random programs, configurations and events through the unit and back through the plain reference decoder:
 * the flow equals the events. COFI_SEED and COFI_RUNS choose; COFI_DUMP and COFI_DUMP_OVERFLOWS name a file for the last
 * trace of either kind. */
#include "unit/rtit_rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cofi/flow.h>
#include <cofi/output.h>

#include "reference/rtit_flow.h"

enum { CTL_OS = 4, CTL_USER = 8, CTL_STS_ON_CR3 = 1 << 4, CTL_DEST = 1 << 8, CTL_MTC_EN = 1 << 9, CTL_STS_EN = 1 << 10,
       CTL_LESS_PKTS = 1 << 12, CTL_ACTIVE = 1 << 13, CTL_MTC_RANGE = 1 << 14 };
enum { INSNS = 400, MOST_RUN = 30000, HANDLER = 0x900000 };

static uint64_t random_state, current; /* current: the seed at hand */
static struct {
    unsigned long long told, overflows, stops, held_stops, silent, writes, skipped, spurious_tips, loop_tips;
} count;
static uint64_t rnd(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state;
}
static uint64_t below(uint64_t n) { return rnd() % n; }
static bool one_in(uint64_t n) { return below(n) == 0; }

/* ---- the program: instructions one behind the other from a base; direct jumps and calls go forward only,
 * so that no loop is without an outcome ---- */

static struct {
    struct plain_insn insns[INSNS];
    uint64_t base, end;
    uint8_t code[8 * INSNS];
} program;

static const struct plain_insn *find(void *opaque, uint64_t ip)
{
    size_t low = 0, high = INSNS;
    (void)opaque;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (program.insns[middle].ip < ip)
            low = middle + 1;
        else
            high = middle;
    }
    return low < INSNS && program.insns[low].ip == ip ? &program.insns[low] : NULL;
}

static uint64_t length_of(enum plain_insn_kind kind)
{
    static const uint8_t lengths[] = {[P_OTHER] = 0, [P_JCC] = 6, [P_JMP] = 5, [P_CALL] = 5, [P_JMP_IND] = 2,
                                      [P_CALL_IND] = 2, [P_RET] = 1, [P_FAR] = 2, [P_MOV_CR3] = 3};
    if (kind == P_FAR && one_in(2))
        return 6;
    return kind == P_OTHER ? 1 + below(7) : lengths[kind];
}

/* The instruction as x86-64 bytes, for the real decoder. */
static void write_code(const struct plain_insn *i)
{
    static const uint8_t nops[8][7] = {{0}, {0x90}, {0x66, 0x90}, {0x0f, 0x1f, 0}, {0x0f, 0x1f, 0x40, 0},
                                       {0x0f, 0x1f, 0x44, 0, 0}, {0x66, 0x0f, 0x1f, 0x44, 0, 0}, {0x0f, 0x1f, 0x80, 0, 0, 0, 0}};
    static const uint8_t bytes[][3] = {[P_JCC] = {0x0f, 0x84}, [P_JMP] = {0xe9}, [P_CALL] = {0xe8}, [P_JMP_IND] = {0xff, 0xe0},
                                       [P_CALL_IND] = {0xff, 0xd0}, [P_RET] = {0xc3}, [P_FAR] = {0x48, 0xcf},
                                       [P_MOV_CR3] = {0x0f, 0x22, 0xd8}};
    static const uint8_t far_with_prefixes[6] = {0x26, 0x2e, 0x3e, 0x64, 0x48, 0xcf}; /* for [ERR E1] */
    uint8_t *out = program.code + (i->ip - program.base);
    size_t n = i->next - i->ip;
    uint32_t displacement = (uint32_t)(i->target - i->next);
    memcpy(out, i->kind == P_OTHER ? nops[n] : bytes[i->kind], n < 3 || i->kind == P_OTHER ? n : 3);
    if (i->kind == P_FAR && n == 6)
        memcpy(out, far_with_prefixes, 6);
    if (i->kind == P_JCC || i->kind == P_JMP || i->kind == P_CALL)
        memcpy(out + n - 4, &displacement, 4);
}

static void make_program(void)
{
    static const uint64_t bases[] = {0x401000, 0x7f1234560000, 0xffff80000000, 0x100};
    uint64_t ip = program.base = bases[below(4)];
    for (size_t i = 0; i < INSNS; i++) {
        struct plain_insn *p = &program.insns[i];
        unsigned kind = (unsigned)below(24);
        *p = (struct plain_insn){.kind = kind < 9 ? (enum plain_insn_kind)kind : kind < 15 ? P_JCC : P_OTHER, .ip = ip};
        if (i == INSNS - 1)
            p->kind = P_JMP_IND; /* nothing runs off the end */
        ip = p->next = ip + length_of(p->kind);
    }
    program.end = ip;
    for (size_t i = 0; i < INSNS; i++) {
        struct plain_insn *p = &program.insns[i];
        bool forward = p->kind == P_JMP || p->kind == P_CALL;
        p->target = program.insns[forward ? i + 1 + below(INSNS - i - (i < INSNS - 1)) : below(INSNS)].ip;
        if (forward && p->target <= p->ip)
            p->target = p->next; /* only the last can be meant, and that one is an indirect jump */
        write_code(p);
    }
}

/* ---- the processor, and this test's own idea of the enables ---- */

static struct {
    struct rig *rig;
    struct cofi_context context;
    uint64_t ip, stack[64], tsc, cycles, ctl, errata;
    unsigned depth;
    bool cr3_en, ranged, either, filter_en, stops, stop_pending, silent, pip_seen;
    uint64_t cr3_match, base, limit, base2, limit2, stop_base, stop_limit;
    uint64_t ran[MOST_RUN]; /* in sight: PacketEn was 1 when it started */
    size_t n;
} cpu;

static bool trigger_en(void) { return cpu.ctl & CTL_ACTIVE; }

static bool context_en(void)
{
    const struct cofi_context *c = &cpu.context;
    return cpu.ctl & (c->cpl ? CTL_USER : CTL_OS) && (!cpu.cr3_en || c->cr3 == cpu.cr3_match) && !c->smm && c->vmx != 1;
}

static bool in_sight(void) { return trigger_en() && context_en() && cpu.filter_en; }

/* What a decoder must show: all that ran in sight, but for what no packet had told when tracing was turned off
 * without one, or when packets were lost. UINT64_MAX: an overflow. */
struct expected {
    uint64_t items[2 * MOST_RUN];
    size_t n, shown; /* shown: of cpu.ran, or known to be hidden */
};
/* The plain decoder does not use PIP, the library does. */
static struct expected plain_sees, library_sees;

static void show(struct expected *e)
{
    while (e->shown < cpu.n)
        e->items[e->n++] = cpu.ran[e->shown++];
}

static void hide(size_t up_to, bool overflow)
{
    struct expected *both[] = {&plain_sees, &library_sees};
    for (int i = 0; i < 2; i++) {
        both[i]->shown = up_to > both[i]->shown ? up_to : both[i]->shown;
        if (overflow)
            both[i]->items[both[i]->n++] = UINT64_MAX;
    }
}

/* The packets that the unit made for the event at hand. */
static struct {
    bool flow, pip, paging, pge, buffovf, stop;
    unsigned bits;
} heard;

static struct cofi_unit *twin; /* hears the same; null: none */

/* A branch back to the overflow's address is its first packet: [ERR E5]'s workaround drops it (docs/decisions/0217). */
static void watch_loops(const struct cofi_packet *p)
{
    static uint64_t address;
    static bool fresh;
    if (p->kind == COFI_RTIT_TIP && fresh)
        count.loop_tips += ((p->ip.payload ^ address) & 0xffff) == 0; /* the program is smaller than what 16 bits tell */
    if (p->kind == COFI_RTIT_BUFFOVF)
        address = p->ip.payload;
    if (p->kind != COFI_RTIT_PSB && p->kind != COFI_RTIT_STS && p->kind != COFI_RTIT_MTC)
        fresh = p->kind == COFI_RTIT_BUFFOVF;
}

static void notice(void *opaque, const struct cofi_explain *e)
{
    (void)opaque;
    count.spurious_tips += e->packet && !strcmp(e->tag, "[ERR E5]");
    if (!e->packet || !strncmp(e->tag, "[ERR", 4)) /* spurious ones tell nothing */
        return;
    uint8_t kind = e->packet->kind;
    watch_loops(e->packet);
    heard.flow |= kind == COFI_RTIT_TIP || kind == COFI_RTIT_FAR || kind == COFI_RTIT_PGD;
    heard.pip |= kind == COFI_RTIT_PIP;
    heard.paging = heard.pip;
    heard.pge |= kind == COFI_RTIT_PGE;
    heard.buffovf |= kind == COFI_RTIT_BUFFOVF;
    heard.stop |= kind == COFI_RTIT_TRACESTOP;
    if (kind == COFI_RTIT_TNT)
        heard.bits += e->packet->tnt.count;
}

static unsigned bits_held(void)
{
    return 63 - (unsigned)__builtin_clzll(rig_read(cpu.rig, MSR_TNT_BUFF));
}

static void must(bool holds, const char *what)
{
    if (!holds)
        fail_msg("seed %llu: %s", (unsigned long long)current, what);
}

static void tell(struct cofi_event event)
{
    count.told++;
    assert_int_equal(cofi_unit_event(cpu.rig->unit, &event), 0);
    if (twin)
        assert_int_equal(cofi_unit_event(twin, &event), 0);
    if (event.context_set)
        cpu.context = event.after;
}

/* The TraceStop action, or it waits for the end of an overflow [RTIT 4.2.5]; with [ERR E4] it never comes then. */
static void stop(void)
{
    if (!heard.stop) {
        must(rig_read(cpu.rig, MSR_STATUS) & 8, "no TraceSTOP and no overflow that holds it");
        cpu.stop_pending = !(cpu.errata & COFI_ERRATUM_RTIT_E4);
        count.held_stops++;
        return;
    }
    cpu.ctl &= ~(uint64_t)CTL_ACTIVE;
    cpu.filter_en = false;
    count.stops++;
}

/* The end of an instruction or event: [RTIT 2.1.3, RTIT 3.3.5, RTIT 4.2.11], in this test's words. */
static void compare(bool taken)
{
    if (!context_en())
        return;
    if (!cpu.ranged)
        cpu.filter_en = true;
    else if (taken)
        cpu.filter_en = (cpu.ip >= cpu.base && cpu.ip < cpu.limit) || (cpu.ip >= cpu.base2 && cpu.ip < cpu.limit2);
    else if (cpu.ip == cpu.base || cpu.ip == cpu.limit || (cpu.either && (cpu.ip == cpu.base2 || cpu.ip == cpu.limit2)))
        cpu.filter_en = cpu.ip == cpu.base || (cpu.either && cpu.ip == cpu.base2 && cpu.base2 < cpu.limit2); /* it may be empty */
    if (cpu.stops && trigger_en() && (taken ? cpu.ip >= cpu.stop_base && cpu.ip < cpu.stop_limit : cpu.ip == cpu.stop_base))
        stop();
}

/* All told by the event at hand is shown; on FUP.PGE what was not told before is gone. */
static void account(bool bit, bool mov_cr0)
{
    cpu.pip_seen |= heard.pip;
    heard.pip &= !mov_cr0; /* nobody looks where that one stands */
    if (heard.pge)
        hide(cpu.n, false);
    if (bit || heard.flow)
        show(&plain_sees);
    if (bit || heard.flow || heard.pip)
        show(&library_sees);
}

static void take_write(const struct cofi_event *event)
{
    count.writes++;
    count.silent += in_sight() && event->msr == MSR_CTL && !(event->value & CTL_ACTIVE);
    if (event->msr == MSR_CTL)
        cpu.ctl = event->value;
    if (event->msr == MSR_CR3_MATCH)
        cpu.cr3_match = event->value;
    if (event->msr == MSR_STATUS)
        cpu.filter_en = event->value & 1;
}

/* An instruction ran: note it if it was in sight, tell it. */
static void retire(struct cofi_event event, uint64_t to, bool taken)
{
    bool sight = in_sight();
    size_t index = cpu.n;
    unsigned held = bits_held();
    memset(&heard, 0, sizeof heard);
    if (sight)
        cpu.ran[cpu.n++] = event.ip;
    tell(event);
    if (heard.buffovf) /* when this instruction started */
        hide(index, true);
    count.overflows += heard.buffovf;
    if (heard.buffovf && cpu.stop_pending && heard.stop) { /* and so did the TraceStop action, if there was room */
        cpu.n = index;
        cpu.ctl &= ~(uint64_t)CTL_ACTIVE;
        cpu.stop_pending = cpu.filter_en = false;
    }
    must(!heard.buffovf || !cpu.stop_pending || rig_read(cpu.rig, MSR_STATUS) & 8, "a TraceSTOP stays pending");
    account(heard.bits + bits_held() - held == 1, event.kind == COFI_EV_MOV_CR0);
    if (event.kind == COFI_EV_WRMSR)
        take_write(&event);
    cpu.ip = to;
    compare(taken);
}

/* ---- events that are no instruction, to a handler outside of the program, and back at once ---- */

static uint64_t anywhere(void) { return program.insns[below(INSNS)].ip; }

/* To the handler in one event, or two. */
static void go_there(struct cofi_event there)
{
    struct cofi_event boundary = {.kind = COFI_EV_BOUNDARY, .ip = HANDLER};
    bool sipi = there.cause == COFI_CAUSE_INIT_AP;
    memset(&heard, 0, sizeof heard);
    there.deferred = !sipi && one_in(2);
    if (there.deferred || sipi)
        there.target = 0;
    tell(there);
    if (there.deferred)
        tell(boundary);
    if (sipi)
        tell((struct cofi_event){.kind = COFI_EV_EVENT, .cause = COFI_CAUSE_SIPI, .target = HANDLER, .context_set = true,
                                 .after = there.after});
    account(false, false);
}

static void interrupt(enum cofi_cause cause)
{
    struct cofi_context before = cpu.context;
    struct cofi_event there = {.kind = COFI_EV_EVENT, .cause = cause, .ip = cpu.ip, .target = HANDLER, .context_set = true,
                               .after = before};
    bool vm = cause == COFI_CAUSE_VMEXIT, lists = vm && cpu.silent && trigger_en() && one_in(3);
    uint64_t back = cpu.ip;
    there.after.cpl = 0;
    there.after.smm = cause == COFI_CAUSE_SMI;
    there.after.vmx = vm ? 1 : before.vmx;
    if (lists) { /* MSR lists turn tracing off and on [RTIT 4.2.1] */
        there.msr = MSR_CTL;
        there.control = cpu.ctl & ~(uint64_t)CTL_ACTIVE;
    }
    go_there(there);
    cpu.context = there.after;
    cpu.ip = HANDLER;
    compare(true);
    lists = lists && trigger_en(); /* no TraceStop on the way */
    if (lists)
        cpu.ctl &= ~(uint64_t)CTL_ACTIVE;
    struct cofi_event iret = {.kind = COFI_EV_FAR, .ip = HANDLER, .next = HANDLER + 2, .context_set = true, .after = before};
    iret.cause = cause == COFI_CAUSE_SMI ? COFI_FAR_RSM : vm ? COFI_FAR_VMENTRY : COFI_FAR_IRET;
    if (cause == COFI_CAUSE_SMI && one_in(3)) { /* what RSM loads may have been changed [RTIT 2.6.1] */
        back = anywhere();
        iret.after.cr3 = one_in(2) ? 0x9000 : 0x5000;
    }
    iret.target = back;
    if (lists && !one_in(3)) { /* else it stays off, until software turns it on */
        iret.msr = MSR_CTL;
        iret.control = cpu.ctl | CTL_ACTIVE;
        cpu.ctl |= CTL_ACTIVE;
        cpu.context = there.after; /* in root mode nothing is in sight */
    }
    retire(iret, back, true);
}

static const struct plain_insn handler = {P_FAR, HANDLER, HANDLER + 2, 0};
static const struct plain_insn *find_all(void *opaque, uint64_t ip) { return ip == HANDLER ? &handler : find(opaque, ip); }

static struct cofi_context other_state(void)
{
    struct cofi_context c = cpu.context;
    c.cpl = one_in(2) ? 0 : 1 + (uint8_t)below(3);
    return c;
}

/* ---- instructions that reprogram the unit or put the processor to sleep: any that is no branch may be one ---- */

static void wake(void)
{
    cpu.cycles += below(400);
    cpu.tsc += below(300);
    tell((struct cofi_event){.kind = COFI_EV_WAKE, .tsc = cpu.tsc, .cycles = cpu.cycles});
}

static uint64_t another_ctl(bool overflows)
{
    /* Turning ContextEn off and on leaves FilterEn frozen meanwhile: after an overflow no packet would tell. */
    static const uint64_t toggles[] = {CTL_MTC_EN, CTL_STS_EN, CTL_LESS_PKTS, CTL_STS_ON_CR3, CTL_DEST, CTL_MTC_RANGE, CTL_OS, CTL_USER};
    size_t n = overflows && cpu.ranged ? 6 : 8;
    if (cpu.silent && (!trigger_en() || one_in(3)))
        return cpu.ctl ^ CTL_ACTIVE;
    return cpu.ctl ^ toggles[below(n)];
}

static void write_register(struct cofi_event e, bool overflows)
{
    e.kind = COFI_EV_WRMSR;
    switch (below(7)) {
    case 0: e.msr = MSR_PKT_CNT; e.value = below(0x3fff) | (rig_read(cpu.rig, MSR_PKT_CNT) & 0x30000); break;
    case 1: e.msr = MSR_CNTP; e.value = 0x200000 | below(0x10000); break;
    case 2: e.msr = MSR_LAST_LIP; break;
    case 3: e.msr = MSR_LAST_CALL_NLIP; break;
    case 4: /* FilterEn by hand: after an overflow no packet would tell it */
        e.msr = MSR_STATUS;
        e.value = overflows ? cpu.filter_en | 8 : one_in(2); /* software sets Buffer_Overflow */
        break;
    case 5: e.msr = MSR_CTL; e.value = another_ctl(overflows); break;
    case 6: e.msr = MSR_CR3_MATCH; e.value = one_in(3) ? 0x9000 : 0x5000; break;
    }
    retire(e, e.next, false);
}

/* MWAIT: what runs next, runs after waking. */
static void sleep_a_while(struct cofi_event e)
{
    e.kind = COFI_EV_MWAIT;
    e.size = (uint8_t)below(7);
    e.taken = one_in(4);
    retire(e, e.next, false);
    wake();
}

/* Told to the decoder each time, so that it knows which PIP is MOV CR0's [RTIT 4.2.10]. */
static void toggle_paging(struct cofi_event e)
{
    e.kind = COFI_EV_MOV_CR0;
    e.context_set = true;
    e.after = cpu.context;
    e.after.cr0_pg = !e.after.cr0_pg;
    retire(e, e.next, false);
    must(heard.paging, "no PIP for CR0.PG");
}

static void other_instruction(struct cofi_event e, bool overflows)
{
    e.kind = COFI_EV_INSN;
    if (one_in(20))
        write_register(e, overflows);
    else if (one_in(60))
        sleep_a_while(e);
    else if (one_in(60) && !overflows && cpu.pip_seen && trigger_en() && context_en() && !cpu.cr3_en)
        toggle_paging(e);
    else
        retire(e, e.next, false);
}

static void execute(bool overflows)
{
    const struct plain_insn *i = find(NULL, cpu.ip);
    struct cofi_event e = {.ip = i->ip, .next = i->next, .target = i->target};
    switch (i->kind) {
    case P_OTHER: other_instruction(e, overflows); return;
    case P_JCC: e.kind = COFI_EV_JCC; e.taken = one_in(2); retire(e, e.taken ? i->target : i->next, e.taken); return;
    case P_JMP: e.kind = COFI_EV_JMP; retire(e, i->target, true); return;
    case P_CALL:
    case P_CALL_IND:
        e.kind = i->kind == P_CALL ? COFI_EV_CALL : COFI_EV_CALL_IND;
        if (i->kind == P_CALL_IND)
            e.target = anywhere();
        cpu.stack[cpu.depth++ % 64] = i->next;
        retire(e, e.target, true);
        return;
    case P_JMP_IND: e.kind = COFI_EV_JMP_IND; e.target = anywhere(); retire(e, e.target, true); return;
    case P_RET:
        e.kind = COFI_EV_RET;
        e.target = cpu.depth > 0 && !one_in(8) ? cpu.stack[--cpu.depth % 64] : anywhere();
        if (e.target >= program.end)
            e.target = anywhere();
        retire(e, e.target, true);
        return;
    case P_FAR:
        e.kind = COFI_EV_FAR;
        e.cause = COFI_FAR_IRET;
        e.target = anywhere();
        e.context_set = true;
        e.after = other_state();
        e.size = i->next - i->ip == 6 ? 5 : 1; /* prefixes */
        retire(e, e.target, true);
        return;
    case P_MOV_CR3:
        e.kind = COFI_EV_MOV_CR3;
        e.context_set = true;
        e.after = cpu.context;
        e.after.cr3 = one_in(3) ? 0x9000 : 0x5000;
        retire(e, i->next, false);
        return;
    }
}

static void pass_time(enum cofi_event_kind kind)
{
    cpu.cycles += below(400);
    cpu.tsc += one_in(50) ? below(100000) : below(300);
    tell((struct cofi_event){.kind = (uint8_t)kind, .tsc = cpu.tsc, .cycles = cpu.cycles, .size = (uint8_t)below(7)});
}

static void something_else(bool overflows)
{
    static const uint8_t causes[] = {COFI_CAUSE_INTR, COFI_CAUSE_NMI, COFI_CAUSE_FAULT, COFI_CAUSE_TRAP, COFI_CAUSE_SMI,
                                     COFI_CAUSE_VMEXIT, COFI_CAUSE_MC_FAULT, COFI_CAUSE_MC_TRAP, COFI_CAUSE_INIT_BSP,
                                     COFI_CAUSE_INIT_AP};
    switch (below(4)) {
    case 0: interrupt((enum cofi_cause)causes[below(sizeof causes)]); break;
    case 1: pass_time(COFI_EV_CLOCK); break;
    case 2:
        pass_time(twin ? COFI_EV_CLOCK : COFI_EV_FREQ); /* a frequency is no register */
        break;
    case 3:
        if (one_in(8)) {
            pass_time(COFI_EV_SLEEP);
            wake();
        } else if (one_in(20)) {
            tell((struct cofi_event){.kind = COFI_EV_EVENT, .cause = COFI_CAUSE_SHUTDOWN, .ip = cpu.ip});
            wake();
        } else if (overflows && one_in(30)) {
            tell((struct cofi_event){.kind = COFI_EV_OVERFLOW_HINT});
        }
        break;
    }
}

/* ---- a configuration ---- */

static void configure(struct rig *rig, bool overflows, bool may_stop)
{
    char fields[512];
    const struct plain_insn *from = &program.insns[below(INSNS / 2)], *to = &program.insns[INSNS / 2 + below(INSNS / 2)],
                            *stop_from = &program.insns[below(INSNS - 4)];
    bool os = one_in(2), user = !os || one_in(2);
    cpu.cr3_en = one_in(4);
    /* CR3 and IP filter together can leave FilterEn set outside of the range (docs/decisions/0205): after an
     * overflow no packet would tell. */
    cpu.ranged = one_in(2) && !(overflows && cpu.cr3_en);
    cpu.base = from->ip;
    cpu.limit = to->ip;
    /* Turned off without FUP.PGD and on again elsewhere, a PIP could come before any address: not with both; and the
     * workaround of [ERR E2] goes by FUP.PGD. */
    cpu.silent = (!cpu.ranged || cpu.cr3_en) && !(cpu.errata & COFI_ERRATUM_RTIT_E2);
    cpu.stops = may_stop && cpu.silent && one_in(3);
    cpu.stop_base = stop_from->ip;
    cpu.stop_limit = stop_from[1 + below(3)].ip;
    bool second = one_in(2);
    cpu.cr3_match = 0x5000;
    cpu.base2 = cpu.limit2 = 0;
    cpu.either = cpu.ranged && !cpu.stops && one_in(2);
    if (cpu.either) { /* the other range lies behind this one, or right after it */
        const struct plain_insn *from2 = one_in(3) ? to : &program.insns[INSNS / 2 + below(INSNS / 2)];
        cpu.limit = from2 < to ? from2->ip : to->ip;
        cpu.base2 = from2 < to ? to->ip : from2->ip;
        cpu.limit2 = program.insns[INSNS - 1].ip;
    }
    bool cmprs_ret = one_in(2), less_pkts = one_in(2), cycle_acc = one_in(3), mtc_en = one_in(2), sts_en = one_in(2), sts_on_cr3 = one_in(2);
    int mtc_range = (int)below(4), pkt_mask = (int)below(4);
    snprintf(fields, sizeof fields,
             "os=%d user=%d cr3_en=%d cr3_match=280 filter_event_id=%d lip%d=%llx lip%d=%llx tracestop_event_id=%d lip%d=%llx "
             "lip%d=%llx cmprs_ret=%d less_pkts=%d cycle_acc=%d mtc_en=%d sts_en=%d sts_on_cr3=%d mtc_range=%d pkt_mask=%d",
             os, user, cpu.cr3_en, cpu.either ? 2 : cpu.ranged ? second : 7, second, (unsigned long long)cpu.base, second + 2,
             (unsigned long long)cpu.limit, cpu.stops ? !second : 6, !second,
             (unsigned long long)(cpu.either ? cpu.base2 : cpu.stop_base), !second + 2,
             (unsigned long long)(cpu.either ? cpu.limit2 : cpu.stop_limit), cmprs_ret, less_pkts, cycle_acc, mtc_en, sts_en, sts_on_cr3,
             mtc_range, pkt_mask);
    rig_fields(rig, fields);
    rig_field(rig, "pkt_cnt", below(0x3fff));
    cpu.rig = rig;
    cpu.context = rig->context;
    cpu.context.cr3 = 0x5000;
    cpu.ip = anywhere();
    /* Enabled inside of the range, FilterEn stays 0 for a while: after an overflow no packet would tell. */
    if (overflows && cpu.ranged)
        cpu.ip = one_in(2) ? cpu.base : cpu.limit;
    cofi_unit_context(rig->unit, &cpu.context, cpu.ip);
    cpu.n = cpu.depth = 0;
    cpu.pip_seen = false;
    plain_sees.n = plain_sees.shown = library_sees.n = library_sees.shown = 0;
    memset(&heard, 0, sizeof heard);
    rig_enable(rig);
    cpu.ctl = rig_read(rig, MSR_CTL);
    cpu.filter_en = cpu.stop_pending = false;
    if (!heard.stop) /* it did not stand on the base of the TraceStop range: there, tracing is off until it is turned on */
        compare(false);
    cpu.tsc = rnd() >> 20;
    cpu.cycles = 0;
}

static void run(unsigned n, bool overflows)
{
    for (unsigned i = 0; i < n && cpu.n + 8 < MOST_RUN; i++) {
        execute(overflows);
        if (one_in(12))
            something_else(overflows);
    }
    /* A VM exit shows everything up to it, if packets are made. */
    struct cofi_event end = {.kind = COFI_EV_EVENT, .cause = COFI_CAUSE_VMEXIT, .ip = cpu.ip, .target = HANDLER,
                             .context_set = true, .after = cpu.context};
    end.after.vmx = 1;
    memset(&heard, 0, sizeof heard);
    tell(end);
    account(false, false);
    cofi_unit_drain(cpu.rig->unit);
}

/* What is in RTIT_TNT_BUFF at the end, as a packet: read back as a debugger would [RTIT 4.2.11]. */
static struct { uint8_t bytes[2]; size_t n; } tail;

static void read_tail(void)
{
    tail.bytes[0] = (uint8_t)rig_read(cpu.rig, MSR_TNT_BUFF);
    tail.bytes[1] = 1; /* of a full one in cycle-accurate mode: a cycle count of 0 */
    tail.n = tail.bytes[0] == 1 ? 0 : tail.bytes[0] >> 6 && cpu.rig->plain.cycle_acc ? 2 : 1;
}

static uint64_t decoded[2 * MOST_RUN];

static void decode(struct plain_flow *flow, bool e5)
{
    struct rig *rig = cpu.rig;
    *flow = (struct plain_flow){.find = find_all, .ranged = cpu.ranged, .base = cpu.base, .limit = cpu.limit, .base2 = cpu.base2,
                                .limit2 = cpu.limit2,
                                .cycle_acc = rig->plain.cycle_acc, .e5 = e5, .ran = decoded, .room = 2 * MOST_RUN};
    assert_true(rig->n + tail.n <= sizeof rig->bytes);
    memcpy(rig->bytes + rig->n, tail.bytes, tail.n);
    if (!plain_flow_decode(flow, rig->bytes, rig->n + tail.n))
        fail_msg("seed %llu: %s, offset %zx", (unsigned long long)current, flow->error, flow->error_offset);
}

static void same(const char *who, const uint64_t *got, size_t n, const struct expected *e)
{
    for (size_t i = 0; i < n && i < e->n; i++)
        if (got[i] != e->items[i]) {
            for (size_t k = i > 6 ? i - 6 : 0; k < i + 3 && k < n && k < e->n; k++)
                print_message("# item %zu: expected %llx, decoded %llx\n", k, (unsigned long long)e->items[k], (unsigned long long)got[k]);
            fail_msg("seed %llu: %s, item %zu of %zu: expected %llx, decoded %llx", (unsigned long long)current, who, i, e->n,
                     (unsigned long long)e->items[i], (unsigned long long)got[i]);
        }
    if (n != e->n)
        fail_msg("seed %llu: %s, expected %zu items, decoded %zu (after %llx)", (unsigned long long)current, who, e->n, n,
                 n ? (unsigned long long)got[n < e->n ? n - 1 : e->n ? e->n - 1 : 0] : 0ull);
}

/* ---- the same through the library's decoder ---- */

static struct { uint64_t ran[2 * MOST_RUN]; size_t n, gaps; uint64_t gap_offset; const char *gap; } real;

static void note(uint64_t ip)
{
    assert_true(real.n < 2 * MOST_RUN);
    real.ran[real.n++] = ip;
}

static void take_batch(const struct cofi_flow_batch *batch)
{
    size_t at = 0;
    for (size_t b = 0; b <= batch->blocks_n; b++) {
        for (; at < batch->events_n && batch->events[at].at == b; at++) {
            const struct cofi_flow_event *e = &batch->events[at];
            if (e->kind == COFI_FLOW_OVERFLOW)
                note(UINT64_MAX);
            if (e->kind == COFI_FLOW_GAP && real.gaps++ == 0) {
                real.gap = e->text;
                real.gap_offset = e->offset;
            }
        }
        for (uint32_t i = 0; b < batch->blocks_n && i < batch->blocks[b]->n; i++)
            note(batch->blocks[b]->insns[i].ip & 0xffffffffffff);
    }
}

static uint64_t canonical(uint64_t ip) { return ip >> 47 ? ip | 0xffff000000000000 : ip; }

static void decode_really(bool silvermont)
{
    static const uint8_t iretq[] = {0x48, 0xcf};
    static const struct cofi_flow_block *blocks[COFI_FLOW_BATCH_MIN];
    static struct cofi_flow_event events[64];
    struct cofi_flow_batch batch = {.blocks = blocks, .blocks_max = COFI_FLOW_BATCH_MIN, .events = events, .events_max = 64};
    struct cofi_flow_config config;
    struct cofi_image *image;
    struct cofi_flow *flow;
    assert_int_equal(cofi_image_open(&image), 0);
    assert_int_equal(cofi_image_map_bytes(image, 0, canonical(program.base), program.code, program.end - program.base, "program"), 0);
    assert_int_equal(cofi_image_map_bytes(image, 0, HANDLER, iretq, sizeof iretq, "handler"), 0);
    cofi_flow_config_init(&config, COFI_RTIT);
    config.bytes = cpu.rig->bytes;
    config.n = cpu.rig->n;
    config.image = image;
    config.ctl_known = true;
    config.ctl = rig_read(cpu.rig, MSR_CTL);
    config.family = silvermont ? 6 : 0;
    config.model = silvermont ? 0x37 : 0;
    config.tail = tail.bytes;
    config.tail_n = tail.n;
    config.ends_in_overflow = rig_read(cpu.rig, MSR_STATUS) & 8;
    config.ranges_known = true;
    config.events = (uint32_t)rig_read(cpu.rig, MSR_EVENTS);
    for (int i = 0; i < 2; i++) {
        config.range_base[i] = canonical(rig_read(cpu.rig, MSR_LIP0 + i));
        config.range_limit[i] = canonical(rig_read(cpu.rig, MSR_LIP2 + i));
    }
    memset(&real, 0, sizeof real);
    assert_int_equal(cofi_flow_open(&flow, &config), 0);
    while (cofi_flow_next(flow, &batch) > 0)
        take_batch(&batch);
    cofi_flow_close(flow);
    cofi_image_close(image);
}

static struct cofi_unit_config random_config(bool overflows)
{
    struct cofi_unit_config c = {.explain = notice};
    if (one_in(2))
        c.errata = rnd() & 0x7f; /* all but [ERR E8], which loses packets */
    if (overflows && one_in(2)) {
        c.buffer_bytes = 16 + (uint32_t)below(one_in(2) ? 30 : 200);
        c.drain_bytes = 1 + (uint32_t)below(16);
        c.drain_cycles = 1 + (uint32_t)below(40);
    }
    return c;
}

/* ---- output to a circular region, in weakly ordered lines that a collector restores, instead of a sink ---- */

static struct {
    struct cofi_reorder *reorder; /* null: a sink */
    struct rig *rig;
    uint64_t base, mask;
} hub;

static int collect(void *opaque, const uint8_t *bytes, size_t n)
{
    struct rig *rig = opaque;
    assert_true(rig->n + n <= sizeof rig->bytes);
    memcpy(rig->bytes + rig->n, bytes, n);
    rig->n += n;
    return 0;
}

static int receive(void *opaque, uint64_t address, const uint8_t *bytes, size_t n)
{
    (void)opaque;
    uint64_t place = address - hub.base;
    /* TraceSTOP is not where the stream goes on; any other single byte may be a line's last [RTIT Table 4]. */
    if (n == 1 && bytes[0] == 0xc1 && (address & 0xff) == 0xc0 && !(rig_read(hub.rig, MSR_CTL) & CTL_DEST))
        place = (rig_read(hub.rig, MSR_OFFSET) - 1) & hub.mask;
    must(place <= hub.mask && place / 64 == (place + n - 1) / 64, "a write outside of the region, or across lines [RTIT 2.3]");
    return cofi_reorder_write(hub.reorder, (uint32_t)place, bytes, n);
}

static void open_hub(struct rig *rig, struct cofi_unit_config *config)
{
    uint64_t offset = below(0x400000);
    hub.rig = rig;
    hub.mask = (UINT64_C(64) << below(8)) - 1;
    hub.base = (rnd() & 0xfffffffc0) & ~hub.mask;
    config->memory = (struct cofi_memory){.write = receive};
    config->weak_lines = (uint32_t)below(17);
    config->weak_seed = rnd();
    rig_open(rig, config);
    assert_int_equal(cofi_reorder_open(&hub.reorder, (uint32_t)hub.mask + 1, (uint32_t)(offset & hub.mask),
                                       (struct cofi_sink){collect, rig}), 0);
    rig_write(rig, MSR_BASE_ADDR, hub.base | (rnd() & hub.mask & ~UINT64_C(63))); /* bits set in both count as 0 */
    rig_write(rig, MSR_LIMIT_MASK, hub.mask);
    rig_write(rig, MSR_OFFSET, offset);
}

static void close_hub(void)
{
    if (hub.reorder)
        must(cofi_reorder_waiting(hub.reorder) == 0, "lines are missing");
    cofi_reorder_close(hub.reorder);
    hub.reorder = NULL;
}

static unsigned long runs(void) { return getenv("COFI_RUNS") ? strtoul(getenv("COFI_RUNS"), NULL, 0) : 200; }
static uint64_t seed(void) { return getenv("COFI_SEED") ? strtoull(getenv("COFI_SEED"), NULL, 0) : 1; }

static void dump(bool overflows)
{
    const char *which = overflows ? "COFI_DUMP_OVERFLOWS" : "COFI_DUMP";
    if (!getenv(which)) /* to look at the run with cofi dump */
        return;
    FILE *out = fopen(getenv(which), "wb");
    assert_non_null(out);
    fwrite(cpu.rig->bytes, 1, cpu.rig->n, out);
    fclose(out);
}

static void one_run(uint64_t s, bool overflows)
{
    static struct rig rig;
    struct plain_flow flow;
    current = s;
    random_state = s * UINT64_C(0x9e3779b97f4a7c15) + 1;
    make_program();
    struct cofi_unit_config config = random_config(overflows);
    if (one_in(2))
        open_hub(&rig, &config);
    else
        rig_open(&rig, &config);
    cpu.errata = config.errata;
    unsigned long long loops = count.loop_tips;
    configure(&rig, overflows, true);
    run(200 + (unsigned)below(4000), overflows);
    close_hub();
    read_tail();
    dump(overflows);
    decode(&flow, config.errata & COFI_ERRATUM_RTIT_E5);
    if (config.errata & COFI_ERRATUM_RTIT_E5 && count.loop_tips > loops) {
        count.skipped++;
        rig_close(&rig);
        return;
    }
    same("plain decoder", flow.ran, flow.n, &plain_sees);
    decode_really(config.errata & COFI_ERRATUM_RTIT_E5);
    if (real.gaps)
        fail_msg("seed %llu: gap at %llx: %s", (unsigned long long)current, (unsigned long long)real.gap_offset, real.gap);
    if (rig_read(&rig, MSR_STATUS) & 8)
        library_sees.items[library_sees.n++] = UINT64_MAX;
    same("library", real.ran, real.n, &library_sees);
    rig_close(&rig);
}

static void the_flow_equals_the_events(void **state)
{
    (void)state;
    for (uint64_t s = seed(); s < seed() + runs(); s++) {
        one_run(s, false);
    }
}

static void the_flow_equals_the_events_but_for_overflows(void **state)
{
    (void)state;
    for (uint64_t s = seed(); s < seed() + runs(); s++) {
        one_run(s, true);
    }
}

static const uint32_t all_msrs[] = {0x760, 0x761, 0x762, 0x763, 0x768, 0x769, 0x76b, 0x76c,
                                    0x76e, 0x76f, 0x770, 0x771, 0x772, 0x777, 0x77c, 0x77d};

static struct { uint8_t bytes[1 << 16]; size_t n; } twin_out;
static int take_twin(void *opaque, const uint8_t *bytes, size_t n)
{
    (void)opaque;
    assert_true(twin_out.n + n <= sizeof twin_out.bytes);
    memcpy(twin_out.bytes + twin_out.n, bytes, n);
    twin_out.n += n;
    return 0;
}

static struct cofi_unit_config twin_config;

/* A fresh unit that goes on from these registers. */
static void open_twin(const uint64_t values[16])
{
    assert_int_equal(cofi_unit_open(&twin, &twin_config), 0);
    cofi_unit_context(twin, &cpu.context, cpu.ip);
    for (int i = 0; i < 16; i++)
        assert_int_equal(cofi_unit_load_msr(twin, all_msrs[i], values[i]), 0);
    struct cofi_event now = {.kind = COFI_EV_CLOCK, .tsc = cpu.tsc, .cycles = cpu.cycles};
    assert_int_equal(cofi_unit_event(twin, &now), 0);
}

/* The twin's registers move to another unit, as over C6 or to another processor: both units drain. */
static void move_twin(void)
{
    uint64_t values[16];
    cofi_unit_drain(twin);
    cofi_unit_drain(cpu.rig->unit);
    for (int i = 0; i < 16; i++)
        assert_int_equal(cofi_unit_rdmsr(twin, all_msrs[i], &values[i]), 0);
    cofi_unit_close(twin);
    open_twin(values);
}

static void one_stream_by_two(uint64_t s)
{
    static struct rig rig;
    uint64_t values[16];
    current = s;
    random_state = s * UINT64_C(0x9e3779b97f4a7c15) + 1;
    make_program();
    twin_config = random_config(true);
    twin_config.errata = 0; /* some remember what no register has */
    twin_config.explain = NULL;
    cpu.errata = 0;
    rig_open(&rig, &twin_config);
    configure(&rig, true, false);
    tell((struct cofi_event){.kind = COFI_EV_CLOCK, .tsc = cpu.tsc});
    cofi_unit_drain(rig.unit);
    memcpy(twin_out.bytes, rig.bytes, twin_out.n = rig.n);
    for (int i = 0; i < 16; i++)
        values[i] = rig_read(&rig, all_msrs[i]);
    twin_config.size = sizeof twin_config;
    twin_config.gen = COFI_RTIT;
    twin_config.sink = (struct cofi_sink){take_twin, NULL};
    open_twin(values);
    for (int i = 0; i < 1500; i++) {
        execute(true);
        if (one_in(12))
            something_else(true);
        if (one_in(100))
            move_twin();
    }
    cofi_unit_drain(rig.unit);
    cofi_unit_drain(twin);
    if (rig.n != twin_out.n || memcmp(rig.bytes, twin_out.bytes, rig.n))
        fail_msg("seed %llu: %zu bytes without moving, %zu with", (unsigned long long)s, rig.n, twin_out.n);
    cofi_unit_close(twin);
    twin = NULL;
    rig_close(&rig);
}

static void registers_saved_and_loaded_continue_the_stream_byte_for_byte(void **state)
{
    (void)state;
    for (uint64_t s = seed(); s < seed() + runs() / 2; s++)
        one_stream_by_two(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_flow_equals_the_events),
        cmocka_unit_test(the_flow_equals_the_events_but_for_overflows),
        cmocka_unit_test(registers_saved_and_loaded_continue_the_stream_byte_for_byte),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    printf("# seeds %llu to %llu: %llu events, %llu register writes, %llu of them turned tracing off without a packet, %llu "
           "overflows, %llu TraceStops and %llu held by an overflow; %llu runs skipped\n", (unsigned long long)seed(),
           (unsigned long long)(seed() + runs() - 1), count.told, count.writes, count.silent, count.overflows, count.stops,
           count.held_stops, count.skipped);
    return failed;
}
