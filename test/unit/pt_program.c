/* SPDX-License-Identifier: MIT
 * See pt_program.h. */
#include "pt_program.h"

#include <string.h>

/* name, share, bytes (64-bit code), length, where: 1 user, 2 kernel, 4 user 32-bit. Branches take a rel32 in
 * their last four bytes. */
#define KINDS(X)                                                               \
    X(NOP, 30, "\x90", 1, 7)                                                   \
    X(MOV, 30, "\x89\xc8", 2, 7)                                               \
    X(LEA, 20, "\x8d\x80\x10\x20\x30\x40", 6, 7)                               \
    X(REP, 4, "\xf3\xa4", 2, 7)                                                \
    X(JCC, 60, "\x0f\x85\0\0\0\0", 6, 7)                                       \
    X(JMP, 12, "\xe9\0\0\0\0", 5, 7)                                           \
    X(CALL, 24, "\xe8\0\0\0\0", 5, 7)                                          \
    X(CALL_NEXT, 2, "\xe8\0\0\0\0", 5, 7)                                      \
    X(JMP_IND, 10, "\xff\xe0", 2, 7)                                           \
    X(CALL_IND, 10, "\xff\xd0", 2, 7)                                          \
    X(RET, 24, "\xc3", 1, 7)                                                   \
    X(RETN, 3, "\xc2\x08\x00", 3, 7)                                           \
    X(SYSCALL, 3, "\x0f\x05", 2, 1)                                            \
    X(INT80, 2, "\xcd\x80", 2, 5)                                              \
    X(INT3, 1, "\xcc", 1, 7)                                                   \
    X(IRET, 6, "\x48\xcf", 2, 2)                                               \
    X(SYSRET, 6, "\x48\x0f\x07", 3, 2)                                         \
    X(MOV_CR3, 3, "\x0f\x22\xd8", 3, 2)                                        \
    X(CLI, 2, "\xfa", 1, 2)                                                    \
    X(STI, 2, "\xfb", 1, 2)                                                    \
    X(FAR_JMP, 1, "\xff\x28", 2, 7)                                            \
    X(PTW4, 3, "\xf3\x0f\xae\xe0", 4, 7)                                       \
    X(PTW8, 3, "\xf3\x48\x0f\xae\xe0", 5, 3)                                   \
    X(XBEGIN, 4, "\xc7\xf8\0\0\0\0", 6, 1)                                     \
    X(XEND, 4, "\x0f\x01\xd5", 3, 1)                                           \
    /* of wide programs only */                                                \
    X(WRMSR, 2, "\x0f\x30", 2, 2)                                              \
    X(VMPTRLD, 2, "\x0f\xc7\x30", 3, 2)                                        \
    X(VMRESUME, 5, "\x0f\x01\xc3", 3, 2)                                       \
    X(MWAIT, 2, "\x0f\x01\xc9", 3, 2)                                          \
    X(UD2, 1, "\x0f\x0b", 2, 7)

enum kind {
#define X(name, share, bytes, length, where) K_##name,
    KINDS(X)
#undef X
    KIND_COUNT
};

struct kind_row {
    uint8_t share, length, where;
    const char *bytes;
};

static const struct kind_row kinds[] = {
#define X(name, share, bytes, length, where) {share, length, where, bytes},
    KINDS(X)
#undef X
};

enum { USER, KERNEL, FAR_USER, USER32 };

/* xorshift64*: the tests must be the same everywhere. */
uint64_t program_random(struct program *program, uint64_t below)
{
    uint64_t x = program->random;
    x ^= x >> 12;
    x ^= x << 25;
    x ^= x >> 27;
    program->random = x;
    return (x * UINT64_C(2685821657736338717) >> 11) % below;
}

static bool one_in(struct program *program, unsigned n) { return n && program_random(program, n) == 0; }

static enum kind pick(struct program *program, unsigned where)
{
    for (;;) {
        enum kind kind = (enum kind)program_random(program, program->wide ? KIND_COUNT : K_WRMSR);
        if (kinds[kind].where & where && program_random(program, 60) < kinds[kind].share)
            return kind;
    }
}

static bool is_direct(enum kind kind)
{
    return kind == K_JCC || kind == K_JMP || kind == K_CALL || kind == K_XBEGIN;
}

static void make_region(struct program *program, struct program_region *region, unsigned where)
{
    uint16_t offset = 0;
    for (region->count = 0; region->count < PROGRAM_INSNS; region->count++) {
        bool last = region->count == PROGRAM_INSNS - 1;
        enum kind kind = last ? K_JMP : region->count == 0 ? K_JCC : pick(program, where);
        region->insns[region->count] = (struct program_insn){offset, kinds[kind].length, (uint8_t)kind, 0};
        memcpy(region->bytes + offset, kinds[kind].bytes, kinds[kind].length);
        offset = (uint16_t)(offset + kinds[kind].length);
    }
    region->used = offset;
    for (unsigned i = 0; i < region->count; i++) {
        struct program_insn *insn = &region->insns[i];
        if (!is_direct(insn->kind))
            continue;
        insn->target = (uint16_t)program_random(program, region->count);
        /* Forward, but for conditionals: no loop without a packet, which no decoder could count. */
        if (insn->kind == K_JMP || insn->kind == K_CALL)
            insn->target = i + 2 < region->count
                               ? (uint16_t)(i + 2 + program_random(program, region->count - i - 2))
                               : 0;
        int32_t rel = region->insns[insn->target].offset - (insn->offset + insn->length);
        if (rel == 0) /* that is CALL_NEXT's job */
            rel = region->insns[insn->target = 0].offset - (insn->offset + insn->length);
        memcpy(region->bytes + insn->offset + insn->length - 4, &rel, 4);
    }
}

void program_make(struct program *program, uint64_t seed, bool wide)
{
    static const struct { uint64_t base; unsigned mode, cpl, where; } maps[PROGRAM_REGIONS] = {
        {0x401000, 64, 3, 1}, {0xffffffff81000000, 64, 0, 2}, {0x7f3456789000, 64, 3, 1}, {0x8048000, 32, 3, 4},
    };
    *program = (struct program){.random = seed * 2654435761u + 88172645463325252u, .wide = wide};
    for (unsigned i = 0; i < PROGRAM_REGIONS; i++) {
        program->regions[i] = (struct program_region){.base = maps[i].base, .mode = maps[i].mode,
                                                      .cpl = maps[i].cpl};
        make_region(program, &program->regions[i], maps[i].where);
    }
    program->context = (struct cofi_context){.cr3 = 0x1000, .vmcs = UINT64_MAX, .mode = 64, .cpl = 3, .cr0_pg = true,
                                             .iflag = true};
    program->wild_returns = 20;
    if (wide)
        program->context.vmx = (uint8_t)program_random(program, 2);
}

static const struct program_region *region_of(const struct program *program, struct program_place place)
{
    return &program->regions[place.region];
}

static uint64_t address(const struct program *program, struct program_place place)
{
    const struct program_region *region = region_of(program, place);
    return region->base + region->insns[place.insn].offset;
}

uint64_t program_ip(const struct program *program) { return address(program, program->at); }

static struct program_place anywhere(struct program *program, unsigned region)
{
    return (struct program_place){(uint8_t)region, (uint16_t)program_random(program, PROGRAM_INSNS)};
}

/* Some place of the same privilege and mode. */
static struct program_place near_place(struct program *program)
{
    unsigned region = program->at.region;
    if (region != KERNEL && region != USER32)
        region = program_random(program, 4) ? USER : FAR_USER;
    return anywhere(program, region);
}

static struct program_place user_place(struct program *program)
{
    unsigned r = (unsigned)program_random(program, 8);
    return anywhere(program, r < 5 ? USER : r < 7 || !program->user32 ? FAR_USER : USER32);
}

static void go(struct program *program, struct cofi_event *event, struct program_place place)
{
    program->at = place;
    event->target = address(program, place);
}

/* A far transfer or an event: the context follows the place. */
static void go_far(struct program *program, struct cofi_event *event, struct program_place place)
{
    const struct program_region *region = region_of(program, place);
    program->context.cpl = (uint8_t)region->cpl;
    program->context.mode = (uint8_t)region->mode;
    if (region->cpl == 0)
        program->depth = 0;
    event->after = program->context;
    event->context_set = true;
    go(program, event, place);
}

static void push(struct program *program, struct program_place place)
{
    if (program->depth == PROGRAM_STACK) {
        memmove(program->stack, program->stack + 1, sizeof program->stack - sizeof program->stack[0]);
        program->depth--;
    }
    program->stack[program->depth++] = place;
}

static struct program_place pop(struct program *program)
{
    struct program_place place = near_place(program);
    if (program->depth > 0)
        place = program->stack[--program->depth];
    if (one_in(program, program->wild_returns) || region_of(program, place)->mode != program->context.mode ||
        region_of(program, place)->cpl != program->context.cpl)
        place = near_place(program);
    return place;
}

static struct program_place following(const struct program *program)
{
    return (struct program_place){program->at.region, (uint16_t)((program->at.insn + 1) % PROGRAM_INSNS)};
}

/* A transaction ends with any far transfer. */
static void abort_transaction(struct program *program, struct cofi_event *event)
{
    event->kind = COFI_EV_XABORT;
    program->context.intx = false;
    event->after = program->context;
    event->context_set = true;
    go(program, event, program->fallback);
}

/* To the host's kernel. */
static void vm_exit(struct program *program, struct cofi_event *event)
{
    event->kind = COFI_EV_EVENT;
    event->cause = COFI_CAUSE_VMEXIT;
    program->context.vmx = 1;
    program->context.cr3 = program->host_cr3;
    go_far(program, event, anywhere(program, KERNEL));
}

/* Tracing is off in SMM, by the transition itself. */
static void smi(struct program *program, struct cofi_event *event)
{
    program->interrupted = program->at;
    program->before_smm = program->context;
    event->kind = COFI_EV_EVENT;
    event->cause = COFI_CAUSE_SMI;
    program->context.smm = true;
    go_far(program, event, anywhere(program, KERNEL));
}

static void rsm(struct program *program, struct cofi_event *event)
{
    event->kind = COFI_EV_FAR;
    event->cause = COFI_FAR_RSM;
    event->msr = 0x570;
    event->control = program->ctl;
    event->after = program->context = program->before_smm;
    event->context_set = true;
    go(program, event, program->interrupted);
}

/* What a wide program has beside interrupts and faults. */
static bool take_wide_event(struct program *program, struct cofi_event *event)
{
    bool guest = program->context.vmx == 2 && one_in(program, program->exits);
    bool manage = !guest && one_in(program, program->smis);
    if (!guest && !manage)
        return false;
    if (program->context.intx)
        abort_transaction(program, event);
    else if (guest)
        vm_exit(program, event);
    else
        smi(program, event);
    return true;
}

/* #UD, or what a hypervisor wants to see of its guest. */
static void undefined(struct program *program, struct cofi_event *event)
{
    if (program->context.vmx == 2) {
        vm_exit(program, event);
        return;
    }
    event->kind = COFI_EV_EVENT;
    event->cause = COFI_CAUSE_FAULT;
    event->vector = 6;
    go_far(program, event, anywhere(program, KERNEL));
}

static bool take_event(struct program *program, struct cofi_event *event)
{
    bool fault = one_in(program, program->faults);
    if (!fault && !one_in(program, program->interrupts))
        return false;
    if (program->context.intx) {
        abort_transaction(program, event);
        return true;
    }
    event->kind = COFI_EV_EVENT;
    event->cause = fault ? COFI_CAUSE_FAULT : COFI_CAUSE_INTR;
    event->vector = fault ? 14 : 32;
    go_far(program, event, anywhere(program, KERNEL));
    return true;
}

static void transfer(struct program *program, struct cofi_event *event, enum kind kind)
{
    static const uint8_t fars[KIND_COUNT] = {
        [K_SYSCALL] = COFI_FAR_SYSCALL, [K_INT80] = COFI_FAR_INT, [K_INT3] = COFI_FAR_INT, [K_IRET] = COFI_FAR_IRET,
        [K_SYSRET] = COFI_FAR_SYSRET, [K_FAR_JMP] = COFI_FAR_JMP,
    };
    event->kind = COFI_EV_FAR;
    event->cause = fars[kind];
    if (kind == K_INT80 || kind == K_INT3)
        event->vector = kind == K_INT3 ? 3 : 0x80;
    if (kind == K_IRET || kind == K_SYSRET)
        go_far(program, event, user_place(program));
    else if (kind == K_FAR_JMP)
        go_far(program, event, near_place(program));
    else
        go_far(program, event, anywhere(program, KERNEL));
}

static void change_state(struct program *program, struct cofi_event *event, enum kind kind)
{
    event->kind = kind == K_MOV_CR3 ? COFI_EV_MOV_CR3 : COFI_EV_STATE;
    if (kind == K_MOV_CR3)
        program->context.cr3 = 0x1000 * (1 + program_random(program, 3));
    else
        program->context.iflag = kind == K_STI;
    event->after = program->context;
    event->context_set = true;
}

static void transaction(struct program *program, struct cofi_event *event, const struct program_insn *insn,
                        enum kind kind)
{
    bool begin = kind == K_XBEGIN && !program->context.intx && program->transactions;
    bool end = kind == K_XEND && program->context.intx;
    if (!begin && !end)
        return;
    event->kind = begin ? COFI_EV_XBEGIN : COFI_EV_XEND;
    program->context.intx = begin;
    program->fallback = (struct program_place){program->at.region, insn->target};
    event->after = program->context;
    event->context_set = true;
}

/* Does this instruction of a wide program complete here? */
static bool completes(const struct program *program, enum kind kind)
{
    if (kind == K_VMPTRLD || kind == K_VMRESUME)
        return program->context.vmx == 1 && (kind == K_VMPTRLD || program->context.vmcs != UINT64_MAX);
    if (kind == K_WRMSR || kind == K_MWAIT)
        return program->context.vmx != 2;
    return kind != K_UD2;
}

static void enter_guest(struct program *program, struct cofi_event *event)
{
    event->kind = COFI_EV_FAR;
    event->cause = COFI_FAR_VMENTRY;
    program->host_cr3 = program->context.cr3;
    program->context.vmx = 2;
    program->context.cr3 = 0x1000 * (1 + program_random(program, 5));
    go_far(program, event, program_random(program, 2) ? anywhere(program, KERNEL) : user_place(program));
}

/* A toggle of TraceEn, or another register. */
static void write_msr(struct program *program, struct cofi_event *event)
{
    event->kind = COFI_EV_WRMSR;
    event->msr = 0x10;
    if (!program->toggles)
        return;
    event->msr = 0x570;
    event->value = program->ctl ^= 1;
}

static void run_wide(struct program *program, struct cofi_event *event, enum kind kind)
{
    if (kind == K_WRMSR) {
        write_msr(program, event);
    } else if (kind == K_VMPTRLD) {
        event->kind = COFI_EV_VMPTRLD;
        program->context.vmcs = 0x70000 + 0x1000 * program_random(program, 3);
        event->after = program->context;
        event->context_set = true;
    } else if (kind == K_MWAIT && program->sleeps) {
        event->kind = COFI_EV_MWAIT;
        event->value = 0x10 | program_random(program, 2) << 32;
        event->size = (uint8_t)program_random(program, 3);
        event->taken = one_in(program, 4);
    }
}

static void run(struct program *program, struct cofi_event *event, const struct program_insn *insn)
{
    struct program_place next = following(program), target = {program->at.region, insn->target};
    enum kind kind = insn->kind;
    event->kind = COFI_EV_INSN;
    if (kind == K_JCC) {
        event->kind = COFI_EV_JCC;
        event->taken = program_random(program, 2);
        event->target = address(program, target);
        program->at = event->taken ? target : next;
        return;
    }
    if (kind == K_CALL || kind == K_CALL_IND || kind == K_CALL_NEXT)
        push(program, next);
    switch (kind) {
    case K_JMP: event->kind = COFI_EV_JMP; go(program, event, target); return;
    case K_CALL: event->kind = COFI_EV_CALL; go(program, event, target); return;
    case K_CALL_NEXT: event->kind = COFI_EV_CALL; go(program, event, next); return;
    case K_JMP_IND: event->kind = COFI_EV_JMP_IND; go(program, event, near_place(program)); return;
    case K_CALL_IND: event->kind = COFI_EV_CALL_IND; go(program, event, near_place(program)); return;
    case K_RET:
    case K_RETN: event->kind = COFI_EV_RET; go(program, event, pop(program)); return;
    case K_SYSCALL: case K_INT80: case K_INT3: case K_IRET: case K_SYSRET: case K_FAR_JMP:
        transfer(program, event, kind);
        return;
    case K_MOV_CR3: case K_CLI: case K_STI: change_state(program, event, kind); break;
    case K_PTW4: case K_PTW8:
        event->kind = COFI_EV_PTWRITE;
        event->size = kind == K_PTW8 ? 8 : 4;
        event->value = program->random;
        break;
    case K_XBEGIN: case K_XEND: transaction(program, event, insn, kind); break;
    case K_VMRESUME: enter_guest(program, event); return;
    case K_WRMSR: case K_VMPTRLD: case K_MWAIT: run_wide(program, event, kind); break;
    case K_UD2: case K_NOP: case K_MOV: case K_LEA: case K_REP: case K_JCC: case KIND_COUNT: break;
    }
    program->at = next;
}

bool program_step(struct program *program, struct cofi_event *event)
{
    const struct program_region *region = region_of(program, program->at);
    const struct program_insn *insn = &region->insns[program->at.insn];
    *event = (struct cofi_event){.ip = program_ip(program), .vector = COFI_NO_VECTOR};
    event->next = event->ip + insn->length;
    if (program->context.smm) {
        event->kind = COFI_EV_INSN;
        if (one_in(program, 4))
            rsm(program, event);
        return false;
    }
    if ((program->wide && take_wide_event(program, event)) || take_event(program, event))
        return false;
    bool leaves = insn->kind == K_SYSCALL || insn->kind == K_INT80 || insn->kind == K_INT3 || insn->kind == K_FAR_JMP ||
                  !completes(program, insn->kind);
    if (program->context.intx && (leaves || one_in(program, 30))) {
        abort_transaction(program, event);
        return false;
    }
    if (!completes(program, insn->kind)) {
        undefined(program, event);
        return false;
    }
    run(program, event, insn);
    return true;
}

size_t program_read(const struct program *program, uint64_t ip, uint8_t *bytes, size_t n)
{
    for (unsigned i = 0; i < PROGRAM_REGIONS; i++) {
        const struct program_region *region = &program->regions[i];
        if (ip < region->base || ip >= region->base + region->used)
            continue;
        size_t left = (size_t)(region->base + region->used - ip);
        n = n < left ? n : left;
        memcpy(bytes, region->bytes + (ip - region->base), n);
        return n;
    }
    return 0;
}
