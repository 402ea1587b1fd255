/* SPDX-License-Identifier: MIT
 * An operating system's driver that knows the unit by CPUID, MSRs, PMIs and physical memory only: random schedules
 * of two tasks with ToPA tables or a range each; no byte may be lost but behind a STOP. What each task should have
 * comes from a second unit, same configuration, into a sink.
 * [SDM Manual Trace Configuration Context Switch; SDM Flushing Trace Output; SDM Enabling and Configuration of Trace Packet
 * Generation] */
#include "pt_memory.h"
#include "pt_rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TASKS = 2, REGIONS = 6, TABLES = 0x1000, STEPS = 40 };

struct task {
    uint64_t ctl, base, mask_ptrs, status;
    unsigned region_count;
    uint64_t regions[REGIONS], sizes[REGIONS]; /* in the order in which they fill */
    uint64_t tables[REGIONS];                  /* table and index of each */
    unsigned indexes[REGIONS];
    unsigned region; /* up to here it has been read */
    uint64_t offset;
    uint64_t ip;
    uint8_t *got;
    size_t size;
    bool stop_at_end;                          /* the last region has STOP */
    bool saved;                                /* image is XSAVES's, and the task goes on with it */
    uint8_t image[COFI_XSAVE_BYTES];
};

struct os {
    uint64_t random;
    struct pt_memory *memory;
    struct cofi_unit *unit;
    struct pt_rig *plain;
    size_t plain_from;
    bool pmi, multi, ranges, psb_cyc, single_range, topa, cr3, ptw, inject;
    struct task tasks[TASKS];
    struct cofi_context context;
    uint64_t cycles;
    unsigned filled, pmis; /* regions with INT that filled in this schedule, and the interrupts for them */
    unsigned stops, tracestops, restored, overflows; /* that it has seen: each must happen */
};

static uint64_t running; /* the seed, for the last line */

static uint64_t below(struct os *os, uint64_t n)
{
    os->random ^= os->random << 13;
    os->random ^= os->random >> 7;
    os->random ^= os->random << 17;
    return (os->random >> 11) % n;
}

static uint64_t rdmsr(struct os *os, uint32_t msr)
{
    uint64_t value = 0;
    assert_int_equal(cofi_unit_rdmsr(os->unit, msr, &value), 0);
    return value;
}

static void wrmsr(struct os *os, uint32_t msr, uint64_t value)
{
    assert_int_equal(cofi_unit_wrmsr(os->unit, msr, value), 0);
}

static void on_pmi(void *opaque)
{
    struct os *os = opaque;
    os->pmi = true;
    os->pmis++;
}

/* ---- the driver ---- */

static void enumerate(struct os *os)
{
    uint32_t regs[4], maps[4];
    assert_int_equal(cofi_unit_cpuid(os->unit, 7, 0, regs), 0);
    assert_true(regs[1] >> 25 & 1);
    assert_int_equal(cofi_unit_cpuid(os->unit, 0x14, 0, regs), 0);
    assert_int_equal(cofi_unit_cpuid(os->unit, 0x14, 1, maps), 0);
    os->psb_cyc = regs[1] & 2;
    os->ranges = regs[1] & 4 && maps[0] & 7;
    os->topa = regs[2] & 1;
    os->multi = regs[2] & 2;
    os->single_range = regs[2] & 4;
    os->cr3 = regs[1] & 1;
    os->ptw = regs[1] & 0x10;
    os->inject = regs[1] & 0x40;
}

static void range_buffer(struct os *os, struct task *task, uint64_t memory)
{
    task->region_count = 1;
    task->regions[0] = task->base = memory;
    task->sizes[0] = 0x4000;
    task->mask_ptrs = 0x3fff;
    (void)os;
}

/* Tables of one to three entries, linked in a circle; the last region stops, or not. */
static void topa_buffer(struct os *os, struct task *task, uint64_t memory)
{
    uint64_t table = memory, at = memory + 0x10000;
    bool stop = below(os, 2);
    unsigned index = 0;
    task->stop_at_end = stop || !os->multi;
    task->region_count = os->multi ? 3 + (unsigned)below(os, REGIONS - 2) : 1;
    for (unsigned i = 0; i < task->region_count; i++) {
        unsigned size = (unsigned)below(os, 2);
        bool last = i == task->region_count - 1;
        uint64_t flags = os->multi ? TOPA_INT | (last && stop ? TOPA_STOP : 0) : TOPA_INT | TOPA_STOP;
        at = (at + 0x3fff) & ~UINT64_C(0x3fff);
        task->regions[i] = at;
        task->sizes[i] = UINT64_C(4096) << size;
        task->tables[i] = table;
        task->indexes[i] = index;
        memory_entry(os->memory, table, index++, at | TOPA_SIZE(size) | flags);
        at += task->sizes[i];
        if (last || below(os, 2)) {
            memory_entry(os->memory, table, index, (last ? memory : table + TABLES) | TOPA_END);
            table += TABLES;
            index = 0;
        }
    }
    /* begin anywhere in the buffer, as a driver that was here before does */
    task->region = (unsigned)below(os, task->region_count);
    task->offset = below(os, task->sizes[task->region]);
    task->base = task->tables[task->region];
    task->mask_ptrs = task->offset << 32 | task->indexes[task->region] << 7 | 0x7f;
    task->ctl |= TOPA;
}

static void make_task(struct os *os, unsigned i)
{
    struct task *task = &os->tasks[i];
    uint64_t memory = 0x100000 + 0x200000 * (uint64_t)i;
    uint8_t *got = task->got;
    *task = (struct task){.ip = 0x401000, .got = got, .ctl = USER | BRANCH_EN};
    if (os->psb_cyc)
        task->ctl |= below(os, 2) ? TSC_EN | CYC_EN : DIS_RETC;
    task->ctl |= below(os, 2) ? OS : 0;
    task->ctl |= os->cr3 && below(os, 8) == 0 ? CR3_FILTER : 0;
    task->ctl |= os->ptw && below(os, 2) ? PTW_EN : 0;
    task->ctl |= os->inject && below(os, 2) ? INJECT : 0;
    if (os->ranges && below(os, 4) == 0) /* a filter, or a trap for TraceStop */
        task->ctl |= below(os, 4) ? ADDR_CFG(0, 1) : ADDR_CFG(0, 2);
    if (os->single_range && below(os, 4) == 0)
        range_buffer(os, task, memory);
    else
        topa_buffer(os, task, memory);
}

/* Which of its regions the registers point into. */
static unsigned current(struct os *os, const struct task *task)
{
    uint64_t base = rdmsr(os, MSR_OUTPUT_BASE), index = (rdmsr(os, MSR_OUTPUT_MASK_PTRS) & 0xffffffff) >> 7;
    if (!(task->ctl & TOPA))
        return 0;
    for (unsigned i = 0; i < task->region_count; i++)
        if (task->tables[i] == base && task->indexes[i] == index)
            return i;
    fail_msg("OUTPUT_BASE %llx, entry %llu is none of the driver's", (unsigned long long)base, (unsigned long long)index);
    return 0;
}

static void copy(struct os *os, struct task *task, uint64_t from, uint64_t to)
{
    memcpy(task->got + task->size, os->memory->bytes + task->regions[task->region] + from, to - from);
    task->size += to - from;
}

/* What has been written since it was read last. */
static void collect(struct os *os, struct task *task)
{
    unsigned region = current(os, task);
    uint64_t offset = rdmsr(os, MSR_OUTPUT_MASK_PTRS) >> 32;
    bool around = region == task->region && offset < task->offset;
    while (task->region != region || around) {
        copy(os, task, task->offset, task->sizes[task->region]);
        task->region = (task->region + 1) % task->region_count;
        task->offset = 0;
        around = false;
        os->filled += task->ctl & TOPA ? 1 : 0;
    }
    copy(os, task, task->offset, offset);
    task->offset = offset;
}

/* Filters are of the task; the judge gets them, too. */
static void write_filters(struct os *os, struct cofi_unit *unit)
{
    if (os->ranges) {
        assert_int_equal(cofi_unit_wrmsr(unit, MSR_ADDR0_A, 0x420000), 0);
        assert_int_equal(cofi_unit_wrmsr(unit, MSR_ADDR0_B, 0x427fff), 0);
    }
    if (os->cr3)
        assert_int_equal(cofi_unit_wrmsr(unit, MSR_CR3_MATCH, 0x1000), 0);
}

static void write_task(struct os *os, struct task *task)
{
    write_filters(os, os->unit);
    wrmsr(os, MSR_OUTPUT_BASE, task->base);
    wrmsr(os, MSR_OUTPUT_MASK_PTRS, task->mask_ptrs);
    wrmsr(os, MSR_STATUS, task->status);
    wrmsr(os, MSR_CTL, task->ctl | TRACE_EN);
}

static void switch_in(struct os *os, struct task *task)
{
    os->context = (struct cofi_context){.cpl = 3, .mode = 64, .cr3 = 0x1000, .vmcs = UINT64_MAX};
    write_filters(os, os->plain->unit);
    assert_int_equal(cofi_unit_wrmsr(os->plain->unit, MSR_STATUS, task->status), 0);
    cofi_unit_context(os->unit, &os->context, task->ip);
    cofi_unit_context(os->plain->unit, &os->context, task->ip);
    if (task->saved)
        assert_int_equal(cofi_unit_xrstors(os->unit, task->image), 0);
    else
        write_task(os, task);
    os->restored += task->saved;
    assert_int_equal(cofi_unit_wrmsr(os->plain->unit, MSR_CTL, (task->ctl & ~TOPA) | TRACE_EN), 0);
    os->plain_from = os->plain->size;
    task->size = 0;
}

/* All bytes are there; those behind a ToPA STOP are not, and then the last region is full to its end. */
static void check(struct os *os, struct task *task, uint64_t status)
{
    uint64_t plain_status = rig_msr(os->plain, MSR_STATUS);
    size_t made = os->plain->size - os->plain_from;
    bool full = task->stop_at_end && task->region == task->region_count - 1 && task->offset == task->sizes[task->region];
    assert_int_equal(status & 0x10, 0);
    assert_memory_equal(task->got, os->plain->bytes + os->plain_from, task->size < made ? task->size : made);
    if (full && status & 0x20) {
        assert_true(task->size <= made);
        os->stops++;
        os->filled++;
        return;
    }
    assert_int_equal(task->size, made);
    assert_int_equal(status & 0x20, plain_status & 0x20);
    assert_int_equal(status >> 32, plain_status >> 32);
    os->tracestops += status >> 5 & 1;
}

/* TraceEn off, the rest of the bytes, the registers kept. */
static void switch_out(struct os *os, struct task *task)
{
    task->saved = below(os, 2);
    if (task->saved)
        assert_int_equal(cofi_unit_xsaves(os->unit, task->image), 0);
    else
        wrmsr(os, MSR_CTL, task->ctl);
    assert_int_equal(cofi_unit_wrmsr(os->plain->unit, MSR_CTL, task->ctl & ~TOPA), 0);
    uint64_t status = rdmsr(os, MSR_STATUS);
    collect(os, task);
    check(os, task, status);
    task->base = rdmsr(os, MSR_OUTPUT_BASE);
    task->mask_ptrs = rdmsr(os, MSR_OUTPUT_MASK_PTRS);
    task->status = status & ~UINT64_C(7);
    if (status & 0x20 && status & 0x80) /* the driver drops it */
        os->pmis++;
    if (status & 0x20 || !os->multi) { /* begin the buffer again, and the trace after a stop */
        task->base = task->ctl & TOPA ? task->tables[0] : task->regions[0];
        task->mask_ptrs = task->ctl & TOPA ? 0x7f : 0x3fff;
        task->region = 0;
        task->offset = 0;
        task->status = status & 0x20 ? 0 : task->status;
        task->saved = false;
    }
}

/* ---- the machine ---- */

static void both(struct os *os, const struct cofi_event *event)
{
    cofi_unit_event(os->unit, event);
    cofi_unit_event(os->plain->unit, event);
}

static void enter_or_leave_kernel(struct os *os, struct cofi_event *event)
{
    bool up = os->context.cpl == 3, trap = up && below(os, 2);
    os->context.cpl = up ? 0 : 3;
    event->kind = trap ? COFI_EV_EVENT : COFI_EV_FAR;
    event->cause = trap ? COFI_CAUSE_INTR : up ? COFI_FAR_SYSCALL : COFI_FAR_IRET;
    event->vector = COFI_NO_VECTOR;
}

/* What runs: mostly branches; time, the kernel, other address spaces, instrumentation. */
static void step(struct os *os, struct task *task)
{
    uint64_t kind = below(os, 40);
    struct cofi_event event = {.ip = task->ip, .next = task->ip + 2, .target = 0x401000 + below(os, 1 << 20)};
    if (kind < 16) {
        event.kind = COFI_EV_JCC;
        event.taken = below(os, 2);
    } else if (kind < 33) {
        event.kind = COFI_EV_JMP_IND;
        event.target |= below(os, 2) << 40;
    } else if (kind < 36) {
        event.kind = COFI_EV_CLOCK;
        event.tsc = event.cycles = os->cycles += below(os, 5000);
    } else if (kind < 38) {
        enter_or_leave_kernel(os, &event);
    } else if (kind == 38 && os->context.cpl == 0) {
        event.kind = COFI_EV_MOV_CR3;
        os->context.cr3 = 0x1000 * (1 + below(os, 2));
    } else {
        event.kind = COFI_EV_PTWRITE;
        event.size = 8;
        event.value = os->random;
    }
    event.context_set = true;
    event.after = os->context;
    both(os, &event);
    if (event.kind == COFI_EV_MOV_CR3 || event.kind == COFI_EV_PTWRITE || (event.kind == COFI_EV_JCC && !event.taken))
        task->ip = event.next;
    else if (event.kind != COFI_EV_CLOCK)
        task->ip = event.target;
}

static void run(struct os *os, struct task *task)
{
    unsigned delay = 0, steps = (unsigned)below(os, STEPS), times = below(os, 10) ? 1 : 60;
    for (unsigned i = 0, n = 1 + steps * times; i < n; i++) {
        step(os, task);
        if (os->pmi && ++delay > 10) { /* the interrupt is taken some instructions later */
            os->pmi = false;
            delay = 0;
            if (!os->multi)
                return;
            collect(os, task);
        }
        if (!(task->ctl & TOPA) && i % 64 == 63)
            collect(os, task);
    }
}

/* What the judge has is packets from end to end, and without an internal buffer none of them OVF. */
static void read_packets(struct os *os, uint32_t buffer_bytes)
{
    struct cofi_packet_context codec = {.gen = COFI_PT};
    struct cofi_packet packet;
    unsigned overflows = 0;
    for (size_t at = 0; at < os->plain->size; at += packet.size) {
        assert_true(cofi_packet_decode(&codec, os->plain->bytes + at, os->plain->size - at, &packet) > 0);
        overflows += packet.kind == COFI_PT_OVF;
    }
    assert_true(buffer_bytes || overflows == 0);
    os->overflows += overflows;
}

static void schedule(struct os *os, const char *model, uint32_t buffer_bytes)
{
    struct cofi_unit_config config = {.size = sizeof config, .gen = COFI_PT, .model = model, .pmi = on_pmi, .opaque = os,
                                      .memory = memory_access(os->memory), .buffer_bytes = buffer_bytes, .drain_bytes = 1,
                                      .drain_cycles = 1 + (uint32_t)below(os, 40)};
    assert_int_equal(cofi_unit_open(&os->unit, &config), 0);
    struct cofi_unit_config same = {.model = model, .buffer_bytes = buffer_bytes, .drain_bytes = 1,
                                    .drain_cycles = config.drain_cycles};
    rig_open(os->plain, &same);
    enumerate(os);
    os->cycles = 0;
    os->filled = os->pmis = 0;
    for (unsigned i = 0; i < TASKS; i++)
        make_task(os, i);
    for (unsigned i = 0, n = 2 + (unsigned)below(os, 6); i < n; i++) {
        struct task *task = &os->tasks[below(os, TASKS)];
        switch_in(os, task);
        run(os, task);
        switch_out(os, task);
    }
    for (unsigned i = 0; i < TASKS; i++) /* and those still owed */
        os->pmis += os->tasks[i].status >> 7 & 1;
    if (os->multi)
        assert_int_equal(os->pmis, os->filled);
    if (os->random % 16 == 0 || buffer_bytes)
        read_packets(os, buffer_bytes);
    rig_close(os->plain);
    cofi_unit_close(os->unit);
}

static void schedules(uint64_t seed, unsigned n, uint32_t buffer_bytes)
{
    static const char *const models[] = {"all", "skylake", "broadwell", "alderlake"};
    struct os *os = calloc(1, sizeof *os);
    os->memory = memory_new();
    os->plain = malloc(sizeof *os->plain);
    for (unsigned i = 0; i < TASKS; i++)
        os->tasks[i].got = malloc(RIG_BYTES);
    for (unsigned i = 0; i < n; i++) {
        running = seed + i;
        os->random = running * UINT64_C(0x9e3779b97f4a7c15) | 1;
        os->pmi = false;
        schedule(os, models[below(os, 4)], buffer_bytes);
    }
    assert_true((os->stops && os->tracestops && os->restored && (os->overflows || !buffer_bytes)) || n < 400);
    for (unsigned i = 0; i < TASKS; i++)
        free(os->tasks[i].got);
    free(os->plain);
    free(os->memory);
    free(os);
}

static unsigned count(unsigned otherwise)
{
    const char *n = getenv("COFI_COUNT");
    return n ? (unsigned)atoi(n) : otherwise;
}

/* COFI_SEED and COFI_COUNT: other schedules; a failure's seed with COFI_COUNT=1 is that schedule alone. */
static uint64_t first(uint64_t otherwise)
{
    const char *seed = getenv("COFI_SEED");
    return seed ? strtoull(seed, NULL, 0) : otherwise;
}

static int tell_seed(void **state)
{
    (void)state;
    printf("# the last schedule's seed: %llu\n", (unsigned long long)running);
    return 0;
}

static void no_schedule_loses_a_byte(void **state)
{
    (void)state;
    schedules(first(1), count(100000), 0);
}

static void nor_with_an_internal_buffer_that_overflows(void **state)
{
    (void)state;
    schedules(first(1000000), (count(100000) + 4) / 5, 256);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(no_schedule_loses_a_byte, tell_seed),
        cmocka_unit_test_teardown(nor_with_an_internal_buffer_that_overflows, tell_seed),
    };
    return cmocka_run_group_tests_name("a driver's view of PT", tests, NULL, NULL);
}
