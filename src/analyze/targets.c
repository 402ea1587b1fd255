/* SPDX-License-Identifier: MIT
 * Where branches led, and how often. */
#include <stdlib.h>
#include <string.h>

#include <cofi/insn.h>

#include "analyze/coverage.h"

#include "base/array.h"
#include "base/error.h"

enum { RECENT_TARGETS = 4096 };

int cofi__target_init(struct cofi_coverage *coverage)
{
    coverage->recent = calloc(RECENT_TARGETS, sizeof *coverage->recent);
    if (!coverage->recent)
        return COFI_ERR_NOMEM;
    coverage->targets_n = 1;
    COFI_TRY(cofi__array_grow(&coverage->targets, &coverage->targets_room, 0, sizeof *coverage->targets));
    coverage->targets[0] = (struct target_count){0};
    return cofi__index_init(&coverage->by_target);
}

void cofi__target_free(struct cofi_coverage *coverage)
{
    free(coverage->recent);
    free(coverage->targets);
    cofi__index_free(&coverage->by_target);
}

/* ---- counting ---- */

static bool is_same(const struct target_count *a, const struct target_count *b)
{
    return a->addr == b->addr && a->place == b->place && a->module == b->module && a->name == b->name &&
           a->cls == b->cls;
}

/* Its row, new if need be; its name is kept already. 0: out of memory. */
static uint32_t put(struct cofi_coverage *coverage, const struct target_count *target)
{
    uint32_t hash = cofi__hash(target->addr, (uint64_t)target->module << 32 | target->place), at = hash, row;
    do
        row = cofi__index_next(&coverage->by_target, hash, &at);
    while (row && !is_same(&coverage->targets[row], target));
    if (row)
        return row;
    if (cofi__array_grow(&coverage->targets, &coverage->targets_room, coverage->targets_n, sizeof *target) < 0 ||
        cofi__index_add(&coverage->by_target, hash, (uint32_t)coverage->targets_n) < 0)
        return 0;
    coverage->targets[coverage->targets_n] = *target;
    coverage->targets[coverage->targets_n].count = 0;
    return (uint32_t)coverage->targets_n++;
}

/* The row of a target, as the view shows it now. */
static int resolve(struct cofi_coverage *coverage, const struct id_row *row, uint64_t to, struct recent_target *recent)
{
    uint64_t base;
    struct cofi_symbol symbol;
    int module = cofi__coverage_module_at(coverage, coverage->view, to, &base);
    COFI_TRY(module);
    cofi_view_symbol(coverage->view, to, false, &symbol);
    struct target_count target = {.addr = to - base, .offset = symbol.offset, .place = row->place,
                                  .module = (uint32_t)module, .cls = row->targets};
    if (symbol.name ? !(target.name = cofi__strings_keep(&coverage->strings, symbol.name))
                    : cofi_view_incomplete(coverage->view))
        return COFI_ERR_NOMEM;
    *recent = (struct recent_target){.to = to, .age = coverage->age, .place = row->place,
                                     .row = put(coverage, &target)};
    return recent->row ? 0 : COFI_ERR_NOMEM;
}

int cofi__target(struct cofi_coverage *coverage, const struct id_row *row, uint64_t to)
{
    struct recent_target *recent = &coverage->recent[cofi__hash(to, row->place) % RECENT_TARGETS];
    if (recent->to != to || recent->place != row->place || recent->age != coverage->age)
        COFI_TRY(resolve(coverage, row, to, recent));
    coverage->targets[recent->row].count++;
    return 0;
}

int cofi__target_add(struct cofi_coverage *to, const struct cofi_coverage *from, const uint32_t *places,
                     const int *modules)
{
    for (size_t i = 1; to->recent && i < from->targets_n; i++) {
        struct target_count target = from->targets[i];
        target.place = places[target.place];
        target.module = (uint32_t)modules[target.module];
        if (target.name && !(target.name = cofi__strings_keep(&to->strings, target.name)))
            return COFI_ERR_NOMEM;
        uint32_t row = put(to, &target);
        if (!row)
            return COFI_ERR_NOMEM;
        to->targets[row].count += target.count;
    }
    return 0;
}

/* ---- of a module ---- */

static int by_module(const void *a, const void *b, void *opaque)
{
    const struct target_count *x = a, *y = b;
    const struct place_count *places = opaque;
    uint32_t p = places[x->place].module, q = places[y->place].module;
    return (p > q) - (p < q);
}

void cofi__target_sort(struct cofi_coverage *coverage)
{
    if (coverage->targets_n > 1)
        qsort_r(coverage->targets + 1, coverage->targets_n - 1, sizeof *coverage->targets, by_module, coverage->places);
}

/* The first target of a module from this number on. */
static size_t first_of(const struct cofi_coverage *coverage, uint32_t module)
{
    size_t low = 1, high = coverage->targets_n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (coverage->places[coverage->targets[middle].place].module < module)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The line of an address; null: none is known. */
static const struct known_line *line_at(const struct covered_module *module, uint64_t addr)
{
    size_t n = cofi__array_upper_bound(module->lines, module->lines_n, sizeof *module->lines,
                                       offsetof(struct known_line, start), addr);
    return n && module->lines[n - 1].end > addr ? &module->lines[n - 1] : NULL;
}

static struct cofi_coverage_target describe(const struct cofi_coverage *coverage, const struct target_count *target)
{
    const struct place_count *place = &coverage->places[target->place];
    const struct covered_module *to = &coverage->modules[target->module];
    uint8_t length = coverage->lengths[place->lengths + place->n - 1];
    struct cofi_coverage_target made = {.addr = place->addr + place->size - length, .count = target->count,
                                        .function = (int32_t)place->function - 1, .length = length, .cls = target->cls,
                                        .to_path = to->pub.path, .to_pid = to->pub.pid, .to_addr = target->addr,
                                        .to_name = target->name, .to_offset = target->name ? target->offset : 0};
    const struct known_line *line = line_at(&coverage->modules[place->module], made.addr),
                            *to_line = line_at(to, target->addr);
    made.file = line ? line->file : NULL;
    made.line = line ? line->line : 0;
    made.to_file = to_line ? to_line->file : NULL;
    made.to_line = to_line ? to_line->line : 0;
    return made;
}

static int by_branch(const struct cofi_coverage_target *x, const struct cofi_coverage_target *y)
{
    if (x->addr != y->addr)
        return x->addr < y->addr ? -1 : 1;
    if (x->length != y->length || x->cls != y->cls)
        return COFI_CLASS_KINDS * (x->length - y->length) + x->cls - y->cls;
    return (x->function > y->function) - (x->function < y->function);
}

/* Paths and names are kept once. */
static int by_target(const void *a, const void *b)
{
    const struct cofi_coverage_target *x = a, *y = b;
    int branches = by_branch(x, y);
    if (branches)
        return branches;
    if (x->to_path != y->to_path)
        return strcmp(x->to_path, y->to_path);
    if (x->to_pid != y->to_pid)
        return x->to_pid < y->to_pid ? -1 : 1;
    if (x->to_addr != y->to_addr)
        return x->to_addr < y->to_addr ? -1 : 1;
    return x->to_name == y->to_name ? 0 : strcmp(x->to_name ? x->to_name : "", y->to_name ? y->to_name : "");
}

static int by_count(const void *a, const void *b)
{
    const struct cofi_coverage_target *x = a, *y = b;
    int branches = by_branch(x, y);
    if (branches || x->count == y->count)
        return branches ? branches : by_target(a, b);
    return x->count > y->count ? -1 : 1;
}

/* A branch may end several blocks. */
static size_t join(struct cofi_coverage_target *targets, size_t n)
{
    size_t kept = 0;
    for (size_t i = 0; i < n; i++) {
        if (kept && !by_target(&targets[kept - 1], &targets[i]))
            targets[kept - 1].count += targets[i].count;
        else
            targets[kept++] = targets[i];
    }
    return kept;
}

int cofi__targets_of(const struct cofi_coverage *coverage, uint32_t module, struct cofi_coverage_target **targets,
                     size_t *n)
{
    size_t from = coverage->recent ? first_of(coverage, module) : 0,
           rows = coverage->recent ? first_of(coverage, module + 1) - from : 0;
    *n = 0;
    *targets = calloc(rows + 1, sizeof **targets);
    if (!*targets)
        return COFI_ERR_NOMEM;
    for (size_t i = 0; i < rows; i++)
        (*targets)[i] = describe(coverage, &coverage->targets[from + i]);
    qsort(*targets, rows, sizeof **targets, by_target);
    *n = join(*targets, rows);
    qsort(*targets, *n, sizeof **targets, by_count);
    return 0;
}
