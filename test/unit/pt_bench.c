/* SPDX-License-Identifier: MIT
 * See pt_bench.h. */
#include "pt_bench.h"

#include <string.h>

static bool packet_en(struct bench *bench)
{
    uint64_t status = rig_msr(&bench->rig, MSR_STATUS);
    return (status & 7) == 7 && bench->ctl & BRANCH_EN;
}

static uint64_t choose_ctl(struct program *p)
{
    static const uint64_t maybe[] = {DIS_RETC, TSC_EN, MTC_EN | TSC_EN, CYC_EN, PTW_EN, FUP_ON_PTW, PWR_EVT_EN};
    uint64_t ctl = BRANCH_EN | (program_random(p, 3) == 0 ? OS | USER : program_random(p, 2) ? USER : OS);
    for (size_t i = 0; i < sizeof maybe / sizeof maybe[0]; i++)
        if (program_random(p, 2))
            ctl |= maybe[i];
    ctl |= CYC_THRESH(program_random(p, 4) * 2) | MTC_FREQ(program_random(p, 12));
    if (p->wide)
        ctl |= PSB_FREQ(program_random(p, 6));
    return ctl;
}

/* What of ctl the processor has: fields that fault are left out. */
static uint64_t possible(struct bench *bench, uint64_t ctl)
{
    static const uint64_t fields[] = {DIS_RETC, TSC_EN, MTC_EN | MTC_FREQ(15), CYC_EN, CYC_THRESH(15), MTC_FREQ(15),
                                      PTW_EN | FUP_ON_PTW, PWR_EVT_EN, PSB_FREQ(15)};
    for (size_t i = 0; cofi_unit_wrmsr(bench->rig.unit, MSR_CTL, ctl) < 0; i++) {
        assert_true(i < 2 * sizeof fields / sizeof fields[0]);
        uint64_t without = ctl & ~fields[i % (sizeof fields / sizeof fields[0])];
        bool last = i >= sizeof fields / sizeof fields[0];
        if (last || cofi_unit_wrmsr(bench->rig.unit, MSR_CTL, without) == 0)
            ctl = without;
    }
    assert_int_equal(cofi_unit_wrmsr(bench->rig.unit, MSR_CTL, 0), 0);
    return ctl;
}

/* A filter or TraceStop over part of a region. */
static uint64_t choose_ranges(struct bench *bench)
{
    struct program *p = &bench->program;
    uint64_t cfg = 0;
    for (unsigned i = 0; i < 4 && program_random(p, 3) == 0; i++) {
        const struct program_region *region = &p->regions[program_random(p, PROGRAM_REGIONS)];
        uint64_t base = region->base + program_random(p, region->used), size = program_random(p, 1500);
        if (cofi_unit_wrmsr(bench->rig.unit, MSR_ADDR0_A + 2 * i, base) < 0)
            break; /* the processor has no more */
        assert_int_equal(cofi_unit_wrmsr(bench->rig.unit, MSR_ADDR0_B + 2 * i, base + size), 0);
        bool stop = program_random(p, p->wide ? 6 : 30) == 0;
        cfg |= ADDR_CFG(i, stop ? 2 : 1);
        bench->ranges[bench->range_count++] = (struct bench_range){base, base + size, stop};
    }
    return cfg;
}

static void pass_time(struct bench *bench)
{
    struct program *p = &bench->program;
    struct cofi_event event = {.kind = COFI_EV_CLOCK};
    uint64_t step = program_random(p, 8) ? program_random(p, 40) : program_random(p, 40000);
    event.tsc = bench->tsc += step;
    event.cycles = bench->cycles += step;
    cofi_unit_event(bench->rig.unit, &event);
    if (program_random(p, 200) == 0) {
        event.kind = COFI_EV_FREQ;
        event.value = 8 + program_random(p, 30);
        cofi_unit_event(bench->rig.unit, &event);
    }
    if (program_random(p, 300) == 0) {
        event.kind = COFI_EV_SLEEP;
        event.cause = 1;
        event.size = 6;
        event.ip = program_ip(p);
        cofi_unit_event(bench->rig.unit, &event);
        event.kind = COFI_EV_WAKE;
        event.cause = 8;
        event.tsc = bench->tsc += 100000;
        cofi_unit_event(bench->rig.unit, &event);
    }
}

/* A transfer as decoders show it: taken, and traced before and after. */
static void note_hop(struct bench *bench, const struct cofi_event *event)
{
    bool near = event->kind >= COFI_EV_JCC && event->kind <= COFI_EV_RET && (event->kind != COFI_EV_JCC || event->taken);
    if (near || event->kind == COFI_EV_FAR || event->kind == COFI_EV_EVENT || event->kind == COFI_EV_XABORT)
        bench->hops[bench->hop_count++] = (struct bench_hop){event->ip, event->target};
}

static void note_leave(struct bench *bench, const struct cofi_event *event, size_t before)
{
    bool soft = event->kind == COFI_EV_FAR && event->cause == COFI_FAR_INT;
    if (event->kind == COFI_EV_JCC || event->kind == COFI_EV_RET || event->kind == COFI_EV_MOV_CR3 ||
        (event->kind == COFI_EV_FAR && !soft))
        bench->leaves[bench->left++] =
            (struct bench_leave){before, cofi_unit_bytes(bench->rig.unit), bench->ran - 1,
                                 event->kind == COFI_EV_MOV_CR3 ? event->next : event->target, event->kind};
}

/* FUP has the own address of INT n, and of a WRMSR that turns tracing off: decoders see an event before it. */
static bool shows(const struct bench *bench, const struct cofi_event *event)
{
    bool off = event->kind == COFI_EV_WRMSR && event->msr == MSR_CTL && !(bench->program.ctl & TRACE_EN);
    return !off && !(event->kind == COFI_EV_FAR && event->cause == COFI_FAR_INT);
}

static void wake(struct bench *bench, const struct cofi_event *mwait)
{
    struct cofi_event event = {.kind = COFI_EV_WAKE, .cause = 1, .size = mwait->size, .tsc = bench->tsc += 5000,
                               .cycles = bench->cycles};
    if (mwait->size && !mwait->taken)
        assert_int_equal(cofi_unit_event(bench->rig.unit, &event), 0);
}

static void step(struct bench *bench)
{
    struct cofi_event event;
    if (program_random(&bench->program, 3) == 0)
        pass_time(bench);
    bool traced = packet_en(bench), retired = program_step(&bench->program, &event);
    if (retired && traced && shows(bench, &event))
        bench->truth[bench->ran++] = event.ip;
    if (event.kind == COFI_EV_INSN && program_random(&bench->program, 2))
        return; /* hosts need not tell of these */
    size_t before = cofi_unit_bytes(bench->rig.unit);
    assert_int_equal(cofi_unit_event(bench->rig.unit, &event), 0);
    bool after = packet_en(bench);
    if (traced && after)
        note_hop(bench, &event);
    else if (traced)
        note_leave(bench, &event, before);
    if (event.kind == COFI_EV_MWAIT)
        wake(bench, &event);
}

static void run(struct bench *bench, unsigned steps)
{
    for (unsigned i = 0; i < steps && bench->ran < BENCH_MOST; i++)
        step(bench);
    struct cofi_event here = {.kind = COFI_EV_BOUNDARY, .ip = program_ip(&bench->program)};
    cofi_unit_event(bench->rig.unit, &here);
    assert_int_equal(cofi_unit_wrmsr(bench->rig.unit, MSR_CTL, bench->ctl & ~TRACE_EN), 0);
}

/* The wide program's own ways, and the processor. */
static void choose_wide(struct bench *bench, struct cofi_unit_config *config)
{
    struct program *p = &bench->program;
    unsigned models = 0;
    while (cofi_unit_model(models, NULL, NULL))
        models++;
    if (program_random(p, 2))
        config->model = bench->model = cofi_unit_model((unsigned)program_random(p, models), NULL, NULL);
    p->exits = program_random(p, 2) ? 60 : 0;
    p->smis = program_random(p, 3) ? 0 : 300;
    p->toggles = program_random(p, 2);
    p->sleeps = program_random(p, 2);
    if (bench->wish.for_perf)
        p->context.vmx = 0; /* so no guest is ever entered */
}

static void choose_losses(struct bench *bench, struct cofi_unit_config *config)
{
    struct program *p = &bench->program;
    config->deferred_tips = program_random(p, 3) == 0;
    config->long_tnt = program_random(p, 3) == 0;
    bench->may_lose = program_random(p, 4) == 0;
    if (bench->may_lose) {
        config->buffer_bytes = 256 + (uint32_t)program_random(p, 300);
        config->drain_bytes = 1;
        config->drain_cycles = 8 + (uint32_t)program_random(p, p->wide ? 3000 : 100);
    }
    p->interrupts = program_random(p, 2) ? 50 : 0;
    p->faults = program_random(p, 2) ? 70 : 0;
    p->transactions = (unsigned)program_random(p, 2);
    p->user32 = program_random(p, 2);
}

static void start(struct bench *bench)
{
    struct program *p = &bench->program;
    bench->ctl = choose_ctl(p) | choose_ranges(bench);
    bool cr3 = bench->ctl & OS && program_random(p, 5) == 0 && !bench->wish.for_perf;
    if (p->wide)
        bench->ctl = possible(bench, bench->ctl);
    if (cr3) {
        bench->ctl |= CR3_FILTER;
        assert_int_equal(cofi_unit_wrmsr(bench->rig.unit, MSR_CR3_MATCH, 0x2000), 0);
    }
    cofi_unit_context(bench->rig.unit, &p->context, program_ip(p));
    bench->ctl |= TRACE_EN;
    p->ctl = bench->ctl;
    if (p->context.vmx && cofi_unit_wrmsr(bench->rig.unit, MSR_CTL, bench->ctl) == 0)
        return;
    p->context.vmx = 0; /* a part that cannot trace in VMX operation */
    cofi_unit_context(bench->rig.unit, &p->context, program_ip(p));
    assert_int_equal(cofi_unit_wrmsr(bench->rig.unit, MSR_CTL, bench->ctl), 0);
}

void bench_run(struct bench *bench, uint64_t seed, unsigned steps, struct bench_wish wish)
{
    struct cofi_unit_config config = {.errata = wish.errata};
    if (wish.errata & COFI_ERRATUM_SKZ84) /* which shows under an offset only */
        config.tsc_offset = 0x123456;
    bench->wish = wish;
    bench->model = "all";
    bench->tsc = bench->cycles = 0;
    bench->ran = bench->left = bench->hop_count = bench->range_count = 0;
    program_make(&bench->program, seed, wish.wide);
    choose_losses(bench, &config);
    if (wish.wide)
        choose_wide(bench, &config);
    rig_open(&bench->rig, &config);
    if (wish.wide) /* as if it had run for a while */
        rig_clock(&bench->rig, bench->tsc = 100000, bench->cycles = 50000);
    start(bench);
    run(bench, steps);
}
