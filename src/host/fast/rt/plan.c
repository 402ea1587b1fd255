/* SPDX-License-Identifier: MIT
 * Guest code -> a plan: follow the usual ways of conditional branches, direct jumps and calls, until
 * something ends it. */
#include "cofi/insn.h"
#include "host/fast/rt/build.h"
#include "x86/usual.h"

/* What must run in place: it reads or writes GS, or an operand there that cannot be named otherwise; its
 * effect depends on where it stands; or it may be forbidden. */
static bool needs_step(const struct cofi__fast *x)
{
    unsigned reg = x->modrm >> 3 & 7;
    /* PUSHF and POPF: not with our TF */
    bool flags = x->space == COFI__FAST_LEGACY && x->map == 0 && (x->opcode & 0xfe) == 0x9c;
    if (x->prefixes & COFI__FAST_GS && !flags && (rt.gs_descriptors || !copy_takes_gs(x)))
        return true; /* memory operands are not always in the encoding: MOVS, XLAT, MASKMOVQ, … */
    if (rt.stops_tsc && forbid_is_tsc(x))
        return true;
    if (x->space != COFI__FAST_LEGACY || x->map > 1)
        return false;
    switch (x->map << 8 | x->opcode) { /* each has its bit in `stepped` */
    case 0x08c: /* MOV from and to a segment register: GS's base goes with it, and ours has no selector */
    case 0x08e: return reg == 5;
    case 0x1a8: /* PUSH GS, POP GS, LGS */
    case 0x1a9:
    case 0x1b5: return true;
    case 0x101: return x->modrm == 0xf8; /* SWAPGS */
    /* RDGSBASE, WRGSBASE */
    case 0x1ae: return x->prefixes & COFI__FAST_PF3 && x->modrm >= 0xc0 && (reg == 1 || reg == 3);
    default: return false;
    }
}

/* Opcodes of the first two maps that needs_step has a case for, a bit each. */
static const uint32_t stepped[2][8] =
    {[0] = {[4] = 1 << 12 | 1 << 14}, [1] = {[0] = 1 << 1, [5] = 1 << 8 | 1 << 9 | 1 << 14 | 1 << 21}};

/* needs_step of nearly all instructions, which is no; without its branches. */
static bool is_usual(const struct cofi__fast *x)
{
    bool odd = x->map < 2 && stepped[x->map][x->opcode >> 5] >> (x->opcode & 31) & 1;
    return !odd && !(x->prefixes & COFI__FAST_GS) && !rt.stops_tsc;
}

static enum action far_action(const struct cofi__fast *x)
{
    return x->map == 1 && x->opcode == 0x05 && x->space == COFI__FAST_LEGACY ? DO_SYSCALL : DO_STEP;
}

/* XGETBV and XTEST, which share all but the last three bits with XEND, VMFUNC and others: these have a class. */
static bool is_beside_xend(const struct cofi__fast *x)
{
    return x->space == COFI__FAST_LEGACY && x->map == 1 && x->opcode == 0x01 && (x->modrm == 0xd0 || x->modrm == 0xd6);
}

enum action plan_action(const struct cofi__fast *x)
{
    /* A 16-bit operand makes near branches differ between vendors: let the processor do it. */
    bool odd = x->prefixes & COFI__FAST_P66 && !(x->rex & 8);
    odd |= x->space != COFI__FAST_LEGACY; /* JKZD and its like, of processors that have no PT: no instructions here */
    switch ((enum cofi_class)cofi__fast_class(x)) {
    case COFI_CLASS_JCC: return odd ? DO_STEP : DO_JCC;
    case COFI_CLASS_JMP: return odd ? DO_STEP : DO_JMP;
    case COFI_CLASS_CALL: return odd ? DO_STEP : DO_CALL;
    case COFI_CLASS_JMP_IND: return odd || x->prefixes & COFI__FAST_GS ? DO_STEP : DO_JMP_IND;
    case COFI_CLASS_CALL_IND: return odd || x->prefixes & COFI__FAST_GS ? DO_STEP : DO_CALL_IND;
    case COFI_CLASS_RET: return odd ? DO_STEP : DO_RET;
    case COFI_CLASS_FAR_CALL: return far_action(x);
    case COFI_CLASS_FAR_JMP:
    case COFI_CLASS_FAR_RET:
    case COFI_CLASS_VMENTRY:
    case COFI_CLASS_MOV_CR3:
    case COFI_CLASS_VMPTRLD:
    case COFI_CLASS_TSX: return is_beside_xend(x) ? DO_COPY : DO_STEP;
    case COFI_CLASS_OTHER:
    case COFI_CLASS_PTWRITE:
    case COFI_CLASS_KINDS: break;
    }
    return !is_usual(x) && needs_step(x) ? DO_STEP : DO_COPY;
}

/* Whether coming to pc takes the runtime: it is entered by no link and in the middle of no superblock. */
static bool must_stop(uint64_t pc)
{
    return (rt.control->filters && filter_trigger(pc)) || (rt.sections && section_starts(pc));
}

static bool planned(const struct plan *plan, uint64_t pc)
{
    for (unsigned i = 0; i < plan->count; i++)
        if (plan->item[i].pc == pc)
            return true;
    return false;
}

/* Descriptors hold distances of less than 2 GB. Code that may change is watched, compared, told to the collector and
 * forgotten from the superblock's lowest address to its highest: one that is strewn over a JIT's whole arena would be
 * all of that at every write anywhere. */
static bool near(const struct plan *plan, const struct region *r, uint64_t pc)
{
    uint64_t span = r->writable || r->dirty ? PLAN_SPAN : PLAN_REACH;
    return pc + span > plan->high && pc < plan->low + span;
}

/* A jump back to where the plan begins: whether the loop fits into the superblock once more, with all of
 * its outcomes in one record. So a short loop logs a byte each few rounds. One with calls is not short. */
static bool unroll(struct plan *plan, uint64_t target)
{
    unsigned rounds = plan->rounds + 1, more = rounds + 1;
    if (target != plan->item[0].pc || plan->calls || !plan->branches)
        return false;
    if (plan->count / rounds * more > PLAN_INSNS || plan->branches / rounds * more > COFI__FAST_OUTCOMES_MAX)
        return false;
    plan->rounds++;
    return true;
}

/* Follow a direct jump or call to target: only within the region, whose bytes are known to be there. */
static bool follow(struct plan *plan, const struct region *r, uint64_t target)
{
    return !plan->compared && target >= r->start && target < r->end && !pages_compared(r, target) &&
           near(plan, r, target) && filter_mode(plan->mode, target, true) == plan->mode && !must_stop(target) &&
           (!planned(plan, target) || unroll(plan, target));
}

/* How often the block at pc was seen to run before any superblock had it. */
static unsigned heat(const struct plan *plan, uint64_t pc)
{
    const struct block *b = cache_find(pc, plan->mode, false);
    return !b ? 0 : b->cold ? rt.control->cold_runs - *block_runs_left(b) : rt.control->cold_runs;
}

bool plan_is_invertible(const struct cofi__fast *x)
{
    return x->map != 0 || (x->opcode & 0xfc) != 0xe0; /* LOOPcc, JRCXZ */
}

/* Choose how the plan goes on behind a conditional branch: by the way that was taken more often, else by the next
 * instruction; a backward branch of which nothing is known ends it. Returns where, 0: the plan ends. */
static uint64_t choose_way(struct plan *plan, const struct region *r, struct item *it, uint64_t next, bool may_go_on)
{
    unsigned taken = plan->cold ? 0 : heat(plan, it->target), not_taken = plan->cold ? 0 : heat(plan, next);
    it->likely = plan_is_invertible(&it->x) && (taken == not_taken ? it->target <= it->pc : taken > not_taken);
    it->action = DO_JCC_LAST;
    if (!may_go_on || plan->cold)
        return 0;
    if (!it->likely && (it->target > it->pc || not_taken > taken)) {
        it->action = DO_JCC;
        return next;
    }
    if (it->likely && taken > not_taken && follow(plan, r, it->target)) {
        it->action = DO_JCC_TAKEN;
        return it->target;
    }
    return 0;
}

static void push_return(struct plan *plan, uint64_t pc)
{
    if (plan->depth == PLAN_CALLS) {
        for (unsigned i = 1; i < PLAN_CALLS; i++)
            plan->returns[i - 1] = plan->returns[i];
        plan->depth--;
    }
    plan->returns[plan->depth++] = pc;
}

/* End with a way out to pc, which is a branch's target or the next instruction. */
static void leave(struct plan *plan, uint64_t pc, bool taken)
{
    struct item *it = &plan->item[plan->count++];
    bool same = filter_mode(plan->mode, pc, taken) == plan->mode;
    it->pc = pc;
    it->used = 0;
    it->plain = false;
    it->action = DO_LEAVE;
    it->kind = same ? EXIT_DIRECT : taken ? EXIT_BRANCH : EXIT_NEXT;
}

/* Whether a superblock that has come as far as pc must end there. */
static bool must_end(const struct plan *plan, const struct region *r, uint64_t pc)
{
    if (plan->count >= PLAN_INSNS || pc < r->start || pc >= r->end)
        return true;
    if (!plan->count || !(rt.control->filters | rt.sections)) /* most often */
        return false;
    return filter_mode(plan->mode, pc, false) != plan->mode || must_stop(pc);
}

/* A return in the plan to where a call of it was made. */
static bool returns_here(const struct plan *plan, const struct region *r)
{
    if (!plan->depth || plan->count >= PLAN_INSNS)
        return false;
    uint64_t to = plan->returns[plan->depth - 1];
    return near(plan, r, to) && !planned(plan, to) && filter_mode(plan->mode, to, true) == plan->mode && !must_stop(to);
}

/* Bytes that can be read as code from pc on, 15 at most. pc is in r. */
static size_t readable(struct plan *plan, const struct region *r, uint64_t pc)
{
    if (pc >> 12 == plan->page && (pc + 14) >> 12 == plan->page && r->end - pc >= 15)
        return 15;
    size_t n = maps_readable(pc);
    if (n)
        plan->page = pc >> 12;
    return n;
}

/* Instructions of which nothing has to be known but length and registers, as most are. Returns where the
 * first other one is. */
static uint64_t fetch_plain(struct plan *plan, const struct region *r, uint64_t pc)
{
    uint64_t start = pc, last = (plan->page << 12) + 4096 - 15; /* one of 15 bytes can be read up to here */
    if (rt.control->filters | rt.sections || pc >> 12 != plan->page || r->end < last + 15)
        return pc;
    while (plan->count < PLAN_INSNS && pc <= last) {
        struct item *it = &plan->item[plan->count];
        struct cofi__usual u = cofi__usual((const uint8_t *)pc);
        if (!u.length || u.registers >> R11 & 1)
            break;
        it->pc = pc;
        it->bytes = (const uint8_t *)pc;
        it->action = DO_COPY;
        it->plain = true;
        it->touches = u.touches;
        it->used = u.registers;
        it->x.length = u.length;
        plan->count++;
        pc += u.length;
    }
    if (pc > start && start < plan->low)
        plan->low = start;
    if (pc > start && pc > plan->high)
        plan->high = pc;
    return pc;
}

/* Decode at pc, from where so many bytes can be read; false when it is no instruction that the table knows. */
static bool fetch(struct plan *plan, struct item *it, uint64_t pc, size_t bytes)
{
    it->pc = pc;
    it->bytes = (const uint8_t *)pc;
    it->plain = false;
    int n = cofi__fast_decode(&it->x, it->bytes, bytes);
    it->action = n <= 0 ? DO_STEP : plan_action(&it->x);
    it->used = n <= 0 ? 0 : cofi__fast_registers(&it->x);
    uint64_t end = pc + (n > 0 ? (unsigned)n : bytes);
    it->target = n > 0 && it->x.attr & COFI__FAST_REL ? end + (uint64_t)it->x.imm : 0;
    plan->low = pc < plan->low ? pc : plan->low;
    plan->high = end > plan->high ? end : plan->high;
    if (n > 0 && it->x.rip_relative && it->x.opcode == 0x8d && it->x.map == 0 && it->x.space == COFI__FAST_LEGACY)
        section_look(pc, end + (uint64_t)it->x.disp);
    if (rt.sections && section_starts(pc))
        it->action = DO_STEP; /* it begins in the runtime */
    return n > 0;
}

/* Whether the instruction at pc is to be in a block of its own, which is compared: it may end in another region. */
static bool is_apart(const struct plan *plan, const struct region *r, uint64_t pc)
{
    return r->end - pc < INSN_MAX && !plan->compared && pages_compared(r, pc);
}

/* Whether the instruction at pc ends behind the bytes that can be read. */
static bool is_cut(uint64_t pc, size_t bytes)
{
    struct cofi__fast x;
    return bytes < INSN_MAX && !cofi__fast_decode(&x, (const uint8_t *)pc, bytes);
}

/* … It faults now; what is mapped behind it by the time that it is come to again makes it a whole one,
 * which is to be told as such. So there is no block of it. */
bool plan_cut(uint64_t pc)
{
    return (pc & (PAGE - 1)) > PAGE - INSN_MAX && is_cut(pc, maps_readable(pc));
}

void plan_make(struct plan *plan, const struct region *r, uint64_t pc, unsigned mode, bool cold)
{
    unsigned outcomes = 0; /* since the last record */
    plan->count = 0;
    plan->depth = 0;
    plan->rounds = 0;
    plan->branches = 0;
    plan->calls = false;
    plan->mode = mode;
    plan->cold = cold;
    plan->compared = pages_compared(r, pc);
    plan->low = pc;
    plan->high = pc;
    plan->page = pc >> 12; /* as who asks for the plan has seen */
    for (;;) {
        pc = fetch_plain(plan, r, pc);
        if (must_end(plan, r, pc)) {
            leave(plan, pc, false);
            return;
        }
        size_t bytes = readable(plan, r, pc);
        if (plan->count && (is_cut(pc, bytes) || is_apart(plan, r, pc))) {
            leave(plan, pc, false);
            return;
        }
        struct item *it = &plan->item[plan->count];
        fetch(plan, it, pc, bytes);
        uint64_t next = pc + it->x.length;
        plan->count++;
        switch ((enum action)it->action) {
        case DO_COPY:
            pc = next;
            break;
        case DO_JCC:
            plan->branches++, outcomes++;
            pc = choose_way(plan, r, it, next, plan->branches < PLAN_BRANCHES && outcomes < COFI__FAST_OUTCOMES_MAX);
            if (!pc)
                return;
            break;
        case DO_CALL:
        case DO_JMP:
            plan->calls |= it->action == DO_CALL;
            if (cold || !follow(plan, r, it->target)) {
                leave(plan, it->target, true);
                return;
            }
            pc = it->target;
            if (it->action == DO_CALL)
                push_return(plan, next);
            break;
        case DO_RET:
            if (!returns_here(plan, r))
                return;
            it->action = DO_RET_HERE;
            outcomes = 0;
            it->target = plan->returns[--plan->depth];
            pc = it->target;
            break;
        case DO_JCC_TAKEN:
        case DO_JCC_LAST:
        case DO_JMP_IND:
        case DO_CALL_IND:
        case DO_RET_HERE:
        case DO_SYSCALL:
        case DO_STEP:
        case DO_LEAVE:
            return;
        }
    }
}
