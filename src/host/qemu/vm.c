/* SPDX-License-Identifier: MIT
 * The processors of an emulated machine: runs of instructions that begin -> events, code and switches for observers. */
#include "host/qemu/vm.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/feed.h"

enum {
    CS_USER32 = 0x23,        /* Linux's and Windows's; all else in long mode is 64-bit code there */
    FLAG_FIXED = 2, FLAG_IF = 0x200, FLAGS_END = 22,
    FRAME_WORDS = 6,         /* error code, RIP, CS, RFLAGS, RSP, SS */
    KERNEL_ALIGN = 2 << 20, KERNEL_BYTES = 64 << 20, CR3_PCID = 0xfff, RET_IMM16 = 0xc2,
};
#define CR3_NOFLUSH (UINT64_C(1) << 63)

/* ---- runs ---- */

struct cofi__run *cofi__run_new(const uint8_t *lengths, size_t n, const uint8_t *bytes, size_t bytes_n)
{
    struct cofi__run *run = calloc(1, sizeof *run + n * sizeof run->insns[0] + bytes_n);
    if (!run)
        return NULL;
    uint8_t *copy = (uint8_t *)&run->insns[n];
    memcpy(copy, bytes, bytes_n);
    run->n = (uint16_t)n;
    run->bytes_n = (uint16_t)bytes_n;
    run->bytes = copy;
    for (size_t i = 0, offset = 0; i < n; offset += lengths[i++]) {
        run->insns[i].offset = (uint16_t)offset;
        run->insns[i].length = lengths[i];
    }
    return run;
}

/* RET imm16 takes so many bytes off the stack besides. */
static uint64_t popped_besides(const uint8_t *bytes, size_t n)
{
    return n >= 3 && bytes[n - 3] == RET_IMM16 ? bytes[n - 2] | (uint64_t)bytes[n - 1] << 8 : 0;
}

/* What the instructions are, now that the mode is known. One that we do not know is none that branches. */
static void decode(struct cofi__run *run, uint8_t mode)
{
    for (size_t i = 0; i < run->n; i++) {
        struct cofi__run_insn *to = &run->insns[i];
        struct cofi_insn insn = {0};
        if (cofi_insn_decode(&insn, mode, 0, run->bytes + to->offset, to->length) != to->length)
            insn = (struct cofi_insn){.cls = COFI_CLASS_OTHER};
        to->cls = insn.cls;
        to->far = insn.far;
        to->prefixes = insn.prefixes;
        to->target = mode == 64 ? insn.target : (uint64_t)(int64_t)(int32_t)insn.target;
        if (insn.cls == COFI_CLASS_RET)
            to->target = popped_besides(run->bytes + to->offset, to->length);
    }
    run->mode = mode;
}

static struct cofi_insn insn_at(const struct cofi__run_insn *row, uint64_t ip, unsigned mode)
{
    uint64_t target = ip + row->target;
    return (struct cofi_insn){.length = row->length, .cls = row->cls, .far = row->far, .prefixes = row->prefixes,
                              .target = mode == 64 ? target : (uint32_t)target};
}

/* ---- telling ---- */

static void keep(struct cofi__vm *m, int status)
{
    if (status < 0 && !m->status)
        m->status = status;
}

static struct cofi_event clock_now(const struct cofi__vm *m, uint64_t ip)
{
    return (struct cofi_event){.kind = COFI_EV_CLOCK, .vector = COFI_NO_VECTOR, .ip = ip, .tsc = m->tsc,
                               .cycles = m->tsc};
}

static void tell(struct cofi__vm *m, const struct cofi__vm_cpu *cpu, const struct cofi_event *event)
{
    struct cofi_event clock = clock_now(m, 0);
    for (size_t i = 0; i < m->observers_n; i++) {
        const struct cofi_observer *o = m->observers[i];
        if (!o->event)
            continue;
        keep(m, o->event(o->opaque, &cpu->task, &clock));
        keep(m, o->event(o->opaque, &cpu->task, event));
    }
}

static void tell_sideband(struct cofi__vm *m, const struct cofi_sideband *sideband)
{
    for (size_t i = 0; i < m->observers_n; i++)
        if (m->observers[i]->sideband)
            keep(m, m->observers[i]->sideband(m->observers[i]->opaque, sideband));
}

static void tell_insn(struct cofi__vm *m, const struct cofi__vm_cpu *cpu, uint64_t ip, bool interrupt)
{
    m->retired++;
    for (size_t i = 0; i < m->observers_n; i++)
        if (m->observers[i]->insn)
            keep(m, m->observers[i]->insn(m->observers[i]->opaque, &cpu->task, ip, interrupt));
}

/* An instruction retired and execution went on at `to`; after: the state, where it is another one now. */
static void retire(struct cofi__vm *m, struct cofi__vm_cpu *cpu, const struct cofi__run_insn *row, uint64_t ip,
                   uint64_t to, const struct cofi_context *after)
{
    struct cofi_insn insn = insn_at(row, ip, cpu->context.mode);
    struct cofi_event event;
    m->tsc++;
    if (insn.cls != COFI_CLASS_OTHER || m->every) {
        cofi__derive(&event, &insn, ip, cofi__derive_next(&insn, ip, cpu->context.mode), to, false);
        event.context_set = after != NULL;
        event.after = after ? *after : cpu->context;
        tell(m, cpu, &event);
    }
    tell_insn(m, cpu, ip, insn.cls == COFI_CLASS_FAR_CALL && insn.far == COFI_FAR_INT);
    if (after)
        cpu->context = *after;
}

/* ---- address spaces ---- */

static uint64_t cr3_of(const struct cofi__vm_door *door)
{
    return door->reg(door->opaque, VM_CR3) & ~CR3_NOFLUSH;
}

static void tell_switch(struct cofi__vm *m, const struct cofi__vm_cpu *cpu, int32_t from, int32_t to)
{
    struct cofi_sideband sideband = {.kind = COFI_SB_SWITCH_CPU, .cpu = (uint32_t)cpu->task.tid, .time_ns = m->tsc,
                                     .pid = from, .tid = from, .ppid = to, .ptid = to, .out = true};
    if (from)
        tell_sideband(m, &sideband);
    sideband.pid = sideband.tid = to;
    sideband.ppid = sideband.ptid = from;
    sideband.out = false;
    tell_sideband(m, &sideband);
}

/* The processor has this CR3 from now on. PCIDs tell the same space apart for TLBs only. */
static void enter_space(struct cofi__vm *m, struct cofi__vm_cpu *cpu, uint64_t cr3)
{
    bool is_new;
    char name[32];
    int32_t space = cofi__pages_space(&m->pages, cr3 & ~(uint64_t)CR3_PCID, &is_new);
    if (!space)
        keep(m, COFI_ERR_NOMEM);
    if (is_new && space) {
        snprintf(name, sizeof name, "cr3 %" PRIx64, cr3 & ~(uint64_t)CR3_PCID);
        tell_sideband(m, &(struct cofi_sideband){.kind = COFI_SB_COMM, .cpu = (uint32_t)cpu->task.tid,
                                                 .time_ns = m->tsc, .pid = space, .tid = space, .name = name});
    }
    if (space != cpu->space)
        tell_switch(m, cpu, cpu->space, space);
    cpu->space = space;
}

/* ---- code ---- */

static void record_page(struct cofi__vm *m, const struct cofi__vm_cpu *cpu, const struct cofi__page *page,
                        uint64_t time_ns)
{
    tell_sideband(m, &(struct cofi_sideband){.kind = COFI_SB_CODE, .cpu = (uint32_t)cpu->task.tid, .time_ns = time_ns,
                                             .pid = page->space, .tid = page->space,
                                             .kernel = page->space == SPACE_KERNEL, .addr = page->address,
                                             .len = PAGE_BYTES, .bytes = page->bytes});
}

/* Have the run's bytes recorded where they are not. A page that is seen for the first time has been so from the
 * start, as far as anyone can tell; of one that changed, what is about to run tells the new time first (keep_up). */
static void check_code(struct cofi__vm *m, struct cofi__vm_cpu *cpu, struct cofi__run *run, uint64_t at,
                       const struct cofi__vm_door *door)
{
    int32_t space = cofi__pages_space_of(cpu->space, at);
    if (run->at == at && run->space == space && run->version == m->pages.version)
        return;
    for (size_t i = 0, n; i < run->bytes_n && m->status >= 0; i += n) {
        struct cofi__page *page;
        n = PAGE_BYTES - ((at + i) & (PAGE_BYTES - 1));
        if (n > run->bytes_n - i)
            n = run->bytes_n - i;
        int state = cofi__pages_look(&m->pages, space, at + i, run->bytes + i, n, &page);
        keep(m, state);
        if (state <= PAGE_SAME)
            continue;
        door->read(door->opaque, page->address, page->bytes, PAGE_BYTES);
        memcpy(page->bytes + (at + i - page->address), run->bytes + i, n);
        record_page(m, cpu, page, state == PAGE_NEW ? 0 : m->tsc);
    }
    run->at = at;
    run->space = space;
    run->version = m->pages.version;
}

/* Code has changed since the processor's trace told the time: it does now, before the branch that may lead there. */
static void keep_up(struct cofi__vm *m, struct cofi__vm_cpu *cpu, uint64_t ip)
{
    if (cpu->version == m->pages.version)
        return;
    cpu->version = m->pages.version;
    m->tsc++;
    tell(m, cpu, &(struct cofi_event){.kind = COFI_EV_PSB_HINT, .vector = COFI_NO_VECTOR, .ip = ip});
    m->tsc++;
}

/* ---- interrupts and exceptions ---- */

struct frame {
    uint64_t ip, sp;
    uint16_t cs;
};

/* What delivery of an event has just pushed, if that is what lies on the stack, which is aligned to 16
 * bytes below it. */
static bool read_frame(const struct cofi__vm_door *door, struct frame *frame)
{
    uint64_t words[FRAME_WORDS], sp = door->reg(door->opaque, VM_RSP);
    if ((sp & 7) || !door->read(door->opaque, sp, words, sizeof words))
        return false;
    const uint64_t *w = sp & 8 ? words : words + 1; /* with an error code */
    *frame = (struct frame){w[0], w[3], (uint16_t)w[1]};
    return w[1] && w[1] < 0x10000 && !(w[1] & 4) && (w[2] & FLAG_FIXED) && !(w[2] >> FLAGS_END) && w[4] < 0x10000;
}

static bool is_entry(const struct cofi__vm *m, uint64_t ip)
{
    for (size_t i = 0; i < m->entries_n; i++)
        if (m->entries[i] == ip)
            return true;
    return false;
}

static void note_entry(struct cofi__vm *m, uint64_t ip)
{
    if (m->entries_n < VM_ENTRIES && !is_entry(m, ip))
        m->entries[m->entries_n++] = ip;
}

/* Whether the instruction, which may lead anywhere, led to the frame's address rather than to where events lead. */
static bool led_to_frame(const struct cofi__run_insn *row, uint64_t next, unsigned mode, const struct frame *frame,
                         const struct cofi__vm_door *door)
{
    uint64_t word = 0;
    size_t width = mode == 64 ? 8 : 4;
    switch ((enum cofi_class)row->cls) {
    case COFI_CLASS_RET:
        return door->read(door->opaque, frame->sp - row->target - width, &word, width) && word == frame->ip;
    case COFI_CLASS_CALL_IND: return door->read(door->opaque, frame->sp, &word, width) && word == next;
    case COFI_CLASS_JMP_IND:
    case COFI_CLASS_FAR_RET: return true;
    case COFI_CLASS_OTHER:
    case COFI_CLASS_JCC:
    case COFI_CLASS_JMP:
    case COFI_CLASS_CALL:
    case COFI_CLASS_FAR_JMP:
    case COFI_CLASS_FAR_CALL:
    case COFI_CLASS_VMENTRY:
    case COFI_CLASS_MOV_CR3:
    case COFI_CLASS_PTWRITE:
    case COFI_CLASS_VMPTRLD:
    case COFI_CLASS_TSX:
    case COFI_CLASS_KINDS: break;
    }
    return false;
}

/* Whether an event came between the last instruction and `to`. */
static bool is_event(struct cofi__vm *m, const struct cofi__vm_cpu *cpu, const struct cofi_insn *insn, uint64_t to,
                     const struct cofi__vm_door *door, struct frame *frame)
{
    uint64_t ip = cpu->last_ip, next = cofi__derive_next(insn, ip, cpu->context.mode);
    if (!cofi__derive_plausible(insn, ip, to, cpu->context.mode)) {
        bool event = to != ip && read_frame(door, frame) &&
                     (frame->ip == ip || cofi__derive_plausible(insn, ip, frame->ip, cpu->context.mode));
        if (event)
            note_entry(m, to);
        return event;
    }
    return is_entry(m, to) && !(door->reg(door->opaque, VM_EFLAGS) & FLAG_IF) && read_frame(door, frame) &&
           (frame->ip == ip || led_to_frame(&cpu->last, next, cpu->context.mode, frame, door));
}

static uint8_t mode_of(uint16_t cs) { return cs == CS_USER32 ? 32 : 64; }

static struct cofi_context context_of(const struct cofi__vm_cpu *cpu, uint16_t cs, uint64_t cr3)
{
    struct cofi_context context = cpu->context;
    context.cpl = cs & 3;
    context.mode = mode_of(cs);
    context.cr3 = cr3;
    return context;
}

/* ---- one instruction after the other ---- */

static bool changes_state(const struct cofi__run_insn *row)
{
    return row->cls == COFI_CLASS_MOV_CR3 || row->cls == COFI_CLASS_FAR_CALL || row->cls == COFI_CLASS_FAR_RET ||
           row->cls == COFI_CLASS_FAR_JMP || row->cls == COFI_CLASS_VMENTRY;
}

/* The last instruction, as far as it got, and what led to `to` in its place. */
static void finish_last(struct cofi__vm *m, struct cofi__vm_cpu *cpu, uint64_t to, const struct cofi__vm_door *door)
{
    const struct cofi__run_insn row = cpu->last;
    struct cofi_insn insn = insn_at(&row, cpu->last_ip, cpu->context.mode);
    struct frame frame;
    cpu->last_known = false;
    if (is_event(m, cpu, &insn, to, door, &frame)) {
        struct cofi_context before = context_of(cpu, frame.cs, cpu->context.cr3);
        bool done = frame.ip != cpu->last_ip;
        if (done)
            retire(m, cpu, &row, cpu->last_ip, frame.ip, changes_state(&row) ? &before : NULL);
        struct cofi_context after = context_of(cpu, (uint16_t)door->reg(door->opaque, VM_CS), cpu->context.cr3);
        m->tsc++;
        tell(m, cpu,
             &(struct cofi_event){.kind = COFI_EV_EVENT, .cause = done ? COFI_CAUSE_INTR : COFI_CAUSE_FAULT,
                                  .vector = COFI_NO_VECTOR, .ip = frame.ip, .target = to, .context_set = true,
                                  .after = after});
        cpu->context = after;
        return;
    }
    if (!cofi__derive_plausible(&insn, cpu->last_ip, to, cpu->context.mode)) {
        m->unexplained += to != cpu->last_ip; /* else it begins again: an iteration, or the emulator had
                                               * to start it over */
        return;
    }
    struct cofi_context after = changes_state(&row)
                                    ? context_of(cpu, (uint16_t)door->reg(door->opaque, VM_CS), cr3_of(door))
                                    : cpu->context;
    retire(m, cpu, &row, cpu->last_ip, to, changes_state(&row) ? &after : NULL);
    if (row.cls == COFI_CLASS_MOV_CR3)
        enter_space(m, cpu, after.cr3);
}

/* All of the last run that has begun but its last instruction, which is kept. */
static void settle(struct cofi__vm *m, struct cofi__vm_cpu *cpu, unsigned started)
{
    const struct cofi__run *run = cpu->run;
    if (!run || !started)
        return;
    for (unsigned i = 0; i + 1 < started; i++)
        retire(m, cpu, &run->insns[i], cpu->at + run->insns[i].offset, cpu->at + run->insns[i + 1].offset, NULL);
    cpu->last = run->insns[started - 1];
    cpu->last_ip = cpu->at + cpu->last.offset;
    cpu->last_known = true;
    cpu->run = NULL;
}

/* Linux goes on in the kernel's half of the addresses right behind its start, which is aligned. */
uint64_t cofi__vm_kernel(const struct cofi__vm *m) { return m->kernel & -(uint64_t)KERNEL_ALIGN; }

/* For readers that have its symbols; of another kernel this says nothing that is used. */
static void tell_kernel(struct cofi__vm *m)
{
    uint64_t text = cofi__vm_kernel(m);
    tell_sideband(m, &(struct cofi_sideband){.kind = COFI_SB_MMAP, .pid = SPACE_KERNEL, .kernel = true, .addr = text,
                                             .len = KERNEL_BYTES, .pgoff = text, .prot = 5,
                                             .name = "[kernel.kallsyms]_text"});
}

static void begin(struct cofi__vm *m, struct cofi__vm_cpu *cpu, uint64_t ip, const struct cofi__vm_door *door)
{
    uint16_t cs = (uint16_t)door->reg(door->opaque, VM_CS);
    cpu->context = (struct cofi_context){.vmcs = UINT64_MAX, .cr0_pg = true, .iflag = true};
    cpu->context = context_of(cpu, cs, cr3_of(door));
    cpu->version = m->pages.version;
    cpu->begun = true;
    struct cofi_event clock = clock_now(m, ip);
    for (size_t i = 0; i < m->observers_n; i++)
        if (m->observers[i]->begin)
            keep(m, m->observers[i]->begin(m->observers[i]->opaque, &cpu->task, &cpu->context, &clock));
    if (!m->pages.spaces_n)
        tell_kernel(m);
    enter_space(m, cpu, cpu->context.cr3);
}

static struct cofi__vm_cpu *need_cpu(struct cofi__vm *m, unsigned index)
{
    if (index >= m->cpus_n) {
        struct cofi__vm_cpu **grown = realloc(m->cpus, (index + 1) * sizeof *grown);
        if (!grown)
            return NULL;
        memset(grown + m->cpus_n, 0, (index + 1 - m->cpus_n) * sizeof *grown);
        m->cpus = grown;
        m->cpus_n = index + 1;
    }
    if (!m->cpus[index] && (m->cpus[index] = calloc(1, sizeof **m->cpus)))
        m->cpus[index]->task = (struct cofi_task){index, -1, (int32_t)index};
    return m->cpus[index];
}

/* The kernel runs where it will stay: before that there is firmware, and a loader in modes that we
 * cannot tell apart. */
static bool is_up(const struct cofi__vm *m, uint64_t ip)
{
    return m->skip == 0 && ip >> 63;
}

void cofi__vm_run(struct cofi__vm *m, unsigned index, struct cofi__run *run, unsigned started,
                  const struct cofi__vm_door *door)
{
    struct cofi__vm_cpu *cpu = need_cpu(m, index);
    uint64_t ip = door->reg(door->opaque, VM_RIP);
    if (!cpu || m->ended)
        return;
    if (!cpu->begun) {
        m->skip -= m->skip < run->n ? m->skip : run->n;
        m->kernel = m->kernel || !(ip >> 63) ? m->kernel : ip;
        if (!is_up(m, ip))
            return;
        m->tsc = m->tsc ? m->tsc : COFI__TSC_START;
        begin(m, cpu, ip, door);
    }
    settle(m, cpu, started);
    bool first = cpu->last_known && cpu->last.cls == COFI_CLASS_MOV_CR3; /* another space's code may follow */
    if (first)
        finish_last(m, cpu, ip, door);
    check_code(m, cpu, run, ip, door);
    keep_up(m, cpu, cpu->last_known ? cpu->last_ip : ip);
    if (cpu->last_known)
        finish_last(m, cpu, ip, door);
    if (!run->mode) /* code of another mode is another run */
        decode(run, cpu->context.mode);
    cpu->run = run;
    cpu->at = ip;
    if (m->status < 0 || (m->limit && m->retired >= m->limit)) {
        settle(m, cpu, 1);
        cofi__vm_end(m);
    }
}

void cofi__vm_settle(struct cofi__vm *m, unsigned index, unsigned started)
{
    if (index < m->cpus_n && m->cpus[index] && !m->ended)
        settle(m, m->cpus[index], started);
}

/* Tracing ends in front of the instruction whose end is not known. */
static void end(struct cofi__vm *m, const struct cofi__vm_cpu *cpu)
{
    uint64_t ip = cpu->last_known ? cpu->last_ip : cpu->run ? cpu->at : 0;
    if (ip)
        tell(m, cpu, &(struct cofi_event){.kind = COFI_EV_BOUNDARY, .vector = COFI_NO_VECTOR, .ip = ip});
    for (size_t i = 0; i < m->observers_n; i++)
        if (m->observers[i]->end)
            keep(m, m->observers[i]->end(m->observers[i]->opaque, &cpu->task));
}

void cofi__vm_end(struct cofi__vm *m)
{
    for (size_t c = 0; c < m->cpus_n && !m->ended; c++)
        if (m->cpus[c] && m->cpus[c]->begun)
            end(m, m->cpus[c]);
    m->ended = true;
}

void cofi__vm_fini(struct cofi__vm *m)
{
    cofi__vm_end(m);
    for (size_t c = 0; c < m->cpus_n; c++)
        free(m->cpus[c]);
    free(m->cpus);
    cofi__pages_free(&m->pages);
    *m = (struct cofi__vm){0};
}
