/* SPDX-License-Identifier: MIT
 * A module's functions as the source has them, inlined ones, too, and its lines -> code of one line in
 * one of them, with its count. */
#include <stdlib.h>

#include "analyze/coverage.h"

#include "base/array.h"
#include "base/error.h"

/* ---- from the image ---- */

struct learning {
    struct cofi_coverage *coverage;
    struct covered_module *module;
};

/* Where it is declared and called is known, and where all that it was inlined into is. */
static bool is_known(const struct covered_module *module, const struct cofi_module_scope *scope)
{
    if (!scope->function || !scope->declared)
        return false;
    return !scope->outer || (scope->call_line && module->scopes[scope->outer - 1].function);
}

/* One that is not known has no name. */
static int add_scope(const struct learning *learning, const struct cofi_module_scope *scope)
{
    struct covered_module *module = learning->module;
    struct cofi_coverage_scope made = {.declared = (uint32_t)scope->declared, .outer = (int32_t)scope->outer - 1,
                                       .entry = scope->entry, .call_line = (uint32_t)scope->call_line,
                                       .call_discriminator = scope->call_discriminator};
    if (is_known(module, scope)) {
        made.function = cofi__strings_keep(&learning->coverage->strings, scope->function);
        if (!made.function)
            return COFI_ERR_NOMEM;
    }
    COFI_TRY(cofi__array_grow(&module->scopes, &module->scopes_room, module->scopes_n, sizeof *module->scopes));
    module->scopes[module->scopes_n++] = made;
    return 0;
}

/* One without code has a number, too. */
static int learn_scope(void *opaque, const struct cofi_module_scope *scope)
{
    const struct learning *learning = opaque;
    struct covered_module *module = learning->module;
    while (module->scopes_n + 1 < scope->number)
        COFI_TRY(add_scope(learning, &(struct cofi_module_scope){0}));
    if (module->scopes_n < scope->number)
        COFI_TRY(add_scope(learning, scope));
    COFI_TRY(cofi__array_grow(&module->ranges, &module->ranges_room, module->ranges_n, sizeof *module->ranges));
    module->ranges[module->ranges_n++] = (struct known_range){scope->start, scope->end, scope->number - 1};
    return 0;
}

/* Outer ones before inner ones. */
static int by_start(const void *a, const void *b)
{
    const struct known_range *x = a, *y = b;
    if (x->start != y->start)
        return x->start < y->start ? -1 : 1;
    if (x->end != y->end)
        return x->end > y->end ? -1 : 1;
    return (x->scope > y->scope) - (x->scope < y->scope);
}

int cofi__coverage_scopes(struct cofi_coverage *coverage, struct covered_module *module)
{
    struct learning learning = {coverage, module};
    COFI_TRY(cofi_module_scopes(module->handle, learn_scope, &learning));
    if (module->ranges_n)
        qsort(module->ranges, module->ranges_n, sizeof *module->ranges, by_start);
    return 0;
}

/* ---- what of lines is of which ---- */

/* A walk along instructions, lines and scopes, all by address. */
struct code_walk {
    struct covered_module *module;
    const struct cofi_coverage_insn *insns;
    size_t insns_n, insn;
    struct part *parts;
    size_t parts_n, part;
    struct cofi_coverage_code *code;
    size_t code_n, code_room;
};

/* Parts of which each is of the innermost scope. */
static int64_t part_scopes(const struct covered_module *module, struct part **parts)
{
    struct known_function *extents = calloc(module->ranges_n + 1, sizeof *extents);
    if (!extents)
        return COFI_ERR_NOMEM;
    for (size_t i = 0; i < module->ranges_n; i++)
        extents[i] = (struct known_function){.addr = module->ranges[i].start,
                                             .size = module->ranges[i].end - module->ranges[i].start};
    int64_t n = cofi__coverage_parts(extents, module->ranges_n, parts);
    free(extents);
    return n;
}

static uint32_t scope_of(const struct code_walk *walk, const struct part *part)
{
    return walk->module->ranges[part->function].scope;
}
static bool has_name(const struct code_walk *walk, const struct part *part)
{
    return walk->module->scopes[scope_of(walk, part)].function != NULL;
}

static uint64_t most_between(struct code_walk *walk, uint64_t start, uint64_t end)
{
    uint64_t most = 0;
    while (walk->insn < walk->insns_n && walk->insns[walk->insn].addr < start)
        walk->insn++;
    for (; walk->insn < walk->insns_n && walk->insns[walk->insn].addr < end; walk->insn++)
        if (walk->insns[walk->insn].count > most)
            most = walk->insns[walk->insn].count;
    return most;
}

static int add_code(struct code_walk *walk, const struct known_line *line, uint64_t start, uint64_t end, uint32_t scope)
{
    COFI_TRY(cofi__array_grow(&walk->code, &walk->code_room, walk->code_n, sizeof *walk->code));
    walk->code[walk->code_n++] = (struct cofi_coverage_code){start,       end,        most_between(walk, start, end),
                                                             scope,       line->line, line->discriminator,
                                                             line->copies};
    return 0;
}

/* A line's code up to `end`, in all scopes that it is in. */
static int cut_line(struct code_walk *walk, const struct known_line *line, uint64_t end)
{
    while (walk->part < walk->parts_n && walk->parts[walk->part].end <= line->start)
        walk->part++;
    for (size_t i = walk->part; i < walk->parts_n && walk->parts[i].start < end; i++) {
        const struct part *part = &walk->parts[i];
        uint64_t from = part->start > line->start ? part->start : line->start, to = part->end < end ? part->end : end;
        if (has_name(walk, part))
            COFI_TRY(add_code(walk, line, from, to, scope_of(walk, part)));
    }
    return 0;
}

/* Of lines that begin at one address the longest counts; it ends where the next one begins. */
static int cut_lines(struct code_walk *walk)
{
    const struct known_line *lines = walk->module->lines;
    size_t n = walk->module->lines_n;
    for (size_t i = 0; i < n; i++) {
        uint64_t next = i + 1 < n ? lines[i + 1].start : UINT64_MAX;
        if (next != lines[i].start)
            COFI_TRY(cut_line(walk, &lines[i], lines[i].end < next ? lines[i].end : next));
    }
    return 0;
}

/* How many instructions ran in what has a scope. */
static uint64_t count_placed(const struct code_walk *walk)
{
    uint64_t placed = 0;
    size_t part = 0;
    for (size_t i = 0; i < walk->insns_n; i++) {
        uint64_t addr = walk->insns[i].addr;
        while (part < walk->parts_n && walk->parts[part].end <= addr)
            part++;
        if (part < walk->parts_n && walk->parts[part].start <= addr && has_name(walk, &walk->parts[part]))
            placed += walk->insns[i].count;
    }
    return placed;
}

int cofi__coverage_code(struct covered_module *module, const struct cofi_coverage_insn *insns, size_t n)
{
    struct code_walk walk = {.module = module, .insns = insns, .insns_n = n};
    int64_t parts = part_scopes(module, &walk.parts);
    if (parts < 0)
        return (int)parts;
    walk.parts_n = (size_t)parts;
    int status = cut_lines(&walk);
    module->pub.placed = count_placed(&walk);
    module->pub.scopes = module->scopes;
    module->pub.scopes_n = module->scopes_n;
    module->pub.code = walk.code;
    module->pub.code_n = walk.code_n;
    free(walk.parts);
    return status;
}
