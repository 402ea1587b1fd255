/* SPDX-License-Identifier: MIT
 * A machine of some processors made up at random: processes that fork, begin threads, execute programs, load code over code, end, and leave their
 * numbers to others. By the seed the kernel is traced, too, and changes itself; the recording is that of a command, not of all; or its streams are
 * threads'. Who runs what is known, and is compared with what the recording's streams show.
 *
 * COFI_SEED, COFI_COUNT: as in test/flow. */
#include "sample.h"

#include <cofi/flow.h>

/* The kernel: where it is entered, ends a call, goes to another process. The latter two have bytes that are poked. */
#define ENTRY UINT64_C(0xffffffff81000000)
enum { CALL = 0x40, SWITCH = 0x80, PATCHES = 2, PATCH_BYTES = 5 };
enum { MTC_FREQ = 6, MTC_TICKS = 2 << MTC_FREQ /* one ART tick is two */ };

enum { CPUS = 3, TASKS = 7 /* numbers that threads and processes share */, SLOTS = 3, FILES = 12, STEPS = 400, FIRST_TID = 50 };
enum { LANES = CPUS > TASKS ? CPUS : TASKS }; /* of the trace: a processor's, or those of all threads of a number */

static const uint64_t slots[SLOTS] = {0x401000, UINT64_C(0x7f0000001000), UINT64_C(0x7f0000003000)};

/* A slot's code: so many NOPs and a SYSCALL; 0: none was ever there. */
struct memory {
    unsigned nops[SLOTS];
};

struct task {
    bool alive;
    int32_t pid;
    int cpu; /* -1: waits */
    const char *name;
};

struct slice {
    int32_t pid, tid;
    const char *name;
    unsigned insns, kernel; /* the kernel's are before it */
};

/* Where a lane is in its trace. */
struct place {
    bool begun;
    uint64_t mtc;   /* so many periods were told */
    int32_t space;  /* whose CR3 it has */
    bool patched[PATCHES]; /* as of when its code was last looked at: at a full time, and where the kernel returned (decision 0607) */
};

static struct machine {
    uint64_t seed, random, now;
    struct cofi_writer *writer;
    bool kernel;
    bool per_thread;
    bool wide;   /* switches tell of both, as of a whole machine; else each of one thread, and idle is not told */
    bool patched[PATCHES];
    struct task tasks[TASKS];
    struct memory memories[TASKS]; /* of the process of that number */
    int runs[CPUS];                /* a task, -1: idle */
    struct slice slices[LANES][STEPS];
    size_t slices_n[LANES], shown[LANES];
    struct place places[LANES];
} m;

static unsigned below(unsigned n)
{
    m.random = m.random * UINT64_C(6364136223846793005) + 1442695040888963407u;
    return (unsigned)(m.random >> 33) % n;
}

static uint64_t pass(void) { return m.now += 1 + below(3000); }

static int32_t number(int task) { return task < 0 ? 0 : FIRST_TID + task; }
static int process_of(int task) { return m.tasks[task].pid - FIRST_TID; }

static void tell(int task, struct cofi_sideband sb)
{
    sb.cpu = task < 0 || m.tasks[task].cpu < 0 ? 0 : (uint32_t)m.tasks[task].cpu;
    if (!sb.tid) {
        sb.pid = task < 0 ? 0 : m.tasks[task].pid;
        sb.tid = number(task);
    }
    sb.time_ns = m.now;
    put(m.writer, sb);
}

/* ---- code ---- */

static size_t code_of(unsigned nops, uint8_t *code)
{
    memset(code, 0x90, nops);
    memcpy(code + nops, "\x0f\x05", 2);
    return nops + 2;
}

static const char *file_of(unsigned nops)
{
    char name[32];
    snprintf(name, sizeof name, "code-%u", nops);
    return scratch_path(name);
}

/* An ELF whose one part is such code. */
static void write_file_of(unsigned nops)
{
    uint8_t elf[0x2000] = "\177ELF\2\1\1";
    put_le(elf + 16, 3, 2);  /* ET_DYN */
    put_le(elf + 18, 62, 2); /* x86-64 */
    put_le(elf + 20, 1, 4);
    put_le(elf + 32, 64, 8); /* one program header, behind this one */
    put_le(elf + 52, 64, 2);
    put_le(elf + 54, 56, 2);
    put_le(elf + 56, 1, 2);
    put_le(elf + 64, 1, 4);  /* PT_LOAD, read and execute */
    put_le(elf + 68, 5, 4);
    put_le(elf + 72, 0x1000, 8);
    put_le(elf + 80, 0x1000, 8);
    put_le(elf + 96, 0x1000, 8);
    put_le(elf + 104, 0x1000, 8);
    code_of(nops, elf + 0x1000);
    write_whole(file_of(nops), elf, sizeof elf);
}

/* A file, or code that no file has. */
static void load(int task, unsigned slot)
{
    static uint8_t code[256];
    unsigned nops = 1 + below(FILES);
    bool made = below(3) == 0;
    m.memories[process_of(task)].nops[slot] = nops + (made ? FILES : 0);
    pass();
    if (made)
        tell(task, (struct cofi_sideband){.kind = COFI_SB_CODE, .addr = slots[slot], .bytes = code, .len = code_of(nops + FILES, code)});
    else
        tell(task, (struct cofi_sideband){.kind = COFI_SB_MMAP, .addr = slots[slot], .len = 0x1000, .pgoff = 0x1000, .prot = 5, .flags = 2,
                                          .name = file_of(nops), .build_id_size = COFI_NO_BUILD_ID});
}

static void call_itself(int task, bool exec)
{
    static const char *const names[] = {"one", "two", "three", "four"};
    m.tasks[task].name = names[below(4)];
    pass();
    tell(task, (struct cofi_sideband){.kind = COFI_SB_COMM, .name = m.tasks[task].name, .exec = exec});
}

static void execute(int task)
{
    m.memories[process_of(task)] = (struct memory){{0}};
    call_itself(task, true);
    load(task, 0);
}

/* ---- tasks ---- */

static int free_number(void)
{
    for (int i = 0, from = (int)below(TASKS); i < TASKS; i++)
        if (!m.tasks[(from + i) % TASKS].alive)
            return (from + i) % TASKS;
    return -1;
}

/* A number that is still a process's is no thread's. */
static bool is_used(int number)
{
    for (int i = 0; i < TASKS; i++)
        if (m.tasks[i].alive && (i == number || process_of(i) == number))
            return true;
    return false;
}

static void begin(int parent, bool thread)
{
    int child = free_number();
    if (child < 0 || is_used(child))
        return;
    m.tasks[child] = (struct task){true, thread ? m.tasks[parent].pid : number(child), -1, m.tasks[parent].name};
    if (m.per_thread)
        m.places[child].begun = false;
    if (!thread)
        m.memories[child] = m.memories[process_of(parent)];
    pass();
    tell(parent, (struct cofi_sideband){.kind = COFI_SB_FORK, .pid = m.tasks[child].pid, .tid = number(child), .ppid = m.tasks[parent].pid,
                                        .ptid = number(parent)});
}

static void put_switch(int cpu, bool out, int32_t pid, int32_t tid, int32_t other_pid, int32_t other_tid)
{
    pass();
    if (m.wide)
        put(m.writer, (struct cofi_sideband){.kind = COFI_SB_SWITCH_CPU, .cpu = (uint32_t)cpu, .out = out, .pid = pid, .tid = tid, .ppid = other_pid,
                                             .ptid = other_tid, .time_ns = m.now});
    else if (tid > 0)
        put(m.writer, (struct cofi_sideband){.kind = COFI_SB_SWITCH, .cpu = (uint32_t)cpu, .out = out, .pid = pid, .tid = tid, .time_ns = m.now});
}

static void switch_to(int cpu, int next)
{
    int old = m.runs[cpu];
    int32_t old_pid = old < 0 ? 0 : m.tasks[old].pid, next_pid = next < 0 ? 0 : m.tasks[next].pid;
    bool dead = old >= 0 && !m.tasks[old].alive;
    if (old == next)
        return;
    put_switch(cpu, true, dead ? -1 : old_pid, dead ? -1 : number(old), next_pid, number(next));
    put_switch(cpu, false, next_pid, number(next), dead ? -1 : old_pid, dead ? -1 : number(old));
    if (old >= 0)
        m.tasks[old].cpu = -1;
    if (next >= 0)
        m.tasks[next].cpu = cpu;
    m.runs[cpu] = next;
}

static void leave(int task)
{
    int cpu = m.tasks[task].cpu;
    pass();
    tell(task, (struct cofi_sideband){.kind = COFI_SB_EXIT, .pid = m.tasks[task].pid, .tid = number(task), .ppid = m.tasks[task].pid,
                                      .ptid = number(task)});
    m.tasks[task].alive = false;
    switch_to(cpu, -1);
}

static int waiting(void)
{
    for (int i = 0, from = (int)below(TASKS); i < TASKS; i++) {
        int task = (from + i) % TASKS;
        if (m.tasks[task].alive && m.tasks[task].cpu < 0)
            return task;
    }
    return -1;
}

/* ---- the kernel ---- */

static const uint8_t five[PATCH_BYTES] = {0x90, 0x90, 0x90, 0x90, 0x90}, one[PATCH_BYTES] = {0x0f, 0x1f, 0x44, 0x00, 0x00};

/* nop; jmp rax. NOPs or a long one, iretq. mov cr3, rax; the same. */
static void load_kernel(void)
{
    static uint8_t code[0xc0];
    memcpy(code, "\x90\xff\xe0", 3);
    memcpy(code + CALL, five, PATCH_BYTES);
    memcpy(code + CALL + PATCH_BYTES, "\x48\xcf", 2);
    memcpy(code + SWITCH, "\x0f\x22\xd8", 3);
    memcpy(code + SWITCH + 3, five, PATCH_BYTES);
    memcpy(code + SWITCH + 3 + PATCH_BYTES, "\x48\xcf", 2);
    put(m.writer, (struct cofi_sideband){.kind = COFI_SB_CODE, .kernel = true, .pid = -1, .addr = ENTRY, .bytes = code, .len = sizeof code, .time_ns = 1});
}

static void poke(int task)
{
    unsigned patch = below(PATCHES);
    m.patched[patch] ^= true;
    pass();
    tell(task, (struct cofi_sideband){.kind = COFI_SB_TEXT_POKE, .addr = ENTRY + (patch ? SWITCH + 3 : CALL), .len = PATCH_BYTES,
                                      .bytes = m.patched[patch] ? one : five});
}

/* ---- the trace ---- */

struct packets {
    uint8_t bytes[512];
    size_t n;
};

static void packet(struct packets *p, struct cofi_packet packet)
{
    struct cofi_packet_context context = {.gen = COFI_PT};
    int size = cofi_packet_encode(&context, &packet, p->bytes + p->n, sizeof p->bytes - p->n);
    assert_true(size > 0);
    p->n += (size_t)size;
}

static void address(struct packets *p, unsigned kind, uint64_t ip)
{
    packet(p, (struct cofi_packet){.kind = (uint8_t)kind, .ip = {.payload = ip & UINT64_C(0xffffffffffff), .code = ip ? 3 : 0}});
}

static void simple(struct packets *p, unsigned kind) { packet(p, (struct cofi_packet){.kind = (uint8_t)kind}); }
static void full_time(struct packets *p) { packet(p, (struct cofi_packet){.kind = COFI_PT_TSC, .tsc = {m.now}}); }
static void mode(struct packets *p) { packet(p, (struct cofi_packet){.kind = COFI_PT_MODE_EXEC, .mode_exec = {.csl = 1}}); }
static void space(struct packets *p, int32_t pid) { packet(p, (struct cofi_packet){.kind = COFI_PT_PIP, .pip = {.cr3 = (uint64_t)pid << 12}}); }

/* Where the kernel was entered. */
static void full_psb(struct packets *p, struct place *place)
{
    simple(p, COFI_PT_PSB);
    full_time(p);
    packet(p, (struct cofi_packet){.kind = COFI_PT_TMA, .tma = {.ctc = (uint16_t)(m.now / 2), .fc = m.now % 2}});
    space(p, place->space);
    mode(p);
    address(p, COFI_PT_FUP, ENTRY);
    simple(p, COFI_PT_PSBEND);
    place->mtc = m.now / MTC_TICKS;
    memcpy(place->patched, m.patched, sizeof m.patched);
}

static void mtcs(struct packets *p, struct place *place)
{
    for (uint64_t now = m.now / MTC_TICKS; place->mtc < now;) {
        place->mtc += now - place->mtc < 200 ? now - place->mtc : 200;
        packet(p, (struct cofi_packet){.kind = COFI_PT_MTC, .mtc = {.ctc = (uint8_t)place->mtc}});
    }
}

/* From the kernel's entry on: into another process if it is one, and to its code, which calls the kernel. Returns how many instructions are the kernel's. */
static unsigned through_kernel(struct packets *p, struct place *place, int32_t pid, uint64_t to)
{
    bool switches = place->space != pid;
    address(p, COFI_PT_TIP, ENTRY + (switches ? SWITCH : CALL));
    place->space = pid;
    if (switches)
        space(p, pid);
    address(p, COFI_PT_TIP, to);
    address(p, COFI_PT_TIP, ENTRY);
    unsigned insns = 2 + switches + (place->patched[switches] ? 1 : PATCH_BYTES) + 1;
    memcpy(place->patched, m.patched, sizeof m.patched);
    return insns;
}

static void user_only(struct packets *p, bool first, uint64_t to)
{
    if (first || below(4) == 0)
        simple(p, COFI_PT_PSB);
    full_time(p);
    if (p->n > 16)
        simple(p, COFI_PT_PSBEND);
    mode(p);
    address(p, COFI_PT_TIP_PGE, to);
    address(p, COFI_PT_TIP_PGD, 0);
}

/* The kernel's records are of a microsecond before at least. */
static void run(int cpu, int task)
{
    unsigned slot = below(SLOTS), nops = m.memories[process_of(task)].nops[slot], kernel = 0;
    int lane = m.per_thread ? task : cpu;
    struct place *place = &m.places[lane];
    struct packets p = {.n = 0};
    bool first = !place->begun;
    if (!nops)
        return;
    pass();
    m.now += m.kernel ? MTC_TICKS : 0;
    place->begun = true;
    if (first)
        place->space = m.tasks[task].pid;
    if (m.kernel && (first || below(4) == 0))
        full_psb(&p, place);
    if (m.kernel) {
        mtcs(&p, place);
        kernel = through_kernel(&p, place, m.tasks[task].pid, slots[slot]);
    } else {
        user_only(&p, first, slots[slot]);
    }
    assert_int_equal(cofi_writer_trace(m.writer, m.per_thread ? m.tasks[task].pid : -1, m.per_thread ? number(task) : cpu, p.bytes, p.n, m.now), 0);
    m.slices[lane][m.slices_n[lane]++] = (struct slice){m.tasks[task].pid, number(task), m.tasks[task].name, nops + 1, kernel};
}

static void step(void)
{
    int cpu = (int)below(CPUS), task = m.runs[cpu];
    unsigned what = below(16);
    if (task < 0 || what < 3)
        switch_to(cpu, below(4) ? waiting() : -1);
    else if (what == 3)
        begin(task, false);
    else if (what == 4)
        begin(task, true);
    else if (what == 5 && process_of(task) == task)
        execute(task);
    else if (what == 6 && task)
        leave(task);
    else if (what == 7 && m.kernel)
        poke(task);
    else if (what == 8 && below(2))
        call_itself(task, false);
    else if (what < 9)
        load(task, below(SLOTS));
    else
        run(cpu, task);
}

static void make(const char *path, uint64_t seed)
{
    struct cofi_recording_info info = sample_info();
    struct machine fresh = {.seed = seed, .random = seed * 2 + 1, .now = 0x10000};
    m = fresh;
    m.kernel = seed % 2 == 0;
    m.wide = seed % 3;
    m.per_thread = seed % 5 == 4;
    info.per_cpu = !m.per_thread;
    info.time.mtc = m.kernel;
    info.time.mtc_freq = MTC_FREQ;
    info.config = m.kernel ? 0x260d : 0x2409; /* BranchEn, TSCEn, MTCEn, User, OS */
    assert_int_equal(cofi_writer_open(&m.writer, path, &info, NULL), 0);
    for (int i = 0; i < CPUS; i++)
        m.runs[i] = -1;
    load_kernel();
    m.tasks[0] = (struct task){true, number(0), -1, NULL};
    execute(0);
    for (int i = 0; i < STEPS; i++)
        step();
    assert_int_equal(cofi_writer_close(m.writer, NULL), 0);
    if (!m.wide && !m.per_thread)
        set_streams_tid(path, FIRST_TID);
}

/* ---- the judge ---- */

struct showing {
    struct cofi_recording *recording;
    size_t stream, slice;
    int lane;
    unsigned insns, kernel;
};

static void check_thread(const struct showing *s, uint64_t ns)
{
    const struct slice *slice = &m.slices[s->lane][s->slice];
    int32_t pid, tid = cofi_recording_thread(s->recording, s->stream, ns, &pid);
    if (tid != slice->tid || pid != slice->pid)
        fail_msg("seed %lu: lane %d, slice %zu: thread %d of %d, it was %d of %d", m.seed, s->lane, s->slice, tid, pid, slice->tid, slice->pid);
    const char *name = cofi_recording_comm(s->recording, tid, ns);
    if (!name || strcmp(name, slice->name) != 0)
        fail_msg("seed %lu: lane %d, slice %zu: thread %d is %s, it was %s", m.seed, s->lane, s->slice, tid, name ? name : "nobody", slice->name);
}

static void end_slice(struct showing *s)
{
    const struct slice *slice = &m.slices[s->lane][s->slice];
    if (s->insns != slice->insns || s->kernel != slice->kernel)
        fail_msg("seed %lu: lane %d, slice %zu: %u instructions and the kernel's %u, it were %u and %u", m.seed, s->lane, s->slice, s->insns,
                 s->kernel, slice->insns, slice->kernel);
    s->insns = s->kernel = 0;
    s->slice++;
}

static void on_event(struct showing *s, const struct cofi_flow_event *e)
{
    if (e->kind == COFI_FLOW_GAP)
        fail_msg("seed %lu: lane %d, slice %zu: %s", m.seed, s->lane, s->slice, e->text);
    if (e->kind == COFI_FLOW_ENABLED)
        check_thread(s, e->time.ns);
    if (e->kind == COFI_FLOW_DISABLED)
        end_slice(s);
}

static void on_block(struct showing *s, const struct cofi_flow_block *block)
{
    if (block->ip >> 63 && s->insns)
        end_slice(s);
    *(block->ip >> 63 ? &s->kernel : &s->insns) += block->n;
}

static void hear(struct showing *s, const struct cofi_flow_batch *batch)
{
    for (size_t b = 0, e = 0; b < batch->blocks_n || e < batch->events_n;) {
        if (e < batch->events_n && batch->events[e].at <= b)
            on_event(s, &batch->events[e++]);
        else
            on_block(s, batch->blocks[b++]);
    }
}

static void judge_stream(struct cofi_recording *recording, size_t stream)
{
    static uint8_t bytes[1 << 16];
    static const struct cofi_flow_block *blocks[COFI_FLOW_BATCH_MIN];
    static struct cofi_flow_event events[64];
    struct cofi_flow_batch batch = {.blocks = blocks, .blocks_max = COFI_FLOW_BATCH_MIN, .events = events, .events_max = 64};
    const struct cofi_recording_stream *public = cofi_recording_stream(recording, stream);
    int lane = m.per_thread ? public->tid - FIRST_TID : public->cpu;
    struct showing s = {.recording = recording, .stream = stream, .lane = lane, .slice = m.shown[lane]};
    const struct cofi_recording_info *info = cofi_recording_info(recording);
    struct cofi_flow_config config;
    struct cofi_flow *flow;
    cofi_flow_config_init(&config, COFI_PT);
    config.time = info->time;
    config.ctl_known = true;
    config.ctl = info->config;
    config.bytes = bytes;
    config.n = read_stream(recording, stream, bytes, sizeof bytes);
    config.image = cofi_recording_stream_image(recording, stream);
    assert_true(m.per_thread ? public->cpu == -1 : public->tid == -1);
    assert_int_equal(cofi_flow_open(&flow, &config), 0);
    while (cofi_flow_next(flow, &batch) > 0)
        hear(&s, &batch);
    cofi_flow_close(flow);
    if (s.insns)
        end_slice(&s);
    m.shown[lane] = s.slice;
}

static void each_slice_shows_who_ran_and_what(void **state)
{
    (void)state;
    const char *first_text = getenv("COFI_SEED"), *count_text = getenv("COFI_COUNT");
    uint64_t first = first_text ? strtoull(first_text, NULL, 0) : 1, count = count_text ? strtoull(count_text, NULL, 0) : 100;
    char path[224];
    snprintf(path, sizeof path, "%s", scratch_path("machine"));
    for (unsigned nops = 1; nops <= FILES; nops++)
        write_file_of(nops);
    for (uint64_t seed = first; seed < first + count; seed++) {
        struct cofi_recording *recording;
        make(path, seed);
        assert_int_equal(cofi_recording_open(&recording, path, NULL), 0);
        for (size_t i = 0; i < cofi_recording_streams(recording); i++)
            judge_stream(recording, i);
        assert_memory_equal(m.shown, m.slices_n, sizeof m.shown);
        cofi_recording_close(recording);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(each_slice_shows_who_ran_and_what)};
    return cmocka_run_group_tests_name("machine", tests, make_scratch, remove_scratch);
}
