/* SPDX-License-Identifier: MIT
 * Random programs, configurations and events through the unit and back through the plain reference decoder:
 * the flow equals the events. COFI_SEED and COFI_RUNS choose. */
#include "unit/rtit_rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cofi/flow.h>

#include "reference/rtit_flow.h"

enum { INSNS = 400, MOST_RUN = 30000, HANDLER = 0x900000 };

static uint64_t random_state, current; /* current: the seed at hand */
static unsigned long long events_told;
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
    uint8_t *out = program.code + (i->ip - program.base);
    size_t n = i->next - i->ip;
    uint32_t displacement = (uint32_t)(i->target - i->next);
    memcpy(out, i->kind == P_OTHER ? nops[n] : bytes[i->kind], n < 3 || i->kind == P_OTHER ? n : 3);
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
    uint64_t ip, stack[64], tsc, cycles;
    unsigned depth;
    bool os, user, cr3_en, ranged, filter_en;
    uint64_t base, limit;
    uint64_t ran[MOST_RUN];
    uint64_t starts[MOST_RUN]; /* where in ran an overflow ended */
    size_t n, starts_n;
} cpu;

static bool context_en(void)
{
    const struct cofi_context *c = &cpu.context;
    return (c->cpl ? cpu.user : cpu.os) && (!cpu.cr3_en || c->cr3 == 0x5000) && !c->smm && c->vmx != 1;
}

/* [RTIT 2.1.3, RTIT 3.3.5], in this test's words. */
static void compare(bool taken)
{
    if (!context_en())
        return;
    if (!cpu.ranged)
        cpu.filter_en = true;
    else if (taken)
        cpu.filter_en = cpu.ip >= cpu.base && cpu.ip < cpu.limit;
    else if (cpu.ip == cpu.base || cpu.ip == cpu.limit)
        cpu.filter_en = cpu.ip == cpu.base;
}

static struct cofi_unit *twin; /* hears the same; null: none */
static bool buffovf;           /* a FUP.BuffOvf was made */

static void notice(void *opaque, const struct cofi_explain *e)
{
    (void)opaque;
    buffovf |= e->packet && e->packet->kind == COFI_RTIT_BUFFOVF;
}

static void tell(struct cofi_event event)
{
    events_told++;
    assert_int_equal(cofi_unit_event(cpu.rig->unit, &event), 0);
    if (twin)
        assert_int_equal(cofi_unit_event(twin, &event), 0);
    if (event.context_set)
        cpu.context = event.after;
}

/* An instruction ran: note it if it was in sight, tell it. */
static void retire(struct cofi_event event, uint64_t to, bool taken)
{
    bool sight = context_en() && cpu.filter_en;
    if (sight)
        cpu.ran[cpu.n++] = event.ip;
    buffovf = false;
    tell(event);
    cpu.ip = to;
    compare(taken);
    if (buffovf) /* this instruction is the first one after an overflow */
        cpu.starts[cpu.starts_n++] = sight ? cpu.n - 1 : cpu.n;
}

/* An event that is no instruction, to a handler outside of the program, and back at once. */
static void interrupt(enum cofi_cause cause)
{
    struct cofi_context before = cpu.context;
    struct cofi_event there = {.kind = COFI_EV_EVENT, .cause = cause, .ip = cpu.ip, .target = HANDLER, .context_set = true,
                               .after = before, .deferred = one_in(2)};
    there.after.cpl = 0;
    there.after.smm = cause == COFI_CAUSE_SMI;
    there.after.vmx = cause == COFI_CAUSE_VMEXIT ? 1 : before.vmx;
    uint64_t back = cpu.ip;
    struct cofi_event boundary = {.kind = COFI_EV_BOUNDARY, .ip = HANDLER};
    bool deferred = there.deferred;
    if (deferred)
        there.target = 0;
    tell(there);
    if (deferred)
        tell(boundary);
    cpu.context = there.after;
    cpu.ip = HANDLER;
    compare(true);
    struct cofi_event iret = {.kind = COFI_EV_FAR, .ip = HANDLER, .next = HANDLER + 2, .target = back, .context_set = true,
                              .after = before};
    iret.cause = cause == COFI_CAUSE_SMI ? COFI_FAR_RSM : cause == COFI_CAUSE_VMEXIT ? COFI_FAR_VMENTRY : COFI_FAR_IRET;
    retire(iret, back, true);
}

static const struct plain_insn handler = {P_FAR, HANDLER, HANDLER + 2, 0};
static const struct plain_insn *find_all(void *opaque, uint64_t ip) { return ip == HANDLER ? &handler : find(opaque, ip); }

static uint64_t anywhere(void) { return program.insns[below(INSNS)].ip; }

static struct cofi_context other_state(void)
{
    struct cofi_context c = cpu.context;
    c.cpl = one_in(2) ? 0 : 3;
    return c;
}

static void execute(void)
{
    const struct plain_insn *i = find(NULL, cpu.ip);
    struct cofi_event e = {.ip = i->ip, .next = i->next, .target = i->target};
    switch (i->kind) {
    case P_OTHER: e.kind = COFI_EV_INSN; retire(e, i->next, false); return;
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
                                     COFI_CAUSE_VMEXIT, COFI_CAUSE_MC_FAULT};
    switch (below(4)) {
    case 0: interrupt((enum cofi_cause)causes[below(sizeof causes)]); break;
    case 1: pass_time(COFI_EV_CLOCK); break;
    case 2:
        if (!twin) /* a frequency is no register */
            pass_time(COFI_EV_FREQ);
        else
            pass_time(COFI_EV_CLOCK);
        break;
    case 3:
        if (one_in(8)) {
            pass_time(COFI_EV_SLEEP);
            pass_time(COFI_EV_WAKE);
        } else if (overflows && one_in(30)) {
            tell((struct cofi_event){.kind = COFI_EV_OVERFLOW_HINT});
        }
        break;
    }
}

/* ---- a configuration ---- */

static void configure(struct rig *rig, bool overflows)
{
    char fields[512];
    const struct plain_insn *from = &program.insns[below(INSNS / 2)], *to = &program.insns[INSNS / 2 + below(INSNS / 2)];
    cpu.os = one_in(2);
    cpu.user = !cpu.os || one_in(2);
    cpu.cr3_en = one_in(4);
    /* CR3 and IP filter together can leave FilterEn set outside of the range (docs/decisions/0205): after an
     * overflow no packet would tell. */
    cpu.ranged = one_in(2) && !(overflows && cpu.cr3_en);
    cpu.base = from->ip;
    cpu.limit = to->ip;
    bool second = one_in(2);
    snprintf(fields, sizeof fields,
             "os=%d user=%d cr3_en=%d cr3_match=280 filter_event_id=%d lip%d=%llx lip%d=%llx cmprs_ret=%d less_pkts=%d "
             "cycle_acc=%d mtc_en=%d sts_en=%d sts_on_cr3=%d mtc_range=%d pkt_mask=%d",
             cpu.os, cpu.user, cpu.cr3_en, cpu.ranged ? second : 7, second, (unsigned long long)cpu.base, second + 2,
             (unsigned long long)cpu.limit, one_in(2), one_in(2), one_in(3), one_in(2), one_in(2), one_in(2), (int)below(4),
             (int)below(4));
    rig_fields(rig, fields);
    rig_field(rig, "pkt_cnt", below(0x3fff));
    cpu.rig = rig;
    cpu.context = rig->context;
    cpu.context.cr3 = 0x5000;
    cpu.ip = anywhere();
    cofi_unit_context(rig->unit, &cpu.context, cpu.ip);
    rig_enable(rig);
    cpu.filter_en = false;
    compare(false);
    cpu.n = cpu.starts_n = cpu.depth = 0;
    cpu.tsc = rnd() >> 20;
    cpu.cycles = 0;
}

static void run(unsigned n, bool overflows)
{
    for (unsigned i = 0; i < n && cpu.n + 8 < MOST_RUN; i++) {
        execute();
        if (one_in(12))
            something_else(overflows);
    }
    /* A VM exit shows everything up to it. */
    struct cofi_event end = {.kind = COFI_EV_EVENT, .cause = COFI_CAUSE_VMEXIT, .ip = cpu.ip, .target = HANDLER,
                             .context_set = true, .after = cpu.context};
    end.after.vmx = 1;
    tell(end);
    cofi_unit_drain(cpu.rig->unit);
}

static uint64_t decoded[2 * MOST_RUN];

static void decode(struct plain_flow *flow)
{
    *flow = (struct plain_flow){.find = find_all, .ranged = cpu.ranged, .base = cpu.base, .limit = cpu.limit,
                                .cycle_acc = cpu.rig->plain.cycle_acc, .ran = decoded, .room = 2 * MOST_RUN};
    if (!plain_flow_decode(flow, cpu.rig->bytes, cpu.rig->n))
        fail_msg("seed %llu: %s, offset %zx", (unsigned long long)current, flow->error, flow->error_offset);
}

/* Segments between overflows: each is what ran from there on, as far as it goes. */
static void same_but_for_overflows(const uint64_t *ran, size_t n)
{
    size_t at = 0, segment = 0;
    for (size_t i = 0; i < n; i++) {
        if (ran[i] == UINT64_MAX) {
            assert_true(segment < cpu.starts_n);
            at = cpu.starts[segment++];
            continue;
        }
        if (at >= cpu.n || cpu.ran[at] != ran[i])
            fail_msg("seed %llu: segment %zu, instruction %zu: ran %llx, decoded %llx", (unsigned long long)current, segment, at,
                     (unsigned long long)(at < cpu.n ? cpu.ran[at] : 0), (unsigned long long)ran[i]);
        at++;
    }
    assert_int_equal(segment, cpu.starts_n);
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

static void decode_really(void)
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

/* What the library decodes is what the plain decoder decodes; no gaps. */
static void the_library_says_the_same(const struct plain_flow *flow, bool overflows)
{
    decode_really();
    if (getenv("COFI_DUMP")) { /* to look at the run with cofi dump */
        FILE *out = fopen(getenv("COFI_DUMP"), "wb");
        assert_non_null(out);
        fwrite(cpu.rig->bytes, 1, cpu.rig->n, out);
        fclose(out);
    }
    if (flow->like_e5) /* the library takes the erratum for possible; here it was a loop */
        return;
    if (real.gaps)
        fail_msg("seed %llu: gap at %llx: %s", (unsigned long long)current, (unsigned long long)real.gap_offset, real.gap);
    if (overflows) { /* a PIP before the overflow tells it more than the plain decoder sees */
        same_but_for_overflows(real.ran, real.n);
        assert_true(real.n >= flow->n);
        return;
    }
    for (size_t i = 0; i < flow->n && i < real.n; i++)
        if (flow->ran[i] != real.ran[i])
            fail_msg("seed %llu: item %zu of %zu: plain %llx, library %llx", (unsigned long long)current, i, flow->n,
                     (unsigned long long)flow->ran[i], (unsigned long long)real.ran[i]);
    if (flow->n != real.n)
        fail_msg("seed %llu: plain %zu items, library %zu", (unsigned long long)current, flow->n, real.n);
}

static struct cofi_unit_config random_config(bool overflows)
{
    struct cofi_unit_config c = {.explain = overflows ? notice : NULL};
    if (one_in(2)) /* those whose workaround never errs; E5's takes a loop's TIP for a spurious one */
        c.errata = rnd() & (COFI_ERRATUM_RTIT_E2 | COFI_ERRATUM_RTIT_E3 | COFI_ERRATUM_RTIT_E6 | COFI_ERRATUM_RTIT_E7);
    if (overflows && one_in(2)) {
        c.buffer_bytes = 16 + (uint32_t)below(200);
        c.drain_bytes = 1 + (uint32_t)below(16);
        c.drain_cycles = 1 + (uint32_t)below(40);
    }
    return c;
}

static unsigned long runs(void) { return getenv("COFI_RUNS") ? strtoul(getenv("COFI_RUNS"), NULL, 0) : 200; }
static uint64_t seed(void) { return getenv("COFI_SEED") ? strtoull(getenv("COFI_SEED"), NULL, 0) : 1; }

static void one_run(uint64_t s, bool overflows)
{
    static struct rig rig;
    struct plain_flow flow;
    current = s;
    random_state = s * UINT64_C(0x9e3779b97f4a7c15) + 1;
    make_program();
    struct cofi_unit_config config = random_config(overflows);
    rig_open(&rig, &config);
    configure(&rig, overflows);
    run(200 + (unsigned)below(4000), overflows);
    decode(&flow);
    if (overflows) {
        same_but_for_overflows(flow.ran, flow.n);
    } else {
        for (size_t i = 0; i < flow.n && i < cpu.n; i++)
            if (cpu.ran[i] != decoded[i])
                fail_msg("seed %llu: instruction %zu of %zu: ran %llx, decoded %llx", (unsigned long long)current, i, cpu.n, (unsigned long long)cpu.ran[i],
                         (unsigned long long)decoded[i]);
        assert_int_equal(flow.n, cpu.n);
    }
    the_library_says_the_same(&flow, overflows);
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

/* The twin's registers move to a fresh unit, as over C6 or to another processor. */
static void move_twin(void)
{
    uint64_t values[16];
    cofi_unit_drain(twin);
    for (int i = 0; i < 16; i++)
        assert_int_equal(cofi_unit_rdmsr(twin, all_msrs[i], &values[i]), 0);
    cofi_unit_close(twin);
    struct cofi_unit_config config = {.size = sizeof config, .gen = COFI_RTIT, .sink = {take_twin, NULL}};
    assert_int_equal(cofi_unit_open(&twin, &config), 0);
    cofi_unit_context(twin, &cpu.context, cpu.ip);
    for (int i = 0; i < 16; i++)
        assert_int_equal(cofi_unit_load_msr(twin, all_msrs[i], values[i]), 0);
    struct cofi_event now = {.kind = COFI_EV_CLOCK, .tsc = cpu.tsc, .cycles = cpu.cycles};
    assert_int_equal(cofi_unit_event(twin, &now), 0);
}

static void registers_saved_and_loaded_continue_the_stream_byte_for_byte(void **state)
{
    (void)state;
    static struct rig rig;
    for (uint64_t s = seed(); s < seed() + runs() / 2; s++) {
        current = s;
    random_state = s * UINT64_C(0x9e3779b97f4a7c15) + 1;
        make_program();
        rig_open(&rig, NULL);
        configure(&rig, false);
        tell((struct cofi_event){.kind = COFI_EV_CLOCK, .tsc = cpu.tsc});
        cofi_unit_drain(rig.unit);
        memcpy(twin_out.bytes, rig.bytes, twin_out.n = rig.n);
        struct cofi_unit_config config = {.size = sizeof config, .gen = COFI_RTIT, .sink = {take_twin, NULL}};
        assert_int_equal(cofi_unit_open(&twin, &config), 0);
        cofi_unit_context(twin, &cpu.context, cpu.ip);
        for (int i = 0; i < 16; i++)
            assert_int_equal(cofi_unit_load_msr(twin, all_msrs[i], rig_read(&rig, all_msrs[i])), 0);
        struct cofi_event now = {.kind = COFI_EV_CLOCK, .tsc = cpu.tsc, .cycles = cpu.cycles};
        assert_int_equal(cofi_unit_event(twin, &now), 0);
        for (int i = 0; i < 1500; i++) {
            execute();
            if (one_in(12))
                something_else(false);
            if (one_in(100))
                move_twin();
        }
        cofi_unit_drain(rig.unit);
        cofi_unit_drain(twin);
        assert_int_equal(rig.n, twin_out.n);
        assert_memory_equal(rig.bytes, twin_out.bytes, rig.n);
        cofi_unit_close(twin);
        twin = NULL;
        rig_close(&rig);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_flow_equals_the_events),
        cmocka_unit_test(the_flow_equals_the_events_but_for_overflows),
        cmocka_unit_test(registers_saved_and_loaded_continue_the_stream_byte_for_byte),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    printf("# seeds %llu to %llu, %llu events\n", (unsigned long long)seed(), (unsigned long long)(seed() + runs() - 1), events_told);
    return failed;
}
