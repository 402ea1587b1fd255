/* SPDX-License-Identifier: MIT
 * What a host's thread did -> events, clock and sideband for all observers. */
#include "host/feed.h"

#include <time.h>

static uint64_t monotonic_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

void cofi__feed_init(struct cofi__feed *feed, const struct cofi_observer *const *observers,
                     size_t n, bool real_clock)
{
    *feed = (struct cofi__feed){.observers = observers, .observers_n = n, .real_clock = real_clock,
                                .tsc = real_clock ? monotonic_ns() : COFI__TSC_START};
}

void cofi__feed_time_info(bool real_clock, struct cofi_time_info *time)
{
    /* Both tick at 1 GHz: a tick is a nanosecond. */
    *time = (struct cofi_time_info){.conv = {.zero = 0, .mult = 1024, .shift = 10},
                                    .tsc_num = COFI__TSC_PER_ART, .tsc_den = 1,
                                    .nominal_ratio = COFI__RATIO, .monotonic = real_clock};
}

/* Time passes while the processor runs. */
static void pass(struct cofi__feed *feed, struct cofi__cpu *cpu, uint64_t ticks)
{
    if (feed->real_clock) {
        uint64_t now = monotonic_ns();
        ticks = now > feed->tsc ? now - feed->tsc : 1;
    }
    feed->tsc += ticks;
    if (cpu)
        cpu->cycles += ticks;
}

static void keep(struct cofi__feed *feed, int status)
{
    if (status < 0 && !feed->status)
        feed->status = status;
}

static void tell(struct cofi__feed *feed, struct cofi__cpu *cpu, const struct cofi_event *event)
{
    for (size_t i = 0; i < feed->observers_n; i++) {
        const struct cofi_observer *o = feed->observers[i];
        if (o->event)
            keep(feed, o->event(o->opaque, &cpu->task, event));
    }
}

static struct cofi_event clock_event(const struct cofi__feed *feed, const struct cofi__cpu *cpu,
                                     uint8_t kind)
{
    return (struct cofi_event){.kind = kind, .vector = COFI_NO_VECTOR, .tsc = feed->tsc,
                               .cycles = cpu->cycles};
}

static void tell_clock(struct cofi__feed *feed, struct cofi__cpu *cpu, uint8_t kind)
{
    struct cofi_event event = clock_event(feed, cpu, kind);
    tell(feed, cpu, &event);
}

void cofi__feed_sideband(struct cofi__feed *feed, struct cofi_sideband *sideband)
{
    /* What changes for a thread, changes while it is in the kernel. */
    if (feed->current && !feed->current->in_kernel)
        cofi__feed_interrupt(feed, feed->current, COFI_CAUSE_INTR, COFI__VECTOR_RESCHEDULE, 0);
    pass(feed, NULL, 1);
    sideband->time_ns = feed->tsc;
    sideband->cpu = 0; /* perf refuses a SWITCH that is on none */
    for (size_t i = 0; i < feed->observers_n; i++) {
        const struct cofi_observer *o = feed->observers[i];
        if (o->sideband)
            keep(feed, o->sideband(o->opaque, sideband));
    }
    feed->changes++;
}

void cofi__feed_begin(struct cofi__feed *feed, struct cofi__cpu *cpu)
{
    cpu->task.index = feed->tasks++;
    cpu->begun = cpu->in_kernel = true;
    cpu->way_in = COFI_FAR_KINDS;
    cpu->context = (struct cofi_context){.cr3 = (uint64_t)cpu->task.pid << 12, .vmcs = UINT64_MAX,
                                         .cpl = 0, .mode = 64, .iflag = true, .cr0_pg = true};
    struct cofi_event clock = clock_event(feed, cpu, COFI_EV_CLOCK);
    for (size_t i = 0; i < feed->observers_n; i++) {
        const struct cofi_observer *o = feed->observers[i];
        if (o->begin)
            keep(feed, o->begin(o->opaque, &cpu->task, &cpu->context, &clock));
    }
    struct cofi_event freq = clock_event(feed, cpu, COFI_EV_FREQ);
    freq.value = freq.size = COFI__RATIO;
    tell(feed, cpu, &freq);
    struct cofi_sideband start = {.kind = COFI_SB_ITRACE_START, .pid = cpu->task.pid,
                                  .tid = cpu->task.tid};
    cofi__feed_sideband(feed, &start);
}

static void tell_switch(struct cofi__feed *feed, const struct cofi__cpu *cpu, bool out)
{
    struct cofi_sideband sideband = {.kind = COFI_SB_SWITCH, .pid = cpu->task.pid,
                                     .tid = cpu->task.tid, .out = out};
    cofi__feed_sideband(feed, &sideband);
}

/* Another processor of ours than the last runs now: the last is scheduled out, in the kernel. */
static void make_current(struct cofi__feed *feed, struct cofi__cpu *cpu)
{
    struct cofi__cpu *last = feed->current;
    if (last == cpu)
        return;
    if (last) {
        if (!last->in_kernel)
            cofi__feed_interrupt(feed, last, COFI_CAUSE_INTR, COFI__VECTOR_TIMER, 0);
        tell_switch(feed, last, true);
    }
    feed->current = cpu;
    tell_switch(feed, cpu, false);
}

void cofi__feed_end(struct cofi__feed *feed, struct cofi__cpu *cpu)
{
    if (!cpu->begun)
        return;
    if (!cpu->in_kernel)
        cofi__feed_interrupt(feed, cpu, COFI_CAUSE_INTR, COFI__VECTOR_RESCHEDULE, 0);
    if (feed->current == cpu) {
        tell_switch(feed, cpu, true);
        feed->current = NULL;
    }
    cpu->begun = false;
    for (size_t i = 0; i < feed->observers_n; i++) {
        const struct cofi_observer *o = feed->observers[i];
        if (o->end)
            keep(feed, o->end(o->opaque, &cpu->task));
    }
}

static void enter_kernel(struct cofi__feed *feed, struct cofi__cpu *cpu, struct cofi_event *event)
{
    pass(feed, cpu, 1);
    tell_clock(feed, cpu, COFI_EV_CLOCK);
    cpu->context.cpl = 0;
    cpu->context.mode = 64;
    event->context_set = true;
    event->after = cpu->context;
    event->target = COFI__KERNEL_IP;
    tell(feed, cpu, event);
    cpu->in_kernel = true;
    cpu->way_in = event->kind == COFI_EV_FAR ? event->cause : COFI_FAR_KINDS;
    pass(feed, cpu, COFI__KERNEL_TICKS);
}

void cofi__feed_interrupt(struct cofi__feed *feed, struct cofi__cpu *cpu, uint8_t cause,
                          uint16_t vector, uint64_t address)
{
    struct cofi_event event = {.kind = COFI_EV_EVENT,
                               .cause = cause,
                               .vector = vector,
                               .ip = cpu->ip,
                               .next = cpu->ip,
                               .value = address};
    enter_kernel(feed, cpu, &event);
}

void cofi__feed_return(struct cofi__feed *feed, struct cofi__cpu *cpu, uint64_t ip, unsigned mode)
{
    make_current(feed, cpu);
    pass(feed, cpu, COFI__KERNEL_TICKS);
    /* Code or threads changed since it ran: a full time stamp says from when on that holds. By the
     * real clock, more time went by than coarse packets can tell. */
    bool stamp = cpu->changes != feed->changes || feed->real_clock;
    tell_clock(feed, cpu, stamp ? COFI_EV_WAKE : COFI_EV_CLOCK);
    cpu->changes = feed->changes;
    cpu->context.cpl = 3;
    cpu->context.mode = (uint8_t)mode;
    uint8_t way = cpu->way_in == COFI_FAR_SYSCALL ? COFI_FAR_SYSRET
                : cpu->way_in == COFI_FAR_SYSENTER ? COFI_FAR_SYSEXIT : COFI_FAR_IRET;
    struct cofi_event event = {.kind = COFI_EV_FAR, .cause = way, .vector = COFI_NO_VECTOR,
                               .ip = COFI__KERNEL_IP, .next = COFI__KERNEL_IP + 2, .target = ip,
                               .context_set = true, .after = cpu->context};
    tell(feed, cpu, &event);
    cpu->in_kernel = false;
    cpu->ip = ip;
}

static void tell_insn(struct cofi__feed *feed, struct cofi__cpu *cpu, uint64_t ip,
                      bool software_interrupt)
{
    feed->insns++;
    for (size_t i = 0; i < feed->observers_n; i++) {
        const struct cofi_observer *o = feed->observers[i];
        if (o->insn)
            keep(feed, o->insn(o->opaque, &cpu->task, ip, software_interrupt));
    }
}

void cofi__feed_retire(struct cofi__feed *feed, struct cofi__cpu *cpu, const struct cofi_insn *insn,
                       uint64_t ip, uint64_t to, unsigned mode, bool taken)
{
    struct cofi_event event;
    cofi__derive(&event, insn, ip, cofi__derive_next(insn, ip, cpu->context.mode), to, taken);
    pass(feed, cpu, 1);
    tell_clock(feed, cpu, COFI_EV_CLOCK);
    if (mode != cpu->context.mode) {
        cpu->context.mode = (uint8_t)mode;
        event.context_set = true;
        event.after = cpu->context;
    }
    tell_insn(feed, cpu, ip, false);
    tell(feed, cpu, &event);
    cpu->ip = to;
}

void cofi__feed_ptwrite(struct cofi__feed *feed, struct cofi__cpu *cpu, uint64_t ip, uint64_t next,
                        uint64_t value, uint8_t size)
{
    pass(feed, cpu, 1);
    tell_clock(feed, cpu, COFI_EV_CLOCK);
    struct cofi_event event = {.kind = COFI_EV_PTWRITE,
                               .vector = COFI_NO_VECTOR,
                               .ip = ip,
                               .next = next,
                               .target = next,
                               .value = value,
                               .size = size};
    tell_insn(feed, cpu, ip, false);
    tell(feed, cpu, &event);
    cpu->ip = next;
}

void cofi__feed_call_kernel(struct cofi__feed *feed, struct cofi__cpu *cpu,
                            const struct cofi_insn *insn, uint64_t ip, uint16_t vector)
{
    struct cofi_event event = {.kind = COFI_EV_FAR, .cause = insn->far, .size = insn->prefixes,
                               .vector = vector, .ip = ip,
                               .next = cofi__derive_next(insn, ip, cpu->context.mode)};
    tell_insn(feed, cpu, ip, insn->far == COFI_FAR_INT);
    enter_kernel(feed, cpu, &event);
}
