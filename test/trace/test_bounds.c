/* SPDX-License-Identifier: MIT
 * Kernel and user on a processor whose packets tell the time in PSB+ only: whose each change of CR3 is, code that comes between. */
#include "sample.h"

#include <cofi/flow.h>

#define KERNEL_AT UINT64_C(0xffffffff81000000)

/* What happened, a word each: PSB+ at a time in an address space; a change of CR3, of which the bounds tell that it was at that time
 * at the earliest (0: no more than the time of the PSB+ before); records: a process came to run, began another program, mapped code
 * at LATER; packets were lost; PSB+ in a guest, whose own time that is but for GUEST_OFFSET; MTC; a process came to run on another
 * processor. Behind a change comes the kernel's return to user code and a system call. */
enum what { END, FULL_TIME, CR3, RUNS, EXECS, MAPS, LOST, GUEST, TICK, ELSEWHERE };
struct step {
    enum what what;
    uint64_t time;
    uint64_t value; /* CR3, or pid */
};

enum { A = 101, B = 102, C = 103, KTHREAD = 104, IDLE = 0, LATER = 0x402000, JUMP = 0x403000 };
#define GUEST_OFFSET (UINT64_C(1) << 40)
enum { SPACE_A = 0x10000, SPACE_B = 0x20000, SPACE_C = 0x30000, INIT = 0x40000 };

static const uint8_t kernel_code[] = {0x0f, 0x22, 0xd8, 0x48, 0xcf}; /* mov cr3, rax; iretq */
/* Each process has other code at the same address, 2 to 4 instructions. */
static const uint8_t code_a[] = {0x90, 0x0f, 0x05}, code_b[] = {0x90, 0x90, 0x0f, 0x05}, code_c[] = {0x90, 0x90, 0x90, 0x0f, 0x05};
static const uint8_t code_jump[] = {0xff, 0xe0}; /* jmp rax */

struct making {
    uint8_t bytes[4096];
    size_t n;
    struct cofi_packet_context context;
};

static void packet(struct making *m, struct cofi_packet p)
{
    int size = cofi_packet_encode(&m->context, &p, m->bytes + m->n, sizeof m->bytes - m->n);
    assert_true(size > 0);
    m->n += (size_t)size;
}

static void ip_packet(struct making *m, unsigned kind, uint64_t ip)
{
    packet(m, (struct cofi_packet){.kind = (uint8_t)kind, .ip = {.payload = ip & UINT64_C(0xffffffffffff), .code = 3}});
}

static void simple(struct making *m, unsigned kind) { packet(m, (struct cofi_packet){.kind = (uint8_t)kind}); }

/* In the kernel, at its first instruction. */
static void full_time(struct making *m, const struct step *step)
{
    bool guest = step->what == GUEST;
    simple(m, COFI_PT_PSB);
    packet(m, (struct cofi_packet){.kind = COFI_PT_TSC, .tsc = {step->time + (guest ? GUEST_OFFSET : 0)}});
    packet(m, (struct cofi_packet){.kind = COFI_PT_PIP, .pip = {.cr3 = step->value, .nr = guest}});
    packet(m, (struct cofi_packet){.kind = COFI_PT_MODE_EXEC, .mode_exec = {.csl = 1}});
    ip_packet(m, COFI_PT_FUP, KERNEL_AT);
    simple(m, COFI_PT_PSBEND);
}

static void change(struct making *m, const struct step *step)
{
    packet(m, (struct cofi_packet){.kind = COFI_PT_PIP, .pip = {.cr3 = step->value}});
    ip_packet(m, COFI_PT_TIP, 0x401000);
    ip_packet(m, COFI_PT_TIP, KERNEL_AT);
}

static void record(struct cofi_writer *writer, const struct step *step)
{
    int32_t pid = (int32_t)step->value;
    struct cofi_sideband sb = {.cpu = step->what == ELSEWHERE, .pid = pid, .tid = pid, .time_ns = step->time};
    if (step->what == RUNS || step->what == ELSEWHERE) {
        sb.kind = COFI_SB_SWITCH_CPU;
    } else if (step->what == EXECS) {
        sb.kind = COFI_SB_COMM;
        sb.exec = true;
        sb.name = "another";
    } else {
        sb.kind = COFI_SB_CODE;
        sb.addr = step->what == MAPS ? LATER : 0x401000;
        sb.bytes = pid == A || step->what == MAPS ? code_a : pid == B ? code_b : code_c;
        sb.len = pid == A || step->what == MAPS ? sizeof code_a : pid == B ? sizeof code_b : sizeof code_c;
    }
    put(writer, sb);
    if (step->what == EXECS)
        record(writer, &(struct step){END, step->time, step->value});
}

static void make(struct making *m, struct cofi_writer *writer, const struct step *steps)
{
    for (; steps->what; steps++) {
        if (steps->what == FULL_TIME || steps->what == GUEST)
            full_time(m, steps);
        else if (steps->what == CR3)
            change(m, steps);
        else if (steps->what == LOST)
            simple(m, COFI_PT_OVF);
        else if (steps->what == TICK)
            packet(m, (struct cofi_packet){.kind = COFI_PT_MTC, .mtc = {.ctc = (uint8_t)steps->value}});
        else
            record(writer, steps);
    }
}

/* mtc_freq: 0: none are sent. */
static void write_with_mtc(struct making *m, const char *path, const struct step *steps, uint8_t mtc_freq)
{
    struct cofi_recording_info info = sample_info();
    struct cofi_writer *writer;
    info.config = mtc_freq ? 0x260d : 0x240d; /* BranchEn, TSCEn, User, OS; MTCEn */
    info.time.mtc = mtc_freq;
    info.time.mtc_freq = mtc_freq;
    info.per_cpu = true;
    *m = (struct making){.context = {.gen = COFI_PT}};
    assert_int_equal(cofi_writer_open(&writer, path, &info, NULL), 0);
    put(writer, (struct cofi_sideband){.kind = COFI_SB_CODE, .kernel = true, .pid = -1, .addr = KERNEL_AT, .bytes = kernel_code, .time_ns = 1,
                                       .len = sizeof kernel_code});
    for (int32_t pid = A; pid <= C; pid++)
        record(writer, &(struct step){END, 2, (uint64_t)pid});
    put(writer, (struct cofi_sideband){.kind = COFI_SB_CODE, .pid = A, .tid = A, .time_ns = 2, .addr = JUMP, .bytes = code_jump, .len = sizeof code_jump});
    put(writer, (struct cofi_sideband){.kind = COFI_SB_COMM, .pid = KTHREAD, .tid = KTHREAD, .time_ns = 3, .name = "kworker"});
    make(m, writer, steps);
    assert_int_equal(cofi_writer_trace(writer, -1, 0, m->bytes, m->n, steps->time), 0);
    assert_int_equal(cofi_writer_close(writer, NULL), 0);
}

static void write_steps(struct making *m, const char *path, const struct step *steps) { write_with_mtc(m, path, steps, 0); }

/* ---- the scenarios ---- */

#define MS 1000000u
static const struct { const char *name; struct step steps[32]; } scenarios[] = {
    {"in order, of spaces that no full time shows", {{FULL_TIME, 10 * MS, SPACE_A}, {RUNS, 9 * MS, A}, {RUNS, 11 * MS, B}, {CR3, 11 * MS, SPACE_B},
        {RUNS, 12 * MS, C}, {CR3, 12 * MS, SPACE_C}, {RUNS, 13 * MS, A}, {CR3, 13 * MS, SPACE_A}, {FULL_TIME, 20 * MS, SPACE_A}}},
    {"idle, in the kernel's own space", {{FULL_TIME, 10 * MS, SPACE_A}, {RUNS, 9 * MS, A}, {RUNS, 11 * MS, IDLE}, {CR3, 11 * MS, INIT},
        {RUNS, 12 * MS, B}, {CR3, 12 * MS, SPACE_B}, {FULL_TIME, 20 * MS, SPACE_B}}},
    {"idle, in the space of before", {{FULL_TIME, 10 * MS, SPACE_A}, {RUNS, 9 * MS, A}, {RUNS, 11 * MS, IDLE}, {RUNS, 12 * MS, A},
        {RUNS, 13 * MS, KTHREAD}, {RUNS, 14 * MS, A}, {RUNS, 15 * MS, B}, {CR3, 15 * MS, SPACE_B}, {FULL_TIME, 20 * MS, SPACE_B}}},
    {"exec", {{FULL_TIME, 10 * MS, SPACE_A}, {RUNS, 9 * MS, A}, {EXECS, 12 * MS, A}, {CR3, 12 * MS, SPACE_C},
        {RUNS, 13 * MS, B}, {CR3, 13 * MS, SPACE_B}, {FULL_TIME, 20 * MS, SPACE_B}}},
    {"a child with its parent's space", {{FULL_TIME, 10 * MS, SPACE_A}, {RUNS, 9 * MS, A}, {RUNS, 11 * MS, C}, {RUNS, 12 * MS, A},
        {RUNS, 13 * MS, B}, {CR3, 13 * MS, SPACE_B}, {FULL_TIME, 20 * MS, SPACE_B}}},
    {"a space used again by another process", {{FULL_TIME, 10 * MS, SPACE_A}, {RUNS, 9 * MS, A}, {RUNS, 12 * MS, B}, {CR3, 12 * MS, SPACE_B},
        {FULL_TIME, 20 * MS, SPACE_B}, {RUNS, 22 * MS, C}, {CR3, 22 * MS, SPACE_A}, {RUNS, 23 * MS, B}, {CR3, 23 * MS, SPACE_B},
        {FULL_TIME, 30 * MS, SPACE_B}}},
    {"a record beyond the full time", {{FULL_TIME, 10 * MS, SPACE_A}, {RUNS, 9 * MS, A}, {RUNS, 10 * MS + 7, B}, {FULL_TIME, 10 * MS + 10, SPACE_A},
        {CR3, 0, SPACE_B}, {RUNS, 12 * MS, A}, {CR3, 12 * MS, SPACE_A}, {RUNS, 13 * MS, B}, {CR3, 13 * MS, SPACE_B}, {FULL_TIME, 20 * MS, SPACE_B}}},
    {"packets were lost, a change among them", {{FULL_TIME, 10 * MS, SPACE_A}, {RUNS, 9 * MS, A}, {RUNS, 11 * MS, B}, {LOST, 0, 0}, {RUNS, 12 * MS, C},
        {CR3, 12 * MS, SPACE_C}, {FULL_TIME, 20 * MS, SPACE_C}}},
    {"packets were lost, and the space is the same behind them", {{FULL_TIME, 10 * MS, SPACE_A}, {RUNS, 9 * MS, A}, {RUNS, 11 * MS, B}, {LOST, 0, 0},
        {RUNS, 12 * MS, A}, {CR3, 12 * MS, SPACE_A}, {FULL_TIME, 20 * MS, SPACE_A}}},
    {"a process that no full time shows, behind idle", {{FULL_TIME, 10 * MS, SPACE_A}, {RUNS, 9 * MS, A}, {RUNS, 11 * MS, IDLE}, {RUNS, 12 * MS, B},
        {CR3, 12 * MS, SPACE_B}, {RUNS, 13 * MS, A}, {CR3, 13 * MS, SPACE_A}, {FULL_TIME, 20 * MS, SPACE_A}}},
    {"and behind a turn in the same space", {{FULL_TIME, 10 * MS, SPACE_A}, {RUNS, 9 * MS, A}, {RUNS, 11 * MS, KTHREAD}, {RUNS, 12 * MS, A},
        {RUNS, 13 * MS, B}, {CR3, 13 * MS, SPACE_B}, {RUNS, 14 * MS, A}, {CR3, 14 * MS, SPACE_A}, {FULL_TIME, 20 * MS, SPACE_A}}},
    {"full times close to switches", {{FULL_TIME, 10 * MS, SPACE_A}, {RUNS, 9 * MS, A}, {RUNS, 11 * MS, IDLE}, {CR3, 11 * MS, INIT},
        {FULL_TIME, 11 * MS + 10000, INIT}, {RUNS, 11 * MS + 20000, C}, {CR3, 11 * MS + 20000, SPACE_C}, {FULL_TIME, 11 * MS + 30000, SPACE_C},
        {RUNS, 12 * MS, A}, {CR3, 12 * MS, SPACE_A}, {FULL_TIME, 20 * MS, SPACE_A}}},
    {"the space of before an exec used again", {{FULL_TIME, 10 * MS, SPACE_A}, {RUNS, 9 * MS, A}, {EXECS, 12 * MS, A}, {CR3, 12 * MS, SPACE_C},
        {RUNS, 13 * MS, C}, {CR3, 13 * MS, SPACE_A}, {RUNS, 14 * MS, A}, {CR3, 14 * MS, SPACE_C}, {FULL_TIME, 20 * MS, SPACE_C}}},
    {"page tables apart", {{FULL_TIME, 10 * MS, SPACE_A}, {RUNS, 9 * MS, A}, {RUNS, 11 * MS, B}, {CR3, 11 * MS, SPACE_B}, {CR3, 11 * MS, SPACE_B | 0x1800},
        {CR3, 11 * MS, SPACE_B}, {RUNS, 12 * MS, A}, {CR3, 12 * MS, SPACE_A}, {CR3, 12 * MS, SPACE_A | 0x1800}, {FULL_TIME, 20 * MS, SPACE_A | 0x1800}}},
    {"a guest with a TSC of its own", {{FULL_TIME, 10 * MS, SPACE_A}, {RUNS, 9 * MS, A}, {RUNS, 11 * MS, B}, {CR3, 11 * MS, SPACE_B}, {GUEST, 12 * MS, INIT},
        {CR3, 11 * MS, SPACE_B}, {RUNS, 13 * MS, A}, {CR3, 13 * MS, SPACE_A}, {FULL_TIME, 20 * MS, SPACE_A}}},
    {"many turns, one of them with no record", {{FULL_TIME, 10 * MS, SPACE_A}, {RUNS, 9 * MS, A}, {RUNS, 11 * MS, B}, {CR3, 11 * MS, SPACE_B},
        {CR3, 11 * MS, INIT}, {CR3, 11 * MS, SPACE_B}, {RUNS, 13 * MS, A}, {CR3, 13 * MS, SPACE_A}, {FULL_TIME, 20 * MS, SPACE_A},
        {FULL_TIME, 21 * MS, SPACE_A}, {RUNS, 22 * MS, B}, {CR3, 22 * MS, SPACE_B}, {FULL_TIME, 30 * MS, SPACE_B}}},
    {"switches of another processor", {{FULL_TIME, 10 * MS, SPACE_A}, {RUNS, 9 * MS, A}, {ELSEWHERE, 11 * MS, B}, {RUNS, 12 * MS, B}, {CR3, 12 * MS, SPACE_B},
        {ELSEWHERE, 13 * MS, A}, {RUNS, 14 * MS, A}, {CR3, 14 * MS, SPACE_A}, {FULL_TIME, 20 * MS, SPACE_A}}},
    {"a process is told to run twice", {{FULL_TIME, 10 * MS, SPACE_A}, {RUNS, 9 * MS, A}, {RUNS, 11 * MS, B}, {CR3, 11 * MS, SPACE_B}, {RUNS, 12 * MS, B},
        {RUNS, 13 * MS, C}, {CR3, 13 * MS, SPACE_C}, {FULL_TIME, 20 * MS, SPACE_C}}},
    {"a switch less than 50 us before the full time behind which its change is", {{FULL_TIME, 10 * MS, SPACE_A}, {RUNS, 9 * MS, A}, {RUNS, 20 * MS - 40000, B},
        {FULL_TIME, 20 * MS, SPACE_A}, {CR3, 0, SPACE_B}, {RUNS, 22 * MS, C}, {CR3, 22 * MS, SPACE_C}, {RUNS, 23 * MS, A}, {CR3, 23 * MS, SPACE_A},
        {FULL_TIME, 30 * MS, SPACE_A}}},
    {"a switch less than 50 us behind the full time before which its change is", {{FULL_TIME, 10 * MS, SPACE_A}, {RUNS, 9 * MS, A}, {RUNS, 12 * MS, B},
        {CR3, 12 * MS, SPACE_B}, {RUNS, 20 * MS + 40000, A}, {CR3, 20 * MS - 1, SPACE_A}, {FULL_TIME, 20 * MS, SPACE_A}, {RUNS, 22 * MS, B},
        {CR3, 22 * MS, SPACE_B}, {FULL_TIME, 30 * MS, SPACE_B}}},
    {"in the first 50 us", {{FULL_TIME, 1000, SPACE_A}, {RUNS, 900, A}, {RUNS, 20000, B}, {CR3, 20000, SPACE_B}, {FULL_TIME, 30000, SPACE_B}, {RUNS, 35000, A},
        {CR3, 35000, SPACE_A}, {FULL_TIME, 40000, SPACE_A}}},
    {"behind the last full time", {{FULL_TIME, 10 * MS, SPACE_A}, {RUNS, 9 * MS, A}, {RUNS, 11 * MS, B}, {CR3, 11 * MS, SPACE_B}, {RUNS, 12 * MS, A},
        {CR3, 12 * MS, SPACE_A}}},
    {"idle first", {{FULL_TIME, 10 * MS, INIT}, {RUNS, 9 * MS, IDLE}, {RUNS, 11 * MS, A}, {CR3, 11 * MS, SPACE_A}, {RUNS, 12 * MS, IDLE}, {RUNS, 13 * MS, B},
        {CR3, 13 * MS, SPACE_B}, {FULL_TIME, 20 * MS, SPACE_B}}},
    {"an exec in the turn of a process that ran before idle", {{FULL_TIME, 10 * MS, SPACE_A}, {RUNS, 9 * MS, A}, {RUNS, 11 * MS, IDLE}, {RUNS, 12 * MS, A},
        {EXECS, 13 * MS, A}, {CR3, 13 * MS, SPACE_C}, {RUNS, 14 * MS, B}, {CR3, 14 * MS, SPACE_B}, {FULL_TIME, 20 * MS, SPACE_B}}},
    {"turns of which the trace shows nothing, of spaces that are known", {{FULL_TIME, 10 * MS, SPACE_A}, {RUNS, 9 * MS, A}, {RUNS, 12 * MS, B}, {CR3, 12 * MS, SPACE_B},
        {FULL_TIME, 20 * MS, SPACE_B}, {RUNS, 21 * MS, C}, {CR3, 21 * MS, SPACE_C}, {FULL_TIME, 30 * MS, SPACE_C}, {RUNS, 31 * MS, A}, {RUNS, 32 * MS, B},
        {CR3, 32 * MS, SPACE_B}, {RUNS, 33 * MS, C}, {RUNS, 34 * MS, A}, {CR3, 34 * MS, SPACE_A}, {FULL_TIME, 40 * MS, SPACE_A}}},
};

static uint64_t least_at(const struct cofi_time_bound *bounds, size_t n, uint64_t offset)
{
    uint64_t least = 0;
    for (size_t i = 0; i < n && bounds[i].offset <= offset; i++)
        least = bounds[i].least;
    return least;
}

/* Each PIP outside of PSB+, and what is known of its time. */
static void compare(const struct making *m, const struct step *step, const struct cofi_time_bound *bounds, size_t n, const char *name)
{
    struct cofi_packet_context context = {.gen = COFI_PT};
    struct cofi_packet p;
    bool in_psb = false;
    uint64_t full = 0;
    for (size_t at = 0, size; at < m->n; at += size) {
        size = (size_t)cofi_packet_decode(&context, m->bytes + at, m->n - at, &p);
        in_psb = p.kind == COFI_PT_PSB || (in_psb && p.kind != COFI_PT_PSBEND);
        full = p.kind == COFI_PT_TSC ? p.tsc.tsc : full;
        if (p.kind != COFI_PT_PIP || in_psb)
            continue;
        while (step->what != CR3)
            step++;
        uint64_t want = step->time ? step->time : full, least = least_at(bounds, n, at);
        if (least != want)
            fail_msg("%s: CR3 %#llx at %zu: not before %llu, should be %llu", name, (unsigned long long)step->value, at,
                     (unsigned long long)least, (unsigned long long)want);
        step++;
    }
}

static uint64_t count_insns(struct cofi_recording *recording, const struct making *m, const struct cofi_time_bound *bounds, size_t n, uint64_t *gaps)
{
    static const struct cofi_flow_block *blocks[COFI_FLOW_BATCH_MIN];
    static struct cofi_flow_event events[64];
    struct cofi_flow_batch batch = {.blocks = blocks, .blocks_max = COFI_FLOW_BATCH_MIN, .events = events, .events_max = 64};
    struct cofi_flow_config config;
    struct cofi_flow_stats stats;
    struct cofi_flow *flow;
    cofi_flow_config_init(&config, COFI_PT);
    config.time = cofi_recording_info(recording)->time;
    config.ctl_known = true;
    config.ctl = 0x240d;
    config.bytes = m->bytes;
    config.n = m->n;
    config.image = cofi_recording_stream_image(recording, 0);
    config.bounds = bounds;
    config.bounds_n = n;
    assert_int_equal(cofi_flow_open(&flow, &config), 0);
    while (cofi_flow_next(flow, &batch) > 0)
        continue;
    cofi_flow_stats(flow, &stats);
    cofi_flow_close(flow);
    *gaps = stats.gaps;
    return stats.insns;
}

static struct cofi_recording *reopen(const char *path, const struct cofi_time_bound **bounds, size_t *n)
{
    struct cofi_recording *recording;
    assert_int_equal(cofi_recording_open(&recording, path, NULL), 0);
    assert_int_equal(cofi_recording_bounds(recording, 0, bounds, n), 0);
    return recording;
}

static void test_scenarios(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof scenarios / sizeof scenarios[0]; i++) {
        struct making m;
        const struct cofi_time_bound *bounds;
        size_t n;
        write_steps(&m, scratch_path("bounds"), scenarios[i].steps);
        struct cofi_recording *recording = reopen(scratch_path("bounds"), &bounds, &n);
        compare(&m, scenarios[i].steps, bounds, n, scenarios[i].name);
        cofi_recording_close(recording);
    }
}

/* An interval in the same space tells something where code comes in it. */
static void test_news(void **state)
{
    (void)state;
    static const struct step steps[] = {{FULL_TIME, 10 * MS, SPACE_A}, {FULL_TIME, 20 * MS, SPACE_A}, {FULL_TIME, 30 * MS, SPACE_A}, {MAPS, 35 * MS, A},
        {FULL_TIME, 40 * MS, SPACE_A}, {RUNS, 45 * MS, A}, {FULL_TIME, 50 * MS, SPACE_A}, {END, 0, 0}};
    struct making m;
    const struct cofi_time_bound *bounds;
    size_t n;
    write_steps(&m, scratch_path("bounds"), steps);
    struct cofi_recording *recording = reopen(scratch_path("bounds"), &bounds, &n);
    assert_int_equal(n, 2);
    assert_int_equal(bounds[0].least, 10 * MS);
    assert_int_equal(bounds[0].most, 20 * MS);
    assert_int_equal(bounds[1].least, 30 * MS);
    assert_int_equal(bounds[1].most, 40 * MS);
    cofi_recording_close(recording);
}

/* One that comes each 65,536 ns tells the time too seldom; the first behind a TSC without a TMA tells none. One each 16 ns tells it often enough. */
static void test_mtc(void **state)
{
    (void)state;
    static const struct step steps[] = {{FULL_TIME, 10 * MS, SPACE_A}, {RUNS, 9 * MS, A}, {TICK, 0, 7}, {TICK, 0, 8}, {RUNS, 10 * MS + 70000, B},
        {CR3, 0, SPACE_B}, {TICK, 0, 9}, {END, 0, 0}};
    struct making m;
    const struct cofi_time_bound *bounds;
    size_t n;
    write_with_mtc(&m, scratch_path("bounds"), steps, 15);
    struct cofi_recording *recording = reopen(scratch_path("bounds"), &bounds, &n);
    assert_int_equal(n, 4);
    assert_int_equal(bounds[1].least, 10 * MS + 65536);
    assert_int_equal(bounds[2].least, 10 * MS + 70000);
    assert_int_equal(bounds[2].most, 10 * MS + 2 * 65536);
    assert_int_equal(bounds[3].least, 10 * MS + 2 * 65536);
    cofi_recording_close(recording);
    write_with_mtc(&m, scratch_path("bounds"), steps, 3);
    recording = reopen(scratch_path("bounds"), &bounds, &n);
    assert_int_equal(n, 0);
    cofi_recording_close(recording);
}

/* A, B, C, A: 2, 3, 4 and 2 instructions, and 2 of the kernel's before each. */
static void test_flow(void **state)
{
    (void)state;
    struct making m;
    const struct cofi_time_bound *bounds;
    size_t n;
    uint64_t gaps;
    write_steps(&m, scratch_path("bounds"), scenarios[0].steps);
    struct cofi_recording *recording = reopen(scratch_path("bounds"), &bounds, &n);
    assert_int_equal(count_insns(recording, &m, bounds, n, &gaps), 3 + 4 + 2 + 3 * 2);
    assert_int_equal(gaps, 0);
    assert_int_equal(count_insns(recording, &m, NULL, 0, &gaps), 2 + 2 + 2 + 3 * 2); /* A's code all the time */
    cofi_recording_close(recording);
}

/* How code that is mapped later is come to: the kernel returns there, it returns there and an interrupt is next, a jump leads there. */
enum way { RETURN, INTERRUPT, JUMPS };

static void come_to_later(struct making *m, enum way way)
{
    if (way == JUMPS)
        ip_packet(m, COFI_PT_TIP, JUMP);
    ip_packet(m, COFI_PT_TIP, LATER);
    if (way == INTERRUPT)
        ip_packet(m, COFI_PT_FUP, LATER + 1);
    ip_packet(m, COFI_PT_TIP, KERNEL_AT);
}

/* Code is mapped at 12 ms, in a turn of A's or of B's, and run; then A's code runs in the same turn. */
static void run_later(enum way way, uint64_t before, uint64_t next_turn, uint64_t insns, bool gap)
{
    const struct step steps[] = {{FULL_TIME, 10 * MS, SPACE_A}, {RUNS, 9 * MS, A}, {RUNS, next_turn, B}, {MAPS, 12 * MS, A}, {END, 0, 0}};
    struct making m;
    const struct cofi_time_bound *none, bound = {0, 10 * MS, before};
    size_t n;
    uint64_t gaps;
    write_steps(&m, scratch_path("bounds"), steps);
    packet(&m, (struct cofi_packet){.kind = COFI_PT_PIP, .pip = {.cr3 = SPACE_A}});
    come_to_later(&m, way);
    change(&m, &(struct step){CR3, 0, SPACE_A});
    full_time(&m, &(struct step){FULL_TIME, before, SPACE_A});
    struct cofi_recording *recording = reopen(scratch_path("bounds"), &none, &n);
    assert_int_equal(count_insns(recording, &m, &bound, 1, &gaps), insns);
    assert_int_equal(gaps, gap);
    cofi_recording_close(recording);
}

static void test_code_comes(void **state)
{
    (void)state;
    run_later(RETURN, 20 * MS, 13 * MS, 8, false);
    run_later(RETURN, 11 * MS, 13 * MS, 6, true);
    run_later(RETURN, 20 * MS, 11 * MS, 6, true);
    run_later(INTERRUPT, 20 * MS, 13 * MS, 7, false);
    run_later(JUMPS, 20 * MS, 13 * MS, 9, false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_scenarios),
        cmocka_unit_test(test_news),
        cmocka_unit_test(test_mtc),
        cmocka_unit_test(test_flow),
        cmocka_unit_test(test_code_comes),
    };
    return cmocka_run_group_tests_name("bounds", tests, make_scratch, remove_scratch);
}
