/* SPDX-License-Identifier: MIT
 * Coverage -> tables of modules, functions, lines, branches or instructions, as text or JSON. */
#include "coverage.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

/* key: what stands before it. */
static void write_string(struct writer *out, const char *key, const char *text)
{
    char string[COFI_NAME_JSON_BYTES];
    write_text(out, key);
    write_text(out, cofi_json_string(text, string, sizeof string));
}

/* A file may be called anything; its name ends no line. What else a terminal would obey, the writer keeps from one. */
static void write_name(struct writer *out, char *name)
{
    for (char *end = name; (end = strpbrk(end, "\r\n"));)
        *end = '?';
    write_text(out, name);
}

void coverage_module_title(const struct cofi_coverage_module *module, char *out, size_t n)
{
    int length = snprintf(out, n, "%s", module->path);
    if (module->pid >= 0 && length >= 0 && (size_t)length < n)
        snprintf(out + length, n - (size_t)length, " (process %d)", module->pid);
}

/* As cofi_symbol_print. */
void coverage_function_name(const struct coverage_table *table, const struct cofi_coverage_module *module,
                            const struct cofi_coverage_function *function, char *out, size_t n)
{
    if (function->name)
        snprintf(out, n, "%s", cofi_demangle(table->names, function->name));
    else if (function->addr)
        snprintf(out, n, "%s+0x%" PRIx64, basename(module->path), function->addr);
    else
        snprintf(out, n, "(no symbol)");
}

/* "45.1%", or "-" where the whole is not known. */
static const char *share(uint64_t part, uint64_t whole, char out[PERCENT_BYTES])
{
    return whole ? percent(part, whole, out) : "-";
}

/* "3/7", or "-" where there are none. */
static const char *part_of(uint64_t part, uint64_t all, char out[48])
{
    if (all)
        snprintf(out, 48, "%" PRIu64 "/%" PRIu64, part, all);
    else
        snprintf(out, 48, "-");
    return out;
}

struct sums {
    uint64_t functions, functions_ran, bytes; /* bytes: of functions whose size is known */
};

static struct sums sum_up(const struct cofi_coverage_module *module)
{
    struct sums sums = {0};
    for (size_t i = 0; i < module->functions_n; i++) {
        const struct cofi_coverage_function *f = &module->functions[i];
        sums.functions += f->name || f->addr;
        sums.functions_ran += (f->name || f->addr) && f->insns;
        sums.bytes += f->size ? f->bytes : 0;
    }
    return sums;
}

/* ---- modules ---- */

static void print_module_json(const struct cofi_coverage_module *module, struct writer *out)
{
    struct sums sums = sum_up(module);
    char title[COFI_NAME_BYTES];
    coverage_module_title(module, title, sizeof title);
    write_string(out, "{\"v\":1,\"module\":", title);
    write_format(out,
                 ",\"base\":\"0x%" PRIx64 "\",\"executed\":%" PRIu64 ",\"instructions\":%zu,\"bytes\":%" PRIu64
                 ",\"size\":%" PRIu64 ",\"functions\":%" PRIu64 ",\"functions_ran\":%" PRIu64 ",\"lines\":%" PRIu64
                 ",\"lines_ran\":%" PRIu64 ",\"outcomes\":%" PRIu64 ",\"outcomes_seen\":%" PRIu64 ",\"blocks\":%zu}\n",
                 module->base, module->executed, module->insns_n, module->bytes, module->size, sums.functions,
                 sums.functions_ran, module->lines, module->lines_ran, module->outcomes, module->outcomes_seen,
                 module->blocks_n);
}

static void print_module(const struct cofi_coverage_module *module, struct writer *out)
{
    struct sums sums = sum_up(module);
    char title[COFI_NAME_BYTES], functions[48], lines[48], outcomes[48], bytes[PERCENT_BYTES];
    coverage_module_title(module, title, sizeof title);
    write_format(out, "%14" PRIu64 " %8s %13s %13s %13s  ", module->executed, share(sums.bytes, module->size, bytes),
                 part_of(module->lines_ran, module->lines, lines),
                 part_of(module->outcomes_seen, module->outcomes, outcomes),
                 part_of(sums.functions_ran, sums.functions, functions));
    write_name(out, title);
    write_text(out, "\n");
}

static void print_modules(const struct coverage_table *table, const struct cofi_coverage_module *modules, size_t n,
                          struct writer *out)
{
    if (!table->json)
        write_format(out, "%14s %8s %13s %13s %13s  %s\n", "executed", "bytes", "lines", "outcomes", "functions",
                     "module");
    for (size_t i = 0; i < n; i++)
        (table->json ? print_module_json : print_module)(&modules[i], out);
}

/* ---- functions ---- */

static int most_first(uint64_t x, uint64_t y) { return (x < y) - (x > y); }

static int by_name(const struct coverage_table *table, const struct cofi_coverage_function *x,
                   const struct cofi_coverage_function *y)
{
    const char *a = cofi_demangle(table->names, x->name), *b = cofi_demangle(table->names, y->name);
    return strcmp(a ? a : "", b ? b : "");
}

static uint64_t millionths(const struct cofi_coverage_function *f)
{
    return f->size ? f->bytes * 1000000 / f->size : 0;
}

static int by_key(const struct coverage_table *table, const struct cofi_coverage_function *x,
                  const struct cofi_coverage_function *y)
{
    switch (table->sort) {
    case SORT_EXECUTED: return most_first(x->executed, y->executed);
    case SORT_ENTERED: return most_first(x->entered, y->entered);
    case SORT_SHARE: return most_first(millionths(x), millionths(y));
    case SORT_NAME: return by_name(table, x, y);
    case SORT_ADDRESS: return 0;
    }
    return 0;
}

/* Of two that have the same, the first in memory comes first. */
static int compare(const void *a, const void *b, void *opaque)
{
    const struct cofi_coverage_function *x = *(const struct cofi_coverage_function *const *)a,
                                        *y = *(const struct cofi_coverage_function *const *)b;
    const struct coverage_table *table = opaque;
    int order = by_key(table, x, y);
    if (!order)
        order = most_first(y->addr, x->addr);
    return order ? order : by_name(table, x, y);
}

static void print_function_json(const struct coverage_table *table, const struct cofi_coverage_module *module,
                                const struct cofi_coverage_function *f, struct writer *out)
{
    char title[COFI_NAME_BYTES], name[COFI_NAME_BYTES];
    coverage_module_title(module, title, sizeof title);
    coverage_function_name(table, module, f, name, sizeof name);
    write_string(out, "{\"v\":1,\"module\":", title);
    write_string(out, ",\"function\":", name);
    write_format(out,
                 ",\"address\":\"0x%" PRIx64 "\",\"size\":%" PRIu64 ",\"executed\":%" PRIu64 ",\"entered\":%" PRIu64
                 ",\"instructions\":%" PRIu32 ",\"bytes\":%" PRIu64 ",\"lines\":%" PRIu32 ",\"lines_ran\":%" PRIu32
                 ",\"outcomes\":%" PRIu32 ",\"outcomes_seen\":%" PRIu32,
                 f->addr, f->size, f->executed, f->entered, f->insns, f->bytes, f->lines, f->lines_ran, f->outcomes,
                 f->outcomes_seen);
    write_string(out, ",\"file\":", f->file);
    write_format(out, ",\"line\":%d}\n", f->line);
}

static void print_function(const struct coverage_table *table, const struct cofi_coverage_module *module,
                           const struct cofi_coverage_function *f, struct writer *out)
{
    char name[COFI_NAME_BYTES], bytes[PERCENT_BYTES], lines[48], outcomes[48];
    coverage_function_name(table, module, f, name, sizeof name);
    write_format(out, "%14" PRIu64 " %11" PRIu64 " %8s %11s %11s  ", f->executed, f->entered,
                 share(f->bytes, f->size, bytes), part_of(f->lines_ran, f->lines, lines),
                 part_of(f->outcomes_seen, f->outcomes, outcomes));
    write_name(out, name);
    if (f->file)
        write_format(out, "  %.1000s:%d", basename(f->file), f->line);
    write_text(out, "\n");
}

static void print_module_title(const struct cofi_coverage_module *module, struct writer *out)
{
    struct sums sums = sum_up(module);
    char title[COFI_NAME_BYTES], bytes[PERCENT_BYTES];
    coverage_module_title(module, title, sizeof title);
    write_text(out, "== ");
    write_name(out, title);
    write_format(out, ": %" PRIu64 " instructions", module->executed);
    if (sums.functions)
        write_format(out, ", %" PRIu64 " of %" PRIu64 " functions", sums.functions_ran, sums.functions);
    if (module->size)
        write_format(out, ", %s of their %" PRIu64 " bytes", share(sums.bytes, module->size, bytes), module->size);
    if (module->lines)
        write_format(out, ", %" PRIu64 " of %" PRIu64 " lines", module->lines_ran, module->lines);
    if (module->outcomes)
        write_format(out, ", %" PRIu64 " of %" PRIu64 " outcomes", module->outcomes_seen, module->outcomes);
    write_format(out, "\n%14s %11s %8s %11s %11s  %s\n", "executed", "entered", "bytes", "lines", "outcomes",
                 "function");
}

static int print_functions(const struct coverage_table *table, const struct cofi_coverage_module *module,
                           struct writer *out)
{
    const struct cofi_coverage_function **list = calloc(module->functions_n + 1, sizeof *list);
    size_t n = 0;
    if (!list)
        return COFI_ERR_NOMEM;
    for (size_t i = 0; i < module->functions_n; i++)
        if (module->functions[i].insns || table->all)
            list[n++] = &module->functions[i];
    qsort_r(list, n, sizeof *list, compare, (void *)(uintptr_t)table);
    if (!table->json)
        print_module_title(module, out);
    for (size_t i = 0; i < n; i++)
        (table->json ? print_function_json : print_function)(table, module, list[i], out);
    free(list);
    return 0;
}

/* ---- lines ---- */

static void print_line(const struct coverage_table *table, const struct cofi_coverage_source *source,
                       const struct cofi_coverage_line *line, struct writer *out)
{
    if (!table->json) {
        write_format(out, "%14" PRIu64 "  %.1000s:%" PRIu32 "\n", line->count, basename(source->file), line->line);
        return;
    }
    write_string(out, "{\"v\":1,\"file\":", source->file);
    write_format(out, ",\"line\":%" PRIu32 ",\"count\":%" PRIu64 "}\n", line->line, line->count);
}

bool coverage_print_source_title(const struct coverage_table *table, const struct cofi_coverage_source *source,
                                 struct writer *out)
{
    size_t ran = 0, seen = 0;
    for (size_t i = 0; i < source->lines_n; i++)
        ran += source->lines[i].count > 0;
    for (size_t i = 0; i < source->branches_n; i++)
        seen += (source->branches[i]->taken > 0) + (source->branches[i]->not_taken > 0);
    if (!ran && !table->all)
        return false;
    if (table->json)
        return true;
    write_text(out, "== ");
    write_text(out, source->file);
    write_format(out, ": %zu of %zu lines", ran, source->lines_n);
    if (source->branches_n)
        write_format(out, ", %zu of %zu outcomes", seen, 2 * source->branches_n);
    write_text(out, "\n");
    return true;
}

static void print_lines(const struct coverage_table *table, const struct cofi_coverage_source *source,
                        struct writer *out)
{
    if (!coverage_print_source_title(table, source, out))
        return;
    for (size_t i = 0; i < source->lines_n; i++)
        if (source->lines[i].count || table->all)
            print_line(table, source, &source->lines[i], out);
}

/* ---- places of a module ---- */

/* The function of an instruction or a branch, if it has a name. */
static const struct cofi_coverage_function *named_function(const struct cofi_coverage_module *module, int32_t function)
{
    const struct cofi_coverage_function *f = function < 0 ? NULL : &module->functions[function];
    return f && f->name ? f : NULL;
}

static void print_place(const struct coverage_table *table, uint64_t addr, const struct cofi_coverage_function *f,
                        struct writer *out)
{
    write_format(out, "  %12" PRIx64, addr);
    if (!f)
        return;
    write_text(out, "  ");
    write_text(out, cofi_demangle(table->names, f->name));
    if (addr != f->addr)
        write_format(out, "+0x%" PRIx64, addr - f->addr);
}

static void print_place_json(const struct coverage_table *table, uint64_t addr, const struct cofi_coverage_function *f,
                             struct writer *out)
{
    write_string(out, ",\"function\":", f ? cofi_demangle(table->names, f->name) : NULL);
    write_format(out, ",\"offset\":%" PRIu64, f ? addr - f->addr : 0);
}

static void print_line_of(const char *file, uint32_t line, struct writer *out)
{
    if (file)
        write_format(out, "  %.1000s:%" PRIu32, basename(file), line);
}

/* ---- branches ---- */

static void print_branch_json(const struct coverage_table *table, const struct cofi_coverage_module *module,
                              const struct cofi_coverage_branch *branch, const char *title, struct writer *out)
{
    write_string(out, "{\"v\":1,\"module\":", title);
    write_format(out, ",\"address\":\"0x%" PRIx64 "\",\"length\":%u,\"taken\":%" PRIu64 ",\"not_taken\":%" PRIu64,
                 branch->addr, branch->length, branch->taken, branch->not_taken);
    print_place_json(table, branch->addr, named_function(module, branch->function), out);
    write_string(out, ",\"file\":", branch->file);
    write_format(out, ",\"line\":%" PRIu32 "}\n", branch->line);
}

static void print_branch(const struct coverage_table *table, const struct cofi_coverage_module *module,
                         const struct cofi_coverage_branch *branch, const char *title, struct writer *out)
{
    if (table->json) {
        print_branch_json(table, module, branch, title, out);
        return;
    }
    write_format(out, "%14" PRIu64 " %14" PRIu64, branch->taken, branch->not_taken);
    print_place(table, branch->addr, named_function(module, branch->function), out);
    print_line_of(branch->file, branch->line, out);
    write_text(out, "\n");
}

static bool shows_branch(const struct coverage_table *table, const struct cofi_coverage_branch *branch)
{
    return (table->all || branch->taken || branch->not_taken) && (branch->file || !table->in_source);
}

static void print_branches(const struct coverage_table *table, const struct cofi_coverage_module *module,
                           struct writer *out)
{
    char title[COFI_NAME_BYTES];
    bool titled = table->json;
    coverage_module_title(module, title, sizeof title);
    for (size_t i = 0; i < module->branches_n; i++) {
        const struct cofi_coverage_branch *branch = &module->branches[i];
        if (!shows_branch(table, branch))
            continue;
        if (!titled) {
            write_text(out, "== ");
            write_name(out, title);
            write_format(out, "\n%14s %14s  %12s  %s\n", "taken", "not taken", "address", "branch");
        }
        titled = true;
        print_branch(table, module, branch, title, out);
    }
}

/* ---- targets of indirect branches ---- */

static const char *target_kind(const struct cofi_coverage_target *target)
{
    return target->cls == COFI_CLASS_CALL_IND ? "call" : "jump";
}

static void print_target_json(const struct coverage_table *table, const struct cofi_coverage_module *module,
                              const struct cofi_coverage_target *target, const char *title, struct writer *out)
{
    write_string(out, "{\"v\":1,\"module\":", title);
    write_format(out, ",\"address\":\"0x%" PRIx64 "\",\"length\":%u,\"kind\":\"%s\",\"count\":%" PRIu64, target->addr,
                 target->length, target_kind(target), target->count);
    print_place_json(table, target->addr, named_function(module, target->function), out);
    write_string(out, ",\"file\":", target->file);
    write_format(out, ",\"line\":%" PRIu32, target->line);
    write_string(out, ",\"to_module\":", target->to_path);
    write_format(out, ",\"to_address\":\"0x%" PRIx64 "\"", target->to_addr);
    write_string(out, ",\"to_function\":", target->to_name ? cofi_demangle(table->names, target->to_name) : NULL);
    write_format(out, ",\"to_offset\":%" PRIu64, target->to_offset);
    write_string(out, ",\"to_file\":", target->to_file);
    write_format(out, ",\"to_line\":%" PRIu32 "}\n", target->to_line);
}

/* The branch that the next n targets are of, all that there are. */
static void print_from(const struct coverage_table *table, const struct cofi_coverage_module *module,
                       const struct cofi_coverage_target *target, size_t n, uint64_t sum, struct writer *out)
{
    write_format(out, "%14" PRIu64 " %8s", sum, "");
    print_place(table, target->addr, named_function(module, target->function), out);
    print_line_of(target->file, target->line, out);
    write_format(out, "  %s, %zu target%s\n", target_kind(target), n, n == 1 ? "" : "s");
}

static void print_to(const struct coverage_table *table, const struct cofi_coverage_module *module,
                     const struct cofi_coverage_target *target, uint64_t sum, struct writer *out)
{
    char of_all[PERCENT_BYTES];
    write_format(out, "%14" PRIu64 " %8s  %12" PRIx64 "  -> ", target->count, share(target->count, sum, of_all),
                 target->to_addr);
    write_text(out, target->to_name ? cofi_demangle(table->names, target->to_name) : "(no symbol)");
    if (target->to_offset)
        write_format(out, "+0x%" PRIx64, target->to_offset);
    if (target->to_path != module->path) {
        write_text(out, "  ");
        write_text(out, basename(target->to_path));
    }
    print_line_of(target->to_file, target->to_line, out);
    write_text(out, "\n");
}

static bool shows_target(const struct coverage_table *table, const struct cofi_coverage_target *target)
{
    return target->file || !table->in_source;
}

/* One branch and its targets, n of them. */
static void print_targets_of(const struct coverage_table *table, const struct cofi_coverage_module *module,
                             const struct cofi_coverage_target *targets, size_t n, const char *title,
                             struct writer *out)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += targets[i].count;
    if (!table->json)
        print_from(table, module, targets, n, sum, out);
    for (size_t i = 0; i < n; i++)
        if (table->json)
            print_target_json(table, module, &targets[i], title, out);
        else
            print_to(table, module, &targets[i], sum, out);
}

static void print_targets(const struct coverage_table *table, const struct cofi_coverage_module *module,
                          struct writer *out)
{
    char title[COFI_NAME_BYTES];
    bool titled = table->json;
    coverage_module_title(module, title, sizeof title);
    for (size_t i = 0, n; i < module->targets_n; i += n) {
        const struct cofi_coverage_target *first = &module->targets[i];
        for (n = 1; i + n < module->targets_n && first[n].addr == first->addr && first[n].function == first->function &&
                    first[n].length == first->length; n++) {
        }
        if (!shows_target(table, first))
            continue;
        if (!titled) {
            write_text(out, "== ");
            write_name(out, title);
            write_format(out, "\n%14s %8s  %12s  %s\n", "count", "share", "address", "branch, and where it led");
        }
        titled = true;
        print_targets_of(table, module, first, n, title, out);
    }
}

/* ---- instructions ---- */

static void print_insn_json(const struct coverage_table *table, const struct cofi_coverage_insn *insn,
                            const struct cofi_coverage_function *f, const char *title, struct writer *out)
{
    write_string(out, "{\"v\":1,\"module\":", title);
    write_format(out, ",\"address\":\"0x%" PRIx64 "\",\"length\":%u,\"count\":%" PRIu64, insn->addr, insn->length,
                 insn->count);
    print_place_json(table, insn->addr, f, out);
    write_text(out, "}\n");
}

static void print_insn(const struct coverage_table *table, const struct cofi_coverage_insn *insn,
                       const struct cofi_coverage_function *f, struct writer *out)
{
    write_format(out, "%14" PRIu64, insn->count);
    print_place(table, insn->addr, f, out);
    write_text(out, "\n");
}

static void print_insns(const struct coverage_table *table, const struct cofi_coverage_module *module,
                        struct writer *out)
{
    char title[COFI_NAME_BYTES];
    coverage_module_title(module, title, sizeof title);
    if (!table->json) {
        write_text(out, "== ");
        write_name(out, title);
        write_text(out, "\n");
    }
    for (size_t i = 0; i < module->insns_n; i++) {
        const struct cofi_coverage_insn *insn = &module->insns[i];
        const struct cofi_coverage_function *f = named_function(module, insn->function);
        if (table->json)
            print_insn_json(table, insn, f, title, out);
        else
            print_insn(table, insn, f, out);
    }
}

static bool has_branches(const struct coverage_table *table, const struct cofi_coverage_module *module)
{
    for (size_t i = 0; i < module->branches_n; i++)
        if (shows_branch(table, &module->branches[i]))
            return true;
    return false;
}

static bool has_targets(const struct coverage_table *table, const struct cofi_coverage_module *module)
{
    for (size_t i = 0; i < module->targets_n; i++)
        if (shows_target(table, &module->targets[i]))
            return true;
    return false;
}

const char *coverage_lacks(const struct coverage_table *table, const struct cofi_coverage *coverage)
{
    size_t n;
    const struct cofi_coverage_module *modules = cofi_coverage_modules(coverage, &n);
    if (table->by != BY_BRANCH && table->by != BY_TARGET)
        return NULL;
    for (size_t i = 0; i < n; i++)
        if ((table->by == BY_BRANCH ? has_branches : has_targets)(table, &modules[i]))
            return NULL;
    return table->by == BY_BRANCH ? "conditional branch" : "indirect branch";
}

int coverage_print(const struct coverage_table *table, const struct cofi_coverage *coverage, struct writer *out)
{
    size_t modules_n, sources_n;
    const struct cofi_coverage_module *modules = cofi_coverage_modules(coverage, &modules_n);
    const struct cofi_coverage_source *sources = cofi_coverage_sources(coverage, &sources_n);
    int status = 0;
    if (table->by == BY_MODULE)
        print_modules(table, modules, modules_n, out);
    for (size_t i = 0; i < sources_n && table->by == BY_LINE; i++)
        print_lines(table, &sources[i], out);
    if (table->by == BY_SOURCE)
        coverage_print_source(table, coverage, out);
    for (size_t i = 0; i < modules_n && table->by == BY_BRANCH; i++)
        print_branches(table, &modules[i], out);
    for (size_t i = 0; i < modules_n && table->by == BY_TARGET; i++)
        print_targets(table, &modules[i], out);
    for (size_t i = 0; i < modules_n && table->by == BY_INSN; i++)
        print_insns(table, &modules[i], out);
    for (size_t i = 0; i < modules_n && table->by == BY_FUNCTION && status >= 0; i++)
        status = print_functions(table, &modules[i], out);
    return status;
}
