/* SPDX-License-Identifier: MIT
 * Coverage of a module -> a profile for BOLT, as perf2bolt -pa reads it: a line a branch that was taken (B
 * from to count mispredicted) and a line a stretch that was gone through without one (F from to count). */
#include <cofi/present.h>

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cofi/insn.h>

#include "base/array.h"
#include "base/error.h"
#include "base/strings.h"
#include "present/put.h"

/* BOLT's name for anywhere else. */
enum { ELSEWHERE = 0 };

static void put_line(struct out *out, char kind, uint64_t from, uint64_t to, uint64_t count)
{
    char text[80];
    if (!count)
        return;
    snprintf(text, sizeof text, "%c %" PRIx64 " %" PRIx64 " %" PRIu64 "%s\n", kind, from, to, count,
             kind == 'B' ? " 0" : "");
    put_text(out, text);
}

static bool is_inside(const struct cofi_coverage_module *module, const struct cofi_coverage_target *target)
{
    return target->to_path == module->path && target->to_pid == module->pid;
}

static bool is_taken(const struct cofi_coverage_target *target)
{
    return target->cls != COFI_CLASS_JCC || target->to_addr != target->addr + target->length;
}

/* ---- where branches led ---- */

/* A branch that was taken to somewhere in the module. */
struct way {
    uint64_t to, count;
    bool ret;
};

struct profile {
    const struct cofi_coverage_module *module;
    struct way *ways; /* by where they lead */
    size_t ways_n;
};

static int by_to(const void *a, const void *b)
{
    const struct way *x = a, *y = b;
    return (x->to > y->to) - (x->to < y->to);
}

_Static_assert(!offsetof(struct way, to) && !offsetof(struct cofi_coverage_target, addr) &&
                   !offsetof(struct cofi_coverage_insn, addr),
               "they begin with what they are ordered by");

/* The first of n rows, ordered by the address that they begin with, with at least this one. */
static size_t first_at(const void *rows, size_t n, size_t size, uint64_t addr)
{
    return addr ? cofi__array_upper_bound(rows, n, size, 0, addr - 1) : 0;
}

static int open_profile(struct profile *profile, const struct cofi_coverage_module *module)
{
    *profile = (struct profile){.module = module, .ways = calloc(module->targets_n + 1, sizeof *profile->ways)};
    if (!profile->ways)
        return COFI_ERR_NOMEM;
    for (size_t i = 0; i < module->targets_n; i++) {
        const struct cofi_coverage_target *target = &module->targets[i];
        if (is_inside(module, target) && is_taken(target))
            profile->ways[profile->ways_n++] = (struct way){target->to_addr, target->count,
                                                            target->cls == COFI_CLASS_RET};
    }
    qsort(profile->ways, profile->ways_n, sizeof *profile->ways, by_to);
    return 0;
}

/* How often branches of the module led to an address; rets: RETs, too. */
static uint64_t led_to(const struct profile *profile, uint64_t addr, bool rets)
{
    uint64_t count = 0;
    for (size_t i = first_at(profile->ways, profile->ways_n, sizeof *profile->ways, addr);
         i < profile->ways_n && profile->ways[i].to == addr; i++)
        count += rets || !profile->ways[i].ret ? profile->ways[i].count : 0;
    return count;
}

/* ---- from an instruction to the one behind it ---- */

static uint64_t not_taken(const struct cofi_coverage_module *module, uint64_t addr)
{
    const struct cofi_coverage_target *targets = module->targets;
    uint64_t count = 0;
    for (size_t i = first_at(targets, module->targets_n, sizeof *targets, addr);
         i < module->targets_n && targets[i].addr == addr; i++)
        count += is_taken(&targets[i]) ? 0 : targets[i].count;
    return count;
}

/* BOLT makes those anew, and has no use for what is known of them. */
static bool is_stub(const struct cofi_coverage_module *module, const struct cofi_coverage_insn *insn)
{
    return insn->function >= 0 && cofi__is_stub_name(module->functions[insn->function].name);
}

static uint64_t least(uint64_t a, uint64_t b) { return a < b ? a : b; }

/* Behind a CALL, or what enters the kernel: how often execution came back, of what no branch in the module explains. */
static uint64_t came_back(const struct profile *profile, const struct cofi_coverage_insn *insn)
{
    const struct cofi_coverage_insn *next = insn + 1;
    uint64_t jumped = led_to(profile, next->addr, false);
    return next->function != insn->function || jumped > next->count ? 0 : least(insn->count, next->count - jumped);
}

/* How often execution went on from an instruction to the one behind it. */
static uint64_t fell_through(const struct profile *profile, size_t i)
{
    const struct cofi_coverage_module *module = profile->module;
    const struct cofi_coverage_insn *insn = &module->insns[i], *next = insn + 1;
    if (i + 1 >= module->insns_n || is_stub(module, insn) || next->addr != insn->addr + insn->length)
        return 0;
    switch ((enum cofi_class)insn->cls) {
    case COFI_CLASS_JCC:
        return not_taken(module, insn->addr);
    case COFI_CLASS_CALL:
    case COFI_CLASS_CALL_IND:
    case COFI_CLASS_FAR_CALL:
        return came_back(profile, insn);
    case COFI_CLASS_JMP:
    case COFI_CLASS_JMP_IND:
    case COFI_CLASS_RET:
    case COFI_CLASS_FAR_JMP:
    case COFI_CLASS_FAR_RET:
    case COFI_CLASS_VMENTRY:
    case COFI_CLASS_KINDS:
        return 0;
    case COFI_CLASS_OTHER:
    case COFI_CLASS_MOV_CR3:
    case COFI_CLASS_PTWRITE:
    case COFI_CLASS_VMPTRLD:
    case COFI_CLASS_TSX:
        break;
    }
    return least(insn->count, next->count);
}

/* How often execution came to an instruction from the one before it. */
static uint64_t fell_into(const struct profile *profile, uint64_t addr)
{
    const struct cofi_coverage_module *module = profile->module;
    size_t at = first_at(module->insns, module->insns_n, sizeof *module->insns, addr);
    return at ? fell_through(profile, at - 1) : 0;
}

/* ---- lines ---- */

static void put_branches(struct out *out, const struct cofi_coverage_module *module)
{
    for (size_t i = 0; i < module->targets_n; i++) {
        const struct cofi_coverage_target *target = &module->targets[i];
        if (is_taken(target))
            put_line(out, 'B', target->addr, is_inside(module, target) ? target->to_addr : ELSEWHERE, target->count);
    }
}

/* What entered functions, and nothing in the module explains it. */
static void put_entries(struct out *out, const struct profile *profile)
{
    for (size_t i = 0; i < profile->module->functions_n; i++) {
        const struct cofi_coverage_function *function = &profile->module->functions[i];
        uint64_t known = function->entered ? led_to(profile, function->addr, true) + fell_into(profile, function->addr)
                                           : 0;
        if (function->entered > known)
            put_line(out, 'B', ELSEWHERE, function->addr, function->entered - known);
    }
}

/* What was gone through as often is one stretch. */
static void put_stretches(struct out *out, const struct profile *profile)
{
    uint64_t start = 0, count = 0;
    for (size_t i = 0; i < profile->module->insns_n; i++) {
        uint64_t addr = profile->module->insns[i].addr, on = fell_through(profile, i);
        if (on == count)
            continue;
        put_line(out, 'F', start, addr, count);
        start = addr;
        count = on;
    }
}

int cofi_coverage_bolt(const struct cofi_coverage_module *module, cofi_put *put, void *opaque)
{
    struct out out = {.put = put, .opaque = opaque};
    struct profile profile;
    COFI_TRY(open_profile(&profile, module));
    put_branches(&out, module);
    put_entries(&out, &profile);
    put_stretches(&out, &profile);
    free(profile.ways);
    return out.status;
}
